/*
** What a service makes of a store whose tombstones have been purged: nothing is taken for unchanged
** that may not be. No call of moonpad.h purges: the test asks the store itself.
*/
#include "service_support.h"

#include <stdio.h>

#include "service/session/session.h"

typedef struct purging {
  const moonpad_session *session;
  mp_scope scope;
} purging;

static moonpad_status purge_in(mp_tx *tx, void *context, moonpad_error *error) {
  const purging *purge = context;
  mp_facts facts;
  mp_look look = {
      .ref = mp_session_ref_of(purge->session), .heads = MP_ALL_HEADS, .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS}};
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  if (status != MOONPAD_OK) return status;
  if (!MP_HAS(mp_tx_ops, tx->ops, purge)) return MOONPAD_UNSUPPORTED;
  return tx->ops->purge(tx, &look.ref, purge->scope, mp_row_revision(&facts.row, purge->scope), error);
}

/* Forgets all tombstones of a scope, as housekeeping may, where the store has it. */
static void purge(host *self, const moonpad_session *session, mp_scope scope) {
  purging purge = {session, scope};
  mp_store *store = self->service->store;
  moonpad_status status = store->ops->write(store, purge_in, &purge, &failure);
  if (status != MOONPAD_UNSUPPORTED) OK(status);
}

static void remove_key(moonpad_session *session, const char *key, const char *delta) {
  char event[256];
  snprintf(event, sizeof event, "{\"author\":\"agent\",\"actions\":{\"stateDelta\":%s},\"removedStateKeys\":[\"%s\"]}",
           delta, key);
  OK(moonpad_append_event(session, T(event), NULL, &failure));
}

static void set_number(moonpad_session *session, const char *key, int64_t number) {
  moonpad_changes *changes;
  moonpad_value value = {.type = MOONPAD_INTEGER, .as.integer = number};
  OK(moonpad_session_changes(session, &changes, &failure));
  OK(moonpad_changes_set(changes, T(key), T(""), &value, &failure));
}

static void test_a_refresh_notices_what_was_removed(void **state) {
  host *self = *state;
  moonpad_session *held = host_create(self, "s", "{\"gone\":1,\"kept\":[1],\"user:gone\":1,\"app:kept\":2}");
  moonpad_session *other = host_get(self, "s");
  remove_key(other, "gone", "{\"gone\":null,\"new\":3}");
  remove_key(other, "user:gone", "{\"user:gone\":null}");
  purge(self, other, MP_SCOPE_SESSION);
  purge(self, other, MP_SCOPE_USER);
  OK(moonpad_refresh(held, &failure));
  STATE(held, "{\"app:kept\":2,\"kept\":[1],\"new\":3}");
  STORED(self, "s", "{\"app:kept\":2,\"kept\":[1],\"new\":3}");
  moonpad_session_free(held);
  moonpad_session_free(other);
}

static void test_an_append_brings_the_object_up_to_that(void **state) {
  host *self = *state;
  moonpad_session *held = host_create(self, "s", "{\"gone\":1,\"kept\":2}");
  moonpad_session *other = host_get(self, "s");
  remove_key(other, "gone", "{\"gone\":null}");
  purge(self, other, MP_SCOPE_SESSION);
  host_append(held, "{\"mine\":1}");
  STATE(held, "{\"kept\":2,\"mine\":1}");
  moonpad_session_free(held);
  moonpad_session_free(other);
}

/* Nobody can tell any more whether the key was removed after the writer had read it. */
static void test_a_write_based_on_what_is_forgotten_conflicts(void **state) {
  host *self = *state;
  moonpad_session *held = host_create(self, "s", "{\"gone\":1,\"kept\":2}");
  moonpad_session *other = host_get(self, "s");
  set_number(held, "gone", 5);
  remove_key(other, "gone", "{\"gone\":null}");
  host_append(other, "{\"kept\":3}");
  purge(self, other, MP_SCOPE_SESSION);
  FAILS(MOONPAD_CONFLICT, moonpad_update_session(held, NULL, &failure));
  assert_int_equal(moonpad_session_conflict_count(held), 1);
  SAYS(moonpad_session_conflict_key(held, 0), "gone");
  OK(moonpad_refresh(held, &failure));
  OK(moonpad_update_session(held, NULL, &failure));
  STORED(self, "s", "{\"gone\":5,\"kept\":3}");
  moonpad_session_free(held);
  moonpad_session_free(other);
}

/* That it is absent may have been taken in since, with an append of something else. */
static void test_a_write_based_on_what_was_taken_in_conflicts(void **state) {
  host *self = *state;
  moonpad_session *held = host_create(self, "s", "{\"user:gone\":1}");
  moonpad_session *other = host_get(self, "s");
  moonpad_changes *changes;
  moonpad_value value;
  OK(moonpad_session_changes(held, &changes, &failure));
  OK(moonpad_changes_get(changes, T("user:gone"), T(""), &value, &failure));
  set_number(held, "user:gone", value.as.integer + 1);
  remove_key(other, "user:gone", "{\"user:gone\":null}");
  purge(self, other, MP_SCOPE_USER);
  host_append(held, "{\"other\":1}");
  FAILS(MOONPAD_CONFLICT, moonpad_update_session(held, NULL, &failure));
  SAYS(moonpad_session_conflict_key(held, 0), "user:gone");
  moonpad_session_free(held);
  moonpad_session_free(other);
}

static void test_a_write_of_another_key_goes_through(void **state) {
  host *self = *state;
  moonpad_session *held = host_create(self, "s", "{\"gone\":1,\"kept\":2}");
  moonpad_session *other = host_get(self, "s");
  set_number(held, "kept", 5);
  remove_key(other, "gone", "{\"gone\":null}");
  purge(self, other, MP_SCOPE_SESSION);
  OK(moonpad_update_session(held, NULL, &failure));
  STATE(held, "{\"kept\":5}");
  STORED(self, "s", "{\"kept\":5}");
  moonpad_session_free(held);
  moonpad_session_free(other);
}

static void test_a_rewind_across_it_is_exact(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"first\":[1]}");
  remove_key(session, "first", "{\"second\":2,\"first\":null}");
  remove_key(session, "second", "{\"third\":3,\"second\":null}");
  purge(self, session, MP_SCOPE_SESSION);
  static const char *const states[] = {"{\"first\":[1]}", "{\"second\":2}", "{\"third\":3}"};
  for (int64_t revision = 2; revision >= 0; revision--) {
    OK(moonpad_rewind_to_revision(session, revision, NULL, &failure));
    STATE(session, states[revision]);
    STORED(self, "s", states[revision]);
  }
  moonpad_session *fork;
  OK(moonpad_fork(session, 1, T("fork"), &fork, &failure));
  STATE(fork, states[1]);
  moonpad_session_free(fork);
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_a_refresh_notices_what_was_removed),
      ON_EVERY_STORE(test_an_append_brings_the_object_up_to_that),
      ON_EVERY_STORE(test_a_write_based_on_what_is_forgotten_conflicts),
      ON_EVERY_STORE(test_a_write_based_on_what_was_taken_in_conflicts),
      ON_EVERY_STORE(test_a_write_of_another_key_goes_through),
      ON_EVERY_STORE(test_a_rewind_across_it_is_exact),
  };
  return HOST_RUN(tests);
}
