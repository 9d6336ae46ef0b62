/* Runs of Lua agents that a C host starts, steps and cancels (moonpad_lua.h). */
#include "fault_steps.h"
#include "lua_support.h"
#include "timeout.h"

#include <poll.h>

static const char village[] =
    "local service = moonpad.open 'memory:'\n"
    "local waits = moonpad.tool { name = 'look', parameters = { type = 'object' }, run = function(args, context)\n"
    "  local ok, err = pcall(coroutine.yield)\n"
    "  if not ok then caught = err.code error(err, 0) end\n"
    "  context.state.seen = args.what\n"
    "  return { seen = args.what }\n"
    "end }\n"
    "local function answer(request)\n"
    "  local part = request.contents[#request.contents].parts[1]\n"
    "  if part.functionResponse then return 'I saw ' .. part.functionResponse.response.seen end\n"
    "  if part.text == 'fail' then error('out of thoughts', 0) end\n"
    "  if part.text == 'refuse' then error(moonpad.state().x.y) end\n"
    "  if part.text == 'limit' then require('moonpad.core').error('limit', 'too much') end\n"
    "  return { content = { role = 'model', parts = { { functionCall = { name = 'look', args = { what = part.text } } "
    "} } } }\n"
    "end\n"
    "local mute = setmetatable({}, { __tostring = function() error('no words', 0) end })\n"
    "local silent = setmetatable({}, { __tostring = function() return nil end })\n"
    "local errors = { hurt = 'ouch', mute = mute, silent = silent }\n"
    "local function hurt(context)\n"
    "  local err = errors[context.userContent.parts[1].text]\n"
    "  if err then error(err, 0) end\n"
    "  if context.state.dream then context.state.dream = nil end\n"
    "end\n"
    "agent = moonpad.agent { name = 'Mira', model = answer, tools = { waits }, outputKey = 'said', "
    "beforeAgentCallback = hurt }\n"
    "runner = moonpad.runner { appName = 'village', agent = agent, sessionService = service }\n"
    "function read(key) local session = service:getSession { appName = 'village', userId = 'player', sessionId = "
    "'mira' }\n"
    "  return session and session.state[key] end\n";

static lua_State *open_village(void) {
  lua_State *L = new_state();
  run(L, village);
  lua_getglobal(L, "runner");
  return L;
}

static moonpad_lua_run_options options_for(const char *message) {
  moonpad_lua_run_options options;
  moonpad_lua_run_options_init(&options);
  options.user_id = moonpad_text("player");
  options.session_id = moonpad_text("mira");
  options.new_message = moonpad_text(message);
  return options;
}

