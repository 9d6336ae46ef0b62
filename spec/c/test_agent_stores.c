/*
** The stores of artifacts and memories without Lua, on every URL that they are served by. Only Lua
** has them: there is no public C call for them (agent_stores/artifacts.h, memories.h).
*/
#include <pthread.h>
#include <string.h>

#include "agent_scene.h"
#include "needs_threads.h"
#include "scope.h"

static const char *url; /* under test */

typedef struct fixture {
  counting_allocator allocator;
  sqlite_files *files;
  char url[256];
  mp_env *env;
  agent_scene scene;
} fixture;

static int set_up(void **state) {
  fixture *self = calloc(1, sizeof *self);
  assert_non_null(self);
  folder_setup((void **)&self->files);
  counting_init(&self->allocator);
  moonpad_options options = self->files->options;
  options.allocator = &self->allocator.hooks;
  self->env = mp_env_new(&options);
  bool is_file = strcmp(url, "sqlite:PATH") == 0;
  snprintf(self->url, sizeof self->url, "%s%s", is_file ? "sqlite:" : url, is_file ? self->files->path : "");
  const char *server = server_of(url);
  if (server != NULL) server_make_url(server, self->url + strlen(url), sizeof self->url - strlen(url));
  scene_open(&self->scene, self->env, self->url);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  fixture *self = *state;
  scene_close(&self->scene);
  mp_env_release(self->env);
  assert_int_equal(self->allocator.alive, 0);
  if (server_of(url) != NULL) server_forget_url(self->url + strlen(url));
  folder_teardown((void **)&self->files);
  free(self);
  return 0;
}

static void expect_bytes(moonpad_string found, const char *bytes, size_t length) {
  assert_int_equal(found.length, length);
  if (length > 0) assert_memory_equal(found.data, bytes, length);
}

/* ---- Artifacts ---- */

static void expect_artifact(const agent_scene *scene, const mp_artifact_name *name, int64_t version,
                            const mp_artifact *expected) {
  mp_artifact loaded;
  mp_buffer bytes;
  moonpad_error error;
  bool found;
  mp_buffer_init(&bytes, scene->env);
  assert_int_equal(
      scene->artifacts->ops->load(scene->artifacts, name, &for_ever, version, &found, &loaded, &bytes, &error),
      MOONPAD_OK);
  assert_int_equal(found, expected != NULL);
  if (found) {
    assert_int_equal(loaded.is_text, expected->is_text);
    assert_int_equal(loaded.has_display_name, expected->has_display_name);
    expect_bytes(loaded.data, expected->data.data, expected->data.length);
    expect_bytes(loaded.mime_type, expected->mime_type.data, expected->mime_type.length);
    expect_bytes(loaded.display_name, expected->display_name.data, expected->display_name.length);
  }
  mp_buffer_free(&bytes);
}

static void test_bytes_come_back(void **state) {
  static const char bytes[] = {'a', '\0', '\xFF', '\n', '\0'};
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  mp_artifact_name name = file_named("s", "f");
  const mp_artifact parts[] = {
      {false, moonpad_text("image/png"), moonpad_text("shown"), true, {bytes, sizeof bytes}},
      {true, {NULL, 0}, {NULL, 0}, false, moonpad_text("")},
      {false, moonpad_text("a/b"), moonpad_text(""), true, {NULL, 0}},
      {true, {NULL, 0}, {NULL, 0}, false, {bytes, 2}},
  };
  moonpad_error error;
  int64_t version;
  for (int64_t i = 0; i < 4; i++) {
    assert_int_equal(scene->artifacts->ops->save(scene->artifacts, &name, &for_ever, &parts[i], &version, &error),
                     MOONPAD_OK);
    assert_int_equal(version, i);
    expect_artifact(scene, &name, MP_ARTIFACT_LATEST, &parts[i]);
  }
  for (int64_t i = 0; i < 4; i++) expect_artifact(scene, &name, i, &parts[i]);
  expect_artifact(scene, &name, 4, NULL);
  name.session_id = moonpad_text("other");
  expect_artifact(scene, &name, MP_ARTIFACT_LATEST, NULL);
}

