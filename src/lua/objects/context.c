/*
** What the runner's contexts are made of: change sets, commits; templates; ids and clocks. For the
** Lua layer, not for users.
*/

#include "base/platform.h"
#include "base/uuid.h"
#include "core/template.h"
#include "lua/async/drain.h"
#include "lua/async/stepped_append.h"
#include "lua/base/arguments.h"
#include "lua/base/clock.h"
#include "lua/codec/event.h"
#include "lua/objects/objects.h"
#include "service/binding/append.h"
#include "service/binding/service.h"
#include "service/binding/session.h"
#include "service/binding/state.h"

/* ---- State objects ---- */

/*
** Gives a new state object a change set of its own: over a session, or over nothing where that is
** NULL. Raises e.
*/
static void start_set(lua_State *L, mp_lua *binding, mp_lua_state *state, mp_session_object *session) {
  moonpad_error error;
  mp_change_set *set = mp_change_set_new(binding, session);
  if (set == NULL) mp_check(L, mp_no_memory(&error), &error);
  state->set = set;
  moonpad_status status = session == NULL ? mp_changes_new_detached(binding->env, &set->changes, &error)
                                          : moonpad_changes_begin(session->session, &set->changes, &error);
  mp_check(L, status, &error);
  set->owned = true;
}

/* core.beginChanges(session [, branch]): a state object over a change set of its own */
static int begin_changes(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_session_object *session = mp_check_session(L, binding, 1, "core.beginChanges");
  moonpad_string branch = moonpad_text("");
  if (!lua_isnoneornil(L, 2)) branch = mp_argument_string(L, 2, "core.beginChanges", "branch");
  mp_lua_state *state = mp_push_state(L, binding);
  start_set(L, binding, state, session);
  moonpad_error error;
  mp_check(L, mp_changes_set_branch(state->set->changes, branch, &error), &error);
  return 1;
}

/* core.state([table]): moonpad.state */
static int new_detached(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  lua_settop(L, 1);
  mp_refuse_module(L, 1, "state");
  mp_lua_state *state = mp_push_state(L, binding);
  start_set(L, binding, state, NULL);
  if (!lua_isnil(L, 1)) mp_state_update(L, binding, state, 1);
  mp_changes_promote(state->set->changes);
  lua_settop(L, 2);
  return 1;
}

/* core.readOnly(state) */
static int read_only(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *source = mp_check_state(L, binding, 1, "core.readOnly");
  mp_lua_state *state = mp_push_state(L, binding);
  state->read_only = true;
  state->set = mp_change_set_retain(source->set);
  return 1;
}

/* core.putLastWriterWins(state, key, value) */
static int put_last_writer_wins(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "core.putLastWriterWins");
  moonpad_string key = mp_argument_string(L, 2, "core.putLastWriterWins", "key");
  lua_settop(L, 3);
  mp_state_write(L, binding, state, key, 3, true);
  return 0;
}

/* The state at 1 of a commit, whose event is at 2. */
static mp_change_set *check_commit(lua_State *L, mp_lua *binding) {
  mp_lua_state *state = mp_check_state(L, binding, 1, "core.commit");
  if (state->set->session == NULL) mp_raise_argument(L, "core.commit: this state object belongs to no session");
  if (state->read_only) mp_raise_argument(L, "core.commit: this state is read-only");
  return state->set;
}

static void check_open_changes(lua_State *L, const mp_change_set *set) {
  const char *ended = mp_changes_ended(set->changes);
  if (ended != NULL) mp_raise_argument(L, "core.commit: this state takes no more writes: %s", ended);
}

static int commit_at_once(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_change_set *set = check_commit(L, binding);
  moonpad_session *session = set->session->session;
  mp_outcome *outcome = mp_push_outcome(L, binding);
  int outcome_index = lua_gettop(L);
  check_open_changes(L, set);
  moonpad_error error;
  moonpad_string json = mp_encode_event(L, binding, 2, "core.commit", mp_session_options(session)->max_event_bytes);
  mp_append_request request = {.event = json, .is_trusted = true, .changes = set->changes};
  if (mp_append_now(session, &request, &outcome->event, &error) != MOONPAD_OK) {
    mp_raise_append(L, outcome, session, &error, 2);
  }
  return mp_push_stored(L, binding, outcome_index, outcome);
}

static int commit_in_step(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_change_set *set = check_commit(L, binding);
  moonpad_session *session = set->session->session;
  if (!mp_push_registered_service(L, moonpad_session_service(session))) return commit_at_once(L);
  mp_lua_service *handle = lua_touserdata(L, -1);
  mp_stepped_append *stepped = mp_stepped_append_push(L, binding, set->session);
  stepped->event = 2;
  check_open_changes(L, set);
  moonpad_string json = mp_encode_event(L, binding, 2, "core.commit", mp_session_options(session)->max_event_bytes);
  mp_append_request request = {.event = json, .is_trusted = true, .changes = set->changes};
  return mp_stepped_append_make(L, stepped, handle, &request);
}

