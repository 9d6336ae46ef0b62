/*
** Memories in Lua. Every method asks the store as a store call: at once, or on a worker while its
** coroutine waits (lua/async/store_call.h).
*/
#include "agent_stores/lua_store.h"
#include "agent_stores/open.h"

typedef struct memories_call {
  mp_agent_call base; /* the first member */
  mp_memories_session session;
  mp_memories_batch batch;
  mp_memories_query query;
  moonpad_string id; /* of a memory */
  int64_t after;     /* a revision */
  /* Owned; what `batch` and `query` point to. */
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
  mp_agent_release_call(&done->base);
}

/* The arguments are the userdata, appName and userId; with `count` 1 the userdata alone. */
static memories_call *push_memories_call(lua_State *L, const mp_store_call_type *type, int count) {
  memories_call *made = (memories_call *)mp_agent_push_call(L, type, count);
  if (made == NULL) return NULL;
  mp_buffer_init(&made->texts, made->base.store->env);
  if (count == 1) return made;
  mp_agent_keep_argument(L, &made->base, 2, &made->session.app_name);
  mp_agent_keep_argument(L, &made->base, 3, &made->session.user_id);
  return made;
}

/* The same for a call on a session: its app, user, id and createTime are arguments 2 to 5. */
static memories_call *push_session_call(lua_State *L, const mp_store_call_type *type, int count) {
  memories_call *made = push_memories_call(L, type, count);
  if (made == NULL) return NULL;
  mp_agent_keep_argument(L, &made->base, 4, &made->session.session_id);
  made->session.create_time = luaL_checknumber(L, 5);
  return made;
}

static int make_memories_call(lua_State *L, memories_call *made) {
  return mp_agent_make_call(L, &made->base, memories_of(made)->in_memory);
}

static moonpad_status ask_indexed(mp_store_call *call, moonpad_error *error) {
  memories_call *indexed = (memories_call *)call;
  mp_memories *memories = memories_of(indexed);
  return memories->ops->indexed(memories, &indexed->session, &indexed->base.number, error);
}

/* memories:indexed(appName, userId, sessionId, createTime) -> revision */
static int indexed(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_indexed, mp_agent_push_number,
                                          release_memories_call, false};
  memories_call *made = push_session_call(L, &type, 5);
  return made == NULL ? mp_agent_push_closed(L) : make_memories_call(L, made);
}

/*
** Texts in lists are always copied, one behind another: that costs little beside what a store does
** with them. Pops the text at the top. Its address is set by point_to_text, once all are copied.
*/
static moonpad_string copy_text(lua_State *L, mp_buffer *texts) {
  moonpad_string text = mp_agent_check_string(L, -1);
  mp_buffer_add_string(texts, text);
  lua_pop(L, 1);
  return (moonpad_string){NULL, text.length};
}

static void point_to_text(moonpad_string *text, const char **at) {
  if (text->length == 0) return;
  text->data = *at;
  *at += text->length;
}

/* Reads the entry at the top. Raises e. */
static mp_memories_entry read_entry(lua_State *L, mp_buffer *texts) {
  mp_memories_entry entry;
  luaL_checktype(L, -1, LUA_TTABLE);
  lua_getfield(L, -1, "revision");
  entry.revision = luaL_checkinteger(L, -1);
  lua_getfield(L, -2, "timestamp");
  entry.timestamp = luaL_checknumber(L, -1);
  lua_pop(L, 2);
  lua_getfield(L, -1, "author");
  entry.author = copy_text(L, texts);
  lua_getfield(L, -1, "content");
  entry.content = copy_text(L, texts);
  lua_getfield(L, -1, "text");
  entry.text = copy_text(L, texts);
  return entry;
}

/* Like the other functions that read lists, returns false when out of memory. Raises e. */
static bool read_added(lua_State *L, int index, memories_call *made) {
  luaL_checktype(L, index, LUA_TTABLE);
  size_t count = (size_t)lua_rawlen(L, index);
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
    point_to_text(&made->added[i].author, &at);
    point_to_text(&made->added[i].content, &at);
    point_to_text(&made->added[i].text, &at);
  }
  made->batch.added = made->added;
  made->batch.added_count = count;
  return true;
}

static bool read_removed(lua_State *L, int index, memories_call *made) {
  luaL_checktype(L, index, LUA_TTABLE);
  size_t count = (size_t)lua_rawlen(L, index);
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
  return memories->ops->write(memories, &write->session, &write->base.time, &write->batch, error);
}

static int push_true(lua_State *L, mp_store_call *call) {
  if (call->status != MOONPAD_OK) return mp_agent_push_failure(L, &call->error);
  lua_pushboolean(L, true);
  return 1;
}

/*
** memories:write(appName, userId, sessionId, createTime, { { revision, timestamp, author, content,
** text }, ... }, { revision, ... }, indexed | nil) -> true
*/
static int write_batch(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_write, push_true, release_memories_call, true};
  memories_call *made = push_session_call(L, &type, 8);
  if (made == NULL) return mp_agent_push_closed(L);
  if (!read_added(L, 6, made) || !read_removed(L, 7, made)) return mp_agent_push_no_memory(L);
  made->batch.indexed = luaL_optinteger(L, 8, -1);
  return make_memories_call(L, made);
}

