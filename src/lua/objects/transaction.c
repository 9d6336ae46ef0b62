/*
** The transactions of tool calls, for the runner's contexts: see service/changes/transaction.h. For
** the Lua layer, not for users.
*/
#include "lua/base/arguments.h"
#include "lua/codec/codec.h"
#include "lua/codec/event.h"
#include "lua/objects/objects.h"

/*
** core.callChanges(state): a state object over another one, that of the answer which the call
** belongs to.
*/
static int call_changes(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_changes_box *below = mp_check_state(L, binding, 1, "core.callChanges")->box;
  mp_lua_state *state = mp_push_state(L, binding);
  moonpad_error error;
  mp_changes_box *box = mp_changes_box_new(binding, below->session);
  if (box == NULL) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  state->box = box;
  mp_check(L, mp_changes_over(below->changes, &box->changes, &error), &error);
  box->owned = true;
  box->below = mp_changes_box_retain(below);
  return 1;
}

/* core.beginTransaction(state) */
static int begin_transaction(lua_State *L) {
  mp_transaction_begin(mp_check_state(L, mp_lua_of(L), 1, "core.beginTransaction")->box->changes);
  return 0;
}

static mp_changes_box *check_call(lua_State *L, const char *where) {
  mp_changes_box *box = mp_check_state(L, mp_lua_of(L), 1, where)->box;
  if (box->below == NULL) mp_raise_argument(L, "%s: this state is no tool call's", where);
  return box;
}

/* core.commitTransaction(state) */
static int commit_transaction(lua_State *L) {
  mp_changes_box *box = check_call(L, "core.commitTransaction");
  mp_outcome *outcome = mp_box_push_outcome(L, mp_lua_of(L));
  moonpad_error error;
  if (mp_transaction_commit(box->changes, &error) != MOONPAD_OK) {
    mp_raise_append(L, outcome, box->session->session, &error, 0);
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
  mp_changes_box *box = mp_check_state(L, binding, 1, "core.snapshot")->box;
  mp_buffer *text = mp_box_push_buffer(L, binding);
  moonpad_error error;
  mp_check(L, mp_changes_write_all(box->changes, false, text, &error), &error);
  mp_decode_own(L, binding, mp_buffer_text(text));
  mp_box_release(text);
  return 1;
}

/* ---- What an agent as a tool has written in its own session ---- */

static void release_writes(void *payload) {
  mp_writes_free(*(mp_writes **)payload);
}

/* core.writes(state) -> writes */
static int writes(lua_State *L) {
  mp_changes_box *box = mp_check_state(L, mp_lua_of(L), 1, "core.writes")->box;
  mp_writes **result = mp_box_push(L, sizeof *result, release_writes);
  moonpad_error error;
  mp_check(L, mp_changes_writes(box->changes, result, &error), &error);
  return 1;
}

/* core.addWrites(state, writes) */
static int add_writes(lua_State *L) {
  mp_changes_box *box = mp_check_state(L, mp_lua_of(L), 1, "core.addWrites")->box;
  mp_writes *const *given = mp_box_test(L, 2, release_writes);
  if (given == NULL) mp_raise_argument(L, "core.addWrites: expects writes, got %s", mp_describe(L, 2));
  moonpad_error error;
  mp_check(L, mp_changes_add_writes(box->changes, *given, &error), &error);
  return 0;
}

void mp_transaction_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {{"callChanges", call_changes},
                                       {"beginTransaction", begin_transaction},
                                       {"commitTransaction", commit_transaction},
                                       {"rollbackTransaction", rollback_transaction},
                                       {"snapshot", snapshot},
                                       {"writes", writes},
                                       {"addWrites", add_writes},
                                       {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
}
