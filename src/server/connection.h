/*
** A connection: reads requests one after the other and writes their answers. It has one exchange at
** a time, and four times: for a header (or the next request), a pause in a body, a client that does
** not take what is sent, and the last words after an error.
*/
#ifndef MP_SERVER_CONNECTION_H
#define MP_SERVER_CONNECTION_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <http_parser.h>

#include "server/exchange.h"

typedef struct mp_connection mp_connection;

/*
** What the connections of a server have in common. Exchanges outlive the server: they share it by
** counting.
*/
typedef struct mp_connections {
  size_t references;
  struct event_base *base; /* NULL once the server is freed */
  mp_env *env;
  mp_exchange_limits limits;
  size_t body_bytes; /* held by exchanges of all connections */
  uint64_t last_id;
  mp_connection *first; /* all that are open */
  mp_connection *dead;  /* to be freed once no callback is under way */
  mp_exchange *first_news, *last_news;
  size_t count;
} mp_connections;

typedef enum mp_exchange_state {
  MP_EXCHANGE_ARRIVING,  /* nobody has been told of it */
  MP_EXCHANGE_ARRIVED,   /* the headers are there, a body is to come */
  MP_EXCHANGE_RECEIVING, /* the body is being read */
  MP_EXCHANGE_RECEIVED,
  MP_EXCHANGE_ANSWERING, /* the answer has begun, in pieces */
  MP_EXCHANGE_OVER       /* answered, or the client is gone */
} mp_exchange_state;

struct mp_exchange {
  mp_connection *connection; /* NULL once it is over */
  mp_connections *all;
  size_t references;
  uint64_t id;
  mp_exchange_state state;
  const char *method;
  bool is_head;
  bool is_chunked; /* the answer */
  bool is_news;
  mp_exchange *next_news;
  mp_buffer target, headers, body;
  char peer[64];
};

/* Takes over the descriptor. False: out of memory, and it is closed. */
bool mp_connection_open(mp_connections *all, evutil_socket_t fd, const struct sockaddr *address);
/* Frees those that have ended. Not from within a callback. */
void mp_connections_bury(mp_connections *all);
/* Breaks off all of them. */
void mp_connections_close(mp_connections *all);
/* Those that have no request under way end now, others after their answer. */
void mp_connections_end_idle(mp_connections *all);

struct timeval mp_connection_duration(double seconds);

/* For exchange.c. */
void mp_connection_receive(mp_connection *connection);
void mp_connection_send(mp_connection *connection, const char *data, size_t length);
/* The answer is complete; whether the next request may come over the same connection. */
void mp_connection_answered(mp_connection *connection);
bool mp_connection_stays(mp_connection *connection);
/* No request may follow. */
void mp_connection_end_after(mp_connection *connection);
bool mp_connection_is_http_1_0(const mp_connection *connection);
size_t mp_connection_unsent(const mp_connection *connection);
void mp_connection_watch_unsent(mp_connection *connection);
void mp_connection_abort(mp_connection *connection);

/* There is something new about it. */
void mp_exchange_tell(mp_exchange *exchange);

mp_connections *mp_connections_new(const mp_exchange_limits *limits);
void mp_connections_release(mp_connections *all);

#endif
