/* posix_spawn, because fork in a large host takes longer than a frame. */
#define _GNU_SOURCE          /* pipe2, F_SETPIPE_SZ, posix_spawn_file_actions_addclosefrom_np */
#define _FILE_OFFSET_BITS 64 /* for programs whose files are numbered with more than 32 bits */
#include "process/start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/platform.h"

/* ---- The program ---- */

static const char *path_of(char *const *environment) {
  for (; *environment != NULL; environment++) {
    if (strncmp(*environment, "PATH=", 5) == 0) return *environment + 5;
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

/* 0, or why it cannot be run. */
static int check_program(const char *path) {
  struct stat file;
  if (stat(path, &file) != 0) return errno;
  if (S_ISDIR(file.st_mode)) return EISDIR;
  return access(path, X_OK) == 0 ? 0 : errno;
}

/* 0 or an errno. Without a folder, and where the name is absolute, the path is the name. */
static int join(char path[PATH_MAX], const char *folder, size_t length, const char *name) {
  int size = name[0] == '/' || length == 0 ? snprintf(path, PATH_MAX, "%s", name)
                                           : snprintf(path, PATH_MAX, "%.*s/%s", (int)length, folder, name);
  return size < 0 || size >= PATH_MAX ? ENAMETOOLONG : 0;
}

/* The child is in its working folder when it looks for the path; we are not. */
static int find_in_folder(char path[PATH_MAX], const mp_process_command *command, const char *folder, size_t length) {
  char seen_from_here[PATH_MAX];
  const char *base = command->folder != NULL ? command->folder : "";
  int code = join(path, folder, length, command->arguments[0]);
  if (code == 0) code = join(seen_from_here, base, strlen(base), path);
  return code != 0 ? code : check_program(seen_from_here);
}

/* 0, or an errno: of what was found last and could not be run, else ENOENT. */
static int find_program(char path[PATH_MAX], const mp_process_command *command) {
  if (strchr(command->arguments[0], '/') != NULL) return find_in_folder(path, command, "", 0);
  int code = ENOENT;
  for (const char *folder = path_of(command->environment);; folder++) {
    size_t length = strcspn(folder, ":");
    int problem = find_in_folder(path, command, length > 0 ? folder : ".", length > 0 ? length : 1);
    if (problem == 0) return 0;
    if (problem != ENOENT && problem != ENOTDIR) code = problem;
    folder += length;
    if (*folder == '\0') return code;
  }
}

/* ---- The pipes ---- */

static void close_both(int fds[2]) {
  if (fds[0] >= 0) close(fds[0]);
  if (fds[1] >= 0) close(fds[1]);
}

/* Away from 0, 1 and 2, which a host may have closed: there the child's ends are to go. */
static bool move_up(int *fd) {
  if (*fd > 2) return true;
  int moved = fcntl(*fd, F_DUPFD_CLOEXEC, 3);
  if (moved < 0) return false;
  close(*fd);
  *fd = moved;
  return true;
}

/* So much can come, where the system allows it, before the child has to wait for its host. */
#define OUTPUT_SIZE (1024 * 1024)

static bool make_pipe(int fds[2], int ours) {
  if (pipe2(fds, O_CLOEXEC) != 0) {
    fds[0] = fds[1] = -1;
    return false;
  }
  return move_up(&fds[0]) && move_up(&fds[1]) && fcntl(fds[ours], F_SETFL, O_NONBLOCK) == 0;
}

/* ---- Starting ---- */

static int set_attributes(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int code =
      posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (code == 0) code = posix_spawnattr_setpgroup(attributes, 0);
  if (code == 0) code = posix_spawnattr_setsigmask(attributes, &none);
  return code == 0 ? posix_spawnattr_setsigdefault(attributes, &all) : code;
}

/* A child must not inherit the host's descriptors, and a thread must wait for its end. */
#if defined(__GLIBC_PREREQ) && MP_HAS_THREADS
#if __GLIBC_PREREQ(2, 34)
#define CAN_START
#endif
#endif

#ifdef CAN_START
static int set_actions(posix_spawn_file_actions_t *actions, int in, int out, int error, const char *folder) {
  int code = posix_spawn_file_actions_adddup2(actions, in, 0);
  if (code == 0) code = posix_spawn_file_actions_adddup2(actions, out, 1);
  if (code == 0) code = posix_spawn_file_actions_adddup2(actions, error, 2);
  if (code == 0 && folder != NULL) code = posix_spawn_file_actions_addchdir_np(actions, folder);
  return code == 0 ? posix_spawn_file_actions_addclosefrom_np(actions, 3) : code;
}
#else
/* A descriptor of the host that would be inherited may be a secret. */
static int set_actions(posix_spawn_file_actions_t *actions, int in, int out, int error, const char *folder) {
  (void)actions, (void)in, (void)out, (void)error, (void)folder;
  return ENOSYS;
}
#endif

static int spawn(const mp_process_command *command, const char *path, int in, int out, int error, pid_t *pid) {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  int code = posix_spawnattr_init(&attributes);
  if (code != 0) return code;
  code = posix_spawn_file_actions_init(&actions);
  if (code == 0) {
    code = set_attributes(&attributes);
    if (code == 0) code = set_actions(&actions, in, out, error, command->folder);
    if (code == 0) code = posix_spawn(pid, path, &actions, &attributes, command->arguments, command->environment);
    posix_spawn_file_actions_destroy(&actions);
  }
  posix_spawnattr_destroy(&attributes);
  return code;
}

static bool is_folder(const char *path, int *code) {
  struct stat file;
  *code = stat(path, &file) != 0 ? errno : S_ISDIR(file.st_mode) ? 0 : ENOTDIR;
  return *code == 0;
}

mp_process_failure mp_process_start(const mp_process_command *command, mp_child *child, mp_process_pipes *pipes,
                                    int *code) {
  char path[PATH_MAX];
  int in[2] = {-1, -1}, out[2] = {-1, -1}, error[2] = {-1, -1};
  mp_process_failure failure = MP_PROCESS_STARTED;
  if (command->folder != NULL && !is_folder(command->folder, code)) return MP_PROCESS_NO_FOLDER;
  *code = find_program(path, command);
  if (*code != 0) return MP_PROCESS_NO_PROGRAM;
  if (!make_pipe(in, 1) || !make_pipe(out, 0) || !make_pipe(error, 0)) {
    *code = errno;
    failure = MP_PROCESS_NO_PIPES;
  } else if ((*code = spawn(command, path, in[0], out[1], error[1], child)) != 0) {
    failure = MP_PROCESS_NOT_STARTED;
  }
  if (failure != MP_PROCESS_STARTED) {
    close_both(in);
    close_both(out);
    close_both(error);
    return failure;
  }
#ifdef F_SETPIPE_SZ
  (void)fcntl(out[0], F_SETPIPE_SZ, OUTPUT_SIZE);
#endif
  close(in[0]);
  close(out[1]);
  close(error[1]);
  *pipes = (mp_process_pipes){in[1], out[0], error[0]};
  return MP_PROCESS_STARTED;
}
