/*
** The Lua module `moonpad.agent_stores_core`: the stores of artifacts and of memories as userdata.
** It stands alone, so that the core does without them; how a call is made, at once or on a worker
** while its coroutine waits, it is told by moonpad.core (lua/async/store_call.h). What goes wrong
** comes back as nil, message, code; wrong arguments raise, which lua/moonpad/artifacts.lua and
** memory.lua, what people use, have checked before, and so does a call that is cancelled.
**
** Every function has two upvalues: the mp_store_calls, and the name of its type.
*/
#include <lauxlib.h>
#include <lua.h>

#include "agent_stores/artifacts.h"
#include "agent_stores/memories.h"
#include "base/error.h"
#include "lua/async/store_call.h"

#define ARTIFACTS_TYPE "moonpad.artifacts"
#define MEMORIES_TYPE  "moonpad.memories"

/* ---- Stores ---- */

/* Belongs to its userdata, and to the calls that have been made with it and are not done. */
typedef struct shared_store {
  unsigned references; /* counted where Lua runs */
  mp_env *env;
  mp_artifacts *artifacts; /* one of the two */
  mp_memories *memories;
} shared_store;

typedef struct store_handle {
  shared_store *store; /* NULL: not opened, or collected */
} store_handle;

static void release_store(shared_store *store) {
  if (store == NULL || --store->references > 0) return;
  mp_env *env = store->env;
  if (store->artifacts != NULL) store->artifacts->ops->free(store->artifacts);
  if (store->memories != NULL) store->memories->ops->free(store->memories);
  mp_release(env, store);
  mp_env_release(env);
}

/* Pushes a handle, with a store that is not open yet; NULL: there is no memory. */
static shared_store *push_store(lua_State *L, const char *type) {
  store_handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  handle->store = NULL;
  luaL_setmetatable(L, type);
  mp_env *env = mp_env_new(NULL);
  shared_store *store = env == NULL ? NULL : mp_allocate_zeroed(env, sizeof *store);
  if (store == NULL) {
    mp_env_release(env);
    return NULL;
  }
  store->references = 1;
  store->env = env;
  handle->store = store;
  return store;
}

static store_handle *check_handle(lua_State *L) {
  return luaL_checkudata(L, 1, lua_tostring(L, lua_upvalueindex(2)));
}

static int collect(lua_State *L) {
  store_handle *handle = check_handle(L);
  shared_store *store = handle->store;
  handle->store = NULL;
  release_store(store);
  return 0;
}

static int close_store(lua_State *L) {
  const shared_store *store = check_handle(L)->store;
  if (store != NULL && store->artifacts != NULL) store->artifacts->ops->close(store->artifacts);
  if (store != NULL && store->memories != NULL) store->memories->ops->close(store->memories);
  return 0;
}

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

