/*
** The server (src/server) against clients that are odd, slow, many or gone: bytes over real
** sockets, the server stepped in between.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/server.h"
#include "timeout.h"

/* ---- The server ---- */

static const mp_exchange_limits usual = {16 * 1024, 1024 * 1024, TIMEOUT_SECONDS};

static mp_server *start(const mp_exchange_limits *limits, size_t max_connections) {
  char message[256];
  mp_server_options options = {"127.0.0.1", 0, *limits, max_connections};
  mp_server *server = mp_server_new(&options, message, sizeof message);
  if (server == NULL) fail_msg("%s", message);
  return server;
}

static mp_exchange *wait_for_news(mp_server *server) {
  double deadline = time_limit();
  for (;;) {
    mp_exchange *exchange = mp_server_news(server);
    if (exchange != NULL) return exchange;
    assert_true(mp_monotonic() < deadline);
    mp_server_wait(server, 0.01, NULL, 0);
  }
}

static moonpad_string no_headers = {"", 0};

static void respond(mp_exchange *exchange, const char *body) {
  mp_exchange_respond(exchange, 200, no_headers, moonpad_text(body));
}

/* ---- Clients ---- */

static int connect_to(const mp_server *server) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)mp_server_port(server))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

static void send_bytes(mp_server *server, int fd, const char *data, size_t length) {
  double deadline = time_limit();
  while (length > 0) {
    ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
    if (sent > 0) {
      data += sent;
      length -= (size_t)sent;
    } else if (errno != EAGAIN) {
      return; /* the other side has had enough */
    }
    assert_true(mp_monotonic() < deadline);
    mp_server_wait(server, 0, NULL, 0);
  }
}

static void say(mp_server *server, int fd, const char *text) {
  send_bytes(server, fd, text, strlen(text));
}

typedef struct answer {
  char text[65536];
  size_t length;
  bool is_closed;
} answer;

static void take(int fd, answer *got) {
  ssize_t length = recv(fd, got->text + got->length, sizeof got->text - 1 - got->length, 0);
  if (length > 0) got->length += (size_t)length;
  if (length == 0 || (length < 0 && errno != EAGAIN)) got->is_closed = true;
  got->text[got->length] = '\0';
}

/* Until `pattern` has come, or the end; NULL: until the end. */
static void hear(mp_server *server, int fd, answer *got, const char *pattern) {
  double deadline = time_limit();
  got->length = 0;
  got->is_closed = false;
  do {
    assert_true(mp_monotonic() < deadline);
    mp_server_wait(server, 0.005, NULL, 0);
    take(fd, got);
  } while (!got->is_closed && (pattern == NULL || strstr(got->text, pattern) == NULL));
}

static void expect_in(const answer *got, const char *what) {
  if (strstr(got->text, what) == NULL) fail_msg("\"%s\" is not in: %s", what, got->text);
}

static answer got;

/* What comes back for these bytes, of which nobody is asked. */
static void expect_refused(const mp_exchange_limits *limits, const char *bytes, size_t length, const char *status) {
  mp_server *server = start(limits, 10);
  int fd = connect_to(server);
  send_bytes(server, fd, bytes, length);
  hear(server, fd, &got, NULL);
  if (strncmp(got.text, "HTTP/1.1 ", 9) != 0 || strncmp(got.text + 9, status, strlen(status)) != 0) {
    fail_msg("expected %s for %s, got: %s", status, bytes, got.text);
  }
  expect_in(&got, "Connection: close\r\n");
  assert_true(got.is_closed);
  assert_null(mp_server_news(server));
  close(fd);
  mp_server_free(server);
}

static void expect_bad(const char *text) {
  expect_refused(&usual, text, strlen(text), "400");
}

/* ---- Requests ---- */

