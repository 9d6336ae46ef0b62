/*
** Texts on their way out, results on their way in.
**
** Quoting. The connection's character set is binary and its mode NO_BACKSLASH_ESCAPES, so in a
** literal only the quote itself is special, and is doubled. A NUL is a byte like any other.
*/
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "core/value.h"
#include "store/mysql/mysql.h"

/* ---- writing ---- */

static void begin(mp_mysql_connection *connection, mp_mysql_pending pending) {
  void *items = connection->pending;
  mp_env *env = connection->store->remote.env;
  if (connection->text.failed) return;
  if (!mp_reserve(env, &items, &connection->pending_capacity, sizeof pending, connection->pending_count + 1)) {
    connection->text.failed = true;
    return;
  }
  connection->pending = items;
  connection->pending[connection->pending_count++] = pending;
  if (connection->text.length > 0) mp_buffer_add(&connection->text, ";", 1);
}

void mp_mysql_begin(mp_mysql_connection *connection, mp_mysql_take take, void *context) {
  begin(connection, (mp_mysql_pending){.take = take, .context = context});
}

void mp_mysql_begin_kept(mp_mysql_connection *connection, MYSQL_RES **result) {
  *result = NULL;
  begin(connection, (mp_mysql_pending){.kept = result});
}

void mp_mysql_begin_events(mp_mysql_connection *connection) {
  begin(connection, (mp_mysql_pending){.appends_events = true});
}

void mp_mysql_begin_guard(mp_mysql_connection *connection) {
  begin(connection, (mp_mysql_pending){.is_guard = true});
}

void mp_mysql_begin_append(mp_mysql_connection *connection, mp_mysql_take take, void *context) {
  begin(connection, (mp_mysql_pending){.is_call = true, .appends_events = true, .take = take, .context = context});
}

void mp_mysql_begin_call(mp_mysql_connection *connection, mp_mysql_take take, void *context) {
  begin(connection, (mp_mysql_pending){.is_call = true, .take = take, .context = context});
}

void mp_mysql_expand(mp_buffer *out, const char *prefix, const char *sql) {
  for (;;) {
    size_t length = strcspn(sql, "#");
    mp_buffer_add(out, sql, length);
    if (sql[length] == '\0') return;
    mp_buffer_add(out, prefix, strlen(prefix));
    sql += length + 1;
  }
}

void mp_mysql_sql(mp_mysql_connection *connection, const char *sql) {
  mp_mysql_expand(&connection->text, connection->store->prefix, sql);
}

void mp_mysql_add(mp_mysql_connection *connection, const char *sql) {
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql(connection, sql);
}

void mp_mysql_integer(mp_mysql_connection *connection, int64_t number) {
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%" PRId64, number);
  mp_buffer_add(&connection->text, digits, (size_t)length);
}

void mp_mysql_sql_integer(mp_mysql_connection *connection, const char *sql, int64_t number) {
  mp_mysql_sql(connection, sql);
  mp_mysql_integer(connection, number);
}

/* With an exponent it is a DOUBLE, without it would be a DECIMAL. */
void mp_mysql_double(mp_mysql_connection *connection, double number) {
  char digits[MP_NUMBER_BYTES];
  size_t length = mp_format_float(isfinite(number) ? number : 0, digits);
  mp_buffer_add(&connection->text, digits, length);
  if (memchr(digits, 'e', length) == NULL) mp_buffer_add(&connection->text, "e0", 2);
}

static void add_quoted(mp_buffer *text, const char *data, size_t length) {
  mp_buffer_add(text, "'", 1);
  while (length > 0) {
    const char *quote = memchr(data, '\'', length);
    size_t used = quote == NULL ? length : (size_t)(quote - data) + 1;
    mp_buffer_add(text, data, used);
    if (quote != NULL) mp_buffer_add(text, "'", 1);
    data += used;
    length -= used;
  }
  mp_buffer_add(text, "'", 1);
}

