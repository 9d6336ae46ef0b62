/* URL and options; opening, freeing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "moonpad_stores.h"
#include "store/redis/redis.h"

enum {
  OPTION_PREFIX,
  OPTION_POOL,
  OPTION_DB,
  OPTION_MIGRATE,
  OPTION_STRICT,
  OPTION_REPLICAS,
  OPTION_SHARD,
  OPTION_CA,
  OPTION_CERT,
  OPTION_KEY,
  OPTIONS
};

#define DEFAULT_POOL     4
#define LARGEST_POOL     64
#define LARGEST_DATABASE 1000000
#define MOST_REPLICAS    100

static const char expected[] =
    "redis: the URL is not valid: write redis://:PASSWORD@HOST:PORT/0 or redis+unix://:PASSWORD@PATH, with other "
    "characters than letters and digits as %XX (an @ is %40, a / is %2F, a ? is %3F)";
static const char expected_of_tls[] =
    "rediss: the URL is not valid: write rediss://:PASSWORD@HOST:PORT/0, with other characters than letters and digits "
    "as %XX (an @ is %40, a / is %2F, a ? is %3F)";
static const char expected_of_cluster[] =
    "redis+cluster: the URL is not valid: write redis+cluster://:PASSWORD@HOST:PORT,HOST:PORT, with other characters "
    "than letters and digits as %XX (an @ is %40, a / is %2F, a ? is %3F)";

static const char *expected_by(const mp_redis *store) {
  return store->has_tls ? expected_of_tls : store->learned != NULL ? expected_of_cluster : expected;
}

static const char *scheme_of(const mp_redis *store) {
  return store->has_tls ? "rediss" : store->learned != NULL ? "redis+cluster" : "redis";
}

static moonpad_status invalid_url(const mp_redis *store, moonpad_error *error) {
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s", expected_by(store));
}

/* ---- what is in the URL ---- */

static moonpad_status note_place(mp_redis *store, moonpad_error *error) {
  char place[256];
  const mp_url_parts *url = &store->url;
  size_t length;
  if (store->socket != NULL) {
    length = (size_t)snprintf(place, sizeof place, "redis+unix:%.200s", store->socket);
  } else {
    length = (size_t)snprintf(place, sizeof place, "%s://", scheme_of(store));
  }
  length += mp_url_write_hosts(url, place + length, sizeof place - length);
  store->remote.place = mp_remote_copy_text(store->remote.env, place);
  return store->remote.place == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status note_prefix(mp_redis *store, const char *prefix, moonpad_error *error) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-";
  size_t length = strlen(prefix);
  if (length > MP_REDIS_LONGEST_PREFIX || strspn(prefix, allowed) != length) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "the URL's option prefix: expects at most %d letters, digits and any of _ . : -",
                   MP_REDIS_LONGEST_PREFIX);
  }
  memcpy(store->prefix, prefix, length + 1);
  return MOONPAD_OK;
}

/* Behind the host stands the number of a database. */
static moonpad_status note_database(mp_redis *store, const mp_url_option *option, moonpad_error *error) {
  mp_url_option path = {"db", store->socket == NULL ? store->url.path : NULL};
  if (path.value != NULL && path.value[0] == '\0') path.value = NULL;
  if (store->learned != NULL && (path.value != NULL || option->value != NULL)) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "redis+cluster: a cluster has one database, the URL names none");
  }
  if (path.value != NULL && option->value != NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option db: the URL names a database behind its host");
  }
  return mp_url_number(path.value != NULL ? &path : option, 0, LARGEST_DATABASE, 0, &store->database, error);
}

/* How an app's data are spread over a cluster: all of an app is on one node. */
static moonpad_status check_shard(const mp_redis *store, const mp_url_option *option, moonpad_error *error) {
  if (option->value == NULL) return MOONPAD_OK;
  if (store->learned == NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option shard: is one of redis+cluster:");
  }
  if (strcmp(option->value, "app") == 0) return MOONPAD_OK;
  if (strcmp(option->value, "user") == 0) {
    return mp_fail(error, MOONPAD_UNSUPPORTED, "the URL's option shard: this version has shard=app alone");
  }
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option shard: expects app");
}

