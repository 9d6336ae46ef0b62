/* Opens and closes connections, to one server or to the nodes of a cluster. */
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/redis/redis.h"

#define DEFAULT_PORT            6379
#define MOST_SECONDS_TO_CONNECT 10
#define OLDEST_MAJOR            6
#define MOST_WORDS_BEFORE_7     ((size_t)1 << 20)

static struct timeval interval(double seconds) {
  double whole = floor(seconds);
  return (struct timeval){.tv_sec = (time_t)whole, .tv_usec = (suseconds_t)((seconds - whole) * 1e6)};
}

/* Of the greeting as well: who is silent then is not waited for as long as for an answer. */
static double time_to_connect(const mp_redis *store) {
  return fmin(fmax(store->remote.patience, 1), MOST_SECONDS_TO_CONNECT);
}

static void set_silence(mp_redis_node *node, double seconds) {
  node->silence = seconds;
  redisSetTimeout(node->redis, interval(seconds));
}

/* ---- what is done first on a connection ---- */

static void set_up_socket(mp_redis_connection *connection) {
  redisContext *redis = connection->node->redis;
  int flags = fcntl(redis->fd, F_GETFD);
  if (flags >= 0) fcntl(redis->fd, F_SETFD, flags | FD_CLOEXEC);
  set_silence(connection->node, time_to_connect(connection->store));
  if (connection->store->socket == NULL) redisEnableKeepAlive(redis);
}

static moonpad_status send_words(mp_redis_connection *connection, mp_redis_arguments *words, const char *command,
                                 moonpad_error *error) {
  moonpad_status status = mp_redis_send_command(connection, command, words, error);
  mp_redis_arguments_clear(words);
  return status;
}

/* A user may have no password. */
static bool has_account(const mp_redis *store) {
  return store->remote.password != NULL || store->url.user != NULL;
}

static moonpad_status send_greeting(mp_redis_connection *connection, mp_redis_arguments *words, moonpad_error *error) {
  const mp_redis *store = connection->store;
  moonpad_status status = MOONPAD_OK;
  if (has_account(store)) {
    if (store->url.user != NULL) mp_redis_add_text(words, store->url.user);
    mp_redis_add_text(words, store->remote.password != NULL ? store->remote.password : "");
    status = send_words(connection, words, "AUTH", error);
  }
  mp_redis_add_text(words, "2");
  if (status == MOONPAD_OK) status = send_words(connection, words, "HELLO", error);
  mp_redis_add_integer(words, store->database);
  if (status == MOONPAD_OK) status = send_words(connection, words, "SELECT", error);
  if (status == MOONPAD_OK) status = send_words(connection, words, "TIME", error);
  for (int id = 0; status == MOONPAD_OK && id < MP_REDIS_SCRIPTS; id++) {
    mp_redis_add_text(words, "LOAD");
    mp_redis_add_text(words, mp_redis_script(store, (mp_redis_script_id)id));
    status = send_words(connection, words, "SCRIPT", error);
  }
  return status;
}

/* ---- what the server says ---- */

typedef struct greeting {
  int major, minor;
  bool is_replica;
  bool is_in_cluster;
  int64_t client;
} greeting;

static void read_greeting(const redisReply *reply, greeting *found) {
  for (size_t i = 0; i + 1 < mp_redis_count(reply); i += 2) {
    const redisReply *name = mp_redis_item(reply, i), *value = mp_redis_item(reply, i + 1);
    moonpad_string text = mp_redis_string(value);
    if (mp_redis_says(name, "version") && text.data != NULL) sscanf(text.data, "%d.%d", &found->major, &found->minor);
    if (mp_redis_says(name, "id")) found->client = mp_redis_integer(value);
    if (mp_redis_says(name, "role")) found->is_replica = !mp_redis_says(value, "master");
    if (mp_redis_says(name, "mode")) found->is_in_cluster = mp_redis_says(value, "cluster");
  }
}

static moonpad_status refuse(const mp_redis *store, moonpad_status status, mp_remote_again again, const char *what,
                             mp_remote_failure *failure) {
  failure->again = again;
  failure->was_connecting = true;
  failure->status = mp_fail(&failure->error, status, "%s: no connection: %s", store->remote.place, what);
  return status;
}

