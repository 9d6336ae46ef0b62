/*
** Eight threads with a Lua state each share one service: nothing is lost, and whoever reads sees
** whole events.
*/
#include "lua_support.h"
#include "scope.h"
#include "shared_service.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, ROUNDS = 40 };

typedef struct worker {
  moonpad_service *service;
  const char *program; /* called with the service, the worker's number, THREADS and ROUNDS */
  int number;
  bool appends_later; /* asynchronous appends from C beside the program */
  char failed[600];   /* what went wrong; empty: nothing */
} worker;

/* ---- Opening ---- */

static int setup_memory(void **state) {
  *state = shared_open(false);
  return 0;
}

static int setup_file(void **state) {
  *state = shared_open(true);
  return 0;
}

/* ---- Workers: cmocka's assertions are for the main thread alone ---- */

static atomic_int completed, broken;

static void count_completion(void *context, moonpad_session *session, const moonpad_event *event,
                             const moonpad_error *error) {
  (void)context;
  (void)session;
  (void)event;
  if (error != NULL && error->code != MOONPAD_OK) atomic_fetch_add(&broken, 1);
  atomic_fetch_add(&completed, 1);
}

/*
** On a session of the worker's own. Freeing it waits for what is under way; the callbacks come when
** the main thread polls.
*/
static void append_later(worker *self) {
  char id[16];
  moonpad_error error = {MOONPAD_OK, ""};
  snprintf(id, sizeof id, "async %d", self->number);
  moonpad_session_name name = {{"app", 3}, {"u", 1}, moonpad_text(id)};
  moonpad_session *session = NULL;
  moonpad_status status = moonpad_create_session(self->service, &name, moonpad_text(""), &session, &error);
  for (int i = 0; status == MOONPAD_OK && i < ROUNDS; i++) {
    moonpad_changes *changes = NULL;
    moonpad_value one = moonpad_integer(1);
    status = moonpad_session_changes(session, &changes, &error);
    if (status == MOONPAD_OK) status = moonpad_changes_increment(changes, moonpad_text("n"), &one, &error);
    if (status == MOONPAD_OK) status = moonpad_changes_increment(changes, moonpad_text("user:later"), &one, &error);
    if (status == MOONPAD_OK) {
      status =
          moonpad_changes_commit_async(changes, moonpad_text("{\"author\":\"c\"}"), count_completion, NULL, &error);
    }
  }
  moonpad_session_free(session);
  if (status != MOONPAD_OK) snprintf(self->failed, sizeof self->failed, "asynchronous: %.500s", error.message);
}

static int start_program(lua_State *L) {
  worker *self = lua_touserdata(L, 1);
  luaL_openlibs(L);
  luaL_requiref(L, "moonpad", luaopen_moonpad, 1);
  if (luaL_loadstring(L, self->program) != LUA_OK) return lua_error(L);
  moonpad_lua_push_service(L, self->service);
  lua_pushinteger(L, self->number);
  lua_pushinteger(L, THREADS);
  lua_pushinteger(L, ROUNDS);
  lua_call(L, 4, 0);
  return 0;
}

static void *run_worker(void *argument) {
  worker *self = argument;
  lua_State *L = luaL_newstate();
  if (L == NULL) {
    snprintf(self->failed, sizeof self->failed, "no Lua state");
    return NULL;
  }
  lua_pushcfunction(L, start_program);
  lua_pushlightuserdata(L, self);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    snprintf(self->failed, sizeof self->failed, "%.500s", luaL_tolstring(L, -1, NULL));
  }
  if (self->failed[0] == '\0' && self->appends_later) append_later(self);
  lua_close(L);
  return NULL;
}

/* `programs` has one for each thread. */
static void run_workers(shared_service *opened, const char *const programs[THREADS], bool appends_later) {
  pthread_t threads[THREADS];
  static worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){opened->service, programs[i], i, appends_later, ""};
    assert_int_equal(pthread_create(&threads[i], NULL, run_worker, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    if (workers[i].failed[0] != '\0') fail_msg("thread %d: %s", i, workers[i].failed);
  }
}

static void run_everywhere(shared_service *opened, const char *program, bool appends_later) {
  const char *programs[THREADS];
  for (int i = 0; i < THREADS; i++) programs[i] = program;
  run_workers(opened, programs, appends_later);
}

