/*
** What is measured on every server: append (22), eight threads or 64 asynchronous sessions on one
** service (23), get (24), each in turns with the least that keeps the contract: one round trip that
** counts up three heads, writes three keys and inserts the event ("raw5").
*/
#ifndef BENCH_SERVERS_H
#define BENCH_SERVERS_H

#include <moonpad_stores.h>
#include <pthread.h>

#include "bench.h"

#define PAIRS             10
#define EVENTS_PER_ROUND  300
#define THREADS           8
#define EVENTS_PER_THREAD 100
#define QUEUES            64 /* sessions whose appends are asynchronous */
#define EVENTS_PER_QUEUE  20

/* The limit: a server without moonpad. */
typedef struct raw_server {
  const char *name;
  moonpad_store_scheme scheme;
  double full_bound, normal_bound; /* of an append; 0: that is not measured */
  double threads_bound;            /* 0: nothing is promised */
  void *(*connect)(const char *url, bool is_durable);
  void (*disconnect)(void *raw);
  void (*make_tables)(void *raw);
  void (*append)(void *raw, int session, long revision, const event_text *event, long number);
  void (*get)(void *raw); /* of session 1: its heads, three keys, 16 events */
} raw_server;

/* What is measured, in words. */
static const char *work(const raw_server *server, const char *format, bool is_durable) {
  static char text[160];
  snprintf(text, sizeof text, format, server->name, is_durable ? "" : " NORMAL");
  return text;
}

/* ---- ours ---- */

static moonpad_service *open_server(const raw_server *server, const char *url, moonpad_durability durability) {
  moonpad_service *service;
  moonpad_options options;
  moonpad_error error;
  moonpad_options_init(&options);
  options.durability = durability;
  options.stores = &server->scheme;
  options.store_count = 1;
  must_call(moonpad_open(moonpad_text(url), &options, &service, &error), &error);
  return service;
}

/* ---- 22 ---- */

static void measure_append(const raw_server *server, const char *url, bool is_durable) {
  samples limits = {0}, ours = {0}, limit_means = {0}, our_means = {0};
  void *raw = server->connect(url, is_durable);
  moonpad_service *service = open_server(server, url, is_durable ? MOONPAD_DURABILITY_FULL : MOONPAD_DURABILITY_NORMAL);
  moonpad_session *session = create_session(service, is_durable ? "full" : "normal");
  server->make_tables(raw);
  for (int round = 0; round <= PAIRS; round++) {
    long first = (long)round * EVENTS_PER_ROUND;
    event_text *events = make_events(first, EVENTS_PER_ROUND, 1, false);
    samples limit = {0}, our = {0};
    for (int i = 0; i < EVENTS_PER_ROUND; i++) {
      double start = now_us();
      server->append(raw, 1, first + i, &events[i], first + i);
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
  double bound = is_durable ? server->full_bound : server->normal_bound;
  print_pairs_at_most("22", work(server, "append, %s%s, p50", is_durable), "us", &limits, &ours, bound);
  print_pairs_at_most("22", work(server, "append, %s%s, mean", is_durable), "us", &limit_means, &our_means, bound);
  moonpad_session_free(session);
  moonpad_service_release(service);
  server->disconnect(raw);
}

/* ---- 23 ---- */

typedef struct writer_thread {
  pthread_t thread;
  int number;
  moonpad_session *session;
  const raw_server *server;
  void *raw;
  event_text *events;
} writer_thread;

static void *append_all(void *context) {
  writer_thread *writer = context;
  for (int i = 0; i < EVENTS_PER_THREAD; i++) append(writer->session, &writer->events[i]);
  return NULL;
}

static void *raw_append_all(void *context) {
  writer_thread *writer = context;
  for (int i = 0; i < EVENTS_PER_THREAD; i++)
    writer->server->append(writer->raw, writer->number + 1, i, &writer->events[i], i);
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

static void measure_threads(const raw_server *server, const char *url) {
  samples limits = {0}, ours = {0}, queued = {0};
  writer_thread writers[THREADS];
  for (int round = 0; round < ROUNDS; round++) {
    char id[32];
    void *maker = server->connect(url, true);
    server->make_tables(maker);
    server->disconnect(maker);
    moonpad_service *service = open_server(server, url, MOONPAD_DURABILITY_FULL);
    for (int i = 0; i < THREADS; i++) {
      snprintf(id, sizeof id, "round %d, thread %d", round, i);
      writers[i] = (writer_thread){
          .number = i, .server = server, .raw = server->connect(url, true), .session = create_session(service, id)};
      writers[i].events = make_events(0, EVENTS_PER_THREAD, (unsigned)i, false);
    }
    add_sample(&limits, run_threads(writers, raw_append_all));
    add_sample(&ours, run_threads(writers, append_all));
    add_sample(&queued, run_queued(service, round));
    for (int i = 0; i < THREADS; i++) {
      must(moonpad_session_revision(writers[i].session) == EVENTS_PER_THREAD, "storing every event");
      moonpad_session_free(writers[i].session);
      server->disconnect(writers[i].raw);
      free(writers[i].events);
    }
    moonpad_service_release(service);
  }
  const char *threads = work(server, "append, %s%s, 8 threads on one service / 8 connections", true);
  if (server->threads_bound > 0) {
    print_at_least("23", threads, "k/s", median(&limits), median(&ours), server->threads_bound);
  } else {
    print_compared("23", threads, "k/s", median(&limits), median(&ours));
  }
  print_compared("23", work(server, "append, %s%s, asynchronous, 64 sessions / 8 connections", true), "k/s",
                 median(&limits), median(&queued));
  clear_samples(&limits);
  clear_samples(&ours);
  clear_samples(&queued);
}

/* ---- 24 ---- */

static void measure_get(const raw_server *server, const char *url) {
  samples limits = {0}, ours = {0};
  void *raw = server->connect(url, true);
  moonpad_service *service = open_server(server, url, MOONPAD_DURABILITY_FULL);
  moonpad_session *session = create_session(service, "get");
  event_text *events = make_events(0, 32, 1, false);
  server->make_tables(raw);
  for (int i = 0; i < 32; i++) {
    server->append(raw, 1, i, &events[i], i);
    append(session, &events[i]);
  }
  for (int round = 0; round <= PAIRS; round++) {
    samples limit = {0}, our = {0};
    for (int i = 0; i < EVENTS_PER_ROUND; i++) {
      double start = now_us();
      server->get(raw);
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
  print_pairs_at_most("24", work(server, "get with state and 16 events, %s%s, p50", true), "us", &limits, &ours, 1.3);
  free(events);
  moonpad_session_free(session);
  moonpad_service_release(service);
  server->disconnect(raw);
}

static void measure_server(const raw_server *server, const char *url) {
  measure_append(server, url, true);
  if (server->normal_bound > 0) measure_append(server, url, false);
  measure_threads(server, url);
  measure_get(server, url);
}

#endif
