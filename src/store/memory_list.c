/* Listing the sessions of an app: collects what may be listed; store/parts.c sorts and gives. */
#include "base/error.h"
#include "store/memory_data.h"
#include "store/parts.h"

typedef struct session_array {
  mp_listed_session *sessions;
  size_t capacity;
  size_t count;
} session_array;

static bool is_live(const mp_memory_session *session, const mp_list_query *query) {
  double used = session->touched != 0 ? session->touched : session->row.last_update_time;
  return !session->deleted && (query->touched_since == 0 || used >= query->touched_since);
}

static bool collect(mp_env *env, session_array *found, const mp_memory_user *user, const mp_list_query *query) {
  for (mp_memory_session *session = user->sessions; session != NULL; session = session->next) {
    if (!is_live(session, query)) continue;
    void *items = found->sessions;
    if (!mp_reserve(env, &items, &found->capacity, sizeof *found->sessions, found->count + 1)) return false;
    found->sessions = items;
    found->sessions[found->count++] =
        (mp_listed_session){mp_memory_session_row(session), mp_memory_user_id(user), mp_memory_session_id(session)};
  }
  return true;
}

static bool collect_all(mp_memory_data *data, session_array *found, const mp_list_query *query) {
  moonpad_string name;
  const moonpad_string *user_id = query->has_user_id ? &query->user_id : NULL;
  if (!mp_memory_data_name(data, query->app_name, user_id, NULL, &name)) return false;
  if (query->has_user_id) {
    mp_memory_user *user = mp_memory_data_user(data, name);
    return user == NULL || collect(data->env, found, user, query);
  }
  mp_memory_app *app = mp_memory_data_app(data, name);
  for (mp_memory_user *user = app == NULL ? NULL : app->users; user != NULL; user = user->next) {
    if (!collect(data->env, found, user, query)) return false;
  }
  return true;
}

moonpad_status mp_memory_list(mp_memory_data *data, const mp_list_query *query, mp_each_session each, void *context,
                              moonpad_error *error) {
  session_array found = {NULL, 0, 0};
  moonpad_status status = collect_all(data, &found, query)
                              ? mp_parts_give_listed(found.sessions, found.count, query, each, context, error)
                              : mp_no_memory(error);
  mp_release(data->env, found.sessions);
  return status;
}