static moonpad_status note_files(mp_redis *store, const mp_url_option *options, moonpad_error *error) {
  char **const files[] = {&store->ca, &store->cert, &store->key};
  for (int i = 0; i < 3; i++) {
    const mp_url_option *option = &options[OPTION_CA + i];
    if (option->value == NULL) continue;
    if (!store->has_tls) {
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option %s: is one of rediss:", option->name);
    }
    *files[i] = mp_remote_copy_text(store->remote.env, option->value);
    if (*files[i] == NULL) return mp_no_memory(error);
  }
  return store->has_tls ? mp_redis_make_tls(store, error) : MOONPAD_OK;
}

static moonpad_status note_options(mp_redis *store, const mp_url_option *options, int64_t *pool, moonpad_error *error) {
  const char *prefix = options[OPTION_PREFIX].value;
  moonpad_status status = note_prefix(store, prefix == NULL ? "mp:" : prefix, error);
  if (status == MOONPAD_OK) {
    status = mp_url_number(&options[OPTION_POOL], 1, LARGEST_POOL, DEFAULT_POOL, pool, error);
  }
  if (status == MOONPAD_OK) {
    status = mp_url_number(&options[OPTION_REPLICAS], 0, MOST_REPLICAS, 0, &store->replicas, error);
  }
  if (status == MOONPAD_OK) status = note_database(store, &options[OPTION_DB], error);
  if (status == MOONPAD_OK) status = check_shard(store, &options[OPTION_SHARD], error);
  if (status == MOONPAD_OK) status = note_files(store, options, error);
  if (status == MOONPAD_OK) status = mp_url_switch(&options[OPTION_MIGRATE], true, &store->remote.migrates, error);
  return status == MOONPAD_OK ? mp_url_switch(&options[OPTION_STRICT], false, &store->remote.strict, error) : status;
}

/* "PATH", or "//:PASSWORD@/PATH", which has no host; its first / is not part of url.path. */
static moonpad_status note_socket(mp_redis *store, const char *url, moonpad_error *error) {
  if (store->url.host_count > 0) return MOONPAD_OK;
  const char *path = strncmp(url, "//", 2) == 0 ? store->url.path : url;
  bool may_be = store->learned == NULL && !store->has_tls && path != NULL && path[0] != '\0';
  if (!may_be) return invalid_url(store, error);
  size_t size = strlen(path) + 2;
  store->socket = mp_allocate(store->remote.env, size);
  if (store->socket == NULL) return mp_no_memory(error);
  snprintf(store->socket, size, "%s%s", path == url || path[0] == '/' ? "" : "/", path);
  return MOONPAD_OK;
}

/* A PATH alone is taken as it is written. */
static moonpad_status split(mp_redis *store, const char *url, moonpad_error *error) {
  if (strncmp(url, "//", 2) == 0) return mp_url_split(store->remote.env, url, expected_by(store), &store->url, error);
  return strchr(url, '/') == NULL || strchr(url, '@') != NULL ? invalid_url(store, error) : MOONPAD_OK;
}

static moonpad_status read_parts(mp_redis *store, char *url, moonpad_error *error) {
  static const char *const names[] = {"prefix", "pool", "db",   "migrate", "strict", "replicas",
                                      "shard",  "ca",   "cert", "key",     NULL};
  moonpad_status status = mp_url_check_names(scheme_of(store), url, names, error);
  if (status == MOONPAD_OK) status = split(store, url, error);
  if (status == MOONPAD_OK) status = note_socket(store, url, error);
  if (status == MOONPAD_OK) status = note_place(store, error);
  return status == MOONPAD_OK ? mp_remote_note_password(&store->remote, store->url.password, error) : status;
}

static moonpad_status read_url(mp_redis *store, moonpad_string rest, int64_t *pool, moonpad_error *error) {
  mp_url_option options[OPTIONS] = {{"prefix", NULL}, {"pool", NULL},     {"db", NULL},    {"migrate", NULL},
                                    {"strict", NULL}, {"replicas", NULL}, {"shard", NULL}, {"ca", NULL},
                                    {"cert", NULL},   {"key", NULL}};
  char *left = NULL;
  const char *query = rest.length == 0 ? NULL : memchr(rest.data, '?', rest.length);
  if (rest.length > 0 && memchr(rest.data, '\0', rest.length) != NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "redis: the URL has a NUL in it");
  }
  /* A password with a ? is taken for options, which messages show. */
  if (query != NULL && memchr(query, '@', rest.length - (size_t)(query - rest.data)) != NULL)
    return invalid_url(store, error);
  moonpad_status status = mp_url_take_options(store->remote.env, rest, options, OPTIONS, &left, error);
  if (status == MOONPAD_OK) status = read_parts(store, left, error);
  if (status == MOONPAD_OK) status = note_options(store, options, pool, error);
  if (left != NULL) memset(left, 0, strlen(left));
  mp_release(store->remote.env, left);
  mp_url_free(store->remote.env, options, OPTIONS);
  return status;
}

