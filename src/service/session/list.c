/* Listing sessions, ordered and paged (contract 2). */
#include "base/error.h"
#include "base/options.h"
#include "core/event_draft.h"
#include "core/json_reader.h"
#include "core/json_write.h"
#include "service/names.h"
#include "service/session/session.h"

struct moonpad_session_list {
  mp_env *env;
  moonpad_session **sessions;
  size_t count;
  size_t capacity;
  mp_buffer cursor;
};

void moonpad_session_list_free(moonpad_session_list *list) {
  if (list == NULL) return;
  for (size_t i = 0; i < list->count; i++) moonpad_session_free(list->sessions[i]);
  mp_env *env = list->env;
  mp_release(env, list->sessions);
  mp_buffer_free(&list->cursor);
  mp_release(env, list);
  mp_env_release(env);
}

size_t moonpad_session_list_count(const moonpad_session_list *list) {
  return list->count;
}

moonpad_session *moonpad_session_list_at(const moonpad_session_list *list, size_t index) {
  return index < list->count ? list->sessions[index] : NULL;
}

moonpad_session *moonpad_session_list_take(moonpad_session_list *list, size_t index) {
  if (index >= list->count) return NULL;
  moonpad_session *session = list->sessions[index];
  list->sessions[index] = NULL;
  return session;
}

moonpad_string moonpad_session_list_cursor(const moonpad_session_list *list) {
  return mp_buffer_text(&list->cursor);
}

/* ---- the cursor: [last update, user id, session id] of the last session of a page ---- */

static void write_cursor(mp_buffer *out, const moonpad_session *session) {
  mp_buffer_add_char(out, '[');
  mp_json_write_float(out, session->row.last_update_time);
  mp_buffer_add_char(out, ',');
  mp_json_write_string(out, mp_key_text(session->user_id));
  mp_buffer_add_char(out, ',');
  mp_json_write_string(out, mp_key_text(session->id));
  mp_buffer_add_char(out, ']');
}

/* `names` keeps the characters of the two names. */
static moonpad_status read_cursor(mp_env *env, moonpad_string cursor, mp_list_query *query, mp_buffer *names,
                                  moonpad_error *error) {
  mp_json_reader reader;
  mp_json_reader_init(&reader, env, cursor, 1);
  bool read = mp_json_next(&reader) == MP_JSON_ARRAY_BEGIN && mp_json_next(&reader) == MP_JSON_FLOAT;
  query->after_time = reader.number;
  size_t user_length = 0;
  if (read && (read = mp_json_next(&reader) == MP_JSON_STRING)) {
    mp_buffer_add_string(names, reader.string);
    user_length = reader.string.length;
  }
  if (read && (read = mp_json_next(&reader) == MP_JSON_STRING)) mp_buffer_add_string(names, reader.string);
  read = read && mp_json_next(&reader) == MP_JSON_ARRAY_END && mp_json_next(&reader) == MP_JSON_END;
  bool starved = names->failed || reader.scratch.failed;
  mp_json_reader_free(&reader);
  if (starved) return mp_no_memory(error);
  /* No name has a NUL, and not every store can look for one. */
  if (!read || (names->length > 0 && memchr(names->data, '\0', names->length) != NULL))
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "after: not a cursor that listSessions returned");
  query->has_after = true;
  query->after_user_id.data = names->data;
  query->after_user_id.length = user_length;
  query->after_session_id.data = names->length == 0 ? NULL : names->data + user_length;
  query->after_session_id.length = names->length - user_length;
  return MOONPAD_OK;
}

/* ---- reading ---- */

/* A user whose sessions are listed, and what all of them show. */
typedef struct listed_user {
  int64_t id;
  mp_changed_keys state;
} listed_user;

typedef struct listing {
  moonpad_service *service;
  /* When it is listed: the state of a user or an app that has expired is not shown. */
  double now;
  mp_list_query query;
  moonpad_session_list *list;
  /* There is another page. */
  bool more;
  /* Sessions of a page; 0: all. */
  int64_t limit;
  /* The state of the app. */
  mp_changed_keys app;
  /* The own state of the session listed last. */
  mp_changed_keys own;
  /* The user whose state is coming, before its first session; NULL: none. */
  listed_user *next;
  /* The user of the session listed last. */
  listed_user *last;
  /* user id -> listed_user */
  mp_map users;
} listing;

static void clear_list(moonpad_session_list *list) {
  for (size_t i = 0; i < list->count; i++) moonpad_session_free(list->sessions[i]);
  list->count = 0;
}

/*
** States come in this order: the app's, a user's before the first of its sessions, a session's own
** after the session.
*/

