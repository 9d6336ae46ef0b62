/*
** Transactions that write, and group commit. One caller at a time, the leader, has the writing
** connection; the others wait in a queue. A leader whose turn comes runs the transactions of all
** who wait then and commits once for all of them: with durability "full" it is the commit that
** costs, because it waits for the disk.
*/
#include "base/error.h"
#include "store/sqlite/sqlite.h"

#define LARGEST_BATCH 64
#define LONGEST_PAUSE 0.0005 /* seconds */

typedef enum request_state {
  REQUEST_WAITS,   /* in the queue */
  REQUEST_FOLLOWS, /* the leader runs it and commits it with its own */
  REQUEST_LEADS,   /* has the writing connection */
  REQUEST_DONE     /* run by a leader */
} request_state;

/* A call that needs the writing connection. On its caller's stack. */
struct mp_sqlite_request {
  mp_tx_function function;       /* a transaction; or NULL */
  mp_sqlite_exclusive exclusive; /* a function to run outside of any transaction; or NULL */
  void *context;
  moonpad_error *error;
  moonpad_status status;
  request_state state;
  mp_condition wake;       /* exists while it waits */
  mp_sqlite_request *next; /* in the queue; then the next follower */
};

static void run_one(mp_sqlite_connection *connection, mp_sqlite_request *request) {
  if (request->exclusive != NULL) {
    request->status = request->exclusive(connection, request->context, request->error);
  } else {
    request->status =
        mp_sqlite_transact(connection, MP_SQL_BEGIN_WRITE, request->function, request->context, request->error);
  }
}

/* ---- several in one commit ---- */

/* False: the shared transaction is lost, with what the others wrote in it. */
static bool run_in_savepoint(mp_sqlite_connection *connection, mp_sqlite_request *request) {
  connection->failure = MOONPAD_OK;
  if (mp_sqlite_run_id(connection, MP_SQL_SAVEPOINT, NULL) != MOONPAD_OK) return false;
  request->status = mp_sqlite_call(connection, request->function, request->context, request->error);
  if (sqlite3_get_autocommit(connection->db)) return false;
  if (request->status != MOONPAD_OK) {
    mp_sqlite_cache_clear(connection->cache);
    if (mp_sqlite_run_id(connection, MP_SQL_ROLLBACK_TO, NULL) != MOONPAD_OK) return false;
  }
  return mp_sqlite_run_id(connection, MP_SQL_RELEASE, NULL) == MOONPAD_OK;
}

/* The failure of the shared transaction becomes that of all requests without one of their own. */
static void fail_all(mp_sqlite_request *first, moonpad_status status, const moonpad_error *error) {
  for (mp_sqlite_request *request = first; request != NULL; request = request->next) {
    if (request->status != MOONPAD_OK) continue;
    request->status = status;
    if (request->error != NULL) *request->error = *error;
  }
}

static moonpad_status commit_all(mp_sqlite_connection *connection, moonpad_error *error) {
  double started = mp_monotonic();
  moonpad_status status = mp_sqlite_commit(connection, error);
  connection->store->last_commit_seconds = mp_monotonic() - started;
  return status;
}

/*
** Runs all requests in one transaction. Without savepoints: false as soon as one request fails, and
** everything is rolled back. With savepoints each request is rolled back by itself: false when one
** ended the shared transaction (as SQLite does when the disk is full, say).
*/
static bool run_shared(mp_sqlite_connection *connection, mp_sqlite_request *first, bool with_savepoints) {
  moonpad_error error = {MOONPAD_OK, ""};
  for (mp_sqlite_request *request = first; request != NULL; request = request->next) request->status = MOONPAD_OK;
  moonpad_status status = mp_sqlite_begin(connection, MP_SQL_BEGIN_WRITE, &error);
  bool complete = status == MOONPAD_OK;
  for (mp_sqlite_request *request = first; complete && request != NULL; request = request->next) {
    if (with_savepoints) {
      complete = run_in_savepoint(connection, request);
    } else {
      complete = mp_sqlite_call(connection, request->function, request->context, request->error) == MOONPAD_OK;
    }
  }
  if (complete) status = commit_all(connection, &error);
  if (!complete || status != MOONPAD_OK) mp_sqlite_roll_back(connection);
  if (status != MOONPAD_OK) fail_all(first, status, &error);
  return complete || status != MOONPAD_OK;
}

/* A savepoint makes a request a third slower, and few fail: savepoints are used after a failure. */
static void run_batch(mp_sqlite_connection *connection, mp_sqlite_request *first) {
  if (first->next != NULL && (run_shared(connection, first, false) || run_shared(connection, first, true))) return;
  for (mp_sqlite_request *request = first; request != NULL; request = request->next) run_one(connection, request);
}

/* ---- the queue; the mutex is held ---- */

static void enqueue(mp_sqlite *store, mp_sqlite_request *request) {
  if (store->last_waiting == NULL) {
    store->first_waiting = request;
  } else {
    store->last_waiting->next = request;
  }
  store->last_waiting = request;
  store->waiting++;
}

