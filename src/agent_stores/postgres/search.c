/*
** Memories on PostgreSQL: searching them. One question brings every word of the query that the
** user's memories hold, with its places; from them come the phrases and which memories are the
** best. A second one reads those.
*/
#include <stdlib.h>

#include "agent_stores/postgres/stores.h"
#include "agent_stores/ranking.h"
#include "base/error.h"

/* A word of the query in a memory. */
typedef struct met_word {
  int64_t memory;
  uint32_t word;  /* which of the words that were asked for, from 0 */
  uint32_t size;  /* how many words the memory has */
  size_t at;      /* its positions in searching.positions, in order */
  uint32_t count; /* of them */
} met_word;

typedef struct searching {
  mp_postgres_memories *store;
  const mp_memories_query *query;
  const mp_agent_time *time;
  mp_word_list words;  /* of all phrases, one behind the other; then sorted, to find equal ones */
  mp_buffer which;     /* of each, in order: which of the words that are asked for, a uint32_t */
  mp_buffer ends;      /* where each phrase ends among them: a size_t */
  int64_t count;       /* of the user's memories */
  mp_buffer met;       /* met_word */
  mp_buffer positions; /* uint32_t */
  mp_buffer best;      /* ids: each an int64_t */
  mp_buffer *matches;
  mp_buffer due; /* ids of those to be renewed */
} searching;

static uint32_t number_at(const mp_buffer *numbers, size_t index) {
  uint32_t number;
  memcpy(&number, numbers->data + index * sizeof number, sizeof number);
  return number;
}

/* ---- the words of the query ---- */

/* Each with its place in the query. */
static moonpad_status take_phrases(searching *wanted, moonpad_error *error) {
  mp_word_list one;
  moonpad_status status = MOONPAD_OK;
  mp_word_list_init(&one, wanted->store->env);
  for (size_t i = 0; i < wanted->query->phrase_count && status == MOONPAD_OK; i++) {
    status = mp_tokenize(wanted->store->tokenizer, wanted->query->phrases[i], &one, error);
    for (size_t j = 0; status == MOONPAD_OK && j < mp_word_count(&one); j++) {
      mp_word word = mp_words(&one)[j];
      word.position = (uint32_t)mp_word_count(&wanted->words);
      mp_buffer_add(&wanted->words.bytes, word.bytes, word.length);
      mp_buffer_add(&wanted->words.words, (const char *)&word, sizeof word);
    }
    size_t end = mp_word_count(&wanted->words);
    mp_buffer_add(&wanted->ends, (const char *)&end, sizeof end);
  }
  mp_word_list_free(&one);
  bool failed = wanted->words.bytes.failed || wanted->words.words.failed || wanted->ends.failed;
  return status == MOONPAD_OK && failed ? mp_no_memory(error) : status;
}

/* Each word is asked for once. */
static bool number_words(searching *wanted) {
  size_t count = mp_word_count(&wanted->words);
  mp_word *words = mp_words(&wanted->words);
  const char *at = wanted->words.bytes.data;
  if (count == 0) return true;
  for (size_t i = 0; i < count; i++) {
    words[i].bytes = at;
    at += words[i].length;
  }
  mp_sort_words(&wanted->words);
  if (!mp_buffer_room(&wanted->which, count * sizeof(uint32_t))) return false;
  wanted->which.length = count * sizeof(uint32_t);
  uint32_t number = 0;
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && !mp_is_same_word(&words[i - 1], &words[i])) number++;
    memcpy(wanted->which.data + words[i].position * sizeof number, &number, sizeof number);
  }
  return true;
}

/* The words of a phrase: from *first to before *end. */
static void phrase_at(const searching *wanted, size_t phrase, size_t *first, size_t *end) {
  *first = 0;
  if (phrase > 0) memcpy(first, wanted->ends.data + (phrase - 1) * sizeof *first, sizeof *first);
  memcpy(end, wanted->ends.data + phrase * sizeof *end, sizeof *end);
}

/* ---- where they are ---- */

static void add_words(mp_postgres_parameters *parameters, const void *asked) {
  const searching *wanted = asked;
  const mp_word *words = mp_words(&wanted->words);
  mp_postgres_add_text(parameters, wanted->query->app_name);
  mp_postgres_add_text(parameters, wanted->query->user_id);
  mp_postgres_begin_array(parameters, MP_PG_BYTEA);
  for (size_t i = 0; i < mp_word_count(&wanted->words); i++) {
    if (i > 0 && mp_is_same_word(&words[i - 1], &words[i])) continue;
    mp_postgres_item_bytes(parameters, (moonpad_string){words[i].bytes, words[i].length});
  }
  mp_postgres_end_array(parameters);
  mp_postgres_add_double(parameters, mp_agent_alive_since(wanted->time));
}

