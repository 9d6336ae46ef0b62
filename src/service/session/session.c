/* The session object: its view of the state, what it knows of itself. */
#include "service/session/session.h"

#include <stdio.h>

#include "base/error.h"
#include "service/changes/change_set.h"

/* ---- view ---- */

mp_view_entry *mp_view_touch(mp_map *view, mp_env *env, moonpad_string key) {
  return mp_view_touch_hashed(view, env, key, mp_hash(key.data, key.length));
}

mp_view_entry *mp_view_add(mp_map *view, mp_env *env, moonpad_string key, uint64_t hash) {
  void *room;
  mp_key *name = mp_key_new_with(env, key, hash, sizeof(mp_view_entry), &room);
  if (name == NULL || !mp_map_put(view, name, room)) {
    mp_key_release(env, name);
    return NULL;
  }
  mp_view_entry *entry = room;
  entry->key = name; /* the creation's reference stays with the entry */
  entry->scope = mp_scope_of(key);
  return entry;
}

static size_t entry_bytes(const mp_view_entry *entry) {
  if (entry->scope != MP_SCOPE_SESSION || entry->value == NULL) return 0;
  return entry->key->length + mp_value_size(entry->value);
}

static void show(moonpad_session *session, mp_view_entry *entry, mp_value *value) {
  if (session->sets != NULL) mp_changes_keep_version(session, entry);
  mp_value_release(session->env, entry->value);
  entry->value = value;
  session->state_bytes -= entry->bytes;
  entry->bytes = entry_bytes(entry);
  session->state_bytes += entry->bytes;
}

void mp_view_set(moonpad_session *session, mp_view_entry *entry, mp_value *value, int64_t revision) {
  mp_view_move(session, entry, mp_value_retain(value), revision);
}

void mp_view_move(moonpad_session *session, mp_view_entry *entry, mp_value *value, int64_t revision) {
  entry->revision = revision;
  if (entry->in_flight == 0) {
    show(session, entry, value);
  } else {
    mp_value_release(session->env, entry->stored);
    entry->stored = value;
  }
}

void mp_view_expect(moonpad_session *session, mp_view_entry *entry, mp_value *value) {
  if (entry->in_flight++ == 0) entry->stored = mp_value_retain(entry->value);
  show(session, entry, value);
}

void mp_view_expect_nothing(moonpad_session *session, mp_view_entry *entry) {
  if (entry->in_flight > 0) show(session, entry, mp_value_retain(entry->stored));
}

void mp_view_expect_done(moonpad_session *session, mp_view_entry *entry) {
  if (--entry->in_flight > 0) return;
  mp_value *stored = entry->stored;
  entry->stored = NULL;
  /* The nodes that were opened from the same text stay. */
  if (mp_equal_values(entry->value, stored)) {
    mp_value_release(session->env, stored);
  } else {
    show(session, entry, stored);
  }
}

void mp_view_free(mp_map *view, mp_env *env) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(view, &position)) != NULL;) {
    mp_view_entry *entry = slot->value;
    mp_value_release(env, entry->value);
    mp_value_release(env, entry->stored);
    mp_own_writes_free(env, &entry->own);
    mp_key_release(env, entry->key); /* the map's reference still holds both */
  }
  mp_map_free(view);
}

/* ---- changed in a transaction, applying after it ---- */

void mp_changed_keys_init(mp_changed_keys *changed, mp_env *env) {
  mp_entries_init(&changed->found, env);
  changed->view = NULL;
  changed->whole = 0;
}

void mp_changed_keys_clear(mp_changed_keys *changed) {
  mp_entries_clear(&changed->found);
  changed->whole = 0;
}

void mp_changed_keys_free(mp_changed_keys *changed) {
  mp_entries_free(&changed->found);
  changed->view = NULL;
  changed->whole = 0;
}

/* The view's own, where it is known. */
static mp_key *changed_key(const mp_changed_keys *changed, moonpad_string name) {
  mp_env *env = changed->found.env;
  if (changed->view == NULL) return mp_key_new(env, name);
  const mp_view_entry *entry = mp_view_touch(changed->view, env, name);
  return entry == NULL ? NULL : mp_key_retain(entry->key);
}

moonpad_status mp_changed_keys_add_row(void *context, const mp_state_row *row, moonpad_error *error) {
  mp_changed_keys *changed = context;
  char room[MP_PREFIXED_BYTES];
  if (row->key.length > MOONPAD_MAX_KEY_BYTES) {
    return mp_fail(error, MOONPAD_CORRUPT, "a stored state key is longer than %d bytes", MOONPAD_MAX_KEY_BYTES);
  }
  moonpad_string name = mp_scope_join(row->scope, row->key, room);
  mp_entry *entry = mp_entries_add_owned(&changed->found, changed_key(changed, name));
  if (entry == NULL) return mp_no_memory(error);
  entry->value = mp_value_retain(row->value);
  entry->revision = row->revision;
  return MOONPAD_OK;
}

