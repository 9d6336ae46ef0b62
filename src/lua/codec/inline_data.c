/*
** The mark of files in events: `inlineData` whose data is base64 there. Who saves such a part as an
** artifact, which holds bytes, need not say which of the two it is.
*/
#include "lua/codec/event.h"

static bool is_letter(unsigned char byte) {
  return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '+' ||
         byte == '/';
}

int mp_is_base64(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  bool is_whole = length % 4 == 0;
  for (int i = 0; i < 2 && length > 0 && text[length - 1] == '='; i++) length--;
  bool letters[256];
  for (int byte = 0; byte < 256; byte++) letters[byte] = is_letter((unsigned char)byte);
  bool are_letters = is_whole;
  for (size_t i = 0; i < length && are_letters; i++) are_letters = letters[(unsigned char)text[i]];
  lua_pushboolean(L, are_letters);
  return 1;
}

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
