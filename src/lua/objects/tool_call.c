/*
** The transactions of tool calls, for the runner's contexts: see service/changes/transaction.h. For
** the Lua layer, not for users.
*/
#include "lua/base/arguments.h"
#include "lua/codec/codec.h"
#include "lua/codec/event.h"
#include "lua/objects/objects.h"
#include "service/binding/state.h"

/*
** core.beginCallChanges(state): a state object over another one, that of the answer which the call
** belongs to.
*/
static int begin_call_changes(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_change_set *below = mp_check_state(L, binding, 1, "core.beginCallChanges")->set;
  mp_lua_state *state = mp_push_state(L, binding);
  moonpad_error error;
  mp_change_set *set = mp_change_set_new(binding, below->session);
  if (set == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  state->set = set;
  mp_check(L, mp_changes_new_over(below->changes, &set->changes, &error), &error);
  set->owned = true;
  set->below = mp_change_set_retain(below);
  return 1;
}

/* core.beginTransaction(state) */
static int begin_transaction(lua_State *L) {
  mp_transaction_begin(mp_check_state(L, mp_lua_of(L), 1, "core.beginTransaction")->set->changes);
  return 0;
}

static mp_change_set *check_call(lua_State *L, const char *where) {
  mp_change_set *set = mp_check_state(L, mp_lua_of(L), 1, where)->set;
  if (set->below == NULL) mp_raise_argument(L, "%s: this state is no tool call's", where);
  return set;
}

/* core.commitTransaction(state) */
static int commit_transaction(lua_State *L) {
  mp_change_set *set = check_call(L, "core.commitTransaction");
  mp_outcome *outcome = mp_push_outcome(L, mp_lua_of(L));
  moonpad_error error;
  if (mp_transaction_commit(set->changes, &error) != MOONPAD_OK) {
    mp_raise_append(L, outcome, set->session->session, &error, 0);
  }
  return 0;
}

/* core.rollbackTransaction(state) */
static int rollback_transaction(lua_State *L) {
  mp_transaction_rollback(check_call(L, "core.rollbackTransaction")->changes);
  return 0;
}

/* core.snapshot(state) -> table */
static int snapshot(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_change_set *set = mp_check_state(L, binding, 1, "core.snapshot")->set;
  mp_buffer *text = mp_handle_push_buffer(L, binding);
  moonpad_error error;
  mp_check(L, mp_changes_write_all(set->changes, false, text, &error), &error);
  mp_decode_trusted(L, binding, mp_buffer_text(text));
  mp_handle_release(text);
  return 1;
}

/* ---- What an agent as a tool has written in its own session ---- */

static void release_writes(void *payload) {
  mp_writes_free(*(mp_writes **)payload);
}

/* core.writes(state) -> writes */
static int writes(lua_State *L) {
  mp_change_set *set = mp_check_state(L, mp_lua_of(L), 1, "core.writes")->set;
  mp_writes **result = mp_handle_push(L, sizeof *result, release_writes);
  moonpad_error error;
  mp_check(L, mp_changes_writes(set->changes, result, &error), &error);
  return 1;
}

/* core.addWrites(state, writes) */
static int add_writes(lua_State *L) {
  mp_change_set *set = mp_check_state(L, mp_lua_of(L), 1, "core.addWrites")->set;
  mp_writes *const *given = mp_handle_test(L, 2, release_writes);
  if (given == NULL) mp_raise_argument(L, "core.addWrites: expects writes, got %s", mp_describe(L, 2));
  moonpad_error error;
  mp_check(L, mp_changes_add_writes(set->changes, *given, &error), &error);
  return 0;
}

void mp_transaction_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {{"beginCallChanges", begin_call_changes},
                                       {"beginTransaction", begin_transaction},
                                       {"commitTransaction", commit_transaction},
                                       {"rollbackTransaction", rollback_transaction},
                                       {"snapshot", snapshot},
                                       {"writes", writes},
                                       {"addWrites", add_writes},
                                       {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
}
