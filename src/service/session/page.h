/* A run of stored events without gaps, copied out of the store in one read. */
#ifndef MP_SERVICE_SESSION_PAGE_H
#define MP_SERVICE_SESSION_PAGE_H

#include "service/session/event.h"
#include "store/store.h"

typedef struct mp_page mp_page;

/* Room for so many events; NULL when out of memory. */
mp_page *mp_page_new(mp_env *env, size_t capacity);
void mp_page_free(mp_env *env, mp_page *page);
/* Replaces what is in it by the events of a stored session from one revision to another. */
moonpad_status mp_page_read(mp_page *page, mp_tx *tx, const mp_session_ref *session, int64_t first, int64_t last,
                            moonpad_error *error);
/* An mp_each_event that adds to a page; the context is the page. */
moonpad_status mp_page_add(void *page, const mp_event_row *row, moonpad_error *error);
void mp_page_clear(mp_page *page);
/*
** From now on it stops before an event that would make it longer than so many bytes. It always
** takes one.
*/
void mp_page_limit(mp_page *page, size_t most);
size_t mp_page_count(const mp_page *page);
size_t mp_page_capacity(const mp_page *page);
/* Its revisions: `first` and those before `end`. False: it is NULL, or empty. */
bool mp_page_range(const mp_page *page, int64_t *first, int64_t *end);
/* Is the event of that revision in it? The page may be NULL. */
bool mp_page_has(const mp_page *page, int64_t revision);
/* The same; then *event is borrowed until the page is filled again or freed. */
bool mp_page_borrow(const mp_page *page, int64_t revision, moonpad_event *event);

#endif
