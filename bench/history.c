/*
** What an append and a get cost with a history of 1 to 1,000,000 events, on both stores. Prints
** lines of: store, events of history, microseconds of an append (median), microseconds of a
** getSession (median). bench/plot.lua draws them; bench/run.sh compares them with other
** implementations.
**   history FOLDER 0|1        1: up to 1,000,000 events, else 100,000
*/
#include "bench.h"

#define SMALL_HISTORY 100 /* up to here, one session does not last for a measurement */
#define BLOCK         2000
#define GETS          500

typedef struct history {
  const char *store;
  moonpad_service *service;
  samples appends, gets;
} history;

static void time_appends(history *measured, moonpad_session *session, long first, long count) {
  event_text *events = make_events(first, count, 0, true);
  for (long i = 0; i < count; i++) {
    double start = now_us();
    append(session, &events[i]);
    add_sample(&measured->appends, now_us() - start);
  }
  free(events);
}

static void time_gets(history *measured, const char *id, int count) {
  for (int i = 0; i < count; i++) {
    double start = now_us();
    moonpad_session_free(get_session(measured->service, id, MOONPAD_ALL_EVENTS));
    add_sample(&measured->gets, now_us() - start);
  }
}

static void print_times(history *measured, long size) {
  printf("%s\t%ld\t%.2f\t%.2f\n", measured->store, size, median(&measured->appends), median(&measured->gets));
  fflush(stdout);
  clear_samples(&measured->appends);
  clear_samples(&measured->gets);
}

/* Many sessions with `size` events each, of which each gets a few more. */
static void measure_small(history *measured, long size) {
  long more = size < 10 ? 1 : size / 10;
  char id[64];
  for (long number = 0; number * more < BLOCK; number++) {
    snprintf(id, sizeof id, "small %ld %ld", size, number);
    moonpad_session *session = create_session(measured->service, id);
    event_text event;
    for (long i = 0; i < size; i++) {
      event.length = write_event(event.text, i, 0, true);
      append(session, &event);
    }
    time_appends(measured, session, size, more);
    moonpad_session_free(session);
    time_gets(measured, id, 5);
  }
  print_times(measured, size);
}

static void measure_store(const char *store, const char *url, const bench_arguments *arguments) {
  history measured = {store, open_service(url, MOONPAD_DURABILITY_NORMAL, NULL), {0}, {0}};
  long size = 1;
  for (; size <= SMALL_HISTORY; size *= 10) measure_small(&measured, size);
  moonpad_session *session = create_session(measured.service, "s");
  for (; size <= arguments->history; size *= 10) {
    long before = (long)moonpad_session_revision(session);
    fill_history(measured.service, session, before, size - before);
    time_appends(&measured, session, size, BLOCK);
    time_gets(&measured, "s", GETS);
    print_times(&measured, size);
  }
  moonpad_session_free(session);
  moonpad_service_release(measured.service);
}

int main(int count, char **values) {
  bench_arguments arguments = read_arguments(count, values);
  char url[4200];
  snprintf(url, sizeof url, "sqlite:%s/history.db", arguments.folder);
  measure_store("moonpad memory", "memory:", &arguments);
  measure_store("moonpad SQLite", url, &arguments);
  return 0;
}
