/*
** What the artifact and memory services of lua/moonpad stand on: their tables in a SQLite file, as one userdata. Arguments are positional and have been checked in Lua; wrong ones
** raise here all the same.
*/
#include "lua/keep.h"

#include "lua/arguments.h"
#include "lua/clock.h"
#include "store/sqlite_keep.h"

#define TYPE_NAME "moonpad.keep"

typedef struct keep {
  mp_store *store; /* NULL: not opened, or collected */
} keep;

/* ---- Opening and closing ---- */

static keep *check_keep(lua_State *L) {
  keep *handle = luaL_checkudata(L, 1, TYPE_NAME);
  if (handle->store == NULL) mp_raise_status(L, MOONPAD_CLOSED, "the service is closed");
  return handle;
}

static bool begins_with(moonpad_string text, const char *prefix) {
  size_t length = strlen(prefix);
  return text.length >= length && memcmp(text.data, prefix, length) == 0;
}

/* The path of a URL. Only the scheme is named in messages: the rest may hold a password. */
static moonpad_string path_of_url(lua_State *L, const char *what, moonpad_string url) {
  if (url.length == 7 && begins_with(url, "memory:")) return moonpad_text(":memory:");
  if (begins_with(url, "memory:")) {
    mp_raise_argument(L, "%s: memory: takes no name: each service in memory is one of its own", what);
  }
  if (begins_with(url, "sqlite:")) return (moonpad_string){url.data + 7, url.length - 7};
  const char *colon = memchr(url.data, ':', url.length);
  if (colon == NULL) {
    mp_raise_status(L, MOONPAD_UNSUPPORTED,
                    "%s: the URL has no scheme: write \"sqlite:PATH\" or \"memory:\" (built in are memory: and "
                    "sqlite:)",
                    what);
  }
  mp_quoted scheme = mp_quote((moonpad_string){url.data, (size_t)(colon - url.data) + 1});
  mp_raise_status(L, MOONPAD_UNSUPPORTED, "%s: %s: not served; built in are memory: and sqlite:", what, scheme.text);
}

typedef moonpad_status (*prepare)(mp_store *store, moonpad_error *error);

