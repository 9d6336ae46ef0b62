/*
** process/: child processes that are talked to over pipes, for tools that are programs.
** Belongs here: starting a program with nothing of ours (start.h), how long it lives and how it
** ends (this file), and the Lua module moonpad.process_core (module.c), which alone knows Lua.
** Does not belong here: what is said over the pipes (lua/moonpad/mcp).
** Arrows: module -> process, start -> base. Nothing of the core uses process/.
**
** No signal handler is set: a thread for each child waits for its end, so that none stays a zombie
** and the host's own children are left to the host.
**
** A process belongs to one thread, its owner's.
*/
#ifndef MP_PROCESS_PROCESS_H
#define MP_PROCESS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct mp_process mp_process;

/*
** Watches over a child that leads a process group of its own. NULL: out of memory or threads; the
** child has been ended then. When it is over, what it has left in its group is killed.
*/
mp_process *mp_process_new(pid_t pid);

/* Was it started by the process that this one was forked from? Then it is none of our business. */
bool mp_process_is_foreign(const mp_process *process);
pid_t mp_process_id(const mp_process *process);
/* Is it over? *status is what waitpid says, or -1 where somebody else has taken that. */
bool mp_process_is_over(mp_process *process, int *status);

/*
** Makes sure that it ends, without waiting for it: its owner has closed its standard input; if
** that is not enough, its group gets SIGTERM, and then SIGKILL, all within two seconds. When the
** host ends by exit(), whoever is left is ended as well. NULL is accepted; the handle is gone
** afterwards.
*/
void mp_process_end(mp_process *process);

#endif