static void test_filenames_and_versions_are_sorted(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  static const char *const saved[][2] = {{"s", "b"}, {"", "user:z"},  {"s", "\xC3\xA9"}, {"s", "a"},
                                         {"s", "b"}, {"t", "hidden"}, {"", "user:a"},    {"s", "B"}};
  static const char sorted[] = "B\0a\0b\0user:a\0user:z\0\xC3\xA9";
  static const int64_t versions[] = {0, 1};
  mp_artifact_name name = file_named("s", "b");
  mp_buffer found;
  moonpad_error error;
  int64_t version;
  mp_buffer_init(&found, scene->env);
  for (size_t i = 0; i < sizeof saved / sizeof *saved; i++) {
    assert_int_equal(save_text(scene, saved[i][0], saved[i][1], "x", &version, &error), MOONPAD_OK);
  }
  assert_int_equal(scene->artifacts->ops->list(scene->artifacts, &name, &for_ever, &found, &error), MOONPAD_OK);
  expect_bytes(mp_buffer_text(&found), sorted, sizeof sorted);
  assert_int_equal(scene->artifacts->ops->versions(scene->artifacts, &name, &for_ever, &found, &error), MOONPAD_OK);
  expect_bytes(mp_buffer_text(&found), (const char *)versions, sizeof versions);
  name = file_named("", "no such");
  assert_int_equal(scene->artifacts->ops->list(scene->artifacts, &name, &for_ever, &found, &error), MOONPAD_OK);
  expect_bytes(mp_buffer_text(&found), "user:a\0user:z", 14);
  assert_int_equal(scene->artifacts->ops->versions(scene->artifacts, &name, &for_ever, &found, &error), MOONPAD_OK);
  assert_int_equal(found.length, 0);
  mp_buffer_free(&found);
}

static void test_a_file_goes_with_its_versions(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  mp_artifact_name name = file_named("s", "f");
  moonpad_error error;
  int64_t version;
  bool existed;
  assert_int_equal(save_text(scene, "s", "f", "1", &version, &error), MOONPAD_OK);
  assert_int_equal(save_text(scene, "s", "f", "2", &version, &error), MOONPAD_OK);
  assert_int_equal(save_text(scene, "t", "f", "of another session", &version, &error), MOONPAD_OK);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(scene->artifacts->ops->delete_file(scene->artifacts, &name, &for_ever, &existed, &error),
                     MOONPAD_OK);
    assert_int_equal(existed, i == 0);
  }
  assert_int_equal(save_text(scene, "s", "f", "anew", &version, &error), MOONPAD_OK);
  assert_int_equal(version, 0);
  assert_int_equal(save_text(scene, "t", "f", "as before", &version, &error), MOONPAD_OK);
  assert_int_equal(version, 1);
}

static void test_files_go_with_their_user(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  static const char *const saved[][2] = {{"s", "f"}, {"s", "f"}, {"t", "f"}, {"", "user:f"}};
  mp_artifact_name name = file_named("", "");
  mp_artifact of_others = {true, {NULL, 0}, {NULL, 0}, false, moonpad_text("kept")};
  mp_artifact_name others[] = {{moonpad_text("app"), moonpad_text("an"), moonpad_text("s"), moonpad_text("f")},
                               {moonpad_text("other"), moonpad_text("ann"), moonpad_text("s"), moonpad_text("f")}};
  moonpad_error error;
  int64_t version, files;
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(scene->artifacts->ops->save(scene->artifacts, &others[i], &for_ever, &of_others, &version, &error),
                     MOONPAD_OK);
  }
  for (size_t i = 0; i < sizeof saved / sizeof *saved; i++) {
    assert_int_equal(save_text(scene, saved[i][0], saved[i][1], "x", &version, &error), MOONPAD_OK);
  }
  for (int64_t wanted = 3; wanted >= 0; wanted -= 3) {
    assert_int_equal(scene->artifacts->ops->delete_user(scene->artifacts, &name, &for_ever, &files, &error),
                     MOONPAD_OK);
    assert_int_equal(files, wanted);
  }
  for (size_t i = 0; i < 2; i++) expect_artifact(scene, &others[i], 0, &of_others);
  assert_int_equal(save_text(scene, "s", "f", "anew", &version, &error), MOONPAD_OK);
  assert_int_equal(version, 0);
}

