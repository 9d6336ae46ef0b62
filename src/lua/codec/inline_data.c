/*
** The mark of files in events: `inlineData` whose data is base64 there. Who saves such a part as an
** artifact, which holds bytes, need not say which of the two it is.
*/
#include "lua/codec/event.h"

/* Replaces the table at the top by one of its fields. False: that is no table. */
static bool enter(lua_State *L, const char *name) {
  lua_pushstring(L, name);
  bool is_table = lua_rawget(L, -2) == LUA_TTABLE;
  lua_remove(L, -2);
  return is_table;
}

/* The same, but leaves the table below it. */
static bool look(lua_State *L, const char *name) {
  lua_pushstring(L, name);
  return lua_rawget(L, -2) == LUA_TTABLE;
}

/* Of the parts in the list at the top. Files of tools are parts within a part. */
static void mark_parts(lua_State *L, bool with_responses) {
  int list = lua_gettop(L);
  for (lua_Integer i = 1; lua_rawgeti(L, list, i) == LUA_TTABLE; i++) {
    if (look(L, "inlineData")) {
      mp_push_slot(L, MP_LUA_SLOT_INLINE_META);
      lua_setmetatable(L, -2);
    }
    lua_settop(L, list + 1);
    if (with_responses && look(L, "functionResponse") && enter(L, "parts")) mark_parts(L, false);
    lua_settop(L, list);
  }
  lua_settop(L, list);
}

void mp_mark_inline_data(lua_State *L) {
  int top = lua_gettop(L);
  luaL_checkstack(L, 12, NULL);
  if (look(L, "content") && enter(L, "parts")) mark_parts(L, true);
  lua_settop(L, top);
}
