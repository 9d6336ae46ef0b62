/*
** The executor (service/executor.h): tasks, the threads that run them, and who takes them out of
** their queues. A host sees appends that complete, but can neither hold a task nor abandon one.
*/
#include "service_support.h"

#include <sched.h>
#include <stdio.h>

#include "service/queue_poll.h"
#include "service/service.h"
#include "thread_support.h"

typedef struct job {
  mp_task task; /* the first member */
  sem_t *begun, *go_on;
  int *finished;
  int *dropped;
  bool fails;
} job;

static void run_job(mp_task *submitted) {
  job *self = (job *)submitted;
  sem_post(self->begun);
  sem_wait(self->go_on);
}

static moonpad_status finish_job(mp_task *submitted) {
  job *self = (job *)submitted;
  ++*self->finished;
  return self->fails ? MOONPAD_STORAGE : MOONPAD_OK;
}

static void drop_job(mp_task *submitted) {
  ++*((job *)submitted)->dropped;
}

enum { JOBS = MP_WORKERS + 3 };

/* All of them wait at once, each on a thread; the rest begins as they end. */
static void test_tasks_wait_side_by_side(void **state) {
  host *self = *state;
  job jobs[JOBS];
  sem_t begun, go_on;
  int finished = 0, dropped = 0;
  size_t failed = 0, polled = 0;
  moonpad_queue *queue = host_queue(self);
  assert_int_equal(sem_init(&begun, 0, 0), 0);
  assert_int_equal(sem_init(&go_on, 0, 0), 0);
  for (int i = 0; i < JOBS; i++) {
    jobs[i] = (job){.task = {.run = run_job, .finish = finish_job, .drop = drop_job, .queue = queue},
                    .begun = &begun,
                    .go_on = &go_on,
                    .finished = &finished,
                    .dropped = &dropped,
                    .fails = i % 2 == 1};
    OK(mp_submit(self->service, &jobs[i].task, &failure));
  }
  for (int i = 0; i < MP_WORKERS; i++) sem_wait(&begun);
  assert_int_not_equal(sem_trywait(&begun), 0);
  assert_int_equal(mp_queue_poll(queue, 0, &failed), 0);
  for (int i = 0; i < JOBS; i++) sem_post(&go_on);
  while (polled < JOBS) {
    size_t failed_now = 0;
    polled += mp_queue_poll(queue, TIMEOUT_MS, &failed_now);
    failed += failed_now;
  }
  assert_int_equal(finished, JOBS);
  assert_int_equal(failed, JOBS / 2);
  assert_int_equal(self->service->executor.worker_count, MP_WORKERS);
  /* One that is taken in hand without a poll, and one that nobody wants to know of any more. */
  for (int i = 0; i < 2; i++) {
    OK(mp_submit(self->service, &jobs[i].task, &failure));
    sem_post(&go_on);
  }
  moonpad_queue_free(queue);
  assert_int_equal(finished, JOBS);
  assert_int_equal(dropped, 2);
  sem_destroy(&begun);
  sem_destroy(&go_on);
}

static void test_closing_finishes_what_is_submitted(void **state) {
  host *self = *state;
  job jobs[JOBS], late;
  sem_t begun, go_on;
  int finished = 0, dropped = 0;
  assert_int_equal(sem_init(&begun, 0, 0), 0);
  assert_int_equal(sem_init(&go_on, 0, 0), 0);
  for (int i = 0; i < JOBS; i++) {
    jobs[i] = (job){.task = {.run = run_job, .finish = finish_job, .drop = drop_job, .queue = &self->service->queue},
                    .begun = &begun,
                    .go_on = &go_on,
                    .finished = &finished,
                    .dropped = &dropped};
    if (i == 0) late = jobs[0]; /* before a worker uses that one */
    OK(mp_submit(self->service, &jobs[i].task, &failure));
  }
  task closer = {.service = self->service};
  task_start(&closer, run_close);
  while (!atomic_load(&self->service->executor.closed)) sched_yield();
  FAILS(MOONPAD_CLOSED, mp_submit(self->service, &late.task, &failure));
  assert_int_not_equal(sem_trywait(&closer.done), 0);
  for (int i = 0; i < JOBS; i++) sem_post(&go_on);
  task_join(&closer);
  assert_int_equal(moonpad_poll(self->service, 0), JOBS);
  assert_int_equal(finished, JOBS);
  assert_int_equal(dropped, 0);
  sem_destroy(&begun);
  sem_destroy(&go_on);
}

