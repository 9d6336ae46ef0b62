/* Writing a session as text: see export.h for its form. */
#include "service/history/export.h"

#include "base/error.h"
#include "core/json_write.h"
#include "service/history/history.h"
#include "service/history/replay.h"
#include "service/session/cursor.h"

struct moonpad_export {
  const moonpad_session *session; /* used while the export is opened, not afterwards */
  mp_expiry expiry;               /* likewise */
  mp_env *env;
  mp_session_row row;
  mp_replay base;               /* the base state; empty once the header is written */
  moonpad_event_cursor *events; /* behind the header */
  const moonpad_event *event;   /* has been read, its line failed for want of memory; else NULL */
  mp_buffer line;               /* the one that was returned last; at first the header */
  bool header_done;             /* the header has been returned */
};

static moonpad_status base_key(void *context, const mp_state_row *row, moonpad_error *error) {
  return mp_replay_base(context, row->key, row->value, error);
}

static moonpad_status read_header(mp_tx *tx, void *context, moonpad_error *error) {
  moonpad_export *export = context;
  mp_replay_clear(&export->base);
  moonpad_status status = mp_history_look(&export->expiry, tx, MP_NO_KEYS, NULL, &export->row, error);
  return status == MOONPAD_OK ? tx->ops->each_base_key(tx, &export->expiry.ref, base_key, &export->base, error)
                              : status;
}

static void add_text_member(mp_buffer *out, const char *name, moonpad_string text) {
  mp_buffer_add_string(out, moonpad_text(name));
  mp_json_write_string(out, text);
}

static moonpad_status write_header(moonpad_export *export, mp_buffer *out, moonpad_error *error) {
  const moonpad_session *session = export->session;
  mp_buffer_add_literal(out, "{\"moonpadSession\":");
  mp_json_write_integer(out, MP_EXPORT_FORMAT);
  add_text_member(out, ",\"appName\":", mp_key_text(session->app_name));
  add_text_member(out, ",\"userId\":", mp_key_text(session->user_id));
  add_text_member(out, ",\"sessionId\":", mp_key_text(session->id));
  mp_buffer_add_literal(out, ",\"createTime\":");
  mp_json_write_float(out, export->row.create_time);
  mp_buffer_add_literal(out, ",\"baseRevision\":");
  mp_json_write_integer(out, export->row.base_revision);
  mp_buffer_add_literal(out, ",\"revision\":");
  mp_json_write_integer(out, export->row.revision);
  mp_buffer_add_literal(out, ",\"conversationCount\":");
  mp_json_write_integer(out, export->row.conversation_count);
  mp_buffer_add_literal(out, ",\"baseState\":");
  moonpad_status status = mp_replay_write(&export->base, out, error);
  mp_buffer_add_literal(out, "}\n");
  return status == MOONPAD_OK && out->failed ? mp_no_memory(error) : status;
}

void moonpad_export_free(moonpad_export *export) {
  if (export == NULL) return;
  mp_env *env = export->env;
  moonpad_event_cursor_free(export->events);
  mp_replay_free(&export->base);
  mp_buffer_free(&export->line);
  mp_release(env, export);
  mp_env_release(env);
}

moonpad_status moonpad_export_open(moonpad_session *session, moonpad_export **result, moonpad_error *error) {
  *result = NULL;
  mp_session_drain(session);
  moonpad_export *export = mp_allocate_zeroed(session->env, sizeof *export);
  if (export == NULL) return mp_no_memory(error);
  export->env = mp_env_retain(session->env);
  export->session = session;
  mp_replay_init(&export->base, export->env);
  mp_buffer_init(&export->line, export->env);
  moonpad_status status = mp_history_begin(&export->expiry, session, error);
  if (status == MOONPAD_OK) status = mp_expiry_read(&export->expiry, read_header, export, error);
  if (status == MOONPAD_OK) mp_expiry_renew(&export->expiry);
  if (status == MOONPAD_OK) status = write_header(export, &export->line, error);
  if (status == MOONPAD_OK) {
    const mp_session_row *row = &export->row;
    export->events = mp_event_cursor_new(session, row->base_revision + 1, row->revision);
    if (export->events == NULL) status = mp_no_memory(error);
  }
  mp_replay_clear(&export->base);
  if (status == MOONPAD_OK) {
    *result = export;
  } else {
    moonpad_export_free(export);
  }
  return status;
}

bool mp_export_is_ready(const moonpad_export *export) {
  return !export->header_done || export->event != NULL || mp_event_cursor_is_ready(export->events);
}

moonpad_status mp_export_load(moonpad_export *export, moonpad_error *error) {
  return mp_event_cursor_load(export->events, error);
}

/* Writes the next event into `line`, which stays empty behind the last one. */
static moonpad_status write_event_line(moonpad_export *export, moonpad_error *error) {
  mp_buffer_clear(&export->line);
  if (export->event == NULL) {
    moonpad_status status = moonpad_event_cursor_next(export->events, &export->event, error);
    if (status != MOONPAD_OK || export->event == NULL) return status;
  }
  mp_buffer_add_string(&export->line, export->event->json);
  mp_buffer_add_char(&export->line, '\n');
  if (export->line.failed) return mp_no_memory(error);
  export->event = NULL;
  return MOONPAD_OK;
}

moonpad_status moonpad_export_next(moonpad_export *export, moonpad_string *line, moonpad_error *error) {
  *line = moonpad_text(NULL);
  moonpad_status status = mp_event_cursor_check(export->events, error);
  if (status == MOONPAD_OK && export->header_done) status = write_event_line(export, error);
  if (status != MOONPAD_OK) return status;
  export->header_done = true;
  if (export->line.length > 0) *line = mp_buffer_text(&export->line);
  return MOONPAD_OK;
}

moonpad_status moonpad_export_session(moonpad_session *session, moonpad_write_line write, void *context,
                                      moonpad_error *error) {
  moonpad_export *export;
  moonpad_string line;
  moonpad_status status = moonpad_export_open(session, &export, error);
  while (status == MOONPAD_OK && (status = moonpad_export_next(export, &line, error)) == MOONPAD_OK) {
    if (line.data == NULL) break;
    if (!write(context, line)) status = mp_fail(error, MOONPAD_STORAGE, "the export was stopped by its writer");
  }
  moonpad_export_free(export);
  return status;
}
