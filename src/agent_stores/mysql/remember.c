/*
** Memories on MariaDB and MySQL: writing. The first round trip locks the user, removes, and asks
** which of the events are stored already; the second one writes the others and commits. Without
** anything to add, there is but one.
*/
#include "agent_stores/mysql/stores.h"
#include "base/error.h"

typedef struct writing {
  const mp_memories_session *session;
  const mp_agent_time *time;
  const mp_memories_batch *batch;
  mp_word_list *words; /* of each entry, sorted */
  bool *is_stored;     /* each entry */
  mp_buffer positions; /* of one word, on its way out */
} writing;

/* So many words go into one statement. */
#define WORDS_AT_ONCE 1000

/* ---- removing ---- */

static void add_removed(mp_mysql_connection *connection, const mp_memories_batch *batch) {
  for (size_t i = 0; i < batch->removed_count; i++) {
    mp_mysql_sql_integer(connection, i == 0 ? "" : ",", batch->removed[i]);
  }
  mp_mysql_sql(connection, ")");
}

/* One that was deleted by its id has no words, and stays. */
static void write_removal(mp_mysql_connection *connection, const mp_memories_batch *batch) {
  if (batch->removed_count == 0) return;
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql(connection, "DELETE w FROM #memories m STRAIGHT_JOIN #memory_words w ON w.memory = m.id"
                           " WHERE m.session = @mp_told AND m.revision IN(");
  add_removed(connection, batch);
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql(connection, "DELETE FROM #memories WHERE session = @mp_told AND content <> '' AND revision IN(");
  add_removed(connection, batch);
  mp_mysql_add(connection, "UPDATE #memory_owners SET memories = memories - ROW_COUNT() WHERE id = @mp_owner");
}

/* ---- what is there already ---- */

static moonpad_status take_stored(void *context, const mp_mysql_row *row, moonpad_error *error) {
  const writing *wanted = context;
  int64_t revision = mp_mysql_integer_of(row, 0);
  (void)error;
  for (size_t i = 0; i < wanted->batch->added_count; i++) {
    if (wanted->batch->added[i].revision == revision) wanted->is_stored[i] = true;
  }
  return MOONPAD_OK;
}

static void write_question(mp_mysql_connection *connection, writing *wanted) {
  const mp_memories_batch *batch = wanted->batch;
  mp_mysql_begin(connection, take_stored, wanted);
  mp_mysql_sql(connection, "SELECT revision FROM #memories WHERE session = @mp_told AND revision IN(");
  for (size_t i = 0; i < batch->added_count; i++) {
    wanted->is_stored[i] = false;
    mp_mysql_sql_integer(connection, i == 0 ? "" : ",", batch->added[i].revision);
  }
  mp_mysql_sql(connection, ")");
}

/* ---- adding ---- */

static void add_word(mp_mysql_connection *connection, const mp_word *words, size_t count, size_t size,
                     mp_buffer *positions) {
  mp_buffer_clear(positions);
  mp_write_positions(words, count, positions);
  if (positions->failed) connection->text.failed = true;
  mp_mysql_sql_text(connection, "(@mp_owner,", (moonpad_string){words->bytes, words->length});
  mp_mysql_sql_integer(connection, ",LAST_INSERT_ID(),", (int64_t)size);
  mp_mysql_sql_text(connection, ",", mp_buffer_text(positions));
  mp_mysql_sql(connection, ")");
}

/* Those of the memory that was inserted last. */
static moonpad_status add_words(mp_mysql_connection *connection, const mp_word_list *list, mp_buffer *positions,
                                moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  size_t written = 0;
  for (size_t at = 0, count; at < mp_word_count(list) && status == MOONPAD_OK; at += count) {
    count = mp_same_words(list, at);
    bool is_first = written++ % WORDS_AT_ONCE == 0;
    if (is_first) status = mp_mysql_send_some(connection, error);
    if (is_first) mp_mysql_begin(connection, NULL, NULL);
    mp_mysql_sql(connection, is_first ? "INSERT INTO #memory_words VALUES" : ",");
    add_word(connection, &mp_words(list)[at], count, mp_word_count(list), positions);
  }
  return status;
}