static bool read_phrases(lua_State *L, int index, memories_call *made) {
  luaL_checktype(L, index, LUA_TTABLE);
  size_t count = (size_t)lua_rawlen(L, index);
  made->phrases = mp_allocate(made->base.store->env, count * sizeof *made->phrases);
  if (made->phrases == NULL) return false;
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    made->phrases[i] = copy_text(L, &made->texts);
  }
  if (made->texts.failed) return false;
  const char *at = made->texts.data;
  for (size_t i = 0; i < count; i++) point_to_text(&made->phrases[i], &at);
  made->query.phrases = made->phrases;
  made->query.phrase_count = count;
  return true;
}

static moonpad_status ask_search(mp_store_call *call, moonpad_error *error) {
  memories_call *search = (memories_call *)call;
  mp_memories *memories = memories_of(search);
  search->query.app_name = search->session.app_name;
  search->query.user_id = search->session.user_id;
  return memories->ops->search(memories, &search->query, &search->base.time, &search->base.found, error);
}

static int push_matches(lua_State *L, mp_store_call *call) {
  const mp_buffer *matches = &((const mp_agent_call *)call)->found;
  mp_memories_match match;
  lua_Integer count = 0;
  if (call->status != MOONPAD_OK) return mp_agent_push_failure(L, &call->error);
  lua_newtable(L);
  for (size_t at = 0; mp_memories_next_match(matches, &at, &match);) {
    lua_createtable(L, 0, 5);
    mp_agent_set_string(L, "id", match.id);
    mp_agent_set_string(L, "sessionId", match.session_id);
    mp_agent_set_string(L, "author", match.author);
    lua_pushnumber(L, match.timestamp);
    lua_setfield(L, -2, "timestamp");
    mp_agent_set_string(L, "content", match.content);
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

/*
** memories:search(appName, userId, { phrase, ... }, limit) -> { { id, sessionId, author, timestamp,
** content = JSON }, ... }
*/
static int search(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_search, push_matches, release_memories_call,
                                          false};
  memories_call *made = push_memories_call(L, &type, 5);
  if (made == NULL) return mp_agent_push_closed(L);
  if (!read_phrases(L, 4, made)) return mp_agent_push_no_memory(L);
  made->query.limit = luaL_checkinteger(L, 5);
  return make_memories_call(L, made);
}

static mp_memories_owner owner_of(const memories_call *call) {
  return (mp_memories_owner){call->session.app_name, call->session.user_id, call->session.session_id};
}

static moonpad_status ask_delete_all(mp_store_call *call, moonpad_error *error) {
  memories_call *delete = (memories_call *)call;
  mp_memories *memories = memories_of(delete);
  mp_memories_owner owner = owner_of(delete);
  return memories->ops->delete_all(memories, &owner, &delete->base.time, &delete->base.number, error);
}

/* memories:deleteAll(appName, userId [, sessionId]) -> how many */
static int delete_all(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_delete_all, mp_agent_push_number,
                                          release_memories_call, true};
  memories_call *made = push_memories_call(L, &type, 4);
  if (made == NULL) return mp_agent_push_closed(L);
  if (!lua_isnil(L, 4)) mp_agent_keep_argument(L, &made->base, 4, &made->session.session_id);
  return make_memories_call(L, made);
}

static moonpad_status ask_delete_memory(mp_store_call *call, moonpad_error *error) {
  memories_call *delete = (memories_call *)call;
  mp_memories *memories = memories_of(delete);
  mp_memories_owner owner = owner_of(delete);
  return memories->ops->delete_memory(memories, &owner, delete->id, &delete->base.time, &delete->base.exists, error);
}

/* memories:delete(appName, userId, id) -> existed */
static int delete_memory(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_delete_memory, mp_agent_push_exists,
                                          release_memories_call, true};
  memories_call *made = push_memories_call(L, &type, 4);
  if (made == NULL) return mp_agent_push_closed(L);
  mp_agent_keep_argument(L, &made->base, 4, &made->id);
  return make_memories_call(L, made);
}

static moonpad_status ask_sweep(mp_store_call *call, moonpad_error *error) {
  memories_call *sweep = (memories_call *)call;
  mp_memories *memories = memories_of(sweep);
  return memories->ops->sweep(memories, &sweep->base.time, &sweep->base.number, error);
}

/* memories:sweep() -> how many */
static int sweep_memories(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_sweep, mp_agent_push_number, release_memories_call,
                                          true};
  memories_call *made = push_memories_call(L, &type, 1);
  return made == NULL ? mp_agent_push_closed(L) : make_memories_call(L, made);
}

static moonpad_status ask_rebuild_index(mp_store_call *call, moonpad_error *error) {
  mp_memories *memories = memories_of((memories_call *)call);
  return memories->ops->rebuild_index(memories, error);
}

