/*
** Events in pages of row pointers: small ones first, so that a short session stays small, then
** of a fixed size, so that appending never copies the history. Ids that are made from the time rise
** from event to event: as long as they do, an id above the last one is new, and any other is found
** by halving. From the first id on that does not rise, an index of hashes and 32-bit row numbers
** finds an event.
*/
#include <inttypes.h>
#include <stddef.h>

#include "base/error.h"
#include "base/map.h"
#include "store/memory/events.h"
#include "store/parts.h"

#define FIRST_PAGE_BITS 3  /* 8 rows, then 16, 32... */
#define PAGE_BITS       10 /* ...up to pages of 1024 */
#define GROWING_PAGES   (PAGE_BITS - FIRST_PAGE_BITS)
#define FIRST_INDEX     16
#define MAX_INDEX       (UINT32_C(1) << 31) /* places */
#define MAX_ROWS        (MAX_INDEX / 4 * 3)

static size_t page_rows(size_t page) {
  return page < GROWING_PAGES ? (size_t)1 << (FIRST_PAGE_BITS + page) : (size_t)1 << PAGE_BITS;
}

/* The page of a row, and its place there. */
static size_t page_of(uint32_t row, uint32_t *offset) {
  /* so that page n begins at a power of two */
  uint32_t shifted = row + (UINT32_C(1) << FIRST_PAGE_BITS);
  if (shifted >> PAGE_BITS != 0) {
    *offset = shifted & ((UINT32_C(1) << PAGE_BITS) - 1);
    return (shifted >> PAGE_BITS) + GROWING_PAGES - 1;
  }
  unsigned bits = FIRST_PAGE_BITS;
  while (shifted >> (bits + 1) != 0) bits++;
  *offset = shifted - (UINT32_C(1) << bits);
  return bits - FIRST_PAGE_BITS;
}

static mp_memory_event *event_at(const mp_memory_events *events, uint32_t row) {
  uint32_t offset;
  size_t page = page_of(row, &offset);
  return events->pages[page][offset];
}

static uint32_t hash_of(moonpad_string id) {
  uint64_t hash = mp_hash(id.data, id.length);
  return (uint32_t)(hash ^ (hash >> 32));
}

static moonpad_string id_of(const mp_memory_event *event) {
  return (moonpad_string){event->bytes + event->id_offset, event->id_length};
}

static bool has_id(const mp_memory_event *event, moonpad_string id) {
  return event->id_length == id.length && mp_same_bytes(event->bytes + event->id_offset, id.data, id.length);
}

/* ---- the rows of which the ids rise ---- */

static bool is_above_rising(const mp_memory_events *events, moonpad_string id) {
  return events->rising == 0 || mp_text_compare(id_of(event_at(events, events->rising - 1)), id) < 0;
}

