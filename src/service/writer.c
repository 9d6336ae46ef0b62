/*
** Asynchronous appends. The host's thread prepares an append and shows it in the session object at once; one writer thread per service stores what is
** queued, many in one transaction; moonpad_poll, on the host's thread again, puts the outcome into the session object and calls back.
*/
#include "service/writer.h"

#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "service/lane.h"
#include "service/pending.h"

#define BATCH 64

typedef struct mp_job {
  struct mp_job *next;
  struct mp_job *next_to_apply;
  uint64_t number; /* of those that are done */
  mp_append append;
  mp_buffer event;          /* what the append reads from */
  moonpad_session *session; /* NULL once the object has been freed, which waits until the job is done */
  mp_lane *lane;
  moonpad_append_callback callback;
  void *context;
  moonpad_error error; /* code MOONPAD_OK: stored */
  bool applied;        /* the session object shows the outcome */
} mp_job;

typedef struct job_queue {
  mp_job *first;
  mp_job *last;
} job_queue;

struct mp_writer {
  moonpad_service *service; /* not counted: the service owns the writer */
  pthread_t thread;
  pthread_cond_t work;
  pthread_cond_t finished;
  job_queue waiting;
  job_queue done;
  uint64_t done_count; /* ever */
  size_t working;      /* jobs that the thread has taken */
  bool stopping;       /* the thread ends when nothing waits any more */
  bool ended;          /* it has */
};

static void push(job_queue *queue, mp_job *job) {
  job->next = NULL;
  if (queue->last == NULL) {
    queue->first = job;
  } else {
    queue->last->next = job;
  }
  queue->last = job;
}

static mp_job *pop(job_queue *queue) {
  mp_job *job = queue->first;
  if (job == NULL) return NULL;
  queue->first = job->next;
  if (queue->first == NULL) queue->last = NULL;
  return job;
}

/* ---- the writer thread ---- */

typedef struct job_batch {
  mp_job *jobs[BATCH];
  size_t count;
} job_batch;

/* One job inside the batch's transaction. A refusal touches nothing and is this job's alone; a failing store ends the batch. */
static moonpad_status run_job(mp_tx *tx, mp_job *job) {
  if (mp_lane_failure(job->lane, &job->error) != MOONPAD_OK) {
    mp_append_forget_outcome(&job->append);
    return MOONPAD_OK;
  }
  job->error.code = MOONPAD_OK;
  moonpad_status status = mp_append_run(tx, &job->append, &job->error);
  if (status == MOONPAD_OK && !job->append.duplicate) status = mp_lane_note(job->lane, &job->append, &job->error);
  if (status == MOONPAD_OK) return MOONPAD_OK;
  bool refused = status == MOONPAD_CONFLICT || status == MOONPAD_NOT_FOUND || status == MOONPAD_ALREADY_EXISTS ||
                 status == MOONPAD_INVALID_ARGUMENT || status == MOONPAD_LIMIT;
  if (!refused) return status;
  mp_lane_fail(job->lane, &job->error);
  return MOONPAD_OK;
}

static moonpad_status run_batch(mp_tx *tx, void *context, moonpad_error *error) {
  job_batch *batch = context;
  for (size_t i = 0; i < batch->count; i++) mp_lane_rewind(batch->jobs[i]->lane);
  for (size_t i = 0; i < batch->count; i++) {
    moonpad_status status = run_job(tx, batch->jobs[i]);
    if (status != MOONPAD_OK) {
      if (error != NULL) *error = batch->jobs[i]->error;
      return status;
    }
  }
  return MOONPAD_OK;
}

/*
** What the store said to all of them, or to a job by itself. Those behind it in its lane fail
** because of it.
*/
static void fail_job(mp_job *job, const moonpad_error *error) {
  mp_lane_rewind(job->lane);
  if (mp_lane_failure(job->lane, &job->error) != MOONPAD_OK) return;
  job->error = *error;
  mp_lane_fail(job->lane, error);
  mp_lane_keep(job->lane);
}

static moonpad_status write_jobs(mp_store *store, job_batch *batch, moonpad_error *error) {
  memset(error, 0, sizeof *error);
  error->code = store->ops->write(store, run_batch, batch, error);
  return error->code;
}

