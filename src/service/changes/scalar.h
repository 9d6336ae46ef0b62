/* Inlined fast path to a scalar of a key that is used again and again. */
#ifndef MP_SERVICE_CHANGES_SCALAR_H
#define MP_SERVICE_CHANGES_SCALAR_H

#include "service/changes/change_set.h"
#include "service/limits.h"

static inline bool mp_change_is(const mp_change *change, const char *key, size_t length) {
  const mp_key *own = change->entry->key;
  return own->length == length && memcmp(own->bytes, key, length) == 0;
}

/* A key that is marked as read needs no other mark. */
static inline bool mp_change_is_marked_read(const mp_change *change) {
  return change->touched && (change->read_now || mp_change_is_written(change));
}

/*
** What mp_changes_item gives, where it takes no work: the value of the scalar that is stored or
** set (borrowed as there), *absent where there is none. Marks the key as read. NULL: there is work
** to do, nothing has been marked.
*/
static inline const moonpad_value *mp_change_scalar(mp_change *change, const moonpad_value *absent) {
  if (!mp_change_knows_below(change) || (change->pending && change->kind != MP_SET)) return NULL;
  const mp_value *shown = change->pending ? change->value : *change->under;
  if (shown != NULL && mp_is_composite(shown->as.type)) return NULL;
  if (!mp_change_is_marked_read(change)) mp_change_touch(change, true);
  return shown == NULL ? absent : &shown->as;
}

/*
** The number, boolean or null that has been written already and that nobody else holds. The caller
** may overwrite it with another one, which has the effect of mp_changes_put. NULL where that takes
** more; nothing has been done then.
*/
static inline moonpad_value *mp_change_overwrite(mp_change *change) {
  mp_value *value = change->value;
  if (!change->pending || change->kind != MP_SET || !change->touched || change->root != NULL ||
      change->owner->ended != NULL || !mp_is_small_scalar(value->as.type) ||
      atomic_load_explicit(&value->references, memory_order_acquire) != 1) {
    return NULL;
  }
  const moonpad_session *session = change->owner->session;
  if (session != NULL && !mp_fits_small_scalars(session->service)) return NULL;
  change->last_writer_wins = false;
  change->by_path = false;
  change->created = false;
  return &value->as;
}

#endif
