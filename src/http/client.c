/* The client and its thread, which alone touches the multi handle and the transfers in it. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "http/request.h"

/* When nothing is to be done, the thread sleeps; whoever wants something wakes it. */
#define REST_MILLISECONDS (60 * 60 * 1000)

/* ---- What this module keeps for the whole process ---- */

/*
** libcurl wants to be initialised once, before any of its handles. It is never undone, because
** other code of the host may use libcurl too; so the module must not be unloaded either (it is
** linked with -z nodelete).
*/
static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static CURLcode library_result = CURLE_FAILED_INIT;

/*
** A process that ends by exit() takes OpenSSL apart while our threads may be in the middle of
** it. So each thread passes this gate before it touches a transfer; exit() closes it for good,
** after having waited for those inside.
*/
static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
static atomic_bool process_is_ending = false;

/* Not for ever: in a process that was forked while a thread was inside, nobody comes out. */
static void close_gate(void) {
  struct timespec deadline = {0, 0};
  atomic_store(&process_is_ending, true);
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec++;
  pthread_rwlock_timedwrlock(&gate, &deadline);
}

static void enter_gate(void) {
  /* Readers that came one after the other could keep the writer out for ever. */
  while (atomic_load(&process_is_ending)) pause();
  pthread_rwlock_rdlock(&gate);
}

static void leave_gate(void) {
  pthread_rwlock_unlock(&gate);
}

/*
** Handlers of exit() run in reverse order: this one is registered after OpenSSL's, and so comes
** before it.
*/
static void initialize_library(void) {
  library_result = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (library_result == CURLE_OK && atexit(close_gate) != 0) library_result = CURLE_OUT_OF_MEMORY;
}

/*
** Is there nothing that could be done with this client any more? A forked process has no such
** thread, and its locks may be held for ever; in a process that is ending, the thread has stopped
** where it was. All that the client has is left to the system then.
*/
static bool is_out_of_reach(const mp_http_client *client) {
  return client->process != getpid() || atomic_load(&process_is_ending);
}