/* ---- Memories ---- */

static moonpad_status write_entries(const agent_scene *scene, int64_t indexed, moonpad_error *error) {
  mp_memories_entry entries[] = {entry_of(1, "green-tea"), entry_of(2, "black-coffee")};
  mp_memories_batch batch = {entries, 2, NULL, 0, indexed};
  return scene->memories->ops->write(scene->memories, &session_of_ann, &for_ever, &batch, error);
}

static void expect_indexed(const agent_scene *scene, const mp_memories_session *session, int64_t expected) {
  moonpad_error error;
  int64_t indexed = -1;
  assert_int_equal(scene->memories->ops->indexed(scene->memories, session, &indexed, &error), MOONPAD_OK);
  assert_int_equal(indexed, expected);
}

static void test_memories_are_found_by_their_owner(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  moonpad_error error;
  mp_memories_session later = session_of_ann;
  later.create_time = 13;
  assert_int_equal(write_entries(scene, -1, &error), MOONPAD_OK);
  expect_indexed(scene, &session_of_ann, 0);
  assert_int_equal(write_entries(scene, 2, &error), MOONPAD_OK);
  assert_int_equal(write_entries(scene, 1, &error), MOONPAD_OK);
  expect_indexed(scene, &session_of_ann, 2);
  expect_indexed(scene, &later, 0);
  expect_found(scene, "ann", "coffee", "black-coffee ");
  expect_found(scene, "bob", "coffee", "");
  int64_t second = 2;
  mp_memories_batch batch = {NULL, 0, &second, 1, -1};
  assert_int_equal(scene->memories->ops->write(scene->memories, &session_of_ann, &for_ever, &batch, &error),
                   MOONPAD_OK);
  expect_found(scene, "ann", "coffee", "");
  expect_found(scene, "ann", "tea", "green-tea ");
}

static void test_a_match_has_all_that_was_said(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  mp_memories_entry entries[] = {{7, 1.25, moonpad_text("Tom"), moonpad_text("{\"a\":1}"), moonpad_text("tea tea")},
                                 {8, 2, moonpad_text(""), moonpad_text("{}"), moonpad_text("tea and more words")}};
  mp_memories_batch batch = {entries, 2, NULL, 0, 8};
  mp_memories_match match;
  mp_buffer matches;
  moonpad_error error;
  size_t at = 0;
  mp_buffer_init(&matches, scene->env);
  assert_int_equal(scene->memories->ops->write(scene->memories, &session_of_ann, &for_ever, &batch, &error),
                   MOONPAD_OK);
  assert_int_equal(search_for(scene, "ann", "tea", 10, &matches, &error), MOONPAD_OK);
  assert_true(mp_memories_next_match(&matches, &at, &match));
  expect_bytes(match.id, "1", 1);
  expect_bytes(match.session_id, "s", 1);
  expect_bytes(match.author, "Tom", 3);
  expect_bytes(match.content, "{\"a\":1}", 7);
  assert_true(match.timestamp == 1.25);
  assert_true(mp_memories_next_match(&matches, &at, &match));
  expect_bytes(match.author, "", 0);
  assert_false(mp_memories_next_match(&matches, &at, &match));
  assert_int_equal(search_for(scene, "ann", "tea", 1, &matches, &error), MOONPAD_OK);
  at = 0;
  assert_true(mp_memories_next_match(&matches, &at, &match) && !mp_memories_next_match(&matches, &at, &match));
  mp_memories_query nothing = {moonpad_text("app"), moonpad_text("ann"), NULL, 0, 10};
  assert_int_equal(scene->memories->ops->search(scene->memories, &nothing, &for_ever, &matches, &error), MOONPAD_OK);
  assert_int_equal(matches.length, 0);
  mp_buffer_free(&matches);
}

