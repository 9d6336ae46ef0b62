/*
** The C side of a page: a Lua state with moonpad in it, and what JavaScript calls. `make web`
** compiles it with emcc; docs/embedding.md says what to copy for a page of your own.
**
** The page's Lua file gets the URL of its store and returns a table: `runner` is what host_say
** runs, in the session `sessionId` of the user `userId`; its functions are what host_ask calls. Any
** of them may fail: then host_text says why.
*/
#include <emscripten.h>
#include <lauxlib.h>
#include <lualib.h>
#include <moonpad_lua.h>

static lua_State *L; /* the file's table is at 1 in its stack, what host_text says at 2 */
static moonpad_lua_run *run;

/* What is at the top of the stack. */
static void tell_top(void) {
  luaL_tolstring(L, -1, NULL);
  lua_replace(L, 2);
  lua_settop(L, 2);
}

static void tell(moonpad_string text) {
  lua_pushlstring(L, text.data, text.length);
  tell_top();
}

static bool check(moonpad_status status, const moonpad_error *error) {
  if (status != MOONPAD_OK) tell(moonpad_text(error->message));
  return status == MOONPAD_OK;
}

/* The last answer, event or error. */
EMSCRIPTEN_KEEPALIVE const char *host_text(void) {
  return lua_tostring(L, 2);
}

EMSCRIPTEN_KEEPALIVE bool host_open(const char *source, const char *url) {
  L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "moonpad", luaopen_moonpad, 0);
  lua_settop(L, 2);
  int status = luaL_loadbuffer(L, source, strlen(source), "=npc.lua");
  lua_pushstring(L, url);
  if (status == LUA_OK) status = lua_pcall(L, 1, 1, 0);
  lua_copy(L, -1, 1);
  tell_top();
  return status == LUA_OK;
}

/* A function of the table, with a text in and a text out. */
EMSCRIPTEN_KEEPALIVE bool host_ask(const char *name, const char *text) {
  lua_getfield(L, 1, name);
  lua_pushstring(L, text);
  int status = lua_pcall(L, 1, 1, 0);
  tell_top();
  return status == LUA_OK;
}

/* ---- A run, a step of it in each frame ---- */

static void end_run(void) {
  moonpad_lua_run_free(L, run);
  run = NULL;
}

EMSCRIPTEN_KEEPALIVE bool host_say(const char *text) {
  moonpad_error error;
  moonpad_lua_run_options options;
  moonpad_lua_run_options_init(&options);
  end_run();
  lua_getfield(L, 1, "userId");
  lua_getfield(L, 1, "sessionId");
  lua_getfield(L, 1, "runner");
  options.user_id = moonpad_text(lua_tostring(L, -3));
  options.session_id = moonpad_text(lua_tostring(L, -2));
  options.new_message = moonpad_text(text);
  bool is_started = check(moonpad_lua_run_start(L, -1, &options, &run, &error), &error);
  lua_settop(L, 2);
  return is_started;
}

/* A moonpad_lua_progress, or -1: it has failed. An event, as JSON, is then in host_text. */
EMSCRIPTEN_KEEPALIVE int host_step(void) {
  moonpad_error error;
  moonpad_string event;
  moonpad_lua_progress progress;
  bool is_well = check(moonpad_lua_run_step(L, run, &progress, &event, &error), &error);
  if (is_well && progress == MOONPAD_LUA_RUN_EVENT) tell(event);
  if (!is_well || progress == MOONPAD_LUA_RUN_DONE) end_run();
  return is_well ? (int)progress : -1;
}

/* What is stored stays; the next step is the last. */
EMSCRIPTEN_KEEPALIVE void host_stop(void) {
  if (run != NULL) moonpad_lua_run_cancel(L, run, NULL);
}
