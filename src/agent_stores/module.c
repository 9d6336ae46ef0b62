/*
** The Lua module `moonpad.agent_stores_core`: the stores of artifacts and of memories as userdata.
** It stands alone, so that the core does without them. What goes wrong comes back as nil, message,
** code; only wrong arguments raise, which lua/moonpad/artifacts.lua and memory.lua, what people
** use, have checked before.
*/
#include <lauxlib.h>
#include <lua.h>

#include "agent_stores/artifacts.h"
#include "agent_stores/memories.h"
#include "base/error.h"

#define ARTIFACTS_TYPE "moonpad.artifacts"
#define MEMORIES_TYPE  "moonpad.memories"

/* NULL in both: not opened, or collected. */
typedef struct artifacts_handle {
  mp_env *env;
  mp_artifacts *store;
} artifacts_handle;

typedef struct memories_handle {
  mp_env *env;
  mp_memories *store;
} memories_handle;

/* ---- Results ---- */

static int push_failure(lua_State *L, const moonpad_error *error) {
  lua_pushnil(L);
  lua_pushstring(L, error->message);
  lua_pushstring(L, moonpad_status_name(error->code));
  return 3;
}

static int push_closed(lua_State *L) {
  moonpad_error error;
  mp_fail(&error, MOONPAD_CLOSED, "the service is closed");
  return push_failure(L, &error);
}

/* What was found, until it is in Lua. */
typedef struct result {
  moonpad_status status;
  moonpad_error error;
  mp_buffer buffer;
  mp_artifact artifact;
  bool found;
} result;

/*
** Pushes what was found, with `push`, or the failure; frees the buffer, also where Lua has no
** memory for it: pushing a function and a pointer takes none.
*/
static int push_result(lua_State *L, lua_CFunction push, result *found) {
  int top = lua_gettop(L);
  lua_pushcfunction(L, push);
  lua_pushlightuserdata(L, found);
  int code = found->status == MOONPAD_OK ? lua_pcall(L, 1, 1, 0) : LUA_OK;
  mp_buffer_free(&found->buffer);
  if (code != LUA_OK) return lua_error(L);
  if (found->status == MOONPAD_OK) return 1;
  lua_settop(L, top);
  return push_failure(L, &found->error);
}

static void set_string(lua_State *L, const char *field, moonpad_string text) {
  lua_pushlstring(L, text.length == 0 ? "" : text.data, text.length);
  lua_setfield(L, -2, field);
}

/* ---- Arguments ---- */

static moonpad_string check_string(lua_State *L, int index) {
  moonpad_string text;
  luaL_checktype(L, index, LUA_TSTRING);
  text.data = lua_tolstring(L, index, &text.length);
  return text;
}

/* NAME(url, durability, busyTimeoutMs) */
static moonpad_options read_options(lua_State *L) {
  static const char *const durabilities[] = {"full", "normal", NULL};
  moonpad_options options;
  moonpad_options_init(&options);
  options.durability = (moonpad_durability)luaL_checkoption(L, 2, NULL, durabilities);
  options.busy_timeout_ms = luaL_checkinteger(L, 3);
  return options;
}

/* ---- Artifacts ---- */

/* artifacts(url, durability, busyTimeoutMs) */
static int open_artifacts(lua_State *L) {
  moonpad_string url = check_string(L, 1);
  moonpad_options options = read_options(L);
  moonpad_error error;
  artifacts_handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  *handle = (artifacts_handle){NULL, NULL};
  luaL_setmetatable(L, ARTIFACTS_TYPE);
  handle->env = mp_env_new(NULL);
  moonpad_status status = handle->env == NULL ? mp_no_memory(&error)
                                              : mp_artifacts_open(handle->env, url, &options, &handle->store, &error);
  return status == MOONPAD_OK ? 1 : push_failure(L, &error);
}

