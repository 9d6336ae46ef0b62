/* URL and options; opening, closing, freeing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/condition.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "moonpad_stores.h"
#include "store/postgres/postgres.h"
#include "store/server/url.h"

#define SECONDS_OF_SILENCE 10 /* beyond busyTimeoutMs: then the server counts as gone */

enum { OPTION_SCHEMA, OPTION_POOL, OPTION_MIGRATE, OPTION_STRICT, OPTIONS };

#define DEFAULT_POOL 4
#define LARGEST_POOL 64
#define LONGEST_NAME 63 /* of anything, in PostgreSQL */

static char *copy_text(mp_env *env, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = mp_allocate(env, size);
  if (copy != NULL) memcpy(copy, text, size);
  return copy;
}

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
  moonpad_status status = MOONPAD_OK;
  const char *query = strchr(url, '?');
  while (status == MOONPAD_OK && query != NULL && query[0] != '\0' && query[1] != '\0') {
    moonpad_string name = {query + 1, strcspn(query + 1, "=&")};
    bool is_known = false;
    for (size_t i = 0; i < count; i++) {
      is_known = is_known || (strlen(known[i]) == name.length && memcmp(known[i], name.data, name.length) == 0);
    }
    const char *near = is_known ? NULL : mp_nearest_name(name, known);
    if (!is_known) {
      status = mp_fail(error, MOONPAD_INVALID_ARGUMENT, "postgresql: the URL has an unknown option %s%s%s",
                       mp_quote(name).text, near == NULL ? "" : ": did you mean ", near == NULL ? "" : near);
    }
    query = strchr(query + 1, '&');
  }
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