void mp_mysql_bytes(mp_mysql_connection *connection, moonpad_string bytes) {
  if (bytes.data == NULL) {
    mp_buffer_add_literal(&connection->text, "NULL");
  } else {
    add_quoted(&connection->text, bytes.data, bytes.length);
  }
}

/* Doubles the quotes in what stands behind `at`, which was written there as it is. */
static void quote_tail(mp_buffer *text, size_t at) {
  size_t quotes = 0;
  if (text->failed) return;
  for (size_t i = at; i < text->length; i++) quotes += text->data[i] == '\'';
  if (quotes == 0 || !mp_buffer_room(text, quotes)) return;
  size_t from = text->length;
  text->length += quotes;
  for (size_t to = text->length; to > from;) {
    text->data[--to] = text->data[--from];
    if (text->data[to] == '\'') text->data[--to] = '\'';
  }
}

void mp_mysql_value(mp_mysql_connection *connection, const mp_value *value) {
  mp_buffer *text = &connection->text;
  if (value == NULL) {
    mp_buffer_add_literal(text, "NULL");
    return;
  }
  mp_buffer_add(text, "'", 1);
  size_t at = text->length;
  mp_value_write(text, value);
  quote_tail(text, at);
  mp_buffer_add(text, "'", 1);
}

void mp_mysql_event(mp_mysql_connection *connection, const mp_event_row *event) {
  bool has_invocation = event->invocation.length > 0;
  mp_mysql_bytes(connection, event->id);
  mp_mysql_sql(connection, ",");
  mp_mysql_double(connection, event->timestamp);
  mp_mysql_sql_integer(connection, ",", (int64_t)event->digest);
  mp_mysql_sql_integer(connection, ",", (int64_t)event->kinds);
  mp_mysql_sql(connection, ",");
  mp_mysql_bytes(connection, has_invocation ? event->invocation : (moonpad_string){NULL, 0});
}

/* ---- reading a row ---- */

bool mp_mysql_is_null(const mp_mysql_row *row, unsigned column) {
  return column >= row->count || row->values[column] == NULL;
}

/* libmariadb puts a NUL behind each value. */
int64_t mp_mysql_integer_of(const mp_mysql_row *row, unsigned column) {
  return mp_mysql_is_null(row, column) ? 0 : strtoll(row->values[column], NULL, 10);
}

double mp_mysql_double_of(const mp_mysql_row *row, unsigned column) {
  double number = 0;
  if (!mp_mysql_is_null(row, column)) mp_parse_float(row->values[column], row->lengths[column], &number);
  return number;
}

moonpad_string mp_mysql_bytes_of(const mp_mysql_row *row, unsigned column) {
  if (mp_mysql_is_null(row, column)) return (moonpad_string){NULL, 0};
  return (moonpad_string){row->values[column], row->lengths[column]};
}

/* ---- receiving ---- */

static void take_row(mp_mysql_connection *connection, const mp_mysql_pending *pending, MYSQL_RES *result,
                     MYSQL_ROW values) {
  if (pending->take == NULL || connection->base.failure.status != MOONPAD_OK) return;
  mp_mysql_row row = {values, mysql_fetch_lengths(result), mysql_num_fields(result)};
  moonpad_error reason = {MOONPAD_OK, ""};
  moonpad_status status = pending->take(pending->context, &row, &reason);
  if (status != MOONPAD_OK) mp_mysql_note(connection, status, &reason);
}

/* All rows of the result that has come. *has_rows: it is one with rows. */
static moonpad_status take_result(mp_mysql_connection *connection, const mp_mysql_pending *pending, bool *has_rows) {
  *has_rows = mysql_field_count(connection->my) > 0;
  if (!*has_rows) return MOONPAD_OK;
  if (pending->kept != NULL) {
    *pending->kept = mysql_store_result(connection->my);
    return *pending->kept == NULL ? mp_mysql_fail(connection, NULL) : MOONPAD_OK;
  }
  MYSQL_RES *result = mysql_use_result(connection->my);
  if (result == NULL) return mp_mysql_fail(connection, NULL);
  for (MYSQL_ROW values; (values = mysql_fetch_row(result)) != NULL;) take_row(connection, pending, result, values);
  bool has_failed = mysql_errno(connection->my) != 0;
  if (has_failed) mp_mysql_fail(connection, NULL);
  mysql_free_result(result);
  return has_failed ? connection->base.failure.status : MOONPAD_OK;
}

