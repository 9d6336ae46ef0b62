/* The first thing that every look at a history asks of the store. */
#include "service/history/history.h"

#include "base/error.h"
#include "service/names.h"

moonpad_status mp_history_begin(mp_expiry *expiry, const moonpad_session *session, moonpad_error *error) {
  mp_session_ref ref = mp_session_ref_of(session);
  return mp_expiry_begin(expiry, session->service, &ref, MP_ALL_HEADS, error);
}

moonpad_status mp_history_look(mp_expiry *expiry, mp_tx *tx, int64_t since, mp_changed_keys *changed,
                               mp_session_row *row, moonpad_error *error) {
  mp_look look = {.ref = expiry->ref,
                  .heads = MP_ALL_HEADS,
                  .since = {since, MP_NO_KEYS, MP_NO_KEYS},
                  .each_state = mp_changed_keys_add_row,
                  .context = changed};
  mp_facts facts;
  moonpad_status status = changed == NULL ? tx->ops->look(tx, &look, &facts, error)
                                          : mp_look_for_changed_keys(tx, &look, changed, &facts, error);
  *row = facts.row;
  if (status == MOONPAD_OK) status = mp_expiry_judge(expiry, &facts);
  if (status == MOONPAD_OK) status = mp_expiry_touch(expiry, tx, MP_ALL_HEADS & ~expiry->expired, error);
  return status == MOONPAD_NOT_FOUND ? mp_fail_not_found(&look.ref.name, error) : status;
}
