/*
** Asynchronous appends. The host's thread prepares an append and shows it in the session object at
** once; the executor stores what is queued, many in one transaction; a poll, on the host's thread
** again, puts the outcome into the session object and calls back. One that is shown only
** `when_stored` is for a step to ask for, not for a poll.
*/
#include "service/append/async.h"

#include "base/error.h"
#include "service/changes/change_set.h"

#define BATCH 64

/* One of them, from its call until it is polled. */
struct mp_job {
  mp_in_flight in_flight; /* the first member */
  mp_append append;
  mp_buffer event;     /* what the append reads from */
  mp_failure *failure; /* the session object's */
  mp_async_way way;
  moonpad_error error; /* code MOONPAD_OK: stored */
};

/* NULL once it has been freed. */
static moonpad_session *session_of(const mp_job *job) {
  return job->in_flight.owner == NULL ? NULL : job->in_flight.owner->session;
}

/* ---- Storing, on a worker ---- */

typedef struct job_batch {
  mp_job *jobs[BATCH];
  size_t count;
} job_batch;

static bool fails_with_earlier(mp_job *job) {
  const moonpad_error *earlier = &job->failure->error;
  if (earlier->code == MOONPAD_OK) return false;
  mp_fail(&job->error, earlier->code, "an earlier append of this session object failed: %s", earlier->message);
  return true;
}

/*
** One job inside the batch's transaction. A refusal that has written nothing is this job's
** alone; any other failure ends the batch, which is undone.
*/
static moonpad_status run_job(mp_tx *tx, mp_job *job) {
  if (fails_with_earlier(job)) return MOONPAD_OK;
  job->error.code = MOONPAD_OK;
  moonpad_status status = mp_append_run(tx, &job->append, &job->error);
  if (status == MOONPAD_OK) return MOONPAD_OK;
  bool refused = status == MOONPAD_CONFLICT || status == MOONPAD_NOT_FOUND || status == MOONPAD_ALREADY_EXISTS ||
                 status == MOONPAD_INVALID_ARGUMENT || status == MOONPAD_LIMIT;
  if (!refused || job->append.has_written) return status;
  job->failure->error = job->error;
  return MOONPAD_OK;
}

/* What the jobs have noted in their session objects, the last one first. */
static void undo_batch(const job_batch *batch) {
  for (size_t i = batch->count; i-- > 0;) {
    mp_job *job = batch->jobs[i];
    mp_append_forget_outcome(&job->append);
    if (!job->failure->is_final) job->failure->error.code = MOONPAD_OK;
  }
}

static moonpad_status run_batch(mp_tx *tx, void *context, moonpad_error *error) {
  job_batch *batch = context;
  undo_batch(batch);
  for (size_t i = 0; i < batch->count; i++) {
    moonpad_status status = run_job(tx, batch->jobs[i]);
    if (status != MOONPAD_OK) {
      if (error != NULL) *error = batch->jobs[i]->error;
      return status;
    }
  }
  return MOONPAD_OK;
}

/* What the store said to all of them, or to a job by itself. Those behind it fail because of it. */
static void fail_job(mp_job *job, const moonpad_error *error) {
  if (fails_with_earlier(job)) return;
  job->error = job->failure->error = *error;
  job->failure->is_final = true;
}

static moonpad_status write_jobs(mp_store *store, job_batch *batch, moonpad_error *error) {
  memset(error, 0, sizeof *error);
  error->code = store->ops->write(store, run_batch, batch, error);
  if (error->code != MOONPAD_OK) undo_batch(batch);
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
      mp_failure *failure = batch->jobs[i]->failure;
      failure->is_final = failure->error.code != MOONPAD_OK;
    } else {
      fail_job(batch->jobs[i], error);
    }
  }
}

static void take_batch(mp_backlog *backlog, job_batch *batch) {
  pthread_mutex_lock(&backlog->service->executor.mutex);
  for (batch->count = 0; batch->count < BATCH && backlog->waiting.first != NULL; batch->count++) {
    mp_task *task = mp_task_pop(&backlog->waiting);
    mp_task_push(&backlog->batch, task);
    batch->jobs[batch->count] = (mp_job *)task;
  }
  pthread_mutex_unlock(&backlog->service->executor.mutex);
}

