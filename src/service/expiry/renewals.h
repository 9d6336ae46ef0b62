/*
** Renewals that are not stored yet: a call that reads notes what it has used, and a worker stores
** many notes in one transaction, once a second at most (more often where an entry lives less than
** 20 seconds). So a renewal reaches other services a second late; the service's own calls know it
** at once. What is noted when the process is killed is lost.
*/
#ifndef MP_SERVICE_EXPIRY_RENEWALS_H
#define MP_SERVICE_EXPIRY_RENEWALS_H

#include "base/map.h"
#include "base/platform.h"
#include "service/executor.h"
#include "store/store.h"

struct mp_expiry;

typedef struct mp_renewals {
  /* Stores the notes. The first member. */
  mp_task task;
  moonpad_service *service;
  /* Guards the two that follow. Whoever holds it may allocate memory, and takes no other lock. */
  mp_mutex mutex;
  mp_map notes;
  /* The task waits or runs. */
  bool is_scheduled;
  /*
  ** Held by whoever stores notes, during its transaction; that takes no lock of the service. Nobody
  ** asks for it in a transaction or with another lock.
  */
  mp_mutex storing;
  /* When notes were stored last, by a clock that only goes forwards; guarded by `mutex`. */
  double stored_at;
} mp_renewals;

/* False: the system has no mutex left. */
bool mp_renewals_init(mp_renewals *renewals, moonpad_service *service);
/* Forgets what is not stored. */
void mp_renewals_destroy(mp_renewals *renewals);

/* How late a renewal may be stored, in seconds, of an entry that lives so long. */
double mp_renewal_delay(double time_to_live);
/* Sets expiry->noted. */
void mp_renewals_find(mp_renewals *renewals, struct mp_expiry *expiry);
/* Notes that the entries in `heads` are used now. Without memory it notes nothing. */
void mp_renewals_add(mp_renewals *renewals, const struct mp_expiry *expiry, unsigned heads);
/* Stores all notes now. They stay noted if that fails. */
moonpad_status mp_renewals_store(mp_renewals *renewals, moonpad_error *error);
/*
** Before the store itself decides what has expired, as in a list: stores the notes if without one
** of them the store would take something for expired. That is seldom, for they are stored soon.
*/
void mp_renewals_store_hidden(moonpad_service *service);

#endif
