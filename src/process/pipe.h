/*
** Our ends of the pipes to a child, and waiting for them. Nothing blocks but the wait.
** On Windows nothing waits for pipes and sockets at once: there a thread for each pipe reads or
** writes ahead, and a socket tells of it.
*/
#ifndef MP_PROCESS_PIPE_H
#define MP_PROCESS_PIPE_H

#include <stdbool.h>
#include <stddef.h>

#if !defined(_WIN32)
#include <errno.h>
#endif

#if defined(_WIN32)
typedef struct mp_pipe_end *mp_pipe;
#define MP_NO_PIPE     NULL
#define MP_PIPE_BROKEN 109 /* ERROR_BROKEN_PIPE */
/* How the descriptor of a pipe that is written to tells of room. */
#define MP_ROOM_IS_READABLE true
#else
typedef int mp_pipe;
#define MP_NO_PIPE          (-1)
#define MP_PIPE_BROKEN      EPIPE
#define MP_ROOM_IS_READABLE false
#endif

/* False: nothing has come yet. True with no bytes: nothing will come any more. */
bool mp_pipe_read(mp_pipe pipe, char *room, size_t size, size_t *length);
/* Writes what the pipe takes now: 0, or the system's error number. Gives no SIGPIPE. */
int mp_pipe_write(mp_pipe pipe, const char *data, size_t length, size_t *written);
/* What to wait for until there is something to read, or room to write. */
int mp_pipe_descriptor(mp_pipe pipe);
/* It is MP_NO_PIPE then, or was so before. What was written still reaches the child. */
void mp_pipe_close(mp_pipe *pipe);

/* ---- Waiting: a list of so many items of this size, each of which is set ---- */

size_t mp_waited_size(void);
void mp_waited_set(void *list, size_t index, int descriptor, bool is_written);
/* Waits for one of them, at most so many seconds. Is one ready? */
bool mp_wait(void *list, size_t count, double seconds);

#endif
