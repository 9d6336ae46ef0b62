/* Completion queues: where what is asynchronous completes. */
#include "needs_processes.h"
#include "needs_threads.h"
#include "service_support.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>

typedef struct outcomes {
  int count;
  int failed;
  int64_t revisions[16];
  pthread_t thread;
} outcomes;

static void note(void *context, moonpad_session *session, const moonpad_event *event, const moonpad_error *error) {
  outcomes *got = context;
  (void)session;
  got->revisions[got->count % 16] = event == NULL ? -1 : moonpad_event_revision(event);
  got->count++;
  if (error != NULL) got->failed++;
  got->thread = pthread_self();
}

static void append_async(moonpad_session *session, const char *delta, outcomes *got) {
  host_append_async(session, delta, note, got);
}

static moonpad_session *create_with(host *self, const char *id, moonpad_queue *queue) {
  moonpad_session *session = host_create(self, id, "");
  OK(moonpad_session_set_queue(session, queue, &failure));
  return session;
}

/* ---- Queues ---- */

static void test_completions_go_to_the_queue_of_the_session(void **state) {
  host *self = *state;
  outcomes ours = {0}, others = {0};
  moonpad_queue *queue = host_queue(self);
  moonpad_session *session = create_with(self, "ours", queue), *other = host_create(self, "other", "");
  append_async(session, "{\"k\":1}", &ours);
  append_async(session, "{\"k\":2}", &ours);
  append_async(other, "{\"k\":3}", &others);
  while (others.count < 1) assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 1);
  assert_int_equal(ours.count, 0);
  while (ours.count < 2) assert_true(moonpad_queue_poll(queue, TIMEOUT_MS) > 0);
  assert_int_equal(others.count, 1);
  assert_int_equal(ours.revisions[0], 1);
  assert_int_equal(ours.revisions[1], 2);
  assert_int_equal(moonpad_session_revision(session), 2);
  /* Nothing is under way: a poll does not wait. */
  assert_int_equal(moonpad_queue_poll(queue, TIMEOUT_MS), 0);
  assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 0);
  /* Back to the service's own. */
  OK(moonpad_session_set_queue(session, NULL, &failure));
  append_async(session, "{\"k\":4}", &ours);
  assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 1);
  assert_int_equal(ours.count, 3);
  moonpad_session_free(session);
  moonpad_session_free(other);
  moonpad_queue_free(queue);
  moonpad_queue_free(NULL);
}

/* Whichever is polled first, the session object shows what is stored. */
static void test_a_session_changes_its_queue_in_between(void **state) {
  host *self = *state;
  outcomes first_got = {0}, got = {0};
  moonpad_queue *first = host_queue(self), *second = host_queue(self);
  moonpad_session *session = create_with(self, "s", first);
  append_async(session, "{\"k\":1}", &first_got);
  OK(moonpad_session_set_queue(session, second, &failure));
  append_async(session, "{\"k\":2}", &got);
  append_async(session, "{\"l\":3}", &got);
  while (got.count < 2) assert_true(moonpad_queue_poll(second, TIMEOUT_MS) > 0);
  assert_int_equal(moonpad_session_revision(session), 3);
  assert_int_equal(first_got.count, 0);
  assert_int_equal(moonpad_queue_poll(first, TIMEOUT_MS), 1);
  assert_int_equal(first_got.revisions[0], 1);
  assert_int_equal(moonpad_session_revision(session), 3);
  STATE(session, "{\"k\":2,\"l\":3}");
  moonpad_queue_free(first);
  moonpad_queue_free(second);
  moonpad_session_free(session);
}

static void test_what_a_queue_refuses(void **state) {
  host *self = *state;
  moonpad_service *another = NULL;
  moonpad_queue *queue = NULL;
  outcomes got = {0};
  OK(moonpad_open(T("memory:"), NULL, &another, &failure));
  OK(moonpad_queue_new(another, &queue, &failure));
  moonpad_session *session = host_create(self, "s", "");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_session_set_queue(session, queue, &failure));
  append_async(session, "{\"k\":1}", &got);
  assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 1);
  moonpad_queue_free(queue);
  moonpad_service_close(another);
  FAILS(MOONPAD_CLOSED, moonpad_queue_new(another, &queue, &failure));
  assert_null(queue);
  moonpad_service_release(another);
  /* One that has been freed. */
  queue = host_queue(self);
  OK(moonpad_session_set_queue(session, queue, &failure));
  moonpad_queue_free(queue);
  FAILS(MOONPAD_CLOSED, moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  STATE(session, "{\"k\":1}");
  host_append(session, "{\"k\":2}");
  OK(moonpad_session_set_queue(session, NULL, &failure));
  append_async(session, "{\"k\":3}", &got);
  assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 1);
  moonpad_session_free(session);
}

