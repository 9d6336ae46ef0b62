/* Transactions that read: each has a connection of the pool to itself, and one snapshot. */
#include "base/error.h"
#include "store/sqlite/sqlite.h"

#define MAX_FREE_READERS 8

moonpad_status mp_sqlite_begin_call(mp_sqlite *store, moonpad_error *error) {
  mp_mutex_lock(&store->mutex);
  bool closing = store->closing;
  if (!closing) store->calls++;
  mp_mutex_unlock(&store->mutex);
  return closing ? mp_sqlite_closed(error) : MOONPAD_OK;
}

void mp_sqlite_end_call(mp_sqlite *store) {
  mp_mutex_lock(&store->mutex);
  store->calls--;
  if (store->closing && store->calls == 0) mp_condition_broadcast(&store->idle);
  mp_mutex_unlock(&store->mutex);
}

static moonpad_status open_reader(mp_sqlite *store, mp_sqlite_connection **reader, moonpad_error *error) {
  moonpad_status status = mp_sqlite_connect(store, store->path, SQLITE_OPEN_READWRITE, reader, error);
  /* Before it reads: SQLite would use our WAL for whatever file it has found. */
  if (status == MOONPAD_OK) status = mp_sqlite_check_files(store, error);
  if (status == MOONPAD_OK) status = mp_sqlite_execute(*reader, "PRAGMA query_only = ON", error);
  if (status == MOONPAD_OK) return status;
  mp_sqlite_disconnect(*reader);
  *reader = NULL;
  return status;
}

/* As mp_sqlite_begin_call, and takes a connection from the pool, or opens one. */
static moonpad_status take_reader(mp_sqlite *store, mp_sqlite_connection **reader, moonpad_error *error) {
  mp_mutex_lock(&store->mutex);
  bool closing = store->closing;
  *reader = closing ? NULL : store->free_readers;
  if (!closing) store->calls++;
  if (*reader != NULL) {
    store->free_readers = (*reader)->next;
    store->free_reader_count--;
  }
  mp_mutex_unlock(&store->mutex);
  if (closing) return mp_sqlite_closed(error);
  if (*reader != NULL) return MOONPAD_OK;
  moonpad_status status = open_reader(store, reader, error);
  if (status != MOONPAD_OK) mp_sqlite_end_call(store);
  return status;
}

static void return_reader(mp_sqlite *store, mp_sqlite_connection *reader) {
  bool usable = sqlite3_get_autocommit(reader->db) != 0;
  mp_mutex_lock(&store->mutex);
  bool keep = usable && store->free_reader_count < MAX_FREE_READERS;
  if (keep) {
    reader->next = store->free_readers;
    store->free_readers = reader;
    store->free_reader_count++;
    store->calls--;
    if (store->closing && store->calls == 0) mp_condition_broadcast(&store->idle);
  }
  mp_mutex_unlock(&store->mutex);
  if (keep) return;
  mp_sqlite_disconnect(reader);
  mp_sqlite_end_call(store);
}

moonpad_status mp_sqlite_read(mp_store *base, mp_tx_function function, void *context, moonpad_error *error) {
  mp_sqlite *store = (mp_sqlite *)base;
  if (store->in_memory) return mp_sqlite_write(base, function, context, error);
  mp_sqlite_connection *reader;
  moonpad_status status = take_reader(store, &reader, error);
  if (status != MOONPAD_OK) return status;
  status = mp_sqlite_check_file(store, error);
  if (status == MOONPAD_OK) status = mp_sqlite_transact(reader, MP_SQL_BEGIN_READ, function, context, error);
  return_reader(store, reader);
  return status;
}

void mp_sqlite_close_readers(mp_sqlite *store) {
  while (store->free_readers != NULL) {
    mp_sqlite_connection *reader = store->free_readers;
    store->free_readers = reader->next;
    mp_sqlite_disconnect(reader);
  }
}