static int push_no_memory(lua_State *L) {
  moonpad_error error;
  mp_no_memory(&error);
  return push_failure(L, &error);
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

/* ---- Calls ---- */

/* Begins what every call knows. */
typedef struct agent_call {
  mp_store_call call; /* the first member */
  shared_store *store;
  int64_t number;  /* a version, a revision, or how many */
  mp_buffer found; /* for what is read */
} agent_call;

static const mp_store_calls *calls_of(lua_State *L) {
  return lua_touserdata(L, lua_upvalueindex(1));
}

/*
** Pushes the call of a method whose `count` arguments are on the stack; NULL: the handle is closed.
*/
static agent_call *push_call(lua_State *L, const mp_store_call_type *type, int count) {
  shared_store *store = check_handle(L)->store;
  lua_settop(L, count);
  if (store == NULL) return NULL;
  agent_call *made = (agent_call *)calls_of(L)->push(L, type, NULL);
  made->store = store;
  store->references++;
  mp_buffer_init(&made->found, store->env);
  return made;
}

static void release_call(agent_call *done) {
  mp_buffer_free(&done->found);
  release_store(done->store);
}

/* A string of the arguments, which is to be there as long as the call is. */
static void keep_argument(lua_State *L, agent_call *made, int index, moonpad_string *text) {
  *text = check_string(L, index);
  mp_store_call_keep(&made->call, text);
}

static int give_number(lua_State *L, mp_store_call *call) {
  if (call->status != MOONPAD_OK) return push_failure(L, &call->error);
  lua_pushinteger(L, ((const agent_call *)call)->number);
  return 1;
}

/* ---- Artifacts ---- */

typedef struct artifacts_call {
  agent_call base; /* the first member */
  mp_artifact_name name;
  mp_artifact artifact; /* to be saved, or loaded */
  double now;
  bool exists; /* what was loaded or deleted */
} artifacts_call;

static mp_artifacts *artifacts_of(const artifacts_call *call) {
  return call->base.store->artifacts;
}

static void release_artifacts_call(mp_store_call *call) {
  release_call((agent_call *)call);
}

/*
** A session id that is nil means the user's own. Of the `count` arguments the fifth is a filename,
** if any.
*/
static artifacts_call *push_artifacts_call(lua_State *L, const mp_store_call_type *type, int count) {
  artifacts_call *made = (artifacts_call *)push_call(L, type, count);
  if (made == NULL) return NULL;
  keep_argument(L, &made->base, 2, &made->name.app_name);
  keep_argument(L, &made->base, 3, &made->name.user_id);
  made->name.session_id = moonpad_text("");
  if (count >= 4 && !lua_isnil(L, 4)) keep_argument(L, &made->base, 4, &made->name.session_id);
  if (count >= 5) keep_argument(L, &made->base, 5, &made->name.filename);
  return made;
}

static int make_artifacts_call(lua_State *L, artifacts_call *made) {
  return calls_of(L)->make(L, &made->base.call, artifacts_of(made)->in_memory);
}

static moonpad_status ask_save(mp_store_call *call, moonpad_error *error) {
  artifacts_call *save = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(save);
  return artifacts->ops->save(artifacts, &save->name, &save->artifact, save->now, &save->base.number, error);
}

/*
** artifacts:save(appName, userId, sessionId | nil, filename, text | nil, data | nil, mimeType |
** nil, displayName | nil) -> version
*/
static int save(lua_State *L) {
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_save, give_number, release_artifacts_call, true};
  moonpad_error error;
  artifacts_call *made = push_artifacts_call(L, &type, 9);
  if (made == NULL) return push_closed(L);
  mp_artifact *artifact = &made->artifact;
  artifact->is_text = !lua_isnil(L, 6);
  artifact->has_display_name = !lua_isnil(L, 9);
  keep_argument(L, &made->base, artifact->is_text ? 6 : 7, &artifact->data);
  if (!artifact->is_text) keep_argument(L, &made->base, 8, &artifact->mime_type);
  if (artifact->has_display_name) keep_argument(L, &made->base, 9, &artifact->display_name);
  if (mp_now(made->base.store->env, &made->now, &error) != MOONPAD_OK) return push_failure(L, &error);
  return make_artifacts_call(L, made);
}

static moonpad_status ask_load(mp_store_call *call, moonpad_error *error) {
  artifacts_call *load = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(load);
  return artifacts->ops->load(artifacts, &load->name, load->base.number, &load->exists, &load->artifact,
                              &load->base.found, error);
}

static int give_part(lua_State *L, mp_store_call *call) {
  const artifacts_call *load = (const artifacts_call *)call;
  const mp_artifact *artifact = &load->artifact;
  if (call->status != MOONPAD_OK) return push_failure(L, &call->error);
  if (!load->exists) return 0;
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
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_load, give_part, release_artifacts_call, false};
  artifacts_call *made = push_artifacts_call(L, &type, 6);
  if (made == NULL) return push_closed(L);
  made->base.number = luaL_optinteger(L, 6, MP_ARTIFACT_LATEST);
  return make_artifacts_call(L, made);
}

static moonpad_status ask_list(mp_store_call *call, moonpad_error *error) {
  artifacts_call *list = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(list);
  return artifacts->ops->list(artifacts, &list->name, &list->base.found, error);
}

static int give_filenames(lua_State *L, mp_store_call *call) {
  const mp_buffer *filenames = &((const agent_call *)call)->found;
  lua_Integer count = 0;
  if (call->status != MOONPAD_OK) return push_failure(L, &call->error);
  lua_newtable(L);
  for (size_t at = 0; at < filenames->length; at += strlen(filenames->data + at) + 1) {
    lua_pushstring(L, filenames->data + at);
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

/* artifacts:list(appName, userId, sessionId | nil) -> { filename, ... } */
static int list(lua_State *L) {
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_list, give_filenames, release_artifacts_call,
                                          false};
  artifacts_call *made = push_artifacts_call(L, &type, 4);
  return made == NULL ? push_closed(L) : make_artifacts_call(L, made);
}

static moonpad_status ask_versions(mp_store_call *call, moonpad_error *error) {
  artifacts_call *versions = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(versions);
  return artifacts->ops->versions(artifacts, &versions->name, &versions->base.found, error);
}

static int give_versions(lua_State *L, mp_store_call *call) {
  const mp_buffer *versions = &((const agent_call *)call)->found;
  if (call->status != MOONPAD_OK) return push_failure(L, &call->error);
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
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_versions, give_versions, release_artifacts_call,
                                          false};
  artifacts_call *made = push_artifacts_call(L, &type, 5);
  return made == NULL ? push_closed(L) : make_artifacts_call(L, made);
}

