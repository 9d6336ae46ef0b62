/* URL and options; opening, closing, freeing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "moonpad_stores.h"
#include "store/postgres/postgres.h"
#include "store/server/url.h"

enum { OPTION_SCHEMA, OPTION_POOL, OPTION_MIGRATE, OPTION_STRICT, OPTIONS };

#define DEFAULT_POOL 4
#define LARGEST_POOL 64
#define LONGEST_NAME 63 /* of anything, in PostgreSQL */

/* ---- what libpq knows ---- */

#define MOST_KEYWORDS 96

/* "name=..." in the query of the URL that neither libpq nor moonpad knows. */
static moonpad_status check_names(const char *url, moonpad_error *error) {
  static const char *const own[] = {"schema", "pool", "migrate", "strict", "ssl"};
  const char *known[MOST_KEYWORDS + 1];
  size_t count = 0;
  PQconninfoOption *all = PQconndefaults();
  if (all == NULL) return mp_no_memory(error);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) known[count++] = own[i];
  for (PQconninfoOption *one = all; one->keyword != NULL && count < MOST_KEYWORDS; one++) known[count++] = one->keyword;
  known[count] = NULL;
  moonpad_status status = mp_url_check_names("postgresql", url, known, error);
  PQconninfoFree(all);
  return status;
}

static const char *option_of(const PQconninfoOption *options, const char *keyword) {
  for (; options->keyword != NULL; options++) {
    if (strcmp(options->keyword, keyword) == 0) return options->val == NULL ? "" : options->val;
  }
  return "";
}

/* ---- the URL ---- */

/* libpq's own message may quote the URL, and with it a password. */
static moonpad_status invalid_url(moonpad_error *error) {
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                 "postgresql: the URL is not valid: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with other "
                 "characters than letters and digits as %%XX (an @ is %%40, a / is %%2F, a ? is %%3F)");
}

static moonpad_status note_place(mp_postgres *store, const PQconninfoOption *options, moonpad_error *error) {
  char place[256];
  const char *host = option_of(options, "host"), *port = option_of(options, "port");
  const char *database = option_of(options, "dbname");
  /* A password with such characters is taken for a host, a port or a database. */
  bool is_odd = strchr(database, '@') != NULL || (strchr(host, '@') != NULL && host[0] != '@');
  if (is_odd || strspn(port, "0123456789,") != strlen(port)) return invalid_url(error);
  snprintf(place, sizeof place, "postgresql://%.120s%s%.20s/%.80s", host[0] == '\0' ? "localhost" : host,
           port[0] == '\0' ? "" : ":", port, database);
  store->remote.place = mp_remote_copy_text(store->remote.env, place);
  return store->remote.place == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

/* The URL's own password, or that of the environment. */
static moonpad_status note_password(mp_postgres *store, const PQconninfoOption *options, moonpad_error *error) {
  const char *password = option_of(options, "password");
  if (password[0] == '\0' && getenv("MOONPAD_PASSWORD") != NULL) password = getenv("MOONPAD_PASSWORD");
  if (password[0] == '\0' && getenv("PGPASSWORD") != NULL) password = getenv("PGPASSWORD");
  if (password[0] == '\0') return MOONPAD_OK;
  store->remote.password = mp_remote_copy_text(store->remote.env, password);
  return store->remote.password == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status read_url(mp_postgres *store, moonpad_error *error) {
  moonpad_status status = check_names(store->url, error);
  if (status != MOONPAD_OK) return status;
  PQconninfoOption *options = PQconninfoParse(store->url, NULL);
  if (options == NULL) return invalid_url(error);
  status = note_place(store, options, error);
  if (status == MOONPAD_OK) status = note_password(store, options, error);
  const char *mode = option_of(options, "sslmode");
  if (status == MOONPAD_OK && !mp_url_is_loopback(option_of(options, "host")) && strncmp(mode, "verify-", 7) != 0) {
    mp_log(store->remote.env, MOONPAD_STORAGE,
           "postgresql: the host is not this machine, and without sslmode=verify-full in the URL nothing makes sure "
           "that it is the right one");
  }
  PQconninfoFree(options);
  return status;
}

/* The server keeps names that begin with pg_ for itself. */
static moonpad_status check_schema_name(const char *name, moonpad_error *error) {
  size_t length = strlen(name);
  if (length > LONGEST_NAME) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option schema: a name has at most %d bytes",
                   LONGEST_NAME);
  }
  if (mp_utf8_valid_prefix(name, length) != length) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option schema: the name is not valid UTF-8");
  }
  if (strncmp(name, "pg_", 3) != 0) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                 "the URL's option schema: names that begin with pg_ are the server's own");
}

static moonpad_status note_schema(mp_postgres *store, const char *name, moonpad_error *error) {
  size_t length = strlen(name), at = 0;
  moonpad_status status = check_schema_name(name, error);
  if (status != MOONPAD_OK) return status;
  store->schema = mp_remote_copy_text(store->remote.env, name);
  store->quoted_schema = mp_allocate(store->remote.env, 2 * length + 3);
  if (store->schema == NULL || store->quoted_schema == NULL) return mp_no_memory(error);
  store->quoted_schema[at++] = '"';
  for (size_t i = 0; i < length; i++) {
    if (name[i] == '"') store->quoted_schema[at++] = '"';
    store->quoted_schema[at++] = name[i];
  }
  store->quoted_schema[at++] = '"';
  store->quoted_schema[at] = '\0';
  return MOONPAD_OK;
}

