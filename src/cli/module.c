/*
** cli/: what the command `moonpad` needs of the system and Lua does not have: is there a terminal,
** has Ctrl-C been pressed, is a server to end, has all output been written. The Lua module
** moonpad.cli_core.
** Belongs here: calls of the operating system, nothing of moonpad. A module of its own, because a
** signal handler belongs to a program, not to a library.
** Does not belong here: the command itself (bin/moonpad, lua/moonpad/cli).
** Arrows: uses Lua and the C library only; lua/moonpad/cli uses it, and nothing in src does.
*/
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/select.h>
#include <unistd.h>

#include "cli/files.h"

/* A global, because a signal handler can reach nothing else. */
static volatile sig_atomic_t interrupted_once;

/* A second Ctrl-C ends the program: nobody has noticed the first, so an agent does not return. */
static void note_interrupt(int signal_number) {
  if (interrupted_once) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
  interrupted_once = 1;
}

/* isTerminal(fd) */
static int is_terminal(lua_State *L) {
  lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
  return 1;
}

/*
** catchInterrupts(): from now on SIGINT is noted instead of ending the program. System calls that
** wait end with EINTR.
*/
static int catch_interrupts(lua_State *L) {
  struct sigaction action;
  (void)L;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;
  action.sa_handler = note_interrupt;
  sigaction(SIGINT, &action, NULL);
  return 0;
}

/* interrupted(): has there been one since the last call? */
static int interrupted(lua_State *L) {
  lua_pushboolean(L, interrupted_once);
  interrupted_once = 0;
  return 1;
}

/*
** waitForInput(fd): true when a line can be read; false when a SIGINT came first, which counts as
** told. SIGINT is blocked between the test for it and the wait: otherwise one that came in between
** would not end the wait.
*/
static int wait_for_input(lua_State *L) {
  int fd = (int)luaL_checkinteger(L, 1);
  fd_set input;
  sigset_t interrupt, before;
  luaL_argcheck(L, fd >= 0 && fd < FD_SETSIZE, 1, "no descriptor that can be waited for");
  FD_ZERO(&input);
  FD_SET(fd, &input);
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  bool is_there = !interrupted_once && pselect(fd + 1, &input, NULL, NULL, NULL, &before) > 0;
  if (!is_there) interrupted_once = 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  lua_pushboolean(L, is_there);
  return 1;
}

/* Globals as well: what the handler of signals that end a server writes to; which one it was. */
static int end_pipe[2] = {-1, -1};
static volatile sig_atomic_t end_signal;

/* The second one ends the program at once. */
static void note_end(int signal_number) {
  int code = errno;
  if (end_signal != 0) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
  end_signal = signal_number;
  ssize_t written = write(end_pipe[1], "", 1);
  (void)written; /* nobody could be told */
  errno = code;
}

static bool make_pipe(int fds[2]) {
  if (pipe(fds) != 0) return false;
  for (int i = 0; i < 2; i++) {
    fcntl(fds[i], F_SETFD, FD_CLOEXEC);
    fcntl(fds[i], F_SETFL, O_NONBLOCK);
  }
  return true;
}

/*
** catchEnd() -> a descriptor that is readable once SIGINT or SIGTERM has come, instead of the end
** of the program; nil where the system has none left
*/
static int catch_end(lua_State *L) {
  struct sigaction action;
  if (end_pipe[0] < 0 && !make_pipe(end_pipe)) return 0;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  action.sa_handler = note_end;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  lua_pushinteger(L, end_pipe[0]);
  return 1;
}

/* wasInterrupted(): was it SIGINT that has ended the server? */
static int was_interrupted(lua_State *L) {
  lua_pushboolean(L, end_signal == SIGINT);
  return 1;
}

/* hasLostOutput(): did any write to standard output fail? A flush only says how it went itself. */
static int has_lost_output(lua_State *L) {
  lua_pushboolean(L, fflush(stdout) != 0 || ferror(stdout) != 0);
  return 1;
}

__attribute__((visibility("default"))) int luaopen_moonpad_cli_core(lua_State *L);

int luaopen_moonpad_cli_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"isTerminal", is_terminal},
                                       {"catchInterrupts", catch_interrupts},
                                       {"interrupted", interrupted},
                                       {"waitForInput", wait_for_input},
                                       {"catchEnd", catch_end},
                                       {"wasInterrupted", was_interrupted},
                                       {"hasLostOutput", has_lost_output},
                                       {"makeFolder", mp_cli_make_folder},
                                       {"makeFolders", mp_cli_make_folders},
                                       {"isFolder", mp_cli_is_folder},
                                       {"namesIn", mp_cli_names_in},
                                       {NULL, NULL}};
  luaL_checkversion(L);
  luaL_newlib(L, functions);
  return 1;
}
