/* Starting a program that inherits nothing of ours but three pipes. */
#ifndef MP_PROCESS_START_H
#define MP_PROCESS_START_H

#include <sys/types.h>

typedef struct mp_process_command {
  char *const *arguments;   /* the program first: a path, or a name to look for in PATH */
  char *const *environment; /* "NAME=value", nothing else is inherited; then NULL */
  const char *folder;       /* it works in; NULL: ours */
} mp_process_command;

/* Our ends of its pipes, which do not block and are closed in programs that we start. */
typedef struct mp_process_pipes {
  int input;  /* written to */
  int output; /* read from */
  int error;  /* read from */
} mp_process_pipes;

/* What an attempt has failed of. */
typedef enum mp_process_failure {
  MP_PROCESS_STARTED,
  MP_PROCESS_NO_PROGRAM,
  MP_PROCESS_NO_FOLDER,
  MP_PROCESS_NO_PIPES,
  MP_PROCESS_NOT_STARTED,
} mp_process_failure;

/*
** The child leads a process group of its own; no signal is blocked or ignored in it. On failure
** *code is that of errno.
*/
mp_process_failure mp_process_start(const mp_process_command *command, pid_t *pid, mp_process_pipes *pipes, int *code);

#endif
