/* Creating, reading, refreshing, deleting and listing sessions (contract 2). */
#include <stdlib.h>

#include "base/error.h"
#include "base/options.h"
#include "base/uuid.h"
#include "core/event.h"
#include "service/changes/change_set.h"
#include "service/changes/changes.h"
#include "service/state_input.h"

/* ---- create ---- */

/*
** With its state, which has been gathered for a view that becomes the object's. NULL when out
** of memory.
*/
static moonpad_session *make_session(moonpad_service *service, const moonpad_session_name *name,
                                     const mp_session_row *row, const mp_changed_keys *state) {
  moonpad_session *session = mp_session_new(service, name, row);
  if (session == NULL) return NULL;
  session->view = *state->view;
  mp_map_init(state->view, service->env);
  mp_view_apply(session, state, row);
  return session;
}

moonpad_status mp_session_make_stored(moonpad_service *service, const moonpad_session_name *name, mp_tx *tx,
                                      const mp_session_row *row, moonpad_session **session, moonpad_error *error) {
  mp_map view;
  mp_changed_keys state;
  mp_map_init(&view, service->env);
  mp_changed_keys_init(&state, service->env);
  state.view = &view;
  moonpad_session_free(*session);
  *session = NULL;
  mp_facts facts;
  mp_session_ref place = mp_session_ref_of_row(name, row);
  mp_look look = mp_look_at(&place, NULL, &state);
  moonpad_status status = mp_look_for_changed_keys(tx, &look, &state, &facts, error);
  if (status == MOONPAD_OK) *session = make_session(service, name, row, &state);
  if (status == MOONPAD_OK && *session == NULL) status = mp_no_memory(error);
  mp_changed_keys_free(&state);
  mp_view_free(&view, service->env);
  return status;
}

typedef struct creation {
  moonpad_service *service;
  moonpad_session_name name;
  mp_entries initial;
  double now;
  mp_session_row row;
  moonpad_session *session;
} creation;

/* The session's own keys are its base state, too. They come first. */
static moonpad_status write_initial(creation *create, mp_tx *tx, moonpad_error *error) {
  const mp_entries *initial = &create->initial;
  mp_session_row *row = &create->row;
  mp_batch batch = {.ref = mp_session_ref_of_row(&create->name, row), .row = row};
  for (size_t i = 0; i < initial->count; i++) batch.heads |= MP_HEAD(initial->items[i].scope);
  batch.heads &= MP_HEAD(MP_SCOPE_USER) | MP_HEAD(MP_SCOPE_APP);
  if ((batch.heads & MP_HEAD(MP_SCOPE_USER)) != 0) row->user_revision++;
  if ((batch.heads & MP_HEAD(MP_SCOPE_APP)) != 0) row->app_revision++;
  mp_state_row *writes = mp_allocate(create->service->env, initial->count * sizeof *writes);
  if (writes == NULL) return mp_no_memory(error);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    for (size_t i = 0; i < initial->count; i++) {
      if (initial->items[i].scope != (mp_scope)scope) continue;
      writes[batch.key_count] = mp_row_of(&initial->items[i]);
      writes[batch.key_count++].revision = mp_row_revision(row, (mp_scope)scope);
    }
    if (scope == MP_SCOPE_SESSION) batch.base_key_count = batch.key_count;
  }
  batch.keys = batch.base_keys = writes;
  moonpad_status status = batch.key_count == 0 ? MOONPAD_OK : tx->ops->apply(tx, &batch, error);
  mp_release(create->service->env, writes);
  return status;
}

static moonpad_status create_in(mp_tx *tx, void *context, moonpad_error *error) {
  creation *create = context;
  moonpad_status status = tx->ops->create_session(tx, &create->name, create->now, &create->row, error);
  if (status == MOONPAD_ALREADY_EXISTS) {
    return mp_fail(error, status, "%s exists already", mp_label(&create->name).text);
  }
  if (status == MOONPAD_OK) status = write_initial(create, tx, error);
  if (status != MOONPAD_OK) return status;
  return mp_session_make_stored(create->service, &create->name, tx, &create->row, &create->session, error);
}