static void test_request_is_read(void **state) {
  (void)state;
  mp_server *server = start(&usual, 10);
  int fd = connect_to(server);
  say(server, fd, "GET /a?b=c HTTP/1.1\r\nHost: x\r\nX-One: 1\r\nX-ONE: 2\r\nEmpty:\r\n\r\n");
  mp_exchange *exchange = wait_for_news(server);
  assert_string_equal(mp_exchange_method(exchange), "GET");
  moonpad_string target = mp_exchange_target(exchange), headers = mp_exchange_headers(exchange);
  assert_int_equal(target.length, 6);
  assert_memory_equal(target.data, "/a?b=c", 6);
  static const char expected[] = "host\0x\0x-one\0001\0x-one\0002\0empty\0";
  assert_int_equal(headers.length, sizeof expected);
  assert_memory_equal(headers.data, expected, sizeof expected);
  assert_true(mp_exchange_is_received(exchange));
  assert_string_equal(mp_exchange_peer(exchange), "127.0.0.1");
  respond(exchange, "hello");
  assert_false(mp_exchange_is_open(exchange));
  hear(server, fd, &got, "hello");
  expect_in(&got, "HTTP/1.1 200 OK\r\n");
  expect_in(&got, "Content-Length: 5\r\n");
  expect_in(&got, "\r\nDate: ");
  assert_false(got.is_closed);
  mp_exchange_release(exchange);
  close(fd);
  mp_server_free(server);
}