static void store_some(mp_task *task) {
  mp_backlog *backlog = (mp_backlog *)task;
  job_batch batch;
  take_batch(backlog, &batch);
  if (backlog->locked_out) {
    for (size_t i = 0; i < batch.count; i++) fail_job(batch.jobs[i], &backlog->error);
  } else {
    store_batch(backlog->service->store, &batch, &backlog->error);
  }
}

/* Goes on behind what others have submitted meanwhile; there is never a second one under way. */
static void store_more(mp_task *task) {
  mp_backlog *backlog = (mp_backlog *)task;
  mp_executor *executor = &backlog->service->executor;
  for (mp_task *job; (job = mp_task_pop(&backlog->batch)) != NULL;) mp_executor_done(executor, job);
  /* Whoever closes the service waits once for somebody else's lock, however much is queued. */
  backlog->locked_out = atomic_load(&executor->closed) && backlog->error.code == MOONPAD_BUSY;
  backlog->scheduled = backlog->waiting.first != NULL && mp_executor_push(executor, task);
}

static void store_alone(mp_task *task) {
  job_batch batch = {{(mp_job *)task}, 1};
  moonpad_error error;
  store_batch(batch.jobs[0]->append.service->store, &batch, &error);
}

void mp_backlog_init(mp_backlog *backlog, moonpad_service *service) {
  memset(backlog, 0, sizeof *backlog);
  backlog->task.run = store_some;
  backlog->task.writes = true;
  backlog->task.ended = store_more;
  backlog->service = service;
}

/* ---- Queueing, on the host's thread ---- */

static void apply_job(mp_in_flight *append, moonpad_session *session);
static moonpad_status finish_job(mp_task *task);
static void drop_job(mp_task *task);

static void free_job(mp_job *job) {
  mp_env *env = job->append.env;
  mp_append_free(&job->append);
  mp_buffer_free(&job->event);
  mp_release(env, job);
}

/* What the session object is to show at once: all of it that can fail. */
static moonpad_status expect_results(mp_append *append, moonpad_error *error) {
  for (size_t i = 0; i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    if (i >= append->stored_count) {
      operation->expected = mp_value_retain(operation->result);
    } else if (mp_is_computed(operation->kind)) {
      moonpad_status status = mp_apply_pending(append->env, operation->kind, mp_key_text(operation->key),
                                               operation->entry->value, operation->value, &operation->expected, error);
      if (status != MOONPAD_OK) return status;
    } else {
      operation->expected = mp_value_retain(operation->value);
    }
  }
  return MOONPAD_OK;
}

/*
** It may be being stored by now, which uses nothing of this. `previous_value` is for
** mp_append_write_refused alone.
*/
static void freeze_until_stored(mp_append *append, moonpad_session *session) {
  for (size_t i = 0; i < append->count; i++) {
    append->operations[i].previous_value = mp_value_retain(append->operations[i].entry->value);
  }
  session->in_flight.has_unshown = true;
  session->frozen = append->changes;
  append->changes = NULL; /* it may be freed before the append is stored */
  if (session->frozen != NULL) mp_changes_freeze(session->frozen);
}

static void thaw(moonpad_session *session) {
  if (session->frozen != NULL) mp_changes_thaw(session->frozen);
  session->frozen = NULL;
  session->in_flight.has_unshown = false;
}

/* It may be being stored by now, which uses nothing of this. */
static void show_expected(mp_append *append, moonpad_session *session) {
  for (size_t i = 0; i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    operation->previous_value = mp_value_retain(operation->entry->value);
    mp_view_expect(&session->view, operation->entry, operation->expected);
    operation->expected = NULL;
    if (append->changes != NULL) mp_changes_stored(append->changes, operation->entry);
  }
  append->changes = NULL;
}

