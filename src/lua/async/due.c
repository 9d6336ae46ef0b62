/*
** What tells an event loop that a step has something to do where no task does: a run that has
** given way in the middle of its own work, or whose turn has come. Each run has one such object, so
** that to tell allocates nothing in Lua and no finalizer runs.
*/
#include "lua/async/due.h"

#include "service/binding/tasks.h"

typedef struct mp_due {
  moonpad_queue *queue; /* counted; NULL: it is not due */
  bool is_finalized;
} mp_due;

static void withdraw(mp_due *due) {
  moonpad_queue *queue = due->queue;
  if (queue == NULL) return;
  due->queue = NULL;
  mp_queue_remove_due(queue);
  mp_queue_release(queue);
}

static void tell(mp_due *due, mp_lua_service *handle) {
  if (due->queue != NULL || due->is_finalized || handle->service == NULL) return;
  if (mp_need_queue(handle, NULL) != MOONPAD_OK) return;
  due->queue = mp_queue_retain(handle->queue);
  mp_queue_add_due(due->queue);
}

/* When the Lua state is being closed, runs may still be ended by finalizers that come later. */
static int due_gc(lua_State *L) {
  mp_due *due = lua_touserdata(L, 1);
  due->is_finalized = true;
  withdraw(due);
  return 0;
}

/* core.newDue() */
static int new_due(lua_State *L) {
  mp_due *due = lua_newuserdatauv(L, sizeof *due, 0);
  *due = (mp_due){0};
  mp_push_slot(L, MP_LUA_SLOT_DUE_META);
  lua_setmetatable(L, -2);
  return 1;
}

/* core.setDue(due, service | nil) */
static int set_due(lua_State *L) {
  const mp_lua *binding = lua_touserdata(L, lua_upvalueindex(1));
  mp_due *due = mp_test_userdata(L, 1, binding->due_meta);
  mp_lua_service *handle = mp_test_userdata(L, 2, binding->service_meta);
  luaL_argexpected(L, due != NULL, 1, "moonpad.due");
  if (handle != NULL) {
    tell(due, handle);
  } else {
    withdraw(due);
  }
  return 0;
}

void mp_due_setup(lua_State *L, int binding_index) {
  (void)binding_index;
  lua_pushcfunction(L, due_gc);
  lua_setfield(L, -2, "__gc");
}

void mp_due_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {{"newDue", new_due}, {"setDue", set_due}, {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
}
