/*
** Sweeping, in small transactions: other writers have their turn between two of them. Sessions and
** state are found by the store (mp_tx_ops.sweep), turns by looking at the oldest event of each
** session.
*/
#include "service/expiry/sweep.h"

#include "base/error.h"
#include "service/expiry/expiry.h"
#include "service/expiry/renewals.h"
#include "service/expiry/trim.h"

#define ENTRIES_AT_ONCE  64  /* removed in one transaction */
#define SESSIONS_AT_ONCE 256 /* looked at in one transaction */

/* ---- sessions and state ---- */

typedef struct entry_sweep {
  mp_sweep before; /* an attempt */
  mp_sweep after;
} entry_sweep;

static moonpad_status sweep_in(mp_tx *tx, void *context, moonpad_error *error) {
  entry_sweep *sweep = context;
  sweep->after = sweep->before;
  if (MP_HAS(mp_tx_ops, tx->ops, sweep)) return tx->ops->sweep(tx, &sweep->after, error);
  return mp_fail(error, MOONPAD_UNSUPPORTED, "this store cannot sweep");
}

static moonpad_status sweep_entries(moonpad_service *service, mp_scope scope, double now, int64_t *count,
                                    moonpad_error *error) {
  double lives = mp_time_to_live(service, scope);
  if (lives == 0) return MOONPAD_OK;
  mp_store *store = service->store;
  entry_sweep sweep = {.before = {.scope = scope, .touched_before = now - lives, .limit = ENTRIES_AT_ONCE}};
  while (!sweep.before.is_done) {
    moonpad_status status = mp_check_open(service, error);
    if (status == MOONPAD_OK) status = store->ops->write(store, sweep_in, &sweep, error);
    if (status != MOONPAD_OK) return status;
    *count += sweep.after.removed;
    sweep.before = sweep.after;
  }
  return MOONPAD_OK;
}

/* ---- turns ---- */

typedef struct turn_sweep {
  moonpad_service *service;
  double now;
  moonpad_string app; /* whose sessions are listed */
  mp_buffer apps;     /* each ends with a NUL */
  int64_t *ids;       /* of sessions that have events */
  size_t count;
  size_t capacity;
  size_t done;     /* sessions that have been looked at */
  int64_t trimmed; /* of one transaction */
  bool is_old;
} turn_sweep;

static moonpad_status note_app(void *context, moonpad_string name, moonpad_error *error) {
  mp_buffer *apps = context;
  mp_buffer_add_string(apps, name);
  mp_buffer_add_char(apps, '\0');
  return apps->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status note_session(void *context, const mp_listed_session *listed, moonpad_error *error) {
  turn_sweep *sweep = context;
  const mp_session_row *row = &listed->row;
  if (row->revision - row->base_revision < 2) return MOONPAD_OK;
  void *ids = sweep->ids;
  bool has_room = mp_reserve(sweep->service->env, &ids, &sweep->capacity, sizeof *sweep->ids, sweep->count + 1);
  if (!has_room) return mp_no_memory(error);
  sweep->ids = ids;
  sweep->ids[sweep->count++] = row->id;
  return MOONPAD_OK;
}

static moonpad_status list_in(mp_tx *tx, void *context, moonpad_error *error) {
  turn_sweep *sweep = context;
  moonpad_status status = MOONPAD_OK;
  mp_buffer_clear(&sweep->apps);
  sweep->count = 0;
  if (!MP_HAS(mp_tx_ops, tx->ops, each_app)) return mp_fail(error, MOONPAD_UNSUPPORTED, "this store cannot sweep");
  status = tx->ops->each_app(tx, note_app, &sweep->apps, error);
  for (size_t at = 0; status == MOONPAD_OK && at < sweep->apps.length;) {
    mp_list_query query = {.app_name = moonpad_text(sweep->apps.data + at)};
    mp_listing listing = {note_session, NULL, sweep};
    status = tx->ops->each_listed(tx, &query, &listing, error);
    at += query.app_name.length + 1;
  }
  return status;
}

static moonpad_status judge_event(void *context, const mp_event_row *row, moonpad_error *error) {
  turn_sweep *sweep = context;
  (void)error;
  sweep->is_old = row->timestamp < sweep->now - sweep->service->options.event_ttl_seconds;
  return MP_STOP;
}

/* Moves `done` to the next session whose oldest event is old. */
static moonpad_status find_old_in(mp_tx *tx, void *context, moonpad_error *error) {
  turn_sweep *sweep = context;
  size_t end = sweep->done + SESSIONS_AT_ONCE < sweep->count ? sweep->done + SESSIONS_AT_ONCE : sweep->count;
  mp_event_query query = {.first = 0, .last = MP_MAX_REVISION, .without_json = true};
  sweep->is_old = false;
  for (; sweep->done < end; sweep->done++) {
    mp_session_ref ref = {.session = sweep->ids[sweep->done]};
    moonpad_status status = tx->ops->each_event(tx, &ref, &query, judge_event, sweep, error);
    if (status != MOONPAD_OK || sweep->is_old) return status;
  }
  return MOONPAD_OK;
}

static moonpad_status trim_in(mp_tx *tx, void *context, moonpad_error *error) {
  turn_sweep *sweep = context;
  mp_facts facts;
  mp_look look = {.ref = {.session = sweep->ids[sweep->done]},
                  .heads = MP_ALL_HEADS,
                  .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS}};
  sweep->trimmed = 0;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  mp_trimming trimming = {sweep->service, &look.ref, sweep->now, 0, true};
  mp_known_turns known = {.count = 0};
  return status == MOONPAD_OK ? mp_trim(&trimming, tx, &facts.row, &known, &sweep->trimmed, error) : status;
}

