/* The synchronous append and its faces (contract 2). */
#include "base/error.h"
#include "service/append/append.h"
#include "service/changes/change_set.h"

#define SCRATCH_BYTES 65536 /* beyond it, the memory of a large event is given back */

/* What one append wrote its event into serves the next one. */
static void borrow_scratch(moonpad_session *session, mp_append *append) {
  append->json = session->scratch;
  mp_buffer_clear(&append->json);
  mp_buffer_init(&session->scratch, session->env);
}

static void give_scratch_back(moonpad_session *session, mp_append *append) {
  if (append->json.capacity > SCRATCH_BYTES) return;
  session->scratch = append->json;
  mp_buffer_init(&append->json, append->env);
}

/* A partial event is given back as it came. */
static moonpad_status pass_partial(const moonpad_session *session, moonpad_string json, moonpad_event **stored,
                                   moonpad_error *error) {
  moonpad_status status = mp_check_open(session->service, error);
  if (status != MOONPAD_OK || stored == NULL) return status;
  *stored = mp_event_new(session->env, json, moonpad_text(NULL), 0, 0);
  return *stored == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

typedef struct append_way {
  bool is_trusted; /* the text is what this library's encoder wrote */
  int64_t expected_revision;
  bool apart; /* no key may be pending and in the event's own delta */
} append_way;

/*
** An object that has not been used for long lies in many lines of memory outside the caches: all
** are asked for at once, while the event is read.
*/
static void prefetch(const moonpad_session *session) {
#if defined(__GNUC__)
  const char *line = (const char *)session;
  for (size_t at = 64; at < sizeof *session; at += 64) __builtin_prefetch(line + at, 1);
#else
  (void)session;
#endif
}

moonpad_status mp_append_refuse_shared_keys(const mp_append *append, moonpad_error *error) {
  if (append->changes == NULL) return MOONPAD_OK;
  for (size_t i = 0; i < append->draft.delta.count; i++) {
    const mp_entry *given = &append->draft.delta.items[i];
    const mp_change *change = mp_map_get_hashed(&append->changes->map, given->key.data, given->key.length, given->hash);
    if (change == NULL || !change->pending) continue;
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "event.actions.stateDelta[%s]: this key has a pending write as well: leave one of them out",
                   mp_quote(given->key).text);
  }
  return MOONPAD_OK;
}

/* As a plan where the store takes plans; what is not that simple is decided in a transaction. */
static moonpad_status store_append(mp_append *append, moonpad_error *error) {
  mp_store *store = append->service->store;
  if (MP_HAS(mp_store_ops, store->ops, append)) {
    bool decided;
    moonpad_status status = mp_append_send(append, &decided, error);
    if (status != MOONPAD_OK || decided) return status;
  }
  return store->ops->write(store, mp_append_run, append, error);
}

static moonpad_status append_now(moonpad_session *session, moonpad_changes *changes, moonpad_string event,
                                 append_way way, moonpad_event **stored, moonpad_error *error) {
  if (stored != NULL) *stored = NULL;
  prefetch(session);
  mp_session_drain(session);
  mp_append append;
  moonpad_status status =
      mp_append_prepare(&append, session, changes, event, way.is_trusted, way.expected_revision, error);
  if (status != MOONPAD_OK) return status;
  append.live = session;
  if (way.apart) status = mp_append_refuse_shared_keys(&append, error);
  if (status != MOONPAD_OK) {
    mp_append_free(&append);
    return status;
  }
  if (append.draft.partial) {
    status = pass_partial(session, event, stored, error);
  } else {
    borrow_scratch(session, &append);
    status = store_append(&append, error);
    mp_append_keep_conflicts(&append, session);
    if (status != MOONPAD_OK) mp_append_forget_outcome(&append);
    if (status == MOONPAD_OK) {
      mp_append_apply(&append, session);
      if (stored != NULL) *stored = mp_append_event(&append);
      /*
      ** It is stored: without memory for the answer the caller gets no event object, yet no
      ** error either.
      */
    }
    give_scratch_back(session, &append);
  }
  mp_append_free(&append);
  return status;
}

moonpad_status mp_append_event_now(moonpad_session *session, moonpad_changes *changes, moonpad_string event,
                                   bool is_trusted, moonpad_event **stored, moonpad_error *error) {
  return append_now(session, changes, event, (append_way){.is_trusted = is_trusted}, stored, error);
}

moonpad_status mp_append_event_expecting(moonpad_session *session, moonpad_string event, int64_t expected_revision,
                                         moonpad_event **stored, moonpad_error *error) {
  return append_now(session, NULL, event, (append_way){.is_trusted = true, .expected_revision = expected_revision},
                    stored, error);
}

moonpad_status mp_update_session_with(moonpad_session *session, moonpad_string event, moonpad_event **stored,
                                      moonpad_error *error) {
  append_way way = {.is_trusted = true, .apart = true};
  return append_now(session, session->own, event, way, stored, error);
}

moonpad_status moonpad_append_event(moonpad_session *session, moonpad_string event, moonpad_event **stored,
                                    moonpad_error *error) {
  return mp_append_event_now(session, NULL, event, false, stored, error);
}

moonpad_status moonpad_changes_commit(moonpad_changes *changes, moonpad_string event, moonpad_event **stored,
                                      moonpad_error *error) {
  if (stored != NULL) *stored = NULL;
  moonpad_status status = mp_changes_refuse_commit(changes, error);
  if (status != MOONPAD_OK) return status;
  return mp_append_event_now(changes->session, changes, event, false, stored, error);
}

moonpad_status moonpad_update_session(moonpad_session *session, moonpad_event **stored, moonpad_error *error) {
  if (stored != NULL) *stored = NULL;
  mp_session_drain_unshown(session);
  if (session->own == NULL || session->own->pending_count == 0) return mp_check_open(session->service, error);
  return mp_append_event_now(session, session->own, moonpad_text("{\"author\":\"system\"}"), true, stored, error);
}