/* The results of all statements of the text, of which the first has come. */
static void receive(mp_mysql_connection *connection) {
  for (;;) {
    const mp_mysql_pending *pending = &connection->pending[connection->answered];
    bool has_rows;
    if (take_result(connection, pending, &has_rows) != MOONPAD_OK) return;
    if (!pending->is_call || !has_rows) connection->answered++;
    int more = mysql_next_result(connection->my);
    if (more > 0) mp_mysql_fail(connection, NULL);
    if (more != 0 || connection->answered == connection->pending_count) return;
  }
}

static moonpad_status too_long(mp_mysql_connection *connection, size_t length) {
  moonpad_error reason;
  moonpad_status status =
      mp_fail(&reason, MOONPAD_LIMIT,
              "%s: longer than the server takes at once: %zu bytes, and its max_allowed_packet is %" PRId64,
              connection->store->remote.place, length, connection->max_packet);
  return mp_mysql_note(connection, status, &reason);
}

moonpad_status mp_mysql_check_length(mp_mysql_connection *connection, size_t length, moonpad_error *error) {
  if ((int64_t)length < connection->max_packet) return MOONPAD_OK;
  moonpad_status status = too_long(connection, length);
  if (error != NULL) *error = connection->base.failure.error;
  return status;
}

static void send(mp_mysql_connection *connection) {
  moonpad_error reason;
  if (connection->text.failed) {
    mp_mysql_note(connection, mp_no_memory(&reason), &reason);
    return;
  }
  if ((int64_t)connection->text.length >= connection->max_packet) {
    too_long(connection, connection->text.length);
    return;
  }
  if (mysql_real_query(connection->my, connection->text.data, connection->text.length) != 0) {
    mp_mysql_fail(connection, NULL);
  } else {
    receive(connection);
  }
}

/* A long text is not kept. */
#define LONGEST_KEPT ((size_t)256 << 10)

void mp_mysql_forget(mp_mysql_connection *connection) {
  connection->pending_count = 0;
  if (connection->text.capacity > LONGEST_KEPT || connection->text.failed) {
    mp_buffer_free(&connection->text);
    mp_buffer_init(&connection->text, connection->store->remote.env);
  } else {
    mp_buffer_clear(&connection->text);
  }
}

moonpad_status mp_mysql_round_trip(mp_mysql_connection *connection, moonpad_error *error) {
  connection->answered = 0;
  if (connection->base.failure.status == MOONPAD_OK && connection->pending_count > 0) send(connection);
  mp_mysql_forget(connection);
  mp_buffer_clear(&connection->scratch);
  if (connection->base.failure.status != MOONPAD_OK && error != NULL) *error = connection->base.failure.error;
  return connection->base.failure.status;
}

#define LONG_TEXT ((size_t)4 << 20)

moonpad_status mp_mysql_send_some(mp_mysql_connection *connection, moonpad_error *error) {
  size_t long_text = connection->max_packet / 4 < (int64_t)LONG_TEXT ? (size_t)connection->max_packet / 4 : LONG_TEXT;
  if (connection->text.length < long_text) return MOONPAD_OK;
  connection->is_open = true;
  return mp_mysql_round_trip(connection, error);
}

moonpad_status mp_mysql_finish_walk(mp_mysql_tx *tx, const moonpad_status *walked, const moonpad_error *reason,
                                    moonpad_error *error) {
  moonpad_status status = mp_mysql_ask(tx, error);
  if (status != MOONPAD_OK) return status;
  status = mp_walk_end(*walked);
  if (status != MOONPAD_OK && error != NULL) *error = *reason;
  return status;
}
