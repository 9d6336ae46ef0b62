/* Places of tests on Redis. */
#include "redis_support.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <hiredis.h>
#pragma GCC diagnostic pop
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPTION "prefix=test_"

void redis_make_url(const char *url, char *rest, size_t size) {
  static int number;
  snprintf(rest, size, "%s%c" OPTION "%ld_%d:", strchr(url, ':') + 1, strchr(url, '?') == NULL ? '?' : '&',
           (long)getpid(), ++number);
}

bool redis_is_url(const char *rest) {
  return strstr(rest, OPTION) != NULL;
}

static void give_up(const char *what, const char *said) {
  fprintf(stderr, "%s: %s\n", what, said);
  abort();
}

static redisReply *check(redisContext *redis, void *answer) {
  redisReply *reply = answer;
  if (reply == NULL) give_up("redis", redis->errstr);
  if (reply->type == REDIS_REPLY_ERROR) give_up("redis", reply->str);
  return reply;
}

/* ---- connections ---- */

/*
** "//:PASSWORD@HOST:PORT/DB?prefix=...", or of a cluster
** "//:PASSWORD@HOST:PORT,HOST:PORT?prefix=..."
*/
static void prefix_of(const char *rest, char prefix[64]) {
  const char *option = strstr(rest, "prefix=");
  snprintf(prefix, 64, "%s", option == NULL ? "mp:" : option + strlen("prefix="));
  prefix[strcspn(prefix, "&")] = '\0';
}

static bool is_cluster(const char *rest) {
  return memchr(rest, ',', strcspn(rest, "?")) != NULL;
}

static redisContext *connect_to_host(const char *host, const char *password) {
  char name[64];
  int port;
  if (sscanf(host, "%63[^:]:%d", name, &port) != 2) give_up(host, "no such URL");
  redisContext *redis = redisConnect(name, port);
  if (redis == NULL || redis->err != 0) give_up(host, redis == NULL ? "out of memory" : redis->errstr);
  freeReplyObject(check(redis, redisCommand(redis, "AUTH %s", password)));
  return redis;
}

static redisContext *connect_to(const char *rest, char prefix[64]) {
  char password[64], host[64];
  int db;
  prefix_of(rest, prefix);
  if (sscanf(rest, "//:%63[^@]@%63[^/]/%d", password, host, &db) != 3) give_up(rest, "no such URL");
  redisContext *redis = connect_to_host(host, password);
  freeReplyObject(check(redis, redisCommand(redis, "SELECT %d", db)));
  return redis;
}

static bool is_replica(redisContext *redis) {
  redisReply *role = check(redis, redisCommand(redis, "ROLE"));
  bool is = strcmp(role->element[0]->str, "master") != 0;
  freeReplyObject(role);
  return is;
}

/* Calls it for the server, or for each node of a cluster that may be written to. */
static void at_each_node(const char *rest, void (*call)(redisContext *redis, const char *prefix, int kind), int kind) {
  char prefix[64], password[64], hosts[400];
  if (!is_cluster(rest)) {
    redisContext *redis = connect_to(rest, prefix);
    call(redis, prefix, kind);
    redisFree(redis);
    return;
  }
  prefix_of(rest, prefix);
  if (sscanf(rest, "//:%63[^@]@%399[^?]", password, hosts) != 2) give_up(rest, "no such URL");
  for (char *at = hosts, *host; (host = strtok_r(at, ",", &at)) != NULL;) {
    redisContext *redis = connect_to_host(host, password);
    if (!is_replica(redis)) call(redis, prefix, kind);
    redisFree(redis);
  }
}

static void forget(redisContext *redis, const char *prefix, int kind) {
  char cursor[32] = "0";
  (void)kind;
  do {
    redisReply *reply = check(redis, redisCommand(redis, "SCAN %s MATCH %s* COUNT 1000", cursor, prefix));
    snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
    for (size_t i = 0; i < reply->element[1]->elements; i++) {
      const redisReply *key = reply->element[1]->element[i];
      freeReplyObject(check(redis, redisCommand(redis, "UNLINK %b", key->str, key->len)));
    }
    freeReplyObject(reply);
  } while (strcmp(cursor, "0") != 0);
}

void redis_forget_url(const char *rest) {
  at_each_node(rest, forget, 0);
}

/* ---- what a place has, kept in the place itself ---- */

static const char copy[] =
    "local from, to, other = ARGV[1], ARGV[2], ARGV[3] "
    "local function is(key, begin) return string.sub(key, 1, #begin) == begin end "
    "local function each(begin, without, call) "
    "  for _, key in ipairs(redis.call('KEYS', begin .. '*')) do "
    "    local is_apps = string.find(key, '{', 1, true) "
    "    if is_apps and is(key, begin) and not (without ~= '' and is(key, without)) then call(key) end "
    "  end "
    "end "
    "each(to, other, function(key) redis.call('UNLINK', key) end) "
    "each(from, other == '' and to or '', function(key) "
    "  local copied = to .. string.sub(key, #from + 1) "
    "  redis.call('RESTORE', copied, 0, redis.call('DUMP', key), 'REPLACE') "
    "end)";

enum { KEEP, PUT_BACK };

static void run_copy(redisContext *redis, const char *prefix, int kind) {
  char kept[80];
  snprintf(kept, sizeof kept, "%skept!", prefix);
  bool back = kind == PUT_BACK;
  void *reply =
      redisCommand(redis, "EVAL %s 0 %s %s %s", copy, back ? kept : prefix, back ? prefix : kept, back ? kept : "");
  freeReplyObject(check(redis, reply));
}

void redis_keep(const char *rest) {
  at_each_node(rest, run_copy, KEEP);
}

void redis_put_back(const char *rest) {
  at_each_node(rest, run_copy, PUT_BACK);
}

/* ---- commands of a test's own ---- */

#define MOST_WORDS 16

static void add_text(char *text, size_t size, const redisReply *reply) {
  size_t length = strlen(text);
  for (size_t i = 0; i < reply->elements && reply->type == REDIS_REPLY_ARRAY; i++) {
    add_text(text, size, reply->element[i]);
    strncat(text, " ", size - strlen(text) - 1);
  }
  if (reply->type == REDIS_REPLY_INTEGER) snprintf(text + length, size - length, "%lld", reply->integer);
  if (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS) {
    snprintf(text + length, size - length, "%s", reply->str);
  }
}

const char *redis_run(const char *rest, ...) {
  static char text[4096];
  char prefix[64], words[MOST_WORDS][4096];
  const char *argv[MOST_WORDS];
  int count = 0;
  va_list list;
  redisContext *redis = connect_to(rest, prefix);
  va_start(list, rest);
  for (const char *word; count < MOST_WORDS && (word = va_arg(list, const char *)) != NULL; count++) {
    bool is_key = word[0] == '#';
    snprintf(words[count], sizeof words[count], "%s%s", is_key ? prefix : "", is_key ? word + 1 : word);
    argv[count] = words[count];
  }
  va_end(list);
  redisReply *reply = check(redis, redisCommandArgv(redis, count, argv, NULL));
  text[0] = '\0';
  add_text(text, sizeof text, reply);
  freeReplyObject(reply);
  redisFree(redis);
  return text;
}

long redis_number(const char *rest, const char *command, const char *key) {
  return atol(redis_run(rest, command, key, NULL));
}
