/* Error objects (contract 2.3): tables { code, message, keys?, event?, where? }. */
#ifndef MP_LUA_BASE_ERRORS_H
#define MP_LUA_BASE_ERRORS_H

#include "base/error.h"
#include "lua/base/binding.h"

/* Pushes an error object. Raises m. */
void mp_push_error(lua_State *L, const char *code, const char *message);

/* Raise it. */
_Noreturn void mp_raise(lua_State *L, const moonpad_error *error);
_Noreturn void mp_raise_status(lua_State *L, moonpad_status status, const char *format, ...) MP_PRINTF(3, 4);
#define mp_raise_argument(L, ...) mp_raise_status((L), MOONPAD_INVALID_ARGUMENT, __VA_ARGS__)

/* Raises `error` unless `status` is MOONPAD_OK. */
static inline void mp_check(lua_State *L, moonpad_status status, const moonpad_error *error) {
  if (status != MOONPAD_OK) mp_raise(L, error);
}

/*
** "a table", "a moonpad.session": what is at `index`, for messages. Borrowed from the metatable or
** constant. Raises m.
*/
const char *mp_describe(lua_State *L, int index);

/* Refuses the module moonpad at `index`: what it gets that calls moonpad:f(...). Raises e. */
void mp_refuse_module(lua_State *L, int index, const char *where);

/*
** Refuses the name at `index`, which is none of `known` (ends with NULL), where it is nearly one of
** them. Other names may be asked for to learn whether they are there. Raises e.
*/
void mp_refuse_near_miss(lua_State *L, const char *where, int index, const char *const *known);

/*
** Refuses fields of the table at `index` that are not in `known` (ends with NULL), naming the
** nearest. Raises e.
*/
void mp_check_fields(lua_State *L, int index, const char *where, const char *const *known);

/* The metatable of error objects; what core.* has of them. Raise m. */
void mp_error_setup(lua_State *L, int binding_index);
void mp_error_module(lua_State *L, int binding_index);

#endif
