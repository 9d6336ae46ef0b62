/* Memories on PostgreSQL: writing, deleting, sweeping. */
#include "agent_stores/postgres/stores.h"
#include "base/error.h"

static mp_store *store_of(mp_memories *memories) {
  return ((mp_postgres_memories *)memories)->store;
}

static void add_session(mp_postgres_parameters *parameters, const mp_memories_session *session) {
  mp_postgres_add_text(parameters, session->app_name);
  mp_postgres_add_text(parameters, session->user_id);
  mp_postgres_add_text(parameters, session->session_id);
  mp_postgres_add_double(parameters, session->create_time);
}

/* ---- the watermark ---- */

static void add_indexed(mp_postgres_parameters *parameters, const void *asked) {
  add_session(parameters, asked);
}

static moonpad_status indexed(mp_memories *memories, const mp_memories_session *session, int64_t *revision,
                              moonpad_error *error) {
  mp_postgres_call call = {MP_PG_INDEXED, add_indexed, session, mp_postgres_take_number, revision};
  moonpad_status status = mp_postgres_ask(store_of(memories), &call, error);
  if (status != MOONPAD_OK) *revision = 0;
  return status;
}

/* ---- writing ---- */

typedef struct writing {
  const mp_memories_session *session;
  const mp_agent_time *time;
  const mp_memories_batch *batch;
  mp_word_list *words; /* of each entry, sorted */
} writing;

static int distinct_words(const mp_word_list *list) {
  int count = 0;
  for (size_t at = 0; at < mp_word_count(list); at += mp_same_words(list, at)) count++;
  return count;
}

typedef void (*add_item)(mp_postgres_parameters *parameters, const mp_memories_entry *entry);

static void item_revision(mp_postgres_parameters *parameters, const mp_memories_entry *entry) {
  mp_postgres_item_integer(parameters, entry->revision);
}

static void item_time(mp_postgres_parameters *parameters, const mp_memories_entry *entry) {
  mp_postgres_item_double(parameters, entry->timestamp);
}

static void item_author(mp_postgres_parameters *parameters, const mp_memories_entry *entry) {
  mp_postgres_item_bytes(parameters, entry->author);
}

static void item_content(mp_postgres_parameters *parameters, const mp_memories_entry *entry) {
  mp_postgres_item_bytes(parameters, entry->content);
}

static void add_entries(mp_postgres_parameters *parameters, const mp_memories_batch *batch, mp_postgres_type type,
                        add_item item) {
  mp_postgres_begin_array(parameters, type);
  for (size_t i = 0; i < batch->added_count; i++) item(parameters, &batch->added[i]);
  mp_postgres_end_array(parameters);
}

typedef enum count_column { ALL_WORDS, FIRST_WORD, LAST_WORD } count_column;

/* The numbers of the entry's first and last word, from 1, count all that are sent. */
static void add_counts(mp_postgres_parameters *parameters, const writing *wanted, count_column column) {
  int sent = 0;
  mp_postgres_begin_array(parameters, MP_PG_INT4);
  for (size_t i = 0; i < wanted->batch->added_count; i++) {
    const mp_word_list *list = &wanted->words[i];
    int first = sent + 1;
    sent += distinct_words(list);
    mp_postgres_item_small(parameters, column == ALL_WORDS    ? (int)mp_word_count(list)
                                       : column == FIRST_WORD ? first
                                                              : sent);
  }
  mp_postgres_end_array(parameters);
}

static void item_positions(mp_postgres_parameters *parameters, const mp_word *words, size_t count, mp_buffer *bytes) {
  mp_buffer_clear(bytes);
  mp_write_positions(words, count, bytes);
  if (bytes->failed) parameters->connection->scratch.failed = true;
  mp_postgres_item_bytes(parameters, mp_buffer_text(bytes));
}

static void add_words(mp_postgres_parameters *parameters, const writing *wanted, bool positions) {
  mp_buffer bytes;
  mp_buffer_init(&bytes, parameters->connection->store->remote.env);
  mp_postgres_begin_array(parameters, MP_PG_BYTEA);
  for (size_t i = 0; i < wanted->batch->added_count; i++) {
    const mp_word_list *list = &wanted->words[i];
    for (size_t at = 0, count; at < mp_word_count(list); at += count) {
      const mp_word *word = &mp_words(list)[at];
      count = mp_same_words(list, at);
      if (positions) {
        item_positions(parameters, word, count, &bytes);
      } else {
        mp_postgres_item_bytes(parameters, (moonpad_string){word->bytes, word->length});
      }
    }
  }
  mp_postgres_end_array(parameters);
  mp_buffer_free(&bytes);
}

