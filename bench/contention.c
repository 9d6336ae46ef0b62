/* Several writers on one SQLite file: eight threads on one service (5), four processes (15). */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw_sqlite.h"

/* ---- 5: eight threads, durability full ---- */

#define THREADS           8
#define EVENTS_PER_THREAD 200

typedef struct writer_thread {
  pthread_t thread;
  moonpad_session *session;
  event_text *events;
} writer_thread;

static void *append_all(void *context) {
  writer_thread *writer = context;
  for (int i = 0; i < EVENTS_PER_THREAD; i++) append(writer->session, &writer->events[i]);
  return NULL;
}

static double thread_rate(const char *folder) {
  writer_thread writers[THREADS];
  char path[4096], id[32];
  file_path(path, sizeof path, folder, "threads.db");
  moonpad_service *service = open_file_service(path, MOONPAD_DURABILITY_FULL);
  for (int i = 0; i < THREADS; i++) {
    snprintf(id, sizeof id, "thread %d", i);
    writers[i].session = create_session(service, id);
    writers[i].events = make_events(0, EVENTS_PER_THREAD, (unsigned)i, true);
  }
  double start = now_us();
  for (int i = 0; i < THREADS; i++)
    must(pthread_create(&writers[i].thread, NULL, append_all, &writers[i]) == 0, "a thread");
  for (int i = 0; i < THREADS; i++) pthread_join(writers[i].thread, NULL);
  double took = now_us() - start;
  for (int i = 0; i < THREADS; i++) {
    must(moonpad_session_revision(writers[i].session) == EVENTS_PER_THREAD, "storing every event");
    moonpad_session_free(writers[i].session);
    free(writers[i].events);
  }
  moonpad_service_release(service);
  remove_database(path);
  return THREADS * EVENTS_PER_THREAD / (took * 1e-6);
}

static double raw_rate(const char *folder) {
  char path[4096];
  raw_database raw;
  event_text *events = make_events(0, EVENTS_PER_THREAD, 0, true);
  file_path(path, sizeof path, folder, "raw.db");
  raw_open(&raw, path, MOONPAD_DURABILITY_FULL);
  raw_create(&raw, 1, 1, "s");
  double start = now_us();
  for (int i = 0; i < EVENTS_PER_THREAD; i++) raw_append(&raw, 1, i + 1, &events[i]);
  double took = now_us() - start;
  raw_close(&raw);
  remove_database(path);
  free(events);
  return EVENTS_PER_THREAD / (took * 1e-6);
}

static void measure_threads(const char *folder) {
  samples raw = {0}, ours = {0};
  for (int round = 0; round < ROUNDS; round++) {
    add_sample(&raw, raw_rate(folder) * 1e-3);
    add_sample(&ours, thread_rate(folder) * 1e-3);
  }
  print_at_least("5", "append, SQLite FULL, 8 threads / one raw writer", "k/s", median(&raw), median(&ours), 3);
  clear_samples(&raw);
  clear_samples(&ours);
}

/* ---- 15: four processes ---- */

#define PROCESSES 4
#define KEYS      200 /* of each session, written in turn */

/*
** Shared with the children. An append that was answered with an error is none, so it cannot
** be lost.
*/
typedef struct process_result {
  double started, ended, longest; /* microseconds */
  long errors;
  long acknowledged;
  long last[KEYS]; /* the value of each key that was last acknowledged; 0: none */
} process_result;

/* Each event writes a key of its own session and adds one to a counter of the app. */
static moonpad_status append_one(moonpad_session *session, long i, moonpad_error *error) {
  char key[32];
  moonpad_value number = moonpad_integer(i + 1), one = moonpad_integer(1);
  event_text event;
  moonpad_changes *changes;
  moonpad_status status = moonpad_changes_begin(session, &changes, error);
  if (status != MOONPAD_OK) return status;
  snprintf(key, sizeof key, "key %ld", i % KEYS);
  event.length = (size_t)snprintf(
      event.text, sizeof event.text,
      "{\"author\":\"concierge\",\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Your table for two at the "
      "window is booked for half past seven, as you wished.\"}]}}");
  status = moonpad_changes_set(changes, moonpad_text(key), moonpad_text(""), &number, error);
  if (status == MOONPAD_OK) status = moonpad_changes_increment(changes, moonpad_text("app:events"), &one, error);
  if (status == MOONPAD_OK) status = moonpad_changes_commit(changes, event_string(&event), NULL, error);
  moonpad_changes_free(changes);
  return status;
}