/* Of thousands of words the last one counts as the first one does, in the right memory. */
static void test_a_long_text_is_found_whole(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  enum { WORDS = 2500 };
  static char text[WORDS * 8];
  size_t length = 0;
  for (int i = 0; i < WORDS; i++) length += (size_t)snprintf(text + length, sizeof text - length, "w%d ", i);
  mp_memories_entry entries[] = {entry_of(1, "w2499 short"), entry_of(2, "long"), entry_of(3, "w0 short")};
  entries[1].text = (moonpad_string){text, length};
  mp_memories_batch batch = {entries, 3, NULL, 0, 3};
  moonpad_error error;
  assert_int_equal(scene->memories->ops->write(scene->memories, &session_of_ann, &for_ever, &batch, &error),
                   MOONPAD_OK);
  expect_found(scene, "ann", "w1234", "long ");
  expect_found(scene, "ann", "w2498 w2499", "long ");
  expect_found(scene, "ann", "w2499", "w2499 short long ");
  expect_found(scene, "ann", "w0", "w0 short long ");
  int64_t second = 2;
  mp_memories_batch removal = {NULL, 0, &second, 1, -1};
  assert_int_equal(scene->memories->ops->write(scene->memories, &session_of_ann, &for_ever, &removal, &error),
                   MOONPAD_OK);
  expect_found(scene, "ann", "w1234", "");
  expect_found(scene, "ann", "w2499", "w2499 short ");
}

static void test_memories_go_with_their_user(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  moonpad_error error;
  int64_t count;
  mp_memories_session of_bob = session_of_ann, later = session_of_ann;
  mp_memories_entry entry = entry_of(1, "tea-of-bob"), more = entry_of(1, "tea-later");
  mp_memories_batch batch = {&entry, 1, NULL, 0, 1}, another = {&more, 1, NULL, 0, 1};
  of_bob.user_id = moonpad_text("bob");
  later.create_time = 13;
  assert_int_equal(write_entries(scene, 2, &error), MOONPAD_OK);
  assert_int_equal(scene->memories->ops->write(scene->memories, &later, &for_ever, &another, &error), MOONPAD_OK);
  assert_int_equal(scene->memories->ops->write(scene->memories, &of_bob, &for_ever, &batch, &error), MOONPAD_OK);
  for (int64_t wanted = 3; wanted >= 0; wanted -= 3) {
    assert_int_equal(scene->memories->ops->delete_all(scene->memories, &all_of_ann, &for_ever, &count, &error),
                     MOONPAD_OK);
    assert_int_equal(count, wanted);
    expect_found(scene, "ann", "tea", "");
    expect_indexed(scene, &session_of_ann, 0);
  }
  expect_found(scene, "bob", "tea", "tea-of-bob ");
  assert_int_equal(write_entries(scene, 2, &error), MOONPAD_OK);
  expect_found(scene, "ann", "tea", "green-tea ");
}

/* ---- Both, for tools ---- */

/* "APP/USER/SESSION/FILENAME*VERSIONS " of each file, two at a time. */
static void expect_files(const agent_scene *scene, const char *expected) {
  char found[512] = "";
  int at = 0;
  mp_buffer files;
  mp_artifact_name after = {moonpad_text(""), moonpad_text(""), moonpad_text(""), moonpad_text("")};
  moonpad_error error;
  mp_buffer_init(&files, scene->env);
  char last[4][64] = {"", "", "", ""};
  for (int behind = -1; behind < at;) {
    behind = at;
    assert_int_equal(scene->artifacts->ops->files(scene->artifacts, &after, 2, &files, &error), MOONPAD_OK);
    for (size_t i = 0; i < files.length;) {
      int64_t versions;
      for (int name = 0; name < 4; name++) {
        snprintf(last[name], sizeof last[name], "%s", files.data + i);
        i += strlen(files.data + i) + 1;
      }
      memcpy(&versions, files.data + i, sizeof versions);
      i += sizeof versions;
      at += snprintf(found + at, sizeof found - (size_t)at, "%s/%s/%s/%s*%d ", last[0], last[1], last[2], last[3],
                     (int)versions);
    }
    after =
        (mp_artifact_name){moonpad_text(last[0]), moonpad_text(last[1]), moonpad_text(last[2]), moonpad_text(last[3])};
  }
  mp_buffer_free(&files);
  assert_string_equal(found, expected);
}

