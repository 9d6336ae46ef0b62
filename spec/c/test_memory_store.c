/* What is true of the memory store alone: its URL, and what an event costs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fault_steps.h"
#include "store_support.h"

/* ---- opening ---- */

static void test_opening_memory(void **state) {
  (void)state;
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_options options = store_options(NULL);
  mp_env *env = mp_env_new(&options);
  mp_store *store = (mp_store *)&options;
  assert_int_equal(mp_memory_open(env, moonpad_text("/file"), &options, &store, &error), MOONPAD_INVALID_ARGUMENT);
  assert_null(store);
  assert_non_null(strstr(error.message, "/file"));
  assert_int_equal(mp_memory_open(env, moonpad_text(""), &options, &store, &error), MOONPAD_OK);
  mp_env_release(env); /* the store holds it */
  store->ops->close(store);
  store->ops->free(store);
}

/* ---- what an event costs ---- */

/* An allocator that knows how many bytes were asked for: each block is preceded by its size. */
typedef struct measuring_allocator {
  moonpad_allocator hooks;
  size_t blocks;
  size_t bytes;
} measuring_allocator;

#define BLOCK_HEAD 16

static void *measuring_resize(void *context, void *block, size_t size) {
  measuring_allocator *allocator = context;
  char *whole = block == NULL ? NULL : (char *)block - BLOCK_HEAD;
  size_t before = 0;
  if (whole != NULL) memcpy(&before, whole, sizeof before);
  char *resized = realloc(whole, size + BLOCK_HEAD);
  assert_non_null(resized);
  memcpy(resized, &size, sizeof size);
  allocator->bytes += size - before;
  if (block == NULL) allocator->blocks++;
  return resized + BLOCK_HEAD;
}

static void *measuring_allocate(void *context, size_t size) {
  return measuring_resize(context, NULL, size);
}

static void measuring_release(void *context, void *block) {
  measuring_allocator *allocator = context;
  if (block == NULL) return;
  size_t size;
  memcpy(&size, (char *)block - BLOCK_HEAD, sizeof size);
  allocator->bytes -= size;
  allocator->blocks--;
  free((char *)block - BLOCK_HEAD);
}

#define EVENTS_PER_WRITE 5000
#define ASCENDING_EVENTS 17501 /* so many ids ascend; behind them, each second one does not */

static void long_event(int64_t number, char id[40], char json[160]) {
  snprintf(id, 40, "01890000-%08" PRId64 "-7000-8000", number <= ASCENDING_EVENTS ? number : number ^ 1);
  snprintf(json, 160, "{\"id\":\"%s\",\"author\":\"bot\",\"content\":{\"parts\":[{\"text\":\"number %" PRId64 "\"}]}}",
           id, number);
}

typedef struct growing_session {
  mp_session_ref ref;
  size_t encoded; /* bytes of JSON appended so far */
} growing_session;

static moonpad_status makes_session(mp_tx *tx, void *context, moonpad_error *error) {
  growing_session *session = context;
  session->ref = ref_named("shop", "ann", "s1");
  return make_session(tx, &session->ref, 1.0, error);
}

static moonpad_status appends_long_events(mp_tx *tx, void *context, moonpad_error *error) {
  growing_session *session = context;
  mp_session_row row;
  TRY(find_row(tx, &session->ref, &row, error));
  for (int i = 0; i < EVENTS_PER_WRITE; i++) {
    char id[40], json[160];
    long_event(++row.revision, id, json);
    session->encoded += strlen(json);
    mp_event_row event = event_row(row.revision, 1.0, id, json);
    /* Half of the ids are given as part of the JSON, as they usually are. */
    if (i % 2 == 0) event.id.data = json + strlen("{\"id\":\"");
    mp_batch batch = {.ref = session->ref, .row = &row, .events = &event, .event_count = 1};
    TRY(tx->ops->apply(tx, &batch, error));
  }
  return update_heads(tx, &session->ref, &row, MP_HEAD(MP_SCOPE_SESSION), error);
}

/*
** An event costs its encoded size and at most 120 bytes, with its id in the index and what malloc
** adds.
*/
static void test_memory_of_events(void **state) {
  (void)state;
  measuring_allocator allocator = {{measuring_allocate, measuring_resize, measuring_release, &allocator}, 0, 0};
  const int writes = runs_under_valgrind() ? 4 : 20;
  growing_session session = {.encoded = 0};
  opened_store opened;
  store_open(&opened, memory_kind(), &allocator.hooks);
  write_ok(&opened, makes_session, &session);
  write_ok(&opened, appends_long_events, &session);
  size_t bytes = allocator.bytes, blocks = allocator.blocks;
  session.encoded = 0;
  for (int i = 0; i < writes; i++) write_ok(&opened, appends_long_events, &session);
  size_t events = (size_t)writes * EVENTS_PER_WRITE;
  /* malloc: 8 bytes before a block, 8 on average behind it */
  size_t grown = allocator.bytes - bytes + (allocator.blocks - blocks) * 16;
  if (grown > session.encoded + events * 120) {
    fail_msg("%zu bytes for %zu events of %zu", grown, events, session.encoded);
  }
  store_close(&opened);
  assert_int_equal(allocator.blocks, 0);
  assert_int_equal(allocator.bytes, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_opening_memory),
      cmocka_unit_test(test_memory_of_events),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