static void take_positions(searching *wanted, moonpad_string bytes, met_word *met) {
  met->at = wanted->positions.length / sizeof(uint32_t);
  met->count = (uint32_t)(bytes.length / 4);
  for (size_t i = 0; i + 4 <= bytes.length; i += 4) {
    uint32_t position = 0;
    for (size_t j = 0; j < 4; j++) position = position << 8 | (unsigned char)bytes.data[i + j];
    mp_buffer_add(&wanted->positions, (const char *)&position, sizeof position);
  }
}

static moonpad_status take_met(void *found, const PGresult *rows, moonpad_error *error) {
  enum { NUMBER, MEMORY, SIZE, POSITIONS };
  searching *wanted = found;
  mp_buffer_clear(&wanted->met);
  mp_buffer_clear(&wanted->positions);
  wanted->count = 0;
  for (int row = 0; row < PQntuples(rows); row++) {
    int64_t number = mp_postgres_integer(rows, row, NUMBER);
    if (number == 0) {
      wanted->count = mp_postgres_integer(rows, row, MEMORY);
      continue;
    }
    met_word met = {.memory = mp_postgres_integer(rows, row, MEMORY),
                    .word = (uint32_t)(number - 1),
                    .size = (uint32_t)mp_postgres_integer(rows, row, SIZE)};
    take_positions(wanted, mp_postgres_bytes(rows, row, POSITIONS), &met);
    mp_buffer_add(&wanted->met, (const char *)&met, sizeof met);
  }
  return wanted->met.failed || wanted->positions.failed ? mp_no_memory(error) : MOONPAD_OK;
}

/* ---- the phrases in a memory ---- */

static int compare(const void *left, const void *right) {
  const met_word *a = left, *b = right;
  if (a->memory != b->memory) return a->memory < b->memory ? -1 : 1;
  return a->word == b->word ? 0 : a->word < b->word ? -1 : 1;
}

/* What a memory has of the words, which are in order: NULL where it lacks one. */
static const met_word *met_in(const met_word *first, size_t count, uint32_t word) {
  met_word wanted = {.memory = first->memory, .word = word};
  return bsearch(&wanted, first, count, sizeof wanted, compare);
}

static int compare_positions(const void *left, const void *right) {
  const uint32_t *a = left, *b = right;
  return (*a > *b) - (*a < *b);
}

static const uint32_t *positions_of(const searching *wanted, const met_word *met) {
  return (const uint32_t *)(const void *)wanted->positions.data + met->at;
}

static bool is_at(const searching *wanted, const met_word *met, uint32_t position) {
  return bsearch(&position, positions_of(wanted, met), met->count, sizeof position, compare_positions) != NULL;
}

/* How often the memory with these words has a phrase: all of its words, in order. */
static uint32_t times_of(const searching *wanted, const met_word *first, size_t count, size_t phrase) {
  size_t begin, end;
  uint32_t times = 0;
  phrase_at(wanted, phrase, &begin, &end);
  const met_word *opening = begin == end ? NULL : met_in(first, count, number_at(&wanted->which, begin));
  if (opening == NULL || end - begin == 1) return opening == NULL ? 0 : opening->count;
  for (uint32_t i = 0; i < opening->count; i++) {
    uint32_t position = positions_of(wanted, opening)[i];
    bool is_whole = true;
    for (size_t word = begin + 1; word < end && is_whole; word++) {
      const met_word *met = met_in(first, count, number_at(&wanted->which, word));
      is_whole = met != NULL && is_at(wanted, met, position + (uint32_t)(word - begin));
    }
    times += is_whole;
  }
  return times;
}

static bool rank(searching *wanted) {
  size_t count = wanted->met.length / sizeof(met_word);
  met_word *met = (met_word *)(void *)wanted->met.data;
  uint32_t *times = mp_allocate(wanted->store->env, wanted->query->phrase_count * sizeof *times);
  mp_ranking ranking;
  if (times == NULL) return false;
  mp_ranking_init(&ranking, wanted->store->env, wanted->query->phrase_count);
  if (count > 1) qsort(met, count, sizeof *met, compare);
  for (size_t first = 0, end; first < count; first = end) {
    for (end = first + 1; end < count && met[end].memory == met[first].memory; end++) continue;
    for (size_t phrase = 0; phrase < wanted->query->phrase_count; phrase++) {
      times[phrase] = times_of(wanted, met + first, end - first, phrase);
    }
    mp_ranking_add(&ranking, met[first].memory, met[first].size, times);
  }
  bool has_memory = mp_ranking_best(&ranking, wanted->count, wanted->query->limit, &wanted->best);
  mp_ranking_free(&ranking);
  mp_release(wanted->store->env, times);
  return has_memory;
}

