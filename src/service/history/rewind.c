/*
** rewind: one event that restores an earlier state of the session's own keys (contract 2). History
** is kept.
*/
#include "service/history/rewind.h"

#include <stdio.h>

#include "base/error.h"
#include "core/json_write.h"
#include "service/append/request.h"
#include "service/expiry/expiry.h"
#include "service/history/history.h"
#include "service/history/replay.h"
#include "service/names.h"

typedef struct rewind_job {
  const moonpad_session *session;
  mp_expiry expiry;
  const char *action;        /* the field of the event that says how far back */
  moonpad_string target;     /* its value as JSON: an invocation id or a revision */
  bool to_invocation;        /* `revision` is still to be found, by the invocation id */
  int64_t revision;          /* the state after this revision is restored */
  int64_t expected_revision; /* the session's revision when the store was asked */
  mp_replay before;          /* the state after `revision` */
  mp_changed_keys now;       /* what changed since, as it is now */
} rewind_job;

static moonpad_status find_invocation(rewind_job *rewind, mp_tx *tx, const mp_session_ref *ref, moonpad_error *error) {
  moonpad_string inside = {rewind->target.data + 1, rewind->target.length - 2};
  int64_t first;
  moonpad_status status = tx->ops->find_invocation(tx, ref, inside, &first, error);
  if (status == MOONPAD_OK) rewind->revision = first - 1;
  if (status != MOONPAD_NOT_FOUND) return status;
  return mp_fail(error, status, "%s has no event of invocation %.*s", mp_label(&ref->name).text,
                 (int)(rewind->target.length > 200 ? 200 : rewind->target.length), rewind->target.data);
}

/*
** Only keys that changed since can differ from before, so only these are replayed. Where tombstones
** have been purged since, some of them are unknown: then the whole state is replayed.
*/
static moonpad_status read_before(rewind_job *rewind, mp_tx *tx, const mp_session_ref *ref, const mp_session_row *row,
                                  moonpad_error *error) {
  mp_replay *before = &rewind->before;
  if (rewind->now.complete_scopes != 0) return mp_replay_to(before, tx, ref, row, rewind->revision, error);
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < rewind->now.found.count; i++) {
    status = mp_replay_want(before, rewind->now.found.items[i].key, error);
  }
  return status == MOONPAD_OK ? mp_replay_wanted_to(before, tx, ref, row, rewind->revision, error) : status;
}

static moonpad_status rewind_in(mp_tx *tx, void *context, moonpad_error *error) {
  rewind_job *rewind = context;
  mp_replay_clear(&rewind->before);
  mp_session_row row;
  const mp_session_ref ref = mp_session_ref_of(rewind->session);
  moonpad_status status = mp_history_look(&rewind->expiry, tx, MP_NO_KEYS, NULL, &row, error);
  if (status == MOONPAD_OK && rewind->to_invocation) status = find_invocation(rewind, tx, &ref, error);
  if (status == MOONPAD_OK) status = mp_replay_check(&row, rewind->revision, error);
  if (status == MOONPAD_OK) status = mp_history_look(&rewind->expiry, tx, rewind->revision, &rewind->now, &row, error);
  if (status != MOONPAD_OK) return status;
  rewind->expected_revision = row.revision;
  return read_before(rewind, tx, &ref, &row, error);
}

/* Writes the delta that leads from the state as it is now to the state before. */
static void write_difference(rewind_job *rewind, mp_buffer *delta, mp_buffer *removed) {
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
    bool same = there != NULL && mp_equal_values(there->value, was->value);
    if (!same) mp_value_write_member(delta, was->key, was->value);
  }
}