static moonpad_status read_job(mp_job *job, moonpad_session *session, moonpad_changes *changes, moonpad_string event,
                               moonpad_error *error) {
  mp_buffer_add_string(&job->event, event);
  if (job->event.failed) return mp_no_memory(error);
  moonpad_status status = mp_append_prepare(&job->append, session, changes, mp_buffer_text(&job->event),
                                            job->way.is_trusted, job->way.expected_revision, error);
  if (status != MOONPAD_OK) return status;
  if (job->append.draft.partial) {
    status =
        mp_fail(error, MOONPAD_INVALID_ARGUMENT, "a partial event is not stored: append it synchronously or drop it");
  } else if (job->way.apart) {
    status = mp_append_refuse_shared_keys(&job->append, error);
  }
  if (status == MOONPAD_OK && !mp_in_flight_reserve_failure(&session->in_flight)) status = mp_no_memory(error);
  if (status != MOONPAD_OK) mp_append_free(&job->append);
  return status;
}

static moonpad_status make_job(moonpad_session *session, moonpad_changes *changes, moonpad_string event,
                               mp_async_way way, mp_job **made, moonpad_error *error) {
  mp_job *job = mp_allocate(session->env, sizeof *job); /* field by field: most of it is room */
  if (job == NULL) return mp_no_memory(error);
  job->in_flight.next = NULL;
  job->in_flight.owner = NULL;
  job->in_flight.apply = apply_job;
  job->in_flight.is_applied = job->in_flight.is_abandoned = false;
  mp_buffer_init(&job->event, session->env);
  job->way = way;
  job->error.code = MOONPAD_OK;
  job->error.message[0] = '\0';
  moonpad_status status = read_job(job, session, changes, event, error);
  if (status != MOONPAD_OK) {
    mp_buffer_free(&job->event);
    mp_release(session->env, job);
    return status;
  }
  mp_task *task = &job->in_flight.task;
  moonpad_queue *completions = session->in_flight.completions;
  *task = (mp_task){.run = store_alone, .finish = finish_job, .drop = drop_job};
  task->taker = job->way.when_stored ? MP_TAKEN_BY_STEP : MP_TAKEN_BY_POLL;
  task->queue = completions != NULL ? completions : &session->service->queue;
  job->failure = session->in_flight.failure;
  *made = job;
  return MOONPAD_OK;
}

/* With the mutex held. */
static moonpad_status push_to_backlog(moonpad_service *service, mp_task *task, moonpad_error *error) {
  mp_backlog *backlog = &service->backlog;
  moonpad_status status = mp_executor_accept(&service->executor, task, error);
  if (status != MOONPAD_OK) return status;
  mp_task_push(&backlog->waiting, task);
  if (!backlog->scheduled) backlog->scheduled = mp_executor_push(&service->executor, &backlog->task);
  if (backlog->scheduled) return MOONPAD_OK;
  mp_task_unlink(&backlog->waiting, task);
  mp_executor_withdraw(task);
  return mp_no_memory(error);
}

static moonpad_status add_to_backlog(moonpad_service *service, mp_job *job, moonpad_error *error) {
  pthread_mutex_lock(&service->executor.mutex);
  moonpad_status status = push_to_backlog(service, &job->in_flight.task, error);
  pthread_mutex_unlock(&service->executor.mutex);
  return status;
}

/*
** Whether the service has been closed is asked where the job is queued: afterwards nobody would
** store it.
*/
static moonpad_status enqueue(mp_job *job, moonpad_session *session, moonpad_error *error) {
  moonpad_service *service = session->service;
  mp_task *task = &job->in_flight.task;
  moonpad_status status = job->way.when_stored ? MOONPAD_OK : expect_results(&job->append, error);
  if (status != MOONPAD_OK) return status;
  mp_in_flight_link(&session->in_flight, &job->in_flight);
  if (service->store->in_memory) {
    status = mp_executor_run(&service->executor, task, error);
  } else {
    status = add_to_backlog(service, job, error);
  }
  if (status == MOONPAD_OK && job->way.when_stored) {
    freeze_until_stored(&job->append, session);
  } else if (status == MOONPAD_OK) {
    show_expected(&job->append, session);
  } else {
    mp_in_flight_withdraw(&job->in_flight);
  }
  return status;
}

