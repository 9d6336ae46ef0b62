/*
** Artifacts and memories on servers, where a network fails and where several make the tables: round
** trips are counted, requests and answers lost. spec/c/link.h stands between. What is of Redis
** alone is in test_agent_redis.c.
*/
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent_scene.h"
#include "link.h"
#include "mysql_support.h"
#include "redis_support.h"

#define COUNT(array)     (sizeof(array) / sizeof *(array))
#define IS(status, call) assert_int_equal(call, status)

static moonpad_error failure;

/* ---- the servers ---- */

typedef struct agent_server {
  const char *scheme;
  const char *options; /* at the end of a URL over a link */
  int write_trips;     /* of memories */
  int sweep_trips[2];  /* of files, of memories */
  const char *limit;   /* a word of the message */
  /* with tables */
  const char *elsewhere; /* at the end of a URL: another place, without tables */
  const char *prefix;    /* of names */
  void (*run)(const char *rest, const char *sql);
  long (*number)(const char *rest, const char *sql); /* that a query answers */
} agent_server;

static void run_on_postgres(const char *rest, const char *sql) {
  server_connection *connection = server_connect(rest);
  server_run(connection, sql);
  server_disconnect(connection);
}

static long number_on_postgres(const char *rest, const char *sql) {
  server_connection *connection = server_connect(rest);
  long number = server_number(connection, sql);
  server_disconnect(connection);
  return number;
}

static const agent_server servers[] = {
    {"postgresql:",
     "&sslmode=disable&gssencmode=disable",
     1,
     {2, 6},
     "1 GiB",
     "_once",
     "",
     run_on_postgres,
     number_on_postgres},
    {"mysql:", "?ssl=off", 2, {2, 6}, "max_allowed_packet", "?prefix=once_", "moonpad_", mysql_run, mysql_number},
    {"redis:", "", 1, {3, 3}, "512 MiB", NULL, NULL, NULL, NULL},
};

static const agent_server *server; /* under test */

/* ---- a server behind a link ---- */

typedef struct fixture {
  mp_env *env;
  char rest[256]; /* of a URL of the server itself */
  char url[256];  /* over the link */
  test_link *link;
  agent_scene scene;
} fixture;

static int set_up(void **state) {
  fixture *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->env = mp_env_new(NULL);
  server_make_url(server_of(server->scheme), self->rest, sizeof self->rest);
  char *port = strstr(self->rest, "127.0.0.1:") + strlen("127.0.0.1:"), *behind = port + strspn(port, "0123456789");
  self->link = link_open(atoi(port));
  assert_non_null(self->link);
  snprintf(self->url, sizeof self->url, "%s%.*s%d%s%s", server->scheme, (int)(port - self->rest), self->rest,
           link_port(self->link), behind, server->options);
  scene_open(&self->scene, self->env, self->url);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  fixture *self = *state;
  link_mend(self->link);
  scene_close(&self->scene);
  link_close(self->link);
  server_forget_url(self->rest);
  mp_env_release(self->env);
  free(self);
  return 0;
}

/* ---- SQL of a test's own ---- */

/* Each # is the prefix of names. */
static const char *expand(const char *sql, char *text, size_t size) {
  size_t length = 0;
  for (; *sql != '\0'; sql++) {
    bool is_name = *sql == '#';
    length +=
        (size_t)snprintf(text + length, size - length, "%.*s%s", is_name ? 0 : 1, sql, is_name ? server->prefix : "");
  }
  return text;
}

static void run_sql(const fixture *self, const char *sql) {
  char text[512];
  server->run(self->rest, expand(sql, text, sizeof text));
}

static void expect_none(const fixture *self, const char *sql) {
  char text[512];
  long found = server->number(self->rest, expand(sql, text, sizeof text));
  if (found != 0) fail_msg("%ld of: %s", found, sql);
}

/* ---- one call of each kind; each writes its answer ---- */

typedef void agent_call(const agent_scene *scene, char *answer);

static const mp_agent_time lasting = {1000, 500}; /* what was last used before 500 has expired */

