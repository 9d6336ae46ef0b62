/*
** A store that loses events, as after a failover or when a backup is restored: it is kept, and put
** back under the session objects that know more. Stores in a file, on PostgreSQL, on
** MySQL and on Redis.
*/
#ifndef SET_BACK_H
#define SET_BACK_H

#include "service_support.h"

/* Keeps what the store holds now. */
void set_back_keep(host *self);
/* The store holds again what was kept, and nothing of what came after it. */
void set_back(host *self);

#endif
