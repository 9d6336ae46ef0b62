/* Any sequence of calls, on memory and SQLite alike and against a model: stateful.lua. */
#include "lua_fuzz.h"

/* Thirty operations: short sequences find as much, and many more of them are run. */
#define MAX_BYTES 90

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static lua_State *L;
  if (L == NULL) {
    L = luaL_newstate();
    load_script(L, "stateful.lua");
  }
  call_script(L, data, size < MAX_BYTES ? size : MAX_BYTES);
  return 0;
}
