/*
** Artifacts and memories on Redis: where the keys are, what is left of what was deleted, keys that
** hold something else, and more than one script looks at. What all servers do is in
** test_agent_servers.c.
*/
#include "agent_scene.h"
#include "redis_support.h"

#define COUNT(array)     (sizeof(array) / sizeof *(array))
#define IS(status, call) assert_int_equal(call, status)

static moonpad_error failure;

typedef struct fixture {
  mp_env *env;
  char rest[256]; /* of the URL, behind its scheme */
  agent_scene scene;
} fixture;

static int set_up(void **state) {
  fixture *self = calloc(1, sizeof *self);
  char url[300];
  assert_non_null(self);
  self->env = mp_env_new(NULL);
  server_make_url("MOONPAD_TEST_REDIS", self->rest, sizeof self->rest);
  snprintf(url, sizeof url, "redis:%s", self->rest);
  scene_open(&self->scene, self->env, url);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  fixture *self = *state;
  scene_close(&self->scene);
  server_forget_url(self->rest);
  mp_env_release(self->env);
  free(self);
  return 0;
}

/* ---- calls ---- */

static const mp_agent_time lasting = {1000, 500}; /* what was last used before 500 has expired */

static void save_file(const agent_scene *scene, const char *const names[4], double now) {
  const mp_artifact_name name = {moonpad_text(names[0]), moonpad_text(names[1]), moonpad_text(names[2]),
                                 moonpad_text(names[3])};
  const mp_artifact artifact = {.is_text = true, .data = moonpad_text("text")};
  const mp_agent_time time = {now, 0};
  int64_t version;
  IS(MOONPAD_OK, scene->artifacts->ops->save(scene->artifacts, &name, &time, &artifact, &version, &failure));
}

/* An event of a session that says "green tea". */
static void remember(const agent_scene *scene, const char *const names[3], double created, int64_t revision,
                     double timestamp) {
  const mp_memories_session session = {moonpad_text(names[0]), moonpad_text(names[1]), moonpad_text(names[2]), created};
  mp_memories_entry entry = entry_of(revision, "green tea");
  entry.timestamp = timestamp;
  const mp_memories_batch batch = {&entry, 1, NULL, 0, revision};
  IS(MOONPAD_OK, scene->memories->ops->write(scene->memories, &session, &for_ever, &batch, &failure));
}

/* Keys of the apps of the place, but for those that commits have left. */
static const char list_keys[] =
    "local found = {} "
    "for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do "
    "  local rest = string.sub(key, #ARGV[1] + 1) "
    "  if string.find(rest, '^{') and not string.find(rest, '}:c:') then found[#found + 1] = rest end "
    "end "
    "table.sort(found) return found";

static const char *keys_of(const fixture *self) {
  return redis_run(self->rest, "EVAL", list_keys, "0", "#", NULL);
}

/* ---- where things are ---- */

static void test_keys_carry_the_tag_of_their_app(void **state) {
  const fixture *self = *state;
  static const char *const names[] = {"a}{*%", "u:\xC3\xA4", "s\n{", "f}"};
  save_file(&self->scene, names, 1);
  remember(&self->scene, names, -1.5, 17, 1);
  assert_string_equal(keys_of(self),
                      "{a%7D%7B%2A%25}:f {a%7D%7B%2A%25}:f:u%3A%C3%A4 {a%7D%7B%2A%25}:f:u%3A%C3%A4:s%0A%7B "
                      "{a%7D%7B%2A%25}:f:u%3A%C3%A4:s%0A%7B:f%7D {a%7D%7B%2A%25}:f:u%3A%C3%A4:s%0A%7B:f%7D:0 "
                      "{a%7D%7B%2A%25}:i:u%3A%C3%A4 {a%7D%7B%2A%25}:last {a%7D%7B%2A%25}:m "
                      "{a%7D%7B%2A%25}:m:u%3A%C3%A4 {a%7D%7B%2A%25}:m:u%3A%C3%A4:1 "
                      "{a%7D%7B%2A%25}:m:u%3A%C3%A4:s%0A%7B%004007FFFFFFFFFFFF "
                      "{a%7D%7B%2A%25}:w:u%3A%C3%A4:green {a%7D%7B%2A%25}:w:u%3A%C3%A4:tea ");
}

