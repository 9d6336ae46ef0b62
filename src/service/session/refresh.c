/*
** Refreshing a session object: it takes in what others have stored (contract 2). An append does so
** on its way (append/apply.c).
*/
#include "service/session/refresh.h"

#include "base/error.h"
#include "service/names.h"
#include "service/session/ahead.h"

static moonpad_status refresh_in(mp_tx *tx, void *context, moonpad_error *error) {
  mp_refreshing *refresh = context;
  mp_facts facts;
  mp_look look = mp_look_at(&refresh->ref, &refresh->snapshot, &refresh->changes);
  moonpad_status status = mp_look_for_live_keys(tx, &look, &refresh->expiry, &refresh->changes, &facts, error);
  if (status == MOONPAD_OK) refresh->row = facts.row;
  return status == MOONPAD_NOT_FOUND ? mp_fail_not_found(&refresh->ref.name, error) : status;
}

void mp_refresh_begin(mp_refreshing *refresh, const moonpad_session *session) {
  refresh->service = session->service;
  refresh->ref = mp_session_ref_of(session);
  refresh->snapshot = session->row;
  mp_changed_keys_init(&refresh->changes, session->env);
}

moonpad_status mp_refresh_read(mp_refreshing *refresh, moonpad_error *error) {
  moonpad_status status = mp_expiry_begin(&refresh->expiry, refresh->service, &refresh->ref, MP_ALL_HEADS, error);
  if (status == MOONPAD_OK) status = mp_expiry_read(&refresh->expiry, refresh_in, refresh, error);
  if (status == MOONPAD_OK) mp_expiry_renew(&refresh->expiry);
  return status;
}

bool mp_refresh_fits(const mp_refreshing *refresh, const moonpad_session *session) {
  const mp_session_row *then = &refresh->snapshot, *now = &session->row;
  return session->in_flight.unapplied == 0 && then->revision == now->revision &&
         then->user_revision == now->user_revision && then->app_revision == now->app_revision;
}

moonpad_status mp_refresh_apply(mp_refreshing *refresh, moonpad_session *session, moonpad_error *error) {
  if (!mp_changed_keys_reserve(&refresh->changes, &session->view)) return mp_no_memory(error);
  mp_changed_keys_apply(&refresh->changes, &session->view, &refresh->row);
  mp_session_take_back(session, &refresh->changes, &refresh->row);
  session->row = refresh->row;
  if (session->hooks != NULL) session->hooks->refreshed(session);
  return MOONPAD_OK;
}

void mp_refresh_end(mp_refreshing *refresh) {
  mp_changed_keys_free(&refresh->changes);
}

moonpad_status moonpad_refresh(moonpad_session *session, moonpad_error *error) {
  mp_session_drain(session);
  mp_refreshing refresh;
  mp_refresh_begin(&refresh, session);
  moonpad_status status = mp_refresh_read(&refresh, error);
  if (status == MOONPAD_OK) status = mp_refresh_apply(&refresh, session, error);
  mp_refresh_end(&refresh);
  return status;
}
