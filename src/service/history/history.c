/* Looking back and going back: stateAt, fork, rewind (contract 2). */
#include "service/history/history.h"

#include <stdio.h>

#include "base/error.h"
#include "base/uuid.h"

#include "core/event.h"
#include "core/json.h"
#include "service/append/append.h"
#include "service/changes/change_set.h"
#include "service/history/replay.h"

/* The row as it is now, and with `now` what changed of the session's own keys after `since`. */
static moonpad_status look(const moonpad_session *session, mp_tx *tx, int64_t since, mp_changed_keys *now,
                           mp_session_row *row, moonpad_error *error) {
  mp_session_ref place = mp_session_ref_of(session);
  mp_look look = {.ref = place,
                  .heads = MP_ALL_HEADS,
                  .since = {since, MP_NO_KEYS, MP_NO_KEYS},
                  .each_state = mp_changed_keys_add_row,
                  .context = now};
  mp_facts facts;
  moonpad_status status =
      now == NULL ? tx->ops->look(tx, &look, &facts, error) : mp_look_for_changed_keys(tx, &look, now, &facts, error);
  *row = facts.row;
  if (status != MOONPAD_NOT_FOUND) return status;
  return mp_fail(error, status, "%s does not exist (or was deleted and created anew)", mp_label(&place.name).text);
}

/* ---- stateAt ---- */

typedef struct looking_back {
  const moonpad_session *session;
  int64_t revision;
  mp_replay replay;
} looking_back;

static moonpad_status state_at_in(mp_tx *tx, void *context, moonpad_error *error) {
  looking_back *back = context;
  mp_replay_clear(&back->replay);
  mp_session_row row;
  mp_session_ref place = mp_session_ref_of(back->session);
  moonpad_status status = look(back->session, tx, MP_NO_KEYS, NULL, &row, error);
  return status == MOONPAD_OK ? mp_replay_to(&back->replay, tx, &place, &row, back->revision, error) : status;
}

moonpad_status moonpad_state_at(moonpad_session *session, int64_t revision, moonpad_buffer *json,
                                moonpad_error *error) {
  memset(json, 0, sizeof *json);
  mp_session_drain(session);
  looking_back back = {.session = session, .revision = revision};
  mp_replay_init(&back.replay, session->env);
  mp_buffer out;
  mp_buffer_init(&out, session->env);
  mp_store *store = session->service->store;
  moonpad_status status = store->ops->read(store, state_at_in, &back, error);
  if (status == MOONPAD_OK) status = mp_replay_write(&back.replay, &out, error);
  if (status == MOONPAD_OK) status = mp_buffer_hand_over(&out, json, error);
  mp_buffer_free(&out);
  mp_replay_free(&back.replay);
  return status;
}

/* ---- fork ---- */

typedef struct forking {
  const moonpad_session *session;
  int64_t revision;
  moonpad_session_name name;
  double now;
  moonpad_session *forked;
  mp_session_row from;
  mp_session_row to;
  /* the state as it is now is there to be copied: `state`; else `replay` */
  bool is_copied;
  mp_replay replay;        /* the state of an earlier revision */
  mp_changed_keys state;   /* with those that have been removed */
  mp_changed_keys changed; /* since the base state */
} forking;

static moonpad_status note_time(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  ((forking *)context)->to.last_update_time = row->timestamp;
  return MOONPAD_OK;
}

static moonpad_status note_message(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)row, (void)error;
  ((forking *)context)->to.conversation_count--;
  return MOONPAD_OK;
}