/* {"author":"user","actions":{"rewindToRevision":3,"stateDelta":{...}},"removedStateKeys":[...]} */
static moonpad_status write_rewind_event(rewind_job *rewind, mp_buffer *event, moonpad_error *error) {
  mp_buffer delta, removed;
  mp_env *env = rewind->session->env;
  mp_buffer_init(&delta, env);
  mp_buffer_init(&removed, env);
  write_difference(rewind, &delta, &removed);
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
  bool failed = delta.failed || removed.failed || event->failed;
  mp_buffer_free(&delta);
  mp_buffer_free(&removed);
  return failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status read_rewind(rewind_job *rewind, mp_buffer *event, int64_t *expected_revision,
                                  moonpad_error *error) {
  mp_env *env = rewind->session->env;
  moonpad_status status = mp_history_begin(&rewind->expiry, rewind->session, error);
  if (status != MOONPAD_OK) return status;
  mp_replay_init(&rewind->before, env);
  mp_changed_keys_init(&rewind->now, env);
  /* It is renewed by the append that follows. */
  status = mp_expiry_read(&rewind->expiry, rewind_in, rewind, error);
  if (status == MOONPAD_OK) status = write_rewind_event(rewind, event, error);
  *expected_revision = rewind->expected_revision;
  mp_changed_keys_free(&rewind->now);
  mp_replay_free(&rewind->before);
  return status;
}

/* Writes the id as a JSON string. */
static moonpad_status write_invocation(mp_env *env, moonpad_string invocation, mp_buffer *literal,
                                       moonpad_error *error) {
  moonpad_value checked = moonpad_string_value(invocation);
  mp_value *text = NULL;
  moonpad_status status = mp_value_copy_in(env, &checked, "invocationId", &text, error);
  if (status != MOONPAD_OK) return status;
  mp_value_write(literal, text);
  mp_value_release(env, text);
  return literal->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status read_to_invocation(const moonpad_session *session, moonpad_string invocation, mp_buffer *event,
                                         int64_t *expected_revision, moonpad_error *error) {
  mp_buffer literal;
  mp_buffer_init(&literal, session->env);
  moonpad_status status = write_invocation(session->env, invocation, &literal, error);
  if (status == MOONPAD_OK) {
    rewind_job rewind = {.session = session,
                         .action = "rewindBeforeInvocationId",
                         .target = mp_buffer_text(&literal),
                         .to_invocation = true};
    status = read_rewind(&rewind, event, expected_revision, error);
  }
  mp_buffer_free(&literal);
  return status;
}

/* ---- Where an invocation begins ---- */

typedef struct invocation_search {
  mp_session_ref ref;
  moonpad_string invocation; /* as a store spells it: see mp_event_row */
  int64_t revision;
} invocation_search;

static moonpad_status find_in(mp_tx *tx, void *context, moonpad_error *error) {
  invocation_search *search = context;
  return tx->ops->find_invocation(tx, &search->ref, search->invocation, &search->revision, error);
}

moonpad_status mp_find_invocation(const moonpad_session *session, moonpad_string invocation, int64_t *revision,
                                  moonpad_error *error) {
  mp_store *store = session->service->store;
  mp_buffer literal;
  mp_buffer_init(&literal, session->env);
  moonpad_status status = write_invocation(session->env, invocation, &literal, error);
  if (status == MOONPAD_OK) {
    moonpad_string inside = {literal.data + 1, literal.length - 2};
    invocation_search search = {.ref = mp_session_ref_of(session), .invocation = inside};
    status = inside.length == 0 ? MOONPAD_NOT_FOUND : store->ops->read(store, find_in, &search, error);
    if (status == MOONPAD_OK) *revision = search.revision;
    if (status == MOONPAD_NOT_FOUND) (void)mp_fail(error, status, "no event of this invocation is stored");
  }
  mp_buffer_free(&literal);
  return status;
}

/* ---- Going back ---- */

moonpad_status mp_rewind_read(const moonpad_session *session, const mp_rewind_target *target, mp_buffer *event,
                              int64_t *expected_revision, moonpad_error *error) {
  if (target->invocation.data != NULL) {
    return read_to_invocation(session, target->invocation, event, expected_revision, error);
  }
  char number[24];
  snprintf(number, sizeof number, "%lld", (long long)target->revision);
  rewind_job rewind = {
      .session = session, .action = "rewindToRevision", .target = moonpad_text(number), .revision = target->revision};
  return read_rewind(&rewind, event, expected_revision, error);
}

/*
** The delta is made from what is stored now, whatever the session object holds. An append by
** somebody else between the two steps that changes a key of the delta is a conflict: then both are
** done again.
*/
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
      mp_append_request request = {
          .event = mp_buffer_text(&event), .is_trusted = true, .expected_revision = expected_revision};
      status = mp_append_now(session, &request, stored, error);
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
