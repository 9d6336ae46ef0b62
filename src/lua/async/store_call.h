/*
** Belongs here: how Lua waits without holding its thread: calls that ask a store, appends under
** way, runs that are due.
** Does not belong here: which call of a service asks what (lua/service).
** Arrows: to codec and base; stepped_append -> append -> append_wait; all but due -> store_call.
**
** This header: calls that ask a store. Where a run is stepped nobody may hold its thread: such a
** call is made on a worker of the executor, and the coroutine yields core.ASKS_STORE until it is
** done: the completion queue's file descriptor tells the loop, and the next step resumes it
** (runs.advance in lua/moonpad/runtime/run.lua). Anywhere else, where Lua cannot yield, and where
** the store answers from memory, it is made at once.
*/
#ifndef MP_LUA_ASYNC_STORE_CALL_H
#define MP_LUA_ASYNC_STORE_CALL_H

#include <assert.h>

#include "lua/base/handles.h"
#include "service/binding/service.h"
#include "service/binding/tasks.h"

typedef struct mp_store_call mp_store_call;

/* What `finish` answers to ask once more. */
#define MP_ASK_AGAIN (-1)

typedef struct mp_store_call_type {
  size_t size; /* of what begins with an mp_store_call */
  /*
  ** Asks the store: on any thread, without Lua. Reads its arguments from the call, and writes its
  ** results into the call.
  */
  moonpad_status (*ask)(mp_store_call *call, moonpad_error *error);
  /*
  ** In Lua again, with the stack as it was when the call was made: pushes the results and tells
  ** how many, or raises. What `ask` gave is in `status` and `error`.
  */
  int (*finish)(lua_State *L, mp_store_call *call);
  /* Releases what the call owns besides the members of mp_store_call. NULL: nothing. Raises -. */
  void (*release)(mp_store_call *call);
  bool writes; /* as of mp_task */
} mp_store_call_type;

#define MP_KEPT_STRINGS 8

/* Begins what the functions of its type know of a call; all behind it is zero at first. */
struct mp_store_call {
  mp_task task; /* the first member */
  const mp_store_call_type *type;
  mp_env *env;
  moonpad_service *service;   /* that is asked, counted; may be NULL */
  mp_session_object *session; /* counted; may be NULL */
  unsigned references;        /* of its userdata, and of the executor while it is under way */
  bool is_under_way;
  bool is_marked; /* Lua closes its userdata */
  int index;      /* of its userdata */
  moonpad_string *strings[MP_KEPT_STRINGS];
  size_t string_count;
  char *copies; /* of what they were */
  moonpad_status status;
  moonpad_error error;
};

/*
** Pushes the userdata of a call that is to be made, which frees it when it is collected.
** `service` may be NULL. Raises m.
*/
mp_store_call *mp_store_call_push(lua_State *L, const mp_store_call_type *type, moonpad_service *service);

/*
** A member of the call that points into Lua: it is copied where the call may outlive what keeps it.
*/
static inline void mp_store_call_keep(mp_store_call *call, moonpad_string *string) {
  assert(call->string_count < MP_KEPT_STRINGS);
  call->strings[call->string_count++] = string;
}

/*
** The C function's last act: `return mp_store_call_make(...)`. `in_memory`: as of mp_store.
** Raises e.
*/
int mp_store_call_make(lua_State *L, mp_store_call *call, bool in_memory);
/* The same for a call that asks its service. */
static inline int mp_ask_service(lua_State *L, mp_store_call *call) {
  return mp_store_call_make(L, call, mp_service_is_in_memory(call->service));
}

/* May a call that is made now yield until it is done? Pushes nothing. Raises -. */
bool mp_may_yield_to_step(lua_State *L);

/*
** For what waits otherwise: yields until the run is stepped again, and then goes on with `next`.
** Raises e.
*/
int mp_yield_to_step(lua_State *L, lua_KContext context, lua_KFunction next);
/*
** The first act of `next`: leaves the stack as it was, whose top is given. True: it is to give
** up. It lets go at once of what it waits for, which would keep file descriptors readable until the
** coroutine is closed, and raises.
*/
bool mp_is_cancelled(lua_State *L, int top);
_Noreturn void mp_raise_cancelled(lua_State *L);
/*
** When the Lua state is being closed, a finalizer may resume what waits for something that has
** been finalized.
*/
_Noreturn void mp_raise_finalized(lua_State *L);

/*
** For other modules: what the config of a service says that such a module opens; a userdata that
** core.checkStore gives.
*/
typedef struct mp_store_config {
  moonpad_options options; /* durability, busy_timeout_ms and the clock */
  double time_to_live;     /* in seconds; 0: for ever */
} mp_store_config;

/* For other modules: light userdata, core.storeCalls. */
typedef struct mp_store_calls {
  size_t size; /* of this table: they were built together, or not */
  mp_store_call *(*push)(lua_State *L, const mp_store_call_type *type, moonpad_service *service);
  int (*make)(lua_State *L, mp_store_call *call, bool in_memory);
  bool (*ask_clock)(lua_State *L, const mp_env *env); /* mp_ask_clock */
  void (*keep_clock)(mp_env *env);                    /* mp_keep_clock */
} mp_store_calls;

/* The metatable of the userdata, and what core.* the scheduler needs. Raise m. */
void mp_store_call_setup(lua_State *L, int binding_index);
void mp_store_call_module(lua_State *L, int binding_index);

#endif
