/*
** Memories in SQLite: searching them. FTS5 finds what has one of the phrases; a function of this
** file tells how often, and ranking.c which of them are the best.
*/
#include <string.h>

#include "agent_stores/fts5.h"
#include "agent_stores/ranking.h"
#include "agent_stores/sqlite_memories.h"
#include "base/error.h"

typedef struct searching {
  const mp_memories_query *query;
  const mp_agent_time *time;
  int64_t owner;
  int64_t count;      /* of the owner's memories */
  mp_ranking ranking; /* what was found */
  mp_buffer best;     /* ids: each an int64_t */
  mp_buffer *matches;
  mp_buffer due; /* ids of those to be renewed */
} searching;

/* ---- How often: a function for FTS5 ---- */

#define TIMES_FUNCTION "moonpad_times"

/* Of the row, a blob of uint32_t: how many words it has, and how often each phrase of the query. */
static void tell_times(const Fts5ExtensionApi *api, Fts5Context *row, sqlite3_context *result, int count,
                       sqlite3_value **values) {
  int phrases = api->xPhraseCount(row), words = 0, instances = 0;
  size_t size = (size_t)(phrases + 1) * sizeof(uint32_t);
  uint32_t *told = sqlite3_malloc64(size);
  (void)count, (void)values;
  if (told == NULL) {
    sqlite3_result_error_nomem(result);
    return;
  }
  memset(told, 0, size);
  int code = api->xColumnSize(row, 1, &words);
  if (code == SQLITE_OK) code = api->xInstCount(row, &instances);
  for (int i = 0; i < instances && code == SQLITE_OK; i++) {
    int phrase, column, offset;
    code = api->xInst(row, i, &phrase, &column, &offset);
    if (code == SQLITE_OK) told[phrase + 1]++;
  }
  told[0] = (uint32_t)words;
  if (code == SQLITE_OK) {
    sqlite3_result_blob64(result, told, size, sqlite3_free);
  } else {
    sqlite3_free(told);
    sqlite3_result_error_code(result, code);
  }
}

/*
** A connection learns the function when a statement first needs it. Where there was no memory for
** all of that, SQLite knows the name alone.
*/
static bool lacks_function(const mp_sqlite_connection *connection, int code) {
  return code == SQLITE_ERROR && strstr(sqlite3_errmsg(connection->db), TIMES_FUNCTION) != NULL;
}

static int make_function(const mp_sqlite_connection *connection) {
  fts5_api *api;
  int code = mp_fts5_find(connection->db, &api);
  return code == SQLITE_OK ? api->xCreateFunction(api, TIMES_FUNCTION, NULL, tell_times, NULL) : code;
}

/* ---- What has a phrase ---- */

/* In FTS5 a string in double quotes is plain text. A quote in it is doubled. */
static void add_quoted(mp_buffer *match, moonpad_string phrase) {
  mp_buffer_add_char(match, '"');
  for (size_t i = 0; i < phrase.length; i++) {
    if (phrase.data[i] == '"') mp_buffer_add_char(match, '"');
    mp_buffer_add_char(match, phrase.data[i] == '\0' ? ' ' : phrase.data[i]);
  }
  mp_buffer_add_char(match, '"');
}

/* The owner is the first phrase, those of the query are behind it. */
static void write_expression(mp_buffer *match, const searching *wanted, bool with_phrases) {
  mp_sqlite_owner_word word = mp_sqlite_owner_word_of(wanted->owner);
  mp_buffer_add_literal(match, "owner : \"");
  mp_buffer_add(match, word.text, strlen(word.text));
  mp_buffer_add_char(match, '"');
  for (size_t i = 0; with_phrases && i < wanted->query->phrase_count; i++) {
    if (i == 0) mp_buffer_add_literal(match, " AND text : (");
    if (i > 0) mp_buffer_add_literal(match, " OR ");
    add_quoted(match, wanted->query->phrases[i]);
  }
  if (with_phrases) mp_buffer_add_char(match, ')');
}