static void call_save(const agent_scene *scene, char *answer) {
  int64_t version;
  IS(MOONPAD_OK, save_text(scene, "s", "f", "third", &version, &failure));
  sprintf(answer, "%d", (int)version);
}

static void call_load(const agent_scene *scene, char *answer) {
  mp_artifact_name name = file_named("s", "f");
  mp_artifact artifact;
  mp_buffer bytes;
  bool found;
  mp_buffer_init(&bytes, scene->env);
  IS(MOONPAD_OK, scene->artifacts->ops->load(scene->artifacts, &name, &for_ever, MP_ARTIFACT_LATEST, &found, &artifact,
                                             &bytes, &failure));
  sprintf(answer, "%.*s", (int)artifact.data.length, artifact.data.data);
  mp_buffer_free(&bytes);
}

static void call_list(const agent_scene *scene, char *answer) {
  mp_artifact_name name = file_named("s", "f");
  mp_buffer found;
  mp_buffer_init(&found, scene->env);
  IS(MOONPAD_OK, scene->artifacts->ops->list(scene->artifacts, &name, &for_ever, &found, &failure));
  sprintf(answer, "%s %zu", found.data, found.length);
  mp_buffer_free(&found);
}

static void call_versions(const agent_scene *scene, char *answer) {
  mp_artifact_name name = file_named("s", "f");
  mp_buffer found;
  mp_buffer_init(&found, scene->env);
  IS(MOONPAD_OK, scene->artifacts->ops->versions(scene->artifacts, &name, &for_ever, &found, &failure));
  sprintf(answer, "%zu", found.length / sizeof(int64_t));
  mp_buffer_free(&found);
}

static void call_delete(const agent_scene *scene, char *answer) {
  mp_artifact_name name = file_named("s", "f");
  bool existed;
  IS(MOONPAD_OK, scene->artifacts->ops->delete_file(scene->artifacts, &name, &for_ever, &existed, &failure));
  sprintf(answer, "%d", existed);
}

static void call_delete_user(const agent_scene *scene, char *answer) {
  mp_artifact_name name = file_named("", "");
  int64_t files;
  IS(MOONPAD_OK, scene->artifacts->ops->delete_user(scene->artifacts, &name, &for_ever, &files, &failure));
  sprintf(answer, "%d", (int)files);
}

static int64_t swept; /* since fill() */

static void call_sweep_files(const agent_scene *scene, char *answer) {
  int64_t files;
  IS(MOONPAD_OK, scene->artifacts->ops->sweep(scene->artifacts, &lasting, &files, &failure));
  swept += files;
  sprintf(answer, "%d", (int)swept);
}

static void call_indexed(const agent_scene *scene, char *answer) {
  int64_t revision;
  IS(MOONPAD_OK, scene->memories->ops->indexed(scene->memories, &session_of_ann, &revision, &failure));
  sprintf(answer, "%d", (int)revision);
}

static moonpad_status write_entry(const agent_scene *scene, int64_t revision, const char *text, int64_t removed) {
  mp_memories_entry entry = entry_of(revision, text);
  mp_memories_batch batch = {&entry, 1, &removed, 1, revision};
  return scene->memories->ops->write(scene->memories, &session_of_ann, &for_ever, &batch, &failure);
}

static void call_write(const agent_scene *scene, char *answer) {
  IS(MOONPAD_OK, write_entry(scene, 3, "third-tea", 2));
  strcpy(answer, "written");
}

static void call_search(const agent_scene *scene, char *answer) {
  mp_buffer matches;
  mp_memories_match match;
  size_t at = 0;
  mp_buffer_init(&matches, scene->env);
  IS(MOONPAD_OK, search_for(scene, "ann", "tea", 1, &matches, &failure));
  assert_true(mp_memories_next_match(&matches, &at, &match));
  sprintf(answer, "%.*s", (int)match.content.length, match.content.data);
  mp_buffer_free(&matches);
}

