/*
** One request and its answer, as the owner of the server sees it. An exchange begins when all
** headers have arrived; its body is read when it is asked for, so that nobody fills the memory who
** has not been let in.
*/
#ifndef MP_SERVER_EXCHANGE_H
#define MP_SERVER_EXCHANGE_H

#include "base/buffer.h"

typedef struct mp_exchange mp_exchange;

typedef struct mp_exchange_limits {
  size_t max_header; /* bytes of a request's line and headers; http_parser takes 80 KiB at most */
  size_t max_body;   /* bytes */
  double timeout;    /* seconds: for a header, a pause in a body, a client that does not read */
} mp_exchange_limits;

/* Counts a reference more, or one less; the last one frees it. */
void mp_exchange_retain(mp_exchange *exchange);
void mp_exchange_release(mp_exchange *exchange);

/* A number of its own within the server. */
uint64_t mp_exchange_id(const mp_exchange *exchange);

/* ---- The request. What is returned is valid as long as the exchange. ---- */

const char *mp_exchange_method(const mp_exchange *exchange);
moonpad_string mp_exchange_target(const mp_exchange *exchange);
/* name, NUL, value, NUL, name, ...; names in lower case */
moonpad_string mp_exchange_headers(const mp_exchange *exchange);
/* Asks for the body. */
void mp_exchange_receive(mp_exchange *exchange);
/* Has the whole body arrived? */
bool mp_exchange_is_received(const mp_exchange *exchange);
moonpad_string mp_exchange_body(const mp_exchange *exchange);
/* Where it comes from: an address without port. */
const char *mp_exchange_peer(const mp_exchange *exchange);

/* ---- The answer. Nothing of it fails: where the client is gone, it goes nowhere. ---- */

/* Is anybody there to be answered? False once the answer is complete, too. */
bool mp_exchange_is_open(const mp_exchange *exchange);
/*
** A whole answer. `headers` are as above, without those that say how long it is and whether the
** connection stays. The body of an answer to HEAD is counted, not sent.
*/
void mp_exchange_respond(mp_exchange *exchange, int status, moonpad_string headers, moonpad_string body);
/* An answer in pieces: each is written as one. */
void mp_exchange_begin(mp_exchange *exchange, int status, moonpad_string headers);
void mp_exchange_write(mp_exchange *exchange, moonpad_string piece);
void mp_exchange_finish(mp_exchange *exchange);
/*
** Bytes that the client has not taken yet. Above a limit its connection gets `timeout` to take
** them, and there is news when it has.
*/
size_t mp_exchange_unsent(const mp_exchange *exchange);
/* Closes the connection at once: what has not been sent is lost. */
void mp_exchange_abort(mp_exchange *exchange);

#endif
