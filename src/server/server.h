/*
** server/: an HTTP/1.1 server in one thread, driven by its owner's loop.
** Belongs here: the listener and the loop (this file), connections and their times (connection.h),
** requests and their answers (exchange.h), and the Lua module moonpad.server_core (module.c), which
** alone knows Lua.
** Does not belong here: what is answered (lua/moonpad/server).
** Arrows: module -> server -> connection -> exchange -> base. Nothing of the core uses server/.
**
** libevent has the loop and the buffers, http_parser reads HTTP. Nothing here calls its owner:
** mp_server_wait returns when there is something to do, mp_server_news says what.
**
** A server and its exchanges belong to one thread. Either may be freed first.
*/
#ifndef MP_SERVER_SERVER_H
#define MP_SERVER_SERVER_H

#include "server/exchange.h"

typedef struct mp_server mp_server;

typedef struct mp_server_options {
  const char *host; /* a name or an address */
  int port;         /* 0: a free one */
  mp_exchange_limits limits;
  size_t max_connections;
} mp_server_options;

/* A descriptor to wait for. */
typedef struct mp_server_descriptor {
  int fd;
  bool is_for_writing;
  bool is_ready; /* the answer */
} mp_server_descriptor;

/* NULL, with the reason in `message`: no such host, the port is taken, out of memory. */
mp_server *mp_server_new(const mp_server_options *options, char *message, size_t size);
/* Breaks off all connections: their exchanges are gone. NULL is accepted. */
void mp_server_free(mp_server *server);

int mp_server_port(const mp_server *server);
size_t mp_server_connections(const mp_server *server);
/* No new connection is taken from now on. */
void mp_server_stop_listening(mp_server *server);

/*
** Serves connections until there is news, one of the descriptors is ready, or so many seconds have
** passed (negative: no end); no longer than there are connections where no new one is taken. The
** descriptors must be open meanwhile.
*/
void mp_server_wait(mp_server *server, double seconds, mp_server_descriptor *descriptors, size_t count);
/*
** The next exchange of which something is new: it has begun, its body has arrived, what was written
** has been sent, or its client is gone. NULL: there is none. The caller gets a reference.
*/
mp_exchange *mp_server_news(mp_server *server);

#endif
