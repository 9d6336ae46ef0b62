/* The client: one multi handle, and the requests whose transfer is under way. */
#include <pthread.h>
#include <stdio.h>

#include "http/request.h"

/*
** The one thing that this module keeps for the whole process: libcurl wants to be initialised once, before any of its handles. It is never undone, because other
** code of the host may use libcurl too; so the module must not be unloaded either (it is linked with -z nodelete).
*/
static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static CURLcode library_result = CURLE_FAILED_INIT;

static void initialize_library(void) {
  library_result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

mp_http_client *mp_http_client_new(void) {
  if (pthread_once(&library_once, initialize_library) != 0 || library_result != CURLE_OK) return NULL;
  mp_env *env = mp_env_new(NULL);
  if (env == NULL) return NULL;
  mp_http_client *client = mp_allocate_zeroed(env, sizeof *client);
  CURLM *multi = client == NULL ? NULL : curl_multi_init();
  if (multi == NULL) {
    mp_release(env, client);
    mp_env_release(env);
    return NULL;
  }
  client->env = env;
  client->multi = multi;
  return client;
}

void mp_http_client_free(mp_http_client *client) {
  if (client == NULL) return;
  while (client->first != NULL) {
    mp_http_request *request = client->first;
    request->failure = MP_HTTP_CLOSED;
    snprintf(request->message, sizeof request->message, "the HTTP client has been closed");
    request->is_done = true;
    mp_http_detach(request);
  }
  curl_multi_cleanup(client->multi);
  mp_env *env = client->env;
  mp_release(env, client);
  mp_env_release(env);
}

uint64_t mp_http_activity(const mp_http_client *client) {
  return client->activity;
}

size_t mp_http_active(const mp_http_client *client) {
  return client->active;
}

/* ---- Requests coming and going ---- */

static void attach(mp_http_client *client, mp_http_request *request) {
  request->client = client;
  request->next = client->first;
  if (client->first != NULL) client->first->previous = request;
  client->first = request;
  client->active++;
}

void mp_http_detach(mp_http_request *request) {
  mp_http_client *client = request->client;
  if (client == NULL) return;
  curl_multi_remove_handle(client->multi, request->easy);
  if (request->previous != NULL) request->previous->next = request->next;
  if (request->next != NULL) request->next->previous = request->previous;
  if (client->first == request) client->first = request->next;
  request->client = NULL;
  request->previous = request->next = NULL;
  client->active--;
}

mp_http_request *mp_http_start(mp_http_client *client, const mp_http_options *options, mp_http_failure *failure,
                               const char **message) {
  *failure = MP_HTTP_NO_MEMORY;
  *message = "out of memory";
  mp_http_request *request = mp_http_request_new(client->env, options);
  if (request == NULL) return NULL;
  CURLMcode code = curl_multi_add_handle(client->multi, request->easy);
  if (code == CURLM_OK) {
    attach(client, request);
    return request;
  }
  mp_http_request_free(request);
  if (code != CURLM_OUT_OF_MEMORY) *failure = MP_HTTP_TRANSFER;
  *message = curl_multi_strerror(code);
  return NULL;
}

/* ---- Going on ---- */

static void end_finished(mp_http_client *client) {
  int left;
  for (CURLMsg *news = curl_multi_info_read(client->multi, &left); news != NULL;
       news = curl_multi_info_read(client->multi, &left)) {
    if (news->msg != CURLMSG_DONE) continue;
    CURLcode result = news->data.result;
    mp_http_request *request = NULL;
    curl_easy_getinfo(news->easy_handle, CURLINFO_PRIVATE, (char **)&request);
    mp_http_request_end(request, result);
    mp_http_detach(request);
  }
}

bool mp_http_perform(mp_http_client *client, const char **message) {
  int running = 0;
  CURLMcode code = curl_multi_perform(client->multi, &running);
  if (code != CURLM_OK) {
    *message = curl_multi_strerror(code);
    return false;
  }
  end_finished(client);
  return true;
}

bool mp_http_wait(mp_http_client *client, int milliseconds, const char **message) {
  CURLMcode code = curl_multi_poll(client->multi, NULL, 0, milliseconds, NULL);
  if (code == CURLM_OK) return true;
  *message = curl_multi_strerror(code);
  return false;
}
