/* Bringing a session object back to a store that has lost events. */
#include "service/session/ahead.h"

#include <stdio.h>

#include "base/error.h"
#include "service/names.h"

static const char *const what_of[MP_STORED_SCOPES] = {"", "the state of its user: ", "the state of its app: "};

static void tell_log(const moonpad_session *session, unsigned scopes, const mp_session_row *stored) {
  moonpad_session_name names = mp_session_names(session);
  char revisions[300];
  size_t used = 0;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((scopes & MP_HEAD(scope)) == 0) continue;
    used += (size_t)snprintf(revisions + used, sizeof revisions - used,
                             "%s%sthe store is at revision %lld, this object was at %lld", used == 0 ? "" : "; ",
                             what_of[scope], (long long)mp_row_revision(stored, (mp_scope)scope),
                             (long long)mp_snapshot_revision(session, (mp_scope)scope));
  }
  moonpad_error said;
  mp_fail(&said, MOONPAD_STORAGE,
          "%s: %s: a failover has lost events, or a backup was restored; the object shows what is stored",
          mp_label(&names).text, revisions);
  mp_log(session->env, said.code, said.message);
}

/* Events after `last` are others than it has read; what it shows goes on behind it. */
static void forget_events(moonpad_session *session, int64_t last) {
  atomic_fetch_add(&session->service->times_lost, 1);
  mp_page_free(session->env, session->page);
  session->page = NULL;
  memset(&session->turns, 0, sizeof session->turns);
  if (session->filter_revision > 0) {
    mp_release(session->env, session->chosen);
    session->chosen = NULL;
    session->chosen_count = 0;
    session->filter_pending = true;
    if (session->filter_revision > last) session->filter_revision = last;
  }
  if (session->first_event > last + 1) session->first_event = last + 1;
}

void mp_session_take_back(moonpad_session *session, const mp_changed_keys *changed, const mp_session_row *stored) {
  unsigned ahead = 0;
  if (changed->ahead_scopes == 0) return;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if (mp_snapshot_revision(session, (mp_scope)scope) > mp_row_revision(stored, (mp_scope)scope)) {
      ahead |= MP_HEAD(scope);
    }
  }
  session->has_taken_back = true;
  if ((ahead & MP_HEAD(MP_SCOPE_SESSION)) != 0) forget_events(session, stored->revision);
  if (session->hooks != NULL) session->hooks->taken_back(session, changed->ahead_scopes, stored);
  if (ahead != 0) tell_log(session, ahead, stored);
}

void mp_session_forget_taken_back(moonpad_session *session) {
  if (!session->has_taken_back || session->in_flight.unapplied > 0) return;
  session->has_taken_back = false;
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&session->view.entries, &position)) != NULL;) {
    mp_view_entry *entry = slot->value;
    if (entry->is_taken_back) mp_own_writes_clear(&entry->own);
    entry->is_taken_back = false;
  }
}