/* core.NAME(url [, config]) */
static int open_keep(lua_State *L, const char *what, const char *const *later, prepare make_tables) {
  static const char *const known[] = {"durability", "busyTimeoutMs", NULL};
  static const char *const durabilities[] = {"full", "normal", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_options options;
  moonpad_options_init(&options);
  lua_settop(L, 2);
  moonpad_string url = mp_argument_string(L, 1, what, "url");
  if (!lua_isnil(L, 2)) {
    mp_refuse_later_fields(L, 2, what, later);
    mp_options_table config = mp_check_options(L, 2, what, known);
    options.durability = (moonpad_durability)mp_field_choice(config, "durability", durabilities, 0);
    mp_field_integer(config, "busyTimeoutMs", &options.busy_timeout_ms);
    if (options.busy_timeout_ms < 0) mp_raise_argument(L, "%s: busyTimeoutMs: must not be negative", what);
  }
  moonpad_string path = path_of_url(L, what, url);
  keep *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  handle->store = NULL;
  luaL_setmetatable(L, TYPE_NAME);
  moonpad_error error;
  mp_check(L, mp_keep_open(binding->env, path, &options, &handle->store, &error), &error);
  mp_check(L, make_tables(handle->store, &error), &error);
  mp_keep_be_brief(handle->store);
  return 1;
}

static int open_artifacts(lua_State *L) {
  static const char *const later[] = {"artifactTtlSeconds", NULL};
  return open_keep(L, "artifactService", later, mp_artifacts_prepare);
}

static int open_memories(lua_State *L) {
  static const char *const later[] = {"memoryTtlSeconds", NULL};
  return open_keep(L, "memoryService", later, mp_memories_prepare);
}

static int keep_close(lua_State *L) {
  const keep *handle = luaL_checkudata(L, 1, TYPE_NAME);
  mp_keep_close(handle->store);
  return 0;
}

static int keep_gc(lua_State *L) {
  keep *handle = luaL_checkudata(L, 1, TYPE_NAME);
  mp_store *store = handle->store;
  handle->store = NULL;
  mp_keep_free(store);
  return 0;
}

/* ---- Artifacts ---- */

/* At 2, 3, 4, 5; a session id that is nil means the user's own. */
static mp_artifact_name read_name(lua_State *L, const char *where, bool has_filename) {
  mp_artifact_name name = {{NULL, 0}, {NULL, 0}, {"", 0}, {NULL, 0}};
  name.app_name = mp_argument_string(L, 2, where, "appName");
  name.user_id = mp_argument_string(L, 3, where, "userId");
  if (!lua_isnoneornil(L, 4)) name.session_id = mp_argument_string(L, 4, where, "sessionId");
  if (has_filename) name.filename = mp_argument_string(L, 5, where, "filename");
  return name;
}

/* keep:save(appName, userId, sessionId | nil, filename, text | nil, data | nil, mimeType | nil, displayName | nil) -> version */
static int save(lua_State *L) {
  static const char where[] = "save";
  keep *handle = check_keep(L);
  lua_settop(L, 9);
  mp_artifact_name name = read_name(L, where, true);
  mp_artifact artifact = {false, {NULL, 0}, {NULL, 0}, false, {NULL, 0}};
  artifact.is_text = !lua_isnil(L, 6);
  artifact.data = mp_argument_string(L, artifact.is_text ? 6 : 7, where, "data");
  if (!artifact.is_text) artifact.mime_type = mp_argument_string(L, 8, where, "mimeType");
  artifact.has_display_name = !lua_isnil(L, 9);
  if (artifact.has_display_name) artifact.display_name = mp_argument_string(L, 9, where, "displayName");
  int64_t version;
  moonpad_error error;
  double now = mp_check_now(L, mp_lua_of(L)->env);
  mp_check(L, mp_artifacts_save(handle->store, &name, &artifact, now, &version, &error), &error);
  lua_pushinteger(L, version);
  return 1;
}

static void set_string(lua_State *L, const char *field, moonpad_string text) {
  lua_pushlstring(L, text.length == 0 ? "" : text.data, text.length);
  lua_setfield(L, -2, field);
}

static void push_part(lua_State *L, const mp_artifact *artifact) {
  lua_createtable(L, 0, 1);
  if (artifact->is_text) {
    set_string(L, "text", artifact->data);
    return;
  }
  lua_createtable(L, 0, 3);
  set_string(L, "mimeType", artifact->mime_type);
  set_string(L, "data", artifact->data);
  if (artifact->has_display_name) set_string(L, "displayName", artifact->display_name);
  lua_setfield(L, -2, "inlineData");
}

/* keep:load(appName, userId, sessionId | nil, filename [, version]) -> part | nil */
static int load(lua_State *L) {
  static const char where[] = "load";
  keep *handle = check_keep(L);
  lua_settop(L, 6);
  mp_artifact_name name = read_name(L, where, true);
  int64_t version = lua_isnil(L, 6) ? MP_ARTIFACT_LATEST : mp_argument_integer(L, 6, where, "version");
  mp_buffer *bytes = mp_box_push_buffer(L, mp_lua_of(L));
  mp_artifact artifact;
  bool found;
  moonpad_error error;
  mp_check(L, mp_artifacts_load(handle->store, &name, version, &found, &artifact, bytes, &error), &error);
  if (!found) return 0;
  push_part(L, &artifact);
  mp_box_release(bytes);
  return 1;
}

/* keep:list(appName, userId, sessionId | nil) -> { filename, ... } */
static int list(lua_State *L) {
  keep *handle = check_keep(L);
  lua_settop(L, 4);
  mp_artifact_name name = read_name(L, "list", false);
  mp_buffer *filenames = mp_box_push_buffer(L, mp_lua_of(L));
  moonpad_error error;
  mp_check(L, mp_artifacts_list(handle->store, &name, filenames, &error), &error);
  lua_newtable(L);
  lua_Integer count = 0;
  for (size_t at = 0; at < filenames->length; at += strlen(filenames->data + at) + 1) {
    lua_pushstring(L, filenames->data + at);
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

/* keep:versions(appName, userId, sessionId | nil, filename) -> { version, ... } */
static int versions(lua_State *L) {
  keep *handle = check_keep(L);
  lua_settop(L, 5);
  mp_artifact_name name = read_name(L, "versions", true);
  mp_buffer *found = mp_box_push_buffer(L, mp_lua_of(L));
  moonpad_error error;
  mp_check(L, mp_artifacts_versions(handle->store, &name, found, &error), &error);
  lua_newtable(L);
  for (size_t at = 0; at < found->length; at += sizeof(int64_t)) {
    int64_t version;
    memcpy(&version, found->data + at, sizeof version);
    lua_pushinteger(L, version);
    lua_rawseti(L, -2, (lua_Integer)(at / sizeof version) + 1);
  }
  return 1;
}

/* keep:delete(appName, userId, sessionId | nil, filename) -> existed */
static int delete_file(lua_State *L) {
  keep *handle = check_keep(L);
  lua_settop(L, 5);
  mp_artifact_name name = read_name(L, "delete", true);
  bool existed;
  moonpad_error error;
  mp_check(L, mp_artifacts_delete(handle->store, &name, &existed, &error), &error);
  lua_pushboolean(L, existed);
  return 1;
}

/* ---- Memories ---- */

/* At 2, 3, 4, 5. */
static mp_memory_session read_session(lua_State *L, const char *where) {
  mp_memory_session session;
  session.app_name = mp_argument_string(L, 2, where, "appName");
  session.user_id = mp_argument_string(L, 3, where, "userId");
  session.session_id = mp_argument_string(L, 4, where, "sessionId");
  session.create_time = luaL_checknumber(L, 5);
  return session;
}

/* keep:indexed(appName, userId, sessionId, createTime) -> revision */
static int indexed(lua_State *L) {
  keep *handle = check_keep(L);
  lua_settop(L, 5);
  mp_memory_session session = read_session(L, "indexed");
  int64_t revision;
  moonpad_error error;
  mp_check(L, mp_memories_indexed(handle->store, &session, &revision, &error), &error);
  lua_pushinteger(L, revision);
  return 1;
}

/* The text of a field of the table at the top, which keeps it. */
static moonpad_string entry_text(lua_State *L, const char *field) {
  moonpad_string text;
  if (lua_getfield(L, -1, field) != LUA_TSTRING) mp_raise_argument(L, "remember: %s: expects a string", field);
  text.data = lua_tolstring(L, -1, &text.length);
  lua_pop(L, 1);
  return text;
}

static mp_memory read_entry(lua_State *L) {
  mp_memory entry;
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
static const mp_memory *read_entries(lua_State *L, int index, size_t *count) {
  luaL_checktype(L, index, LUA_TTABLE);
  *count = lua_rawlen(L, index);
  mp_memory *entries = lua_newuserdatauv(L, (*count + 1) * sizeof *entries, 0);
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

/* keep:remember(appName, userId, sessionId, createTime, { { revision, timestamp, author, content, text }, ... }, { revision, ... }, indexed | nil) */
static int remember(lua_State *L) {
  keep *handle = check_keep(L);
  lua_settop(L, 8);
  luaL_checkstack(L, 8, NULL);
  mp_memory_session session = read_session(L, "remember");
  mp_memory_batch batch;
  batch.added = read_entries(L, 6, &batch.added_count);
  batch.removed = read_revisions(L, 7, &batch.removed_count);
  batch.indexed = luaL_optinteger(L, 8, -1);
  moonpad_error error;
  mp_check(L, mp_memories_write(handle->store, &session, &batch, &error), &error);
  return 0;
}

static moonpad_string next_field(const mp_buffer *found, size_t *at) {
  moonpad_string field;
  memcpy(&field.length, found->data + *at, sizeof field.length);
  field.data = found->data + *at + sizeof field.length;
  *at += sizeof field.length + field.length;
  return field;
}

static void push_memory(lua_State *L, const mp_buffer *found, size_t *at) {
  double timestamp;
  lua_createtable(L, 0, 4);
  set_string(L, "sessionId", next_field(found, at));
  set_string(L, "author", next_field(found, at));
  memcpy(&timestamp, next_field(found, at).data, sizeof timestamp);
  lua_pushnumber(L, timestamp);
  lua_setfield(L, -2, "timestamp");
  set_string(L, "content", next_field(found, at));
}

static const moonpad_string *read_phrases(lua_State *L, int index, size_t *count) {
  luaL_checktype(L, index, LUA_TTABLE);
  *count = lua_rawlen(L, index);
  moonpad_string *phrases = lua_newuserdatauv(L, (*count + 1) * sizeof *phrases, 0);
  for (size_t i = 0; i < *count; i++) {
    if (lua_rawgeti(L, index, (lua_Integer)i + 1) != LUA_TSTRING) mp_raise_argument(L, "recall: expects strings");
    phrases[i].data = lua_tolstring(L, -1, &phrases[i].length);
    lua_pop(L, 1);
  }
  return phrases;
}

/* keep:recall(appName, userId, { phrase, ... }, limit) -> { { sessionId, author, timestamp, content = JSON }, ... } */
static int recall(lua_State *L) {
  static const char where[] = "recall";
  keep *handle = check_keep(L);
  lua_settop(L, 5);
  moonpad_string app_name = mp_argument_string(L, 2, where, "appName");
  moonpad_string user_id = mp_argument_string(L, 3, where, "userId");
  size_t count;
  const moonpad_string *phrases = read_phrases(L, 4, &count);
  int64_t limit = mp_argument_integer(L, 5, where, "limit");
  mp_buffer *found = mp_box_push_buffer(L, mp_lua_of(L));
  moonpad_error error;
  mp_check(L, mp_memories_search(handle->store, app_name, user_id, phrases, count, limit, found, &error), &error);
  lua_newtable(L);
  lua_Integer number = 0;
  for (size_t at = 0; at < found->length;) {
    push_memory(L, found, &at);
    lua_rawseti(L, -2, ++number);
  }
  return 1;
}

/* ---- Registration ---- */

void mp_keep_module(lua_State *L, int binding_index) {
  static const luaL_Reg methods[] = {
      {"close", keep_close},   {"save", save},       {"load", load},         {"list", list},     {"versions", versions},
      {"delete", delete_file}, {"indexed", indexed}, {"remember", remember}, {"recall", recall}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"artifacts", open_artifacts}, {"memories", open_memories}, {NULL, NULL}};
  if (luaL_newmetatable(L, TYPE_NAME)) {
    lua_newtable(L);
    mp_set_functions(L, binding_index, methods);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, keep_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_pop(L, 1);
  mp_set_functions(L, binding_index, functions);
}
