#include "server/connection.h"

#include <event2/buffer.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>

/*
** Above the first, a client is slow: it gets a time to take what waits, down to the second.
** Requests that it sends ahead wait as long.
*/
#define UNSENT_HIGH (256 * 1024)
#define UNSENT_LOW  (64 * 1024)
/* What clients may send ahead while they are being answered. */
#define READ_AHEAD (64 * 1024)
/* After the last words, so long and so much is read on: a reset would take them away. */
#define LINGER_SECONDS 2
#define LINGER_BYTES   (1024 * 1024)
/* Bodies of all connections together, in bodies of the largest size. */
#define BODIES_AT_ONCE 4

typedef enum connection_state {
  READING_HEADER, /* or nothing of the next request has come yet */
  HELD,           /* a request has arrived; its body is left where it is */
  READING_BODY,
  ANSWERING,
  CLOSING, /* the last words are being sent */
  DEAD
} connection_state;

struct mp_connection {
  mp_connections *all;
  mp_connection *next, *previous;
  struct bufferevent *bufferevent;
  struct event *deadline;
  struct event *slow; /* the client does not take what is sent */
  http_parser parser;
  connection_state state;
  bool has_begun; /* something of the next request has come */
  bool is_last;   /* no request may follow */
  bool is_value;  /* the last piece of a header was one of its value */
  bool is_slow;
  size_t header_bytes;
  size_t lingered;
  mp_exchange *exchange; /* the one under way; NULL between two */
  char peer[64];
};

/* ---- Times ---- */

struct timeval mp_connection_duration(double seconds) {
  time_t whole = (time_t)seconds;
  return (struct timeval){whole, (suseconds_t)((seconds - (double)whole) * 1e6)};
}

static void set_timer(struct event *timer, double seconds) {
  struct timeval time = mp_connection_duration(seconds);
  evtimer_add(timer, &time);
}

static void set_deadline(mp_connection *connection, double seconds) {
  set_timer(connection->deadline, seconds);
}

static void no_deadline(mp_connection *connection) {
  evtimer_del(connection->deadline);
}

/* ---- The end ---- */

static void end_exchange(mp_connection *connection) {
  mp_exchange *exchange = connection->exchange;
  if (exchange == NULL) return;
  connection->exchange = NULL;
  exchange->connection = NULL;
  bool is_known = exchange->state != MP_EXCHANGE_ARRIVING && exchange->state != MP_EXCHANGE_OVER;
  exchange->state = MP_EXCHANGE_OVER;
  if (is_known) mp_exchange_tell(exchange);
  mp_exchange_release(exchange);
}

/* It is freed later: a callback of its own may be under way. */
static void die(mp_connection *connection) {
  mp_connections *all = connection->all;
  if (connection->state == DEAD) return;
  connection->state = DEAD;
  no_deadline(connection);
  evtimer_del(connection->slow);
  bufferevent_disable(connection->bufferevent, EV_READ | EV_WRITE);
  end_exchange(connection);
  if (connection->previous != NULL) connection->previous->next = connection->next;
  if (connection->next != NULL) connection->next->previous = connection->previous;
  if (all->first == connection) all->first = connection->next;
  connection->next = all->dead;
  all->dead = connection;
  all->count--;
}

static void free_connection(mp_connection *connection) {
  if (connection->deadline != NULL) event_free(connection->deadline);
  if (connection->slow != NULL) event_free(connection->slow);
  if (connection->bufferevent != NULL) bufferevent_free(connection->bufferevent);
  free(connection);
}

void mp_connections_bury(mp_connections *all) {
  while (all->dead != NULL) {
    mp_connection *connection = all->dead;
    all->dead = connection->next;
    free_connection(connection);
  }
}

void mp_connections_close(mp_connections *all) {
  while (all->first != NULL) die(all->first);
  mp_connections_bury(all);
}

void mp_connections_end_idle(mp_connections *all) {
  mp_connection *next;
  for (mp_connection *connection = all->first; connection != NULL; connection = next) {
    next = connection->next;
    connection->is_last = true;
    if (connection->state == READING_HEADER && mp_connection_unsent(connection) == 0) die(connection);
  }
}

/* All that is said has been sent: the other side is told, and heard for a moment. */
static void close_softly(mp_connection *connection) {
  shutdown(bufferevent_getfd(connection->bufferevent), SHUT_WR);
  bufferevent_setwatermark(connection->bufferevent, EV_READ, 0, 0);
  bufferevent_enable(connection->bufferevent, EV_READ);
  set_deadline(connection, LINGER_SECONDS);
}