/*
** A store that refused the batch as a whole is asked again job by job, so that each gets its own
** answer; no longer once it has said what it would say to all. Who was locked out has waited for as
** long as each may wait. *error is what the store said last.
*/
static void store_batch(mp_store *store, job_batch *batch, moonpad_error *error) {
  moonpad_status status = write_jobs(store, batch, error);
  bool to_all = status == MOONPAD_OK || status == MOONPAD_BUSY || status == MOONPAD_CLOSED || batch->count == 1;
  for (size_t i = 0; i < batch->count; i++) {
    if (!to_all) {
      job_batch single = {{batch->jobs[i]}, 1};
      status = write_jobs(store, &single, error);
      to_all = status == MOONPAD_BUSY || status == MOONPAD_CLOSED || status == MOONPAD_STORAGE ||
               status == MOONPAD_NO_MEMORY;
    }
    if (status == MOONPAD_OK) {
      mp_lane_keep(batch->jobs[i]->lane);
    } else {
      fail_job(batch->jobs[i], error);
    }
  }
}

static void take_batch(job_queue *waiting, job_batch *batch) {
  batch->count = 0;
  while (batch->count < BATCH && waiting->first != NULL) batch->jobs[batch->count++] = pop(waiting);
}

static void *write_queued(void *context) {
  mp_writer *writer = context;
  pthread_mutex_t *mutex = &writer->service->writer_mutex;
  moonpad_error error = {MOONPAD_OK, ""}; /* what the store said last */
  bool locked_out = false;                /* since the service is being closed */
  pthread_mutex_lock(mutex);
  for (;;) {
    while (writer->waiting.first == NULL && !writer->stopping) pthread_cond_wait(&writer->work, mutex);
    if (writer->waiting.first == NULL) break;
    job_batch batch;
    take_batch(&writer->waiting, &batch);
    writer->working = batch.count;
    pthread_mutex_unlock(mutex);
    if (locked_out) {
      for (size_t i = 0; i < batch.count; i++) fail_job(batch.jobs[i], &error);
    } else {
      store_batch(writer->service->store, &batch, &error);
    }
    pthread_mutex_lock(mutex);
    for (size_t i = 0; i < batch.count; i++) {
      batch.jobs[i]->session->jobs_done++;
      batch.jobs[i]->number = ++writer->done_count;
      push(&writer->done, batch.jobs[i]);
    }
    writer->working = 0;
    /* Whoever closes the service waits once for somebody else's lock, however much is queued. */
    locked_out = writer->stopping && error.code == MOONPAD_BUSY;
    pthread_cond_broadcast(&writer->finished);
  }
  pthread_mutex_unlock(mutex);
  return NULL;
}

static bool init_condition(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  if (pthread_condattr_init(&attributes) != 0) return false;
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  bool made = pthread_cond_init(condition, &attributes) == 0;
  pthread_condattr_destroy(&attributes);
  return made;
}

/* Without its thread. NULL when out of memory. */
static mp_writer *new_writer(moonpad_service *service) {
  mp_writer *writer = mp_allocate_zeroed(service->env, sizeof *writer);
  if (writer == NULL) return NULL;
  writer->service = service;
  if (init_condition(&writer->work)) {
    if (init_condition(&writer->finished)) return writer;
    pthread_cond_destroy(&writer->work);
  }
  mp_release(service->env, writer);
  return NULL;
}

static void free_writer(mp_writer *writer) {
  if (writer == NULL) return;
  pthread_cond_destroy(&writer->work);
  pthread_cond_destroy(&writer->finished);
  mp_release(writer->service->env, writer);
}

void mp_writer_stop(moonpad_service *service) {
  pthread_mutex_lock(&service->writer_mutex);
  atomic_store(&service->closed, true);
  mp_writer *writer = service->writer;
  bool is_first = writer != NULL && !writer->stopping;
  if (is_first) {
    writer->stopping = true;
    pthread_cond_signal(&writer->work);
  }
  /* Nobody takes the store away while the thread still uses it. */
  while (!is_first && writer != NULL && !writer->ended) pthread_cond_wait(&writer->finished, &service->writer_mutex);
  pthread_mutex_unlock(&service->writer_mutex);
  if (!is_first) return;
  pthread_join(writer->thread, NULL);
  pthread_mutex_lock(&service->writer_mutex);
  writer->ended = true;
  pthread_cond_broadcast(&writer->finished);
  pthread_mutex_unlock(&service->writer_mutex);
}

