/* Listing sessions, ordered and paged (contract 2). */
#include "base/error.h"
#include "base/options.h"
#include "core/event.h"
#include "core/json.h"
#include "service/session.h"

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
  if (!read) return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "after: not a cursor that listSessions returned");
  query->has_after = true;
  query->after_user_id.data = names->data;
  query->after_user_id.length = user_length;
  query->after_session_id.data = names->data + user_length;
  query->after_session_id.length = names->length - user_length;
  return MOONPAD_OK;
}

/* ---- reading ---- */

typedef struct listing {
  moonpad_service *service;
  mp_list_query query;
  moonpad_session_list *list;
  bool more;
  int64_t limit;
} listing;

static void clear_list(moonpad_session_list *list) {
  for (size_t i = 0; i < list->count; i++) moonpad_session_free(list->sessions[i]);
  list->count = 0;
}

static moonpad_status list_one(void *context, const mp_listed_session *listed, moonpad_error *error) {
  listing *page = context;
  moonpad_session_list *list = page->list;
  if (page->limit > 0 && list->count == (size_t)page->limit) {
    page->more = true;
    return MOONPAD_OK;
  }
  if (!mp_reserve(list->env, (void **)&list->sessions, &list->capacity, sizeof *list->sessions, list->count + 1)) {
    return mp_no_memory(error);
  }
  moonpad_session_name name = {page->query.app_name, listed->user_id, listed->session_id};
  moonpad_session *session = mp_session_new(page->service, &name, &listed->row);
  if (session == NULL) return mp_no_memory(error);
  session->first_event = session->row.revision + 1; /* listed sessions show no events */
  list->sessions[list->count++] = session;
  return MOONPAD_OK;
}

static bool same_text(const mp_key *a, const mp_key *b) {
  return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

/* App and user state are gathered once per app and user, session state once per session. */
static moonpad_status load_states(listing *page, mp_tx *tx, moonpad_error *error) {
  mp_env *env = page->list->env;
  mp_gathering app, user, own;
  mp_gathering_init(&app, env);
  mp_gathering_init(&user, env);
  mp_gathering_init(&own, env);
  moonpad_status status = MOONPAD_OK;
  const moonpad_session *before = NULL;
  for (size_t i = 0; status == MOONPAD_OK && i < page->list->count; i++) {
    moonpad_session *session = page->list->sessions[i];
    if (before == NULL) status = mp_gather(&app, tx, MP_SCOPE_APP, session->row.app, -1, error);
    if (status == MOONPAD_OK && (before == NULL || !same_text(before->user_id, session->user_id))) {
      mp_gathering_clear(&user);
      status = mp_gather(&user, tx, MP_SCOPE_USER, session->row.user, -1, error);
    }
    mp_gathering_clear(&own);
    if (status == MOONPAD_OK) status = mp_gather(&own, tx, MP_SCOPE_SESSION, session->row.id, -1, error);
    if (status != MOONPAD_OK) break;
    if (!mp_view_reserve(session, &app) || !mp_view_reserve(session, &user) || !mp_view_reserve(session, &own)) {
      status = mp_no_memory(error);
      break;
    }
    mp_view_apply(session, &app);
    mp_view_apply(session, &user);
    mp_view_apply(session, &own);
    before = session;
  }
  mp_gathering_free(&app);
  mp_gathering_free(&user);
  mp_gathering_free(&own);
  return status;
}

static moonpad_status list_in(mp_tx *tx, void *context, moonpad_error *error) {
  listing *page = context;
  clear_list(page->list);
  page->more = false;
  moonpad_status status = tx->ops->each_session(tx, &page->query, list_one, page, error);
  return status == MOONPAD_OK ? load_states(page, tx, error) : status;
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
  /* One more tells whether there is another page. There are never so many that the largest limit needs that. */
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
  if (status == MOONPAD_OK) {
    page.list = mp_allocate_zeroed(service->env, sizeof *page.list);
    if (page.list == NULL) status = mp_no_memory(error);
  }
  if (status == MOONPAD_OK) {
    page.list->env = mp_env_retain(service->env);
    mp_buffer_init(&page.list->cursor, service->env);
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
