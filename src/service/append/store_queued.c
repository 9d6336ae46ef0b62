/*
** Storing asynchronous appends, on a worker: many in one transaction, each with an answer of its
** own.
*/
#include "service/append/store_queued.h"

#include "base/error.h"

typedef struct job_batch {
  mp_queued_append *const *jobs;
  size_t count;
} job_batch;

static bool fails_with_earlier(mp_queued_append *job) {
  const moonpad_error *earlier = &job->failure->error;
  if (earlier->code == MOONPAD_OK) return false;
  mp_fail(&job->error, earlier->code, "an earlier append of this session object failed: %s", earlier->message);
  return true;
}

/*
** One job inside the batch's transaction. A refusal that has written nothing is this job's
** alone; any other failure ends the batch, which is undone.
*/
static moonpad_status run_job(mp_tx *tx, mp_queued_append *job) {
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
    mp_queued_append *job = batch->jobs[i];
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
static void fail_job(mp_queued_append *job, const moonpad_error *error) {
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
** Where the store refused the batch as a whole, each job is tried by itself, so that it gets its
** own answer. That ends at an error that every job would get (busy, closed, storage, no memory);
** after `busy` nobody tries again, because the whole timeout has passed. *error is the last answer.
*/
static void store_batch(mp_store *store, job_batch *batch, moonpad_error *error) {
  moonpad_status status = write_jobs(store, batch, error);
  bool to_all = status == MOONPAD_OK || status == MOONPAD_BUSY || status == MOONPAD_CLOSED || batch->count == 1;
  for (size_t i = 0; i < batch->count; i++) {
    if (!to_all) {
      job_batch single = {&batch->jobs[i], 1};
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

void mp_queued_append_store_batch(mp_task *const *tasks, size_t count, bool gives_up, moonpad_error *error) {
  mp_queued_append *jobs[MP_BACKLOG_BATCH];
  for (size_t i = 0; i < count; i++) jobs[i] = (mp_queued_append *)tasks[i];
  job_batch batch = {jobs, count};
  for (size_t i = 0; gives_up && i < count; i++) fail_job(jobs[i], error);
  if (!gives_up) store_batch(jobs[0]->append.service->store, &batch, error);
}

void mp_queued_append_store_one(mp_task *task) {
  moonpad_error error;
  mp_queued_append_store_batch(&task, 1, false, &error);
}
