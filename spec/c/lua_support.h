/*
** What tests share that embed Lua: an allocator that fails when it is told to, Lua states with
** moonpad in them.
*/
#ifndef LUA_SUPPORT_H
#define LUA_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "moonpad_lua.h"

typedef struct failing {
  size_t live;   /* blocks */
  long count;    /* growing allocations so far */
  long fail_at;  /* this one fails; 0: none */
  bool for_good; /* and all after it */
} failing;

static inline void *failing_allocate(void *context, void *block, size_t old_size, size_t size) {
  failing *state = context;
  if (size == 0) {
    if (block != NULL) state->live--;
    free(block);
    return NULL;
  }
  if (block == NULL || size > old_size) {
    state->count++;
    bool hit = state->for_good ? state->count >= state->fail_at : state->count == state->fail_at;
    if (state->fail_at > 0 && hit) return NULL;
  }
  void *moved = realloc(block, size);
  if (block == NULL && moved != NULL) state->live++;
  return moved;
}

static inline lua_State *new_state(void) {
  lua_State *L = luaL_newstate();
  assert_non_null(L);
  luaL_openlibs(L);
  luaL_requiref(L, "moonpad", luaopen_moonpad, 0);
  lua_setglobal(L, "moonpad");
  return L;
}

static inline void run(lua_State *L, const char *program) {
  if (luaL_dostring(L, program) != LUA_OK) {
    print_error("%s\n", luaL_tolstring(L, -1, NULL));
    fail();
  }
}

static inline moonpad_service *open_memory(void) {
  moonpad_service *service = NULL;
  moonpad_error error;
  assert_int_equal(moonpad_open(moonpad_text("memory:"), NULL, &service, &error), MOONPAD_OK);
  return service;
}

#endif
