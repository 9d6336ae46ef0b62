/*
** Events: any text is appended as an event. Either nothing has changed, or there is one event more, which is read back as it was returned, and which may come a second time.
*/
#include "fuzz.h"

#define EVENTS_PER_SESSION 500

typedef struct place {
  moonpad_service *service;
  moonpad_session *session;
  unsigned number;
} place;

static moonpad_session_name name_of(void) {
  moonpad_session_name name = {moonpad_text("app"), moonpad_text("user"), moonpad_text("s")};
  return name;
}

static void renew_session(place *place) {
  moonpad_session_name name = name_of();
  moonpad_error error;
  if (place->session != NULL) {
    bool existed;
    moonpad_session_free(place->session);
    HOLDS(moonpad_delete_session(place->service, &name, &existed, &error) == MOONPAD_OK && existed);
  }
  HOLDS(moonpad_create_session(place->service, &name, moonpad_text("{\"kept\":[1]}"), &place->session, &error) ==
        MOONPAD_OK);
}

static size_t event_count(moonpad_session *session) {
  size_t count = 0;
  HOLDS(moonpad_session_event_count(session, &count, NULL) == MOONPAD_OK);
  return count;
}

static void expect_stored(place *place, const moonpad_event *stored, int64_t revision, size_t count) {
  if (moonpad_event_revision(stored) <= revision) { /* partial (0), or here already */
    HOLDS(moonpad_session_revision(place->session) == revision && event_count(place->session) == count);
    return;
  }
  moonpad_event *found, *again;
  HOLDS(moonpad_session_revision(place->session) == revision + 1 && event_count(place->session) == count + 1);
  HOLDS(moonpad_session_event(place->session, count, &found, NULL) == MOONPAD_OK);
  HOLDS(same_text(moonpad_event_json(found), moonpad_event_json(stored)));
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_status status = moonpad_append_event(place->session, moonpad_event_json(stored), &again, &error);
  if (status != MOONPAD_OK) broken("the same event again: %s", error.message);
  HOLDS(same_text(moonpad_event_json(again), moonpad_event_json(stored)));
  HOLDS(moonpad_session_revision(place->session) == revision + 1);
  moonpad_event_free(found);
  moonpad_event_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static place place;
  moonpad_error error = {MOONPAD_OK, ""};
  if (place.service == NULL) HOLDS(moonpad_open(moonpad_text("memory:"), NULL, &place.service, &error) == MOONPAD_OK);
  if (place.number++ % EVENTS_PER_SESSION == 0) renew_session(&place);
  int64_t revision = moonpad_session_revision(place.session);
  size_t count = event_count(place.session);
  moonpad_event *stored = NULL;
  moonpad_status status = moonpad_append_event(place.session, input_text(data, size), &stored, &error);
  if (status == MOONPAD_OK) {
    expect_stored(&place, stored, revision, count);
    moonpad_event_free(stored);
  } else {
    expect_error(&error, status, MOONPAD_INVALID_ARGUMENT, MOONPAD_ALREADY_EXISTS);
    HOLDS(stored == NULL && moonpad_session_revision(place.session) == revision && event_count(place.session) == count);
  }
  return 0;
}
