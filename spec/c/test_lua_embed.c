/*
** moonpad in a host's own Lua states: opening, sharing a service, and every allocation of Lua
** failing in turn.
*/
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "call_support.h"
#include "fault_steps.h"
#include "lua_support.h"
#include "slow_store.h"

/* ---- Tests ---- */

static void test_opens_without_files(void **context) {
  (void)context;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  run(L, "package.path, package.cpath = '', ''");
  luaL_requiref(L, "moonpad", luaopen_moonpad, 0);
  lua_setglobal(L, "moonpad");
  run(L, "assert(require 'moonpad' == moonpad)\n"
         "assert(moonpad.json.encode(moonpad.event { author = 'x' }) == '{\"author\":\"x\"}')\n"
         "assert(moonpad.agent { name = 'A', model = function() return 'hi' end })\n"
         "assert(rawget(_G, 'core') == nil)\n");
  lua_close(L);
}

static void test_keeps_loaders_that_are_there(void **context) {
  (void)context;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  run(L, "package.preload['moonpad.events.event'] = function() return { new = 'mine' } end");
  luaL_requiref(L, "moonpad", luaopen_moonpad, 0);
  lua_setglobal(L, "moonpad");
  run(L, "assert(moonpad.event == 'mine')");
  lua_close(L);
}

static void test_shares_a_service(void **context) {
  (void)context;
  moonpad_service *service = open_memory();
  lua_State *first = new_state(), *second = new_state();
  moonpad_lua_push_service(first, service);
  assert_ptr_equal(moonpad_lua_to_service(first, -1), service);
  lua_setglobal(first, "service");
  moonpad_lua_push_service(second, service);
  lua_setglobal(second, "service");
  moonpad_service_release(service);
  run(first, "service:createSession { appName = 'a', userId = 'u', sessionId = 's', state = { x = 1 } }\n"
             "assert(tostring(service) == 'moonpad.service')");
  lua_close(first);
  run(second, "assert(service:getSession { appName = 'a', userId = 'u', sessionId = 's' }.state.x == 1)\n"
              "service:close()\n"
              "local ok, err = pcall(service.getAppState, service, { appName = 'a' })\n"
              "assert(not ok and err.code == 'closed')");
  lua_close(second);
}

/* It belongs to one state; calls of others have the time that it gave last. */
static void test_asks_a_clock_in_its_own_state_only(void **context) {
  (void)context;
  lua_State *first = new_state(), *second = new_state();
  run(first, "now = 1000\n"
             "service = moonpad.open('memory:', { clock = function() return now end })");
  lua_getglobal(first, "service");
  moonpad_lua_push_service(second, moonpad_lua_to_service(first, -1));
  lua_setglobal(second, "service");
  run(first, "now = 2000");
  run(second, "assert(service:createSession { appName = 'a', userId = 'u' }.createTime == 1000)");
  run(first, "assert(service:createSession { appName = 'a', userId = 'u' }.createTime == 2000)\n"
             "now = 3000");
  run(second, "assert(service:createSession { appName = 'a', userId = 'u' }.createTime == 2000)");
  lua_close(second);
  lua_close(first);
}

/* Nobody can set it any more, or ask the function: it stands still. */
static void test_keeps_the_time_when_the_state_of_a_clock_is_closed(void **context) {
  (void)context;
  static const char *const clocks[] = {"function() return 1000 end", "require('moonpad.testing').clock(1000)"};
  for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
    lua_State *first = new_state(), *second = new_state();
    lua_pushfstring(first, "service = moonpad.open('memory:', { clock = %s })", clocks[i]);
    run(first, lua_tostring(first, -1));
    lua_getglobal(first, "service");
    moonpad_lua_push_service(second, moonpad_lua_to_service(first, -1));
    lua_setglobal(second, "service");
    lua_close(first);
    run(second, "assert(service:createSession { appName = 'a', userId = 'u' }.createTime == 1000)");
    lua_close(second);
  }
}

static char noted[200];

static int note(lua_State *L) {
  snprintf(noted, sizeof noted, "%s", luaL_checkstring(L, 1));
  return 0;
}

