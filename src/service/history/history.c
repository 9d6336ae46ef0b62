/* The first thing that every look at a history asks of the store. */
#include "service/history/history.h"

#include "base/error.h"
#include "service/names.h"

moonpad_status mp_history_look(const moonpad_session *session, mp_tx *tx, int64_t since, mp_changed_keys *changed,
                               mp_session_row *row, moonpad_error *error) {
  mp_look look = {.ref = mp_session_ref_of(session),
                  .heads = MP_ALL_HEADS,
                  .since = {since, MP_NO_KEYS, MP_NO_KEYS},
                  .each_state = mp_changed_keys_add_row,
                  .context = changed};
  mp_facts facts;
  moonpad_status status = changed == NULL ? tx->ops->look(tx, &look, &facts, error)
                                          : mp_look_for_changed_keys(tx, &look, changed, &facts, error);
  *row = facts.row;
  return status == MOONPAD_NOT_FOUND ? mp_fail_not_found(&look.ref.name, error) : status;
}
