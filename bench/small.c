/*
** What a service takes of a machine with little of everything: memory, as malloc counts it (what
** SQLite has included), and time to open.
*/
#include "bench.h"

#include <malloc.h>
#include <unistd.h>

#define SESSIONS 1000
#define EVENTS   10 /* of each session */
#define OPENINGS 200

static double bytes_in_use(void) {
  struct mallinfo2 now = mallinfo2();
  return (double)now.uordblks + (double)now.hblkhd;
}

static void name_session(char id[32], int number) {
  snprintf(id, 32, "session %d", number);
}

/* All of one user. With events, each session has a state of three keys. */
static void store_sessions(moonpad_service *service, int events) {
  for (int i = 0; i < SESSIONS; i++) {
    char id[32];
    event_text event;
    name_session(id, i);
    moonpad_session *session = events == 0 ? create_session(service, id) : get_session(service, id, 0);
    for (int k = 0; k < events; k++) {
      event.length = write_event(event.text, i * events + k, 0, true);
      append(session, &event);
    }
    moonpad_session_free(session);
  }
}

static double bytes_of_objects(moonpad_service *service) {
  moonpad_session **objects = must_allocate(SESSIONS * sizeof *objects);
  double before = bytes_in_use();
  for (int i = 0; i < SESSIONS; i++) {
    char id[32];
    name_session(id, i);
    objects[i] = get_session(service, id, MOONPAD_ALL_EVENTS);
  }
  double each = (bytes_in_use() - before) / SESSIONS;
  for (int i = 0; i < SESSIONS; i++) moonpad_session_free(objects[i]);
  free(objects);
  return each;
}

static void measure_in_memory(void) {
  double before = bytes_in_use();
  moonpad_service *service = open_service("memory:", MOONPAD_DURABILITY_NORMAL, NULL);
  double empty = bytes_in_use();
  print_noted("", "in memory, a service", "B", empty - before);
  store_sessions(service, 0);
  double created = bytes_in_use();
  print_noted("", "in memory, one more session without events", "B", (created - empty) / SESSIONS);
  store_sessions(service, EVENTS);
  print_noted("", "in memory, one more event of 401 bytes, 10 in each session", "B",
              (bytes_in_use() - created) / SESSIONS / EVENTS);
  print_noted("", "in memory, one more session object", "B", bytes_of_objects(service));
  moonpad_service_release(service);
}

static void measure_on_file(const char *url) {
  double before = bytes_in_use();
  moonpad_service *service = open_service(url, MOONPAD_DURABILITY_NORMAL, NULL);
  print_noted("", "SQLite, a service on a new file", "B", bytes_in_use() - before);
  store_sessions(service, 0);
  store_sessions(service, EVENTS);
  print_noted("", "SQLite, a service that has stored 1,000 sessions and 10,000 events", "B", bytes_in_use() - before);
  print_noted("", "SQLite, one more session object", "B", bytes_of_objects(service));
  moonpad_service_release(service);
}

static void measure_opening(const char *work, const char *url, const char *remove_first) {
  samples all = {0};
  char path[512];
  for (int i = 0; i < OPENINGS; i++) {
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (int k = 0; remove_first != NULL && k < 3; k++) {
      snprintf(path, sizeof path, "%s%s", remove_first, suffixes[k]);
      unlink(path);
    }
    double start = now_us();
    moonpad_service *service = open_service(url, MOONPAD_DURABILITY_NORMAL, NULL);
    add_sample(&all, now_us() - start);
    moonpad_service_release(service);
  }
  print_noted("", work, "us", median(&all));
  clear_samples(&all);
}

int main(int count, char **values) {
  char path[400], url[420];
  must(count == 2, "usage: PROGRAM FOLDER, or better bench/small.sh, which");
  snprintf(path, sizeof path, "%s/small.db", values[1]);
  snprintf(url, sizeof url, "sqlite:%s", path);
  measure_in_memory();
  measure_on_file(url);
  measure_opening("open a service in memory", "memory:", NULL);
  measure_opening("open a file that is there", url, NULL);
  measure_opening("open a new file", url, path);
  return 0;
}
