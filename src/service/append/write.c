/* What an append stores: the rows of its keys, the text and the row of its event. */
#include "service/append/append.h"

bool mp_append_write_event(mp_append *append, size_t *unresolved) {
  for (size_t i = 0; i < append->stored_count; i++) {
    const mp_operation *operation = &append->operations[i];
    moonpad_string key = mp_scope_strip(operation->scope, mp_key_text(operation->key));
    append->writes[i] = (mp_state_row){operation->scope, key, operation->result, 0};
  }
  if (append->delta_unchanged && mp_event_draft_is_unchanged(&append->draft, &append->stored)) return true;
  mp_buffer_clear(&append->json);
  mp_event_draft_write(&append->draft, append->delta_unchanged ? NULL : append->writes, append->stored_count,
                       unresolved, &append->json);
  append->stored = append->json.failed ? (moonpad_string){NULL, 0} : mp_buffer_text(&append->json);
  return !append->json.failed;
}

mp_event_row mp_append_event_row(const mp_append *append, unsigned heads) {
  const mp_event_draft *draft = &append->draft;
  unsigned kinds = draft->is_user_message ? MP_EVENT_USER_MESSAGE : 0;
  if ((heads & MP_HEAD(MP_SCOPE_SESSION)) != 0) kinds |= MP_EVENT_SESSION_CHANGE;
  uint64_t digest = append->id_given ? draft->digest : 0;
  if (append->id_given && digest == 0) digest = 1;
  mp_event_row row = {
      .revision = append->row.revision,
      .timestamp = draft->timestamp,
      .json = append->stored,
      .digest = digest,
      .kinds = kinds,
  };
  mp_event_draft_stored_ids(draft, append->stored, &row.id, &row.invocation);
  return row;
}