static void warn_without_tls(const mp_redis *store) {
  for (size_t i = 0; i < store->url.host_count; i++) {
    if (store->has_tls || mp_url_is_loopback(store->url.hosts[i].name)) continue;
    bool could_have = store->learned == NULL && mp_redis_check_tls(NULL) == MOONPAD_OK;
    mp_log(store->remote.env, MOONPAD_STORAGE,
           could_have ? "redis: the host is not this machine, and what goes there is not encrypted: write rediss://"
                      : "redis: the host is not this machine, and what goes there is not encrypted: put a TLS proxy "
                        "such as stunnel between");
    return;
  }
}

/* ---- the first connection ---- */

static redisReply *ask(mp_redis_connection *connection, const char *command, const char *const *words, size_t count,
                       moonpad_error *error) {
  mp_redis_arguments arguments;
  mp_redis_arguments_init(&arguments, connection->store->remote.env);
  for (size_t i = 0; i < count; i++) mp_redis_add_text(&arguments, words[i]);
  redisReply *reply = mp_redis_command(connection, command, &arguments, error);
  mp_redis_arguments_free(&arguments);
  return reply;
}

#define LOSES_LAST "a crash of its machine can lose what it has stored last"

/* Of what may be refused; a connection that is lost stays so. */
static void free_answer(mp_redis_connection *connection, redisReply *reply) {
  if (reply != NULL) freeReplyObject(reply);
  if (!mp_remote_is_broken(&connection->base)) mp_remote_clear_failure(&connection->base);
}

/* What its settings say; *is_told: they may be asked for. */
static const char *find_risk(mp_redis_connection *connection, bool *is_told) {
  /* append... and maxmem...: of one pattern, for Redis 6 takes no more. */
  static const char *const asked[] = {"GET", "[am][pa][px][em]*"};
  bool appends = false, waits = false, evicts = false;
  redisReply *reply = ask(connection, "CONFIG", asked, 2, NULL);
  for (size_t i = 0; i + 1 < mp_redis_count(reply); i += 2) {
    const redisReply *name = mp_redis_item(reply, i), *value = mp_redis_item(reply, i + 1);
    moonpad_string text = mp_redis_string(value);
    appends = appends || (mp_redis_says(name, "appendonly") && mp_redis_says(value, "yes"));
    waits = waits || (mp_redis_says(name, "appendfsync") && mp_redis_says(value, "always"));
    bool is_policy = mp_redis_says(name, "maxmemory-policy") && text.data != NULL;
    evicts = evicts || (is_policy && strcmp(text.data, "noeviction") != 0);
  }
  *is_told = mp_redis_count(reply) > 0;
  free_answer(connection, reply);
  if (evicts) return "with a maxmemory-policy that lets it delete what moonpad has stored";
  if (!appends) return "without appendonly: " LOSES_LAST;
  return waits ? NULL : "without appendfsync always: " LOSES_LAST;
}

/* Whoever may not ask for the server's settings may ask for what it says of itself. */
static const char *guess_risk(mp_redis_connection *connection) {
  static const char *const section[] = {"persistence"};
  redisReply *reply = ask(connection, "INFO", section, 1, NULL);
  moonpad_string text = mp_redis_string(reply);
  bool appends = text.data != NULL && strstr(text.data, "aof_enabled:1") != NULL;
  free_answer(connection, reply);
  return appends ? "perhaps without appendfsync always: " LOSES_LAST : "perhaps without appendonly: " LOSES_LAST;
}

static moonpad_status check_node(mp_redis_connection *connection, moonpad_error *error) {
  const mp_remote *remote = &connection->store->remote;
  bool is_told;
  const char *risk = find_risk(connection, &is_told);
  if (!is_told && !mp_remote_is_broken(&connection->base)) risk = guess_risk(connection);
  if (mp_remote_is_broken(&connection->base)) {
    if (error != NULL) *error = connection->base.failure.error;
    return connection->base.failure.status;
  }
  if (risk == NULL) return MOONPAD_OK;
  return mp_remote_is_less_durable(remote, risk, error);
}

