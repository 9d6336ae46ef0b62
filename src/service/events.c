/* Events as a session object shows them: counted, filtered, read in pages (contract 2, session.events). */
#include "base/error.h"
#include "service/session.h"

struct moonpad_event {
  mp_env *env;
  int64_t revision;
  double timestamp;
  moonpad_string id;
  moonpad_string json;
  char bytes[];
};

moonpad_event *mp_event_new(mp_env *env, moonpad_string json, moonpad_string id, int64_t revision, double timestamp) {
  moonpad_event *event = mp_allocate(env, sizeof *event + json.length + id.length + 1);
  if (event == NULL) return NULL;
  event->env = mp_env_retain(env);
  event->revision = revision;
  event->timestamp = timestamp;
  memcpy(event->bytes, json.data, json.length);
  event->bytes[json.length] = '\0';
  if (id.length != 0) memcpy(event->bytes + json.length + 1, id.data, id.length);
  event->json.data = event->bytes;
  event->json.length = json.length;
  event->id.data = event->bytes + json.length + 1;
  event->id.length = id.length;
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

/* ---- pages ---- */

#define SMALL_PAGE 16  /* the first look may be the only one */
#define LARGE_PAGE 256 /* events read in order */

/* A run of events by revision, copied out of the store in one read. */
struct mp_page {
  int64_t first;
  size_t count;
  moonpad_event *events[LARGE_PAGE];
};

void mp_page_free(moonpad_session *session) {
  mp_page *page = session->page;
  if (page == NULL) return;
  for (size_t i = 0; i < page->count; i++) moonpad_event_free(page->events[i]);
  mp_release(session->env, page);
  session->page = NULL;
}

typedef struct page_read {
  moonpad_session *session;
  mp_page *page;
  int64_t last;
} page_read;

static moonpad_status add_to_page(void *context, const mp_event_row *row, moonpad_error *error) {
  page_read *read = context;
  mp_page *page = read->page;
  moonpad_event *event = mp_event_new(read->session->env, row->json, row->id, row->revision, row->timestamp);
  if (event == NULL) return mp_no_memory(error);
  if (page->count == 0) page->first = row->revision;
  page->events[page->count++] = event;
  return MOONPAD_OK;
}

static void empty_page(mp_page *page) {
  for (size_t i = 0; i < page->count; i++) moonpad_event_free(page->events[i]);
  page->count = 0;
}

static moonpad_status read_page_in(mp_tx *tx, void *context, moonpad_error *error) {
  page_read *read = context;
  empty_page(read->page);
  return tx->ops->each_event(tx, read->session->row.id, read->page->first, read->last, add_to_page, read, error);
}

static moonpad_event *in_page(const mp_page *page, int64_t revision) {
  if (page == NULL || page->count == 0 || revision < page->first) return NULL;
  uint64_t offset = (uint64_t)(revision - page->first);
  return offset < page->count ? page->events[offset] : NULL;
}

/* Forwards in large pages once a small one has been read to its end, backwards likewise. */
static void choose_range(const moonpad_session *session, int64_t revision, int64_t *first, int64_t *last) {
  const mp_page *page = session->page;
  int64_t size = SMALL_PAGE;
  bool backwards = false;
  if (page != NULL && page->count > 0) {
    int64_t end = page->first + (int64_t)page->count;
    backwards = revision == page->first - 1;
    if (revision == end || backwards) size = LARGE_PAGE;
  }
  *first = backwards ? revision - size + 1 : revision;
  if (*first <= session->row.base_revision) *first = session->row.base_revision + 1;
  *last = backwards ? revision : revision + size - 1;
  if (*last > session->row.revision) *last = session->row.revision;
}

static moonpad_status load_page(moonpad_session *session, int64_t revision, moonpad_error *error) {
  page_read read = {session, NULL, 0};
  read.page = mp_allocate_zeroed(session->env, sizeof *read.page);
  if (read.page == NULL) return mp_no_memory(error);
  choose_range(session, revision, &read.page->first, &read.last);
  mp_store *store = session->service->store;
  moonpad_status status = store->ops->read(store, read_page_in, &read, error);
  if (status == MOONPAD_OK && in_page(read.page, revision) == NULL) {
    status =
        mp_fail(error, MOONPAD_NOT_FOUND, "event %lld of this session is not stored any more", (long long)revision);
  }
  if (status != MOONPAD_OK) {
    empty_page(read.page);
    mp_release(session->env, read.page);
    return status;
  }
  mp_page_free(session);
  session->page = read.page;
  return MOONPAD_OK;
}

/* ---- the after_timestamp filter: applied when events are first looked at ---- */

typedef struct filter_read {
  moonpad_session *session;
  int64_t *revisions;
  size_t count;
  size_t capacity;
} filter_read;

static moonpad_status filter_event(void *context, const mp_event_row *row, moonpad_error *error) {
  filter_read *filter = context;
  if (row->timestamp < filter->session->after_timestamp) return MOONPAD_OK;
  if (!mp_reserve(filter->session->env, (void **)&filter->revisions, &filter->capacity, sizeof *filter->revisions,
                  filter->count + 1)) {
    return mp_no_memory(error);
  }
  filter->revisions[filter->count++] = row->revision;
  return MOONPAD_OK;
}

static moonpad_status filter_in(mp_tx *tx, void *context, moonpad_error *error) {
  filter_read *filter = context;
  filter->count = 0;
  const moonpad_session *session = filter->session;
  return tx->ops->each_event(tx, session->row.id, session->row.base_revision + 1, session->filter_revision,
                             filter_event, filter, error);
}

static moonpad_status apply_filter(moonpad_session *session, moonpad_error *error) {
  if (!session->filter_pending) return MOONPAD_OK;
  filter_read filter = {session, NULL, 0, 0};
  mp_store *store = session->service->store;
  moonpad_status status = MOONPAD_OK;
  if (session->recent != 0) status = store->ops->read(store, filter_in, &filter, error);
  if (status != MOONPAD_OK) {
    mp_release(session->env, filter.revisions);
    return status;
  }
  if (session->recent != MOONPAD_ALL_EVENTS && filter.count > (size_t)session->recent) {
    size_t dropped = filter.count - (size_t)session->recent;
    filter.count -= dropped;
    memmove(filter.revisions, filter.revisions + dropped, filter.count * sizeof *filter.revisions);
  }
  session->chosen = filter.revisions;
  session->chosen_count = filter.count;
  session->filter_pending = false;
  return MOONPAD_OK;
}

moonpad_status moonpad_session_event_count(moonpad_session *session, size_t *count, moonpad_error *error) {
  *count = 0;
  moonpad_status status = apply_filter(session, error);
  if (status != MOONPAD_OK) return status;
  int64_t range = session->row.revision - session->first_event + 1;
  *count = session->chosen_count + (range > 0 ? (size_t)range : 0);
  return MOONPAD_OK;
}

moonpad_status moonpad_session_event(moonpad_session *session, size_t index, moonpad_event **event,
                                     moonpad_error *error) {
  *event = NULL;
  size_t count;
  moonpad_status status = moonpad_session_event_count(session, &count, error);
  if (status != MOONPAD_OK) return status;
  if (index >= count) {
    return mp_fail(error, MOONPAD_NOT_FOUND, "the session shows %zu events, there is no event %zu", count, index + 1);
  }
  int64_t revision = index < session->chosen_count ? session->chosen[index]
                                                   : session->first_event + (int64_t)(index - session->chosen_count);
  if (in_page(session->page, revision) == NULL) {
    status = load_page(session, revision, error);
    if (status != MOONPAD_OK) return status;
  }
  const moonpad_event *paged = in_page(session->page, revision);
  *event = mp_event_new(session->env, paged->json, paged->id, paged->revision, paged->timestamp);
  return *event == NULL ? mp_no_memory(error) : MOONPAD_OK;
}