static bool is_loopback(const char *host) {
  return host[0] == '\0' || host[0] == '/' || host[0] == '@' || strcmp(host, "localhost") == 0 ||
         strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

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
  store->place = copy_text(store->env, place);
  return store->place == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

/* The URL's own password, or that of the environment. */
static moonpad_status note_password(mp_postgres *store, const PQconninfoOption *options, moonpad_error *error) {
  const char *password = option_of(options, "password");
  if (password[0] == '\0' && getenv("MOONPAD_PASSWORD") != NULL) password = getenv("MOONPAD_PASSWORD");
  if (password[0] == '\0' && getenv("PGPASSWORD") != NULL) password = getenv("PGPASSWORD");
  if (password[0] == '\0') return MOONPAD_OK;
  store->password = copy_text(store->env, password);
  return store->password == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status read_url(mp_postgres *store, moonpad_error *error) {
  moonpad_status status = check_names(store->url, error);
  if (status != MOONPAD_OK) return status;
  PQconninfoOption *options = PQconninfoParse(store->url, NULL);
  if (options == NULL) return invalid_url(error);
  status = note_place(store, options, error);
  if (status == MOONPAD_OK) status = note_password(store, options, error);
  const char *mode = option_of(options, "sslmode");
  if (status == MOONPAD_OK && !is_loopback(option_of(options, "host")) && strncmp(mode, "verify-", 7) != 0) {
    mp_log(store->env, MOONPAD_STORAGE,
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
  store->schema = copy_text(store->env, name);
  store->quoted_schema = mp_allocate(store->env, 2 * length + 3);
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
  moonpad_status status = mp_url_take_options(store->env, rest, options, OPTIONS, &left, error);
  if (status == MOONPAD_OK) {
    size_t size = strlen(left) + sizeof "postgresql:";
    store->url = mp_allocate(store->env, size);
    if (store->url == NULL) status = mp_no_memory(error);
    if (store->url != NULL) snprintf(store->url, size, "postgresql:%s", left);
  }
  mp_release(store->env, left);
  const char *schema = options[OPTION_SCHEMA].value;
  if (status == MOONPAD_OK) status = note_schema(store, schema == NULL ? "moonpad" : schema, error);
  if (status == MOONPAD_OK) {
    status = mp_url_number(&options[OPTION_POOL], 1, LARGEST_POOL, DEFAULT_POOL, pool, error);
  }
  if (status == MOONPAD_OK) status = mp_url_switch(&options[OPTION_MIGRATE], true, &store->migrates, error);
  if (status == MOONPAD_OK) status = mp_url_switch(&options[OPTION_STRICT], false, &store->strict, error);
  mp_url_free(store->env, options, OPTIONS);
  return status;
}

/* ---- the first connection ---- */

/* The client cannot choose this: a server without fsync loses what it has answered for. */
static moonpad_status check_durability(mp_postgres_connection *connection, moonpad_error *error) {
  const mp_postgres *store = connection->store;
  char *value = NULL;
  moonpad_status status = mp_postgres_ask_text(connection, "SELECT current_setting('fsync')", &value, error);
  bool is_safe = status != MOONPAD_OK || value == NULL || strcmp(value, "off") != 0;
  free(value);
  if (is_safe || store->durability != MOONPAD_DURABILITY_FULL) return status;
  moonpad_error reason;
  mp_fail(&reason, MOONPAD_UNSUPPORTED,
          "%s: the server runs with fsync = off: a crash of its machine can lose what it "
          "has stored, or damage it",
          store->place);
  if (store->strict) {
    if (error != NULL) *error = reason;
    return MOONPAD_UNSUPPORTED;
  }
  mp_log(store->env, MOONPAD_UNSUPPORTED, reason.message);
  return MOONPAD_OK;
}

static const char forget_commits[] = "DELETE FROM commits WHERE time < now() - interval '1 day'";

static moonpad_status prepare(mp_postgres_connection *connection, moonpad_error *error) {
  moonpad_status status = check_durability(connection, error);
  if (status == MOONPAD_OK) status = mp_postgres_prepare_schema(connection, error);
  if (status == MOONPAD_OK) status = mp_postgres_run_text(connection, forget_commits, error);
  return status == MOONPAD_OK ? mp_postgres_start(connection, error) : status;
}

static moonpad_status connect_first(mp_postgres *store, moonpad_error *error) {
  mp_postgres_failure failure;
  mp_pooled *none;
  double until = mp_monotonic() + store->patience;
  moonpad_status status = mp_pool_take(&store->pool, until, &none, error);
  if (status != MOONPAD_OK) return status;
  for (int tries = 0;; tries++) {
    mp_postgres_connection *connection = mp_postgres_connect(store, &failure);
    if (connection != NULL) {
      status = prepare(connection, &failure.error);
      if (status == MOONPAD_OK) {
        mp_postgres_give_back(connection);
        return MOONPAD_OK;
      }
      failure.status = status;
      failure.again = connection->failure.again;
      mp_postgres_disconnect(connection);
    }
    /* A server that is not there is told at once, while the URL is before the reader's eyes. */
    if (failure.again == MP_PG_RECONNECT && connection == NULL) break;
    if (!mp_postgres_try_again(store, &failure, tries, until)) break;
  }
  mp_pool_give_back(&store->pool, NULL);
  if (error != NULL) *error = failure.error;
  return failure.status;
}

/* ---- the store ---- */

static void append(mp_store *base, mp_plan *plans, size_t count) {
  mp_postgres *store = (mp_postgres *)base;
  moonpad_error error;
  if (mp_pool_enter(&store->pool, &error) != MOONPAD_OK) {
    for (size_t i = 0; i < count; i++) plans[i].error = error;
    return;
  }
  mp_plan_queue_append(&store->plans, plans, count);
  mp_pool_leave(&store->pool);
}

moonpad_status mp_postgres_check_open(mp_store *base, moonpad_error *error) {
  mp_postgres *store = (mp_postgres *)base;
  moonpad_status status = mp_pool_enter(&store->pool, error);
  if (status == MOONPAD_OK) mp_pool_leave(&store->pool);
  return status;
}

static void close_store(mp_store *base) {
  mp_postgres *store = (mp_postgres *)base;
  mp_postgres_disconnect_all(mp_pool_close(&store->pool));
  mp_pool_closed(&store->pool);
}

static void free_texts(mp_postgres *store) {
  if (store->password != NULL) memset(store->password, 0, strlen(store->password));
  if (store->url != NULL) memset(store->url, 0, strlen(store->url));
  mp_release(store->env, store->password);
  mp_release(store->env, store->url);
  mp_release(store->env, store->place);
  mp_release(store->env, store->schema);
  mp_release(store->env, store->quoted_schema);
}

static void free_store(mp_store *base) {
  mp_postgres *store = (mp_postgres *)base;
  mp_env *env = store->env;
  mp_plan_queue_destroy(&store->plans);
  mp_pool_destroy(&store->pool);
  free_texts(store);
  mp_release(env, store);
  mp_env_release(env);
}

static const mp_store_ops store_ops = {
    .size = sizeof store_ops,
    .write = mp_postgres_write,
    .read = mp_postgres_read,
    .close = close_store,
    .free = free_store,
    .append = append,
};

moonpad_status mp_postgres_print_schema(mp_env *env, moonpad_string rest, const mp_postgres_tables *const *tables,
                                        size_t count, mp_buffer *sql, moonpad_error *error) {
  mp_postgres named = {.env = env};
  int64_t pool;
  moonpad_status status = take_options(&named, rest, &pool, error);
  if (status == MOONPAD_OK) status = check_names(named.url, error);
  if (status == MOONPAD_OK) mp_postgres_write_schema(named.quoted_schema, tables, count, sql);
  free_texts(&named);
  return status == MOONPAD_OK && sql->failed ? mp_no_memory(error) : status;
}

moonpad_status mp_postgres_open_tables(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                       const mp_postgres_tables *tables, mp_store **store, moonpad_error *error) {
  *store = NULL;
  mp_postgres *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  int64_t pool = DEFAULT_POOL;
  made->base.ops = &store_ops;
  made->env = mp_env_retain(env);
  made->tables = tables;
  made->durability = options->durability;
  made->patience = (double)options->busy_timeout_ms * 1e-3;
  made->silence = made->patience + SECONDS_OF_SILENCE;
  moonpad_status status = take_options(made, rest, &pool, error);
  if (status == MOONPAD_OK) status = read_url(made, error);
  if (status == MOONPAD_OK && !mp_pool_init(&made->pool, (unsigned)pool)) status = mp_no_memory(error);
  if (status != MOONPAD_OK) {
    free_texts(made);
    mp_release(env, made);
    mp_env_release(env);
    return status;
  }
  mp_plan_queue_init(&made->plans, (unsigned)pool, mp_postgres_send_plans, made);
  status = connect_first(made, error);
  if (status == MOONPAD_OK) {
    *store = &made->base;
  } else {
    free_store(&made->base);
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
