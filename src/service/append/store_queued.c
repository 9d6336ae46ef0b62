/*
** Storing asynchronous appends, on a worker: many in one transaction, or as plans that are sent
** together, each with an answer of its own.
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
  job->append.distrusted_scopes = job->failure->ahead_scopes;
  moonpad_status status = mp_append_run(tx, &job->append, &job->error);
  job->failure->ahead_scopes |= job->append.others.ahead_scopes;
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

/* Would the store say the same to every job? Then those that have not been tried fail as well. */
static bool is_said_to_all(moonpad_status status) {
  return status == MOONPAD_BUSY || status == MOONPAD_CLOSED || status == MOONPAD_STORAGE || status == MOONPAD_NO_MEMORY;
}

/*
** Where the store refused the batch as a whole, each job is tried by itself, so that it gets its
** own answer. That ends at an error that every job would get; after `busy` nobody tries again,
** because the whole timeout has passed. *error is the last answer.
*/
static void store_in_transaction(mp_store *store, job_batch *batch, moonpad_error *error) {
  moonpad_status status = write_jobs(store, batch, error);
  bool to_all = status == MOONPAD_OK || status == MOONPAD_BUSY || status == MOONPAD_CLOSED || batch->count == 1;
  for (size_t i = 0; i < batch->count; i++) {
    if (!to_all) {
      job_batch single = {&batch->jobs[i], 1};
      status = write_jobs(store, &single, error);
      to_all = is_said_to_all(status);
    }
    if (status == MOONPAD_OK) {
      mp_failure *failure = batch->jobs[i]->failure;
      failure->is_final = failure->error.code != MOONPAD_OK;
    } else {
      fail_job(batch->jobs[i], error);
    }
  }
}

/* ---- as plans (store/plan.h), to stores that take them ---- */

/*
** The appends of one session go one after the other, so the jobs go by rounds: the first of each
** session, then the second of each. A round of fewer plans, while more rounds are to come, takes
** longer than one transaction of all jobs, in which each is a round trip and all share the commit.
*/
#define FEWEST_PLANS 8

/* Is there a job of that session among them? */
static bool has_session(mp_queued_append *const *jobs, size_t count, const mp_queued_append *job) {
  for (size_t i = 0; i < count; i++) {
    if (jobs[i]->append.snapshot.id == job->append.snapshot.id) return true;
  }
  return false;
}

/*
** Takes the first job of each session out of the batch. Those that fail with an earlier one are
** done.
*/
static size_t take_round(mp_queued_append **jobs, size_t *count, mp_queued_append **round) {
  size_t taken = 0, left = 0;
  for (size_t i = 0; i < *count; i++) {
    if (fails_with_earlier(jobs[i])) continue;
    if (has_session(round, taken, jobs[i])) {
      jobs[left++] = jobs[i];
    } else {
      round[taken++] = jobs[i];
    }
  }
  *count = left;
  return taken;
}

/*
** Sends the jobs of a round. Those that are to be decided in a transaction stay in `jobs`; their
** number is returned. *error is what the store said to all jobs, if it did.
*/
static size_t send_round(mp_queued_append **jobs, size_t count, moonpad_error *error) {
  mp_append_sending sendings[MP_BACKLOG_BATCH];
  size_t left = 0;
  for (size_t i = 0; i < count; i++) {
    sendings[i] = (mp_append_sending){&jobs[i]->append, &jobs[i]->error, false, 0};
    jobs[i]->append.distrusted_scopes = jobs[i]->failure->ahead_scopes;
  }
  mp_append_send(sendings, count);
  for (size_t i = 0; i < count; i++) {
    mp_queued_append *job = jobs[i];
    if (!sendings[i].decided) {
      jobs[left++] = job;
    } else if (sendings[i].status != MOONPAD_OK) {
      moonpad_error answer = job->error;
      if (is_said_to_all(answer.code)) *error = answer;
      fail_job(job, &answer);
    }
  }
  return left;
}

/* An answer to another job, which need not be true of these in all that it says. */
static void fail_untried(mp_queued_append *const *jobs, size_t count, const moonpad_error *answer) {
  moonpad_error error;
  mp_fail(&error, answer->code, "not tried, because another append had just failed: %s", answer->message);
  for (size_t i = 0; i < count; i++) fail_job(jobs[i], &error);
}

static void store_by_rounds(mp_store *store, mp_queued_append **jobs, size_t count, moonpad_error *error) {
  error->code = MOONPAD_OK;
  while (count > 0) {
    mp_queued_append *all[MP_BACKLOG_BATCH], *round[MP_BACKLOG_BATCH];
    memcpy(all, jobs, count * sizeof *all);
    job_batch batch = {all, count};
    size_t taken = take_round(jobs, &count, round);
    if (count > 0 && taken < FEWEST_PLANS) {
      store_in_transaction(store, &batch, error);
      return;
    }
    batch = (job_batch){round, taken == 0 ? 0 : send_round(round, taken, error)};
    if (!is_said_to_all(error->code) && batch.count > 0) {
      store_in_transaction(store, &batch, error);
      batch.count = 0;
    }
    if (!is_said_to_all(error->code)) continue;
    fail_untried(round, batch.count, error);
    fail_untried(jobs, count, error);
    return;
  }
}

/* ---- */

void mp_queued_append_store_batch(mp_task *const *tasks, size_t count, bool gives_up, moonpad_error *error) {
  mp_queued_append *jobs[MP_BACKLOG_BATCH];
  for (size_t i = 0; i < count; i++) jobs[i] = (mp_queued_append *)tasks[i];
  mp_store *store = jobs[0]->append.service->store;
  if (gives_up) {
    fail_untried(jobs, count, error);
  } else if (MP_HAS(mp_store_ops, store->ops, append)) {
    store_by_rounds(store, jobs, count, error);
  } else {
    store_in_transaction(store, &(job_batch){jobs, count}, error);
  }
}

void mp_queued_append_store_one(mp_task *task) {
  moonpad_error error;
  mp_queued_append_store_batch(&task, 1, false, &error);
}
