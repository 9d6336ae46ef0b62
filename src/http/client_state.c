/* What a client and its requests share. */
#include "http/client_state.h"

void mp_http_note(mp_http_client *client) {
  client->activity++;
  mp_wakeup_raise(&client->news);
}

void mp_http_client_release(mp_http_client *client) {
  if (atomic_fetch_sub(&client->references, 1) != 1) return;
  mp_wakeup_free(&client->news);
  mp_mutex_destroy(&client->lock);
  mp_env *env = client->env;
  mp_release(env, client);
  mp_env_release(env);
}
