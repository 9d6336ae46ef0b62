/*
** Writing to pipes and sockets whose other side is gone, without the signal SIGPIPE reaching the
** host: a library must not end a program that has set no handler.
*/
#ifndef MP_BASE_SIGPIPE_H
#define MP_BASE_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

typedef struct mp_sigpipe {
  sigset_t before;
  bool was_pending;
} mp_sigpipe;

/* From now on this thread gets no SIGPIPE. */
void mp_sigpipe_hold(mp_sigpipe *held);
/* As before; what has come meanwhile is gone. Keeps errno. */
void mp_sigpipe_release(const mp_sigpipe *held);

#endif
