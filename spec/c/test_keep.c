/* Artifacts and memories without Lua: what is kept exactly, and that nothing leaks or is half done when memory runs out. */
#include <string.h>

#include "store/sqlite_keep.h"
#include "store_support.h"

typedef struct keep_fixture {
  counting_allocator allocator;
  mp_env *env;
  mp_store *store;
} keep_fixture;

static void open_keep(keep_fixture *fixture) {
  moonpad_options options = store_options(&fixture->allocator.hooks);
  moonpad_error error;
  assert_int_equal(mp_keep_open(fixture->env, moonpad_text(":memory:"), &options, &fixture->store, &error), MOONPAD_OK);
  assert_int_equal(mp_artifacts_prepare(fixture->store, &error), MOONPAD_OK);
  assert_int_equal(mp_memories_prepare(fixture->store, &error), MOONPAD_OK);
  assert_int_equal(mp_memories_prepare(fixture->store, &error), MOONPAD_OK);
  mp_keep_be_brief(fixture->store);
}

static int set_up(void **state) {
  static keep_fixture fixture;
  memset(&fixture, 0, sizeof fixture);
  counting_init(&fixture.allocator);
  moonpad_options options = store_options(&fixture.allocator.hooks);
  fixture.env = mp_env_new(&options);
  open_keep(&fixture);
  *state = &fixture;
  return 0;
}

static int tear_down(void **state) {
  keep_fixture *fixture = *state;
  mp_keep_free(fixture->store);
  mp_env_release(fixture->env);
  assert_int_equal(fixture->allocator.live, 0);
  return 0;
}

/* ---- Artifacts ---- */

static mp_artifact_name file_of(const char *session, const char *filename) {
  return (mp_artifact_name){moonpad_text("app"), moonpad_text("u"), moonpad_text(session), moonpad_text(filename)};
}

static mp_artifact text_of(const char *text) {
  return (mp_artifact){true, {NULL, 0}, {NULL, 0}, false, moonpad_text(text)};
}

static void expect_text(moonpad_string found, const char *bytes, size_t length) {
  assert_int_equal(found.length, length);
  if (length > 0) assert_memory_equal(found.data, bytes, length);
}

static void test_bytes_come_back(void **state) {
  static const char bytes[] = {'a', '\0', '\xFF', '\n', '\0'};
  keep_fixture *fixture = *state;
  moonpad_error error;
  mp_artifact_name name = file_of("s", "f");
  mp_artifact saved = {false, moonpad_text("image/png"), moonpad_text("shown"), true, {bytes, sizeof bytes}}, loaded;
  mp_buffer buffer;
  int64_t version;
  bool found;
  mp_buffer_init(&buffer, fixture->env);
  assert_int_equal(mp_artifacts_save(fixture->store, &name, &saved, 1.5, &version, &error), MOONPAD_OK);
  assert_int_equal(version, 0);
  assert_int_equal(mp_artifacts_load(fixture->store, &name, MP_ARTIFACT_LATEST, &found, &loaded, &buffer, &error),
                   MOONPAD_OK);
  assert_true(found && !loaded.is_text && loaded.has_display_name);
  expect_text(loaded.data, bytes, sizeof bytes);
  expect_text(loaded.mime_type, "image/png", 9);
  expect_text(loaded.display_name, "shown", 5);
  saved = text_of("");
  assert_int_equal(mp_artifacts_save(fixture->store, &name, &saved, 1.5, &version, &error), MOONPAD_OK);
  assert_int_equal(version, 1);
  assert_int_equal(mp_artifacts_load(fixture->store, &name, 1, &found, &loaded, &buffer, &error), MOONPAD_OK);
  assert_true(found && loaded.is_text && !loaded.has_display_name);
  assert_int_equal(loaded.data.length, 0);
  assert_int_equal(mp_artifacts_load(fixture->store, &name, 2, &found, &loaded, &buffer, &error), MOONPAD_OK);
  assert_false(found);
  mp_buffer_free(&buffer);
}

/* Every call of the artifacts once; what it does must be done, or not at all. */
static moonpad_status use_artifacts(keep_fixture *fixture, moonpad_error *error) {
  mp_artifact_name name = file_of("s", "f");
  mp_artifact text = text_of("some text"), loaded;
  mp_buffer buffer;
  int64_t version;
  bool flag;
  mp_buffer_init(&buffer, fixture->env);
  moonpad_status status = mp_artifacts_save(fixture->store, &name, &text, 1, &version, error);
  if (status == MOONPAD_OK) {
    status = mp_artifacts_load(fixture->store, &name, MP_ARTIFACT_LATEST, &flag, &loaded, &buffer, error);
  }
  if (status == MOONPAD_OK) expect_text(loaded.data, "some text", 9);
  if (status == MOONPAD_OK) status = mp_artifacts_list(fixture->store, &name, &buffer, error);
  if (status == MOONPAD_OK) expect_text(mp_buffer_text(&buffer), "f", 2);
  if (status == MOONPAD_OK) status = mp_artifacts_versions(fixture->store, &name, &buffer, error);
  mp_buffer_free(&buffer);
  return status;
}