static moonpad_status trim_all(turn_sweep *sweep, int64_t *events, moonpad_error *error) {
  mp_store *store = sweep->service->store;
  while (sweep->done < sweep->count) {
    moonpad_status status = mp_check_open(sweep->service, error);
    if (status == MOONPAD_OK) status = store->ops->read(store, find_old_in, sweep, error);
    if (status == MOONPAD_OK && sweep->is_old) {
      status = store->ops->write(store, trim_in, sweep, error);
      *events += status == MOONPAD_OK ? sweep->trimmed : 0;
      if (sweep->trimmed == 0) sweep->done++;
    }
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

static moonpad_status sweep_turns(moonpad_service *service, double now, int64_t *events, moonpad_error *error) {
  if (service->options.event_ttl_seconds == 0) return MOONPAD_OK;
  turn_sweep sweep = {.service = service, .now = now};
  mp_buffer_init(&sweep.apps, service->env);
  moonpad_status status = service->store->ops->read(service->store, list_in, &sweep, error);
  if (status == MOONPAD_OK) status = trim_all(&sweep, events, error);
  mp_buffer_free(&sweep.apps);
  mp_release(service->env, sweep.ids);
  return status;
}

/* ---- the call ---- */

moonpad_status moonpad_sweep(moonpad_service *service, moonpad_swept *swept, moonpad_error *error) {
  moonpad_swept counts = {0, 0, 0, 0};
  double now = 0;
  moonpad_status status = mp_check_open(service, error);
  if (status == MOONPAD_OK) status = mp_now(service->env, &now, error);
  if (status == MOONPAD_OK) status = mp_renewals_store(&service->renewals, error);
  if (status == MOONPAD_OK) status = sweep_entries(service, MP_SCOPE_SESSION, now, &counts.sessions, error);
  if (status == MOONPAD_OK) status = sweep_entries(service, MP_SCOPE_USER, now, &counts.users, error);
  if (status == MOONPAD_OK) status = sweep_entries(service, MP_SCOPE_APP, now, &counts.apps, error);
  if (status == MOONPAD_OK) status = sweep_turns(service, now, &counts.events, error);
  if (swept != NULL) *swept = counts;
  return status;
}

/* ---- every so often ---- */

static void run_task(mp_task *task) {
  mp_sweeper *sweeper = (mp_sweeper *)task;
  moonpad_service *service = sweeper->service;
  moonpad_error error;
  moonpad_status status = moonpad_sweep(service, NULL, &error);
  if (status != MOONPAD_OK && status != MOONPAD_CLOSED) mp_log(service->env, status, error.message);
  mp_executor_later(&service->executor, task, sweeper->interval);
}

bool mp_sweeper_start(mp_sweeper *sweeper, moonpad_service *service) {
  *sweeper = (mp_sweeper){.task = {.run = run_task, .writes = true}, .service = service};
  sweeper->interval = service->options.sweep_interval_seconds;
  return sweeper->interval == 0 || mp_executor_later(&service->executor, &sweeper->task, sweeper->interval);
}
