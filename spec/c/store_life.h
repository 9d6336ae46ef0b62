/* A life of a store: steps of every kind, drawn from a seed, in one transaction. */
#ifndef STORE_LIFE_H
#define STORE_LIFE_H

#include "store_support.h"

typedef struct random_life {
  opened_store *opened;
  unsigned has; /* the housekeeping that it does */
  uint64_t seed;
  int steps;
  bool fails;        /* ends with an error, after all its steps */
  store_dump inside; /* what the transaction itself saw at its end */
} random_life;

/* A transaction function; the context is a random_life. */
moonpad_status lives(mp_tx *tx, void *context, moonpad_error *error);

#endif