static void test_a_freed_queue_drops_what_was_not_polled(void **state) {
  host *self = *state;
  outcomes got = {0};
  moonpad_queue *queue = host_queue(self);
  moonpad_session *session = create_with(self, "s", queue), *gone = create_with(self, "gone", queue);
  moonpad_session_name name = host_name("gone");
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  append_async(session, "{\"k\":1}", &got);
  append_async(session, "{\"k\":2}", &got);
  append_async(gone, "{\"k\":1}", &got);
  moonpad_queue_free(queue);
  assert_int_equal(got.count, 0);
  assert_int_equal(self->warnings, 1);
  assert_int_equal(self->last_warning, MOONPAD_NOT_FOUND);
  /* The session objects show what became of them all the same. */
  assert_int_equal(moonpad_session_revision(session), 2);
  STATE(gone, "{}");
  STORED(self, "s", "{\"k\":2}");
  moonpad_session_free(session);
  moonpad_session_free(gone);
}

static void test_a_queue_is_polled_after_closing(void **state) {
  host *self = *state;
  outcomes got = {0};
  moonpad_queue *queue = host_queue(self);
  moonpad_session *session = create_with(self, "s", queue);
  int fd = -1, again = -1;
  for (int i = 0; i < 100; i++) append_async(session, "{\"k\":1}", &got);
  moonpad_service_close(self->service);
  OK(moonpad_queue_fd(queue, &fd, &failure));
  assert_true(is_readable(fd, 0));
  moonpad_session_free(session);
  assert_int_equal(moonpad_queue_poll(queue, 0), 100);
  assert_int_equal(got.failed, 0);
  assert_int_equal(got.count, 100);
  assert_false(is_readable(fd, 0));
  OK(moonpad_queue_fd(queue, &again, &failure));
  assert_int_equal(again, fd);
  /* It is what holds the service last. */
  moonpad_service_release(self->service);
  assert_true(self->alive > 0);
  moonpad_queue_free(queue);
  assert_int_equal(self->alive, 0);
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
}

typedef struct freeing {
  moonpad_queue *queue;
  moonpad_session *session;
  int called;
} freeing;

static void free_all(void *context, moonpad_session *session, const moonpad_event *event, const moonpad_error *error) {
  freeing *held = context;
  assert_ptr_equal(session, held->session);
  assert_null(error);
  assert_int_equal(moonpad_event_revision(event), 1);
  held->called++;
  moonpad_session_free(held->session);
  moonpad_queue_free(held->queue);
}

static void test_a_callback_frees_its_queue(void **state) {
  host *self = *state;
  freeing held = {.queue = host_queue(self)};
  held.session = create_with(self, "s", held.queue);
  OK(moonpad_append_event_async(held.session, T("{\"author\":\"a\"}"), free_all, &held, &failure));
  OK(moonpad_append_event_async(held.session, T("{\"author\":\"a\"}"), free_all, &held, &failure));
  assert_true(moonpad_queue_poll(held.queue, TIMEOUT_MS) > 0);
  assert_int_equal(held.called, 1);
  STORED(self, "s", "{}");
}

/* ---- File descriptors ---- */

static void test_a_descriptor_is_readable_while_a_poll_has_something_to_do(void **state) {
  host *self = *state;
  outcomes got = {0};
  moonpad_session *session = host_create(self, "s", "");
  int fd = -1, again = -1;
  OK(moonpad_fd(self->service, &fd, &failure));
  assert_true(fd >= 0);
  assert_false(is_readable(fd, 0));
  for (int i = 0; i < 3; i++) {
    append_async(session, "{\"k\":1}", &got);
    append_async(session, "{\"k\":2}", &got);
    assert_true(is_readable(fd, TIMEOUT_MS));
    assert_true(is_readable(fd, 0));
    /* The session object knows of it, and yet nobody has been told. */
    OK(moonpad_refresh(session, &failure));
    assert_true(is_readable(fd, 0));
    assert_int_equal(moonpad_poll(self->service, 0), 2);
    assert_false(is_readable(fd, 0));
  }
  /* Asked for when something is done already. */
  moonpad_queue *queue = host_queue(self);
  OK(moonpad_session_set_queue(session, queue, &failure));
  append_async(session, "{\"k\":3}", &got);
  OK(moonpad_refresh(session, &failure));
  OK(moonpad_queue_fd(queue, &again, &failure));
  assert_int_not_equal(again, fd);
  assert_true(is_readable(again, 0));
  assert_false(is_readable(fd, 0));
  assert_int_equal(moonpad_queue_poll(queue, 0), 1);
  assert_false(is_readable(again, 0));
  moonpad_session_free(session);
  moonpad_queue_free(queue);
}

