/* Reading a session: its state, and the events that were asked for (contract 2). */
#include "base/error.h"
#include "base/options.h"
#include "service/expiry/expiry.h"
#include "service/names.h"
#include "service/session/session.h"

/*
** Whoever asks for the last few events is going to look at them: up to so many are read with the
** session, in one transaction.
*/
#define READ_ALONG 16

typedef struct reading {
  const moonpad_session_name *name;
  mp_expiry expiry;
  mp_env *env;
  /* How many events to read along, and these. */
  int64_t recent;
  mp_page *page;
  mp_session_row row;
  mp_view view;
  mp_changed_keys state;
} reading;

static moonpad_status add_state(void *context, const mp_state_row *row, moonpad_error *error) {
  return mp_changed_keys_add_row(&((reading *)context)->state, row, error);
}

static moonpad_status add_event(void *context, const mp_event_row *row, moonpad_error *error) {
  return mp_page_add(((reading *)context)->page, row, error);
}

static moonpad_status read_in(mp_tx *tx, void *context, moonpad_error *error) {
  reading *read = context;
  mp_facts facts;
  mp_session_ref ref = {.name = *read->name};
  mp_look look = mp_look_at(&ref, NULL, &read->state);
  look.each_state = add_state;
  look.each_event = add_event;
  look.context = read;
  look.recent = read->recent;
  if (read->page != NULL) mp_page_clear(read->page);
  moonpad_status status = mp_look_for_live_keys(tx, &look, &read->expiry, &read->state, &facts, error);
  read->row = facts.row;
  if (status != MOONPAD_NOT_FOUND) return status;
  return mp_fail(error, status, "%s does not exist", mp_label(read->name).text);
}

/* Events that cannot be read are for whoever looks at them to find out. */
static moonpad_status read_session(moonpad_service *service, reading *read, moonpad_error *error) {
  if (read->recent > 0) read->page = mp_page_new(read->env, READ_ALONG);
  if (read->page == NULL) read->recent = 0;
  moonpad_status status = mp_expiry_read(&read->expiry, read_in, read, error);
  bool is_answer =
      status == MOONPAD_OK || status == MOONPAD_NOT_FOUND || status == MOONPAD_BUSY || status == MOONPAD_CLOSED;
  if (is_answer || read->recent == 0) return status;
  mp_page_free(service->env, read->page);
  read->page = NULL;
  read->recent = 0;
  return mp_expiry_read(&read->expiry, read_in, read, error);
}

static void set_filter(moonpad_session *session, const moonpad_get_options *options) {
  int64_t recent = options->num_recent_events;
  if (options->has_after_timestamp) {
    session->filter_pending = true;
    session->after_timestamp = options->after_timestamp;
    session->filter_revision = session->row.revision;
    session->recent = recent;
    session->first_event = session->row.revision + 1;
  } else if (recent != MOONPAD_ALL_EVENTS && recent < session->row.revision - session->row.base_revision) {
    session->first_event = session->row.revision - recent + 1;
  }
}

moonpad_status moonpad_get_session(moonpad_service *service, const moonpad_session_name *given,
                                   const moonpad_get_options *given_options, moonpad_session **session,
                                   moonpad_error *error) {
  *session = NULL;
  moonpad_get_options options;
  moonpad_get_options_init(&options);
  moonpad_status status = mp_take_options("moonpad_get_options", MP_SIZE_UP_TO(moonpad_get_options, after_timestamp),
                                          given_options, &options, sizeof options, error);
  if (status != MOONPAD_OK) return status;
  if (options.num_recent_events == MOONPAD_DEFAULT) options.num_recent_events = service->options.num_recent_events;
  if (options.num_recent_events < MOONPAD_ALL_EVENTS) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "numRecentEvents: must not be negative");
  }
  moonpad_session_name name;
  status = mp_check_session_name(given, &name, error);
  if (status != MOONPAD_OK) return status;
  reading read;
  memset(&read, 0, sizeof read);
  status = mp_expiry_begin(&read.expiry, service, &(mp_session_ref){.name = name}, MP_ALL_HEADS, error);
  if (status != MOONPAD_OK) return status;
  read.name = &name;
  read.env = service->env;
  bool few = options.num_recent_events > 0 && options.num_recent_events <= READ_ALONG;
  if (few && !options.has_after_timestamp) read.recent = options.num_recent_events;
  mp_view_init(&read.view, service->env);
  mp_changed_keys_init(&read.state, service->env);
  read.state.view = &read.view;
  status = read_session(service, &read, error);
  if (status == MOONPAD_OK) *session = mp_session_new_with(service, &name, &read.row, &read.state);
  if (status == MOONPAD_OK && *session == NULL) status = mp_no_memory(error);
  if (status == MOONPAD_OK) {
    mp_expiry_renew(&read.expiry);
    set_filter(*session, &options);
    (*session)->page = read.page;
  } else {
    mp_page_free(service->env, read.page);
  }
  mp_changed_keys_free(&read.state);
  mp_view_free(&read.view);
  return status;
}
