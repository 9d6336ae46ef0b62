/* Reading arguments. */
#include "lua/base/arguments.h"

#include <math.h>

mp_options_table mp_check_options(lua_State *L, int index, const char *where, const char *const *known) {
  luaL_checkstack(L, 20, NULL);
  if (!lua_istable(L, index)) {
    mp_raise_argument(L, "%s: expects a table of named fields, got %s", where, mp_describe(L, index));
  }
  mp_check_fields(L, index, where, known);
  return (mp_options_table){L, lua_absindex(L, index), where};
}

static int push_field(mp_options_table options, const char *field) {
  return lua_getfield(options.L, options.index, field);
}

static _Noreturn void refuse_field(mp_options_table options, const char *field, const char *wanted) {
  mp_raise_argument(options.L, "%s: %s: expects %s, got %s", options.where, field, wanted, mp_describe(options.L, -1));
}

moonpad_string mp_field_optional_string(mp_options_table options, const char *field) {
  moonpad_string text = {NULL, 0};
  int type = push_field(options, field);
  if (type == LUA_TNIL) return text;
  if (type != LUA_TSTRING) refuse_field(options, field, "a string");
  text.data = lua_tolstring(options.L, -1, &text.length);
  return text;
}

moonpad_string mp_field_string(mp_options_table options, const char *field) {
  moonpad_string text = mp_field_optional_string(options, field);
  if (text.data == NULL) mp_raise_argument(options.L, "%s: %s is missing", options.where, field);
  return text;
}

bool mp_field_integer(mp_options_table options, const char *field, int64_t *integer) {
  int type = push_field(options, field);
  if (type == LUA_TNIL) return false;
  int exact = 0;
  if (type == LUA_TNUMBER) *integer = lua_tointegerx(options.L, -1, &exact);
  if (!exact) refuse_field(options, field, "an integer");
  return true;
}

bool mp_field_number(mp_options_table options, const char *field, double *number) {
  int type = push_field(options, field);
  if (type == LUA_TNIL) return false;
  if (type != LUA_TNUMBER) refuse_field(options, field, "a number");
  *number = lua_tonumber(options.L, -1);
  if (isnan(*number)) mp_raise_argument(options.L, "%s: %s: NaN is no number", options.where, field);
  return true;
}

int mp_field_choice(mp_options_table options, const char *field, const char *const *names, int otherwise) {
  moonpad_string given = mp_field_optional_string(options, field);
  if (given.data == NULL) return otherwise;
  for (int i = 0; names[i] != NULL; i++) {
    if (strlen(names[i]) == given.length && memcmp(names[i], given.data, given.length) == 0) return i;
  }
  luaL_Buffer list;
  luaL_buffinit(options.L, &list);
  for (int i = 0; names[i] != NULL; i++) {
    if (i > 0) luaL_addstring(&list, " or ");
    luaL_addchar(&list, '"');
    luaL_addstring(&list, names[i]);
    luaL_addchar(&list, '"');
  }
  luaL_pushresult(&list);
  mp_quoted quoted = mp_quote(given);
  mp_raise_argument(options.L, "%s: %s: expects %s, got %s", options.where, field, lua_tostring(options.L, -1),
                    quoted.text);
}

int mp_field_index(mp_options_table options, const char *field) {
  if (push_field(options, field) != LUA_TNIL) return lua_gettop(options.L);
  lua_pop(options.L, 1);
  return 0;
}

/* Counted as the caller counts them: what stands before a colon is no argument. */
void mp_refuse_more(lua_State *L, int last, const char *where) {
  bool is_method = strchr(where, ':') != NULL;
  for (int index = lua_gettop(L); index > last; index--) {
    if (lua_isnil(L, index)) continue;
    mp_raise_argument(L, "%s: takes nothing as argument %d, got %s", where, index - is_method, mp_describe(L, index));
  }
}

moonpad_string mp_argument_string(lua_State *L, int index, const char *where, const char *name) {
  if (lua_type(L, index) != LUA_TSTRING) {
    mp_raise_argument(L, "%s: %s: expects a string, got %s", where, name, mp_describe(L, index));
  }
  moonpad_string text;
  text.data = lua_tolstring(L, index, &text.length);
  return text;
}

int64_t mp_argument_integer(lua_State *L, int index, const char *where, const char *name) {
  int exact = 0;
  int64_t integer = lua_type(L, index) == LUA_TNUMBER ? lua_tointegerx(L, index, &exact) : 0;
  if (!exact) mp_raise_argument(L, "%s: %s: expects an integer, got %s", where, name, mp_describe(L, index));
  return integer;
}
