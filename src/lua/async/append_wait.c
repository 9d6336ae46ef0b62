/* Stepped runs that wait for the end of a session object's appends: a list of each session. */
#include "lua/async/append_wait.h"

#include "service/binding/session.h"
#include "service/binding/tasks.h"

void mp_append_wait_begin(mp_append_wait *wait, mp_session_object *session) {
  *wait = (mp_append_wait){.session = mp_session_object_retain(session), .next = session->waits};
  if (wait->next != NULL) wait->next->previous = wait;
  session->waits = wait;
}

void mp_append_wait_end(mp_append_wait *wait) {
  mp_session_object *session = wait->session;
  if (session == NULL) return;
  wait->session = NULL;
  if (wait->next != NULL) wait->next->previous = wait->previous;
  if (wait->previous != NULL) {
    wait->previous->next = wait->next;
  } else {
    session->waits = wait->next;
  }
  moonpad_queue *due = wait->due;
  wait->due = NULL;
  if (due != NULL) mp_queue_remove_due(due);
  mp_queue_release(due);
  mp_session_object_release(session);
}

void mp_append_wait_tell(const mp_session_object *session) {
  for (mp_append_wait *wait = session->waits; wait != NULL; wait = wait->next) {
    if (wait->due != NULL || mp_session_queue(session->session) == NULL) continue;
    wait->due = mp_queue_retain(mp_session_queue(session->session));
    mp_queue_add_due(wait->due);
  }
}
