/* The state of one owner: a hash map, and a list in the order of writing. */
#include "store/memory/keys.h"

void mp_memory_keys_init(mp_memory_keys *keys, mp_env *env) {
  mp_map_init(&keys->map, env);
  keys->newest = NULL;
  keys->unordered = false;
}

void mp_memory_keys_free(mp_memory_keys *keys) {
  mp_env *env = keys->map.env;
  for (mp_memory_key *entry = keys->newest; entry != NULL;) {
    mp_memory_key *older = entry->older;
    mp_value_release(env, entry->value);
    mp_release(env, entry);
    entry = older;
  }
  keys->newest = NULL;
  mp_map_free(&keys->map);
}

mp_memory_key *mp_memory_keys_find(const mp_memory_keys *keys, moonpad_string key) {
  return mp_map_get(&keys->map, key);
}

static void unlink_entry(mp_memory_keys *keys, mp_memory_key *entry) {
  if (entry->newer != NULL) {
    entry->newer->older = entry->older;
  } else {
    keys->newest = entry->older;
  }
  if (entry->older != NULL) entry->older->newer = entry->newer;
}

/* Links an entry behind `newer`; NULL: as the newest. */
static void link_entry_after(mp_memory_keys *keys, mp_memory_key *entry, mp_memory_key *newer) {
  mp_memory_key **link = newer == NULL ? &keys->newest : &newer->older;
  entry->newer = newer;
  entry->older = *link;
  if (entry->older != NULL) entry->older->newer = entry;
  *link = entry;
}

static mp_memory_key *create_entry(mp_memory_keys *keys, moonpad_string text, uint64_t hash, mp_key *shared) {
  mp_env *env = keys->map.env;
  if (!mp_map_reserve(&keys->map, 1)) return NULL;
  mp_memory_key *entry = mp_allocate_zeroed(env, sizeof *entry);
  if (entry == NULL) return NULL;
  entry->key = shared != NULL ? mp_key_retain(shared) : mp_key_new_hashed(env, text, hash);
  if (entry->key == NULL) {
    mp_release(env, entry);
    return NULL;
  }
  /* Room was reserved; the map's own reference stays. */
  (void)mp_map_put(&keys->map, entry->key, entry);
  mp_key_release(env, entry->key);
  return entry;
}

bool mp_memory_keys_write(mp_memory_keys *keys, moonpad_string key, mp_key *shared, mp_value *value, int64_t revision,
                          mp_memory_key_undo *undo) {
  uint64_t hash = mp_hash(key.data, key.length);
  mp_memory_key *entry = mp_map_get_hashed(&keys->map, key.data, key.length, hash);
  undo->keys = keys;
  undo->created = entry == NULL;
  if (entry == NULL) {
    entry = create_entry(keys, key, hash, shared);
    if (entry == NULL) return false;
  } else {
    undo->newer = entry->newer;
    unlink_entry(keys, entry);
  }
  undo->entry = entry;
  undo->value = entry->value;
  undo->revision = entry->revision;
  if (keys->newest != NULL && keys->newest->revision > revision) keys->unordered = true;
  entry->value = mp_value_retain(value);
  entry->revision = revision;
  link_entry_after(keys, entry, NULL);
  return true;
}

void mp_memory_keys_commit(mp_memory_key_undo *undo) {
  mp_value_release(undo->keys->map.env, undo->value);
}

void mp_memory_keys_undo(mp_memory_key_undo *undo) {
  mp_memory_keys *keys = undo->keys;
  mp_memory_key *entry = undo->entry;
  mp_env *env = keys->map.env;
  unlink_entry(keys, entry);
  mp_value_release(env, entry->value);
  if (undo->created) {
    /* Retained: the map still compares this text while it releases its own reference. */
    mp_key *key = mp_key_retain(entry->key);
    mp_map_remove(&keys->map, mp_key_text(key));
    mp_key_release(env, key);
    mp_release(env, entry);
    return;
  }
  entry->value = undo->value;
  entry->revision = undo->revision;
  link_entry_after(keys, entry, undo->newer);
}

moonpad_status mp_memory_keys_each(const mp_memory_keys *keys, mp_scope scope, int64_t since, mp_each_state each,
                                   void *context, moonpad_error *error) {
  for (const mp_memory_key *entry = keys->newest; entry != NULL; entry = entry->older) {
    if (since < 0) {
      if (entry->value == NULL) continue;
    } else if (entry->revision <= since) {
      if (!keys->unordered) break;
      continue;
    }
    mp_state_row row = {scope, mp_key_text(entry->key), entry->value, entry->revision};
    moonpad_status status = each(context, &row, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

bool mp_memory_keys_copy(mp_memory_keys *to, const mp_memory_keys *from, int64_t purged) {
  mp_memory_key_undo undo;
  const mp_memory_key *entry = from->newest;
  while (entry != NULL && entry->older != NULL) entry = entry->older;
  for (; entry != NULL; entry = entry->newer) {
    if (entry->value == NULL && entry->revision <= purged) continue;
    if (!mp_memory_keys_write(to, mp_key_text(entry->key), entry->key, entry->value, entry->revision, &undo)) {
      return false;
    }
  }
  return true;
}
