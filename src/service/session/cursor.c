/* Event cursors: a history of any length, read in pages whose text is borrowed (contract 6). */
#include "service/session/cursor.h"

#include "base/error.h"
#include "base/options.h"
#include "service/session/events.h"

#define FIRST_PAGE 16 /* events: the first look may be the only one */
#define LAST_PAGE  256
#define PAGE_BYTES ((size_t)1024 * 1024)

struct moonpad_event_cursor {
  moonpad_service *service;
  mp_env *env;
  /* Of the session: app, user, id. The strings of `ref` are these. */
  mp_key *names[3];
  mp_session_ref ref;
  /* The events: revisions in `chosen`, ascending, then a run from `first` without gaps. */
  int64_t *chosen;
  size_t chosen_count;
  int64_t first;
  /* All of them, and how many have been handed out. */
  size_t count;
  size_t done;
  bool newest_first;
  /* Events of the next page. */
  size_t page_size;
  mp_page *page;
  /* The last one that was handed out. */
  moonpad_event borrowed;
};

moonpad_event_cursor *mp_event_cursor_new(const moonpad_session *session, int64_t first, int64_t last) {
  moonpad_event_cursor *cursor = mp_allocate_zeroed(session->env, sizeof *cursor);
  if (cursor == NULL) return NULL;
  cursor->service = moonpad_service_retain(session->service);
  cursor->env = mp_env_retain(session->env);
  cursor->names[0] = mp_key_retain(session->app_name);
  cursor->names[1] = mp_key_retain(session->user_id);
  cursor->names[2] = mp_key_retain(session->id);
  cursor->ref = mp_session_ref_of(session);
  cursor->first = first;
  cursor->count = last < first ? 0 : (size_t)(last - first + 1);
  cursor->page_size = FIRST_PAGE;
  return cursor;
}

void moonpad_event_cursor_free(moonpad_event_cursor *cursor) {
  if (cursor == NULL) return;
  mp_env *env = cursor->env;
  moonpad_service *service = cursor->service;
  for (size_t i = 0; i < sizeof cursor->names / sizeof *cursor->names; i++) mp_key_release(env, cursor->names[i]);
  mp_page_free(env, cursor->page);
  mp_release(env, cursor->chosen);
  mp_release(env, cursor);
  mp_env_release(env);
  moonpad_service_release(service);
}

/* ---- opening ---- */

static moonpad_status open_shown(moonpad_session *session, moonpad_event_cursor **cursor, moonpad_error *error) {
  size_t count;
  moonpad_status status = moonpad_session_event_count(session, &count, error);
  if (status != MOONPAD_OK) return status;
  *cursor = mp_event_cursor_new(session, session->first_event, session->row.revision);
  if (*cursor == NULL) return mp_no_memory(error);
  if (session->chosen_count == 0) return MOONPAD_OK;
  size_t bytes = session->chosen_count * sizeof *session->chosen;
  (*cursor)->chosen = mp_allocate(session->env, bytes);
  if ((*cursor)->chosen == NULL) return mp_no_memory(error);
  memcpy((*cursor)->chosen, session->chosen, bytes);
  (*cursor)->chosen_count = session->chosen_count;
  (*cursor)->count += session->chosen_count;
  return MOONPAD_OK;
}

static moonpad_status open_range(moonpad_session *session, int64_t first, int64_t last, moonpad_event_cursor **cursor,
                                 moonpad_error *error) {
  if (first == 0) first = session->row.base_revision + 1;
  if (last == 0 || last > session->row.revision) last = session->row.revision;
  *cursor = mp_event_cursor_new(session, first, last);
  return *cursor == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status moonpad_event_cursor_open(moonpad_session *session, const moonpad_event_cursor_options *given,
                                         moonpad_event_cursor **cursor, moonpad_error *error) {
  *cursor = NULL;
  moonpad_event_cursor_options options;
  moonpad_event_cursor_options_init(&options);
  moonpad_status status =
      mp_take_options("moonpad_event_cursor_options", MP_SIZE_UP_TO(moonpad_event_cursor_options, newest_first), given,
                      &options, sizeof options, error);
  if (status == MOONPAD_OK) status = mp_check_open(session->service, error);
  if (status != MOONPAD_OK) return status;
  if (options.first_revision < 0 || options.last_revision < 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: must not be negative",
                   options.first_revision < 0 ? "first_revision" : "last_revision");
  }
  moonpad_event_cursor *made = NULL;
  bool in_range = options.first_revision != 0 || options.last_revision != 0;
  status = in_range ? open_range(session, options.first_revision, options.last_revision, &made, error)
                    : open_shown(session, &made, error);
  if (status != MOONPAD_OK) {
    moonpad_event_cursor_free(made);
    return status;
  }
  made->newest_first = options.newest_first;
  *cursor = made;
  return MOONPAD_OK;
}

/* ---- reading ---- */

