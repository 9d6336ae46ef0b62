/* Pages of events. */
#include "service/session/page.h"

#include "base/error.h"

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

static const paged_event *find(const mp_page *page, int64_t revision) {
  if (page == NULL || page->count == 0 || revision < page->first) return NULL;
  uint64_t offset = (uint64_t)(revision - page->first);
  return offset < page->count ? &page->events[offset] : NULL;
}

bool mp_page_borrow(const mp_page *page, int64_t revision, moonpad_event *event) {
  const paged_event *found = find(page, revision);
  if (found == NULL) return false;
  const char *bytes = page->bytes.data;
  event->env = NULL;
  event->revision = revision;
  event->timestamp = found->timestamp;
  event->json = (moonpad_string){bytes + found->json, found->id - found->json - 1};
  event->id = (moonpad_string){bytes + found->id, found->end - found->id};
  return true;
}

bool mp_page_has(const mp_page *page, int64_t revision) {
  return find(page, revision) != NULL;
}

bool mp_page_range(const mp_page *page, int64_t *first, int64_t *end) {
  if (page == NULL || page->count == 0) return false;
  *first = page->first;
  *end = page->first + (int64_t)page->count;
  return true;
}
