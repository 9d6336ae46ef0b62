/*
** Which of the memories that a search has met are the best: by BM25 with the constants of SQLite's
** FTS5, but over the memories of one user, and with the average length of those that were met. So
** nobody's order depends on what others have said, and every store has the same order. A memory
** that has expired counts among the user's until it is swept.
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
** The ids of at most `limit`, the best first; of equals the one that was stored last.
** `memories`: how many the user has. False: no memory.
*/
bool mp_ranking_best(const mp_ranking *ranking, int64_t memories, int64_t limit, mp_buffer *ids);

#endif
