/*
** The Lua module of the stores of artifacts and memories: calls of a coroutine that is stepped, and
** Lua without memory, each allocation failing, where what C had found meanwhile is given back.
*/
#include <pthread.h>

#include "agent_scene.h"
#include "fault_steps.h"
#include "lua/async/store_call.h"
#include "lua_support.h"
#include "needs_threads.h"

int luaopen_moonpad_agent_stores_core(lua_State *L);

/* The config of a store, as lua/moonpad/services/agent_stores.lua gets it. */
#define CONFIG                                                                                                         \
  "local function config(durability, busyTimeoutMs, timeToLive)\n"                                                     \
  "  local fields = { durability = durability, busyTimeoutMs = busyTimeoutMs, timeToLive = timeToLive }\n"             \
  "  return require('moonpad.core').checkStore('open', '', fields, 'timeToLive')\n"                                    \
  "end\n"

static const char everything[] =
    "local module = ...\n" CONFIG
    "local function check(result, message, code) assert(not code, message) return result end\n"
    "local files = check(module.artifacts('memory:', config('full', 10)))\n"
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
    "local said = check(module.memories('memory:', config('normal', 10)))\n"
    "local function entry(n) return { revision = n, timestamp = n, author = 'a', content = '{}', text = 'tea' } end\n"
    "assert(check(said:write('app', 'ann', 's', 1, { entry(1), entry(2), entry(3) }, { 9 }, 3)))\n"
    "assert(check(said:indexed('app', 'ann', 's', 1)) == 3)\n"
    "local found = check(said:search('app', 'ann', { 'tea', 'milk' }, 2)) assert(#found == 2)\n"
    "assert(check(said:delete('app', 'ann', found[1].id)) and not check(said:delete('app', 'ann', found[1].id)))\n"
    "assert(check(said:rebuildIndex()) and check(said:deleteAll('app', 'ann', 'no session')) == 0)\n"
    "assert(check(said:deleteAll('app', 'ann')) == 2)\n"
    "assert(check(said:sweep()) == 0 and check(files:sweep()) == 0)\n"
    "local _, _, code = module.artifacts('what:', config('full', 10)) assert(code == 'unsupported')\n"
    "said:close() files:close()\n"
    "local _, _, code = said:search('app', 'ann', { 'tea' }, 2) assert(code == 'closed')\n"
    "local _, _, code = files:load('app', 'ann', 's', 'f') assert(code == 'closed')\n"
    "getmetatable('').__index.files = files -- collected with the state\n";

/*
** Given the module and the path of a file that is not there yet. `step` resumes the coroutine of
** `call`; while it waits, `service` sleeps until there is something to do.
*/
static const char stepping[] = "local module, path = ...\n" CONFIG "core = require 'moonpad.core'\n"
                               "service = core.open 'memory:'\n"
                               "function check(result, message, code) assert(not code, message) return result end\n"
                               "function begin(call)\n"
                               "  thread = coroutine.create(call)\n"
                               "  core.threads[thread] = 'begun'\n"
                               "end\n"
                               "function step()\n"
                               "  core.stepWith(service)\n"
                               "  local ok, result = coroutine.resume(thread)\n"
                               "  core.stepWith(nil)\n"
                               "  if not ok then error(result, 0) end\n"
                               "  assert(coroutine.status(thread) == 'dead' or result == core.ASKS_STORE)\n"
                               "  return coroutine.status(thread) ~= 'dead'\n"
                               "end\n"
                               "files = check(module.artifacts('sqlite:' .. path, config('normal', 60000)))\n"
                               "said = check(module.memories('sqlite:' .. path, config('normal', 60000)))\n";

static const char stepped[] =
    "local long, waits = ('bytes'):rep(1000), 0\n"
    "begin(function()\n"
    "  check(files:save('app', 'ann', 's', 'f', nil, long, 'a/b', 'shown'))\n"
    "  assert(check(files:load('app', 'ann', 's', 'f')).inlineData.data == long)\n"
    "  assert(check(files:list('app', 'ann', 's'))[1] == 'f' and #check(files:versions('app', 'ann', 's', 'f')) == 1)\n"
    "  local function entry(n) return { revision = n, timestamp = n, author = '', content = '{}', text = 'tea ' .. n } "
    "end\n"
    "  check(said:write('app', 'ann', 's', 1, { entry(1), entry(2) }, { 9 }, 2))\n"
    "  assert(#check(said:search('app', 'ann', { 'tea', 'milk' }, 10)) == 2)\n"
    "end)\n"
    "while step() do\n"
    "  waits = waits + 1\n"
    "  service:poll(" TIMEOUT_TEXT ")\n"
    "end\n"
    "assert(waits >= 6)\n";

static void load_program(lua_State *L, const char *program) {
  assert_int_equal(luaL_loadbuffer(L, program, strlen(program), "=program"), LUA_OK);
}

