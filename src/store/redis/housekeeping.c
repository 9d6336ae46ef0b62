/* Trimming, purging, touching, sweeping; idempotency keys. */
#include "base/error.h"
#include "store/redis/redis.h"

/* Of a session by its id, of a user or an app by its name. */
static void add_head(mp_redis_arguments *write, const mp_session_ref *ref, mp_scope scope) {
  mp_redis_add_place(write, &ref->name, scope == MP_SCOPE_SESSION ? ref->session : 0);
}

moonpad_status mp_redis_trim(mp_tx *base, const mp_session_ref *session, int64_t last, moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  mp_redis_arguments *write = mp_redis_begin_write(tx, "trim");
  add_head(write, session, MP_SCOPE_SESSION);
  mp_redis_add_integer(write, last);
  return mp_redis_end_write(tx, error);
}

moonpad_status mp_redis_purge(mp_tx *base, const mp_session_ref *ref, mp_scope scope, int64_t last,
                              moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  mp_redis_arguments *write = mp_redis_begin_write(tx, "purge");
  mp_redis_add_integer(write, (int64_t)scope);
  add_head(write, ref, scope);
  mp_redis_add_integer(write, last);
  mp_redis_note_written(tx, MP_HEAD(scope));
  return mp_redis_end_write(tx, error);
}

moonpad_status mp_redis_touch(mp_tx *base, const mp_touch *touches, size_t count, moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  for (size_t i = 0; i < count; i++) {
    for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
      if ((touches[i].heads & MP_HEAD(scope)) == 0) continue;
      mp_redis_arguments *write = mp_redis_begin_write(tx, "touch");
      mp_redis_add_integer(write, scope);
      mp_redis_add_time(write, touches[i].time);
      add_head(write, &touches[i].ref, (mp_scope)scope);
    }
  }
  return mp_redis_end_write(tx, error);
}

/* ---- sweeping ---- */

/* Of each that is to go: app, user, session, number. */
static void write_removals(mp_redis_tx *tx, mp_scope scope, const redisReply *rows) {
  bool is_session = scope == MP_SCOPE_SESSION;
  for (size_t i = 0; i + 3 < mp_redis_count(rows); i += 4) {
    mp_redis_arguments *write = mp_redis_begin_write(tx, is_session ? "remove" : "wipe");
    for (size_t j = 0; j < (is_session ? 4 : 2); j++) mp_redis_add(write, mp_redis_string(mp_redis_item(rows, i + j)));
  }
  if (!is_session) mp_redis_note_written(tx, MP_HEAD(scope));
}

moonpad_status mp_redis_sweep(mp_tx *base, mp_sweep *sweep, moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  redisReply *reply = NULL;
  sweep->removed = 0;
  mp_redis_arguments *question = mp_redis_begin_question(tx, "?sweep");
  mp_redis_add_integer(question, (int64_t)sweep->scope);
  mp_redis_add_time(question, sweep->touched_before);
  mp_redis_add_integer(question, sweep->limit);
  mp_redis_add_integer(question, sweep->position);
  moonpad_status status = mp_redis_ask(tx, MP_REDIS_READS_HEADS, &reply, error);
  if (status != MOONPAD_OK) return status;
  const redisReply *rows = mp_redis_item(reply, 4);
  sweep->position = mp_redis_integer(mp_redis_item(reply, 2));
  sweep->is_done = mp_redis_says(mp_redis_item(reply, 3), "1");
  sweep->removed = (int64_t)(mp_redis_count(rows) / 4);
  write_removals(tx, sweep->scope, rows);
  freeReplyObject(reply);
  return mp_redis_end_write(tx, error);
}

/* ---- tokens ---- */

moonpad_status mp_redis_claim_token(mp_tx *base, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                    moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  moonpad_string bytes = {(const char *)token, MP_TOKEN_BYTES};
  redisReply *reply = NULL;
  mp_redis_arguments *question = mp_redis_begin_question(tx, "?claim");
  mp_redis_add(question, bytes);
  mp_redis_add_time(question, expired);
  moonpad_status status = mp_redis_ask(tx, MP_REDIS_READS_HEADS, &reply, error);
  if (status != MOONPAD_OK) return status;
  bool is_claimed = mp_redis_says(mp_redis_item(reply, 0), "ok");
  freeReplyObject(reply);
  if (!is_claimed) return MOONPAD_ALREADY_EXISTS;
  mp_redis_arguments *write = mp_redis_begin_write(tx, "claim");
  mp_redis_add(write, bytes);
  mp_redis_add_time(write, now);
  mp_redis_add_time(write, expired);
  return mp_redis_end_write(tx, error);
}
