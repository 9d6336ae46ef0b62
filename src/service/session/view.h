/*
** The state that a session object shows: all keys of its three stored scopes and temp:, each with
** the value that is known to be stored or that an append under way is going to store.
*/
#ifndef MP_SERVICE_SESSION_VIEW_H
#define MP_SERVICE_SESSION_VIEW_H

#include "base/map.h"
#include "core/scope.h"
#include "core/value.h"
#include "service/session/own_writes.h"

/*
** One key, in the same piece of memory as its name. An entry stays at its address until the view
** is freed.
*/
typedef struct mp_view_entry {
  /* With its prefix. */
  mp_key *key;
  mp_scope scope;
  /* What is shown; NULL: absent. */
  mp_value *value;
  /* While appends are in flight that wrote the key: what is known to be stored; NULL: absent. */
  mp_value *stored;
  /* The revision of the scope at the key's last known change. */
  int64_t revision;
  /* The key and its value in bytes, as far as they count for maxStateBytes; else 0. */
  size_t bytes;
  /* Asynchronous appends, shown at once, that wrote the key and are not applied yet. */
  unsigned in_flight;
  /* Within mp_changed_keys_apply: it was not found in the store again. */
  bool stale;
  /*
  ** The store holds something else than what this object knew of a later revision (ahead.h): `own`
  ** counts for nothing, until mp_session_forget_taken_back empties it.
  */
  bool is_taken_back;
  /* Used only by the thread that stores the object's appends (own_writes.h). */
  mp_own_writes own;
} mp_view_entry;

typedef struct mp_view {
  mp_env *env;
  /* key -> mp_view_entry */
  mp_map entries;
  /* What the session's own keys and values take, in bytes (contract 2.1, maxStateBytes). */
  size_t state_bytes;
  /* Called before an entry shows another value; NULL: nobody needs to know. */
  void (*will_change)(void *context, const mp_view_entry *entry);
  void *context;
} mp_view;

void mp_view_init(mp_view *view, mp_env *env);
void mp_view_free(mp_view *view);

/* Makes the entry of a key that has none. NULL when out of memory. */
mp_view_entry *mp_view_add(mp_view *view, moonpad_string key, uint64_t hash);
/* The entry of a key, made (absent) when there is none. NULL when out of memory. */
static inline mp_view_entry *mp_view_touch_hashed(mp_view *view, moonpad_string key, uint64_t hash) {
  mp_view_entry *entry = mp_map_get_hashed(&view->entries, key.data, key.length, hash);
  return entry != NULL ? entry : mp_view_add(view, key, hash);
}
mp_view_entry *mp_view_touch(mp_view *view, moonpad_string key);

/*
** Notes what is stored at the revision. It is shown, too, unless appends in flight wrote the key.
** `set` takes a reference of its own, `move` takes over the caller's.
*/
void mp_view_set(mp_view *view, mp_view_entry *entry, mp_value *value, int64_t revision);
void mp_view_move(mp_view *view, mp_view_entry *entry, mp_value *value, int64_t revision);

/*
** Shows what an append in flight is going to store. Takes over the reference. One call of
** mp_view_expect_done follows, when that append has been applied.
*/
void mp_view_expect(mp_view *view, mp_view_entry *entry, mp_value *value);
void mp_view_expect_done(mp_view *view, mp_view_entry *entry);
/* Shows what is stored again: the appends in flight that wrote the key are going to fail. */
void mp_view_expect_nothing(mp_view *view, mp_view_entry *entry);

/* What is known to be stored, whatever is shown; NULL: absent. */
static inline mp_value *mp_view_stored(const mp_view_entry *entry) {
  return entry->in_flight > 0 ? entry->stored : entry->value;
}

#endif
