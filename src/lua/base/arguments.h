/*
** Reading arguments: tables of named options, positional values. All raise error objects that name
** the call and the field.
*/
#ifndef MP_LUA_BASE_ARGUMENTS_H
#define MP_LUA_BASE_ARGUMENTS_H

#include "lua/base/errors.h"

/* A call's table of options. */
typedef struct mp_options_table {
  lua_State *L;
  int index;
  const char *where; /* "service:createSession" */
} mp_options_table;

/* The table at `index`, with no field but those of `known` (ends with NULL). Raises e. */
mp_options_table mp_check_options(lua_State *L, int index, const char *where, const char *const *known);

/* Each leaves the field's value on the stack, which keeps what is borrowed from it. Raise e. */
moonpad_string mp_field_string(mp_options_table options, const char *field);
/* Empty when it is absent. */
moonpad_string mp_field_optional_string(mp_options_table options, const char *field);
/* False when absent. A float with an integral value counts as an integer. */
bool mp_field_integer(mp_options_table options, const char *field, int64_t *integer);
bool mp_field_number(mp_options_table options, const char *field, double *number);
/* The position of one of `names` (ends with NULL), or `otherwise` when absent. */
int mp_field_choice(mp_options_table options, const char *field, const char *const *names, int otherwise);

/* Pushes the field's value and gives its index; 0 (and nothing pushed) when absent. */
int mp_field_index(mp_options_table options, const char *field);

/*
** Refuses what stands behind argument `last`, where it is not nil: it would be ignored. Raises e.
*/
void mp_refuse_more(lua_State *L, int last, const char *where);

/* Positional arguments. Raise e. */
moonpad_string mp_argument_string(lua_State *L, int index, const char *where, const char *name);
int64_t mp_argument_integer(lua_State *L, int index, const char *where, const char *name);

#endif
