/* Opening and closing a service. */
#include "service/service.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/options.h"
#include "base/url.h"

const char *moonpad_version(void) {
  return MOONPAD_VERSION;
}

int moonpad_version_number(void) {
  return MOONPAD_VERSION_NUMBER;
}

static moonpad_status check_seconds(const char *field, double seconds, moonpad_error *error) {
  if (isfinite(seconds) && seconds >= 0) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: must be a finite number of seconds, and not negative", field);
}

/* What is not used for so long, and how many there may be (contract 5). */
static moonpad_status check_housekeeping(const moonpad_options *options, moonpad_error *error) {
  const struct {
    const char *field;
    double seconds;
  } times[] = {{"sessionTtlSeconds", options->session_ttl_seconds},
               {"userTtlSeconds", options->user_ttl_seconds},
               {"appTtlSeconds", options->app_ttl_seconds},
               {"eventTtlSeconds", options->event_ttl_seconds},
               {"sweepIntervalSeconds", options->sweep_interval_seconds}};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    moonpad_status status = check_seconds(times[i].field, times[i].seconds, error);
    if (status != MOONPAD_OK) return status;
  }
  if (options->max_events < 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "maxEvents: must not be negative (0: no limit)");
  }
  if (options->max_sessions_per_user < 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "maxSessionsPerUser: must not be negative (0: no limit)");
  }
  int choice = (int)options->on_max_sessions;
  if (choice == MOONPAD_ON_MAX_SESSIONS_REFUSE || choice == MOONPAD_ON_MAX_SESSIONS_DELETE_OLDEST) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "onMaxSessions: no such value: %d", choice);
}

static moonpad_status check_options(const moonpad_options *given, moonpad_options *options, moonpad_error *error) {
  moonpad_options_init(options);
  moonpad_status status = mp_take_options("moonpad_options", MP_SIZE_UP_TO(moonpad_options, log_context), given,
                                          options, sizeof *options, error);
  if (status != MOONPAD_OK) return status;
  if (options->busy_timeout_ms < 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "busyTimeoutMs: must not be negative");
  }
  if (options->durability != MOONPAD_DURABILITY_FULL && options->durability != MOONPAD_DURABILITY_NORMAL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "durability: no such value: %d", (int)options->durability);
  }
  if (options->on_conflict != MOONPAD_ON_CONFLICT_ERROR && options->on_conflict != MOONPAD_ON_CONFLICT_OVERWRITE) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "onConflict: no such value: %d", (int)options->on_conflict);
  }
  if (options->num_recent_events < MOONPAD_ALL_EVENTS) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "numRecentEvents: must not be negative");
  }
  if (options->max_value_bytes < 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "maxValueBytes: must not be negative (0: no limit)");
  }
  if (options->max_event_bytes < 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "maxEventBytes: must not be negative (0: no limit)");
  }
  if (options->max_state_bytes < 0) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "maxStateBytes: must not be negative (0: no limit)");
  }
  return check_housekeeping(options, error);
}

typedef struct scheme {
  const char *name;
  mp_store_open open;
} scheme;

#if defined(MOONPAD_NO_SQLITE)
#define BUILT_IN "built in is memory:"
#define TRY      "\"memory:\""
static const scheme schemes[] = {{"memory:", mp_memory_open}};
#else
#define BUILT_IN "built in are memory: and sqlite:"
#define TRY      "\"sqlite:PATH\" or \"memory:\""
static const scheme schemes[] = {{"memory:", mp_memory_open}, {"sqlite:", mp_sqlite_open}};
#endif
static const char *const absent_schemes[] = {
    "sqlite:", "redis:", "rediss:", "redis+unix:", "redis+cluster:", "postgresql:", "mysql:"};

static bool begins_with(moonpad_string text, const char *prefix) {
  size_t length = strlen(prefix);
  return text.length >= length && memcmp(text.data, prefix, length) == 0;
}

static const moonpad_store_scheme *find_given(const moonpad_options *options, moonpad_string url) {
  for (size_t i = 0; i < options->store_count; i++) {
    const moonpad_store_scheme *given = &options->stores[i];
    size_t length = strlen(given->scheme);
    if (begins_with(url, given->scheme) && url.length > length && url.data[length] == ':') return given;
  }
  return NULL;
}

static moonpad_status open_given(mp_env *env, const moonpad_store_scheme *given, moonpad_string url,
                                 const moonpad_options *options, mp_store **store, moonpad_error *error) {
  if (given->opener->version != MP_STORE_VERSION) {
    return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: this store was built for another version of moonpad",
                   given->scheme);
  }
  size_t length = strlen(given->scheme) + 1;
  moonpad_string rest = {url.data + length, url.length - length};
  return given->opener->open(env, rest, options, store, error);
}

/* Only the scheme is named in messages. */
static moonpad_status open_store(mp_env *env, moonpad_string url, const moonpad_options *options, mp_store **store,
                                 moonpad_error *error) {
  const moonpad_store_scheme *given = find_given(options, url);
  if (given != NULL) return open_given(env, given, url, options, store, error);
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    if (!begins_with(url, schemes[i].name)) continue;
    size_t length = strlen(schemes[i].name);
    moonpad_string rest = {url.data + length, url.length - length};
    return schemes[i].open(env, rest, options, store, error);
  }
  for (size_t i = 0; i < sizeof absent_schemes / sizeof *absent_schemes; i++) {
    if (begins_with(url, absent_schemes[i])) {
      return mp_fail(error, MOONPAD_UNSUPPORTED, "%s this build has no such store; " BUILT_IN, absent_schemes[i]);
    }
  }
  moonpad_string shown = mp_url_scheme(url);
  if (shown.length == 0) {
    return mp_fail(error, MOONPAD_UNSUPPORTED, "the URL has no scheme: write " TRY " (" BUILT_IN ")");
  }
  return mp_fail(error, MOONPAD_UNSUPPORTED, "%s unknown scheme; " BUILT_IN, mp_quote(shown).text);
}

