/*
** Transactions. Writing: whoever comes while another has the writing connection waits in a
** queue; the one in front, when its turn comes, runs the transactions of all that wait then and
** commits once for all (with durability "full" the commit, which waits for the disk, is what
** costs). Reading: each read has a connection of the pool to itself.
*/
#include <errno.h>
#include <sched.h>

#include "base/error.h"
#include "store/sqlite/sqlite.h"

#define LARGEST_BATCH     64
#define FREE_READERS_KEPT 8
#define LONGEST_PAUSE     0.0005 /* seconds */

typedef enum request_state {
  REQUEST_WAITS,   /* in the queue */
  REQUEST_FOLLOWS, /* shares the commit of one that leads */
  REQUEST_LEADS,
  REQUEST_DONE
} request_state;

/* A call of `write`, on its caller's stack. */
struct mp_sqlite_request {
  mp_tx_function function;       /* a transaction, or: */
  mp_sqlite_exclusive exclusive; /* something that wants the connection without one */
  void *context;
  moonpad_error *error;
  moonpad_status status;
  request_state state;
  pthread_cond_t wake; /* made when it must wait */
  mp_sqlite_request *next;
};

static moonpad_status closed_error(moonpad_error *error) {
  return mp_fail(error, MOONPAD_CLOSED, "the service is closed");
}

/* ---- running transactions ---- */

static void roll_back(mp_sqlite_connection *connection) {
  if (!sqlite3_get_autocommit(connection->db)) mp_sqlite_run_id(connection, MP_SQL_ROLLBACK, NULL);
}

static moonpad_status begin(mp_sqlite_connection *connection, mp_sqlite_statement_id how, moonpad_error *error) {
  connection->failure = MOONPAD_OK;
  /*
  ** What ends a transaction that fails is made ready first: without memory it could not be, and the
  ** transaction would stay open.
  */
  if (mp_sqlite_statement(connection, MP_SQL_ROLLBACK, error) == NULL) return connection->failure;
  moonpad_status status = mp_sqlite_run_id(connection, how, error);
  if (status == MOONPAD_OK && connection->rows != NULL) mp_sqlite_rows_begin(connection->rows, connection->db);
  if (status == MOONPAD_OK) status = mp_sqlite_check_version(connection, error);
  return status;
}

/*
** What was read was read from the file that was there when it was asked for; what is written has to
** be found again.
*/
static moonpad_status commit(mp_sqlite_connection *connection, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  if (connection->rows != NULL) status = mp_sqlite_check_files(connection->store, error);
  if (status == MOONPAD_OK) status = mp_sqlite_run_id(connection, MP_SQL_COMMIT, error);
  if (status == MOONPAD_OK && connection->rows != NULL) mp_sqlite_rows_commit(connection->rows, connection->db);
  return status;
}

/*
** Refused because of what was read, which is worth nothing when the file that it was read from has
** lost its name.
*/
static bool is_refusal(moonpad_status status) {
  return status == MOONPAD_NOT_FOUND || status == MOONPAD_ALREADY_EXISTS || status == MOONPAD_CONFLICT ||
         status == MOONPAD_INVALID_ARGUMENT || status == MOONPAD_LIMIT;
}

static moonpad_status call(mp_sqlite_connection *connection, mp_tx_function function, void *context,
                           moonpad_error *error) {
  moonpad_status status = function(&connection->tx.tx, context, error);
  if (connection->rows != NULL && is_refusal(status)) {
    moonpad_status found = mp_sqlite_check_files(connection->store, error);
    return found == MOONPAD_OK ? status : found;
  }
  if (status == MOONPAD_OK && connection->failure != MOONPAD_OK) {
    return mp_fail(error, connection->failure, "%s: a part of the transaction failed", connection->path);
  }
  return status;
}

static moonpad_status transact(mp_sqlite_connection *connection, mp_sqlite_statement_id how, mp_tx_function function,
                               void *context, moonpad_error *error) {
  moonpad_status status = begin(connection, how, error);
  if (status == MOONPAD_OK) status = call(connection, function, context, error);
  if (status == MOONPAD_OK) status = commit(connection, error);
  if (status != MOONPAD_OK) roll_back(connection);
  return status;
}

static void run_alone(mp_sqlite_connection *connection, mp_sqlite_request *request) {
  if (request->exclusive != NULL) {
    request->status = request->exclusive(connection, request->context, request->error);
  } else {
    request->status = transact(connection, MP_SQL_BEGIN_WRITE, request->function, request->context, request->error);
  }
}

/* ---- several in one commit ---- */

/* False: the whole transaction is lost, and with it what others wrote in it. */
static bool run_in_savepoint(mp_sqlite_connection *connection, mp_sqlite_request *request) {
  connection->failure = MOONPAD_OK;
  if (mp_sqlite_run_id(connection, MP_SQL_SAVEPOINT, NULL) != MOONPAD_OK) return false;
  request->status = call(connection, request->function, request->context, request->error);
  if (sqlite3_get_autocommit(connection->db)) return false;
  if (request->status != MOONPAD_OK) {
    mp_sqlite_rows_forget(connection->rows);
    if (mp_sqlite_run_id(connection, MP_SQL_ROLLBACK_TO, NULL) != MOONPAD_OK) return false;
  }
  return mp_sqlite_run_id(connection, MP_SQL_RELEASE, NULL) == MOONPAD_OK;
}