/*
** Opens the module. At the top there is the program, on it `stepping` where there is a path (at 1),
** which runs first.
*/
static int run_programs(lua_State *L, bool has_path) {
  lua_pushcfunction(L, luaopen_moonpad_agent_stores_core);
  int status = lua_pcall(L, 0, 1, 0);
  if (status != LUA_OK) return status;
  if (!has_path) return lua_pcall(L, 1, 0, 0);
  lua_pushvalue(L, 1);
  status = lua_pcall(L, 2, 0, 0);
  return status == LUA_OK ? lua_pcall(L, 0, 0, 0) : status;
}

/* True when it came to its end. */
static bool run_failing(failing *allocator, const char *program, const char *path, long fail_at) {
  *allocator = (failing){0, 0, 0, allocator->for_good};
  lua_State *L = lua_newstate(failing_allocate, allocator);
  assert_non_null(L);
  luaL_openlibs(L);
  lua_pushstring(L, path);
  luaL_requiref(L, "moonpad.core", luaopen_moonpad_core, 0);
  load_program(L, program);
  if (path != NULL) load_program(L, stepping);
  allocator->count = 0;
  allocator->fail_at = fail_at;
  int status = run_programs(L, path != NULL);
  allocator->fail_at = 0;
  if (status != LUA_OK) {
    if (fail_at == 0) print_error("%s\n", luaL_tolstring(L, -1, NULL));
    assert_non_null(strstr(luaL_tolstring(L, -1, NULL), "not enough memory"));
  }
  lua_close(L);
  assert_int_equal(allocator->live, 0);
  if (path != NULL) remove_files(path);
  return status == LUA_OK;
}

static void fail_each(const char *program, const char *path, bool for_good) {
  failing allocator = {0, 0, 0, for_good};
  assert_true(run_failing(&allocator, program, path, 0));
  long total = allocator.count;
  assert_true(total > 50);
  fault_seed();
  long n = path == NULL ? fault_in_turn(0, fault_slowness()) : 1;
  while (n <= total) {
    bool done = run_failing(&allocator, program, path, n);
    if (for_good && n < total / 2) assert_false(done);
    n = path == NULL ? fault_in_turn(n, fault_slowness()) : fault_after(n, 80);
  }
}

static void test_every_allocation_failing_once(void **state) {
  (void)state;
  fail_each(everything, NULL, false);
}

static void test_every_allocation_failing_for_good(void **state) {
  (void)state;
  fail_each(everything, NULL, true);
}

static void test_every_allocation_of_steps_failing(void **state) {
  const sqlite_files *files = *state;
  fail_each(stepped, files->path, false);
  fail_each(stepped, files->path, true);
}

/* A Lua state with the module moonpad.core at 1. */
static lua_State *new_core_state(void) {
  lua_State *L = luaL_newstate();
  assert_non_null(L);
  luaL_openlibs(L);
  luaL_requiref(L, "moonpad.core", luaopen_moonpad_core, 0);
  return L;
}

/* ---- The state goes while a call is under way ---- */

static lua_State *open_stepping(const char *path) {
  lua_State *L = new_core_state();
  load_program(L, stepping);
  lua_pushcfunction(L, luaopen_moonpad_agent_stores_core);
  lua_call(L, 0, 1);
  lua_pushstring(L, path);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) fail_msg("%s", luaL_tolstring(L, -1, NULL));
  return L;
}

static sqlite3 *take_lock(const char *path) {
  sqlite3 *db;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  return db;
}

static void *release_lock(void *db) {
  sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  sqlite3_close(db);
  return NULL;
}

/* What it was given is stored all the same. */
static void test_a_state_that_is_closed_waits_for_its_calls(void **state) {
  NEEDS_SYSTEM_THREADS();
  const sqlite_files *files = *state;
  static const char *const ways[] = {
      "local text = ('x'):rep(5000) begin(function() files:save('app', 'ann', 's', 'f', text) end) assert(step())",
      "local text = ('x'):rep(5000) begin(function() files:save('app', 'ann', 's', 'f', text) end) assert(step())"
      " assert(coroutine.close(thread)) text, files = nil, nil collectgarbage() collectgarbage()"};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    pthread_t other;
    agent_scene scene;
    char file_url[160];
    mp_artifact_name name = file_named("s", "f");
    mp_artifact loaded;
    mp_buffer bytes;
    bool found;
    lua_State *L = open_stepping(files->path);
    sqlite3 *db = take_lock(files->path);
    run(L, ways[i]);
    assert_int_equal(pthread_create(&other, NULL, release_lock, db), 0);
    lua_close(L);
    pthread_join(other, NULL);
    snprintf(file_url, sizeof file_url, "sqlite:%s", files->path);
    scene_open(&scene, files->env, file_url);
    mp_buffer_init(&bytes, files->env);
    assert_int_equal(scene.artifacts->ops->load(scene.artifacts, &name, &for_ever, 0, &found, &loaded, &bytes, NULL),
                     MOONPAD_OK);
    assert_true(found && loaded.data.length == 5000 && loaded.data.data[4999] == 'x');
    mp_buffer_free(&bytes);
    scene_close(&scene);
    remove_files(files->path);
  }
}

