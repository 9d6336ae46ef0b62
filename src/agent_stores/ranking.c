/* BM25 over the memories of one user. */
#include "agent_stores/ranking.h"

#include <math.h>
#include <stdlib.h>

/* The constants of FTS5's bm25(). */
#define K1         1.2
#define B          0.75
#define LEAST_RARE 1e-6

typedef struct met_memory {
  int64_t id;
  double words;
} met_memory;

typedef struct scored_memory {
  int64_t id;
  double score;
} scored_memory;

void mp_ranking_init(mp_ranking *ranking, mp_env *env, size_t phrases) {
  ranking->env = env;
  ranking->phrases = phrases;
  mp_buffer_init(&ranking->met, env);
  mp_buffer_init(&ranking->times, env);
}

void mp_ranking_free(mp_ranking *ranking) {
  mp_buffer_free(&ranking->met);
  mp_buffer_free(&ranking->times);
}

void mp_ranking_clear(mp_ranking *ranking) {
  mp_buffer_clear(&ranking->met);
  mp_buffer_clear(&ranking->times);
}

void mp_ranking_add(mp_ranking *ranking, int64_t id, uint32_t words, const uint32_t *times) {
  met_memory met = {id, words};
  bool has_one = false;
  for (size_t i = 0; i < ranking->phrases; i++) has_one = has_one || times[i] > 0;
  if (!has_one) return;
  mp_buffer_add(&ranking->met, (const char *)&met, sizeof met);
  mp_buffer_add(&ranking->times, (const char *)times, ranking->phrases * sizeof *times);
}

static size_t count_of(const mp_ranking *ranking) {
  return ranking->met.length / sizeof(met_memory);
}

static met_memory met_at(const mp_ranking *ranking, size_t index) {
  met_memory met;
  memcpy(&met, ranking->met.data + index * sizeof met, sizeof met);
  return met;
}

/* How often the memory has the phrase. */
static double times_at(const mp_ranking *ranking, size_t index, size_t phrase) {
  uint32_t times;
  memcpy(&times, ranking->times.data + (index * ranking->phrases + phrase) * sizeof times, sizeof times);
  return times;
}

/* The weight of a phrase: the fewer memories have it, the more. */
static double rarity(const mp_ranking *ranking, size_t phrase, double memories) {
  double having = 0;
  for (size_t i = 0; i < count_of(ranking); i++) having += times_at(ranking, i, phrase) > 0;
  double weight = log((memories - having + 0.5) / (having + 0.5));
  return weight > LEAST_RARE ? weight : LEAST_RARE;
}

static double average_words(const mp_ranking *ranking) {
  double words = 0;
  size_t count = count_of(ranking);
  for (size_t i = 0; i < count; i++) words += met_at(ranking, i).words;
  return words / (double)count;
}

static void score_all(const mp_ranking *ranking, double memories, double *weights, scored_memory *scored) {
  double average = average_words(ranking);
  for (size_t phrase = 0; phrase < ranking->phrases; phrase++) weights[phrase] = rarity(ranking, phrase, memories);
  for (size_t i = 0; i < count_of(ranking); i++) {
    met_memory met = met_at(ranking, i);
    scored[i] = (scored_memory){met.id, 0};
    double length = K1 * (1 - B + B * met.words / average);
    for (size_t phrase = 0; phrase < ranking->phrases; phrase++) {
      double times = times_at(ranking, i, phrase);
      if (times > 0) scored[i].score += weights[phrase] * (times * (K1 + 1)) / (times + length);
    }
  }
}

static int compare(const void *left, const void *right) {
  const scored_memory *a = left, *b = right;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->id == b->id ? 0 : a->id > b->id ? -1 : 1;
}

bool mp_ranking_best(const mp_ranking *ranking, int64_t memories, int64_t limit, mp_buffer *ids) {
  size_t count = count_of(ranking);
  if (ranking->met.failed || ranking->times.failed) return false;
  if (count == 0) return true;
  double *weights = mp_allocate(ranking->env, ranking->phrases * sizeof *weights);
  scored_memory *scored = mp_allocate(ranking->env, count * sizeof *scored);
  bool has_memory = weights != NULL && scored != NULL;
  if (has_memory) {
    score_all(ranking, (double)memories, weights, scored);
    qsort(scored, count, sizeof *scored, compare);
    for (size_t i = 0; i < count && (int64_t)i < limit; i++) {
      mp_buffer_add(ids, (const char *)&scored[i].id, sizeof scored[i].id);
    }
  }
  mp_release(ranking->env, weights);
  mp_release(ranking->env, scored);
  return has_memory && !ids->failed;
}
