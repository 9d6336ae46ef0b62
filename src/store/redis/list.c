/* Lists of sessions with their state, in one script; users. */
#include "base/error.h"
#include "store/redis/redis.h"

/* Items of a session: the 16 numbers of its heads, and its names. */
enum { USER_ID = 16, SESSION_ID = 17 };

typedef struct list_walk {
  mp_redis_connection *connection;
  const mp_listing *listing;
  moonpad_error *error;
} list_walk;

static moonpad_status emit_session(const list_walk *self, const redisReply *items) {
  mp_facts facts;
  if (!mp_redis_read_heads(items, &facts)) {
    return mp_redis_corrupt(self->connection, "a session's revision is out of range", self->error);
  }
  mp_listed_session listed = {.row = facts.row,
                              .user_id = mp_redis_string(mp_redis_item(items, USER_ID)),
                              .session_id = mp_redis_string(mp_redis_item(items, SESSION_ID))};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) listed.touched[scope] = facts.touched[scope];
  return self->listing->session(self->listing->context, &listed, self->error);
}

static moonpad_status emit_keys(const list_walk *self, const redisReply *rows) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i + 3 < mp_redis_count(rows); i += 4) {
    mp_state_row row;
    status = mp_redis_read_row(self->connection, rows, i, &row, self->error);
    if (status == MOONPAD_OK) status = self->listing->state(self->listing->context, &row, self->error);
    mp_value_release(self->connection->store->remote.env, row.value);
  }
  return status;
}

/* Pairs: "k" and rows of state, or "s" and a session. */
static moonpad_status emit_all(const list_walk *self, const redisReply *rows) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i + 1 < mp_redis_count(rows); i += 2) {
    const redisReply *items = mp_redis_item(rows, i + 1);
    bool is_state = mp_redis_says(mp_redis_item(rows, i), "k");
    status = is_state ? emit_keys(self, items) : emit_session(self, items);
  }
  return mp_walk_end(status);
}

static void add_question(mp_redis_tx *tx, const mp_list_query *query, bool with_state) {
  mp_redis_arguments *question = mp_redis_begin_question(tx, "?list");
  mp_redis_add_switch(question, query->has_user_id);
  mp_redis_add(question, query->has_user_id ? query->user_id : moonpad_text(""));
  mp_redis_add_switch(question, query->newest_first);
  mp_redis_add_integer(question, query->limit > 0 ? query->limit : 0);
  mp_redis_add_switch(question, query->has_after);
  mp_redis_add_time(question, query->has_after ? query->after_time : 0);
  mp_redis_add(question, query->has_after ? query->after_user_id : moonpad_text(""));
  mp_redis_add(question, query->has_after ? query->after_session_id : moonpad_text(""));
  mp_redis_add_time(question, query->touched_since);
  mp_redis_add_switch(question, with_state);
  mp_redis_add_switch(question, tx->is_write);
}

moonpad_status mp_redis_each_listed(mp_tx *base, const mp_list_query *query, const mp_listing *listing,
                                    moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  list_walk self = {tx->connection, listing, error};
  redisReply *reply = NULL;
  moonpad_status status = mp_redis_enter_app(tx, query->app_name, error);
  if (status != MOONPAD_OK) return status;
  add_question(tx, query, listing->state != NULL);
  status = mp_redis_ask(tx, MP_REDIS_READS_HEADS, &reply, error);
  if (status != MOONPAD_OK) return status;
  status = emit_all(&self, mp_redis_item(reply, 2));
  freeReplyObject(reply);
  return status;
}

/* ---- users ---- */

moonpad_status mp_redis_each_user(mp_tx *base, moonpad_string app_name, mp_each_name each, void *context,
                                  moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  redisReply *reply = NULL;
  moonpad_status status = mp_redis_enter_app(tx, app_name, error);
  if (status != MOONPAD_OK) return status;
  mp_redis_begin_question(tx, "?users");
  status = mp_redis_ask(tx, MP_REDIS_READS_HEADS, &reply, error);
  if (status != MOONPAD_OK) return status;
  const redisReply *names = mp_redis_item(reply, 2);
  for (size_t i = 0; status == MOONPAD_OK && i < mp_redis_count(names); i++) {
    status = each(context, mp_redis_string(mp_redis_item(names, i)), error);
  }
  freeReplyObject(reply);
  return mp_walk_end(status);
}
