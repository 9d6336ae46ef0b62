/* Tokens: a hash map, and a list in the order of time from which the expired ones are removed. */
#include "store/memory/tokens.h"

void mp_memory_tokens_init(mp_memory_tokens *tokens, mp_env *env) {
  mp_map_init(&tokens->map, env);
  tokens->oldest = tokens->newest = NULL;
}

void mp_memory_tokens_free(mp_memory_tokens *tokens) {
  mp_map_free(&tokens->map);
}

static void remove_token(mp_memory_tokens *tokens, mp_memory_token *token) {
  *(token->older != NULL ? &token->older->newer : &tokens->oldest) = token->newer;
  *(token->newer != NULL ? &token->newer->older : &tokens->newest) = token->older;
  mp_map_remove(&tokens->map, mp_key_text(token->key));
}

void mp_memory_tokens_expire(mp_memory_tokens *tokens, double expired) {
  while (tokens->oldest != NULL && tokens->oldest->time < expired) remove_token(tokens, tokens->oldest);
}

bool mp_memory_tokens_has(const mp_memory_tokens *tokens, moonpad_string bytes) {
  return mp_map_get(&tokens->map, bytes) != NULL;
}

/* As a rule as the newest; but a clock may have been set back. */
static void link_token(mp_memory_tokens *tokens, mp_memory_token *token) {
  mp_memory_token *older = tokens->newest;
  while (older != NULL && older->time > token->time) older = older->older;
  token->older = older;
  token->newer = older != NULL ? older->newer : tokens->oldest;
  *(older != NULL ? &older->newer : &tokens->oldest) = token;
  *(token->newer != NULL ? &token->newer->older : &tokens->newest) = token;
}

mp_key *mp_memory_tokens_add(mp_memory_tokens *tokens, moonpad_string bytes, double time) {
  mp_env *env = tokens->map.env;
  void *room;
  mp_key *key = mp_key_new_with(env, bytes, mp_hash(bytes.data, bytes.length), sizeof(mp_memory_token), &room);
  if (key == NULL || !mp_map_put(&tokens->map, key, room)) {
    mp_key_release(env, key);
    return NULL;
  }
  mp_memory_token *token = room;
  token->key = key;
  token->time = time;
  link_token(tokens, token);
  return key;
}

void mp_memory_tokens_undo_add(mp_memory_tokens *tokens, const mp_key *key) {
  mp_memory_token *token = mp_map_get(&tokens->map, mp_key_text(key));
  if (token != NULL && token->key == key) remove_token(tokens, token);
}