static void call_delete_memory(const agent_scene *scene, char *answer) {
  mp_buffer matches;
  mp_memories_match match;
  size_t at = 0;
  bool existed;
  mp_buffer_init(&matches, scene->env);
  IS(MOONPAD_OK, search_for(scene, "ann", "second", 1, &matches, &failure));
  assert_true(mp_memories_next_match(&matches, &at, &match));
  IS(MOONPAD_OK,
     scene->memories->ops->delete_memory(scene->memories, &all_of_ann, match.id, &for_ever, &existed, &failure));
  mp_buffer_free(&matches);
  sprintf(answer, "%d", existed);
}

static void call_delete_all(const agent_scene *scene, char *answer) {
  int64_t count;
  IS(MOONPAD_OK, scene->memories->ops->delete_all(scene->memories, &all_of_ann, &for_ever, &count, &failure));
  sprintf(answer, "%d", (int)count);
}

static void call_sweep_memories(const agent_scene *scene, char *answer) {
  int64_t count;
  IS(MOONPAD_OK, scene->memories->ops->sweep(scene->memories, &lasting, &count, &failure));
  swept += count;
  sprintf(answer, "%d", (int)swept);
}

/*
** How many round trips each takes: two where something is changed and has an answer. Some servers
** differ.
*/
enum { OF_WRITE = -3, OF_SWEEP_FILES, OF_SWEEP_MEMORIES };

static const struct {
  const char *name;
  agent_call *run;
  int trips;
} calls[] = {{"save", call_save, 2},
             {"load", call_load, 1},
             {"list", call_list, 1},
             {"versions", call_versions, 1},
             {"delete", call_delete, 2},
             {"delete user", call_delete_user, 2},
             {"sweep files", call_sweep_files, OF_SWEEP_FILES},
             {"indexed", call_indexed, 1},
             {"write", call_write, OF_WRITE},
             {"search", call_search, 2},
             {"delete memory", call_delete_memory, 4}, /* with the search for its id */
             {"delete all", call_delete_all, 2},
             {"sweep memories", call_sweep_memories, OF_SWEEP_MEMORIES}};

static int expected_trips(int trips) {
  if (trips == OF_WRITE) return server->write_trips;
  return trips > 0 ? trips : server->sweep_trips[trips == OF_SWEEP_MEMORIES];
}

/* What the calls find: two versions of one file, two memories. */
static void fill(const agent_scene *scene) {
  int64_t version, count;
  mp_artifact_name name = file_named("", "");
  IS(MOONPAD_OK, scene->artifacts->ops->delete_user(scene->artifacts, &name, &for_ever, &count, &failure));
  IS(MOONPAD_OK, scene->memories->ops->delete_all(scene->memories, &all_of_ann, &for_ever, &count, &failure));
  IS(MOONPAD_OK, save_text(scene, "s", "f", "first", &version, &failure));
  IS(MOONPAD_OK, save_text(scene, "s", "f", "second", &version, &failure));
  IS(MOONPAD_OK, write_entry(scene, 1, "first-tea", 0));
  IS(MOONPAD_OK, write_entry(scene, 2, "second-tea", 0));
  swept = 0;
}

static void test_round_trips(void **state) {
  const fixture *self = *state;
  char answer[128];
  for (int round = 0; round < 2; round++) { /* in the first, statements are prepared */
    for (size_t i = 0; i < COUNT(calls); i++) {
      fill(&self->scene);
      long before = link_round_trips(self->link);
      calls[i].run(&self->scene, answer);
      long trips = link_round_trips(self->link) - before;
      int expected = expected_trips(calls[i].trips);
      if (trips != expected) fail_msg("%s: %ld round trips, not %d", calls[i].name, trips, expected);
    }
  }
}

/* ---- what is lost takes effect once ---- */

/* The answer of a call, and what is stored after it. */
typedef struct outcome {
  char answer[128], versions[128], indexed[128];
  char rest[288]; /* found by deleting it */
} outcome;

static void look(const agent_scene *scene, outcome *found) {
  call_versions(scene, found->versions);
  call_indexed(scene, found->indexed);
}

/* But for the rest, which has not been looked for yet. */
static bool is_as_expected(const outcome *found, const outcome *expected) {
  return strcmp(found->answer, expected->answer) == 0 && strcmp(found->versions, expected->versions) == 0 &&
         strcmp(found->indexed, expected->indexed) == 0;
}