/* What is made last is finalized first. */
static void test_a_clock_can_be_asked_after_its_end(void **context) {
  (void)context;
  lua_State *L = new_state();
  lua_register(L, "note", note);
  run(L, "kept = setmetatable({}, { __gc = function()\n"
         "  local _, now = pcall(clock.now, clock)\n"
         "  local _, set = pcall(clock.set, clock, 1)\n"
         "  local _, open = pcall(moonpad.open, 'memory:', { clock = clock })\n"
         "  note(table.concat({ tostring(now), tostring(set), tostring(open) }, ', '))\n"
         "end })\n"
         "clock = require('moonpad.testing').clock(1000)");
  lua_close(L);
  assert_string_equal(noted, "closed: the clock is closed, closed: the clock is closed, closed: the clock is closed");
}

static bool keep_line(void *context, moonpad_string line) {
  luaL_addlstring(context, line.data, line.length);
  return true;
}

/* Byte for byte, and each can read what the other wrote. */
static void test_exports_what_c_exports(void **context) {
  (void)context;
  moonpad_service *service = open_memory();
  lua_State *L = new_state();
  moonpad_lua_push_service(L, service);
  lua_setglobal(L, "service");
  run(L,
      "session = service:createSession { appName = 'a', userId = 'u', sessionId = 's', state = { x = { 1.0, {} } } }\n"
      "for number = 1, 300 do\n"
      "  session.state:increment('n')\n"
      "  session.state.text = ('\\0\\n\\\\\"/\\u{2028}'):rep(number % 50)\n"
      "  service:updateSession(session, { author = 'user', content = { parts = { { text = 'Hello' } } } })\n"
      "end\n"
      "lines = {} for line in service:export(session) do lines[#lines + 1] = line end");
  moonpad_session *session = NULL;
  moonpad_session_name name = {moonpad_text("a"), moonpad_text("u"), moonpad_text("s")};
  moonpad_error error;
  assert_int_equal(moonpad_get_session(service, &name, NULL, &session, &error), MOONPAD_OK);
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  assert_int_equal(moonpad_export_session(session, keep_line, &text, &error), MOONPAD_OK);
  luaL_pushresult(&text);
  lua_setglobal(L, "text");
  run(L, "assert(#lines == 301 and table.concat(lines) == text)\n"
         "assert(service:import { lines = text, sessionId = 'copy' }.state.n == 300)");
  moonpad_session_free(session);
  lua_close(L);
  moonpad_service_release(service);
}

static void test_knows_what_is_a_service(void **context) {
  (void)context;
  lua_State *L = new_state();
  moonpad_lua_push_service(L, NULL);
  assert_true(lua_isnil(L, -1));
  assert_null(moonpad_lua_to_service(L, -1));
  lua_newuserdatauv(L, 64, 0);
  assert_null(moonpad_lua_to_service(L, -1));
  assert_null(moonpad_lua_to_service(L, 100));
  lua_pushstring(L, "x");
  assert_null(moonpad_lua_to_service(L, -1));
  assert_int_equal(lua_gettop(L), 3);
  lua_close(L);
}

/*
** What a script keys by the service, the queue of its runs for one, must find it again however it
** got it.
*/
static void test_gives_one_object_per_service(void **context) {
  (void)context;
  moonpad_service *service = open_memory(), *other = open_memory();
  lua_State *L = new_state();
  moonpad_lua_push_service(L, service);
  lua_setglobal(L, "one");
  moonpad_lua_push_service(L, service);
  lua_setglobal(L, "two");
  moonpad_lua_push_service(L, other);
  lua_setglobal(L, "other");
  run(L, "assert(rawequal(one, two) and one ~= other)\n"
         "assert(({ [one] = 1 })[two] == 1)\n"
         "opened = moonpad.open 'memory:'");
  lua_getglobal(L, "opened");
  moonpad_lua_push_service(L, moonpad_lua_to_service(L, -1));
  assert_true(lua_rawequal(L, -1, -2));
  lua_settop(L, 0);
  run(L, "one:close()");
  moonpad_lua_push_service(L, service);
  lua_setglobal(L, "two");
  run(L, "assert(rawequal(one, two) and tostring(two) == 'moonpad.service (closed)')\n"
         "one, two, opened = nil, nil, nil collectgarbage() collectgarbage()");
  moonpad_service *third = open_memory(); /* at an address that has been one before, perhaps */
  moonpad_lua_push_service(L, third);
  lua_setglobal(L, "one");
  moonpad_lua_push_service(L, third);
  lua_setglobal(L, "two");
  run(L, "assert(rawequal(one, two) and one ~= other)\n"
         "one:createSession { appName = 'a', userId = 'u' }\n"
         "getmetatable(one).__gc(one)");
  /* finalized by hand: that object stands for no service any more */
  moonpad_lua_push_service(L, third);
  lua_setglobal(L, "two");
  run(L, "assert(not rawequal(one, two)) two:createSession { appName = 'a', userId = 'u' }");
  lua_close(L);
  moonpad_service_release(service);
  moonpad_service_release(other);
  moonpad_service_release(third);
}