static void test_nothing_is_left_of_what_is_deleted(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  static const char *const files[][4] = {{"app", "ann", "s", "f"}, {"app", "ann", "s", "g"}, {"app", "ann", "", "f"}};
  mp_artifact_name name = file_named("s", "f");
  int64_t count;
  for (size_t i = 0; i < COUNT(files); i++) save_file(scene, files[i], i == 0 ? 900 : 100);
  for (int64_t i = 1; i <= 3; i++) remember(scene, files[0], (double)i, i, i == 1 ? 900 : 100);
  /* What has expired goes as well; it is not counted. */
  IS(MOONPAD_OK, scene->artifacts->ops->delete_user(scene->artifacts, &name, &lasting, &count, &failure));
  assert_int_equal(count, 1);
  IS(MOONPAD_OK, scene->memories->ops->delete_all(scene->memories, &all_of_ann, &lasting, &count, &failure));
  assert_int_equal(count, 1);
  assert_string_equal(keys_of(self), "{app}:last ");
}

/* An id is never used again. */
static void test_ids_go_on_after_everything_was_deleted(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  static const char *const names[] = {"app", "ann", "s"};
  int64_t count;
  bool existed;
  remember(scene, names, 1, 1, 1);
  IS(MOONPAD_OK, scene->memories->ops->delete_all(scene->memories, &all_of_ann, &for_ever, &count, &failure));
  remember(scene, names, 1, 1, 1);
  IS(MOONPAD_OK, scene->memories->ops->delete_memory(scene->memories, &all_of_ann, moonpad_text("1"), &for_ever,
                                                     &existed, &failure));
  assert_false(existed);
  expect_found(scene, "ann", "tea", "green tea ");
}

/* ---- keys that hold something else ---- */

static moonpad_status ask_artifacts(const agent_scene *scene, int which) {
  mp_artifact_name name = file_named("s", "f");
  mp_artifact artifact;
  mp_buffer bytes;
  bool found;
  int64_t number;
  mp_buffer_init(&bytes, scene->env);
  const mp_artifacts_ops *ops = scene->artifacts->ops;
  moonpad_status status = which == 0
                              ? ops->load(scene->artifacts, &name, &for_ever, 0, &found, &artifact, &bytes, &failure)
                          : which == 1 ? ops->list(scene->artifacts, &name, &for_ever, &bytes, &failure)
                          : which == 2 ? ops->delete_user(scene->artifacts, &name, &for_ever, &number, &failure)
                          : which == 3 ? ops->sweep(scene->artifacts, &lasting, &number, &failure)
                                       : save_text(scene, "s", "f", "again", &number, &failure);
  mp_buffer_free(&bytes);
  return status;
}

static moonpad_status ask_memories(const agent_scene *scene, int which) {
  const mp_memories_ops *ops = scene->memories->ops;
  const mp_memories_session none = {{NULL, 0}, {NULL, 0}, {NULL, 0}, 0};
  mp_memories_entry entry = entry_of(2, "black tea");
  const mp_memories_batch batch = {&entry, 1, NULL, 0, 2};
  mp_buffer found;
  int64_t number;
  mp_buffer_init(&found, scene->env);
  moonpad_status status = which == 0   ? search_for(scene, "ann", "tea", 9, &found, &failure)
                          : which == 1 ? ops->delete_all(scene->memories, &all_of_ann, &for_ever, &number, &failure)
                          : which == 2 ? ops->sweep(scene->memories, &lasting, &number, &failure)
                          : which == 3 ? ops->sessions(scene->memories, &none, 9, &found, &failure)
                                       : ops->write(scene->memories, &session_of_ann, &for_ever, &batch, &failure);
  mp_buffer_free(&found);
  return status;
}

#define SESSION "m:ann:s%00C029000000000000"

