/*
** Which apps have artifacts, or memories. No key tells, for no key but those of the app may know:
** the server's keys are looked through. Tools and sweeps ask that, which look at everything anyway.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_stores/redis/stores.h"
#include "base/error.h"

typedef struct app_search {
  const char *list; /* "}:f" */
  mp_buffer bytes;  /* names, each with a NUL behind it */
  mp_buffer names;  /* where each begins: const char * */
} app_search;

/* ---- looking through the keys ---- */

static int digit_of(char byte) {
  return byte >= '0' && byte <= '9' ? byte - '0' : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

/* What mp_redis_encode has written. False: it has not written this. */
static bool decode(const char *text, size_t length, mp_buffer *name) {
  for (size_t i = 0; i < length; i++) {
    if (text[i] != '%') {
      mp_buffer_add_char(name, text[i]);
      continue;
    }
    int high = i + 2 < length ? digit_of(text[i + 1]) : -1, low = i + 2 < length ? digit_of(text[i + 2]) : -1;
    if (high < 0 || low < 0) return false;
    mp_buffer_add_char(name, (char)(high << 4 | low));
    i += 2;
  }
  return true;
}

/* "PREFIX{app}LIST" */
static void take_key(app_search *search, const char *prefix, moonpad_string key) {
  size_t before = strlen(prefix) + 1;
  const char *end = key.length > before ? memchr(key.data, '}', key.length) : NULL;
  if (end == NULL || end < key.data + before) return;
  size_t length = search->bytes.length;
  size_t left = (size_t)(key.data + key.length - end);
  bool is_list = left == strlen(search->list) && memcmp(end, search->list, left) == 0;
  if (is_list && decode(key.data + before, (size_t)(end - key.data) - before, &search->bytes)) {
    mp_buffer_add_char(&search->bytes, '\0');
  } else {
    search->bytes.length = length;
  }
}

static redisReply *scan(mp_redis_connection *connection, const char *list, const char *cursor, moonpad_error *error) {
  mp_redis_arguments words;
  char pattern[MP_REDIS_LONGEST_PREFIX + 16];
  snprintf(pattern, sizeof pattern, "%s{*%s", connection->store->prefix, list);
  const char *const texts[] = {cursor, "MATCH", pattern, "COUNT", "1000"};
  mp_redis_arguments_init(&words, connection->store->remote.env);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) mp_redis_add_text(&words, texts[i]);
  redisReply *reply = mp_redis_command(connection, "SCAN", &words, error);
  mp_redis_arguments_free(&words);
  return reply;
}

static moonpad_status find_apps_in(mp_tx *base, void *context, moonpad_error *error) {
  mp_redis_connection *connection = mp_redis_tx_of(base)->connection;
  app_search *search = context;
  char cursor[24] = "0";
  mp_buffer_clear(&search->bytes);
  do {
    redisReply *reply = scan(connection, search->list, cursor, error);
    if (reply == NULL) return connection->base.failure.status;
    const redisReply *keys = mp_redis_item(reply, 1);
    for (size_t i = 0; i < mp_redis_count(keys); i++) {
      take_key(search, connection->store->prefix, mp_redis_string(mp_redis_item(keys, i)));
    }
    moonpad_string next = mp_redis_string(mp_redis_item(reply, 0));
    snprintf(cursor, sizeof cursor, "%.*s", (int)next.length, next.length == 0 ? "" : next.data);
    freeReplyObject(reply);
  } while (strcmp(cursor, "0") != 0 && cursor[0] != '\0');
  return search->bytes.failed ? mp_no_memory(error) : MOONPAD_OK;
}

/* ---- in order ---- */

static int compare(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static moonpad_status sort(app_search *search, moonpad_error *error) {
  const char *const end = search->bytes.data + search->bytes.length;
  for (const char *at = search->bytes.data; at < end; at += strlen(at) + 1) {
    mp_buffer_add(&search->names, (const char *)&at, sizeof at);
  }
  if (search->names.failed) return mp_no_memory(error);
  size_t count = search->names.length / sizeof(char *);
  if (count > 1) qsort(search->names.data, count, sizeof(char *), compare);
  return MOONPAD_OK;
}

static bool is_behind(const char *name, moonpad_string after) {
  size_t length = strlen(name), common = length < after.length ? length : after.length;
  int order = common == 0 ? 0 : memcmp(name, after.data, common);
  return order == 0 ? length > after.length : order > 0;
}

static moonpad_status call_each(const app_search *search, moonpad_string after, mp_each_name each, void *context,
                                moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  const char *const *names = (const char *const *)(const void *)search->names.data;
  for (size_t i = 0; status == MOONPAD_OK && i < search->names.length / sizeof *names; i++) {
    bool is_new = i == 0 || strcmp(names[i - 1], names[i]) != 0;
    if (is_new && is_behind(names[i], after)) status = each(context, moonpad_text(names[i]), error);
  }
  return mp_walk_end(status);
}

moonpad_status mp_redis_agent_each_app(mp_store *store, const char *list, moonpad_string after, mp_each_name each,
                                       void *context, moonpad_error *error) {
  mp_env *env = ((mp_redis *)store)->remote.env;
  app_search search = {.list = list};
  mp_buffer_init(&search.bytes, env);
  mp_buffer_init(&search.names, env);
  moonpad_status status = mp_remote_read(store, find_apps_in, &search, error);
  if (status == MOONPAD_OK) status = sort(&search, error);
  if (status == MOONPAD_OK) status = call_each(&search, after, each, context, error);
  mp_buffer_free(&search.bytes);
  mp_buffer_free(&search.names);
  return status;
}
