/* Calls that ask a store: made at once, or on a worker while the coroutine yields. */
#include "lua/async/store_call.h"

#include "lua/base/clock.h"
#include "lua/base/errors.h"

/* Their addresses are core.ASKS_STORE and core.CANCEL. */
static const char asks_store = 0;
static const char cancel = 0;

/* ---- The call and its userdata ---- */

typedef struct call_handle {
  mp_store_call *call; /* NULL: not made yet, or given back */
  int top;             /* of the stack, when it was made */
} call_handle;

/*
** Most calls are made and done at once: one is kept with its userdata, and room for the
** larger ones.
*/
#define CACHED_CALL_BYTES ((size_t)2048)

static void empty(mp_store_call *call) {
  static const mp_store_call_type none = {.size = sizeof *call};
  if (call->type->release != NULL) call->type->release(call);
  mp_session_object_release(call->session);
  moonpad_service_release(call->service);
  mp_release(call->env, call->copies);
  call->type = &none;
  call->session = NULL;
  call->service = NULL;
  call->copies = NULL;
}

static void release(mp_store_call *call) {
  if (--call->references > 0) return;
  mp_env *env = call->env;
  empty(call);
  mp_release(env, call);
  mp_env_release(env);
}

/* Nobody waits for it any more. */
static void let_go(call_handle *handle) {
  mp_store_call *call = handle->call;
  if (call == NULL) return;
  handle->call = NULL;
  if (call->is_under_way) mp_task_abandon(&call->task);
  release(call);
}

/*
** __gc, __close. The cached one is collected when the Lua state is being closed: finalizers of
** others come later, may ask a store, and what they make is never finalized.
*/
static int call_end(lua_State *L) {
  call_handle *handle = lua_touserdata(L, 1);
  mp_lua *binding = mp_lua_find_binding(L);
  if (binding != NULL && handle->call != NULL && binding->cached_call == handle->call) {
    binding->cached_call = NULL;
    binding->keeps_no_call = true;
  }
  let_go(handle);
  return 0;
}

static call_handle *push_handle(lua_State *L) {
  call_handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  handle->call = NULL;
  mp_push_slot_anywhere(L, MP_LUA_SLOT_CALL_META);
  lua_setmetatable(L, -2);
  return handle;
}

/* Reuses the memory of a call that has ended, and pushes its userdata. NULL: there is none. */
static mp_store_call *take_cached(lua_State *L, mp_lua *binding, const mp_store_call_type *type) {
  mp_store_call *call = binding->cached_call;
  if (call == NULL || type->size > CACHED_CALL_BYTES) return NULL;
  binding->cached_call = NULL;
  mp_lua_push_found(L);
  lua_getiuservalue(L, -1, MP_LUA_SLOT_CACHED_CALL);
  lua_pushnil(L);
  lua_setiuservalue(L, -3, MP_LUA_SLOT_CACHED_CALL);
  lua_remove(L, -2);
  return call;
}

mp_store_call *mp_store_call_push(lua_State *L, const mp_store_call_type *type, moonpad_service *service) {
  luaL_checkstack(L, 4, NULL);
  mp_lua *binding = mp_lua_find_binding(L);
  mp_store_call *call = take_cached(L, binding, type);
  if (call == NULL) {
    call_handle *handle = push_handle(L);
    size_t room = type->size > CACHED_CALL_BYTES ? type->size : CACHED_CALL_BYTES;
    if (binding->env != NULL) handle->call = mp_allocate(binding->env, room);
    if (handle->call == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
    call = handle->call;
    mp_env_retain(binding->env);
  }
  memset(call, 0, offsetof(mp_store_call, error));
  memset((char *)call + sizeof *call, 0, type->size - sizeof *call);
  call->type = type;
  call->env = binding->env;
  call->service = moonpad_service_retain(service);
  call->references = 1;
  call->index = lua_gettop(L);
  return call;
}

/*
** The call has ended. Keeps its memory and its userdata for the next call, unless Lua still has to
** close the userdata.
*/
static void recycle(lua_State *L, mp_store_call *call) {
  /* The results are on the stack. */
  luaL_checkstack(L, 2, NULL);
  /* It is there: the module is open. */
  mp_lua_push_found(L);
  mp_lua *binding = lua_touserdata(L, -1);
  bool is_kept = !call->is_marked && !binding->keeps_no_call && binding->cached_call == NULL;
  if (is_kept && call->type->size <= CACHED_CALL_BYTES) {
    empty(call);
    binding->cached_call = call;
    lua_pushvalue(L, call->index);
    lua_setiuservalue(L, -2, MP_LUA_SLOT_CACHED_CALL);
  } else {
    let_go(lua_touserdata(L, call->index));
  }
  lua_pop(L, 1);
}

/* ---- On a worker ---- */

static void run(mp_task *task) {
  mp_store_call *call = (mp_store_call *)task;
  call->status = call->type->ask(call, &call->error);
}

static void drop(mp_task *task) {
  mp_store_call *call = (mp_store_call *)task;
  call->is_under_way = false;
  call->status = mp_fail(&call->error, MOONPAD_CLOSED, "its service has been let go of before the call was done");
  release(call);
}

/* What the stack keeps is not there any more when its coroutine has been closed. */
static bool copy_strings(mp_store_call *call) {
  size_t length = 1;
  for (size_t i = 0; i < call->string_count; i++) length += call->strings[i]->length;
  char *at = mp_allocate(call->env, length);
  if (at == NULL) return false;
  call->copies = at;
  for (size_t i = 0; i < call->string_count; i++) {
    moonpad_string *string = call->strings[i];
    if (string->data == NULL) continue;
    memcpy(at, string->data, string->length);
    string->data = at;
    at += string->length;
  }
  call->string_count = 0;
  return true;
}

/* ---- Yielding ---- */

static mp_lua_service *stepper_of(lua_State *L) {
  mp_lua_service *stepper = mp_lua_find_binding(L)->stepper;
  if (stepper == NULL || stepper->service == NULL || !lua_isyieldable(L)) return NULL;
  mp_push_slot_anywhere(L, MP_LUA_SLOT_THREADS);
  lua_pushthread(L);
  bool is_driven = lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 2);
  return is_driven ? stepper : NULL;
}

