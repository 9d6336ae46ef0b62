/* What errors mean: to a caller, and for trying again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/platform.h"
#include "store/redis/redis.h"

/* ---- what Redis says ---- */

typedef struct meaning {
  const char *word; /* somewhere in the message: an error inside a script stands behind others */
  moonpad_status status;
  mp_remote_again again;
  const char *text; /* NULL: what the server says */
} meaning;

#define MOVING "the app is on its way to another node of the cluster"

static const meaning meanings[] = {
    {"LOADING", MOONPAD_STORAGE, MP_AGAIN_CALL, "the server is still loading its data"},
    {"READONLY", MOONPAD_STORAGE, MP_AGAIN_RECONNECT, "the server is read-only (a replica?)"},
    {"MASTERDOWN", MOONPAD_STORAGE, MP_AGAIN_RECONNECT, "the server has lost its primary"},
    {"NOREPLICAS", MOONPAD_STORAGE, MP_AGAIN_CALL, "the server has too few replicas (min-replicas-to-write)"},
    {"OOM ", MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server's memory is full (maxmemory)"},
    {"MISCONF", MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server cannot write to its disk (MISCONF)"},
    {"BUSY ", MOONPAD_BUSY, MP_AGAIN_CALL, "the server runs somebody's script for a long time"},
    {"max number of clients", MOONPAD_BUSY, MP_AGAIN_CALL, "the server has no connection left (maxclients)"},
    {"max number of connections", MOONPAD_BUSY, MP_AGAIN_CALL, "the server has no connection left (maxclients)"},
    {"NOAUTH", MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server refuses the user or the password (it wants one)"},
    {"WRONGPASS", MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server refuses the user or the password"},
    {"invalid password", MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server refuses the user or the password"},
    {"without any password", MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server has no password, and the URL has one"},
    {"no password is set", MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server has no password, and the URL has one"},
    {"NOPERM", MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, NULL},
    {"The user executing the script", MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, NULL},
    {"unknown command", MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, NULL},
    {"MOVED", MOONPAD_STORAGE, MP_AGAIN_RECONNECT, "another node of the cluster has the app now"},
    {"CLUSTERDOWN", MOONPAD_STORAGE, MP_AGAIN_RECONNECT, "the cluster is down"},
    {"ASK ", MOONPAD_BUSY, MP_AGAIN_CALL, MOVING},
    {"TRYAGAIN", MOONPAD_BUSY, MP_AGAIN_CALL, MOVING},
    {"non local key", MOONPAD_BUSY, MP_AGAIN_RECONNECT, MOVING},
    {"the cluster is down", MOONPAD_STORAGE, MP_AGAIN_RECONNECT, "the cluster is down"},
    {"its certificate: ", MOONPAD_STORAGE, MP_AGAIN_NEVER, NULL},
    {"WRONGTYPE", MOONPAD_CORRUPT, MP_AGAIN_NEVER,
     "the database is damaged: a key holds what moonpad has not put there"},
};

static const meaning *meaning_of(const char *said) {
  static const meaning other = {"", MOONPAD_STORAGE, MP_AGAIN_NEVER, NULL};
  for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
    if (strstr(said, meanings[i].word) != NULL) return &meanings[i];
  }
  return &other;
}

/* ---- noting ---- */

moonpad_status mp_redis_note(mp_redis_connection *connection, moonpad_status status, const moonpad_error *reason,
                             moonpad_error *error) {
  if (error != NULL) *error = *reason;
  if (connection->base.failure.status != MOONPAD_OK) return status;
  return mp_remote_note(&connection->base, status, MP_AGAIN_NEVER, "", reason);
}

static moonpad_status note(mp_redis_connection *connection, moonpad_status status, mp_remote_again again,
                           const moonpad_error *reason, moonpad_error *error) {
  mp_remote_note(&connection->base, status, again, "", reason);
  if (error != NULL) *error = *reason;
  return status;
}

moonpad_status mp_redis_fail(mp_redis_connection *connection, const redisReply *reply, moonpad_error *error) {
  const mp_remote *remote = &connection->store->remote;
  moonpad_error reason;
  const meaning *found = meaning_of(reply->str);
  const char *text = found->text != NULL ? found->text : reply->str;
  moonpad_status status = mp_fail(&reason, found->status, "%s: %.300s", remote->place, text);
  mp_remote_scrub(remote, reason.message);
  return note(connection, status, found->again, &reason, error);
}

/* hiredis tells a timeout by the system's words for EAGAIN. */
const char *mp_redis_reason(const mp_redis_node *node, char *text, size_t size) {
  const redisContext *redis = node->redis;
  if (redis->err != REDIS_ERR_IO || strcmp(redis->errstr, mp_system_message(EAGAIN, text, size)) != 0) {
    return redis->errstr;
  }
  snprintf(text, size, "it has said nothing for %.0f s", node->silence);
  return text;
}

moonpad_status mp_redis_lost(mp_redis_connection *connection, const char *what, moonpad_error *error) {
  const mp_remote *remote = &connection->store->remote;
  moonpad_error reason;
  char text[128];
  /* hiredis gives the connection up, and an answer may be lost: as if the server had gone. */
  if (connection->node->redis->err == REDIS_ERR_OOM)
    return note(connection, mp_no_memory(&reason), MP_AGAIN_RECONNECT, &reason, error);
  moonpad_status status = mp_fail(&reason, MOONPAD_STORAGE, "%s: the connection is lost: %.200s", remote->place,
                                  what != NULL ? what : mp_redis_reason(connection->node, text, sizeof text));
  return note(connection, status, MP_AGAIN_RECONNECT, &reason, error);
}

moonpad_status mp_redis_corrupt(mp_redis_connection *connection, const char *what, moonpad_error *error) {
  return mp_fail(error, MOONPAD_CORRUPT, "%s: the database is damaged: %s", connection->store->remote.place, what);
}

moonpad_status mp_redis_moved(mp_redis_connection *connection, moonpad_error *error) {
  moonpad_error reason;
  moonpad_status status =
      mp_fail(&reason, MOONPAD_BUSY, "%s: others kept changing the same", connection->store->remote.place);
  return note(connection, status, MP_AGAIN_CALL, &reason, error);
}

/* ---- no connection ---- */

void mp_redis_refuse(const mp_redis *store, const char *said, mp_remote_failure *failure) {
  const meaning *found = meaning_of(said);
  bool is_known = found->word[0] != '\0';
  failure->again = is_known ? found->again : MP_AGAIN_RECONNECT;
  failure->was_connecting = true;
  failure->status = mp_fail(&failure->error, found->status, "%s: no connection: %.200s", store->remote.place,
                            found->text != NULL ? found->text : said);
  mp_remote_scrub(&store->remote, failure->error.message);
}
