/*
** Pages of pointers to events: small pages first, so that a short session stays small, then pages
** of a fixed size, so that appending never copies the history.
** Finding an id: generated ids are made from the time and ascend. As long as all ids do (the sorted
** prefix), an id above the last one is new, and any other is found by binary search. Events from
** the first id on that does not ascend are in a hash index of 32-bit row numbers.
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
#define MAX_INDEX       (UINT32_C(1) << 31) /* slots */
#define MAX_ROWS        (MAX_INDEX / 4 * 3)

static size_t page_rows(size_t page) {
  return page < GROWING_PAGES ? (size_t)1 << (FIRST_PAGE_BITS + page) : (size_t)1 << PAGE_BITS;
}

/* The page of a row; *offset: its index in that page. */
static size_t page_of(uint32_t row, uint32_t *offset) {
  /* Shifted so that each of the growing pages begins at a power of two. */
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

/* ---- the sorted prefix ---- */

static bool is_above_sorted(const mp_memory_events *events, moonpad_string id) {
  return events->sorted == 0 || mp_text_compare(id_of(event_at(events, events->sorted - 1)), id) < 0;
}

static const mp_memory_event *find_sorted(const mp_memory_events *events, moonpad_string id) {
  if (is_above_sorted(events, id)) return NULL;
  uint32_t low = 0, high = events->sorted - 1;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (mp_text_compare(id_of(event_at(events, middle)), id) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const mp_memory_event *found = event_at(events, low);
  return low >= events->trimmed && has_id(found, id) ? found : NULL;
}

/* ---- the index of all other events ---- */

/*
** The slot of the event with that id, or the empty slot where it would go. There is an empty one.
*/
static mp_memory_event_slot *probe(const mp_memory_events *events, moonpad_string id, uint32_t hash) {
  uint32_t mask = events->index_capacity - 1;
  for (uint32_t i = hash & mask;; i = (i + 1) & mask) {
    mp_memory_event_slot *slot = &events->index[i];
    if (slot->row == 0) return slot;
    bool is_there = slot->row > events->trimmed && slot->hash == hash;
    if (is_there && has_id(event_at(events, slot->row - 1), id)) return slot;
  }
}

/* Makes room for one more event; the index is at most three quarters full. */
static bool reserve_index(mp_env *env, mp_memory_events *events) {
  if (events->count - events->sorted < events->index_capacity / 4 * 3) return true;
  uint32_t capacity = events->index_capacity == 0 ? FIRST_INDEX : events->index_capacity * 2;
  size_t slots = capacity;
  if (slots > SIZE_MAX / sizeof(mp_memory_event_slot)) return false;
  mp_memory_event_slot *index = mp_allocate_zeroed(env, slots * sizeof *index);
  if (index == NULL) return false;
  for (uint32_t i = 0; i < events->index_capacity; i++) {
    if (events->index[i].row == 0) continue;
    uint32_t slot = events->index[i].hash & (capacity - 1);
    while (index[slot].row != 0) slot = (slot + 1) & (capacity - 1);
    index[slot] = events->index[i];
  }
  mp_release(env, events->index);
  events->index = index;
  events->index_capacity = capacity;
  return true;
}

/* Empties a slot, and moves slots behind it back that belong nearer to their hash. */
static void empty_slot(mp_memory_events *events, uint32_t empty) {
  uint32_t mask = events->index_capacity - 1;
  for (uint32_t i = (empty + 1) & mask; events->index[i].row != 0; i = (i + 1) & mask) {
    if (((i - events->index[i].hash) & mask) < ((i - empty) & mask)) continue;
    events->index[empty] = events->index[i];
    empty = i;
  }
  events->index[empty].row = 0;
}

/* ---- rows ---- */

/* Makes sure that the next row has a page. */
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

/* Where `text` lies in the JSON; json.length if it is no part of it. */
static size_t offset_in(moonpad_string json, moonpad_string text) {
  /* Wraps around to a huge number if the text lies before the JSON. */
  uintptr_t offset = (uintptr_t)text.data - (uintptr_t)json.data;
  return offset <= json.length && text.length <= json.length - offset ? (size_t)offset : json.length;
}

static mp_memory_event *create_event(mp_env *env, mp_memory_events *events, const mp_event_row *row) {
  size_t header = offsetof(mp_memory_event, bytes), end = row->json.length;
  size_t id_offset = offset_in(row->json, row->id), invocation_offset = offset_in(row->json, row->invocation);
  size_t id_bytes = id_offset == end ? row->id.length : 0;
  size_t invocation_bytes = invocation_offset == end ? row->invocation.length : 0;
  if (end > SIZE_MAX - sizeof(mp_memory_event) - id_bytes - invocation_bytes) return NULL;
  mp_memory_event *event = mp_memory_arena_allocate(env, &events->arena, header + end + id_bytes + invocation_bytes);
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

/* The slot for an id outside the sorted prefix. NULL: out of memory. *exists: the id is taken. */
static mp_memory_event_slot *slot_for(mp_env *env, mp_memory_events *events, moonpad_string id, uint32_t hash,
                                      bool *exists) {
  if (!reserve_index(env, events)) return NULL;
  mp_memory_event_slot *slot = probe(events, id, hash);
  *exists = slot->row != 0 || find_sorted(events, id) != NULL;
  return slot;
}

moonpad_status mp_memory_events_append(mp_env *env, mp_memory_events *events, const mp_event_row *row,
                                       moonpad_error *error) {
  moonpad_status status = check_row(events, row, error);
  if (status != MOONPAD_OK) return status;
  bool extends_sorted = events->sorted == events->count && is_above_sorted(events, row->id), exists = false;
  uint32_t hash = extends_sorted ? 0 : hash_of(row->id), offset;
  mp_memory_event_slot *slot = extends_sorted ? NULL : slot_for(env, events, row->id, hash, &exists);
  if (exists) {
    return mp_fail(error, MOONPAD_ALREADY_EXISTS, "an event with the id %s is already in this session",
                   mp_quote(row->id).text);
  }
  if ((!extends_sorted && slot == NULL) || !reserve_page(env, events)) return mp_no_memory(error);
  mp_memory_event *event = create_event(env, events, row);
  if (event == NULL) return mp_no_memory(error);
  size_t page = page_of(events->count, &offset);
  events->pages[page][offset] = event;
  events->count++;
  if (extends_sorted) {
    events->sorted++;
  } else {
    slot->hash = hash;
    slot->row = events->count;
  }
  return MOONPAD_OK;
}

void mp_memory_events_undo_append(mp_env *env, mp_memory_events *events) {
  mp_memory_event *event = event_at(events, events->count - 1);
  if (events->sorted == events->count) {
    events->sorted--;
  } else {
    moonpad_string id = id_of(event);
    empty_slot(events, (uint32_t)(probe(events, id, hash_of(id)) - events->index));
  }
  mp_memory_arena_release_last(env, &events->arena, event);
  events->count--;
}

void mp_memory_events_free(mp_env *env, mp_memory_events *events) {
  mp_memory_arena_free(env, &events->arena);
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
  const mp_memory_event *found = find_sorted(events, id);
  if (found != NULL || events->count == events->sorted) return found;
  uint32_t row = probe(events, id, hash_of(id))->row;
  return row == 0 ? NULL : event_at(events, row - 1);
}

/*
** The first row of at least that revision. Revisions without gaps, which is the rule, give the row
** directly; otherwise a binary search does.
*/
static uint32_t first_row(const mp_memory_events *events, int64_t revision) {
  if (events->count == 0 || revision <= event_at(events, 0)->revision) return 0;
  int64_t lowest = event_at(events, 0)->revision;
  int64_t highest = event_at(events, events->count - 1)->revision;
  if (revision > highest) return events->count;
  uint64_t distance = (uint64_t)revision - (uint64_t)lowest;
  if ((uint64_t)highest - (uint64_t)lowest == events->count - 1) return (uint32_t)distance;
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
    return found == NULL ? MOONPAD_OK : mp_emit_event(row_of(found), query, each, context, error);
  }
  uint32_t first = first_row(events, query->first);
  if (first < events->trimmed) first = events->trimmed;
  uint32_t end = query->last == INT64_MAX ? events->count : first_row(events, query->last + 1);
  for (uint32_t i = first; i < end; i++) {
    const mp_memory_event *event = event_at(events, query->newest_first ? end - 1 - (i - first) : i);
    if (query->kinds != 0 && (query->kinds & event->kinds) == 0) continue;
    moonpad_status status = mp_emit_event(row_of(event), query, each, context, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

uint32_t mp_memory_events_up_to(const mp_memory_events *events, int64_t revision) {
  uint32_t row = first_row(events, revision + 1);
  return row < events->trimmed ? events->trimmed : row;
}

moonpad_status mp_memory_events_copy(mp_env *env, mp_memory_events *to, const mp_memory_events *from, int64_t after,
                                     moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (uint32_t i = mp_memory_events_up_to(from, after); status == MOONPAD_OK && i < from->count; i++) {
    mp_event_row row = row_of(event_at(from, i));
    status = mp_memory_events_append(env, to, &row, error);
  }
  return status;
}