static void test_all_files_are_listed(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  static const char *const saved[][2] = {{"s", "b"}, {"", "user:z"}, {"s", "a"}, {"s", "b"}, {"t", "x"}};
  mp_artifact_name other = {moonpad_text("an app"), moonpad_text("zoe"), moonpad_text("s"), moonpad_text("f")};
  mp_artifact artifact = {true, {NULL, 0}, {NULL, 0}, false, moonpad_text("text")};
  moonpad_error error;
  int64_t version;
  expect_files(scene, "");
  for (size_t i = 0; i < sizeof saved / sizeof *saved; i++) {
    assert_int_equal(save_text(scene, saved[i][0], saved[i][1], "x", &version, &error), MOONPAD_OK);
  }
  assert_int_equal(scene->artifacts->ops->save(scene->artifacts, &other, &for_ever, &artifact, &version, &error),
                   MOONPAD_OK);
  expect_files(scene, "an app/zoe/s/f*1 app/ann//user:z*1 app/ann/s/a*1 app/ann/s/b*2 app/ann/t/x*1 ");
}

/* "SESSION@TIME:INDEXED(REVISION=CONTENT ...) " of each session, one at a time. */
static void expect_sessions(const agent_scene *scene, const char *expected) {
  char found[512] = "", names[3][64] = {"", "", ""};
  int at = 0;
  mp_memories_session session = {moonpad_text(""), moonpad_text(""), moonpad_text(""), 0};
  mp_buffer sessions, entries;
  moonpad_error error;
  mp_buffer_init(&sessions, scene->env);
  mp_buffer_init(&entries, scene->env);
  for (;;) {
    assert_int_equal(scene->memories->ops->sessions(scene->memories, &session, 1, &sessions, &error), MOONPAD_OK);
    if (sessions.length == 0) break;
    int64_t indexed;
    size_t i = 0;
    for (int name = 0; name < 3; name++) {
      snprintf(names[name], sizeof names[name], "%s", sessions.data + i);
      i += strlen(sessions.data + i) + 1;
    }
    session = (mp_memories_session){moonpad_text(names[0]), moonpad_text(names[1]), moonpad_text(names[2]), 0};
    memcpy(&session.create_time, sessions.data + i, sizeof session.create_time);
    memcpy(&indexed, sessions.data + i + sizeof session.create_time, sizeof indexed);
    at += snprintf(found + at, sizeof found - (size_t)at, "%s/%s/%s@%g:%d(", names[0], names[1], names[2],
                   session.create_time, (int)indexed);
    mp_memories_entry entry;
    assert_int_equal(scene->memories->ops->entries(scene->memories, &session, 1, 10, &entries, &error), MOONPAD_OK);
    for (size_t j = 0; mp_memories_next_entry(&entries, &j, &entry);) {
      at += snprintf(found + at, sizeof found - (size_t)at, "%d=%.*s ", (int)entry.revision, (int)entry.content.length,
                     entry.content.data);
    }
    at += snprintf(found + at, sizeof found - (size_t)at, ") ");
  }
  mp_buffer_free(&sessions);
  mp_buffer_free(&entries);
  assert_string_equal(found, expected);
}

