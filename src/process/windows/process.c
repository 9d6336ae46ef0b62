/*
** How long children live on Windows, and how they end. All of a child's own children are in its
** job, which the system ends with its last handle, and so with the host, too.
*/
#include "process/process.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/platform.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

/* How long a child may take to end by itself when its standard input has been closed. */
#define PATIENCE 1400 /* milliseconds */

struct mp_process {
  atomic_uint references; /* the owner's, and that of the thread that ends it */
  mp_child child;
  mp_thread thread;
};

static void close_child(const mp_child *child) {
  TerminateJobObject(child->job, 1);
  CloseHandle(child->process);
  CloseHandle(child->job);
}

static void release(mp_process *process) {
  if (atomic_fetch_sub(&process->references, 1) != 1) return;
  close_child(&process->child);
  free(process);
}

static bool is_over(const mp_process *process) {
  return WaitForSingleObject(process->child.process, 0) == WAIT_OBJECT_0;
}

mp_process *mp_process_new(mp_child child) {
  mp_process *process = calloc(1, sizeof *process);
  if (process == NULL) {
    close_child(&child);
    return NULL;
  }
  atomic_init(&process->references, 1);
  process->child = child;
  return process;
}

/* Nothing forks. */
bool mp_process_is_foreign(const mp_process *process) {
  (void)process;
  return false;
}

int mp_process_id(const mp_process *process) {
  return (int)process->child.id;
}

bool mp_process_is_over(mp_process *process, int *status) {
  DWORD code;
  *status = -1;
  if (!is_over(process)) return false;
  /* What it has left behind. */
  TerminateJobObject(process->child.job, 1);
  if (GetExitCodeProcess(process->child.process, &code)) *status = (int)code;
  return true;
}

/* Large ones are the system's, which writes them so: 0xC0000005. */
void mp_process_tell_end(int status, char *text, size_t size) {
  if (status >= 0) {
    snprintf(text, size, "it ended with exit code %d", status);
  } else {
    snprintf(text, size, "it ended with exit code 0x%08X", (unsigned)status);
  }
}

static void end_slowly(void *context) {
  mp_process *process = context;
  WaitForSingleObject(process->child.process, PATIENCE);
  release(process);
}

void mp_process_end(mp_process *process) {
  if (process == NULL) return;
  if (!is_over(process)) {
    atomic_fetch_add(&process->references, 1);
    if (mp_thread_start(&process->thread, end_slowly, process)) {
      /* It ends by itself. */
      CloseHandle(process->thread.handle);
    } else {
      atomic_fetch_sub(&process->references, 1);
    }
  }
  release(process);
}
