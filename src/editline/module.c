/*
** editline/: lines that are typed at a terminal, with the keys and the history of libedit. The Lua
** module moonpad.editline_core, which is built where libedit is there; the command does without.
** Belongs here: calls of libedit.
** Arrows: uses libedit, Lua and the C library only; lua/moonpad/cli/input.lua uses it.
*/
#include <errno.h>
#include <histedit.h>
#include <lauxlib.h>
#include <lua.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>
#include <wchar.h>

#include "moonpad.h"

#define EDITOR "moonpad.editline"

enum { HISTORY_LINES = 1000, PROMPT_BYTES = 32 };

typedef struct editor {
  EditLine *line;
  History *history;
  char prompt[PROMPT_BYTES];
  bool interrupted; /* a signal has ended the line */
} editor;

static editor *editor_of(EditLine *line) {
  void *data = NULL;
  el_get(line, EL_CLIENTDATA, &data);
  return data;
}

static char *prompt_of(EditLine *line) {
  return editor_of(line)->prompt;
}

/*
** Waits for a byte; false when a signal came first. SIGINT is let in while it waits only: a line
** that is being read has it blocked, so that one between the prompt and here is not lost.
*/
static bool wait_for_byte(void) {
  fd_set input;
  sigset_t mask;
  FD_ZERO(&input);
  FD_SET(STDIN_FILENO, &input);
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  sigdelset(&mask, SIGINT);
  return pselect(STDIN_FILENO + 1, &input, NULL, NULL, NULL, &mask) > 0;
}

/* The next character for libedit: 1, 0 at the end, -1 when a signal came. */
static int next_character(EditLine *line, wchar_t *character) {
  mbstate_t state;
  memset(&state, 0, sizeof state);
  for (;;) {
    char byte;
    if (!wait_for_byte()) {
      if (errno != EINTR) return -1;
      editor_of(line)->interrupted = true;
      return -1;
    }
    if (read(STDIN_FILENO, &byte, 1) != 1) return 0;
    size_t used = mbrtowc(character, &byte, 1, &state);
    if (used == (size_t)-2) continue; /* more bytes belong to it */
    if (used == (size_t)-1) *character = L'?';
    return 1;
  }
}

/* open([path]): an editor; earlier lines come from the file. */
static int open_editor(lua_State *L) {
  const char *path = luaL_optstring(L, 1, NULL);
  HistEvent event;
  editor *self = lua_newuserdatauv(L, sizeof *self, 0);
  memset(self, 0, sizeof *self);
  luaL_setmetatable(L, EDITOR);
  self->line = el_init("moonpad", stdin, stdout, stderr);
  self->history = history_init();
  if (self->line == NULL || self->history == NULL) return luaL_error(L, "the terminal cannot be edited");
  el_set(self->line, EL_CLIENTDATA, self);
  el_set(self->line, EL_PROMPT, prompt_of);
  el_set(self->line, EL_EDITOR, "emacs");
  el_set(self->line, EL_BIND, "\t", "ed-insert", NULL); /* text that is pasted may hold tabs */
  el_set(self->line, EL_GETCFN, next_character);
  el_set(self->line, EL_HIST, history, self->history);
  history(self->history, &event, H_SETSIZE, HISTORY_LINES);
  history(self->history, &event, H_SETUNIQUE, 1);
  if (path != NULL) history(self->history, &event, H_LOAD, path);
  return 1;
}

/*
** editor:read(prompt): the line that is typed, without its end; nil at the end of the input; false
** when a signal has ended it.
*/
static int read_line(lua_State *L) {
  editor *self = luaL_checkudata(L, 1, EDITOR);
  size_t length;
  const char *prompt = luaL_checklstring(L, 2, &length);
  luaL_argcheck(L, length < PROMPT_BYTES && strlen(prompt) == length, 2, "too long");
  luaL_argcheck(L, self->line != NULL, 1, "closed");
  memcpy(self->prompt, prompt, length + 1);
  self->interrupted = false;
  el_resize(self->line); /* the window may be another size by now */
  int count = 0;
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  /* By itself libedit does that after the prompt: a Ctrl-D in between would be lost. */
  el_set(self->line, EL_PREP_TERM, 1);
  const char *text = el_gets(self->line, &count);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (self->interrupted) {
    el_reset(self->line);
    lua_pushboolean(L, 0);
  } else if (text == NULL || count <= 0) {
    lua_pushnil(L);
  } else {
    lua_pushlstring(L, text, (size_t)count - (text[count - 1] == '\n'));
  }
  return 1;
}

/* editor:remember(line [, path]): keeps a line for later, also in the file. */
static int remember(lua_State *L) {
  editor *self = luaL_checkudata(L, 1, EDITOR);
  const char *line = luaL_checkstring(L, 2), *path = luaL_optstring(L, 3, NULL);
  HistEvent event;
  luaL_argcheck(L, self->line != NULL, 1, "closed");
  history(self->history, &event, H_ENTER, line);
  if (path != NULL) history(self->history, &event, H_SAVE, path);
  return 0;
}

static int close_editor(lua_State *L) {
  editor *self = luaL_checkudata(L, 1, EDITOR);
  if (self->history != NULL) history_end(self->history);
  if (self->line != NULL) el_end(self->line);
  self->line = NULL;
  self->history = NULL;
  return 0;
}

MOONPAD_API int luaopen_moonpad_editline_core(lua_State *L);

int luaopen_moonpad_editline_core(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"read", read_line}, {"remember", remember}, {"close", close_editor}, {"__gc", close_editor}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"open", open_editor}, {NULL, NULL}};
  luaL_checkversion(L);
  luaL_newmetatable(L, EDITOR);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  luaL_newlib(L, functions);
  return 1;
}
