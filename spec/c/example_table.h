/*
** What the example store keeps its rows in, in place of somebody's database: a table of records in
** memory, and transactions on it that take turns.
*/
#ifndef EXAMPLE_TABLE_H
#define EXAMPLE_TABLE_H

#include <pthread.h>

#include "store/store.h"

enum record_kind { APP, USER, SESSION, KEY, BASE_KEY, EVENT };

typedef struct record {
  enum record_kind kind;
  int64_t parent;         /* the id of what it belongs to: of a user its app, of a key its owner, and so on */
  int64_t id;             /* of an app, a user or a session; else 0 */
  int64_t revision;       /* of a key, a user or an app */
  mp_session_row session; /* of a session */
  mp_event_row event;     /* of an event, without its strings */
  mp_value *name;         /* or key, or event id */
  mp_value *value;        /* of a key (NULL: removed), or an event's JSON */
  mp_value *invocation;   /* of an event */
} record;

typedef struct table {
  mp_env *env;
  pthread_mutex_t mutex; /* held by one transaction at a time */
  record *records;       /* in the order in which they were made */
  size_t capacity, count;
  int64_t last_id;
  record *before; /* what a transaction that writes comes back to; NULL: it does not write */
  size_t count_before;
} table;

bool table_init(table *self, mp_env *env);
void table_free(table *self);
/* False when there is no memory for a transaction; else it is to be ended, keeping what it wrote or not. */
bool table_begin(table *self, bool writes);
void table_end(table *self, bool keeps);

/* Records are where they are until the next one is made, or any is dropped. NULL: it is not there. */
record *table_find(const table *self, enum record_kind kind, int64_t parent, moonpad_string name);
record *table_by_id(const table *self, int64_t id);
/* The next record of its kind from *at on, which goes past it. */
record *table_next(const table *self, enum record_kind kind, int64_t parent, size_t *at);
/* Finds it, or makes it. NULL: there is no memory. */
record *table_need(table *self, enum record_kind kind, int64_t parent, moonpad_string name);
/* Drops what has this id, and what belongs to it. */
void table_drop(table *self, int64_t id);

/* Puts a value into a record, with a reference of its own. */
void table_set(const table *self, mp_value **place, mp_value *value);
static inline moonpad_string table_text(const mp_value *value) {
  return value == NULL ? moonpad_text(NULL) : value->as.as.text;
}

#endif