void mp_http_note(mp_http_client *client) {
  client->activity++;
  pthread_cond_signal(&client->changed);
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

/* Lets go of a request that is in no list and not in the multi handle. */
static void let_go(mp_http_request *request, mp_http_failure failure, const char *message) {
  mp_http_client *client = request->client;
  pthread_mutex_lock(&client->lock);
  bool is_abandoned = request->is_abandoned;
  mp_http_request_end(request, failure, message);
  pthread_mutex_unlock(&client->lock);
  if (is_abandoned) mp_http_request_destroy(request);
}

static void leave(mp_http_request *request, mp_http_failure failure, const char *message) {
  curl_multi_remove_handle(request->client->multi, request->easy);
  unlink_running(request->client, request);
  let_go(request, failure, message);
}

static void begin(mp_http_client *client, mp_http_request *request) {
  CURLMcode code = curl_multi_add_handle(client->multi, request->easy);
  if (code == CURLM_OK) {
    link_running(client, request);
  } else {
    let_go(request, code == CURLM_OUT_OF_MEMORY ? MP_HTTP_NO_MEMORY : MP_HTTP_TRANSFER, curl_multi_strerror(code));
  }
}

/* Takes what has been queued, oldest last. False when the client is being closed. */
static bool take_queued(mp_http_client *client, mp_http_request **queued) {
  pthread_mutex_lock(&client->lock);
  bool goes_on = !client->is_closing;
  *queued = client->queued;
  client->queued = NULL;
  pthread_mutex_unlock(&client->lock);
  return goes_on;
}

static void obey_owner(mp_http_client *client, mp_http_request *request) {
  pthread_mutex_lock(&client->lock);
  bool is_abandoned = request->is_abandoned;
  bool may_resume = request->may_resume;
  request->may_resume = false;
  pthread_mutex_unlock(&client->lock);
  if (is_abandoned) {
    leave(request, MP_HTTP_CLOSED, "");
  } else if (may_resume) {
    /* It may call back at once with what it had kept. A failure shows up as the transfer's end. */
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
    leave(request, mp_http_judge(result), curl_easy_strerror(result));
  }
}

static void end_running(mp_http_client *client, mp_http_failure failure, const char *message) {
  while (client->running != NULL) leave(client->running, failure, message);
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

/* Everything that can be done at once. */
static void transfer(mp_http_client *client, mp_http_request *queued) {
  enter_gate();
  begin_all(client, queued);
  obey_all(client);
  int running;
  CURLMcode code = curl_multi_perform(client->multi, &running);
  end_finished(client);
  if (code != CURLM_OK) end_running(client, MP_HTTP_TRANSFER, curl_multi_strerror(code));
  leave_gate();
}

static void rest(mp_http_client *client) {
  if (curl_multi_poll(client->multi, NULL, 0, REST_MILLISECONDS, NULL) == CURLM_OK) return;
  /* What is wrong may stay wrong: no reason to keep a processor busy. */
  nanosleep(&(struct timespec){0, 10 * 1000 * 1000}, NULL);
}

static void *work(void *context) {
  mp_http_client *client = context;
  mp_http_request *queued;
  while (take_queued(client, &queued)) {
    transfer(client, queued);
    rest(client);
  }
  enter_gate();
  while (queued != NULL) {
    mp_http_request *request = queued;
    queued = request->next;
    let_go(request, MP_HTTP_CLOSED, "the HTTP client has been closed");
  }
  end_running(client, MP_HTTP_CLOSED, "the HTTP client has been closed");
  leave_gate();
  return NULL;
}

/* Signals are for the threads of the host. And no SIGPIPE can reach it from here. */
static bool start_thread(mp_http_client *client) {
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  bool is_started = pthread_create(&client->thread, NULL, work, client) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return is_started;
}

/* ---- Making and closing ---- */

static bool make_condition(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  if (pthread_condattr_init(&attributes) != 0) return false;
  bool is_made =
      pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 && pthread_cond_init(condition, &attributes) == 0;
  pthread_condattr_destroy(&attributes);
  return is_made;
}

/* All but the thread; or nothing. */
static bool furnish(mp_http_client *client) {
  client->multi = curl_multi_init();
  if (client->multi == NULL) return false;
  if (pthread_mutex_init(&client->lock, NULL) == 0) {
    if (make_condition(&client->changed)) return true;
    pthread_mutex_destroy(&client->lock);
  }
  curl_multi_cleanup(client->multi);
  return false;
}

bool mp_http_prepare(void) {
  return pthread_once(&library_once, initialize_library) == 0 && library_result == CURLE_OK;
}

mp_http_client *mp_http_client_new(void) {
  if (!mp_http_prepare()) return NULL;
  mp_env *env = mp_env_new(NULL);
  if (env == NULL) return NULL;
  mp_http_client *client = mp_allocate_zeroed(env, sizeof *client);
  if (client == NULL || !furnish(client)) {
    mp_release(env, client);
    mp_env_release(env);
    return NULL;
  }
  client->env = env;
  client->process = getpid();
  atomic_init(&client->references, 1);
  if (start_thread(client)) return client;
  curl_multi_cleanup(client->multi);
  mp_http_client_release(client);
  return NULL;
}

void mp_http_client_release(mp_http_client *client) {
  if (atomic_fetch_sub(&client->references, 1) != 1) return;
  pthread_cond_destroy(&client->changed);
  pthread_mutex_destroy(&client->lock);
  mp_env *env = client->env;
  mp_release(env, client);
  mp_env_release(env);
}

void mp_http_client_free(mp_http_client *client) {
  if (client == NULL || is_out_of_reach(client)) return;
  pthread_mutex_lock(&client->lock);
  client->is_closing = true;
  pthread_mutex_unlock(&client->lock);
  curl_multi_wakeup(client->multi);
  pthread_join(client->thread, NULL);
  curl_multi_cleanup(client->multi);
  mp_http_client_release(client);
}

/* ---- For the owner ---- */

mp_http_request *mp_http_start(mp_http_client *client, const mp_http_options *options, mp_http_failure *failure,
                               const char **message) {
  *failure = MP_HTTP_CLOSED;
  *message = "the HTTP client belongs to a process that has forked or is ending";
  if (is_out_of_reach(client)) return NULL;
  *failure = MP_HTTP_NO_MEMORY;
  *message = "out of memory";
  mp_http_request *request = mp_http_request_new(client, options);
  if (request == NULL) return NULL;
  pthread_mutex_lock(&client->lock);
  request->next = client->queued;
  client->queued = request;
  pthread_mutex_unlock(&client->lock);
  curl_multi_wakeup(client->multi);
  return request;
}

void mp_http_request_free(mp_http_request *request) {
  if (request == NULL || is_out_of_reach(request->client)) return;
  mp_http_client *client = request->client;
  pthread_mutex_lock(&client->lock);
  bool is_done = request->is_done;
  request->is_abandoned = true;
  if (!is_done) curl_multi_wakeup(client->multi);
  pthread_mutex_unlock(&client->lock);
  if (is_done) mp_http_request_destroy(request);
}

uint64_t mp_http_activity(mp_http_client *client) {
  if (is_out_of_reach(client)) return 0;
  pthread_mutex_lock(&client->lock);
  uint64_t activity = client->activity;
  pthread_mutex_unlock(&client->lock);
  return activity;
}

static struct timespec after(double seconds) {
  struct timespec time = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &time);
  if (seconds > 1e6) seconds = 1e6;
  double whole = floor(seconds);
  time.tv_sec += (time_t)whole;
  time.tv_nsec += (long)((seconds - whole) * 1e9);
  if (time.tv_nsec >= 1000000000L) {
    time.tv_nsec -= 1000000000L;
    time.tv_sec++;
  }
  return time;
}

void mp_http_wait(mp_http_client *client, uint64_t seen, double seconds) {
  if (is_out_of_reach(client) || !(seconds > 0)) return;
  struct timespec deadline = after(seconds);
  pthread_mutex_lock(&client->lock);
  while (client->activity == seen) {
    if (pthread_cond_timedwait(&client->changed, &client->lock, &deadline) == ETIMEDOUT) break;
  }
  pthread_mutex_unlock(&client->lock);
}