/* ---- Who takes a task ---- */

/* One that ends when it is told to. */
typedef struct held_task {
  job job; /* the first member */
  host *owner;
  struct held_task *before; /* of run_for_a_moment; NULL: none */
  sem_t begun, go_on;
  int finished, dropped;
} held_task;

static void hold(host *self, held_task *held, moonpad_queue *queue, mp_task_taker taker) {
  memset(held, 0, sizeof *held);
  held->owner = self;
  assert_int_equal(sem_init(&held->begun, 0, 0), 0);
  assert_int_equal(sem_init(&held->go_on, 0, 0), 0);
  held->job = (job){
      .task = {.run = run_job, .finish = finish_job, .drop = drop_job, .queue = queue, .taker = taker},
      .begun = &held->begun,
      .go_on = &held->go_on,
      .finished = &held->finished,
      .dropped = &held->dropped,
      .fails = true,
  };
  OK(mp_submit(self->service, &held->job.task, &failure));
}

/* Until it stands in its queue. */
static void let_end(held_task *held) {
  mp_executor *executor = &held->owner->service->executor;
  sem_post(&held->go_on);
  mp_mutex_lock(&executor->mutex);
  while (held->job.task.number == 0) mp_executor_wait(executor, &executor->finished);
  mp_mutex_unlock(&executor->mutex);
}

static void expect_told(held_task *held, int finished, int dropped) {
  assert_int_equal(held->finished, finished);
  assert_int_equal(held->dropped, dropped);
  sem_destroy(&held->begun);
  sem_destroy(&held->go_on);
}

static void pause_for_a_moment(void) {
  struct timespec pause = {0, 20 * 1000 * 1000};
  nanosleep(&pause, NULL);
}

static void test_a_step_takes_its_tasks_itself(void **state) {
  host *self = *state;
  moonpad_queue *own = host_queue(self);
  for (int i = 0; i < 2; i++) {
    moonpad_queue *queue = i == 0 ? own : &self->service->queue;
    held_task first, second, polled;
    size_t failed;
    int fd;
    OK(i == 0 ? moonpad_queue_fd(queue, &fd, &failure) : moonpad_fd(self->service, &fd, &failure));
    hold(self, &first, queue, MP_TAKEN_BY_STEP);
    hold(self, &second, queue, MP_TAKEN_BY_STEP);
    hold(self, &polled, queue, MP_TAKEN_BY_POLL);
    assert_false(mp_task_take(&first.job.task));
    let_end(&second);
    assert_true(is_readable(fd, 0));
    /* A poll leaves it there, and does not count it. */
    assert_int_equal(mp_queue_poll(queue, 0, &failed), 0);
    assert_int_equal(failed, 0);
    assert_true(is_readable(fd, 0));
    let_end(&polled);
    let_end(&first);
    assert_int_equal(mp_queue_poll(queue, 0, &failed), 1);
    assert_int_equal(failed, 1);
    assert_true(mp_task_take(&first.job.task));
    assert_true(is_readable(fd, 0));
    assert_true(mp_task_take(&second.job.task));
    assert_false(is_readable(fd, 0));
    assert_int_equal(moonpad_queue_poll(queue, TIMEOUT_MS), 0);
    expect_told(&first, 0, 0);
    expect_told(&second, 0, 0);
    expect_told(&polled, 1, 0);
  }
  moonpad_queue_free(own);
}

