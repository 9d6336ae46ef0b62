/* The apps in order: those that have, or had, any of this. */
#include <stdlib.h>
#include <string.h>

#include "agent_stores/redis/stores.h"
#include "base/error.h"

typedef struct app_search {
  mp_buffer bytes; /* names, each with a NUL behind it */
  mp_buffer names; /* where each begins: const char * */
} app_search;

static moonpad_status note_app(void *context, moonpad_string name, moonpad_error *error) {
  app_search *search = context;
  mp_buffer_add_string(&search->bytes, name);
  mp_buffer_add_char(&search->bytes, '\0');
  return search->bytes.failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status find_apps_in(mp_tx *tx, void *context, moonpad_error *error) {
  app_search *search = context;
  mp_buffer_clear(&search->bytes);
  return mp_redis_each_app(tx, note_app, search, error);
}

/* ---- in order ---- */

static int compare(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static moonpad_status sort(app_search *search, moonpad_error *error) {
  const char *const end = search->bytes.data + search->bytes.length;
  for (const char *at = search->bytes.data; at < end; at += strlen(at) + 1) {
    mp_buffer_add(&search->names, (const char *)&at, sizeof at);
  }
  if (search->names.failed) return mp_no_memory(error);
  size_t count = search->names.length / sizeof(char *);
  if (count > 1) qsort(search->names.data, count, sizeof(char *), compare);
  return MOONPAD_OK;
}

static bool is_behind(const char *name, moonpad_string after) {
  size_t length = strlen(name), common = length < after.length ? length : after.length;
  int order = common == 0 ? 0 : memcmp(name, after.data, common);
  return order == 0 ? length > after.length : order > 0;
}

static moonpad_status call_each(const app_search *search, moonpad_string after, mp_each_name each, void *context,
                                moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  const char *const *names = (const char *const *)(const void *)search->names.data;
  for (size_t i = 0; status == MOONPAD_OK && i < search->names.length / sizeof *names; i++) {
    if (is_behind(names[i], after)) status = each(context, moonpad_text(names[i]), error);
  }
  return mp_walk_end(status);
}

moonpad_status mp_redis_agent_each_app(mp_store *store, moonpad_string after, mp_each_name each, void *context,
                                       moonpad_error *error) {
  mp_env *env = ((mp_redis *)store)->remote.env;
  app_search search;
  mp_buffer_init(&search.bytes, env);
  mp_buffer_init(&search.names, env);
  moonpad_status status = mp_remote_read(store, find_apps_in, &search, error);
  if (status == MOONPAD_OK) status = sort(&search, error);
  if (status == MOONPAD_OK) status = call_each(&search, after, each, context, error);
  mp_buffer_free(&search.bytes);
  mp_buffer_free(&search.names);
  return status;
}