moonpad_status moonpad_create_session(moonpad_service *service, const moonpad_session_name *given, moonpad_string state,
                                      moonpad_session **session, moonpad_error *error) {
  *session = NULL;
  creation create;
  memset(&create, 0, sizeof create);
  create.service = service;
  mp_entries_init(&create.initial, service->env);
  moonpad_status status = mp_check_session_name(given, true, &create.name, error);
  if (status == MOONPAD_OK) status = mp_read_state(service, state, &create.initial, error);
  if (status == MOONPAD_OK) {
    status = mp_check_state_size(service, mp_entries_bytes(&create.initial, MP_SCOPE_SESSION), error);
  }
  if (status == MOONPAD_OK) status = mp_now(service->env, &create.now, error);
  if (status != MOONPAD_OK) {
    mp_entries_free(&create.initial);
    return status;
  }
  char id[MP_UUID_BYTES];
  if (create.name.session_id.length == 0) {
    mp_uuid4(service->env, id);
    create.name.session_id.data = id;
    create.name.session_id.length = sizeof id;
  }
  status = service->store->ops->write(service->store, create_in, &create, error);
  if (status == MOONPAD_OK) {
    *session = create.session;
  } else {
    moonpad_session_free(create.session);
  }
  mp_entries_free(&create.initial);
  return status;
}

/* ---- get ---- */

/*
** So many events that are asked for by number are most likely about to be looked at: they come with
** the session, in one transaction.
*/
#define READ_ALONG 16

typedef struct reading {
  const moonpad_session_name *name;
  mp_env *env;
  int64_t recent; /* events to read along; 0: none */
  mp_page *page;  /* these */
  mp_session_row row;
  mp_map view;
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
  mp_session_ref place = {.name = *read->name};
  mp_look look = mp_look_at(&place, NULL, &read->state);
  look.each_state = add_state;
  look.each_event = add_event;
  look.context = read;
  look.recent = read->recent;
  if (read->page != NULL) mp_page_clear(read->page);
  moonpad_status status = mp_look_for_changed_keys(tx, &look, &read->state, &facts, error);
  read->row = facts.row;
  if (status != MOONPAD_NOT_FOUND) return status;
  return mp_fail(error, status, "%s does not exist", mp_label(read->name).text);
}

/* Events that cannot be read are for whoever looks at them to find out. */
static moonpad_status read_session(moonpad_service *service, reading *read, moonpad_error *error) {
  mp_store *store = service->store;
  if (read->recent > 0) read->page = mp_page_new(read->env, READ_ALONG);
  if (read->page == NULL) read->recent = 0;
  moonpad_status status = store->ops->read(store, read_in, read, error);
  bool is_answer =
      status == MOONPAD_OK || status == MOONPAD_NOT_FOUND || status == MOONPAD_BUSY || status == MOONPAD_CLOSED;
  if (is_answer || read->recent == 0) return status;
  mp_page_free(service->env, read->page);
  read->page = NULL;
  read->recent = 0;
  return store->ops->read(store, read_in, read, error);
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
  status = mp_check_session_name(given, false, &name, error);
  if (status != MOONPAD_OK) return status;
  reading read;
  memset(&read, 0, sizeof read);
  read.name = &name;
  read.env = service->env;
  bool few = options.num_recent_events > 0 && options.num_recent_events <= READ_ALONG;
  if (few && !options.has_after_timestamp) read.recent = options.num_recent_events;
  mp_map_init(&read.view, service->env);
  mp_changed_keys_init(&read.state, service->env);
  read.state.view = &read.view;
  status = read_session(service, &read, error);
  if (status == MOONPAD_OK) *session = make_session(service, &name, &read.row, &read.state);
  if (status == MOONPAD_OK && *session == NULL) status = mp_no_memory(error);
  if (status == MOONPAD_OK) {
    set_filter(*session, &options);
    (*session)->page = read.page;
  } else {
    mp_page_free(service->env, read.page);
  }
  mp_changed_keys_free(&read.state);
  mp_view_free(&read.view, service->env);
  return status;
}

/* ---- refresh ---- */

