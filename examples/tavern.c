/*
** A tavern: a game loop in C, sixty frames a second, in which an agent written in Lua lives. What
** you type is said to the agent. No frame waits for its model, its tools or the disk.
**
**   cc -o tavern examples/tavern.c $(pkg-config --cflags --libs moonpad-lua)
**   ./tavern AGENT.lua [FILE.db]
**
** The agent's file is one that `moonpad run` takes. /save keeps the game as it is, /load goes back
** to it, /quit ends. After each answer C reads a key of the state, `owed`, without any Lua.
*/
#define _POSIX_C_SOURCE 200809L

#include <lauxlib.h>
#include <lualib.h>
#include <moonpad_lua.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_NANOSECONDS = 1000000000 / 60, LINE_BYTES = 4096 };

static const char APP[] = "tavern", PLAYER[] = "player", NOW[] = "now", SAVED[] = "saved";

typedef struct game {
  lua_State *L;             /* the runner is at 1 in its stack, its session service at 2 */
  moonpad_service *service; /* the same service, for C; the runner owns it */
  moonpad_lua_run *run;     /* NULL: nobody is thinking */
  char line[LINE_BYTES];    /* what has been typed of a line */
  size_t typed;
  bool streaming; /* the last event was a piece of an answer */
  bool over;
  double worst_step; /* seconds */
} game;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool check(moonpad_status status, const moonpad_error *error) {
  if (status != MOONPAD_OK) printf("(%s: %s)\n", moonpad_status_name(status), error->message);
  return status == MOONPAD_OK;
}

/* ---- Opening: the only Lua that the host needs ---- */

static const char open_runner[] =
    "local path, url = ...\n"
    "local moonpad = require 'moonpad'\n"
    "package.path = (path:match '^(.*)/' or '.') .. '/?.lua;' .. package.path\n"
    "local runner = moonpad.runner { appName = 'tavern', agent = dofile(path), url = url }\n"
    "return runner, runner.sessionService\n";

static bool open_game(game *self, const char *agent, const char *file) {
  lua_State *L = self->L = luaL_newstate();
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_pushcfunction(L, luaopen_moonpad);
  lua_setfield(L, -2, "moonpad");
  lua_settop(L, 0);
  int status = luaL_loadstring(L, open_runner);
  lua_pushstring(L, agent);
  lua_pushfstring(L, "sqlite:%s", file);
  if (status == LUA_OK) status = lua_pcall(L, 2, 2, 0);
  if (status != LUA_OK) {
    fprintf(stderr, "tavern: %s\n", luaL_tolstring(L, -1, NULL));
    return false;
  }
  self->service = moonpad_lua_to_service(L, 2);
  return true;
}

static void close_game(game *self) {
  moonpad_lua_run_free(self->L, self->run);
  lua_close(self->L); /* closes the runner and its services */
}

/* ---- Talking ---- */

static void say(game *self, const char *text) {
  moonpad_error error;
  moonpad_lua_run_options options;
  moonpad_lua_run_options_init(&options);
  options.user_id = moonpad_text(PLAYER);
  options.session_id = moonpad_text(NOW);
  options.new_message = moonpad_text(text); /* any text: nothing has to be quoted */
  check(moonpad_lua_run_start(self->L, 1, &options, &self->run, &error), &error);
}

static moonpad_session *session_of(game *self, const char *id) {
  moonpad_error error;
  moonpad_session *session = NULL;
  moonpad_session_name name = {moonpad_text(APP), moonpad_text(PLAYER), moonpad_text(id)};
  return moonpad_get_session(self->service, &name, NULL, &session, &error) == MOONPAD_OK ? session : NULL;
}

/* What the game itself wants to know of the agent's state. */
static void show_debt(game *self) {
  moonpad_error error;
  moonpad_value owed;
  moonpad_session *session = session_of(self, NOW);
  if (session == NULL) return;
  moonpad_status status = moonpad_session_read(session, moonpad_text("owed"), moonpad_text(""), &owed, &error);
  if (status == MOONPAD_OK && owed.type == MOONPAD_INTEGER) printf("[you owe %lld]\n", (long long)owed.as.integer);
  moonpad_session_free(session);
}