moonpad_status mp_append_event_later(moonpad_session *session, moonpad_changes *changes, moonpad_string event,
                                     mp_async_way way, mp_job **queued, moonpad_error *error) {
  mp_job *job = NULL;
  if (way.when_stored || mp_session_queues_nothing(session)) mp_session_drain(session);
  moonpad_status status = make_job(session, changes, event, way, &job, error);
  if (status != MOONPAD_OK) return status;
  status = enqueue(job, session, error);
  if (status != MOONPAD_OK) {
    free_job(job);
    return status;
  }
  if (queued != NULL) *queued = job;
  return MOONPAD_OK;
}

moonpad_status moonpad_append_event_async(moonpad_session *session, moonpad_string event,
                                          moonpad_append_callback callback, void *context, moonpad_error *error) {
  mp_async_way way = {.callback = callback, .context = context};
  return mp_append_event_later(session, NULL, event, way, NULL, error);
}

moonpad_status moonpad_changes_commit_async(moonpad_changes *changes, moonpad_string event,
                                            moonpad_append_callback callback, void *context, moonpad_error *error) {
  moonpad_status status = mp_changes_refuse_commit(changes, error);
  if (status != MOONPAD_OK) return status;
  mp_async_way way = {.callback = callback, .context = context};
  return mp_append_event_later(changes->session, changes, event, way, NULL, error);
}

moonpad_status moonpad_update_session_async(moonpad_session *session, moonpad_append_callback callback, void *context,
                                            bool *queued, moonpad_error *error) {
  if (queued != NULL) *queued = false;
  mp_session_drain_unshown(session);
  if (session->own == NULL || session->own->pending_count == 0) return mp_check_open(session->service, error);
  mp_async_way way = {.is_trusted = true, .callback = callback, .context = context};
  moonpad_status status =
      mp_append_event_later(session, session->own, moonpad_text("{\"author\":\"system\"}"), way, NULL, error);
  if (queued != NULL) *queued = status == MOONPAD_OK;
  return status;
}

moonpad_status moonpad_session_set_queue(moonpad_session *session, moonpad_queue *queue, moonpad_error *error) {
  if (queue != NULL && queue->service != session->service) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the queue belongs to another service than the session object");
  }
  mp_queue_retain(queue);
  mp_queue_release(session->in_flight.completions);
  session->in_flight.completions = queue;
  return MOONPAD_OK;
}
/* ---- Outcomes, on the host's thread ---- */

static void take_in_own(const mp_append *append, moonpad_session *session) {
  for (size_t i = mp_append_first_taken_in(append); i < append->count; i++) {
    const mp_operation *operation = &append->operations[i];
    int64_t revision = mp_row_revision(&append->row, operation->scope);
    mp_view_set(&session->view, operation->entry, operation->result, revision);
  }
}

/* Those behind it were built on it, and fail with it. */
static void show_stored_again(mp_in_flight *first, moonpad_session *session) {
  session->in_flight.has_failed = true;
  for (mp_in_flight *at = first; at != NULL; at = at->next) {
    mp_append *append = &((mp_job *)at)->append;
    for (size_t i = 0; i < append->count; i++) {
      mp_view_expect_nothing(&session->view, append->operations[i].entry);
    }
  }
}

/* An append that was refused has found what others have stored, too. */
static void apply_shown(mp_job *job, moonpad_session *session) {
  mp_append *append = &job->append;
  bool is_stored = job->error.code == MOONPAD_OK;
  /*
  ** Without memory for that, the object still holds the older revision and will ask for it again.
  */
  bool knows_others = append->has_looked && mp_changed_keys_reserve(&append->others, &session->view);
  if (knows_others) mp_changed_keys_apply(&append->others, &session->view, &append->row);
  if (is_stored) take_in_own(append, session);
  if (!is_stored && !session->in_flight.has_failed) show_stored_again(&job->in_flight, session);
  for (size_t i = 0; i < append->count; i++) mp_view_expect_done(&session->view, append->operations[i].entry);
  if (knows_others) session->row = append->row;
}

