/* Sweeping: freeing what has expired, when asked (moonpad_sweep) or every so often (contract 5). */
#ifndef MP_SERVICE_EXPIRY_SWEEP_H
#define MP_SERVICE_EXPIRY_SWEEP_H

#include "service/executor.h"

/* A task that comes again and again: sweepIntervalSeconds. */
typedef struct mp_sweeper {
  mp_task task; /* the first member */
  moonpad_service *service;
  double interval; /* seconds */
} mp_sweeper;

/*
** Begins with it, if the service has an interval. False: no thread could be started. It ends with
** the executor.
*/
bool mp_sweeper_start(mp_sweeper *sweeper, moonpad_service *service);

#endif
