/*
** How many sessions a user may have (contract 5: maxSessionsPerUser, onMaxSessions). Of expired
** sessions none counts.
*/
#ifndef MP_SERVICE_SESSION_QUOTA_H
#define MP_SERVICE_SESSION_QUOTA_H

#include "service/expiry/expiry.h"

/* How a call makes a session. */
typedef struct mp_quota {
  mp_expiry expiry;     /* of the session's name */
  double touched_since; /* sessions that have been used since count */
} mp_quota;

/* Before the transaction. The name is borrowed. Errors: invalid_argument (the clock). */
moonpad_status mp_quota_begin(mp_quota *quota, moonpad_service *service, const moonpad_session_name *name,
                              moonpad_error *error);
/*
** In it, once mp_expiry_create_session has made the session: if its user has too many, refuses it
** or deletes the oldest of the others. Errors: limit, those of the store.
*/
moonpad_status mp_quota_apply(const mp_quota *quota, mp_tx *tx, moonpad_error *error);

#endif
