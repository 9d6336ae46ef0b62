/*
** The C API on the SQLite store, one writer: append (3, 4), getSession and the last events (6,
** 7), a session object that is behind (9), creating and listing sessions (10), the size of the file
** (14), opening (16). The limits are raw prepared statements (raw_sqlite.h), which take turns with
** ours in the same run.
*/
#include <sys/stat.h>

#include "raw_sqlite.h"

typedef struct pair_of_files {
  char raw_path[4096], our_path[4096];
  raw_database raw;
  moonpad_service *service;
  moonpad_session *session;
  long revision; /* of both */
} pair_of_files;

static void open_pair(pair_of_files *pair, const char *folder, const char *name, moonpad_durability durability) {
  char file[32];
  memset(pair, 0, sizeof *pair);
  snprintf(file, sizeof file, "%s-raw.db", name);
  file_path(pair->raw_path, sizeof pair->raw_path, folder, file);
  snprintf(file, sizeof file, "%s-ours.db", name);
  file_path(pair->our_path, sizeof pair->our_path, folder, file);
  raw_open(&pair->raw, pair->raw_path, durability);
  raw_create(&pair->raw, 1, 1, "s");
  pair->service = open_file_service(pair->our_path, durability);
  pair->session = create_session(pair->service, "s");
}

static void close_pair(pair_of_files *pair) {
  raw_close(&pair->raw);
  moonpad_session_free(pair->session);
  moonpad_service_release(pair->service);
}

static void remove_pair(pair_of_files *pair) {
  remove_database(pair->raw_path);
  remove_database(pair->our_path);
}

/* ---- 3, 4: append ---- */

typedef struct append_times {
  samples raw, ours;
} append_times;

/* The raw file and ours take turns by blocks, so each has its own checkpoints in its own time. */
static void time_block(pair_of_files *pair, long count, append_times *times) {
  event_text *events = make_events(pair->revision, count, 0, true);
  for (long i = 0; i < count; i++) {
    double start = now_us();
    raw_append(&pair->raw, 1, pair->revision + i + 1, &events[i]);
    add_sample(&times->raw, now_us() - start);
  }
  for (long i = 0; i < count; i++) {
    double start = now_us();
    append(pair->session, &events[i]);
    add_sample(&times->ours, now_us() - start);
  }
  pair->revision += count;
  free(events);
}

static void clear_times(append_times *times) {
  clear_samples(&times->raw);
  clear_samples(&times->ours);
}

static void fill_both(pair_of_files *pair, long count) {
  long until = pair->revision + count;
  event_text event;
  moonpad_error error;
  raw_run(&pair->raw, pair->raw.begin);
  for (long i = pair->revision; i < until; i++) {
    event.length = write_event(event.text, i, 0, true);
    raw_write_event(&pair->raw, 1, i + 1, &event);
    must_call(moonpad_append_event_async(pair->session, event_string(&event), NULL, NULL, &error), &error);
    if (i % 1000 == 999) {
      raw_run(&pair->raw, pair->raw.commit);
      raw_run(&pair->raw, pair->raw.begin);
      while (moonpad_session_revision(pair->session) < i - 1000) moonpad_poll(pair->service, 1000);
    }
  }
  raw_run(&pair->raw, pair->raw.commit);
  while (moonpad_session_revision(pair->session) < until) moonpad_poll(pair->service, 1000);
  pair->revision = until;
}

static long long file_size(const char *path) {
  struct stat status;
  must(stat(path, &status) == 0, "stat");
  return (long long)status.st_size;
}

static void measure_last_events(pair_of_files *pair, const char *counted);
static void measure_get(pair_of_files *pair, const char *counted);

