/*
** http/: an HTTP client on libcurl's multi interface that never blocks its owner.
** Belongs here: clients and their threads (this file), requests (request.h), what libcurl needs
** once in a process (library.h), and the Lua module moonpad.http_core (module.c), which alone knows
** Lua.
** Does not belong here: redirects, retries, streams of events (lua/moonpad/http,
** lua/moonpad/models/sse.lua).
** Arrows: module -> client -> request -> client_state and library -> base. Nothing of the core uses
** http/, and http/ uses nothing of the core but base/.
**
** fetch/client.c implements this header and request.h for a page, in a browser.
**
** One thread per client does all the work, because even libcurl's non-blocking calls take their
** time: loading the certificates of a system before the first secured connection takes 50 ms, which
** is three frames of a game. The thread fills buffers; the owner reads them when it likes.
**
** A client and its requests belong to one thread, their owner's. Either may be freed first.
*/
#ifndef MP_HTTP_CLIENT_H
#define MP_HTTP_CLIENT_H

#include "http/request.h"

typedef struct mp_http_client mp_http_client;

/* NULL: out of memory, no thread could be started, or libcurl cannot be used. */
mp_http_client *mp_http_client_new(void);
/*
** Ends the transfers under way (their requests fail with MP_HTTP_CLOSED) and joins the thread,
** which does not take long. NULL is accepted.
*/
void mp_http_client_free(mp_http_client *client);

/*
** Does anything come in while the owner waits in a call? Not in a page: there a call must return
** first.
*/
bool mp_http_can_be_awaited(void);

/* Counts everything that happens to the requests. The same number again: nothing is new. */
uint64_t mp_http_activity(mp_http_client *client);
/*
** Readable when something has happened since mp_http_drain was last called; for loops that wait for
** descriptors. It is the client's, which closes it. -1: the client belongs to another process, or
** is that of a page.
*/
int mp_http_descriptor(const mp_http_client *client);
/* The same number as mp_http_activity; until something else happens, the descriptor rests. */
uint64_t mp_http_drain(mp_http_client *client);

/* NULL, with the reason in *failure and *message (static text): it could not be started. */
mp_http_request *mp_http_start(mp_http_client *client, const mp_http_options *options, mp_http_failure *failure,
                               const char **message);
/* Breaks off the transfer if it has not ended. NULL is accepted. */
void mp_http_request_free(mp_http_request *request);

#endif