/*
** Messages of the user: all that there are but those after it, for of a trimmed history nobody
** knows the first ones.
*/
static moonpad_status read_numbers(forking *fork, mp_tx *tx, moonpad_error *error) {
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

/* Those that have been removed, behind those that have a value. */
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
** The state of the newest revision is there; any other, or one whose removed keys are forgotten,
** has to be replayed.
*/
static moonpad_status read_origin(forking *fork, mp_tx *tx, moonpad_error *error) {
  mp_session_ref from = mp_session_ref_of(fork->session);
  mp_replay_clear(&fork->replay);
  moonpad_status status = look(fork->session, tx, 0, &fork->changed, &fork->from, error);
  bool is_newest = fork->revision == fork->from.revision;
  fork->is_copied = status == MOONPAD_OK && is_newest && fork->changed.whole == 0;
  if (fork->is_copied) status = look(fork->session, tx, MP_EVERY_KEY, &fork->state, &fork->from, error);
  if (status == MOONPAD_OK && fork->is_copied) return add_removed(&fork->state.found, &fork->changed.found, error);
  if (status != MOONPAD_OK) return status;
  return mp_replay_to(&fork->replay, tx, &from, &fork->from, fork->revision, error);
}

static moonpad_status write_fork(forking *fork, mp_tx *tx, moonpad_error *error) {
  const mp_entries *state = fork->is_copied ? &fork->state.found : &fork->replay.state;
  mp_state_row *writes = mp_rows_of(state);
  mp_session_row *to = &fork->to;
  to->revision = fork->revision;
  to->base_revision = fork->from.base_revision;
  mp_batch batch = {.ref = mp_session_ref_of_row(&fork->name, to),
                    .row = to,
                    .heads = MP_HEAD(MP_SCOPE_SESSION),
                    .keys = writes,
                    .key_count = state->count};
  moonpad_status status = writes == NULL ? mp_no_memory(error) : tx->ops->apply(tx, &batch, error);
  mp_release(fork->session->env, writes);
  return status;
}

static moonpad_status fork_in(mp_tx *tx, void *context, moonpad_error *error) {
  forking *fork = context;
  moonpad_status status = read_origin(fork, tx, error);
  if (status != MOONPAD_OK) return status;
  status = tx->ops->create_session(tx, &fork->name, fork->now, &fork->to, error);
  if (status == MOONPAD_ALREADY_EXISTS) {
    return mp_fail(error, status, "%s exists already", mp_label(&fork->name).text);
  }
  mp_session_ref from = mp_session_ref_of(fork->session), to = mp_session_ref_of_row(&fork->name, &fork->to);
  if (status == MOONPAD_OK) status = tx->ops->copy_history(tx, &from, &to, fork->revision, error);
  if (status == MOONPAD_OK) status = read_numbers(fork, tx, error);
  if (status == MOONPAD_OK) status = write_fork(fork, tx, error);
  if (status != MOONPAD_OK) return status;
  return mp_session_make_stored(fork->session->service, &fork->name, tx, &fork->to, &fork->forked, error);
}

moonpad_status moonpad_fork(moonpad_session *session, int64_t revision, moonpad_string session_id,
                            moonpad_session **forked, moonpad_error *error) {
  *forked = NULL;
  mp_session_drain(session);
  mp_env *env = session->env;
  forking fork;
  memset(&fork, 0, sizeof fork);
  fork.session = session;
  fork.revision = revision;
  char id[MP_UUID_BYTES];
  moonpad_session_name given = mp_session_names(session);
  given.session_id = session_id;
  moonpad_status status = mp_check_session_name(&given, true, &fork.name, error);
  if (status == MOONPAD_OK) status = mp_now(env, &fork.now, error);
  if (status != MOONPAD_OK) return status;
  if (fork.name.session_id.length == 0) {
    mp_uuid4(env, id);
    fork.name.session_id = (moonpad_string){id, sizeof id};
  }
  mp_replay_init(&fork.replay, env);
  mp_changed_keys_init(&fork.state, env);
  mp_changed_keys_init(&fork.changed, env);
  mp_store *store = session->service->store;
  status = store->ops->write(store, fork_in, &fork, error);
  if (status == MOONPAD_OK) {
    *forked = fork.forked;
  } else {
    moonpad_session_free(fork.forked);
  }
  mp_replay_free(&fork.replay);
  mp_changed_keys_free(&fork.state);
  mp_changed_keys_free(&fork.changed);
  return status;
}

/* ---- rewind ---- */

typedef struct rewinding {
  const moonpad_session *session;
  const char *action;        /* the field of the event that says how far it goes back */
  moonpad_string target;     /* its value, as JSON: an invocation or a revision */
  bool to_invocation;        /* `revision` is to be found */
  int64_t revision;          /* the state after it is restored; -1: not found */
  int64_t expected_revision; /* the revision that was stored */
  mp_replay before;
  mp_changed_keys now;
} rewinding;

static moonpad_status find_invocation(rewinding *rewind, mp_tx *tx, const mp_session_ref *place, moonpad_error *error) {
  moonpad_string inside = {rewind->target.data + 1, rewind->target.length - 2};
  int64_t first;
  moonpad_status status = tx->ops->find_invocation(tx, place, inside, &first, error);
  if (status == MOONPAD_OK) rewind->revision = first - 1;
  if (status != MOONPAD_NOT_FOUND) return status;
  return mp_fail(error, status, "%s has no event of invocation %.*s", mp_label(&place->name).text,
                 (int)(rewind->target.length > 200 ? 200 : rewind->target.length), rewind->target.data);
}

/*
** Only what changed since then can be different. Where that is not known any more, all is compared.
*/
static moonpad_status read_before(rewinding *rewind, mp_tx *tx, const mp_session_ref *place, const mp_session_row *row,
                                  moonpad_error *error) {
  mp_replay *before = &rewind->before;
  if (rewind->now.whole != 0) return mp_replay_to(before, tx, place, row, rewind->revision, error);
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < rewind->now.found.count; i++) {
    status = mp_replay_want(before, rewind->now.found.items[i].key, error);
  }
  return status == MOONPAD_OK ? mp_replay_wanted_to(before, tx, place, row, rewind->revision, error) : status;
}