static moonpad_status check_greeting(const mp_redis *store, const greeting *found, bool may_be_replica,
                                     mp_remote_failure *failure) {
  char what[100];
  if (found->major < OLDEST_MAJOR) {
    snprintf(what, sizeof what, "Redis %d.%d: moonpad needs 6.0 or later", found->major, found->minor);
    return refuse(store, MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, what, failure);
  }
  if (found->is_in_cluster != (store->learned != NULL)) {
    const char *says = !found->is_in_cluster ? "the server is no node of a cluster: write redis://"
                       : store->has_tls ? "the server is a node of a cluster, which moonpad knows without TLS alone"
                                        : "the server is a node of a cluster: write redis+cluster://";
    return refuse(store, MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, says, failure);
  }
  if (found->is_replica && !may_be_replica) {
    return refuse(store, MOONPAD_STORAGE, MP_AGAIN_RECONNECT, "the server is read-only (a replica?)", failure);
  }
  return MOONPAD_OK;
}

/*
** A number that no other connection to this server has, nor has had: a server that is started again
** counts its clients from the beginning, but later. In a cluster it is that of the first node.
*/
static int64_t slot_of(const redisReply *time, int64_t client) {
  int64_t microseconds = mp_redis_integer(mp_redis_item(time, 0)) * 1000000 + mp_redis_integer(mp_redis_item(time, 1));
  return (microseconds << 10) | (client & 1023);
}

/* `reply` is an error, or NULL: the connection is lost. */
static void refuse_reply(const mp_redis_connection *connection, const redisReply *reply, mp_remote_failure *failure) {
  char text[128];
  if (reply == NULL && connection->node->redis->err == REDIS_ERR_OOM) {
    failure->status = mp_no_memory(&failure->error);
    return;
  }
  const char *said = reply != NULL ? reply->str : mp_redis_reason(connection->node, text, sizeof text);
  mp_redis_refuse(connection->store, said, failure);
}

/* NULL: it is refused. */
static redisReply *receive(mp_redis_connection *connection, mp_remote_failure *failure) {
  redisReply *reply = mp_redis_receive(connection, NULL);
  if (reply != NULL && reply->type != REDIS_REPLY_ERROR) return reply;
  refuse_reply(connection, reply, failure);
  if (reply != NULL) freeReplyObject(reply);
  return NULL;
}

/* A server that knows no HELLO is too old. */
static moonpad_status receive_greeting(mp_redis_connection *connection, bool may_be_replica, greeting *found,
                                       mp_remote_failure *failure) {
  redisReply *reply = mp_redis_receive(connection, NULL);
  if (reply != NULL && reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "unknown command") != NULL) {
    freeReplyObject(reply);
    return refuse(connection->store, MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, "moonpad needs Redis 6.0 or later", failure);
  }
  if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
    refuse_reply(connection, reply, failure);
    if (reply != NULL) freeReplyObject(reply);
    return failure->status;
  }
  read_greeting(reply, found);
  freeReplyObject(reply);
  connection->node->most_words = found->major < 7 ? MOST_WORDS_BEFORE_7 : SIZE_MAX;
  return check_greeting(connection->store, found, may_be_replica, failure);
}

/* Who may not load scripts sends their text each time. */
static moonpad_status receive_hashes(mp_redis_connection *connection, mp_remote_failure *failure) {
  for (int id = 0; id < MP_REDIS_SCRIPTS; id++) {
    redisReply *reply = mp_redis_receive(connection, NULL);
    bool is_refused = reply == NULL || (reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "LOADING") != NULL);
    if (is_refused) refuse_reply(connection, reply, failure);
    moonpad_string hash = mp_redis_string(reply);
    if (hash.length == sizeof connection->node->hashes[id] - 1)
      memcpy(connection->node->hashes[id], hash.data, hash.length + 1);
    if (reply != NULL) freeReplyObject(reply);
    if (is_refused) return failure->status;
  }
  return MOONPAD_OK;
}

