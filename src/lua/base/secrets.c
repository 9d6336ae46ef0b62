/* Finding secrets in texts: base/secrets.h for Lua. */
#include "lua/base/secrets.h"

#include "base/secrets.h"

/* A position of a string in Lua, counted from 1, as one in C; not behind the end. */
static size_t position_argument(lua_State *L, int argument, size_t length) {
  lua_Integer position = luaL_checkinteger(L, argument);
  luaL_argcheck(L, position >= 1, argument, "positions begin with 1");
  return (lua_Unsigned)position - 1 < length ? (size_t)position - 1 : length;
}

/*
** find(text, first, last, isWhole) -> begin, end: where the first secret begins between these two
** places, and where the text goes on behind it; begin alone where the text ends in what may become
** one; or nil. Upvalues: the words in C, and the strings.
*/
static int find_secret(lua_State *L) {
  const mp_secrets *secrets = lua_touserdata(L, lua_upvalueindex(1));
  moonpad_string text;
  text.data = luaL_checklstring(L, 1, &text.length);
  size_t first = position_argument(L, 2, text.length), last = position_argument(L, 3, text.length);
  if (last < text.length) last++;
  mp_secret_place place = mp_secrets_find(secrets, text, first, last, lua_toboolean(L, 4));
  if (!place.is_found) return 0;
  lua_pushinteger(L, (lua_Integer)place.begin + 1);
  if (place.is_cut) return 1;
  lua_pushinteger(L, (lua_Integer)place.end + 1);
  return 2;
}

/* core.secretFinder(words): a function that finds them */
static int new_finder(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  size_t count = (size_t)lua_rawlen(L, 1);
  mp_secrets *secrets = lua_newuserdatauv(L, mp_secrets_size(count), 0);
  secrets->count = count;
  lua_createtable(L, (int)count, 0); /* keeps the strings */
  for (size_t i = 0; i < count; i++) {
    if (lua_rawgeti(L, 1, (lua_Integer)i + 1) != LUA_TSTRING) return luaL_argerror(L, 1, "expected strings");
    moonpad_string *word = &secrets->words[i];
    word->data = lua_tolstring(L, -1, &word->length);
    luaL_argcheck(L, word->length > 0, 1, "a word is empty");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  mp_secrets_prepare(secrets);
  lua_pushcclosure(L, find_secret, 2);
  return 1;
}

void mp_secrets_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {{"secretFinder", new_finder}, {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
}