static moonpad_status ask_delete(mp_store_call *call, moonpad_error *error) {
  artifacts_call *delete = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(delete);
  return artifacts->ops->delete_file(artifacts, &delete->name, &delete->exists, error);
}

static int give_existed(lua_State *L, mp_store_call *call) {
  if (call->status != MOONPAD_OK) return push_failure(L, &call->error);
  lua_pushboolean(L, ((const artifacts_call *)call)->exists);
  return 1;
}

/* artifacts:delete(appName, userId, sessionId | nil, filename) -> existed */
static int delete_file(lua_State *L) {
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_delete, give_existed, release_artifacts_call,
                                          true};
  artifacts_call *made = push_artifacts_call(L, &type, 5);
  return made == NULL ? push_closed(L) : make_artifacts_call(L, made);
}

static moonpad_status ask_delete_files(mp_store_call *call, moonpad_error *error) {
  artifacts_call *delete = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(delete);
  return artifacts->ops->delete_user(artifacts, &delete->name, &delete->base.number, error);
}

/* artifacts:deleteUser(appName, userId) -> how many files */
static int delete_user_files(lua_State *L) {
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_delete_files, give_number, release_artifacts_call,
                                          true};
  artifacts_call *made = push_artifacts_call(L, &type, 3);
  return made == NULL ? push_closed(L) : make_artifacts_call(L, made);
}

/* artifacts(url, durability, busyTimeoutMs) */
static int open_artifacts(lua_State *L) {
  moonpad_string url = check_string(L, 1);
  moonpad_options options = read_options(L);
  moonpad_error error;
  shared_store *store = push_store(L, ARTIFACTS_TYPE);
  if (store == NULL) return push_no_memory(L);
  moonpad_status status = mp_artifacts_open(store->env, url, &options, &store->artifacts, &error);
  return status == MOONPAD_OK ? 1 : push_failure(L, &error);
}

/* ---- Memories ---- */

typedef struct memories_call {
  agent_call base; /* the first member */
  mp_memories_session session;
  mp_memories_batch batch;
  mp_memories_query query;
  /* What batch and query point to: */
  mp_memories_entry *added;
  int64_t *removed;
  moonpad_string *phrases;
  mp_buffer texts;
} memories_call;

static mp_memories *memories_of(const memories_call *call) {
  return call->base.store->memories;
}

static void release_memories_call(mp_store_call *call) {
  memories_call *done = (memories_call *)call;
  mp_env *env = done->base.store->env;
  mp_release(env, done->added);
  mp_release(env, done->removed);
  mp_release(env, done->phrases);
  mp_buffer_free(&done->texts);
  release_call(&done->base);
}

static memories_call *push_memories_call(lua_State *L, const mp_store_call_type *type, int count) {
  memories_call *made = (memories_call *)push_call(L, type, count);
  if (made == NULL) return NULL;
  mp_buffer_init(&made->texts, made->base.store->env);
  keep_argument(L, &made->base, 2, &made->session.app_name);
  keep_argument(L, &made->base, 3, &made->session.user_id);
  return made;
}

/* The same of a session: at 2, 3, 4, 5. */
static memories_call *push_session_call(lua_State *L, const mp_store_call_type *type, int count) {
  memories_call *made = push_memories_call(L, type, count);
  if (made == NULL) return NULL;
  keep_argument(L, &made->base, 4, &made->session.session_id);
  made->session.create_time = luaL_checknumber(L, 5);
  return made;
}

static int make_memories_call(lua_State *L, memories_call *made) {
  return calls_of(L)->make(L, &made->base.call, memories_of(made)->in_memory);
}

static moonpad_status ask_indexed(mp_store_call *call, moonpad_error *error) {
  memories_call *indexed = (memories_call *)call;
  mp_memories *memories = memories_of(indexed);
  return memories->ops->indexed(memories, &indexed->session, &indexed->base.number, error);
}

