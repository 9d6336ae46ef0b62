/*
** stateAt: the session's own state after an earlier revision (contract 2). This is the call; how
** the state is put together from the base state and the events is in replay.c.
*/
#include "service/history/history.h"
#include "service/history/replay.h"

typedef struct state_query {
  mp_expiry expiry;
  int64_t revision;
  mp_replay replay;
} state_query;

static moonpad_status state_at_in(mp_tx *tx, void *context, moonpad_error *error) {
  state_query *query = context;
  mp_replay_clear(&query->replay);
  mp_session_row row;
  moonpad_status status = mp_history_look(&query->expiry, tx, MP_NO_KEYS, NULL, &row, error);
  if (status != MOONPAD_OK) return status;
  return mp_replay_to(&query->replay, tx, &query->expiry.ref, &row, query->revision, error);
}

moonpad_status moonpad_state_at(moonpad_session *session, int64_t revision, moonpad_buffer *json,
                                moonpad_error *error) {
  memset(json, 0, sizeof *json);
  mp_session_drain(session);
  state_query query = {.revision = revision};
  moonpad_status status = mp_history_begin(&query.expiry, session, error);
  if (status != MOONPAD_OK) return status;
  mp_replay_init(&query.replay, session->env);
  mp_buffer out;
  mp_buffer_init(&out, session->env);
  status = mp_expiry_read(&query.expiry, state_at_in, &query, error);
  if (status == MOONPAD_OK) mp_expiry_renew(&query.expiry);
  if (status == MOONPAD_OK) status = mp_replay_write(&query.replay, &out, error);
  if (status == MOONPAD_OK) status = mp_buffer_hand_over(&out, json, error);
  mp_buffer_free(&out);
  mp_replay_free(&query.replay);
  return status;
}
