/*
** The apps that have sessions, by number; artifacts and memories have such keys, too. These are the
** ones that are not an app's own. An id (of an app, a user, a session) is 2^32 times the number of
** its app, and what the app counts: so no two apps give the same, and an id tells where it belongs.
*/
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "store/redis/redis.h"

#define MILLISECONDS_FOR_A_REPLICA "100"

static void add_key(const mp_redis *store, mp_redis_arguments *arguments) {
  mp_buffer_add_string(&arguments->bytes, moonpad_text(store->prefix));
  mp_redis_add_text(arguments, store->registry);
}

/*
** In a cluster the key is on another node than the app. If a failover lost the number, and not what
** is in the app, another app would get the same one. So a replica gets the time to have it.
*/
static moonpad_status wait_for_replica(mp_redis_connection *connection, moonpad_error *error) {
  if (connection->store->replicas > 0) return mp_redis_wait_for_replicas(connection, error);
  if (connection->slots == NULL) return MOONPAD_OK;
  mp_redis_arguments arguments;
  mp_redis_arguments_init(&arguments, connection->store->remote.env);
  mp_redis_add_text(&arguments, "1");
  mp_redis_add_text(&arguments, MILLISECONDS_FOR_A_REPLICA);
  redisReply *reply = mp_redis_command(connection, "WAIT", &arguments, error);
  mp_redis_arguments_free(&arguments);
  if (reply == NULL) return connection->base.failure.status;
  freeReplyObject(reply);
  return MOONPAD_OK;
}

moonpad_status mp_redis_register_app(mp_redis_connection *connection, moonpad_string app_name, int64_t *number,
                                     moonpad_error *error) {
  mp_redis_arguments arguments;
  mp_redis_arguments_init(&arguments, connection->store->remote.env);
  add_key(connection->store, &arguments);
  mp_redis_add(&arguments, app_name);
  mp_redis_add_integer(&arguments, MP_REDIS_MOST_APPS);
  const mp_redis_arguments *parts[] = {&arguments};
  redisReply *reply = NULL;
  moonpad_status status = mp_redis_go_to_key(connection, connection->store->registry, error);
  if (status == MOONPAD_OK) reply = mp_redis_call(connection, MP_REDIS_REGISTER, 1, parts, 1, error);
  mp_redis_arguments_free(&arguments);
  if (reply == NULL) return connection->base.failure.status;
  *number = mp_redis_integer(mp_redis_item(reply, 1));
  bool is_full = mp_redis_says(mp_redis_item(reply, 0), "full");
  freeReplyObject(reply);
  if (!is_full) return wait_for_replica(connection, error);
  moonpad_error reason;
  mp_fail(&reason, MOONPAD_LIMIT, "%s: it has no room for more than %d apps", connection->store->remote.place,
          MP_REDIS_MOST_APPS);
  return mp_redis_note(connection, MOONPAD_LIMIT, &reason, error);
}

moonpad_status mp_redis_find_app(mp_redis_connection *connection, int64_t number, redisReply **reply,
                                 moonpad_error *error) {
  static const char *const words[] = {"+inf", "WITHSCORES", "LIMIT", "0", "1"};
  mp_redis_arguments arguments;
  mp_redis_arguments_init(&arguments, connection->store->remote.env);
  add_key(connection->store, &arguments);
  mp_redis_add_integer(&arguments, number);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) mp_redis_add_text(&arguments, words[i]);
  moonpad_status status = mp_redis_go_to_key(connection, connection->store->registry, error);
  *reply = status == MOONPAD_OK ? mp_redis_command(connection, "ZRANGEBYSCORE", &arguments, error) : NULL;
  mp_redis_arguments_free(&arguments);
  return connection->base.failure.status;
}

moonpad_status mp_redis_each_app(mp_tx *base, mp_each_name each, void *context, moonpad_error *error) {
  mp_redis_connection *connection = mp_redis_tx_of(base)->connection;
  moonpad_status status = MOONPAD_OK;
  mp_redis_arguments arguments;
  mp_redis_arguments_init(&arguments, connection->store->remote.env);
  add_key(connection->store, &arguments);
  mp_redis_add_text(&arguments, "0");
  mp_redis_add_text(&arguments, "-1");
  redisReply *names = NULL;
  status = mp_redis_go_to_key(connection, connection->store->registry, error);
  if (status == MOONPAD_OK) names = mp_redis_command(connection, "ZRANGE", &arguments, error);
  mp_redis_arguments_free(&arguments);
  if (names == NULL) return connection->base.failure.status;
  for (size_t i = 0; status == MOONPAD_OK && i < mp_redis_count(names); i++) {
    status = each(context, mp_redis_string(mp_redis_item(names, i)), error);
  }
  freeReplyObject(names);
  return mp_walk_end(status);
}