/* core.commit(state, event) -> stored */
static int commit(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_check_state(L, binding, 1, "core.commit");
  lua_settop(L, 2);
  if (mp_is_partial_event(L, 2)) return 1;
  mp_session_object *session = check_commit(L, binding)->session;
  if (mp_ask_clock(L, mp_session_env(session->session))) session = check_commit(L, binding)->session;
  if (!mp_appends_in_step(L, moonpad_session_service(session->session))) return commit_at_once(L);
  return mp_when_drained(L, session, commit_in_step);
}

/* core.endChanges(state, reason): the first reason stays. */
static int end_changes(lua_State *L) {
  mp_lua_state *state = mp_check_state(L, mp_lua_of(L), 1, "core.endChanges");
  moonpad_string reason = mp_argument_string(L, 2, "core.endChanges", "reason");
  mp_change_set *set = state->set;
  if (set->reason == NULL) {
    set->reason = mp_allocate(set->env, reason.length + 1);
    if (set->reason != NULL) memcpy(set->reason, reason.data, reason.length + 1);
  }
  mp_changes_end(set->changes, set->reason != NULL ? set->reason : "its invocation has ended");
  return 0;
}

/* ---- Templates ---- */

static moonpad_template_syntax syntax_of(mp_options_table options) {
  static const char *const names[] = {"both", "braces", "angles", NULL};
  return (moonpad_template_syntax)mp_field_choice(options, "syntax", names, MOONPAD_TEMPLATE_BOTH);
}

typedef struct artifact {
  moonpad_string file;
  moonpad_string text;
} artifact;

/* What a template may ask for. All text is kept by Lua values on the stack. */
typedef struct sources {
  moonpad_changes *changes;
  const artifact *artifacts; /* NULL: not given */
  size_t count;
  bool asked; /* for an artifact */
} sources;

static bool look_up(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error) {
  static const char prefix[] = "artifact.";
  sources *from = context;
  const size_t skip = sizeof prefix - 1;
  if (name.length < skip || memcmp(name.data, prefix, skip) != 0) {
    return mp_changes_peek(from->changes, name, value, error) == MOONPAD_OK;
  }
  from->asked = true;
  for (size_t i = 0; i < from->count; i++) {
    moonpad_string file = from->artifacts[i].file;
    if (file.length == name.length - skip && memcmp(file.data, name.data + skip, file.length) == 0) {
      *value = moonpad_string_value(from->artifacts[i].text);
    }
  }
  return true;
}

/*
** Reads the texts of artifacts from a table { [file] = text }. Leaves the memory that `from` points
** to on the stack, as a userdata.
*/
static void read_artifacts(mp_options_table options, sources *from) {
  lua_State *L = options.L;
  int table = mp_field_index(options, "artifacts");
  if (table == 0) return;
  if (!lua_istable(L, table)) mp_raise_argument(L, "core.render: artifacts: expects a table");
  size_t count = 0;
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) count++;
  artifact *artifacts = lua_newuserdatauv(L, (count + 1) * sizeof *artifacts, 0);
  from->artifacts = artifacts;
  lua_pushnil(L);
  while (lua_next(L, table) && from->count < count) {
    if (lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TSTRING) {
      mp_raise_argument(L, "core.render: artifacts: expects texts by file name");
    }
    artifact *here = &artifacts[from->count++];
    here->file.data = lua_tolstring(L, -2, &here->file.length);
    here->text.data = lua_tolstring(L, -1, &here->text.length);
    lua_pop(L, 1);
  }
}

/*
** core.render(template, state, { syntax?, agentName?, artifacts? }) -> text; nil where it asks for
** artifacts and none were given
*/
static int render(lua_State *L) {
  static const char *const known[] = {"syntax", "agentName", "artifacts", NULL};
  mp_lua *binding = mp_lua_of(L);
  moonpad_string text = mp_argument_string(L, 1, "core.render", "template");
  mp_lua_state *state = mp_check_state(L, binding, 2, "core.render");
  lua_settop(L, 3);
  if (lua_isnil(L, 3)) {
    lua_newtable(L);
    lua_replace(L, 3);
  }
  mp_options_table options = mp_check_options(L, 3, "core.render", known);
  moonpad_template_options choice;
  moonpad_template_options_init(&choice);
  choice.syntax = syntax_of(options);
  choice.agent_name = mp_field_optional_string(options, "agentName");
  sources from = {state->set->changes, NULL, 0, false};
  read_artifacts(options, &from);
  /* Nothing runs Lua before it is copied. */
  mp_buffer *out = &binding->text;
  mp_buffer_clear(out);
  moonpad_error error;
  moonpad_status status = mp_template_render(binding->env, text, &choice, look_up, &from, out, &error);
  if (status == MOONPAD_OK && out->failed) status = mp_no_memory(&error);
  if (from.asked && from.artifacts == NULL && status != MOONPAD_NO_MEMORY) {
    lua_pushnil(L);
    return 1;
  }
  mp_check(L, status, &error);
  lua_pushlstring(L, out->data, out->length);
  return 1;
}

