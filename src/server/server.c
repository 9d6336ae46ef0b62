#include "server/server.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <event2/listener.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/platform.h"
#include "server/connection.h"

/* Where the system has no descriptor left, it is asked again after so many microseconds. */
#define ACCEPT_AGAIN 100000
#define BACKLOG      1024

struct mp_server {
  mp_connections *all;
  struct evconnlistener *listener;
  struct event *accept_again;
  struct event *time_is_over;
  size_t max_connections;
  int port;
  bool is_over;          /* the time of a wait */
  bool takes_no_more;    /* there are as many connections as may be */
  struct event *watched; /* room for the descriptors of one wait */
  size_t watched_size;
};

/* ---- Listening ---- */

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address, int length,
                      void *data) {
  mp_server *server = data;
  (void)length;
  mp_connection_open(server->all, fd, address);
  if (server->all->count >= server->max_connections) {
    server->takes_no_more = true;
    evconnlistener_disable(listener);
  }
}

static void on_accept_error(struct evconnlistener *listener, void *data) {
  mp_server *server = data;
  evconnlistener_disable(listener);
  struct timeval time = {0, ACCEPT_AGAIN};
  evtimer_add(server->accept_again, &time);
}

static void on_accept_again(evutil_socket_t fd, short what, void *data) {
  mp_server *server = data;
  (void)fd;
  (void)what;
  if (server->listener != NULL && !server->takes_no_more) evconnlistener_enable(server->listener);
}

static void on_time_is_over(evutil_socket_t fd, short what, void *data) {
  mp_server *server = data;
  (void)fd;
  (void)what;
  server->is_over = true;
}

static evutil_socket_t bind_first(const struct addrinfo *list) {
  int yes = 1, code = 0;
  for (; list != NULL; list = list->ai_next) {
    evutil_socket_t fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      code = errno;
      continue;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    code = errno;
    evutil_closesocket(fd);
  }
  errno = code;
  return -1;
}

static evutil_socket_t listen_on(const mp_server_options *options, char *message, size_t size) {
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
  char port[16];
  snprintf(port, sizeof port, "%d", options->port);
  int code = getaddrinfo(options->host, port, &hints, &list);
  if (code != 0) {
    snprintf(message, size, "%s: %s", options->host, gai_strerror(code));
    return -1;
  }
  evutil_socket_t fd = bind_first(list);
  if (fd < 0) snprintf(message, size, "%s:%d: %s", options->host, options->port, strerror(errno));
  freeaddrinfo(list);
  return fd;
}

static int port_of(evutil_socket_t fd) {
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  char port[16] = "0";
  if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) return 0;
  getnameinfo((struct sockaddr *)&address, length, NULL, 0, port, sizeof port, NI_NUMERICSERV);
  return atoi(port);
}

/* ---- Life ---- */

static bool make_parts(mp_server *server, const mp_server_options *options) {
  struct event_config *config = event_config_new();
  server->all = mp_connections_new(&options->limits);
  if (config == NULL || server->all == NULL) {
    if (config != NULL) event_config_free(config);
    return false;
  }
  event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_PRECISE_TIMER);
  server->all->base = event_base_new_with_config(config);
  event_config_free(config);
  if (server->all->base == NULL) return false;
  server->accept_again = evtimer_new(server->all->base, on_accept_again, server);
  server->time_is_over = evtimer_new(server->all->base, on_time_is_over, server);
  return server->accept_again != NULL && server->time_is_over != NULL;
}