static void apply_job(mp_in_flight *append, moonpad_session *session) {
  mp_job *job = (mp_job *)append;
  if (!job->way.when_stored) {
    apply_shown(job, session);
    return;
  }
  job->append.changes = session->frozen;
  if (job->error.code == MOONPAD_OK) mp_append_apply(&job->append, session);
  job->append.changes = NULL;
  thaw(session);
}

/* What the operation was to leave there, one reference for the caller; false: nobody knows. */
static bool wanted_value(const mp_append *append, const mp_operation *operation, mp_value **value) {
  bool adds = mp_is_computed(operation->kind);
  *value = adds ? NULL : mp_value_retain(operation->value);
  return !adds || mp_apply_pending(append->env, operation->kind, mp_key_text(operation->key), operation->previous_value,
                                   operation->value, value, NULL) == MOONPAD_OK;
}

void mp_append_write_refused(const mp_append *append, mp_buffer *out) {
  size_t count = 0;
  bool known = true;
  mp_state_row *delta = mp_allocate(append->env, append->count * sizeof *delta);
  while (delta != NULL && known && count < append->count) {
    const mp_operation *operation = &append->operations[count];
    moonpad_string key = mp_scope_strip(operation->scope, mp_key_text(operation->key));
    delta[count] = (mp_state_row){.scope = operation->scope, .key = key};
    known = wanted_value(append, operation, &delta[count].value);
    if (known) count++;
  }
  if (delta != NULL && known) mp_event_draft_write(&append->draft, delta, count, NULL, out);
  for (size_t i = 0; i < count; i++) mp_value_release(append->env, delta[i].value);
  mp_release(append->env, delta);
}

static void log_failure(const mp_job *job) {
  if (job->error.code != MOONPAD_OK) mp_log(job->append.env, job->error.code, job->error.message);
}

static void report(mp_job *job) {
  bool is_stored = job->error.code == MOONPAD_OK;
  const moonpad_error *error = is_stored ? NULL : &job->error;
  if (job->way.watch != NULL) {
    job->way.watch->done(job->way.context, &job->append, session_of(job), error);
    return;
  }
  moonpad_session *session = session_of(job);
  if (job->error.code == MOONPAD_CONFLICT && job->append.conflict_count > 0 && session != NULL) {
    mp_append_keep_conflicts(&job->append, session);
  }
  if (job->way.callback == NULL) {
    log_failure(job);
    return;
  }
  moonpad_event event;
  if (is_stored) mp_append_borrow_event(&job->append, &event);
  job->way.callback(job->way.context, session, is_stored ? &event : NULL, error);
}

static moonpad_status finish_job(mp_task *task) {
  mp_job *job = (mp_job *)task;
  moonpad_status status = job->error.code;
  mp_in_flight_apply(&job->in_flight);
  mp_in_flight_unlink(&job->in_flight);
  report(job);
  free_job(job);
  return status;
}

static void drop_job(mp_task *task) {
  mp_job *job = (mp_job *)task;
  mp_in_flight_apply(&job->in_flight);
  mp_in_flight_unlink(&job->in_flight);
  log_failure(job);
  if (job->way.watch != NULL) job->way.watch->dropped(job->way.context);
  free_job(job);
}

bool mp_job_poll(mp_job *last) {
  /* Who is told may release the service. */
  moonpad_service *service = moonpad_service_retain(last->append.service);
  pthread_mutex_t *mutex = &service->executor.mutex;
  pthread_mutex_lock(mutex);
  bool is_done = last->in_flight.task.number != 0;
  pthread_mutex_unlock(mutex);
  for (bool is_last = !is_done; !is_last;) {
    mp_in_flight *append = last->in_flight.owner == NULL ? &last->in_flight : last->in_flight.owner->first;
    is_last = append == &last->in_flight;
    pthread_mutex_lock(mutex);
    mp_queue_take(append->task.queue, &append->task);
    pthread_mutex_unlock(mutex);
    if (append->task.taker == MP_TAKEN_BY_NONE) {
      drop_job(&append->task);
    } else {
      finish_job(&append->task);
    }
  }
  moonpad_service_release(service);
  return is_done;
}

void mp_job_abandon(mp_job *job) {
  mp_in_flight_abandon(&job->in_flight);
}