/* Gives the failure of what they have in common to those that had none of their own. */
static void fail_all(mp_sqlite_request *first, moonpad_status status, const moonpad_error *error) {
  for (mp_sqlite_request *request = first; request != NULL; request = request->next) {
    if (request->status != MOONPAD_OK) continue;
    request->status = status;
    if (request->error != NULL) *request->error = *error;
  }
}

static moonpad_status commit_all(mp_sqlite_connection *connection, moonpad_error *error) {
  double started = mp_sqlite_monotonic();
  moonpad_status status = commit(connection, error);
  connection->store->last_commit = mp_sqlite_monotonic() - started;
  return status;
}

/*
** Without `apart`, each writes straight into the transaction of all: false as soon as one fails,
** and everything is undone. With it each has a savepoint: false when one took the transaction of
** all with it (SQLite does that when the disk is full, say).
*/
static bool run_together(mp_sqlite_connection *connection, mp_sqlite_request *first, bool apart) {
  moonpad_error error = {MOONPAD_OK, ""};
  for (mp_sqlite_request *request = first; request != NULL; request = request->next) request->status = MOONPAD_OK;
  moonpad_status status = begin(connection, MP_SQL_BEGIN_WRITE, &error);
  bool complete = status == MOONPAD_OK;
  for (mp_sqlite_request *request = first; complete && request != NULL; request = request->next) {
    if (apart) {
      complete = run_in_savepoint(connection, request);
    } else {
      complete = call(connection, request->function, request->context, request->error) == MOONPAD_OK;
    }
  }
  if (complete) status = commit_all(connection, &error);
  if (!complete || status != MOONPAD_OK) roll_back(connection);
  if (status != MOONPAD_OK) fail_all(first, status, &error);
  return complete || status != MOONPAD_OK;
}

/* Savepoints cost each of them a third more, and few fail: so they come in only when one has. */
static void run_batch(mp_sqlite_connection *connection, mp_sqlite_request *first) {
  if (first->next != NULL && (run_together(connection, first, false) || run_together(connection, first, true))) return;
  for (mp_sqlite_request *request = first; request != NULL; request = request->next) run_alone(connection, request);
}

/* ---- the queue; all with the mutex held ---- */

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
** Those who shared the last commit have just been let go and are likely to be back at once.
** Waiting for them for a part of what a commit takes lets all share the next one, instead of one
** half each of two. Whoever was not handed the lead was one of them.
*/
static void await_the_others(mp_sqlite *store, bool handed_over) {
  if (store->durability != MOONPAD_DURABILITY_FULL || store->last_batch < 2) return;
  double pause = store->last_commit / 2 < LONGEST_PAUSE ? store->last_commit / 2 : LONGEST_PAUSE;
  double until = mp_sqlite_monotonic() + pause;
  unsigned expected = handed_over ? store->waiting + store->last_batch : store->last_batch - 1;
  if (expected > LARGEST_BATCH - 1) expected = LARGEST_BATCH - 1;
  while (store->waiting < expected && mp_sqlite_monotonic() < until) {
    pthread_mutex_unlock(&store->mutex);
    sched_yield();
    pthread_mutex_lock(&store->mutex);
  }
}