static bool is_sweep(size_t call) {
  return strncmp(calls[call].name, "sweep", strlen("sweep")) == 0;
}

/*
** A sweep takes what others have locked for used, and leaves it to the next sweep. A transaction
** whose connection is lost holds its locks until the server notices.
*/
static void sweep_the_rest(const agent_scene *scene, size_t call, const outcome *expected, outcome *found) {
  double limit = time_limit();
  while (is_sweep(call) && !is_as_expected(found, expected) && wait_before(limit)) {
    calls[call].run(scene, found->answer);
    look(scene, found);
  }
}

static void delete_the_rest(const agent_scene *scene, outcome *found) {
  char memories[128], files[128];
  call_delete_all(scene, memories);
  call_delete_user(scene, files);
  snprintf(found->rest, sizeof found->rest, "%s memories, %s files", memories, files);
}

/* False: the call has fewer round trips. */
static bool lose_round_trip(const fixture *self, size_t call, link_fault fault, int n, const outcome *expected) {
  outcome found;
  fill(&self->scene);
  link_break(self->link, fault, n);
  calls[call].run(&self->scene, found.answer);
  bool has_broken = link_has_broken(self->link);
  link_mend(self->link);
  look(&self->scene, &found);
  sweep_the_rest(&self->scene, call, expected, &found);
  delete_the_rest(&self->scene, &found);
  if (is_as_expected(&found, expected) && strcmp(found.rest, expected->rest) == 0) return has_broken;
  fail_msg("%s, %s of round trip %d lost: %s, %s versions, indexed %s, %s; not %s, %s, %s, %s", calls[call].name,
           fault == LINK_CUT_ANSWER ? "answer" : "request", n, found.answer, found.versions, found.indexed, found.rest,
           expected->answer, expected->versions, expected->indexed, expected->rest);
  return false;
}

static void lose_round_trips(const fixture *self, size_t call, link_fault fault) {
  outcome expected;
  int n = 1;
  fill(&self->scene);
  calls[call].run(&self->scene, expected.answer);
  look(&self->scene, &expected);
  delete_the_rest(&self->scene, &expected);
  while (lose_round_trip(self, call, fault, n, &expected)) n++;
  assert_true(n > 1);
}

static void test_what_is_lost_takes_effect_once(void **state) {
  const fixture *self = *state;
  for (size_t call = 0; call < COUNT(calls); call++) {
    lose_round_trips(self, call, LINK_CUT_ANSWER);
    lose_round_trips(self, call, LINK_CUT_REQUEST);
  }
}

/* ---- many at once ---- */

#define CHANGERS 4
#define CHANGES  120

typedef struct changer {
  const agent_scene *scene;
  unsigned seed;
  int failures;
  moonpad_error error; /* of one */
  pthread_t thread;
} changer;

static moonpad_status delete_some_memory(const agent_scene *scene, unsigned number, moonpad_error *error) {
  char id[16];
  bool existed;
  snprintf(id, sizeof id, "%u", number);
  return scene->memories->ops->delete_memory(scene->memories, &all_of_ann, moonpad_text(id), &for_ever, &existed,
                                             error);
}

static moonpad_status change(const agent_scene *scene, unsigned kind, unsigned which, moonpad_error *error) {
  const mp_artifacts_ops *files = scene->artifacts->ops;
  const mp_memories_ops *memories = scene->memories->ops;
  mp_artifact_name name = file_named("s", which % 2 == 0 ? "f" : "g");
  mp_memories_owner owner = all_of_ann;
  mp_memories_entry entries[] = {entry_of(which, "green tea"), entry_of(which + 1, "black tea")};
  int64_t removed = which + 1, number;
  mp_memories_batch batch = {entries, 2, &removed, 1, which};
  bool existed;
  switch (kind) {
  case 0:
    return files->delete_file(scene->artifacts, &name, &for_ever, &existed, error);
  case 1:
    return files->delete_user(scene->artifacts, &name, &for_ever, &number, error);
  case 2:
    return files->sweep(scene->artifacts, &lasting, &number, error);
  case 3:
    return delete_some_memory(scene, which, error);
  case 4:
    return memories->sweep(scene->memories, &lasting, &number, error);
  case 5:
    if (which % 2 == 0) owner.session_id = moonpad_text("s");
    return memories->delete_all(scene->memories, &owner, &for_ever, &number, error);
  case 6:
  case 7:
    return save_text(scene, "s", which % 2 == 0 ? "f" : "g", "text", &number, error);
  default:
    return memories->write(scene->memories, &session_of_ann, &for_ever, &batch, error);
  }
}