/* The client cannot choose this; one node of a cluster may be as bad as all. */
static moonpad_status check_durability(mp_redis_connection *connection, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  if (connection->store->remote.durability != MOONPAD_DURABILITY_FULL) return MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < connection->node_count; i++) {
    status = mp_redis_go_to_node(connection, i, error);
    if (status == MOONPAD_OK) status = check_node(connection, error);
  }
  return status;
}

#define SCHEMA "1"

/* *reply: what is stored, to be freed. */
static moonpad_status read_schema(mp_redis_connection *connection, const char *key, redisReply **reply,
                                  moonpad_error *error) {
  const char *const get[] = {key}, *const set[] = {key, SCHEMA, "NX"};
  *reply = ask(connection, "GET", get, 1, error);
  bool is_made = *reply == NULL || !mp_redis_is_nil(*reply) || !connection->store->remote.migrates;
  if (is_made) return connection->base.failure.status;
  freeReplyObject(*reply);
  *reply = ask(connection, "SET", set, 3, error);
  if (*reply == NULL) return connection->base.failure.status;
  freeReplyObject(*reply);
  *reply = ask(connection, "GET", get, 1, error);
  return connection->base.failure.status;
}

static moonpad_status check_schema(mp_redis_connection *connection, moonpad_error *error) {
  const char *place = connection->store->remote.place;
  char key[MP_REDIS_LONGEST_PREFIX + 16];
  redisReply *reply = NULL;
  snprintf(key, sizeof key, "%sschema", connection->store->prefix);
  moonpad_status status = mp_redis_go_to_key(connection, "schema", error);
  if (status == MOONPAD_OK) status = read_schema(connection, key, &reply, error);
  if (status != MOONPAD_OK) return status;
  int64_t found = mp_redis_integer(reply);
  bool is_empty = mp_redis_is_nil(reply);
  freeReplyObject(reply);
  if (is_empty) {
    return mp_fail(error, MOONPAD_UNSUPPORTED,
                   "%s: there are no keys %s of moonpad, and migrate=off forbids to begin with them", place,
                   connection->store->prefix);
  }
  if (found == 1) return MOONPAD_OK;
  if (found > 1) {
    return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: it was made by a newer moonpad: schema %lld", place,
                   (long long)found);
  }
  return mp_fail(error, MOONPAD_CORRUPT, "%s: the key %s holds what moonpad has not put there", place, key);
}

/* May this user run scripts? */
static moonpad_status check_scripts(mp_redis_connection *connection, moonpad_error *error) {
  mp_redis_arguments arguments;
  mp_redis_arguments_init(&arguments, connection->store->remote.env);
  static const char *const words[] = {"0", "ask", "0", "?users"};
  mp_redis_begin_key(&arguments, connection->store, moonpad_text("-"));
  mp_redis_end_key(&arguments, "-");
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) mp_redis_add_text(&arguments, words[i]);
  const mp_redis_arguments *parts[] = {&arguments};
  redisReply *reply = NULL;
  moonpad_status status = mp_redis_go_to_app(connection, moonpad_text("-"), error);
  if (status == MOONPAD_OK) reply = mp_redis_call(connection, MP_REDIS_TRANSACTION, 1, parts, 1, error);
  mp_redis_arguments_free(&arguments);
  if (reply != NULL) freeReplyObject(reply);
  return connection->base.failure.status;
}

static moonpad_status prepare(mp_remote_connection *base, moonpad_error *error) {
  mp_redis_connection *connection = (mp_redis_connection *)base;
  moonpad_status status = check_durability(connection, error);
  if (status == MOONPAD_OK) status = check_schema(connection, error);
  return status == MOONPAD_OK ? check_scripts(connection, error) : status;
}

/* There is nothing more to do. */
static moonpad_status start(mp_remote_connection *connection, moonpad_error *error) {
  (void)connection, (void)error;
  return MOONPAD_OK;
}

/* ---- the store ---- */

