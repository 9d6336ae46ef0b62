/*
** process/: child processes that are talked to over pipes, for tools that are programs.
** Belongs here: starting a program with nothing of ours (start.h), its pipes (pipe.h), how long it
** lives and how it ends (this file), and the Lua module moonpad.process_core (module.c), which
** alone knows Lua. What the system does for that is in posix/ and windows/.
** Does not belong here: what is said over the pipes (lua/moonpad/mcp).
** Arrows: module -> process, start, pipe -> base. Nothing of the core uses process/.
**
** No signal handler is set. On POSIX a thread for each child waits for its end, so that none stays
** a zombie and the host's own children are left to the host.
**
** A process belongs to one thread, its owner's.
*/
#ifndef MP_PROCESS_PROCESS_H
#define MP_PROCESS_PROCESS_H

#include <stdbool.h>

#include "process/start.h"

typedef struct mp_process mp_process;

/*
** Watches over a child that has been started. NULL: out of memory or threads; the child has been
** ended then. When it is over, what it has left in its group is killed.
*/
mp_process *mp_process_new(mp_child child);

/* Was it started by the process that this one was forked from? Then it is none of our business. */
bool mp_process_is_foreign(const mp_process *process);
int mp_process_id(const mp_process *process);
/*
** Is it over? *status is what waitpid says, or on Windows its exit code; -1 where somebody else has
** taken that.
*/
bool mp_process_is_over(mp_process *process, int *status);
/* In words, of what is over: "it ended with exit code 3". */
void mp_process_tell_end(int status, char *text, size_t size);

/*
** Makes sure that it ends, without waiting for it: its owner has closed its standard input; if
** that is not enough, its group gets SIGTERM, and then SIGKILL, all within two seconds. On Windows
** there is no asking: it is ended. When the host ends by exit(), whoever is left is ended as well.
** NULL is accepted; the handle is gone afterwards.
*/
void mp_process_end(mp_process *process);

#endif