static void run_process(const char *path, int number, long count, moonpad_durability durability,
                        process_result *result) {
  char id[32];
  moonpad_error error;
  snprintf(id, sizeof id, "process %d", number);
  moonpad_service *service = open_file_service(path, durability);
  moonpad_session *session = create_session(service, id);
  result->started = now_us();
  for (long i = 0; i < count; i++) {
    double start = now_us();
    if (append_one(session, i, &error) == MOONPAD_OK) {
      result->acknowledged++;
      result->last[i % KEYS] = i + 1;
    } else {
      result->errors++;
    }
    double took = now_us() - start;
    if (took > result->longest) result->longest = took;
  }
  result->ended = now_us();
  moonpad_session_free(session);
  moonpad_service_release(service);
}

static bool holds(moonpad_session *session, const char *key, long number) {
  moonpad_value value;
  moonpad_error error;
  must_call(moonpad_session_read(session, moonpad_text(key), moonpad_text(""), &value, &error), &error);
  return value.type == MOONPAD_INTEGER ? value.as.integer == number : number == 0 && value.type == MOONPAD_ABSENT;
}

/* Keys and events that were acknowledged and are not there, or the other way round. */
static long lost_keys(moonpad_service *service, int processes, const process_result *results) {
  long lost = 0, events = 0;
  char id[32], key[32];
  for (int number = 0; number < processes; number++) events += results[number].acknowledged;
  for (int number = 0; number < processes; number++) {
    snprintf(id, sizeof id, "process %d", number);
    moonpad_session *session = get_session(service, id, 0);
    for (long i = 0; i < KEYS; i++) {
      snprintf(key, sizeof key, "key %ld", i);
      if (!holds(session, key, results[number].last[i])) lost++;
    }
    if (!holds(session, "app:events", events)) lost++;
    if (moonpad_session_revision(session) != results[number].acknowledged) lost++;
    moonpad_session_free(session);
  }
  return lost;
}

typedef struct run_result {
  double rate; /* thousand events per second */
  double longest;
  long errors, lost;
} run_result;

/* What one process does: appends `count` events to a session of its own. */
typedef void (*process_function)(const char *path, int number, long count, moonpad_durability durability,
                                 process_result *result);

static run_result run_children(process_function function, const char *path, int processes, long count,
                               moonpad_durability durability, process_result *results) {
  run_result run = {0, 0, 0, 0};
  memset(results, 0, PROCESSES * sizeof *results);
  for (int i = 0; i < processes; i++) {
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
      function(path, i, count, durability, &results[i]);
      _exit(0);
    }
  }
  for (int i = 0; i < processes; i++) {
    int status;
    must(wait(&status) > 0 && status == 0, "a child");
  }
  double first = results[0].started, last = results[0].ended;
  for (int i = 0; i < processes; i++) {
    if (results[i].started < first) first = results[i].started;
    if (results[i].ended > last) last = results[i].ended;
    if (results[i].longest > run.longest) run.longest = results[i].longest;
    run.errors += results[i].errors;
  }
  run.rate = (double)(count * processes) / (last - first) * 1e3;
  return run;
}

static run_result run_processes(const char *path, int processes, long total, moonpad_durability durability,
                                process_result *results) {
  long count = total / processes;
  moonpad_service_release(open_file_service(path, durability));
  run_result run = run_children(run_process, path, processes, count, durability, results);
  moonpad_service *service = open_file_service(path, durability);
  run.lost = lost_keys(service, processes, results);
  moonpad_service_release(service);
  remove_database(path);
  return run;
}

