/* service: state as it was, forks, going back (contract 2). */
#include "lua/service/calls.h"

#include "lua/async/drain.h"
#include "lua/async/stepped_append.h"
#include "service/binding/append.h"
#include "service/binding/history.h"
#include "service/binding/session.h"

/* What the calls of this file need and give. */
typedef struct history_call {
  mp_store_call call;      /* the first member */
  moonpad_session *origin; /* a reference of its own: the session object may be used meanwhile */
  int64_t revision;
  moonpad_string id;
  moonpad_buffer state;
  moonpad_session *forked;
} history_call;

static void release_history(mp_store_call *call) {
  history_call *history = (history_call *)call;
  moonpad_session_free(history->origin);
  moonpad_buffer_free(&history->state);
  moonpad_session_free(history->forked);
}

static history_call *push_history_call(lua_State *L, const mp_store_call_type *type, const mp_session_object *object) {
  history_call *made = (history_call *)mp_store_call_push(L, type, moonpad_session_service(object->session));
  made->origin = mp_session_reference(object->session);
  if (made->origin == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  return made;
}

/* ---- State as it was ---- */

static moonpad_status ask_state(mp_store_call *call, moonpad_error *error) {
  history_call *history = (history_call *)call;
  return moonpad_state_at(history->origin, history->revision, &history->state, error);
}

static int finish_state(lua_State *L, mp_store_call *call) {
  const moonpad_buffer *json = &((history_call *)call)->state;
  mp_check(L, call->status, &call->error);
  mp_decode_trusted(L, mp_lua_of(L), (moonpad_string){json->data, json->length});
  return 1;
}

static int drained_state_at(lua_State *L) {
  static const mp_store_call_type type = {sizeof(history_call), ask_state, finish_state, release_history, false};
  mp_session_object *object = mp_check_session(L, mp_lua_of(L), 2, "service:stateAt");
  history_call *call = push_history_call(L, &type, object);
  call->revision = lua_tointeger(L, 3);
  return mp_ask_service(L, &call->call);
}

/* service:stateAt(session, revision) */
static int state_at(lua_State *L) {
  static const char where[] = "service:stateAt";
  mp_session_object *object = mp_check_session_call(L, where, 3);
  mp_argument_integer(L, 3, where, "revision");
  return mp_when_drained(L, object, drained_state_at);
}

/* ---- Forks ---- */

/*
** The stack of a fork. Its object is made first: what has been stored must not fail for lack
** of memory.
*/
enum { FORK_AT = 4, FORK_ID, FORKED };

static moonpad_status ask_fork(mp_store_call *call, moonpad_error *error) {
  history_call *history = (history_call *)call;
  return moonpad_fork(history->origin, history->revision, history->id, &history->forked, error);
}

static int finish_fork(lua_State *L, mp_store_call *call) {
  history_call *history = (history_call *)call;
  mp_check(L, call->status, &call->error);
  lua_pushvalue(L, FORKED);
  mp_lua_session *session = lua_touserdata(L, FORKED);
  session->object->session = history->forked;
  history->forked = NULL;
  return mp_finish_session(L, mp_lua_of(L), session);
}

static int drained_fork(lua_State *L) {
  static const mp_store_call_type type = {sizeof(history_call), ask_fork, finish_fork, release_history, true};
  mp_lua *binding = mp_lua_of(L);
  mp_session_object *object = mp_check_session(L, binding, 2, "service:fork");
  mp_push_session(L, binding);
  history_call *call = push_history_call(L, &type, object);
  call->revision = lua_tointeger(L, FORK_AT);
  call->id.data = lua_tolstring(L, FORK_ID, &call->id.length);
  mp_store_call_keep(&call->call, &call->id);
  return mp_ask_service(L, &call->call);
}

/* service:fork(session, { at = revision, sessionId? }) */
static int fork_session(lua_State *L) {
  static const char where[] = "service:fork";
  static const char *const known[] = {"at", "sessionId", NULL};
  mp_session_object *object = mp_check_session_call(L, where, 3);
  lua_settop(L, 3);
  mp_options_table options = mp_check_options(L, 3, where, known);
  int64_t revision;
  if (!mp_field_integer(options, "at", &revision)) mp_raise_argument(L, "%s: at is missing (a revision)", where);
  mp_field_optional_string(options, "sessionId");
  return mp_when_drained(L, object, drained_fork);
}

/* ---- Going back ---- */

/* The stack of a rewind in a stepped run. */
enum { REWIND_INVOCATION = 4, REWIND_REVISION, REWIND_ATTEMPTS };

typedef struct rewind_call {
  mp_store_call call;      /* the first member */
  moonpad_session *origin; /* as of a history_call */
  mp_rewind_target target;
  mp_buffer event;
  int64_t expected_revision;
} rewind_call;

static void release_rewind(mp_store_call *call) {
  rewind_call *rewind = (rewind_call *)call;
  moonpad_session_free(rewind->origin);
  mp_buffer_free(&rewind->event);
}

static moonpad_status ask_rewind(mp_store_call *call, moonpad_error *error) {
  rewind_call *rewind = (rewind_call *)call;
  return mp_rewind_read(rewind->origin, &rewind->target, &rewind->event, &rewind->expected_revision, error);
}

static int rewind_in_step(lua_State *L);

static int append_rewind(lua_State *L, mp_store_call *call) {
  static const char where[] = "service:rewind";
  const rewind_call *rewind = (rewind_call *)call;
  mp_lua *binding = mp_lua_of(L);
  mp_check(L, call->status, &call->error);
  mp_check_service(L, binding, where);
  mp_stepped_append *stepped = mp_stepped_append_push(L, binding, mp_check_session(L, binding, 2, where));
  if (lua_tointeger(L, REWIND_ATTEMPTS) < MP_REWIND_ATTEMPTS) stepped->on_conflict = rewind_in_step;
  mp_append_request request = {
      .event = mp_buffer_text(&rewind->event), .is_trusted = true, .expected_revision = rewind->expected_revision};
  return mp_stepped_append_make(L, stepped, lua_touserdata(L, 1), &request);
}

/*
** Read on a worker, and appended as other events of the run are; once more where somebody has come
** in between.
*/
static int rewind_in_step(lua_State *L) {
  static const mp_store_call_type type = {sizeof(rewind_call), ask_rewind, append_rewind, release_rewind, false};
  mp_session_object *object = mp_check_session(L, mp_lua_of(L), 2, "service:rewind");
  luaL_checkstack(L, 10, NULL);
  lua_pushinteger(L, lua_tointeger(L, REWIND_ATTEMPTS) + 1);
  lua_replace(L, REWIND_ATTEMPTS);
  rewind_call *rewind = (rewind_call *)mp_store_call_push(L, &type, moonpad_session_service(object->session));
  mp_buffer_init(&rewind->event, rewind->call.env);
  rewind->origin = mp_session_reference(object->session);
  if (rewind->origin == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  rewind->target.invocation.data = lua_tolstring(L, REWIND_INVOCATION, &rewind->target.invocation.length);
  rewind->target.revision = lua_tointeger(L, REWIND_REVISION);
  mp_store_call_keep(&rewind->call, &rewind->target.invocation);
  return mp_ask_service(L, &rewind->call);
}

/* service:rewind(session, { invocationId } or { revision }) */
static int rewind_session(lua_State *L) {
  static const char where[] = "service:rewind";
  static const char *const known[] = {"invocationId", "revision", NULL};
  mp_session_object *object = mp_check_session_call(L, where, 3);
  lua_settop(L, 3);
  mp_options_table options = mp_check_options(L, 3, where, known);
  moonpad_string invocation = mp_field_optional_string(options, "invocationId");
  int64_t revision = 0;
  bool to_revision = mp_field_integer(options, "revision", &revision);
  if ((invocation.data != NULL) == to_revision) {
    mp_raise_argument(L, "%s: expects either invocationId or revision, got %s", where, to_revision ? "both" : "none");
  }
  if (mp_appends_in_step(L, moonpad_session_service(object->session))) {
    lua_settop(L, REWIND_REVISION);
    lua_pushinteger(L, 0);
    return mp_when_drained(L, object, rewind_in_step);
  }
  mp_lua *binding = mp_lua_of(L);
  mp_outcome *outcome = mp_push_outcome(L, binding);
  int outcome_index = lua_gettop(L);
  moonpad_error error;
  moonpad_status status = to_revision ? moonpad_rewind_to_revision(object->session, revision, &outcome->event, &error)
                                      : moonpad_rewind(object->session, invocation, &outcome->event, &error);
  if (status != MOONPAD_OK) mp_raise_append(L, outcome, object->session, &error, 0);
  return mp_push_stored(L, binding, outcome_index, outcome);
}

/* ---- Where an invocation begins ---- */

static moonpad_status ask_invocation(mp_store_call *call, moonpad_error *error) {
  history_call *history = (history_call *)call;
  return mp_find_invocation(history->origin, history->id, &history->revision, error);
}

static int finish_invocation(lua_State *L, mp_store_call *call) {
  if (call->status == MOONPAD_NOT_FOUND) {
    lua_pushnil(L);
  } else {
    mp_check(L, call->status, &call->error);
    lua_pushinteger(L, ((history_call *)call)->revision);
  }
  return 1;
}

/* core.findInvocation(session, invocationId) -> revision of its first stored event, or nil */
static int find_invocation(lua_State *L) {
  static const mp_store_call_type type = {sizeof(history_call), ask_invocation, finish_invocation, release_history,
                                          false};
  static const char where[] = "core.findInvocation";
  history_call *call = push_history_call(L, &type, mp_check_session(L, mp_lua_of(L), 1, where));
  call->id = mp_argument_string(L, 2, where, "invocationId");
  mp_store_call_keep(&call->call, &call->id);
  return mp_ask_service(L, &call->call);
}

void mp_service_history_module(lua_State *L, int binding_index) {
  mp_push_function(L, binding_index, find_invocation);
  lua_setfield(L, -2, "findInvocation");
}

const luaL_Reg mp_service_history_calls[] = {
    {"stateAt", state_at}, {"fork", fork_session}, {"rewind", rewind_session}, {NULL, NULL}};
