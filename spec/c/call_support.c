/* See call_support.h. */
#include "call_support.h"
#include "call_parts.h"
#include "slow_store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define T(text) moonpad_text(text)

const moonpad_session_name *call_name(const char *session_id) {
  static moonpad_session_name name;
  name.app_name = T("app");
  name.user_id = T("u");
  name.session_id = T(session_id);
  return &name;
}

/* ---- What the host injects: the same in each run ---- */

static double fixed_clock(void *context) {
  return ((call_scene *)context)->now;
}

static void counted_bytes(void *context, unsigned char bytes[16]) {
  call_scene *scene = context;
  scene->random_seed++;
  for (int i = 0; i < 16; i++) bytes[i] = (unsigned char)(scene->random_seed * 31u + (unsigned)i * 7u);
}

/* ---- The scene ---- */

static void ok(moonpad_status status, const moonpad_error *error, const char *what) {
  if (status != MOONPAD_OK) fail_msg("%s: %s: %s", what, moonpad_status_name(status), error->message);
}

bool call_keep_line(void *context, moonpad_string line) {
  return fwrite(line.data, 1, line.length, context) == line.length;
}

static const char created[] =
    "{\"cart\":[{\"n\":1,\"tags\":[\"a\"]},{\"n\":2}],\"prefs\":{\"theme\":\"dark\",\"size\":2.5},"
    "\"n\":1,\"gone\":true,\"topic\":\"a \\\"topic\\\"\",\"user:name\":\"Ann\",\"user:n\":5,"
    "\"app:motd\":\"hello\",\"temp:x\":1}";

const char *const call_history[CALL_HISTORY] = {
    "{\"author\":\"user\",\"invocationId\":\"i1\",\"id\":\"h1\",\"timestamp\":1000,"
    "\"content\":{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}}",
    "{\"author\":\"a\",\"invocationId\":\"i1\",\"id\":\"h2\",\"timestamp\":1001,"
    "\"actions\":{\"stateDelta\":{\"n\":2,\"late\":{\"a\":[1]},\"user:seen\":[1]}}}",
    "{\"author\":\"a\",\"invocationId\":\"i2\",\"id\":\"h3\",\"timestamp\":1002,"
    "\"actions\":{\"stateDelta\":{\"n\":3,\"gone\":null}},\"removedStateKeys\":[\"gone\"]}",
};

/* Of another user. */
static void create_elsewhere(call_scene *scene, moonpad_error *error) {
  moonpad_session_name name = *call_name("elsewhere");
  moonpad_session *made;
  name.user_id = T("v");
  ok(moonpad_create_session(scene->service, &name, T("{\"k\":1,\"user:k\":2}"), &made, error), error, "create");
  moonpad_session_free(made);
}

static void export_another(call_scene *scene, moonpad_error *error) {
  moonpad_session *another;
  ok(moonpad_create_session(scene->service, call_name("another"), T("{\"k\":[1,{\"x\":null}]}"), &another, error),
     error, "create");
  for (size_t i = 0; i < 2; i++) ok(moonpad_append_event(another, T(call_history[i]), NULL, error), error, "append");
  FILE *text = open_memstream(&scene->exported.data, &scene->exported.length);
  ok(moonpad_export_session(another, call_keep_line, text, error), error, "export");
  fclose(text);
  moonpad_session_free(another);
}

/* Somebody else changes the session and its user. */
static void change_behind_its_back(call_scene *scene, moonpad_error *error) {
  moonpad_session *other;
  ok(moonpad_get_session(scene->service, call_name("s"), NULL, &other, error), error, "get");
  ok(moonpad_append_event(other,
                          T("{\"author\":\"b\",\"id\":\"o1\",\"timestamp\":1003,\"invocationId\":\"i3\","
                            "\"actions\":{\"stateDelta\":{\"other\":[1,2],\"user:other\":\"x\",\"app:other\":{}}}}"),
                          NULL, error),
     error, "append");
  moonpad_session_free(other);
}

static moonpad_status set(moonpad_changes *changes, const char *key, const char *path, const char *json,
                          moonpad_error *error) {
  moonpad_value value = moonpad_json(T(json));
  return moonpad_changes_set(changes, T(key), T(path), &value, error);
}

moonpad_status call_try_pending(call_scene *scene, moonpad_error *error) {
  moonpad_changes *changes = scene->changes;
  moonpad_value two = moonpad_integer(2), item = moonpad_json(T("{\"item\":1}"));
  moonpad_status status = set(changes, "cart", "[2].n", "[7]", error);
  if (status == MOONPAD_OK) status = set(changes, "new", "", "{\"deep\":{\"er\":[true]}}", error);
  if (status == MOONPAD_OK) status = moonpad_changes_remove(changes, T("topic"), T(""), error);
  if (status == MOONPAD_OK) status = moonpad_changes_increment(changes, T("user:n"), &two, error);
  if (status == MOONPAD_OK) status = moonpad_changes_append(changes, T("log"), &item, error);
  return status == MOONPAD_OK ? set(changes, "temp:t", "", "[1]", error) : status;
}

