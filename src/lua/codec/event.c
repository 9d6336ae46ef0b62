/*
** Events in and out. In Lua a removed key is moonpad.removed; in JSON it is null plus the key
** in `removedStateKeys`.
*/
#include "lua/codec/event.h"

#include "core/event_read.h"
#include "core/json_trusted.h"
#include "lua/base/errors.h"
#include "service/binding/session.h"

void mp_release_outcome(mp_outcome *outcome) {
  moonpad_event_free(outcome->event);
  mp_env *env = outcome->env;
  if (env == NULL) return;
  for (size_t i = 0; i < outcome->conflict_count; i++) mp_key_release(env, outcome->conflicts[i]);
  mp_release(env, outcome->conflicts);
  mp_env_release(env);
}

static void release_outcome(void *payload) {
  mp_release_outcome(payload);
}

/*
** A userdata with a finalizer for every append would cost more than all the rest that the collector
** has to do for it.
*/
mp_outcome *mp_push_outcome(lua_State *L, mp_lua *binding) {
  if (binding->cached_outcome == NULL) return mp_handle_push(L, sizeof(mp_outcome), release_outcome);
  mp_outcome *outcome = binding->cached_outcome;
  mp_push_slot(L, MP_LUA_SLOT_CACHED_OUTCOME);
  lua_pushnil(L);
  lua_setiuservalue(L, lua_upvalueindex(1), MP_LUA_SLOT_CACHED_OUTCOME);
  binding->cached_outcome = NULL;
  return outcome;
}

void mp_cache_outcome(lua_State *L, mp_lua *binding, int index, mp_outcome *outcome) {
  moonpad_event_free(outcome->event);
  outcome->event = NULL;
  lua_pushvalue(L, index);
  lua_setiuservalue(L, lua_upvalueindex(1), MP_LUA_SLOT_CACHED_OUTCOME);
  binding->cached_outcome = outcome;
}

/* ---- Out ---- */

static int raw_field(lua_State *L, int table, const char *name) {
  lua_pushstring(L, name);
  return lua_rawget(L, table);
}

/* event.actions.stateDelta[key] = removed, for the keys of removedStateKeys, which is left out. */
static void mark_removed(lua_State *L, mp_lua *binding, int event) {
  int top = lua_gettop(L);
  if (raw_field(L, event, "removedStateKeys") == LUA_TTABLE && raw_field(L, event, "actions") == LUA_TTABLE &&
      raw_field(L, top + 2, "stateDelta") == LUA_TTABLE) {
    lua_Integer count = (lua_Integer)lua_rawlen(L, top + 1);
    for (lua_Integer i = 1; i <= count; i++) {
      lua_rawgeti(L, top + 1, i);
      lua_pushlightuserdata(L, binding->removed);
      lua_rawset(L, top + 3);
    }
  }
  lua_settop(L, top);
  lua_pushliteral(L, "removedStateKeys");
  lua_pushnil(L);
  lua_rawset(L, event);
}

void mp_push_event(lua_State *L, mp_lua *binding, moonpad_string json, int64_t revision) {
  luaL_checkstack(L, 12, NULL);
  if (mp_decode_trusted_event(L, binding, json, revision)) mark_removed(L, binding, lua_gettop(L));
  mp_mark_inline_data(L);
  mp_push_slot(L, MP_LUA_SLOT_EVENT_META);
  lua_setmetatable(L, -2);
}

int mp_push_stored(lua_State *L, mp_lua *binding, int index, mp_outcome *outcome) {
  const moonpad_event *event = outcome->event;
  if (event == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, MP_STORED_WITHOUT_MEMORY);
  mp_push_event(L, binding, moonpad_event_json(event), moonpad_event_revision(event));
  mp_cache_outcome(L, binding, index, outcome);
  return 1;
}

/* ---- In ---- */

static void check_event_table(lua_State *L, int index, const char *where) {
  if (!lua_istable(L, index)) {
    mp_raise_argument(L, "%s: event: expects a table, got %s", where, mp_describe(L, index));
  }
}

moonpad_string mp_encode_event(lua_State *L, mp_lua *binding, int index, const char *where, int64_t limit) {
  check_event_table(L, index, where);
  moonpad_error error;
  mp_buffer_clear(&binding->text);
  moonpad_type type = MOONPAD_OBJECT;
  mp_value_path path = mp_value_path_named("event");
  mp_check(L, mp_encode(L, binding, index, path, MP_ENCODE_EVENT, limit, &binding->text, &type, &error), &error);
  if (type != MOONPAD_OBJECT) mp_raise_argument(L, "%s: event: expects a table of named fields, got a list", where);
  return mp_buffer_text(&binding->text);
}

bool mp_is_partial_event(lua_State *L, int index) {
  if (!lua_istable(L, index)) return false;
  index = lua_absindex(L, index);
  bool partial = raw_field(L, index, "partial") == LUA_TBOOLEAN && lua_toboolean(L, -1);
  lua_pop(L, 1);
  return partial;
}

static void check_tables(lua_State *L, moonpad_string json) {
  if (json.length / 2 <= MP_COPY_TABLES || mp_json_trusted_shape(json).tables <= MP_COPY_TABLES) return;
  mp_raise_argument(L, "event: more than %d tables, each counted wherever it stands", MP_COPY_TABLES);
}

/* More than that is taken as it is: the binding would not keep a buffer of that size. */
#define COPIED ((size_t)1024 * 1024)

/* Moves what is in binding->text, which others use, to `text`, which is empty. */
static void keep_text(mp_lua *binding, moonpad_string json, mp_buffer *text) {
  if (json.length <= COPIED) {
    mp_buffer_add_string(text, json);
    return;
  }
  mp_buffer empty = *text;
  *text = binding->text;
  binding->text = empty;
}

/* core.newEvent(table [, session]): bounded by the limits of that session's service */
static int new_event(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  lua_settop(L, 2);
  const mp_session_object *session = mp_test_session(L, binding, 2);
  int64_t limit = session != NULL ? mp_session_options(session->session)->max_event_bytes : MP_LIMIT_TEXT;
  check_event_table(L, 1, "moonpad.event");
  mp_refuse_module(L, 1, "event");
  mp_buffer *text = mp_handle_push_buffer(L, binding);
  moonpad_string json = mp_encode_event(L, binding, 1, "moonpad.event", limit);
  check_tables(L, json);
  mp_event_draft draft;
  moonpad_error error;
  mp_check(L, mp_event_draft_read(binding->env, json, true, &draft, &error), &error);
  mp_event_draft_free(&draft);
  keep_text(binding, json, text);
  if (text->failed) mp_check(L, mp_no_memory(&error), &error);
  mp_push_event(L, binding, mp_buffer_text(text), 0);
  mp_handle_release(text);
  return 1;
}

void mp_event_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {{"newEvent", new_event}, {"isBase64", mp_is_base64}, {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
  lua_getiuservalue(L, binding_index, MP_LUA_SLOT_EVENT_METHODS);
  lua_setfield(L, -2, "eventMethods");
  lua_getiuservalue(L, binding_index, MP_LUA_SLOT_INLINE_META);
  lua_setfield(L, -2, "base64Mark");
}
