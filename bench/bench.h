/*
** What every benchmark needs: the time, medians, the typical event, and a line of the table.
**
** A line is written as tab-separated fields, which bench/run.sh puts into one table: promise, work,
** limit, ours, ratio, promised, kept (yes, NO, or nothing where nothing is promised).
*/
#ifndef BENCH_H
#define BENCH_H

#include <moonpad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Limit and ours take turns this often, so that what else the machine does hits both. */
#define ROUNDS 5
/* The typical event: author, one text of about 100 characters, one key of each stored scope. */
#define EVENT_BYTES    401
#define EVENT_ID_BYTES 36
#define FIRST_STEP     1000000 /* seven digits, so that every event has the same size */

/*
** ---- Ending on a failure: a benchmark that measured something else than it says is worse than
** none ----
*/

static inline void must(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "bench: %s failed\n", what);
  exit(EXIT_FAILURE);
}

static inline void must_call(moonpad_status status, const moonpad_error *error) {
  if (status == MOONPAD_OK) return;
  fprintf(stderr, "bench: %s: %s\n", moonpad_status_name(status), error->message);
  exit(EXIT_FAILURE);
}

static inline void *must_allocate(size_t size) {
  void *block = malloc(size);
  must(block != NULL, "malloc");
  return block;
}

/* ---- Time and samples ---- */

/* Microseconds on the wall, for what waits for the disk and for single calls. */
static inline double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/*
** Microseconds that this thread has worked: what else runs on the machine counts less. Asking takes
** a third of one, so it is for many calls together.
*/
static inline double worked_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

typedef struct samples {
  double *values;
  size_t count;
  size_t capacity;
} samples;

static inline void add_sample(samples *all, double value) {
  if (all->count == all->capacity) {
    all->capacity = all->capacity == 0 ? 1024 : all->capacity * 2;
    all->values = realloc(all->values, all->capacity * sizeof *all->values);
    must(all->values != NULL, "realloc");
  }
  all->values[all->count++] = value;
}

