/* Starting a program that inherits nothing of ours but three pipes. */
#ifndef MP_PROCESS_START_H
#define MP_PROCESS_START_H

#include "process/pipe.h"

#if defined(_WIN32)
typedef struct mp_child {
  void *process; /* a handle */
  void *job;     /* the handle of what it and its own children belong to */
  unsigned long id;
} mp_child;
#else
#include <sys/types.h>
typedef pid_t mp_child;
#endif

typedef struct mp_process_command {
  char *const *arguments;   /* the program first: a path, or a name to look for in PATH */
  char *const *environment; /* "NAME=value", nothing else is inherited; then NULL */
  const char *folder;       /* it works in; NULL: ours */
} mp_process_command;

/* Our ends of its pipes, which are closed in programs that we start. */
typedef struct mp_process_pipes {
  mp_pipe input;  /* written to */
  mp_pipe output; /* read from */
  mp_pipe error;  /* read from */
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
** The child leads a group of its own, of processes or on Windows a job; no signal is blocked or
** ignored in it. On failure *code is the system's error number.
*/
mp_process_failure mp_process_start(const mp_process_command *command, mp_child *child, mp_process_pipes *pipes,
                                    int *code);

#endif
