/* Asynchronous appends, on the host's thread: queueing them, and their outcomes (contract 6). */
#include "service/append/async.h"

#include "base/error.h"
#include "service/append/store_queued.h"
#include "service/changes/changes.h"
#include "service/session/ahead.h"

struct mp_job {
  /* The first member. */
  mp_queued_append queued;
  /* What the append reads from. */
  mp_buffer event;
  mp_async_way way;
};

/* NULL once it has been freed. */
static moonpad_session *session_of(const mp_job *job) {
  return job->queued.in_flight.owner == NULL ? NULL : job->queued.in_flight.owner->session;
}

/* ---- Queueing, on the host's thread ---- */

static void apply_job(mp_in_flight *append, moonpad_session *session);
static moonpad_status finish_job(mp_task *task);
static void drop_job(mp_task *task);

static void free_job(mp_job *job) {
  mp_env *env = job->queued.append.env;
  mp_append_free(&job->queued.append);
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

static void freeze_until_stored(const mp_in_flight *in_flight, moonpad_session *session) {
  session->in_flight.has_unshown = true;
  if (in_flight->writer != NULL) mp_changes_freeze(in_flight->writer);
}

static void thaw(const mp_in_flight *in_flight, moonpad_session *session) {
  if (in_flight->writer != NULL) mp_changes_thaw(in_flight->writer);
  session->in_flight.has_unshown = false;
}

static void show_expected(mp_append *append, moonpad_session *session) {
  for (size_t i = 0; i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    mp_view_expect(&session->view, operation->entry, operation->expected);
    operation->expected = NULL;
    if (append->changes != NULL) mp_changes_stored(append->changes, operation->entry);
  }
}

/*
** A worker may be storing it already: it reads nothing of what is changed here. The change set may
** be freed before the append is polled. Then `writer` is cleared, where append->changes would
** dangle.
*/
static void show_queued(mp_job *job, moonpad_session *session) {
  mp_append *append = &job->queued.append;
  job->queued.in_flight.writer = append->changes;
  if (job->way.when_stored) {
    freeze_until_stored(&job->queued.in_flight, session);
  } else {
    show_expected(append, session);
  }
  append->changes = NULL;
}

static moonpad_status read_job(mp_job *job, moonpad_session *session, const mp_append_request *request,
                               moonpad_error *error) {
  mp_append_request copied = *request;
  mp_buffer_add_string(&job->event, request->event);
  if (job->event.failed) return mp_no_memory(error);
  copied.event = mp_buffer_text(&job->event);
  moonpad_status status = mp_append_prepare(&job->queued.append, session, &copied, error);
  if (status != MOONPAD_OK) return status;
  if (job->queued.append.draft.partial) {
    status =
        mp_fail(error, MOONPAD_INVALID_ARGUMENT, "a partial event is not stored: append it synchronously or drop it");
  }
  if (status == MOONPAD_OK && !mp_in_flight_reserve_failure(&session->in_flight)) status = mp_no_memory(error);
  if (status != MOONPAD_OK) mp_append_free(&job->queued.append);
  return status;
}

static moonpad_status make_job(moonpad_session *session, const mp_append_request *request, const mp_async_way *way,
                               mp_job **made, moonpad_error *error) {
  /* Set field by field: most of it is room. */
  mp_job *job = mp_allocate(session->env, sizeof *job);
  if (job == NULL) return mp_no_memory(error);
  job->queued.in_flight.next = NULL;
  job->queued.in_flight.owner = NULL;
  job->queued.in_flight.writer = NULL;
  job->queued.in_flight.apply = apply_job;
  job->queued.in_flight.is_applied = job->queued.in_flight.is_abandoned = false;
  mp_buffer_init(&job->event, session->env);
  job->way = *way;
  job->queued.error.code = MOONPAD_OK;
  job->queued.error.message[0] = '\0';
  moonpad_status status = read_job(job, session, request, error);
  if (status != MOONPAD_OK) {
    mp_buffer_free(&job->event);
    mp_release(session->env, job);
    return status;
  }
  mp_task *task = &job->queued.in_flight.task;
  moonpad_queue *completions = session->in_flight.completions;
  *task = (mp_task){.run = mp_queued_append_store_one, .finish = finish_job, .drop = drop_job};
  task->taker = job->way.when_stored ? MP_TAKEN_BY_STEP : MP_TAKEN_BY_POLL;
  task->queue = completions != NULL ? completions : &session->service->queue;
  job->queued.failure = session->in_flight.failure;
  *made = job;
  return MOONPAD_OK;
}

/*
** Whether the service has been closed is asked where the job is queued: afterwards nobody would
** store it.
*/
static moonpad_status enqueue(mp_job *job, moonpad_session *session, moonpad_error *error) {
  moonpad_service *service = session->service;
  mp_task *task = &job->queued.in_flight.task;
  moonpad_status status = job->way.when_stored ? MOONPAD_OK : expect_results(&job->queued.append, error);
  if (status != MOONPAD_OK) return status;
  mp_in_flight_link(&session->in_flight, &job->queued.in_flight);
  if (service->store->in_memory) {
    status = mp_executor_run(&service->executor, task, error);
  } else {
    /* with others, in one transaction: its own `run` is not called */
    status = mp_backlog_add(&service->backlog, task, mp_queued_append_store_batch, error);
  }
  if (status == MOONPAD_OK) {
    show_queued(job, session);
  } else {
    mp_in_flight_withdraw(&job->queued.in_flight);
  }
  return status;
}

moonpad_status mp_append_later(moonpad_session *session, const mp_append_request *request, const mp_async_way *way,
                               mp_job **queued, moonpad_error *error) {
  mp_job *job = NULL;
  if (way->when_stored || mp_session_queues_nothing(session)) mp_session_drain(session);
  moonpad_status status = make_job(session, request, way, &job, error);
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
  mp_append_request request = {.event = event};
  mp_async_way way = {.callback = callback, .context = context};
  return mp_append_later(session, &request, &way, NULL, error);
}

moonpad_status moonpad_changes_commit_async(moonpad_changes *changes, moonpad_string event,
                                            moonpad_append_callback callback, void *context, moonpad_error *error) {
  moonpad_status status = mp_changes_refuse_commit(changes, error);
  if (status != MOONPAD_OK) return status;
  mp_append_request request = {.event = event, .changes = changes};
  mp_async_way way = {.callback = callback, .context = context};
  return mp_append_later(mp_changes_session(changes), &request, &way, NULL, error);
}

moonpad_status moonpad_update_session_async(moonpad_session *session, moonpad_append_callback callback, void *context,
                                            bool *queued, moonpad_error *error) {
  if (queued != NULL) *queued = false;
  mp_append_request request;
  if (!mp_append_request_of_update(session, &request)) return mp_check_open(session->service, error);
  mp_async_way way = {.callback = callback, .context = context};
  moonpad_status status = mp_append_later(session, &request, &way, NULL, error);
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
    mp_append *append = &((mp_queued_append *)at)->append;
    for (size_t i = 0; i < append->count; i++) {
      mp_view_expect_nothing(&session->view, append->operations[i].entry);
    }
  }
}

