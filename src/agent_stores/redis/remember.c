/*
** Memories on Redis: writing. All of a batch goes in one round trip; which of it is stored already,
** the script finds out.
*/
#include "agent_stores/redis/stores.h"
#include "base/error.h"

typedef struct writing {
  const mp_memories_session *session;
  const mp_agent_time *time;
  const mp_memories_batch *batch;
  mp_word_list *words; /* of each entry, sorted */
} writing;

/* As the index has it: how many words the memory has, and where this one stands among them. */
static void add_word(mp_redis_arguments *out, const mp_word *words, size_t count, size_t size) {
  mp_word whole = {.position = (uint32_t)size};
  mp_redis_add(out, (moonpad_string){words->bytes, words->length});
  mp_write_positions(&whole, 1, &out->bytes);
  mp_write_positions(words, count, &out->bytes);
  mp_redis_end_argument(out);
}

static void add_words(mp_redis_arguments *out, const mp_word_list *list) {
  int64_t different = 0;
  for (size_t at = 0; at < mp_word_count(list); at += mp_same_words(list, at)) different++;
  mp_redis_add_integer(out, different);
  for (size_t at = 0, count; at < mp_word_count(list); at += count) {
    count = mp_same_words(list, at);
    add_word(out, &mp_words(list)[at], count, mp_word_count(list));
  }
}

/* What was deleted by its id has no words. */
static void add_entry(mp_redis_arguments *out, const mp_memories_entry *entry, const mp_word_list *words) {
  mp_redis_add_integer(out, entry->revision);
  mp_redis_add_time(out, entry->timestamp);
  mp_redis_add(out, entry->author);
  mp_redis_add(out, entry->content);
  if (entry->content.length > 0) {
    add_words(out, words);
  } else {
    mp_redis_add_integer(out, 0);
  }
}

static void add_batch(mp_redis_arguments *out, void *context) {
  const writing *wanted = context;
  const mp_memories_batch *batch = wanted->batch;
  mp_redis_add_memory_session(out, wanted->session->session_id, wanted->session->create_time);
  mp_redis_add_time(out, wanted->session->create_time);
  mp_redis_add_integer(out, batch->indexed < 0 ? -1 : batch->indexed);
  mp_redis_agent_add_time(out, mp_agent_alive_since(wanted->time));
  mp_redis_add_integer(out, (int64_t)batch->removed_count);
  for (size_t i = 0; i < batch->removed_count; i++) mp_redis_add_integer(out, batch->removed[i]);
  mp_redis_add_integer(out, (int64_t)batch->added_count);
  for (size_t i = 0; i < batch->added_count; i++) add_entry(out, &batch->added[i], &wanted->words[i]);
}

moonpad_status mp_redis_memories_write(mp_memories *memories, const mp_memories_session *session,
                                       const mp_agent_time *time, const mp_memories_batch *batch,
                                       moonpad_error *error) {
  mp_redis_memories *self = (mp_redis_memories *)memories;
  writing wanted = {.session = session, .time = time, .batch = batch};
  mp_redis_agent_call call = {.write = "remember",
                              .app_name = session->app_name,
                              .user_id = session->user_id,
                              .add = add_batch,
                              .context = &wanted};
  moonpad_status status = mp_tokenize_batch(self->tokenizer, self->env, batch, &wanted.words, error);
  if (status == MOONPAD_OK) status = mp_redis_agent_change(self->store, &call, error);
  mp_free_words_of_batch(self->env, batch, wanted.words);
  return status;
}