static moonpad_lua_run *start_ok(lua_State *L, const moonpad_lua_run_options *options) {
  moonpad_lua_run *started;
  moonpad_error error = {MOONPAD_OK, ""};
  int top = lua_gettop(L);
  if (moonpad_lua_run_start(L, 1, options, &started, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  assert_int_equal(lua_gettop(L), top);
  assert_non_null(started);
  return started;
}

static moonpad_lua_progress step_ok(lua_State *L, moonpad_lua_run *stepped, moonpad_string *event) {
  moonpad_lua_progress progress;
  moonpad_error error = {MOONPAD_OK, ""};
  int top = lua_gettop(L);
  if (moonpad_lua_run_step(L, stepped, &progress, event, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  assert_int_equal(lua_gettop(L), top);
  return progress;
}

/* The next event, waiting for it by stepping. False: the run is over. */
static bool next_event(lua_State *L, moonpad_lua_run *stepped, char text[1024]) {
  moonpad_string event;
  moonpad_lua_progress progress;
  while ((progress = step_ok(L, stepped, &event)) == MOONPAD_LUA_RUN_WAITING) assert_int_equal(event.length, 0);
  if (progress == MOONPAD_LUA_RUN_DONE) return false;
  assert_true(event.length < 1024);
  memcpy(text, event.data, event.length);
  text[event.length] = '\0';
  return true;
}

static void expect_state(lua_State *L, const char *key, const char *expected) {
  lua_getglobal(L, "read");
  lua_pushstring(L, key);
  assert_int_equal(lua_pcall(L, 1, 1, 0), LUA_OK);
  if (expected == NULL) {
    assert_true(lua_isnil(L, -1));
  } else {
    assert_string_equal(lua_tostring(L, -1), expected);
  }
  lua_pop(L, 1);
}

static void test_whole_run(void **context) {
  (void)context;
  lua_State *L = open_village();
  char text[1024];
  moonpad_lua_run_options options = options_for("a wolf");
  options.state_delta = moonpad_text("{\"user:lamp\":true,\"hour\":7}");
  moonpad_lua_run *thought = start_ok(L, &options);
  assert_true(next_event(L, thought, text));
  assert_non_null(strstr(text, "\"functionCall\""));
  assert_non_null(strstr(text, "\"author\":\"Mira\""));
  assert_int_equal(step_ok(L, thought, NULL), MOONPAD_LUA_RUN_WAITING);
  assert_true(next_event(L, thought, text));
  assert_non_null(strstr(text, "\"stateDelta\":{\"seen\":\"a wolf\"}"));
  assert_true(next_event(L, thought, text));
  assert_non_null(strstr(text, "I saw a wolf"));
  assert_false(next_event(L, thought, text));
  assert_false(next_event(L, thought, text));
  moonpad_lua_run_free(L, thought);
  expect_state(L, "seen", "a wolf");
  expect_state(L, "said", "I saw a wolf");
  expect_state(L, "hour", "7");
  lua_close(L);
}

static void test_event_that_removes(void **context) {
  (void)context;
  lua_State *L = open_village();
  char text[1024];
  moonpad_lua_run_options options = options_for("a wolf");
  options.state_delta = moonpad_text("{\"dream\":1}");
  moonpad_lua_run *thought = start_ok(L, &options);
  assert_true(next_event(L, thought, text));
  assert_non_null(strstr(text, "\"stateDelta\":{\"dream\":null}"));
  assert_non_null(strstr(text, "\"removedStateKeys\":[\"dream\"]"));
  while (next_event(L, thought, text)) continue;
  expect_state(L, "dream", NULL);
  lua_close(L);
}

static void test_content_as_json(void **context) {
  (void)context;
  lua_State *L = open_village();
  char text[1024];
  moonpad_lua_run_options options = options_for("");
  options.new_content = moonpad_text("{\"parts\":[{\"text\":\"smoke\"}]}");
  moonpad_lua_run *thought = start_ok(L, &options);
  while (next_event(L, thought, text)) assert_non_null(strstr(text, "smoke"));
  moonpad_lua_run_free(L, thought);
  expect_state(L, "seen", "smoke");
  lua_close(L);
}

static void test_cancelling(void **context) {
  (void)context;
  lua_State *L = open_village();
  char text[1024];
  moonpad_error error;
  moonpad_lua_run_options options = options_for("a wolf");
  moonpad_lua_run *thought = start_ok(L, &options);
  assert_true(next_event(L, thought, text));
  assert_int_equal(step_ok(L, thought, NULL), MOONPAD_LUA_RUN_WAITING);
  assert_int_equal(moonpad_lua_run_cancel(L, thought, &error), MOONPAD_OK);
  assert_int_equal(moonpad_lua_run_cancel(L, thought, &error), MOONPAD_OK);
  assert_int_equal(step_ok(L, thought, NULL), MOONPAD_LUA_RUN_DONE);
  moonpad_lua_run_free(L, thought);
  lua_getglobal(L, "caught");
  assert_string_equal(lua_tostring(L, -1), "cancelled");
  lua_pop(L, 1);
  expect_state(L, "seen", NULL);

  /* The session can be used at once. */
  thought = start_ok(L, &options);
  while (next_event(L, thought, text)) assert_non_null(strstr(text, "wolf"));
  moonpad_lua_run_free(L, thought);
  assert_int_equal(lua_gettop(L), 1);
  lua_close(L);
}

static void expect_failure(lua_State *L, const char *message, moonpad_status status, const char *words) {
  moonpad_lua_run_options options = options_for(message);
  moonpad_lua_run *thought = start_ok(L, &options);
  moonpad_lua_progress progress = MOONPAD_LUA_RUN_WAITING;
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_status found = MOONPAD_OK;
  while (found == MOONPAD_OK && progress != MOONPAD_LUA_RUN_DONE) {
    found = moonpad_lua_run_step(L, thought, &progress, NULL, &error);
  }
  assert_int_equal(found, status);
  assert_int_equal(error.code, status);
  assert_non_null(strstr(error.message, words));
  assert_int_equal(step_ok(L, thought, NULL), MOONPAD_LUA_RUN_DONE);
  moonpad_lua_run_free(L, thought);
  assert_int_equal(lua_gettop(L), 1);
}

static void test_failing_scripts(void **context) {
  (void)context;
  lua_State *L = open_village();
  expect_failure(L, "hurt", MOONPAD_TOOL, "ouch");
  expect_failure(L, "mute", MOONPAD_TOOL, "(an error object that cannot be shown as text)");
  expect_failure(L, "silent", MOONPAD_TOOL, "(an error object that cannot be shown as text)");
  expect_failure(L, "fail", MOONPAD_MODEL, "out of thoughts");
  expect_failure(L, "refuse", MOONPAD_MODEL, "attempt to index a nil value");
  expect_failure(L, "limit", MOONPAD_LIMIT, "too much");
  lua_close(L);
}

static void expect_refusal(lua_State *L, int index, const moonpad_lua_run_options *options, const char *words) {
  moonpad_lua_run *started = (moonpad_lua_run *)&started;
  moonpad_error error = {MOONPAD_OK, ""};
  int top = lua_gettop(L);
  assert_int_equal(moonpad_lua_run_start(L, index, options, &started, &error), MOONPAD_INVALID_ARGUMENT);
  assert_null(started);
  if (strstr(error.message, words) == NULL) fail_msg("%s: not in: %s", words, error.message);
  assert_int_equal(moonpad_lua_run_start(L, index, options, &started, NULL), MOONPAD_INVALID_ARGUMENT);
  assert_int_equal(lua_gettop(L), top);
}

/*
** Of a later version's header, in a block of its own so that AddressSanitizer finds who reads
** beyond it.
*/
static void test_options_of_a_newer_program(void **context) {
  (void)context;
  lua_State *L = open_village();
  moonpad_error error;
  moonpad_lua_run *started;
  moonpad_lua_run_options known = options_for("a wolf"), *options = calloc(1, sizeof known + 16);
  assert_non_null(options);
  memcpy(options, &known, sizeof known);
  options->size = sizeof known + 16;
  assert_int_equal(moonpad_lua_run_start(L, 1, options, &started, &error), MOONPAD_OK);
  moonpad_lua_run_free(L, started);
  ((char *)options)[sizeof known + 15] = 1;
  assert_int_equal(moonpad_lua_run_start(L, 1, options, &started, &error), MOONPAD_UNSUPPORTED);
  assert_null(started);
  free(options);
  lua_close(L);
}

static void test_wrong_arguments(void **context) {
  (void)context;
  lua_State *L = open_village();
  moonpad_lua_run_options options = options_for("x");
  lua_pushstring(L, "runner");
  lua_newtable(L);
  expect_refusal(L, 2, &options, "no moonpad.runner");
  expect_refusal(L, 3, &options, "no moonpad.runner");
  expect_refusal(L, 9, &options, "no moonpad.runner");
  expect_refusal(L, 1, NULL, "moonpad_lua_run_options_init");
  static const size_t wrong[] = {0, 1, sizeof options - sizeof(size_t), sizeof options + 1, 1 << 20, SIZE_MAX};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    options.size = wrong[i];
    expect_refusal(L, 1, &options, "moonpad_lua_run_options_init");
  }
  options = options_for("x");
  options.user_id = moonpad_text("");
  expect_refusal(L, 1, &options, "userId");
  options = options_for("x");
  options.new_content = moonpad_text("{\"parts\":[]}");
  expect_refusal(L, 1, &options, "exclude each other");
  options.new_message = moonpad_text("");
  expect_refusal(L, 1, &options, "has no parts");
  options.new_content = moonpad_text("{\"parts\":[");
  expect_refusal(L, 1, &options, "byte");
  options = options_for("x");
  options.state_delta = moonpad_text("[1]x");
  expect_refusal(L, 1, &options, "byte");
  lua_close(L);
}

static void test_freed_early(void **context) {
  (void)context;
  lua_State *L = open_village();
  char text[1024];
  moonpad_lua_run_options options = options_for("a wolf");
  moonpad_lua_run_free(L, start_ok(L, &options));
  moonpad_lua_run *thought = start_ok(L, &options);
  assert_true(next_event(L, thought, text));
  moonpad_lua_run_free(L, thought);
  moonpad_lua_run_free(L, NULL);
  expect_state(L, "seen", NULL);
  /* One that is forgotten goes with its Lua state, also while it waits. */
  thought = start_ok(L, &options);
  assert_true(next_event(L, thought, text));
  assert_int_equal(step_ok(L, thought, NULL), MOONPAD_LUA_RUN_WAITING);
  lua_close(L);
}

static void test_two_at_once(void **context) {
  (void)context;
  lua_State *L = open_village();
  char text[1024];
  moonpad_lua_run_options options = options_for("a wolf");
  moonpad_lua_run *first = start_ok(L, &options), *second = start_ok(L, &options);
  /* it stands in line on the session */
  assert_int_equal(step_ok(L, second, NULL), MOONPAD_LUA_RUN_WAITING);
  while (next_event(L, first, text)) assert_non_null(strstr(text, "wolf"));
  while (next_event(L, second, text)) assert_non_null(strstr(text, "wolf"));
  moonpad_lua_run_free(L, first);
  moonpad_lua_run_free(L, second);
  lua_close(L);
}

static void fill_stack(lua_State *L) {
  while (lua_checkstack(L, 1)) lua_pushnil(L);
}

static void test_full_stack(void **context) {
  (void)context;
  lua_State *L = open_village();
  char text[1024];
  moonpad_lua_run *thought, *none;
  moonpad_lua_progress progress;
  moonpad_error error;
  moonpad_lua_run_options options = options_for("a wolf");
  thought = start_ok(L, &options);
  assert_true(next_event(L, thought, text));
  fill_stack(L);
  assert_int_equal(moonpad_lua_run_start(L, 1, &options, &none, &error), MOONPAD_NO_MEMORY);
  assert_null(none);
  assert_int_equal(moonpad_lua_run_step(L, thought, &progress, NULL, &error), MOONPAD_NO_MEMORY);
  assert_int_equal(moonpad_lua_run_cancel(L, thought, &error), MOONPAD_NO_MEMORY);
  lua_settop(L, 1);

  /* No call was made: the run can go on. */
  assert_int_equal(step_ok(L, thought, NULL), MOONPAD_LUA_RUN_WAITING);
  fill_stack(L);
  moonpad_lua_run_free(L, thought);
  lua_settop(L, 1);
  lua_gc(L, LUA_GCCOLLECT);

  /* It does not stand in the way of another one on its session. */
  thought = start_ok(L, &options);
  assert_true(next_event(L, thought, text));
  moonpad_lua_run_free(L, thought);
  lua_close(L);
}

/* ---- The host's clock and random bytes ---- */

static double tick(void *context) {
  double *seconds = context;
  return *seconds += 0.25;
}

static void count_up(void *context, unsigned char bytes[16]) {
  unsigned *count = context;
  memset(bytes, 0, 16);
  ++*count;
  memcpy(bytes, count, sizeof *count);
}

static const char troupe[] =
    "local function call(name) return { content = { parts = { { functionCall = { name = name, args = { request = 'go' "
    "} "
    "} } } } } end\n"
    "local inner = moonpad.agent { name = 'Inner', model = function(_, context)\n"
    "  context.state.inner = context.invocationId\n"
    "  return 'inner'\n"
    "end }\n"
    "local step = 0\n"
    "local star = moonpad.agent { name = 'Star', tools = { moonpad.agentTool { agent = inner } }, model = function()\n"
    "  step = step + 1\n"
    "  if step == 1 then return call 'Inner' end\n"
    "  local words = { 'one', ' two', ' three' }\n"
    "  return function() return table.remove(words, 1) end\n"
    "end }\n"
    "local plugin = { onEvent = function(_, event)\n"
    "  if event.author == 'Star' and #event:functionCalls() == 1 then\n"
    "    table.insert(event.content.parts, { functionCall = { name = 'Inner', args = { request = 'more' } } })\n"
    "    return event\n"
    "  end\n"
    "end }\n"
    "local runner = moonpad.runner { appName = 'app', sessionService = service, plugins = { plugin },\n"
    "  agent = moonpad.parallelAgent { name = 'Troupe', subAgents = { star } } }\n"
    "local told = {}\n"
    "for event in runner:run { userId = 'u', newMessage = 'go', stateDelta = { x = 1 } } do\n"
    "  told[#told + 1] = moonpad.json.encode(event)\n"
    "end\n"
    "local session = service:listSessions { appName = 'app' }[1]\n"
    "session = service:getSession { appName = 'app', userId = 'u', sessionId = session.id }\n"
    "for _, event in ipairs(session.events) do told[#told + 1] = moonpad.json.encode(event) end\n"
    "return session.id .. table.concat(told, '\\n')\n";

/* What a run tells and stores, in a Lua state and a service of its own. */
static char *play(void) {
  double seconds = 1000;
  unsigned count = 0;
  moonpad_options options;
  moonpad_options_init(&options);
  options.clock = tick;
  options.clock_context = &seconds;
  options.random = count_up;
  options.random_context = &count;
  moonpad_service *service = NULL;
  moonpad_error error;
  assert_int_equal(moonpad_open(moonpad_text("memory:"), &options, &service, &error), MOONPAD_OK);
  lua_State *L = new_state();
  moonpad_lua_push_service(L, service);
  lua_setglobal(L, "service");
  if (luaL_dostring(L, troupe) != LUA_OK) fail_msg("%s", luaL_tolstring(L, -1, NULL));
  char *told = strdup(lua_tostring(L, -1));
  lua_close(L);
  moonpad_service_release(service);
  return told;
}

static void test_runs_are_repeatable(void **context) {
  (void)context;
  char *first = play();
  char *second = play();
  assert_non_null(strstr(first, "moonpad-"));
  assert_non_null(strstr(first, "one two three"));
  assert_string_equal(first, second);
  free(first);
  free(second);
}

/* ---- Too little memory for what a script wants ---- */

/* Refuses blocks that are larger than what moonpad itself asks for. */
static void *allocate_small(void *context, void *block, size_t old_size, size_t size) {
  (void)context;
  (void)old_size;
  if (size > 4u << 20) return NULL;
  if (size > 0) return realloc(block, size);
  free(block);
  return NULL;
}

static const char hoard[] =
    "local function hoard() return ('x'):rep(8 << 20) end\n"
    "local function call(name) return { content = { parts = { { functionCall = { name = name, args = {} } } } } } end\n"
    "local places = {\n"
    "  tool = { tools = { { name = 'hoard', run = hoard } }, model = function() return call 'hoard' end },\n"
    "  model = { model = hoard },\n"
    "  stream = { model = function() return hoard end },\n"
    "  callback = { model = function() return 'x' end, beforeAgentCallback = hoard },\n"
    "  inner = { tools = { { name = 'ask', run = function(args, context)\n"
    "    return inner.run({ request = 'go' }, context)\n"
    "  end } }, model = function() return call 'ask' end },\n"
    "}\n"
    "inner = moonpad.agentTool { agent = moonpad.agent { name = 'Inner', model = hoard } }\n"
    "asked = 0\n"
    "function runnerOf(place)\n"
    "  local definition = places[place]\n"
    "  definition.name = 'A'\n"
    "  definition.onToolErrorCallback = function() asked = asked + 1 return 'never mind' end\n"
    "  return moonpad.runner { appName = 'village', agent = moonpad.agent(definition),\n"
    "    sessionService = moonpad.open 'memory:' }\n"
    "end\n";

static void test_lack_of_memory_is_told_as_such(void **context) {
  (void)context;
  const char *const places[] = {"tool", "model", "stream", "callback", "inner"};
  lua_State *L = lua_newstate(allocate_small, NULL);
  luaL_openlibs(L);
  luaL_requiref(L, "moonpad", luaopen_moonpad, 0);
  lua_setglobal(L, "moonpad");
  run(L, hoard);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    lua_settop(L, 0);
    lua_getglobal(L, "runnerOf");
    lua_pushstring(L, places[i]);
    lua_call(L, 1, 1);
    moonpad_lua_run_options options = options_for("go");
    moonpad_lua_run *thought = start_ok(L, &options);
    moonpad_lua_progress progress = MOONPAD_LUA_RUN_WAITING;
    moonpad_error error;
    moonpad_status status = MOONPAD_OK;
    while (status == MOONPAD_OK && progress != MOONPAD_LUA_RUN_DONE) {
      status = moonpad_lua_run_step(L, thought, &progress, NULL, &error);
    }
    if (status != MOONPAD_NO_MEMORY) print_error("%s: %s\n", places[i], status == MOONPAD_OK ? "" : error.message);
    assert_int_equal(status, MOONPAD_NO_MEMORY);
    moonpad_lua_run_free(L, thought);
  }
  lua_getglobal(L, "asked");
  assert_int_equal(lua_tointeger(L, -1), 0);
  lua_close(L);
}

/* ---- Every allocation of Lua failing in turn, one in seven without "all" (fault_steps.h) ---- */

static moonpad_status run_to_its_end(lua_State *L) {
  moonpad_lua_run_options options = options_for("a wolf");
  moonpad_lua_run *thought;
  moonpad_lua_progress progress = MOONPAD_LUA_RUN_WAITING;
  moonpad_error error;
  moonpad_status status = moonpad_lua_run_start(L, 1, &options, &thought, &error);
  while (status == MOONPAD_OK && progress != MOONPAD_LUA_RUN_DONE) {
    status = moonpad_lua_run_step(L, thought, &progress, NULL, &error);
  }
  moonpad_lua_run_free(L, thought);
  return status;
}

static moonpad_status run_with(failing *allocator, long fail_at) {
  lua_State *L = lua_newstate(failing_allocate, allocator);
  assert_non_null(L);
  luaL_openlibs(L);
  luaL_requiref(L, "moonpad", luaopen_moonpad, 0);
  lua_setglobal(L, "moonpad");
  run(L, village);
  lua_getglobal(L, "runner");
  /* what loads when it is first used has been loaded */
  assert_int_equal(run_to_its_end(L), MOONPAD_OK);
  allocator->count = 0;
  allocator->fail_at = fail_at;
  moonpad_status status = run_to_its_end(L);
  allocator->fail_at = 0;
  assert_int_equal(lua_gettop(L), 1);
  lua_close(L);
  assert_int_equal(allocator->live, 0);
  return status;
}

static void fail_each_in_turn(bool for_good) {
  failing allocator = {0, 0, 0, for_good};
  long stride = 7 * valgrind_stride();
  assert_int_equal(run_with(&allocator, 0), MOONPAD_OK);
  long total = allocator.count;
  assert_true(total > 100);
  for (long n = fault_in_turn(0, stride); n <= total; n = fault_in_turn(n, stride)) {
    moonpad_status status = run_with(&allocator, n);
    if (status != MOONPAD_OK) assert_int_equal(status, MOONPAD_NO_MEMORY);
    if (for_good && n < total / 2) assert_int_equal(status, MOONPAD_NO_MEMORY);
  }
}

static void test_allocations_failing_once(void **context) {
  (void)context;
  fail_each_in_turn(false);
}

static void test_allocations_failing_for_good(void **context) {
  (void)context;
  fail_each_in_turn(true);
}

static const char diary[] =
    "path = os.tmpname()\n"
    "service = moonpad.open('sqlite:' .. path)\n"
    "local agent = moonpad.agent { name = 'Mira', model = function(request, context)\n"
    "  context.state.days = (context.state.days or 0) + 1\n"
    "  return 'Dear diary'\n"
    "end }\n"
    "runner = moonpad.runner { appName = 'village', agent = agent, sessionService = service }\n";

/* Its runner is at 1 of the stack, its service at 2. */
static lua_State *open_diary(struct pollfd *waits) {
  lua_State *L = new_state();
  run(L, diary);
  lua_getglobal(L, "runner");
  lua_getglobal(L, "service");
  moonpad_error error;
  int fd;
  assert_int_equal(moonpad_lua_fd(L, 2, &fd, &error), MOONPAD_OK);
  *waits = (struct pollfd){.fd = fd, .events = POLLIN};
  return L;
}

static void close_diary(lua_State *L) {
  run(L, "service:close() os.remove(path) os.remove(path .. '-wal') os.remove(path .. '-shm')");
  moonpad_error error;
  assert_int_equal(moonpad_lua_fd(L, 2, &(int){0}, &error), MOONPAD_INVALID_ARGUMENT);
  lua_close(L);
}

static void test_tells_when_to_step(void **context) {
  (void)context;
  struct pollfd waits;
  lua_State *L = open_diary(&waits);
  moonpad_error error;
  assert_int_equal(moonpad_lua_fd(L, 1, &(int){0}, &error), MOONPAD_INVALID_ARGUMENT);
  assert_int_equal(poll(&waits, 1, 0), 0);
  moonpad_lua_run_options options = options_for("dawn");
  moonpad_lua_run *started = start_ok(L, &options);
  moonpad_lua_progress progress;
  int waited = 0, events = 0;
  do {
    moonpad_status status = moonpad_lua_run_step(L, started, &progress, NULL, &error);
    if (status != MOONPAD_OK) fail_msg("%s", error.message);
    if (progress == MOONPAD_LUA_RUN_EVENT) events++;
    if (progress != MOONPAD_LUA_RUN_WAITING) continue;
    waited++;
    assert_int_equal(poll(&waits, 1, TIMEOUT_MS), 1);
  } while (progress != MOONPAD_LUA_RUN_DONE);
  assert_int_equal(events, 1);
  assert_true(waited >= 3); /* the session, the message, the answer */
  assert_int_equal(poll(&waits, 1, 0), 0);
  moonpad_lua_run_free(L, started);
  close_diary(L);
}

/* Two runs on one session, of which the second is stepped first. */
static void test_tells_when_the_next_run_can_begin(void **context) {
  (void)context;
  struct pollfd waits;
  lua_State *L = open_diary(&waits);
  moonpad_error error;
  moonpad_lua_run_options dawn = options_for("dawn"), noon = options_for("noon");
  moonpad_lua_run *second, *first = start_ok(L, &dawn);
  moonpad_lua_run *runs[] = {second = start_ok(L, &noon), first};
  int left = 2;
  while (left > 0) {
    for (int i = 0; i < 2; i++) {
      moonpad_lua_progress progress = MOONPAD_LUA_RUN_EVENT;
      while (runs[i] != NULL && progress == MOONPAD_LUA_RUN_EVENT) {
        moonpad_status status = moonpad_lua_run_step(L, runs[i], &progress, NULL, &error);
        if (status != MOONPAD_OK) fail_msg("%s", error.message);
      }
      if (runs[i] == NULL || progress != MOONPAD_LUA_RUN_DONE) continue;
      runs[i] = NULL;
      left--;
    }
    if (left > 0) assert_int_equal(poll(&waits, 1, TIMEOUT_MS), 1);
  }
  assert_int_equal(poll(&waits, 1, 0), 0);
  moonpad_lua_run_free(L, first);
  moonpad_lua_run_free(L, second);
  close_diary(L);
}

/* It answers how much it was shown. */
static const char forgetful[] =
    "local service = moonpad.open('memory:', { numRecentEvents = 2 })\n"
    "local agent = moonpad.agent { name = 'Mira', model = function(request) return 'saw ' .. #request.contents end }\n"
    "runner = moonpad.runner { appName = 'village', agent = agent, sessionService = service }\n";

static void test_how_much_history_a_run_sees(void **context) {
  (void)context;
  static const int64_t given[] = {MOONPAD_DEFAULT, MOONPAD_DEFAULT, MOONPAD_DEFAULT, MOONPAD_ALL_EVENTS, 0, INT64_MAX};
  static const char *const seen[] = {"saw 1\"", "saw 3\"", "saw 3\"", "saw 3\"", "saw 1\"", "saw 11\""};
  char text[1024];
  lua_State *L = new_state();
  run(L, forgetful);
  lua_getglobal(L, "runner");
  for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
    moonpad_lua_run_options options = options_for("Hello");
    assert_true(options.num_recent_events == MOONPAD_DEFAULT);
    options.num_recent_events = given[i];
    moonpad_lua_run *answered = start_ok(L, &options);
    assert_true(next_event(L, answered, text));
    if (strstr(text, seen[i]) == NULL) fail_msg("run %zu: %s", i, text);
    assert_false(next_event(L, answered, text));
    moonpad_lua_run_free(L, answered);
  }
  lua_close(L);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tells_when_to_step),
      cmocka_unit_test(test_tells_when_the_next_run_can_begin),
      cmocka_unit_test(test_whole_run),
      cmocka_unit_test(test_how_much_history_a_run_sees),
      cmocka_unit_test(test_event_that_removes),
      cmocka_unit_test(test_content_as_json),
      cmocka_unit_test(test_cancelling),
      cmocka_unit_test(test_failing_scripts),
      cmocka_unit_test(test_options_of_a_newer_program),
      cmocka_unit_test(test_wrong_arguments),
      cmocka_unit_test(test_freed_early),
      cmocka_unit_test(test_two_at_once),
      cmocka_unit_test(test_full_stack),
      cmocka_unit_test(test_runs_are_repeatable),
      cmocka_unit_test(test_lack_of_memory_is_told_as_such),
      cmocka_unit_test(test_allocations_failing_once),
      cmocka_unit_test(test_allocations_failing_for_good),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
