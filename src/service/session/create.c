/*
** Creating a session with its initial state (contract 2). Its names are checked, and a missing id
** is made, by mp_name_new_session (service/names.c).
*/
#include "base/error.h"
#include "service/limits.h"
#include "service/names.h"
#include "service/session/quota.h"
#include "service/session/session.h"
#include "service/state_input.h"

typedef struct creation {
  moonpad_service *service;
  moonpad_session_name name;
  mp_quota quota;
  mp_entries initial;
  double now;
  mp_session_row row;
  moonpad_session *session;
} creation;

/* The session's own keys are its base state, too. They come first. */
static moonpad_status write_initial(creation *create, mp_tx *tx, moonpad_error *error) {
  const mp_entries *initial = &create->initial;
  mp_session_row *row = &create->row;
  mp_batch batch = {
      .ref = mp_session_ref_of_row(&create->name, row), .row = row, .touched = mp_time_of_use(create->now)};
  for (size_t i = 0; i < initial->count; i++) batch.heads |= MP_HEAD(initial->items[i].scope);
  batch.heads &= MP_HEAD(MP_SCOPE_USER) | MP_HEAD(MP_SCOPE_APP);
  if ((batch.heads & MP_HEAD(MP_SCOPE_USER)) != 0) row->user_revision++;
  if ((batch.heads & MP_HEAD(MP_SCOPE_APP)) != 0) row->app_revision++;
  mp_state_row *writes = mp_allocate(create->service->env, initial->count * sizeof *writes);
  if (writes == NULL) return mp_no_memory(error);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    /* temp: is none of them: it is dropped here (contract 1.1) */
    for (size_t i = 0; i < initial->count; i++) {
      if (initial->items[i].scope != (mp_scope)scope) continue;
      writes[batch.key_count] = mp_row_of(&initial->items[i]);
      writes[batch.key_count++].revision = mp_row_revision(row, (mp_scope)scope);
    }
    if (scope == MP_SCOPE_SESSION) batch.base_key_count = batch.key_count;
  }
  batch.keys = batch.base_keys = writes;
  moonpad_status status = batch.key_count == 0 ? MOONPAD_OK : tx->ops->apply(tx, &batch, error);
  mp_release(create->service->env, writes);
  return status;
}

static moonpad_status create_in(mp_tx *tx, void *context, moonpad_error *error) {
  creation *create = context;
  moonpad_status status = mp_expiry_create_session(&create->quota.expiry, tx, create->now, &create->row, error);
  if (status == MOONPAD_ALREADY_EXISTS) return mp_fail_exists(&create->name, error);
  if (status == MOONPAD_OK) status = write_initial(create, tx, error);
  if (status == MOONPAD_OK) status = mp_quota_apply(&create->quota, tx, error);
  if (status != MOONPAD_OK) return status;
  return mp_session_make_stored(create->service, &create->name, tx, &create->row, &create->session, error);
}

moonpad_status moonpad_create_session(moonpad_service *service, const moonpad_session_name *given, moonpad_string state,
                                      moonpad_session **session, moonpad_error *error) {
  *session = NULL;
  creation create;
  memset(&create, 0, sizeof create);
  create.service = service;
  mp_entries_init(&create.initial, service->env);
  char id[MP_UUID_BYTES];
  moonpad_status status = mp_name_new_session(service->env, given, id, &create.name, error);
  if (status == MOONPAD_OK) status = mp_read_state(service, state, &create.initial, error);
  if (status == MOONPAD_OK) {
    status = mp_check_state_size(service, mp_entries_bytes(&create.initial, MP_SCOPE_SESSION), error);
  }
  if (status == MOONPAD_OK) status = mp_now(service->env, &create.now, error);
  if (status == MOONPAD_OK) status = mp_quota_begin(&create.quota, service, &create.name, error);
  if (status != MOONPAD_OK) {
    mp_entries_free(&create.initial);
    return status;
  }
  status = mp_expiry_write(&create.quota.expiry, create_in, &create, error);
  if (status == MOONPAD_OK) {
    mp_expiry_renew(&create.quota.expiry);
    *session = create.session;
  } else {
    moonpad_session_free(create.session);
  }
  mp_entries_free(&create.initial);
  return status;
}
