/* Writing down what a store holds, as text that can be compared. Memory comes from malloc. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_support.h"

void dump_free(store_dump *dump) {
  free(dump->text);
  memset(dump, 0, sizeof *dump);
}

static void dump_room(store_dump *dump, size_t more) {
  if (dump->capacity - dump->length > more) return;
  dump->capacity = (dump->length + more + 1) * 2;
  dump->text = realloc(dump->text, dump->capacity);
  if (dump->text == NULL) abort();
}

void dump_print(store_dump *dump, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  dump_room(dump, (size_t)length);
  va_start(arguments, format);
  vsnprintf(dump->text + dump->length, (size_t)length + 1, format, arguments);
  va_end(arguments);
  dump->length += (size_t)length;
}

void dump_bytes(store_dump *dump, moonpad_string bytes) {
  for (size_t i = 0; i < bytes.length; i++) {
    unsigned char byte = (unsigned char)bytes.data[i];
    dump_print(dump, byte > 0x20 && byte < 0x7f && byte != '\\' ? "%c" : "\\x%02x", byte);
  }
}

static void dump_value(store_dump *dump, const mp_value *value) {
  if (value == NULL) {
    dump_print(dump, "removed");
    return;
  }
  switch (value->as.type) {
  case MOONPAD_ABSENT:
    dump_print(dump, "absent");
    break;
  case MOONPAD_NULL:
    dump_print(dump, "null");
    break;
  case MOONPAD_BOOLEAN:
    dump_print(dump, value->as.as.boolean ? "true" : "false");
    break;
  case MOONPAD_INTEGER:
    dump_print(dump, "%" PRId64, value->as.as.integer);
    break;
  case MOONPAD_FLOAT:
    dump_print(dump, "%a", value->as.as.number);
    break;
  case MOONPAD_STRING:
    dump_print(dump, "'");
    dump_bytes(dump, value->as.as.text);
    dump_print(dump, "'");
    break;
  case MOONPAD_ARRAY:
  case MOONPAD_OBJECT:
    dump_print(dump, value->as.type == MOONPAD_ARRAY ? "array" : "object");
    dump_bytes(dump, value->as.as.text);
    break;
  }
}

static moonpad_status dump_key_row(void *context, const mp_state_row *row, moonpad_error *error) {
  (void)error;
  store_dump *dump = context;
  dump_bytes(dump, row->key);
  dump_print(dump, "=");
  dump_value(dump, row->value);
  dump_print(dump, "@%" PRId64 "\n", row->revision);
  return MOONPAD_OK;
}

static int compare_lines(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void dump_sorted(store_dump *to, store_dump *unsorted) {
  size_t count = 0;
  char **lines = NULL;
  for (char *line = unsorted->text; line != NULL && *line != '\0';) {
    char *end = strchr(line, '\n');
    *end = '\0';
    lines = realloc(lines, (count + 1) * sizeof *lines);
    if (lines == NULL) abort();
    lines[count++] = line;
    line = end + 1;
  }
  if (count != 0) qsort(lines, count, sizeof *lines, compare_lines);
  for (size_t i = 0; i < count; i++) dump_print(to, "%s\n", lines[i]);
  free(lines);
  dump_free(unsorted);
}

moonpad_status dump_state(void *context, const mp_state_row *row, moonpad_error *error) {
  static const char *const scopes[] = {"session", "user", "app"};
  dump_print(context, "%s ", row->scope < MP_STORED_SCOPES ? scopes[row->scope] : "?");
  return dump_key_row(context, row, error);
}

/* Of a walk over one scope alone. */
typedef struct key_walk {
  store_dump unsorted;
  mp_scope scope;
} key_walk;

static moonpad_status dump_walked_key(void *context, const mp_state_row *row, moonpad_error *error) {
  key_walk *walk = context;
  CHECK(row->scope == walk->scope);
  return dump_key_row(&walk->unsorted, row, error);
}