/* Runs a program on this thread, before or after the workers. */
static void run_here(shared_service *opened, const char *program) {
  worker self = {opened->service, program, -1, false, ""};
  run_worker(&self);
  if (self.failed[0] != '\0') fail_msg("%s", self.failed);
}

static const char make_session[] = "local service = ...\n"
                                   "service:createSession { appName = 'app', userId = 'u', sessionId = 's' }\n";

/* ---- Appends, reads and increments of everybody on one session ---- */

static const char write_and_read[] =
    "local service, me, threads, rounds = ...\n"
    "local name = { appName = 'app', userId = 'u', sessionId = 's' }\n"
    "local session = service:getSession(name)\n"
    "for round = 1, rounds do\n"
    "  local state = session.state\n"
    "  state:increment 'n' state:increment 'user:n' state:increment 'app:n'\n"
    "  state:append('log', { me, round })\n"
    "  state['of ' .. me] = { round = round }\n"
    "  local event = service:updateSession(session)\n"
    "  assert(session.revision == event.revision and state['of ' .. me].round == round)\n"
    "  service:appendEvent(session, { author = 'w' .. me, customMetadata = { round = round },\n"
    "    actions = { stateDelta = { ['user:by ' .. me] = round, ['temp:x'] = 1 } } })\n"
    "  service:incrementState { appName = 'app', userId = 'u', key = 'direct' }\n"
    "  service:incrementState { appName = 'app', key = 'direct' }\n"
    "  local fresh = service:getSession(name)\n"
    "  assert(fresh.revision >= session.revision and fresh.state['user:by ' .. me] == round)\n"
    "  assert(#fresh.events == fresh.revision and fresh.events[#fresh.events].revision == fresh.revision)\n"
    "  assert(service:getUserState { appName = 'app', userId = 'u' }['by ' .. me] == round)\n"
    "  assert(service:getAppState { appName = 'app' }.n >= round)\n"
    "end\n";

static const char check_history[] =
    "local service, _, threads, rounds = ...\n"
    "local session = service:getSession { appName = 'app', userId = 'u', sessionId = 's' }\n"
    "local state, total, seen = session.state, threads * rounds, {}\n"
    "assert(session.revision == 2 * total and #session.events == 2 * total)\n"
    "for _, key in ipairs { 'n', 'user:n', 'app:n', 'user:direct', 'app:direct' } do assert(state[key] == total, key) "
    "end\n"
    "assert(#state.log == total)\n"
    "for _, item in ipairs(state.log) do\n"
    "  assert(item[2] == (seen[item[1]] or 0) + 1)\n"
    "  seen[item[1]] = item[2]\n"
    "end\n"
    "local ids, last = {}, {}\n"
    "for index, event in ipairs(session.events) do\n"
    "  assert(event.revision == index and not ids[event.id])\n"
    "  ids[event.id] = true\n"
    "  if event.customMetadata then\n"
    "    local round = event.customMetadata.round\n"
    "    assert(round == (last[event.author] or 0) + 1)\n"
    "    last[event.author] = round\n"
    "  end\n"
    "end\n"
    "for thread = 0, threads - 1 do\n"
    "  assert(seen[thread] == rounds and last['w' .. thread] == rounds and state['of ' .. thread].round == rounds)\n"
    "end\n";

static void test_states_share_a_session(void **state) {
  shared_service *opened = *state;
  run_here(opened, make_session);
  run_everywhere(opened, write_and_read, false);
  run_here(opened, check_history);
}

/* ---- What one event wrote together is read together ---- */

/* Only one may set: the others would conflict with it. Everybody can add. */
static const char write_together[] =
    "local service, me, threads, rounds = ...\n"
    "local session = service:getSession { appName = 'app', userId = 'u', sessionId = 's' }\n"
    /* Also when this one fails: the readers go on until all have ended. */
    "local ended <close> = setmetatable({}, { __close = function()\n"
    "  service:updateUserState { appName = 'app', userId = 'u', state = { ['done ' .. me] = true } }\n"
    "end })\n"
    "for round = 1, rounds do\n"
    "  local state = session.state\n"
    "  for _, prefix in ipairs { '', 'user:', 'app:' } do\n"
    "    state:increment(prefix .. 'n')\n"
    "    if me == 0 then state[prefix .. 'mark'] = { round, { round } } end\n"
    "  end\n"
    "  service:updateSession(session)\n"
    "end\n";

