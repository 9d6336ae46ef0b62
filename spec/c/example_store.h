/* The store "example:" (example_store.c). */
#ifndef EXAMPLE_STORE_H
#define EXAMPLE_STORE_H

#include "store/store.h"

moonpad_status example_store_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                  moonpad_error *error);
extern const struct moonpad_store_opener example_store_opener;

#endif