static moonpad_status take_options(mp_postgres *store, moonpad_string rest, int64_t *pool, moonpad_error *error) {
  mp_url_option options[OPTIONS] = {{"schema", NULL}, {"pool", NULL}, {"migrate", NULL}, {"strict", NULL}};
  char *left = NULL;
  const char *query = rest.length == 0 ? NULL : memchr(rest.data, '?', rest.length);
  /* libpq would see the beginning of it alone. */
  if (rest.length > 0 && memchr(rest.data, '\0', rest.length) != NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "postgresql: the URL has a NUL in it");
  }
  /* A password with a ? is taken for options, which messages show. */
  if (query != NULL && memchr(query, '@', rest.length - (size_t)(query - rest.data)) != NULL) {
    return invalid_url(error);
  }
  moonpad_status status = mp_url_take_options(store->remote.env, rest, options, OPTIONS, &left, error);
  if (status == MOONPAD_OK) {
    size_t size = strlen(left) + sizeof "postgresql:";
    store->url = mp_allocate(store->remote.env, size);
    if (store->url == NULL) status = mp_no_memory(error);
    if (store->url != NULL) snprintf(store->url, size, "postgresql:%s", left);
  }
  mp_release(store->remote.env, left);
  const char *schema = options[OPTION_SCHEMA].value;
  if (status == MOONPAD_OK) status = note_schema(store, schema == NULL ? "moonpad" : schema, error);
  if (status == MOONPAD_OK) {
    status = mp_url_number(&options[OPTION_POOL], 1, LARGEST_POOL, DEFAULT_POOL, pool, error);
  }
  if (status == MOONPAD_OK) status = mp_url_switch(&options[OPTION_MIGRATE], true, &store->remote.migrates, error);
  if (status == MOONPAD_OK) status = mp_url_switch(&options[OPTION_STRICT], false, &store->remote.strict, error);
  mp_url_free(store->remote.env, options, OPTIONS);
  return status;
}

/* ---- the first connection ---- */

/* The client cannot choose this: a server without fsync loses what it has answered for. */
static moonpad_status check_durability(mp_postgres_connection *connection, moonpad_error *error) {
  char *value = NULL;
  moonpad_status status = mp_postgres_ask_text(connection, "SELECT current_setting('fsync')", &value, error);
  bool is_safe = status != MOONPAD_OK || value == NULL || strcmp(value, "off") != 0;
  free(value);
  if (is_safe) return status;
  return mp_remote_is_less_durable(&connection->store->remote,
                                   "with fsync = off: a crash of its machine can lose what it has stored, or damage it",
                                   error);
}

static const char forget_commits[] = "DELETE FROM commits WHERE time < now() - interval '1 day'";

static moonpad_status prepare(mp_remote_connection *base, moonpad_error *error) {
  mp_postgres_connection *connection = (mp_postgres_connection *)base;
  moonpad_status status = check_durability(connection, error);
  if (status == MOONPAD_OK) status = mp_postgres_prepare_schema(connection, error);
  return status == MOONPAD_OK ? mp_postgres_run_text(connection, forget_commits, error) : status;
}

/* ---- the store ---- */

static void free_content(mp_postgres *store) {
  mp_env *env = store->remote.env;
  if (store->url != NULL) memset(store->url, 0, strlen(store->url));
  mp_release(env, store->url);
  mp_release(env, store->schema);
  mp_release(env, store->quoted_schema);
  mp_remote_destroy(&store->remote);
}

static void free_store(mp_store *base) {
  free_content((mp_postgres *)base);
  mp_env *env = ((mp_postgres *)base)->remote.env;
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
    .connect = mp_postgres_connect,
    .prepare = prepare,
    .start = mp_postgres_start,
    .disconnect = mp_postgres_disconnect,
    .is_connected = mp_postgres_is_connected,
    .run = mp_postgres_run,
    .find_commit = mp_postgres_find_commit,
    .send = mp_postgres_send_plans,
};

moonpad_status mp_postgres_print_schema(mp_env *env, moonpad_string rest, const mp_postgres_tables *const *tables,
                                        size_t count, mp_buffer *sql, moonpad_error *error) {
  mp_postgres named = {.remote = {.env = env}};
  int64_t pool;
  moonpad_status status = take_options(&named, rest, &pool, error);
  if (status == MOONPAD_OK) status = check_names(named.url, error);
  if (status == MOONPAD_OK) mp_postgres_write_schema(named.quoted_schema, tables, count, sql);
  free_content(&named);
  return status == MOONPAD_OK && sql->failed ? mp_no_memory(error) : status;
}

moonpad_status mp_postgres_open_tables(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                       const mp_postgres_tables *tables, mp_store **store, moonpad_error *error) {
  *store = NULL;
  mp_postgres *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  int64_t pool = DEFAULT_POOL;
  mp_remote_init(&made->remote, env, &store_ops, &remote_ops, options);
  made->tables = tables;
  moonpad_status status = take_options(made, rest, &pool, error);
  if (status == MOONPAD_OK) status = read_url(made, error);
  if (status == MOONPAD_OK) status = mp_remote_open(&made->remote, pool, error);
  if (status == MOONPAD_OK) {
    *store = &made->remote.base;
  } else {
    free_store(&made->remote.base);
  }
  return status;
}

moonpad_status mp_postgres_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                moonpad_error *error) {
  return mp_postgres_open_tables(env, rest, options, NULL, store, error);
}

const struct moonpad_store_opener *moonpad_postgres_store(void) {
  static const struct moonpad_store_opener opener = {MP_STORE_VERSION, mp_postgres_open};
  return &opener;
}
