/* The userdata types: made, found, checked; the counted C objects behind them; their errors. */
#include "lua/base/handles.h"

#include "lua/base/arguments.h"
#include "lua/base/clock.h"
#include "service/binding/service.h"
#include "service/binding/session.h"

/* ---- Counted C objects ---- */

/* One reference for the caller; NULL when out of memory. */
static mp_session_object *session_object_new(mp_lua *binding) {
  mp_session_object *object = mp_allocate_zeroed(binding->env, sizeof *object);
  if (object == NULL) return NULL;
  object->references = 1;
  object->env = mp_env_retain(binding->env);
  return object;
}

mp_session_object *mp_session_object_retain(mp_session_object *object) {
  if (object != NULL) object->references++;
  return object;
}

void mp_session_object_release(mp_session_object *object) {
  if (object == NULL || --object->references > 0) return;
  moonpad_session_free(object->session);
  mp_env *env = object->env;
  mp_release(env, object);
  mp_env_release(env);
}

mp_change_set *mp_change_set_new(mp_lua *binding, mp_session_object *session) {
  mp_change_set *set = mp_allocate_zeroed(binding->env, sizeof *set);
  if (set == NULL) return NULL;
  set->references = 1;
  set->env = mp_env_retain(binding->env);
  set->session = mp_session_object_retain(session);
  return set;
}

mp_change_set *mp_change_set_retain(mp_change_set *set) {
  if (set != NULL) set->references++;
  return set;
}

void mp_change_set_release(mp_change_set *set) {
  if (set == NULL || --set->references > 0) return;
  if (set->owned) moonpad_changes_free(set->changes);
  mp_change_set_release(set->below);
  mp_session_object_release(set->session);
  mp_env *env = set->env;
  mp_release(env, set->reason);
  mp_release(env, set);
  mp_env_release(env);
}

/* ---- Services ---- */

mp_lua_service *mp_push_service(lua_State *L, mp_lua *binding) {
  (void)binding;
  mp_lua_service *service = lua_newuserdatauv(L, sizeof *service, MP_SERVICE_USER_VALUES);
  service->service = NULL;
  service->queue = NULL;
  service->closed = false;
  mp_push_slot(L, MP_LUA_SLOT_SERVICE_META);
  lua_setmetatable(L, -2);
  return service;
}

void mp_register_service(lua_State *L, const mp_lua_service *handle) {
  mp_push_slot(L, MP_LUA_SLOT_SERVICES);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, handle->service);
  lua_pop(L, 1);
}

bool mp_push_registered_service(lua_State *L, moonpad_service *service) {
  mp_push_slot(L, MP_LUA_SLOT_SERVICES);
  lua_rawgetp(L, -1, service);
  lua_remove(L, -2);
  const mp_lua_service *handle = lua_touserdata(L, -1);
  /* With another service, or none, it was finalized by hand. */
  if (handle != NULL && handle->service == service) return true;
  lua_pop(L, 1);
  return false;
}

void mp_push_shared_service(lua_State *L, mp_lua *binding, moonpad_service *service) {
  if (mp_push_registered_service(L, service)) return;
  mp_lua_service *handle = mp_push_service(L, binding);
  /* A finalizer may have asked for it meanwhile. */
  if (mp_push_registered_service(L, service)) return;
  handle->service = moonpad_service_retain(service);
  mp_register_service(L, handle);
}

static moonpad_service *check_open(lua_State *L, mp_lua *binding, const char *where) {
  mp_lua_service *service = mp_test_userdata(L, 1, binding->service_meta);
  if (service == NULL) mp_raise_self(L, 1, where);
  if (service->closed || service->service == NULL) {
    mp_raise_status(L, MOONPAD_CLOSED, "%s: the service is closed", where);
  }
  return service->service;
}

moonpad_service *mp_check_service(lua_State *L, mp_lua *binding, const char *where) {
  moonpad_service *service = check_open(L, binding, where);
  return mp_ask_clock(L, mp_service_env(service)) ? check_open(L, binding, where) : service;
}

moonpad_service *mp_check_call(lua_State *L, mp_lua *binding, const char *where, int last) {
  moonpad_service *service = mp_check_service(L, binding, where);
  mp_refuse_more(L, last, where);
  return service;
}

moonpad_status mp_need_queue(mp_lua_service *handle, moonpad_error *error) {
  if (handle->queue != NULL) return MOONPAD_OK;
  return moonpad_queue_new(handle->service, &handle->queue, error);
}

/* ---- Sessions ---- */

mp_lua_session *mp_push_session(lua_State *L, mp_lua *binding) {
  mp_lua_session *session = lua_newuserdatauv(L, sizeof *session, MP_SESSION_USER_VALUES);
  session->object = NULL;
  mp_push_slot(L, MP_LUA_SLOT_SESSION_META);
  lua_setmetatable(L, -2);
  session->object = session_object_new(binding);
  if (session->object == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  return session;
}

int mp_finish_session(lua_State *L, mp_lua *binding, const mp_lua_session *session) {
  mp_report_memory(L, binding, mp_session_memory(session->object->session));
  return 1;
}

mp_session_object *mp_test_session(lua_State *L, mp_lua *binding, int index) {
  mp_lua_session *session = mp_test_userdata(L, index, binding->session_meta);
  if (session == NULL) return NULL;
  if (session->object == NULL || session->object->session == NULL) {
    mp_raise_status(L, MOONPAD_CLOSED, "the session object is closed");
  }
  return session->object;
}

mp_session_object *mp_check_session(lua_State *L, mp_lua *binding, int index, const char *where) {
  mp_session_object *object = mp_test_session(L, binding, index);
  if (object == NULL) mp_raise_argument(L, "%s: expects a session object, got %s", where, mp_describe(L, index));
  return object;
}

mp_session_object *mp_check_session_of(lua_State *L, mp_lua *binding, moonpad_service *service, int index,
                                       const char *where) {
  mp_session_object *object = mp_check_session(L, binding, index, where);
  if (moonpad_session_service(object->session) != service) {
    mp_raise_argument(L, "%s: the session object was got from another service", where);
  }
  return object;
}

/* ---- States ---- */

const char mp_state_type = 0;

mp_lua_state *mp_push_state(lua_State *L, mp_lua *binding) {
  (void)binding;
  mp_lua_state *state = lua_newuserdatauv(L, sizeof *state, 0);
  memset(state, 0, sizeof *state);
  state->type = &mp_state_type;
  mp_push_slot(L, MP_LUA_SLOT_STATE_META);
  lua_setmetatable(L, -2);
  return state;
}

mp_lua_state *mp_check_state(lua_State *L, mp_lua *binding, int index, const char *where) {
  mp_lua_state *state = mp_test_userdata(L, index, binding->state_meta);
  if (state == NULL) mp_raise_self(L, index, where);
  if (state->set == NULL) mp_raise_status(L, MOONPAD_CLOSED, "%s: the state object is closed", where);
  return state;
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