moonpad_status dump_keys(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t since, store_dump *to,
                         moonpad_error *error) {
  mp_facts facts;
  key_walk walk = {{NULL, 0, 0}, scope};
  mp_look look = look_at(ref, scope);
  look.since[scope] = since;
  look.each_state = dump_walked_key;
  look.context = &walk;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  dump_sorted(to, &walk.unsorted);
  return status;
}

/* A row of the base state has no revision of its own. */
static moonpad_status dump_base_row(void *context, const mp_state_row *row, moonpad_error *error) {
  mp_state_row without_revision = {row->scope, row->key, row->value, 0};
  CHECK(row->scope == MP_SCOPE_SESSION);
  return dump_key_row(context, &without_revision, error);
}

moonpad_status dump_base_keys(mp_tx *tx, const mp_session_ref *ref, store_dump *to, moonpad_error *error) {
  store_dump unsorted = {NULL, 0, 0};
  moonpad_status status = tx->ops->each_base_key(tx, ref, dump_base_row, &unsorted, error);
  dump_sorted(to, &unsorted);
  return status;
}

moonpad_status dump_event(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  store_dump *dump = context;
  dump_print(dump, "%" PRId64 " ", row->revision);
  dump_bytes(dump, row->id);
  dump_print(dump, " %a %" PRIu64 " ", row->timestamp, row->digest);
  dump_bytes(dump, row->json.data == NULL ? moonpad_text("-") : row->json);
  dump_print(dump, "\n");
  return MOONPAD_OK;
}

moonpad_status dump_events(mp_tx *tx, const mp_session_ref *ref, int64_t first, int64_t last, store_dump *dump,
                           moonpad_error *error) {
  return walk_events(tx, ref, first, last, dump_event, dump, error);
}

moonpad_status dump_query(mp_tx *tx, const mp_session_ref *ref, const mp_event_query *query, store_dump *dump,
                          moonpad_error *error) {
  return tx->ops->each_event(tx, ref, query, dump_event, dump, error);
}

/* ---- everything ---- */

const char *const dumped_apps[3] = {"shop", "shop2", "game"};
const char *const dumped_users[4] = {"ann", "bob", "an", "cy"};

#define MAX_LISTED 64

typedef struct listed_rows {
  struct {
    mp_session_row row;
    char user_id[32];
    char session_id[32];
  } rows[MAX_LISTED];
  size_t count;
  store_dump *names; /* one line each, with what else the listing said */
} listed_rows;

static moonpad_status collect_row(void *context, const mp_listed_session *session, moonpad_error *error) {
  listed_rows *listed = context;
  CHECK(listed->count < MAX_LISTED && session->user_id.length < 32 && session->session_id.length < 32);
  size_t number = listed->count++;
  listed->rows[number].row = session->row;
  snprintf(listed->rows[number].user_id, 32, "%.*s", (int)session->user_id.length, session->user_id.data);
  snprintf(listed->rows[number].session_id, 32, "%.*s", (int)session->session_id.length, session->session_id.data);
  dump_print(listed->names, "%s/%s %g\n", listed->rows[number].user_id, listed->rows[number].session_id,
             session->row.last_update_time);
  return MOONPAD_OK;
}

static void dump_row(store_dump *dump, const mp_session_row *row, bool ids) {
  if (ids) dump_print(dump, "  id %" PRId64 " of %" PRId64 ", %" PRId64 "\n", row->id, row->user, row->app);
  dump_print(dump, "  revision %" PRId64 " base %" PRId64 " user %" PRId64 " app %" PRId64, row->revision,
             row->base_revision, row->user_revision, row->app_revision);
  dump_print(dump, " count %" PRId64 " created %a updated %a\n", row->conversation_count, row->create_time,
             row->last_update_time);
}

