/* What a transaction reads. */
#include "base/error.h"
#include "store/memory/memory.h"

static void session_facts(const mp_memory_session *session, mp_facts *facts) {
  const mp_memory_user *user = session->user;
  facts->row = mp_memory_session_row(session);
  facts->forgotten[MP_SCOPE_SESSION] = session->forgotten;
  facts->forgotten[MP_SCOPE_USER] = user->forgotten;
  facts->forgotten[MP_SCOPE_APP] = user->app->forgotten;
  facts->touched[MP_SCOPE_SESSION] = session->touched;
  facts->touched[MP_SCOPE_USER] = user->touched;
  facts->touched[MP_SCOPE_APP] = user->app->touched;
}

static mp_memory_session *session_by_id(mp_tx *tx, int64_t id) {
  return mp_memory_data_session_by_id(&mp_memory_store_of(tx)->data, id);
}

moonpad_status mp_memory_find_session(mp_tx *tx, const mp_session_ref *ref, mp_facts *facts, moonpad_error *error) {
  mp_memory_data *data = &mp_memory_store_of(tx)->data;
  const moonpad_session_name *name = &ref->name;
  const mp_memory_session *session;
  moonpad_string text;
  if (ref->session != 0) {
    session = mp_memory_data_session_by_id(data, ref->session);
  } else {
    if (!mp_memory_data_compose_name(data, name->app_name, &name->user_id, &name->session_id, &text)) {
      return mp_no_memory(error);
    }
    session = mp_memory_data_find_session(data, text);
  }
  if (session == NULL) return MOONPAD_NOT_FOUND;
  session_facts(session, facts);
  return MOONPAD_OK;
}

moonpad_status mp_memory_read_key(mp_tx *tx, int64_t id, mp_state_row *wanted, moonpad_error *error) {
  (void)error;
  const mp_memory_keys *keys = mp_memory_data_keys(&mp_memory_store_of(tx)->data, wanted->scope, id, false);
  const mp_memory_key *entry = keys == NULL ? NULL : mp_memory_keys_find(keys, wanted->key);
  if (entry == NULL) return MOONPAD_OK;
  wanted->value = mp_value_retain(entry->value);
  wanted->revision = entry->revision;
  return MOONPAD_OK;
}

moonpad_status mp_memory_each_key(mp_tx *tx, mp_owner owner, int64_t since, mp_each_state each, void *context,
                                  moonpad_error *error) {
  const mp_memory_keys *keys = mp_memory_data_keys(&mp_memory_store_of(tx)->data, owner.scope, owner.id, owner.is_base);
  return keys == NULL ? MOONPAD_OK : mp_memory_keys_each(keys, owner.scope, since, each, context, error);
}

moonpad_status mp_memory_each_event(mp_tx *tx, int64_t id, const mp_event_query *query, mp_each_event each,
                                    void *context, moonpad_error *error) {
  const mp_memory_session *session = session_by_id(tx, id);
  return session == NULL ? MOONPAD_OK : mp_memory_events_each(&session->events, query, each, context, error);
}
