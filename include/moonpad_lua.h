/*
** moonpad in a host's own Lua 5.4: opening the module, sharing an open service, running agents.
**
** Each function has the indicator of Lua's manual: [-0, +1, e] pops nothing, pushes one value and
** may raise a Lua error (a moonpad error object, or memory), so call it in protected mode; with `-`
** as the last it raises nothing. One service may be shared by any number of Lua states on any
** threads.
**
** "Errors:" lists what a function can answer, or raise; "Threads: the Lua state's" means the one
** thread that uses the Lua state, in any coroutine of it.
*/
#ifndef MOONPAD_LUA_H
#define MOONPAD_LUA_H

#include <lua.h>

#include "moonpad.h"

/* With those of another Lua the module would compile, with warnings, and fail when it is loaded. */
#if !defined(LUA_VERSION_NUM) || LUA_VERSION_NUM != 504
#error "moonpad needs the headers of Lua 5.4: this lua.h is of another version"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
** Pushes the C module `moonpad.core`, for luaL_requiref or package.preload. May be called again in
** the same Lua state. [-0, +1, e]
** Errors: raises Lua's error of memory.
** Threads: the Lua state's.
*/
MOONPAD_API int luaopen_moonpad_core(lua_State *L);

/*
** Pushes the whole module `moonpad` with its Lua files, which are compiled in: no file and no
** package.path is needed. After it, `require "moonpad"` and its submodules work in this Lua state.
** Needs `package` to be open (luaL_openlibs). [-0, +1, e]
** Errors: raises an error that names a standard library which is missing, Lua's error of memory.
** Threads: the Lua state's.
*/
MOONPAD_API int luaopen_moonpad(lua_State *L);

/*
** Pushes the service object of an open service: the same one each time, as long as the script holds
** it. It holds a reference of its own. What the script appends asynchronously completes in a queue
** of this Lua state (`service:poll`), nothing of it in moonpad_poll. Its `close` closes the service
** for everybody: a host that shares it with untrusted scripts keeps the object to itself. NULL
** pushes nil. [-0, +1, e]
** Errors: raises Lua's error of memory.
** Threads: the Lua state's.
*/
MOONPAD_API void moonpad_lua_push_service(lua_State *L, moonpad_service *service);

/*
** The service of the service object at `index`, borrowed from it; NULL when there is something
** else, or one that was closed. [-0, +0, -]
** Errors: none.
** Threads: the Lua state's.
*/
MOONPAD_API moonpad_service *moonpad_lua_to_service(lua_State *L, int index);

/*
** The file descriptor of the open service object at `index`, for the event loop of a host
** (contract 2): readable as long as `service:poll`, or a run of that service whose last
** step was MOONPAD_LUA_RUN_WAITING, has something to do in this Lua state. What waits for HTTP, or
** for what a tool or model yields for by itself, is not told: step such runs at the loop's own
** pace. moonpad_fd is that of moonpad_poll, which knows nothing of what a Lua state does. It is
** moonpad's: wait for it, neither read nor close it. *fd is -1 on failure. [-0, +0, -]
** Errors: invalid_argument (no open service is there), closed, storage (the system has no
** descriptor), no_memory.
** Threads: the Lua state's.
*/
MOONPAD_API moonpad_status moonpad_lua_fd(lua_State *L, int index, int *fd, moonpad_error *error);

/* ---- Running an agent from C (contract 6) ---- */

/*
** A run of a Lua agent that a C host steps, as `runner:start` and `invocation:step` do it in
** Lua. None of these functions raises a Lua error or leaves anything on the stack: whatever happens
** in a script comes back as a status, and `error` (may be NULL) says more. `L` may be any coroutine
** of the Lua state that the run was started in; a run is used by one thread at a time, as its Lua
** state is.
*/
typedef struct moonpad_lua_run moonpad_lua_run;

/* Later versions append fields: see "Option structs" in moonpad.h. */
typedef struct moonpad_lua_run_options {
  size_t size;
  moonpad_string user_id;
  moonpad_string session_id;  /* empty: a new session */
  moonpad_string new_message; /* the user's text; empty: none */
  /* instead of new_message: a Content as a JSON object, {"parts":[...]} */
  moonpad_string new_content;
  moonpad_string state_delta; /* a JSON object that goes with the message; empty: none */
  /*
  ** How much history the run gets to see: the last n events; 0: none; INT64_MAX: all of them;
  ** MOONPAD_DEFAULT, or MOONPAD_ALL_EVENTS: as the service has it.
  */
  int64_t num_recent_events;
} moonpad_lua_run_options;

/*
** Sets the size and the defaults. First of all.
** Errors: none.
** Threads: any.
*/
static inline void moonpad_lua_run_options_init(moonpad_lua_run_options *options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
  options->num_recent_events = MOONPAD_DEFAULT;
}

/*
** Starts a run of the runner (what `moonpad.runner` returned) at `index`; nothing of it has run
** when this returns. `options` must not be NULL. `run` is the caller's until moonpad_lua_run_free,
** which comes before lua_close. [-0, +0, -]
** Errors: invalid_argument (no runner is there, an option, JSON that is none, what runner:start
** refuses), unsupported (an option of a later version), the code of any other moonpad error that
** runner:start raises, no_memory.
** Threads: the Lua state's.
*/
MOONPAD_API moonpad_status moonpad_lua_run_start(lua_State *L, int index, const moonpad_lua_run_options *options,
                                                 moonpad_lua_run **run, moonpad_error *error);

typedef enum moonpad_lua_progress {
  MOONPAD_LUA_RUN_EVENT = 0, /* there is an event */
  /* for a tool, a model, a store or a run ahead on that session: step again in a while */
  MOONPAD_LUA_RUN_WAITING,
  MOONPAD_LUA_RUN_DONE /* it is over */
} moonpad_lua_progress;

/*
** Lets the run go on, without waiting for anything, stores included: what it asks them is done
** by a thread of its session service (with MOONPAD_NO_THREADS by the step itself). An event is
** stored when it comes. `event` (may be NULL) gets the event as JSON, its revision included; it is
** borrowed until the next call for this run. After an error the run is over. [-0, +0, -]
** Errors: what ended the run, by the code of its moonpad error; tool (any other error of a script),
** no_memory.
** Threads: the Lua state's.
*/
MOONPAD_API moonpad_status moonpad_lua_run_step(lua_State *L, moonpad_lua_run *run, moonpad_lua_progress *progress,
                                                moonpad_string *event, moonpad_error *error);

/*
** Ends the run without waiting: what waits in it gets the error `cancelled`, what is stored
** stays, the rest is rolled back. An append under way is finished, and the next run on that session
** begins after it. A step after it is DONE. Idempotent. [-0, +0, -]
** Errors: no_memory. What scripts raise as they are ended is dropped.
** Threads: the Lua state's.
*/
MOONPAD_API moonpad_status moonpad_lua_run_cancel(lua_State *L, moonpad_lua_run *run, moonpad_error *error);

/*
** Cancels the run when it is not over, and forgets it. NULL is ignored. [-0, +0, -]
** Errors: none.
** Threads: the Lua state's.
*/
MOONPAD_API void moonpad_lua_run_free(lua_State *L, moonpad_lua_run *run);

#ifdef __cplusplus
}
#endif

#endif
