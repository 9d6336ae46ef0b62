/*
** Requests: whatever bytes come over a connection, in two pieces, the server neither reads nor
** writes beyond what it has, says what HTTP says, and forgets the connection when it ends.
*/
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "server/connection.h"

static mp_connections *all;

static void begin(void) {
  mp_exchange_limits limits = {2048, 1024, 30};
  if (all != NULL) return;
  all = mp_connections_new(&limits);
  HOLDS(all != NULL);
  all->base = event_base_new();
  HOLDS(all->base != NULL);
}

static void expect_request(const mp_exchange *exchange) {
  moonpad_string headers = mp_exchange_headers(exchange), target = mp_exchange_target(exchange);
  HOLDS(mp_exchange_method(exchange) != NULL);
  HOLDS(target.length > 0 && target.length <= 2048 && memchr(target.data, '\0', target.length) == NULL);
  HOLDS(headers.length == 0 || headers.data[headers.length - 1] == '\0');
  HOLDS(mp_exchange_body(exchange).length <= 1024);
}

static void answer(mp_exchange *exchange) {
  static const char headers[] = "Content-Type\0text/plain";
  expect_request(exchange);
  mp_exchange_receive(exchange);
  if (!mp_exchange_is_received(exchange)) return;
  if (mp_exchange_target(exchange).length % 2 == 0) {
    mp_exchange_respond(exchange, 200, (moonpad_string){headers, sizeof headers}, mp_exchange_body(exchange));
  } else {
    mp_exchange_begin(exchange, 200, (moonpad_string){headers, sizeof headers});
    mp_exchange_write(exchange, mp_exchange_body(exchange));
    mp_exchange_finish(exchange);
  }
}

static void serve(void) {
  mp_exchange *exchange;
  do {
    event_base_loop(all->base, EVLOOP_NONBLOCK);
    exchange = all->first_news;
    if (exchange == NULL) continue;
    all->first_news = exchange->next_news;
    if (all->first_news == NULL) all->last_news = NULL;
    exchange->is_news = false;
    answer(exchange);
    mp_exchange_release(exchange);
  } while (exchange != NULL);
  mp_connections_bury(all);
}

/* Each answer begins as one does. */
static void expect_answers(int fd) {
  char text[4096];
  ssize_t length = recv(fd, text, sizeof text, MSG_DONTWAIT);
  if (length > 0) HOLDS(length > 13 && memcmp(text, "HTTP/1.1 ", 9) == 0);
}

static void send_piece(int fd, const uint8_t *data, size_t size) {
  if (size > 0) HOLDS(send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size || size > 0);
  serve();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct sockaddr address = {.sa_family = AF_UNSPEC};
  int fds[2];
  if (size == 0) return 0;
  begin();
  HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
  HOLDS(mp_connection_open(all, fds[1], &address));
  size_t split = 1 + (size - 1) * data[0] / 256;
  send_piece(fds[0], data + 1, split - 1);
  send_piece(fds[0], data + split, size - split);
  expect_answers(fds[0]);
  close(fds[0]);
  serve();
  serve();
  HOLDS(all->count == 0 && all->body_bytes == 0);
  return 0;
}