/* ---- Memories ---- */

static const mp_memory_session session_of_ann = {{"app", 3}, {"ann", 3}, {"s", 1}, 12.5};

static mp_memory memory_of(int64_t revision, const char *text) {
  return (mp_memory){revision, (double)revision, moonpad_text("user"), moonpad_text("{}"), moonpad_text(text)};
}

static moonpad_status add_memories(keep_fixture *fixture, int64_t indexed, moonpad_error *error) {
  mp_memory memories[] = {memory_of(1, "green tea"), memory_of(2, "black coffee")};
  mp_memory_batch batch = {memories, 2, NULL, 0, indexed};
  return mp_memories_write(fixture->store, &session_of_ann, &batch, error);
}

static moonpad_status search(keep_fixture *fixture, const char *user, const char *phrase, mp_buffer *found,
                             moonpad_error *error) {
  moonpad_string phrases[] = {moonpad_text(phrase), moonpad_text("tea \"or\" (not")};
  return mp_memories_search(fixture->store, moonpad_text("app"), moonpad_text(user), phrases, 2, 10, found, error);
}

static void test_memories_are_found_by_their_owner(void **state) {
  keep_fixture *fixture = *state;
  moonpad_error error;
  mp_buffer found;
  int64_t indexed, second = 2;
  mp_buffer_init(&found, fixture->env);
  assert_int_equal(add_memories(fixture, -1, &error), MOONPAD_OK);
  assert_int_equal(mp_memories_indexed(fixture->store, &session_of_ann, &indexed, &error), MOONPAD_OK);
  assert_int_equal(indexed, 0);
  assert_int_equal(add_memories(fixture, 2, &error), MOONPAD_OK);
  assert_int_equal(add_memories(fixture, 1, &error), MOONPAD_OK);
  assert_int_equal(mp_memories_indexed(fixture->store, &session_of_ann, &indexed, &error), MOONPAD_OK);
  assert_int_equal(indexed, 2);
  size_t record = 4 * sizeof(size_t) + 1 + 4 + sizeof(double) + 2;
  assert_int_equal(search(fixture, "ann", "coffee", &found, &error), MOONPAD_OK);
  assert_int_equal(found.length, record);
  assert_int_equal(search(fixture, "bob", "coffee", &found, &error), MOONPAD_OK);
  assert_int_equal(found.length, 0);
  mp_memory_batch batch = {NULL, 0, &second, 1, -1};
  assert_int_equal(mp_memories_write(fixture->store, &session_of_ann, &batch, &error), MOONPAD_OK);
  assert_int_equal(search(fixture, "ann", "coffee", &found, &error), MOONPAD_OK);
  assert_int_equal(found.length, 0);
  mp_buffer_free(&found);
}

static moonpad_status use_memories(keep_fixture *fixture, moonpad_error *error) {
  mp_buffer found;
  mp_buffer_init(&found, fixture->env);
  moonpad_status status = add_memories(fixture, 2, error);
  if (status == MOONPAD_OK) status = search(fixture, "ann", "green", &found, error);
  if (status == MOONPAD_OK) assert_true(found.length > 0);
  mp_buffer_free(&found);
  return status;
}

/* ---- Out of memory ---- */

/* Lets the first, second, third... allocation of `use` fail until it needs no more. */
static void starve(keep_fixture *fixture, moonpad_status (*use)(keep_fixture *fixture, moonpad_error *error)) {
  long failures = 0;
  for (long at = 1;; at++) {
    moonpad_error error;
    long live = fixture->allocator.live;
    counting_arm(&fixture->allocator, at);
    moonpad_status status = use(fixture, &error);
    counting_arm(&fixture->allocator, 0);
    if (status == MOONPAD_OK) break;
    assert_int_equal(status, MOONPAD_NO_MEMORY);
    assert_int_equal(error.code, MOONPAD_NO_MEMORY);
    assert_int_equal(fixture->allocator.live, live);
    failures++;
  }
  assert_true(failures > 0);
}

static void test_artifacts_without_memory(void **state) {
  starve(*state, use_artifacts);
}

static void test_memories_without_memory(void **state) {
  starve(*state, use_memories);
}

static void test_closed(void **state) {
  keep_fixture *fixture = *state;
  moonpad_error error;
  mp_keep_close(fixture->store);
  mp_keep_close(fixture->store);
  assert_int_equal(use_artifacts(fixture, &error), MOONPAD_CLOSED);
  assert_int_equal(use_memories(fixture, &error), MOONPAD_CLOSED);
  mp_keep_close(NULL);
  mp_keep_free(NULL);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_bytes_come_back),
      TEST(test_memories_are_found_by_their_owner),
      TEST(test_artifacts_without_memory),
      TEST(test_memories_without_memory),
      TEST(test_closed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