/* A new file and one with a long history take turns. */
static void measure_normal(const bench_arguments *arguments) {
  char work[96], counted[32];
  pair_of_files young, old;
  append_times first = {{0}, {0}}, last = {{0}, {0}};
  open_pair(&old, arguments->folder, "old", MOONPAD_DURABILITY_NORMAL);
  fill_both(&old, arguments->history);
  count_text(counted, old.revision);
  open_pair(&young, arguments->folder, "young", MOONPAD_DURABILITY_NORMAL);
  for (int i = 0; i < 2 * ROUNDS; i++) {
    time_block(&young, 2000, &first);
    time_block(&old, 2000, &last);
  }
  print_compared("3", "append, SQLite NORMAL, one writer, p50", "us", median(&first.raw), median(&first.ours));
  print_at_most("3", "append, SQLite NORMAL, one writer, mean", "us", mean(&first.raw), mean(&first.ours), 1.25);
  print_at_most("3", "append, SQLite NORMAL, one writer, p99", "us", percentile(&first.raw, 0.99),
                percentile(&first.ours, 0.99), 1.5);
  snprintf(work, sizeof work, "append, SQLite NORMAL, at 0 / at %s events, mean", counted);
  print_at_most("3", work, "us", mean(&first.ours), mean(&last.ours), 1.15);
  snprintf(work, sizeof work, "append, SQLite NORMAL, at %s events, mean", counted);
  print_at_most("3", work, "us", mean(&last.raw), mean(&last.ours), 1.25);
  measure_get(&old, counted);
  measure_last_events(&old, counted);
  long events = old.revision;
  close_pair(&young);
  close_pair(&old);
  snprintf(work, sizeof work, "SQLite file per event, %s events", count_text(counted, events));
  print_at_most("14", work, "B", (double)file_size(old.raw_path) / (double)events,
                (double)file_size(old.our_path) / (double)events, 1.15);
  remove_pair(&young);
  remove_pair(&old);
  clear_times(&first);
  clear_times(&last);
}

static void measure_full(const bench_arguments *arguments) {
  pair_of_files pair;
  append_times times = {{0}, {0}};
  open_pair(&pair, arguments->folder, "full", MOONPAD_DURABILITY_FULL);
  for (int i = 0; i < 4 * ROUNDS; i++) time_block(&pair, 50, &times);
  print_compared("4", "append, SQLite FULL, one writer, p50", "us", median(&times.raw), median(&times.ours));
  print_at_most("4", "append, SQLite FULL, one writer, mean", "us", mean(&times.raw), mean(&times.ours), 1.1);
  close_pair(&pair);
  remove_pair(&pair);
  clear_times(&times);
}

/* ---- 6, 7: reading ---- */

/* In one transaction: the session's row, its merged state, its last events. */
static void read_raw_last(raw_database *raw, int count, char *out) {
  size_t used = 0;
  raw_run(raw, raw->begin_read);
  sqlite3_bind_int64(raw->read_session, 1, 1);
  sqlite3_bind_text(raw->read_session, 2, "s", 1, SQLITE_STATIC);
  used += raw_copy_rows(raw->read_session, 3, 3, out);
  for (int scope = 0; scope < 3; scope++) used += raw_copy_state(raw, scope, 1, out + used);
  sqlite3_bind_int64(raw->last_events, 1, INT64_C(1) << 34);
  sqlite3_bind_int64(raw->last_events, 2, (INT64_C(2) << 34) - 1);
  sqlite3_bind_int(raw->last_events, 3, count);
  used += raw_copy_rows(raw->last_events, 2, 3, out + used);
  raw_run(raw, raw->commit);
  must(used > (size_t)count * (EVENT_BYTES - 30), "reading the last events");
}

static void read_our_last(moonpad_service *service, int count, char *out) {
  moonpad_error error;
  moonpad_session *session = get_session(service, "s", count);
  for (size_t i = 0; i < (size_t)count; i++) {
    moonpad_event *event;
    must_call(moonpad_session_event(session, i, &event, &error), &error);
    moonpad_string json = moonpad_event_json(event);
    memcpy(out, json.data, json.length);
    moonpad_event_free(event);
  }
  moonpad_session_free(session);
}

static void measure_last_events(pair_of_files *pair, const char *counted) {
  samples raw = {0}, ours = {0};
  char out[10000], work[96];
  for (int i = 0; i < 2000; i++) {
    double start = now_us();
    read_raw_last(&pair->raw, 10, out);
    add_sample(&raw, now_us() - start);
    start = now_us();
    read_our_last(pair->service, 10, out);
    add_sample(&ours, now_us() - start);
  }
  snprintf(work, sizeof work, "getSession + last 10 of %s events in C, SQLite, p50", counted);
  print_pairs_at_most("7", work, "us", &raw, &ours, 2);
}

