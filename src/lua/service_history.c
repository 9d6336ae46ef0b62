/* service: history, backup, expiry. */
#include "lua/service.h"

static void release_owned(void *payload) {
  moonpad_buffer_free(payload);
}

/* service:stateAt(session, revision) */
static int state_at(lua_State *L) {
  static const char where[] = "service:stateAt";
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_session_box *box = mp_check_session_of(L, binding, service, 2, where);
  mp_refuse_more(L, 3, where);
  int64_t revision = mp_argument_integer(L, 3, where, "revision");
  moonpad_buffer *json = mp_box_push(L, sizeof *json, release_owned);
  moonpad_error error;
  mp_check(L, moonpad_state_at(box->session, revision, json, &error), &error);
  moonpad_string text = {json->data, json->length};
  mp_decode_own(L, binding, text);
  mp_box_release(json);
  return 1;
}

/* service:fork(session, { at = revision, sessionId? }) */
static int fork_session(lua_State *L) {
  static const char where[] = "service:fork";
  static const char *const known[] = {"at", "sessionId", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_session_box *box = mp_check_session_of(L, binding, service, 2, where);
  mp_refuse_more(L, 3, where);
  mp_options_table options = mp_check_options(L, 3, where, known);
  int64_t revision;
  if (!mp_field_integer(options, "at", &revision)) mp_raise_argument(L, "%s: at is missing (a revision)", where);
  moonpad_string id = mp_field_optional_string(options, "sessionId");
  mp_lua_session *forked = mp_push_session(L, binding);
  moonpad_error error;
  mp_check(L, moonpad_fork(box->session, revision, id, &forked->box->session, &error), &error);
  return mp_finish_session(L, binding, forked);
}

/* service:rewind(session, { invocationId } or { revision }) */
static int rewind_session(lua_State *L) {
  static const char where[] = "service:rewind";
  static const char *const known[] = {"invocationId", "revision", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_session_box *box = mp_check_session_of(L, binding, service, 2, where);
  mp_refuse_more(L, 3, where);
  mp_options_table options = mp_check_options(L, 3, where, known);
  moonpad_string invocation = mp_field_optional_string(options, "invocationId");
  int64_t revision = 0;
  bool to_revision = mp_field_integer(options, "revision", &revision);
  if ((invocation.data != NULL) == to_revision) {
    mp_raise_argument(L, "%s: expects either invocationId or revision, got %s", where, to_revision ? "both" : "none");
  }
  mp_outcome *outcome = mp_box_push_outcome(L, binding);
  int box_index = lua_gettop(L);
  moonpad_error error;
  moonpad_status status = to_revision ? moonpad_rewind_to_revision(box->session, revision, &outcome->event, &error)
                                      : moonpad_rewind(box->session, invocation, &outcome->event, &error);
  if (status != MOONPAD_OK) mp_raise_append(L, outcome, box->session, &error, 0);
  return mp_push_stored(L, binding, box_index, outcome, NULL);
}

/* service:backup(path) */
static int backup(lua_State *L) {
  static const char where[] = "service:backup";
  moonpad_service *service = mp_check_call(L, mp_lua_of(L), where, 2);
  moonpad_string path = mp_argument_string(L, 2, where, "path");
  moonpad_error error;
  mp_check(L, moonpad_backup(service, path, &error), &error);
  lua_pushboolean(L, true);
  return 1;
}

/* service:sweep(): no option of this version gives anything a TTL (moonpad.open refuses them), so there is nothing to expire. */
static int sweep(lua_State *L) {
  mp_check_call(L, mp_lua_of(L), "service:sweep", 1);
  lua_pushinteger(L, 0);
  return 1;
}

const luaL_Reg mp_service_history_calls[] = {{"stateAt", state_at}, {"fork", fork_session}, {"rewind", rewind_session},
                                             {"backup", backup},    {"sweep", sweep},       {NULL, NULL}};