static void close_when_sent(mp_connection *connection) {
  connection->state = CLOSING;
  set_deadline(connection, connection->all->limits.timeout);
  if (mp_connection_unsent(connection) == 0) close_softly(connection);
}

/* Words of the server itself about a request that nobody is asked about. */
static void refuse(mp_connection *connection, int status, const char *reason) {
  struct evbuffer *output = bufferevent_get_output(connection->bufferevent);
  char body[256];
  int length = snprintf(body, sizeof body, "{\"error\":\"%s\",\"detail\":\"%s\"}", reason, reason);
  evbuffer_add_printf(output,
                      "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
                      "Content-Length: %d\r\nConnection: close\r\n\r\n%s",
                      status, http_status_str((enum http_status)status), length,
                      connection->parser.method == HTTP_HEAD ? "" : body);
  end_exchange(connection);
  close_when_sent(connection);
}

/* ---- Reading: what the parser finds ---- */

static mp_exchange *new_exchange(mp_connection *connection) {
  mp_connections *all = connection->all;
  mp_exchange *exchange = calloc(1, sizeof *exchange);
  if (exchange == NULL) return NULL;
  exchange->connection = connection;
  exchange->all = all;
  all->references++;
  exchange->references = 1;
  exchange->id = ++all->last_id;
  mp_buffer_init(&exchange->target, all->env);
  mp_buffer_init(&exchange->headers, all->env);
  mp_buffer_init(&exchange->body, all->env);
  memcpy(exchange->peer, connection->peer, sizeof exchange->peer);
  return exchange;
}

static int on_begin(http_parser *parser) {
  mp_connection *connection = parser->data;
  connection->exchange = new_exchange(connection);
  connection->is_value = false;
  return connection->exchange == NULL ? -1 : 0;
}

static int on_target(http_parser *parser, const char *data, size_t length) {
  mp_connection *connection = parser->data;
  mp_buffer_add(&connection->exchange->target, data, length);
  return 0;
}

static int on_name(http_parser *parser, const char *data, size_t length) {
  mp_connection *connection = parser->data;
  mp_buffer *headers = &connection->exchange->headers;
  if (connection->state != READING_HEADER) return 0; /* what stands behind a body is no header */
  if (connection->is_value) mp_buffer_add_char(headers, '\0');
  connection->is_value = false;
  for (size_t i = 0; i < length; i++) {
    char byte = data[i];
    mp_buffer_add_char(headers, byte >= 'A' && byte <= 'Z' ? (char)(byte + 'a' - 'A') : byte);
  }
  return 0;
}

static int on_value(http_parser *parser, const char *data, size_t length) {
  mp_connection *connection = parser->data;
  mp_buffer *headers = &connection->exchange->headers;
  if (connection->state != READING_HEADER) return 0;
  if (memchr(data, '\0', length) != NULL) return -1; /* http_parser lets a value begin with one */
  if (!connection->is_value) mp_buffer_add_char(headers, '\0');
  connection->is_value = true;
  mp_buffer_add(headers, data, length);
  return 0;
}

/* Holds until it is known whether anybody wants the body. */
static int on_headers(http_parser *parser) {
  mp_connection *connection = parser->data;
  mp_exchange *exchange = connection->exchange;
  if (connection->is_value) mp_buffer_add_char(&exchange->headers, '\0');
  exchange->method = http_method_str((enum http_method)parser->method);
  exchange->is_head = parser->method == HTTP_HEAD;
  if (exchange->headers.failed || exchange->target.failed) return -1;
  connection->state = HELD;
  http_parser_pause(parser, 1);
  return 0;
}

static int on_body(http_parser *parser, const char *data, size_t length) {
  mp_connection *connection = parser->data;
  mp_connections *all = connection->all;
  mp_buffer *body = &connection->exchange->body;
  if (body->length + length > all->limits.max_body) {
    refuse(connection, 413, "the body of the request is too large");
  } else if (all->body_bytes + length > all->limits.max_body * BODIES_AT_ONCE) {
    refuse(connection, 503, "too many large requests at once");
  } else {
    mp_buffer_add(body, data, length);
    all->body_bytes += length;
    if (!body->failed) return 0;
    all->body_bytes -= length;
    refuse(connection, 503, "out of memory");
  }
  return -1;
}

static int on_whole(http_parser *parser) {
  mp_connection *connection = parser->data;
  connection->state = ANSWERING;
  http_parser_pause(parser, 1);
  return 0;
}

