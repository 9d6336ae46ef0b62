/* The state that a session object shows. */
#include "service/session/view.h"

void mp_view_init(mp_view *view, mp_env *env) {
  view->env = env;
  mp_map_init(&view->entries, env);
  view->state_bytes = 0;
  view->will_change = NULL;
  view->context = NULL;
}

void mp_view_free(mp_view *view) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&view->entries, &position)) != NULL;) {
    mp_view_entry *entry = slot->value;
    mp_value_release(view->env, entry->value);
    mp_value_release(view->env, entry->stored);
    mp_own_writes_free(view->env, &entry->own);
    /* The map's reference still holds both. */
    mp_key_release(view->env, entry->key);
  }
  mp_map_free(&view->entries);
}

mp_view_entry *mp_view_touch(mp_view *view, moonpad_string key) {
  return mp_view_touch_hashed(view, key, mp_hash(key.data, key.length));
}

mp_view_entry *mp_view_add(mp_view *view, moonpad_string key, uint64_t hash) {
  void *room;
  mp_key *name = mp_key_new_with(view->env, key, hash, sizeof(mp_view_entry), &room);
  if (name == NULL || !mp_map_put(&view->entries, name, room)) {
    mp_key_release(view->env, name);
    return NULL;
  }
  mp_view_entry *entry = room;
  /* The creation's reference stays with the entry. */
  entry->key = name;
  entry->scope = mp_scope_of(key);
  return entry;
}

static size_t entry_bytes(const mp_view_entry *entry) {
  if (entry->scope != MP_SCOPE_SESSION || entry->value == NULL) return 0;
  return entry->key->length + mp_value_size(entry->value);
}

static void show(mp_view *view, mp_view_entry *entry, mp_value *value) {
  if (view->will_change != NULL) view->will_change(view->context, entry);
  mp_value_release(view->env, entry->value);
  entry->value = value;
  view->state_bytes -= entry->bytes;
  entry->bytes = entry_bytes(entry);
  view->state_bytes += entry->bytes;
}

void mp_view_set(mp_view *view, mp_view_entry *entry, mp_value *value, int64_t revision) {
  mp_view_move(view, entry, mp_value_retain(value), revision);
}

void mp_view_move(mp_view *view, mp_view_entry *entry, mp_value *value, int64_t revision) {
  entry->revision = revision;
  if (entry->in_flight == 0) {
    show(view, entry, value);
  } else {
    mp_value_release(view->env, entry->stored);
    entry->stored = value;
  }
}

void mp_view_expect(mp_view *view, mp_view_entry *entry, mp_value *value) {
  if (entry->in_flight++ == 0) entry->stored = mp_value_retain(entry->value);
  show(view, entry, value);
}

void mp_view_expect_nothing(mp_view *view, mp_view_entry *entry) {
  if (entry->in_flight > 0) show(view, entry, mp_value_retain(entry->stored));
}

void mp_view_expect_done(mp_view *view, mp_view_entry *entry) {
  if (--entry->in_flight > 0) return;
  mp_value *stored = entry->stored;
  entry->stored = NULL;
  /* The nodes that were opened from the same text stay. */
  if (mp_equal_values(entry->value, stored)) {
    mp_value_release(view->env, stored);
  } else {
    show(view, entry, stored);
  }
}
