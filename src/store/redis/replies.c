/* What comes back. */
#include <stdlib.h>

#include "base/error.h"
#include "base/number.h"
#include "store/redis/redis.h"
#include "store/stored.h"

const redisReply *mp_redis_item(const redisReply *array, size_t index) {
  bool has_it = array != NULL && array->type == REDIS_REPLY_ARRAY && index < array->elements;
  return has_it ? array->element[index] : NULL;
}

size_t mp_redis_count(const redisReply *array) {
  return array != NULL && array->type == REDIS_REPLY_ARRAY ? array->elements : 0;
}

bool mp_redis_is_nil(const redisReply *reply) {
  return reply == NULL || reply->type == REDIS_REPLY_NIL;
}

moonpad_string mp_redis_string(const redisReply *reply) {
  bool is_text = reply != NULL && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
  return is_text ? (moonpad_string){reply->str, reply->len} : moonpad_text(NULL);
}

int64_t mp_redis_integer(const redisReply *reply) {
  if (reply != NULL && reply->type == REDIS_REPLY_INTEGER) return reply->integer;
  moonpad_string text = mp_redis_string(reply);
  return text.data == NULL ? 0 : strtoll(text.data, NULL, 10);
}

/* As Lua and Redis may write it, "5" or "1e3", in whatever locale the host has. */
double mp_redis_time(const redisReply *reply) {
  double seconds = 0;
  moonpad_string text = mp_redis_string(reply);
  if (text.length > 0) mp_parse_float(text.data, text.length, &seconds);
  return seconds;
}

bool mp_redis_says(const redisReply *reply, const char *word) {
  moonpad_string text = mp_redis_string(reply);
  return text.data != NULL && strcmp(text.data, word) == 0;
}

bool mp_redis_read_heads(const redisReply *numbers, mp_facts *facts) {
  if (mp_redis_count(numbers) < 16) return false;
  int64_t n[13];
  double t[3];
  for (size_t i = 0; i < 13; i++) n[i] = mp_redis_integer(mp_redis_item(numbers, i));
  for (size_t i = 0; i < 3; i++) t[i] = mp_redis_time(mp_redis_item(numbers, 13 + i));
  facts->row = (mp_session_row){.id = n[0],
                                .user = n[1],
                                .app = n[2],
                                .revision = n[3],
                                .base_revision = n[4],
                                .user_revision = n[5],
                                .app_revision = n[6],
                                .conversation_count = n[7],
                                .create_time = mp_redis_time(mp_redis_item(numbers, 8)),
                                .last_update_time = mp_redis_time(mp_redis_item(numbers, 9))};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    facts->forgotten[scope] = n[10 + scope];
    facts->touched[scope] = t[scope];
  }
  const mp_session_row *row = &facts->row;
  return row->base_revision >= 0 && row->base_revision <= row->revision && row->user_revision >= 0 &&
         row->app_revision >= 0;
}

moonpad_status mp_redis_read_value(mp_redis_connection *connection, const redisReply *json, mp_value **value,
                                   moonpad_error *error) {
  *value = NULL;
  if (mp_redis_is_nil(json)) return MOONPAD_OK;
  moonpad_status status = mp_stored_value(connection->store->remote.env, mp_redis_string(json), value);
  if (status == MOONPAD_OK) return status;
  if (status == MOONPAD_NO_MEMORY) return mp_no_memory(error);
  return mp_redis_corrupt(connection, "a value of the state is not JSON", error);
}

moonpad_status mp_redis_read_row(mp_redis_connection *connection, const redisReply *rows, size_t at, mp_state_row *row,
                                 moonpad_error *error) {
  *row = (mp_state_row){.scope = (mp_scope)mp_redis_integer(mp_redis_item(rows, at)),
                        .key = mp_redis_string(mp_redis_item(rows, at + 1)),
                        .revision = mp_redis_integer(mp_redis_item(rows, at + 3))};
  if (row->key.data == NULL) row->key = moonpad_text("");
  return mp_redis_read_value(connection, mp_redis_item(rows, at + 2), &row->value, error);
}

/* The next word; *text is what is behind it. */
static moonpad_string next_word(moonpad_string *text) {
  moonpad_string word = {text->data, 0};
  while (word.length < text->length && text->data[word.length] != ' ') word.length++;
  size_t used = word.length < text->length ? word.length + 1 : word.length;
  *text = (moonpad_string){text->data + used, text->length - used};
  return word;
}

/* False: it is not what was written. */
static bool read_about(moonpad_string text, mp_event_row *event) {
  if (text.data == NULL) return false;
  moonpad_string time = next_word(&text), digest = next_word(&text), kinds = next_word(&text);
  if (time.length == 0 || digest.length == 0 || kinds.length == 0) return false;
  event->digest = strtoull(digest.data, NULL, 10);
  event->kinds = (unsigned)strtoul(kinds.data, NULL, 10);
  event->invocation = text.length > 0 ? text : moonpad_text(NULL);
  return mp_parse_float(time.data, time.length, &event->timestamp);
}

moonpad_status mp_redis_read_event(mp_redis_connection *connection, const redisReply *rows, size_t at, bool with_json,
                                   mp_event_row *event, moonpad_error *error) {
  *event = (mp_event_row){.revision = mp_redis_integer(mp_redis_item(rows, at)),
                          .id = mp_redis_string(mp_redis_item(rows, at + 1))};
  if (!read_about(mp_redis_string(mp_redis_item(rows, at + 2)), event)) {
    return mp_redis_corrupt(connection, "an event lacks its time", error);
  }
  if (!with_json) return MOONPAD_OK;
  event->json = mp_redis_string(mp_redis_item(rows, at + 3));
  moonpad_status status = event->json.data == NULL
                              ? MOONPAD_CORRUPT
                              : mp_stored_event(connection->store->remote.env, &connection->scratch, &event->json);
  if (status == MOONPAD_NO_MEMORY) return mp_no_memory(error);
  return status == MOONPAD_OK ? status : mp_redis_corrupt(connection, "an event is not a JSON object", error);
}
