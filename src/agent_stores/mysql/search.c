/*
** Memories on MariaDB and MySQL: searching them. One question brings every word of the query that
** the user's memories hold, with its places; from them come the phrases and which memories are the
** best. A second one reads those.
*/
#include <stdlib.h>

#include "agent_stores/lookup.h"
#include "agent_stores/mysql/stores.h"
#include "base/error.h"

typedef struct searching {
  const mp_memories_query *query;
  const mp_agent_time *time;
  mp_lookup lookup;
  int64_t count;  /* of the user's memories */
  mp_buffer best; /* ids: each an int64_t */
  mp_buffer read; /* matches as they come */
  mp_buffer rows; /* where each of them is there: a read_row */
  mp_buffer *matches;
  mp_buffer due; /* ids of those to be renewed */
} searching;

static int64_t id_at(const mp_buffer *ids, size_t at) {
  int64_t id;
  memcpy(&id, ids->data + at, sizeof id);
  return id;
}

/* ---- where the words are ---- */

static moonpad_status take_met(void *context, const mp_mysql_row *row, moonpad_error *error) {
  enum { WORD, MEMORY, SIZE, POSITIONS };
  mp_lookup *lookup = context;
  uint32_t number;
  if (!mp_lookup_number(lookup, mp_mysql_bytes_of(row, WORD), &number)) return MOONPAD_OK;
  mp_lookup_meet(lookup, number, mp_mysql_integer_of(row, MEMORY), (uint32_t)mp_mysql_integer_of(row, SIZE),
                 mp_mysql_bytes_of(row, POSITIONS));
  return lookup->met.failed || lookup->positions.failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void add_owner(mp_mysql_connection *connection, const mp_memories_query *query) {
  mp_mysql_sql_text(connection, " WHERE o.app_name = ", query->app_name);
  mp_mysql_sql_text(connection, " AND o.user_id = ", query->user_id);
}

static void write_find(mp_mysql_connection *connection, void *context) {
  searching *wanted = context;
  const mp_memories_query *query = wanted->query;
  moonpad_string word;
  wanted->count = 0;
  mp_lookup_forget(&wanted->lookup);
  mp_mysql_begin(connection, mp_mysql_take_number, &wanted->count);
  mp_mysql_sql(connection, "SELECT o.memories FROM #memory_owners o");
  add_owner(connection, query);
  mp_mysql_begin(connection, take_met, &wanted->lookup);
  mp_mysql_sql(connection, "SELECT w.word, w.memory, w.size, w.positions FROM #memory_owners o"
                           " STRAIGHT_JOIN #memory_words w FORCE INDEX(PRIMARY) ON w.owner = o.id");
  add_owner(connection, query);
  const char *before = " AND w.word IN(";
  for (size_t at = 0; mp_lookup_next_word(&wanted->lookup, &at, &word); before = ",") {
    mp_mysql_sql_text(connection, before, word);
  }
  mp_mysql_sql(connection, ")");
  if (wanted->time->time_to_live == 0) return;
  mp_mysql_sql_time(connection, " AND (SELECT m.touched FROM #memories m WHERE m.id = w.memory) >= ",
                    mp_agent_alive_since(wanted->time));
}

/* ---- the best of them ---- */

typedef struct read_row {
  int64_t id;
  size_t at, end;
} read_row;

static moonpad_status take_row(void *context, const mp_mysql_row *row, moonpad_error *error) {
  enum { ID, SESSION, AUTHOR, TIMESTAMP, CONTENT, TOUCHED };
  searching *wanted = context;
  char id[MP_MEMORY_ID_BYTES];
  read_row read = {.id = mp_mysql_integer_of(row, ID), .at = wanted->read.length};
  mp_memories_match match = {mp_memories_id_text(read.id, id), mp_mysql_bytes_of(row, SESSION),
                             mp_mysql_bytes_of(row, AUTHOR), mp_mysql_double_of(row, TIMESTAMP),
                             mp_mysql_bytes_of(row, CONTENT)};
  mp_memories_add_match(&wanted->read, &match);
  read.end = wanted->read.length;
  mp_buffer_add(&wanted->rows, (const char *)&read, sizeof read);
  if (mp_mysql_double_of(row, TOUCHED) < mp_agent_renewed_since(wanted->time)) {
    mp_buffer_add(&wanted->due, (const char *)&read.id, sizeof read.id);
  }
  bool failed = wanted->read.failed || wanted->rows.failed || wanted->due.failed;
  return failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void write_read(mp_mysql_connection *connection, void *context) {
  searching *wanted = context;
  mp_buffer_clear(&wanted->read);
  mp_buffer_clear(&wanted->rows);
  mp_buffer_clear(&wanted->due);
  mp_mysql_begin(connection, take_row, wanted);
  mp_mysql_sql(connection, "SELECT m.id, s.session_id, m.author, m.timestamp, m.content, m.touched FROM #memories m"
                           " STRAIGHT_JOIN #memory_sessions s ON s.id = m.session WHERE m.content <> ''");
  for (size_t at = 0; at < wanted->best.length; at += sizeof(int64_t)) {
    mp_mysql_sql_integer(connection, at == 0 ? " AND m.id IN(" : ",", id_at(&wanted->best, at));
  }
  mp_mysql_sql(connection, ")");
}

static int compare_rows(const void *left, const void *right) {
  const read_row *a = left, *b = right;
  return (a->id > b->id) - (a->id < b->id);
}

/* They are sorted here: a server would copy what was said to sort it. */
static moonpad_status put_in_order(searching *wanted, moonpad_error *error) {
  size_t count = wanted->rows.length / sizeof(read_row);
  if (count > 1) qsort(wanted->rows.data, count, sizeof(read_row), compare_rows);
  for (size_t at = 0; count > 0 && at < wanted->best.length; at += sizeof(int64_t)) {
    read_row key = {.id = id_at(&wanted->best, at)};
    const read_row *row = bsearch(&key, wanted->rows.data, count, sizeof key, compare_rows);
    if (row != NULL) mp_buffer_add(wanted->matches, wanted->read.data + row->at, row->end - row->at);
  }
  return wanted->matches->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void write_renewal(mp_mysql_connection *connection, void *context) {
  const searching *wanted = context;
  for (size_t at = 0; at < wanted->due.length; at += sizeof(int64_t)) {
    mp_mysql_begin_call(connection, NULL, NULL);
    mp_mysql_sql_integer(connection, "CALL #renew_memory_1(", id_at(&wanted->due, at));
    mp_mysql_sql_time(connection, ",", wanted->time->now);
    mp_mysql_sql(connection, ")");
  }
}

/* ---- the whole ---- */

static moonpad_status search(const mp_mysql_memories *self, searching *wanted, moonpad_error *error) {
  const mp_memories_query *query = wanted->query;
  moonpad_status status = mp_lookup_take(&wanted->lookup, self->tokenizer, query->phrases, query->phrase_count, error);
  if (status != MOONPAD_OK) return status;
  if (mp_word_count(&wanted->lookup.words) == 0) return mp_remote_check_open(self->store, error);
  mp_mysql_call find = {write_find, wanted, true, 0};
  status = mp_mysql_ask_once(self->store, &find, error);
  if (status == MOONPAD_OK) status = mp_lookup_best(&wanted->lookup, wanted->count, query->limit, &wanted->best, error);
  if (status != MOONPAD_OK || wanted->best.length == 0) return status;
  mp_mysql_call read = {write_read, wanted, true, 0};
  status = mp_mysql_ask_once(self->store, &read, error);
  if (status == MOONPAD_OK) status = put_in_order(wanted, error);
  if (status != MOONPAD_OK || wanted->due.length == 0) return status;
  /* What was found has been found, whether this is stored or not. */
  mp_mysql_call renew = {write_renewal, wanted, false, 0};
  mp_mysql_renew(self->store, &renew);
  return status;
}

moonpad_status mp_mysql_memories_search(mp_memories *memories, const mp_memories_query *query,
                                        const mp_agent_time *time, mp_buffer *matches, moonpad_error *error) {
  mp_mysql_memories *self = (mp_mysql_memories *)memories;
  searching wanted = {.query = query, .time = time, .matches = matches};
  mp_buffer_clear(matches);
  if (query->phrase_count == 0) return mp_remote_check_open(self->store, error);
  mp_lookup_init(&wanted.lookup, self->env);
  mp_buffer *const buffers[] = {&wanted.best, &wanted.read, &wanted.rows, &wanted.due};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) mp_buffer_init(buffers[i], self->env);
  moonpad_status status = search(self, &wanted, error);
  if (status != MOONPAD_OK) mp_buffer_clear(matches);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) mp_buffer_free(buffers[i]);
  mp_lookup_free(&wanted.lookup);
  return status;
}