/*
** Notes a name as its length and its bytes: the scan holds memory, so nothing may raise inside it.
*/
static bool note_file(void *context, moonpad_string file) {
  mp_buffer *files = context;
  mp_buffer_add(files, (const char *)&file.length, sizeof file.length);
  mp_buffer_add_string(files, file);
  return !files->failed;
}

/* core.templateArtifacts(template, syntax) */
static int template_artifacts(lua_State *L) {
  static const char *const names[] = {"both", "braces", "angles", NULL};
  moonpad_string text = mp_argument_string(L, 1, "core.templateArtifacts", "template");
  moonpad_template_options choice;
  moonpad_template_options_init(&choice);
  choice.syntax = (moonpad_template_syntax)luaL_checkoption(L, 2, "both", names);
  mp_buffer *files = mp_handle_push_buffer(L, mp_lua_of(L));
  lua_newtable(L);
  moonpad_status status = mp_template_artifacts(text, &choice, note_file, files);
  if (status != MOONPAD_OK || files->failed) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  lua_Integer count = 0;
  for (size_t at = 0; at < files->length;) {
    size_t length;
    memcpy(&length, files->data + at, sizeof length);
    lua_pushlstring(L, files->data + at + sizeof length, length);
    lua_rawseti(L, -2, ++count);
    at += sizeof length + length;
  }
  mp_handle_release(files);
  return 1;
}

/* ---- Ids and clocks ---- */

/*
** The host's own sources, where an argument names a session or a service: what they give makes a
** run repeatable.
*/
static mp_env *env_at(lua_State *L, mp_lua *binding, int index) {
  mp_session_object *session = mp_test_session(L, binding, index);
  if (session != NULL) return mp_session_env(session->session);
  mp_lua_service *service = mp_test_userdata(L, index, binding->service_meta);
  return service != NULL && service->service != NULL ? mp_service_env(service->service) : binding->env;
}

/* The same, after its clock was asked. */
static mp_env *asked_env_at(lua_State *L, mp_lua *binding, int index) {
  mp_env *env = env_at(L, binding, index);
  return mp_ask_clock(L, env) ? env_at(L, binding, index) : env;
}

/* core.uuid4([session or service]) */
static int uuid4(lua_State *L) {
  char id[MP_UUID_BYTES];
  mp_uuid4(env_at(L, mp_lua_of(L), 1), id);
  lua_pushlstring(L, id, sizeof id);
  return 1;
}

/* core.uuid7([session or service]) */
static int uuid7(lua_State *L) {
  mp_env *env = asked_env_at(L, mp_lua_of(L), 1);
  char id[MP_UUID_BYTES];
  mp_uuid7(env, mp_check_now(L, env), id);
  lua_pushlstring(L, id, sizeof id);
  return 1;
}

/* core.now(session or service): by the service's clock */
static int now(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  bool is_session = mp_test_session(L, binding, 1) != NULL;
  mp_env *env = is_session ? asked_env_at(L, binding, 1) : mp_service_env(mp_check_service(L, binding, "core.now"));
  lua_pushnumber(L, mp_check_now(L, env));
  return 1;
}

static int monotonic(lua_State *L) {
  lua_pushnumber(L, mp_monotonic());
  return 1;
}

/* core.sleep(seconds) */
static int sleep_thread(lua_State *L) {
  mp_sleep(luaL_checknumber(L, 1));
  return 0;
}

void mp_context_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {{"beginChanges", begin_changes},
                                       {"state", new_detached},
                                       {"readOnly", read_only},
                                       {"putLastWriterWins", put_last_writer_wins},
                                       {"commit", commit},
                                       {"endChanges", end_changes},
                                       {"render", render},
                                       {"templateArtifacts", template_artifacts},
                                       {"uuid4", uuid4},
                                       {"uuid7", uuid7},
                                       {"now", now},
                                       {"monotonic", monotonic},
                                       {"sleep", sleep_thread},
                                       {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
}