static void test_what_is_abandoned_is_dropped(void **state) {
  host *self = *state;
  moonpad_queue *queue = host_queue(self);
  held_task before, after, left, polled;
  int fd;
  OK(moonpad_queue_fd(queue, &fd, &failure));
  hold(self, &before, queue, MP_TAKEN_BY_STEP);
  hold(self, &after, queue, MP_TAKEN_BY_STEP);
  hold(self, &left, queue, MP_TAKEN_BY_STEP);
  hold(self, &polled, queue, MP_TAKEN_BY_POLL);
  /* One that is done is dropped at once. */
  let_end(&after);
  assert_true(is_readable(fd, 0));
  mp_task_abandon(&after.job.task);
  assert_int_equal(after.dropped, 1);
  assert_false(is_readable(fd, 0));
  /* The other one calls for no poll, and is dropped by the next. */
  mp_task_abandon(&before.job.task);
  let_end(&before);
  assert_int_equal(before.dropped, 0);
  assert_false(is_readable(fd, 0));
  let_end(&polled);
  assert_true(is_readable(fd, 0));
  assert_int_equal(moonpad_queue_poll(queue, 0), 1);
  assert_int_equal(before.dropped, 1);
  assert_false(is_readable(fd, 0));
  /* Or without one, which leaves what is for others. */
  hold(self, &before, queue, MP_TAKEN_BY_STEP);
  hold(self, &polled, queue, MP_TAKEN_BY_POLL);
  mp_task_abandon(&left.job.task);
  let_end(&before);
  let_end(&polled);
  let_end(&left);
  mp_queue_drop_abandoned(queue);
  assert_int_equal(left.dropped, 1);
  assert_true(mp_task_take(&before.job.task));
  assert_true(is_readable(fd, 0));
  assert_int_equal(moonpad_queue_poll(queue, 0), 1);
  assert_false(is_readable(fd, 0));
  expect_told(&before, 0, 0);
  expect_told(&after, 0, 1);
  expect_told(&left, 0, 1);
  expect_told(&polled, 1, 0);
  moonpad_queue_free(queue);
}

static void test_a_freed_queue_drops_the_tasks_of_steps(void **state) {
  host *self = *state;
  moonpad_queue *queue = host_queue(self);
  held_task done, abandoned, polled;
  hold(self, &done, queue, MP_TAKEN_BY_STEP);
  hold(self, &abandoned, queue, MP_TAKEN_BY_STEP);
  hold(self, &polled, queue, MP_TAKEN_BY_POLL);
  let_end(&done);
  let_end(&polled);
  mp_task_abandon(&abandoned.job.task);
  sem_post(&abandoned.go_on);
  moonpad_queue_free(queue);
  expect_told(&done, 0, 1);
  expect_told(&abandoned, 0, 1);
  expect_told(&polled, 0, 1);
}

/*
** Ends when it is told to, or when a poll has waited for it for far too long, before that gives up.
*/
static void run_held_for_long(mp_task *submitted) {
  held_task *self = (held_task *)submitted;
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += TIMEOUT_SECONDS / 2;
  sem_timedwait(&self->go_on, &deadline);
}

/* Lets another one end, if there is one; ends when a poll has then had the time to go wrong. */
static void run_for_a_moment(mp_task *submitted) {
  held_task *self = (held_task *)submitted;
  pause_for_a_moment();
  if (self->before == NULL) return;
  let_end(self->before);
  pause_for_a_moment();
}

static void submit_behind(host *self, held_task *held, moonpad_queue *queue, void (*run)(mp_task *task),
                          held_task *before) {
  memset(held, 0, sizeof *held);
  held->before = before;
  held->owner = self;
  assert_int_equal(sem_init(&held->begun, 0, 0), 0);
  assert_int_equal(sem_init(&held->go_on, 0, 0), 0);
  held->job = (job){.task = {.run = run, .finish = finish_job, .drop = drop_job, .queue = queue},
                    .finished = &held->finished,
                    .dropped = &held->dropped};
  OK(mp_submit(self->service, &held->job.task, &failure));
}

/*
** While `polled` is under way, which is held for long: for what is there for a step already, but
** not again for the same.
*/
static void expect_one_poll_to_come_back(host *self, held_task *polled, moonpad_queue *queue) {
  assert_int_equal(moonpad_queue_poll(queue, TIMEOUT_MS), 0);
  let_end(polled);
  assert_int_equal(moonpad_queue_poll(queue, TIMEOUT_MS), 1);
  expect_told(polled, 1, 0);
  submit_behind(self, polled, queue, run_for_a_moment, NULL);
  assert_int_equal(moonpad_queue_poll(queue, TIMEOUT_MS), 1);
  expect_told(polled, 1, 0);
}