static void measure_get(pair_of_files *pair, const char *counted) {
  samples few = {0}, many = {0};
  char work[96];
  moonpad_session *ten = create_session(pair->service, "ten");
  event_text event;
  for (int i = 0; i < 10; i++) {
    event.length = write_event(event.text, i, 7, true);
    append(ten, &event);
  }
  moonpad_session_free(ten);
  for (int i = 0; i < 2000; i++) {
    double start = now_us();
    moonpad_session_free(get_session(pair->service, "ten", MOONPAD_ALL_EVENTS));
    add_sample(&few, now_us() - start);
    start = now_us();
    moonpad_session_free(get_session(pair->service, "s", MOONPAD_ALL_EVENTS));
    add_sample(&many, now_us() - start);
  }
  snprintf(work, sizeof work, "getSession in C, SQLite, 10 / %s events, p50", counted);
  print_pairs_at_most("6", work, "us", &few, &many, 1.3);
}

/* ---- 9: a session object that is behind ---- */

static void measure_behind(const bench_arguments *arguments) {
  static const long distances[] = {10, 1000, 20000};
  char path[4096];
  file_path(path, sizeof path, arguments->folder, "behind.db");
  for (size_t d = 0; d < sizeof distances / sizeof distances[0]; d++) {
    moonpad_service *service = open_file_service(path, MOONPAD_DURABILITY_NORMAL);
    print_behind(service, "SQLite", distances[d]);
    moonpad_service_release(service);
    remove_database(path);
  }
}

/* ---- 10: many sessions ---- */

#define SESSIONS          10000
#define SESSIONS_PER_USER 100

static double create_raw_sessions(raw_database *raw) {
  char id[32];
  double start = now_us();
  for (int i = 0; i < SESSIONS; i++) {
    snprintf(id, sizeof id, "session %d", i);
    raw_create(raw, i + 2, i / SESSIONS_PER_USER + 1, id);
  }
  return SESSIONS / ((now_us() - start) * 1e-6);
}

static double create_our_sessions(moonpad_service *service) {
  char id[32], user[32];
  moonpad_session *session;
  moonpad_error error;
  double start = now_us();
  for (int i = 0; i < SESSIONS; i++) {
    snprintf(id, sizeof id, "session %d", i);
    snprintf(user, sizeof user, "user %d", i / SESSIONS_PER_USER);
    moonpad_session_name name = {moonpad_text("hotel"), moonpad_text(user), moonpad_text(id)};
    must_call(moonpad_create_session(service, &name, moonpad_text("{}"), &session, &error), &error);
    moonpad_session_free(session);
  }
  return SESSIONS / ((now_us() - start) * 1e-6);
}

/*
** One key of each session and user, one of the app: written straight into both files, with
** nobody looking.
*/
static void add_state(sqlite3 *db) {
  must(sqlite3_exec(
           db,
           "INSERT OR REPLACE INTO state(scope, owner, key, value, revision) SELECT 0, id, 'step', '1000000', 1 FROM "
           "sessions;"
           "INSERT OR REPLACE INTO state(scope, owner, key, value, revision) SELECT DISTINCT 1, user, 'wish', '\"a "
           "taxi\"', 1 FROM sessions;"
           "INSERT OR REPLACE INTO state(scope, owner, key, value, revision) VALUES(2, 1, 'served', '1000000', 1)",
           NULL, NULL, NULL) == SQLITE_OK,
       "writing state");
}

/* Sorted, each with its own, its user's and the app's state, all kept in memory. */
static double list_raw(raw_database *raw) {
  sqlite3_stmt *list =
      raw_prepare(raw, "SELECT id, user, app, session_id, revision, create_time, last_update_time FROM sessions"
                       " WHERE app = 1 ORDER BY last_update_time, user, session_id");
  char *kept[SESSIONS + 1], state[4096];
  int count = 0;
  double start = now_us();
  raw_run(raw, raw->begin);
  while (count <= SESSIONS && sqlite3_step(list) == SQLITE_ROW) {
    size_t used = (size_t)sqlite3_column_bytes(list, 3);
    memcpy(state, sqlite3_column_text(list, 3), used);
    for (int scope = 0; scope < 3; scope++)
      used += raw_copy_state(raw, scope, sqlite3_column_int64(list, scope), state + used);
    kept[count] = must_allocate(used);
    memcpy(kept[count++], state, used);
  }
  sqlite3_reset(list);
  raw_run(raw, raw->commit);
  double took = now_us() - start;
  must(count == SESSIONS + 1, "listing raw");
  while (count > 0) free(kept[--count]);
  sqlite3_finalize(list);
  return took;
}