static void test_body_is_read_when_asked_for(void **state) {
  (void)state;
  mp_server *server = start(&usual, 10);
  int fd = connect_to(server);
  say(server, fd, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  mp_exchange *exchange = wait_for_news(server);
  assert_false(mp_exchange_is_received(exchange));
  mp_exchange_receive(exchange);
  hear(server, fd, &got, "100 Continue\r\n\r\n");
  say(server, fd, "ab");
  say(server, fd, "cde");
  mp_exchange *again = wait_for_news(server);
  assert_ptr_equal(again, exchange);
  assert_true(mp_exchange_is_received(exchange));
  assert_memory_equal(mp_exchange_body(exchange).data, "abcde", 5);
  respond(exchange, "");
  mp_exchange_release(again);
  mp_exchange_release(exchange);
  close(fd);
  mp_server_free(server);
}

static void test_chunked_body_and_its_trailers(void **state) {
  (void)state;
  mp_server *server = start(&usual, 10);
  int fd = connect_to(server);
  say(server, fd,
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nAuthorization: forged\r\n\r\n");
  mp_exchange *exchange = wait_for_news(server);
  mp_exchange_receive(exchange);
  mp_exchange_release(wait_for_news(server));
  assert_memory_equal(mp_exchange_body(exchange).data, "abcde", 5);
  moonpad_string headers = mp_exchange_headers(exchange);
  for (size_t i = 0; i + 6 <= headers.length; i++) assert_memory_not_equal(headers.data + i, "forged", 6);
  respond(exchange, "");
  mp_exchange_release(exchange);
  /* The parser is not strict about chunks: what follows them is not read. */
  hear(server, fd, &got, NULL);
  expect_in(&got, "Connection: close\r\n");
  close(fd);
  mp_server_free(server);
}

static void test_requests_one_after_the_other(void **state) {
  (void)state;
  mp_server *server = start(&usual, 10);
  int fd = connect_to(server);
  /* All at once, byte by byte across the borders of what is read. */
  static const char three[] =
      "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
      "GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  for (size_t i = 0; i < sizeof three - 1; i++) {
    send_bytes(server, fd, three + i, 1);
    mp_server_wait(server, 0, NULL, 0);
  }
  for (int i = 1; i <= 3; i++) {
    mp_exchange *exchange = wait_for_news(server);
    assert_int_equal(mp_exchange_target(exchange).data[1], '0' + i);
    if (!mp_exchange_is_received(exchange)) {
      mp_exchange_receive(exchange);
      assert_true(mp_exchange_is_received(exchange));
      mp_exchange_release(wait_for_news(server));
    }
    respond(exchange, i == 1 ? "one" : i == 2 ? "two" : "three");
    mp_exchange_release(exchange);
  }
  hear(server, fd, &got, NULL);
  expect_in(&got, "one");
  expect_in(&got, "two");
  expect_in(&got, "three");
  close(fd);
  mp_server_free(server);
}

static void test_head_and_old_clients(void **state) {
  (void)state;
  mp_server *server = start(&usual, 10);
  int fd = connect_to(server);
  say(server, fd, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  mp_exchange *exchange = wait_for_news(server);
  respond(exchange, "hello");
  mp_exchange_release(exchange);
  hear(server, fd, &got, "\r\n\r\n");
  expect_in(&got, "Content-Length: 5\r\n");
  assert_null(strstr(got.text, "hello"));
  /* HTTP/1.0 knows no chunks: the end of the connection is that of the answer. */
  say(server, fd, "GET / HTTP/1.0\r\nHost: x\r\n\r\n");
  exchange = wait_for_news(server);
  mp_exchange_begin(exchange, 200, no_headers);
  mp_exchange_write(exchange, moonpad_text("piece"));
  mp_exchange_finish(exchange);
  mp_exchange_release(exchange);
  hear(server, fd, &got, NULL);
  expect_in(&got, "Connection: close\r\n\r\npiece");
  assert_null(strstr(got.text, "chunked"));
  close(fd);
  mp_server_free(server);
}

static void test_stream_is_written_in_pieces(void **state) {
  (void)state;
  mp_server *server = start(&usual, 10);
  int fd = connect_to(server);
  say(server, fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  mp_exchange *exchange = wait_for_news(server);
  static const char headers[] = "Content-Type\0text/event-stream";
  mp_exchange_begin(exchange, 200, (moonpad_string){headers, sizeof headers});
  mp_exchange_write(exchange, moonpad_text("data: 1\n\n"));
  hear(server, fd, &got, "data: 1\n\n");
  expect_in(&got, "Content-Type: text/event-stream\r\n");
  expect_in(&got, "\r\n\r\n9\r\ndata: 1\n\n\r\n");
  mp_exchange_write(exchange, moonpad_text(""));
  mp_exchange_write(exchange, moonpad_text("data: 2\n\n"));
  mp_exchange_finish(exchange);
  hear(server, fd, &got, "0\r\n\r\n");
  assert_string_equal(got.text, "9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  assert_false(got.is_closed);
  mp_exchange_release(exchange);
  close(fd);
  mp_server_free(server);
}

/* ---- What is no request ---- */

static void test_ambiguous_requests_are_refused(void **state) {
  (void)state;
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2, 2\r\n\r\nab");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1e1\r\n\r\na");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n");
  expect_bad("POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  expect_bad("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n");
  expect_bad("GET / HTTP/1.1\r\n\r\n");
  expect_bad("GET / HTTP/1.1\r\nHost:\r\n\r\n");
  expect_bad("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
  expect_bad("GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n");
  expect_bad("CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n");
  expect_bad("GARBAGE\r\n\r\n");
  expect_bad("GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n");
  expect_bad("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a greeting of TLS \r\n\r\n");
  expect_refused(&usual, "GET / HTTP/1.1\r\nHost: x\0y\r\n\r\n", 29, "400");
}

static void test_bad_chunks_are_refused(void **state) {
  (void)state;
  static const char *const bodies[] = {"x\r\n", "-1\r\n", "ffffffffffffffffff\r\n"};
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    mp_server *server = start(&usual, 10);
    int fd = connect_to(server);
    say(server, fd, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    mp_exchange *exchange = wait_for_news(server);
    mp_exchange_receive(exchange);
    say(server, fd, bodies[i]);
    hear(server, fd, &got, NULL);
    expect_in(&got, "HTTP/1.1 400 ");
    assert_false(mp_exchange_is_open(exchange));
    mp_exchange_release(exchange);
    close(fd);
    mp_server_free(server);
  }
}

static void test_sizes_are_limited(void **state) {
  (void)state;
  mp_exchange_limits small = {200, 10, 30};
  char *large = malloc(100000);
  memset(large, 'a', 100000);
  memcpy(large, "GET / HTTP/1.1\r\nHost: ", 22);
  expect_refused(&small, large, 1000, "431");
  memcpy(large, "GET /", 5);
  memset(large + 5, 'a', 20);
  expect_refused(&usual, large, 100000, "431"); /* a request line without end */
  expect_refused(&small, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n", 49, "413");
  free(large);
  mp_server *server = start(&small, 10);
  int fd = connect_to(server);
  say(server, fd, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n5\r\nabcde\r\n");
  mp_exchange *exchange = wait_for_news(server);
  mp_exchange_receive(exchange);
  hear(server, fd, &got, NULL);
  expect_in(&got, "HTTP/1.1 413 ");
  mp_exchange_release(exchange);
  close(fd);
  mp_server_free(server);
}

/* Four bodies of the largest size are all that is held at once. */
static void test_bodies_at_once_are_limited(void **state) {
  (void)state;
  mp_exchange_limits small = {1000, 10, 30};
  mp_server *server = start(&small, 10);
  int fds[5];
  mp_exchange *exchanges[5];
  for (int i = 0; i < 5; i++) {
    fds[i] = connect_to(server);
    say(server, fds[i], "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789");
    exchanges[i] = wait_for_news(server);
    mp_exchange_receive(exchanges[i]);
    assert_int_equal(mp_exchange_is_received(exchanges[i]), i < 4);
    mp_exchange_release(wait_for_news(server));
  }
  hear(server, fds[4], &got, NULL);
  expect_in(&got, "HTTP/1.1 503 ");
  for (int i = 0; i < 5; i++) {
    mp_exchange_abort(exchanges[i]);
    mp_exchange_release(exchanges[i]);
    close(fds[i]);
  }
  mp_server_free(server);
}

/* An answer to what has not been read ends the connection, and is heard. */
static void test_answer_without_the_body(void **state) {
  (void)state;
  mp_server *server = start(&usual, 10);
  int fd = connect_to(server);
  say(server, fd, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n");
  mp_exchange *exchange = wait_for_news(server);
  mp_exchange_respond(exchange, 401, no_headers, moonpad_text("who are you"));
  mp_exchange_release(exchange);
  char *part = calloc(1, 500000);
  send_bytes(server, fd, part, 500000);
  free(part);
  hear(server, fd, &got, NULL);
  expect_in(&got, "who are you");
  expect_in(&got, "Connection: close\r\n");
  close(fd);
  mp_server_free(server);
}

/* ---- Times, and who is gone ---- */

static const mp_exchange_limits hasty = {16 * 1024, 1024 * 1024, 0.2};

/*
** Asks a hasty server that has no other connection, again where it has given the request up before
** it was read.
*/
static mp_exchange *ask_hasty(mp_server *server, const char *request, int *fd) {
  for (double deadline = time_limit();;) {
    *fd = connect_to(server);
    say(server, *fd, request);
    do {
      mp_exchange *exchange = mp_server_news(server);
      if (exchange != NULL) return exchange;
      assert_true(mp_monotonic() < deadline);
      mp_server_wait(server, 0.01, NULL, 0);
    } while (mp_server_connections(server) > 0);
    close(*fd);
  }
}

static void test_slow_requests_are_ended(void **state) {
  (void)state;
  mp_server *server = start(&hasty, 10);
  int silent = connect_to(server), slow = connect_to(server);
  say(server, slow, "GET / HTTP/1.1\r\n");
  double began = mp_monotonic();
  /* A byte now and then does not help. */
  while (mp_monotonic() - began < 0.3) {
    say(server, slow, "a");
    mp_server_wait(server, 0.02, NULL, 0);
  }
  hear(server, slow, &got, NULL);
  expect_in(&got, "HTTP/1.1 408 ");
  hear(server, silent, &got, NULL);
  assert_int_equal(got.length, 0);
  int paused;
  mp_exchange *exchange = ask_hasty(server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", &paused);
  mp_exchange_receive(exchange);
  hear(server, paused, &got, NULL);
  expect_in(&got, "HTTP/1.1 408 ");
  mp_exchange_release(exchange);
  close(silent);
  close(slow);
  close(paused);
  mp_server_free(server);
}

/* While it is being answered, however long that takes, no time is over. */
static void test_slow_answers_are_waited_for(void **state) {
  (void)state;
  mp_server *server = start(&hasty, 10);
  int fd;
  mp_exchange *exchange = ask_hasty(server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab", &fd);
  double began = mp_monotonic();
  while (mp_monotonic() - began < 0.5) mp_server_wait(server, 0.05, NULL, 0);
  assert_true(mp_exchange_is_open(exchange));
  mp_exchange_receive(exchange);
  mp_exchange_release(wait_for_news(server));
  mp_exchange_begin(exchange, 200, no_headers);
  began = mp_monotonic();
  while (mp_monotonic() - began < 0.5) mp_server_wait(server, 0.05, NULL, 0);
  mp_exchange_write(exchange, moonpad_text("late"));
  mp_exchange_finish(exchange);
  mp_exchange_release(exchange);
  hear(server, fd, &got, "0\r\n\r\n");
  expect_in(&got, "late");
  close(fd);
  mp_server_free(server);
}

static void test_clients_that_leave(void **state) {
  (void)state;
  mp_server *server = start(&usual, 10);
  for (int reset = 0; reset < 2; reset++) {
    int fd = connect_to(server);
    say(server, fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    mp_exchange *exchange = wait_for_news(server);
    mp_exchange_begin(exchange, 200, no_headers);
    mp_exchange_write(exchange, moonpad_text("piece"));
    struct linger at_once = {reset, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
    mp_exchange *gone = wait_for_news(server);
    assert_ptr_equal(gone, exchange);
    assert_false(mp_exchange_is_open(exchange));
    /* Nothing of this does anything any more. */
    mp_exchange_write(exchange, moonpad_text("more"));
    mp_exchange_finish(exchange);
    respond(exchange, "");
    mp_exchange_receive(exchange);
    mp_exchange_abort(exchange);
    assert_int_equal(mp_exchange_unsent(exchange), 0);
    mp_exchange_release(gone);
    mp_exchange_release(exchange);
  }
  assert_int_equal(mp_server_connections(server), 0);
  mp_server_free(server);
}

static void test_clients_that_do_not_read(void **state) {
  (void)state;
  mp_server *server = start(&hasty, 10);
  int fd;
  mp_exchange *exchange = ask_hasty(server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", &fd);
  char *piece = malloc(100000);
  memset(piece, 'x', 100000);
  mp_exchange_begin(exchange, 200, no_headers);
  double deadline = time_limit();
  size_t most = 0;
  while (mp_exchange_is_open(exchange)) {
    /* As their owner does: nothing more while much waits. */
    if (mp_exchange_unsent(exchange) < 256 * 1024) mp_exchange_write(exchange, (moonpad_string){piece, 100000});
    if (mp_exchange_unsent(exchange) > most) most = mp_exchange_unsent(exchange);
    mp_server_wait(server, 0.01, NULL, 0);
    assert_true(mp_monotonic() < deadline);
  }
  assert_true(most < 400 * 1024);
  free(piece);
  mp_exchange_release(exchange);
  close(fd);
  mp_server_free(server);
}

static void test_news_when_what_waited_was_taken(void **state) {
  (void)state;
  mp_server *server = start(&usual, 10);
  int fd = connect_to(server);
  say(server, fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  mp_exchange *exchange = wait_for_news(server);
  char *piece = calloc(1, 8 * 1024 * 1024), *sink = malloc(1024 * 1024);
  mp_exchange_begin(exchange, 200, no_headers);
  mp_exchange_write(exchange, (moonpad_string){piece, 8 * 1024 * 1024});
  mp_server_wait(server, 0, NULL, 0);
  assert_null(mp_server_news(server));
  mp_exchange *news = NULL;
  double deadline = time_limit();
  while (news == NULL) {
    (void)!recv(fd, sink, 1024 * 1024, 0);
    mp_server_wait(server, 0.001, NULL, 0);
    news = mp_server_news(server);
    assert_true(mp_monotonic() < deadline);
  }
  assert_ptr_equal(news, exchange);
  assert_true(mp_exchange_is_open(exchange));
  assert_true(mp_exchange_unsent(exchange) <= 64 * 1024);
  mp_exchange_release(news);
  mp_exchange_release(exchange);
  free(piece);
  free(sink);
  close(fd);
  mp_server_free(server);
}

/* Who closes his side after his request has an answer that is ready. */
static void test_half_closed_clients(void **state) {
  (void)state;
  mp_server *server = start(&usual, 10);
  int fd = connect_to(server);
  say(server, fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  mp_exchange *exchange = wait_for_news(server);
  char *large = malloc(8 * 1024 * 1024 + 1);
  memset(large, 'x', 8 * 1024 * 1024);
  large[8 * 1024 * 1024] = '\0';
  respond(exchange, large);
  mp_exchange_release(exchange);
  shutdown(fd, SHUT_WR);
  size_t length = 0;
  double deadline = time_limit();
  for (ssize_t taken = 1; taken != 0;) {
    mp_server_wait(server, 0, NULL, 0);
    taken = recv(fd, large, 1024 * 1024, 0);
    if (taken > 0) length += (size_t)taken;
    assert_true(mp_monotonic() < deadline);
  }
  assert_true(length > 8 * 1024 * 1024);
  free(large);
  close(fd);
  mp_server_free(server);
}

/* ---- Many ---- */

static void test_connections_are_limited(void **state) {
  (void)state;
  mp_server *server = start(&usual, 3);
  int fds[10];
  for (int i = 0; i < 10; i++) fds[i] = connect_to(server); /* the system keeps them */
  for (int i = 0; i < 20; i++) mp_server_wait(server, 0.001, NULL, 0);
  assert_int_equal(mp_server_connections(server), 3);
  /* Each that ends lets another one in. */
  for (int i = 0; i < 10; i++) {
    say(server, fds[i], "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    mp_exchange *exchange = wait_for_news(server);
    respond(exchange, "in");
    mp_exchange_release(exchange);
    hear(server, fds[i], &got, NULL);
    expect_in(&got, "in");
    close(fds[i]);
    assert_true(mp_server_connections(server) <= 3);
  }
  mp_server_free(server);
}

static void test_descriptors_of_others(void **state) {
  (void)state;
  mp_server *server = start(&usual, 3);
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  mp_server_descriptor watched[2] = {{fds[0], false, false}, {fds[1], true, false}};
  mp_server_wait(server, -1, watched + 1, 1);
  assert_true(watched[1].is_ready);
  double began = mp_monotonic();
  mp_server_wait(server, 0.05, watched, 1);
  assert_false(watched[0].is_ready);
  assert_true(mp_monotonic() - began >= 0.04);
  assert_int_equal(write(fds[1], "x", 1), 1);
  mp_server_wait(server, -1, watched, 1);
  assert_true(watched[0].is_ready);
  close(fds[0]);
  close(fds[1]);
  mp_server_free(server);
}

static void test_end_with_much_under_way(void **state) {
  (void)state;
  mp_server *server = start(&usual, 10);
  int idle = connect_to(server), asked = connect_to(server), half = connect_to(server);
  say(server, half, "GET / HT");
  say(server, asked, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  mp_exchange *exchange = wait_for_news(server);
  mp_server_stop_listening(server);
  assert_int_equal(mp_server_connections(server), 1); /* the one that waits for an answer */
  respond(exchange, "last");
  hear(server, asked, &got, NULL);
  expect_in(&got, "Connection: close\r\n");
  expect_in(&got, "last");
  mp_server_free(server);
  assert_false(mp_exchange_is_open(exchange));
  mp_exchange_release(exchange);
  close(idle);
  close(asked);
  close(half);
}

static void test_ports_that_are_taken(void **state) {
  (void)state;
  char message[256];
  mp_server *server = start(&usual, 10);
  mp_server_options options = {"127.0.0.1", mp_server_port(server), usual, 10};
  assert_null(mp_server_new(&options, message, sizeof message));
  assert_non_null(strstr(message, "127.0.0.1:"));
  assert_non_null(strstr(message, "in use"));
  options.host = "no.such.host.invalid";
  assert_null(mp_server_new(&options, message, sizeof message));
  assert_non_null(strstr(message, "no.such.host.invalid"));
  mp_server_free(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_request_is_read),
      cmocka_unit_test(test_body_is_read_when_asked_for),
      cmocka_unit_test(test_chunked_body_and_its_trailers),
      cmocka_unit_test(test_requests_one_after_the_other),
      cmocka_unit_test(test_head_and_old_clients),
      cmocka_unit_test(test_stream_is_written_in_pieces),
      cmocka_unit_test(test_ambiguous_requests_are_refused),
      cmocka_unit_test(test_bad_chunks_are_refused),
      cmocka_unit_test(test_sizes_are_limited),
      cmocka_unit_test(test_bodies_at_once_are_limited),
      cmocka_unit_test(test_answer_without_the_body),
      cmocka_unit_test(test_slow_requests_are_ended),
      cmocka_unit_test(test_slow_answers_are_waited_for),
      cmocka_unit_test(test_clients_that_leave),
      cmocka_unit_test(test_clients_that_do_not_read),
      cmocka_unit_test(test_news_when_what_waited_was_taken),
      cmocka_unit_test(test_half_closed_clients),
      cmocka_unit_test(test_connections_are_limited),
      cmocka_unit_test(test_descriptors_of_others),
      cmocka_unit_test(test_end_with_much_under_way),
      cmocka_unit_test(test_ports_that_are_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
