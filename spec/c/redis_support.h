/* Places of tests on Redis, for server_support.c; and commands of a test's own. */
#ifndef REDIS_SUPPORT_H
#define REDIS_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "moonpad_stores.h"

/*
** MOONPAD_TEST_REDIS may be the URL of a cluster: then the tests of "redis:" run there. This opens
** either.
*/
static inline const moonpad_store_opener *redis_opener(void) {
  const char *url = getenv("MOONPAD_TEST_REDIS");
  bool is_of_cluster = url != NULL && strncmp(url, "redis+cluster:", 14) == 0;
  return is_of_cluster ? moonpad_redis_cluster_store() : moonpad_redis_store();
}

/* `url` is that of the server; the place is a prefix of its own for all keys. */
void redis_make_url(const char *url, char *rest, size_t size);
bool redis_is_url(const char *rest);
/* Removes all keys of the place. */
void redis_forget_url(const char *rest);

/* Copies what a place has of apps, and puts it back. */
void redis_keep(const char *rest);
void redis_put_back(const char *rest);

/*
** Runs a command; "#" in front of a word is the prefix of the place. The words end with NULL. The
** answer is written as text, and overwritten by the next one. Whatever fails ends the program.
*/
const char *redis_run(const char *rest, ...);
long redis_number(const char *rest, const char *command, const char *key);

#endif
