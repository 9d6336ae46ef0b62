/* The writer thread of a service, for asynchronous appends (contract 6). */
#ifndef MP_SERVICE_WRITER_H
#define MP_SERVICE_WRITER_H

#include "service/service.h"

/* Finishes what is queued, then ends the thread; later asynchronous appends are `closed`. Idempotent. Completions stay for moonpad_poll. */
void mp_writer_stop(moonpad_service *service);
/*
** Stopped before, and no session object is left. What was not polled is dropped, and told to the
** log if it failed.
*/
void mp_writer_free(moonpad_service *service);

#endif
