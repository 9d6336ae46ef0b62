/* What the agent layer builds contexts from: change sets of their own, merging, committing, templates. */
#include <time.h>

#include "base/uuid.h"
#include "core/template.h"
#include "lua/arguments.h"
#include "lua/codec.h"
#include "lua/event.h"
#include "lua/handles.h"
#include "service/append.h"

/* ---- change sets ---- */

/* core.changes(session) -> state */
static int core_changes(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_session_box *session = mp_check_session(L, binding, 1, "core.changes");
  mp_lua_state *state = mp_push_state(L, binding);
  moonpad_error error;
  state->box = mp_changes_box_new(binding, session);
  if (state->box == NULL) mp_check(L, mp_no_memory(&error), &error);
  mp_check(L, moonpad_changes_begin(session->session, &state->box->changes, &error), &error);
  state->box->owned = true;
  return 1;
}

/* core.state{ key = value, ... } (moonpad.state) */
static int core_state(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  lua_settop(L, 1);
  mp_lua_state *state = mp_push_state(L, binding);
  moonpad_error error;
  state->box = mp_changes_box_new(binding, NULL);
  if (state->box == NULL) mp_check(L, mp_no_memory(&error), &error);
  mp_check(L, mp_changes_new_detached(binding->env, &state->box->changes, &error), &error);
  state->box->owned = true;
  if (!lua_isnil(L, 1)) {
    mp_state_update(L, binding, state, 1);
    mp_changes_settle(state->box->changes);
  }
  lua_settop(L, 2);
  return 1;
}

/* core.readOnly(state or session) -> state */
static int core_read_only(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  lua_settop(L, 1);
  mp_session_box *session = mp_test_session(L, binding, 1);
  if (session != NULL) {
    mp_push_session_state(L, binding, session);
    mp_lua_state *own = lua_touserdata(L, -1);
    own->read_only = true;
    return 1;
  }
  mp_lua_state *given = mp_check_state(L, binding, 1, "core.readOnly");
  mp_lua_state *state = mp_push_state(L, binding);
  state->read_only = true;
  state->box = mp_changes_box_retain(given->box);
  return 1;
}

static moonpad_changes *check_writable_changes(lua_State *L, mp_lua *binding, int index, const char *where) {
  mp_lua_state *state = mp_check_state(L, binding, index, where);
  if (state->read_only) mp_raise_argument(L, "%s: this state is read-only", where);
  return state->box->changes;
}

/* core.savepoint(state) */
static int core_savepoint(lua_State *L) {
  moonpad_changes *changes = check_writable_changes(L, mp_lua_of(L), 1, "core.savepoint");
  moonpad_error error;
  mp_check(L, mp_changes_savepoint(changes, &error), &error);
  return 0;
}

/* core.rollback(state) */
static int core_rollback(lua_State *L) {
  moonpad_changes *changes = check_writable_changes(L, mp_lua_of(L), 1, "core.rollback");
  moonpad_error error;
  mp_check(L, mp_changes_rollback(changes, &error), &error);
  return 0;
}

/* core.merge(target, source) */
static int core_merge(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  moonpad_changes *target = check_writable_changes(L, binding, 1, "core.merge");
  mp_lua_state *source = mp_check_state(L, binding, 2, "core.merge");
  mp_lua_state *into = lua_touserdata(L, 1);
  if (source->box->session == NULL || source->box->session != into->box->session) {
    mp_raise_argument(L, "core.merge: the two states belong to different session objects");
  }
  moonpad_error error;
  mp_check(L, mp_changes_merge(target, source->box->changes, &error), &error);
  return 0;
}

/* core.finish(state, reason) */
static int core_finish(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "core.finish");
  moonpad_string reason = mp_argument_string(L, 2, "core.finish", "reason");
  if (!state->box->owned) mp_raise_argument(L, "core.finish: this is the session object's own state");
  if (state->box->reason != NULL) return 0;
  char *kept = mp_allocate(state->box->env, reason.length + 1);
  moonpad_error error;
  if (kept == NULL) mp_check(L, mp_no_memory(&error), &error);
  memcpy(kept, reason.data, reason.length + 1);
  state->box->reason = kept;
  mp_changes_end(state->box->changes, kept);
  return 0;
}

/* ---- commit ---- */