static void add_batch(mp_postgres_parameters *parameters, const void *asked) {
  const writing *wanted = asked;
  const mp_memories_batch *batch = wanted->batch;
  add_session(parameters, wanted->session);
  mp_postgres_add_integer(parameters, batch->indexed);
  mp_postgres_begin_array(parameters, MP_PG_INT8);
  for (size_t i = 0; i < batch->removed_count; i++) mp_postgres_item_integer(parameters, batch->removed[i]);
  mp_postgres_end_array(parameters);
  mp_postgres_add_double(parameters, mp_agent_alive_since(wanted->time));
  add_entries(parameters, batch, MP_PG_INT8, item_revision);
  add_entries(parameters, batch, MP_PG_FLOAT8, item_time);
  add_entries(parameters, batch, MP_PG_BYTEA, item_author);
  add_entries(parameters, batch, MP_PG_TEXT, item_content);
  add_counts(parameters, wanted, ALL_WORDS);
  add_counts(parameters, wanted, FIRST_WORD);
  add_counts(parameters, wanted, LAST_WORD);
  add_words(parameters, wanted, false);
  add_words(parameters, wanted, true);
}

static moonpad_status write_batch(mp_memories *memories, const mp_memories_session *session, const mp_agent_time *time,
                                  const mp_memories_batch *batch, moonpad_error *error) {
  mp_postgres_memories *self = (mp_postgres_memories *)memories;
  mp_word_list *words;
  moonpad_status status = mp_tokenize_batch(self->tokenizer, self->env, batch, &words, error);
  writing wanted = {session, time, batch, words};
  mp_postgres_call call = {MP_PG_WRITE_MEMORIES, add_batch, &wanted, NULL, NULL};
  if (status == MOONPAD_OK) status = mp_postgres_change(self->store, &call, error);
  mp_free_words_of_batch(self->env, batch, words);
  return status;
}

/* ---- deleting ---- */

typedef struct deletion {
  const mp_memories_owner *owner;
  const mp_agent_time *time;
  int64_t id;
} deletion;

static void add_memory(mp_postgres_parameters *parameters, const void *asked) {
  const deletion *wanted = asked;
  mp_postgres_add_text(parameters, wanted->owner->app_name);
  mp_postgres_add_text(parameters, wanted->owner->user_id);
  mp_postgres_add_integer(parameters, wanted->id);
  mp_postgres_add_double(parameters, mp_agent_alive_since(wanted->time));
}

static moonpad_status delete_memory(mp_memories *memories, const mp_memories_owner *owner, moonpad_string id,
                                    const mp_agent_time *time, bool *existed, moonpad_error *error) {
  deletion wanted = {.owner = owner, .time = time};
  int64_t found = 0;
  *existed = false;
  if (!mp_memories_read_id(id, &wanted.id)) return mp_remote_check_open(store_of(memories), error);
  mp_postgres_call call = {MP_PG_DELETE_MEMORY, add_memory, &wanted, mp_postgres_take_number, &found};
  moonpad_status status = mp_postgres_change(store_of(memories), &call, error);
  *existed = status == MOONPAD_OK && found != 0;
  return status;
}

static void add_owner(mp_postgres_parameters *parameters, const void *asked) {
  const deletion *wanted = asked;
  mp_postgres_add_text(parameters, wanted->owner->app_name);
  mp_postgres_add_text(parameters, wanted->owner->user_id);
  if (wanted->owner->session_id.length == 0) {
    mp_postgres_add_null(parameters);
  } else {
    mp_postgres_add_text(parameters, wanted->owner->session_id);
  }
  mp_postgres_add_double(parameters, mp_agent_alive_since(wanted->time));
}

static moonpad_status delete_all(mp_memories *memories, const mp_memories_owner *owner, const mp_agent_time *time,
                                 int64_t *count, moonpad_error *error) {
  deletion wanted = {.owner = owner, .time = time};
  mp_postgres_call call = {MP_PG_DELETE_MEMORIES, add_owner, &wanted, mp_postgres_take_number, count};
  moonpad_status status = mp_postgres_change(store_of(memories), &call, error);
  if (status != MOONPAD_OK) *count = 0;
  return status;
}

/* Memories, then their sessions, then their owners. */
static moonpad_status sweep(mp_memories *memories, const mp_agent_time *time, int64_t *count, moonpad_error *error) {
  moonpad_status status = mp_remote_check_open(store_of(memories), error);
  *count = 0;
  if (time->time_to_live == 0) return status;
  for (int step = 0; step < 3 && status == MOONPAD_OK; step++) {
    status = mp_postgres_sweep_table(store_of(memories), MP_PG_SWEEP_MEMORIES, step, time, count, error);
  }
  return status;
}