static void *change_at_random(void *context) {
  changer *self = context;
  for (int i = 0; i < CHANGES; i++) {
    moonpad_error error;
    self->seed = self->seed * 1103515245 + 12345;
    if (change(self->scene, self->seed >> 16 & 15, self->seed >> 20 & 31, &error) == MOONPAD_OK) continue;
    self->failures++;
    self->error = error;
  }
  return NULL;
}

/* What belongs together is there or gone together, and the user's count is that of the index. */
static void expect_whole_tables(const fixture *self) {
  expect_none(self, "SELECT count(*) FROM #memory_owners o WHERE memories <> (SELECT count(*) FROM #memories m"
                    " JOIN #memory_sessions s ON s.id = m.session WHERE s.owner = o.id AND m.content <> '')");
  expect_none(self, "SELECT count(*) FROM #memory_words w WHERE NOT EXISTS (SELECT 1 FROM #memories m"
                    " JOIN #memory_sessions s ON s.id = m.session"
                    " WHERE m.id = w.memory AND s.owner = w.owner AND m.content <> '')");
  expect_none(self, "SELECT count(*) FROM #memories m WHERE content <> ''"
                    " AND (SELECT count(*) FROM #memory_words w WHERE w.memory = m.id) <> 2");
  expect_none(self, "SELECT count(*) FROM #memories WHERE session NOT IN (SELECT id FROM #memory_sessions)");
  expect_none(self, "SELECT count(*) FROM #memory_sessions WHERE owner NOT IN (SELECT id FROM #memory_owners)");
  expect_none(self, "SELECT count(*) FROM #artifacts WHERE file NOT IN (SELECT id FROM #artifact_files)");
  expect_none(self, "SELECT count(*) FROM #artifact_files f"
                    " WHERE next_version <> (SELECT count(*) FROM #artifacts WHERE file = f.id)");
}

/* The same of the keys on Redis: answers with what is wrong first. */
static const char whole_keys[] =
    "local call, T = redis.call, ARGV[1] .. '{app}:' "
    "local function keys(pattern) return call('KEYS', T .. pattern) end "
    "local found, expected = 0, 0 "
    "for _, key in ipairs(keys('w:ann:*')) do "
    "  for _, id in ipairs(call('HKEYS', key)) do "
    "    local words = call('HGET', T .. 'm:ann:' .. id, 'w') "
    "    if not words or not string.find(words, string.sub(key, #T + 7), 1, true) then return key .. ' ' .. id end "
    "    found = found + 1 "
    "  end "
    "end "
    "local count, all = 0, 0 " /* of memories that can be found; of keys */
    "for _, session in ipairs(keys('m:ann:*%00*')) do "
    "  all = all + 1 + call('ZCARD', session) "
    "  for _, id in ipairs(call('ZRANGE', session, 0, -1)) do "
    "    local m = call('HMGET', T .. 'm:ann:' .. id, 'c', 's', 't') "
    "    if not m[2] or not m[3] or not call('ZSCORE', T .. 'm:ann', m[2]) then return session .. ' ' .. id end "
    "    if m[1] then count, expected = count + 1, expected + 2 end "
    "  end "
    "end "
    "if found ~= expected then return found .. ' words, not ' .. expected end "
    "if tonumber(call('HGET', T .. 'i:ann', 'n') or 0) ~= count then return 'not the count' end "
    "local kept = 0 "
    "for _, name in ipairs(call('ZRANGE', T .. 'f:ann:s', 0, -1)) do "
    "  local file = T .. 'f:ann:s:' .. name "
    "  if tonumber(call('HGET', file, 'r')) ~= #call('KEYS', file .. ':*') then return file end "
    "  kept = kept + 1 + call('HGET', file, 'r') "
    "end "
    "if #keys('f:ann:s:*') ~= kept then return 'a file that no list has' end "
    "if #keys('m:ann:*') ~= all then return 'a memory that no list has' end "
    "return '' ";