/* memories:rebuildIndex() -> true */
static int rebuild_index(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_rebuild_index, push_true, release_memories_call,
                                          true};
  memories_call *made = push_memories_call(L, &type, 1);
  return made == NULL ? mp_agent_push_closed(L) : make_memories_call(L, made);
}

static moonpad_status ask_sessions(mp_store_call *call, moonpad_error *error) {
  memories_call *list = (memories_call *)call;
  mp_memories *memories = memories_of(list);
  return memories->ops->sessions(memories, &list->session, list->base.number, &list->base.found, error);
}

static int push_sessions(lua_State *L, mp_store_call *call) {
  static const char *const names[] = {"appName", "userId", "sessionId"};
  const mp_buffer *sessions = &((const mp_agent_call *)call)->found;
  lua_Integer count = 0;
  if (call->status != MOONPAD_OK) return mp_agent_push_failure(L, &call->error);
  lua_newtable(L);
  for (size_t at = 0; at < sessions->length;) {
    double create_time;
    int64_t indexed_revision;
    lua_createtable(L, 0, 5);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
      mp_agent_set_string(L, names[i], moonpad_text(sessions->data + at));
      at += strlen(sessions->data + at) + 1;
    }
    memcpy(&create_time, sessions->data + at, sizeof create_time);
    at += sizeof create_time;
    memcpy(&indexed_revision, sessions->data + at, sizeof indexed_revision);
    at += sizeof indexed_revision;
    lua_pushnumber(L, create_time);
    lua_setfield(L, -2, "createTime");
    lua_pushinteger(L, indexed_revision);
    lua_setfield(L, -2, "indexed");
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

/*
** memories:sessions(appName, userId, sessionId, createTime, limit) -> { { appName, userId,
** sessionId, createTime, indexed }, ... }: those of everybody behind this one, which is three empty
** names at first
*/
static int list_sessions(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_sessions, push_sessions, release_memories_call,
                                          false};
  memories_call *made = push_session_call(L, &type, 6);
  if (made == NULL) return mp_agent_push_closed(L);
  made->base.number = luaL_checkinteger(L, 6);
  return make_memories_call(L, made);
}

static moonpad_status ask_entries(mp_store_call *call, moonpad_error *error) {
  memories_call *list = (memories_call *)call;
  mp_memories *memories = memories_of(list);
  return memories->ops->entries(memories, &list->session, list->after, list->base.number, &list->base.found, error);
}

static int push_entries(lua_State *L, mp_store_call *call) {
  const mp_buffer *entries = &((const mp_agent_call *)call)->found;
  mp_memories_entry entry;
  lua_Integer count = 0;
  if (call->status != MOONPAD_OK) return mp_agent_push_failure(L, &call->error);
  lua_newtable(L);
  for (size_t at = 0; mp_memories_next_entry(entries, &at, &entry);) {
    lua_createtable(L, 0, 4);
    lua_pushinteger(L, entry.revision);
    lua_setfield(L, -2, "revision");
    lua_pushnumber(L, entry.timestamp);
    lua_setfield(L, -2, "timestamp");
    mp_agent_set_string(L, "author", entry.author);
    mp_agent_set_string(L, "content", entry.content);
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

/*
** memories:entries(appName, userId, sessionId, createTime, after, limit) -> { { revision,
** timestamp, author, content }, ... }: those behind a revision; content "": it was deleted by its
** id
*/
static int list_entries(lua_State *L) {
  static const mp_store_call_type type = {sizeof(memories_call), ask_entries, push_entries, release_memories_call,
                                          false};
  memories_call *made = push_session_call(L, &type, 7);
  if (made == NULL) return mp_agent_push_closed(L);
  made->after = luaL_checkinteger(L, 6);
  made->base.number = luaL_checkinteger(L, 7);
  return make_memories_call(L, made);
}

/* memories(url, config, the opener of its scheme | nil) */
int mp_agent_open_memories(lua_State *L) {
  moonpad_string url = mp_agent_check_string(L, 1);
  const mp_store_config *config = mp_agent_check_config(L, 2);
  const mp_agent_opener *opener = lua_touserdata(L, 3);
  moonpad_error error;
  mp_agent_store *store = mp_agent_push_store(L, MP_MEMORIES_TYPE, config);
  if (store == NULL) return mp_agent_push_no_memory(L);
  moonpad_status status = mp_memories_open(store->env, url, opener, &config->options, &store->memories, &error);
  return status == MOONPAD_OK ? 1 : mp_agent_push_failure(L, &error);
}

void mp_agent_memories_type(lua_State *L, const mp_store_calls *calls) {
  static const luaL_Reg methods[] = {{"indexed", indexed},
                                     {"write", write_batch},
                                     {"search", search},
                                     {"delete", delete_memory},
                                     {"deleteAll", delete_all},
                                     {"sweep", sweep_memories},
                                     {"rebuildIndex", rebuild_index},
                                     {"sessions", list_sessions},
                                     {"entries", list_entries},
                                     {NULL, NULL}};
  mp_agent_make_type(L, calls, MP_MEMORIES_TYPE, methods);
}