static const mp_memory_event *find_rising(const mp_memory_events *events, moonpad_string id) {
  if (is_above_rising(events, id)) return NULL;
  uint32_t low = 0, high = events->rising - 1;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (mp_text_compare(id_of(event_at(events, middle)), id) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const mp_memory_event *found = event_at(events, low);
  return has_id(found, id) ? found : NULL;
}

/* ---- the index of all other rows ---- */

/*
** The place in the index of the event with that id, or the empty one where it would go. The index
** has an empty place.
*/
static mp_memory_event_place *probe(const mp_memory_events *events, moonpad_string id, uint32_t hash) {
  uint32_t mask = events->index_capacity - 1;
  for (uint32_t i = hash & mask;; i = (i + 1) & mask) {
    mp_memory_event_place *place = &events->index[i];
    if (place->row == 0 || (place->hash == hash && has_id(event_at(events, place->row - 1), id))) return place;
  }
}

/* Room for one more, at most three quarters full. */
static bool reserve_index(mp_env *env, mp_memory_events *events) {
  if (events->count - events->rising < events->index_capacity / 4 * 3) return true;
  uint32_t capacity = events->index_capacity == 0 ? FIRST_INDEX : events->index_capacity * 2;
  size_t places = capacity;
  if (places > SIZE_MAX / sizeof(mp_memory_event_place)) return false;
  mp_memory_event_place *index = mp_allocate_zeroed(env, places * sizeof *index);
  if (index == NULL) return false;
  for (uint32_t i = 0; i < events->index_capacity; i++) {
    if (events->index[i].row == 0) continue;
    uint32_t place = events->index[i].hash & (capacity - 1);
    while (index[place].row != 0) place = (place + 1) & (capacity - 1);
    index[place] = events->index[i];
  }
  mp_release(env, events->index);
  events->index = index;
  events->index_capacity = capacity;
  return true;
}

/* Empties a place and moves back those behind it that it kept from their own. */
static void close_place(mp_memory_events *events, uint32_t hole) {
  uint32_t mask = events->index_capacity - 1;
  for (uint32_t i = (hole + 1) & mask; events->index[i].row != 0; i = (i + 1) & mask) {
    if (((i - events->index[i].hash) & mask) < ((i - hole) & mask)) continue;
    events->index[hole] = events->index[i];
    hole = i;
  }
  events->index[hole].row = 0;
}

/* ---- rows ---- */

/* A page for the next row. */
static bool reserve_page(mp_env *env, mp_memory_events *events) {
  uint32_t offset;
  if (page_of(events->count, &offset) < events->page_count) return true;
  void *pages = events->pages;
  if (!mp_reserve(env, &pages, &events->page_capacity, sizeof(mp_memory_event **), events->page_count + 1)) {
    return false;
  }
  events->pages = pages;
  mp_memory_event **page = mp_allocate(env, page_rows(events->page_count) * sizeof *page);
  if (page == NULL) return false;
  events->pages[events->page_count++] = page;
  return true;
}

/* Where a text begins in the JSON; its end where it is no part of it. */
static size_t offset_in(moonpad_string json, moonpad_string text) {
  uintptr_t offset = (uintptr_t)text.data - (uintptr_t)json.data; /* huge where it begins before */
  return offset <= json.length && text.length <= json.length - offset ? (size_t)offset : json.length;
}

static mp_memory_event *make_event(mp_env *env, mp_memory_events *events, const mp_event_row *row) {
  size_t header = offsetof(mp_memory_event, bytes), end = row->json.length;
  size_t id_offset = offset_in(row->json, row->id), invocation_offset = offset_in(row->json, row->invocation);
  size_t id_bytes = id_offset == end ? row->id.length : 0;
  size_t invocation_bytes = invocation_offset == end ? row->invocation.length : 0;
  if (end > SIZE_MAX - sizeof(mp_memory_event) - id_bytes - invocation_bytes) return NULL;
  mp_memory_event *event = mp_arena_take(env, &events->blocks, header + end + id_bytes + invocation_bytes);
  if (event == NULL) return NULL;
  event->revision = row->revision;
  event->timestamp = row->timestamp;
  event->digest = row->digest;
  event->json_length = (uint32_t)end;
  event->id_length = (uint32_t)row->id.length;
  event->id_offset = (uint32_t)id_offset;
  event->invocation_length = (uint32_t)row->invocation.length;
  event->invocation_offset = (uint32_t)(invocation_bytes == 0 ? invocation_offset : end + id_bytes);
  event->kinds = row->kinds;
  if (end != 0) memcpy(event->bytes, row->json.data, end);
  if (id_bytes != 0) memcpy(event->bytes + id_offset, row->id.data, id_bytes);
  if (invocation_bytes != 0) memcpy(event->bytes + end + id_bytes, row->invocation.data, invocation_bytes);
  return event;
}

static moonpad_status check_row(const mp_memory_events *events, const mp_event_row *row, moonpad_error *error) {
  const mp_memory_event *newest = events->count == 0 ? NULL : event_at(events, events->count - 1);
  if (row->json.length > UINT32_MAX || row->id.length + row->invocation.length > UINT32_MAX - row->json.length) {
    return mp_fail(error, MOONPAD_LIMIT, "an event of %zu bytes: the memory store keeps events of less than 4 GiB",
                   row->json.length);
  }
  if (events->count >= MAX_ROWS) {
    return mp_fail(error, MOONPAD_LIMIT, "the memory store keeps at most %" PRIu32 " events of a session", MAX_ROWS);
  }
  if (newest != NULL && row->revision <= newest->revision) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "event %" PRId64 " does not come after event %" PRId64,
                   row->revision, newest->revision);
  }
  return MOONPAD_OK;
}

/*
** The place in the index for an id that does not rise; NULL: without memory. `taken`: the id is
** there already.
*/
static mp_memory_event_place *place_for(mp_env *env, mp_memory_events *events, moonpad_string id, uint32_t hash,
                                        bool *taken) {
  if (!reserve_index(env, events)) return NULL;
  mp_memory_event_place *place = probe(events, id, hash);
  *taken = place->row != 0 || find_rising(events, id) != NULL;
  return place;
}