static int artifacts_gc(lua_State *L) {
  artifacts_handle *handle = luaL_checkudata(L, 1, ARTIFACTS_TYPE);
  artifacts_handle held = *handle;
  *handle = (artifacts_handle){NULL, NULL};
  if (held.store != NULL) held.store->ops->free(held.store);
  mp_env_release(held.env);
  return 0;
}

static int artifacts_close(lua_State *L) {
  const artifacts_handle *handle = luaL_checkudata(L, 1, ARTIFACTS_TYPE);
  if (handle->store != NULL) handle->store->ops->close(handle->store);
  return 0;
}

/* At 2, 3, 4, 5; a session id that is nil means the user's own. */
static mp_artifact_name read_name(lua_State *L, bool has_filename) {
  mp_artifact_name name = {{NULL, 0}, {NULL, 0}, {"", 0}, {NULL, 0}};
  name.app_name = check_string(L, 2);
  name.user_id = check_string(L, 3);
  if (!lua_isnoneornil(L, 4)) name.session_id = check_string(L, 4);
  if (has_filename) name.filename = check_string(L, 5);
  return name;
}

/*
** artifacts:save(appName, userId, sessionId | nil, filename, text | nil, data | nil, mimeType |
** nil, displayName | nil) -> version
*/
static int save(lua_State *L) {
  const artifacts_handle *handle = luaL_checkudata(L, 1, ARTIFACTS_TYPE);
  lua_settop(L, 9);
  mp_artifact_name name = read_name(L, true);
  mp_artifact artifact = {false, {NULL, 0}, {NULL, 0}, false, {NULL, 0}};
  artifact.is_text = !lua_isnil(L, 6);
  artifact.data = check_string(L, artifact.is_text ? 6 : 7);
  if (!artifact.is_text) artifact.mime_type = check_string(L, 8);
  artifact.has_display_name = !lua_isnil(L, 9);
  if (artifact.has_display_name) artifact.display_name = check_string(L, 9);
  if (handle->store == NULL) return push_closed(L);
  int64_t version;
  double now;
  moonpad_error error;
  moonpad_status status = mp_now(handle->env, &now, &error);
  if (status == MOONPAD_OK) {
    status = handle->store->ops->save(handle->store, &name, &artifact, now, &version, &error);
  }
  if (status != MOONPAD_OK) return push_failure(L, &error);
  lua_pushinteger(L, version);
  return 1;
}

static int push_part(lua_State *L) {
  const result *loaded = lua_touserdata(L, 1);
  const mp_artifact *artifact = &loaded->artifact;
  if (!loaded->found) return 0;
  lua_createtable(L, 0, 1);
  if (artifact->is_text) {
    set_string(L, "text", artifact->data);
    return 1;
  }
  lua_createtable(L, 0, 3);
  set_string(L, "mimeType", artifact->mime_type);
  set_string(L, "data", artifact->data);
  if (artifact->has_display_name) set_string(L, "displayName", artifact->display_name);
  lua_setfield(L, -2, "inlineData");
  return 1;
}

/* artifacts:load(appName, userId, sessionId | nil, filename [, version]) -> part | nil */
static int load(lua_State *L) {
  const artifacts_handle *handle = luaL_checkudata(L, 1, ARTIFACTS_TYPE);
  lua_settop(L, 6);
  mp_artifact_name name = read_name(L, true);
  int64_t version = luaL_optinteger(L, 6, MP_ARTIFACT_LATEST);
  if (handle->store == NULL) return push_closed(L);
  result loaded;
  mp_buffer_init(&loaded.buffer, handle->env);
  loaded.status = handle->store->ops->load(handle->store, &name, version, &loaded.found, &loaded.artifact,
                                           &loaded.buffer, &loaded.error);
  return push_result(L, push_part, &loaded);
}