bool mp_may_yield_to_step(lua_State *L) {
  return stepper_of(L) != NULL;
}

/* False: it is to be made at once. */
static bool submit(lua_State *L, mp_store_call *call) {
  mp_lua_service *stepper = stepper_of(L);
  if (stepper == NULL || mp_need_queue(stepper, NULL) != MOONPAD_OK) return false;
  if (call->string_count > 0 && !copy_strings(call)) return false;
  mp_queue_drop_abandoned(stepper->queue);
  call->task = (mp_task){
      .run = run, .drop = drop, .queue = stepper->queue, .taker = MP_TAKEN_BY_STEP, .writes = call->type->writes};
  call->is_under_way = mp_submit(stepper->service, &call->task, NULL) == MOONPAD_OK;
  if (call->is_under_way) call->references++;
  return call->is_under_way;
}

int mp_yield_to_step(lua_State *L, lua_KContext context, lua_KFunction next) {
  lua_pushlightuserdata(L, (void *)&asks_store);
  return lua_yieldk(L, 1, context, next);
}

bool mp_is_cancelled(lua_State *L, int top) {
  bool is_cancelled = lua_gettop(L) > top && lua_touserdata(L, top + 1) == &cancel;
  lua_settop(L, top);
  return is_cancelled;
}

_Noreturn void mp_raise_cancelled(lua_State *L) {
  mp_raise_status(L, MOONPAD_CANCELLED, "the run has been cancelled");
}

_Noreturn void mp_raise_finalized(lua_State *L) {
  mp_raise_status(L, MOONPAD_CLOSED, "what the call waits for is closed");
}

static int go_on(lua_State *L, int status, lua_KContext context);

static bool is_done(mp_store_call *call) {
  if (!call->is_under_way) return true;
  if (!mp_task_take(&call->task)) return false;
  call->is_under_way = false;
  call->references--;
  return true;
}

static int make(lua_State *L, mp_store_call *call, bool in_memory) {
  for (;;) {
    if (!in_memory && submit(L, call)) return mp_yield_to_step(L, call->index, go_on);
    call->status = call->type->ask(call, &call->error);
    int count = call->type->finish(L, call);
    if (count == MP_ASK_AGAIN) continue;
    recycle(L, call);
    return count;
  }
}

static int go_on(lua_State *L, int status, lua_KContext context) {
  call_handle *handle = lua_touserdata(L, (int)context);
  (void)status;
  if (mp_is_cancelled(L, handle->top)) {
    let_go(handle);
    mp_raise_cancelled(L);
  }
  mp_store_call *call = handle->call;
  if (call == NULL) mp_raise_finalized(L);
  if (!is_done(call)) return mp_yield_to_step(L, context, go_on);
  int count = call->type->finish(L, call);
  if (count == MP_ASK_AGAIN) return make(L, call, false);
  recycle(L, call);
  return count;
}

int mp_store_call_make(lua_State *L, mp_store_call *call, bool in_memory) {
  ((call_handle *)lua_touserdata(L, call->index))->top = lua_gettop(L);
  /*
  ** If the coroutine is closed before the call has ended, Lua closes the userdata, which releases
  ** the call at once. From here on nothing may be popped down to the userdata: in Lua 5.4.4,
  ** lua_settop fails when closing moves the stack.
  */
  call->is_marked = !in_memory && stepper_of(L) != NULL;
  if (call->is_marked) lua_toclose(L, call->index);
  return make(L, call, in_memory);
}

/* ---- For the scheduler ---- */

/* core.stepWith(service | nil) -> previous */
static int step_with(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  lua_settop(L, 1);
  binding->stepper = mp_test_userdata(L, 1, binding->service_meta);
  mp_push_slot(L, MP_LUA_SLOT_STEPPER);
  /* It is kept alive as long as it is the stepper. */
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, lua_upvalueindex(1), MP_LUA_SLOT_STEPPER);
  return 1;
}

void mp_store_call_setup(lua_State *L, int binding_index) {
  (void)binding_index;
  mp_set_finalizer(L, call_end);
}

void mp_store_call_module(lua_State *L, int binding_index) {
  static const mp_store_calls calls = {sizeof calls, mp_store_call_push, mp_store_call_make, mp_ask_clock,
                                       mp_keep_clock};
  lua_getiuservalue(L, binding_index, MP_LUA_SLOT_THREADS);
  lua_setfield(L, -2, "threads");
  lua_pushlightuserdata(L, (void *)&asks_store);
  lua_setfield(L, -2, "ASKS_STORE");
  lua_pushlightuserdata(L, (void *)&cancel);
  lua_setfield(L, -2, "CANCEL");
  lua_pushlightuserdata(L, (void *)&calls);
  lua_setfield(L, -2, "storeCalls");
  mp_push_function(L, binding_index, step_with);
  lua_setfield(L, -2, "stepWith");
}