/* Runs of two scripts that were each given the service wait for each other. */
static void test_queues_the_runs_of_a_shared_service(void **context) {
  (void)context;
  moonpad_service *service = open_memory();
  lua_State *L = new_state();
  for (int i = 0; i < 2; i++) {
    moonpad_lua_push_service(L, service);
    lua_setglobal(L, i == 0 ? "first" : "second");
  }
  run(L, "local function start(service, name)\n"
         "  local agent = moonpad.agent { name = 'A', model = function() coroutine.yield() return name end }\n"
         "  return moonpad.runner { appName = 'a', agent = agent, sessionService = service }\n"
         "    :start { userId = 'u', sessionId = 's', newMessage = name }\n"
         "end\n"
         "local one, two = start(first, 'one'), start(second, 'two')\n"
         "local open = 2\n"
         "while open > 0 do\n"
         "  open = 0\n"
         "  for _, run in ipairs { two, one } do if run:step() ~= nil then open = open + 1 end end\n"
         "end\n"
         "local texts = {}\n"
         "local session = first:getSession { appName = 'a', userId = 'u', sessionId = 's' }\n"
         "for _, event in ipairs(session.events) do texts[#texts + 1] = event:text() end\n"
         "assert(table.concat(texts, ' ') == 'one one two two', table.concat(texts, ' '))");
  lua_close(L);
  moonpad_service_release(service);
}

/* moonpad_lua_to_service needs no protected mode, with whatever memory there is. */
static void test_asks_for_a_service_without_memory(void **context) {
  (void)context;
  failing allocator = {0};
  lua_State *L = lua_newstate(failing_allocate, &allocator);
  luaL_openlibs(L);
  lua_newuserdatauv(L, 8, 0);
  allocator.fail_at = allocator.count + 1;
  allocator.for_good = true;
  long before = allocator.count;
  /* the module has not been opened: nothing can be one */
  assert_null(moonpad_lua_to_service(L, 1));
  assert_int_equal(allocator.count, before);
  allocator.fail_at = 0;
  luaL_requiref(L, "moonpad", luaopen_moonpad, 0);
  moonpad_service *service = open_memory();
  moonpad_lua_push_service(L, service);
  before = allocator.count;
  allocator.fail_at = before + 1;
  assert_ptr_equal(moonpad_lua_to_service(L, -1), service);
  assert_int_equal(allocator.count, before);
  allocator.fail_at = 0;
  lua_close(L);
  moonpad_service_release(service);
}

static void test_gives_no_service_that_was_closed(void **context) {
  (void)context;
  moonpad_service *service = open_memory();
  lua_State *L = new_state();
  moonpad_lua_push_service(L, service);
  assert_ptr_equal(moonpad_lua_to_service(L, -1), service);
  lua_setglobal(L, "service");
  run(L, "service:close()");
  lua_getglobal(L, "service");
  assert_null(moonpad_lua_to_service(L, -1));
  moonpad_service *other = open_memory();
  moonpad_lua_push_service(L, other);
  moonpad_service_close(other); /* by the host */
  assert_null(moonpad_lua_to_service(L, -1));
  lua_close(L);
  moonpad_service_release(service);
  moonpad_service_release(other);
}

/* A coroutine opens the module and is collected: nothing may have kept its lua_State. */
static void test_survives_the_coroutine_that_opened_it(void **context) {
  (void)context;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_State *coroutine = lua_newthread(L);
  luaL_requiref(coroutine, "moonpad", luaopen_moonpad, 0);
  lua_setglobal(coroutine, "moonpad");
  lua_settop(L, 0);
  run(L, "collectgarbage() collectgarbage()\n"
         "local s = moonpad.state { a = { b = 1 } } assert(s.a.b == 1 and tostring(s.a) == '{\"b\":1}')");
  lua_close(L);
}