static const char read_together[] =
    "local service, me, threads, rounds = ...\n"
    "local name = { appName = 'app', userId = 'u', sessionId = 's' }\n"
    "local kept, last, looks = service:getSession(name), 0, 0\n"
    "local function same(session, what)\n"
    "  local state = session.state:getAll()\n"
    "  local n = state.n or 0\n"
    "  assert(n == (state['user:n'] or 0) and n == (state['app:n'] or 0) and n == session.revision, what)\n"
    "  if state.mark then\n"
    "    for _, key in ipairs { 'mark', 'user:mark', 'app:mark' } do\n"
    "      local value = state[key]\n"
    "      assert(#value == 2 and value[1] == value[2][1] and value[1] == state.mark[1], what)\n"
    "    end\n"
    "  else\n"
    "    assert(not state['user:mark'] and not state['app:mark'], what)\n"
    "  end\n"
    "  assert(n >= last, what)\n"
    "  last = n\n"
    "end\n"
    "local function writing(user)\n"
    "  for writer = 0, threads // 2 - 1 do if not user['done ' .. writer] then return true end end\n"
    "end\n"
    "repeat\n"
    "  local user = service:getUserState { appName = 'app', userId = 'u' }\n"
    "  assert((user.n or 0) >= last)\n"
    "  local session = service:getSession(name)\n"
    "  same(session, 'getSession')\n"
    "  local count = #session.events\n"
    "  assert(count == session.revision)\n"
    "  if count > 0 then\n"
    "    local delta = session.events[count].actions.stateDelta\n"
    "    assert(delta.n == count and delta['user:n'] == count and delta['app:n'] == count, 'an event in part')\n"
    "    assert(service:stateAt(session, count).n == count, 'stateAt')\n"
    "  end\n"
    "  same(service:refresh(kept), 'refresh')\n"
    "  same(service:listSessions { appName = 'app' }[1], 'listSessions')\n"
    "  same(service:listSessions { appName = 'app', userId = 'u', limit = 1 }[1], 'a page of listSessions')\n"
    "  looks = looks + 1\n"
    "until not writing(user)\n"
    "assert(service:refresh(kept).revision == threads // 2 * rounds)\n"
    "same(kept, 'the end')\n";

static void test_readers_see_whole_events(void **state) {
  shared_service *opened = *state;
  const char *programs[THREADS];
  for (int i = 0; i < THREADS; i++) programs[i] = i < THREADS / 2 ? write_together : read_together;
  run_here(opened, make_session);
  run_workers(opened, programs, false);
}

/* ---- Asynchronous appends from C beside Lua states ---- */

static const char write_own[] = "local service, me, threads, rounds = ...\n"
                                "local session = service:createSession { appName = 'app', userId = 'u' }\n"
                                "for round = 1, rounds do\n"
                                "  session.state:increment 'user:now'\n"
                                "  service:updateSession(session)\n"
                                "end\n";

static const char check_own[] =
    "local service, _, threads, rounds = ...\n"
    "local user = service:getUserState { appName = 'app', userId = 'u' }\n"
    "assert(user.now == threads * rounds and user.later == threads * rounds)\n"
    "for thread = 0, threads - 1 do\n"
    "  local session = service:getSession { appName = 'app', userId = 'u', sessionId = 'async ' .. thread }\n"
    "  assert(session.state.n == rounds and session.revision == rounds)\n"
    "end\n"
    "assert(#service:listSessions { appName = 'app' } == 2 * threads)\n";

static void test_asynchronous_appends_beside_states(void **state) {
  shared_service *opened = *state;
  atomic_store(&completed, 0);
  atomic_store(&broken, 0);
  run_everywhere(opened, write_own, true);
  while (atomic_load(&completed) < THREADS * ROUNDS && moonpad_poll(opened->service, TIMEOUT_MS) > 0) continue;
  assert_int_equal(atomic_load(&completed), THREADS * ROUNDS);
  assert_int_equal(atomic_load(&broken), 0);
  run_here(opened, check_own);
}