/* ---- the host's thread ---- */

static void free_job(mp_job *job) {
  mp_env *env = job->append.env;
  mp_append_free(&job->append);
  mp_buffer_free(&job->event);
  mp_lane_release(job->lane);
  mp_release(env, job);
}

static void log_failure(const mp_job *job) {
  if (job->error.code != MOONPAD_OK) mp_log(job->append.env, job->error.code, job->error.message);
}

void mp_writer_free(moonpad_service *service) {
  mp_writer *writer = service->writer;
  if (writer == NULL) return;
  for (mp_job *job; (job = pop(&writer->done)) != NULL;) {
    log_failure(job);
    free_job(job);
  }
  service->writer = NULL;
  free_writer(writer);
}

/* What the session object is to show at once: all of it that can fail. */
static moonpad_status expect_results(mp_append *append, moonpad_error *error) {
  for (size_t i = 0; i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    if (i >= append->stored_count) {
      operation->expected = mp_value_retain(operation->result);
    } else if (operation->kind == MP_INCREMENT || operation->kind == MP_APPEND) {
      moonpad_status status = mp_add_pending(append->env, operation->kind, mp_key_text(operation->key),
                                             operation->entry->value, operation->value, &operation->expected, error);
      if (status != MOONPAD_OK) return status;
    } else {
      operation->expected = mp_value_retain(operation->value);
    }
  }
  return MOONPAD_OK;
}

/* The writer thread may be storing it by now, and uses nothing of this. */
static void show_expected(mp_append *append, moonpad_session *session, const moonpad_changes *changes) {
  for (size_t i = 0; i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    int64_t revision = operation->entry->revision;
    operation->shown_before = mp_value_retain(operation->entry->value);
    mp_view_give(session, operation->entry, operation->expected, revision);
    operation->expected = NULL;
    operation->entry->in_flight++;
    mp_changes_after_own_append(session, operation->entry, revision, revision, changes);
  }
}

static moonpad_status make_job(moonpad_session *session, moonpad_changes *changes, moonpad_string event, mp_job **made,
                               moonpad_error *error) {
  mp_job *job = mp_allocate_zeroed(session->env, sizeof *job);
  if (job == NULL) return mp_no_memory(error);
  mp_buffer_init(&job->event, session->env);
  mp_buffer_add_string(&job->event, event);
  moonpad_status status = job->event.failed
                              ? mp_no_memory(error)
                              : mp_append_prepare(&job->append, session, changes, mp_buffer_text(&job->event), false,
                                                  MP_DECIDED_AS_HELD, error);
  if (status != MOONPAD_OK) {
    mp_buffer_free(&job->event);
    mp_release(session->env, job);
    return status;
  }
  if (session->lane == NULL && (session->lane = mp_lane_new(session->env)) == NULL) {
    mp_append_free(&job->append);
    mp_buffer_free(&job->event);
    mp_release(session->env, job);
    return mp_no_memory(error);
  }
  job->session = session;
  job->lane = mp_lane_retain(session->lane);
  job->append.lane = job->lane;
  *made = job;
  return MOONPAD_OK;
}

static bool needs_writer(moonpad_service *service) {
  pthread_mutex_lock(&service->writer_mutex);
  bool needs = service->writer == NULL;
  pthread_mutex_unlock(&service->writer_mutex);
  return needs;
}

/*
** With the mutex held. `made` becomes the service's writer where there is none yet, and is NULL
** then.
*/
static moonpad_status push_job(moonpad_service *service, mp_writer **made, mp_job *job, moonpad_error *error) {
  moonpad_status status = mp_check_open(service, error);
  if (status != MOONPAD_OK) return status;
  if (service->writer == NULL) {
    if (*made == NULL || pthread_create(&(*made)->thread, NULL, write_queued, *made) != 0) return mp_no_memory(error);
    service->writer = *made;
    *made = NULL;
  }
  job->session->jobs_in_flight++;
  job->session->jobs_queued++;
  push(&service->writer->waiting, job);
  pthread_cond_signal(&service->writer->work);
  return MOONPAD_OK;
}

