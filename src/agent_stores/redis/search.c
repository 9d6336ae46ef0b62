/*
** Memories on Redis: searching them. One question brings every word of the query that the user's
** memories hold, with its places; from them come the phrases and which memories are the best. A
** second one reads those.
*/
#include "agent_stores/lookup.h"
#include "agent_stores/redis/stores.h"
#include "base/error.h"

typedef struct searching {
  const mp_memories_query *query;
  const mp_agent_time *time;
  mp_lookup lookup;
  int64_t count;  /* of the user's memories */
  mp_buffer best; /* ids: each an int64_t */
  mp_buffer *matches;
  mp_buffer due; /* ids of those to be renewed */
} searching;

static void add_ids(mp_redis_arguments *out, const mp_buffer *ids) {
  for (size_t at = 0; at < ids->length; at += sizeof(int64_t)) {
    int64_t id;
    memcpy(&id, ids->data + at, sizeof id);
    mp_redis_add_integer(out, id);
  }
}

static mp_redis_agent_call call_of(searching *wanted) {
  return (mp_redis_agent_call){
      .app_name = wanted->query->app_name, .user_id = wanted->query->user_id, .context = wanted};
}

/* ---- where the words are ---- */

static void add_words(mp_redis_arguments *out, void *context) {
  const searching *wanted = context;
  moonpad_string word;
  mp_redis_agent_add_time(out, mp_agent_alive_since(wanted->time));
  for (size_t at = 0; mp_lookup_next_word(&wanted->lookup, &at, &word);) mp_redis_add(out, word);
}

/* False: it is not what was written. */
static bool meet(mp_lookup *lookup, uint32_t word, const redisReply *id, moonpad_string places) {
  uint32_t size = 0;
  if (places.length < 4) return false;
  for (size_t i = 0; i < 4; i++) size = size << 8 | (unsigned char)places.data[i];
  mp_lookup_meet(lookup, word, mp_redis_integer(id), size, (moonpad_string){places.data + 4, places.length - 4});
  return true;
}

/* The words are numbered as they are asked for. */
static moonpad_status take_met(mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                               moonpad_error *error) {
  searching *wanted = call->context;
  mp_lookup *lookup = &wanted->lookup;
  const redisReply *words = mp_redis_item(reply, MP_REDIS_ANSWER + 1);
  mp_lookup_forget(lookup);
  wanted->count = mp_redis_integer(mp_redis_item(reply, MP_REDIS_ANSWER));
  for (size_t i = 0; i < mp_redis_count(words); i++) {
    const redisReply *met = mp_redis_item(words, i);
    for (size_t j = 0; j + 1 < mp_redis_count(met); j += 2) {
      if (!meet(lookup, (uint32_t)i, mp_redis_item(met, j), mp_redis_string(mp_redis_item(met, j + 1)))) {
        return mp_redis_corrupt(connection, "a word of a memory lacks its places", error);
      }
    }
  }
  return lookup->met.failed || lookup->positions.failed ? mp_no_memory(error) : MOONPAD_OK;
}

/* ---- the best of them ---- */

static void add_best(mp_redis_arguments *out, void *context) {
  const searching *wanted = context;
  add_ids(out, &wanted->best);
}

/* They come in the order in which they were asked for; those that have gone meanwhile do not. */
static moonpad_status take_matches(mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                                   moonpad_error *error) {
  enum { ID, SESSION, AUTHOR, TIMESTAMP, CONTENT, USED, ITEMS };
  searching *wanted = call->context;
  const redisReply *rows = mp_redis_item(reply, MP_REDIS_ANSWER);
  (void)connection;
  mp_buffer_clear(wanted->matches);
  mp_buffer_clear(&wanted->due);
  for (size_t at = 0; at + ITEMS <= mp_redis_count(rows); at += ITEMS) {
    mp_memories_match match = {.id = mp_redis_string(mp_redis_item(rows, at + ID)),
                               .session_id = mp_redis_string(mp_redis_item(rows, at + SESSION)),
                               .author = mp_redis_string(mp_redis_item(rows, at + AUTHOR)),
                               .timestamp = mp_redis_time(mp_redis_item(rows, at + TIMESTAMP)),
                               .content = mp_redis_string(mp_redis_item(rows, at + CONTENT))};
    mp_memories_add_match(wanted->matches, &match);
    if (mp_redis_time(mp_redis_item(rows, at + USED)) >= mp_agent_renewed_since(wanted->time)) continue;
    int64_t id = mp_redis_integer(mp_redis_item(rows, at + ID));
    mp_buffer_add(&wanted->due, (const char *)&id, sizeof id);
  }
  return wanted->matches->failed || wanted->due.failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void add_renewal(mp_redis_arguments *out, void *context) {
  const searching *wanted = context;
  mp_redis_add_time(out, wanted->time->now);
  add_ids(out, &wanted->due);
}

/* ---- the whole ---- */

static moonpad_status find_best(const mp_redis_memories *self, searching *wanted, moonpad_error *error) {
  const mp_memories_query *query = wanted->query;
  mp_redis_agent_call find = call_of(wanted);
  moonpad_status status = mp_lookup_take(&wanted->lookup, self->tokenizer, query->phrases, query->phrase_count, error);
  if (status != MOONPAD_OK) return status;
  if (mp_word_count(&wanted->lookup.words) == 0) return mp_remote_check_open(self->store, error);
  find.question = "?words";
  find.add = add_words;
  find.take = take_met;
  status = mp_redis_agent_ask(self->store, &find, error);
  if (status != MOONPAD_OK) return status;
  return mp_lookup_best(&wanted->lookup, wanted->count, query->limit, &wanted->best, error);
}

static moonpad_status search(const mp_redis_memories *self, searching *wanted, moonpad_error *error) {
  mp_redis_agent_call read = call_of(wanted), renew = call_of(wanted);
  moonpad_status status = find_best(self, wanted, error);
  if (status != MOONPAD_OK || wanted->best.length == 0) return status;
  read.question = "?memories";
  read.add = add_best;
  read.take = take_matches;
  status = mp_redis_agent_ask(self->store, &read, error);
  if (status != MOONPAD_OK || wanted->due.length == 0) return status;
  /* What was found has been found, whether this is stored or not. */
  renew.write = "use_memories";
  renew.add = add_renewal;
  mp_redis_agent_renew(self->store, &renew);
  return status;
}

moonpad_status mp_redis_memories_search(mp_memories *memories, const mp_memories_query *query,
                                        const mp_agent_time *time, mp_buffer *matches, moonpad_error *error) {
  mp_redis_memories *self = (mp_redis_memories *)memories;
  searching wanted = {.query = query, .time = time, .matches = matches};
  mp_buffer_clear(matches);
  if (query->phrase_count == 0) return mp_remote_check_open(self->store, error);
  mp_lookup_init(&wanted.lookup, self->env);
  mp_buffer_init(&wanted.best, self->env);
  mp_buffer_init(&wanted.due, self->env);
  moonpad_status status = search(self, &wanted, error);
  if (status != MOONPAD_OK) mp_buffer_clear(matches);
  mp_buffer_free(&wanted.best);
  mp_buffer_free(&wanted.due);
  mp_lookup_free(&wanted.lookup);
  return status;
}
