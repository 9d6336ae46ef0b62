/* Walks over events and the base state. */
#include "base/error.h"
#include "store/redis/redis.h"

typedef struct event_walk {
  mp_redis_tx *tx;
  const mp_session_ref *session;
  mp_event_query query; /* what is left of it */
  moonpad_string invocation;
  int64_t most;
  mp_each_event each;
  void *context;
  moonpad_error *error;
} event_walk;

static int64_t within(int64_t revision) {
  return revision < 0 ? 0 : revision > MP_MAX_REVISION ? MP_MAX_REVISION : revision;
}

static void add_question(const event_walk *self) {
  const mp_event_query *query = &self->query;
  mp_redis_arguments *question = mp_redis_begin_question(self->tx, "?events");
  mp_redis_add_place(question, &self->session->name, self->session->session);
  mp_redis_add_integer(question, within(query->first));
  mp_redis_add_integer(question, within(query->last));
  mp_redis_add_switch(question, query->newest_first);
  mp_redis_add_switch(question, query->id.data != NULL);
  mp_redis_add(question, query->id);
  mp_redis_add_switch(question, !query->without_json);
  mp_redis_add_integer(question, (int64_t)query->kinds);
  mp_redis_add(question, self->invocation);
  mp_redis_add_integer(question, self->most);
  mp_redis_add_integer(question, mp_redis_last_seen(self->tx, self->session));
}

static moonpad_status emit_event(const event_walk *self, const redisReply *rows, size_t at) {
  const mp_event_query *query = &self->query;
  mp_event_row event;
  moonpad_status status =
      mp_redis_read_event(self->tx->connection, rows, at, !query->without_json, &event, self->error);
  if (status != MOONPAD_OK) return status;
  if (!query->tags) event.invocation = moonpad_text(NULL);
  if (!query->tags && query->kinds == 0) event.kinds = 0;
  return self->each(self->context, &event, self->error);
}

/* A part of the walk; *goes_on: there may be more, and the query is for the rest. */
static moonpad_status take_part(event_walk *self, bool *goes_on) {
  redisReply *reply = NULL;
  moonpad_status status = mp_redis_enter(self->tx, self->session, self->error);
  if (status != MOONPAD_OK) return status;
  add_question(self);
  status = mp_redis_ask(self->tx, MP_REDIS_READS_EVENTS, &reply, self->error);
  if (status != MOONPAD_OK) return status;
  const redisReply *rows = mp_redis_item(reply, 2);
  for (size_t i = 0; status == MOONPAD_OK && i + 3 < mp_redis_count(rows); i += MP_REDIS_EVENT_ITEMS) {
    status = emit_event(self, rows, i);
  }
  moonpad_string next = mp_redis_string(mp_redis_item(reply, 3));
  *goes_on = next.length > 0;
  if (*goes_on && self->query.newest_first) self->query.last = mp_redis_integer(mp_redis_item(reply, 3));
  if (*goes_on && !self->query.newest_first) self->query.first = mp_redis_integer(mp_redis_item(reply, 3));
  freeReplyObject(reply);
  return status;
}

/*
** Long walks come in parts. In `read` the session may be appended to between them, and between two
** questions: what was not there at first is left out.
*/
static moonpad_status walk(event_walk *self) {
  moonpad_status status = MOONPAD_OK;
  for (bool goes_on = true; status == MOONPAD_OK && goes_on && self->query.first <= self->query.last;) {
    status = take_part(self, &goes_on);
  }
  return mp_walk_end(status);
}

moonpad_status mp_redis_each_event(mp_tx *tx, const mp_session_ref *session, const mp_event_query *query,
                                   mp_each_event each, void *context, moonpad_error *error) {
  event_walk self = {.tx = mp_redis_tx_of(tx),
                     .session = session,
                     .query = *query,
                     .invocation = moonpad_text(""),
                     .most = INT32_MAX,
                     .each = each,
                     .context = context,
                     .error = error};
  return walk(&self);
}

/* ---- an invocation ---- */

static moonpad_status note_revision(void *revision, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  *(int64_t *)revision = row->revision;
  return MP_STOP;
}

moonpad_status mp_redis_find_invocation(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                        int64_t *revision, moonpad_error *error) {
  int64_t found = -1;
  event_walk self = {.tx = mp_redis_tx_of(tx),
                     .session = session,
                     .query = {.first = 0, .last = MP_MAX_REVISION, .without_json = true},
                     .invocation = invocation,
                     .most = 1,
                     .each = note_revision,
                     .context = &found,
                     .error = error};
  moonpad_status status = invocation.length == 0 ? MOONPAD_OK : walk(&self);
  if (status != MOONPAD_OK) return status;
  if (found < 0) return MOONPAD_NOT_FOUND;
  *revision = found;
  return MOONPAD_OK;
}

/* ---- the base state ---- */

moonpad_status mp_redis_each_base_key(mp_tx *base, const mp_session_ref *session, mp_each_state each, void *context,
                                      moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  redisReply *reply = NULL;
  moonpad_status status = mp_redis_enter(tx, session, error);
  if (status != MOONPAD_OK) return status;
  mp_redis_add_place(mp_redis_begin_question(tx, "?base"), &session->name, session->session);
  status = mp_redis_ask(tx, MP_REDIS_READS_EVENTS, &reply, error);
  if (status != MOONPAD_OK) return status;
  const redisReply *rows = mp_redis_item(reply, 2);
  for (size_t i = 0; status == MOONPAD_OK && i + 1 < mp_redis_count(rows); i += 2) {
    mp_state_row row = {.scope = MP_SCOPE_SESSION, .key = mp_redis_string(mp_redis_item(rows, i))};
    status = mp_redis_read_value(tx->connection, mp_redis_item(rows, i + 1), &row.value, error);
    if (status == MOONPAD_OK) status = each(context, &row, error);
    mp_value_release(tx->env, row.value);
  }
  freeReplyObject(reply);
  return mp_walk_end(status);
}
