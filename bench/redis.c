/* Redis on a socket (servers.h). */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <hiredis.h>
#pragma GCC diagnostic pop

#include "servers.h"

/* One script: revisions counted up, three keys, the event under its id, two lists. */
static const char raw_append_script[] =
    "local call = redis.call "
    "if call('HGET', KEYS[1], 'r') ~= ARGV[1] then return redis.error_reply('revision') end "
    "call('XADD', KEYS[4], ARGV[2] .. '-0', 'i', ARGV[3], 't', ARGV[4], 'j', ARGV[5]) "
    "call('HSET', KEYS[5], ARGV[3], ARGV[2]) "
    "call('HSET', KEYS[2], ARGV[6], ARGV[7]) call('HSET', KEYS[7], ARGV[8], ARGV[9]) "
    "call('HSET', KEYS[10], ARGV[10], ARGV[11]) call('ZADD', KEYS[3], ARGV[2], ARGV[6]) "
    "call('ZADD', KEYS[8], call('HINCRBY', KEYS[6], 'r', 1), ARGV[8]) "
    "call('ZADD', KEYS[11], call('HINCRBY', KEYS[9], 'r', 1), ARGV[10]) "
    "call('ZADD', KEYS[12], ARGV[4], KEYS[1]) call('ZADD', KEYS[13], ARGV[4], KEYS[1]) "
    "call('HSET', KEYS[1], 'r', ARGV[2], 't', ARGV[4]) return 1";

static const char raw_get_script[] =
    "local call = redis.call "
    "local out = {call('HGETALL', KEYS[1]), call('HGET', KEYS[6], 'r'), call('HGET', KEYS[9], 'r')} "
    "for i, k in ipairs({2, 7, 10}) do "
    "  out[2 + i * 2] = call('HGETALL', KEYS[k]) "
    "  out[3 + i * 2] = call('ZRANGE', KEYS[k + 1], 0, -1, 'WITHSCORES') "
    "end "
    "out[10] = call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 16) return out";

#define MOST_ARGUMENTS 32

typedef struct raw_connection {
  redisContext *redis;
  char append[41], get[41]; /* hashes of the scripts */
  int count;
  const char *words[MOST_ARGUMENTS];
  char texts[MOST_ARGUMENTS][64];
} raw_connection;

static redisReply *check(redisContext *redis, void *answer) {
  redisReply *reply = answer;
  must(reply != NULL, redis->errstr);
  must(reply->type != REDIS_REPLY_ERROR, reply->str);
  return reply;
}

static void load(redisContext *redis, const char *script, char hash[41]) {
  redisReply *reply = check(redis, redisCommand(redis, "SCRIPT LOAD %s", script));
  strcpy(hash, reply->str);
  freeReplyObject(reply);
}

/* "redis+unix://:secret@PATH" */
static void *raw_connect(const char *url, bool is_durable) {
  raw_connection *raw = calloc(1, sizeof *raw);
  must(raw != NULL, "memory");
  raw->redis = redisConnectUnix(strchr(url, '@') + 1);
  must(raw->redis != NULL && raw->redis->err == 0, url);
  freeReplyObject(check(raw->redis, redisCommand(raw->redis, "AUTH secret")));
  freeReplyObject(
      check(raw->redis, redisCommand(raw->redis, "CONFIG SET appendfsync %s", is_durable ? "always" : "everysec")));
  load(raw->redis, raw_append_script, raw->append);
  load(raw->redis, raw_get_script, raw->get);
  return raw;
}

static void raw_disconnect(void *context) {
  redisFree(((raw_connection *)context)->redis);
  free(context);
}

static void word(raw_connection *raw, const char *text) {
  raw->words[raw->count++] = text;
}

static void words(raw_connection *raw, const char *format, long number, const char *end) {
  snprintf(raw->texts[raw->count], sizeof *raw->texts, format, number, end);
  word(raw, raw->texts[raw->count]);
}

static void begin(raw_connection *raw, const char *hash, int session) {
  static const char *const of_session[] = {"m", "v", "z", "e", "i"}, *const shared[] = {"m", "v", "z"};
  raw->count = 0;
  word(raw, "EVALSHA");
  word(raw, hash);
  word(raw, "13");
  for (int i = 0; i < 5; i++) words(raw, "raw:{hotel}:s:u%ld:s1:%s", session, of_session[i]);
  for (int i = 0; i < 3; i++) words(raw, "raw:{hotel}:u:u%ld:%s", session, shared[i]);
  for (int i = 0; i < 3; i++) words(raw, "raw:{hotel}:a%.0ld:%s", 0, shared[i]);
  word(raw, "raw:{hotel}:l");
  words(raw, "raw:{hotel}:l:u%ld%s", session, "");
}

static void run(raw_connection *raw) {
  freeReplyObject(check(raw->redis, redisCommandArgv(raw->redis, raw->count, raw->words, NULL)));
}

static void raw_make_tables(void *context) {
  redisContext *redis = ((raw_connection *)context)->redis;
  redisReply *keys = check(redis, redisCommand(redis, "KEYS raw:*"));
  for (size_t i = 0; i < keys->elements; i++) {
    freeReplyObject(check(redis, redisCommand(redis, "DEL %s", keys->element[i]->str)));
  }
  freeReplyObject(keys);
  for (int i = 0; i <= THREADS; i++) {
    freeReplyObject(check(redis, redisCommand(redis, "HSET raw:{hotel}:s:u%d:s1:m r 0 t 1", i)));
  }
}

static void raw_append(void *context, int session, long revision, const event_text *event, long number) {
  raw_connection *raw = context;
  char id[EVENT_ID_BYTES + 1] = {0};
  write_event_id(id, number, (unsigned)session);
  begin(raw, raw->append, session);
  words(raw, "%ld%s", revision, "");
  words(raw, "%ld%s", revision + 1, "");
  word(raw, id);
  words(raw, "17637%ld%s", 10000 + number, ".25");
  word(raw, event->text);
  word(raw, "step");
  words(raw, "%ld%s", FIRST_STEP + number, "");
  word(raw, "wish");
  words(raw, "\"taxi %ld%s", FIRST_STEP + number, "\"");
  word(raw, "served");
  words(raw, "%ld%s", FIRST_STEP + number, "");
  run(raw);
}

static void raw_get(void *context) {
  raw_connection *raw = context;
  begin(raw, raw->get, 1);
  run(raw);
}

int main(int count, char **arguments) {
  must(count == 2, "bench/servers.sh");
  const raw_server server = {.name = "Redis",
                             .scheme = {"redis+unix", moonpad_redis_store()},
                             .full_bound = 1.15,
                             .normal_bound = 1.5,
                             .threads_bound = 1,
                             .connect = raw_connect,
                             .disconnect = raw_disconnect,
                             .make_tables = raw_make_tables,
                             .append = raw_append,
                             .get = raw_get};
  measure_server(&server, arguments[1]);
  return 0;
}