mp_session_ref mp_session_ref_of_row(const moonpad_session_name *name, const mp_session_row *row) {
  return (mp_session_ref){*name, row->id, row->user, row->app};
}

mp_session_ref mp_session_ref_of(const moonpad_session *session) {
  moonpad_session_name name = mp_session_names(session);
  return mp_session_ref_of_row(&name, &session->row);
}

mp_look mp_look_at(const mp_session_ref *place, const mp_session_row *held, mp_changed_keys *changed) {
  mp_look look = {.ref = *place, .heads = MP_ALL_HEADS, .each_state = mp_changed_keys_add_row, .context = changed};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    look.since[scope] = held == NULL ? MP_EVERY_KEY : mp_row_revision(held, (mp_scope)scope);
  }
  return look;
}

void mp_changed_keys_note_whole(mp_changed_keys *changed, const mp_facts *facts) {
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if (facts->whole[scope]) changed->whole |= MP_HEAD(scope);
  }
}

moonpad_status mp_look_for_changed_keys(mp_tx *tx, mp_look *look, mp_changed_keys *changed, mp_facts *facts,
                                        moonpad_error *error) {
  mp_changed_keys_clear(changed);
  moonpad_status status = tx->ops->look(tx, look, facts, error);
  if (status == MOONPAD_OK) mp_changed_keys_note_whole(changed, facts);
  return status;
}

bool mp_view_reserve(moonpad_session *session, const mp_changed_keys *changed) {
  for (size_t i = 0; i < changed->found.count; i++) {
    const mp_entry *found = &changed->found.items[i];
    if (mp_view_touch_hashed(&session->view, session->env, found->key, found->hash) == NULL) return false;
  }
  return true;
}

bool mp_equal_values(const mp_value *a, const mp_value *b) {
  if (a == b) return true;
  if (a == NULL || b == NULL || a->as.type != b->as.type) return false;
  switch (a->as.type) {
  case MOONPAD_NULL:
    return true;
  case MOONPAD_BOOLEAN:
    return a->as.as.boolean == b->as.as.boolean;
  case MOONPAD_INTEGER:
    return a->as.as.integer == b->as.as.integer;
  case MOONPAD_FLOAT:
    return memcmp(&a->as.as.number, &b->as.as.number, sizeof(double)) == 0;
  default:
    return a->as.as.text.length == b->as.as.text.length &&
           memcmp(a->as.as.text.data, b->as.as.text.data, a->as.as.text.length) == 0;
  }
}

static mp_value *known_value(const mp_view_entry *entry) {
  return entry->in_flight > 0 ? entry->stored : entry->value;
}

/*
** Marks what the view has of scopes that were gathered whole, or takes away what is still marked.
*/
static void mark_stale(moonpad_session *session, const mp_changed_keys *changed) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&session->view, &position)) != NULL;) {
    mp_view_entry *entry = slot->value;
    bool is_whole = entry->scope != MP_SCOPE_TEMP && (changed->whole & MP_HEAD(entry->scope)) != 0;
    entry->stale = is_whole && known_value(entry) != NULL;
  }
}

static void remove_stale(moonpad_session *session, const mp_session_row *row) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&session->view, &position)) != NULL;) {
    mp_view_entry *entry = slot->value;
    if (entry->stale) mp_view_set(session, entry, NULL, mp_row_revision(row, entry->scope));
    entry->stale = false;
  }
}

void mp_view_apply(moonpad_session *session, const mp_changed_keys *changed, const mp_session_row *row) {
  if (changed->whole != 0) mark_stale(session, changed);
  for (size_t i = 0; i < changed->found.count; i++) {
    const mp_entry *found = &changed->found.items[i];
    mp_view_entry *entry = mp_map_get_hashed(&session->view, found->key.data, found->key.length, found->hash);
    entry->stale = false;
    /* The same value again is no change, nor are the nodes that were opened from it. */
    mp_value *known = known_value(entry);
    bool is_known = entry->revision == found->revision && mp_equal_values(known, found->value);
    mp_view_set(session, entry, is_known ? known : found->value, found->revision);
  }
  if (changed->whole != 0) remove_stale(session, row);
}

/* ---- the object ---- */

moonpad_session *mp_session_new(moonpad_service *service, const moonpad_session_name *name, const mp_session_row *row) {
  mp_env *env = service->env;
  moonpad_session *session = mp_allocate_zeroed(env, sizeof *session);
  if (session == NULL) return NULL;
  session->service = moonpad_service_retain(service);
  session->env = mp_env_retain(env);
  mp_map_init(&session->view, env);
  mp_buffer_init(&session->spare, env);
  session->app_name = mp_key_new(env, name->app_name);
  session->user_id = mp_key_new(env, name->user_id);
  session->id = mp_key_new(env, name->session_id);
  session->row = *row;
  session->first_event = row->base_revision + 1;
  session->recent = MOONPAD_ALL_EVENTS;
  if (session->app_name == NULL || session->user_id == NULL || session->id == NULL) {
    moonpad_session_free(session);
    return NULL;
  }
  return session;
}

