/* Trimming, purging, touching, sweeping. */
#include "base/error.h"
#include "store/redis/redis.h"

/* Of a session by its id, of a user or an app by its name. */
static void add_head(mp_redis_arguments *write, const mp_session_ref *ref, mp_scope scope) {
  mp_redis_add_place(write, &ref->name, scope == MP_SCOPE_SESSION ? ref->session : 0);
}

moonpad_status mp_redis_trim(mp_tx *base, const mp_session_ref *session, int64_t last, moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  moonpad_status status = mp_redis_enter(tx, session, error);
  if (status != MOONPAD_OK) return status;
  mp_redis_arguments *write = mp_redis_begin_write(tx, "trim");
  add_head(write, session, MP_SCOPE_SESSION);
  mp_redis_add_integer(write, last);
  mp_redis_note_written(tx, session, MP_HEAD(MP_SCOPE_SESSION));
  return mp_redis_end_write(tx, error);
}

moonpad_status mp_redis_purge(mp_tx *base, const mp_session_ref *ref, mp_scope scope, int64_t last,
                              moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  moonpad_status status = mp_redis_enter(tx, ref, error);
  if (status != MOONPAD_OK) return status;
  mp_redis_arguments *write = mp_redis_begin_write(tx, "purge");
  mp_redis_add_integer(write, (int64_t)scope);
  add_head(write, ref, scope);
  mp_redis_add_integer(write, last);
  mp_redis_note_written(tx, ref, MP_HEAD(scope));
  return mp_redis_end_write(tx, error);
}

static moonpad_status touch_one(mp_redis_tx *tx, const mp_touch *touch, moonpad_error *error) {
  moonpad_status status = mp_redis_enter(tx, &touch->ref, error);
  if (status != MOONPAD_OK) return mp_walk_end(status == MOONPAD_NOT_FOUND ? MP_STOP : status);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((touch->heads & MP_HEAD(scope)) == 0) continue;
    mp_redis_arguments *write = mp_redis_begin_write(tx, "touch");
    mp_redis_add_integer(write, scope);
    mp_redis_add_time(write, touch->time);
    add_head(write, &touch->ref, (mp_scope)scope);
  }
  return mp_redis_end_write(tx, error);
}

moonpad_status mp_redis_touch(mp_tx *base, const mp_touch *touches, size_t count, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) {
    status = touch_one(mp_redis_tx_of(base), &touches[i], error);
  }
  return status;
}

/* ---- sweeping: app by app, in the order of their numbers ---- */

#define MOST_APPS_AT_ONCE 64

/* What is to go: user, session and id each. */
static moonpad_status write_removals(mp_redis_tx *tx, mp_scope scope, const redisReply *rows, moonpad_error *error) {
  bool is_session = scope == MP_SCOPE_SESSION;
  for (size_t i = 0; i + 2 < mp_redis_count(rows); i += 3) {
    mp_redis_arguments *write = mp_redis_begin_write(tx, is_session ? "remove" : "wipe");
    for (size_t j = 0; j < (is_session ? 3 : 1); j++) mp_redis_add(write, mp_redis_string(mp_redis_item(rows, i + j)));
  }
  if (!is_session) mp_redis_note_written(tx, NULL, MP_HEAD(scope));
  return mp_redis_end_write(tx, error);
}

static void add_question(mp_redis_tx *tx, const mp_sweep *sweep) {
  mp_redis_arguments *question = mp_redis_begin_question(tx, "?sweep");
  mp_redis_add_integer(question, (int64_t)sweep->scope);
  mp_redis_add_time(question, sweep->touched_before);
  mp_redis_add_integer(question, sweep->limit - sweep->removed);
  mp_redis_add_integer(question, sweep->position);
}

/* Goes on in the app that the transaction is about; behind its end comes the next one. */
static moonpad_status sweep_app(mp_redis_tx *tx, mp_sweep *sweep, moonpad_error *error) {
  redisReply *reply = NULL;
  add_question(tx, sweep);
  moonpad_status status = mp_redis_ask(tx, MP_REDIS_READS_HEADS, &reply, error);
  if (status != MOONPAD_OK) return status;
  const redisReply *rows = mp_redis_item(reply, 4);
  bool is_at_its_end = mp_redis_says(mp_redis_item(reply, 3), "1");
  sweep->position = mp_redis_integer(mp_redis_item(reply, 2));
  if (is_at_its_end) sweep->position = (tx->part->number + 1) << MP_REDIS_NUMBER_BITS;
  sweep->removed += (int64_t)(mp_redis_count(rows) / 3);
  status = write_removals(tx, sweep->scope, rows, error);
  freeReplyObject(reply);
  return status;
}

static moonpad_status sweep_next_app(mp_redis_tx *tx, mp_sweep *sweep, moonpad_error *error) {
  redisReply *app = NULL;
  moonpad_status status = mp_redis_find_app(tx->connection, sweep->position >> MP_REDIS_NUMBER_BITS, &app, error);
  if (status != MOONPAD_OK) return status;
  sweep->is_done = mp_redis_count(app) == 0;
  if (!sweep->is_done) {
    status = mp_redis_enter_app(tx, mp_redis_string(mp_redis_item(app, 0)), error);
    if (status == MOONPAD_OK) tx->part->number = mp_redis_integer(mp_redis_item(app, 1));
    if (status == MOONPAD_OK) status = sweep_app(tx, sweep, error);
  }
  freeReplyObject(app);
  return status;
}

/* At most one app has something to go: a commit is about one. */
moonpad_status mp_redis_sweep(mp_tx *base, mp_sweep *sweep, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  sweep->removed = 0;
  sweep->is_done = false;
  for (int apps = 0; status == MOONPAD_OK && !sweep->is_done && apps < MOST_APPS_AT_ONCE; apps++) {
    if (sweep->removed > 0) break;
    status = sweep_next_app(mp_redis_tx_of(base), sweep, error);
  }
  return status;
}
