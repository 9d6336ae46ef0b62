/*
** Apps, users and sessions. A creation reserves all that it needs before it changes anything, so
** that nothing after that can fail.
*/
#include "store/memory/data.h"

void mp_memory_data_init(mp_memory_data *data, mp_env *env) {
  memset(data, 0, sizeof *data);
  data->env = env;
  mp_map_init(&data->apps, env);
  mp_map_init(&data->users, env);
  mp_map_init(&data->sessions, env);
  mp_buffer_init(&data->name, env);
}

static void free_app(mp_env *env, mp_memory_app *app) {
  mp_memory_keys_free(&app->keys);
  mp_key_release(env, app->name);
  mp_release(env, app);
}

static void free_user(mp_env *env, mp_memory_user *user) {
  mp_memory_keys_free(&user->keys);
  mp_key_release(env, user->name);
  mp_release(env, user);
}

void mp_memory_session_free(mp_env *env, mp_memory_session *session) {
  mp_memory_keys_free(&session->keys);
  mp_memory_keys_free(&session->base_keys);
  mp_memory_events_free(env, &session->events);
  mp_key_release(env, session->name);
  mp_release(env, session);
}

void mp_memory_data_free(mp_memory_data *data) {
  const mp_map_slot *slot;
  for (size_t position = 0; (slot = mp_map_next(&data->sessions, &position)) != NULL;) {
    mp_memory_session_free(data->env, slot->value);
  }
  for (size_t position = 0; (slot = mp_map_next(&data->users, &position)) != NULL;) {
    free_user(data->env, slot->value);
  }
  for (size_t position = 0; (slot = mp_map_next(&data->apps, &position)) != NULL;) free_app(data->env, slot->value);
  mp_map_free(&data->sessions);
  mp_map_free(&data->users);
  mp_map_free(&data->apps);
  mp_memory_slots_free(data->env, &data->session_slots);
  mp_memory_slots_free(data->env, &data->user_slots);
  mp_memory_slots_free(data->env, &data->app_slots);
  mp_buffer_free(&data->name);
}

bool mp_memory_data_compose_name(mp_memory_data *data, moonpad_string app, const moonpad_string *user,
                                 const moonpad_string *session, moonpad_string *name) {
  mp_buffer_clear(&data->name);
  mp_buffer_add_string(&data->name, app);
  if (user != NULL) {
    mp_buffer_add_char(&data->name, '\0');
    mp_buffer_add_string(&data->name, *user);
  }
  if (session != NULL) {
    mp_buffer_add_char(&data->name, '\0');
    mp_buffer_add_string(&data->name, *session);
  }
  *name = mp_buffer_text(&data->name);
  return !data->name.failed;
}

/* The part of a composed name behind its owner's name and the NUL. */
static moonpad_string last_name(const mp_key *name, const mp_key *owner) {
  moonpad_string text = mp_key_text(name);
  text.data += owner->length + 1;
  text.length -= owner->length + 1;
  return text;
}

moonpad_string mp_memory_user_id(const mp_memory_user *user) {
  return last_name(user->name, user->app->name);
}

moonpad_string mp_memory_session_id(const mp_memory_session *session) {
  return last_name(session->name, session->user->name);
}

mp_memory_app *mp_memory_data_find_app(const mp_memory_data *data, moonpad_string name) {
  return mp_map_get(&data->apps, name);
}

mp_memory_user *mp_memory_data_find_user(const mp_memory_data *data, moonpad_string name) {
  mp_memory_user *user = mp_map_get(&data->users, name);
  return user == NULL || user->deleted ? NULL : user;
}

mp_memory_session *mp_memory_data_find_session(const mp_memory_data *data, moonpad_string name) {
  mp_memory_session *session = mp_map_get(&data->sessions, name);
  return session == NULL || session->deleted ? NULL : session;
}

mp_memory_head mp_memory_data_head(const mp_memory_data *data, mp_scope scope, int64_t id) {
  mp_memory_session *session = scope == MP_SCOPE_SESSION ? mp_memory_data_session_by_id(data, id) : NULL;
  mp_memory_user *user = scope == MP_SCOPE_USER ? mp_memory_data_user_by_id(data, id) : NULL;
  mp_memory_app *app = scope == MP_SCOPE_APP ? mp_memory_data_app_by_id(data, id) : NULL;
  if (session != NULL) {
    return (mp_memory_head){&session->keys, &session->row.revision, &session->forgotten, &session->touched};
  }
  if (user != NULL) return (mp_memory_head){&user->keys, &user->revision, &user->forgotten, &user->touched};
  if (app != NULL) return (mp_memory_head){&app->keys, &app->revision, &app->forgotten, &app->touched};
  return (mp_memory_head){NULL, NULL, NULL, NULL};
}

mp_memory_keys *mp_memory_data_keys(const mp_memory_data *data, mp_scope scope, int64_t id, bool is_base) {
  if (!is_base) return mp_memory_data_head(data, scope, id).keys;
  mp_memory_session *session = mp_memory_data_session_by_id(data, id);
  return session == NULL ? NULL : &session->base_keys;
}

