/* The client and its thread, which alone uses the multi handle and the transfers in it. */
#include "http/client.h"

#include <math.h>

#include "base/platform.h"
#include "http/library.h"
#include "http/request_private.h"

/* The thread sleeps until there is something to do: the owner wakes it. */
#define LONGEST_SLEEP_MS (60 * 60 * 1000)

/*
** May the client not be touched any more? A forked process does not have the thread, and its locks
** may be held for ever. In a process that is ending, the thread has stopped where it was. Memory
** and sockets of the client are then freed by the system.
*/
static bool is_unusable(const mp_http_client *client) {
  return client->process != mp_this_process() || mp_http_process_is_ending();
}

/* ---- The thread: requests ---- */

static void link_running(mp_http_client *client, mp_http_request *request) {
  request->previous = NULL;
  request->next = client->running;
  if (client->running != NULL) client->running->previous = request;
  client->running = request;
}

static void unlink_running(mp_http_client *client, mp_http_request *request) {
  if (request->previous != NULL) request->previous->next = request->next;
  if (request->next != NULL) request->next->previous = request->previous;
  if (client->running == request) client->running = request->next;
}

/* Ends a request that is in no list and not in the multi handle. */
static void end_request(mp_http_request *request, mp_http_failure failure, const char *message) {
  mp_http_client *client = request->client;
  mp_mutex_lock(&client->lock);
  bool is_abandoned = request->is_abandoned;
  mp_http_request_end(request, failure, message);
  mp_mutex_unlock(&client->lock);
  if (is_abandoned) mp_http_request_destroy(request);
}

static void end_running_request(mp_http_request *request, mp_http_failure failure, const char *message) {
  curl_multi_remove_handle(request->client->multi, request->easy);
  unlink_running(request->client, request);
  end_request(request, failure, message);
}

static void begin(mp_http_client *client, mp_http_request *request) {
  mp_http_times_begin(&request->times);
  CURLMcode code = curl_multi_add_handle(client->multi, request->easy);
  if (code == CURLM_OK) {
    link_running(client, request);
  } else {
    end_request(request, code == CURLM_OUT_OF_MEMORY ? MP_HTTP_NO_MEMORY : MP_HTTP_TRANSFER, curl_multi_strerror(code));
  }
}

/* Takes the requests that have been queued, the oldest last. False: the client is closing. */
static bool take_queued(mp_http_client *client, mp_http_request **queued) {
  mp_mutex_lock(&client->lock);
  bool is_open = !client->is_closing;
  *queued = client->queued;
  client->queued = NULL;
  mp_mutex_unlock(&client->lock);
  return is_open;
}

static void obey_owner(mp_http_client *client, mp_http_request *request) {
  mp_mutex_lock(&client->lock);
  bool is_abandoned = request->is_abandoned;
  bool may_resume = request->may_resume;
  request->may_resume = false;
  mp_mutex_unlock(&client->lock);
  if (is_abandoned) {
    end_running_request(request, MP_HTTP_CLOSED, "");
  } else if (may_resume) {
    mp_http_times_go_on(&request->times);
    /* May call take_body at once. If it fails, the transfer ends, and that is seen there. */
    (void)curl_easy_pause(request->easy, CURLPAUSE_CONT);
  }
}

static void end_finished(mp_http_client *client) {
  int left;
  CURLMsg *news;
  while ((news = curl_multi_info_read(client->multi, &left)) != NULL) {
    if (news->msg != CURLMSG_DONE) continue;
    CURLcode result = news->data.result;
    mp_http_request *request = NULL;
    curl_easy_getinfo(news->easy_handle, CURLINFO_PRIVATE, (char **)&request);
    end_running_request(request, mp_http_failure_of_result(result), curl_easy_strerror(result));
  }
}

/* Ends a transfer that has taken too long. Else, the result is when it will have. */
static double end_if_late(mp_http_request *request) {
  mp_http_times_note(&request->times, request->easy);
  double deadline = mp_http_times_deadline(&request->times);
  if (deadline > mp_monotonic()) return deadline;
  /* In place of what libcurl may have said on the way, say of one of several addresses. */
  mp_http_times_explain(&request->times, request->message, sizeof request->message);
  end_running_request(request, MP_HTTP_TIMEOUT, request->message);
  return HUGE_VAL;
}

/* The result is when the next one will have taken too long. */
static double end_late(mp_http_client *client) {
  double nearest = HUGE_VAL;
  for (mp_http_request *request = client->running, *next; request != NULL; request = next) {
    next = request->next;
    nearest = fmin(nearest, end_if_late(request));
  }
  return nearest;
}

static void end_running(mp_http_client *client, mp_http_failure failure, const char *message) {
  while (client->running != NULL) end_running_request(client->running, failure, message);
}

/* ---- The thread: its loop ---- */

static void begin_all(mp_http_client *client, mp_http_request *queued) {
  while (queued != NULL) {
    mp_http_request *request = queued;
    queued = request->next;
    begin(client, request);
  }
}

static void obey_all(mp_http_client *client) {
  for (mp_http_request *request = client->running, *next; request != NULL; request = next) {
    next = request->next;
    obey_owner(client, request);
  }
}

