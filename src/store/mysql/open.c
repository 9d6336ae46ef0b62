/* URL and options; opening, freeing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "moonpad_stores.h"
#include "store/mysql/mysql.h"

enum {
  OPTION_PREFIX,
  OPTION_POOL,
  OPTION_MIGRATE,
  OPTION_STRICT,
  OPTION_SOCKET,
  OPTION_SSL,
  OPTION_CA,
  OPTION_CERT,
  OPTION_KEY,
  OPTIONS
};

#define DEFAULT_POOL 4
#define LARGEST_POOL 64

static const char expected[] =
    "mysql: the URL is not valid: write mysql://USER:PASSWORD@HOST:PORT/DATABASE, with other characters than letters "
    "and digits as %XX (an @ is %40, a / is %2F, a ? is %3F)";

static moonpad_status invalid_url(moonpad_error *error) {
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s", expected);
}

/* ---- what is in the URL ---- */

static moonpad_status note_place(mp_mysql *store, moonpad_error *error) {
  char place[256];
  size_t length = (size_t)snprintf(place, sizeof place, "mysql://");
  const mp_url_parts *url = &store->url;
  length += mp_url_write_hosts(url, place + length, sizeof place - length);
  if (length < sizeof place) {
    snprintf(place + length, sizeof place - length, "%s/%.64s", url->host_count == 0 ? "localhost" : "", url->path);
  }
  store->remote.place = mp_remote_copy_text(store->remote.env, place);
  return store->remote.place == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status note_prefix(mp_mysql *store, const char *prefix, moonpad_error *error) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  size_t length = strlen(prefix);
  if (length > MP_MYSQL_LONGEST_PREFIX || strspn(prefix, allowed) != length) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "the URL's option prefix: expects at most %d letters, digits and underscores",
                   MP_MYSQL_LONGEST_PREFIX);
  }
  memcpy(store->prefix, prefix, length + 1);
  return MOONPAD_OK;
}

static moonpad_status note_tls(mp_mysql *store, const mp_url_option *options, moonpad_error *error) {
  const char *mode = options[OPTION_SSL].value == NULL ? "off" : options[OPTION_SSL].value;
  store->verifies = strcmp(mode, "verify-full") == 0;
  store->has_tls = store->verifies || strcmp(mode, "on") == 0;
  if (!store->has_tls && strcmp(mode, "off") != 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option ssl: expects off, on or verify-full");
  }
  char **const files[] = {&store->ca, &store->cert, &store->key};
  for (int i = 0; i < 3; i++) {
    const mp_url_option *option = &options[OPTION_CA + i];
    if (option->value == NULL) continue;
    if (!store->has_tls) {
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option %s needs ssl=on or ssl=verify-full",
                     option->name);
    }
    *files[i] = mp_remote_copy_text(store->remote.env, option->value);
    if (*files[i] == NULL) return mp_no_memory(error);
  }
  return MOONPAD_OK;
}

static moonpad_status note_socket(mp_mysql *store, const char *socket, moonpad_error *error) {
  if (socket == NULL) return MOONPAD_OK;
  if (store->url.host_count > 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option socket: the URL has a host as well");
  }
  store->socket = mp_remote_copy_text(store->remote.env, socket);
  return store->socket == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status note_options(mp_mysql *store, const mp_url_option *options, int64_t *pool, moonpad_error *error) {
  const char *prefix = options[OPTION_PREFIX].value;
  moonpad_status status = note_prefix(store, prefix == NULL ? "moonpad_" : prefix, error);
  if (status == MOONPAD_OK) {
    status = mp_url_number(&options[OPTION_POOL], 1, LARGEST_POOL, DEFAULT_POOL, pool, error);
  }
  if (status == MOONPAD_OK) status = mp_url_switch(&options[OPTION_MIGRATE], true, &store->remote.migrates, error);
  if (status == MOONPAD_OK) status = mp_url_switch(&options[OPTION_STRICT], false, &store->remote.strict, error);
  if (status == MOONPAD_OK) status = note_tls(store, options, error);
  return status == MOONPAD_OK ? note_socket(store, options[OPTION_SOCKET].value, error) : status;
}

static moonpad_status read_parts(mp_mysql *store, const char *url, moonpad_error *error) {
  static const char *const names[] = {"prefix", "pool", "migrate", "strict", "socket",
                                      "ssl",    "ca",   "cert",    "key",    NULL};
  moonpad_status status = mp_url_check_names("mysql", url, names, error);
  if (status == MOONPAD_OK) status = mp_url_split(store->remote.env, url, expected, &store->url, error);
  if (status != MOONPAD_OK) return status;
  if (store->url.path == NULL || strchr(store->url.path, '/') != NULL) return invalid_url(error);
  status = note_place(store, error);
  return status == MOONPAD_OK ? mp_remote_note_password(&store->remote, store->url.password, error) : status;
}

static moonpad_status read_url(mp_mysql *store, moonpad_string rest, int64_t *pool, moonpad_error *error) {
  mp_url_option options[OPTIONS] = {{"prefix", NULL}, {"pool", NULL},   {"migrate", NULL},
                                    {"strict", NULL}, {"socket", NULL}, {"ssl", NULL},
                                    {"ca", NULL},     {"cert", NULL},   {"key", NULL}};
  char *left = NULL;
  const char *query = rest.length == 0 ? NULL : memchr(rest.data, '?', rest.length);
  if (rest.length > 0 && memchr(rest.data, '\0', rest.length) != NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "mysql: the URL has a NUL in it");
  }
  /* A password with a ? is taken for options, which messages show. */
  if (query != NULL && memchr(query, '@', rest.length - (size_t)(query - rest.data)) != NULL) return invalid_url(error);
  moonpad_status status = mp_url_take_options(store->remote.env, rest, options, OPTIONS, &left, error);
  if (status == MOONPAD_OK) status = read_parts(store, left, error);
  if (status == MOONPAD_OK) status = note_options(store, options, pool, error);
  mp_release(store->remote.env, left);
  mp_url_free(store->remote.env, options, OPTIONS);
  return status;
}