/* ---- the best of them ---- */

static void add_ids(mp_postgres_parameters *parameters, const mp_buffer *ids) {
  mp_postgres_begin_array(parameters, MP_PG_INT8);
  for (size_t at = 0; at < ids->length; at += sizeof(int64_t)) {
    int64_t id;
    memcpy(&id, ids->data + at, sizeof id);
    mp_postgres_item_integer(parameters, id);
  }
  mp_postgres_end_array(parameters);
}

static void add_best(mp_postgres_parameters *parameters, const void *asked) {
  add_ids(parameters, &((const searching *)asked)->best);
}

static moonpad_status take_best(void *found, const PGresult *rows, moonpad_error *error) {
  enum { ID, SESSION, AUTHOR, TIMESTAMP, CONTENT, TOUCHED };
  searching *wanted = found;
  mp_buffer_clear(wanted->matches);
  mp_buffer_clear(&wanted->due);
  for (int row = 0; row < PQntuples(rows); row++) {
    char id[24];
    int64_t number = mp_postgres_integer(rows, row, ID);
    snprintf(id, sizeof id, "%lld", (long long)number);
    mp_memories_match match = {moonpad_text(id), mp_postgres_bytes(rows, row, SESSION),
                               mp_postgres_bytes(rows, row, AUTHOR), mp_postgres_double(rows, row, TIMESTAMP),
                               mp_postgres_bytes(rows, row, CONTENT)};
    mp_memories_add_match(wanted->matches, &match);
    if (mp_postgres_double(rows, row, TOUCHED) >= mp_agent_renewed_since(wanted->time)) continue;
    mp_buffer_add(&wanted->due, (const char *)&number, sizeof number);
  }
  return wanted->matches->failed || wanted->due.failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void add_due(mp_postgres_parameters *parameters, const void *asked) {
  const searching *wanted = asked;
  add_ids(parameters, &wanted->due);
  mp_postgres_add_double(parameters, wanted->time->now);
}

/* ---- the whole ---- */

static moonpad_status search(searching *wanted, moonpad_error *error) {
  mp_store *store = wanted->store->store;
  moonpad_status status = take_phrases(wanted, error);
  if (status == MOONPAD_OK && !number_words(wanted)) status = mp_no_memory(error);
  mp_postgres_call find = {MP_PG_FIND_WORDS, add_words, wanted, take_met, wanted};
  if (status == MOONPAD_OK) status = mp_postgres_ask(store, &find, error);
  if (status == MOONPAD_OK && !rank(wanted)) status = mp_no_memory(error);
  if (status != MOONPAD_OK || wanted->best.length == 0) return status;
  mp_postgres_call read = {MP_PG_READ_MEMORIES, add_best, wanted, take_best, wanted};
  status = mp_postgres_ask(store, &read, error);
  if (status != MOONPAD_OK || wanted->due.length == 0) return status;
  /* What was found has been found, whether this is stored or not. */
  mp_postgres_call renew = {MP_PG_RENEW_MEMORIES, add_due, wanted, NULL, NULL};
  mp_postgres_renew(store, &renew);
  return status;
}

moonpad_status mp_postgres_memories_search(mp_memories *memories, const mp_memories_query *query,
                                           const mp_agent_time *time, mp_buffer *matches, moonpad_error *error) {
  mp_postgres_memories *self = (mp_postgres_memories *)memories;
  searching wanted = {.store = self, .query = query, .time = time, .matches = matches};
  mp_buffer_clear(matches);
  if (query->phrase_count == 0) return mp_remote_check_open(self->store, error);
  mp_word_list_init(&wanted.words, self->env);
  mp_buffer *const buffers[] = {&wanted.which, &wanted.ends, &wanted.met, &wanted.positions, &wanted.best, &wanted.due};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) mp_buffer_init(buffers[i], self->env);
  moonpad_status status = search(&wanted, error);
  if (status != MOONPAD_OK) mp_buffer_clear(matches);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) mp_buffer_free(buffers[i]);
  mp_word_list_free(&wanted.words);
  return status;
}