/* An append that was refused has found what others have stored, too. */
static void apply_shown(mp_job *job, moonpad_session *session) {
  mp_append *append = &job->queued.append;
  bool is_stored = job->queued.error.code == MOONPAD_OK;
  /*
  ** Without memory for that, the object still holds the older revision and will ask for it again.
  */
  bool has_found = append->has_looked && !append->lacks_others;
  bool knows_others = has_found && mp_changed_keys_reserve(&append->others, &session->view);
  if (knows_others) mp_changed_keys_apply(&append->others, &session->view, &append->row);
  if (is_stored) take_in_own(append, session);
  if (is_stored) mp_append_keep_house(append, session);
  if (!is_stored && !session->in_flight.has_failed) show_stored_again(&job->queued.in_flight, session);
  for (size_t i = 0; i < append->count; i++) mp_view_expect_done(&session->view, append->operations[i].entry);
  if (knows_others) mp_session_take_back(session, &append->others, &append->facts.row);
  if (knows_others) session->row = append->row;
  if (is_stored) mp_append_note_in_sight(append, session);
}

static void apply_job(mp_in_flight *append, moonpad_session *session) {
  mp_job *job = (mp_job *)append;
  job->queued.append.changes = append->writer;
  if (!job->way.when_stored) {
    apply_shown(job, session);
  } else {
    if (job->queued.error.code == MOONPAD_OK) mp_append_apply(&job->queued.append, session);
    thaw(append, session);
  }
  job->queued.append.changes = NULL;
}

static void log_failure(const mp_job *job) {
  if (job->queued.error.code != MOONPAD_OK)
    mp_log(job->queued.append.env, job->queued.error.code, job->queued.error.message);
}

static void report(mp_job *job) {
  bool is_stored = job->queued.error.code == MOONPAD_OK;
  const moonpad_error *error = is_stored ? NULL : &job->queued.error;
  if (job->way.watch != NULL) {
    job->way.watch->done(job->way.context, &job->queued.append, session_of(job), error);
    return;
  }
  moonpad_session *session = session_of(job);
  if (job->queued.error.code == MOONPAD_CONFLICT && job->queued.append.conflict_count > 0 && session != NULL) {
    mp_append_keep_conflicts(&job->queued.append, session);
  }
  if (job->way.callback == NULL) {
    log_failure(job);
    return;
  }
  moonpad_event event;
  if (is_stored) mp_append_borrow_event(&job->queued.append, &event);
  job->way.callback(job->way.context, session, is_stored ? &event : NULL, error);
}

static moonpad_status finish_job(mp_task *task) {
  mp_job *job = (mp_job *)task;
  moonpad_status status = job->queued.error.code;
  mp_in_flight_apply(&job->queued.in_flight);
  mp_in_flight_unlink(&job->queued.in_flight);
  report(job);
  free_job(job);
  return status;
}

static void drop_job(mp_task *task) {
  mp_job *job = (mp_job *)task;
  mp_in_flight_apply(&job->queued.in_flight);
  mp_in_flight_unlink(&job->queued.in_flight);
  log_failure(job);
  if (job->way.watch != NULL) job->way.watch->dropped(job->way.context);
  free_job(job);
}

bool mp_job_poll(mp_job *last) {
  /* A callback may release the service: keep it until this function returns. */
  moonpad_service *service = moonpad_service_retain(last->queued.append.service);
  mp_mutex *mutex = &service->executor.mutex;
  mp_executor_help(&service->executor);
  mp_mutex_lock(mutex);
  bool is_done = last->queued.in_flight.task.number != 0;
  mp_mutex_unlock(mutex);
  for (bool is_last = !is_done; !is_last;) {
    mp_in_flight *append =
        last->queued.in_flight.owner == NULL ? &last->queued.in_flight : last->queued.in_flight.owner->first;
    is_last = append == &last->queued.in_flight;
    mp_mutex_lock(mutex);
    mp_queue_take(append->task.queue, &append->task);
    mp_mutex_unlock(mutex);
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
  mp_in_flight_abandon(&job->queued.in_flight);
}
