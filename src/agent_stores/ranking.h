/*
** Which of the memories that a search has met are the best: by BM25, as SQLite's FTS5 computes it,
** over the memories of one user. So nobody's order depends on what others have said, and every
** store has the same order.
**
** Not thread-safe.
*/
#ifndef MP_AGENT_STORES_RANKING_H
#define MP_AGENT_STORES_RANKING_H

#include "base/buffer.h"

typedef struct mp_ranking {
  mp_env *env;
  size_t phrases;  /* of the query */
  mp_buffer met;   /* the memories that have a phrase: id and words of each */
  mp_buffer times; /* how often each of them has each phrase */
} mp_ranking;

void mp_ranking_init(mp_ranking *ranking, mp_env *env, size_t phrases);
void mp_ranking_free(mp_ranking *ranking);
/* Forgets what has been added. */
void mp_ranking_clear(mp_ranking *ranking);

/* A memory of so many words, which holds the i-th phrase times[i] times. */
void mp_ranking_add(mp_ranking *ranking, int64_t id, uint32_t words, const uint32_t *times);
/*
** The ids of at most `limit`, the best first; of equals the higher id, which is the newer one.
** `memories`: how many the user has. False: no memory.
*/
bool mp_ranking_best(const mp_ranking *ranking, int64_t memories, int64_t limit, mp_buffer *ids);

#endif