static const char *ended_reason(const mp_lua_state *state) {
  return state->box->reason;
}

/* core.commit(state, event) -> stored event */
static int core_commit(lua_State *L) {
  static const char where[] = "core.commit";
  mp_lua *binding = mp_lua_of(L);
  lua_settop(L, 2);
  mp_lua_state *state = mp_check_state(L, binding, 1, where);
  if (state->read_only || state->box->session == NULL)
    mp_raise_argument(L, "%s: this state cannot be committed", where);
  if (ended_reason(state) != NULL) mp_raise_argument(L, "%s: %s", where, ended_reason(state));
  moonpad_session *session = state->box->session->session;
  moonpad_event **stored = mp_box_push_event(L);
  moonpad_string event = mp_encode_event(L, binding, 2, where);
  moonpad_error error;
  moonpad_status status = mp_append_event_now(session, state->box->changes, event, true, stored, &error);
  if (status != MOONPAD_OK) mp_raise_append(L, session, &error, 2);
  if (mp_is_partial_event(L, 2)) {
    lua_settop(L, 2);
    return 1;
  }
  if (*stored == NULL) {
    mp_raise_status(L, MOONPAD_NO_MEMORY, "the event is stored, but there is no memory to return it");
  }
  mp_push_event(L, binding, *stored);
  mp_box_release(stored);
  return 1;
}

/* ---- templates ---- */

static moonpad_template_syntax check_syntax(lua_State *L, int index) {
  if (lua_isnoneornil(L, index)) return MOONPAD_TEMPLATE_BOTH;
  const char *syntax = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : "";
  if (strcmp(syntax, "both") == 0) return MOONPAD_TEMPLATE_BOTH;
  if (strcmp(syntax, "braces") == 0) return MOONPAD_TEMPLATE_BRACES;
  if (strcmp(syntax, "angles") == 0) return MOONPAD_TEMPLATE_ANGLES;
  mp_raise_argument(L, "templateSyntax: expects \"braces\" or \"angles\" or \"both\", got %s", mp_describe(L, index));
}

/* File names joined in one buffer, each after its length: no Lua is called while the template is scanned. */
static bool note_artifact(void *context, moonpad_string file) {
  mp_buffer *files = context;
  mp_buffer_add(files, (const char *)&file.length, sizeof file.length);
  mp_buffer_add_string(files, file);
  return !files->failed;
}

/* core.templateArtifacts(template, syntax) -> list */
static int core_template_artifacts(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  moonpad_string source = mp_argument_string(L, 1, "template", "template");
  moonpad_template_options options;
  moonpad_template_options_init(&options);
  options.syntax = check_syntax(L, 2);
  mp_buffer *files = mp_box_push_buffer(L, binding);
  mp_template_artifacts(source, &options, note_artifact, files);
  moonpad_error error;
  if (files->failed) mp_check(L, mp_no_memory(&error), &error);
  lua_newtable(L);
  lua_Integer count = 0;
  for (size_t at = 0; at < files->length;) {
    size_t length;
    memcpy(&length, files->data + at, sizeof length);
    at += sizeof length;
    lua_pushlstring(L, files->data + at, length);
    lua_rawseti(L, -2, ++count);
    at += length;
  }
  return 1;
}

/* What a template is rendered from. The texts of artifacts are copied, so that looking one up calls no Lua. */
typedef struct template_source {
  moonpad_changes *changes;
  mp_env *env;
  mp_map artifacts; /* FILE -> mp_value */
} template_source;

static void release_source(void *payload) {
  template_source *source = payload;
  if (source->env == NULL) return;
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&source->artifacts, &position)) != NULL;) {
    mp_value_release(source->env, slot->value);
  }
  mp_map_free(&source->artifacts);
  mp_env_release(source->env);
}

static moonpad_status add_artifact(template_source *source, moonpad_string file, moonpad_string text,
                                   moonpad_error *error) {
  mp_key *key = mp_key_new(source->env, file);
  mp_value *value = mp_value_new_string(source->env, text);
  bool put = key != NULL && value != NULL && mp_map_put(&source->artifacts, key, value);
  mp_key_release(source->env, key);
  if (put) return MOONPAD_OK;
  mp_value_release(source->env, value);
  return mp_no_memory(error);
}