static void test_garbage_is_told(void **state) {
  static const struct {
    const char *words[4]; /* a command; its key is one of the app's */
    moonpad_status (*ask)(const agent_scene *scene, int which);
    int which[4]; /* calls that find out, each + 1 */
  } cases[] = {
      {{"HSET", "f:ann:s:f", "r", "many"}, ask_artifacts, {1, 2, 3, 5}},
      {{"HDEL", "f:ann:s:f", "x", NULL}, ask_artifacts, {1, 2, 4, 5}},
      {{"HDEL", "f:ann:s:f:0", "b", NULL}, ask_artifacts, {1}},
      {{"SET", "f:ann:s:f", "text", NULL}, ask_artifacts, {1, 2, 3, 5}},
      {{"SET", "f:ann:s", "text", NULL}, ask_artifacts, {2, 3, 4}},
      {{"SET", "w:ann:tea", "text", NULL}, ask_memories, {1}},
      {{"HSET", "w:ann:tea", "1", "abc"}, ask_memories, {1}},
      {{"HSET", "i:ann", "n", "many"}, ask_memories, {1, 2, 5}},
      {{"DEL", "i:ann", NULL, NULL}, ask_memories, {4}},
      {{"HDEL", "m:ann:1", "t", NULL}, ask_memories, {1, 2, 3}},
      {{"SET", SESSION, "text", NULL}, ask_memories, {2, 3, 5}},
  };
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  for (size_t i = 0; i < COUNT(cases); i++) {
    const char *const *words = cases[i].words;
    char key[80];
    int64_t version;
    redis_forget_url(self->rest);
    IS(MOONPAD_OK, save_text(scene, "s", "f", "text", &version, &failure));
    remember(scene, (const char *const[]){"app", "ann", "s"}, 12.5, 1, 1);
    snprintf(key, sizeof key, "#{app}:%s", words[1]);
    redis_run(self->rest, words[0], key, words[2], words[2] == NULL ? NULL : words[3], NULL);
    for (size_t call = 0; call < COUNT(cases[i].which) && cases[i].which[call] > 0; call++) {
      char before[4096];
      snprintf(before, sizeof before, "%s", keys_of(self));
      moonpad_status status = cases[i].ask(scene, cases[i].which[call] - 1);
      if (status != MOONPAD_CORRUPT) fail_msg("%s %s, call %d: %d", words[0], key, cases[i].which[call], status);
      assert_string_equal(keys_of(self), before);
    }
  }
}

/* ---- more than one script looks at ---- */

/* In the order of their bytes. */
static const char *const apps[] = {"a", "a b", "a%", "a}", "b", "\xC3\xA4"};

static void append_file(mp_buffer *text, const char *at) {
  for (int i = 0; i < 4; i++) {
    mp_buffer_add_string(text, moonpad_text(at));
    mp_buffer_add_char(text, i < 3 ? '/' : '\n');
    at += strlen(at) + 1;
  }
}

/* All files, a few at a time. */
static void list_files(const agent_scene *scene, int64_t limit, mp_buffer *text) {
  mp_artifact_name after = {{"", 0}, {"", 0}, {"", 0}, {"", 0}};
  mp_buffer pages[2];
  for (int i = 0; i < 2; i++) mp_buffer_init(&pages[i], scene->env);
  for (int page = 0;; page = !page) {
    IS(MOONPAD_OK, scene->artifacts->ops->files(scene->artifacts, &after, limit, &pages[page], &failure));
    if (pages[page].length == 0) break;
    for (const char *at = pages[page].data, *end = at + pages[page].length; at < end; at += sizeof(int64_t)) {
      append_file(text, at);
      moonpad_string *const names[] = {&after.app_name, &after.user_id, &after.session_id, &after.filename};
      for (size_t i = 0; i < COUNT(names); i++, at += strlen(at) + 1) *names[i] = moonpad_text(at);
    }
  }
  for (int i = 0; i < 2; i++) mp_buffer_free(&pages[i]);
}

static void test_files_of_everybody_are_listed_in_order(void **state) {
  const fixture *self = *state;
  mp_buffer expected, found;
  mp_buffer_init(&expected, self->env);
  mp_buffer_init(&found, self->env);
  for (size_t app = 0; app < COUNT(apps); app++) {
    for (int i = 0; i < 8; i++) {
      const char *const names[] = {apps[app], i < 4 ? "ann" : "ann:", (i & 2) == 0 ? "" : "s",
                                   (i & 1) == 0 ? "f" : "g"};
      save_file(&self->scene, names, 1);
      for (size_t j = 0; j < 4; j++) {
        mp_buffer_add_string(&expected, moonpad_text(names[j]));
        mp_buffer_add_char(&expected, j < 3 ? '/' : '\n');
      }
    }
  }
  static const int64_t limits[] = {1, 7, 48, 1000};
  for (size_t i = 0; i < COUNT(limits); i++) {
    mp_buffer_clear(&found);
    list_files(&self->scene, limits[i], &found);
    assert_int_equal(found.length, expected.length);
    assert_memory_equal(found.data, expected.data, expected.length);
  }
  mp_buffer_free(&expected);
  mp_buffer_free(&found);
}

