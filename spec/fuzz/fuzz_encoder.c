/*
** The encoder of Lua values: the input builds any value (encoder.lua), good or bad. Now and then
** the Lua state runs out of memory on the way, which is a Lua error and nothing else.
*/
#include "lua_fuzz.h"

typedef struct budget {
  size_t left; /* allocations until they fail; 0: they do not */
} budget;

static void *allocate(void *context, void *block, size_t old_size, size_t size) {
  budget *budget = context;
  if (size == 0) {
    free(block);
    return NULL;
  }
  bool grows = block == NULL || size > old_size;
  if (grows && budget->left > 0 && --budget->left == 0) {
    budget->left = 1;
    return NULL;
  }
  return realloc(block, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static lua_State *L;
  static budget budget;
  if (L == NULL) {
    L = lua_newstate(allocate, &budget);
    load_script(L, "encoder.lua");
  }
  if (size == 0) return 0;
  if (data[0] < 240) {
    call_script(L, data + 1, size - 1);
    return 0;
  }
  lua_pushvalue(L, 1);
  lua_pushlstring(L, (const char *)data + 1, size - 1);
  budget.left = 1 + (size_t)(data[0] - 240) * 7;
  int result = lua_pcall(L, 1, 0, 0);
  budget.left = 0;
  bool is_memory =
      result == LUA_ERRMEM || (result == LUA_ERRRUN && strstr(luaL_tolstring(L, -1, NULL), "memory") != NULL);
  if (result != LUA_OK && !is_memory) broken("%s", lua_tostring(L, -1));
  lua_settop(L, 1);
  return 0;
}
