/* FTS5's tokenizer without a table: of an empty database in memory. */
#include "agent_stores/words.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent_stores/fts5.h"
#include "base/error.h"
#include "base/platform.h"
#include "core/digest.h"

#define LONGEST_OF_FTS5 32768 /* it cuts longer ones there */
#define DIGEST_DIGITS   16

struct mp_tokenizer {
  mp_env *env;
  sqlite3 *db;
  fts5_tokenizer functions;
  Fts5Tokenizer *instance;
  mp_mutex mutex; /* it has buffers of its own */
};

/* ---- Opening ---- */

static int find(mp_tokenizer *tokenizer) {
  static const char *const arguments[] = {"unicode61", "remove_diacritics", "2"};
  fts5_api *api;
  void *user_data;
  const char **given = (const char **)arguments; /* FTS5 does not write to them */
  int code = mp_fts5_find(tokenizer->db, &api);
  if (code == SQLITE_OK) code = api->xFindTokenizer(api, "porter", &user_data, &tokenizer->functions);
  return code == SQLITE_OK ? tokenizer->functions.xCreate(user_data, given, 3, &tokenizer->instance) : code;
}

moonpad_status mp_tokenizer_new(mp_env *env, mp_tokenizer **tokenizer, moonpad_error *error) {
  *tokenizer = NULL;
  mp_tokenizer *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  made->env = mp_env_retain(env);
  mp_mutex_init(&made->mutex);
  int code = sqlite3_open_v2(":memory:", &made->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, NULL);
  if (code == SQLITE_OK) code = find(made);
  if (code == SQLITE_OK) {
    *tokenizer = made;
    return MOONPAD_OK;
  }
  mp_tokenizer_free(made);
  if (code == SQLITE_NOMEM) return mp_no_memory(error);
  return mp_fail(error, MOONPAD_UNSUPPORTED, "searching memories needs a SQLite that has FTS5; this one has not");
}

void mp_tokenizer_free(mp_tokenizer *tokenizer) {
  if (tokenizer == NULL) return;
  mp_env *env = tokenizer->env;
  if (tokenizer->instance != NULL) tokenizer->functions.xDelete(tokenizer->instance);
  sqlite3_close(tokenizer->db);
  mp_mutex_destroy(&tokenizer->mutex);
  mp_release(env, tokenizer);
  mp_env_release(env);
}

/* ---- Lists ---- */

void mp_word_list_init(mp_word_list *list, mp_env *env) {
  mp_buffer_init(&list->bytes, env);
  mp_buffer_init(&list->words, env);
}

void mp_word_list_free(mp_word_list *list) {
  mp_buffer_free(&list->bytes);
  mp_buffer_free(&list->words);
}

size_t mp_word_count(const mp_word_list *list) {
  return list->words.length / sizeof(mp_word);
}

bool mp_is_same_word(const mp_word *a, const mp_word *b) {
  return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

static int compare(const void *left, const void *right) {
  const mp_word *a = left, *b = right;
  int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
  if (order != 0) return order;
  if (a->length != b->length) return a->length < b->length ? -1 : 1;
  return a->position == b->position ? 0 : a->position < b->position ? -1 : 1;
}

void mp_sort_words(mp_word_list *list) {
  if (mp_word_count(list) > 1) qsort(list->words.data, mp_word_count(list), sizeof(mp_word), compare);
}

size_t mp_same_words(const mp_word_list *list, size_t first) {
  size_t end = first + 1;
  while (end < mp_word_count(list) && mp_is_same_word(&mp_words(list)[first], &mp_words(list)[end])) end++;
  return end - first;
}

void mp_write_positions(const mp_word *words, size_t count, mp_buffer *bytes) {
  for (size_t i = 0; i < count; i++) {
    for (int shift = 24; shift >= 0; shift -= 8) mp_buffer_add_char(bytes, (char)(words[i].position >> shift));
  }
}

/* ---- Taking apart ---- */

/* Its address is set when the list's memory moves no more. */
static int take_word(void *context, int flags, const char *bytes, int given, int start, int end) {
  mp_word_list *list = context;
  (void)flags, (void)start, (void)end;
  size_t length = given > LONGEST_OF_FTS5 ? LONGEST_OF_FTS5 : (size_t)given;
  mp_word word = {NULL, (uint32_t)length, (uint32_t)mp_word_count(list)};
  if (length <= MP_LONGEST_WORD) {
    mp_buffer_add(&list->bytes, bytes, length);
  } else {
    char digest[DIGEST_DIGITS + 1];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)mp_digest_text((moonpad_string){bytes, length}));
    mp_buffer_add(&list->bytes, bytes, MP_LONGEST_WORD - DIGEST_DIGITS);
    mp_buffer_add(&list->bytes, digest, DIGEST_DIGITS);
    word.length = MP_LONGEST_WORD;
  }
  mp_buffer_add(&list->words, (const char *)&word, sizeof word);
  return list->bytes.failed || list->words.failed ? SQLITE_NOMEM : SQLITE_OK;
}

moonpad_status mp_tokenize(mp_tokenizer *tokenizer, moonpad_string text, mp_word_list *list, moonpad_error *error) {
  mp_buffer_clear(&list->bytes);
  mp_buffer_clear(&list->words);
  if (text.length > INT_MAX) return mp_fail(error, MOONPAD_LIMIT, "a memory's text is longer than %d bytes", INT_MAX);
  mp_mutex_lock(&tokenizer->mutex);
  int code = tokenizer->functions.xTokenize(tokenizer->instance, list, FTS5_TOKENIZE_DOCUMENT,
                                            text.length == 0 ? "" : text.data, (int)text.length, take_word);
  mp_mutex_unlock(&tokenizer->mutex);
  if (code != SQLITE_OK) return mp_no_memory(error);
  const char *at = list->bytes.data;
  for (size_t i = 0; i < mp_word_count(list); i++) {
    mp_words(list)[i].bytes = at;
    at += mp_words(list)[i].length;
  }
  return MOONPAD_OK;
}

moonpad_status mp_tokenize_batch(mp_tokenizer *tokenizer, mp_env *env, const mp_memories_batch *batch,
                                 mp_word_list **lists, moonpad_error *error) {
  mp_word_list *made = *lists = mp_allocate(env, batch->added_count * sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; i < batch->added_count; i++) mp_word_list_init(&made[i], env);
  for (size_t i = 0; i < batch->added_count && status == MOONPAD_OK; i++) {
    status = mp_tokenize(tokenizer, batch->added[i].text, &made[i], error);
    if (status == MOONPAD_OK) mp_sort_words(&made[i]);
  }
  return status;
}

void mp_free_words_of_batch(mp_env *env, const mp_memories_batch *batch, mp_word_list *lists) {
  for (size_t i = 0; i < batch->added_count && lists != NULL; i++) mp_word_list_free(&lists[i]);
  mp_release(env, lists);
}