/* ---- Handles, and modules that do not belong together ---- */

static void test_wrong_arguments_raise(void **state) {
  (void)state;
  lua_State *L = new_core_state();
  luaL_requiref(L, "stores", luaopen_moonpad_agent_stores_core, 1);
  run(L, CONFIG
      "local files = stores.artifacts('memory:', config('full', 10))\n"
      "local said = stores.memories('memory:', config('full', 10))\n"
      "local function refuse(call, ...) assert(not pcall(call, ...)) end\n"
      "refuse(stores.artifacts, 'memory:') refuse(stores.artifacts, 'memory:', 'full') refuse(stores.memories, "
      "'memory:', io.stdout)\n"
      "refuse(said.delete, said, 'a', 'u') refuse(said.deleteAll, said, 'a') refuse(said.deleteAll, said, 'a', 'u', "
      "1)\n"
      "refuse(files.load, files, 'a', 1) refuse(files.load, files, 'a', 'u', 's', 'f', 'x')\n"
      "refuse(files.list, files) refuse(files.save, files, 'a', 'u', 's', 'f') refuse(files.deleteUser, files, 'a')\n"
      "local function write(...) refuse(said.write, said, 'a', 'u', 's', 1, ...) end\n"
      "local entry = { revision = 1, timestamp = 1, author = 'a', content = '{}', text = 'tea' }\n"
      "write() write({ entry }) write({ {} }, {}) write({ entry, 1 }, {}) write({ entry }, { 'x' }) write({}, {}, "
      "'x')\n"
      "refuse(said.search, said, 'a', 'u', { 'tea', 1 }, 2) refuse(said.search, said, 'a', 'u', { 'tea' })\n"
      "assert(#said:search('a', 'u', { 'tea', '' }, 2) == 0 and #files:list('a', 'u', 's') == 0)\n");
  lua_close(L);
}

static void test_another_build_of_the_core_is_refused(void **state) {
  mp_store_calls other = {.size = sizeof other + 1};
  (void)state;
  lua_State *L = new_core_state();
  for (int i = 0; i < 2; i++) {
    if (i == 0) {
      lua_pushlightuserdata(L, &other);
    } else {
      lua_pushnil(L); /* an older one */
    }
    lua_setfield(L, 1, "storeCalls");
    lua_pushcfunction(L, luaopen_moonpad_agent_stores_core);
    assert_int_equal(lua_pcall(L, 0, 1, 0), LUA_ERRRUN);
    assert_non_null(strstr(lua_tostring(L, -1), "built together with the module moonpad.core"));
    lua_pop(L, 1);
  }
  lua_close(L);
}

/* `close` by hand, the metamethod by hand, and a handle that a finalizer finds collected. */
static void test_a_handle_that_was_collected_is_closed(void **state) {
  (void)state;
  lua_State *L = new_core_state();
  luaL_requiref(L, "stores", luaopen_moonpad_agent_stores_core, 1);
  run(L, CONFIG
      "local files = stores.artifacts('memory:', config('full', 10))\n"
      "local said = stores.memories('memory:', config('full', 10))\n"
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
      "assert(code(files:deleteUser('a', 'u')) == 'closed' and code(said:deleteAll('a', 'u')) == 'closed')\n"
      "assert(code(files:sweep()) == 'closed' and code(said:sweep()) == 'closed' and code(said:rebuildIndex()) == "
      "'closed')\n"
      "assert(code(said:delete('a', 'u', '1')) == 'closed')\n"
      "assert(code(said:write('a', 'u', 's', 1, {}, {})) == 'closed' and code(said:search('a', 'u', {}, 1)) == "
      "'closed')\n"
      "assert(not pcall(files.load, said, 'a', 'u', 's', 'f') and not pcall(said.indexed, files, 'a', 'u', 's', 1))\n");
  lua_close(L);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_allocation_failing_once),
      cmocka_unit_test(test_every_allocation_failing_for_good),
      cmocka_unit_test_setup_teardown(test_every_allocation_of_steps_failing, folder_setup, folder_teardown),
      cmocka_unit_test_setup_teardown(test_a_state_that_is_closed_waits_for_its_calls, folder_setup, folder_teardown),
      cmocka_unit_test(test_wrong_arguments_raise),
      cmocka_unit_test(test_another_build_of_the_core_is_refused),
      cmocka_unit_test(test_a_handle_that_was_collected_is_closed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
