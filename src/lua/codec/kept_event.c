/*
** What runs keep of a stored event (lua/moonpad/flow/session_history.lua): who said what, which
** answers may come later, when, and what it has to say about history. The rest (ids, state, other
** metadata) is passed over, which is most of many events.
*/
#include "core/json_trusted.h"
#include "lua/codec/event.h"

static bool is_name(moonpad_string key, const char *name) {
  return key.length == strlen(name) && memcmp(key.data, name, key.length) == 0;
}

static bool is_one_of(moonpad_string key, const char *const *names) {
  while (*names != NULL && !is_name(key, *names)) names++;
  return *names != NULL;
}

/* Sets a field of the table below the top. Returns whether there is a null in it. */
static bool set_field(lua_State *L, mp_lua *binding, moonpad_string key, moonpad_string value) {
  lua_pushlstring(L, key.data, key.length);
  bool has_null = mp_decode_trusted(L, binding, value);
  lua_rawset(L, -3);
  return has_null;
}

/* Sets an object, with those of its members that have a name of the list; none: nothing is set. */
static bool set_members(lua_State *L, mp_lua *binding, moonpad_string key, moonpad_string object,
                        const char *const *names) {
  if (object.data[0] != '{') return false;
  bool has_null = false, is_empty = true;
  mp_members members = mp_members_of(object);
  moonpad_string name, value;
  while (mp_members_next(&members, &name, &value)) {
    if (!is_one_of(name, names)) continue;
    if (is_empty) {
      lua_pushlstring(L, key.data, key.length);
      lua_createtable(L, 0, 2);
    }
    is_empty = false;
    has_null |= set_field(L, binding, name, value);
  }
  if (!is_empty) lua_rawset(L, -3);
  return has_null;
}

bool mp_push_kept_event(lua_State *L, mp_lua *binding, moonpad_string json, int64_t revision) {
  static const char *const whole[] = {"author", "branch", "longRunningToolIds", "timestamp", NULL};
  static const char *const content[] = {"role", "parts", NULL};
  static const char *const actions[] = {"rewindBeforeInvocationId", "rewindToRevision", "transferToAgent", "compaction",
                                        NULL};
  static const char *const metadata[] = {"compaction", NULL};
  luaL_checkstack(L, 12, NULL);
  lua_createtable(L, 0, 4);
  lua_pushliteral(L, "revision");
  lua_pushinteger(L, revision);
  lua_rawset(L, -3);
  bool has_null = false;
  mp_members members = mp_members_of(json);
  moonpad_string key, value;
  while (mp_members_next(&members, &key, &value)) {
    if (is_name(key, "content")) {
      has_null |= set_members(L, binding, key, value, content);
    } else if (is_name(key, "actions")) {
      has_null |= set_members(L, binding, key, value, actions);
    } else if (is_name(key, "customMetadata")) {
      has_null |= set_members(L, binding, key, value, metadata);
    } else if (is_one_of(key, whole)) {
      has_null |= set_field(L, binding, key, value);
    }
  }
  mp_mark_inline_data(L);
  return has_null;
}