static void write_pending(call_scene *scene, moonpad_error *error) {
  moonpad_changes *object_itself;
  ok(moonpad_session_changes(scene->session, &object_itself, error), error, "changes");
  ok(set(object_itself, "mine", "", "{\"a\":1}", error), error, "set");
  ok(moonpad_changes_begin(scene->session, &scene->changes, error), error, "begin");
  ok(call_try_pending(scene, error), error, "pending writes");
}

call_setting call_with_plans(void) {
  call_setting setting = {"slow:0:memory:", "", "", MOONPAD_DURABILITY_NORMAL, NULL, false};
  return setting;
}

call_setting call_in_memory(void) {
  call_setting setting = {"memory:", "", "", MOONPAD_DURABILITY_NORMAL, NULL, false};
  return setting;
}

call_setting call_in_file(const char *path) {
  call_setting setting = {"", "", "", MOONPAD_DURABILITY_NORMAL, NULL, false};
  snprintf(setting.path, sizeof setting.path, "%s", path);
  snprintf(setting.url, sizeof setting.url, "sqlite:%s", path);
  snprintf(setting.copy, sizeof setting.copy, "%s-copy", path);
  return setting;
}

call_setting call_keeping_house(call_setting setting) {
  setting.keeps_house = true;
  return setting;
}

#define LIVES 100.0 /* seconds */

static void keep_house(moonpad_options *options) {
  options->user_ttl_seconds = options->app_ttl_seconds = LIVES;
  options->max_events = 3;
  options->max_sessions_per_user = 2;
  options->on_max_sessions = MOONPAD_ON_MAX_SESSIONS_DELETE_OLDEST;
}

void call_scene_make(call_scene *scene, const call_setting *setting) {
  static const moonpad_store_scheme stores[] = {{"slow", &slow_store_opener}};
  moonpad_error error = {MOONPAD_OK, ""};
  memset(scene, 0, sizeof *scene);
  scene->setting = setting;
  moonpad_options_init(&scene->options);
  scene->options.durability = setting->durability;
  scene->options.busy_timeout_ms = 5;
  scene->options.allocator = setting->allocator;
  scene->now = 2000.5;
  scene->options.clock = fixed_clock;
  scene->options.clock_context = scene;
  scene->options.random = counted_bytes;
  scene->options.random_context = scene;
  scene->options.stores = stores;
  scene->options.store_count = 1;
  if (setting->keeps_house) keep_house(&scene->options);
  ok(moonpad_open(T(setting->url), &scene->options, &scene->service, &error), &error, setting->url);
  export_another(scene, &error);
  create_elsewhere(scene, &error);
  ok(moonpad_create_session(scene->service, call_name("s"), T(created), &scene->session, &error), &error, "create");
  for (size_t i = 0; i < CALL_HISTORY; i++)
    ok(moonpad_append_event(scene->session, T(call_history[i]), NULL, &error), &error, "append");
  change_behind_its_back(scene, &error);
  write_pending(scene, &error);
  if (setting->keeps_house) scene->now += LIVES + 1;
}

void call_scene_close(call_scene *scene) {
  moonpad_changes_free(scene->changes);
  moonpad_session_free(scene->session);
  moonpad_service_release(scene->service);
  free(scene->exported.data);
  free(scene->answer.data);
  memset(scene, 0, sizeof *scene);
}

void call_scene_free(call_scene *scene) {
  static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", "-copy"};
  const call_setting *setting = scene->setting;
  call_scene_close(scene);
  for (size_t i = 0; setting->path[0] != '\0' && i < sizeof suffixes / sizeof *suffixes; i++) {
    char name[160];
    snprintf(name, sizeof name, "%s%s", setting->path, suffixes[i]);
    remove(name);
  }
}

/* ---- Writing down what there is ---- */

void call_print_string(FILE *to, moonpad_string text) {
  fwrite(text.data, 1, text.length, to);
}

void call_print_value(FILE *to, const moonpad_value *value) {
  switch (value->type) {
  case MOONPAD_ABSENT:
    fputs("absent", to);
    break;
  case MOONPAD_NULL:
    fputs("null", to);
    break;
  case MOONPAD_BOOLEAN:
    fputs(value->as.boolean ? "true" : "false", to);
    break;
  case MOONPAD_INTEGER:
    fprintf(to, "%lld", (long long)value->as.integer);
    break;
  case MOONPAD_FLOAT:
    fprintf(to, "%a", value->as.number);
    break;
  default:
    call_print_string(to, value->as.text);
  }
  fputc('\n', to);
}