/* A value in an event. A text is good as long as `scratch` is. */
static moonpad_value read_event(moonpad_string event, const char *path, moonpad_buffer *scratch) {
  moonpad_value value;
  moonpad_error error;
  check(moonpad_json_read(event, moonpad_text(path), scratch, &value, &error), &error);
  return value;
}

/*
** What the agent says. A model that streams says it piece by piece, in events that are partial, and
** then once more as a whole, which is what is stored.
*/
static void hear(game *self, moonpad_string event) {
  moonpad_buffer scratch = {0};
  moonpad_value value = read_event(event, "partial", &scratch);
  bool partial = value.type == MOONPAD_BOOLEAN && value.as.boolean;
  moonpad_value text = read_event(event, "content.parts[1].text", &scratch);
  if (text.type == MOONPAD_STRING && (partial || !self->streaming)) {
    printf("%.*s", (int)text.as.text.length, text.as.text.data);
    fflush(stdout);
  }
  if (text.type == MOONPAD_STRING && !partial) putchar('\n');
  self->streaming = partial;
  moonpad_buffer_free(&scratch);
}

/* Once a frame. */
static void think(game *self) {
  moonpad_error error;
  moonpad_string event;
  moonpad_lua_progress progress = MOONPAD_LUA_RUN_DONE;
  double begun = seconds();
  bool ok = check(moonpad_lua_run_step(self->L, self->run, &progress, &event, &error), &error);
  double took = seconds() - begun;
  if (took > self->worst_step) self->worst_step = took;
  if (ok && progress == MOONPAD_LUA_RUN_EVENT) hear(self, event);
  if (ok && progress != MOONPAD_LUA_RUN_DONE) return;
  moonpad_lua_run_free(self->L, self->run);
  self->run = NULL;
  show_debt(self);
}

/* ---- Saving: a session with all its events and its state is copied under another name ---- */

static void copy_session(game *self, const char *from, const char *to) {
  moonpad_error error;
  moonpad_session_name target = {moonpad_text(APP), moonpad_text(PLAYER), moonpad_text(to)};
  moonpad_session *session = session_of(self, from), *copy = NULL;
  if (session == NULL) {
    puts("(there is nothing to copy)");
    return;
  }
  if (check(moonpad_delete_session(self->service, &target, NULL, &error), &error) &&
      check(moonpad_fork(session, moonpad_session_revision(session), moonpad_text(to), &copy, &error), &error)) {
    printf("(%s is now a copy of %s)\n", to, from);
  }
  moonpad_session_free(copy);
  moonpad_session_free(session);
}

/* ---- The player ---- */

static void obey(game *self, const char *line) {
  if (strcmp(line, "/quit") == 0) {
    self->over = true;
  } else if (strcmp(line, "/save") == 0) {
    copy_session(self, NOW, SAVED);
  } else if (strcmp(line, "/load") == 0) {
    copy_session(self, SAVED, NOW);
  } else if (*line != '\0') {
    say(self, line);
  }
}

/* Takes what has been typed, without waiting for more. */
static void listen_to_player(game *self) {
  struct pollfd input = {STDIN_FILENO, POLLIN, 0};
  char byte;
  while (self->run == NULL && !self->over && poll(&input, 1, 0) > 0) {
    if (read(STDIN_FILENO, &byte, 1) != 1) byte = '\0';
    if (byte == '\0') self->over = true; /* the end of the input */
    if (byte != '\n' && byte != '\0') {
      if (self->typed < LINE_BYTES - 1) self->line[self->typed++] = byte;
      continue;
    }
    self->line[self->typed] = '\0';
    self->typed = 0;
    obey(self, self->line);
  }
}

int main(int argc, char **argv) {
  static const struct timespec frame = {0, FRAME_NANOSECONDS};
  static game self;
  long frames = 0;
  if (argc < 2 || argc > 3) {
    fputs("usage: tavern AGENT.lua [FILE.db]\n", stderr);
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  bool ok = open_game(&self, argv[1], argc == 3 ? argv[2] : "tavern.db");
  /* What was said last is answered before the game ends. */
  for (; ok && (!self.over || self.run != NULL); frames++) {
    listen_to_player(&self);
    if (self.run != NULL) think(&self);
    nanosleep(&frame, NULL); /* here a game draws */
  }
  if (ok) printf("%ld frames, the longest step of an agent took %.2f ms\n", frames, self.worst_step * 1000);
  close_game(&self);
  return ok ? 0 : 1;
}