static void copy_artifacts(lua_State *L, template_source *source, int table) {
  moonpad_error error;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    if (lua_type(L, -2) == LUA_TSTRING && lua_type(L, -1) == LUA_TSTRING) {
      moonpad_string file, text;
      file.data = lua_tolstring(L, -2, &file.length);
      text.data = lua_tolstring(L, -1, &text.length);
      mp_check(L, add_artifact(source, file, text, &error), &error);
    }
    lua_pop(L, 1);
  }
}

static bool look_up(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error) {
  static const char prefix[] = "artifact.";
  const template_source *source = context;
  size_t length = sizeof prefix - 1;
  if (name.length > length && memcmp(name.data, prefix, length) == 0) {
    moonpad_string file = {name.data + length, name.length - length};
    const mp_value *text = mp_map_get(&source->artifacts, file);
    value->type = MOONPAD_ABSENT;
    if (text != NULL) *value = text->as;
    return true;
  }
  return mp_changes_peek(source->changes, name, value, error) == MOONPAD_OK;
}

/* core.render(template, state, { syntax?, agentName?, artifacts? }) -> string */
static int core_render(lua_State *L) {
  static const char *const known[] = {"syntax", "agentName", "artifacts", NULL};
  mp_lua *binding = mp_lua_of(L);
  lua_settop(L, 3);
  moonpad_string text = mp_argument_string(L, 1, "template", "template");
  mp_lua_state *state = mp_check_state(L, binding, 2, "core.render");
  moonpad_template_options options;
  moonpad_template_options_init(&options);
  template_source *source = mp_box_push(L, sizeof *source, release_source);
  mp_map_init(&source->artifacts, binding->env);
  source->env = mp_env_retain(binding->env);
  source->changes = state->box->changes;
  if (!lua_isnil(L, 3)) {
    mp_options_table given = mp_check_options(L, 3, "core.render", known);
    int syntax = mp_field_index(given, "syntax");
    if (syntax != 0) options.syntax = check_syntax(L, syntax);
    options.agent_name = mp_field_optional_string(given, "agentName");
    int artifacts = mp_field_index(given, "artifacts");
    if (artifacts != 0 && lua_istable(L, artifacts)) copy_artifacts(L, source, artifacts);
  }
  mp_buffer *out = mp_box_push_buffer(L, binding);
  moonpad_error error;
  mp_check(L, mp_template_render(binding->env, text, &options, look_up, source, out, &error), &error);
  if (out->failed) mp_check(L, mp_no_memory(&error), &error);
  lua_pushlstring(L, out->data, out->length);
  mp_box_release(out);
  mp_box_release(source);
  return 1;
}

/* ---- ids and clocks ---- */

static int core_uuid4(lua_State *L) {
  char id[MP_UUID_BYTES];
  mp_uuid4(mp_lua_of(L)->env, id);
  lua_pushlstring(L, id, sizeof id);
  return 1;
}

static int core_uuid7(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  char id[MP_UUID_BYTES];
  mp_uuid7(binding->env, mp_now(binding->env), id);
  lua_pushlstring(L, id, sizeof id);
  return 1;
}

/* core.now([service or session]): that service's clock, else the system's */
static int core_now(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_env *env = binding->env;
  mp_lua_service *service = mp_test_userdata(L, 1, binding->service_meta);
  if (service != NULL && service->service != NULL) {
    env = service->service->env;
  } else if (service == NULL) {
    mp_session_box *session = mp_test_session(L, binding, 1);
    if (session != NULL) env = session->session->env;
  }
  lua_pushnumber(L, mp_now(env));
  return 1;
}

/* core.monotonic(): seconds since some point that stays the same */
static int core_monotonic(lua_State *L) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  lua_pushnumber(L, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
  return 1;
}

void mp_context_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {{"changes", core_changes},
                                       {"state", core_state},
                                       {"readOnly", core_read_only},
                                       {"savepoint", core_savepoint},
                                       {"rollback", core_rollback},
                                       {"merge", core_merge},
                                       {"finish", core_finish},
                                       {"commit", core_commit},
                                       {"putUnchecked", mp_state_put_unchecked},
                                       {"templateArtifacts", core_template_artifacts},
                                       {"render", core_render},
                                       {"uuid4", core_uuid4},
                                       {"uuid7", core_uuid7},
                                       {"now", core_now},
                                       {"monotonic", core_monotonic},
                                       {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
}