/* One that was deleted by its id is told without content, and written so it is not found. */
static void test_all_memories_are_listed(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  moonpad_error error;
  mp_memories_session later = session_of_ann, of_bob = session_of_ann;
  mp_memories_entry deleted = {3, 3, moonpad_text(""), moonpad_text(""), moonpad_text("")};
  mp_memories_batch batch = {&deleted, 1, NULL, 0, 5}, nothing = {NULL, 0, NULL, 0, -1};
  later.create_time = 13;
  of_bob.user_id = moonpad_text("bob");
  expect_sessions(scene, "");
  assert_int_equal(write_entries(scene, 2, &error), MOONPAD_OK);
  assert_int_equal(scene->memories->ops->write(scene->memories, &of_bob, &for_ever, &nothing, &error), MOONPAD_OK);
  assert_int_equal(scene->memories->ops->write(scene->memories, &later, &for_ever, &batch, &error), MOONPAD_OK);
  expect_sessions(scene, "app/ann/s@12.5:2(2=black-coffee ) app/ann/s@13:5(3= ) app/bob/s@12.5:0() ");
  mp_memories_entry again = entry_of(3, "white-coffee");
  mp_memories_batch more = {&again, 1, NULL, 0, 5};
  assert_int_equal(scene->memories->ops->write(scene->memories, &later, &for_ever, &more, &error), MOONPAD_OK);
  expect_found(scene, "ann", "coffee", "black-coffee ");
}

/* ---- Both ---- */

/* Every call fails with `status`. */
static void expect_every_call(const agent_scene *scene, moonpad_status status) {
  mp_artifact_name name = file_named("s", "f");
  mp_artifact loaded;
  mp_buffer found;
  moonpad_error error;
  int64_t number;
  bool flag;
  mp_buffer_init(&found, scene->env);
  assert_int_equal(save_text(scene, "s", "f", "x", &number, &error), status);
  assert_int_equal(error.code, status);
  assert_int_equal(scene->artifacts->ops->load(scene->artifacts, &name, &for_ever, 0, &flag, &loaded, &found, &error),
                   status);
  assert_int_equal(scene->artifacts->ops->list(scene->artifacts, &name, &for_ever, &found, &error), status);
  assert_int_equal(scene->artifacts->ops->versions(scene->artifacts, &name, &for_ever, &found, &error), status);
  assert_int_equal(scene->artifacts->ops->delete_file(scene->artifacts, &name, &for_ever, &flag, &error), status);
  assert_int_equal(scene->artifacts->ops->delete_user(scene->artifacts, &name, &for_ever, &number, &error), status);
  assert_int_equal(scene->memories->ops->indexed(scene->memories, &session_of_ann, &number, &error), status);
  assert_int_equal(scene->memories->ops->delete_all(scene->memories, &all_of_ann, &for_ever, &number, &error), status);
  assert_int_equal(write_entries(scene, 1, &error), status);
  assert_int_equal(search_for(scene, "ann", "tea", 10, &found, NULL), status);
  const mp_agent_time expires = {1000, 1};
  assert_int_equal(scene->artifacts->ops->sweep(scene->artifacts, &expires, &number, &error), status);
  assert_int_equal(scene->memories->ops->sweep(scene->memories, &expires, &number, &error), status);
  assert_int_equal(scene->artifacts->ops->sweep(scene->artifacts, &for_ever, &number, &error), status);
  assert_int_equal(scene->memories->ops->sweep(scene->memories, &for_ever, &number, &error), status);
  mp_memories_query nothing = {moonpad_text("app"), moonpad_text("ann"), NULL, 0, 10};
  assert_int_equal(scene->memories->ops->search(scene->memories, &nothing, &for_ever, &found, &error), status);
  assert_int_equal(
      scene->memories->ops->delete_memory(scene->memories, &all_of_ann, moonpad_text("1"), &for_ever, &flag, &error),
      status);
  assert_int_equal(scene->memories->ops->rebuild_index(scene->memories, &error), status);
  assert_int_equal(scene->artifacts->ops->files(scene->artifacts, &name, 1, &found, &error), status);
  assert_int_equal(scene->memories->ops->sessions(scene->memories, &session_of_ann, 1, &found, &error), status);
  assert_int_equal(scene->memories->ops->entries(scene->memories, &session_of_ann, 0, 1, &found, &error), status);
  mp_buffer_free(&found);
}

