/* Applies batches; makes and removes sessions and users; copies histories. */
#include "base/error.h"
#include "store/redis/redis.h"

/* ---- making ---- */

moonpad_status mp_redis_create_session(mp_tx *base, const moonpad_session_name *name, double create_time,
                                       mp_session_row *row, moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  redisReply *reply = NULL;
  *row = (mp_session_row){.create_time = create_time, .last_update_time = create_time};
  moonpad_status status = mp_redis_enter_app(tx, name->app_name, error);
  if (status != MOONPAD_OK) return status;
  mp_redis_arguments *question = mp_redis_begin_question(tx, "?create");
  mp_redis_add(question, name->user_id);
  mp_redis_add(question, name->session_id);
  status = mp_redis_ask(tx, MP_REDIS_READS_HEADS, &reply, error);
  if (status != MOONPAD_OK) return status;
  const redisReply *numbers = mp_redis_item(reply, 2);
  if (mp_redis_count(numbers) != 5) {
    freeReplyObject(reply);
    return MOONPAD_ALREADY_EXISTS;
  }
  int64_t *const found[] = {&row->id, &row->user, &row->app, &row->user_revision, &row->app_revision};
  for (size_t i = 0; i < 5; i++) *found[i] = mp_redis_integer(mp_redis_item(numbers, i));
  freeReplyObject(reply);
  mp_redis_arguments *write = mp_redis_begin_write(tx, "create");
  for (size_t i = 0; i < 3; i++) mp_redis_add_integer(write, *found[i]);
  mp_redis_add_time(write, create_time);
  mp_redis_add(write, name->user_id);
  mp_redis_add(write, name->session_id);
  status = mp_redis_end_write(tx, error);
  return status == MOONPAD_OK ? mp_redis_note_made(tx, row->id, error) : status;
}

/* ---- removing ---- */

moonpad_status mp_redis_remove_session(mp_tx *base, const mp_session_ref *session, moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  moonpad_status status = mp_redis_enter(tx, session, error);
  if (status != MOONPAD_OK) return status;
  mp_redis_add_place(mp_redis_begin_write(tx, "remove"), &session->name, session->session);
  return mp_redis_end_write(tx, error);
}

moonpad_status mp_redis_remove_user(mp_tx *base, const mp_session_ref *user, int64_t *sessions, moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  redisReply *reply = NULL;
  *sessions = 0;
  moonpad_status status = mp_redis_enter(tx, user, error);
  if (status != MOONPAD_OK) return status;
  mp_redis_add(mp_redis_begin_question(tx, "?forget"), user->name.user_id);
  status = mp_redis_ask(tx, MP_REDIS_READS_HEADS, &reply, error);
  if (status != MOONPAD_OK) return status;
  bool is_found = mp_redis_says(mp_redis_item(reply, 0), "ok");
  *sessions = mp_redis_integer(mp_redis_item(reply, 2));
  freeReplyObject(reply);
  if (!is_found) return MOONPAD_NOT_FOUND;
  mp_redis_add(mp_redis_begin_write(tx, "forget"), user->name.user_id);
  mp_redis_note_written(tx, user, MP_HEAD(MP_SCOPE_USER));
  return mp_redis_end_write(tx, error);
}

/* ---- apply ---- */

static void add_value(mp_redis_arguments *write, const mp_state_row *row) {
  mp_redis_add(write, row->key);
  mp_redis_add_switch(write, row->value != NULL);
  mp_redis_add_value(write, row->value);
}

static void add_keys(mp_redis_arguments *write, const mp_batch *batch) {
  mp_redis_add_integer(write, (int64_t)batch->key_count);
  for (size_t i = 0; i < batch->key_count; i++) {
    mp_redis_add_integer(write, (int64_t)batch->keys[i].scope);
    add_value(write, &batch->keys[i]);
    mp_redis_add_integer(write, batch->keys[i].revision);
  }
  mp_redis_add_integer(write, (int64_t)batch->base_key_count);
  for (size_t i = 0; i < batch->base_key_count; i++) add_value(write, &batch->base_keys[i]);
}

void mp_redis_add_event(mp_redis_arguments *arguments, const mp_event_row *event) {
  mp_redis_add_integer(arguments, event->revision);
  mp_redis_add(arguments, event->id);
  mp_redis_add_about(arguments, event);
  mp_redis_add(arguments, event->json);
}

/* "02": the scopes whose heads change. */
static void add_heads(mp_redis_arguments *write, unsigned heads) {
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((heads & MP_HEAD(scope)) != 0) mp_buffer_add_char(&write->bytes, (char)('0' + scope));
  }
  mp_redis_end_argument(write);
}

static void add_numbers(mp_redis_arguments *write, const mp_batch *batch) {
  const mp_session_row *row = batch->row;
  mp_redis_add_integer(write, row->revision);
  mp_redis_add_integer(write, row->base_revision);
  mp_redis_add_integer(write, row->conversation_count);
  mp_redis_add_time(write, row->last_update_time);
  mp_redis_add_integer(write, row->user_revision);
  mp_redis_add_integer(write, row->app_revision);
  mp_redis_add_time(write, batch->touched);
}

moonpad_status mp_redis_apply(mp_tx *base, const mp_batch *batch, moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  moonpad_status status = mp_remote_check_revisions(batch, error);
  bool staged = false;
  if (status == MOONPAD_OK) status = mp_redis_enter(tx, &batch->ref, error);
  if (status == MOONPAD_OK) status = mp_redis_stage_events(tx, batch, &staged, error);
  if (status != MOONPAD_OK) return status;
  size_t events = staged ? 0 : batch->event_count;
  mp_redis_arguments *write = mp_redis_begin_write(tx, "apply");
  mp_redis_add_text(write, batch->row->id != 0 ? "s" : "u");
  add_heads(write, batch->heads);
  mp_redis_add_place(write, &batch->ref.name, batch->row->id);
  add_numbers(write, batch);
  add_keys(write, batch);
  mp_redis_add_integer(write, (int64_t)events);
  for (size_t i = 0; i < events; i++) mp_redis_add_event(write, &batch->events[i]);
  unsigned heads = batch->heads;
  for (size_t i = 0; i < batch->key_count; i++) heads |= MP_HEAD(batch->keys[i].scope);
  mp_session_ref changed = {.session = batch->row->id};
  mp_redis_note_written(tx, &changed, heads);
  return mp_redis_end_write(tx, error);
}

/* ---- copying ---- */

moonpad_status mp_redis_copy_history(mp_tx *base, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                     moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  bool staged = false;
  moonpad_status status = mp_redis_enter(tx, from, error);
  const mp_redis_part *of_from = tx->part;
  if (status == MOONPAD_OK) status = mp_redis_enter(tx, to, error);
  if (status == MOONPAD_OK && tx->part != of_from) {
    status = mp_fail(error, MOONPAD_UNSUPPORTED, "a history is copied within its app");
  }
  if (status == MOONPAD_OK) status = mp_redis_stage_copy(tx, from, to, last, &staged, error);
  if (status != MOONPAD_OK) return status;
  mp_redis_arguments *write = mp_redis_begin_write(tx, "copy");
  mp_redis_add_place(write, &from->name, from->session);
  mp_redis_add_place(write, &to->name, to->session);
  mp_redis_add_integer(write, staged ? -1 : last);
  mp_redis_note_copied(tx, from);
  return mp_redis_end_write(tx, error);
}
