/*
** Events as a session object shows them: counted, filtered, read in pages (contract
** 2, session.events).
*/
#include "base/error.h"
#include "service/session/session.h"

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

/* ---- pages ---- */

#define SMALL_PAGE 16  /* the first look may be the only one */
#define LARGE_PAGE 128 /* events read in order */

typedef struct paged_event {
  size_t json; /* offsets into the page's bytes */
  size_t id;
  size_t end;
  double timestamp;
} paged_event;

/* A run of events by revision, copied out of the store in one read. */
struct mp_page {
  int64_t first;
  size_t count;
  size_t capacity;
  size_t most; /* bytes; 0: any */
  mp_buffer bytes;
  paged_event events[];
};

mp_page *mp_page_new(mp_env *env, size_t capacity) {
  mp_page *page = mp_allocate(env, sizeof *page + capacity * sizeof page->events[0]);
  if (page == NULL) return NULL;
  page->first = 0;
  page->count = 0;
  page->capacity = capacity;
  page->most = 0;
  mp_buffer_init(&page->bytes, env);
  return page;
}

void mp_page_free(mp_env *env, mp_page *page) {
  if (page == NULL) return;
  mp_buffer_free(&page->bytes);
  mp_release(env, page);
}

/*
** The page there is, or a larger one: reading in order goes from page to page in the same memory.
*/
static mp_page *page_for(moonpad_session *session, size_t capacity) {
  if (session->page == NULL || session->page->capacity < capacity) {
    mp_page_free(session->env, session->page);
    session->page = mp_page_new(session->env, capacity);
  }
  return session->page;
}

moonpad_status mp_page_add(void *context, const mp_event_row *row, moonpad_error *error) {
  mp_page *page = context;
  mp_buffer *bytes = &page->bytes;
  if (page->count == page->capacity) return MP_STOP;
  if (page->most != 0 && page->count > 0 && bytes->length + row->json.length > page->most) return MP_STOP;
  if (page->count == 0) page->first = row->revision;
  paged_event *event = &page->events[page->count++];
  event->timestamp = row->timestamp;
  event->json = bytes->length;
  mp_buffer_add_string(bytes, row->json);
  mp_buffer_add_char(bytes, '\0');
  event->id = bytes->length;
  mp_buffer_add_string(bytes, row->id);
  event->end = bytes->length;
  return bytes->failed ? mp_no_memory(error) : MOONPAD_OK;
}

void mp_page_clear(mp_page *page) {
  page->count = 0;
  mp_buffer_clear(&page->bytes);
}

moonpad_status mp_page_read(mp_page *page, mp_tx *tx, const mp_session_ref *session, int64_t first, int64_t last,
                            moonpad_error *error) {
  mp_page_clear(page);
  mp_event_query query = {.first = first, .last = last};
  return tx->ops->each_event(tx, session, &query, mp_page_add, page, error);
}

void mp_page_limit(mp_page *page, size_t most) {
  page->most = most;
}
size_t mp_page_count(const mp_page *page) {
  return page->count;
}
size_t mp_page_capacity(const mp_page *page) {
  return page->capacity;
}

static const paged_event *in_page(const mp_page *page, int64_t revision) {
  if (page == NULL || page->count == 0 || revision < page->first) return NULL;
  uint64_t offset = (uint64_t)(revision - page->first);
  return offset < page->count ? &page->events[offset] : NULL;
}

bool mp_page_borrow(const mp_page *page, int64_t revision, moonpad_event *event) {
  const paged_event *found = in_page(page, revision);
  if (found == NULL) return false;
  const char *bytes = page->bytes.data;
  event->env = NULL;
  event->revision = revision;
  event->timestamp = found->timestamp;
  event->json = (moonpad_string){bytes + found->json, found->id - found->json - 1};
  event->id = (moonpad_string){bytes + found->id, found->end - found->id};
  return true;
}

/* ---- what is read before an event can be shown ---- */

static moonpad_status read_page_in(mp_tx *tx, void *context, moonpad_error *error) {
  const mp_event_read *read = context;
  return mp_page_read(read->page, tx, &read->place, read->first, read->last, error);
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
  mp_event_query query = {.first = read->first, .last = read->last, .without_json = true};
  return tx->ops->each_event(tx, &read->place, &query, filter_event, read, error);
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

moonpad_status mp_event_read_begin(mp_event_read *read, moonpad_session *session, size_t index, bool apart,
                                   moonpad_error *error) {
  memset(read, 0, sizeof *read);
  read->service = session->service;
  read->place = mp_session_ref_of(session);
  if (is_filter_pending(session)) {
    read->first = session->row.base_revision + 1;
    read->last = session->filter_revision;
    read->after_timestamp = session->after_timestamp;
    return MOONPAD_OK;
  }
  read->revision = revision_at(session, index);
  choose_range(session, read->revision, &read->first, &read->last);
  size_t capacity = (size_t)(read->last - read->first + 1);
  read->page = apart ? mp_page_new(session->env, capacity) : page_for(session, capacity);
  return read->page == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status mp_event_read_run(mp_event_read *read, moonpad_error *error) {
  mp_store *store = read->service->store;
  if (read->revision == 0) return store->ops->read(store, filter_in, read, error);
  moonpad_status status = store->ops->read(store, read_page_in, read, error);
  if (status != MOONPAD_OK || in_page(read->page, read->revision) != NULL) return status;
  return mp_fail(error, MOONPAD_NOT_FOUND, "event %lld of this session is not stored any more",
                 (long long)read->revision);
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
** Lends the event at `index`, or an empty one where there are not so many. False: something is to
** be read before.
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

/* Lends the event at `index` of those that the session object shows; see borrow_event. */
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
