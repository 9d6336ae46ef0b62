/*
** Memories on PostgreSQL: searching them. One question brings every word of the query that the
** user's memories hold, with its places; from them come the phrases and which memories are the
** best. A second one reads those.
*/
#include "agent_stores/lookup.h"
#include "agent_stores/postgres/stores.h"
#include "base/error.h"

typedef struct searching {
  mp_postgres_memories *store;
  const mp_memories_query *query;
  const mp_agent_time *time;
  mp_lookup lookup;
  int64_t count;  /* of the user's memories */
  mp_buffer best; /* ids: each an int64_t */
  mp_buffer *matches;
  mp_buffer due; /* ids of those to be renewed */
} searching;

/* ---- where the words are ---- */

static void add_words(mp_postgres_parameters *parameters, const void *asked) {
  const searching *wanted = asked;
  moonpad_string word;
  mp_postgres_add_text(parameters, wanted->query->app_name);
  mp_postgres_add_text(parameters, wanted->query->user_id);
  mp_postgres_begin_array(parameters, MP_PG_BYTEA);
  for (size_t at = 0; mp_lookup_next_word(&wanted->lookup, &at, &word);) mp_postgres_item_bytes(parameters, word);
  mp_postgres_end_array(parameters);
  mp_postgres_add_double(parameters, mp_agent_alive_since(wanted->time));
}

static moonpad_status take_met(void *found, const PGresult *rows, moonpad_error *error) {
  enum { NUMBER, MEMORY, SIZE, POSITIONS };
  searching *wanted = found;
  mp_lookup *lookup = &wanted->lookup;
  mp_lookup_forget(lookup);
  wanted->count = 0;
  for (int row = 0; row < PQntuples(rows); row++) {
    int64_t number = mp_postgres_integer(rows, row, NUMBER), memory = mp_postgres_integer(rows, row, MEMORY);
    if (number == 0) {
      wanted->count = memory;
    } else {
      mp_lookup_meet(lookup, (uint32_t)(number - 1), memory, (uint32_t)mp_postgres_integer(rows, row, SIZE),
                     mp_postgres_bytes(rows, row, POSITIONS));
    }
  }
  return lookup->met.failed || lookup->positions.failed ? mp_no_memory(error) : MOONPAD_OK;
}

/* ---- the best of them ---- */

static void add_ids(mp_postgres_parameters *parameters, const mp_buffer *ids) {
  mp_postgres_begin_array(parameters, MP_PG_INT8);
  for (size_t at = 0; at < ids->length; at += sizeof(int64_t)) {
    int64_t id;
    memcpy(&id, ids->data + at, sizeof id);
    mp_postgres_item_integer(parameters, id);
  }
  mp_postgres_end_array(parameters);
}

static void add_best(mp_postgres_parameters *parameters, const void *asked) {
  add_ids(parameters, &((const searching *)asked)->best);
}

static moonpad_status take_best(void *found, const PGresult *rows, moonpad_error *error) {
  enum { ID, SESSION, AUTHOR, TIMESTAMP, CONTENT, TOUCHED };
  searching *wanted = found;
  mp_buffer_clear(wanted->matches);
  mp_buffer_clear(&wanted->due);
  for (int row = 0; row < PQntuples(rows); row++) {
    char id[MP_MEMORY_ID_BYTES];
    int64_t number = mp_postgres_integer(rows, row, ID);
    mp_memories_match match = {mp_memories_id_text(number, id), mp_postgres_bytes(rows, row, SESSION),
                               mp_postgres_bytes(rows, row, AUTHOR), mp_postgres_double(rows, row, TIMESTAMP),
                               mp_postgres_bytes(rows, row, CONTENT)};
    mp_memories_add_match(wanted->matches, &match);
    if (mp_postgres_double(rows, row, TOUCHED) >= mp_agent_renewed_since(wanted->time)) continue;
    mp_buffer_add(&wanted->due, (const char *)&number, sizeof number);
  }
  return wanted->matches->failed || wanted->due.failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void add_due(mp_postgres_parameters *parameters, const void *asked) {
  const searching *wanted = asked;
  add_ids(parameters, &wanted->due);
  mp_postgres_add_double(parameters, wanted->time->now);
}

/* ---- the whole ---- */

static moonpad_status search(searching *wanted, moonpad_error *error) {
  mp_store *store = wanted->store->store;
  const mp_memories_query *query = wanted->query;
  moonpad_status status =
      mp_lookup_take(&wanted->lookup, wanted->store->tokenizer, query->phrases, query->phrase_count, error);
  mp_postgres_call find = {MP_PG_FIND_WORDS, add_words, wanted, take_met, wanted};
  if (status == MOONPAD_OK) status = mp_postgres_ask(store, &find, error);
  if (status == MOONPAD_OK) status = mp_lookup_best(&wanted->lookup, wanted->count, query->limit, &wanted->best, error);
  if (status != MOONPAD_OK || wanted->best.length == 0) return status;
  mp_postgres_call read = {MP_PG_READ_MEMORIES, add_best, wanted, take_best, wanted};
  status = mp_postgres_ask(store, &read, error);
  if (status != MOONPAD_OK || wanted->due.length == 0) return status;
  /* What was found has been found, whether this is stored or not. */
  mp_postgres_call renew = {MP_PG_RENEW_MEMORIES, add_due, wanted, NULL, NULL};
  mp_postgres_renew(store, &renew);
  return status;
}

moonpad_status mp_postgres_memories_search(mp_memories *memories, const mp_memories_query *query,
                                           const mp_agent_time *time, mp_buffer *matches, moonpad_error *error) {
  mp_postgres_memories *self = (mp_postgres_memories *)memories;
  searching wanted = {.store = self, .query = query, .time = time, .matches = matches};
  mp_buffer_clear(matches);
  if (query->phrase_count == 0) return mp_remote_check_open(self->store, error);
  mp_lookup_init(&wanted.lookup, self->env);
  mp_buffer_init(&wanted.best, self->env);
  mp_buffer_init(&wanted.due, self->env);
  moonpad_status status = search(&wanted, error);
  if (status != MOONPAD_OK) mp_buffer_clear(matches);
  mp_lookup_free(&wanted.lookup);
  mp_buffer_free(&wanted.best);
  mp_buffer_free(&wanted.due);
  return status;
}