static void free_store(mp_store *base) {
  mp_redis *store = (mp_redis *)base;
  mp_env *env = store->remote.env;
  mp_url_free_parts(env, &store->url);
  mp_release(env, store->socket);
  mp_redis_free_tls(store);
  mp_release(env, store->ca);
  mp_release(env, store->cert);
  mp_release(env, store->key);
  if (store->learned != NULL) mp_mutex_destroy(&store->learned->lock);
  mp_release(env, store->learned);
  mp_release(env, store->transaction_script);
  mp_remote_destroy(&store->remote);
  mp_release(env, store);
  mp_env_release(env);
}

static const mp_store_ops store_ops = {
    .size = sizeof store_ops,
    .write = mp_remote_write,
    .read = mp_remote_read,
    .close = mp_remote_close,
    .free = free_store,
    .append = mp_remote_append,
};

static const mp_remote_ops remote_ops = {
    .connect = mp_redis_connect,
    .prepare = prepare,
    .start = start,
    .disconnect = mp_redis_disconnect,
    .is_connected = mp_redis_is_connected,
    .run = mp_redis_run,
    .find_commit = mp_redis_find_commit,
    .send = mp_redis_send_plans,
};

static bool make_learned(mp_redis *store) {
  mp_redis_learned *learned = mp_allocate_zeroed(store->remote.env, sizeof *learned);
  if (learned == NULL || mp_mutex_init(&learned->lock)) {
    store->learned = learned;
    return learned != NULL;
  }
  mp_release(store->remote.env, learned);
  return false;
}

static moonpad_status prepare_store(mp_redis *store, const mp_redis_extras *extras, moonpad_error *error) {
  if (extras->kind == MP_REDIS_WITH_TLS && mp_redis_check_tls(error) != MOONPAD_OK) return MOONPAD_UNSUPPORTED;
  store->registry = extras->registry;
  store->transaction_script = mp_redis_build_transaction_script(store->remote.env, extras->script);
  store->has_tls = extras->kind == MP_REDIS_WITH_TLS;
  bool has_room = store->transaction_script != NULL && (extras->kind != MP_REDIS_CLUSTER || make_learned(store));
  return has_room ? MOONPAD_OK : mp_no_memory(error);
}

moonpad_status mp_redis_open_with(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                  const mp_redis_extras *extras, mp_store **store, moonpad_error *error) {
  *store = NULL;
  mp_redis *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  int64_t pool = DEFAULT_POOL;
  mp_remote_init(&made->remote, env, &store_ops, &remote_ops, options);
  moonpad_status status = prepare_store(made, extras, error);
  if (status == MOONPAD_OK) status = read_url(made, rest, &pool, error);
  if (status == MOONPAD_OK) {
    warn_without_tls(made);
    status = mp_remote_open(&made->remote, pool, error);
  }
  if (status == MOONPAD_OK) {
    *store = &made->remote.base;
  } else {
    free_store(&made->remote.base);
  }
  return status;
}

static moonpad_status open_sessions(mp_env *env, mp_redis_kind kind, moonpad_string rest,
                                    const moonpad_options *options, mp_store **store, moonpad_error *error) {
  static const char *const nothing[] = {NULL};
  const mp_redis_extras extras = {.kind = kind, .registry = "apps", .script = nothing};
  return mp_redis_open_with(env, rest, options, &extras, store, error);
}

moonpad_status mp_redis_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                             moonpad_error *error) {
  return open_sessions(env, MP_REDIS_SINGLE, rest, options, store, error);
}

moonpad_status mp_redis_open_tls(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                 moonpad_error *error) {
  return open_sessions(env, MP_REDIS_WITH_TLS, rest, options, store, error);
}

moonpad_status mp_redis_open_cluster(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                     moonpad_error *error) {
  return open_sessions(env, MP_REDIS_CLUSTER, rest, options, store, error);
}

const struct moonpad_store_opener *moonpad_redis_store(void) {
  static const struct moonpad_store_opener opener = {MP_STORE_VERSION, mp_redis_open};
  return &opener;
}

const struct moonpad_store_opener *moonpad_redis_tls_store(void) {
  static const struct moonpad_store_opener opener = {MP_STORE_VERSION, mp_redis_open_tls};
  return &opener;
}

const struct moonpad_store_opener *moonpad_redis_cluster_store(void) {
  static const struct moonpad_store_opener opener = {MP_STORE_VERSION, mp_redis_open_cluster};
  return &opener;
}