/* An error code of SQLite. */
static int take_met(sqlite3_stmt *statement, searching *wanted) {
  const uint32_t *told = sqlite3_column_blob(statement, 1);
  size_t size = (wanted->query->phrase_count + 2) * sizeof *told;
  if (told == NULL) return SQLITE_NOMEM;
  if ((size_t)sqlite3_column_bytes(statement, 1) != size) return SQLITE_CORRUPT;
  mp_ranking_add(&wanted->ranking, sqlite3_column_int64(statement, 0), told[0], told + 2);
  return SQLITE_ROW;
}

/* An error code of SQLite, or SQLITE_DONE. */
static int ask_met(const mp_sqlite_connection *connection, moonpad_string expression, searching *wanted) {
#define MET "SELECT rowid, " TIMES_FUNCTION "(memory_text) FROM memory_text WHERE memory_text MATCH ?1"
  static const char all[] = MET;
  static const char alive[] =
      MET " AND (SELECT" MP_SQLITE_MEMORIES_LAST_USE "FROM memories WHERE memories.id = memory_text.rowid) >= ?2";
#undef MET
  bool expires = wanted->time->time_to_live > 0;
  sqlite3_stmt *statement = NULL;
  mp_ranking_clear(&wanted->ranking);
  int code = sqlite3_prepare_v2(connection->db, expires ? alive : all, -1, &statement, NULL);
  if (code == SQLITE_OK) code = mp_sqlite_bind_text(statement, 1, expression);
  if (code == SQLITE_OK && expires) code = sqlite3_bind_double(statement, 2, mp_agent_alive_since(wanted->time));
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  while (code == SQLITE_ROW) {
    code = take_met(statement, wanted);
    if (code == SQLITE_ROW) code = sqlite3_step(statement);
  }
  sqlite3_finalize(statement);
  return code;
}

static moonpad_status find_met(mp_sqlite_connection *connection, moonpad_string expression, searching *wanted,
                               moonpad_error *error) {
  int code = ask_met(connection, expression, wanted);
  if (lacks_function(connection, code)) {
    code = make_function(connection);
    if (code == SQLITE_OK) code = ask_met(connection, expression, wanted);
  }
  return code == SQLITE_DONE ? MOONPAD_OK : mp_sqlite_fail_prepare(connection, code, error);
}

static moonpad_status count_memories(mp_sqlite_connection *connection, moonpad_string expression, searching *wanted,
                                     moonpad_error *error) {
  sqlite3_stmt *statement =
      mp_sqlite_tables_prepare(connection, "SELECT count(*) FROM memory_text WHERE memory_text MATCH ?1", error);
  if (statement == NULL) return connection->failure;
  int code = mp_sqlite_bind_text(statement, 1, expression);
  return mp_sqlite_tables_integer(connection, statement, code, 0, &wanted->count, error);
}

typedef moonpad_status (*ask_index)(mp_sqlite_connection *connection, moonpad_string expression, searching *wanted,
                                    moonpad_error *error);

static moonpad_status ask(mp_sqlite_connection *connection, searching *wanted, bool with_phrases, ask_index question,
                          moonpad_error *error) {
  mp_buffer match;
  mp_buffer_init(&match, connection->store->env);
  write_expression(&match, wanted, with_phrases);
  moonpad_status status =
      match.failed ? mp_no_memory(error) : question(connection, mp_buffer_text(&match), wanted, error);
  mp_buffer_free(&match);
  return status;
}

/* ---- The best of it ---- */

static void take_match(sqlite3_stmt *statement, int64_t number, searching *wanted) {
  char id[24];
  snprintf(id, sizeof id, "%lld", (long long)number);
  mp_memories_match match = {moonpad_text(id), mp_sqlite_column_text(statement, 0), mp_sqlite_column_text(statement, 1),
                             sqlite3_column_double(statement, 2), mp_sqlite_column_text(statement, 3)};
  mp_memories_add_match(wanted->matches, &match);
  if (sqlite3_column_double(statement, 4) >= mp_agent_renewed_since(wanted->time)) return;
  mp_buffer_add(&wanted->due, (const char *)&number, sizeof number);
}

