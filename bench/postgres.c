/*
** PostgreSQL on a socket: append (22), eight threads or 64 asynchronous sessions on one service
** (23), get (24), each in turns with the least that keeps the contract: one statement that counts
** up three heads, writes three keys and inserts the event ("raw5").
*/
#include <libpq-fe.h>
#include <moonpad_stores.h>
#include <pthread.h>

#include "bench.h"

#define PAIRS             10
#define EVENTS_PER_ROUND  300
#define THREADS           8
#define EVENTS_PER_THREAD 100
#define QUEUES            64 /* sessions whose appends are asynchronous */
#define EVENTS_PER_QUEUE  20

/* ---- the limit ---- */

static const char raw_tables[] =
    "SET client_min_messages = error; DROP SCHEMA IF EXISTS raw CASCADE; CREATE SCHEMA raw; SET search_path = raw;"
    "CREATE TABLE apps(id bigint PRIMARY KEY, revision bigint NOT NULL) WITH (fillfactor = 50);"
    "CREATE TABLE users(id bigint PRIMARY KEY, revision bigint NOT NULL) WITH (fillfactor = 70);"
    "CREATE TABLE sessions(id bigint PRIMARY KEY, revision bigint NOT NULL, last_update_time double precision)"
    " WITH (fillfactor = 70);"
    "CREATE TABLE state(scope int NOT NULL, owner bigint NOT NULL, key bytea NOT NULL, value text, revision bigint,"
    " PRIMARY KEY(scope, owner, key)) WITH (fillfactor = 70);"
    "CREATE TABLE events(session bigint NOT NULL, revision bigint NOT NULL, id bytea NOT NULL, timestamp"
    " double precision, event text NOT NULL, PRIMARY KEY(session, revision), UNIQUE(session, id));"
    "INSERT INTO apps VALUES (1, 0); INSERT INTO users SELECT n, 0 FROM generate_series(1, 8) n;"
    "INSERT INTO sessions SELECT n, 0, 0 FROM generate_series(1, 8) n;";

static const char raw_append_sql[] =
    "WITH s AS (UPDATE sessions SET revision = revision + 1, last_update_time = $5::float8 WHERE id = $1::int8"
    " AND revision = $2::int8 RETURNING revision), u AS (UPDATE users SET revision = users.revision + 1 FROM s"
    " WHERE users.id = $1::int8 RETURNING users.revision), a AS (UPDATE apps SET revision = apps.revision + 1 FROM u"
    " WHERE apps.id = 1 RETURNING apps.revision), e AS (INSERT INTO events SELECT $1::int8, s.revision, $3::bytea,"
    " $5::float8, $4::text FROM s), k AS (INSERT INTO state SELECT v.* FROM s, u, a, LATERAL (VALUES"
    " (0, $1::int8, 'step'::bytea, $6::text, s.revision), (1, $1::int8, 'wish'::bytea, $7::text, u.revision),"
    " (2, 1::int8, 'served'::bytea, $6::text, a.revision)) v ON CONFLICT (scope, owner, key)"
    " DO UPDATE SET value = excluded.value, revision = excluded.revision) SELECT revision FROM s";

static const char raw_get_sql[] =
    "SELECT 0, s.revision, NULL::bytea, NULL::text FROM sessions s, users u, apps a WHERE s.id = $1::int8"
    " AND u.id = s.id AND a.id = 1 UNION ALL SELECT 1, t.revision, t.key, t.value FROM state t"
    " WHERE (t.scope, t.owner) IN ((0, $1::int8), (1, $1::int8), (2, 1)) UNION ALL (SELECT 2, e.revision, e.id,"
    " e.event FROM events e WHERE e.session = $1::int8 ORDER BY e.revision DESC LIMIT 16)";

static PGconn *raw_connect(const char *url, bool is_durable) {
  PGconn *raw = PQconnectdb(url);
  must(PQstatus(raw) == CONNECTION_OK, PQerrorMessage(raw));
  PQclear(PQexec(raw, "SET client_min_messages = error; SET search_path = raw; SET plan_cache_mode = "
                      "force_generic_plan; SET jit = off"));
  PQclear(PQexec(raw, is_durable ? "SET synchronous_commit = on" : "SET synchronous_commit = off"));
  return raw;
}

static void raw_prepare(PGconn *raw) {
  PGresult *made = PQprepare(raw, "append", raw_append_sql, 0, NULL);
  must(PQresultStatus(made) == PGRES_COMMAND_OK, PQresultErrorMessage(made));
  PQclear(made);
  made = PQprepare(raw, "get", raw_get_sql, 0, NULL);
  must(PQresultStatus(made) == PGRES_COMMAND_OK, PQresultErrorMessage(made));
  PQclear(made);
}

