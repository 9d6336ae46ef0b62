/* Deleting a session, or all that is stored of a user (contract 2). */
#include "service/names.h"
#include "service/session/session.h"

typedef struct deleting {
  mp_expiry expiry;
  bool existed; /* and had not expired */
} deleting;

static moonpad_status delete_in(mp_tx *tx, void *context, moonpad_error *error) {
  deleting *delete = context;
  mp_facts facts;
  mp_look look = {
      .ref = {.name = delete->expiry.ref.name},
      .heads = MP_ALL_HEADS,
      .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS},
  };
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  if (status != MOONPAD_OK) return status;
  delete->existed = mp_expiry_judge(&delete->expiry, &facts) == MOONPAD_OK;
  mp_session_ref ref = mp_session_ref_of_row(&look.ref.name, &facts.row);
  return tx->ops->remove_session(tx, &ref, error);
}

moonpad_status moonpad_delete_session(moonpad_service *service, const moonpad_session_name *given, bool *existed,
                                      moonpad_error *error) {
  moonpad_session_name name;
  if (existed != NULL) *existed = false;
  moonpad_status status = mp_check_session_name(given, &name, error);
  if (status != MOONPAD_OK) return status;
  deleting delete = {.existed = false};
  mp_session_ref ref = {.name = name};
  status = mp_expiry_begin(&delete.expiry, service, &ref, MP_HEAD(MP_SCOPE_SESSION), error);
  if (status == MOONPAD_OK) status = mp_expiry_write(&delete.expiry, delete_in, &delete, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  if (status == MOONPAD_OK && existed != NULL) *existed = delete.existed;
  return status;
}

typedef struct forgetting {
  mp_session_ref user;
  double touched_since; /* 0: sessions do not expire */
  int64_t sessions;
} forgetting;

static moonpad_status count_live(void *context, const mp_listed_session *listed, moonpad_error *error) {
  (void)listed, (void)error;
  ((forgetting *)context)->sessions++;
  return MOONPAD_OK;
}

static moonpad_status forget_in(mp_tx *tx, void *context, moonpad_error *error) {
  forgetting *forget = context;
  const moonpad_session_name *name = &forget->user.name;
  int64_t removed;
  mp_list_query live = {.app_name = name->app_name,
                        .has_user_id = true,
                        .user_id = name->user_id,
                        .touched_since = forget->touched_since};
  mp_listing listing = {count_live, NULL, forget};
  forget->sessions = 0;
  moonpad_status status = MOONPAD_OK;
  if (forget->touched_since != 0) status = tx->ops->each_listed(tx, &live, &listing, error);
  if (status == MOONPAD_OK) status = tx->ops->remove_user(tx, &forget->user, &removed, error);
  if (forget->touched_since == 0) forget->sessions = removed;
  return status;
}

moonpad_status moonpad_delete_user(moonpad_service *service, moonpad_string app_name, moonpad_string user_id,
                                   int64_t *sessions, moonpad_error *error) {
  forgetting forget = {.user.name = {.app_name = app_name, .user_id = user_id}};
  if (sessions != NULL) *sessions = 0;
  moonpad_status status = mp_check_name("appName", app_name, error);
  if (status == MOONPAD_OK) status = mp_check_name("userId", user_id, error);
  if (status == MOONPAD_OK) status = mp_expiry_threshold(service, &forget.touched_since, error);
  if (status != MOONPAD_OK) return status;
  status = service->store->ops->write(service->store, forget_in, &forget, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  if (status == MOONPAD_OK && sessions != NULL) *sessions = forget.sessions;
  return status;
}
