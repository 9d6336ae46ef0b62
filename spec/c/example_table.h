/*
** What the example store keeps its rows in, in place of somebody's database: a table of records in
** memory, and transactions on it that take turns.
*/
#ifndef EXAMPLE_TABLE_H
#define EXAMPLE_TABLE_H

#include <pthread.h>

#include "store/store.h"

enum record_kind { SESSION = MP_SCOPE_SESSION, USER = MP_SCOPE_USER, APP = MP_SCOPE_APP, KEY, BASE_KEY, EVENT };

typedef struct record {
  enum record_kind kind;
  /* the id of what it belongs to: of a user its app, of a key its owner, and so on */
  int64_t parent;
  int64_t id;             /* of an app, a user or a session; else 0 */
  int64_t revision;       /* of a key, a user or an app */
  mp_session_row session; /* of a session */
  mp_event_row event;     /* of an event; its texts are those of the values here */
  mp_value *name;         /* or key, or event id */
  mp_value *value;        /* of a key (NULL: removed), or an event's JSON */
  mp_value *invocation;   /* of an event */
} record;

typedef struct table {
  mp_env *env;
  pthread_mutex_t mutex; /* held by one transaction at a time */
  bool closed;
  record *records; /* in the order in which they were made */
  size_t capacity, count;
  int64_t last_id;
  record *before; /* what a transaction that writes comes back to; NULL: it does not write */
  size_t count_before;
} table;

void table_init(table *self, mp_env *env);
/* What comes later fails with MOONPAD_CLOSED. */
void table_close(table *self);
void table_free(table *self);
/* Unless it fails, the transaction is to be ended, keeping what it wrote or not. */
moonpad_status table_begin(table *self, bool writes, moonpad_error *error);
void table_end(table *self, bool keeps);

/*
** Records are where they are until the next one is made, or any is dropped. NULL: it is not there.
*/
record *table_find(table *self, enum record_kind kind, int64_t parent, moonpad_string name);
record *table_by_id(const table *self, int64_t id);
/* 0: it is not there. Nothing that belongs to 0 but apps is ever found. */
int64_t table_id(table *self, enum record_kind kind, int64_t parent, moonpad_string name);
/*
** The next record of its kind from *at on, or back from there (where `count` is the end); *at goes
** past it.
*/
record *table_next(const table *self, enum record_kind kind, int64_t parent, bool back, size_t *at);
/* Finds it, or makes it. NULL: there is no memory. */
record *table_need(table *self, enum record_kind kind, int64_t parent, moonpad_string name);
/* Drops what has this id, and what belongs to it. */
void table_drop(table *self, int64_t id);

/* Puts a value into a record, with a reference of its own. */
void table_set(const table *self, mp_value **slot, mp_value *value);
/* Puts a copy of *text there, which it becomes. False: there is no memory. */
bool table_keep(const table *self, mp_value **slot, moonpad_string *text);
static inline moonpad_string table_text(const mp_value *value) {
  return value == NULL ? moonpad_text(NULL) : value->as.as.text;
}

#endif
