/*
** The stores of artifacts and memories when something fails: each allocation of theirs and of
** SQLite's, and each disk operation, once and from then on. A call says so, the store has all of it
** or nothing, nothing leaks, and the same store goes on when all works again. Which faults are
** tried: fault_steps.h.
*/
#include <stdlib.h>
#include <string.h>

#include "agent_scene.h"
#include "counted_env.h"
#include "fault_steps.h"
#include "faulty_vfs.h"
#include "sqlite_memory.h"

#define ONE_BY_ONE 12

/* ---- What fails ---- */

static counting_allocator own; /* what moonpad allocates */

/* Either an allocator or a kind of disk operation. */
typedef struct fault {
  counting_allocator *allocator;
  fault_kind kind;
  bool lasting;
} fault;

static void arm(const fault *self, long n) {
  if (self->allocator == NULL) {
    faulty_vfs_arm(self->kind, n, self->lasting);
  } else {
    counting_arm_as(self->allocator, (size_t)n, self->lasting);
  }
}

/* All works again. Has it failed? */
static bool disarm(const fault *self) {
  bool has_failed = self->allocator == NULL ? faulty_vfs_has_failed() : counting_has_failed(self->allocator);
  faulty_vfs_arm(FAULT_NONE, 0, false);
  if (self->allocator != NULL) counting_disarm(self->allocator);
  return has_failed;
}

static void expect_status(const fault *self, const char *name, long n, moonpad_status status,
                          const moonpad_error *error) {
  moonpad_status wanted = self->allocator != NULL    ? MOONPAD_NO_MEMORY
                          : self->kind == FAULT_LOCK ? MOONPAD_BUSY
                                                     : MOONPAD_STORAGE;
  if (status != wanted) {
    fail_msg("%s, fault %d at %ld: %s: %s", name, self->kind, n, moonpad_status_name(status), error->message);
  }
  assert_int_equal(error->code, status);
  assert_true(error->message[0] != '\0');
}

/* ---- What is called ---- */

static moonpad_status save(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  int64_t version;
  (void)found;
  moonpad_status status = save_text(scene, "s", "f", "two", &version, error);
  if (status == MOONPAD_OK) assert_int_equal(version, 2);
  return status;
}

static moonpad_status load(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  mp_artifact_name name = file_named("s", "f");
  mp_artifact loaded;
  bool exists;
  moonpad_status status = scene->artifacts->ops->load(scene->artifacts, &name, &for_ever, MP_ARTIFACT_LATEST, &exists,
                                                      &loaded, found, error);
  if (status == MOONPAD_OK) assert_true(exists && loaded.data.length == 3 && memcmp(loaded.data.data, "one", 3) == 0);
  return status;
}

static moonpad_status list(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  mp_artifact_name name = file_named("s", "");
  moonpad_status status = scene->artifacts->ops->list(scene->artifacts, &name, &for_ever, found, error);
  if (status == MOONPAD_OK) assert_int_equal(found->length, sizeof "f\0user:g");
  return status;
}

static moonpad_status versions(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  mp_artifact_name name = file_named("s", "f");
  moonpad_status status = scene->artifacts->ops->versions(scene->artifacts, &name, &for_ever, found, error);
  if (status == MOONPAD_OK) assert_int_equal(found->length, 2 * sizeof(int64_t));
  return status;
}

static moonpad_status all_files(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  mp_artifact_name none = {moonpad_text(""), moonpad_text(""), moonpad_text(""), moonpad_text("")};
  moonpad_status status = scene->artifacts->ops->files(scene->artifacts, &none, 10, found, error);
  if (status == MOONPAD_OK) assert_true(found->length > 2 * sizeof(int64_t));
  return status;
}

static moonpad_status all_sessions(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  mp_memories_session none = {moonpad_text(""), moonpad_text(""), moonpad_text(""), 0};
  moonpad_status status = scene->memories->ops->sessions(scene->memories, &none, 10, found, error);
  if (status == MOONPAD_OK) assert_int_equal(found->length, sizeof "app\0ann\0s" + sizeof(double) + sizeof(int64_t));
  return status;
}

