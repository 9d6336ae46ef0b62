/* Event objects for callers. */
#include "service/session/event.h"

moonpad_event *mp_event_new(mp_env *env, moonpad_string json, moonpad_string id, int64_t revision, double timestamp) {
  moonpad_event *event = mp_allocate(env, sizeof *event + json.length + id.length + 1);
  if (event == NULL) return NULL;
  event->env = mp_env_retain(env);
  event->revision = revision;
  event->timestamp = timestamp;
  char *bytes = (char *)(event + 1);
  memcpy(bytes, json.data, json.length);
  bytes[json.length] = '\0';
  if (id.length != 0) memcpy(bytes + json.length + 1, id.data, id.length);
  event->json = (moonpad_string){bytes, json.length};
  event->id = (moonpad_string){bytes + json.length + 1, id.length};
  return event;
}

void moonpad_event_free(moonpad_event *event) {
  if (event == NULL) return;
  mp_env *env = event->env;
  mp_release(env, event);
  mp_env_release(env);
}

moonpad_string moonpad_event_json(const moonpad_event *event) {
  return event->json;
}
int64_t moonpad_event_revision(const moonpad_event *event) {
  return event->revision;
}
moonpad_string moonpad_event_id(const moonpad_event *event) {
  return event->id;
}
double moonpad_event_timestamp(const moonpad_event *event) {
  return event->timestamp;
}
