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
  size_t working; /* jobs that the thread has taken */
  bool stopping;
  bool joined;
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
  if (mp_lane_failure(job->lane, &job->error) != MOONPAD_OK) return MOONPAD_OK;
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

/* A store that refused the batch as a whole is asked again job by job, so that each gets its own answer. */
static void store_batch(mp_writer *writer, job_batch *batch) {
  mp_store *store = writer->service->store;
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_status status = store->ops->write(store, run_batch, batch, &error);
  for (size_t i = 0; i < batch->count; i++) {
    mp_job *job = batch->jobs[i];
    if (status == MOONPAD_OK) {
      mp_lane_keep(job->lane);
      continue;
    }
    job_batch single = {{job}, 1};
    memset(&error, 0, sizeof error);
    moonpad_status own = store->ops->write(store, run_batch, &single, &error);
    if (own == MOONPAD_OK) {
      mp_lane_keep(job->lane);
    } else {
      mp_lane_rewind(job->lane);
      job->error = error;
      job->error.code = own;
      mp_lane_fail(job->lane, &job->error);
    }
  }
}

static void *write_queued(void *context) {
  mp_writer *writer = context;
  pthread_mutex_t *mutex = &writer->service->writer_mutex;
  pthread_mutex_lock(mutex);
  for (;;) {
    while (writer->waiting.first == NULL && !writer->stopping) pthread_cond_wait(&writer->work, mutex);
    if (writer->waiting.first == NULL) break;
    job_batch batch;
    batch.count = 0;
    while (batch.count < BATCH && writer->waiting.first != NULL) batch.jobs[batch.count++] = pop(&writer->waiting);
    writer->working = batch.count;
    pthread_mutex_unlock(mutex);
    store_batch(writer, &batch);
    pthread_mutex_lock(mutex);
    for (size_t i = 0; i < batch.count; i++) {
      batch.jobs[i]->session->jobs_done++;
      push(&writer->done, batch.jobs[i]);
    }
    writer->working = 0;
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

/* With the mutex held. */
static moonpad_status start_writer(moonpad_service *service, moonpad_error *error) {
  if (service->closed) return mp_fail(error, MOONPAD_CLOSED, "the service is closed");
  if (service->writer != NULL) return MOONPAD_OK;
  mp_writer *writer = mp_allocate_zeroed(service->env, sizeof *writer);
  if (writer == NULL) return mp_no_memory(error);
  writer->service = service;
  if (init_condition(&writer->work)) {
    if (init_condition(&writer->finished)) {
      if (pthread_create(&writer->thread, NULL, write_queued, writer) == 0) {
        service->writer = writer;
        return MOONPAD_OK;
      }
      pthread_cond_destroy(&writer->finished);
    }
    pthread_cond_destroy(&writer->work);
  }
  mp_release(service->env, writer);
  return mp_no_memory(error);
}

void mp_writer_stop(moonpad_service *service) {
  pthread_mutex_lock(&service->writer_mutex);
  service->closed = true;
  mp_writer *writer = service->writer;
  bool join = writer != NULL && !writer->joined;
  if (join) {
    writer->stopping = true;
    writer->joined = true;
    pthread_cond_signal(&writer->work);
  }
  pthread_mutex_unlock(&service->writer_mutex);
  if (join) pthread_join(writer->thread, NULL);
}

/* ---- the host's thread ---- */

static void free_job(mp_job *job) {
  mp_env *env = job->append.env;
  mp_append_free(&job->append);
  mp_buffer_free(&job->event);
  mp_lane_release(job->lane);
  mp_release(env, job);
}

void mp_writer_free(moonpad_service *service) {
  mp_writer *writer = service->writer;
  if (writer == NULL) return;
  for (mp_job *job; (job = pop(&writer->done)) != NULL;) {
    if (job->callback != NULL) job->callback(job->context, NULL, NULL, &job->error);
    free_job(job);
  }
  pthread_cond_destroy(&writer->work);
  pthread_cond_destroy(&writer->finished);
  mp_release(service->env, writer);
  service->writer = NULL;
}

/* What the session object shows at once. */
static moonpad_status show_expected(mp_append *append, moonpad_session *session, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  append->has_outcome = true;
  for (size_t i = 0; status == MOONPAD_OK && i < append->stored_count; i++) {
    mp_operation *operation = &append->operations[i];
    if (operation->kind == MP_INCREMENT || operation->kind == MP_APPEND) {
      status = mp_add_pending(append->env, operation->kind, mp_key_text(operation->key), operation->entry->value,
                              operation->value, &operation->result, error);
    } else {
      operation->result = operation->value;
    }
  }
  if (status != MOONPAD_OK) return status;
  for (size_t i = 0; i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    int64_t revision = operation->entry->revision;
    operation->shown_before = mp_value_retain(operation->entry->value);
    mp_view_set(session, operation->entry, operation->result, revision);
    operation->entry->in_flight++;
    mp_changes_after_own_append(session, operation->entry, revision, revision, append->changes);
  }
  return MOONPAD_OK;
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

static moonpad_status enqueue(mp_job *job, moonpad_error *error) {
  moonpad_service *service = job->session->service;
  pthread_mutex_lock(&service->writer_mutex);
  moonpad_status status = start_writer(service, error);
  pthread_mutex_unlock(&service->writer_mutex);
  if (status == MOONPAD_OK) status = show_expected(&job->append, job->session, error);
  if (status != MOONPAD_OK) return status;
  job->append.changes = NULL;
  job->session->jobs_in_flight++;
  job->session->jobs_queued++;
  pthread_mutex_lock(&service->writer_mutex);
  push(&service->writer->waiting, job);
  pthread_cond_signal(&service->writer->work);
  pthread_mutex_unlock(&service->writer_mutex);
  return MOONPAD_OK;
}

moonpad_status moonpad_changes_commit_async(moonpad_changes *changes, moonpad_string event,
                                            moonpad_append_callback callback, void *context, moonpad_error *error) {
  if (changes->session == NULL) return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "this state belongs to no session");
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
  if (job->error.code == MOONPAD_CONFLICT && job->append.conflict_count > 0 && job->session != NULL) {
    mp_append_keep_conflicts(&job->append, job->session);
  }
  if (job->callback == NULL) {
    if (job->error.code != MOONPAD_OK) mp_log(job->append.env, job->error.code, job->error.message);
    return;
  }
  moonpad_event *event = NULL;
  if (job->error.code == MOONPAD_OK) event = mp_append_event(&job->append);
  job->callback(job->context, job->session, event, job->error.code == MOONPAD_OK ? NULL : &job->error);
  moonpad_event_free(event);
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

static mp_job *take_done(moonpad_service *service, int64_t timeout_ms) {
  pthread_mutex_lock(&service->writer_mutex);
  mp_writer *writer = service->writer;
  mp_job *job = NULL;
  if (writer != NULL) {
    struct timespec deadline;
    if (timeout_ms > 0) deadline_after(timeout_ms, &deadline);
    while (timeout_ms > 0 && writer->done.first == NULL && (writer->working > 0 || writer->waiting.first != NULL)) {
      if (pthread_cond_timedwait(&writer->finished, &service->writer_mutex, &deadline) == ETIMEDOUT) break;
    }
    job = pop(&writer->done);
  }
  pthread_mutex_unlock(&service->writer_mutex);
  return job;
}

size_t moonpad_poll(moonpad_service *service, int64_t timeout_ms) {
  size_t called = 0;
  for (mp_job *job; (job = take_done(service, called == 0 ? timeout_ms : 0)) != NULL; called++) {
    apply_job(job);
    report(job);
    free_job(job);
  }
  return called;
}

void mp_session_settle(moonpad_session *session) {
  if (session->jobs_in_flight == 0) return;
  moonpad_service *service = session->service;
  pthread_mutex_lock(&service->writer_mutex);
  mp_writer *writer = service->writer;
  /* Not for everybody's: the writer may never run out of those. */
  while (session->jobs_done < session->jobs_queued) pthread_cond_wait(&writer->finished, &service->writer_mutex);
  for (mp_job *job = writer->done.first; session->jobs_in_flight > 0 && job != NULL; job = job->next) {
    if (job->session == session) apply_job(job);
  }
  pthread_mutex_unlock(&service->writer_mutex);
}

void mp_session_leave(moonpad_session *session) {
  mp_session_settle(session);
  moonpad_service *service = session->service;
  pthread_mutex_lock(&service->writer_mutex);
  for (mp_job *job = service->writer == NULL ? NULL : service->writer->done.first; job != NULL; job = job->next) {
    if (job->session == session) job->session = NULL;
  }
  pthread_mutex_unlock(&service->writer_mutex);
  mp_lane_release(session->lane);
  session->lane = NULL;
}
