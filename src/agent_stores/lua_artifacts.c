/*
** Artifacts in Lua. Every method asks the store as a store call: at once, or on a worker while its
** coroutine waits (lua/async/store_call.h).
*/
#include "agent_stores/lua_store.h"
#include "agent_stores/open.h"

typedef struct artifacts_call {
  mp_agent_call base; /* the first member */
  mp_artifact_name name;
  mp_artifact artifact; /* to save, or what was loaded */
} artifacts_call;

static mp_artifacts *artifacts_of(const artifacts_call *call) {
  return call->base.store->artifacts;
}

static void release_artifacts_call(mp_store_call *call) {
  mp_agent_release_call((mp_agent_call *)call);
}

/*
** The arguments are the userdata, appName, userId, sessionId (nil: the user's own files) and
** filename, as far as there are `count` of them; with 1 there is the userdata alone.
*/
static artifacts_call *push_artifacts_call(lua_State *L, const mp_store_call_type *type, int count) {
  artifacts_call *made = (artifacts_call *)mp_agent_push_call(L, type, count);
  if (made == NULL || count == 1) return made;
  mp_agent_keep_argument(L, &made->base, 2, &made->name.app_name);
  mp_agent_keep_argument(L, &made->base, 3, &made->name.user_id);
  made->name.session_id = moonpad_text("");
  if (count >= 4 && !lua_isnil(L, 4)) mp_agent_keep_argument(L, &made->base, 4, &made->name.session_id);
  if (count >= 5) mp_agent_keep_argument(L, &made->base, 5, &made->name.filename);
  return made;
}

static int make_artifacts_call(lua_State *L, artifacts_call *made) {
  return mp_agent_make_call(L, &made->base, artifacts_of(made)->in_memory);
}

static moonpad_status ask_save(mp_store_call *call, moonpad_error *error) {
  artifacts_call *save = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(save);
  return artifacts->ops->save(artifacts, &save->name, &save->base.time, &save->artifact, &save->base.number, error);
}

/*
** artifacts:save(appName, userId, sessionId | nil, filename, text | nil, data | nil, mimeType |
** nil, displayName | nil) -> version
*/
static int save(lua_State *L) {
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_save, mp_agent_push_number,
                                          release_artifacts_call, true};
  artifacts_call *made = push_artifacts_call(L, &type, 9);
  if (made == NULL) return mp_agent_push_closed(L);
  mp_artifact *artifact = &made->artifact;
  artifact->is_text = !lua_isnil(L, 6);
  artifact->has_display_name = !lua_isnil(L, 9);
  mp_agent_keep_argument(L, &made->base, artifact->is_text ? 6 : 7, &artifact->data);
  if (!artifact->is_text) mp_agent_keep_argument(L, &made->base, 8, &artifact->mime_type);
  if (artifact->has_display_name) mp_agent_keep_argument(L, &made->base, 9, &artifact->display_name);
  return make_artifacts_call(L, made);
}

static moonpad_status ask_load(mp_store_call *call, moonpad_error *error) {
  artifacts_call *load = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(load);
  return artifacts->ops->load(artifacts, &load->name, &load->base.time, load->base.number, &load->base.exists,
                              &load->artifact, &load->base.found, error);
}

static int push_part(lua_State *L, mp_store_call *call) {
  const artifacts_call *load = (const artifacts_call *)call;
  const mp_artifact *artifact = &load->artifact;
  if (call->status != MOONPAD_OK) return mp_agent_push_failure(L, &call->error);
  if (!load->base.exists) return 0;
  lua_createtable(L, 0, 1);
  if (artifact->is_text) {
    mp_agent_set_string(L, "text", artifact->data);
    return 1;
  }
  lua_createtable(L, 0, 3);
  mp_agent_set_string(L, "mimeType", artifact->mime_type);
  mp_agent_set_string(L, "data", artifact->data);
  if (artifact->has_display_name) mp_agent_set_string(L, "displayName", artifact->display_name);
  lua_setfield(L, -2, "inlineData");
  return 1;
}

/* artifacts:load(appName, userId, sessionId | nil, filename [, version]) -> part | nil */
static int load(lua_State *L) {
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_load, push_part, release_artifacts_call, false};
  artifacts_call *made = push_artifacts_call(L, &type, 6);
  if (made == NULL) return mp_agent_push_closed(L);
  made->base.number = luaL_optinteger(L, 6, MP_ARTIFACT_LATEST);
  return make_artifacts_call(L, made);
}

static moonpad_status ask_list(mp_store_call *call, moonpad_error *error) {
  artifacts_call *list = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(list);
  return artifacts->ops->list(artifacts, &list->name, &list->base.time, &list->base.found, error);
}