static moonpad_status all_entries(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  mp_memories_entry entry;
  size_t at = 0;
  moonpad_status status = scene->memories->ops->entries(scene->memories, &session_of_ann, 1, 10, found, error);
  if (status != MOONPAD_OK) return status;
  assert_true(mp_memories_next_entry(found, &at, &entry) && entry.revision == 2);
  assert_false(mp_memories_next_entry(found, &at, &entry));
  return status;
}

static moonpad_status delete_file(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  mp_artifact_name name = file_named("s", "f");
  bool existed;
  (void)found;
  return scene->artifacts->ops->delete_file(scene->artifacts, &name, &for_ever, &existed, error);
}

static moonpad_status delete_user_files(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  mp_artifact_name name = file_named("", "");
  int64_t files;
  (void)found;
  moonpad_status status = scene->artifacts->ops->delete_user(scene->artifacts, &name, &for_ever, &files, error);
  assert_int_equal(files, status == MOONPAD_OK ? 2 : 0);
  return status;
}

static moonpad_status delete_user_memories(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  int64_t count;
  (void)found;
  moonpad_status status = scene->memories->ops->delete_all(scene->memories, &all_of_ann, &for_ever, &count, error);
  assert_int_equal(count, status == MOONPAD_OK ? 2 : 0);
  return status;
}

static moonpad_status indexed(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  int64_t revision;
  (void)found;
  moonpad_status status = scene->memories->ops->indexed(scene->memories, &session_of_ann, &revision, error);
  if (status == MOONPAD_OK) assert_int_equal(revision, 2);
  return status;
}

static moonpad_status write_batch(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  mp_memories_entry entries[] = {entry_of(3, "tea-three"), entry_of(4, "tea-four")};
  int64_t first = 1;
  mp_memories_batch batch = {entries, 2, &first, 1, 4};
  (void)found;
  return scene->memories->ops->write(scene->memories, &session_of_ann, &for_ever, &batch, error);
}

static moonpad_status search(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  moonpad_status status = search_for(scene, "ann", "tea", 10, found, error);
  if (status == MOONPAD_OK) assert_true(found->length > 0);
  return status;
}

/*
** The same where all lives for so long that it is time to store that it is used, or has expired.
** Files were saved at 1.5, and the two memories are of 1 and 2.
*/
static const mp_agent_time is_due = {90, 100}, has_expired = {200, 100};

static moonpad_status load_and_renew(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  mp_artifact_name name = file_named("s", "f");
  mp_artifact loaded;
  bool exists;
  moonpad_status status =
      scene->artifacts->ops->load(scene->artifacts, &name, &is_due, 0, &exists, &loaded, found, error);
  if (status == MOONPAD_OK) assert_true(exists && loaded.data.length == 4);
  return status;
}

static moonpad_status save_over_expired(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  mp_artifact_name name = file_named("s", "f");
  mp_artifact artifact = {true, {NULL, 0}, {NULL, 0}, false, moonpad_text("anew")};
  int64_t version;
  (void)found;
  moonpad_status status =
      scene->artifacts->ops->save(scene->artifacts, &name, &has_expired, &artifact, &version, error);
  if (status == MOONPAD_OK) assert_int_equal(version, 0);
  return status;
}

static moonpad_status sweep_files(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  int64_t files;
  (void)found;
  moonpad_status status = scene->artifacts->ops->sweep(scene->artifacts, &has_expired, &files, error);
  if (status == MOONPAD_OK) assert_true(files == 2 || files == 0);
  return status;
}

static moonpad_status search_and_renew(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  moonpad_string phrase = moonpad_text("tea");
  mp_memories_query query = {moonpad_text("app"), moonpad_text("ann"), &phrase, 1, 10};
  moonpad_status status = scene->memories->ops->search(scene->memories, &query, &is_due, found, error);
  if (status == MOONPAD_OK) assert_true(found->length > 0);
  return status;
}

static moonpad_status delete_session(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  static const mp_memories_owner session = {{"app", 3}, {"ann", 3}, {"s", 1}};
  int64_t count;
  (void)found;
  moonpad_status status = scene->memories->ops->delete_all(scene->memories, &session, &for_ever, &count, error);
  assert_int_equal(count, status == MOONPAD_OK ? 2 : 0);
  return status;
}