static void raw_append(PGconn *raw, int session, long revision, const event_text *event, long number) {
  char texts[5][64], id[EVENT_ID_BYTES + 1] = {0};
  write_event_id(id, number, (unsigned)session);
  snprintf(texts[0], 64, "%d", session);
  snprintf(texts[1], 64, "%ld", revision);
  snprintf(texts[2], 64, "%.3f", 1763700000.0 + (double)number * 1e-3);
  snprintf(texts[3], 64, "%ld", FIRST_STEP + number);
  snprintf(texts[4], 64, "\"taxi %ld\"", FIRST_STEP + number);
  const char *values[] = {texts[0], texts[1], id, event->text, texts[2], texts[3], texts[4]};
  PGresult *result = PQexecPrepared(raw, "append", 7, values, NULL, NULL, 1);
  must(PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1, PQresultErrorMessage(result));
  PQclear(result);
}

static void raw_get(PGconn *raw) {
  const char *values[] = {"1"};
  PGresult *result = PQexecPrepared(raw, "get", 1, values, NULL, NULL, 1);
  must(PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 20, PQresultErrorMessage(result));
  PQclear(result);
}

/* ---- ours ---- */

static moonpad_service *open_postgres(const char *url, moonpad_durability durability) {
  const moonpad_store_scheme stores[] = {{"postgresql", moonpad_postgres_store()}};
  moonpad_service *service;
  moonpad_options options;
  moonpad_error error;
  moonpad_options_init(&options);
  options.durability = durability;
  options.stores = stores;
  options.store_count = 1;
  must_call(moonpad_open(moonpad_text(url), &options, &service, &error), &error);
  return service;
}

/* ---- 22 ---- */

static void measure_append(const char *url, bool is_durable) {
  samples limits = {0}, ours = {0}, limit_means = {0}, our_means = {0};
  PGconn *raw = raw_connect(url, is_durable);
  moonpad_service *service = open_postgres(url, is_durable ? MOONPAD_DURABILITY_FULL : MOONPAD_DURABILITY_NORMAL);
  moonpad_session *session = create_session(service, is_durable ? "full" : "normal");
  PQclear(PQexec(raw, raw_tables));
  raw_prepare(raw);
  for (int round = 0; round <= PAIRS; round++) {
    long first = (long)round * EVENTS_PER_ROUND;
    event_text *events = make_events(first, EVENTS_PER_ROUND, 1, false);
    samples limit = {0}, our = {0};
    for (int i = 0; i < EVENTS_PER_ROUND; i++) {
      double start = now_us();
      raw_append(raw, 1, first + i, &events[i], first + i);
      add_sample(&limit, now_us() - start);
    }
    for (int i = 0; i < EVENTS_PER_ROUND; i++) {
      double start = now_us();
      append(session, &events[i]);
      add_sample(&our, now_us() - start);
    }
    if (round > 0) { /* the first one fills caches */
      add_sample(&limits, median(&limit));
      add_sample(&ours, median(&our));
      add_sample(&limit_means, mean(&limit));
      add_sample(&our_means, mean(&our));
    }
    clear_samples(&limit);
    clear_samples(&our);
    free(events);
  }
  double bound = is_durable ? 1.4 : 1.45;
  print_pairs_at_most("22", is_durable ? "append, PostgreSQL, p50" : "append, PostgreSQL NORMAL, p50", "us", &limits,
                      &ours, bound);
  print_pairs_at_most("22", is_durable ? "append, PostgreSQL, mean" : "append, PostgreSQL NORMAL, mean", "us",
                      &limit_means, &our_means, bound);
  moonpad_session_free(session);
  moonpad_service_release(service);
  PQfinish(raw);
}

/* ---- 23 ---- */

typedef struct writer_thread {
  pthread_t thread;
  int number;
  moonpad_session *session;
  PGconn *raw;
  event_text *events;
} writer_thread;

static void *append_all(void *context) {
  writer_thread *writer = context;
  for (int i = 0; i < EVENTS_PER_THREAD; i++) append(writer->session, &writer->events[i]);
  return NULL;
}

static void *raw_append_all(void *context) {
  writer_thread *writer = context;
  for (int i = 0; i < EVENTS_PER_THREAD; i++) raw_append(writer->raw, writer->number + 1, i, &writer->events[i], i);
  return NULL;
}

/* Thousands of events a second. */
static double run_threads(writer_thread *writers, void *(*work)(void *)) {
  double start = now_us();
  for (int i = 0; i < THREADS; i++) must(pthread_create(&writers[i].thread, NULL, work, &writers[i]) == 0, "a thread");
  for (int i = 0; i < THREADS; i++) pthread_join(writers[i].thread, NULL);
  return THREADS * EVENTS_PER_THREAD / (now_us() - start) * 1e3;
}