/* memories:indexed(appName, userId, sessionId, createTime) -> revision */
static int indexed(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_indexed, give_number, release_memories_call,
                                          false};
  memories_call *made = push_session_call(L, &type, 5);
  return made == NULL ? push_closed(L) : make_memories_call(L, made);
}

/*
** Lists of texts are copied, one text behind the other, however the call is made: beside what a
** store does with them that costs little. Where each is, is known when all are there.
*/
static moonpad_string take_text(lua_State *L, mp_buffer *texts) {
  moonpad_string text = check_string(L, -1);
  mp_buffer_add_string(texts, text);
  lua_pop(L, 1);
  return (moonpad_string){NULL, text.length};
}

static void place_text(moonpad_string *text, const char **at) {
  if (text->length == 0) return;
  text->data = *at;
  *at += text->length;
}

/* The entry at the top. */
static mp_memories_entry read_entry(lua_State *L, mp_buffer *texts) {
  mp_memories_entry entry;
  luaL_checktype(L, -1, LUA_TTABLE);
  lua_getfield(L, -1, "revision");
  entry.revision = luaL_checkinteger(L, -1);
  lua_getfield(L, -2, "timestamp");
  entry.timestamp = luaL_checknumber(L, -1);
  lua_pop(L, 2);
  lua_getfield(L, -1, "author");
  entry.author = take_text(L, texts);
  lua_getfield(L, -1, "content");
  entry.content = take_text(L, texts);
  lua_getfield(L, -1, "text");
  entry.text = take_text(L, texts);
  return entry;
}

/* False: there is no memory for them; so of all lists. */
static bool read_added(lua_State *L, int index, memories_call *made) {
  luaL_checktype(L, index, LUA_TTABLE);
  size_t count = lua_rawlen(L, index);
  made->added = mp_allocate(made->base.store->env, count * sizeof *made->added);
  if (made->added == NULL) return false;
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    made->added[i] = read_entry(L, &made->texts);
    lua_pop(L, 1);
  }
  if (made->texts.failed) return false;
  const char *at = made->texts.data;
  for (size_t i = 0; i < count; i++) {
    place_text(&made->added[i].author, &at);
    place_text(&made->added[i].content, &at);
    place_text(&made->added[i].text, &at);
  }
  made->batch.added = made->added;
  made->batch.added_count = count;
  return true;
}

static bool read_removed(lua_State *L, int index, memories_call *made) {
  luaL_checktype(L, index, LUA_TTABLE);
  size_t count = lua_rawlen(L, index);
  made->removed = mp_allocate(made->base.store->env, count * sizeof *made->removed);
  if (made->removed == NULL) return false;
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    made->removed[i] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  made->batch.removed = made->removed;
  made->batch.removed_count = count;
  return true;
}

static moonpad_status ask_write(mp_store_call *call, moonpad_error *error) {
  memories_call *write = (memories_call *)call;
  mp_memories *memories = memories_of(write);
  return memories->ops->write(memories, &write->session, &write->batch, error);
}

static int give_true(lua_State *L, mp_store_call *call) {
  if (call->status != MOONPAD_OK) return push_failure(L, &call->error);
  lua_pushboolean(L, true);
  return 1;
}

/*
** memories:write(appName, userId, sessionId, createTime, { { revision, timestamp, author, content,
** text }, ... }, { revision, ... }, indexed | nil) -> true
*/
static int write_batch(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_write, give_true, release_memories_call, true};
  memories_call *made = push_session_call(L, &type, 8);
  if (made == NULL) return push_closed(L);
  if (!read_added(L, 6, made) || !read_removed(L, 7, made)) return push_no_memory(L);
  made->batch.indexed = luaL_optinteger(L, 8, -1);
  return make_memories_call(L, made);
}

static bool read_phrases(lua_State *L, int index, memories_call *made) {
  luaL_checktype(L, index, LUA_TTABLE);
  size_t count = lua_rawlen(L, index);
  made->phrases = mp_allocate(made->base.store->env, count * sizeof *made->phrases);
  if (made->phrases == NULL) return false;
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    made->phrases[i] = take_text(L, &made->texts);
  }
  if (made->texts.failed) return false;
  const char *at = made->texts.data;
  for (size_t i = 0; i < count; i++) place_text(&made->phrases[i], &at);
  made->query.phrases = made->phrases;
  made->query.phrase_count = count;
  return true;
}