static bool init_asynchronous(moonpad_service *service) {
  mp_backlog_init(&service->backlog, &service->executor);
  if (!mp_executor_init(&service->executor)) return false;
  if (mp_queue_init(&service->queue, service->env, service, &service->executor)) {
    if (mp_renewals_init(&service->renewals, service)) return true;
    mp_queue_destroy(&service->queue);
  }
  mp_executor_destroy(&service->executor);
  return false;
}

/* Takes over the reference to `env`. */
static moonpad_status open_in(mp_env *env, moonpad_string url, const moonpad_options *options,
                              moonpad_service **service, moonpad_error *error) {
  moonpad_service *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) {
    mp_env_release(env);
    return mp_no_memory(error);
  }
  atomic_init(&made->references, 1);
  atomic_init(&made->times_lost, 0);
  made->env = env;
  made->options = *options;
  /* The list is the caller's. */
  made->options.stores = NULL;
  made->options.store_count = 0;
  moonpad_status status = open_store(env, url, options, &made->store, error);
  if (status == MOONPAD_OK && !init_asynchronous(made)) {
    made->store->ops->close(made->store);
    made->store->ops->free(made->store);
    status = mp_no_memory(error);
  }
  if (status != MOONPAD_OK) {
    mp_release(env, made);
    mp_env_release(env);
    return status;
  }
  if (!mp_sweeper_start(&made->sweeper, made)) {
    moonpad_service_release(made);
    return mp_no_memory(error);
  }
  *service = made;
  return MOONPAD_OK;
}

moonpad_status moonpad_open(moonpad_string url, const moonpad_options *options, moonpad_service **service,
                            moonpad_error *error) {
  *service = NULL;
  moonpad_options complete;
  moonpad_status status = check_options(options, &complete, error);
  if (status != MOONPAD_OK) return status;
  mp_env *env = mp_env_new(&complete);
  return env == NULL ? mp_no_memory(error) : open_in(env, url, &complete, service, error);
}

moonpad_status mp_service_open_scratch(const moonpad_service *other, moonpad_service **service, moonpad_error *error) {
  *service = NULL;
  moonpad_options options = other->options;
  options.num_recent_events = MOONPAD_ALL_EVENTS;
  /* It lives as long as a call: nothing in it expires, or is too many. */
  options.session_ttl_seconds = options.user_ttl_seconds = options.app_ttl_seconds = 0;
  options.sweep_interval_seconds = options.event_ttl_seconds = 0;
  options.max_events = options.max_sessions_per_user = 0;
  return open_in(mp_env_retain(other->env), moonpad_text("memory:"), &options, service, error);
}

void moonpad_service_close(moonpad_service *service) {
  if (service == NULL) return;
  mp_executor_stop(&service->executor);
  moonpad_error error;
  moonpad_status status = mp_renewals_store(&service->renewals, &error);
  if (status != MOONPAD_OK && status != MOONPAD_CLOSED) mp_log(service->env, status, error.message);
  service->store->ops->close(service->store);
}

moonpad_status mp_check_open(const moonpad_service *service, moonpad_error *error) {
  return mp_executor_check_open(&service->executor, error);
}

moonpad_status mp_submit(moonpad_service *service, mp_task *task, moonpad_error *error) {
  return mp_executor_submit(&service->executor, task, error);
}

moonpad_service *moonpad_service_retain(moonpad_service *service) {
  if (service != NULL) atomic_fetch_add_explicit(&service->references, 1, memory_order_relaxed);
  return service;
}

void moonpad_service_release(moonpad_service *service) {
  if (service == NULL) return;
  if (atomic_fetch_sub_explicit(&service->references, 1, memory_order_acq_rel) != 1) return;
  moonpad_service_close(service);
  mp_queue_destroy(&service->queue);
  service->store->ops->free(service->store);
  mp_renewals_destroy(&service->renewals);
  mp_executor_destroy(&service->executor);
  mp_env *env = service->env;
  mp_release(env, service);
  mp_env_release(env);
}

moonpad_status moonpad_backup(moonpad_service *service, moonpad_string path, moonpad_error *error) {
  const mp_store_ops *ops = service->store->ops;
  moonpad_status status = mp_check_open(service, error);
  if (status != MOONPAD_OK) return status;
  if (MP_HAS(mp_store_ops, ops, backup)) return ops->backup(service->store, path, error);
  return mp_fail(error, MOONPAD_UNSUPPORTED,
                 "this store has no backup: export its sessions, or use a sqlite: store, which has one");
}

moonpad_status mp_vacuum(moonpad_service *service, moonpad_error *error) {
  const mp_store_ops *ops = service->store->ops;
  moonpad_status status = mp_check_open(service, error);
  if (status != MOONPAD_OK || !MP_HAS(mp_store_ops, ops, vacuum)) return status;
  return ops->vacuum(service->store, error);
}
