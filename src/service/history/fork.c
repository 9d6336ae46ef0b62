/* fork: a new session with the events up to a revision and the state after them (contract 2). */
#include "base/error.h"
#include "service/history/history.h"
#include "service/history/replay.h"
#include "service/names.h"
#include "service/session/quota.h"

typedef struct fork_job {
  const moonpad_session *session;
  int64_t revision;
  moonpad_session_name name;
  double now;
  mp_expiry origin;
  mp_quota quota;
  moonpad_session *forked;
  mp_session_row from;
  mp_session_row to;
  bool is_copied;          /* the fork gets `state`, the state as it is now; else `replay` */
  mp_replay replay;        /* the state after an earlier revision */
  mp_changed_keys state;   /* the state as it is now, removed keys included */
  mp_changed_keys changed; /* keys changed since the base state */
} fork_job;

static moonpad_status note_time(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  ((fork_job *)context)->to.last_update_time = row->timestamp;
  return MOONPAD_OK;
}

static moonpad_status note_message(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)row, (void)error;
  ((fork_job *)context)->to.conversation_count--;
  return MOONPAD_OK;
}

/*
** Reads the fork's lastUpdateTime and conversationCount. The messages of the user are counted down
** from all of the origin's: those at the beginning may have been trimmed away.
*/
static moonpad_status read_numbers(fork_job *fork, mp_tx *tx, moonpad_error *error) {
  mp_session_ref from = mp_session_ref_of(fork->session);
  mp_event_query last = {.first = fork->revision, .last = fork->revision, .without_json = true};
  mp_event_query later = {
      .first = fork->revision + 1, .last = fork->from.revision, .without_json = true, .kinds = MP_EVENT_USER_MESSAGE};
  fork->to.conversation_count = fork->from.conversation_count;
  moonpad_status status = MOONPAD_OK;
  if (fork->revision > fork->from.base_revision) status = tx->ops->each_event(tx, &from, &last, note_time, fork, error);
  if (status != MOONPAD_OK || later.first > later.last) return status;
  return tx->ops->each_event(tx, &from, &later, note_message, fork, error);
}

/* Adds the removed keys behind those that have a value. */
static moonpad_status add_removed(mp_entries *state, const mp_entries *changed, moonpad_error *error) {
  for (size_t i = 0; i < changed->count; i++) {
    const mp_entry *key = &changed->items[i];
    if (key->value != NULL) continue;
    mp_entry *removed = mp_entries_add_owned(state, mp_key_retain(key->owned));
    if (removed == NULL) return mp_no_memory(error);
    removed->revision = key->revision;
  }
  return MOONPAD_OK;
}

/*
** The state after the newest revision is stored and can be copied. That after an earlier one is
** replayed; so is the newest where tombstones have been purged, for then removed keys are unknown.
*/
static moonpad_status read_origin(fork_job *fork, mp_tx *tx, moonpad_error *error) {
  mp_session_ref from = mp_session_ref_of(fork->session);
  mp_replay_clear(&fork->replay);
  moonpad_status status = mp_history_look(&fork->origin, tx, 0, &fork->changed, &fork->from, error);
  bool is_newest = fork->revision == fork->from.revision;
  fork->is_copied = status == MOONPAD_OK && is_newest && fork->changed.complete_scopes == 0;
  if (fork->is_copied) status = mp_history_look(&fork->origin, tx, MP_EVERY_KEY, &fork->state, &fork->from, error);
  if (status == MOONPAD_OK && fork->is_copied) return add_removed(&fork->state.found, &fork->changed.found, error);
  if (status != MOONPAD_OK) return status;
  return mp_replay_to(&fork->replay, tx, &from, &fork->from, fork->revision, error);
}

static moonpad_status write_fork(fork_job *fork, mp_tx *tx, moonpad_error *error) {
  const mp_entries *state = fork->is_copied ? &fork->state.found : &fork->replay.state;
  mp_state_row *writes = mp_rows_of(state);
  mp_session_row *to = &fork->to;
  to->revision = fork->revision;
  to->base_revision = fork->from.base_revision;
  mp_batch batch = {.ref = mp_session_ref_of_row(&fork->name, to),
                    .row = to,
                    .heads = MP_HEAD(MP_SCOPE_SESSION),
                    .touched = mp_time_of_use(fork->now),
                    .keys = writes,
                    .key_count = state->count};
  moonpad_status status = writes == NULL ? mp_no_memory(error) : tx->ops->apply(tx, &batch, error);
  mp_release(fork->session->env, writes);
  return status;
}

static moonpad_status fork_in(mp_tx *tx, void *context, moonpad_error *error) {
  fork_job *fork = context;
  moonpad_status status = read_origin(fork, tx, error);
  if (status != MOONPAD_OK) return status;
  status = mp_expiry_create_session(&fork->quota.expiry, tx, fork->now, &fork->to, error);
  if (status == MOONPAD_ALREADY_EXISTS) return mp_fail_exists(&fork->name, error);
  mp_session_ref from = mp_session_ref_of(fork->session), to = mp_session_ref_of_row(&fork->name, &fork->to);
  if (status == MOONPAD_OK) status = tx->ops->copy_history(tx, &from, &to, fork->revision, error);
  if (status == MOONPAD_OK) status = read_numbers(fork, tx, error);
  if (status == MOONPAD_OK) status = write_fork(fork, tx, error);
  if (status == MOONPAD_OK) status = mp_quota_apply(&fork->quota, tx, error);
  if (status != MOONPAD_OK) return status;
  return mp_session_make_stored(fork->session->service, &fork->name, tx, &fork->to, &fork->forked, error);
}

moonpad_status moonpad_fork(moonpad_session *session, int64_t revision, moonpad_string session_id,
                            moonpad_session **forked, moonpad_error *error) {
  *forked = NULL;
  mp_session_drain(session);
  mp_env *env = session->env;
  fork_job fork;
  memset(&fork, 0, sizeof fork);
  fork.session = session;
  fork.revision = revision;
  char id[MP_UUID_BYTES];
  moonpad_session_name given = mp_session_names(session);
  given.session_id = session_id;
  moonpad_status status = mp_name_new_session(env, &given, id, &fork.name, error);
  if (status == MOONPAD_OK) status = mp_now(env, &fork.now, error);
  if (status == MOONPAD_OK) status = mp_history_begin(&fork.origin, session, error);
  if (status == MOONPAD_OK) status = mp_quota_begin(&fork.quota, session->service, &fork.name, error);
  if (status != MOONPAD_OK) return status;
  mp_replay_init(&fork.replay, env);
  mp_changed_keys_init(&fork.state, env);
  mp_changed_keys_init(&fork.changed, env);
  fork.origin.writes = true;
  status = mp_expiry_write(&fork.quota.expiry, fork_in, &fork, error);
  if (status == MOONPAD_OK) {
    mp_expiry_renew(&fork.origin);
    mp_expiry_renew(&fork.quota.expiry);
    *forked = fork.forked;
  } else {
    moonpad_session_free(fork.forked);
  }
  mp_replay_free(&fork.replay);
  mp_changed_keys_free(&fork.state);
  mp_changed_keys_free(&fork.changed);
  return status;
}