static moonpad_status delete_memory(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  bool existed;
  (void)found;
  moonpad_status status =
      scene->memories->ops->delete_memory(scene->memories, &all_of_ann, moonpad_text("1"), &for_ever, &existed, error);
  assert_int_equal(existed, status == MOONPAD_OK);
  return status;
}

static moonpad_status sweep_memories(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  int64_t count;
  (void)found;
  moonpad_status status = scene->memories->ops->sweep(scene->memories, &has_expired, &count, error);
  if (status == MOONPAD_OK) assert_true(count == 2 || count == 0);
  return status;
}

static moonpad_status rebuild_index(const agent_scene *scene, mp_buffer *found, moonpad_error *error) {
  (void)found;
  return scene->memories->ops->rebuild_index(scene->memories, error);
}

typedef struct call {
  const char *name;
  moonpad_status (*run)(const agent_scene *scene, mp_buffer *found, moonpad_error *error);
  /* Several transactions: each does all of its work or nothing. */
  bool in_parts;
} call;

static const call calls[] = {{"save", save, false},
                             {"load", load, false},
                             {"list", list, false},
                             {"versions", versions, false},
                             {"all files", all_files, false},
                             {"all sessions", all_sessions, false},
                             {"all entries", all_entries, false},
                             {"delete", delete_file, false},
                             {"load and renew", load_and_renew, false},
                             {"save over what has expired", save_over_expired, false},
                             {"sweep: files", sweep_files, true},
                             {"indexed", indexed, false},
                             {"write", write_batch, false},
                             {"search", search, false},
                             {"search and renew", search_and_renew, false},
                             {"delete session", delete_session, false},
                             {"delete memory", delete_memory, false},
                             {"sweep: memories", sweep_memories, true},
                             {"rebuild index", rebuild_index, false},
                             {"delete user: files", delete_user_files, false},
                             {"delete user: memories", delete_user_memories, false}};

static moonpad_status run(const agent_scene *scene, const call *called, moonpad_error *error) {
  mp_buffer found;
  mp_buffer_init(&found, scene->env);
  moonpad_status status = called->run(scene, &found, error);
  mp_buffer_free(&found);
  return status;
}

/* ---- What there is ---- */

static void fill(const agent_scene *scene) {
  mp_memories_entry entries[] = {entry_of(1, "tea-one"), entry_of(2, "tea-two")};
  mp_memories_batch batch = {entries, 2, NULL, 0, 2};
  int64_t version;
  assert_int_equal(save_text(scene, "s", "f", "zero", &version, NULL), MOONPAD_OK);
  assert_int_equal(save_text(scene, "s", "f", "one", &version, NULL), MOONPAD_OK);
  assert_int_equal(save_text(scene, "", "user:g", "g", &version, NULL), MOONPAD_OK);
  assert_int_equal(scene->memories->ops->write(scene->memories, &session_of_ann, &for_ever, &batch, NULL), MOONPAD_OK);
}

typedef struct contents {
  char text[512];
  size_t length;
} contents;

static void note(contents *self, const char *what, moonpad_string text) {
  assert_true(self->length + text.length + 32 < sizeof self->text);
  self->length += (size_t)snprintf(self->text + self->length, sizeof self->text - self->length, "%s %.*s\n", what,
                                   (int)text.length, text.length == 0 ? "" : text.data);
}

static contents contents_of(const agent_scene *scene) {
  contents self = {"", 0};
  mp_artifact_name name = file_named("s", "f");
  mp_artifact loaded;
  mp_memories_match match;
  mp_buffer found;
  bool exists = true;
  int64_t revision;
  char number[32];
  mp_buffer_init(&found, scene->env);
  for (int64_t version = 0; exists; version++) {
    assert_int_equal(
        scene->artifacts->ops->load(scene->artifacts, &name, &for_ever, version, &exists, &loaded, &found, NULL),
        MOONPAD_OK);
    if (exists) note(&self, "f", loaded.data);
  }
  assert_int_equal(scene->memories->ops->indexed(scene->memories, &session_of_ann, &revision, NULL), MOONPAD_OK);
  snprintf(number, sizeof number, "%d", (int)revision);
  note(&self, "indexed", moonpad_text(number));
  moonpad_error error = {MOONPAD_OK, ""};
  if (search_for(scene, "ann", "tea", 10, &found, &error) != MOONPAD_OK) fail_msg("search: %s", error.message);
  for (size_t at = 0; mp_memories_next_match(&found, &at, &match);) note(&self, "said", match.content);
  mp_buffer_free(&found);
  return self;
}