/* Allocates all that a creation needs: room in both tables, the name, `size` zeroed bytes. */
static void *create_item(mp_memory_data *data, mp_map *map, mp_memory_slots *slots, moonpad_string text, size_t size,
                         mp_key **name) {
  if (!mp_map_reserve(map, 1) || !mp_memory_slots_reserve(data->env, slots)) return NULL;
  void *item = mp_allocate_zeroed(data->env, size);
  if (item == NULL) return NULL;
  *name = mp_key_new(data->env, text);
  if (*name == NULL) {
    mp_release(data->env, item);
    return NULL;
  }
  /* Room was reserved. */
  (void)mp_map_put(map, *name, item);
  return item;
}

mp_memory_app *mp_memory_data_create_app(mp_memory_data *data, moonpad_string name) {
  mp_key *key;
  mp_memory_app *app = create_item(data, &data->apps, &data->app_slots, name, sizeof *app, &key);
  if (app == NULL) return NULL;
  app->name = key;
  app->id = mp_memory_slots_add(&data->app_slots, app);
  mp_memory_keys_init(&app->keys, data->env);
  return app;
}

mp_memory_user *mp_memory_data_create_user(mp_memory_data *data, mp_memory_app *app, moonpad_string name,
                                           mp_memory_user **replaced) {
  mp_key *key;
  *replaced = mp_map_get(&data->users, name);
  mp_memory_user *user = create_item(data, &data->users, &data->user_slots, name, sizeof *user, &key);
  if (user == NULL) return NULL;
  user->name = key;
  user->id = mp_memory_slots_add(&data->user_slots, user);
  mp_memory_keys_init(&user->keys, data->env);
  user->app = app;
  user->next = app->users;
  if (user->next != NULL) user->next->previous = user;
  app->users = user;
  return user;
}

mp_memory_session *mp_memory_data_create_session(mp_memory_data *data, mp_memory_user *user, moonpad_string name,
                                                 const mp_session_row *row, mp_memory_session **replaced) {
  mp_key *key;
  *replaced = mp_map_get(&data->sessions, name);
  mp_memory_session *session = create_item(data, &data->sessions, &data->session_slots, name, sizeof *session, &key);
  if (session == NULL) return NULL;
  session->name = key;
  mp_memory_keys_init(&session->keys, data->env);
  mp_memory_keys_init(&session->base_keys, data->env);
  session->row = *row;
  session->row.id = mp_memory_slots_add(&data->session_slots, session);
  session->user = user;
  session->next = user->sessions;
  if (session->next != NULL) session->next->previous = session;
  user->sessions = session;
  return session;
}

static void unlink_user(mp_memory_user *user) {
  *(user->previous != NULL ? &user->previous->next : &user->app->users) = user->next;
  if (user->next != NULL) user->next->previous = user->previous;
}

static void unlink_session(mp_memory_session *session) {
  *(session->previous != NULL ? &session->previous->next : &session->user->sessions) = session->next;
  if (session->next != NULL) session->next->previous = session->previous;
  session->previous = session->next = NULL;
}

void mp_memory_data_undo_create_app(mp_memory_data *data, mp_memory_app *app) {
  mp_map_remove(&data->apps, mp_key_text(app->name));
  mp_memory_slots_remove(&data->app_slots, app->id);
  free_app(data->env, app);
}

/* The name becomes that of what was replaced again. It is in the map, so this cannot fail. */
static void restore_name(mp_map *map, mp_key *name, void *replaced) {
  if (replaced != NULL) {
    (void)mp_map_put(map, name, replaced);
  } else {
    mp_map_remove(map, mp_key_text(name));
  }
}

void mp_memory_data_undo_create_user(mp_memory_data *data, mp_memory_user *user, mp_memory_user *replaced) {
  restore_name(&data->users, user->name, replaced);
  mp_memory_slots_remove(&data->user_slots, user->id);
  unlink_user(user);
  free_user(data->env, user);
}

void mp_memory_data_undo_create_session(mp_memory_data *data, mp_memory_session *session, mp_memory_session *replaced) {
  restore_name(&data->sessions, session->name, replaced);
  mp_memory_slots_remove(&data->session_slots, session->row.id);
  unlink_session(session);
  mp_memory_session_free(data->env, session);
}

void mp_memory_data_remove_user(mp_memory_data *data, mp_memory_user *user) {
  moonpad_string name = mp_key_text(user->name);
  if (mp_map_get(&data->users, name) == user) mp_map_remove(&data->users, name);
  mp_memory_slots_remove(&data->user_slots, user->id);
  unlink_user(user);
  free_user(data->env, user);
}

void mp_memory_data_remove_session(mp_memory_data *data, mp_memory_session *session) {
  moonpad_string name = mp_key_text(session->name);
  if (mp_map_get(&data->sessions, name) == session) mp_map_remove(&data->sessions, name);
  mp_memory_slots_remove(&data->session_slots, session->row.id);
  unlink_session(session);
}