moonpad_status mp_memory_events_append(mp_env *env, mp_memory_events *events, const mp_event_row *row,
                                       moonpad_error *error) {
  moonpad_status status = check_row(events, row, error);
  if (status != MOONPAD_OK) return status;
  bool rises = events->rising == events->count && is_above_rising(events, row->id), taken = false;
  uint32_t hash = rises ? 0 : hash_of(row->id), offset;
  mp_memory_event_place *place = rises ? NULL : place_for(env, events, row->id, hash, &taken);
  if (taken) {
    return mp_fail(error, MOONPAD_ALREADY_EXISTS, "an event with the id %s is already in this session",
                   mp_quote(row->id).text);
  }
  if ((!rises && place == NULL) || !reserve_page(env, events)) return mp_no_memory(error);
  mp_memory_event *event = make_event(env, events, row);
  if (event == NULL) return mp_no_memory(error);
  size_t page = page_of(events->count, &offset);
  events->pages[page][offset] = event;
  events->count++;
  if (rises) {
    events->rising++;
  } else {
    place->hash = hash;
    place->row = events->count;
  }
  return MOONPAD_OK;
}

void mp_memory_events_undo(mp_env *env, mp_memory_events *events) {
  mp_memory_event *event = event_at(events, events->count - 1);
  if (events->rising == events->count) {
    events->rising--;
  } else {
    moonpad_string id = id_of(event);
    close_place(events, (uint32_t)(probe(events, id, hash_of(id)) - events->index));
  }
  mp_arena_give_back(env, &events->blocks, event);
  events->count--;
}

void mp_memory_events_free(mp_env *env, mp_memory_events *events) {
  mp_arena_free(env, &events->blocks);
  for (size_t page = 0; page < events->page_count; page++) mp_release(env, events->pages[page]);
  mp_release(env, events->pages);
  mp_release(env, events->index);
}

static moonpad_string invocation_of(const mp_memory_event *event) {
  return (moonpad_string){event->bytes + event->invocation_offset, event->invocation_length};
}

static mp_event_row row_of(const mp_memory_event *event) {
  return (mp_event_row){
      .revision = event->revision,
      .timestamp = event->timestamp,
      .id = id_of(event),
      .json = {event->bytes, event->json_length},
      .digest = event->digest,
      .invocation = invocation_of(event),
      .kinds = event->kinds,
  };
}

static const mp_memory_event *find_id(const mp_memory_events *events, moonpad_string id) {
  const mp_memory_event *found = find_rising(events, id);
  if (found != NULL || events->count == events->rising) return found;
  uint32_t row = probe(events, id, hash_of(id))->row;
  return row == 0 ? NULL : event_at(events, row - 1);
}

/*
** The first row of at least that revision. As a rule revisions have no gaps, and the place follows
** from the number.
*/
static uint32_t first_row(const mp_memory_events *events, int64_t revision) {
  if (events->count == 0 || revision <= event_at(events, 0)->revision) return 0;
  int64_t lowest = event_at(events, 0)->revision;
  int64_t highest = event_at(events, events->count - 1)->revision;
  if (revision > highest) return events->count;
  uint64_t guess = (uint64_t)revision - (uint64_t)lowest;
  if ((uint64_t)highest - (uint64_t)lowest == events->count - 1) return (uint32_t)guess;
  uint32_t low = 0;
  uint32_t high = events->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (event_at(events, middle)->revision < revision) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

moonpad_status mp_memory_events_each(const mp_memory_events *events, const mp_event_query *query, mp_each_event each,
                                     void *context, moonpad_error *error) {
  if (query->id.data != NULL) {
    const mp_memory_event *found = find_id(events, query->id);
    return found == NULL ? MOONPAD_OK : mp_give_event(row_of(found), query, each, context, error);
  }
  uint32_t first = first_row(events, query->first);
  uint32_t end = query->last == INT64_MAX ? events->count : first_row(events, query->last + 1);
  for (uint32_t i = first; i < end; i++) {
    const mp_memory_event *event = event_at(events, query->newest_first ? end - 1 - (i - first) : i);
    if (query->kinds != 0 && (query->kinds & event->kinds) == 0) continue;
    moonpad_status status = mp_give_event(row_of(event), query, each, context, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

moonpad_status mp_memory_events_copy(mp_env *env, mp_memory_events *to, const mp_memory_events *from, int64_t after,
                                     moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (uint32_t i = first_row(from, after + 1); status == MOONPAD_OK && i < from->count; i++) {
    mp_event_row row = row_of(event_at(from, i));
    status = mp_memory_events_append(env, to, &row, error);
  }
  return status;
}