/* Everything that can be done without waiting. The result is when there is more to do. */
static double transfer(mp_http_client *client, mp_http_request *queued) {
  mp_http_enter();
  begin_all(client, queued);
  obey_all(client);
  int running;
  CURLMcode code = curl_multi_perform(client->multi, &running);
  end_finished(client);
  /* Last: what has come in while this process was stopped counts. */
  double deadline = end_late(client);
  if (code != CURLM_OK) end_running(client, MP_HTTP_TRANSFER, curl_multi_strerror(code));
  mp_http_leave();
  return deadline;
}

static void sleep_until_needed(mp_http_client *client, double deadline) {
  double milliseconds = fmax(0, fmin(ceil((deadline - mp_monotonic()) * 1e3), LONGEST_SLEEP_MS));
  if (curl_multi_poll(client->multi, NULL, 0, (int)milliseconds, NULL) == CURLM_OK) return;
  /* The failure may persist: do not keep a processor busy. */
  mp_sleep(0.01);
}

static void work(void *context) {
  mp_http_client *client = context;
  mp_http_request *queued;
  while (take_queued(client, &queued)) {
    double deadline = transfer(client, queued);
    sleep_until_needed(client, deadline);
  }
  mp_http_enter();
  while (queued != NULL) {
    mp_http_request *request = queued;
    queued = request->next;
    end_request(request, MP_HTTP_CLOSED, "the HTTP client has been closed");
  }
  end_running(client, MP_HTTP_CLOSED, "the HTTP client has been closed");
  mp_http_leave();
}

/* ---- Beginning and end ---- */

/* Everything but the thread. False: nothing has been made. */
static bool init_client(mp_http_client *client) {
  client->multi = curl_multi_init();
  if (client->multi == NULL) return false;
  if (mp_mutex_init(&client->lock)) {
    mp_wakeup_init(&client->news);
    if (mp_wakeup_make(&client->news) == 0) return true;
    mp_mutex_destroy(&client->lock);
  }
  curl_multi_cleanup(client->multi);
  return false;
}

mp_http_client *mp_http_client_new(void) {
  if (!mp_http_prepare()) return NULL;
  mp_env *env = mp_env_new(NULL);
  if (env == NULL) return NULL;
  mp_http_client *client = mp_allocate_zeroed(env, sizeof *client);
  if (client == NULL || !init_client(client)) {
    mp_release(env, client);
    mp_env_release(env);
    return NULL;
  }
  client->env = env;
  client->process = mp_this_process();
  atomic_init(&client->references, 1);
  /* It has all signals blocked: no SIGPIPE comes from there. */
  if (mp_thread_start(&client->thread, work, client)) return client;
  curl_multi_cleanup(client->multi);
  mp_http_client_release(client);
  return NULL;
}

void mp_http_client_free(mp_http_client *client) {
  if (client == NULL || is_unusable(client)) return;
  mp_mutex_lock(&client->lock);
  client->is_closing = true;
  mp_mutex_unlock(&client->lock);
  curl_multi_wakeup(client->multi);
  mp_thread_join(&client->thread);
  curl_multi_cleanup(client->multi);
  mp_http_client_release(client);
}

/* ---- For the owner ---- */

bool mp_http_can_be_awaited(void) {
  return true;
}

mp_http_request *mp_http_start(mp_http_client *client, const mp_http_options *options, mp_http_failure *failure,
                               const char **message) {
  *failure = MP_HTTP_CLOSED;
  *message = "the HTTP client belongs to a process that has forked or is ending";
  if (is_unusable(client)) return NULL;
  *failure = MP_HTTP_NO_MEMORY;
  *message = "out of memory";
  mp_http_request *request = mp_http_request_new(client, options);
  if (request == NULL) return NULL;
  mp_mutex_lock(&client->lock);
  request->next = client->queued;
  client->queued = request;
  mp_mutex_unlock(&client->lock);
  curl_multi_wakeup(client->multi);
  return request;
}

void mp_http_request_free(mp_http_request *request) {
  if (request == NULL || is_unusable(request->client)) return;
  mp_http_client *client = request->client;
  mp_mutex_lock(&client->lock);
  bool is_done = request->is_done;
  request->is_abandoned = true;
  if (!is_done) curl_multi_wakeup(client->multi);
  mp_mutex_unlock(&client->lock);
  if (is_done) mp_http_request_destroy(request);
}

uint64_t mp_http_activity(mp_http_client *client) {
  if (is_unusable(client)) return 0;
  mp_mutex_lock(&client->lock);
  uint64_t activity = client->activity;
  mp_mutex_unlock(&client->lock);
  return activity;
}

int mp_http_descriptor(const mp_http_client *client) {
  return is_unusable(client) ? -1 : mp_wakeup_fd(&client->news);
}

uint64_t mp_http_drain(mp_http_client *client) {
  if (is_unusable(client)) return 0;
  mp_mutex_lock(&client->lock);
  mp_wakeup_lower(&client->news);
  uint64_t activity = client->activity;
  mp_mutex_unlock(&client->lock);
  return activity;
}