static void test_many_at_once_leave_nothing_over(void **state) {
  const fixture *self = *state;
  changer changers[CHANGERS];
  memset(changers, 0, sizeof changers);
  for (unsigned i = 0; i < CHANGERS; i++) {
    changers[i].scene = &self->scene;
    changers[i].seed = i + 1;
    assert_int_equal(pthread_create(&changers[i].thread, NULL, change_at_random, &changers[i]), 0);
  }
  for (int i = 0; i < CHANGERS; i++) pthread_join(changers[i].thread, NULL);
  for (int i = 0; i < CHANGERS; i++) {
    if (changers[i].failures > 0) fail_msg("%d failures: %s", changers[i].failures, changers[i].error.message);
  }
  if (server->run != NULL) {
    expect_whole_tables(self);
  } else {
    assert_string_equal(redis_run(self->rest, "EVAL", whole_keys, "0", "#", NULL), "");
  }
}

/* ---- versions ---- */

#define SAVES 20

typedef struct saver {
  const agent_scene *scene;
  int64_t versions[SAVES];
  pthread_t thread;
} saver;

static void *save_again_and_again(void *context) {
  saver *self = context;
  for (int i = 0; i < SAVES; i++) {
    moonpad_error error;
    if (save_text(self->scene, "s", "f", "text", &self->versions[i], &error) != MOONPAD_OK) self->versions[i] = -1;
  }
  return NULL;
}

static void test_each_writer_gets_a_version_of_its_own(void **state) {
  const fixture *self = *state;
  saver savers[CHANGERS];
  int times[CHANGERS * SAVES] = {0};
  for (int i = 0; i < CHANGERS; i++) {
    savers[i].scene = &self->scene;
    assert_int_equal(pthread_create(&savers[i].thread, NULL, save_again_and_again, &savers[i]), 0);
  }
  for (int i = 0; i < CHANGERS; i++) pthread_join(savers[i].thread, NULL);
  for (int i = 0; i < CHANGERS * SAVES; i++) {
    int64_t version = savers[i / SAVES].versions[i % SAVES];
    assert_in_range(version, 0, CHANGERS * SAVES - 1);
    times[version]++;
  }
  for (int i = 0; i < CHANGERS * SAVES; i++) assert_int_equal(times[i], 1);
}

/* ---- the tables ---- */

static moonpad_status open_again(const fixture *self, const char *more) {
  agent_scene other;
  char url[300];
  snprintf(url, sizeof url, "%s%s", self->url, more);
  moonpad_status status = scene_try(&other, self->env, url, &failure);
  scene_close(&other);
  return status;
}

static void expect_refused(const fixture *self, const char *more, const char *message) {
  IS(MOONPAD_UNSUPPORTED, open_again(self, more));
  if (strstr(failure.message, message) == NULL) fail_msg("%s", failure.message);
}

static void test_tables_are_made_where_that_is_allowed(void **state) {
  const fixture *self = *state;
  IS(MOONPAD_OK, open_again(self, "&migrate=off"));
  run_sql(self, "DELETE FROM #meta WHERE name = 'memories';"
                " DROP TABLE #memory_owners, #memory_sessions, #memories, #memory_words");
  expect_refused(self, "&migrate=off", "with tables for memories");
  IS(MOONPAD_OK, open_again(self, ""));
  IS(MOONPAD_OK, open_again(self, "&migrate=off"));
}

static void test_newer_tables_are_refused(void **state) {
  const fixture *self = *state;
  run_sql(self, "UPDATE #meta SET value = '7' WHERE name = 'artifacts'");
  expect_refused(self, "", "newer moonpad");
  run_sql(self, "UPDATE #meta SET value = '1' WHERE name = 'artifacts'");
  run_sql(self, "UPDATE #meta SET value = '2' WHERE name = 'memories'");
  expect_refused(self, "&migrate=off", "schema 2, this build knows 1");
}

