/*
** What is inside a service handle.
**
** The order of locks: none is asked for while another one is held. So no two threads can wait for
** each other.
**
** writer_mutex (below)    The queues of asynchronous appends. Whoever holds it asks for no other
**                         lock, calls no store and no hook of the host (clock, random source,
**                         allocator, log, callbacks), and so gives no memory back either.
** a transaction           Of a store in memory: its mutex. Of SQLite: the turn to write, or one of
**                         the connections that read, and SQLite's own locks on the file. Held
**                         while a transaction function runs, which may call the allocator, but no
**                         other hook; takes no lock, begins no second transaction and waits for
**                         no other thread.
** mp_sqlite.mutex         SQLite's queue of writers and pool of readers; taken for a moment before
**                         a transaction begins and after it has ended. As writer_mutex.
** pool_lock (base/env.c)  Random bytes. As writer_mutex.
**
** The HTTP client (src/http) has locks of its own and never calls this library.
*/
#ifndef MP_SERVICE_SERVICE_H
#define MP_SERVICE_SERVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/number.h"
#include "store/store.h"

typedef struct mp_writer mp_writer;

struct moonpad_service {
  atomic_uint references;
  mp_env *env;
  moonpad_options options;
  mp_store *store;
  pthread_mutex_t writer_mutex; /* guards `writer`, and what changes `closed` */
  mp_writer *writer;            /* asynchronous appends; started by the first */
  atomic_bool closed;
};

/* For calls that may ask no store, which would say so itself. */
moonpad_status mp_check_open(const moonpad_service *service, moonpad_error *error);

/* A store in memory with the hooks and limits of another service: values may go from the one to the other. */
moonpad_status mp_service_open_beside(const moonpad_service *host, moonpad_service **service, moonpad_error *error);

/* Checks the three names of a session; the id is trimmed. `generate` allows an empty id. */
moonpad_status mp_check_session_name(const moonpad_session_name *given, bool generate, moonpad_session_name *name,
                                     moonpad_error *error);
/* "session "S" of user "U" in app "A"", for messages. */
typedef struct mp_session_label {
  char text[900];
} mp_session_label;
mp_session_label mp_label(const moonpad_session_name *name);

/* A session's own state, a stored event. */
moonpad_status mp_check_state_size(const moonpad_service *service, size_t bytes, moonpad_error *error);
moonpad_status mp_check_event_size(const moonpad_service *service, size_t bytes, moonpad_error *error);
/* Can no number, boolean or null be too large? */
static inline bool mp_fits_small_scalars(const moonpad_service *service) {
  int64_t limit = service->options.max_value_bytes;
  return limit == 0 || limit >= MP_NUMBER_BYTES;
}
/* The long way of mp_check_value_size. */
moonpad_status mp_check_long_value_size(const moonpad_service *service, moonpad_string key, const mp_value *value,
                                        moonpad_error *error);
/* One state value against max_value_bytes; `key` without its prefix is fine for the message. */
static inline moonpad_status mp_check_value_size(const moonpad_service *service, moonpad_string key,
                                                 const mp_value *value, moonpad_error *error) {
  if (value == NULL || (mp_is_small_scalar(value->as.type) && mp_fits_small_scalars(service))) return MOONPAD_OK;
  return mp_check_long_value_size(service, key, value, error);
}

#endif
