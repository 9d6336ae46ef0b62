/* Deleting a session, or all that is stored of a user (contract 2). */
#include "service/names.h"
#include "service/session/session.h"

static moonpad_status delete_in(mp_tx *tx, void *context, moonpad_error *error) {
  mp_facts facts;
  mp_look look = {
      .ref = {.name = *(const moonpad_session_name *)context},
      .heads = MP_ALL_HEADS,
      .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS},
  };
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  if (status != MOONPAD_OK) return status;
  mp_session_ref ref = mp_session_ref_of_row(&look.ref.name, &facts.row);
  return tx->ops->remove_session(tx, &ref, error);
}

moonpad_status moonpad_delete_session(moonpad_service *service, const moonpad_session_name *given, bool *existed,
                                      moonpad_error *error) {
  moonpad_session_name name;
  if (existed != NULL) *existed = false;
  moonpad_status status = mp_check_session_name(given, &name, error);
  if (status != MOONPAD_OK) return status;
  status = service->store->ops->write(service->store, delete_in, &name, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  if (status == MOONPAD_OK && existed != NULL) *existed = true;
  return status;
}

typedef struct forgetting {
  mp_session_ref user;
  int64_t sessions;
} forgetting;

static moonpad_status forget_in(mp_tx *tx, void *context, moonpad_error *error) {
  forgetting *forget = context;
  return tx->ops->remove_user(tx, &forget->user, &forget->sessions, error);
}

moonpad_status moonpad_delete_user(moonpad_service *service, moonpad_string app_name, moonpad_string user_id,
                                   int64_t *sessions, moonpad_error *error) {
  forgetting forget = {.user.name = {.app_name = app_name, .user_id = user_id}};
  if (sessions != NULL) *sessions = 0;
  moonpad_status status = mp_check_name("appName", app_name, error);
  if (status == MOONPAD_OK) status = mp_check_name("userId", user_id, error);
  if (status != MOONPAD_OK) return status;
  status = service->store->ops->write(service->store, forget_in, &forget, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  if (status == MOONPAD_OK && sessions != NULL) *sessions = forget.sessions;
  return status;
}