/*
** ---- Asynchronous appends of every state: each polls its own, and leaves some when it is
** closed ----
*/

static const char append_and_poll[] =
    "local service, me, threads, rounds = ...\n"
    "local session = service:createSession { appName = 'app', userId = 'u', sessionId = 'own ' .. me }\n"
    "local pendings, done = {}, 0\n"
    "for round = 1, rounds do\n"
    "  session.state.n = round\n"
    "  session.state:increment 'user:n'\n"
    "  pendings[round] = service:updateSessionAsync(session)\n"
    "  if round % 3 == 0 then done = done + service:poll() end\n"
    "end\n"
    "while done < rounds do\n"
    "  local some, failed = service:poll(" TIMEOUT_TEXT ")\n"
    "  assert(some > 0 and failed == 0)\n"
    "  done = done + some\n"
    "end\n"
    "assert(done == rounds and service:poll() == 0)\n"
    "for round = 1, rounds do assert(pendings[round]:result().revision == round) end\n"
    "for round = 1, rounds do service:appendEventAsync(session, { author = 'left' }) end\n";

static void test_every_state_polls_what_is_its_own(void **state) {
  shared_service *opened = *state;
  run_everywhere(opened, append_and_poll, false);
  assert_int_equal(moonpad_poll(opened->service, 0), 0);
  run_here(opened, "local service, _, threads, rounds = ...\n"
                   "assert(service:getUserState { appName = 'app', userId = 'u' }.n == threads * rounds)\n"
                   "for _, session in ipairs(service:listSessions { appName = 'app' }) do\n"
                   "  assert(session.revision == 2 * rounds and session.state.n == rounds)\n"
                   "end\n");
}

/* ---- Agents ---- */

static const char run_agent[] =
    "local service, me, threads, rounds = ...\n"
    "local moonpad = require 'moonpad'\n"
    "local count = moonpad.tool { name = 'count', description = 'Counts', run = function(args, context)\n"
    "  context.state:increment 'app:calls'\n"
    "  context.state.mine = args.number\n"
    "  return { ok = true }\n"
    "end }\n"
    "local agent = moonpad.agent { name = 'Counter', tools = { count }, instruction = 'Mine: {mine?}', outputKey = "
    "'said',\n"
    "  model = function(request)\n"
    "    local last = request.contents[#request.contents].parts[1]\n"
    "    if last.functionResponse then return 'counted ' .. request.systemInstruction end\n"
    "    return { content = { role = 'model', parts = {\n"
    "      { functionCall = { name = 'count', args = { number = tonumber(last.text) } } } } } }\n"
    "  end }\n"
    "local runner = moonpad.runner { appName = 'app', agent = agent, sessionService = service }\n"
    "local runs = rounds // 4\n"
    "for run = 1, runs do\n"
    "  for _ in runner:run { userId = 'u' .. me, sessionId = 's', newMessage = tostring(run) } do end\n"
    "end\n"
    "local session = service:getSession { appName = 'app', userId = 'u' .. me, sessionId = 's' }\n"
    "assert(session.state.mine == runs and session.revision == 4 * runs and session.conversationCount == runs)\n"
    "assert(session.state.said:find(tostring(runs), 1, true))\n";

static void test_agents_in_every_state(void **state) {
  shared_service *opened = *state;
  run_everywhere(opened, run_agent, false);
  run_here(opened, "local service, _, threads, rounds = ...\n"
                   "assert(service:getAppState { appName = 'app' }.calls == threads * (rounds // 4))\n");
}

#define ON_EVERY_STORE(test)                                                                                           \
  {#test " on memory:", test, setup_memory, shared_close, NULL}, {                                                     \
#test " on sqlite:", test, setup_file, shared_close, NULL                                                          \
  }

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_states_share_a_session),
      ON_EVERY_STORE(test_readers_see_whole_events),
      ON_EVERY_STORE(test_asynchronous_appends_beside_states),
      ON_EVERY_STORE(test_every_state_polls_what_is_its_own),
      ON_EVERY_STORE(test_agents_in_every_state),
  };
  SCOPE_LEAVE_OUT_FILES();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
