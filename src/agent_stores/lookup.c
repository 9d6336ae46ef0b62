/* Phrases in an index of words. */
#include "agent_stores/lookup.h"

#include <stdlib.h>

#include "agent_stores/ranking.h"
#include "base/error.h"

/* A word of the query in a memory. */
typedef struct met_word {
  int64_t memory;
  uint32_t word;  /* which of the words that were asked for */
  uint32_t size;  /* how many words the memory has */
  size_t at;      /* its positions, in order */
  uint32_t count; /* of them */
} met_word;

void mp_lookup_init(mp_lookup *lookup, mp_env *env) {
  lookup->env = env;
  lookup->phrase_count = 0;
  mp_word_list_init(&lookup->words, env);
  mp_buffer_init(&lookup->which, env);
  mp_buffer_init(&lookup->ends, env);
  mp_buffer_init(&lookup->met, env);
  mp_buffer_init(&lookup->positions, env);
}

void mp_lookup_free(mp_lookup *lookup) {
  mp_word_list_free(&lookup->words);
  mp_buffer_free(&lookup->which);
  mp_buffer_free(&lookup->ends);
  mp_buffer_free(&lookup->met);
  mp_buffer_free(&lookup->positions);
}

static uint32_t number_at(const mp_buffer *numbers, size_t index) {
  uint32_t number;
  memcpy(&number, numbers->data + index * sizeof number, sizeof number);
  return number;
}

/* ---- the words of the query ---- */

/* Each with its place in the query. */
static moonpad_status take_phrases(mp_lookup *lookup, mp_tokenizer *tokenizer, const moonpad_string *phrases,
                                   moonpad_error *error) {
  mp_word_list one;
  moonpad_status status = MOONPAD_OK;
  mp_word_list_init(&one, lookup->env);
  for (size_t i = 0; i < lookup->phrase_count && status == MOONPAD_OK; i++) {
    status = mp_tokenize(tokenizer, phrases[i], &one, error);
    for (size_t j = 0; status == MOONPAD_OK && j < mp_word_count(&one); j++) {
      mp_word word = mp_words(&one)[j];
      word.position = (uint32_t)mp_word_count(&lookup->words);
      mp_buffer_add(&lookup->words.bytes, word.bytes, word.length);
      mp_buffer_add(&lookup->words.words, (const char *)&word, sizeof word);
    }
    size_t end = mp_word_count(&lookup->words);
    mp_buffer_add(&lookup->ends, (const char *)&end, sizeof end);
  }
  mp_word_list_free(&one);
  bool failed = lookup->words.bytes.failed || lookup->words.words.failed || lookup->ends.failed;
  return status == MOONPAD_OK && failed ? mp_no_memory(error) : status;
}

/* Each word is asked for once. */
static bool number_words(mp_lookup *lookup) {
  size_t count = mp_word_count(&lookup->words);
  mp_word *words = mp_words(&lookup->words);
  const char *at = lookup->words.bytes.data;
  if (count == 0) return true;
  for (size_t i = 0; i < count; i++) {
    words[i].bytes = at;
    at += words[i].length;
  }
  mp_sort_words(&lookup->words);
  if (!mp_buffer_room(&lookup->which, count * sizeof(uint32_t))) return false;
  lookup->which.length = count * sizeof(uint32_t);
  uint32_t number = 0;
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && !mp_is_same_word(&words[i - 1], &words[i])) number++;
    memcpy(lookup->which.data + words[i].position * sizeof number, &number, sizeof number);
  }
  return true;
}

moonpad_status mp_lookup_take(mp_lookup *lookup, mp_tokenizer *tokenizer, const moonpad_string *phrases, size_t count,
                              moonpad_error *error) {
  lookup->phrase_count = count;
  moonpad_status status = take_phrases(lookup, tokenizer, phrases, error);
  return status == MOONPAD_OK && !number_words(lookup) ? mp_no_memory(error) : status;
}

bool mp_lookup_next_word(const mp_lookup *lookup, size_t *at, moonpad_string *word) {
  if (*at >= mp_word_count(&lookup->words)) return false;
  const mp_word *found = &mp_words(&lookup->words)[*at];
  *word = (moonpad_string){found->bytes, found->length};
  *at += mp_same_words(&lookup->words, *at);
  return true;
}

