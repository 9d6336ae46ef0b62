/* From a URL to an open store; closing and freeing it. */
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "store/sqlite/sqlite.h"

static const char in_memory[] = ":memory:";

/* SQLAlchemy writes three slashes before a relative path and four before an absolute one. */
moonpad_status mp_sqlite_path_of_url(moonpad_string rest, moonpad_string *path, moonpad_error *error) {
  *path = rest;
  if (rest.length >= 2 && memcmp(rest.data, "//", 2) == 0) {
    if (rest.length > 2 && rest.data[2] != '/') {
      return mp_fail(
          error, MOONPAD_INVALID_ARGUMENT,
          "sqlite://: two slashes would name a host; write sqlite:PATH, sqlite:///relative or sqlite:////absolute");
    }
    size_t slashes = rest.length > 2 ? 3 : 2;
    path->data = rest.data + slashes;
    path->length = rest.length - slashes;
  }
  if (path->length == 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "sqlite: has no path; for a database in memory write sqlite::memory:");
  }
  if (memchr(path->data, '\0', path->length) != NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "sqlite:%s: a NUL byte cannot be part of a path",
                   mp_quote(*path).text);
  }
  if (mp_utf8_valid_prefix(path->data, path->length) != path->length) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "sqlite:%s: the path is not valid UTF-8", mp_quote(*path).text);
  }
  return MOONPAD_OK;
}

static bool is_in_memory(moonpad_string path) {
  return path.length == sizeof in_memory - 1 && memcmp(path.data, in_memory, path.length) == 0;
}

/*
** Replaces the path by the one that SQLite found, absolute and without links: readers are opened
** later, when the host may have changed its working directory.
*/
static moonpad_status resolve_path(mp_sqlite *store, moonpad_error *error) {
  const char *found = sqlite3_db_filename(store->writer->db, "main");
  size_t size = strlen(found) + 1;
  char *path = mp_allocate(store->env, size);
  if (path == NULL) return mp_no_memory(error);
  memcpy(path, found, size);
  mp_release(store->env, store->path);
  store->path = path;
  store->writer->path = path;
  return MOONPAD_OK;
}

/*
** Reading alone needs the WAL and the locks too: without them it would miss what others write, or
** see half of it.
*/
static moonpad_status check_writable(mp_sqlite *store, moonpad_error *error) {
  char reason[128];
  if (sqlite3_db_readonly(store->writer->db, "main") == 1) {
    int number = mp_sqlite_denied(store->path, false);
    return mp_fail(error, MOONPAD_STORAGE,
                   "%s: the file is read-only (%s), and even reading it needs the -wal and -shm files beside it to be "
                   "written: use a copy",
                   store->path, number == 0 ? "as SQLite says" : mp_system_message(number, reason, sizeof reason));
  }
  char *slash = mp_sqlite_last_slash(store->path);
  if (slash == NULL) return MOONPAD_OK;
  char saved = slash[1];
  slash[1] = '\0';
  int number = mp_sqlite_denied(store->path, true);
  slash[1] = saved;
  if (number == 0) return MOONPAD_OK;
  return mp_fail(
      error, MOONPAD_STORAGE,
      "%s: its folder cannot be written (%s), which the -wal and -shm files need, even for reading: use a copy",
      store->path, mp_system_message(number, reason, sizeof reason));
}

static moonpad_status open_file(mp_sqlite *store, moonpad_error *error) {
  moonpad_status status =
      mp_sqlite_connect(store, store->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &store->writer, error);
  if (status != MOONPAD_OK) return status;
  if (!store->in_memory) {
    status = resolve_path(store, error);
    if (status == MOONPAD_OK) status = mp_sqlite_check_header(store->writer, error);
    if (status == MOONPAD_OK) status = check_writable(store, error);
  }
  if (status == MOONPAD_OK) status = mp_sqlite_prepare_file(store->writer, error);
  if (status != MOONPAD_OK) return status;
  store->writer->cache = mp_allocate_zeroed(store->env, sizeof *store->writer->cache);
  if (store->writer->cache == NULL) return mp_no_memory(error);
  mp_sqlite_limit_wal(store->writer);
  bool full = store->durability == MOONPAD_DURABILITY_FULL;
  status = mp_sqlite_execute(store->writer, full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", error);
  if (status == MOONPAD_OK && !store->in_memory) {
    /* The first read creates PATH-wal and PATH-shm; from then on SQLite's locks protect them. */
    status = mp_sqlite_check_version(store->writer, error);
    if (status == MOONPAD_OK) status = mp_sqlite_remember_files(store, error);
  }
  return status;
}

void mp_sqlite_close(mp_store *base) {
  mp_sqlite *store = (mp_sqlite *)base;
  mp_mutex_lock(&store->mutex);
  bool first = !store->closing;
  store->closing = true;
  while (first ? store->writing || store->calls > 0 : !store->closed) {
    mp_condition_wait(&store->idle, &store->mutex);
  }
  mp_mutex_unlock(&store->mutex);
  if (!first) return;
  mp_sqlite_close_readers(store);
  mp_sqlite_write_back_moved_file(store);
  mp_sqlite_disconnect(store->writer);
  store->writer = NULL;
  mp_mutex_lock(&store->mutex);
  store->closed = true;
  mp_condition_broadcast(&store->idle);
  mp_mutex_unlock(&store->mutex);
}

static void free_store(mp_store *base) {
  mp_sqlite *store = (mp_sqlite *)base;
  mp_env *env = store->env;
  mp_sqlite_disconnect(store->writer);
  mp_sqlite_free_files(store);
  mp_condition_destroy(&store->idle);
  mp_mutex_destroy(&store->mutex);
  mp_release(env, store->path);
  mp_release(env, store);
  mp_env_release(env);
}

static const mp_store_ops store_ops = {
    .size = sizeof store_ops,
    .write = mp_sqlite_write,
    .read = mp_sqlite_read,
    .backup = mp_sqlite_backup,
    .close = mp_sqlite_close,
    .free = free_store,
    .vacuum = mp_sqlite_vacuum,
};

static mp_sqlite *new_store(mp_env *env, moonpad_string path, const moonpad_options *options) {
  mp_sqlite *store = mp_allocate_zeroed(env, sizeof *store);
  if (store == NULL) return NULL;
  store->in_memory = is_in_memory(path);
  store->path = store->in_memory ? mp_allocate(env, sizeof in_memory) : mp_sqlite_file_name(env, path);
  if (store->path == NULL) {
    mp_release(env, store);
    return NULL;
  }
  if (store->in_memory) memcpy(store->path, in_memory, sizeof in_memory);
  store->base.ops = &store_ops;
  store->base.in_memory = store->in_memory;
  store->env = mp_env_retain(env);
  store->durability = options->durability;
  store->busy_timeout_ms = options->busy_timeout_ms;
  mp_mutex_init(&store->mutex);
  mp_condition_init(&store->idle);
  return store;
}

moonpad_status mp_sqlite_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                              moonpad_error *error) {
  moonpad_string path;
  *store = NULL;
  moonpad_status status = mp_sqlite_path_of_url(rest, &path, error);
  if (status != MOONPAD_OK) return status;
  mp_sqlite *opened = new_store(env, path, options);
  if (opened == NULL) return mp_no_memory(error);
  mp_sqlite_prepare_system();
  status = open_file(opened, error);
  if (status == MOONPAD_OK) {
    *store = &opened->base;
  } else {
    free_store(&opened->base);
  }
  return status;
}
