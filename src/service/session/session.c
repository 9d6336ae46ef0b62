/* Session objects: their life, their names, the keys of their last conflict. */
#include "service/session/session.h"

#include <stdio.h>

#include "base/error.h"

/* ---- life ---- */

moonpad_session *mp_session_new(moonpad_service *service, const moonpad_session_name *name, const mp_session_row *row) {
  mp_env *env = service->env;
  moonpad_session *session = mp_allocate_zeroed(env, sizeof *session);
  if (session == NULL) return NULL;
  session->service = moonpad_service_retain(service);
  session->env = mp_env_retain(env);
  session->in_flight.session = session;
  session->in_flight.service = service;
  mp_view_init(&session->view, env);
  mp_buffer_init(&session->scratch, env);
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

void moonpad_session_free(moonpad_session *session) {
  if (session == NULL) return;
  mp_in_flight_detach(&session->in_flight);
  if (session->hooks != NULL) session->hooks->freeing(session);
  mp_session_keep_conflicts(session, NULL, 0);
  mp_env *env = session->env;
  mp_page_free(env, session->page);
  mp_release(env, session->chosen);
  mp_buffer_free(&session->scratch);
  mp_view_free(&session->view);
  mp_key_release(env, session->app_name);
  mp_key_release(env, session->user_id);
  mp_key_release(env, session->id);
  moonpad_service *service = session->service;
  mp_release(env, session);
  mp_env_release(env);
  moonpad_service_release(service);
}

moonpad_session *mp_session_new_with(moonpad_service *service, const moonpad_session_name *name,
                                     const mp_session_row *row, const mp_changed_keys *state) {
  moonpad_session *session = mp_session_new(service, name, row);
  if (session == NULL) return NULL;
  session->view = *state->view;
  mp_view_init(state->view, service->env);
  mp_changed_keys_apply(state, &session->view, row);
  return session;
}

moonpad_status mp_session_make_stored(moonpad_service *service, const moonpad_session_name *name, mp_tx *tx,
                                      const mp_session_row *row, moonpad_session **session, moonpad_error *error) {
  mp_view view;
  mp_changed_keys state;
  mp_view_init(&view, service->env);
  mp_changed_keys_init(&state, service->env);
  state.view = &view;
  moonpad_session_free(*session);
  *session = NULL;
  mp_facts facts;
  mp_session_ref ref = mp_session_ref_of_row(name, row);
  mp_look look = mp_look_at(&ref, NULL, &state);
  moonpad_status status = mp_look_for_changed_keys(tx, &look, &state, &facts, error);
  if (status == MOONPAD_OK) *session = mp_session_new_with(service, name, row, &state);
  if (status == MOONPAD_OK && *session == NULL) status = mp_no_memory(error);
  mp_changed_keys_free(&state);
  mp_view_free(&view);
  return status;
}

moonpad_session *mp_session_reference(const moonpad_session *session) {
  moonpad_session_name name = mp_session_names(session);
  return mp_session_new(session->service, &name, &session->row);
}

/* ---- names ---- */

moonpad_session_name mp_session_names(const moonpad_session *session) {
  moonpad_session_name name;
  name.app_name = mp_key_text(session->app_name);
  name.user_id = mp_key_text(session->user_id);
  name.session_id = mp_key_text(session->id);
  return name;
}

mp_session_ref mp_session_ref_of(const moonpad_session *session) {
  moonpad_session_name name = mp_session_names(session);
  return mp_session_ref_of_row(&name, &session->row);
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

/* ---- conflicts ---- */

void mp_session_keep_conflicts(moonpad_session *session, mp_key **keys, size_t count) {
  for (size_t i = 0; i < session->conflict_count; i++) mp_key_release(session->env, session->conflicts[i]);
  mp_release(session->env, session->conflicts);
  session->conflicts = keys;
  session->conflict_count = count;
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