/* Many open both at the same time, when there is no schema yet. */
static void test_tables_are_made_once(void **state) {
  const fixture *self = *state;
  pid_t children[5];
  for (size_t i = 0; i < COUNT(children); i++) {
    children[i] = fork();
    if (children[i] != 0) continue;
    agent_scene scene;
    char url[300];
    mp_env *env = mp_env_new(NULL);
    snprintf(url, sizeof url, "%s%s%s", server->scheme, self->rest, server->elsewhere);
    moonpad_status status = scene_try(&scene, env, url, &failure);
    if (status != MOONPAD_OK) fprintf(stderr, "%s\n", failure.message);
    scene_close(&scene);
    mp_env_release(env);
    _exit(status == MOONPAD_OK ? 0 : 1);
  }
  for (size_t i = 0; i < COUNT(children); i++) {
    int status = 0;
    waitpid(children[i], &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  char rest[300];
  snprintf(rest, sizeof rest, "%s%s", self->rest, server->elsewhere);
  server_forget_url(rest);
}

/* ---- sizes ---- */

/* With quotes and NULs in it. */
static void test_large_files_come_back(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  static const char some[] = "'\0\\''\xFF;#";
  size_t size = (size_t)20 << 20;
  char *data = malloc(size);
  assert_non_null(data);
  for (size_t i = 0; i < size; i++) data[i] = some[i % sizeof some];
  mp_artifact_name name = file_named("s", "big");
  mp_artifact artifact = {false, moonpad_text("a/b"), {NULL, 0}, false, {data, size}}, loaded;
  mp_buffer bytes;
  int64_t version;
  bool found;
  mp_buffer_init(&bytes, scene->env);
  IS(MOONPAD_OK, scene->artifacts->ops->save(scene->artifacts, &name, &for_ever, &artifact, &version, &failure));
  IS(MOONPAD_OK, scene->artifacts->ops->load(scene->artifacts, &name, &for_ever, MP_ARTIFACT_LATEST, &found, &loaded,
                                             &bytes, &failure));
  assert_true(found && loaded.data.length == size && memcmp(loaded.data.data, data, size) == 0);
  mp_buffer_free(&bytes);
  free(data);
}

/* More than a message may hold is refused before anything is sent, and the connection goes on. */
static void test_what_is_too_large_is_a_limit(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  size_t size = (size_t)1 << 30;
  char *data = calloc(1, size); /* never touched */
  assert_non_null(data);
  mp_artifact_name name = file_named("s", "big");
  mp_artifact artifact = {false, moonpad_text("a/b"), {NULL, 0}, false, {data, size}};
  int64_t version;
  long before = link_round_trips(self->link);
  IS(MOONPAD_LIMIT, scene->artifacts->ops->save(scene->artifacts, &name, &for_ever, &artifact, &version, &failure));
  assert_non_null(strstr(failure.message, server->limit));
  assert_true(link_round_trips(self->link) - before <= 2); /* BEGIN and ROLLBACK */
  free(data);
  IS(MOONPAD_OK, save_text(scene, "s", "big", "small", &version, &failure));
  assert_int_equal(version, 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_round_trips),
      TEST(test_what_is_lost_takes_effect_once),
      TEST(test_many_at_once_leave_nothing_over),
      TEST(test_each_writer_gets_a_version_of_its_own),
      TEST(test_large_files_come_back),
      TEST(test_what_is_too_large_is_a_limit),
  };
  const struct CMUnitTest tests_of_tables[] = {
      TEST(test_tables_are_made_where_that_is_allowed),
      TEST(test_newer_tables_are_refused),
      TEST(test_tables_are_made_once),
  };
  int failed = 0;
  for (size_t i = 0; i < COUNT(servers); i++) {
    server = &servers[i];
    if (!server_is_there(server_of(server->scheme))) continue;
    failed += cmocka_run_group_tests_name(server->scheme, tests, NULL, NULL);
    if (server->run != NULL) failed += cmocka_run_group_tests_name("tables", tests_of_tables, NULL, NULL);
  }
  return failed;
}