/* What is deleted is out of the index at once; the server frees its room when it vacuums. */
static moonpad_status rebuild_index(mp_memories *memories, moonpad_error *error) {
  return mp_remote_check_open(store_of(memories), error);
}

/* ---- all of them, for tools ---- */

typedef struct memories_listing {
  const mp_memories_session *session; /* the one to go on behind, or whose entries are listed */
  int64_t after;                      /* a revision */
  int64_t limit;
} memories_listing;

static void add_sessions_after(mp_postgres_parameters *parameters, const void *asked) {
  const memories_listing *listing = asked;
  add_session(parameters, listing->session);
  mp_postgres_add_integer(parameters, listing->limit);
}

static moonpad_status take_sessions(void *found, const PGresult *rows, moonpad_error *error) {
  mp_buffer *sessions = found;
  mp_buffer_clear(sessions);
  for (int row = 0; row < PQntuples(rows); row++) {
    double create_time = mp_postgres_double(rows, row, 3);
    int64_t indexed_revision = mp_postgres_integer(rows, row, 4);
    for (int column = 0; column < 3; column++) {
      mp_buffer_add_string(sessions, mp_postgres_bytes(rows, row, column));
      mp_buffer_add_char(sessions, '\0');
    }
    mp_buffer_add(sessions, (const char *)&create_time, sizeof create_time);
    mp_buffer_add(sessions, (const char *)&indexed_revision, sizeof indexed_revision);
  }
  return sessions->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status list_sessions(mp_memories *memories, const mp_memories_session *after, int64_t limit,
                                    mp_buffer *sessions, moonpad_error *error) {
  memories_listing asked = {after, 0, limit};
  mp_postgres_call call = {MP_PG_MEMORY_SESSIONS, add_sessions_after, &asked, take_sessions, sessions};
  return mp_postgres_ask(store_of(memories), &call, error);
}

static void add_entries_after(mp_postgres_parameters *parameters, const void *asked) {
  const memories_listing *listing = asked;
  add_sessions_after(parameters, asked);
  mp_postgres_add_integer(parameters, listing->after);
}

static moonpad_status take_entries(void *found, const PGresult *rows, moonpad_error *error) {
  mp_buffer *entries = found;
  mp_buffer_clear(entries);
  for (int row = 0; row < PQntuples(rows); row++) {
    mp_memories_entry entry = {.revision = mp_postgres_integer(rows, row, 0),
                               .timestamp = mp_postgres_double(rows, row, 1),
                               .author = mp_postgres_bytes(rows, row, 2),
                               .content = mp_postgres_bytes(rows, row, 3)};
    mp_memories_add_entry(entries, &entry);
  }
  return entries->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status list_entries(mp_memories *memories, const mp_memories_session *session, int64_t after,
                                   int64_t limit, mp_buffer *entries, moonpad_error *error) {
  memories_listing asked = {session, after, limit};
  mp_postgres_call call = {MP_PG_MEMORY_ENTRIES, add_entries_after, &asked, take_entries, entries};
  return mp_postgres_ask(store_of(memories), &call, error);
}

/* ---- opening and closing ---- */

static void close_store(mp_memories *memories) {
  store_of(memories)->ops->close(store_of(memories));
}

static void free_store(mp_memories *memories) {
  mp_postgres_memories *self = (mp_postgres_memories *)memories;
  mp_env *env = self->env;
  if (self->store != NULL) {
    self->store->ops->close(self->store);
    self->store->ops->free(self->store);
  }
  mp_tokenizer_free(self->tokenizer);
  mp_release(env, self);
  mp_env_release(env);
}

moonpad_status mp_postgres_memories_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                         mp_memories **memories, moonpad_error *error) {
  static const mp_memories_ops ops = {
      .size = sizeof ops,
      .indexed = indexed,
      .write = write_batch,
      .search = mp_postgres_memories_search,
      .delete_memory = delete_memory,
      .delete_all = delete_all,
      .sweep = sweep,
      .rebuild_index = rebuild_index,
      .sessions = list_sessions,
      .entries = list_entries,
      .close = close_store,
      .free = free_store,
  };
  *memories = NULL;
  mp_postgres_memories *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  made->base.ops = &ops;
  made->env = mp_env_retain(env);
  moonpad_status status = mp_tokenizer_new(env, &made->tokenizer, error);
  if (status == MOONPAD_OK) {
    status = mp_postgres_open_tables(env, rest, options, &mp_postgres_memory_tables, &made->store, error);
  }
  if (status == MOONPAD_OK) {
    *memories = &made->base;
  } else {
    free_store(&made->base);
  }
  return status;
}
