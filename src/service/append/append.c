/* The synchronous append, and the calls of moonpad.h that make one (contract 2). */
#include "service/append/append.h"
#include "base/error.h"
#include "service/changes/changes.h"

#define SCRATCH_BYTES 65536 /* beyond it, the memory of a large event is given back */

/* What one append wrote its event into serves the next one. */
static void borrow_scratch(moonpad_session *session, mp_append *append) {
  append->json = session->scratch;
  mp_buffer_clear(&append->json);
  mp_buffer_init(&session->scratch, session->env);
}

static void return_scratch(moonpad_session *session, mp_append *append) {
  if (append->json.capacity > SCRATCH_BYTES) return;
  session->scratch = append->json;
  mp_buffer_init(&append->json, append->env);
}

/* A partial event is handed back as it came. */
static moonpad_status pass_partial(const moonpad_session *session, moonpad_string json, moonpad_event **stored,
                                   moonpad_error *error) {
  moonpad_status status = mp_check_open(session->service, error);
  if (status != MOONPAD_OK || stored == NULL) return status;
  *stored = mp_event_new(session->env, json, moonpad_text(NULL), 0, 0);
  return *stored == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

/*
** Of an object that has not been used for long no line of memory is in a cache: all are fetched at
** once, while the event is read.
*/
static void prefetch(const moonpad_session *session) {
#if defined(__GNUC__)
  const char *line = (const char *)session;
  for (size_t at = 64; at < sizeof *session; at += 64) __builtin_prefetch(line + at, 1);
#else
  (void)session;
#endif
}

/* As a plan where the store takes plans; what is not that simple is decided in a transaction. */
static moonpad_status store_append(mp_append *append, moonpad_error *error) {
  mp_store *store = append->service->store;
  if (MP_HAS(mp_store_ops, store->ops, append)) {
    mp_append_sending sending = {.append = append, .error = error};
    mp_append_send(&sending, 1);
    if (sending.decided) return sending.status;
  }
  return store->ops->write(store, mp_append_run, append, error);
}

/* It is stored: without memory for the answer the caller gets no event object, yet no error. */
static moonpad_status store_and_apply(mp_append *append, moonpad_session *session, moonpad_event **stored,
                                      moonpad_error *error) {
  borrow_scratch(session, append);
  moonpad_status status = store_append(append, error);
  mp_append_keep_conflicts(append, session);
  if (status == MOONPAD_OK) {
    mp_append_apply(append, session);
    if (stored != NULL) *stored = mp_append_event(append);
  } else {
    mp_append_forget_outcome(append);
  }
  return_scratch(session, append);
  return status;
}

moonpad_status mp_append_now(moonpad_session *session, const mp_append_request *request, moonpad_event **stored,
                             moonpad_error *error) {
  if (stored != NULL) *stored = NULL;
  prefetch(session);
  mp_session_drain(session);
  mp_append append;
  moonpad_status status = mp_append_prepare(&append, session, request, error);
  if (status != MOONPAD_OK) return status;
  append.live = session;
  status = append.draft.partial ? pass_partial(session, request->event, stored, error)
                                : store_and_apply(&append, session, stored, error);
  mp_append_free(&append);
  return status;
}

bool mp_append_request_of_update(moonpad_session *session, mp_append_request *request) {
  mp_session_drain_unshown(session);
  *request = (mp_append_request){
      .event = moonpad_text("{\"author\":\"system\"}"), .is_trusted = true, .changes = session->own};
  return session->own != NULL && moonpad_changes_pending(session->own);
}

moonpad_status moonpad_append_event(moonpad_session *session, moonpad_string event, moonpad_event **stored,
                                    moonpad_error *error) {
  return mp_append_now(session, &(mp_append_request){.event = event}, stored, error);
}

moonpad_status moonpad_changes_commit(moonpad_changes *changes, moonpad_string event, moonpad_event **stored,
                                      moonpad_error *error) {
  if (stored != NULL) *stored = NULL;
  moonpad_status status = mp_changes_refuse_commit(changes, error);
  if (status != MOONPAD_OK) return status;
  mp_append_request request = {.event = event, .changes = changes};
  return mp_append_now(mp_changes_session(changes), &request, stored, error);
}

moonpad_status moonpad_update_session(moonpad_session *session, moonpad_event **stored, moonpad_error *error) {
  if (stored != NULL) *stored = NULL;
  mp_append_request request;
  if (!mp_append_request_of_update(session, &request)) return mp_check_open(session->service, error);
  return mp_append_now(session, &request, stored, error);
}
