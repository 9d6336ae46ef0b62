/* Whole questions, each answered by one script. */
#include <string.h>

#include "base/error.h"
#include "store/redis/redis.h"

/* Items of the answer. */
enum { WORD, SEEN, NUMBERS, CHANGED, WANTED, EVENT_BY_ID, RECENT, MADE };

/* ---- asking ---- */

static char kind_of(const mp_look *look) {
  return look->heads == MP_HEAD(MP_SCOPE_APP) ? 'a' : look->heads == MP_HEAD(MP_SCOPE_USER) ? 'u' : 's';
}

/* What the names are of: those below are left out. */
static moonpad_session_name name_of(const mp_look *look) {
  moonpad_session_name name = look->ref.name;
  if (kind_of(look) != 's') name.session_id = moonpad_text(NULL);
  if (kind_of(look) == 'a') name.user_id = moonpad_text(NULL);
  return name;
}

static void add_since(mp_redis_arguments *question, const mp_look *look, mp_scope scope) {
  bool asks = (look->heads & MP_HEAD(scope)) != 0 && look->since[scope] != MP_NO_KEYS;
  if (!asks) {
    mp_redis_add_text(question, "n");
  } else {
    mp_redis_add_integer(question, look->since[scope]);
  }
}

static void add_question(mp_redis_tx *tx, const mp_look *look) {
  mp_redis_arguments *question = mp_redis_begin_question(tx, "?look");
  char kind = kind_of(look);
  moonpad_session_name name = name_of(look);
  mp_redis_add(question, (moonpad_string){&kind, 1});
  mp_redis_add_switch(question, look->create);
  mp_redis_add_place(question, &name, kind == 's' ? look->ref.session : 0);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) add_since(question, look, (mp_scope)scope);
  mp_redis_add_integer(question, (int64_t)look->key_count);
  for (size_t i = 0; i < look->key_count; i++) {
    mp_redis_add_integer(question, (int64_t)look->keys[i].scope);
    mp_redis_add(question, look->keys[i].key);
  }
  mp_redis_add_switch(question, look->event_id.data != NULL);
  mp_redis_add(question, look->event_id);
  mp_redis_add_integer(question, look->recent < 0 ? 0 : look->recent > INT32_MAX ? INT32_MAX : look->recent);
}

/* ---- the answer ---- */

typedef struct looking {
  mp_redis_tx *tx;
  mp_look *look;
  mp_facts *facts;
  moonpad_error *error;
} looking;

static void note_whole(const mp_look *look, mp_facts *facts) {
  const int64_t revisions[] = {facts->row.revision, facts->row.user_revision, facts->row.app_revision};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((look->heads & MP_HEAD(scope)) == 0 || look->since[scope] >= revisions[scope]) continue;
    facts->whole[scope] = look->since[scope] < facts->forgotten[scope];
  }
}

static moonpad_status emit_keys(looking *self, const redisReply *rows) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i + 3 < mp_redis_count(rows); i += 4) {
    mp_state_row row;
    status = mp_redis_read_row(self->tx->connection, rows, i, &row, self->error);
    if (status == MOONPAD_OK) status = self->look->each_state(self->look->context, &row, self->error);
    mp_value_release(self->tx->env, row.value);
  }
  return mp_walk_end(status);
}

static moonpad_status take_wanted(looking *self, const redisReply *rows) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < self->look->key_count; i++) {
    mp_state_row *wanted = &self->look->keys[i];
    status = mp_redis_read_value(self->tx->connection, mp_redis_item(rows, 2 * i), &wanted->value, self->error);
    wanted->revision = mp_redis_integer(mp_redis_item(rows, 2 * i + 1));
  }
  return status;
}

static moonpad_status emit_events(looking *self, const redisReply *rows) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i + 3 < mp_redis_count(rows); i += MP_REDIS_EVENT_ITEMS) {
    mp_event_row event;
    status = mp_redis_read_event(self->tx->connection, rows, i, true, &event, self->error);
    event.kinds = 0;
    event.invocation = moonpad_text(NULL);
    if (status == MOONPAD_OK) status = self->look->each_event(self->look->context, &event, self->error);
  }
  return status;
}

/* What the look has made is written from now on. */
static moonpad_status note_made(looking *self, const redisReply *made) {
  if (mp_redis_count(made) != 2) return MOONPAD_OK;
  moonpad_session_name name = name_of(self->look);
  mp_redis_arguments *write = mp_redis_begin_write(self->tx, "make");
  for (size_t i = 0; i < 2; i++) mp_redis_add(write, mp_redis_string(mp_redis_item(made, i)));
  mp_redis_add(write, name.user_id);
  mp_redis_note_written(self->tx, &self->look->ref, self->look->heads);
  return mp_redis_end_write(self->tx, self->error);
}

static moonpad_status take_answer(looking *self, const redisReply *reply) {
  if (!mp_redis_says(mp_redis_item(reply, WORD), "ok")) return MOONPAD_NOT_FOUND;
  if (!mp_redis_read_heads(mp_redis_item(reply, NUMBERS), self->facts)) {
    return mp_redis_corrupt(self->tx->connection, "a revision is out of range", self->error);
  }
  note_whole(self->look, self->facts);
  moonpad_status status = note_made(self, mp_redis_item(reply, MADE));
  if (status == MOONPAD_OK) status = emit_keys(self, mp_redis_item(reply, CHANGED));
  if (status == MOONPAD_OK) status = take_wanted(self, mp_redis_item(reply, WANTED));
  if (status == MOONPAD_OK) status = emit_events(self, mp_redis_item(reply, EVENT_BY_ID));
  if (status == MOONPAD_OK) status = emit_events(self, mp_redis_item(reply, RECENT));
  return mp_walk_end(status);
}

moonpad_status mp_redis_look(mp_tx *base, mp_look *look, mp_facts *facts, moonpad_error *error) {
  looking self = {mp_redis_tx_of(base), look, facts, error};
  redisReply *reply = NULL;
  memset(facts, 0, sizeof *facts);
  for (size_t i = 0; i < look->key_count; i++) {
    look->keys[i].value = NULL;
    look->keys[i].revision = 0;
  }
  moonpad_status status = mp_redis_enter(self.tx, &look->ref, error);
  if (status != MOONPAD_OK) return status;
  add_question(self.tx, look);
  status = mp_redis_ask(self.tx, MP_REDIS_READS_HEADS, &reply, error);
  if (status == MOONPAD_OK) status = take_answer(&self, reply);
  if (reply != NULL) freeReplyObject(reply);
  if (status == MOONPAD_OK) return status;
  for (size_t i = 0; i < look->key_count; i++) {
    mp_value_release(self.tx->env, look->keys[i].value);
    look->keys[i].value = NULL;
  }
  return status;
}