static void test_a_closed_store_refuses_every_call(void **state) {
  const fixture *self = *state;
  for (int i = 0; i < 2; i++) {
    self->scene.artifacts->ops->close(self->scene.artifacts);
    self->scene.memories->ops->close(self->scene.memories);
    expect_every_call(&self->scene, MOONPAD_CLOSED);
  }
}

#define WRITERS 3
#define ROUNDS  30

typedef struct writer {
  const agent_scene *scene;
  int number;
  bool seen[WRITERS * ROUNDS]; /* versions that it got */
  bool failed;
  pthread_t thread;
} writer;

/* The scene has a short busy timeout: a busy store is asked again. */
static void *write_and_read(void *context) {
  writer *self = context;
  const agent_scene *scene = self->scene;
  moonpad_error error;
  mp_buffer found;
  mp_buffer_init(&found, scene->env);
  for (int i = 0; i < ROUNDS && !self->failed; i++) {
    int64_t version = 0;
    moonpad_status status;
    mp_memories_entry entry = entry_of(self->number * ROUNDS + i + 1, "shared");
    mp_memories_batch batch = {&entry, 1, NULL, 0, i};
    do {
      status = save_text(scene, "s", "shared", "x", &version, &error);
    } while (status == MOONPAD_BUSY);
    self->failed = status != MOONPAD_OK || version < 0 || version >= WRITERS * ROUNDS;
    if (!self->failed) self->seen[version] = true;
    do {
      status = scene->memories->ops->write(scene->memories, &session_of_ann, &for_ever, &batch, &error);
    } while (status == MOONPAD_BUSY);
    self->failed = self->failed || status != MOONPAD_OK;
    do {
      status = search_for(scene, "ann", "shared", 10, &found, &error);
    } while (status == MOONPAD_BUSY);
    self->failed = self->failed || status != MOONPAD_OK || found.length == 0;
  }
  mp_buffer_free(&found);
  return NULL;
}

static void test_threads_share_a_store(void **state) {
  NEEDS_THREADS();
  const fixture *self = *state;
  writer writers[WRITERS];
  mp_buffer found;
  moonpad_error error;
  memset(writers, 0, sizeof writers);
  for (int i = 0; i < WRITERS; i++) {
    writers[i].scene = &self->scene;
    writers[i].number = i;
    assert_int_equal(pthread_create(&writers[i].thread, NULL, write_and_read, &writers[i]), 0);
  }
  for (int i = 0; i < WRITERS; i++) pthread_join(writers[i].thread, NULL);
  for (int version = 0; version < WRITERS * ROUNDS; version++) {
    int given = 0;
    for (int i = 0; i < WRITERS; i++) given += writers[i].seen[version];
    assert_int_equal(given, 1);
  }
  for (int i = 0; i < WRITERS; i++) assert_false(writers[i].failed);
  mp_buffer_init(&found, self->scene.env);
  assert_int_equal(search_for(&self->scene, "ann", "shared", 1000, &found, &error), MOONPAD_OK);
  size_t count = 0;
  mp_memories_match match;
  for (size_t at = 0; mp_memories_next_match(&found, &at, &match);) count++;
  assert_int_equal(count, WRITERS * ROUNDS);
  mp_buffer_free(&found);
}

/* Who asks it need not wait, unless it is elsewhere. */
static void test_what_is_in_memory_says_so(void **state) {
  const fixture *self = *state;
  bool is_in_memory = strstr(url, "memory:") != NULL;
  assert_int_equal(self->scene.artifacts->in_memory, is_in_memory);
  assert_int_equal(self->scene.memories->in_memory, is_in_memory);
}

/* ---- URLs ---- */