static int compare_bytes(const void *left, const void *right) {
  const mp_word *a = left, *b = right;
  int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
  return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

bool mp_lookup_number(const mp_lookup *lookup, moonpad_string word, uint32_t *number) {
  mp_word wanted = {word.data, (uint32_t)word.length, 0};
  size_t count = mp_word_count(&lookup->words);
  if (count == 0 || word.length > MP_LONGEST_WORD) return false;
  const mp_word *found = bsearch(&wanted, mp_words(&lookup->words), count, sizeof wanted, compare_bytes);
  if (found == NULL) return false;
  *number = number_at(&lookup->which, found->position);
  return true;
}

/* The words of a phrase: from *first to before *end. */
static void phrase_at(const mp_lookup *lookup, size_t phrase, size_t *first, size_t *end) {
  *first = 0;
  if (phrase > 0) memcpy(first, lookup->ends.data + (phrase - 1) * sizeof *first, sizeof *first);
  memcpy(end, lookup->ends.data + phrase * sizeof *end, sizeof *end);
}

/* ---- where they are ---- */

void mp_lookup_forget(mp_lookup *lookup) {
  mp_buffer_clear(&lookup->met);
  mp_buffer_clear(&lookup->positions);
}

void mp_lookup_meet(mp_lookup *lookup, uint32_t number, int64_t memory, uint32_t size, moonpad_string positions) {
  met_word met = {.memory = memory,
                  .word = number,
                  .size = size,
                  .at = lookup->positions.length / sizeof(uint32_t),
                  .count = (uint32_t)(positions.length / 4)};
  for (size_t i = 0; i + 4 <= positions.length; i += 4) {
    uint32_t position = 0;
    for (size_t j = 0; j < 4; j++) position = position << 8 | (unsigned char)positions.data[i + j];
    mp_buffer_add(&lookup->positions, (const char *)&position, sizeof position);
  }
  mp_buffer_add(&lookup->met, (const char *)&met, sizeof met);
}

/* ---- the phrases in a memory ---- */

static int compare_met(const void *left, const void *right) {
  const met_word *a = left, *b = right;
  if (a->memory != b->memory) return a->memory < b->memory ? -1 : 1;
  return a->word == b->word ? 0 : a->word < b->word ? -1 : 1;
}

/* What a memory has of the words, which are in order: NULL where it lacks one. */
static const met_word *met_in(const met_word *first, size_t count, uint32_t word) {
  met_word wanted = {.memory = first->memory, .word = word};
  return bsearch(&wanted, first, count, sizeof wanted, compare_met);
}

static int compare_positions(const void *left, const void *right) {
  const uint32_t *a = left, *b = right;
  return (*a > *b) - (*a < *b);
}

static const uint32_t *positions_of(const mp_lookup *lookup, const met_word *met) {
  return (const uint32_t *)(const void *)lookup->positions.data + met->at;
}

static bool is_at(const mp_lookup *lookup, const met_word *met, uint32_t position) {
  return bsearch(&position, positions_of(lookup, met), met->count, sizeof position, compare_positions) != NULL;
}

/* How often the memory with these words has a phrase: all of its words, in order. */
static uint32_t times_of(const mp_lookup *lookup, const met_word *first, size_t count, size_t phrase) {
  size_t begin, end;
  uint32_t times = 0;
  phrase_at(lookup, phrase, &begin, &end);
  const met_word *opening = begin == end ? NULL : met_in(first, count, number_at(&lookup->which, begin));
  if (opening == NULL || end - begin == 1) return opening == NULL ? 0 : opening->count;
  for (uint32_t i = 0; i < opening->count; i++) {
    uint32_t position = positions_of(lookup, opening)[i];
    bool is_whole = true;
    for (size_t word = begin + 1; word < end && is_whole; word++) {
      const met_word *met = met_in(first, count, number_at(&lookup->which, word));
      is_whole = met != NULL && is_at(lookup, met, position + (uint32_t)(word - begin));
    }
    times += is_whole;
  }
  return times;
}

moonpad_status mp_lookup_best(mp_lookup *lookup, int64_t memories, int64_t limit, mp_buffer *ids,
                              moonpad_error *error) {
  size_t count = lookup->met.length / sizeof(met_word);
  met_word *met = (met_word *)(void *)lookup->met.data;
  mp_ranking ranking;
  if (lookup->met.failed || lookup->positions.failed) return mp_no_memory(error);
  uint32_t *times = mp_allocate(lookup->env, lookup->phrase_count * sizeof *times);
  if (times == NULL) return mp_no_memory(error);
  mp_ranking_init(&ranking, lookup->env, lookup->phrase_count);
  if (count > 1) qsort(met, count, sizeof *met, compare_met);
  for (size_t first = 0, end; first < count; first = end) {
    for (end = first + 1; end < count && met[end].memory == met[first].memory; end++) continue;
    for (size_t phrase = 0; phrase < lookup->phrase_count; phrase++) {
      times[phrase] = times_of(lookup, met + first, end - first, phrase);
    }
    mp_ranking_add(&ranking, met[first].memory, met[first].size, times);
  }
  bool has_memory = mp_ranking_best(&ranking, memories, limit, ids);
  mp_ranking_free(&ranking);
  mp_release(lookup->env, times);
  return has_memory ? MOONPAD_OK : mp_no_memory(error);
}
