/*
** Trimming: the oldest turns of a session are deleted, the base state moves along (contract 5:
** maxEvents, eventTtlSeconds).
**
** A turn is the events of one invocation. An invocation without a message of the user belongs to
** the turn before it; so does one whose message only answers calls, because the calls stand there.
** Invocations that overlap are one turn. A turn goes whole, and the newest one stays.
*/
#ifndef MP_SERVICE_EXPIRY_TRIM_H
#define MP_SERVICE_EXPIRY_TRIM_H

#include "service/service.h"

/* How much is deleted in one transaction at most, so that it holds nobody up. */
#define MP_TRIMMED_AT_ONCE 1024

/* Does an append have to look for turns to delete? */
static inline bool mp_trims(const moonpad_service *service) {
  return service->options.max_events > 0 || service->options.event_ttl_seconds > 0;
}

/*
** The oldest turns of a session, as far as somebody has looked: the next ones to go. Whoever trims
** the session again need not look then.
*/
#define MP_KNOWN_TURNS 8
typedef struct mp_known_turns {
  int64_t base_revision; /* they begin behind it; the session may have been trimmed since */
  int64_t one_turn_to;   /* all events behind it, up to this one, are one turn; 0: not known */
  size_t count;
  struct {
    int64_t last;     /* the revision of its last event */
    double timestamp; /* of that event */
  } turns[MP_KNOWN_TURNS];
} mp_known_turns;

typedef struct mp_trimming {
  moonpad_service *service;
  const mp_session_ref *ref; /* by id */
  double now;
  int64_t max_events;  /* what is to be left; 0: any number */
  bool may_begin_turn; /* the last event is a message of the user, or is not known */
} mp_trimming;

/*
** In a transaction that writes: deletes the oldest turns of a session whose row is `row`, moves
** row->base_revision, and stores the row's numbers. `known` is all zero at first. *trimmed (may be
** NULL): how many events. Errors: unsupported (the store cannot), no_memory, those of the store.
*/
moonpad_status mp_trim(const mp_trimming *trimming, mp_tx *tx, mp_session_row *row, mp_known_turns *known,
                       int64_t *trimmed, moonpad_error *error);

#endif