static moonpad_status refresh_in(mp_tx *tx, void *context, moonpad_error *error) {
  mp_refreshing *refresh = context;
  mp_facts facts;
  mp_look look = mp_look_at(&refresh->place, &refresh->held, &refresh->changes);
  moonpad_status status = mp_look_for_changed_keys(tx, &look, &refresh->changes, &facts, error);
  refresh->row = facts.row;
  if (status != MOONPAD_NOT_FOUND) return status;
  return mp_fail(error, status, "%s does not exist (or was deleted and created anew)",
                 mp_label(&refresh->place.name).text);
}

void mp_refresh_begin(mp_refreshing *refresh, const moonpad_session *session) {
  refresh->service = session->service;
  refresh->place = mp_session_ref_of(session);
  refresh->held = session->row;
  mp_changed_keys_init(&refresh->changes, session->env);
}

moonpad_status mp_refresh_read(mp_refreshing *refresh, moonpad_error *error) {
  mp_store *store = refresh->service->store;
  return store->ops->read(store, refresh_in, refresh, error);
}

bool mp_refresh_fits(const mp_refreshing *refresh, const moonpad_session *session) {
  const mp_session_row *held = &refresh->held, *now = &session->row;
  return session->jobs_in_flight == 0 && held->revision == now->revision && held->user_revision == now->user_revision &&
         held->app_revision == now->app_revision;
}

moonpad_status mp_refresh_apply(mp_refreshing *refresh, moonpad_session *session, moonpad_error *error) {
  if (!mp_view_reserve(session, &refresh->changes)) return mp_no_memory(error);
  mp_view_apply(session, &refresh->changes, &refresh->row);
  session->row = refresh->row;
  for (moonpad_changes *changes = session->sets; changes != NULL; changes = changes->next) mp_changes_rebase(changes);
  return MOONPAD_OK;
}

void mp_refresh_end(mp_refreshing *refresh) {
  mp_changed_keys_free(&refresh->changes);
}

moonpad_status moonpad_refresh(moonpad_session *session, moonpad_error *error) {
  mp_session_drain(session);
  mp_refreshing refresh;
  mp_refresh_begin(&refresh, session);
  moonpad_status status = mp_refresh_read(&refresh, error);
  if (status == MOONPAD_OK) status = mp_refresh_apply(&refresh, session, error);
  mp_refresh_end(&refresh);
  return status;
}

/* ---- delete ---- */

static moonpad_status delete_in(mp_tx *tx, void *context, moonpad_error *error) {
  mp_facts facts;
  mp_look look = {
      .ref = {.name = *(const moonpad_session_name *)context},
      .heads = MP_ALL_HEADS,
      .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS},
  };
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  if (status != MOONPAD_OK) return status;
  mp_session_ref place = mp_session_ref_of_row(&look.ref.name, &facts.row);
  return tx->ops->remove_session(tx, &place, error);
}

moonpad_status moonpad_delete_session(moonpad_service *service, const moonpad_session_name *given, bool *existed,
                                      moonpad_error *error) {
  moonpad_session_name name;
  if (existed != NULL) *existed = false;
  moonpad_status status = mp_check_session_name(given, false, &name, error);
  if (status != MOONPAD_OK) return status;
  status = service->store->ops->write(service->store, delete_in, &name, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  if (status == MOONPAD_OK && existed != NULL) *existed = true;
  return status;
}

typedef struct forgetting {
  mp_session_ref user;
  int64_t sessions;
} forgetting;

static moonpad_status forget_in(mp_tx *tx, void *context, moonpad_error *error) {
  forgetting *forget = context;
  return tx->ops->remove_user(tx, &forget->user, &forget->sessions, error);
}

moonpad_status moonpad_delete_user(moonpad_service *service, moonpad_string app_name, moonpad_string user_id,
                                   int64_t *sessions, moonpad_error *error) {
  forgetting forget = {.user.name = {.app_name = app_name, .user_id = user_id}};
  if (sessions != NULL) *sessions = 0;
  moonpad_status status = mp_check_name("appName", app_name, error);
  if (status == MOONPAD_OK) status = mp_check_name("userId", user_id, error);
  if (status != MOONPAD_OK) return status;
  status = service->store->ops->write(service->store, forget_in, &forget, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  if (status == MOONPAD_OK && sessions != NULL) *sessions = forget.sessions;
  return status;
}