static moonpad_status read_best(mp_sqlite_connection *connection, searching *wanted, moonpad_error *error) {
  static const char sql[] = "SELECT s.session_id, author, timestamp, content," MP_SQLITE_MEMORIES_LAST_USE
                            "FROM memories JOIN memory_sessions s ON s.id = memories.session WHERE memories.id = ?1";
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = SQLITE_OK;
  for (size_t at = 0; at < wanted->best.length && code == SQLITE_OK; at += sizeof(int64_t)) {
    int64_t id;
    memcpy(&id, wanted->best.data + at, sizeof id);
    code = sqlite3_bind_int64(statement, 1, id);
    if (code == SQLITE_OK) code = sqlite3_step(statement);
    if (code == SQLITE_ROW) take_match(statement, id, wanted);
    if (code == SQLITE_ROW || code == SQLITE_DONE) code = sqlite3_reset(statement);
  }
  moonpad_status status = code == SQLITE_OK ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_finalize(statement);
  bool failed = wanted->matches->failed || wanted->due.failed;
  return status == MOONPAD_OK && failed ? mp_no_memory(error) : status;
}

static moonpad_status search_owner(mp_tx *tx, void *context, moonpad_error *error) {
  searching *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  moonpad_string names[] = {wanted->query->app_name, wanted->query->user_id};
  wanted->owner = 0;
  mp_buffer_clear(wanted->matches);
  mp_buffer_clear(&wanted->best);
  mp_buffer_clear(&wanted->due);
  mp_ranking_clear(&wanted->ranking);
  moonpad_status status = mp_sqlite_memories_find_owner(connection, names, &wanted->owner, error);
  if (status != MOONPAD_OK || wanted->owner == 0) return status;
  status = ask(connection, wanted, true, find_met, error);
  if (status == MOONPAD_OK) status = ask(connection, wanted, false, count_memories, error);
  if (status == MOONPAD_OK && !mp_ranking_best(&wanted->ranking, wanted->count, wanted->query->limit, &wanted->best)) {
    status = mp_no_memory(error);
  }
  return status == MOONPAD_OK ? read_best(connection, wanted, error) : status;
}

/* ---- Renewing what was found ---- */

/* Whoever has deleted a memory meanwhile is right. */
static moonpad_status renew_in(mp_tx *tx, void *context, moonpad_error *error) {
  static const char sql[] = "INSERT INTO memory_uses SELECT id, ?2 FROM memories WHERE id = ?1 AND content <> ''"
                            " ON CONFLICT DO UPDATE SET touched = max(touched, excluded.touched)";
  const searching *found = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  moonpad_status status = MOONPAD_OK;
  for (size_t at = 0; at < found->due.length && status == MOONPAD_OK; at += sizeof(int64_t)) {
    int64_t id;
    memcpy(&id, found->due.data + at, sizeof id);
    sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
    if (statement == NULL) return connection->failure;
    int code = sqlite3_bind_int64(statement, 1, id);
    if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 2, found->time->now);
    status = mp_sqlite_tables_finish(connection, statement, code, error);
  }
  return status;
}

moonpad_status mp_sqlite_memories_search(mp_memories *memories, const mp_memories_query *query,
                                         const mp_agent_time *time, mp_buffer *matches, moonpad_error *error) {
  mp_sqlite_memories *store = (mp_sqlite_memories *)memories;
  mp_buffer_clear(matches);
  if (query->phrase_count == 0) return mp_sqlite_tables_check_open(store->file, error);
  searching wanted = {.query = query, .time = time, .matches = matches};
  mp_buffer_init(&wanted.best, store->env);
  mp_buffer_init(&wanted.due, store->env);
  mp_ranking_init(&wanted.ranking, store->env, query->phrase_count);
  moonpad_status status = mp_sqlite_memories_read(memories, search_owner, &wanted, error);
  /* What was found has been found, whether that is stored or not. */
  if (status == MOONPAD_OK && wanted.due.length > 0) {
    mp_sqlite_write_in_a_hurry(store->file, renew_in, &wanted, NULL);
  }
  mp_ranking_free(&wanted.ranking);
  mp_buffer_free(&wanted.due);
  mp_buffer_free(&wanted.best);
  return status;
}