moonpad_status call_print_events(FILE *to, moonpad_session *session, moonpad_error *error) {
  size_t count = 0;
  moonpad_status status = moonpad_session_event_count(session, &count, error);
  fprintf(to, "%zu events\n", count);
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) {
    moonpad_event *event = NULL;
    status = moonpad_session_event(session, i, &event, error);
    if (status != MOONPAD_OK) break;
    fprintf(to, "%lld ", (long long)moonpad_event_revision(event));
    call_print_string(to, moonpad_event_json(event));
    fputc('\n', to);
    moonpad_event_free(event);
  }
  return status;
}

moonpad_status call_print_session(FILE *to, moonpad_session *session, bool events, moonpad_error *error) {
  moonpad_buffer json = {0};
  moonpad_status status = moonpad_session_state(session, &json, error);
  if (status != MOONPAD_OK) return status;
  call_print_string(to, moonpad_session_id(session));
  fprintf(to, " revision %lld, %lld messages, %a to %a\n%s\n", (long long)moonpad_session_revision(session),
          (long long)moonpad_session_conversation_count(session), moonpad_session_create_time(session),
          moonpad_session_last_update_time(session), json.data);
  moonpad_buffer_free(&json);
  return events ? call_print_events(to, session, error) : MOONPAD_OK;
}

static const char *const pending_keys[] = {"cart",   "new",   "topic", "user:n", "log",
                                           "temp:t", "prefs", "n",     "late",   "mine"};

call_text call_scene_object(call_scene *scene) {
  call_text text;
  moonpad_error error = {MOONPAD_OK, ""};
  FILE *to = open_memstream(&text.data, &text.length);
  ok(call_print_session(to, scene->session, true, &error), &error, "the session object");
  fprintf(to, "%s\n", moonpad_changes_pending(scene->changes) ? "pending" : "clean");
  for (size_t i = 0; i < sizeof pending_keys / sizeof *pending_keys; i++) {
    moonpad_value value;
    ok(moonpad_changes_get(scene->changes, T(pending_keys[i]), T(""), &value, &error), &error, pending_keys[i]);
    call_print_value(to, &value);
  }
  fclose(to);
  return text;
}

/* ---- The state that the events make is the state that is kept ---- */

static const char *after_string(const char *json) {
  for (json++; *json != '"'; json++) json += *json == '\\';
  return json + 1;
}

/* After a member of an object: behind its comma, or at the closing brace. */
static const char *after_member(const char *json) {
  for (int depth = 0; depth > 0 || (*json != ',' && *json != '}');) {
    if (*json == '"') {
      json = after_string(json);
      continue;
    }
    depth += (*json == '{' || *json == '[') - (*json == '}' || *json == ']');
    json++;
  }
  return *json == ',' ? json + 1 : json;
}

/*
** A merged state without what belongs to the app, to the user and to this run. The caller frees it.
*/
static char *of_session_alone(const char *state) {
  static const char *const shared[] = {"\"app:", "\"user:", "\"temp:"};
  char *kept = malloc(strlen(state) + 1), *to = kept;
  assert_non_null(kept);
  *to++ = '{';
  for (const char *member = state + 1, *next; *member != '}'; member = next) {
    bool is_shared = false;
    next = after_member(member);
    for (size_t i = 0; i < 3; i++) is_shared |= strncmp(member, shared[i], strlen(shared[i])) == 0;
    if (is_shared) continue;
    if (to > kept + 1) *to++ = ',';
    size_t length = (size_t)(next - member) - (next[-1] == ',');
    memcpy(to, member, length);
    to += length;
  }
  memcpy(to, "}", 2);
  return kept;
}

static void expect_replayed(moonpad_session *session, moonpad_error *error) {
  moonpad_buffer replayed = {0}, state = {0};
  ok(moonpad_state_at(session, moonpad_session_revision(session), &replayed, error), error, "state_at");
  ok(moonpad_session_state(session, &state, error), error, "state");
  char *kept = of_session_alone(state.data);
  if (strcmp(kept, replayed.data) != 0) fail_msg("the events make %s, and the state is %s", replayed.data, kept);
  free(kept);
  moonpad_buffer_free(&replayed);
  moonpad_buffer_free(&state);
}

/* ---- All that is stored ---- */