static listed_user *next_user(listing *page) {
  if (page->next != NULL) return page->next;
  page->next = mp_allocate_zeroed(page->list->env, sizeof *page->next);
  if (page->next != NULL) mp_changed_keys_init(&page->next->state, page->list->env);
  return page->next;
}

static moonpad_status list_state(void *context, const mp_state_row *row, moonpad_error *error) {
  listing *page = context;
  if (page->more) return MOONPAD_OK;
  if (row->scope == MP_SCOPE_APP) return mp_changed_keys_add_row(&page->app, row, error);
  if (row->scope == MP_SCOPE_SESSION) return mp_changed_keys_add_row(&page->own, row, error);
  listed_user *user = next_user(page);
  return user == NULL ? mp_no_memory(error) : mp_changed_keys_add_row(&user->state, row, error);
}

static moonpad_status show(moonpad_session *session, const mp_changed_keys *state, moonpad_error *error) {
  if (!mp_changed_keys_reserve(state, &session->view)) return mp_no_memory(error);
  mp_changed_keys_apply(state, &session->view, &session->row);
  return MOONPAD_OK;
}

static bool has_expired(const listing *page, const mp_listed_session *listed, mp_scope scope) {
  return mp_has_expired(listed->touched[scope], page->now, mp_time_to_live(page->service, scope));
}

/* What has come of a user's state before its first session, or with an earlier one. */
static moonpad_status find_user(listing *page, const mp_listed_session *listed, moonpad_error *error) {
  if (page->last != NULL && page->last->id == listed->row.user) return MOONPAD_OK;
  page->last = mp_map_get(&page->users, listed->user_id);
  if (page->last != NULL) return MOONPAD_OK;
  mp_env *env = page->list->env;
  mp_key *key = mp_key_new(env, listed->user_id);
  listed_user *user = next_user(page);
  bool is_added = key != NULL && user != NULL && mp_map_put(&page->users, key, user);
  mp_key_release(env, key);
  if (!is_added) return mp_no_memory(error);
  user->id = listed->row.user;
  if (has_expired(page, listed, MP_SCOPE_USER)) mp_changed_keys_clear(&user->state);
  page->last = user;
  page->next = NULL;
  return MOONPAD_OK;
}

/* The session listed last has all of its state now. */
static moonpad_status finish_last(listing *page, moonpad_error *error) {
  const moonpad_session_list *list = page->list;
  moonpad_status status = MOONPAD_OK;
  if (list->count > 0) status = show(list->sessions[list->count - 1], &page->own, error);
  mp_changed_keys_clear(&page->own);
  return status;
}

static moonpad_status list_one(void *context, const mp_listed_session *listed, moonpad_error *error) {
  listing *page = context;
  moonpad_session_list *list = page->list;
  moonpad_status status = finish_last(page, error);
  if (status != MOONPAD_OK) return status;
  if (page->limit > 0 && list->count == (size_t)page->limit) {
    page->more = true;
    return MP_STOP;
  }
  if (!mp_reserve(list->env, (void **)&list->sessions, &list->capacity, sizeof *list->sessions, list->count + 1)) {
    return mp_no_memory(error);
  }
  moonpad_session_name name = {page->query.app_name, listed->user_id, listed->session_id};
  moonpad_session *session = mp_session_new(page->service, &name, &listed->row);
  if (session == NULL) return mp_no_memory(error);
  /* Listed sessions show no events. */
  session->first_event = session->row.revision + 1;
  list->sessions[list->count++] = session;
  if (has_expired(page, listed, MP_SCOPE_APP)) mp_changed_keys_clear(&page->app);
  status = find_user(page, listed, error);
  if (status == MOONPAD_OK) status = show(session, &page->app, error);
  return status == MOONPAD_OK ? show(session, &page->last->state, error) : status;
}

static void free_user(mp_env *env, listed_user *user) {
  if (user != NULL) mp_changed_keys_free(&user->state);
  mp_release(env, user);
}

static void forget_states(listing *page) {
  mp_env *env = page->list->env;
  mp_changed_keys_free(&page->app);
  mp_changed_keys_free(&page->own);
  free_user(env, page->next);
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&page->users, &position)) != NULL;) free_user(env, slot->value);
  mp_map_free(&page->users);
  mp_map_init(&page->users, env);
  page->next = page->last = NULL;
}

static moonpad_status list_in(mp_tx *tx, void *context, moonpad_error *error) {
  listing *page = context;
  mp_listing callbacks = {list_one, list_state, page};
  clear_list(page->list);
  page->more = false;
  moonpad_status status = tx->ops->each_listed(tx, &page->query, &callbacks, error);
  if (status == MOONPAD_OK && !page->more) status = finish_last(page, error);
  forget_states(page);
  return status;
}