static void refused(mp_env *env, const char *given, moonpad_status status, const char *message) {
  moonpad_options options;
  moonpad_options_init(&options);
  mp_artifacts *artifacts;
  mp_memories *memories;
  moonpad_error error;
  assert_int_equal(mp_artifacts_open(env, moonpad_text(given), NULL, &options, &artifacts, &error), status);
  assert_null(artifacts);
  assert_non_null(strstr(error.message, message));
  assert_null(strstr(error.message, "secret"));
  assert_int_equal(mp_memories_open(env, moonpad_text(given), NULL, &options, &memories, &error), status);
  assert_null(memories);
  assert_non_null(strstr(error.message, message));
}

static void test_other_urls_are_refused(void **state) {
  const fixture *self = *state;
  refused(self->env, "redis://:secret@host", MOONPAD_UNSUPPORTED, "built in are memory: and sqlite:");
  refused(self->env, "", MOONPAD_UNSUPPORTED, "no scheme");
  refused(self->env, "secret.db", MOONPAD_UNSUPPORTED, "no scheme");
  refused(self->env, "secret@host:6379", MOONPAD_UNSUPPORTED, "no scheme");
  refused(self->env, "memory:secret", MOONPAD_INVALID_ARGUMENT, "takes no name");
  refused(self->env, "sqlite:", MOONPAD_INVALID_ARGUMENT, "no path");
  refused(self->env, "sqlite:/no/such/folder/f.db", MOONPAD_STORAGE, "/no/such/folder");
}

/*
** Another writer holds the lock: every write says so when it has waited for as long as the store
** was opened to wait, and reads go on.
*/
static void test_a_lock_that_is_not_had_in_time_is_busy(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  mp_artifact_name name = file_named("s", "f");
  mp_buffer found;
  moonpad_error error;
  sqlite3 *db;
  int64_t version;
  bool existed;
  if (strcmp(url, "sqlite:PATH") != 0) return;
  mp_buffer_init(&found, scene->env);
  assert_int_equal(sqlite3_open(self->files->path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(save_text(scene, "s", "f", "x", &version, &error), MOONPAD_BUSY);
  assert_non_null(strstr(error.message, "(5 ms)"));
  assert_int_equal(scene->artifacts->ops->delete_file(scene->artifacts, &name, &for_ever, &existed, &error),
                   MOONPAD_BUSY);
  assert_int_equal(write_entries(scene, 1, &error), MOONPAD_BUSY);
  assert_non_null(strstr(error.message, "(5 ms)"));
  assert_int_equal(scene->artifacts->ops->versions(scene->artifacts, &name, &for_ever, &found, &error), MOONPAD_OK);
  assert_int_equal(found.length, 0);
  expect_indexed(scene, &session_of_ann, 0);
  assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
  assert_int_equal(save_text(scene, "s", "f", "x", &version, &error), MOONPAD_OK);
  assert_int_equal(version, 0);
  assert_int_equal(write_entries(scene, 1, &error), MOONPAD_OK);
  mp_buffer_free(&found);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_bytes_come_back),
      TEST(test_filenames_and_versions_are_sorted),
      TEST(test_a_file_goes_with_its_versions),
      TEST(test_files_go_with_their_user),
      TEST(test_memories_are_found_by_their_owner),
      TEST(test_a_long_text_is_found_whole),
      TEST(test_memories_go_with_their_user),
      TEST(test_a_match_has_all_that_was_said),
      TEST(test_all_files_are_listed),
      TEST(test_all_memories_are_listed),
      TEST(test_a_closed_store_refuses_every_call),
      TEST(test_threads_share_a_store),
      TEST(test_what_is_in_memory_says_so),
      TEST(test_other_urls_are_refused),
      TEST(test_a_lock_that_is_not_had_in_time_is_busy),
  };
  static const char *const urls[] = {"memory:", "sqlite::memory:", "sqlite:PATH", "postgresql:", "mysql:", "redis:"};
  int failed = 0;
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
    url = urls[i];
    if (!scope_has_store(url)) continue;
    if (server_of(url) != NULL && !server_is_there(server_of(url))) continue;
    failed += cmocka_run_group_tests_name(url, tests, NULL, NULL);
  }
  return failed;
}
