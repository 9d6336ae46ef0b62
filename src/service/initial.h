/* State given as one JSON object: the initial state of a session, or an update of user or app state. */
#ifndef MP_SERVICE_INITIAL_H
#define MP_SERVICE_INITIAL_H

#include "base/map.h"
#include "service/service.h"

typedef struct mp_initial_entry {
  mp_key *key; /* as given */
  mp_scope scope;
  mp_value *value; /* NULL: removal */
} mp_initial_entry;

typedef struct mp_initial_state {
  mp_env *env;
  mp_initial_entry *entries;
  size_t count;
  size_t capacity;
} mp_initial_state;

/* Empty text gives no entries. On failure there is nothing to free. */
moonpad_status mp_initial_read(moonpad_service *service, moonpad_string state, mp_initial_state *initial,
                               moonpad_error *error);
/* What is of the session's scope against max_state_bytes. */
moonpad_status mp_initial_check_total(const moonpad_service *service, const mp_initial_state *initial,
                                      moonpad_error *error);
/* Adds removals for the strings of a JSON array (or empty text). */
moonpad_status mp_initial_read_removed(moonpad_service *service, moonpad_string removed, mp_initial_state *initial,
                                       moonpad_error *error);
void mp_initial_free(mp_initial_state *initial);
bool mp_initial_touches(const mp_initial_state *initial, mp_scope scope);

#endif