static moonpad_status check_query(listing *page, const moonpad_list_options *options, mp_buffer *names,
                                  moonpad_error *error) {
  moonpad_status status = mp_check_name("appName", page->query.app_name, error);
  if (status == MOONPAD_OK && options->has_user_id) status = mp_check_name("userId", options->user_id, error);
  if (status == MOONPAD_OK && options->limit < 0) {
    status = mp_fail(error, MOONPAD_INVALID_ARGUMENT, "limit: must not be negative");
  }
  if (status != MOONPAD_OK) return status;
  page->query.has_user_id = options->has_user_id;
  page->query.user_id = options->user_id;
  page->query.newest_first = options->newest_first;
  page->limit = options->limit;
  /*
  ** One more tells whether there is another page. There are never so many that the largest limit
  ** needs that.
  */
  page->query.limit = options->limit > 0 && options->limit < INT64_MAX ? options->limit + 1 : options->limit;
  if (options->after.length == 0) return MOONPAD_OK;
  return read_cursor(page->service->env, options->after, &page->query, names, error);
}

moonpad_status moonpad_list_sessions(moonpad_service *service, moonpad_string app_name,
                                     const moonpad_list_options *given, moonpad_session_list **result,
                                     moonpad_error *error) {
  *result = NULL;
  moonpad_list_options options;
  moonpad_list_options_init(&options);
  moonpad_status status = mp_take_options("moonpad_list_options", MP_SIZE_UP_TO(moonpad_list_options, after), given,
                                          &options, sizeof options, error);
  if (status != MOONPAD_OK) return status;
  listing page;
  memset(&page, 0, sizeof page);
  page.service = service;
  page.query.app_name = app_name;
  mp_buffer names;
  mp_buffer_init(&names, service->env);
  status = check_query(&page, &options, &names, error);
  if (status == MOONPAD_OK) status = mp_expiry_threshold(service, &page.query.touched_since, error);
  bool hides_state = mp_time_to_live(service, MP_SCOPE_USER) > 0 || mp_time_to_live(service, MP_SCOPE_APP) > 0;
  if (status == MOONPAD_OK && hides_state) status = mp_now(service->env, &page.now, error);
  if (status == MOONPAD_OK) {
    page.list = mp_allocate_zeroed(service->env, sizeof *page.list);
    if (page.list == NULL) status = mp_no_memory(error);
  }
  if (status == MOONPAD_OK) {
    page.list->env = mp_env_retain(service->env);
    mp_buffer_init(&page.list->cursor, service->env);
    mp_changed_keys_init(&page.app, service->env);
    mp_changed_keys_init(&page.own, service->env);
    mp_map_init(&page.users, service->env);
    status = service->store->ops->read(service->store, list_in, &page, error);
  }
  if (status == MOONPAD_OK && page.more) {
    write_cursor(&page.list->cursor, page.list->sessions[page.list->count - 1]);
    if (page.list->cursor.failed) status = mp_no_memory(error);
  }
  mp_buffer_free(&names);
  if (status != MOONPAD_OK) {
    moonpad_session_list_free(page.list);
    return status;
  }
  *result = page.list;
  return MOONPAD_OK;
}

/* ---- apps and users ---- */

typedef struct name_list {
  const moonpad_string *app_name; /* of users; NULL: the names of apps */
  mp_buffer *names;
} name_list;

static moonpad_status add_name(void *context, moonpad_string name, moonpad_error *error) {
  mp_buffer *names = context;
  mp_buffer_add_string(names, name);
  mp_buffer_add_char(names, '\0');
  return names->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status list_names_in(mp_tx *tx, void *context, moonpad_error *error) {
  const name_list *list = context;
  list->names->length = 0;
  if (list->app_name == NULL && MP_HAS(mp_tx_ops, tx->ops, each_app)) {
    return tx->ops->each_app(tx, add_name, list->names, error);
  }
  if (list->app_name != NULL && MP_HAS(mp_tx_ops, tx->ops, each_user)) {
    return tx->ops->each_user(tx, *list->app_name, add_name, list->names, error);
  }
  return mp_fail(error, MOONPAD_UNSUPPORTED, "this store does not tell which apps and users it has");
}

static moonpad_status list_names(moonpad_service *service, name_list *list, moonpad_error *error) {
  moonpad_status status = mp_check_open(service, error);
  return status == MOONPAD_OK ? service->store->ops->read(service->store, list_names_in, list, error) : status;
}

moonpad_status mp_list_apps(moonpad_service *service, mp_buffer *names, moonpad_error *error) {
  name_list list = {NULL, names};
  return list_names(service, &list, error);
}

moonpad_status mp_list_users(moonpad_service *service, moonpad_string app_name, mp_buffer *names,
                             moonpad_error *error) {
  name_list list = {&app_name, names};
  return list_names(service, &list, error);
}
