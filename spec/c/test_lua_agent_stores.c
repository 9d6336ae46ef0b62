/*
** The Lua module of the stores of artifacts and memories when Lua has no memory: each allocation
** failing, and what C had found meanwhile given back.
*/
#include "fault_steps.h"
#include "lua_support.h"

int luaopen_moonpad_agent_stores_core(lua_State *L);

static const char everything[] =
    "local module = ...\n"
    "local function check(result, message, code) assert(not code, message) return result end\n"
    "local files = check(module.artifacts('memory:', 'full', 10))\n"
    "local function save(...) return check(files:save('app', 'ann', 's', 'f', ...)) end\n"
    "local long = ('bytes'):rep(1000)\n"
    "assert(save('text') == 0 and save(nil, long, 'a/b', 'shown') == 1 and save(nil, '', 'a/b') == 2)\n"
    "local function load(version) return check(files:load('app', 'ann', 's', 'f', version)) end\n"
    "assert(load(0).text == 'text' and load(3) == nil and load().inlineData.data == '')\n"
    "assert(load(1).inlineData.data == long and load(1).inlineData.displayName == 'shown')\n"
    "assert(#check(files:list('app', 'ann', 's')) == 1 and #check(files:list('app', 'ann')) == 0)\n"
    "assert(#check(files:versions('app', 'ann', 's', 'f')) == 3)\n"
    "assert(check(files:delete('app', 'ann', 's', 'f')) == true and check(files:delete('app', 'ann', 's', 'f')) == "
    "false)\n"
    "save('again') assert(check(files:deleteUser('app', 'ann')) == 1)\n"
    "local said = check(module.memories('memory:', 'normal', 10))\n"
    "local function entry(n) return { revision = n, timestamp = n, author = 'a', content = '{}', text = 'tea' } end\n"
    "assert(check(said:write('app', 'ann', 's', 1, { entry(1), entry(2), entry(3) }, { 9 }, 3)))\n"
    "assert(check(said:indexed('app', 'ann', 's', 1)) == 3)\n"
    "assert(#check(said:search('app', 'ann', { 'tea', 'milk' }, 2)) == 2)\n"
    "assert(check(said:deleteUser('app', 'ann')) == 3)\n"
    "local _, _, code = module.artifacts('what:', 'full', 10) assert(code == 'unsupported')\n"
    "said:close() files:close()\n"
    "local _, _, code = said:search('app', 'ann', { 'tea' }, 2) assert(code == 'closed')\n"
    "local _, _, code = files:load('app', 'ann', 's', 'f') assert(code == 'closed')\n"
    "getmetatable('').__index.files = files -- collected with the state\n";

/* True when it came to its end. */
static bool run_everything(failing *allocator, long fail_at) {
  *allocator = (failing){0, 0, 0, allocator->for_good};
  lua_State *L = lua_newstate(failing_allocate, allocator);
  assert_non_null(L);
  luaL_openlibs(L);
  assert_int_equal(luaL_loadbuffer(L, everything, sizeof everything - 1, "=everything"), LUA_OK);
  allocator->count = 0;
  allocator->fail_at = fail_at;
  lua_pushcfunction(L, luaopen_moonpad_agent_stores_core);
  int status = lua_pcall(L, 0, 1, 0);
  if (status == LUA_OK) status = lua_pcall(L, 1, 0, 0);
  allocator->fail_at = 0;
  if (status != LUA_OK) {
    if (fail_at == 0) print_error("%s\n", lua_tostring(L, -1));
    assert_non_null(strstr(lua_tostring(L, -1), "not enough memory"));
  }
  lua_close(L);
  assert_int_equal(allocator->live, 0);
  return status == LUA_OK;
}

static void fail_each(bool for_good) {
  failing allocator = {0, 0, 0, for_good};
  assert_true(run_everything(&allocator, 0));
  long total = allocator.count;
  assert_true(total > 50);
  for (long n = 1; n <= total; n += fault_rarity()) {
    bool done = run_everything(&allocator, n);
    if (for_good && n < total / 2) assert_false(done);
  }
}

static void test_every_allocation_failing_once(void **state) {
  (void)state;
  fail_each(false);
}

static void test_every_allocation_failing_for_good(void **state) {
  (void)state;
  fail_each(true);
}

/* `close` by hand, the metamethod by hand, and a handle that a finalizer finds collected. */
static void test_a_handle_that_was_collected_is_closed(void **state) {
  (void)state;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "stores", luaopen_moonpad_agent_stores_core, 1);
  run(L, "local files = stores.artifacts('memory:', 'full', 10)\n"
         "local said = stores.memories('memory:', 'full', 10)\n"
         "for _, handle in ipairs { files, said } do\n"
         "  local gc = debug.getmetatable(handle).__gc\n"
         "  gc(handle) gc(handle) handle:close()\n"
         "end\n"
         "local function code(...) return (select(3, ...)) end\n"
         "assert(code(files:save('a', 'u', 's', 'f', 'x')) == 'closed' and code(files:load('a', 'u', 's', 'f')) == "
         "'closed')\n"
         "assert(code(files:list('a', 'u')) == 'closed' and code(files:versions('a', 'u', 's', 'f')) == 'closed')\n"
         "assert(code(files:delete('a', 'u', 's', 'f')) == 'closed' and code(said:indexed('a', 'u', 's', 1)) == "
         "'closed')\n"
         "assert(code(files:deleteUser('a', 'u')) == 'closed' and code(said:deleteUser('a', 'u')) == 'closed')\n"
         "assert(code(said:write('a', 'u', 's', 1, {}, {})) == 'closed' and code(said:search('a', 'u', {}, 1)) == "
         "'closed')\n"
         "assert(not pcall(files.load, said, 'a', 'u', 's', 'f') and not pcall(files.load, files, 'a', 1))\n"
         "assert(not pcall(said.write, said, 'a', 'u', 's', 1, { {} }, {}))\n");
  lua_close(L);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_allocation_failing_once),
      cmocka_unit_test(test_every_allocation_failing_for_good),
      cmocka_unit_test(test_a_handle_that_was_collected_is_closed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