static bool is_same(const contents *a, const contents *b) {
  return strcmp(a->text, b->text) == 0;
}

/* ---- Calls that fail ---- */

typedef struct agent_fault_test {
  const char *url;
  const char *path; /* NULL: no file */
  fault fault;
  const call *called;
  mp_env *env;
  contents before, after;
} agent_fault_test;

/* In a file, what failed to be synced may have got there all the same. */
static bool expect_all_or_nothing(const agent_fault_test *self, const agent_scene *scene, long n) {
  if (self->called->in_parts) return false;
  contents found = contents_of(scene);
  bool is_done = is_same(&found, &self->after) && !is_same(&found, &self->before);
  if (!is_same(&found, &self->before) && !(is_done && self->path != NULL)) {
    fail_msg("%s, fault %d at %ld: there is\n%s", self->called->name, self->fault.kind, n, found.text);
  }
  return is_done;
}

/* False when so many operations were not made. */
static bool fail_once(const agent_fault_test *self, long n) {
  agent_scene scene;
  moonpad_error error = {MOONPAD_OK, ""};
  size_t alive = own.alive;
  scene_open(&scene, self->env, self->url);
  fill(&scene);
  if (self->path != NULL) { /* what is cached is not read */
    scene_close(&scene);
    scene_open(&scene, self->env, self->url);
  }
  arm(&self->fault, n);
  moonpad_status status = run(&scene, self->called, &error);
  bool has_failed = disarm(&self->fault), is_done = status == MOONPAD_OK;
  if (!is_done) {
    assert_true(has_failed);
    expect_status(&self->fault, self->called->name, n, status, &error);
    is_done = expect_all_or_nothing(self, &scene, n);
  }
  if (!is_done && run(&scene, self->called, &error) != MOONPAD_OK) {
    fail_msg("%s, when all works again: %s", self->called->name, error.message);
  }
  contents found = contents_of(&scene);
  assert_string_equal(found.text, self->after.text);
  scene_close(&scene);
  if (self->path != NULL) {
    expect_sound_file(self->path);
    scene_open(&scene, self->env, self->url);
    found = contents_of(&scene);
    assert_string_equal(found.text, self->after.text);
    scene_close(&scene);
    if (self->path != NULL) remove_files(self->path);
  }
  assert_int_equal(own.alive, alive);
  return has_failed;
}

static void learn(agent_fault_test *self) {
  agent_scene scene;
  moonpad_error error = {MOONPAD_OK, ""};
  scene_open(&scene, self->env, self->url);
  fill(&scene);
  self->before = contents_of(&scene);
  if (run(&scene, self->called, &error) != MOONPAD_OK) fail_msg("%s: %s", self->called->name, error.message);
  self->after = contents_of(&scene);
  scene_close(&scene);
  if (self->path != NULL) remove_files(self->path);
}

/* A lock that nobody ever releases is another matter: SQLite gives up after ten seconds. */
static int ways_of(const fault *self) {
  return self->kind == FAULT_LOCK ? 1 : 2;
}

/* Returns how many faults there were. */
static long fail_every_call(agent_fault_test *self) {
  long count = 0;
  fault_seed();
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    if (!fault_is_due(i)) continue;
    self->called = &calls[i];
    learn(self);
    for (int lasting = 0; lasting < ways_of(&self->fault); lasting++) {
      self->fault.lasting = lasting == 1;
      for (long n = 1; fail_once(self, n); count++) n = fault_after(n, ONE_BY_ONE);
    }
  }
  return count;
}

