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
  /* Two words that overlap. */
  if (name.length >= 4) {
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

static inline bool comes_after(const mp_member_span *a, const mp_member_span *b) {
  if (a->order != b->order) return a->order > b->order;
  return mp_text_compare(a->name, b->name) > 0;
}

static int compare_spans(const void *a, const void *b) {
  return comes_after(a, b) ? 1 : comes_after(b, a) ? -1 : 0;
}

static void sort_spans(mp_member_span *spans, size_t count) {
  if (count > 16) {
    qsort(spans, count, sizeof *spans, compare_spans);
    return;
  }
  for (size_t i = 1; i < count; i++) {
    mp_member_span moving = spans[i];
    size_t at = i;
    for (; at > 0 && comes_after(&spans[at - 1], &moving); at--) spans[at] = spans[at - 1];
    spans[at] = moving;
  }
}

/* Puts the members from `begin` on in the order of their spans. */
static void permute(mp_encoder *e, size_t begin, const mp_member_span *spans, size_t count) {
  mp_buffer *sorted = &e->binding->scratch;
  if (e->out->failed) return;
  mp_buffer_clear(sorted);
  if (!mp_buffer_room(sorted, e->out->length - begin)) {
    e->out->failed = true;
    return;
  }
  for (size_t i = 0; i < count; i++) mp_buffer_add(sorted, e->out->data + spans[i].begin, spans[i].length);
  memcpy(e->out->data + begin, sorted->data, sorted->length);
}

bool mp_push_member_span(const mp_encoder *e, moonpad_string name) {
  mp_lua *binding = e->binding;
  if (binding->span_count == binding->span_capacity &&
      !mp_reserve(binding->env, (void **)&binding->spans, &binding->span_capacity, sizeof(mp_member_span),
                  binding->span_count + 1)) {
    return false;
  }
  mp_member_span *span = &binding->spans[binding->span_count++];
  span->begin = e->out->length;
  span->length = 0;
  span->order = order_of(e, name);
  span->name = name;
  span->removed = false;
  return true;
}

static bool is_sorted(const mp_member_span *spans, size_t count) {
  for (size_t i = 1; i < count; i++) {
    if (comes_after(&spans[i - 1], &spans[i])) return false;
  }
  return true;
}

void mp_sort_member_spans(mp_encoder *e, size_t begin, mp_member_span *spans, size_t count) {
  if (is_sorted(spans, count)) return;
  sort_spans(spans, count);
  permute(e, begin, spans, count);
}
