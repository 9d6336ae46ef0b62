/*
** A thread for each pipe reads, or writes, ahead of its owner, and a socket (base/wakeup.h) tells
** the owner that there is something to read, or room to write. The thread waits in operations of
** the system that can be cancelled (overlapped ones), and for the owner.
*/
#include "process/windows/pipe.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "base/wakeup.h"

#include <winsock2.h>

/* So much is read at once, or written. */
#define CHUNK ((size_t)64 * 1024)
/* So much can come before the child has to wait for its host. */
#define ROOM (16 * CHUNK)

struct mp_pipe_end {
  atomic_uint references; /* the owner's and the thread's */
  HANDLE handle;
  HANDLE closing; /* an event: the owner has gone */
  bool is_written;
  mp_thread thread;
  mp_mutex lock;        /* guards what follows, but the last two */
  mp_condition changed; /* there is room, something to write, or nobody any more */
  mp_wakeup news;
  char *data; /* what has come, or is to be written: of this size */
  size_t size;
  size_t length;
  bool is_closing;
  bool is_broken;
  OVERLAPPED under_way; /* private to the thread */
  char chunk[CHUNK];
};

static void release(mp_pipe pipe) {
  if (atomic_fetch_sub(&pipe->references, 1) != 1) return;
  CloseHandle(pipe->handle);
  if (pipe->closing != NULL) CloseHandle(pipe->closing);
  if (pipe->under_way.hEvent != NULL) CloseHandle(pipe->under_way.hEvent);
  mp_wakeup_free(&pipe->news);
  mp_condition_destroy(&pipe->changed);
  mp_mutex_destroy(&pipe->lock);
  free(pipe->data);
  free(pipe);
}

/* ---- The thread ---- */

/* With the lock held: the owner is to look at the pipe while there is a reason to. */
static void tell(mp_pipe pipe) {
  bool has_news = pipe->is_broken || (pipe->is_written ? pipe->length < pipe->size : pipe->length > 0);
  if (has_news) {
    mp_wakeup_raise(&pipe->news);
  } else {
    mp_wakeup_lower(&pipe->news);
  }
}

/*
** Reads into the chunk, or writes of it: how much, 0 where the other side is gone. A read ends when
** the owner goes, a write when it is done: what the owner has written is to arrive.
*/
static size_t transfer(mp_pipe pipe, size_t size) {
  HANDLE events[] = {pipe->under_way.hEvent, pipe->closing};
  DWORD count = 0;
  BOOL is_done = pipe->is_written ? WriteFile(pipe->handle, pipe->chunk, (DWORD)size, NULL, &pipe->under_way)
                                  : ReadFile(pipe->handle, pipe->chunk, (DWORD)size, NULL, &pipe->under_way);
  if (!is_done && GetLastError() != ERROR_IO_PENDING) return 0;
  DWORD awaited = pipe->is_written ? 1 : 2;
  if (WaitForMultipleObjects(awaited, events, FALSE, INFINITE) != WAIT_OBJECT_0) {
    CancelIoEx(pipe->handle, &pipe->under_way);
  }
  return GetOverlappedResult(pipe->handle, &pipe->under_way, &count, TRUE) ? count : 0;
}

/* With the lock held. */
static void break_off(mp_pipe pipe) {
  pipe->is_broken = true;
  tell(pipe);
}

static void read_ahead(mp_pipe pipe) {
  while (!pipe->is_closing && !pipe->is_broken) {
    if (pipe->size - pipe->length < CHUNK) {
      mp_condition_wait(&pipe->changed, &pipe->lock);
      continue;
    }
    mp_mutex_unlock(&pipe->lock);
    size_t count = transfer(pipe, CHUNK);
    mp_mutex_lock(&pipe->lock);
    memcpy(pipe->data + pipe->length, pipe->chunk, count);
    pipe->length += count;
    pipe->is_broken = count == 0;
    tell(pipe);
  }
}

/* What has been written to the end when the owner goes is to arrive. */
static void write_behind(mp_pipe pipe) {
  while (!pipe->is_broken) {
    if (pipe->length == 0) {
      if (pipe->is_closing) break;
      mp_condition_wait(&pipe->changed, &pipe->lock);
      continue;
    }
    size_t size = pipe->length < CHUNK ? pipe->length : CHUNK;
    memcpy(pipe->chunk, pipe->data, size);
    mp_mutex_unlock(&pipe->lock);
    size_t count = transfer(pipe, size);
    mp_mutex_lock(&pipe->lock);
    if (count == 0) break_off(pipe);
    pipe->length -= count;
    memmove(pipe->data, pipe->data + count, pipe->length);
    tell(pipe);
  }
}

