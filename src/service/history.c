/* Looking back and going back: stateAt, fork, rewind (contract 2). */
#include <stdio.h>

#include "base/error.h"
#include "base/uuid.h"

#include "core/event.h"
#include "core/json.h"
#include "service/append.h"
#include "service/pending.h"
#include "service/replay.h"

static moonpad_status load(const moonpad_session *session, mp_tx *tx, mp_session_row *row, moonpad_error *error) {
  moonpad_status status = tx->ops->load_session(tx, session->row.id, row, error);
  if (status != MOONPAD_NOT_FOUND) return status;
  moonpad_session_name name = mp_session_names(session);
  return mp_fail(error, status, "%s does not exist (or was deleted and created anew)", mp_label(&name).text);
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
  moonpad_status status = load(back->session, tx, &row, error);
  return status == MOONPAD_OK ? mp_replay_to(&back->replay, tx, &row, back->revision, error) : status;
}

moonpad_status moonpad_state_at(moonpad_session *session, int64_t revision, moonpad_buffer *json,
                                moonpad_error *error) {
  memset(json, 0, sizeof *json);
  mp_session_settle(session);
  looking_back back = {session, revision, {0}};
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

#define COPIED_AT_ONCE 256

typedef struct forking {
  const moonpad_session *session;
  int64_t revision;
  moonpad_session_name name;
  double now;
  moonpad_session *forked;
  mp_replay replay;
  /* a page of events between reading and writing */
  mp_buffer text;
  mp_event_row rows[COPIED_AT_ONCE];
  size_t count;
} forking;

static moonpad_status keep_event(void *context, const mp_event_row *row, moonpad_error *error) {
  forking *fork = context;
  mp_event_row *kept = &fork->rows[fork->count++];
  *kept = *row;
  mp_buffer_add_string(&fork->text, row->id); /* the buffer may move: pointers are set when the page is whole */
  mp_buffer_add_string(&fork->text, row->json);
  return fork->text.failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status write_kept(forking *fork, mp_tx *tx, int64_t session, moonpad_error *error) {
  const char *at = fork->text.data;
  for (size_t i = 0; i < fork->count; i++) {
    mp_event_row *row = &fork->rows[i];
    row->id.data = at;
    row->json.data = at + row->id.length;
    at = row->json.data + row->json.length;
    moonpad_status status = tx->ops->append_event(tx, session, row, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

static moonpad_status copy_events(forking *fork, mp_tx *tx, const mp_session_row *from, int64_t to,
                                  moonpad_error *error) {
  for (int64_t first = from->base_revision + 1; first <= fork->revision; first += COPIED_AT_ONCE) {
    int64_t last = first + COPIED_AT_ONCE - 1;
    if (last > fork->revision) last = fork->revision;
    fork->count = 0;
    mp_buffer_clear(&fork->text);
    moonpad_status status = tx->ops->each_event(tx, from->id, first, last, keep_event, fork, error);
    if (status == MOONPAD_OK) status = write_kept(fork, tx, to, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

static moonpad_status keep_base_key(void *context, const mp_state_row *row, moonpad_error *error) {
  return mp_replay_base(context, row->key, row->value, error);
}

/* The base state of the fork is that of its origin, so that its own past can be looked at as well. */
static moonpad_status copy_base(mp_tx *tx, mp_env *env, int64_t from, int64_t to, moonpad_error *error) {
  mp_replay base;
  mp_replay_init(&base, env);
  moonpad_status status = tx->ops->each_base_key(tx, from, keep_base_key, &base, error);
  size_t position = 0;
  const mp_map_slot *slot;
  while (status == MOONPAD_OK && (slot = mp_map_next(&base.map, &position)) != NULL) {
    const mp_replayed *replayed = slot->value;
    status = tx->ops->write_base_key(tx, to, mp_key_text(replayed->key), replayed->value, error);
  }
  mp_replay_free(&base);
  return status;
}

static moonpad_status fork_in(mp_tx *tx, void *context, moonpad_error *error) {
  forking *fork = context;
  mp_replay_clear(&fork->replay);
  mp_session_row from, to;
  moonpad_status status = load(fork->session, tx, &from, error);
  if (status == MOONPAD_OK) status = mp_replay_to(&fork->replay, tx, &from, fork->revision, error);
  if (status == MOONPAD_OK) {
    status = tx->ops->create_session(tx, &fork->name, fork->now, &to, error);
    if (status == MOONPAD_ALREADY_EXISTS) {
      return mp_fail(error, status, "%s exists already", mp_label(&fork->name).text);
    }
  }
  if (status == MOONPAD_OK) status = copy_base(tx, fork->session->env, from.id, to.id, error);
  if (status == MOONPAD_OK) status = copy_events(fork, tx, &from, to.id, error);
  if (status == MOONPAD_OK) status = mp_replay_store(&fork->replay, tx, to.id, error);
  if (status != MOONPAD_OK) return status;
  to.revision = fork->revision;
  to.base_revision = from.base_revision;
  to.conversation_count = fork->replay.conversation_count;
  if (fork->revision > from.base_revision) to.last_update_time = fork->replay.last_timestamp;
  status = tx->ops->update_session(tx, &to, error);
  if (status != MOONPAD_OK) return status;
  return mp_session_make_stored(fork->session->service, &fork->name, tx, &to, &fork->forked, error);
}

moonpad_status moonpad_fork(moonpad_session *session, int64_t revision, moonpad_string session_id,
                            moonpad_session **forked, moonpad_error *error) {
  *forked = NULL;
  mp_session_settle(session);
  mp_env *env = session->env;
  forking *fork = mp_allocate_zeroed(env, sizeof *fork);
  if (fork == NULL) return mp_no_memory(error);
  fork->session = session;
  fork->revision = revision;
  char id[MP_UUID_BYTES];
  moonpad_session_name given = mp_session_names(session);
  given.session_id = session_id;
  moonpad_status status = mp_check_session_name(&given, true, &fork->name, error);
  if (status == MOONPAD_OK) status = mp_now(env, &fork->now, error);
  if (status == MOONPAD_OK) {
    if (fork->name.session_id.length == 0) {
      mp_uuid4(env, id);
      fork->name.session_id.data = id;
      fork->name.session_id.length = sizeof id;
    }
    mp_replay_init(&fork->replay, env);
    mp_buffer_init(&fork->text, env);
    mp_store *store = session->service->store;
    status = store->ops->write(store, fork_in, fork, error);
    if (status == MOONPAD_OK) {
      *forked = fork->forked;
    } else {
      moonpad_session_free(fork->forked);
    }
    mp_replay_free(&fork->replay);
    mp_buffer_free(&fork->text);
  }
  mp_release(env, fork);
  return status;
}

/* ---- rewind ---- */

typedef struct rewinding {
  const moonpad_session *session;
  const char *action;    /* the field of the event that says how far it goes back */
  moonpad_string target; /* its value, as JSON: an invocation or a revision */
  bool to_invocation;    /* `revision` is to be found */
  int64_t revision;      /* the state after it is restored; -1: not found */
  int64_t decided_at;    /* the revision that was stored */
  mp_replay before;
  mp_gathering now;
} rewinding;

static moonpad_status look_for_invocation(void *context, const mp_event_row *row, moonpad_error *error) {
  rewinding *rewind = context;
  moonpad_string invocation;
  (void)error;
  if (rewind->revision < 0 && mp_member_find(row->json, "invocationId", &invocation) &&
      invocation.length == rewind->target.length &&
      memcmp(invocation.data, rewind->target.data, invocation.length) == 0) {
    rewind->revision = row->revision - 1;
  }
  return MOONPAD_OK;
}

static moonpad_status find_invocation(rewinding *rewind, mp_tx *tx, const mp_session_row *row, moonpad_error *error) {
  rewind->revision = -1;
  moonpad_status status =
      tx->ops->each_event(tx, row->id, row->base_revision + 1, row->revision, look_for_invocation, rewind, error);
  if (status != MOONPAD_OK || rewind->revision >= 0) return status;
  moonpad_session_name name = mp_session_names(rewind->session);
  return mp_fail(error, MOONPAD_NOT_FOUND, "%s has no event of invocation %.*s", mp_label(&name).text,
                 (int)(rewind->target.length > 200 ? 200 : rewind->target.length), rewind->target.data);
}

static moonpad_status rewind_in(mp_tx *tx, void *context, moonpad_error *error) {
  rewinding *rewind = context;
  mp_replay_clear(&rewind->before);
  mp_gathering_clear(&rewind->now);
  mp_session_row row;
  moonpad_status status = load(rewind->session, tx, &row, error);
  if (status != MOONPAD_OK) return status;
  rewind->decided_at = row.revision;
  if (rewind->to_invocation) status = find_invocation(rewind, tx, &row, error);
  if (status == MOONPAD_OK) status = mp_replay_to(&rewind->before, tx, &row, rewind->revision, error);
  return status == MOONPAD_OK ? mp_gather(&rewind->now, tx, MP_SCOPE_SESSION, row.id, -1, error) : status;
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

static void write_entry(mp_buffer *delta, const mp_key *key, const mp_value *value) {
  if (delta->length != 0) mp_buffer_add_char(delta, ',');
  mp_json_write_string(delta, mp_key_text(key));
  mp_buffer_add_char(delta, ':');
  if (value != NULL) {
    mp_value_write(delta, value);
  } else {
    mp_buffer_add_literal(delta, "null");
  }
}

/* What it takes to come from the state now to the state before. */
static moonpad_status write_difference(const rewinding *rewind, mp_buffer *delta, mp_buffer *removed,
                                       moonpad_error *error) {
  mp_map now;
  mp_env *env = rewind->session->env;
  mp_map_init(&now, env);
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < rewind->now.count; i++) {
    mp_gathered_key *gathered = &rewind->now.keys[i];
    if (!mp_map_put(&now, gathered->key, gathered)) status = mp_no_memory(error);
    const mp_replayed *before = mp_map_get(&rewind->before.map, mp_key_text(gathered->key));
    if (before != NULL && before->value != NULL) continue;
    write_entry(delta, gathered->key, NULL);
    if (removed->length != 0) mp_buffer_add_char(removed, ',');
    mp_json_write_string(removed, mp_key_text(gathered->key));
  }
  size_t position = 0;
  const mp_map_slot *slot;
  while (status == MOONPAD_OK && (slot = mp_map_next(&rewind->before.map, &position)) != NULL) {
    const mp_replayed *before = slot->value;
    if (before->value == NULL) continue;
    const mp_gathered_key *there = mp_map_get(&now, mp_key_text(before->key));
    bool same = false;
    if (there != NULL && !compare_values(env, there->value, before->value, &same)) status = mp_no_memory(error);
    if (!same) write_entry(delta, before->key, before->value);
  }
  mp_map_free(&now);
  return status;
}

static moonpad_status write_rewind_event(const rewinding *rewind, mp_buffer *event, moonpad_error *error) {
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

/* The delta is decided in sight of what is stored, whatever the session object holds. */
static moonpad_status rewind_once(moonpad_session *session, rewinding *rewind, mp_buffer *event, moonpad_event **stored,
                                  moonpad_error *error) {
  mp_store *store = session->service->store;
  moonpad_status status = store->ops->read(store, rewind_in, rewind, error);
  if (status == MOONPAD_OK) status = write_rewind_event(rewind, event, error);
  if (status != MOONPAD_OK) return status;
  return mp_append_event_decided(session, mp_buffer_text(event), rewind->decided_at, stored, error);
}

#define REWIND_ATTEMPTS 8

static moonpad_status rewind_session(moonpad_session *session, rewinding *rewind, moonpad_event **stored,
                                     moonpad_error *error) {
  mp_env *env = session->env;
  rewind->session = session;
  mp_replay_init(&rewind->before, env);
  mp_gathering_init(&rewind->now, env);
  mp_buffer event;
  mp_buffer_init(&event, env);
  moonpad_status status = MOONPAD_CONFLICT;
  for (int i = 0; i < REWIND_ATTEMPTS && status == MOONPAD_CONFLICT; i++) {
    status = rewind_once(session, rewind, &event, stored, error);
  }
  mp_buffer_free(&event);
  mp_gathering_free(&rewind->now);
  mp_replay_free(&rewind->before);
  return status;
}

moonpad_status moonpad_rewind(moonpad_session *session, moonpad_string invocation_id, moonpad_event **stored,
                              moonpad_error *error) {
  if (stored != NULL) *stored = NULL;
  mp_session_settle(session);
  mp_env *env = session->env;
  mp_buffer literal;
  mp_buffer_init(&literal, env);
  moonpad_value checked = moonpad_string_value(invocation_id);
  mp_value *text = NULL;
  moonpad_status status = mp_value_copy_in(env, &checked, "invocationId", &text, error);
  if (status == MOONPAD_OK) {
    mp_value_write(&literal, text);
    rewinding rewind = {
        .action = "rewindBeforeInvocationId", .target = mp_buffer_text(&literal), .to_invocation = true};
    status = literal.failed ? mp_no_memory(error) : rewind_session(session, &rewind, stored, error);
  }
  mp_value_release(env, text);
  mp_buffer_free(&literal);
  return status;
}

moonpad_status moonpad_rewind_to_revision(moonpad_session *session, int64_t revision, moonpad_event **stored,
                                          moonpad_error *error) {
  if (stored != NULL) *stored = NULL;
  mp_session_settle(session);
  char number[24];
  snprintf(number, sizeof number, "%lld", (long long)revision);
  rewinding rewind = {.action = "rewindToRevision", .target = moonpad_text(number), .revision = revision};
  return rewind_session(session, &rewind, stored, error);
}
