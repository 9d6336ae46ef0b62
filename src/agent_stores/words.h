/*
** Taking texts apart into words, for stores that have an index of their own: as the store on SQLite
** does it, by the same code, FTS5's tokenizer "porter unicode61 remove_diacritics 2". So every
** store finds the same.
*/
#ifndef MP_AGENT_STORES_WORDS_H
#define MP_AGENT_STORES_WORDS_H

#include "agent_stores/memories.h"
#include "base/buffer.h"

/* A longer word is cut to this many bytes, the last of which are a digest of all of it. */
#define MP_LONGEST_WORD 255

/* One word of a text. */
typedef struct mp_word {
  const char *bytes; /* in the list's memory */
  uint32_t length;
  uint32_t position; /* its place among the words of its text, from 0 */
} mp_word;

typedef struct mp_word_list {
  mp_buffer bytes;
  mp_buffer words; /* mp_word */
} mp_word_list;

typedef struct mp_tokenizer mp_tokenizer;

/*
** The caller frees it with mp_tokenizer_free (NULL is allowed). Errors: unsupported (this SQLite
** has no FTS5), no_memory.
*/
moonpad_status mp_tokenizer_new(mp_env *env, mp_tokenizer **tokenizer, moonpad_error *error);
void mp_tokenizer_free(mp_tokenizer *tokenizer);

void mp_word_list_init(mp_word_list *list, mp_env *env);
void mp_word_list_free(mp_word_list *list);
size_t mp_word_count(const mp_word_list *list);
static inline mp_word *mp_words(const mp_word_list *list) {
  return (mp_word *)(void *)list->words.data;
}
/* Equal words get together, those of a text in their order. */
void mp_sort_words(mp_word_list *list);
/* Have both the same bytes? */
bool mp_is_same_word(const mp_word *a, const mp_word *b);
/* In a sorted list: how many from `first` on are the same word. */
size_t mp_same_words(const mp_word_list *list, size_t first);
/* Writes where these stand, as an index has it: four bytes each, the highest first. */
void mp_write_positions(const mp_word *words, size_t count, mp_buffer *bytes);

/* Writes the words of a text into `list`, in order. Any thread. Errors: no_memory, limit. */
moonpad_status mp_tokenize(mp_tokenizer *tokenizer, moonpad_string text, mp_word_list *list, moonpad_error *error);
/*
** The words of what a batch adds, sorted, a list for each: to be freed with the batch, also after a
** failure. Errors: as of mp_tokenize.
*/
moonpad_status mp_tokenize_batch(mp_tokenizer *tokenizer, mp_env *env, const mp_memories_batch *batch,
                                 mp_word_list **lists, moonpad_error *error);
void mp_free_words_of_batch(mp_env *env, const mp_memories_batch *batch, mp_word_list *lists);

#endif