static moonpad_status dump_scope(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, const mp_facts *facts,
                                 store_dump *dump, moonpad_error *error) {
  dump_print(dump, "  forgotten %" PRId64 " touched %a\n", facts->forgotten[scope], facts->touched[scope]);
  dump_print(dump, "  keys\n");
  TRY(dump_keys(tx, ref, scope, MP_EVERY_KEY, dump, error));
  for (int64_t since = 0; since < 8; since += since < 2 ? 1 : 3) {
    dump_print(dump, "  rows since %" PRId64 "\n", since);
    TRY(dump_keys(tx, ref, scope, since, dump, error));
  }
  return MOONPAD_OK;
}

static moonpad_status dump_app_sessions(mp_tx *tx, const char *app, bool ids, store_dump *dump, moonpad_error *error) {
  listed_rows listed;
  mp_list_query query = {.app_name = moonpad_text(app)};
  mp_listing listing = {collect_row, NULL, &listed};
  listed.count = 0;
  listed.names = dump;
  TRY(tx->ops->each_listed(tx, &query, &listing, error));
  for (size_t i = 0; i < listed.count; i++) {
    mp_facts facts;
    mp_session_ref ref = ref_named(app, listed.rows[i].user_id, listed.rows[i].session_id);
    mp_look look = look_at(&ref, MP_SCOPE_SESSION);
    ref.session = look.ref.session = listed.rows[i].row.id;
    TRY(tx->ops->look(tx, &look, &facts, error));
    dump_print(dump, " session %zu\n", i);
    dump_row(dump, &listed.rows[i].row, ids);
    dump_row(dump, &facts.row, ids);
    TRY(dump_scope(tx, &ref, MP_SCOPE_SESSION, &facts, dump, error));
    dump_print(dump, "  base\n");
    TRY(dump_base_keys(tx, &ref, dump, error));
    dump_print(dump, "  events\n");
    TRY(dump_events(tx, &ref, INT64_MIN, INT64_MAX, dump, error));
  }
  return MOONPAD_OK;
}

static moonpad_status dump_shared(mp_tx *tx, const char *app, const char *user, bool ids, store_dump *dump,
                                  moonpad_error *error) {
  mp_facts facts;
  mp_scope scope = user == NULL ? MP_SCOPE_APP : MP_SCOPE_USER;
  mp_session_ref ref = ref_named(app, user, NULL);
  mp_look look = look_at(&ref, scope);
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  TRY(status);
  int64_t revision = user == NULL ? facts.row.app_revision : facts.row.user_revision;
  dump_print(dump, " %s/%s revision %" PRId64 "\n", app, user == NULL ? "" : user, revision);
  if (ids) dump_print(dump, "  id %" PRId64 "\n", user == NULL ? facts.row.app : facts.row.user);
  return dump_scope(tx, &ref, scope, &facts, dump, error);
}

moonpad_status dump_all(mp_tx *tx, bool ids, store_dump *dump, moonpad_error *error) {
  for (size_t app = 0; app < sizeof dumped_apps / sizeof *dumped_apps; app++) {
    dump_print(dump, "%s\n", dumped_apps[app]);
    TRY(dump_shared(tx, dumped_apps[app], NULL, ids, dump, error));
    for (size_t user = 0; user < sizeof dumped_users / sizeof *dumped_users; user++) {
      TRY(dump_shared(tx, dumped_apps[app], dumped_users[user], ids, dump, error));
    }
    TRY(dump_app_sessions(tx, dumped_apps[app], ids, dump, error));
  }
  return MOONPAD_OK;
}

typedef struct dump_request {
  bool ids;
  store_dump *dump;
} dump_request;

static moonpad_status dump_in_read(mp_tx *tx, void *context, moonpad_error *error) {
  dump_request *request = context;
  dump_free(request->dump);
  return dump_all(tx, request->ids, request->dump, error);
}

void dump_store(opened_store *opened, bool ids, store_dump *dump) {
  dump_request request = {ids, dump};
  read_ok(opened, dump_in_read, &request);
}