static void work(void *context) {
  mp_pipe pipe = context;
  mp_mutex_lock(&pipe->lock);
  if (pipe->is_written) {
    write_behind(pipe);
  } else {
    read_ahead(pipe);
  }
  mp_mutex_unlock(&pipe->lock);
  release(pipe);
}

/* ---- Making ---- */

/* Events are NULL where there are none. Takes the handle, whatever happens. */
static mp_pipe allocate(HANDLE handle, bool is_written) {
  mp_pipe pipe = calloc(1, sizeof *pipe);
  if (pipe == NULL || !mp_mutex_init(&pipe->lock) || !mp_condition_init(&pipe->changed)) {
    CloseHandle(handle);
    free(pipe);
    return NULL;
  }
  atomic_init(&pipe->references, 1);
  pipe->handle = handle;
  pipe->is_written = is_written;
  pipe->size = is_written ? CHUNK : ROOM;
  pipe->data = malloc(pipe->size);
  pipe->closing = CreateEventW(NULL, TRUE, FALSE, NULL);
  pipe->under_way.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
  mp_wakeup_init(&pipe->news);
  return pipe;
}

static int start(mp_pipe pipe) {
  if (pipe->data == NULL) return ERROR_NOT_ENOUGH_MEMORY;
  if (pipe->closing == NULL || pipe->under_way.hEvent == NULL) return ERROR_NO_SYSTEM_RESOURCES;
  int number = mp_wakeup_make(&pipe->news);
  if (number != 0) return number;
  tell(pipe);
  atomic_fetch_add(&pipe->references, 1);
  if (mp_thread_start(&pipe->thread, work, pipe)) {
    /* It ends by itself. */
    CloseHandle(pipe->thread.handle);
    return 0;
  }
  atomic_fetch_sub(&pipe->references, 1);
  return ERROR_NO_SYSTEM_RESOURCES;
}

int mp_pipe_of_handle(HANDLE handle, bool is_written, mp_pipe *pipe) {
  *pipe = allocate(handle, is_written);
  if (*pipe == NULL) return ERROR_NOT_ENOUGH_MEMORY;
  int number = start(*pipe);
  if (number == 0) return 0;
  release(*pipe);
  *pipe = MP_NO_PIPE;
  return number;
}

/* ---- For the owner ---- */

bool mp_pipe_read(mp_pipe pipe, char *room, size_t size, size_t *length) {
  mp_mutex_lock(&pipe->lock);
  size_t count = size < pipe->length ? size : pipe->length;
  memcpy(room, pipe->data, count);
  pipe->length -= count;
  memmove(pipe->data, pipe->data + count, pipe->length);
  bool has_come = count > 0 || pipe->is_broken;
  tell(pipe);
  mp_condition_signal(&pipe->changed);
  mp_mutex_unlock(&pipe->lock);
  *length = count;
  return has_come;
}

int mp_pipe_write(mp_pipe pipe, const char *data, size_t length, size_t *written) {
  mp_mutex_lock(&pipe->lock);
  size_t room = pipe->size - pipe->length, count = length < room ? length : room;
  memcpy(pipe->data + pipe->length, data, count);
  pipe->length += count;
  int number = pipe->is_broken ? MP_PIPE_BROKEN : 0;
  tell(pipe);
  mp_condition_signal(&pipe->changed);
  mp_mutex_unlock(&pipe->lock);
  *written = count;
  return number;
}

int mp_pipe_descriptor(mp_pipe pipe) {
  return mp_wakeup_fd(&pipe->news);
}

void mp_pipe_close(mp_pipe *pipe) {
  if (*pipe == MP_NO_PIPE) return;
  mp_mutex_lock(&(*pipe)->lock);
  (*pipe)->is_closing = true;
  SetEvent((*pipe)->closing);
  mp_condition_signal(&(*pipe)->changed);
  mp_mutex_unlock(&(*pipe)->lock);
  release(*pipe);
  *pipe = MP_NO_PIPE;
}

/* ---- Waiting: for sockets ---- */

size_t mp_waited_size(void) {
  return sizeof(WSAPOLLFD);
}

void mp_waited_set(void *list, size_t index, int descriptor, bool is_written) {
  WSAPOLLFD *items = list;
  items[index] = (WSAPOLLFD){.fd = (SOCKET)descriptor, .events = is_written ? POLLOUT : POLLIN};
}

bool mp_wait(void *list, size_t count, double seconds) {
  const double longest = 1e6;
  double wanted = seconds > 0 ? (seconds < longest ? seconds : longest) : 0;
  if (count == 0) {
    mp_sleep(wanted);
    return false;
  }
  /* Rounded up, so that what is waited for has come. */
  int milliseconds = (int)(wanted * 1e3);
  if (milliseconds < wanted * 1e3) milliseconds++;
  return WSAPoll(list, (ULONG)count, milliseconds) > 0;
}
