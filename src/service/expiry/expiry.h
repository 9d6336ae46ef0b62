/*
** expiry/: what has not been used for longer than its time to live, what a session has too many of,
** and freeing both (contract 5: sessionTtlSeconds and so on, sweep, maxEvents, eventTtlSeconds).
** Belongs here: deciding what has expired, renewing what is used, sweeping, trimming.
** Does not belong here: what a call does when a session has expired (that call).
** Arrows: expiry/ uses the service, the store and core; session/, append/, history/ and shared/ use
** expiry/.
**
** This file: what one call knows of expiry. Before its transaction a call begins an mp_expiry.
** Inside, it shows what the store has found (mp_expiry_judge); after it, what was used is renewed
** (mp_expiry_renew). Without any time to live all of this does nothing.
**
** An entry is a session, the state of a user or that of an app. It is renewed when it is used: in
** the transaction where a call writes anyway, else by a note (renewals.h), so that reading does not
** write. A renewal never makes an entry older, whatever the clock says.
*/
#ifndef MP_SERVICE_EXPIRY_EXPIRY_H
#define MP_SERVICE_EXPIRY_EXPIRY_H

#include "service/service.h"

typedef struct mp_expiry {
  moonpad_service *service;
  /* The names are borrowed from the caller. The ids become known when the store is asked. */
  mp_session_ref ref;
  /* The entries that are used: MP_ALL_HEADS, or the user's or the app's. */
  unsigned heads;
  /* One of these has a time to live. All that follows is set only then. */
  bool is_active;
  /* The transaction may write. */
  bool writes;
  double now;
  /* When this service last used them, as far as the store may not know it yet; 0: it does. */
  double noted[MP_STORED_SCOPES];

  /* Found in the transaction. */

  /* Those of `heads` that there are: a user or an app without any state is none. */
  unsigned used;
  /* When the store says that they were last used; 0: not known. */
  double touched[MP_STORED_SCOPES];
  /* Entries whose use is stored by the transaction itself. */
  unsigned stored;
  /* The state of the user or app that has expired: it counts as removed. */
  unsigned expired;
} mp_expiry;

/* How long an entry of that scope lives; 0: for ever. */
double mp_time_to_live(const moonpad_service *service, mp_scope scope);
/* When something is used at `now`, as stores keep it: 0 would be "not known". */
static inline double mp_time_of_use(double now) {
  return now > 0 ? now : 1e-9;
}
/*
** At `now`, has something expired that was last used at that time? 0 is not known, and never has.
*/
static inline bool mp_has_expired(double touched, double now, double time_to_live) {
  return time_to_live > 0 && touched != 0 && touched < now - time_to_live;
}

/*
** For calls that ask the store for sessions that have not expired: they have been used since
** *touched_since; 0: sessions do not expire. Errors: invalid_argument (the clock).
*/
moonpad_status mp_expiry_threshold(moonpad_service *service, double *touched_since, moonpad_error *error);
/* Begins a call on these entries. Errors: invalid_argument (the clock). */
moonpad_status mp_expiry_begin(mp_expiry *expiry, moonpad_service *service, const mp_session_ref *ref, unsigned heads,
                               moonpad_error *error);
/*
** Runs the transaction function of a call that reads. On a store in memory renewing costs nothing,
** so it may write there.
*/
moonpad_status mp_expiry_read(mp_expiry *expiry, mp_tx_function function, void *context, moonpad_error *error);
/* The same for a call that writes. */
moonpad_status mp_expiry_write(mp_expiry *expiry, mp_tx_function function, void *context, moonpad_error *error);

/*
** It has expired if the store says that it was last used before; 0: it has not, whatever it says.
*/
double mp_expiry_since(const mp_expiry *expiry, mp_scope scope);

/*
** In the transaction: takes what a look has found. MOONPAD_NOT_FOUND, no message: the session has
** expired. Sets `expired`.
*/
moonpad_status mp_expiry_judge(mp_expiry *expiry, const mp_facts *facts);
/*
** In the transaction of a call that only has to know whether a session has expired: looks, and
** judges. MOONPAD_NOT_FOUND, no message: it has, or there is none. Without times to live it asks
** nothing.
*/
moonpad_status mp_expiry_look(mp_expiry *expiry, mp_tx *tx, moonpad_error *error);
/*
** In a transaction that writes, after judging: removes state that has expired, as somebody else
** would. What was read before is not valid any more. *removed: there was such state.
*/
moonpad_status mp_expiry_remove_state(mp_expiry *expiry, mp_tx *tx, bool *removed, moonpad_error *error);
/*
** In a transaction, if it writes: stores that the entries in `heads` are used now, where it is time
** to.
*/
moonpad_status mp_expiry_touch(mp_expiry *expiry, mp_tx *tx, unsigned heads, moonpad_error *error);
/*
** As mp_tx_ops.create_session, over a session that has expired as well. The state of its user and
** its app is removed if it has expired, and renewed otherwise. MOONPAD_ALREADY_EXISTS: no message.
*/
moonpad_status mp_expiry_create_session(mp_expiry *expiry, mp_tx *tx, double create_time, mp_session_row *row,
                                        moonpad_error *error);

/* After the transaction has succeeded: notes what it has used and not stored. */
void mp_expiry_renew(const mp_expiry *expiry);

#endif
