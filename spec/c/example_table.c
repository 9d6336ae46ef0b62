/*
** The table of records that the example store keeps its rows in (example_table.h): finding, making
** and dropping records, and transactions, which put a copy of the list of records aside and take it
** back when they are not to be kept.
*/
#include "example_table.h"

#include "base/error.h"
#include "base/map.h"

static void release_records(mp_env *env, record *records, size_t count) {
  for (size_t i = 0; i < count; i++) {
    mp_value_release(env, records[i].name);
    mp_value_release(env, records[i].value);
    mp_value_release(env, records[i].invocation);
  }
  mp_release(env, records);
}

void table_init(table *self, mp_env *env) {
  *self = (table){.env = env, .mutex = PTHREAD_MUTEX_INITIALIZER};
}

void table_close(table *self) {
  pthread_mutex_lock(&self->mutex);
  self->closed = true;
  pthread_mutex_unlock(&self->mutex);
}

void table_free(table *self) {
  release_records(self->env, self->records, self->count);
  pthread_mutex_destroy(&self->mutex);
}

/* ---- transactions: all records are put aside, and come back when it is not to be kept ---- */

static bool put_aside(table *self) {
  self->before = mp_allocate(self->env, (self->count + 1) * sizeof(record));
  if (self->before == NULL) return false;
  self->count_before = self->count;
  for (size_t i = 0; i < self->count; i++) {
    self->before[i] = self->records[i];
    mp_value_retain(self->records[i].name);
    mp_value_retain(self->records[i].value);
    mp_value_retain(self->records[i].invocation);
  }
  return true;
}

moonpad_status table_begin(table *self, bool writes, moonpad_error *error) {
  pthread_mutex_lock(&self->mutex);
  if (!self->closed && (!writes || put_aside(self))) return MOONPAD_OK;
  bool closed = self->closed;
  pthread_mutex_unlock(&self->mutex);
  return closed ? mp_fail(error, MOONPAD_CLOSED, "the service is closed") : mp_no_memory(error);
}

void table_end(table *self, bool keeps) {
  if (self->before != NULL && keeps) release_records(self->env, self->before, self->count_before);
  if (self->before != NULL && !keeps) {
    release_records(self->env, self->records, self->count);
    self->records = self->before;
    self->count = self->count_before;
    self->capacity = self->count_before + 1;
  }
  self->before = NULL;
  pthread_mutex_unlock(&self->mutex);
}

/* ---- records ---- */

record *table_next(const table *self, enum record_kind kind, int64_t parent, bool back, size_t *at) {
  while (back ? *at > 0 : *at < self->count) {
    record *found = &self->records[back ? --*at : (*at)++];
    if (found->kind == kind && found->parent == parent) return found;
  }
  return NULL;
}

record *table_find(table *self, enum record_kind kind, int64_t parent, moonpad_string name) {
  size_t at = 0;
  record *found = NULL;
  while ((found = table_next(self, kind, parent, false, &at)) != NULL) {
    if (mp_text_compare(table_text(found->name), name) == 0) return found;
  }
  return NULL;
}

int64_t table_id(table *self, enum record_kind kind, int64_t parent, moonpad_string name) {
  const record *found = table_find(self, kind, parent, name);
  return found == NULL ? 0 : found->id;
}

record *table_by_id(const table *self, int64_t id) {
  for (size_t i = 0; i < self->count && id != 0; i++) {
    if (self->records[i].id == id) return &self->records[i];
  }
  return NULL;
}

record *table_need(table *self, enum record_kind kind, int64_t parent, moonpad_string name) {
  record *found = table_find(self, kind, parent, name);
  void *records = self->records;
  if (found != NULL) return found;
  if (!mp_reserve(self->env, &records, &self->capacity, sizeof(record), self->count + 1)) return NULL;
  self->records = records;
  found = &self->records[self->count];
  *found = (record){.kind = kind, .parent = parent, .name = mp_value_new_string(self->env, name)};
  if (found->name == NULL) return NULL;
  if (kind <= APP) found->id = ++self->last_id;
  self->count++;
  return found;
}

void table_drop(table *self, int64_t id) {
  size_t kept = 0;
  for (size_t i = 0; i < self->count; i++) {
    record *item = &self->records[i];
    if (item->id != id && item->parent != id) {
      self->records[kept++] = *item;
      continue;
    }
    table_set(self, &item->name, NULL);
    table_set(self, &item->value, NULL);
    table_set(self, &item->invocation, NULL);
  }
  self->count = kept;
}

void table_set(const table *self, mp_value **slot, mp_value *value) {
  mp_value_retain(value);
  mp_value_release(self->env, *slot);
  *slot = value;
}

bool table_keep(const table *self, mp_value **slot, moonpad_string *text) {
  *slot = mp_value_new_string(self->env, *text);
  *text = table_text(*slot);
  return *slot != NULL;
}