static mp_sqlite_request *dequeue(mp_sqlite *store) {
  mp_sqlite_request *request = store->first_waiting;
  store->first_waiting = request->next;
  if (store->first_waiting == NULL) store->last_waiting = NULL;
  request->next = NULL;
  store->waiting--;
  return request;
}

/*
** Those who shared the last commit have just been woken, and are likely to come back at once.
** Waiting for them for a part of a commit's time lets all share the next commit, instead of one
** half each of two. `was_queued`: this leader waited in the queue. Otherwise it is one of those who
** come back.
*/
static void wait_for_returning_writers(mp_sqlite *store, bool was_queued) {
  if (store->durability != MOONPAD_DURABILITY_FULL || store->last_batch < 2) return;
  double pause = store->last_commit_seconds / 2 < LONGEST_PAUSE ? store->last_commit_seconds / 2 : LONGEST_PAUSE;
  double until = mp_monotonic() + pause;
  unsigned expected = was_queued ? store->waiting + store->last_batch : store->last_batch - 1;
  if (expected > LARGEST_BATCH - 1) expected = LARGEST_BATCH - 1;
  while (store->waiting < expected && mp_monotonic() < until) {
    mp_mutex_unlock(&store->mutex);
    mp_thread_yield();
    mp_mutex_lock(&store->mutex);
  }
}

/* Takes those who can share the leader's commit from the queue, and links them behind it. */
static void collect_followers(mp_sqlite *store, mp_sqlite_request *leader, bool was_queued) {
  if (leader->exclusive != NULL) return;
  wait_for_returning_writers(store, was_queued);
  store->last_batch = 1;
  mp_sqlite_request *last = leader;
  for (int count = 1; count < LARGEST_BATCH; count++) {
    mp_sqlite_request *next = store->first_waiting;
    if (next == NULL || next->exclusive != NULL) return;
    last->next = dequeue(store);
    last = next;
    last->state = REQUEST_FOLLOWS;
    store->last_batch++;
  }
}

/* A request is gone as soon as the mutex is unlocked: it is on the stack of its caller. */
static void wake_followers(mp_sqlite_request *leader) {
  for (mp_sqlite_request *request = leader->next; request != NULL;) {
    mp_sqlite_request *next = request->next;
    request->state = REQUEST_DONE;
    mp_condition_signal(&request->wake);
    request = next;
  }
}

/* The first in the queue becomes the next leader. */
static void pass_lead(mp_sqlite *store) {
  if (store->first_waiting != NULL) {
    mp_sqlite_request *leader = dequeue(store);
    leader->state = REQUEST_LEADS;
    mp_condition_signal(&leader->wake);
    return;
  }
  store->writing = false;
  if (store->closing) mp_condition_broadcast(&store->idle);
}

static void wait_in_queue(mp_sqlite *store, mp_sqlite_request *request) {
  mp_condition_init(&request->wake);
  enqueue(store, request);
  while (request->state <= REQUEST_FOLLOWS) mp_condition_wait(&request->wake, &store->mutex);
  mp_condition_destroy(&request->wake);
}

static moonpad_status submit(mp_sqlite *store, mp_sqlite_request *request) {
  mp_mutex_lock(&store->mutex);
  if (store->closing) {
    mp_mutex_unlock(&store->mutex);
    return mp_sqlite_closed(request->error);
  }
  bool must_wait = store->writing;
  if (must_wait) {
    wait_in_queue(store, request);
  } else {
    store->writing = true;
    request->state = REQUEST_LEADS;
  }
  if (request->state == REQUEST_LEADS) collect_followers(store, request, must_wait);
  mp_mutex_unlock(&store->mutex);
  if (request->state == REQUEST_DONE) return request->status;

  run_batch(store->writer, request);
  mp_mutex_lock(&store->mutex);
  wake_followers(request);
  pass_lead(store);
  mp_mutex_unlock(&store->mutex);
  return request->status;
}

moonpad_status mp_sqlite_write(mp_store *store, mp_tx_function function, void *context, moonpad_error *error) {
  mp_sqlite_request request = {.function = function, .context = context, .error = error, .state = REQUEST_WAITS};
  return submit((mp_sqlite *)store, &request);
}

moonpad_status mp_sqlite_run_exclusive(mp_sqlite *store, mp_sqlite_exclusive function, void *context,
                                       moonpad_error *error) {
  mp_sqlite_request request = {.exclusive = function, .context = context, .error = error, .state = REQUEST_WAITS};
  return submit(store, &request);
}

typedef struct hurried {
  mp_tx_function function;
  void *context;
} hurried;

static moonpad_status hurry(mp_sqlite_connection *connection, void *context, moonpad_error *error) {
  const hurried *wanted = context;
  connection->hurries = true;
  moonpad_status status = mp_sqlite_transact(connection, MP_SQL_BEGIN_WRITE, wanted->function, wanted->context, error);
  connection->hurries = false;
  return status;
}

moonpad_status mp_sqlite_write_in_a_hurry(mp_store *store, mp_tx_function function, void *context,
                                          moonpad_error *error) {
  hurried wanted = {function, context};
  return mp_sqlite_run_exclusive((mp_sqlite *)store, hurry, &wanted, error);
}
