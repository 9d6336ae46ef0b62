/*
** The members of an object that is being encoded, put in order once all are written: that of their
** bytes, but for an event, which has the order in which it is stored.
*/
#include <stdlib.h>

#include "base/bytes.h"
#include "lua/codec/spans.h"

/*
** The first eight bytes of a name as a number, zeros after a shorter one: two names that differ
** there compare as these numbers do.
*/
static uint64_t first_bytes(moonpad_string name) {
  uint64_t word = 0;
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  if (name.length >= 8) return __builtin_bswap64(mp_read_8(name.data));
  if (name.length >= 4) { /* two words that overlap */
    uint64_t tail = __builtin_bswap64(mp_read_4(name.data + name.length - 4));
    return __builtin_bswap64(mp_read_4(name.data)) | tail >> 8 * (name.length - 4);
  }
#endif
  for (size_t i = 0; i < name.length && i < 8; i++) word |= (uint64_t)(unsigned char)name.data[i] << (56 - 8 * i);
  return word;
}

/*
** An event is written in the order in which it is stored, so that the core writes it again only to
** fill in what is missing.
*/
static uint64_t order_of(const mp_encoder *e, moonpad_string name) {
  if (e->kind == MP_ENCODE_EVENT && e->depth == 1) {
    if (mp_text_is(name, "id")) return 1;
    if (mp_text_is(name, "invocationId")) return 2;
    if (mp_text_is(name, "timestamp")) return 3;
    if (mp_text_is(name, "actions")) return UINT64_MAX;
  }
  if (e->kind == MP_ENCODE_EVENT && e->depth == 2 && mp_text_is(name, "stateDelta")) return 0;
  return first_bytes(name);
}

static inline bool comes_after(const mp_segment *a, const mp_segment *b) {
  if (a->order != b->order) return a->order > b->order;
  return mp_text_compare(a->name, b->name) > 0;
}

static int compare_segments(const void *a, const void *b) {
  return comes_after(a, b) ? 1 : comes_after(b, a) ? -1 : 0;
}

static void sort_segments(mp_segment *segments, size_t count) {
  if (count > 16) {
    qsort(segments, count, sizeof *segments, compare_segments);
    return;
  }
  for (size_t i = 1; i < count; i++) {
    mp_segment moving = segments[i];
    size_t at = i;
    for (; at > 0 && comes_after(&segments[at - 1], &moving); at--) segments[at] = segments[at - 1];
    segments[at] = moving;
  }
}

/* Puts the members from `begin` on in the order of their segments. */
static void permute(mp_encoder *e, size_t begin, const mp_segment *segments, size_t count) {
  mp_buffer *spare = &e->binding->spare;
  if (e->out->failed) return;
  mp_buffer_clear(spare);
  if (!mp_buffer_room(spare, e->out->length - begin)) {
    e->out->failed = true;
    return;
  }
  for (size_t i = 0; i < count; i++) mp_buffer_add(spare, e->out->data + segments[i].begin, segments[i].length);
  memcpy(e->out->data + begin, spare->data, spare->length);
}

bool mp_push_segment(const mp_encoder *e, moonpad_string name) {
  mp_lua *binding = e->binding;
  if (binding->segment_count == binding->segment_capacity &&
      !mp_reserve(binding->env, (void **)&binding->segments, &binding->segment_capacity, sizeof(mp_segment),
                  binding->segment_count + 1)) {
    return false;
  }
  mp_segment *segment = &binding->segments[binding->segment_count++];
  segment->begin = e->out->length;
  segment->length = 0;
  segment->order = order_of(e, name);
  segment->name = name;
  segment->removed = false;
  return true;
}

static bool is_sorted(const mp_segment *segments, size_t count) {
  for (size_t i = 1; i < count; i++) {
    if (comes_after(&segments[i - 1], &segments[i])) return false;
  }
  return true;
}

void mp_order_segments(mp_encoder *e, size_t begin, mp_segment *segments, size_t count) {
  if (is_sorted(segments, count)) return;
  sort_segments(segments, count);
  permute(e, begin, segments, count);
}