static void must_be_stored(void *context, moonpad_session *session, const moonpad_event *event,
                           const moonpad_error *error) {
  (void)session, (void)event;
  ++*(int *)context;
  must(error == NULL, error == NULL ? "" : error->message);
}

/* One thread, which appends to each of the sessions as soon as the last but one round is stored. */
static double run_queued(moonpad_service *service, int round) {
  moonpad_session *sessions[QUEUES];
  moonpad_error error;
  char id[32];
  int stored = 0;
  for (int i = 0; i < QUEUES; i++) {
    snprintf(id, sizeof id, "round %d, queue %d", round, i);
    sessions[i] = create_session(service, id);
  }
  event_text *events = make_events(0, EVENTS_PER_QUEUE, 9, false);
  double start = now_us();
  for (int i = 0; i < EVENTS_PER_QUEUE; i++) {
    for (int j = 0; j < QUEUES; j++) {
      must_call(moonpad_append_event_async(sessions[j], event_string(&events[i]), must_be_stored, &stored, &error),
                &error);
    }
    while (stored < i * QUEUES) moonpad_poll(service, 1000);
  }
  while (stored < EVENTS_PER_QUEUE * QUEUES) moonpad_poll(service, 1000);
  double rate = EVENTS_PER_QUEUE * QUEUES / (now_us() - start) * 1e3;
  for (int i = 0; i < QUEUES; i++) moonpad_session_free(sessions[i]);
  free(events);
  return rate;
}

static void measure_threads(const char *url) {
  samples limits = {0}, ours = {0}, queued = {0};
  writer_thread writers[THREADS];
  for (int round = 0; round < ROUNDS; round++) {
    char id[32];
    PGconn *maker = raw_connect(url, true);
    PQclear(PQexec(maker, raw_tables));
    PQfinish(maker);
    moonpad_service *service = open_postgres(url, MOONPAD_DURABILITY_FULL);
    for (int i = 0; i < THREADS; i++) {
      snprintf(id, sizeof id, "round %d, thread %d", round, i);
      writers[i] = (writer_thread){.number = i, .raw = raw_connect(url, true), .session = create_session(service, id)};
      writers[i].events = make_events(0, EVENTS_PER_THREAD, (unsigned)i, false);
      raw_prepare(writers[i].raw);
    }
    add_sample(&limits, run_threads(writers, raw_append_all));
    add_sample(&ours, run_threads(writers, append_all));
    add_sample(&queued, run_queued(service, round));
    for (int i = 0; i < THREADS; i++) {
      must(moonpad_session_revision(writers[i].session) == EVENTS_PER_THREAD, "storing every event");
      moonpad_session_free(writers[i].session);
      PQfinish(writers[i].raw);
      free(writers[i].events);
    }
    moonpad_service_release(service);
  }
  print_at_least("23", "append, PostgreSQL, 8 threads on one service / 8 connections", "k/s", median(&limits),
                 median(&ours), 5);
  print_compared("23", "append, PostgreSQL, asynchronous, 64 sessions / 8 connections", "k/s", median(&limits),
                 median(&queued));
  clear_samples(&limits);
  clear_samples(&ours);
  clear_samples(&queued);
}

/* ---- 24 ---- */

static void measure_get(const char *url) {
  samples limits = {0}, ours = {0};
  PGconn *raw = raw_connect(url, true);
  moonpad_service *service = open_postgres(url, MOONPAD_DURABILITY_FULL);
  moonpad_session *session = create_session(service, "get");
  event_text *events = make_events(0, 32, 1, false);
  PQclear(PQexec(raw, raw_tables));
  raw_prepare(raw);
  for (int i = 0; i < 32; i++) {
    raw_append(raw, 1, i, &events[i], i);
    append(session, &events[i]);
  }
  for (int round = 0; round <= PAIRS; round++) {
    samples limit = {0}, our = {0};
    for (int i = 0; i < EVENTS_PER_ROUND; i++) {
      double start = now_us();
      raw_get(raw);
      add_sample(&limit, now_us() - start);
      start = now_us();
      moonpad_session_free(get_session(service, "get", 16));
      add_sample(&our, now_us() - start);
    }
    if (round > 0) {
      add_sample(&limits, median(&limit));
      add_sample(&ours, median(&our));
    }
    clear_samples(&limit);
    clear_samples(&our);
  }
  print_pairs_at_most("24", "get with state and 16 events, PostgreSQL, p50", "us", &limits, &ours, 1.3);
  free(events);
  moonpad_session_free(session);
  moonpad_service_release(service);
  PQfinish(raw);
}

int main(int count, char **arguments) {
  must(count == 2, "bench/servers.sh");
  measure_append(arguments[1], true);
  measure_append(arguments[1], false);
  measure_threads(arguments[1]);
  measure_get(arguments[1]);
  return 0;
}
