/* Descriptors that wake who waits: eventfd where there is one, else a pipe. */
#include "base/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

static bool prepare_fd(int fd) {
  return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

static bool make_pipe(int fds[2]) {
  if (pipe(fds) != 0) return false;
  if (prepare_fd(fds[0]) && prepare_fd(fds[1])) return true;
  int code = errno;
  close(fds[0]);
  close(fds[1]);
  errno = code;
  return false;
}

bool mp_wakeup_make_fds(int fds[2]) {
#ifdef __linux__
  fds[0] = fds[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fds[0] >= 0 || errno != ENOSYS) return fds[0] >= 0;
#endif
  return make_pipe(fds);
}

bool mp_wakeup_init(mp_wakeup *wakeup) {
  int fds[2];
  if (!mp_wakeup_make_fds(fds)) return false;
  *wakeup = (mp_wakeup){fds[0], fds[1], false};
  return true;
}

void mp_wakeup_free(mp_wakeup *wakeup) {
  close(wakeup->read_fd);
  if (wakeup->write_fd != wakeup->read_fd) close(wakeup->write_fd);
}

void mp_wakeup_raise(mp_wakeup *wakeup) {
  static const uint64_t one = 1;
  if (wakeup->is_raised) return;
  wakeup->is_raised = true;
  while (write(wakeup->write_fd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

void mp_wakeup_lower(mp_wakeup *wakeup) {
  uint64_t raised;
  if (!wakeup->is_raised) return;
  wakeup->is_raised = false;
  while (read(wakeup->read_fd, &raised, sizeof raised) < 0 && errno == EINTR) continue;
}
