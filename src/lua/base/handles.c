/* Counted boxes behind userdata, and errors about handles. */
#include "lua/base/handles.h"

#include "lua/base/errors.h"
#include "lua/codec/codec.h"

/* ---- Boxes ---- */

mp_session_box *mp_session_box_new(mp_lua *binding) {
  mp_session_box *box = mp_allocate_zeroed(binding->env, sizeof *box);
  if (box == NULL) return NULL;
  box->references = 1;
  box->env = mp_env_retain(binding->env);
  return box;
}

mp_session_box *mp_session_box_retain(mp_session_box *box) {
  if (box != NULL) box->references++;
  return box;
}

void mp_session_box_release(mp_session_box *box) {
  if (box == NULL || --box->references > 0) return;
  moonpad_session_free(box->session);
  mp_env *env = box->env;
  mp_release(env, box);
  mp_env_release(env);
}

mp_changes_box *mp_changes_box_new(mp_lua *binding, mp_session_box *session) {
  mp_changes_box *box = mp_allocate_zeroed(binding->env, sizeof *box);
  if (box == NULL) return NULL;
  box->references = 1;
  box->env = mp_env_retain(binding->env);
  box->session = mp_session_box_retain(session);
  return box;
}

mp_changes_box *mp_changes_box_retain(mp_changes_box *box) {
  if (box != NULL) box->references++;
  return box;
}

void mp_changes_box_release(mp_changes_box *box) {
  if (box == NULL || --box->references > 0) return;
  if (box->owned) moonpad_changes_free(box->changes);
  mp_changes_box_release(box->below);
  mp_session_box_release(box->session);
  mp_env *env = box->env;
  mp_release(env, box->reason);
  mp_release(env, box);
  mp_env_release(env);
}

int64_t mp_value_limit(const mp_changes_box *box) {
  return box->session == NULL ? MP_LIMIT_TEXT : mp_session_options(box->session->session)->max_value_bytes;
}

/* ---- Errors ---- */

_Noreturn void mp_raise_self(lua_State *L, int index, const char *where) {
  mp_lua *binding = mp_lua_of(L);
  const void *types[] = {binding->service_meta, binding->session_meta, binding->events_meta,
                         binding->state_meta,   binding->node_meta,    binding->pending_meta};
  bool ours = false;
  for (size_t i = 0; i < sizeof types / sizeof *types && !ours; i++) {
    ours = mp_test_userdata(L, index, types[i]) != NULL;
  }
  const char *colon = strchr(where, ':');
  if (colon == NULL) mp_raise_argument(L, "%s: got %s", where, mp_describe(L, index));
  int object = (int)(colon - where);
  if (ours && strncmp(mp_describe(L, index), "a state", 7) != 0) {
    mp_raise_argument(L, "%s: called on %s", where, mp_describe(L, index));
  }
  mp_raise_argument(L, "%.*s.%s: call it with a colon, %s(...)", object, where, colon + 1, where);
}

void mp_take_conflicts(mp_outcome *outcome, moonpad_session *session) {
  if (outcome->env != NULL) return;
  outcome->conflicts = mp_session_take_conflicts(session, &outcome->conflict_count);
  if (outcome->conflict_count > 0) outcome->env = mp_env_retain(mp_session_env(session));
}

static void add_conflict_keys(lua_State *L, const mp_outcome *outcome) {
  lua_createtable(L, (int)outcome->conflict_count, 0);
  for (size_t i = 0; i < outcome->conflict_count; i++) {
    moonpad_string key = mp_key_text(outcome->conflicts[i]);
    lua_pushlstring(L, key.data, key.length);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "keys");
}

void mp_push_append_error(lua_State *L, const mp_outcome *outcome, const moonpad_error *error, int event_index) {
  int event = event_index != 0 ? lua_absindex(L, event_index) : 0;
  mp_push_error(L, moonpad_status_name(error->code), error->message);
  if (error->code != MOONPAD_CONFLICT) return;
  add_conflict_keys(L, outcome);
  if (event == 0) return;
  lua_pushvalue(L, event);
  lua_setfield(L, -2, "event");
}

_Noreturn void mp_raise_append(lua_State *L, mp_outcome *outcome, moonpad_session *session, const moonpad_error *error,
                               int event_index) {
  if (error->code != MOONPAD_CONFLICT) mp_raise(L, error);
  mp_take_conflicts(outcome, session);
  mp_push_append_error(L, outcome, error, event_index);
  while (true) lua_error(L);
}
