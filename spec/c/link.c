/* A link that can be broken. One thread serves all its connections. */
#include "link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_CONNECTIONS 64
#define CHUNK            65536

typedef struct connection {
  int client, server; /* -1: none */
  bool asks;          /* the last that went through was a request */
  bool loses_answer;
} connection;

struct test_link {
  pthread_t thread;
  pthread_mutex_t mutex; /* guards what follows the connections */
  int listener, port, target;
  int wake[2];
  connection connections[MOST_CONNECTIONS];
  long round_trips;
  link_fault fault;
  int left;              /* round trips until the fault; 0: none is to come */
  link_fault next_fault; /* the one after it */
  int next_left;
  bool is_for_good; /* who connects after the fault is reset */
  bool has_broken;
  bool hangs;
  bool ends;
  const char *text, *other;
  size_t length;
};

static void lock(test_link *link) {
  pthread_mutex_lock(&link->mutex);
}

static void unlock(test_link *link) {
  pthread_mutex_unlock(&link->mutex);
}

/* ---- connections ---- */

static void reset(connection *at) {
  struct linger at_once = {1, 0};
  setsockopt(at->client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(at->client);
  close(at->server);
  *at = (connection){.client = -1, .server = -1};
}

/* A child would hold it open, so that the other end does not learn that it is closed. */
static void keep_from_children(int fd) {
  fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static int connect_to(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  keep_from_children(fd);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

static bool is_dead(test_link *link) {
  lock(link);
  bool is_dead = link->is_for_good && link->has_broken;
  unlock(link);
  return is_dead;
}

static void take_connection(test_link *link) {
  int one = 1, client = accept(link->listener, NULL, NULL);
  if (client < 0) return;
  if (is_dead(link)) {
    close(client);
    return;
  }
  keep_from_children(client);
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  for (int i = 0; i < MOST_CONNECTIONS; i++) {
    connection *at = &link->connections[i];
    if (at->client >= 0) continue;
    *at = (connection){.client = client, .server = connect_to(link->target)};
    if (at->server < 0) reset(at);
    return;
  }
  close(client);
}

static bool send_all(int fd, const char *data, size_t length) {
  while (length > 0) {
    ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    length -= (size_t)sent;
  }
  return true;
}

static void replace(test_link *link, char *data, size_t length) {
  for (size_t i = 0; link->text != NULL && i + link->length <= length; i++) {
    if (memcmp(data + i, link->text, link->length) != 0) continue;
    memcpy(data + i, link->other, link->length);
    link->text = NULL;
  }
}

/* ---- what goes through ---- */

/* False: the connection is to be reset. */
static bool begin_round_trip(test_link *link, connection *at) {
  at->asks = true;
  link->round_trips++;
  if (link->left == 0 || --link->left > 0) return true;
  link_fault fault = link->fault;
  link->has_broken = link->next_left == 0;
  link->fault = link->next_fault;
  link->left = link->next_left;
  link->next_left = 0;
  link->hangs = fault == LINK_HANG;
  at->loses_answer = fault == LINK_CUT_ANSWER;
  return fault != LINK_CUT_REQUEST;
}

static bool pass(test_link *link, connection *at, bool from_server) {
  static char data[CHUNK]; /* of the one thread */
  ssize_t length = recv(from_server ? at->server : at->client, data, sizeof data, 0);
  if (length <= 0) return false;
  lock(link);
  bool passes = true;
  if (!from_server && !at->asks) passes = begin_round_trip(link, at);
  if (from_server) {
    at->asks = false;
    passes = !at->loses_answer;
    replace(link, data, (size_t)length);
  }
  bool hangs = link->hangs;
  unlock(link);
  if (hangs) return true;
  return passes && send_all(from_server ? at->client : at->server, data, (size_t)length);
}

static void *serve(void *context) {
  test_link *link = context;
  struct pollfd fds[2 + 2 * MOST_CONNECTIONS];
  for (;;) {
    lock(link);
    bool ends = link->ends, hangs = link->hangs;
    unlock(link);
    if (ends) return NULL;
    nfds_t count = 2;
    fds[0] = (struct pollfd){link->wake[0], POLLIN, 0};
    fds[1] = (struct pollfd){hangs ? -1 : link->listener, POLLIN, 0};
    for (int i = 0; i < MOST_CONNECTIONS; i++) {
      bool is_open = !hangs && link->connections[i].client >= 0;
      fds[count++] = (struct pollfd){is_open ? link->connections[i].client : -1, POLLIN, 0};
      fds[count++] = (struct pollfd){is_open ? link->connections[i].server : -1, POLLIN, 0};
    }
    poll(fds, count, -1);
    char byte;
    if (fds[0].revents != 0) (void)!read(link->wake[0], &byte, 1);
    if (fds[1].revents != 0) take_connection(link);
    for (int i = 0; i < MOST_CONNECTIONS; i++) {
      connection *at = &link->connections[i];
      bool goes_on = true;
      if (fds[2 + 2 * i].revents != 0) goes_on = pass(link, at, false);
      if (goes_on && fds[3 + 2 * i].revents != 0) goes_on = pass(link, at, true);
      if (!goes_on) reset(at);
    }
  }
}

/* ---- its owner's side ---- */

static void wake(test_link *link) {
  (void)!write(link->wake[1], "", 1);
}

test_link *link_open(int port) {
  test_link *link = calloc(1, sizeof *link);
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (link == NULL) return NULL;
  link->target = port;
  link->listener = socket(AF_INET, SOCK_STREAM, 0);
  keep_from_children(link->listener);
  for (int i = 0; i < MOST_CONNECTIONS; i++) link->connections[i] = (connection){.client = -1, .server = -1};
  bool is_open = bind(link->listener, (struct sockaddr *)&address, sizeof address) == 0 &&
                 listen(link->listener, 64) == 0 &&
                 getsockname(link->listener, (struct sockaddr *)&address, &size) == 0 && pipe(link->wake) == 0;
  link->port = ntohs(address.sin_port);
  pthread_mutex_init(&link->mutex, NULL);
  if (is_open && pthread_create(&link->thread, NULL, serve, link) == 0) return link;
  close(link->listener);
  free(link);
  return NULL;
}

void link_close(test_link *link) {
  lock(link);
  link->ends = true;
  unlock(link);
  wake(link);
  pthread_join(link->thread, NULL);
  for (int i = 0; i < MOST_CONNECTIONS; i++) {
    if (link->connections[i].client >= 0) reset(&link->connections[i]);
  }
  close(link->listener);
  close(link->wake[0]);
  close(link->wake[1]);
  pthread_mutex_destroy(&link->mutex);
  free(link);
}

int link_port(const test_link *link) {
  return link->port;
}

long link_round_trips(test_link *link) {
  lock(link);
  long count = link->round_trips;
  unlock(link);
  return count;
}

void link_break_for_good(test_link *link, link_fault fault, int n) {
  link_break(link, fault, n);
  lock(link);
  link->is_for_good = true;
  unlock(link);
}

void link_break_twice(test_link *link, link_fault fault, int n, link_fault other, int m) {
  lock(link);
  link->is_for_good = false;
  link->fault = fault;
  link->left = n;
  link->next_fault = other;
  link->next_left = m;
  link->has_broken = false;
  unlock(link);
}

void link_break(test_link *link, link_fault fault, int n) {
  link_break_twice(link, fault, n, fault, 0);
}

bool link_has_broken(test_link *link) {
  lock(link);
  bool has_broken = link->has_broken;
  unlock(link);
  return has_broken;
}

void link_mend(test_link *link) {
  lock(link);
  link->left = link->next_left = 0;
  link->is_for_good = false;
  link->hangs = false;
  unlock(link);
  wake(link);
}

void link_replace(test_link *link, const char *text, const char *other, size_t length) {
  lock(link);
  link->text = text;
  link->other = other;
  link->length = length;
  unlock(link);
}
