/*
** When artifacts and memories expire (contract 5: artifactTtlSeconds, memoryTtlSeconds). Each file
** and each memory has its own clock. It is renewed by what writes it, and by what reads it: load
** and search. What has expired is absent in every call, whether it has been swept or not. As with
** sessions, what is stored is when something was used; the time to live is that of the service
** that asks.
*/
#ifndef MP_AGENT_STORES_EXPIRY_H
#define MP_AGENT_STORES_EXPIRY_H

#include <math.h>

/* Of one call. */
typedef struct mp_agent_time {
  double now;          /* seconds since 1970 */
  double time_to_live; /* in seconds; 0: for ever */
} mp_agent_time;

/* What was last used before that has expired. */
static inline double mp_agent_alive_since(const mp_agent_time *time) {
  return time->time_to_live > 0 ? time->now - time->time_to_live : -HUGE_VAL;
}

/*
** A read stores that something is used if it was last used before that: reads seldom write. So an
** entry may expire a sixteenth of its time too early. Where others hold the lock just then, it is
** left to the next use.
*/
static inline double mp_agent_renewed_since(const mp_agent_time *time) {
  return time->time_to_live > 0 ? time->now - time->time_to_live / 16 : -HUGE_VAL;
}

#endif
