/* Asynchronous appends of a Lua state: what is known of one until it is done. */
#include "lua/async/append.h"

#include "base/error.h"
#include "lua/codec/event.h"

void mp_lua_append_release(mp_lua_append *append) {
  if (append == NULL || --append->references > 0) return;
  mp_env *env = append->env;
  mp_session_object_release(append->session);
  mp_release_outcome(&append->stored);
  mp_buffer_free(&append->refused);
  mp_release(env, append->error);
  mp_release(env, append);
  mp_env_release(env);
}

mp_lua_append *mp_lua_append_new(mp_lua *binding, mp_session_object *session) {
  mp_lua_append *append = mp_allocate_zeroed(binding->env, sizeof *append);
  if (append == NULL) return NULL;
  append->references = 1;
  append->env = mp_env_retain(binding->env);
  append->session = mp_session_object_retain(session);
  mp_buffer_init(&append->refused, append->env);
  return append;
}

/* The append itself needs it no longer. */
static void let_go(mp_lua_append *append) {
  mp_session_object *session = append->session;
  mp_append_wait_tell(session);
  append->session = NULL;
  append->job = NULL;
  mp_session_object_release(session);
  mp_lua_append_release(append);
}

static void keep_failure(mp_lua_append *append, mp_append *failed, const moonpad_error *error) {
  append->state = MP_APPEND_FAILED;
  append->error = mp_allocate(append->env, sizeof *append->error);
  if (append->error != NULL) *append->error = *error;
  if (error->code != MOONPAD_CONFLICT) return;
  mp_append_write_refused(failed, &append->refused);
  append->stored.env = mp_env_retain(mp_append_env(failed));
  append->stored.conflicts = mp_append_take_conflicts(failed, &append->stored.conflict_count);
}

static void append_done(void *context, mp_append *done, moonpad_session *session, const moonpad_error *error) {
  mp_lua_append *append = context;
  (void)session;
  if (error != NULL) {
    keep_failure(append, done, error);
  } else {
    append->state = MP_APPEND_STORED;
    /* Else its object has been collected, and nobody can ask. */
    if (append->references > 1) append->stored.event = mp_append_event(done);
  }
  let_go(append);
}

static void append_dropped(void *context) {
  mp_lua_append *append = context;
  append->state = MP_APPEND_DROPPED;
  let_go(append);
}

moonpad_status mp_lua_append_begin(mp_lua_append *append, mp_lua_service *service, const mp_append_request *request,
                                   bool when_stored, moonpad_error *error) {
  static const mp_append_watch watch = {append_done, append_dropped};
  if (service->service == NULL) return mp_fail(error, MOONPAD_CLOSED, "the service is closed");
  moonpad_session *session = append->session->session;
  moonpad_status status = mp_need_queue(service, error);
  if (status == MOONPAD_OK) status = moonpad_session_set_queue(session, service->queue, error);
  if (status != MOONPAD_OK) return status;
  mp_async_way way = {.when_stored = when_stored, .watch = &watch, .context = append};
  append->references++;
  status = mp_append_later(session, request, &way, &append->job, error);
  if (status != MOONPAD_OK) append->references--;
  return status;
}

moonpad_error mp_lua_append_error(const mp_lua_append *append) {
  moonpad_error error;
  if (append->state == MP_APPEND_DROPPED) {
    mp_fail(&error, MOONPAD_CLOSED, "its service has been let go of before a poll found out what became of it");
  } else if (append->error != NULL) {
    error = *append->error;
  } else {
    mp_no_memory(&error);
  }
  return error;
}
