/* Pipes are descriptors that do not block. */
#define _GNU_SOURCE /* ppoll, of Linux */
#include "process/pipe.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/platform.h"

static bool must_wait(void) {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

bool mp_pipe_read(mp_pipe pipe, char *room, size_t size, size_t *length) {
  ssize_t count;
  do {
    count = read(pipe, room, size);
  } while (count < 0 && errno == EINTR);
  *length = count > 0 ? (size_t)count : 0;
  return count >= 0 || !must_wait();
}

static ssize_t write_quietly(int fd, const char *data, size_t length) {
  mp_sigpipe held;
  mp_sigpipe_hold(&held);
  ssize_t written = write(fd, data, length);
  mp_sigpipe_release(&held);
  return written;
}

int mp_pipe_write(mp_pipe pipe, const char *data, size_t length, size_t *written) {
  ssize_t count;
  do {
    count = write_quietly(pipe, data, length);
  } while (count < 0 && errno == EINTR);
  *written = count > 0 ? (size_t)count : 0;
  return count >= 0 || must_wait() ? 0 : errno;
}

int mp_pipe_descriptor(mp_pipe pipe) {
  return pipe;
}

void mp_pipe_close(mp_pipe *pipe) {
  if (*pipe != MP_NO_PIPE) close(*pipe);
  *pipe = MP_NO_PIPE;
}

/* ---- Waiting ---- */

size_t mp_waited_size(void) {
  return sizeof(struct pollfd);
}

void mp_waited_set(void *list, size_t index, int descriptor, bool is_written) {
  struct pollfd *items = list;
  items[index] = (struct pollfd){descriptor, is_written ? POLLOUT : POLLIN, 0};
}

#if defined(__linux__)

static struct timespec duration(double seconds) {
  struct timespec time = {0, 0};
  if (!(seconds > 0)) return time;
  if (seconds > 1e6) seconds = 1e6;
  time.tv_sec = (time_t)seconds;
  time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
  return time;
}

bool mp_wait(void *list, size_t count, double seconds) {
  struct timespec time = duration(seconds);
  return ppoll(list, (nfds_t)count, &time, NULL) > 0;
}

#else

/* No sooner: whoever polls in a loop would go round in vain. */
bool mp_wait(void *list, size_t count, double seconds) {
  double milliseconds = seconds > 0 ? ceil((seconds < 1e6 ? seconds : 1e6) * 1e3) : 0;
  return poll(list, (nfds_t)count, (int)milliseconds) > 0;
}

#endif
