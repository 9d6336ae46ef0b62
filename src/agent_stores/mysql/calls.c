/* One call in one transaction, and what several calls write. */
#include <float.h>
#include <math.h>

#include "agent_stores/mysql/stores.h"

/* ---- calls ---- */

static moonpad_status ask_in(mp_tx *base, void *context, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  const mp_mysql_call *call = context;
  moonpad_status status = mp_mysql_before_question(tx, error);
  if (status != MOONPAD_OK) return status;
  call->write(tx->connection, call->context);
  return mp_mysql_ask(tx, error);
}

/* Without an answer to wait for, the text goes with the COMMIT. */
static moonpad_status change_in(mp_tx *base, void *context, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  const mp_mysql_call *call = context;
  moonpad_status status = mp_mysql_check_length(tx->connection, call->length, error);
  if (status == MOONPAD_OK) status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK) return status;
  call->write(tx->connection, call->context);
  return call->has_answer ? mp_mysql_ask(tx, error) : MOONPAD_OK;
}

moonpad_status mp_mysql_ask_once(mp_store *store, const mp_mysql_call *call, moonpad_error *error) {
  mp_mysql_call asked = *call;
  return mp_remote_read(store, ask_in, &asked, error);
}

moonpad_status mp_mysql_change_once(mp_store *store, const mp_mysql_call *call, moonpad_error *error) {
  mp_mysql_call asked = *call;
  return mp_remote_write(store, change_in, &asked, error);
}

void mp_mysql_renew(mp_store *store, const mp_mysql_call *call) {
  mp_mysql_call asked = *call;
  mp_remote_write_in_a_hurry(store, change_in, &asked, NULL);
}

/* ---- values ---- */

void mp_mysql_sql_text(mp_mysql_connection *connection, const char *sql, moonpad_string text) {
  mp_mysql_sql(connection, sql);
  mp_mysql_bytes(connection, text.length == 0 ? moonpad_text("") : text);
}

void mp_mysql_sql_time(mp_mysql_connection *connection, const char *sql, double time) {
  mp_mysql_sql(connection, sql);
  mp_mysql_double(connection, isfinite(time) ? time : -DBL_MAX);
}

static void is(mp_mysql_connection *connection, const char *column, const char *sign, moonpad_string text) {
  mp_mysql_sql(connection, column);
  mp_mysql_sql_text(connection, sign, text);
}

void mp_mysql_are(mp_mysql_connection *connection, const char *const *columns, const moonpad_string *texts,
                  size_t count) {
  for (size_t i = 0; i < count; i++) {
    mp_mysql_sql(connection, i == 0 ? " " : " AND ");
    is(connection, columns[i], " = ", texts[i]);
  }
}

/* Written out, because a comparison of rows uses no index. */
void mp_mysql_are_behind(mp_mysql_connection *connection, const char *const *columns, const moonpad_string *texts,
                         size_t count) {
  for (size_t same = 0; same < count; same++) {
    mp_mysql_sql(connection, same == 0 ? " ((" : ") OR (");
    mp_mysql_are(connection, columns, texts, same);
    if (same > 0) mp_mysql_sql(connection, " AND ");
    is(connection, columns[same], " > ", texts[same]);
  }
  mp_mysql_sql(connection, "))");
}

moonpad_status mp_mysql_take_number(void *found, const mp_mysql_row *row, moonpad_error *error) {
  (void)error;
  *(int64_t *)found = mp_mysql_integer_of(row, 0);
  return MOONPAD_OK;
}

/* ---- sweeping ---- */

typedef struct swept_table {
  const char *sql;
  double alive_since;
  int64_t place, next;
  int64_t removed;
  bool is_done;
} swept_table;

static moonpad_status take_swept(void *found, const mp_mysql_row *row, moonpad_error *error) {
  swept_table *swept = found;
  (void)error;
  swept->removed = mp_mysql_integer_of(row, 0);
  swept->next = mp_mysql_integer_of(row, 1);
  swept->is_done = mp_mysql_integer_of(row, 2) != 0;
  return MOONPAD_OK;
}

static void write_sweep(mp_mysql_connection *connection, void *context) {
  swept_table *swept = context;
  mp_mysql_begin_call(connection, take_swept, swept);
  mp_mysql_sql_integer(connection, swept->sql, swept->place);
  mp_mysql_sql_time(connection, ",", swept->alive_since);
  mp_mysql_sql(connection, ")");
}

moonpad_status mp_mysql_sweep_table(mp_store *store, const char *sql, const mp_agent_time *time, int64_t *removed,
                                    moonpad_error *error) {
  swept_table swept = {.sql = sql, .alive_since = mp_agent_alive_since(time)};
  mp_mysql_call call = {write_sweep, &swept, true, 0};
  while (!swept.is_done) {
    moonpad_status status = mp_mysql_change_once(store, &call, error);
    if (status != MOONPAD_OK) return status;
    *removed += swept.removed;
    swept.place = swept.next;
  }
  return MOONPAD_OK;
}