static void test_a_poll_comes_back_for_a_step_once(void **state) {
  host *self = *state;
  moonpad_queue *queue = host_queue(self);
  held_task first, second, abandoned, polled;
  hold(self, &first, queue, MP_TAKEN_BY_STEP);
  hold(self, &second, queue, MP_TAKEN_BY_STEP);
  submit_behind(self, &polled, queue, run_held_for_long, NULL);
  /* It comes back for one that is not the last, though a step has taken that one. */
  let_end(&first);
  let_end(&second);
  assert_true(mp_task_take(&second.job.task));
  expect_one_poll_to_come_back(self, &polled, queue);
  /* Other waits look for themselves what is new. */
  assert_true(mp_queue_await(queue, TIMEOUT_MS));
  submit_behind(self, &polled, queue, run_for_a_moment, NULL);
  assert_true(mp_queue_await(queue, TIMEOUT_MS));
  assert_int_equal(moonpad_queue_poll(queue, 0), 1);
  expect_told(&polled, 1, 0);
  assert_false(mp_queue_await(queue, TIMEOUT_MS));
  /* Nor for one that nobody waits for. */
  hold(self, &abandoned, queue, MP_TAKEN_BY_STEP);
  mp_task_abandon(&abandoned.job.task);
  submit_behind(self, &polled, queue, run_for_a_moment, &abandoned);
  assert_int_equal(moonpad_queue_poll(queue, TIMEOUT_MS), 1);
  assert_true(mp_task_take(&first.job.task));
  expect_told(&first, 0, 0);
  expect_told(&second, 0, 0);
  expect_told(&abandoned, 0, 1);
  expect_told(&polled, 1, 0);
  moonpad_queue_free(queue);
}

static void test_what_is_due_without_a_task(void **state) {
  host *self = *state;
  moonpad_queue *queue = host_queue(self);
  held_task polled;
  int fd;
  mp_queue_add_due(queue);
  OK(moonpad_queue_fd(queue, &fd, &failure));
  assert_true(is_readable(fd, 0));
  mp_queue_add_due(queue);
  mp_queue_remove_due(queue);
  assert_true(is_readable(fd, 0));
  /* It ends a poll that waits, which neither counts nor takes it, and not the next one. */
  submit_behind(self, &polled, queue, run_held_for_long, NULL);
  expect_one_poll_to_come_back(self, &polled, queue);
  assert_true(is_readable(fd, 0));
  mp_queue_remove_due(queue);
  assert_false(is_readable(fd, 0));
  /* Other waits see what is new, too. */
  mp_queue_add_due(queue);
  assert_true(mp_queue_await(queue, TIMEOUT_MS));
  assert_false(mp_queue_await(queue, TIMEOUT_MS));
  /* The queue may be freed meanwhile. */
  mp_queue_retain(queue);
  moonpad_queue_free(queue);
  mp_queue_remove_due(queue);
  mp_queue_release(queue);
}

/* However many tasks wait for somebody's lock, one that only reads is run. */
static void test_writers_leave_a_worker_free(void **state) {
  host *self = *state;
  job jobs[MP_WORKERS + 1];
  sem_t begun, go_on, read;
  int finished = 0, dropped = 0;
  size_t failed = 0, polled = 0;
  moonpad_queue *queue = host_queue(self);
  assert_int_equal(sem_init(&begun, 0, 0), 0);
  assert_int_equal(sem_init(&go_on, 0, 0), 0);
  assert_int_equal(sem_init(&read, 0, 0), 0);
  for (int i = 0; i <= MP_WORKERS; i++) {
    bool writes = i < MP_WORKERS;
    jobs[i] = (job){.task = {.run = run_job, .finish = finish_job, .drop = drop_job, .queue = queue, .writes = writes},
                    .begun = writes ? &begun : &read,
                    .go_on = &go_on,
                    .finished = &finished,
                    .dropped = &dropped};
    OK(mp_submit(self->service, &jobs[i].task, &failure));
  }
  sem_wait(&read);
  for (int i = 0; i < MP_WRITERS; i++) sem_wait(&begun);
  assert_int_not_equal(sem_trywait(&begun), 0);
  for (int i = 0; i <= MP_WORKERS; i++) sem_post(&go_on);
  while (polled <= MP_WORKERS) polled += mp_queue_poll(queue, TIMEOUT_MS, &failed);
  assert_int_equal(finished, MP_WORKERS + 1);
  moonpad_queue_free(queue);
  sem_destroy(&begun);
  sem_destroy(&go_on);
  sem_destroy(&read);
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, host_setup_file, host_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_FILE(test_tasks_wait_side_by_side),
      ON_FILE(test_writers_leave_a_worker_free),
      ON_FILE(test_closing_finishes_what_is_submitted),
      ON_FILE(test_a_step_takes_its_tasks_itself),
      ON_FILE(test_what_is_abandoned_is_dropped),
      ON_FILE(test_a_freed_queue_drops_the_tasks_of_steps),
      ON_FILE(test_a_poll_comes_back_for_a_step_once),
      ON_FILE(test_what_is_due_without_a_task),
  };
  return HOST_RUN(tests);
}