static const http_parser_settings settings = {.on_message_begin = on_begin,
                                              .on_url = on_target,
                                              .on_header_field = on_name,
                                              .on_header_value = on_value,
                                              .on_headers_complete = on_headers,
                                              .on_body = on_body,
                                              .on_message_complete = on_whole};

/* ---- Reading: what is refused before anybody is asked ---- */

/* How often there is a header of that name; its last value. */
static size_t count_headers(const mp_exchange *exchange, const char *name, const char **value) {
  moonpad_string headers = mp_exchange_headers(exchange);
  const char *at = headers.data, *end = at + headers.length;
  size_t count = 0;
  while (at < end) {
    const char *this_value = at + strlen(at) + 1;
    if (strcmp(at, name) == 0) {
      count++;
      *value = this_value;
    }
    at = this_value + strlen(this_value) + 1;
  }
  return count;
}

/* RFC 9110 5.6.2. (http_parser takes a blank before the colon for a part of the name.) */
static bool are_names_tokens(moonpad_string headers) {
  const char *at = headers.data, *end = at + headers.length;
  while (at < end) {
    size_t length = strlen(at);
    if (length == 0 || strspn(at, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") != length) return false;
    at += length + 1;
    at += strlen(at) + 1;
  }
  return true;
}

static bool has_nul(const mp_buffer *target) {
  return target->length == 0 || memchr(target->data, '\0', target->length) != NULL;
}

/*
** Where another server on the way might understand a request otherwise, it is no request (RFC 9112
** 6.1, 6.3, 3.2; RFC 9110 7.2). NULL: it is one.
*/
static const char *problem_of(const mp_connection *connection) {
  const mp_exchange *exchange = connection->exchange;
  const char *value = "", *host = "";
  if (!are_names_tokens(mp_exchange_headers(exchange))) return "a bad name of a header";
  size_t lengths = count_headers(exchange, "content-length", &value);
  if (lengths > 1) return "more than one Content-Length";
  size_t codings = count_headers(exchange, "transfer-encoding", &value);
  if (codings > 1 || (codings == 1 && strcasecmp(value, "chunked") != 0)) {
    return "a Transfer-Encoding other than chunked";
  }
  if (codings == 1 && (lengths == 1 || mp_connection_is_http_1_0(connection))) {
    return "a Transfer-Encoding where the length is known";
  }
  if (count_headers(exchange, "host", &host) != 1 || *host == '\0') return "a request needs one Host";
  if (has_nul(&exchange->target) || (exchange->target.data[0] != '/' && connection->parser.method != HTTP_OPTIONS)) {
    return "the target of a request begins with a slash";
  }
  return NULL;
}

static bool has_body(const mp_connection *connection) {
  const http_parser *parser = &connection->parser;
  return (parser->flags & F_CHUNKED) != 0 || (parser->content_length > 0 && parser->content_length != UINT64_MAX);
}

static void arrive(mp_connection *connection) {
  mp_exchange *exchange = connection->exchange;
  const char *problem = problem_of(connection);
  no_deadline(connection);
  /* http_parser lets chunks end in many ways: where they end, it might not agree with a proxy. */
  bool is_chunked = (connection->parser.flags & F_CHUNKED) != 0;
  if (is_chunked || connection->parser.upgrade || !http_should_keep_alive(&connection->parser)) {
    connection->is_last = true;
  }
  if (problem != NULL) {
    refuse(connection, 400, problem);
    return;
  }
  if (connection->parser.content_length != UINT64_MAX &&
      connection->parser.content_length > connection->all->limits.max_body) {
    refuse(connection, 413, "the body of the request is too large");
    return;
  }
  if (!has_body(connection)) {
    connection->state = READING_BODY; /* its end has not been parsed yet */
    return;
  }
  exchange->state = MP_EXCHANGE_ARRIVED;
  mp_exchange_tell(exchange);
}

static void complain(mp_connection *connection) {
  enum http_errno code = HTTP_PARSER_ERRNO(&connection->parser);
  char text[128];
  if (connection->state == CLOSING || connection->state == DEAD) return;
  if (code == HPE_CB_message_begin || code == HPE_CB_headers_complete) {
    refuse(connection, 503, "out of memory");
  } else if (code == HPE_HEADER_OVERFLOW) {
    refuse(connection, 431, "the headers of the request are too large");
  } else {
    snprintf(text, sizeof text, "not a request of HTTP/1.1: %s", http_errno_description(code));
    refuse(connection, 400, text);
  }
}

/* ---- Reading: bytes ---- */

static void note_arrival(mp_connection *connection) {
  mp_connections *all = connection->all;
  if (connection->state == READING_BODY) {
    set_deadline(connection, all->limits.timeout);
  } else if (!connection->has_begun) {
    connection->has_begun = true;
    set_deadline(connection, all->limits.timeout);
  }
}

/* Gives the parser a piece. False: it takes no more for now. */
static bool parse_piece(mp_connection *connection, struct evbuffer *input) {
  struct evbuffer_iovec piece;
  connection_state before = connection->state;
  if (evbuffer_peek(input, -1, NULL, &piece, 1) < 1 || piece.iov_len == 0) return false;
  http_parser_pause(&connection->parser, 0);
  size_t taken = http_parser_execute(&connection->parser, &settings, piece.iov_base, piece.iov_len);
  evbuffer_drain(input, taken);
  if (before == READING_HEADER) {
    connection->header_bytes += taken;
    if (connection->header_bytes > connection->all->limits.max_header && connection->state != CLOSING) {
      refuse(connection, 431, "the headers of the request are too large");
      return false;
    }
  }
  enum http_errno code = HTTP_PARSER_ERRNO(&connection->parser);
  if (code != HPE_OK && code != HPE_PAUSED) {
    complain(connection);
    return false;
  }
  return connection->state == before;
}

/* Up to what the owner is to be told, or to the end of what is there. */
static void parse(mp_connection *connection) {
  struct evbuffer *input = bufferevent_get_input(connection->bufferevent);
  while (connection->state == READING_HEADER || connection->state == READING_BODY) {
    connection_state before = connection->state;
    if (evbuffer_get_length(input) > 0) note_arrival(connection);
    while (parse_piece(connection, input)) continue;
    if (connection->state == before) return;
    if (connection->state == HELD) {
      arrive(connection);
    } else if (connection->state == ANSWERING) {
      no_deadline(connection);
      connection->exchange->state = MP_EXCHANGE_RECEIVED;
      mp_exchange_tell(connection->exchange);
    }
  }
}

static void begin_request(mp_connection *connection) {
  connection->state = READING_HEADER;
  connection->has_begun = false;
  connection->header_bytes = 0;
  set_deadline(connection, connection->all->limits.timeout);
}

/* The next request, where there may be one, and where the client takes its answers. */
static void go_on(mp_connection *connection) {
  if (connection->state != READING_HEADER) return;
  if (mp_connection_unsent(connection) > UNSENT_HIGH) return;
  parse(connection);
}

static void on_read(struct bufferevent *bufferevent, void *data) {
  mp_connection *connection = data;
  struct evbuffer *input = bufferevent_get_input(bufferevent);
  if (connection->state == CLOSING) {
    size_t length = evbuffer_get_length(input);
    connection->lingered += length;
    evbuffer_drain(input, length);
    if (connection->lingered > LINGER_BYTES) die(connection);
  } else if (connection->state == READING_BODY) {
    parse(connection);
  } else {
    go_on(connection);
  }
}

/* ---- Writing ---- */

static void on_written(struct bufferevent *bufferevent, void *data) {
  mp_connection *connection = data;
  (void)bufferevent;
  if (connection->is_slow && mp_connection_unsent(connection) <= UNSENT_LOW) {
    connection->is_slow = false;
    evtimer_del(connection->slow);
    if (connection->exchange != NULL) mp_exchange_tell(connection->exchange);
  }
  if (connection->state == CLOSING && mp_connection_unsent(connection) == 0) {
    close_softly(connection);
  } else {
    go_on(connection);
  }
}

/* The other side is gone, has nothing more to say, or takes nothing. */
static void on_event(struct bufferevent *bufferevent, short what, void *data) {
  mp_connection *connection = data;
  (void)bufferevent;
  bool has_ended = (what & BEV_EVENT_EOF) != 0 && connection->state == READING_HEADER;
  if (has_ended && mp_connection_unsent(connection) > 0) {
    connection->is_last = true;
    close_when_sent(connection);
  } else {
    die(connection);
  }
}

static void on_deadline(evutil_socket_t fd, short what, void *data) {
  mp_connection *connection = data;
  (void)fd;
  (void)what;
  if (connection->state == READING_BODY || (connection->state == READING_HEADER && connection->has_begun)) {
    refuse(connection, 408, "the request did not arrive in time");
  } else {
    die(connection);
  }
}

static void on_slow(evutil_socket_t fd, short what, void *data) {
  (void)fd;
  (void)what;
  die(data);
}

void mp_connection_send(mp_connection *connection, const char *data, size_t length) {
  if (length > 0) evbuffer_add(bufferevent_get_output(connection->bufferevent), data, length);
}

size_t mp_connection_unsent(const mp_connection *connection) {
  return evbuffer_get_length(bufferevent_get_output(connection->bufferevent));
}

void mp_connection_watch_unsent(mp_connection *connection) {
  if (connection->is_slow || mp_connection_unsent(connection) <= UNSENT_HIGH) return;
  connection->is_slow = true;
  set_timer(connection->slow, connection->all->limits.timeout);
}

/* ---- For exchanges ---- */

bool mp_connection_is_http_1_0(const mp_connection *connection) {
  const http_parser *parser = &connection->parser;
  return parser->http_major < 1 || (parser->http_major == 1 && parser->http_minor < 1);
}

/* A body that nobody has read would be taken for the next request. */
bool mp_connection_stays(mp_connection *connection) {
  if (connection->state != ANSWERING) connection->is_last = true;
  return !connection->is_last;
}

void mp_connection_end_after(mp_connection *connection) {
  connection->is_last = true;
}

void mp_connection_receive(mp_connection *connection) {
  const char *value = "";
  if (connection->state != HELD) return;
  connection->state = READING_BODY;
  connection->exchange->state = MP_EXCHANGE_RECEIVING;
  if (count_headers(connection->exchange, "expect", &value) > 0 && strcasecmp(value, "100-continue") == 0 &&
      !mp_connection_is_http_1_0(connection)) {
    static const char go[] = "HTTP/1.1 100 Continue\r\n\r\n";
    mp_connection_send(connection, go, sizeof go - 1);
  }
  set_deadline(connection, connection->all->limits.timeout);
  parse(connection);
}

void mp_connection_answered(mp_connection *connection) {
  bool stays = mp_connection_stays(connection);
  connection->exchange->state = MP_EXCHANGE_OVER;
  end_exchange(connection);
  if (stays) {
    begin_request(connection);
    go_on(connection);
  } else {
    close_when_sent(connection);
  }
}

void mp_connection_abort(mp_connection *connection) {
  die(connection);
}

/* ---- All of them ---- */

mp_connections *mp_connections_new(const mp_exchange_limits *limits) {
  mp_connections *all = calloc(1, sizeof *all);
  if (all == NULL) return NULL;
  all->references = 1;
  all->limits = *limits;
  all->env = mp_env_new(NULL);
  if (all->env != NULL) return all;
  free(all);
  return NULL;
}

void mp_connections_release(mp_connections *all) {
  if (--all->references > 0) return;
  mp_env_release(all->env);
  free(all);
}

/* ---- Opening ---- */

static void name_peer(mp_connection *connection, const struct sockaddr *address) {
  socklen_t length = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
  if (getnameinfo(address, length, connection->peer, sizeof connection->peer, NULL, 0, NI_NUMERICHOST) != 0) {
    connection->peer[0] = '\0';
  }
}

bool mp_connection_open(mp_connections *all, evutil_socket_t fd, const struct sockaddr *address) {
  mp_connection *connection = calloc(1, sizeof *connection);
  int yes = 1;
  if (connection == NULL) {
    evutil_closesocket(fd);
    return false;
  }
  connection->all = all;
  connection->bufferevent = bufferevent_socket_new(all->base, fd, BEV_OPT_CLOSE_ON_FREE);
  if (connection->bufferevent == NULL) evutil_closesocket(fd);
  connection->deadline = evtimer_new(all->base, on_deadline, connection);
  connection->slow = evtimer_new(all->base, on_slow, connection);
  if (connection->bufferevent == NULL || connection->deadline == NULL || connection->slow == NULL) {
    free_connection(connection);
    return false;
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  name_peer(connection, address);
  http_parser_init(&connection->parser, HTTP_REQUEST);
  connection->parser.data = connection;
  connection->next = all->first;
  if (all->first != NULL) all->first->previous = connection;
  all->first = connection;
  all->count++;
  begin_request(connection);
  bufferevent_setcb(connection->bufferevent, on_read, on_written, on_event, connection);
  bufferevent_setwatermark(connection->bufferevent, EV_READ, 0, READ_AHEAD);
  bufferevent_setwatermark(connection->bufferevent, EV_WRITE, UNSENT_LOW, 0);
  struct timeval stall = mp_connection_duration(all->limits.timeout);
  bufferevent_set_timeouts(connection->bufferevent, NULL, &stall);
  bufferevent_enable(connection->bufferevent, EV_READ | EV_WRITE);
  return true;
}
