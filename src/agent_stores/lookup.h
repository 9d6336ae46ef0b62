/*
** Looking up phrases in an index of words that a store keeps in a table of its own: of each word in
** each memory the places where it stands. The store asks for the words, each once, and tells what
** it has met; from that come the phrases and which memories are the best.
**
** Not thread-safe.
*/
#ifndef MP_AGENT_STORES_LOOKUP_H
#define MP_AGENT_STORES_LOOKUP_H

#include "agent_stores/words.h"

typedef struct mp_lookup {
  mp_env *env;
  size_t phrase_count;
  mp_word_list words;  /* of all phrases, one behind the other; then sorted, to find equal ones */
  mp_buffer which;     /* of each, in order: which of the words that are asked for, a uint32_t */
  mp_buffer ends;      /* where each phrase ends among them: a size_t */
  mp_buffer met;       /* the words of the query in memories */
  mp_buffer positions; /* of those: uint32_t */
} mp_lookup;

void mp_lookup_init(mp_lookup *lookup, mp_env *env);
void mp_lookup_free(mp_lookup *lookup);
/* Once, before anything else. Errors: no_memory, limit. */
moonpad_status mp_lookup_take(mp_lookup *lookup, mp_tokenizer *tokenizer, const moonpad_string *phrases, size_t count,
                              moonpad_error *error);

/*
** The words to be asked for, which are numbered from 0: writes the next one, from *at 0 on. False:
** there are no more.
*/
bool mp_lookup_next_word(const mp_lookup *lookup, size_t *at, moonpad_string *word);
/* The number of a word. False: it is none of them. */
bool mp_lookup_number(const mp_lookup *lookup, moonpad_string word, uint32_t *number);

/* Forgets what was met: the store asks again. */
void mp_lookup_forget(mp_lookup *lookup);
/* A memory of `size` words has this one at these positions, as mp_write_positions writes them. */
void mp_lookup_meet(mp_lookup *lookup, uint32_t number, int64_t memory, uint32_t size, moonpad_string positions);
/*
** The ids of at most `limit` memories that have one of the phrases, the best first (ranking.h), of
** a user who has so many. Errors: no_memory, also for what was met.
*/
moonpad_status mp_lookup_best(mp_lookup *lookup, int64_t memories, int64_t limit, mp_buffer *ids, moonpad_error *error);

#endif