static moonpad_status receive_all(mp_redis_connection *connection, bool may_be_replica, mp_remote_failure *failure) {
  greeting found = {.major = 0};
  redisReply *reply = NULL;
  if (has_account(connection->store)) {
    reply = receive(connection, failure);
    if (reply == NULL) return failure->status;
    freeReplyObject(reply);
  }
  moonpad_status status = receive_greeting(connection, may_be_replica, &found, failure);
  if (status != MOONPAD_OK) return status;
  for (int i = 0; i < 2; i++) {
    reply = receive(connection, failure);
    if (reply == NULL) return failure->status;
    bool is_first = connection->base.slot == 0;
    if (i == 1 && is_first) connection->base.slot = slot_of(reply, found.client);
    freeReplyObject(reply);
  }
  return receive_hashes(connection, failure);
}

static moonpad_status greet(mp_redis_connection *connection, bool may_be_replica, mp_remote_failure *failure) {
  mp_redis_arguments words;
  mp_redis_arguments_init(&words, connection->store->remote.env);
  moonpad_status status = send_greeting(connection, &words, &failure->error);
  if (words.bytes.data != NULL) memset(words.bytes.data, 0, words.bytes.capacity);
  mp_redis_arguments_free(&words);
  if (status == MOONPAD_OK) return receive_all(connection, may_be_replica, failure);
  failure->status = status;
  failure->again = MP_AGAIN_NEVER;
  return status;
}

/* ---- a node ---- */

static redisContext *open_socket(const mp_redis *store, const mp_redis_address *address) {
  struct timeval wait = interval(time_to_connect(store));
  if (store->socket != NULL) return redisConnectUnixWithTimeout(store->socket, wait);
  return redisConnectWithTimeout(address->host, address->port, wait);
}

/* What a server says that wants a certificate may be lost when it ends the connection. */
static void hint_at_certificate(const mp_redis_connection *connection, mp_remote_failure *failure) {
  char text[128], said[256];
  const redisContext *redis = connection->node->redis;
  bool is_silent = mp_redis_reason(connection->node, text, sizeof text) == text;
  bool is_lost = redis->err == REDIS_ERR_EOF || (redis->err == REDIS_ERR_IO && !is_silent);
  if (!is_lost || !connection->store->has_tls || connection->store->cert != NULL) return;
  snprintf(said, sizeof said, "%.150s (does the server want a certificate, cert=FILE&key=FILE?)", redis->errstr);
  mp_redis_refuse(connection->store, said, failure);
}

moonpad_status mp_redis_open_node(mp_redis_connection *connection, bool may_be_replica, mp_remote_failure *failure) {
  mp_redis_node *node = connection->node;
  memset(failure, 0, sizeof *failure);
  node->redis = open_socket(connection->store, &node->address);
  if (node->redis == NULL) {
    failure->status = mp_no_memory(&failure->error);
  } else if (node->redis->err != 0) {
    mp_redis_refuse(connection->store, node->redis->errstr, failure);
  } else {
    set_up_socket(connection);
    if (connection->store->has_tls && !mp_redis_start_tls(connection->store, node)) {
      refuse_reply(connection, NULL, failure);
    } else if (greet(connection, may_be_replica, failure) == MOONPAD_OK) {
      set_silence(node, connection->store->remote.silence);
    } else {
      hint_at_certificate(connection, failure);
    }
  }
  mp_remote_clear_failure(&connection->base);
  if (failure->status != MOONPAD_OK) mp_redis_close_node(connection, node);
  return failure->status;
}

/* In a forked child it is left as it is: to end it would end the parent's. */
void mp_redis_close_node(mp_redis_connection *connection, mp_redis_node *node) {
  if (node->redis != NULL && mp_remote_is_owner(&connection->store->remote)) redisFree(node->redis);
  node->redis = NULL;
}

/* ---- a connection ---- */

static mp_redis_connection *make(mp_redis *store, mp_remote_failure *failure) {
  mp_env *env = store->remote.env;
  mp_redis_connection *connection = mp_allocate_zeroed(env, sizeof *connection);
  if (connection != NULL) connection->nodes = mp_allocate_zeroed(env, sizeof *connection->nodes);
  if (connection == NULL || connection->nodes == NULL) {
    memset(failure, 0, sizeof *failure);
    failure->status = mp_no_memory(&failure->error);
    mp_release(env, connection);
    return NULL;
  }
  connection->store = store;
  connection->node = connection->nodes;
  connection->node_count = 1;
  mp_buffer_init(&connection->scratch, env);
  mp_redis_arguments_init(&connection->tag, env);
  return connection;
}