static const char everything[] =
    "local core, service = ...\n"
    "local null, removed = core.null, core.removed\n"
    "local session = service:createSession { appName = 'a', userId = 'u', state = { cart = { { n = 2 }, { n = 1 } }, "
    "['user:x'] = 'y' } }\n"
    "local state = session.state\n"
    "state:update { b = 1, a = { z = 1, y = { 'text', null } }, long = ('x'):rep(300) }\n"
    "table.insert(state.cart, { n = 3 })\n"
    "table.sort(state.cart, function(a, b) return a.n < b.n end)\n"
    "state:append('log', { 1 }) state:increment('count') state.gone = nil\n"
    "for k, v in pairs(state) do local _ = tostring(v) end\n"
    "for k, v in pairs(state.a) do local _ = k end\n"
    "local all, delta = state:getAll(), state:delta()\n"
    "service:updateSession(session)\n"
    "local event = service:appendEvent(session, { author = 'x', actions = { stateDelta = { b = removed, c = { 'q\\n' } "
    "} } })\n"
    "assert(session.events[#session.events].id == event.id)\n"
    "for i, e in ipairs(session.events) do core.newEvent(e) end\n"
    "local changes = core.beginChanges(session)\n"
    "changes.a.y[3] = state.cart[1]\n"
    "core.commit(changes, {})\n"
    "core.endChanges(changes, 'over')\n"
    "core.render('{cart} {artifact.f}', state, { artifacts = { f = 'F' } })\n"
    "core.templateArtifacts('{artifact.f}', 'both')\n"
    "service:updateAppState { appName = 'a', state = { k = removed, l = 1 } }\n"
    "service:getAppState { appName = 'a' } service:stateAt(session, 1)\n"
    "for _, s in ipairs(service:listSessions { appName = 'a' }) do local _ = s.saveKey .. tostring(s) end\n"
    "service:fork(session, { at = 1 })\n"
    "service:updateUserState { appName = 'a', userId = 'u', state = { m = { 1 }, x = removed } }\n"
    "service:getUserState { appName = 'a', userId = 'u' }\n"
    "service:incrementState { appName = 'a', userId = 'u', key = 'n' }\n"
    "local same = service:getSession { appName = 'a', userId = 'u', sessionId = session.id, numRecentEvents = 1 }\n"
    "service:refresh(session)\n"
    "service:rewind(same, { invocationId = event.invocationId })\n"
    "service:rewind(same, { revision = 1 })\n"
    "service:refresh(session)\n"
    "state.b = { 2 } state:increment('count') state:append('log', { 2 })\n"
    "local pendings = { service:updateSessionAsync(session, { author = 'x' }),\n"
    "  service:appendEventAsync(session, { author = 'y', actions = { stateDelta = { c = { 'r' } } } }),\n"
    "  service:appendEventAsync(same, { author = 'z', actions = { stateDelta = { b = 'theirs' } } }) }\n"
    "service:fd() for _ = 1, 3 do service:poll(" TIMEOUT_TEXT ") end\n"
    "assert(pendings[1]:result().author == 'x' and select(2, pendings[2]:poll()).author == 'y')\n"
    "local ok, conflict = pcall(pendings[3].result, pendings[3])\n"
    "assert(not ok)\n"
    "if core.isError(conflict) and conflict.code ~= 'conflict' then error(conflict, 0) end\n"
    "if not conflict.event then error('not enough memory for the event', 0) end\n"
    "local _ = #tostring(pendings[3]) + #conflict.keys + #conflict.event.actions.stateDelta.b\n"
    "local lines = {}\n"
    "for line in service:export(session) do lines[#lines + 1] = line end\n"
    "service:import { lines = lines, sessionId = 'copy' }\n"
    "service:import { lines = table.concat(lines), sessionId = 'of a string' }\n"
    "service:import { lines = service:export(same), sessionId = 'of an iterator' }\n"
    "local other = service:createSession { appName = 'a', userId = 'u', sessionId = 'other' }\n"
    "service:deleteSession { appName = 'a', userId = 'u', sessionId = other.id }\n"
    "core.json.decode(core.json.encode { z = 1, a = { true, 1.5, 'e\\0' } })\n"
    "for _, call in ipairs { function() state.x = print end, function() service:getSession { appNam = 1 } end,\n"
    "    function() core.json.decode '[\"\\\\n\",}' end, function() state.get() end } do\n"
    "  local ok, err = pcall(call)\n"
    "  if core.isError(err) then assert(not ok and #tostring(err) > 0) else error(err, 0) end\n"
    "end\n"
    "return 'done'\n";

