#include "server/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "server/connection.h"

void mp_exchange_retain(mp_exchange *exchange) {
  exchange->references++;
}

void mp_exchange_release(mp_exchange *exchange) {
  if (--exchange->references > 0) return;
  exchange->all->body_bytes -= exchange->body.length;
  mp_buffer_free(&exchange->target);
  mp_buffer_free(&exchange->headers);
  mp_buffer_free(&exchange->body);
  mp_connections_release(exchange->all);
  free(exchange);
}

/* What is told of is kept until it is taken. */
void mp_exchange_tell(mp_exchange *exchange) {
  mp_connections *all = exchange->all;
  if (exchange->is_news || all->base == NULL) return;
  exchange->is_news = true;
  exchange->next_news = NULL;
  mp_exchange_retain(exchange);
  if (all->last_news != NULL) {
    all->last_news->next_news = exchange;
  } else {
    all->first_news = exchange;
  }
  all->last_news = exchange;
}

uint64_t mp_exchange_id(const mp_exchange *exchange) {
  return exchange->id;
}

/* ---- The request ---- */

const char *mp_exchange_method(const mp_exchange *exchange) {
  return exchange->method;
}

moonpad_string mp_exchange_target(const mp_exchange *exchange) {
  return mp_buffer_text(&exchange->target);
}

/* (Nothing may be added to a null pointer, not even nothing.) */
moonpad_string mp_exchange_headers(const mp_exchange *exchange) {
  return exchange->headers.length == 0 ? moonpad_text("") : mp_buffer_text(&exchange->headers);
}

void mp_exchange_receive(mp_exchange *exchange) {
  if (exchange->connection != NULL) mp_connection_receive(exchange->connection);
}

bool mp_exchange_is_received(const mp_exchange *exchange) {
  return exchange->state == MP_EXCHANGE_RECEIVED;
}

moonpad_string mp_exchange_body(const mp_exchange *exchange) {
  return mp_buffer_text(&exchange->body);
}

const char *mp_exchange_peer(const mp_exchange *exchange) {
  return exchange->peer;
}

/* ---- The answer ---- */

bool mp_exchange_is_open(const mp_exchange *exchange) {
  return exchange->connection != NULL;
}

static void add_date(mp_buffer *head) {
  char text[64];
  time_t now = time(NULL);
  struct tm parts;
  /* RFC 9110 5.6.7. The names of days are those of the C locale, whatever the host has set. */
  static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (gmtime_r(&now, &parts) == NULL) return;
  int length =
      snprintf(text, sizeof text, "Date: %s, %02d %s %d %02d:%02d:%02d GMT\r\n", days[parts.tm_wday], parts.tm_mday,
               months[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
  if (length > 0) mp_buffer_add(head, text, (size_t)length);
}

static void add_headers(mp_buffer *head, moonpad_string headers) {
  const char *at = headers.data, *end = at + headers.length;
  while (at < end) {
    size_t name = strlen(at), value = strlen(at + name + 1);
    mp_buffer_add(head, at, name);
    mp_buffer_add_literal(head, ": ");
    mp_buffer_add(head, at + name + 1, value);
    mp_buffer_add_literal(head, "\r\n");
    at += name + value + 2;
  }
}

static void send_head(mp_exchange *exchange, int status, moonpad_string headers, const char *framing) {
  mp_connection *connection = exchange->connection;
  mp_buffer head;
  char line[64];
  int length = snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", status, http_status_str((enum http_status)status));
  bool stays = mp_connection_stays(connection);
  mp_buffer_init(&head, exchange->all->env);
  if (length > 0) mp_buffer_add(&head, line, (size_t)length);
  add_date(&head);
  add_headers(&head, headers);
  mp_buffer_add(&head, framing, strlen(framing));
  if (!stays) {
    mp_buffer_add_literal(&head, "Connection: close\r\n");
  } else if (mp_connection_is_http_1_0(connection)) {
    mp_buffer_add_literal(&head, "Connection: keep-alive\r\n");
  }
  mp_buffer_add_literal(&head, "\r\n");
  if (head.failed) {
    mp_connection_abort(connection);
  } else {
    mp_connection_send(connection, head.data, head.length);
  }
  mp_buffer_free(&head);
}

void mp_exchange_respond(mp_exchange *exchange, int status, moonpad_string headers, moonpad_string body) {
  char framing[64] = "";
  if (exchange->connection == NULL || exchange->state == MP_EXCHANGE_ANSWERING) return;
  /* RFC 9110 8.6: these have no content, and say no length. */
  bool has_content = status != 204 && status != 304;
  if (has_content) snprintf(framing, sizeof framing, "Content-Length: %zu\r\n", body.length);
  send_head(exchange, status, headers, framing);
  if (exchange->connection == NULL) return;
  if (has_content && !exchange->is_head) mp_connection_send(exchange->connection, body.data, body.length);
  mp_connection_answered(exchange->connection);
}

void mp_exchange_begin(mp_exchange *exchange, int status, moonpad_string headers) {
  if (exchange->connection == NULL || exchange->state == MP_EXCHANGE_ANSWERING) return;
  exchange->is_chunked = !mp_connection_is_http_1_0(exchange->connection);
  if (!exchange->is_chunked) mp_connection_end_after(exchange->connection);
  send_head(exchange, status, headers, exchange->is_chunked ? "Transfer-Encoding: chunked\r\n" : "");
  exchange->state = exchange->connection == NULL ? MP_EXCHANGE_OVER : MP_EXCHANGE_ANSWERING;
}

static bool is_answering(const mp_exchange *exchange) {
  return exchange->connection != NULL && exchange->state == MP_EXCHANGE_ANSWERING;
}

void mp_exchange_write(mp_exchange *exchange, moonpad_string piece) {
  char size[32];
  if (!is_answering(exchange) || exchange->is_head || piece.length == 0) return;
  if (!exchange->is_chunked) {
    mp_connection_send(exchange->connection, piece.data, piece.length);
  } else {
    int length = snprintf(size, sizeof size, "%zx\r\n", piece.length);
    mp_connection_send(exchange->connection, size, (size_t)length);
    mp_connection_send(exchange->connection, piece.data, piece.length);
    mp_connection_send(exchange->connection, "\r\n", 2);
  }
  mp_connection_watch_unsent(exchange->connection);
}

void mp_exchange_finish(mp_exchange *exchange) {
  if (!is_answering(exchange)) return;
  if (exchange->is_chunked && !exchange->is_head) mp_connection_send(exchange->connection, "0\r\n\r\n", 5);
  mp_connection_answered(exchange->connection);
}

size_t mp_exchange_unsent(const mp_exchange *exchange) {
  return exchange->connection == NULL ? 0 : mp_connection_unsent(exchange->connection);
}

void mp_exchange_abort(mp_exchange *exchange) {
  if (exchange->connection != NULL) mp_connection_abort(exchange->connection);
}
