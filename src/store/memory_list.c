/* Listing the sessions of an app in order: collects what matches, sorts, gives. */
#include <stdlib.h>

#include "base/error.h"
#include "store/memory_data.h"

typedef struct place {
  double time;
  moonpad_string user_id;
  moonpad_string session_id;
} place;

typedef struct session_array {
  mp_memory_session **sessions;
  size_t capacity;
  size_t count;
} session_array;

static place place_of(const mp_memory_session *session) {
  place result = {session->row.last_update_time, mp_memory_user_id(session->user), mp_memory_session_id(session)};
  return result;
}

static int compare_places(const place *a, const place *b) {
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  int order = mp_text_compare(a->user_id, b->user_id);
  return order != 0 ? order : mp_text_compare(a->session_id, b->session_id);
}

static int compare_sessions(const void *a, const void *b) {
  place place_a = place_of(*(mp_memory_session *const *)a);
  place place_b = place_of(*(mp_memory_session *const *)b);
  return compare_places(&place_a, &place_b);
}

static bool is_listed(const mp_memory_session *session, const mp_list_query *query) {
  if (session->deleted) return false;
  double used = session->touched != 0 ? session->touched : session->row.last_update_time;
  if (query->touched_since != 0 && used < query->touched_since) return false;
  if (!query->has_after) return true;
  place after = {query->after_time, query->after_user_id, query->after_session_id};
  place here = place_of(session);
  int order = compare_places(&here, &after);
  return query->newest_first ? order < 0 : order > 0;
}

static bool collect(mp_env *env, session_array *found, const mp_memory_user *user, const mp_list_query *query) {
  for (mp_memory_session *session = user->sessions; session != NULL; session = session->next) {
    if (!is_listed(session, query)) continue;
    void *items = found->sessions;
    if (!mp_reserve(env, &items, &found->capacity, sizeof(mp_memory_session *), found->count + 1)) return false;
    found->sessions = items;
    found->sessions[found->count++] = session;
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

static moonpad_status give(const session_array *found, const mp_list_query *query, mp_each_session each, void *context,
                           moonpad_error *error) {
  size_t count = found->count;
  if (query->limit > 0 && (uint64_t)query->limit < count) count = (size_t)query->limit;
  for (size_t i = 0; i < count; i++) {
    const mp_memory_session *session = found->sessions[query->newest_first ? found->count - 1 - i : i];
    mp_listed_session listed = {mp_memory_session_row(session), mp_memory_user_id(session->user),
                                mp_memory_session_id(session)};
    moonpad_status status = each(context, &listed, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

moonpad_status mp_memory_list(mp_memory_data *data, const mp_list_query *query, mp_each_session each, void *context,
                              moonpad_error *error) {
  session_array found = {NULL, 0, 0};
  moonpad_status status = MOONPAD_OK;
  if (!collect_all(data, &found, query)) {
    status = mp_no_memory(error);
  } else if (found.count != 0) {
    qsort(found.sessions, found.count, sizeof *found.sessions, compare_sessions);
    status = give(&found, query, each, context, error);
  }
  mp_release(data->env, found.sessions);
  return status;
}