/* Chains those who wait, as far as they can share a commit, to the one that leads. */
static void gather(mp_sqlite *store, mp_sqlite_request *leader, bool handed_over) {
  if (leader->exclusive != NULL) return;
  await_the_others(store, handed_over);
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

/* Their requests are gone as soon as the mutex is. */
static void release_followers(mp_sqlite_request *leader) {
  for (mp_sqlite_request *request = leader->next; request != NULL;) {
    mp_sqlite_request *next = request->next;
    request->state = REQUEST_DONE;
    pthread_cond_signal(&request->wake);
    request = next;
  }
}

static void hand_over(mp_sqlite *store) {
  if (store->first_waiting != NULL) {
    mp_sqlite_request *leader = dequeue(store);
    leader->state = REQUEST_LEADS;
    pthread_cond_signal(&leader->wake);
    return;
  }
  store->writing = false;
  if (store->closing) pthread_cond_broadcast(&store->idle);
}

static void wait_in_queue(mp_sqlite *store, mp_sqlite_request *request) {
  pthread_cond_init(&request->wake, NULL);
  enqueue(store, request);
  while (request->state <= REQUEST_FOLLOWS) pthread_cond_wait(&request->wake, &store->mutex);
  pthread_cond_destroy(&request->wake);
}

static moonpad_status submit(mp_sqlite *store, mp_sqlite_request *request) {
  pthread_mutex_lock(&store->mutex);
  if (store->closing) {
    pthread_mutex_unlock(&store->mutex);
    return closed_error(request->error);
  }
  bool waited = store->writing;
  if (waited) {
    wait_in_queue(store, request);
  } else {
    store->writing = true;
    request->state = REQUEST_LEADS;
  }
  if (request->state == REQUEST_LEADS) gather(store, request, waited);
  pthread_mutex_unlock(&store->mutex);
  if (request->state == REQUEST_DONE) return request->status;

  run_batch(store->writer, request);
  pthread_mutex_lock(&store->mutex);
  release_followers(request);
  hand_over(store);
  pthread_mutex_unlock(&store->mutex);
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

/* ---- reading ---- */

moonpad_status mp_sqlite_enter(mp_sqlite *store, moonpad_error *error) {
  pthread_mutex_lock(&store->mutex);
  bool closing = store->closing;
  if (!closing) store->readers++;
  pthread_mutex_unlock(&store->mutex);
  return closing ? closed_error(error) : MOONPAD_OK;
}

void mp_sqlite_leave(mp_sqlite *store) {
  pthread_mutex_lock(&store->mutex);
  store->readers--;
  if (store->closing && store->readers == 0) pthread_cond_broadcast(&store->idle);
  pthread_mutex_unlock(&store->mutex);
}

static moonpad_status open_reader(mp_sqlite *store, mp_sqlite_connection **reader, moonpad_error *error) {
  moonpad_status status = mp_sqlite_connect(store, store->path, SQLITE_OPEN_READWRITE, reader, error);
  /* Before it reads: SQLite would take our log for that of whatever file it has found. */
  if (status == MOONPAD_OK) status = mp_sqlite_check_files(store, error);
  if (status == MOONPAD_OK) status = mp_sqlite_execute(*reader, "PRAGMA query_only = ON", error);
  if (status == MOONPAD_OK) return status;
  mp_sqlite_disconnect(*reader);
  *reader = NULL;
  return status;
}

/* As mp_sqlite_enter, and takes a connection. */
static moonpad_status take_reader(mp_sqlite *store, mp_sqlite_connection **reader, moonpad_error *error) {
  pthread_mutex_lock(&store->mutex);
  bool closing = store->closing;
  *reader = closing ? NULL : store->free_readers;
  if (!closing) store->readers++;
  if (*reader != NULL) {
    store->free_readers = (*reader)->next;
    store->free_reader_count--;
  }
  pthread_mutex_unlock(&store->mutex);
  if (closing) return closed_error(error);
  if (*reader != NULL) return MOONPAD_OK;
  moonpad_status status = open_reader(store, reader, error);
  if (status != MOONPAD_OK) mp_sqlite_leave(store);
  return status;
}

static void give_reader_back(mp_sqlite *store, mp_sqlite_connection *reader) {
  bool usable = sqlite3_get_autocommit(reader->db) != 0;
  pthread_mutex_lock(&store->mutex);
  bool keep = usable && store->free_reader_count < FREE_READERS_KEPT;
  if (keep) {
    reader->next = store->free_readers;
    store->free_readers = reader;
    store->free_reader_count++;
    store->readers--;
    if (store->closing && store->readers == 0) pthread_cond_broadcast(&store->idle);
  }
  pthread_mutex_unlock(&store->mutex);
  if (keep) return;
  mp_sqlite_disconnect(reader);
  mp_sqlite_leave(store);
}

moonpad_status mp_sqlite_read(mp_store *base, mp_tx_function function, void *context, moonpad_error *error) {
  mp_sqlite *store = (mp_sqlite *)base;
  if (store->in_memory) return mp_sqlite_write(base, function, context, error);
  mp_sqlite_connection *reader;
  moonpad_status status = take_reader(store, &reader, error);
  if (status != MOONPAD_OK) return status;
  status = mp_sqlite_check_file(store, error);
  if (status == MOONPAD_OK) status = transact(reader, MP_SQL_BEGIN_READ, function, context, error);
  give_reader_back(store, reader);
  return status;
}

/* ---- closing ---- */

void mp_sqlite_close(mp_store *base) {
  mp_sqlite *store = (mp_sqlite *)base;
  pthread_mutex_lock(&store->mutex);
  bool first = !store->closing;
  store->closing = true;
  while (first ? store->writing || store->readers > 0 : !store->closed) {
    pthread_cond_wait(&store->idle, &store->mutex);
  }
  pthread_mutex_unlock(&store->mutex);
  if (!first) return;
  while (store->free_readers != NULL) {
    mp_sqlite_connection *reader = store->free_readers;
    store->free_readers = reader->next;
    mp_sqlite_disconnect(reader);
  }
  mp_sqlite_write_back_log(store);
  mp_sqlite_disconnect(store->writer);
  store->writer = NULL;
  pthread_mutex_lock(&store->mutex);
  store->closed = true;
  pthread_cond_broadcast(&store->idle);
  pthread_mutex_unlock(&store->mutex);
}
