/* Sends scripts and commands, and receives replies. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/platform.h"
#include "store/redis/redis.h"

/* ---- sending: what is sent waits in hiredis until a reply is received ---- */

static bool reserve(mp_redis_connection *connection, size_t count) {
  mp_env *env = connection->store->remote.env;
  void *values = connection->values, *lengths = connection->lengths;
  bool has_room = mp_reserve(env, &values, &connection->value_capacity, sizeof *connection->values, count);
  connection->values = values;
  has_room = has_room && mp_reserve(env, &lengths, &connection->length_capacity, sizeof *connection->lengths, count);
  connection->lengths = lengths;
  return has_room;
}

static void put(mp_redis_connection *connection, size_t at, moonpad_string text) {
  connection->values[at] = text.data;
  connection->lengths[at] = text.length;
}

static moonpad_status no_memory(mp_redis_connection *connection, moonpad_error *error) {
  moonpad_error reason;
  moonpad_status status = mp_no_memory(&reason);
  return mp_redis_note(connection, status, &reason, error);
}

static size_t count_all(const mp_redis_arguments *const *parts, size_t count, bool *failed) {
  size_t all = 0;
  *failed = false;
  for (size_t i = 0; i < count; i++) {
    all += parts[i]->count;
    *failed = *failed || parts[i]->failed;
  }
  return all;
}

static moonpad_status check_count(mp_redis_connection *connection, size_t words, moonpad_error *error) {
  size_t most = connection->node->most_words;
  moonpad_error reason;
  if (most == 0 || words <= most) return MOONPAD_OK;
  mp_fail(&reason, MOONPAD_LIMIT, "%s: too much at once: Redis before 7.0 takes at most %zu words in a command",
          connection->store->remote.place, most);
  return mp_redis_note(connection, MOONPAD_LIMIT, &reason, error);
}

/* What has been put before `at`, and then the arguments. */
static moonpad_status send_all(mp_redis_connection *connection, size_t at, const mp_redis_arguments *const *parts,
                               size_t count, moonpad_error *error) {
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < parts[i]->count; j++) put(connection, at++, mp_redis_argument(parts[i], j));
  }
  if (check_count(connection, at, error) != MOONPAD_OK) return MOONPAD_LIMIT;
  int sent = redisAppendCommandArgv(connection->node->redis, (int)at, connection->values, connection->lengths);
  return sent == REDIS_OK ? MOONPAD_OK : mp_redis_lost(connection, NULL, error);
}

moonpad_status mp_redis_send_script(mp_redis_connection *connection, mp_redis_script_id id, size_t keys, bool by_hash,
                                    const mp_redis_arguments *const *parts, size_t count, moonpad_error *error) {
  static const char *const numbers[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13"};
  bool failed;
  size_t all = count_all(parts, count, &failed);
  bool is_known = by_hash && connection->node->hashes[id][0] != '\0';
  if (failed || !reserve(connection, all + 3)) return no_memory(connection, error);
  put(connection, 0, moonpad_text(is_known ? "EVALSHA" : "EVAL"));
  put(connection, 1, moonpad_text(is_known ? connection->node->hashes[id] : mp_redis_script(connection->store, id)));
  put(connection, 2, moonpad_text(numbers[keys]));
  return send_all(connection, 3, parts, count, error);
}

moonpad_status mp_redis_send_command(mp_redis_connection *connection, const char *command,
                                     const mp_redis_arguments *arguments, moonpad_error *error) {
  bool failed;
  size_t all = count_all(&arguments, 1, &failed);
  if (failed || !reserve(connection, all + 1)) return no_memory(connection, error);
  put(connection, 0, moonpad_text(command));
  return send_all(connection, 1, &arguments, 1, error);
}

/* What fails here fails again when the reply is received. */
void mp_redis_flush(mp_redis_connection *connection) {
  mp_sigpipe held;
  mp_sigpipe_hold(&held);
  for (size_t i = 0; i < connection->node_count; i++) {
    redisContext *redis = connection->nodes[i].redis;
    int is_done = redis == NULL;
    mp_redis_before_tls(connection->store);
    while (!is_done && redisBufferWrite(redis, &is_done) == REDIS_OK) continue;
    if (redis != NULL) mp_redis_after_tls(connection->store, redis);
  }
  mp_sigpipe_release(&held);
}

/* ---- receiving ---- */

redisReply *mp_redis_receive(mp_redis_connection *connection, moonpad_error *error) {
  mp_sigpipe held;
  void *reply = NULL;
  mp_sigpipe_hold(&held);
  mp_redis_before_tls(connection->store);
  int received = redisGetReply(connection->node->redis, &reply);
  mp_redis_after_tls(connection->store, connection->node->redis);
  mp_sigpipe_release(&held);
  if (received == REDIS_OK && reply != NULL) return reply;
  if (reply != NULL) freeReplyObject(reply);
  mp_redis_lost(connection, NULL, error);
  return NULL;
}

bool mp_redis_lacks_script(const redisReply *reply) {
  return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0;
}

static redisReply *check(mp_redis_connection *connection, redisReply *reply, moonpad_error *error) {
  if (reply == NULL || reply->type != REDIS_REPLY_ERROR) return reply;
  mp_redis_fail(connection, reply, error);
  freeReplyObject(reply);
  return NULL;
}

/* ---- both ---- */

redisReply *mp_redis_call(mp_redis_connection *connection, mp_redis_script_id id, size_t keys,
                          const mp_redis_arguments *const *parts, size_t count, moonpad_error *error) {
  redisReply *reply = NULL;
  for (int by_hash = 1; by_hash >= 0; by_hash--) {
    if (mp_redis_send_script(connection, id, keys, by_hash == 1, parts, count, error) != MOONPAD_OK) return NULL;
    reply = mp_redis_receive(connection, error);
    if (reply == NULL || !mp_redis_lacks_script(reply)) break;
    if (by_hash == 1) freeReplyObject(reply);
  }
  reply = check(connection, reply, error);
  if (reply == NULL || (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0)) return reply;
  freeReplyObject(reply);
  moonpad_error reason;
  moonpad_status status = mp_redis_corrupt(connection, "a script has answered what it does not say", &reason);
  mp_redis_note(connection, status, &reason, error);
  return NULL;
}

redisReply *mp_redis_command(mp_redis_connection *connection, const char *command, const mp_redis_arguments *arguments,
                             moonpad_error *error) {
  if (mp_redis_send_command(connection, command, arguments, error) != MOONPAD_OK) return NULL;
  return check(connection, mp_redis_receive(connection, error), error);
}

moonpad_status mp_redis_wait_for_replicas(mp_redis_connection *connection, moonpad_error *error) {
  const mp_redis *store = connection->store;
  if (store->replicas == 0) return MOONPAD_OK;
  mp_redis_arguments arguments;
  mp_redis_arguments_init(&arguments, store->remote.env);
  mp_redis_add_integer(&arguments, store->replicas);
  mp_redis_add_integer(&arguments, (int64_t)(store->remote.patience * 1000) + 1);
  redisReply *reply = mp_redis_command(connection, "WAIT", &arguments, error);
  mp_redis_arguments_free(&arguments);
  if (reply == NULL) return connection->base.failure.status;
  int64_t found = mp_redis_integer(reply);
  freeReplyObject(reply);
  if (found >= store->replicas) return MOONPAD_OK;
  moonpad_error reason;
  moonpad_status status = mp_fail(&reason, MOONPAD_BUSY, "%s: it is stored, but %lld replicas have it, not %lld",
                                  store->remote.place, (long long)found, (long long)store->replicas);
  return mp_redis_note(connection, status, &reason, error);
}