static void test_without_a_descriptor_there_is_an_error(void **state) {
  NEEDS_PROCESSES();
  host *self = *state;
  struct rlimit limit, none;
  int fd = 7;
  outcomes got = {0};
  moonpad_session *session = host_create(self, "s", "");
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  none = limit;
  none.rlim_cur = 0;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  moonpad_status status = moonpad_fd(self->service, &fd, &failure);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  FAILS(MOONPAD_STORAGE, status);
  assert_int_equal(fd, -1);
  append_async(session, "{\"k\":1}", &got);
  assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 1);
  OK(moonpad_fd(self->service, &fd, &failure));
  assert_false(is_readable(fd, 0));
  moonpad_session_free(session);
}

/* ---- Updating ---- */

static void test_what_is_pending_is_stored_asynchronously(void **state) {
  host *self = *state;
  outcomes got = {0};
  bool queued = true;
  moonpad_changes *own = NULL;
  moonpad_session *session = host_create(self, "s", "");
  OK(moonpad_update_session_async(session, note, &got, &queued, &failure));
  assert_false(queued);
  OK(moonpad_session_changes(session, &own, &failure));
  set_json(own, "k", "", "[1]");
  OK(moonpad_update_session_async(session, note, &got, &queued, &failure));
  assert_true(queued);
  assert_false(moonpad_changes_pending(own));
  STATE(session, "{\"k\":[1]}");
  assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 1);
  assert_int_equal(got.count, 1);
  assert_int_equal(got.revisions[0], 1);
  OK(moonpad_update_session_async(session, note, &got, NULL, &failure));
  assert_int_equal(moonpad_poll(self->service, 0), 0);
  STORED(self, "s", "{\"k\":[1]}");
  moonpad_service_close(self->service);
  FAILS(MOONPAD_CLOSED, moonpad_update_session_async(session, note, &got, &queued, &failure));
  assert_false(queued);
  set_json(own, "k", "", "[2]");
  FAILS(MOONPAD_CLOSED, moonpad_update_session_async(session, note, &got, &queued, &failure));
  assert_true(moonpad_changes_pending(own));
  moonpad_session_free(session);
}

static void test_what_was_written_since_stays_pending(void **state) {
  host *self = *state;
  outcomes got = {0};
  moonpad_changes *own = NULL;
  moonpad_session *session = host_create(self, "s", "{\"k\":\"old\"}"), *theirs = host_get(self, "s");
  OK(moonpad_session_changes(session, &own, &failure));
  host_append(theirs, "{\"k\":\"theirs\"}");
  set_json(own, "k", "", "[\"mine\"]");
  OK(moonpad_update_session_async(session, note, &got, NULL, &failure));
  set_json(own, "l", "", "[\"since\"]");
  assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 1);
  assert_int_equal(got.failed, 1);
  STATE(session, "{\"k\":\"theirs\",\"l\":[\"since\"]}");
  assert_true(moonpad_changes_pending(own));
  OK(moonpad_update_session(session, NULL, &failure));
  STORED(self, "s", "{\"k\":\"theirs\",\"l\":[\"since\"]}");
  moonpad_session_free(theirs);
  moonpad_session_free(session);
}

/* ---- Threads with a queue each ---- */

enum { APPEND_THREADS = 4, APPENDS = 200 };

/* Appends to a session of its own, and polls a queue of its own. */
typedef struct append_thread {
  host *owner;
  pthread_t thread;
  int number;
  outcomes got;
  bool failed;
} append_thread;