call_text call_stored(moonpad_service *service, const char *app_name) {
  call_text text;
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_session_list *list;
  FILE *to = open_memstream(&text.data, &text.length);
  ok(moonpad_list_sessions(service, T(app_name), NULL, &list, &error), &error, "list");
  for (size_t i = 0; i < moonpad_session_list_count(list); i++) {
    moonpad_session *session = moonpad_session_list_at(list, i);
    ok(call_print_session(to, session, false, &error), &error, "a session");
    expect_replayed(session, &error);
    ok(moonpad_export_session(session, call_keep_line, to, &error), &error, "export");
  }
  moonpad_session_list_free(list);
  moonpad_buffer json = {0};
  ok(moonpad_get_app_state(service, T(app_name), &json, &error), &error, "app state");
  fprintf(to, "of the app: %s\n", json.data);
  moonpad_buffer_free(&json);
  const char *const users[] = {"u", "new"};
  for (size_t i = 0; i < 2; i++) {
    ok(moonpad_get_user_state(service, T(app_name), T(users[i]), &json, &error), &error, "user state");
    fprintf(to, "of %s: %s\n", users[i], json.data);
    moonpad_buffer_free(&json);
  }
  fclose(to);
  return text;
}

moonpad_status call_run(call_scene *scene, const every_call *call, moonpad_error *error) {
  *error = (moonpad_error){MOONPAD_OK, ""};
  scene->random_seed = 1000;
  free(scene->answer.data);
  scene->answer.data = NULL;
  scene->answer.length = 0;
  return call->run(scene, error);
}

/* ---- What is expected ---- */

static call_text copy_of(const call_text *text) {
  call_text copy = {malloc(text->length + 1), text->length};
  assert_non_null(copy.data);
  if (text->length > 0) memcpy(copy.data, text->data, text->length);
  copy.data[text->length] = '\0';
  return copy;
}

void call_learn(call_expectation *expected, const every_call *call, const call_setting *setting) {
  call_scene scene;
  moonpad_error error;
  expected->call = call;
  call_scene_make(&scene, setting);
  expected->object_before = call_scene_object(&scene);
  expected->stored_before = call_stored(scene.service, "app");
  if (call_run(&scene, call, &error) != MOONPAD_OK) fail_msg("%s: %s", call->name, error.message);
  expected->answer = copy_of(&scene.answer);
  expected->object_after = call_scene_object(&scene);
  expected->stored_after = call_stored(scene.service, "app");
  call_scene_free(&scene);
  call_scene_make(&scene, setting);
  ok(moonpad_refresh(scene.session, &error), &error, "refresh");
  expected->object_refreshed = call_scene_object(&scene);
  moonpad_changes *taken = scene.changes;
  if (call->kind == CALL_TAKES_OWN) ok(moonpad_session_changes(scene.session, &taken, &error), &error, "changes");
  moonpad_changes_discard(taken);
  expected->object_taken = call_scene_object(&scene);
  call_scene_free(&scene);
}

void call_forget(call_expectation *expected) {
  free(expected->object_before.data);
  free(expected->stored_before.data);
  free(expected->object_after.data);
  free(expected->stored_after.data);
  free(expected->answer.data);
  free(expected->object_refreshed.data);
  free(expected->object_taken.data);
}

bool call_same(const call_text *one, const call_text *other) {
  return one->length == other->length && (one->length == 0 || memcmp(one->data, other->data, one->length) == 0);
}

void call_expect(const call_expectation *expected, long n, const char *what, call_text is, const call_text *wanted) {
  if (!call_same(&is, wanted)) {
    size_t same = 0;
    while (same < is.length && same < wanted->length && is.data[same] == wanted->data[same]) same++;
    while (same > 0 && is.data[same - 1] != '\n')
      same--; /* the line that differs: the whole is more than a message holds */
    fail_msg("%s, fault %ld: %s is\n%.400s\nand not\n%.400s", expected->call->name, n, what, is.data + same,
             wanted->data + same);
  }
  free(is.data);
}

/*
** An asynchronous append that is stored when memory ends leaves the object at an older revision,
** from which it catches up.
*/
void call_expect_after(const call_expectation *expected, long n, call_scene *scene) {
  moonpad_error error;
  if (expected->call->kind) ok(moonpad_refresh(scene->session, &error), &error, "refresh");
  call_expect(expected, n, "the answer", copy_of(&scene->answer), &expected->answer);
  call_expect(expected, n, "the session object", call_scene_object(scene), &expected->object_after);
  call_expect(expected, n, "the store", call_stored(scene->service, "app"), &expected->stored_after);
}

bool call_expect_object_before(const call_expectation *expected, long n, call_scene *scene) {
  moonpad_error error;
  call_text object = call_scene_object(scene);
  bool takes_nothing = expected->call->kind == CALL_WAITS || expected->call->kind == CALL_CATCHES_UP;
  if (takes_nothing || call_same(&object, &expected->object_before)) {
    call_expect(expected, n, "the session object", object, &expected->object_before);
    return true;
  }
  free(object.data);
  ok(moonpad_refresh(scene->session, &error), &error, "refresh");
  object = call_scene_object(scene);
  bool taken = call_same(&object, &expected->object_taken);
  call_expect(expected, n, "the session object", object, taken ? &expected->object_taken : &expected->object_refreshed);
  return !taken;
}
