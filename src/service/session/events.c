/* Events as a session object shows them: counted, filtered, read in pages (contract 2). */
#include "service/session/events.h"

#include "base/error.h"

#define SMALL_PAGE 16  /* the first look may be the only one */
#define LARGE_PAGE 128 /* events read in order */

/*
** The page there is, or a larger one: reading in order goes from page to page in the same memory.
*/
static mp_page *page_for(moonpad_session *session, size_t capacity) {
  if (session->page == NULL || mp_page_capacity(session->page) < capacity) {
    mp_page_free(session->env, session->page);
    session->page = mp_page_new(session->env, capacity);
  }
  return session->page;
}

/* ---- what is read before an event can be shown ---- */

static moonpad_status read_page_in(mp_tx *tx, void *context, moonpad_error *error) {
  mp_event_read *read = context;
  mp_page_clear(read->page);
  moonpad_status status = mp_expiry_look(&read->expiry, tx, error);
  if (status != MOONPAD_OK) return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
  return mp_page_read(read->page, tx, &read->ref, read->first, read->last, error);
}

/* Forwards in large pages once a small one has been read to its end, backwards likewise. */
static void choose_range(const moonpad_session *session, int64_t revision, int64_t *first, int64_t *last) {
  int64_t size = SMALL_PAGE, page_first, page_end;
  bool backwards = false;
  if (mp_page_range(session->page, &page_first, &page_end)) {
    backwards = revision == page_first - 1;
    if (revision == page_end || backwards) size = LARGE_PAGE;
  }
  *first = backwards ? revision - size + 1 : revision;
  if (*first <= session->row.base_revision) *first = session->row.base_revision + 1;
  *last = backwards ? revision : revision + size - 1;
  if (*last > session->row.revision) *last = session->row.revision;
}

static moonpad_status filter_event(void *context, const mp_event_row *row, moonpad_error *error) {
  mp_event_read *read = context;
  if (row->timestamp < read->after_timestamp) return MOONPAD_OK;
  if (!mp_reserve(read->service->env, (void **)&read->chosen, &read->chosen_capacity, sizeof *read->chosen,
                  read->chosen_count + 1)) {
    return mp_no_memory(error);
  }
  read->chosen[read->chosen_count++] = row->revision;
  return MOONPAD_OK;
}

static moonpad_status filter_in(mp_tx *tx, void *context, moonpad_error *error) {
  mp_event_read *read = context;
  read->chosen_count = 0;
  moonpad_status status = mp_expiry_look(&read->expiry, tx, error);
  if (status != MOONPAD_OK) return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
  mp_event_query query = {.first = read->first, .last = read->last, .without_json = true};
  return tx->ops->each_event(tx, &read->ref, &query, filter_event, read, error);
}

static bool is_filter_pending(moonpad_session *session) {
  if (session->recent == 0) session->filter_pending = false;
  return session->filter_pending;
}

/* 0: it does not show so many. The filter has been applied. */
static int64_t revision_at(const moonpad_session *session, size_t index) {
  if (index < session->chosen_count) return session->chosen[index];
  int64_t range = session->row.revision - session->first_event + 1;
  size_t behind = index - session->chosen_count;
  return range > 0 && behind < (size_t)range ? session->first_event + (int64_t)behind : 0;
}

static moonpad_status fail_not_stored(const mp_event_read *read, moonpad_error *error) {
  return mp_fail(error, MOONPAD_NOT_FOUND, "event %lld of this session is not stored any more",
                 (long long)read->revision);
}