static mp_redis_connection *connect_to(mp_redis *store, const char *host, int port, mp_remote_failure *failure) {
  mp_redis_connection *connection = make(store, failure);
  if (connection == NULL) return NULL;
  mp_redis_address *address = &connection->node->address;
  snprintf(address->host, sizeof address->host, "%s", host);
  address->port = port != 0 ? port : DEFAULT_PORT;
  moonpad_status status = mp_redis_open_node(connection, store->learned != NULL, failure);
  if (status == MOONPAD_OK && store->learned != NULL) status = mp_redis_read_cluster(connection, failure);
  if (status == MOONPAD_OK) return connection;
  mp_redis_disconnect(&connection->base);
  return NULL;
}

static bool is_in_url(const mp_url_parts *url, const mp_redis_address *address) {
  for (size_t i = 0; i < url->host_count; i++) {
    int port = url->hosts[i].port != 0 ? url->hosts[i].port : DEFAULT_PORT;
    if (port == address->port && strcmp(url->hosts[i].name, address->host) == 0) return true;
  }
  return false;
}

/* Of a cluster all hosts of the URL may have gone, one after the other. */
static mp_redis_connection *connect_to_learned(mp_redis *store, mp_remote_failure *failure) {
  mp_redis_connection *connection = NULL;
  for (size_t i = 0; connection == NULL; i++) {
    mp_redis_address address = {.port = 0};
    mp_mutex_lock(&store->learned->lock);
    if (i < store->learned->count) address = store->learned->nodes[i];
    mp_mutex_unlock(&store->learned->lock);
    if (address.port == 0) break;
    if (!is_in_url(&store->url, &address)) connection = connect_to(store, address.host, address.port, failure);
  }
  return connection;
}

/* Begins with the host that was there last: one that is silent costs time. */
static mp_redis_connection *connect_to_url(mp_redis *store, mp_remote_failure *failure) {
  const mp_url_parts *url = &store->url;
  unsigned first = atomic_load(&store->host);
  for (size_t i = 0; i < url->host_count; i++) {
    unsigned at = (unsigned)((first + i) % url->host_count);
    mp_redis_connection *connection = connect_to(store, url->hosts[at].name, url->hosts[at].port, failure);
    if (connection != NULL) atomic_store(&store->host, at);
    if (connection != NULL || failure->again == MP_AGAIN_NEVER) return connection;
  }
  return NULL;
}

/* The first host that is there and may be written to; of a cluster, that knows its nodes. */
mp_remote_connection *mp_redis_connect(mp_remote *remote, mp_remote_failure *failure) {
  mp_redis *store = (mp_redis *)remote;
  bool is_named = store->socket == NULL;
  mp_redis_connection *connection = is_named ? connect_to_url(store, failure) : connect_to(store, "", 0, failure);
  bool is_over = connection != NULL || failure->again == MP_AGAIN_NEVER || store->learned == NULL;
  if (!is_over) connection = connect_to_learned(store, failure);
  return connection == NULL ? NULL : &connection->base;
}

bool mp_redis_is_connected(const mp_remote_connection *base) {
  const mp_redis_connection *connection = (const mp_redis_connection *)base;
  for (size_t i = 0; i < connection->node_count; i++) {
    const redisContext *redis = connection->nodes[i].redis;
    if (redis != NULL && redis->err != 0) return false;
  }
  return true;
}

void mp_redis_disconnect(mp_remote_connection *base) {
  mp_redis_connection *connection = (mp_redis_connection *)base;
  mp_env *env = connection->store->remote.env;
  for (size_t i = 0; i < connection->node_count; i++) mp_redis_close_node(connection, &connection->nodes[i]);
  mp_buffer_free(&connection->scratch);
  mp_redis_arguments_free(&connection->tag);
  mp_release(env, connection->nodes);
  mp_release(env, connection->slots);
  mp_release(env, (void *)connection->values);
  mp_release(env, connection->lengths);
  mp_release(env, connection);
}