/*
** Whether the service has been closed is asked where the job is queued: afterwards nobody would
** store it.
*/
static moonpad_status enqueue(mp_job *job, moonpad_error *error) {
  moonpad_session *session = job->session;
  moonpad_service *service = session->service;
  const moonpad_changes *changes = job->append.changes;
  job->append.changes = NULL;
  moonpad_status status = expect_results(&job->append, error);
  if (status != MOONPAD_OK) return status;
  mp_writer *made = needs_writer(service) ? new_writer(service) : NULL;
  pthread_mutex_lock(&service->writer_mutex);
  status = push_job(service, &made, job, error);
  pthread_mutex_unlock(&service->writer_mutex);
  free_writer(made);
  if (status == MOONPAD_OK) show_expected(&job->append, session, changes);
  return status;
}

moonpad_status moonpad_changes_commit_async(moonpad_changes *changes, moonpad_string event,
                                            moonpad_append_callback callback, void *context, moonpad_error *error) {
  moonpad_status status = mp_changes_refuse_commit(changes, error);
  if (status != MOONPAD_OK) return status;
  return mp_append_event_later(changes->session, changes, event, callback, context, error);
}

moonpad_status moonpad_append_event_async(moonpad_session *session, moonpad_string event,
                                          moonpad_append_callback callback, void *context, moonpad_error *error) {
  return mp_append_event_later(session, NULL, event, callback, context, error);
}

moonpad_status mp_append_event_later(moonpad_session *session, moonpad_changes *changes, moonpad_string event,
                                     moonpad_append_callback callback, void *context, moonpad_error *error) {
  mp_job *job = NULL;
  moonpad_status status = make_job(session, changes, event, &job, error);
  if (status != MOONPAD_OK) return status;
  if (job->append.draft.partial) {
    free_job(job);
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "a partial event is not stored: append it synchronously or drop it");
  }
  job->callback = callback;
  job->context = context;
  status = enqueue(job, error);
  if (status != MOONPAD_OK) free_job(job);
  return status;
}

/* ---- outcomes ---- */

static void apply_stored(mp_job *job, moonpad_session *session) {
  mp_append *append = &job->append;
  bool complete = mp_view_reserve(session, &append->others);
  if (complete) mp_view_apply(session, &append->others);
  for (size_t i = 0; i < append->stored_count; i++) {
    mp_operation *operation = &append->operations[i];
    mp_view_entry *entry = operation->entry;
    int64_t before = entry->revision, after = mp_row_revision(&append->row, operation->scope);
    mp_value *shown = entry->in_flight > 0 || append->duplicate ? entry->value : operation->result;
    mp_view_set(session, entry, shown, after);
    mp_changes_after_own_append(session, entry, before, after, NULL);
  }
  /* Without memory for what others changed, the object still holds the older revision and will ask for it again. */
  if (complete) session->row = append->row;
}

/* What the failed append showed goes. The first failure takes an entry back to before it; those behind it fail too and were built on it. */
static void take_back(mp_job *job, moonpad_session *session) {
  for (size_t i = 0; i < job->append.count; i++) {
    mp_operation *operation = &job->append.operations[i];
    mp_view_entry *entry = operation->entry;
    bool stored_again = session->reloaded && operation->scope != MP_SCOPE_TEMP;
    if (!entry->rolled_back && !stored_again) mp_view_set(session, entry, operation->shown_before, entry->revision);
    entry->rolled_back = entry->in_flight > 0;
  }
  if (session->reloaded) return;
  session->reloaded = mp_session_reload(session, NULL) == MOONPAD_OK;
}

static void apply_job(mp_job *job) {
  moonpad_session *session = job->session;
  if (job->applied || session == NULL) return;
  job->applied = true;
  session->jobs_in_flight--;
  for (size_t i = 0; i < job->append.count; i++) job->append.operations[i].entry->in_flight--;
  if (job->error.code == MOONPAD_OK) {
    apply_stored(job, session);
  } else {
    take_back(job, session);
  }
  if (session->jobs_in_flight == 0) {
    mp_lane_release(session->lane);
    session->lane = NULL;
    session->reloaded = false;
  }
}