static void *append_and_poll(void *context) {
  append_thread *self = context;
  moonpad_error error;
  moonpad_queue *queue = NULL;
  moonpad_session *session = NULL;
  char id[16];
  int fd = -1;
  snprintf(id, sizeof id, "s%d", self->number);
  moonpad_session_name name = host_name(id);
  moonpad_service *service = self->owner->service;
  self->failed = moonpad_queue_new(service, &queue, &error) != MOONPAD_OK ||
                 moonpad_queue_fd(queue, &fd, &error) != MOONPAD_OK ||
                 moonpad_create_session(service, &name, T("{}"), &session, &error) != MOONPAD_OK ||
                 moonpad_session_set_queue(session, queue, &error) != MOONPAD_OK;
  for (int i = 0; i < APPENDS && !self->failed; i++) {
    self->failed = moonpad_append_event_async(session, T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"n\":1}}}"),
                                              note, &self->got, &error) != MOONPAD_OK;
    if (i % 7 == 0) moonpad_queue_poll(queue, 0);
  }
  while (self->got.count < APPENDS && !self->failed) {
    if (!is_readable(fd, TIMEOUT_MS) || moonpad_queue_poll(queue, 0) == 0) self->failed = true;
  }
  if (moonpad_session_revision(session) != APPENDS || !pthread_equal(self->got.thread, pthread_self())) {
    self->failed = true;
  }
  moonpad_session_free(session);
  moonpad_queue_free(queue);
  return NULL;
}

static void test_threads_poll_only_what_is_theirs(void **state) {
  NEEDS_THREADS();
  host *self = *state;
  static append_thread threads[APPEND_THREADS];
  memset(threads, 0, sizeof threads);
  for (int i = 0; i < APPEND_THREADS; i++) {
    threads[i].owner = self;
    threads[i].number = i;
    assert_int_equal(pthread_create(&threads[i].thread, NULL, append_and_poll, &threads[i]), 0);
  }
  for (int i = 0; i < APPEND_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
    assert_false(threads[i].failed);
    assert_int_equal(threads[i].got.count, APPENDS);
    assert_int_equal(threads[i].got.failed, 0);
  }
  assert_int_equal(moonpad_poll(self->service, 0), 0);
}

/* ---- The executor ---- */

/* Of this process. Linux tells it. */
static size_t thread_count(void) {
#if defined(_WIN32)
  skip();
#endif
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  size_t count = 0;
  for (const struct dirent *one; (one = readdir(tasks)) != NULL;) count += one->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static void test_threads_start_when_they_are_needed(void **state) {
  host *self = *state;
  size_t before = thread_count();
  outcomes got = {0};
  /* What these stores are asked is answered on the thread that asks. */
  bool in_memory = strcmp(self->url, "memory:") == 0 || strcmp(self->url, "example:") == 0;
  moonpad_session *session = host_create(self, "s", "");
  moonpad_queue *queue = host_queue(self);
  int fd;
  OK(moonpad_queue_fd(queue, &fd, &failure));
  host_append(session, "{\"k\":1}");
  assert_int_equal(moonpad_poll(self->service, 0), 0);
  assert_int_equal(thread_count(), before);
  for (int i = 0; i < 20; i++) {
    append_async(session, "{\"k\":2}", &got);
    assert_int_equal(moonpad_poll(self->service, in_memory ? 0 : TIMEOUT_MS), 1);
  }
  assert_int_equal(thread_count(), before + (MP_HAS_THREADS && !in_memory));
  moonpad_queue_free(queue);
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_completions_go_to_the_queue_of_the_session),
      ON_EVERY_STORE(test_a_session_changes_its_queue_in_between),
      ON_EVERY_STORE(test_what_a_queue_refuses),
      ON_EVERY_STORE(test_a_freed_queue_drops_what_was_not_polled),
      ON_EVERY_STORE(test_a_queue_is_polled_after_closing),
      ON_EVERY_STORE(test_a_callback_frees_its_queue),
      ON_EVERY_STORE(test_a_descriptor_is_readable_while_a_poll_has_something_to_do),
      ON_EVERY_STORE(test_without_a_descriptor_there_is_an_error),
      ON_EVERY_STORE(test_what_is_pending_is_stored_asynchronously),
      ON_EVERY_STORE(test_what_was_written_since_stays_pending),
      ON_EVERY_STORE(test_threads_poll_only_what_is_theirs),
      ON_EVERY_STORE(test_threads_start_when_they_are_needed),
  };
  return HOST_RUN(tests);
}
