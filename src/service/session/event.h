/*
** Event objects, as callers hold them. The caller frees what moonpad_append_event and the like
** give, with moonpad_event_free; how long their text is valid is said at moonpad_event_json
** (moonpad.h).
*/
#ifndef MP_SERVICE_SESSION_EVENT_H
#define MP_SERVICE_SESSION_EVENT_H

#include "base/env.h"

/*
** The strings of one that mp_event_new made lie behind it, in the same piece of memory. Those of a
** borrowed one lie elsewhere; its `env` is not used.
*/
struct moonpad_event {
  mp_env *env;
  int64_t revision;
  double timestamp;
  moonpad_string id;
  moonpad_string json;
};

/* A copy for a caller, who frees it with moonpad_event_free. NULL when out of memory. */
moonpad_event *mp_event_new(mp_env *env, moonpad_string json, moonpad_string id, int64_t revision, double timestamp);

#endif
