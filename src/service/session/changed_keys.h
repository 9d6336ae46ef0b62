/*
** Keys of the stored scopes, collected inside a transaction that looks at a session, as a rule to
** be put into a view after it.
*/
#ifndef MP_SERVICE_SESSION_CHANGED_KEYS_H
#define MP_SERVICE_SESSION_CHANGED_KEYS_H

#include "core/entries.h"
#include "service/expiry/expiry.h"
#include "service/session/view.h"

/* It does not move. */
typedef struct mp_changed_keys {
  mp_entries found;
  /*
  ** The view they are for, where nobody else uses it during the transaction: its entries are made
  ** while rows are added. Else NULL.
  */
  mp_view *view;
  /* Scopes (MP_HEAD) of which `found` is the complete state: what it lacks is gone. */
  unsigned complete_scopes;
  /* Those of which the asker knew a later revision than is stored (session/ahead.h). */
  unsigned ahead_scopes;
} mp_changed_keys;

void mp_changed_keys_init(mp_changed_keys *changed, mp_env *env);
void mp_changed_keys_clear(mp_changed_keys *changed);
void mp_changed_keys_free(mp_changed_keys *changed);
/* An mp_each_state; the context is the mp_changed_keys. */
moonpad_status mp_changed_keys_add_row(void *changed, const mp_state_row *row, moonpad_error *error);
void mp_changed_keys_note_complete(mp_changed_keys *changed, const mp_facts *facts);

/*
** A question to the store for a session and its keys that changed after the revisions in
** `snapshot`; NULL: for all of its keys.
*/
mp_look mp_look_at(const mp_session_ref *ref, const mp_session_row *snapshot, mp_changed_keys *changed);
/*
** Clears `changed`, then asks; of a scope that the asker is ahead in, once more for all keys.
*/
moonpad_status mp_look_for_changed_keys(mp_tx *tx, mp_look *look, mp_changed_keys *changed, mp_facts *facts,
                                        moonpad_error *error);

/*
** The same for a call that uses what it looks at: what has expired is absent, what has not is
** renewed. MOONPAD_NOT_FOUND, no message: there is no such session any more.
*/
moonpad_status mp_look_for_live_keys(mp_tx *tx, mp_look *look, mp_expiry *expiry, mp_changed_keys *changed,
                                     mp_facts *facts, moonpad_error *error);

/*
** Puts them into a view. `reserve` makes the entries; false without memory. `apply` comes after it
** and cannot fail; `row` is the session as the store has it.
*/
bool mp_changed_keys_reserve(const mp_changed_keys *changed, mp_view *view);
void mp_changed_keys_apply(const mp_changed_keys *changed, mp_view *view, const mp_session_row *row);

/* ---- the revisions of a row ---- */

/* temp: lives in the session object alone, and changes when an event is appended. */
static inline int64_t mp_row_revision(const mp_session_row *row, mp_scope scope) {
  switch (scope) {
  case MP_SCOPE_USER:
    return row->user_revision;
  case MP_SCOPE_APP:
    return row->app_revision;
  default:
    return row->revision;
  }
}

mp_session_ref mp_session_ref_of_row(const moonpad_session_name *name, const mp_session_row *row);

#endif