static moonpad_status rewind_in(mp_tx *tx, void *context, moonpad_error *error) {
  rewinding *rewind = context;
  mp_replay_clear(&rewind->before);
  mp_session_row row;
  mp_session_ref place = mp_session_ref_of(rewind->session);
  moonpad_status status = look(rewind->session, tx, MP_NO_KEYS, NULL, &row, error);
  if (status == MOONPAD_OK && rewind->to_invocation) status = find_invocation(rewind, tx, &place, error);
  if (status == MOONPAD_OK) status = mp_replay_check(&row, rewind->revision, error);
  if (status == MOONPAD_OK) status = look(rewind->session, tx, rewind->revision, &rewind->now, &row, error);
  if (status != MOONPAD_OK) return status;
  rewind->expected_revision = row.revision;
  return read_before(rewind, tx, &place, &row, error);
}

/* False without memory. */
static bool compare_values(mp_env *env, const mp_value *a, const mp_value *b, bool *same) {
  mp_buffer x, y;
  mp_buffer_init(&x, env);
  mp_buffer_init(&y, env);
  mp_value_write(&x, a);
  mp_value_write(&y, b);
  bool written = !x.failed && !y.failed;
  *same = written && x.length == y.length && memcmp(x.data, y.data, x.length) == 0;
  mp_buffer_free(&x);
  mp_buffer_free(&y);
  return written;
}

/* What it takes to come from the state now to the state before. */
static moonpad_status write_difference(rewinding *rewind, mp_buffer *delta, mp_buffer *removed, moonpad_error *error) {
  mp_entries *now = &rewind->now.found, *before = &rewind->before.state;
  for (size_t i = 0; i < now->count; i++) {
    const mp_entry *there = &now->items[i];
    const mp_entry *was = mp_entries_find(before, there->key, there->hash);
    if (there->value == NULL || (was != NULL && was->value != NULL)) continue;
    mp_value_write_member(delta, there->key, NULL);
    if (removed->length != 0) mp_buffer_add_char(removed, ',');
    mp_json_write_string(removed, there->key);
  }
  for (size_t i = 0; i < before->count; i++) {
    const mp_entry *was = &before->items[i];
    if (was->value == NULL) continue;
    const mp_entry *there = mp_entries_find(now, was->key, was->hash);
    bool same = false;
    if (there != NULL && there->value != NULL && !compare_values(now->env, there->value, was->value, &same)) {
      return mp_no_memory(error);
    }
    if (!same) mp_value_write_member(delta, was->key, was->value);
  }
  return MOONPAD_OK;
}