mp_server *mp_server_new(const mp_server_options *options, char *message, size_t size) {
  mp_server *server = calloc(1, sizeof *server);
  snprintf(message, size, "out of memory");
  if (server == NULL) return NULL;
  server->max_connections = options->max_connections;
  if (make_parts(server, options)) {
    evutil_socket_t fd = listen_on(options, message, size);
    if (fd >= 0) {
      server->port = port_of(fd);
      server->listener = evconnlistener_new(server->all->base, on_accept, server,
                                            LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
      if (server->listener == NULL) evutil_closesocket(fd);
    }
  }
  if (server->listener == NULL) {
    mp_server_free(server);
    return NULL;
  }
  evconnlistener_set_error_cb(server->listener, on_accept_error);
  return server;
}

static void drop_news(mp_connections *all) {
  mp_exchange *exchange = all->first_news;
  all->first_news = all->last_news = NULL;
  while (exchange != NULL) {
    mp_exchange *next = exchange->next_news;
    exchange->is_news = false;
    mp_exchange_release(exchange);
    exchange = next;
  }
}

void mp_server_free(mp_server *server) {
  if (server == NULL) return;
  mp_connections *all = server->all;
  mp_server_stop_listening(server);
  if (server->accept_again != NULL) event_free(server->accept_again);
  if (server->time_is_over != NULL) event_free(server->time_is_over);
  if (all != NULL) {
    struct event_base *base = all->base;
    mp_connections_close(all);
    all->base = NULL;
    drop_news(all);
    mp_connections_release(all);
    if (base != NULL) event_base_free(base);
  }
  free(server->watched);
  free(server);
}

int mp_server_port(const mp_server *server) {
  return server->port;
}

size_t mp_server_connections(const mp_server *server) {
  return server->all->count;
}

void mp_server_stop_listening(mp_server *server) {
  if (server->listener != NULL) evconnlistener_free(server->listener);
  server->listener = NULL;
  if (server->all != NULL && server->all->base != NULL) mp_connections_end_idle(server->all);
}

/* ---- The loop ---- */

static void on_ready(evutil_socket_t fd, short what, void *data) {
  mp_server_descriptor *descriptor = data;
  (void)fd;
  (void)what;
  descriptor->is_ready = true;
}

/* Those of others are not kept: one that is closed meanwhile may be another one next time. */
static void watch(struct event_base *base, struct event *event, mp_server_descriptor *descriptor) {
  short what = descriptor->is_for_writing ? EV_WRITE : EV_READ;
  descriptor->is_ready = false;
  event_assign(event, base, descriptor->fd, what, on_ready, descriptor);
  event_add(event, NULL);
}

static bool is_any_ready(const mp_server_descriptor *descriptors, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (descriptors[i].is_ready) return true;
  }
  return false;
}

static bool make_room(mp_server *server, size_t count) {
  if (count <= server->watched_size) return true;
  struct event *room = realloc(server->watched, count * sizeof *room);
  if (room == NULL) return false;
  server->watched = room;
  server->watched_size = count;
  return true;
}

static void serve(mp_server *server, int flags) {
  mp_sigpipe held;
  mp_sigpipe_hold(&held);
  event_base_loop(server->all->base, flags);
  mp_sigpipe_release(&held);
  mp_connections_bury(server->all);
  if (server->takes_no_more && server->all->count < server->max_connections) {
    server->takes_no_more = false;
    if (server->listener != NULL) evconnlistener_enable(server->listener);
  }
}

/* The last connection is gone, and there will be none again. */
static bool has_ended(const mp_server *server) {
  return server->listener == NULL && server->all->count == 0;
}

void mp_server_wait(mp_server *server, double seconds, mp_server_descriptor *descriptors, size_t count) {
  mp_connections *all = server->all;
  if (!make_room(server, count)) return; /* out of memory: the caller comes again */
  server->is_over = seconds == 0;
  for (size_t i = 0; i < count; i++) watch(all->base, &server->watched[i], &descriptors[i]);
  if (seconds > 0) {
    struct timeval time = mp_connection_duration(seconds);
    evtimer_add(server->time_is_over, &time);
  }
  do {
    bool waits = !server->is_over && all->first_news == NULL;
    serve(server, waits ? EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY : EVLOOP_ONCE | EVLOOP_NONBLOCK);
  } while (!server->is_over && all->first_news == NULL && !is_any_ready(descriptors, count) && !has_ended(server));
  evtimer_del(server->time_is_over);
  for (size_t i = 0; i < count; i++) event_del(&server->watched[i]);
}

mp_exchange *mp_server_news(mp_server *server) {
  mp_connections *all = server->all;
  mp_exchange *exchange = all->first_news;
  if (exchange == NULL) return NULL;
  all->first_news = exchange->next_news;
  if (all->first_news == NULL) all->last_news = NULL;
  exchange->is_news = false;
  return exchange;
}
