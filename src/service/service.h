/*
** src/service: the rules of moonpad, on one store. This file: the service itself.
** Belongs here: opening and closing, tasks and their threads (task.h, executor.h, backlog.h,
** queue.h), and the checks of names, sizes and given state that all calls share.
** Does not belong here: sessions (session/), pending writes (changes/), appends (append/), earlier
** states, forks, rewinds and exports (history/), user and app state (shared/); keeping data
** (src/store).
** Arrows: history -> append -> changes -> session -> expiry -> this folder's own files -> store,
** core, base; shared -> session. service.c starts what expiry/ does by itself. binding/ is what
** src/lua uses of all of them.
**
** Threads. The host's: all calls; a synchronous one asks the store there, and group commit may run
** its transaction on another caller's thread; callbacks run in polls. Workers of the executor, at
** most four, three of them writing: asynchronous appends and the calls of stepped runs, save for
** stores in memory, which are asked at once; sweeping every so often, and storing renewals.
** libcurl's: one for each HTTP client. No others.
**
** Locks. None is asked for while another one is held, but mp_sqlite.mutex in a transaction, and a
** transaction under mp_renewals.storing, so no two threads can wait for each other.
**
** mp_executor.mutex       Tasks, waiting and running, and all completion queues. Whoever holds it
**                         takes no other lock, calls no store and no hook of the host (clock,
**                         random source, allocator, log, callbacks), and so frees no memory.
** a transaction           Of a store in memory: its mutex. Of SQLite: the turn to write, or one of
**                         the reading connections, and SQLite's own locks on the file. Held while a
**                         transaction function runs, or the callbacks of a plan. These may call the
**                         allocator, but no other hook; they take no lock, begin no second
**                         transaction and wait for no other thread.
** mp_sqlite.mutex         SQLite's queue of writers and pool of readers. Held for a moment before a
**                         transaction begins and after it has ended, and by whoever has the turn to
**                         write, to pass it on. Rules as for the first.
** mp_renewals.mutex       What has been used and is not stored. Held for a moment; may call the
**                         allocator.
** mp_renewals.storing     Held by whoever stores that, while a transaction runs. Nobody asks for it
**                         in a transaction, nor with another lock.
** pool_lock (base/env.c)  Random bytes. Rules as for the first.
**
** The HTTP client (src/http) has locks of its own and never calls this library.
*/
#ifndef MP_SERVICE_SERVICE_H
#define MP_SERVICE_SERVICE_H

#include <stdatomic.h>

#include "base/number.h"
#include "service/backlog.h"
#include "service/executor.h"
#include "service/expiry/renewals.h"
#include "service/expiry/sweep.h"
#include "service/queue.h"
#include "store/store.h"

struct moonpad_service {
  atomic_uint references;
  /* How often a session object has found that the store has lost events of its session. */
  atomic_uint times_lost;
  mp_env *env;
  moonpad_options options;
  mp_store *store;
  mp_executor executor; /* its mutex guards all that follows */
  moonpad_queue queue;  /* for threads that have no queue of their own */
  mp_backlog backlog;   /* writes that may share a transaction: asynchronous appends */
  mp_renewals renewals; /* has a mutex of its own */
  mp_sweeper sweeper;
};

/* For calls that can end without asking the store, which would refuse by itself. Errors: closed. */
moonpad_status mp_check_open(const moonpad_service *service, moonpad_error *error);
/* Hands over a task, to be run on a worker: see mp_executor_submit. */
moonpad_status mp_submit(moonpad_service *service, mp_task *task, moonpad_error *error);

/*
** Leaves no byte of what was deleted on disk, where the store can do that. Errors: those of
** writing; busy: others use the store, and some may be left.
*/
moonpad_status mp_vacuum(moonpad_service *service, moonpad_error *error);
/*
** Opens a service in memory with the hooks and limits of another one (`other`). Values may be
** passed between the two.
*/
moonpad_status mp_service_open_scratch(const moonpad_service *other, moonpad_service **service, moonpad_error *error);

/* Are conflicts checked? `onConflict = "overwrite"` (contract 2.2) switches that off. */
static inline bool mp_checks_conflicts(const moonpad_service *service) {
  return service->options.on_conflict != MOONPAD_ON_CONFLICT_OVERWRITE;
}

#endif