static int push_filenames(lua_State *L, mp_store_call *call) {
  const mp_buffer *filenames = &((const mp_agent_call *)call)->found;
  lua_Integer count = 0;
  if (call->status != MOONPAD_OK) return mp_agent_push_failure(L, &call->error);
  lua_newtable(L);
  for (size_t at = 0; at < filenames->length; at += strlen(filenames->data + at) + 1) {
    lua_pushstring(L, filenames->data + at);
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

/* artifacts:list(appName, userId, sessionId | nil) -> { filename, ... } */
static int list(lua_State *L) {
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_list, push_filenames, release_artifacts_call,
                                          false};
  artifacts_call *made = push_artifacts_call(L, &type, 4);
  return made == NULL ? mp_agent_push_closed(L) : make_artifacts_call(L, made);
}

static moonpad_status ask_versions(mp_store_call *call, moonpad_error *error) {
  artifacts_call *versions = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(versions);
  return artifacts->ops->versions(artifacts, &versions->name, &versions->base.time, &versions->base.found, error);
}

static int push_versions(lua_State *L, mp_store_call *call) {
  const mp_buffer *versions = &((const mp_agent_call *)call)->found;
  if (call->status != MOONPAD_OK) return mp_agent_push_failure(L, &call->error);
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
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_versions, push_versions, release_artifacts_call,
                                          false};
  artifacts_call *made = push_artifacts_call(L, &type, 5);
  return made == NULL ? mp_agent_push_closed(L) : make_artifacts_call(L, made);
}

static moonpad_status ask_delete(mp_store_call *call, moonpad_error *error) {
  artifacts_call *delete = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(delete);
  return artifacts->ops->delete_file(artifacts, &delete->name, &delete->base.time, &delete->base.exists, error);
}

/* artifacts:delete(appName, userId, sessionId | nil, filename) -> existed */
static int delete_file(lua_State *L) {
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_delete, mp_agent_push_exists,
                                          release_artifacts_call, true};
  artifacts_call *made = push_artifacts_call(L, &type, 5);
  return made == NULL ? mp_agent_push_closed(L) : make_artifacts_call(L, made);
}

static moonpad_status ask_delete_user(mp_store_call *call, moonpad_error *error) {
  artifacts_call *delete = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(delete);
  return artifacts->ops->delete_user(artifacts, &delete->name, &delete->base.time, &delete->base.number, error);
}

/* artifacts:deleteUser(appName, userId) -> how many files */
static int delete_user_files(lua_State *L) {
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_delete_user, mp_agent_push_number,
                                          release_artifacts_call, true};
  artifacts_call *made = push_artifacts_call(L, &type, 3);
  return made == NULL ? mp_agent_push_closed(L) : make_artifacts_call(L, made);
}

static moonpad_status ask_sweep(mp_store_call *call, moonpad_error *error) {
  artifacts_call *sweep = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(sweep);
  return artifacts->ops->sweep(artifacts, &sweep->base.time, &sweep->base.number, error);
}

/* artifacts:sweep() -> how many files */
static int sweep_files(lua_State *L) {
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_sweep, mp_agent_push_number,
                                          release_artifacts_call, true};
  artifacts_call *made = push_artifacts_call(L, &type, 1);
  return made == NULL ? mp_agent_push_closed(L) : make_artifacts_call(L, made);
}

static moonpad_status ask_files(mp_store_call *call, moonpad_error *error) {
  artifacts_call *files = (artifacts_call *)call;
  mp_artifacts *artifacts = artifacts_of(files);
  return artifacts->ops->files(artifacts, &files->name, files->base.number, &files->base.found, error);
}

static int push_files(lua_State *L, mp_store_call *call) {
  static const char *const names[] = {"appName", "userId", "sessionId", "filename"};
  const mp_buffer *files = &((const mp_agent_call *)call)->found;
  lua_Integer count = 0;
  if (call->status != MOONPAD_OK) return mp_agent_push_failure(L, &call->error);
  lua_newtable(L);
  for (size_t at = 0; at < files->length;) {
    int64_t versions;
    lua_createtable(L, 0, 5);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
      mp_agent_set_string(L, names[i], moonpad_text(files->data + at));
      at += strlen(files->data + at) + 1;
    }
    memcpy(&versions, files->data + at, sizeof versions);
    at += sizeof versions;
    lua_pushinteger(L, versions);
    lua_setfield(L, -2, "versions");
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

/*
** artifacts:files(appName, userId, sessionId, filename, limit) -> { { appName, userId, sessionId,
** filename, versions }, ... }: those of everybody behind this one, which is four empty names at
** first
*/
static int list_files(lua_State *L) {
  static const mp_store_call_type type = {sizeof(artifacts_call), ask_files, push_files, release_artifacts_call, false};
  artifacts_call *made = push_artifacts_call(L, &type, 6);
  if (made == NULL) return mp_agent_push_closed(L);
  made->base.number = luaL_checkinteger(L, 6);
  return make_artifacts_call(L, made);
}

/* artifacts(url, config, the opener of its scheme | nil) */
int mp_agent_open_artifacts(lua_State *L) {
  moonpad_string url = mp_agent_check_string(L, 1);
  const mp_store_config *config = mp_agent_check_config(L, 2);
  const mp_agent_opener *opener = lua_touserdata(L, 3);
  moonpad_error error;
  mp_agent_store *store = mp_agent_push_store(L, MP_ARTIFACTS_TYPE, config);
  if (store == NULL) return mp_agent_push_no_memory(L);
  moonpad_status status = mp_artifacts_open(store->env, url, opener, &config->options, &store->artifacts, &error);
  return status == MOONPAD_OK ? 1 : mp_agent_push_failure(L, &error);
}

void mp_agent_artifacts_type(lua_State *L, const mp_store_calls *calls) {
  static const luaL_Reg methods[] = {{"save", save},         {"load", load},          {"list", list},
                                     {"versions", versions}, {"delete", delete_file}, {"deleteUser", delete_user_files},
                                     {"sweep", sweep_files}, {"files", list_files},   {NULL, NULL}};
  mp_agent_make_type(L, calls, MP_ARTIFACTS_TYPE, methods);
}