static inline int compare_samples(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static inline double percentile(samples *all, double part) {
  must(all->count > 0, "measuring");
  qsort(all->values, all->count, sizeof *all->values, compare_samples);
  return all->values[(size_t)(part * (double)(all->count - 1))];
}

static inline double median(samples *all) {
  return percentile(all, 0.5);
}

static inline double mean(const samples *all) {
  double sum = 0;
  for (size_t i = 0; i < all->count; i++) sum += all->values[i];
  return sum / (double)all->count;
}

static inline void clear_samples(samples *all) {
  free(all->values);
  memset(all, 0, sizeof *all);
}

/* ---- Lines ---- */

static inline void print_line(const char *promise, const char *work, const char *limit, const char *ours,
                              const char *ratio, const char *promised, const char *kept) {
  printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", promise, work, limit, ours, ratio, promised, kept);
  fflush(stdout);
}

static inline const char *figure(char *text, size_t size, double value, const char *unit) {
  int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
  snprintf(text, size, "%.*f %s", decimals, value, unit);
  return text;
}

static inline void print_ratio_at_most(const char *promise, const char *work, const char *unit, double limit,
                                       double ours, double ratio, double bound) {
  char texts[4][64];
  snprintf(texts[2], sizeof texts[2], "%.2fx", ratio);
  snprintf(texts[3], sizeof texts[3], "<= %.4gx", bound);
  print_line(promise, work, figure(texts[0], sizeof texts[0], limit, unit),
             figure(texts[1], sizeof texts[1], ours, unit), texts[2], texts[3], ratio <= bound ? "yes" : "NO");
}

/* Ours against the limit: at most `bound` times it. */
static inline void print_at_most(const char *promise, const char *work, const char *unit, double limit, double ours,
                                 double bound) {
  print_ratio_at_most(promise, work, unit, limit, ours, ours / limit, bound);
}

/*
** The same of samples that took turns: medians, and the median of the ratio of each pair.
** Empties both.
*/
static inline void print_pairs_at_most(const char *promise, const char *work, const char *unit, samples *limit,
                                       samples *ours, double bound) {
  samples ratios = {0};
  must(limit->count == ours->count, "taking turns");
  for (size_t i = 0; i < limit->count; i++) add_sample(&ratios, ours->values[i] / limit->values[i]);
  print_ratio_at_most(promise, work, unit, median(limit), median(ours), median(&ratios), bound);
  clear_samples(&ratios);
  clear_samples(limit);
  clear_samples(ours);
}

/* Ours against the limit where more is better. */
static inline void print_at_least(const char *promise, const char *work, const char *unit, double limit, double ours,
                                  double bound) {
  char texts[4][64];
  snprintf(texts[2], sizeof texts[2], "%.2fx", ours / limit);
  snprintf(texts[3], sizeof texts[3], ">= %.4gx", bound);
  print_line(promise, work, figure(texts[0], sizeof texts[0], limit, unit),
             figure(texts[1], sizeof texts[1], ours, unit), texts[2], texts[3], ours >= limit * bound ? "yes" : "NO");
}

/* Ours against a figure. */
static inline void print_bound(const char *promise, const char *work, const char *unit, double ours, double bound) {
  char texts[2][64];
  snprintf(texts[1], sizeof texts[1], "<= %.4g %s", bound, unit);
  print_line(promise, work, "", figure(texts[0], sizeof texts[0], ours, unit), "", texts[1],
             ours <= bound ? "yes" : "NO");
}

/* For the record: nothing is promised. */
static inline void print_compared(const char *promise, const char *work, const char *unit, double limit, double ours) {
  char texts[3][64];
  snprintf(texts[2], sizeof texts[2], "%.2fx", ours / limit);
  print_line(promise, work, figure(texts[0], sizeof texts[0], limit, unit),
             figure(texts[1], sizeof texts[1], ours, unit), texts[2], "", "");
}

static inline void print_noted(const char *promise, const char *work, const char *unit, double ours) {
  char text[64];
  print_line(promise, work, "", figure(text, sizeof text, ours, unit), "", "", "");
}

/* ---- The typical event ---- */

/* An id that grows with time, as UUIDv7 does; `writer` keeps those of several apart. */
static inline void write_event_id(char *id, long number, unsigned writer) {
  char text[EVENT_ID_BYTES + 1];
  unsigned long time = (unsigned long)number;
  snprintf(text, sizeof text, "019c%04lx-%04lx-7%03lx-8%03x-%012lx", time >> 16 & 0xFFFF, time & 0xFFFF, time & 0xFFF,
           writer & 0xFFF, (time * 2654435761UL) & 0xFFFFFFFFFFFFUL);
  memcpy(id, text, EVENT_ID_BYTES);
}

/*
** The `number`-th event, NUL-terminated, without an id when `with_id` is false. Returns its length.
*/
static inline size_t write_event(char text[EVENT_BYTES + 1], long number, unsigned writer, bool with_id) {
  char id[EVENT_ID_BYTES + 1] = {0};
  char member[64] = "";
  write_event_id(id, number, writer);
  if (with_id) snprintf(member, sizeof member, "\"id\":\"%s\",", id);
  int length = snprintf(
      text, EVENT_BYTES + 1,
      "{%s\"invocationId\":\"e-%s\",\"timestamp\":%.3f,\"author\":\"concierge\",\"content\":{\"parts\":[{\"text\":"
      "\"Your table for two at the window is booked for half past seven, as you wished; shall I call a taxi?\"}],"
      "\"role\":\"model\"},\"actions\":{\"stateDelta\":{\"app:served\":%ld,\"step\":%ld,\"user:wish\":\"taxi %ld\"}}}",
      member, id, 1763700000.0 + (double)number * 1e-3, FIRST_STEP + number, FIRST_STEP + number, FIRST_STEP + number);
  must(length > 0 && length <= EVENT_BYTES, "the typical event");
  return (size_t)length;
}

typedef struct event_text {
  size_t length;
  char text[EVENT_BYTES + 1];
} event_text;

/* Made beforehand, so that making them is not measured. */
static inline event_text *make_events(long first, long count, unsigned writer, bool with_id) {
  event_text *events = must_allocate((size_t)count * sizeof *events);
  for (long i = 0; i < count; i++) events[i].length = write_event(events[i].text, first + i, writer, with_id);
  return events;
}

static inline moonpad_string event_string(const event_text *event) {
  moonpad_string text = {event->text, event->length};
  return text;
}

/* ---- Services and sessions ---- */

static inline moonpad_service *open_service(const char *url, moonpad_durability durability,
                                            const moonpad_allocator *allocator) {
  moonpad_service *service;
  moonpad_options options;
  moonpad_error error;
  moonpad_options_init(&options);
  options.durability = durability;
  options.allocator = allocator;
  must_call(moonpad_open(moonpad_text(url), &options, &service, &error), &error);
  return service;
}

static inline moonpad_session *create_session(moonpad_service *service, const char *id) {
  moonpad_session *session;
  moonpad_error error;
  moonpad_session_name name = {moonpad_text("hotel"), moonpad_text("ann"), moonpad_text(id)};
  must_call(moonpad_create_session(service, &name, moonpad_text("{}"), &session, &error), &error);
  return session;
}

static inline moonpad_session *get_session(moonpad_service *service, const char *id, int64_t recent) {
  moonpad_session *session;
  moonpad_error error;
  moonpad_get_options options;
  moonpad_session_name name = {moonpad_text("hotel"), moonpad_text("ann"), moonpad_text(id)};
  moonpad_get_options_init(&options);
  options.num_recent_events = recent;
  must_call(moonpad_get_session(service, &name, &options, &session, &error), &error);
  return session;
}

static inline void append(moonpad_session *session, const event_text *event) {
  moonpad_error error;
  must_call(moonpad_append_event(session, event_string(event), NULL, &error), &error);
}

/* `count` events more, by the fastest way in: many in one commit. */
static inline void fill_history(moonpad_service *service, moonpad_session *session, long first, long count) {
  event_text event;
  moonpad_error error;
  long before = (long)moonpad_session_revision(session);
  for (long i = 0; i < count; i++) {
    event.length = write_event(event.text, first + i, 0, true);
    must_call(moonpad_append_event_async(session, event_string(&event), NULL, NULL, &error), &error);
    if (i % 1000 == 999) {
      while (moonpad_session_revision(session) < before + i - 1000) moonpad_poll(service, 1000);
    }
  }
  while (moonpad_session_revision(session) < before + count) moonpad_poll(service, 1000);
}

/* 100000 as "100,000". */
static inline const char *count_text(char text[32], long count) {
  if (count >= 1000000) {
    snprintf(text, 32, "%ld,%03ld,%03ld", count / 1000000, count / 1000 % 1000, count % 1000);
  } else if (count >= 1000) {
    snprintf(text, 32, "%ld,%03ld", count / 1000, count % 1000);
  } else {
    snprintf(text, 32, "%ld", count);
  }
  return text;
}

/* ---- A session object that is behind its session ---- */

#define BEHIND 40

/* An event without a delta: otherwise each would have more to take in than the one before it. */
static inline double time_one_append(moonpad_session *session) {
  moonpad_error error;
  moonpad_string event =
      moonpad_text("{\"author\":\"concierge\",\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Your table "
                   "for two at the window is booked for half past seven, as you wished.\"}]}}");
  double start = now_us();
  must_call(moonpad_append_event(session, event, NULL, &error), &error);
  return now_us() - start;
}

/* Promise 9: an append to an object so many events behind, against one to an object just got. */
static inline void print_behind(moonpad_service *service, const char *store, long distance) {
  samples fresh = {0}, behind = {0};
  char work[96], counted[32];
  moonpad_session *old[BEHIND], *theirs = create_session(service, "s");
  for (int i = 0; i < BEHIND; i++) old[i] = get_session(service, "s", MOONPAD_ALL_EVENTS);
  fill_history(service, theirs, 0, distance);
  for (int i = 0; i < BEHIND; i++) {
    moonpad_session *now = get_session(service, "s", MOONPAD_ALL_EVENTS);
    add_sample(&fresh, time_one_append(now));
    moonpad_session_free(now);
    add_sample(&behind, time_one_append(old[i]));
    moonpad_session_free(old[i]);
  }
  moonpad_session_free(theirs);
  snprintf(work, sizeof work, "append, %s, object %s events behind / fresh, p50", store, count_text(counted, distance));
  print_pairs_at_most("9", work, "us", &fresh, &behind, 1.5);
}

/* ---- The command line: FOLDER FULL(0|1) ---- */

typedef struct bench_arguments {
  const char *folder; /* for files; exists and is empty */
  bool full;          /* 1,000,000 events of history instead of `history` */
  long history;
} bench_arguments;

static inline bench_arguments read_arguments(int count, char **values) {
  must(count == 3, "usage: PROGRAM FOLDER 0|1, or better bench/run.sh, which");
  bench_arguments arguments = {values[1], strcmp(values[2], "1") == 0, 100000};
  if (arguments.full) arguments.history = 1000000;
  return arguments;
}

#endif
