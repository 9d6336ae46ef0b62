/* The idempotency keys of the memory store (mp_tx_ops.claim_token). */
#ifndef MP_STORE_MEMORY_TOKENS_H
#define MP_STORE_MEMORY_TOKENS_H

#include "base/map.h"

/* Lies in the same allocation as its key. */
typedef struct mp_memory_token {
  mp_key *key; /* the map's reference */
  double time;
  struct mp_memory_token *older; /* in the order of time */
  struct mp_memory_token *newer;
} mp_memory_token;

typedef struct mp_memory_tokens {
  mp_map map; /* bytes -> mp_memory_token */
  mp_memory_token *oldest;
  mp_memory_token *newest;
} mp_memory_tokens;

void mp_memory_tokens_init(mp_memory_tokens *tokens, mp_env *env);
void mp_memory_tokens_free(mp_memory_tokens *tokens);
/* Removes those with a time before `expired`. */
void mp_memory_tokens_expire(mp_memory_tokens *tokens, double expired);
bool mp_memory_tokens_has(const mp_memory_tokens *tokens, moonpad_string bytes);
/*
** Adds a token that is not there, and returns the caller's reference to its key. NULL when out of
** memory.
*/
mp_key *mp_memory_tokens_add(mp_memory_tokens *tokens, moonpad_string bytes, double time);
/* Removes the very token that was added with this key, if it is still there. Cannot fail. */
void mp_memory_tokens_undo_add(mp_memory_tokens *tokens, const mp_key *key);

#endif