static void warn_without_tls(const mp_mysql *store) {
  for (size_t i = 0; i < store->url.host_count; i++) {
    if (store->verifies || mp_url_is_loopback(store->url.hosts[i].name)) continue;
    mp_log(store->remote.env, MOONPAD_STORAGE,
           "mysql: the host is not this machine, and without ssl=verify-full in the URL nothing makes sure that it is "
           "the right one");
    return;
  }
}

/* ---- the first connection ---- */

static moonpad_status take_flush(void *context, const mp_mysql_row *row, moonpad_error *error) {
  (void)error;
  *(int64_t *)context = mp_mysql_integer_of(row, 0);
  return MOONPAD_OK;
}

/* The client cannot choose this. */
static moonpad_status check_durability(mp_mysql_connection *connection, moonpad_error *error) {
  int64_t flush = 0;
  mp_mysql_begin(connection, take_flush, &flush);
  mp_mysql_sql(connection, "SELECT @@global.innodb_flush_log_at_trx_commit");
  moonpad_status status = mp_mysql_round_trip(connection, error);
  if (status != MOONPAD_OK || flush == 1) return status;
  return mp_remote_is_less_durable(
      &connection->store->remote,
      "with innodb_flush_log_at_trx_commit other than 1: a crash of its machine can lose what it has stored last",
      error);
}

static moonpad_status prepare(mp_remote_connection *base, moonpad_error *error) {
  mp_mysql_connection *connection = (mp_mysql_connection *)base;
  moonpad_status status = check_durability(connection, error);
  if (status == MOONPAD_OK) status = mp_mysql_prepare_schema(connection, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_add_begin(connection);
  mp_mysql_add(connection, "DELETE FROM #commits WHERE time < UNIX_TIMESTAMP() - 86400");
  return mp_mysql_commit(connection, error);
}

/* There is nothing more to do. */
static moonpad_status start(mp_remote_connection *connection, moonpad_error *error) {
  (void)connection, (void)error;
  return MOONPAD_OK;
}

/* ---- the store ---- */

static void free_content(mp_mysql *store) {
  mp_env *env = store->remote.env;
  mp_url_free_parts(env, &store->url);
  mp_release(env, store->socket);
  mp_release(env, store->ca);
  mp_release(env, store->cert);
  mp_release(env, store->key);
  mp_remote_destroy(&store->remote);
}

static void free_store(mp_store *base) {
  mp_env *env = ((mp_mysql *)base)->remote.env;
  free_content((mp_mysql *)base);
  mp_release(env, base);
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
    .connect = mp_mysql_connect,
    .prepare = prepare,
    .start = start,
    .disconnect = mp_mysql_disconnect,
    .is_connected = mp_mysql_is_connected,
    .run = mp_mysql_run,
    .find_commit = mp_mysql_find_commit,
    .send = mp_mysql_send_plans,
};

moonpad_status mp_mysql_print_schema(mp_env *env, moonpad_string rest, const mp_mysql_tables *const *tables,
                                     size_t count, mp_buffer *sql, moonpad_error *error) {
  mp_mysql named = {.remote = {.env = env}};
  int64_t pool;
  moonpad_status status = read_url(&named, rest, &pool, error);
  if (status == MOONPAD_OK) mp_mysql_write_schema(named.prefix, tables, count, sql);
  free_content(&named);
  return status == MOONPAD_OK && sql->failed ? mp_no_memory(error) : status;
}

moonpad_status mp_mysql_open_tables(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                    const mp_mysql_tables *tables, mp_store **store, moonpad_error *error) {
  *store = NULL;
  mp_mysql *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  int64_t pool = DEFAULT_POOL;
  mp_remote_init(&made->remote, env, &store_ops, &remote_ops, options);
  made->tables = tables;
  moonpad_status status = read_url(made, rest, &pool, error);
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

moonpad_status mp_mysql_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                             moonpad_error *error) {
  return mp_mysql_open_tables(env, rest, options, NULL, store, error);
}

const struct moonpad_store_opener *moonpad_mysql_store(void) {
  static const struct moonpad_store_opener opener = {MP_STORE_VERSION, mp_mysql_open};
  return &opener;
}