/* As a stepped run does it: what asks the store waits for a worker. */
static const char in_steps[] = "local everything, core, service = ...\n"
                               "local thread = coroutine.create(everything)\n"
                               "core.threads[thread] = true\n"
                               "core.stepWith(service)\n"
                               "local ok, result = coroutine.resume(thread, core, service)\n"
                               "while ok and coroutine.status(thread) ~= 'dead' do\n"
                               "  assert(result == core.ASKS_STORE)\n"
                               "  core.idle(60)\n"
                               "  ok, result = coroutine.resume(thread)\n"
                               "end\n"
                               "core.stepWith(nil)\n"
                               "coroutine.close(thread)\n"
                               "if not ok then error(result, 0) end\n"
                               "return result\n";

static bool ended_well(lua_State *L, int status) {
  if (status == LUA_OK) return true;
  if (lua_isstring(L, -1)) {
    assert_non_null(strstr(lua_tostring(L, -1), "memory"));
  } else {
    lua_getfield(L, -1, "code");
    if (strcmp(lua_tostring(L, -1), "no_memory") != 0) print_error("%s\n", luaL_tolstring(L, -2, NULL));
    assert_string_equal(lua_tostring(L, -1), "no_memory");
  }
  return false;
}

#define STEPPED "slow:0:memory:" /* does not answer from memory at once */
static const char *const stores[] = {"memory:", "sqlite::memory:", STEPPED};

static moonpad_service *open_store(const char *url, const moonpad_allocator *allocator) {
  moonpad_service *service = NULL;
  moonpad_error error;
  moonpad_options options;
  moonpad_options_init(&options);
  const moonpad_store_scheme slow = {"slow", &slow_store_opener};
  options.stores = &slow;
  options.store_count = 1;
  options.allocator = allocator;
  assert_int_equal(moonpad_open(moonpad_text(url), &options, &service, &error), MOONPAD_OK);
  return service;
}

/* What was stored before memory ended is whole: each session's events make its state. */
static void expect_whole(moonpad_service *service) {
  free(call_stored(service, "a").data);
}

/*
** Lua loses a finalizer that it has no memory to call, and what that would have released is leaked.
** So where leaks are looked for, finalizers wait for lua_close, which has memory. With
** AddressSanitizer they wait in every other run, and the others are not searched for leaks.
*/
static bool finalizers_wait(long fail_at) {
#ifdef __SANITIZE_ADDRESS__
  return fail_at % 2 == 0;
#else
  (void)fail_at;
  return runs_under_valgrind();
#endif
}

static void search_for_leaks(bool search) {
#ifdef __SANITIZE_ADDRESS__
  if (search) {
    __lsan_enable();
  } else {
    __lsan_disable();
  }
#else
  (void)search;
#endif
}

/* Runs everything in a state of its own; true when it came to its end. */
static bool run_everything(failing *allocator, const char *url) {
  moonpad_service *service = open_store(url, NULL);
  allocator->live = 0;
  allocator->count = 0;
  long fail_at = allocator->fail_at;
  allocator->fail_at = 0;
  lua_State *L = lua_newstate(failing_allocate, allocator);
  assert_non_null(L);
  luaL_openlibs(L);
  if (allocator->for_good && finalizers_wait(fail_at)) lua_gc(L, LUA_GCSTOP);
  bool is_stepped = strcmp(url, STEPPED) == 0;
  if (is_stepped) assert_int_equal(luaL_loadbuffer(L, in_steps, sizeof in_steps - 1, "=steps"), LUA_OK);
  assert_int_equal(luaL_loadbuffer(L, everything, sizeof everything - 1, "=everything"), LUA_OK);
  allocator->count = 0;
  allocator->fail_at = fail_at;
  lua_pushcfunction(L, luaopen_moonpad_core);
  int status = lua_pcall(L, 0, 1, 0);
  if (status == LUA_OK) {
    /*
    ** The service is pushed while nothing fails: moonpad_lua_push_service is to be called in
    ** protected mode otherwise.
    */
    allocator->fail_at = 0;
    moonpad_lua_push_service(L, service);
    allocator->fail_at = fail_at;
    status = lua_pcall(L, is_stepped ? 3 : 2, 1, 0);
  }
  allocator->fail_at = 0;
  bool done = ended_well(L, status);
  lua_close(L);
  expect_whole(service);
  moonpad_service_release(service);
  assert_int_equal(allocator->live, 0);
  return done;
}

