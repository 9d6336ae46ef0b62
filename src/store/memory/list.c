/* Listing apps, users and sessions. Sessions are sorted and limited in store/parts.c. */
#include "base/error.h"
#include "store/memory/memory.h"

static void add_sessions(mp_sorting *sorting, const mp_memory_user *user) {
  for (const mp_memory_session *session = user->sessions; session != NULL; session = session->next) {
    if (session->deleted) continue;
    mp_listed_session listed = {.row = mp_memory_session_row(session),
                                .touched = {session->touched, user->touched, user->app->touched},
                                .user_id = mp_memory_user_id(user),
                                .session_id = mp_memory_session_id(session)};
    mp_sorting_add(sorting, &listed);
  }
}

moonpad_status mp_memory_each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                      moonpad_error *error) {
  mp_memory_data *data = &mp_memory_store_of(tx)->data;
  mp_sorting sorting = {.env = data->env, .query = query};
  moonpad_string name;
  const moonpad_string *user_id = query->has_user_id ? &query->user_id : NULL;
  if (!mp_memory_data_compose_name(data, query->app_name, user_id, NULL, &name)) return mp_no_memory(error);
  const mp_memory_user *user = query->has_user_id ? mp_memory_data_find_user(data, name) : NULL;
  const mp_memory_app *app = query->has_user_id ? NULL : mp_memory_data_find_app(data, name);
  if (user != NULL) add_sessions(&sorting, user);
  for (user = app == NULL ? NULL : app->users; user != NULL; user = user->next) add_sessions(&sorting, user);
  return mp_sorting_emit(&sorting, each, context, error);
}

moonpad_status mp_memory_each_app(mp_tx *tx, mp_each_name each, void *context, moonpad_error *error) {
  const mp_map *apps = &mp_memory_store_of(tx)->data.apps;
  moonpad_status status = MOONPAD_OK;
  size_t position = 0;
  for (const mp_map_slot *slot; status == MOONPAD_OK && (slot = mp_map_next(apps, &position)) != NULL;) {
    status = each(context, mp_key_text(slot->key), error);
  }
  return mp_walk_end(status);
}

moonpad_status mp_memory_each_user(mp_tx *tx, moonpad_string app_name, mp_each_name each, void *context,
                                   moonpad_error *error) {
  mp_memory_data *data = &mp_memory_store_of(tx)->data;
  moonpad_status status = MOONPAD_OK;
  moonpad_string name;
  if (!mp_memory_data_compose_name(data, app_name, NULL, NULL, &name)) return mp_no_memory(error);
  const mp_memory_app *app = mp_memory_data_find_app(data, name);
  const mp_memory_user *user = app == NULL ? NULL : app->users;
  for (; user != NULL && status == MOONPAD_OK; user = user->next) {
    if (!user->deleted) status = each(context, mp_memory_user_id(user), error);
  }
  return mp_walk_end(status);
}