/* `index` counts from the oldest event on. */
static int64_t revision_at(const moonpad_event_cursor *cursor, size_t index) {
  size_t chosen = cursor->chosen_count;
  return index < chosen ? cursor->chosen[index] : cursor->first + (int64_t)(index - chosen);
}

typedef struct page_read {
  const moonpad_event_cursor *cursor;
  mp_expiry expiry;
  int64_t first, last;
} page_read;

static moonpad_status read_page(mp_tx *tx, void *context, moonpad_error *error) {
  page_read *read = context;
  const moonpad_event_cursor *cursor = read->cursor;
  mp_page_clear(cursor->page);
  moonpad_status status = mp_expiry_look(&read->expiry, tx, error);
  if (status != MOONPAD_OK) return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
  return mp_page_read(cursor->page, tx, &cursor->ref, read->first, read->last, error);
}

static bool make_room(moonpad_event_cursor *cursor) {
  if (cursor->page != NULL && mp_page_capacity(cursor->page) >= cursor->page_size) return true;
  mp_page_free(cursor->env, cursor->page);
  cursor->page = mp_page_new(cursor->env, cursor->page_size);
  if (cursor->page == NULL) return false;
  mp_page_limit(cursor->page, PAGE_BYTES);
  return true;
}

/* So many events as a rule have the bytes of a page. */
static void choose_size(moonpad_event_cursor *cursor, size_t asked) {
  size_t count = mp_page_count(cursor->page);
  if (count < asked)
    cursor->page_size = count > 0 ? count : 1;
  else if (cursor->page_size < LAST_PAGE)
    cursor->page_size *= 2;
}

/*
** Reads the page that begins, or newest first ends, with that revision. A page is read from its
** oldest event on: where its bytes do not suffice for the newest one, it was too long.
*/
static moonpad_status load_page(moonpad_event_cursor *cursor, int64_t revision, moonpad_error *error) {
  int64_t oldest = revision_at(cursor, 0), newest = revision_at(cursor, cursor->count - 1);
  for (;;) {
    if (!make_room(cursor)) return mp_no_memory(error);
    int64_t more = (int64_t)cursor->page_size - 1;
    page_read read = {.cursor = cursor, .first = revision, .last = revision};
    if (cursor->newest_first)
      read.first = revision - oldest < more ? oldest : revision - more;
    else
      read.last = newest - revision < more ? newest : revision + more;
    mp_store *store = cursor->service->store;
    moonpad_status status = mp_expiry_begin(&read.expiry, cursor->service, &cursor->ref, MP_ALL_HEADS, error);
    if (status == MOONPAD_OK) status = store->ops->read(store, read_page, &read, error);
    if (status != MOONPAD_OK) {
      /* It may be half filled. */
      mp_page_free(cursor->env, cursor->page);
      cursor->page = NULL;
      return status;
    }
    size_t asked = (size_t)(read.last - read.first + 1);
    choose_size(cursor, asked);
    if (mp_page_borrow(cursor->page, revision, &cursor->borrowed)) return MOONPAD_OK;
    bool too_long = cursor->newest_first && asked > 1 && mp_page_count(cursor->page) > 0;
    if (!too_long) break;
    cursor->page_size = 1 + (asked - 1) / 4;
  }
  return mp_fail(error, MOONPAD_NOT_FOUND, "event %lld of this session is not stored any more", (long long)revision);
}

moonpad_status mp_event_cursor_check(const moonpad_event_cursor *cursor, moonpad_error *error) {
  return mp_check_open(cursor->service, error);
}

static int64_t next_revision(const moonpad_event_cursor *cursor) {
  size_t index = cursor->newest_first ? cursor->count - cursor->done - 1 : cursor->done;
  return revision_at(cursor, index);
}

bool mp_event_cursor_is_ready(const moonpad_event_cursor *cursor) {
  moonpad_event event;
  return cursor->done == cursor->count || mp_page_borrow(cursor->page, next_revision(cursor), &event);
}

moonpad_status mp_event_cursor_load(moonpad_event_cursor *cursor, moonpad_error *error) {
  moonpad_status status = mp_event_cursor_check(cursor, error);
  if (status != MOONPAD_OK || mp_event_cursor_is_ready(cursor)) return status;
  return load_page(cursor, next_revision(cursor), error);
}

moonpad_status moonpad_event_cursor_next(moonpad_event_cursor *cursor, const moonpad_event **event,
                                         moonpad_error *error) {
  *event = NULL;
  moonpad_status status = mp_event_cursor_check(cursor, error);
  if (status != MOONPAD_OK || cursor->done == cursor->count) return status;
  int64_t revision = next_revision(cursor);
  if (!mp_page_borrow(cursor->page, revision, &cursor->borrowed)) status = load_page(cursor, revision, error);
  if (status != MOONPAD_OK) return status;
  cursor->done++;
  *event = &cursor->borrowed;
  return MOONPAD_OK;
}