/* Of one session's id there may be several, in the order of their times. */
static void test_sessions_of_everybody_are_listed_in_order(void **state) {
  static const double times[] = {-1e300, -2, -1, 0, 1e-300, 1.5, 2, 1e300};
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  mp_memories_session after = {{"", 0}, {"", 0}, {"", 0}, 0};
  mp_buffer pages[2];
  for (size_t i = COUNT(times); i-- > 0;) remember(scene, (const char *const[]){"a}", "ann", "s"}, times[i], 1, 1);
  for (int i = 0; i < 2; i++) mp_buffer_init(&pages[i], scene->env);
  for (size_t i = 0; i <= COUNT(times); i++) {
    mp_buffer *page = &pages[i % 2];
    IS(MOONPAD_OK, scene->memories->ops->sessions(scene->memories, &after, 1, page, &failure));
    if (i == COUNT(times)) {
      assert_int_equal(page->length, 0);
      break;
    }
    assert_int_equal(page->length, strlen("a}") + strlen("ann") + strlen("s") + 3 + sizeof(double) + sizeof(int64_t));
    assert_memory_equal(page->data, "a}\0ann\0s", sizeof "a}\0ann\0s");
    after =
        (mp_memories_session){moonpad_text(page->data), moonpad_text(page->data + 3), moonpad_text(page->data + 7), 0};
    memcpy(&after.create_time, page->data + 9, sizeof after.create_time);
    assert_true(after.create_time == times[i]);
  }
  for (int i = 0; i < 2; i++) mp_buffer_free(&pages[i]);
}

/* Of 2,600 files and as many memories in two apps, every second one has expired. */
static void test_sweeps_go_over_many(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  int64_t count;
  for (int i = 0; i < 2600; i++) {
    char user[16], session[16], file[16];
    snprintf(user, sizeof user, "u%d", i % 3);
    snprintf(session, sizeof session, "s%d", i % 7);
    snprintf(file, sizeof file, "f%d", i);
    const char *const names[] = {apps[i < 2500 ? 0 : 3], user, session, file};
    save_file(scene, names, i % 2 == 0 ? 100 : 900);
    remember(scene, names, 50, i, i % 2 == 0 ? 100 : 900);
  }
  for (int round = 0; round < 2; round++) {
    IS(MOONPAD_OK, scene->artifacts->ops->sweep(scene->artifacts, &lasting, &count, &failure));
    assert_int_equal(count, round == 0 ? 1300 : 0);
    IS(MOONPAD_OK, scene->memories->ops->sweep(scene->memories, &lasting, &count, &failure));
    assert_int_equal(count, round == 0 ? 1300 : 0);
  }
  const mp_agent_time later = {2000, 500};
  IS(MOONPAD_OK, scene->artifacts->ops->sweep(scene->artifacts, &later, &count, &failure));
  assert_int_equal(count, 1300);
  IS(MOONPAD_OK, scene->memories->ops->sweep(scene->memories, &later, &count, &failure));
  assert_int_equal(count, 1300);
  assert_string_equal(keys_of(self), "{a%7D}:last {a}:last ");
}

/* A session that has said nothing keeps its watermark until it is old. */
static void test_watermarks_are_swept_when_they_are_old(void **state) {
  const fixture *self = *state;
  const agent_scene *scene = &self->scene;
  const mp_memories_batch nothing = {NULL, 0, NULL, 0, 5};
  const double times[] = {100, 900};
  for (size_t i = 0; i < COUNT(times); i++) {
    mp_memories_session session = session_of_ann;
    session.create_time = times[i];
    IS(MOONPAD_OK, scene->memories->ops->write(scene->memories, &session, &for_ever, &nothing, &failure));
  }
  int64_t count;
  IS(MOONPAD_OK, scene->memories->ops->sweep(scene->memories, &lasting, &count, &failure));
  assert_int_equal(count, 0);
  for (size_t i = 0; i < COUNT(times); i++) {
    mp_memories_session session = session_of_ann;
    int64_t revision;
    session.create_time = times[i];
    IS(MOONPAD_OK, scene->memories->ops->indexed(scene->memories, &session, &revision, &failure));
    assert_int_equal(revision, i == 0 ? 0 : 5);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_keys_carry_the_tag_of_their_app),
      TEST(test_nothing_is_left_of_what_is_deleted),
      TEST(test_ids_go_on_after_everything_was_deleted),
      TEST(test_garbage_is_told),
      TEST(test_files_of_everybody_are_listed_in_order),
      TEST(test_sessions_of_everybody_are_listed_in_order),
      TEST(test_sweeps_go_over_many),
      TEST(test_watermarks_are_swept_when_they_are_old),
  };
  if (!server_is_there("MOONPAD_TEST_REDIS")) return 0;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