static moonpad_status ask_search(mp_store_call *call, moonpad_error *error) {
  memories_call *search = (memories_call *)call;
  mp_memories *memories = memories_of(search);
  search->query.app_name = search->session.app_name;
  search->query.user_id = search->session.user_id;
  return memories->ops->search(memories, &search->query, &search->base.found, error);
}

static int give_matches(lua_State *L, mp_store_call *call) {
  const mp_buffer *matches = &((const agent_call *)call)->found;
  mp_memories_match match;
  lua_Integer count = 0;
  if (call->status != MOONPAD_OK) return push_failure(L, &call->error);
  lua_newtable(L);
  for (size_t at = 0; mp_memories_next_match(matches, &at, &match);) {
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

/*
** memories:search(appName, userId, { phrase, ... }, limit) -> { { sessionId, author, timestamp,
** content = JSON }, ... }
*/
static int search(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_search, give_matches, release_memories_call,
                                          false};
  memories_call *made = push_memories_call(L, &type, 5);
  if (made == NULL) return push_closed(L);
  if (!read_phrases(L, 4, made)) return push_no_memory(L);
  made->query.limit = luaL_checkinteger(L, 5);
  return make_memories_call(L, made);
}

static moonpad_status ask_forget(mp_store_call *call, moonpad_error *error) {
  memories_call *forget = (memories_call *)call;
  mp_memories *memories = memories_of(forget);
  return memories->ops->delete_user(memories, forget->session.app_name, forget->session.user_id, &forget->base.number,
                                    error);
}

/* memories:deleteUser(appName, userId) -> how many */
static int delete_user_memories(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_forget, give_number, release_memories_call, true};
  memories_call *made = push_memories_call(L, &type, 3);
  return made == NULL ? push_closed(L) : make_memories_call(L, made);
}

/* memories(url, durability, busyTimeoutMs) */
static int open_memories(lua_State *L) {
  moonpad_string url = check_string(L, 1);
  moonpad_options options = read_options(L);
  moonpad_error error;
  shared_store *store = push_store(L, MEMORIES_TYPE);
  if (store == NULL) return push_no_memory(L);
  moonpad_status status = mp_memories_open(store->env, url, &options, &store->memories, &error);
  return status == MOONPAD_OK ? 1 : push_failure(L, &error);
}

/* ---- The module ---- */

/* Pushes the upvalues. */
static void push_upvalues(lua_State *L, const mp_store_calls *calls, const char *type) {
  lua_pushlightuserdata(L, (void *)calls);
  lua_pushstring(L, type);
}

static void make_type(lua_State *L, const mp_store_calls *calls, const char *name, const luaL_Reg *methods) {
  static const luaL_Reg metamethods[] = {{"__gc", collect}, {NULL, NULL}};
  luaL_newmetatable(L, name);
  push_upvalues(L, calls, name);
  luaL_setfuncs(L, metamethods, 2);
  lua_newtable(L);
  push_upvalues(L, calls, name);
  luaL_setfuncs(L, methods, 2);
  lua_setfield(L, -2, "__index");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

static const mp_store_calls *find_store_calls(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonpad.core");
  lua_call(L, 1, 1);
  luaL_checktype(L, -1, LUA_TTABLE);
  lua_getfield(L, -1, "storeCalls");
  const mp_store_calls *calls = lua_touserdata(L, -1);
  if (calls == NULL || calls->size != sizeof *calls) {
    luaL_error(L, "it has not been built together with the module moonpad.core");
  }
  lua_pop(L, 2);
  return calls;
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_moonpad_agent_stores_core(lua_State *L);

int luaopen_moonpad_agent_stores_core(lua_State *L) {
  static const luaL_Reg artifacts_methods[] = {{"save", save},          {"load", load},
                                               {"list", list},          {"versions", versions},
                                               {"delete", delete_file}, {"deleteUser", delete_user_files},
                                               {"close", close_store},  {NULL, NULL}};
  static const luaL_Reg memories_methods[] = {{"indexed", indexed},   {"write", write_batch},
                                              {"search", search},     {"deleteUser", delete_user_memories},
                                              {"close", close_store}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"artifacts", open_artifacts}, {"memories", open_memories}, {NULL, NULL}};
  luaL_checkversion(L);
  const mp_store_calls *calls = find_store_calls(L);
  make_type(L, calls, ARTIFACTS_TYPE, artifacts_methods);
  make_type(L, calls, MEMORIES_TYPE, memories_methods);
  luaL_newlib(L, functions);
  return 1;
}