static moonpad_status write_rewind_event(rewinding *rewind, mp_buffer *event, moonpad_error *error) {
  mp_buffer delta, removed;
  mp_env *env = rewind->session->env;
  mp_buffer_init(&delta, env);
  mp_buffer_init(&removed, env);
  moonpad_status status = write_difference(rewind, &delta, &removed, error);
  mp_buffer_clear(event);
  mp_buffer_add_literal(event, "{\"author\":\"user\",\"actions\":{\"");
  mp_buffer_add_string(event, moonpad_text(rewind->action));
  mp_buffer_add_literal(event, "\":");
  mp_buffer_add_string(event, rewind->target);
  mp_buffer_add_literal(event, ",\"stateDelta\":{");
  mp_buffer_add_string(event, mp_buffer_text(&delta));
  mp_buffer_add_literal(event, "}},\"removedStateKeys\":[");
  mp_buffer_add_string(event, mp_buffer_text(&removed));
  mp_buffer_add_literal(event, "]}");
  if (status == MOONPAD_OK && (delta.failed || removed.failed || event->failed)) status = mp_no_memory(error);
  mp_buffer_free(&delta);
  mp_buffer_free(&removed);
  return status;
}

static moonpad_status read_rewind(rewinding *rewind, mp_buffer *event, int64_t *expected_revision,
                                  moonpad_error *error) {
  mp_env *env = rewind->session->env;
  mp_store *store = rewind->session->service->store;
  mp_replay_init(&rewind->before, env);
  mp_changed_keys_init(&rewind->now, env);
  moonpad_status status = store->ops->read(store, rewind_in, rewind, error);
  if (status == MOONPAD_OK) status = write_rewind_event(rewind, event, error);
  *expected_revision = rewind->expected_revision;
  mp_changed_keys_free(&rewind->now);
  mp_replay_free(&rewind->before);
  return status;
}

static moonpad_status read_to_invocation(const moonpad_session *session, moonpad_string invocation, mp_buffer *event,
                                         int64_t *expected_revision, moonpad_error *error) {
  mp_env *env = session->env;
  mp_buffer literal;
  mp_buffer_init(&literal, env);
  moonpad_value checked = moonpad_string_value(invocation);
  mp_value *text = NULL;
  moonpad_status status = mp_value_copy_in(env, &checked, "invocationId", &text, error);
  if (status == MOONPAD_OK) {
    mp_value_write(&literal, text);
    rewinding rewind = {.session = session,
                        .action = "rewindBeforeInvocationId",
                        .target = mp_buffer_text(&literal),
                        .to_invocation = true};
    status = literal.failed ? mp_no_memory(error) : read_rewind(&rewind, event, expected_revision, error);
  }
  mp_value_release(env, text);
  mp_buffer_free(&literal);
  return status;
}

moonpad_status mp_rewind_read(const moonpad_session *session, const mp_rewind_target *target, mp_buffer *event,
                              int64_t *expected_revision, moonpad_error *error) {
  if (target->invocation.data != NULL) {
    return read_to_invocation(session, target->invocation, event, expected_revision, error);
  }
  char number[24];
  snprintf(number, sizeof number, "%lld", (long long)target->revision);
  rewinding rewind = {
      .session = session, .action = "rewindToRevision", .target = moonpad_text(number), .revision = target->revision};
  return read_rewind(&rewind, event, expected_revision, error);
}

/* The delta is decided in sight of what is stored, whatever the session object holds. */
static moonpad_status rewind_session(moonpad_session *session, mp_rewind_target target, moonpad_event **stored,
                                     moonpad_error *error) {
  if (stored != NULL) *stored = NULL;
  mp_session_drain(session);
  mp_buffer event;
  mp_buffer_init(&event, session->env);
  moonpad_status status = MOONPAD_CONFLICT;
  for (int i = 0; i < MP_REWIND_ATTEMPTS && status == MOONPAD_CONFLICT; i++) {
    int64_t expected_revision;
    status = mp_rewind_read(session, &target, &event, &expected_revision, error);
    if (status == MOONPAD_OK) {
      status = mp_append_event_expecting(session, mp_buffer_text(&event), expected_revision, stored, error);
    }
  }
  mp_buffer_free(&event);
  return status;
}

moonpad_status moonpad_rewind(moonpad_session *session, moonpad_string invocation_id, moonpad_event **stored,
                              moonpad_error *error) {
  if (invocation_id.data == NULL) invocation_id = moonpad_text("");
  return rewind_session(session, (mp_rewind_target){.invocation = invocation_id}, stored, error);
}

moonpad_status moonpad_rewind_to_revision(moonpad_session *session, int64_t revision, moonpad_event **stored,
                                          moonpad_error *error) {
  return rewind_session(session, (mp_rewind_target){.revision = revision}, stored, error);
}