static double list_ours(moonpad_service *service) {
  moonpad_session_list *list;
  moonpad_error error;
  double start = now_us();
  must_call(moonpad_list_sessions(service, moonpad_text("hotel"), NULL, &list, &error), &error);
  double took = now_us() - start;
  must(moonpad_session_list_count(list) == SESSIONS + 1, "listing ours");
  moonpad_session_list_free(list);
  return took;
}

static void measure_sessions(const bench_arguments *arguments) {
  samples raw_rates = {0}, our_rates = {0}, raw_lists = {0}, our_lists = {0};
  for (int round = 0; round < 3; round++) {
    pair_of_files pair;
    open_pair(&pair, arguments->folder, "many", MOONPAD_DURABILITY_NORMAL);
    add_sample(&raw_rates, create_raw_sessions(&pair.raw) * 1e-3);
    add_sample(&our_rates, create_our_sessions(pair.service) * 1e-3);
    sqlite3 *db;
    must(sqlite3_open(pair.our_path, &db) == SQLITE_OK, "opening our file");
    add_state(db);
    sqlite3_close(db);
    add_state(pair.raw.db);
    for (int i = 0; i < 3; i++) {
      add_sample(&raw_lists, list_raw(&pair.raw) * 1e-3);
      add_sample(&our_lists, list_ours(pair.service) * 1e-3);
    }
    close_pair(&pair);
    remove_pair(&pair);
  }
  print_at_least("10", "create 10,000 sessions, SQLite NORMAL", "k/s", median(&raw_rates), median(&our_rates), 0.6);
  print_pairs_at_most("10", "list 10,000 sessions with merged state, SQLite", "ms", &raw_lists, &our_lists, 1.5);
  clear_samples(&raw_rates);
  clear_samples(&our_rates);
}

/* ---- 16: opening ---- */

static void measure_open(const bench_arguments *arguments) {
  char path[4096];
  file_path(path, sizeof path, arguments->folder, "many.db");
  moonpad_service *service = open_file_service(path, MOONPAD_DURABILITY_NORMAL);
  moonpad_session_free(create_session(service, "s"));
  moonpad_service_release(service);
  sqlite3 *db;
  must(sqlite3_open(path, &db) == SQLITE_OK, "opening our file");
  must(sqlite3_exec(db,
                    "BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
                    " INSERT INTO sessions(app, user, session_id, create_time, last_update_time)"
                    " SELECT 1, 1, 'session ' || i, 1763700000.0, 1763700000.0 FROM n;"
                    "INSERT OR REPLACE INTO state(scope, owner, key, value, revision) SELECT 0, id, 'step', '1000000', "
                    "1 FROM sessions; COMMIT",
                    NULL, NULL, NULL) == SQLITE_OK,
       "writing sessions");
  sqlite3_close(db);
  samples times = {0};
  for (int i = 0; i < 20; i++) {
    double start = now_us();
    service = open_file_service(path, MOONPAD_DURABILITY_NORMAL);
    add_sample(&times, (now_us() - start) * 1e-3);
    moonpad_session_free(get_session(service, "session 77777", MOONPAD_ALL_EVENTS));
    moonpad_service_release(service);
  }
  print_bound("16", "open a file with 100,000 sessions, p50", "ms", median(&times), 5);
  clear_samples(&times);
  remove_database(path);
}

int main(int count, char **values) {
  bench_arguments arguments = read_arguments(count, values);
  measure_normal(&arguments);
  measure_full(&arguments);
  measure_behind(&arguments);
  measure_sessions(&arguments);
  measure_open(&arguments);
  return 0;
}
