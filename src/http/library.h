/* What is there once in a process: libcurl's own state, and the end of the process. */
#ifndef MP_HTTP_LIBRARY_H
#define MP_HTTP_LIBRARY_H

#include <stdbool.h>

/*
** Initialises libcurl, once in a process. That takes milliseconds, which the first request need not
** spend. False: libcurl cannot be used. Any thread.
*/
bool mp_http_prepare(void);

/*
** Every thread that works on transfers does so between these two. Once exit() has begun, `enter`
** does not return any more.
*/
void mp_http_enter(void);
void mp_http_leave(void);
/* Has exit() begun? */
bool mp_http_process_is_ending(void);

#endif
