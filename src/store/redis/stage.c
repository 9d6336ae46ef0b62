/*
** Long histories of sessions that a transaction makes: too much for one script. They go in parts,
** each a script, before the commit.
*/
#include <stdio.h>

#include "base/error.h"
#include "store/redis/redis.h"

#define MANY_EVENTS    100
#define MANY_TO_COPY   1000
#define EVENTS_AT_ONCE 500
#define BYTES_AT_ONCE  ((size_t)4 << 20)

moonpad_status mp_redis_note_made(mp_redis_tx *tx, int64_t id, moonpad_error *error) {
  mp_redis_part *part = tx->part;
  void *made = part->made;
  bool has_room = mp_reserve(tx->env, &made, &part->made_capacity, sizeof *part->made, part->made_count + 1);
  part->made = made;
  if (!has_room) return mp_redis_no_memory(tx, error);
  part->made[part->made_count++] = (mp_redis_made){.id = id};
  return MOONPAD_OK;
}

static mp_redis_made *find_made(mp_redis_tx *tx, int64_t id) {
  for (size_t i = 0; i < tx->part->made_count; i++) {
    if (tx->part->made[i].id == id) return &tx->part->made[i];
  }
  return NULL;
}

static mp_redis_arguments *begin_part(mp_redis_tx *tx, const char *name) {
  mp_redis_arguments *part = &tx->question;
  mp_redis_arguments_clear(part);
  mp_redis_add_prefix(tx, part, "stage");
  mp_redis_add_text(part, name);
  return part;
}

/* *next: where it goes on, 0 at the end. */
static moonpad_status send_part(mp_redis_tx *tx, mp_redis_made *made, int64_t *next, moonpad_error *error) {
  const mp_redis_arguments *parts[] = {&tx->question};
  redisReply *reply = mp_redis_call(tx->connection, MP_REDIS_TRANSACTION, 1, parts, 1, error);
  if (reply == NULL) return tx->connection->base.failure.status;
  moonpad_status status = mp_redis_check_word(tx, reply, error);
  *next = mp_redis_integer(mp_redis_item(reply, 2));
  made->staged += mp_redis_integer(mp_redis_item(reply, 3));
  freeReplyObject(reply);
  return status;
}

/* ---- events ---- */

static size_t add_some(mp_redis_arguments *part, const mp_event_row *events, size_t count) {
  size_t added = 0;
  while (added < count && added < EVENTS_AT_ONCE && part->bytes.length < BYTES_AT_ONCE) {
    mp_redis_add_event(part, &events[added++]);
  }
  return added;
}

moonpad_status mp_redis_stage_events(mp_redis_tx *tx, const mp_batch *batch, bool *staged, moonpad_error *error) {
  mp_redis_made *made = batch->event_count == 0 ? NULL : find_made(tx, batch->row->id);
  int64_t next;
  if (made == NULL) return MOONPAD_OK;
  bool is_worth_it = made->history == MP_REDIS_NO_EVENTS && batch->event_count >= MANY_EVENTS;
  *staged = made->history == MP_REDIS_STAGED || is_worth_it;
  if (!*staged) {
    made->history = MP_REDIS_AMONG_WRITES;
    return MOONPAD_OK;
  }
  moonpad_status status = MOONPAD_OK;
  made->history = MP_REDIS_STAGED;
  for (size_t done = 0; status == MOONPAD_OK && done < batch->event_count;) {
    mp_redis_arguments *part = begin_part(tx, "events");
    mp_redis_add_integer(part, made->id);
    done += add_some(part, batch->events + done, batch->event_count - done);
    status = send_part(tx, made, &next, error);
  }
  return status;
}

/* ---- copies: what they are made of has been looked at, and is there ---- */

moonpad_status mp_redis_stage_copy(mp_redis_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                   bool *staged, moonpad_error *error) {
  mp_redis_made *made = find_made(tx, to->session);
  *staged = made != NULL && made->history == MP_REDIS_NO_EVENTS && last >= MANY_TO_COPY &&
            find_made(tx, from->session) == NULL;
  if (!*staged) {
    if (made != NULL) made->history = MP_REDIS_AMONG_WRITES;
    return MOONPAD_OK;
  }
  moonpad_status status = MOONPAD_OK;
  made->history = MP_REDIS_STAGED;
  for (int64_t first = 1; status == MOONPAD_OK && first != 0;) {
    mp_redis_arguments *part = begin_part(tx, "copy");
    mp_redis_add_integer(part, from->session);
    mp_redis_add_integer(part, made->id);
    mp_redis_add_integer(part, first);
    mp_redis_add_integer(part, last);
    status = send_part(tx, made, &first, error);
  }
  return status;
}

/* ---- the end ---- */

moonpad_status mp_redis_keep_staged(mp_redis_tx *tx, moonpad_error *error) {
  for (size_t i = 0; i < tx->part->made_count; i++) {
    const mp_redis_made *made = &tx->part->made[i];
    if (made->staged == 0) continue;
    mp_redis_arguments *write = mp_redis_begin_write(tx, "keep");
    mp_redis_add_integer(write, made->id);
    mp_redis_add_integer(write, made->staged);
  }
  return mp_redis_end_write(tx, error);
}

void mp_redis_unstage(mp_redis_tx *tx) {
  for (size_t i = 0; i < tx->part->made_count && !mp_remote_is_broken(&tx->connection->base); i++) {
    static const char *const parts[] = {":e", ":i"};
    const mp_redis_made *made = &tx->part->made[i];
    if (made->history != MP_REDIS_STAGED) continue;
    mp_remote_failure failure = tx->connection->base.failure;
    mp_redis_arguments_clear(&tx->question);
    for (size_t j = 0; j < sizeof parts / sizeof *parts; j++) {
      char number[32];
      mp_redis_begin_key(&tx->question, tx->connection->store, mp_redis_app_name(tx->part));
      snprintf(number, sizeof number, "%lld%s", (long long)made->id, parts[j]);
      mp_redis_end_key(&tx->question, number);
    }
    redisReply *reply = mp_redis_command(tx->connection, "UNLINK", &tx->question, NULL);
    if (reply != NULL) freeReplyObject(reply);
    if (!mp_remote_is_broken(&tx->connection->base)) tx->connection->base.failure = failure;
  }
}