void mp_session_keep_conflicts(moonpad_session *session, mp_key **keys, size_t count) {
  for (size_t i = 0; i < session->conflict_count; i++) mp_key_release(session->env, session->conflicts[i]);
  mp_release(session->env, session->conflicts);
  session->conflicts = keys;
  session->conflict_count = count;
}

void moonpad_session_free(moonpad_session *session) {
  if (session == NULL) return;
  mp_session_detach_appends(session);
  moonpad_changes_free(session->own);
  mp_changes_session_freed(session);
  mp_session_keep_conflicts(session, NULL, 0);
  mp_env *env = session->env;
  mp_page_free(env, session->page);
  mp_release(env, session->chosen);
  mp_buffer_free(&session->spare);
  mp_view_free(&session->view, env);
  mp_key_release(env, session->app_name);
  mp_key_release(env, session->user_id);
  mp_key_release(env, session->id);
  moonpad_service *service = session->service;
  mp_release(env, session);
  mp_env_release(env);
  moonpad_service_release(service);
}

moonpad_session_name mp_session_names(const moonpad_session *session) {
  moonpad_session_name name;
  name.app_name = mp_key_text(session->app_name);
  name.user_id = mp_key_text(session->user_id);
  name.session_id = mp_key_text(session->id);
  return name;
}

moonpad_session *mp_session_reference(const moonpad_session *session) {
  moonpad_session_name name = mp_session_names(session);
  return mp_session_new(session->service, &name, &session->row);
}

moonpad_string moonpad_session_id(const moonpad_session *session) {
  return mp_key_text(session->id);
}
moonpad_string moonpad_session_app_name(const moonpad_session *session) {
  return mp_key_text(session->app_name);
}
moonpad_string moonpad_session_user_id(const moonpad_session *session) {
  return mp_key_text(session->user_id);
}
double moonpad_session_create_time(const moonpad_session *session) {
  return session->row.create_time;
}
double moonpad_session_last_update_time(const moonpad_session *session) {
  return session->row.last_update_time;
}
int64_t moonpad_session_revision(const moonpad_session *session) {
  return session->row.revision;
}
int64_t moonpad_session_conversation_count(const moonpad_session *session) {
  return session->row.conversation_count;
}
moonpad_service *moonpad_session_service(const moonpad_session *session) {
  return session->service;
}

size_t moonpad_session_conflict_count(const moonpad_session *session) {
  return session->conflict_count;
}

moonpad_string moonpad_session_conflict_key(const moonpad_session *session, size_t index) {
  if (index >= session->conflict_count) return moonpad_text(NULL);
  return mp_key_text(session->conflicts[index]);
}

moonpad_status mp_fail_in_conflict(mp_key *const *keys, size_t count, const char *message, moonpad_error *error) {
  char names[600];
  size_t used = 0;
  names[0] = '\0';
  for (size_t i = 0; i < count && used + 300 < sizeof names; i++) {
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ",
                             mp_quote(mp_key_text(keys[i])).text);
  }
  const char *rest = strstr(message, "%s");
  return mp_fail(error, MOONPAD_CONFLICT, "%.*s%s%s", (int)(rest - message), message, names, rest + 2);
}

moonpad_changes *mp_session_own_changes(moonpad_session *session) {
  if (session->own == NULL) moonpad_changes_begin(session, &session->own, NULL);
  return session->own;
}

moonpad_status moonpad_session_changes(moonpad_session *session, moonpad_changes **changes, moonpad_error *error) {
  *changes = mp_session_own_changes(session);
  return *changes == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status moonpad_session_read(moonpad_session *session, moonpad_string key, moonpad_string path,
                                    moonpad_value *value, moonpad_error *error) {
  moonpad_changes *own = mp_session_own_changes(session);
  value->type = MOONPAD_ABSENT;
  if (own == NULL) return mp_no_memory(error);
  return moonpad_changes_get(own, key, path, value, error);
}

moonpad_status moonpad_session_state(moonpad_session *session, moonpad_buffer *json, moonpad_error *error) {
  memset(json, 0, sizeof *json);
  moonpad_changes *own = mp_session_own_changes(session);
  if (own == NULL) return mp_no_memory(error);
  return moonpad_changes_state(own, json, error);
}

static bool look_up_state(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error) {
  return mp_changes_peek(context, name, value, error) == MOONPAD_OK;
}

moonpad_status moonpad_session_render(moonpad_session *session, moonpad_string source,
                                      const moonpad_template_options *options, moonpad_buffer *result,
                                      moonpad_error *error) {
  memset(result, 0, sizeof *result);
  moonpad_changes *own = mp_session_own_changes(session);
  if (own == NULL) return mp_no_memory(error);
  return moonpad_render(source, options, look_up_state, own, result, error);
}