static moonpad_status add_memory(mp_mysql_connection *connection, writing *wanted, size_t i, moonpad_error *error) {
  const mp_memories_entry *entry = &wanted->batch->added[i];
  moonpad_status status = mp_mysql_send_some(connection, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql_integer(connection,
                       "INSERT INTO #memories(session, revision, timestamp, touched, author, content) VALUES(@mp_told,",
                       entry->revision);
  mp_mysql_sql_time(connection, ",", entry->timestamp);
  mp_mysql_sql_time(connection, ",", entry->timestamp);
  mp_mysql_sql_text(connection, ",", entry->author);
  mp_mysql_sql_text(connection, ",", entry->content);
  mp_mysql_sql(connection, ")");
  if (entry->content.length == 0) return MOONPAD_OK;
  return add_words(connection, &wanted->words[i], &wanted->positions, error);
}

/* An entry of the same batch counts as well. */
static bool is_stored(const writing *wanted, size_t i) {
  const mp_memories_entry *added = wanted->batch->added;
  for (size_t before = 0; before < i; before++) {
    if (added[before].revision == added[i].revision && added[before].timestamp >= mp_agent_alive_since(wanted->time)) {
      return true;
    }
  }
  return wanted->is_stored[i];
}

static moonpad_status add_memories(mp_mysql_connection *connection, writing *wanted, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  int64_t found = 0; /* by a search */
  for (size_t i = 0; i < wanted->batch->added_count && status == MOONPAD_OK; i++) {
    const mp_memories_entry *entry = &wanted->batch->added[i];
    if (entry->timestamp < mp_agent_alive_since(wanted->time) || is_stored(wanted, i)) continue;
    status = add_memory(connection, wanted, i, error);
    found += entry->content.length > 0;
  }
  if (found == 0) return status;
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql_integer(connection, "UPDATE #memory_owners SET memories = memories + ", found);
  mp_mysql_sql(connection, " WHERE id = @mp_owner");
  return status;
}

static void write_watermark(mp_mysql_connection *connection, int64_t revision) {
  if (revision < 0) return;
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql_integer(connection, "UPDATE #memory_sessions SET indexed_revision = ", revision);
  mp_mysql_sql_integer(connection, " WHERE id = @mp_told AND indexed_revision < ", revision);
}

/* ---- the whole ---- */

static moonpad_status write_in(mp_tx *base, void *context, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  mp_mysql_connection *connection = tx->connection;
  writing *wanted = context;
  moonpad_status status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin_call(connection, NULL, NULL);
  mp_mysql_sql(connection, "CALL #open_memories_1(");
  mp_mysql_memory_session(connection, wanted->session);
  mp_mysql_sql(connection, ")");
  write_removal(connection, wanted->batch);
  if (wanted->batch->added_count > 0) {
    write_question(connection, wanted);
    status = mp_mysql_ask(tx, error);
    if (status == MOONPAD_OK) status = add_memories(connection, wanted, error);
  }
  if (status == MOONPAD_OK) write_watermark(connection, wanted->batch->indexed);
  return status;
}

moonpad_status mp_mysql_memories_write(mp_memories *memories, const mp_memories_session *session,
                                       const mp_agent_time *time, const mp_memories_batch *batch,
                                       moonpad_error *error) {
  mp_mysql_memories *self = (mp_mysql_memories *)memories;
  writing wanted = {.session = session, .time = time, .batch = batch};
  mp_buffer_init(&wanted.positions, self->env);
  wanted.is_stored = mp_allocate(self->env, batch->added_count * sizeof *wanted.is_stored);
  moonpad_status status = wanted.is_stored == NULL ? mp_no_memory(error) : MOONPAD_OK;
  if (status == MOONPAD_OK) status = mp_tokenize_batch(self->tokenizer, self->env, batch, &wanted.words, error);
  if (status == MOONPAD_OK) status = mp_remote_write(self->store, write_in, &wanted, error);
  mp_free_words_of_batch(self->env, batch, wanted.words);
  mp_release(self->env, wanted.is_stored);
  mp_buffer_free(&wanted.positions);
  return status;
}