static void report(mp_job *job) {
  bool is_stored = job->error.code == MOONPAD_OK;
  if (job->error.code == MOONPAD_CONFLICT && job->append.conflict_count > 0 && job->session != NULL) {
    mp_append_keep_conflicts(&job->append, job->session);
  }
  if (job->callback == NULL) {
    log_failure(job);
    return;
  }
  moonpad_event event;
  if (is_stored) mp_append_lend_event(&job->append, &event);
  job->callback(job->context, job->session, is_stored ? &event : NULL, is_stored ? NULL : &job->error);
}

static void deadline_after(int64_t timeout_ms, struct timespec *deadline) {
  clock_gettime(CLOCK_MONOTONIC, deadline);
  deadline->tv_sec += (time_t)(timeout_ms / 1000);
  deadline->tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
  if (deadline->tv_nsec >= 1000000000L) {
    deadline->tv_nsec -= 1000000000L;
    deadline->tv_sec++;
  }
}

/*
** Waits, if at all, for the first that is done. Gives the number of the last one that is, 0: none.
*/
static uint64_t wait_for_done(moonpad_service *service, int64_t timeout_ms) {
  uint64_t last = 0;
  pthread_mutex_lock(&service->writer_mutex);
  mp_writer *writer = service->writer;
  if (writer != NULL) {
    struct timespec deadline;
    if (timeout_ms > 0) deadline_after(timeout_ms, &deadline);
    while (timeout_ms > 0 && writer->done.first == NULL && (writer->working > 0 || writer->waiting.first != NULL)) {
      if (pthread_cond_timedwait(&writer->finished, &service->writer_mutex, &deadline) == ETIMEDOUT) break;
    }
    if (writer->done.first != NULL) last = writer->done_count;
  }
  pthread_mutex_unlock(&service->writer_mutex);
  return last;
}

/* NULL: all up to that one have been taken. */
static mp_job *take_done(moonpad_service *service, uint64_t last) {
  pthread_mutex_lock(&service->writer_mutex);
  job_queue *done = &service->writer->done;
  mp_job *job = done->first != NULL && done->first->number <= last ? pop(done) : NULL;
  pthread_mutex_unlock(&service->writer_mutex);
  return job;
}

size_t moonpad_poll(moonpad_service *service, int64_t timeout_ms) {
  size_t called = 0;
  moonpad_service_retain(service); /* a callback may let go of it */
  /* What callbacks append is for the next time: there might be no end to it. */
  uint64_t last = wait_for_done(service, timeout_ms);
  for (mp_job *job; last > 0 && (job = take_done(service, last)) != NULL; called++) {
    apply_job(job);
    report(job);
    free_job(job);
  }
  moonpad_service_release(service);
  return called;
}

/* With the mutex held. Not for everybody's: the writer may never run out of those. */
static void wait_for_jobs(const moonpad_session *session) {
  moonpad_service *service = session->service;
  while (session->jobs_done < session->jobs_queued) {
    pthread_cond_wait(&service->writer->finished, &service->writer_mutex);
  }
}

/*
** Applying asks the store and gives back memory, so it is done without the mutex: nobody but
** moonpad_poll, on this thread, takes these jobs away.
*/
void mp_session_settle(moonpad_session *session) {
  if (session->jobs_in_flight == 0) return;
  moonpad_service *service = session->service;
  mp_job *first = NULL, **last = &first;
  pthread_mutex_lock(&service->writer_mutex);
  wait_for_jobs(session);
  for (mp_job *job = service->writer->done.first; job != NULL; job = job->next) {
    if (job->session != session) continue;
    *last = job;
    last = &job->next_to_apply;
  }
  *last = NULL;
  pthread_mutex_unlock(&service->writer_mutex);
  for (mp_job *job = first; job != NULL; job = job->next_to_apply) apply_job(job);
}

static void leave_jobs(const moonpad_session *session) {
  moonpad_service *service = session->service;
  pthread_mutex_lock(&service->writer_mutex);
  wait_for_jobs(session);
  for (mp_job *job = service->writer->done.first; job != NULL; job = job->next) {
    if (job->session == session) job->session = NULL;
  }
  pthread_mutex_unlock(&service->writer_mutex);
}

void mp_session_leave(moonpad_session *session) {
  /* One that a transaction has made and frees again must not ask for the lock (service.h). */
  if (session->jobs_queued > 0) leave_jobs(session);
  mp_lane_release(session->lane);
  session->lane = NULL;
}
