/* A service whose server is behind a link (link.h). */
#ifndef LINKED_H
#define LINKED_H

#include "link.h"
#include "service_support.h"

typedef struct linked {
  void *state; /* a host */
  host *self;
  test_link *link;
  char direct[256];     /* the URL of the server itself */
  bool breaks_for_good; /* as link_break_for_good does: another host of the URL is to be found */
} linked;

/* `store` is one of ON_EVERY_STORE; `more` are options for its URL, each with a "&" before it. */
void linked_open(linked *scene, const char *store, const char *more);
void linked_close(linked *scene);
/* Where the port stands in a URL of 127.0.0.1. */
char *linked_port_in(char *url);

/* In a function whose `linked` is called scene. */
#define TAKES(count, ...)                                                                                              \
  do {                                                                                                                 \
    long before_it = link_round_trips(scene.link);                                                                     \
    __VA_ARGS__;                                                                                                       \
    long trips = link_round_trips(scene.link) - before_it;                                                             \
    if (trips != (count)) fail_msg("line %d: %ld round trips, not %d", __LINE__, trips, (count));                      \
  } while (0)

#endif