/*
** The same with prepared statements and SQLite's own way of waiting and of checkpoints: for
** the record.
*/
static void run_raw_process(const char *path, int number, long count, moonpad_durability durability,
                            process_result *result) {
  raw_database raw;
  event_text *events = make_events(0, count, (unsigned)number, true);
  raw_open(&raw, path, durability);
  sqlite3_busy_timeout(raw.db, 60000); /* its waiting is not fair, and an error would end the run */
  result->started = now_us();
  for (long i = 0; i < count; i++) {
    double start = now_us();
    raw_append(&raw, number + 1, i + 1, &events[i]);
    double took = now_us() - start;
    if (took > result->longest) result->longest = took;
  }
  result->ended = now_us();
  raw_close(&raw);
  free(events);
}

static run_result run_raw_processes(const char *path, int processes, long total, moonpad_durability durability,
                                    process_result *results) {
  char id[32];
  raw_database raw;
  raw_open(&raw, path, durability);
  for (int i = 0; i < processes; i++) {
    snprintf(id, sizeof id, "process %d", i);
    raw_create(&raw, i + 1, 1, id);
  }
  raw_close(&raw);
  run_result run = run_children(run_raw_process, path, processes, total / processes, durability, results);
  remove_database(path);
  return run;
}

static void measure_processes(const char *folder, moonpad_durability durability, const char *name, long total,
                              int rounds) {
  char path[4096], work[96];
  samples one = {0}, four = {0}, raw_one = {0}, raw_four = {0};
  double longest = 0, raw_longest = 0;
  long errors = 0, lost = 0;
  process_result *results =
      mmap(NULL, PROCESSES * sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  must(results != MAP_FAILED, "mmap");
  file_path(path, sizeof path, folder, "processes.db");
  for (int round = 0; round < rounds; round++) {
    run_result alone = run_processes(path, 1, total, durability, results);
    run_result together = run_processes(path, PROCESSES, total, durability, results);
    add_sample(&one, alone.rate);
    add_sample(&four, together.rate);
    if (together.longest > longest) longest = together.longest;
    run_result raw_together = run_raw_processes(path, PROCESSES, total, durability, results);
    add_sample(&raw_one, run_raw_processes(path, 1, total, durability, results).rate);
    add_sample(&raw_four, raw_together.rate);
    if (raw_together.longest > raw_longest) raw_longest = raw_together.longest;
    errors += alone.errors + together.errors;
    lost += alone.lost + together.lost;
  }
  snprintf(work, sizeof work, "append, SQLite %s, 4 processes / 1 process", name);
  print_compared("15", work, "k/s", median(&one), median(&four));
  snprintf(work, sizeof work, "the same: appends answered with an error");
  print_bound("15", work, "of all", (double)errors, 0);
  snprintf(work, sizeof work, "the same: acknowledged, and lost");
  print_bound("15", work, "of all", (double)lost, 0);
  snprintf(work, sizeof work, "the same: longest wait of one append");
  print_noted("15", work, "ms", longest * 1e-3);
  snprintf(work, sizeof work, "raw SQLite %s, 4 processes / 1 process", name);
  print_compared("15", work, "k/s", median(&raw_one), median(&raw_four));
  snprintf(work, sizeof work, "the same: longest wait of one append");
  print_noted("15", work, "ms", raw_longest * 1e-3);
  munmap(results, PROCESSES * sizeof *results);
  clear_samples(&one);
  clear_samples(&four);
  clear_samples(&raw_one);
  clear_samples(&raw_four);
}

int main(int count, char **values) {
  bench_arguments arguments = read_arguments(count, values);
  measure_threads(arguments.folder);
  measure_processes(arguments.folder, MOONPAD_DURABILITY_NORMAL, "NORMAL", 12000, ROUNDS);
  measure_processes(arguments.folder, MOONPAD_DURABILITY_FULL, "FULL", 1600, 3);
  return 0;
}