static int push_filenames(lua_State *L) {
  const result *listed = lua_touserdata(L, 1);
  const mp_buffer *filenames = &listed->buffer;
  lua_Integer count = 0;
  lua_newtable(L);
  for (size_t at = 0; at < filenames->length; at += strlen(filenames->data + at) + 1) {
    lua_pushstring(L, filenames->data + at);
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

/* artifacts:list(appName, userId, sessionId | nil) -> { filename, ... } */
static int list(lua_State *L) {
  const artifacts_handle *handle = luaL_checkudata(L, 1, ARTIFACTS_TYPE);
  lua_settop(L, 4);
  mp_artifact_name name = read_name(L, false);
  if (handle->store == NULL) return push_closed(L);
  result listed;
  mp_buffer_init(&listed.buffer, handle->env);
  listed.status = handle->store->ops->list(handle->store, &name, &listed.buffer, &listed.error);
  return push_result(L, push_filenames, &listed);
}

static int push_versions(lua_State *L) {
  const result *listed = lua_touserdata(L, 1);
  const mp_buffer *versions = &listed->buffer;
  lua_newtable(L);
  for (size_t at = 0; at < versions->length; at += sizeof(int64_t)) {
    int64_t version;
    memcpy(&version, versions->data + at, sizeof version);
    lua_pushinteger(L, version);
    lua_rawseti(L, -2, (lua_Integer)(at / sizeof version) + 1);
  }
  return 1;
}

/* artifacts:versions(appName, userId, sessionId | nil, filename) -> { version, ... } */
static int versions(lua_State *L) {
  const artifacts_handle *handle = luaL_checkudata(L, 1, ARTIFACTS_TYPE);
  lua_settop(L, 5);
  mp_artifact_name name = read_name(L, true);
  if (handle->store == NULL) return push_closed(L);
  result listed;
  mp_buffer_init(&listed.buffer, handle->env);
  listed.status = handle->store->ops->versions(handle->store, &name, &listed.buffer, &listed.error);
  return push_result(L, push_versions, &listed);
}

/* artifacts:delete(appName, userId, sessionId | nil, filename) -> existed */
static int delete_file(lua_State *L) {
  const artifacts_handle *handle = luaL_checkudata(L, 1, ARTIFACTS_TYPE);
  lua_settop(L, 5);
  mp_artifact_name name = read_name(L, true);
  if (handle->store == NULL) return push_closed(L);
  bool existed;
  moonpad_error error;
  moonpad_status status = handle->store->ops->delete_file(handle->store, &name, &existed, &error);
  if (status != MOONPAD_OK) return push_failure(L, &error);
  lua_pushboolean(L, existed);
  return 1;
}

/* artifacts:deleteUser(appName, userId) -> how many files */
static int delete_user_files(lua_State *L) {
  const artifacts_handle *handle = luaL_checkudata(L, 1, ARTIFACTS_TYPE);
  lua_settop(L, 3);
  mp_artifact_name name = read_name(L, false);
  if (handle->store == NULL) return push_closed(L);
  int64_t files;
  moonpad_error error;
  moonpad_status status = handle->store->ops->delete_user(handle->store, &name, &files, &error);
  if (status != MOONPAD_OK) return push_failure(L, &error);
  lua_pushinteger(L, files);
  return 1;
}

/* ---- Memories ---- */

/* memories(url, durability, busyTimeoutMs) */
static int open_memories(lua_State *L) {
  moonpad_string url = check_string(L, 1);
  moonpad_options options = read_options(L);
  moonpad_error error;
  memories_handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  *handle = (memories_handle){NULL, NULL};
  luaL_setmetatable(L, MEMORIES_TYPE);
  handle->env = mp_env_new(NULL);
  moonpad_status status =
      handle->env == NULL ? mp_no_memory(&error) : mp_memories_open(handle->env, url, &options, &handle->store, &error);
  return status == MOONPAD_OK ? 1 : push_failure(L, &error);
}

static int memories_gc(lua_State *L) {
  memories_handle *handle = luaL_checkudata(L, 1, MEMORIES_TYPE);
  memories_handle held = *handle;
  *handle = (memories_handle){NULL, NULL};
  if (held.store != NULL) held.store->ops->free(held.store);
  mp_env_release(held.env);
  return 0;
}

static int memories_close(lua_State *L) {
  const memories_handle *handle = luaL_checkudata(L, 1, MEMORIES_TYPE);
  if (handle->store != NULL) handle->store->ops->close(handle->store);
  return 0;
}

/* At 2, 3, 4, 5. */
static mp_memories_session read_session(lua_State *L) {
  return (mp_memories_session){check_string(L, 2), check_string(L, 3), check_string(L, 4), luaL_checknumber(L, 5)};
}

/* memories:indexed(appName, userId, sessionId, createTime) -> revision */
static int indexed(lua_State *L) {
  const memories_handle *handle = luaL_checkudata(L, 1, MEMORIES_TYPE);
  lua_settop(L, 5);
  mp_memories_session session = read_session(L);
  if (handle->store == NULL) return push_closed(L);
  int64_t revision;
  moonpad_error error;
  moonpad_status status = handle->store->ops->indexed(handle->store, &session, &revision, &error);
  if (status != MOONPAD_OK) return push_failure(L, &error);
  lua_pushinteger(L, revision);
  return 1;
}

/* The text of a field of the table at the top, which keeps it. */
static moonpad_string entry_text(lua_State *L, const char *field) {
  moonpad_string text;
  if (lua_getfield(L, -1, field) != LUA_TSTRING) luaL_error(L, "%s: expected a string", field);
  text.data = lua_tolstring(L, -1, &text.length);
  lua_pop(L, 1);
  return text;
}

static mp_memories_entry read_entry(lua_State *L) {
  mp_memories_entry entry;
  lua_getfield(L, -1, "revision");
  entry.revision = luaL_checkinteger(L, -1);
  lua_getfield(L, -2, "timestamp");
  entry.timestamp = luaL_checknumber(L, -1);
  lua_pop(L, 2);
  entry.author = entry_text(L, "author");
  entry.content = entry_text(L, "content");
  entry.text = entry_text(L, "text");
  return entry;
}

/* The list at `index`, whose tables keep the strings; the array is left on the stack. */
static const mp_memories_entry *read_entries(lua_State *L, int index, size_t *count) {
  luaL_checktype(L, index, LUA_TTABLE);
  *count = lua_rawlen(L, index);
  mp_memories_entry *entries = lua_newuserdatauv(L, (*count + 1) * sizeof *entries, 0);
  for (size_t i = 0; i < *count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    luaL_checktype(L, -1, LUA_TTABLE);
    entries[i] = read_entry(L);
    lua_pop(L, 1);
  }
  return entries;
}

static const int64_t *read_revisions(lua_State *L, int index, size_t *count) {
  luaL_checktype(L, index, LUA_TTABLE);
  *count = lua_rawlen(L, index);
  int64_t *revisions = lua_newuserdatauv(L, (*count + 1) * sizeof *revisions, 0);
  for (size_t i = 0; i < *count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    revisions[i] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  return revisions;
}

/*
** memories:write(appName, userId, sessionId, createTime, { { revision, timestamp, author, content,
** text }, ... }, { revision, ... }, indexed | nil) -> true
*/
static int write_batch(lua_State *L) {
  const memories_handle *handle = luaL_checkudata(L, 1, MEMORIES_TYPE);
  lua_settop(L, 8);
  luaL_checkstack(L, 8, NULL);
  mp_memories_session session = read_session(L);
  mp_memories_batch batch;
  batch.added = read_entries(L, 6, &batch.added_count);
  batch.removed = read_revisions(L, 7, &batch.removed_count);
  batch.indexed = luaL_optinteger(L, 8, -1);
  if (handle->store == NULL) return push_closed(L);
  moonpad_error error;
  moonpad_status status = handle->store->ops->write(handle->store, &session, &batch, &error);
  if (status != MOONPAD_OK) return push_failure(L, &error);
  lua_pushboolean(L, true);
  return 1;
}

static int push_matches(lua_State *L) {
  const result *searched = lua_touserdata(L, 1);
  mp_memories_match match;
  lua_Integer count = 0;
  lua_newtable(L);
  for (size_t at = 0; mp_memories_next_match(&searched->buffer, &at, &match);) {
    lua_createtable(L, 0, 4);
    set_string(L, "sessionId", match.session_id);
    set_string(L, "author", match.author);
    lua_pushnumber(L, match.timestamp);
    lua_setfield(L, -2, "timestamp");
    set_string(L, "content", match.content);
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

/* The list at `index`, which keeps the strings; the array is left on the stack. */
static const moonpad_string *read_phrases(lua_State *L, int index, size_t *count) {
  luaL_checktype(L, index, LUA_TTABLE);
  *count = lua_rawlen(L, index);
  moonpad_string *phrases = lua_newuserdatauv(L, (*count + 1) * sizeof *phrases, 0);
  for (size_t i = 0; i < *count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    phrases[i] = check_string(L, -1);
    lua_pop(L, 1);
  }
  return phrases;
}

/*
** memories:search(appName, userId, { phrase, ... }, limit) -> { { sessionId, author, timestamp,
** content = JSON }, ... }
*/
static int search(lua_State *L) {
  const memories_handle *handle = luaL_checkudata(L, 1, MEMORIES_TYPE);
  lua_settop(L, 5);
  mp_memories_query query;
  query.app_name = check_string(L, 2);
  query.user_id = check_string(L, 3);
  query.phrases = read_phrases(L, 4, &query.phrase_count);
  query.limit = luaL_checkinteger(L, 5);
  if (handle->store == NULL) return push_closed(L);
  result searched;
  mp_buffer_init(&searched.buffer, handle->env);
  searched.status = handle->store->ops->search(handle->store, &query, &searched.buffer, &searched.error);
  return push_result(L, push_matches, &searched);
}

/* memories:deleteUser(appName, userId) -> how many */
static int delete_user_memories(lua_State *L) {
  const memories_handle *handle = luaL_checkudata(L, 1, MEMORIES_TYPE);
  moonpad_string app_name = check_string(L, 2), user_id = check_string(L, 3);
  if (handle->store == NULL) return push_closed(L);
  int64_t count;
  moonpad_error error;
  moonpad_status status = handle->store->ops->delete_user(handle->store, app_name, user_id, &count, &error);
  if (status != MOONPAD_OK) return push_failure(L, &error);
  lua_pushinteger(L, count);
  return 1;
}

/* ---- The module ---- */

static void make_type(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction gc) {
  if (luaL_newmetatable(L, name)) {
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
  }
  lua_pop(L, 1);
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_moonpad_agent_stores_core(lua_State *L);

int luaopen_moonpad_agent_stores_core(lua_State *L) {
  static const luaL_Reg artifacts_methods[] = {{"save", save},
                                               {"load", load},
                                               {"list", list},
                                               {"versions", versions},
                                               {"delete", delete_file},
                                               {"deleteUser", delete_user_files},
                                               {"close", artifacts_close},
                                               {NULL, NULL}};
  static const luaL_Reg memories_methods[] = {{"indexed", indexed},      {"write", write_batch},
                                              {"search", search},        {"deleteUser", delete_user_memories},
                                              {"close", memories_close}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"artifacts", open_artifacts}, {"memories", open_memories}, {NULL, NULL}};
  luaL_checkversion(L);
  make_type(L, ARTIFACTS_TYPE, artifacts_methods, artifacts_gc);
  make_type(L, MEMORIES_TYPE, memories_methods, memories_gc);
  luaL_newlib(L, functions);
  return 1;
}