moonpad_status mp_event_read_begin(mp_event_read *read, moonpad_session *session, size_t index, bool apart,
                                   moonpad_error *error) {
  memset(read, 0, sizeof *read);
  read->service = session->service;
  read->ref = mp_session_ref_of(session);
  moonpad_status status = mp_expiry_begin(&read->expiry, read->service, &read->ref, MP_ALL_HEADS, error);
  if (status != MOONPAD_OK) return status;
  if (is_filter_pending(session)) {
    read->first = session->row.base_revision + 1;
    read->last = session->filter_revision;
    read->after_timestamp = session->after_timestamp;
    return MOONPAD_OK;
  }
  read->revision = revision_at(session, index);
  if (read->revision != 0 && read->revision <= session->row.base_revision) return fail_not_stored(read, error);
  choose_range(session, read->revision, &read->first, &read->last);
  size_t capacity = (size_t)(read->last - read->first + 1);
  read->page = apart ? mp_page_new(session->env, capacity) : page_for(session, capacity);
  return read->page == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status mp_event_read_run(mp_event_read *read, moonpad_error *error) {
  mp_store *store = read->service->store;
  if (read->revision == 0) return store->ops->read(store, filter_in, read, error);
  moonpad_status status = store->ops->read(store, read_page_in, read, error);
  if (status != MOONPAD_OK || mp_page_has(read->page, read->revision)) return status;
  return fail_not_stored(read, error);
}

static void apply_filter(moonpad_session *session, mp_event_read *read) {
  if (session->recent != MOONPAD_ALL_EVENTS && read->chosen_count > (size_t)session->recent) {
    size_t dropped = read->chosen_count - (size_t)session->recent;
    read->chosen_count -= dropped;
    memmove(read->chosen, read->chosen + dropped, read->chosen_count * sizeof *read->chosen);
  }
  session->chosen = read->chosen;
  session->chosen_count = read->chosen_count;
  session->filter_pending = false;
  read->chosen = NULL;
}

void mp_event_read_end(mp_event_read *read, moonpad_session *session, bool is_read) {
  mp_env *env = session->env;
  if (read->revision == 0) {
    if (is_read && session->filter_pending) apply_filter(session, read);
    mp_release(env, read->chosen);
    read->chosen = NULL;
    return;
  }
  mp_page *other = session->page == read->page ? NULL : session->page;
  session->page = is_read ? read->page : other;
  mp_page_free(env, is_read ? other : read->page);
  read->page = NULL;
  read->revision = 0;
}

static moonpad_status read_at_once(moonpad_session *session, size_t index, moonpad_error *error) {
  mp_event_read read;
  moonpad_status status = mp_event_read_begin(&read, session, index, false, error);
  if (status == MOONPAD_OK) status = mp_event_read_run(&read, error);
  mp_event_read_end(&read, session, status == MOONPAD_OK);
  return status;
}

/* ---- what the session object shows ---- */

moonpad_status moonpad_session_event_count(moonpad_session *session, size_t *count, moonpad_error *error) {
  *count = 0;
  if (is_filter_pending(session)) {
    moonpad_status status = read_at_once(session, 0, error);
    if (status != MOONPAD_OK) return status;
  }
  int64_t range = session->row.revision - session->first_event + 1;
  *count = session->chosen_count + (range > 0 ? (size_t)range : 0);
  return MOONPAD_OK;
}

/*
** Borrows the event at `index`; an empty one where the object does not show so many. False:
** something must be read first.
*/
static bool borrow_event(moonpad_session *session, size_t index, moonpad_event *event) {
  if (is_filter_pending(session)) return false;
  int64_t revision = revision_at(session, index);
  if (revision != 0) return mp_page_borrow(session->page, revision, event);
  memset(event, 0, sizeof *event);
  return true;
}

bool mp_session_event_is_ready(moonpad_session *session, size_t index) {
  moonpad_event event;
  return borrow_event(session, index, &event);
}

/* The same as borrow_event, and reads what has to be read. */
static moonpad_status find_event(moonpad_session *session, size_t index, moonpad_event *event, moonpad_error *error) {
  while (!borrow_event(session, index, event)) {
    moonpad_status status = read_at_once(session, index, error);
    if (status == MOONPAD_OK) continue;
    memset(event, 0, sizeof *event);
    return status;
  }
  return MOONPAD_OK;
}

moonpad_status mp_session_event_text(moonpad_session *session, size_t index, moonpad_string *json, int64_t *revision,
                                     moonpad_error *error) {
  moonpad_event found;
  moonpad_status status = find_event(session, index, &found, error);
  *json = found.json;
  *revision = found.revision;
  return status;
}

moonpad_status moonpad_session_event(moonpad_session *session, size_t index, moonpad_event **event,
                                     moonpad_error *error) {
  moonpad_event found;
  *event = NULL;
  moonpad_status status = find_event(session, index, &found, error);
  if (status != MOONPAD_OK) return status;
  if (found.json.data == NULL) {
    return mp_fail(error, MOONPAD_NOT_FOUND, "the session does not show as many as %zu events", index + 1);
  }
  *event = mp_event_new(session->env, found.json, found.id, found.revision, found.timestamp);
  return *event == NULL ? mp_no_memory(error) : MOONPAD_OK;
}