static void fail_each_in_turn(bool for_good, const char *url) {
  failing allocator = {0, 0, 0, for_good};
  assert_true(run_everything(&allocator, url));
  long total = allocator.count;
  assert_true(total > 300);
  for (long n = fault_in_turn(0, fault_slowness()); n <= total; n = fault_in_turn(n, fault_slowness())) {
    allocator.fail_at = n;
    bool may_leak = for_good && !finalizers_wait(n);
    if (may_leak) search_for_leaks(false);
    bool done = run_everything(&allocator, url);
    if (may_leak) search_for_leaks(true);
    if (for_good && n < total / 2) assert_false(done);
  }
}

static void test_every_allocation_failing_once(void **context) {
  (void)context;
  for (int i = 0; i < 3; i++) fail_each_in_turn(false, stores[i]);
}

static void test_every_allocation_failing_for_good(void **context) {
  (void)context;
  for (int i = 0; i < 3; i++) fail_each_in_turn(true, stores[i]);
}

/* ---- The same with the allocations of the service failing ---- */

static bool hit(failing *state) {
  if (state->fail_at == 0) return false;
  state->count++;
  return state->for_good ? state->count >= state->fail_at : state->count == state->fail_at;
}

static void *service_resize(void *context, void *block, size_t size) {
  failing *state = context;
  if (hit(state)) return NULL;
  void *moved = realloc(block, size);
  if (block == NULL && moved != NULL) state->live++;
  return moved;
}

static void *service_allocate(void *context, size_t size) {
  return service_resize(context, NULL, size);
}

static void service_release(void *context, void *block) {
  if (block != NULL) ((failing *)context)->live--;
  free(block);
}

static bool run_with_service(failing *state, const char *url) {
  moonpad_allocator allocator = {service_allocate, service_resize, service_release, state};
  long fail_at = state->fail_at;
  state->fail_at = 0;
  moonpad_service *service = open_store(url, &allocator);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  assert_int_equal(luaL_loadbuffer(L, everything, sizeof everything - 1, "=everything"), LUA_OK);
  luaopen_moonpad_core(L);
  lua_replace(L, 2); /* what it needed on the way */
  lua_settop(L, 2);
  moonpad_lua_push_service(L, service);
  state->count = 0;
  state->fail_at = fail_at;
  bool done = ended_well(L, lua_pcall(L, 2, 1, 0));
  state->fail_at = 0;
  lua_close(L);
  expect_whole(service);
  moonpad_service_release(service);
  assert_int_equal(state->live, 0);
  return done;
}

static void fail_service_in_turn(bool for_good, const char *url) {
  failing state = {0, 0, 0, for_good};
  for (long n = fault_in_turn(0, fault_slowness());; n = fault_in_turn(n, fault_slowness())) {
    state.fail_at = n;
    if (run_with_service(&state, url) && state.count < n) break;
  }
  assert_true(state.count > 100);
}

static void test_every_allocation_of_the_service_failing_once(void **context) {
  (void)context;
  for (int i = 0; i < 2; i++) fail_service_in_turn(false, stores[i]);
}

static void test_every_allocation_of_the_service_failing_for_good(void **context) {
  (void)context;
  for (int i = 0; i < 2; i++) fail_service_in_turn(true, stores[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_opens_without_files),
      cmocka_unit_test(test_keeps_loaders_that_are_there),
      cmocka_unit_test(test_shares_a_service),
      cmocka_unit_test(test_asks_a_clock_in_its_own_state_only),
      cmocka_unit_test(test_keeps_the_time_when_the_state_of_a_clock_is_closed),
      cmocka_unit_test(test_a_clock_can_be_asked_after_its_end),
      cmocka_unit_test(test_exports_what_c_exports),
      cmocka_unit_test(test_knows_what_is_a_service),
      cmocka_unit_test(test_gives_one_object_per_service),
      cmocka_unit_test(test_queues_the_runs_of_a_shared_service),
      cmocka_unit_test(test_asks_for_a_service_without_memory),
      cmocka_unit_test(test_gives_no_service_that_was_closed),
      cmocka_unit_test(test_survives_the_coroutine_that_opened_it),
      cmocka_unit_test(test_every_allocation_failing_once),
      cmocka_unit_test(test_every_allocation_failing_for_good),
      cmocka_unit_test(test_every_allocation_of_the_service_failing_once),
      cmocka_unit_test(test_every_allocation_of_the_service_failing_for_good),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
