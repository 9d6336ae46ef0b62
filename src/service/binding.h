/*
** What the Lua binding (src/lua) uses of the inside of the service, besides moonpad.h.
**
** Belongs here: what no host needs, and the binding does: calls cut in two, so that a stepped run
** asks a store on another thread; state read as Lua reads it; limits and hooks of a service.
** Does not belong here: anything that a host may call (moonpad.h), and any rule of the service
** itself.
** Arrows: src/lua includes this header and no other one of src/service, and none of src/store.
** Nothing in src/service includes it. `scripts/check.sh layers` looks that each internal function
** that the binding calls is named below.
**
** Each group names what it is for; a function is described where it is declared.
*/
#ifndef MP_SERVICE_BINDING_H
#define MP_SERVICE_BINDING_H

#include "service/append/append.h"
#include "service/append/async.h"
#include "service/changes/agent_tool_writes.h"
#include "service/changes/changes.h"
#include "service/changes/scalar.h"
#include "service/changes/transaction.h"
#include "service/history/export.h"
#include "service/history/rewind.h"
#include "service/queue_poll.h"
#include "service/service.h"
#include "service/session/events.h"
#include "service/session/list.h"
#include "service/session/refresh.h"
#include "service/session/session.h"

/*
** ---- A service ----
**
** service/service.h: mp_service_open_scratch (agents as tools), mp_vacuum (the command).
** service/session/list.h: mp_list_apps, mp_list_users (the command).
*/

/* Its limits and defaults. */
static inline const moonpad_options *mp_service_options(const moonpad_service *service) {
  return &service->options;
}

/* The allocator, the clock and the random source that its host gave. */
static inline mp_env *mp_service_env(const moonpad_service *service) {
  return service->env;
}

/* Does its store answer without waiting for a disk or a link? */
static inline bool mp_service_is_in_memory(const moonpad_service *service) {
  return service->store->in_memory;
}

/* Any thread. */
static inline bool mp_service_is_closed(const moonpad_service *service) {
  return mp_check_open(service, NULL) != MOONPAD_OK;
}

/*
** ---- Waiting for a store without holding the thread ----
**
** service/task.h:       mp_task.
** service/service.h:    mp_submit.
** service/queue.h:      mp_task_take, mp_task_wait, mp_task_abandon, mp_queue_drop_abandoned;
**                       mp_queue_await; mp_queue_add_due, mp_queue_remove_due; mp_queue_retain,
**                       mp_queue_release.
** service/queue_poll.h: mp_queue_poll.
*/

/*
** ---- A session object ----
**
** service/session/session.h: mp_session_reference; of its appends in flight mp_session_drain,
**   mp_session_try_drain, mp_session_drain_abandoned, mp_session_queues_nothing (inline: of
**   service/session/in_flight.h mp_in_flight_drain, mp_in_flight_try_drain,
**   mp_in_flight_drain_abandoned).
** service/session/events.h: mp_session_event_text, mp_session_event_is_ready; mp_event_read,
**   mp_event_read_begin, mp_event_read_run, mp_event_read_end.
** service/session/refresh.h: mp_refreshing, mp_refresh_begin, mp_refresh_read, mp_refresh_fits,
**   mp_refresh_apply, mp_refresh_end.
*/

static inline mp_env *mp_session_env(const moonpad_session *session) {
  return session->env;
}

static inline const moonpad_options *mp_session_options(const moonpad_session *session) {
  return &session->service->options;
}

/* The queue that its asynchronous appends complete in; NULL: the service's own. Borrowed. */
static inline moonpad_queue *mp_session_queue(const moonpad_session *session) {
  return session->in_flight.completions;
}

/* The id of its creation in the store: never that of another one. */
static inline int64_t mp_session_number(const moonpad_session *session) {
  return session->row.id;
}

/* The revision of the first event that it shows, where no time was asked for. */
static inline int64_t mp_session_first_event(const moonpad_session *session) {
  return session->first_event;
}

/* How often the store has been found to have lost events, whose revisions others may have since. */
static inline unsigned mp_session_times_lost(const moonpad_session *session) {
  return atomic_load(&session->service->times_lost);
}

/* About how much memory it takes, for the collector. */
static inline size_t mp_session_memory(const moonpad_session *session) {
  return sizeof *session + 2 * session->view.state_bytes;
}

/* Moves the keys of the last conflict to the caller. NULL: there are none. */
static inline mp_key **mp_session_take_conflicts(moonpad_session *session, size_t *count) {
  *count = session->conflict_count;
  if (session->conflict_count == 0) return NULL;
  mp_key **keys = session->conflicts;
  session->conflicts = NULL;
  session->conflict_count = 0;
  return keys;
}

/*
** ---- State: change sets as Lua reads and writes them ----
**
** service/changes/changes.h:
**   mp_changes_new_detached, mp_changes_promote, mp_changes_set_branch, mp_changes_end,
**   mp_changes_env; mp_changes_item, mp_changes_has, mp_changes_peek, mp_changes_keys,
**   mp_changes_write_all, mp_changes_write_delta; mp_changes_put, mp_changes_holds;
**   mp_change_of.
** service/changes/scalar.h, the short way to a key that was used lately:
**   mp_change_is, mp_change_scalar, mp_change_overwrite, which may call mp_change_touch.
** service/changes/transaction.h, tool calls:
**   mp_changes_new_over, mp_transaction_begin, mp_transaction_commit, mp_transaction_rollback.
** service/changes/agent_tool_writes.h, agents as tools:
**   mp_writes, mp_changes_writes, mp_changes_add_writes, mp_writes_free.
*/

/* Why it takes no more writes; NULL: it takes some. Borrowed. */
static inline const char *mp_changes_ended(const moonpad_changes *changes) {
  return changes->ended;
}

/*
** ---- Appends ----
**
** service/append/append.h: mp_append_request, mp_append_now, mp_append_event,
**   mp_append_write_refused.
** service/append/async.h, which a poll or a step completes: mp_async_way, mp_append_watch,
**   mp_append_later; mp_job, mp_job_poll, mp_job_abandon.
*/

/* The environment of a failed append, not counted: what its keys are to be released in. */
static inline mp_env *mp_append_env(const mp_append *append) {
  return append->env;
}

/* As mp_session_take_conflicts, of a failed append. */
static inline mp_key **mp_append_take_conflicts(mp_append *append, size_t *count) {
  mp_key **keys = append->conflicts;
  *count = append->conflict_count;
  append->conflicts = NULL;
  append->conflict_count = append->conflict_capacity = 0;
  return keys;
}

/*
** ---- History, export ----
**
** service/history/rewind.h: mp_rewind_target, mp_rewind_read, MP_REWIND_ATTEMPTS;
**                           mp_find_invocation.
** service/history/export.h: mp_export_is_ready, mp_export_load.
*/

#endif