/* ---- Opening that fails ---- */

static bool fail_to_open(const agent_fault_test *self, bool has_tables, long n) {
  agent_scene scene;
  moonpad_error error = {MOONPAD_OK, ""};
  size_t alive = own.alive;
  if (has_tables) {
    scene_open(&scene, self->env, self->url);
    scene_close(&scene);
  }
  arm(&self->fault, n);
  moonpad_status status = scene_try(&scene, self->env, self->url, &error);
  bool has_failed = disarm(&self->fault);
  if (status != MOONPAD_OK) {
    assert_true(has_failed);
    expect_status(&self->fault, "open", n, status, &error);
    scene_close(&scene);
    scene_open(&scene, self->env, self->url);
  }
  fill(&scene);
  contents found = contents_of(&scene);
  assert_string_equal(found.text, "f zero\nf one\nindexed 2\nsaid tea-two\nsaid tea-one\n");
  scene_close(&scene);
  if (self->path != NULL) expect_sound_file(self->path);
  if (self->path != NULL) remove_files(self->path);
  assert_int_equal(own.alive, alive);
  return has_failed;
}

static long fail_opening(agent_fault_test *self) {
  long count = 0;
  fault_seed();
  for (int lasting = 0; lasting < ways_of(&self->fault); lasting++) {
    self->fault.lasting = lasting == 1;
    for (int has_tables = 0; has_tables < (self->path == NULL ? 1 : 2); has_tables++) {
      for (long n = 1; fail_to_open(self, has_tables == 1, n); count++) n = fault_after(n, ONE_BY_ONE);
    }
  }
  return count;
}

/* ---- The tests ---- */

static void fail_allocations(counting_allocator *allocator) {
  sqlite3_int64 used = sqlite3_memory_used();
  agent_fault_test self = {.url = "sqlite::memory:", .fault = {.allocator = allocator}, .env = counted_env(&own)};
  assert_true(fail_every_call(&self) > 0 && fail_opening(&self) > 0);
  mp_env_release(self.env);
  assert_int_equal(own.alive, 0);
  assert_int_equal(sqlite3_memory_used(), used);
}

static void test_every_call_without_memory(void **state) {
  (void)state;
  fail_allocations(&own);
}

static void test_every_call_while_sqlite_has_no_memory(void **state) {
  (void)state;
  fail_allocations(&sqlite_memory);
}

/*
** One by one: what FTS5 has in memory when SQLite rolls back in the middle of its work is wrong
** at a few places only.
*/
static void test_each_allocation_of_a_write_of_memories(void **state) {
  static const call written[] = {{"write", write_batch, false},
                                 {"delete memory", delete_memory, false},
                                 {"rebuild index", rebuild_index, false},
                                 {"delete user", delete_user_memories, false}};
  agent_fault_test self = {.url = "sqlite::memory:", .fault = {.allocator = &sqlite_memory}, .env = counted_env(&own)};
  (void)state;
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
    self.called = &written[i];
    learn(&self);
    for (int lasting = 0; lasting < 2; lasting++) {
      self.fault.lasting = lasting == 1;
      long first = fault_in_turn(0, fault_slowness()), n = first;
      while (fail_once(&self, n)) n = fault_in_turn(n, fault_slowness());
      assert_true(n > first);
    }
  }
  mp_env_release(self.env);
}

static void test_every_call_on_a_failing_disk(void **state) {
  const sqlite_files *files = *state;
  char file_url[160];
  snprintf(file_url, sizeof file_url, "sqlite:%s", files->path);
  for (int kind = FAULT_READ; kind < FAULT_KINDS; kind++) {
    agent_fault_test self = {
        .url = file_url, .path = files->path, .fault = {.kind = (fault_kind)kind}, .env = counted_env(&own)};
    assert_true(fail_every_call(&self) + fail_opening(&self) > 0);
    mp_env_release(self.env);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_every_call_without_memory), TEST(test_every_call_while_sqlite_has_no_memory),
      TEST(test_each_allocation_of_a_write_of_memories), TEST(test_every_call_on_a_failing_disk)};
  sqlite_memory_install();
  faulty_vfs_install();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
