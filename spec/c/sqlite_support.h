/*
** For tests of the SQLite store: a folder of its own for each test, opening by path, and appends as
** a service makes them.
*/
#ifndef SQLITE_SUPPORT_H
#define SQLITE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "store/store.h"
#include "timeout.h"

typedef struct sqlite_files {
  mp_env *env;
  moonpad_options options; /* what folder_open opens with */
  moonpad_error error;     /* of the last call */
  char folder[96];
  char path[128]; /* FOLDER/state.db, not made yet */
} sqlite_files;

/* *state is a sqlite_files. The folder and all in it are removed afterwards. */
int folder_setup(void **state);
int folder_teardown(void **state);

moonpad_status folder_try(sqlite_files *files, const char *rest, mp_store **store);
mp_store *folder_open(sqlite_files *files); /* its path; fails the test when that fails */
void folder_close(mp_store *store);

/* The file's bytes, for malloc's free. */
char *file_bytes(const char *path, size_t *size);
void file_write(const char *path, const char *bytes, size_t size);
bool file_exists(const char *path, const char *suffix);
/* With what SQLite puts beside it. */
void remove_files(const char *path);
/* Runs SQL on a file, without the store. */
void sql_run(const char *path, const char *sql);
int64_t sql_integer(const char *path, const char *sql);
/* Fails the test when the file is damaged. */
void expect_sound_file(const char *path);

/*
** One session ("app", "u", NAME) and its appends: each adds an event and writes the session's, the
** user's and the app's counter.
*/
typedef struct appender {
  mp_env *env;
  const char *session_id;
  int tag;     /* makes the ids of its events differ from those of others */
  int next;    /* number of the next event */
  size_t size; /* bytes of its events, roughly */
  bool fail;   /* the next append ends with MOONPAD_CONFLICT after it has written */
} appender;

/* Transaction functions; the context is an appender. */
moonpad_status append_once(mp_tx *tx, void *context, moonpad_error *error);
/*
** How many events the session has; fails the test when they are not complete and in order, or the
** counter says something else.
*/
int64_t count_appended(mp_store *store, const char *session_id);
/* A counter of the user or the app that all sessions share. */
int64_t shared_counter(mp_store *store, mp_scope scope);

#endif
