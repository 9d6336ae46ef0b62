/*
** The calls that every_calls[] names. How to add one: call_support.h. All are public but "commit
** when stored", which is what a step of a run does (service/binding/).
*/
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call_parts.h"
#include "call_support.h"
#include "service/binding/append.h"
#include "service/binding/session.h"

#define T(text) moonpad_text(text)

static FILE *answer_of(call_scene *scene) {
  free(scene->answer.data);
  scene->answer.data = NULL;
  scene->answer.length = 0;
  return open_memstream(&scene->answer.data, &scene->answer.length);
}

/* Keeps the answer of a call that succeeded; one that failed must have given nothing. */
static moonpad_status answer_got(call_scene *scene, moonpad_status status, moonpad_session *session,
                                 moonpad_error *error) {
  assert_true((status == MOONPAD_OK) == (session != NULL));
  FILE *to = answer_of(scene);
  if (status == MOONPAD_OK) status = call_print_session(to, session, true, error);
  fclose(to);
  moonpad_session_free(session);
  return status;
}

/* Without reading on: that could fail, and the session would be there all the same. */
static moonpad_status answer_made(call_scene *scene, moonpad_status status, moonpad_session *session) {
  assert_true((status == MOONPAD_OK) == (session != NULL));
  FILE *to = answer_of(scene);
  if (status == MOONPAD_OK) {
    call_print_string(to, moonpad_session_id(session));
    fprintf(to, " at %lld", (long long)moonpad_session_revision(session));
  }
  fclose(to);
  moonpad_session_free(session);
  return status;
}

static moonpad_status answer_buffer(call_scene *scene, moonpad_status status, moonpad_buffer *buffer) {
  assert_true((status == MOONPAD_OK) == (buffer->data != NULL));
  FILE *to = answer_of(scene);
  if (status == MOONPAD_OK) fprintf(to, "%zu %s", buffer->length, buffer->data);
  fclose(to);
  moonpad_buffer_free(buffer);
  return status;
}

static moonpad_status answer_value(call_scene *scene, moonpad_status status, const moonpad_value *value) {
  FILE *to = answer_of(scene);
  if (status == MOONPAD_OK) call_print_value(to, value);
  fclose(to);
  return status;
}

/* Memory that ends after the event is stored costs the event object only. */
static moonpad_status answer_event(moonpad_status status, moonpad_event **event) {
  assert_true(status == MOONPAD_OK || *event == NULL);
  if (*event != NULL) assert_true(moonpad_event_revision(*event) > 0);
  moonpad_event_free(*event);
  return status;
}

static moonpad_status call_open(call_scene *scene, moonpad_error *error) {
  moonpad_service *service = NULL;
  moonpad_status status = moonpad_open(T(scene->setting->url), &scene->options, &service, error);
  assert_true((status == MOONPAD_OK) == (service != NULL));
  moonpad_service_release(service);
  return status;
}

static moonpad_status call_create(call_scene *scene, moonpad_error *error) {
  moonpad_session *made = NULL;
  moonpad_session_name name = {T("app"), T("new"), T("")};
  moonpad_status status = moonpad_create_session(
      scene->service, &name, T("{\"k\":[1],\"l\":\"text\",\"user:v\":1,\"app:a\":{\"b\":[]},\"temp:t\":1}"), &made,
      error);
  return answer_made(scene, status, made);
}

static moonpad_status call_get(call_scene *scene, moonpad_error *error) {
  moonpad_session *got = NULL;
  moonpad_status status = moonpad_get_session(scene->service, call_name("s"), NULL, &got, error);
  return answer_got(scene, status, got, error);
}

static moonpad_status call_get_recent(call_scene *scene, moonpad_error *error) {
  moonpad_session *got = NULL;
  moonpad_get_options options;
  moonpad_get_options_init(&options);
  options.num_recent_events = 2;
  options.has_after_timestamp = true;
  options.after_timestamp = 1001;
  moonpad_status status = moonpad_get_session(scene->service, call_name("s"), &options, &got, error);
  return answer_got(scene, status, got, error);
}

static moonpad_status call_delete(call_scene *scene, moonpad_error *error) {
  return moonpad_delete_session(scene->service, call_name("another"), NULL, error);
}

static moonpad_status call_delete_user(call_scene *scene, moonpad_error *error) {
  int64_t sessions = -1;
  moonpad_status status = moonpad_delete_user(scene->service, T("app"), T("v"), &sessions, error);
  assert_int_equal(sessions, status == MOONPAD_OK ? 1 : 0);
  return status;
}

static moonpad_status call_list(call_scene *scene, moonpad_error *error) {
  moonpad_session_list *list = NULL;
  moonpad_list_options options;
  moonpad_list_options_init(&options);
  options.limit = 1;
  moonpad_status status = moonpad_list_sessions(scene->service, T("app"), &options, &list, error);
  assert_true((status == MOONPAD_OK) == (list != NULL));
  FILE *to = answer_of(scene);
  while (status == MOONPAD_OK) {
    moonpad_session_list *next = NULL;
    for (size_t i = 0; status == MOONPAD_OK && i < moonpad_session_list_count(list); i++)
      status = call_print_session(to, moonpad_session_list_at(list, i), false, error);
    options.after = moonpad_session_list_cursor(list);
    if (status != MOONPAD_OK || options.after.length == 0) break;
    status = moonpad_list_sessions(scene->service, T("app"), &options, &next, error);
    moonpad_session_list_free(list);
    list = next;
  }
  moonpad_session_list_free(list);
  fclose(to);
  return status;
}

static const char rich_event[] =
    "{\"author\":\"a\",\"invocationId\":\"i4\",\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"done\"}]},"
    "\"customMetadata\":{\"unknown\":[1,2.5]},\"actions\":{\"stateDelta\":{\"n\":9,\"prefs\":{\"theme\":\"light\"},"
    "\"late\":null,\"user:fresh\":[\"x\"],\"app:fresh\":1.5,\"temp:y\":{\"z\":1}}},\"removedStateKeys\":[\"late\"]}";

static moonpad_status call_append(call_scene *scene, moonpad_error *error) {
  moonpad_event *event = NULL;
  return answer_event(moonpad_append_event(scene->session, T(rich_event), &event, error), &event);
}

static moonpad_status call_append_again(call_scene *scene, moonpad_error *error) {
  moonpad_event *event = NULL;
  return answer_event(moonpad_append_event(scene->session, T(call_history[1]), &event, error), &event);
}

/* ---- Calls that are done later ---- */

typedef struct completions {
  int count;
  moonpad_error first; /* the first error of all */
} completions;

static void note_completion(void *context, moonpad_session *session, const moonpad_event *event,
                            const moonpad_error *error) {
  completions *noted = context;
  assert_non_null(session);
  assert_true(error == NULL || event == NULL);
  noted->count++;
  if (error != NULL && noted->first.code == MOONPAD_OK) noted->first = *error;
}

static moonpad_status wait_for(call_scene *scene, const completions *noted, int count, moonpad_error *error) {
  while (noted->count < count && moonpad_poll(scene->service, TIMEOUT_MS) > 0) continue;
  if (noted->count != count) fail_msg("%d of %d appends completed", noted->count, count);
  if (noted->first.code != MOONPAD_OK) *error = noted->first;
  return noted->first.code;
}

static moonpad_status call_append_async(call_scene *scene, moonpad_error *error) {
  completions noted = {0, {MOONPAD_OK, ""}};
  moonpad_status status = moonpad_append_event_async(scene->session, T(rich_event), note_completion, &noted, error);
  moonpad_status outcome = wait_for(scene, &noted, status == MOONPAD_OK ? 1 : 0, error);
  return status != MOONPAD_OK ? status : outcome;
}

static moonpad_status call_append_to_a_queue(call_scene *scene, moonpad_error *error) {
  completions noted = {0, {MOONPAD_OK, ""}};
  moonpad_queue *queue = NULL;
  moonpad_status status = moonpad_queue_new(scene->service, &queue, error);
  assert_true((status == MOONPAD_OK) == (queue != NULL));
  if (status != MOONPAD_OK) return status;
  moonpad_error unused;
  assert_int_equal(moonpad_session_set_queue(scene->session, queue, &unused), MOONPAD_OK);
  status = moonpad_append_event_async(scene->session, T(rich_event), note_completion, &noted, error);
  if (status == MOONPAD_OK) {
    assert_int_equal(moonpad_queue_poll(queue, TIMEOUT_MS), 1);
    status = wait_for(scene, &noted, 1, error);
  }
  assert_int_equal(moonpad_session_set_queue(scene->session, NULL, &unused), MOONPAD_OK);
  moonpad_queue_free(queue);
  return status;
}

static moonpad_status call_commit(call_scene *scene, moonpad_error *error) {
  moonpad_event *event = NULL;
  return answer_event(moonpad_changes_commit(scene->changes, T("{\"author\":\"a\"}"), &event, error), &event);
}

/*
** What identifies the event as given holds what was pending: the same again is the same event.
** When what fails does not let it be tried again, that has not been seen this time.
*/
static moonpad_status call_commit_with_id(call_scene *scene, moonpad_error *error) {
  static const char event[] = "{\"author\":\"a\",\"id\":\"given\",\"timestamp\":1004,\"invocationId\":\"i5\"}";
  moonpad_status status = moonpad_changes_commit(scene->changes, T(event), NULL, error);
  if (status != MOONPAD_OK) return status;
  moonpad_error again = {MOONPAD_OK, ""};
  if (call_try_pending(scene, &again) == MOONPAD_OK) moonpad_changes_commit(scene->changes, T(event), NULL, &again);
  moonpad_changes_discard(scene->changes);
  bool kept_from = again.code == MOONPAD_NO_MEMORY || again.code == MOONPAD_STORAGE || again.code == MOONPAD_BUSY;
  if (again.code != MOONPAD_OK && !kept_from) fail_msg("the same again: %s", again.message);
  return MOONPAD_OK;
}

static moonpad_status call_commit_async(call_scene *scene, moonpad_error *error) {
  completions noted = {0, {MOONPAD_OK, ""}};
  moonpad_status status =
      moonpad_changes_commit_async(scene->changes, T("{\"author\":\"a\"}"), note_completion, &noted, error);
  moonpad_status outcome = wait_for(scene, &noted, status == MOONPAD_OK ? 1 : 0, error);
  return status != MOONPAD_OK ? status : outcome;
}

/* Nothing is shown before it is stored, and all of it then, as by a commit that waits. */
static moonpad_status call_commit_when_stored(call_scene *scene, moonpad_error *error) {
  completions noted = {0, {MOONPAD_OK, ""}};
  mp_append_request request = {.event = T("{\"author\":\"a\"}"), .changes = scene->changes};
  mp_async_way way = {.when_stored = true, .callback = note_completion, .context = &noted};
  mp_job *job;
  moonpad_status status = mp_append_later(scene->session, &request, &way, &job, error);
  if (status != MOONPAD_OK) return status;
  assert_true(moonpad_changes_pending(scene->changes));
  mp_session_drain(scene->session);
  assert_true(mp_job_poll(job));
  return wait_for(scene, &noted, 1, error);
}

static moonpad_status call_update_async(call_scene *scene, moonpad_error *error) {
  completions noted = {0, {MOONPAD_OK, ""}};
  bool queued = false;
  moonpad_status status = moonpad_update_session_async(scene->session, note_completion, &noted, &queued, error);
  assert_true(status == MOONPAD_OK || !queued);
  moonpad_status outcome = wait_for(scene, &noted, queued ? 1 : 0, error);
  return status != MOONPAD_OK ? status : outcome;
}

/* ---- Change sets ---- */

static moonpad_status call_update_session(call_scene *scene, moonpad_error *error) {
  moonpad_event *event = NULL;
  return answer_event(moonpad_update_session(scene->session, &event, error), &event);
}

static moonpad_status call_begin(call_scene *scene, moonpad_error *error) {
  moonpad_changes *changes = NULL;
  moonpad_status status = moonpad_changes_begin(scene->session, &changes, error);
  assert_true((status == MOONPAD_OK) == (changes != NULL));
  moonpad_changes_free(changes);
  return status;
}

static moonpad_status call_set(call_scene *scene, moonpad_error *error) {
  moonpad_value value = moonpad_json(T("{\"b\":[1,2,{\"c\":null}],\"a\":\"x\"}"));
  return moonpad_changes_set(scene->changes, T("n"), T(""), &value, error);
}

static moonpad_status call_set_text(call_scene *scene, moonpad_error *error) {
  moonpad_value value = moonpad_string_value(T("a text that is longer than what is kept inline"));
  return moonpad_changes_set(scene->changes, T("user:text"), T(""), &value, error);
}

static moonpad_status call_set_inside(call_scene *scene, moonpad_error *error) {
  moonpad_value value = moonpad_json(T("{\"b\":[1,2,{\"c\":null}],\"a\":\"x\"}"));
  return moonpad_changes_set(scene->changes, T("late"), T("a[2]"), &value, error);
}

static moonpad_status call_set_inside_again(call_scene *scene, moonpad_error *error) {
  moonpad_value value = moonpad_json(T("[[[]]]"));
  return moonpad_changes_set(scene->changes, T("cart"), T("[1].tags[2]"), &value, error);
}

static moonpad_status call_remove_inside(call_scene *scene, moonpad_error *error) {
  return moonpad_changes_remove(scene->changes, T("prefs"), T("theme"), error);
}

static moonpad_status call_remove(call_scene *scene, moonpad_error *error) {
  return moonpad_changes_remove(scene->changes, T("prefs"), T(""), error);
}

static moonpad_status call_increment(call_scene *scene, moonpad_error *error) {
  moonpad_value by = moonpad_float(1.5);
  return moonpad_changes_increment(scene->changes, T("n"), &by, error);
}

static moonpad_status call_append_item(call_scene *scene, moonpad_error *error) {
  moonpad_value item = moonpad_json(T("{\"second\":[2]}"));
  return moonpad_changes_append(scene->changes, T("log"), &item, error);
}

static moonpad_status call_get_inside(call_scene *scene, moonpad_error *error) {
  moonpad_value value = moonpad_null_value();
  return answer_value(scene, moonpad_changes_get(scene->changes, T("cart"), T("[2]"), &value, error), &value);
}

static moonpad_status call_get_pending(call_scene *scene, moonpad_error *error) {
  moonpad_value value = moonpad_null_value();
  return answer_value(scene, moonpad_changes_get(scene->changes, T("log"), T(""), &value, error), &value);
}

static moonpad_status call_has(call_scene *scene, moonpad_error *error) {
  bool there = true;
  moonpad_status status = moonpad_changes_has(scene->changes, T("late"), &there, error);
  FILE *to = answer_of(scene);
  if (status == MOONPAD_OK) fprintf(to, "%d", there);
  fclose(to);
  assert_true(status == MOONPAD_OK || !there);
  return status;
}

static moonpad_status call_keys(call_scene *scene, moonpad_error *error) {
  moonpad_key_list *keys = NULL;
  moonpad_status status = moonpad_changes_keys(scene->changes, &keys, error);
  assert_true((status == MOONPAD_OK) == (keys != NULL));
  FILE *to = answer_of(scene);
  for (size_t i = 0; keys != NULL && i < moonpad_key_list_count(keys); i++) {
    call_print_string(to, moonpad_key_list_at(keys, i));
    fputc('\n', to);
  }
  fclose(to);
  moonpad_key_list_free(keys);
  return status;
}

static moonpad_status call_delta(call_scene *scene, moonpad_error *error) {
  moonpad_buffer delta = {0}, removed = {0};
  moonpad_status status = moonpad_changes_delta(scene->changes, &delta, &removed, error);
  assert_true((status == MOONPAD_OK) == (delta.data != NULL));
  assert_true((status == MOONPAD_OK) == (removed.data != NULL));
  FILE *to = answer_of(scene);
  if (status == MOONPAD_OK) fprintf(to, "%s\n%s\n", delta.data, removed.data);
  fclose(to);
  moonpad_buffer_free(&delta);
  moonpad_buffer_free(&removed);
  return status;
}

static moonpad_status call_changed_state(call_scene *scene, moonpad_error *error) {
  moonpad_buffer json = {0};
  return answer_buffer(scene, moonpad_changes_state(scene->changes, &json, error), &json);
}

/* ---- The session object ---- */

static moonpad_status call_read(call_scene *scene, moonpad_error *error) {
  moonpad_value value = moonpad_null_value();
  return answer_value(scene, moonpad_session_read(scene->session, T("topic"), T(""), &value, error), &value);
}

static moonpad_status call_read_inside(call_scene *scene, moonpad_error *error) {
  moonpad_value value = moonpad_null_value();
  return answer_value(scene, moonpad_session_read(scene->session, T("late"), T("a[1]"), &value, error), &value);
}

static moonpad_status call_state(call_scene *scene, moonpad_error *error) {
  moonpad_buffer json = {0};
  return answer_buffer(scene, moonpad_session_state(scene->session, &json, error), &json);
}

static moonpad_status call_events(call_scene *scene, moonpad_error *error) {
  FILE *to = answer_of(scene);
  moonpad_status status = call_print_events(to, scene->session, error);
  fclose(to);
  return status;
}

static moonpad_status call_cursor(call_scene *scene, moonpad_error *error) {
  FILE *to = answer_of(scene);
  moonpad_status status = MOONPAD_OK;
  for (int newest_first = 0; status == MOONPAD_OK && newest_first <= 1; newest_first++) {
    moonpad_event_cursor *cursor = NULL;
    moonpad_event_cursor_options options;
    moonpad_event_cursor_options_init(&options);
    options.newest_first = newest_first == 1;
    const moonpad_event *event = NULL;
    status = moonpad_event_cursor_open(scene->session, &options, &cursor, error);
    assert_true((status == MOONPAD_OK) == (cursor != NULL));
    if (status == MOONPAD_OK) status = moonpad_event_cursor_next(cursor, &event, error);
    while (status == MOONPAD_OK && event != NULL) {
      fprintf(to, "%lld ", (long long)moonpad_event_revision(event));
      call_print_string(to, moonpad_event_json(event));
      status = moonpad_event_cursor_next(cursor, &event, error);
    }
    moonpad_event_cursor_free(cursor);
  }
  fclose(to);
  return status;
}

static moonpad_status call_refresh(call_scene *scene, moonpad_error *error) {
  return moonpad_refresh(scene->session, error);
}

static moonpad_status call_render(call_scene *scene, moonpad_error *error) {
  moonpad_buffer result = {0};
  moonpad_status status = moonpad_session_render(
      scene->session, T("{topic} <n> {prefs.theme} {cart[1]} {nobody?} {{n}} \\{n} {user:name} {cart} <markup>"), NULL,
      &result, error);
  return answer_buffer(scene, status, &result);
}

/* ---- User and app state, history ---- */

static moonpad_status call_get_user(call_scene *scene, moonpad_error *error) {
  moonpad_buffer json = {0};
  return answer_buffer(scene, moonpad_get_user_state(scene->service, T("app"), T("u"), &json, error), &json);
}

static moonpad_status call_get_app(call_scene *scene, moonpad_error *error) {
  moonpad_buffer json = {0};
  return answer_buffer(scene, moonpad_get_app_state(scene->service, T("app"), &json, error), &json);
}

static moonpad_status call_update_user(call_scene *scene, moonpad_error *error) {
  return moonpad_update_user_state(scene->service, T("app"), T("u"), T("{\"name\":\"Bob\",\"new\":[1,{\"x\":2}]}"),
                                   T("[\"seen\"]"), error);
}

static moonpad_status call_update_app(call_scene *scene, moonpad_error *error) {
  return moonpad_update_app_state(scene->service, T("app"), T("{\"motd\":\"bye\",\"k\":1.5}"), T(""), error);
}

static moonpad_status call_increment_user(call_scene *scene, moonpad_error *error) {
  moonpad_value by = moonpad_integer(3), value = moonpad_null_value();
  moonpad_status status = moonpad_increment_user_state(scene->service, T("app"), T("u"), T("n"), &by, &value, error);
  return answer_value(scene, status, &value);
}

static moonpad_status call_increment_app(call_scene *scene, moonpad_error *error) {
  moonpad_value by = moonpad_float(0.5), value = moonpad_null_value();
  moonpad_status status = moonpad_increment_app_state(scene->service, T("app"), T("n"), &by, &value, error);
  return answer_value(scene, status, &value);
}

static moonpad_status call_state_at(call_scene *scene, moonpad_error *error) {
  moonpad_buffer json = {0};
  return answer_buffer(scene, moonpad_state_at(scene->session, 2, &json, error), &json);
}

static moonpad_status call_fork(call_scene *scene, moonpad_error *error) {
  moonpad_session *forked = NULL;
  moonpad_status status = moonpad_fork(scene->session, 2, T(""), &forked, error);
  return answer_made(scene, status, forked);
}

static moonpad_status call_rewind(call_scene *scene, moonpad_error *error) {
  moonpad_event *event = NULL;
  return answer_event(moonpad_rewind(scene->session, T("i2"), &event, error), &event);
}

static moonpad_status call_rewind_to_revision(call_scene *scene, moonpad_error *error) {
  moonpad_event *event = NULL;
  return answer_event(moonpad_rewind_to_revision(scene->session, 1, &event, error), &event);
}

static moonpad_status call_export(call_scene *scene, moonpad_error *error) {
  FILE *to = answer_of(scene);
  moonpad_status status = moonpad_export_session(scene->session, call_keep_line, to, error);
  fclose(to);
  return status;
}

static bool next_line(void *context, moonpad_string *line) {
  moonpad_string *left = context;
  if (left->length == 0) return false;
  const char *end = memchr(left->data, '\n', left->length);
  line->data = left->data;
  line->length = (size_t)(end - left->data) + 1;
  left->data += line->length;
  left->length -= line->length;
  return true;
}

static moonpad_status call_import(call_scene *scene, moonpad_error *error) {
  moonpad_session *imported = NULL;
  moonpad_session_name name = {T("app"), T("new"), T("imported")};
  moonpad_string left = {scene->exported.data, scene->exported.length};
  moonpad_status status = moonpad_import_session(scene->service, &name, next_line, &left, &imported, error);
  return answer_made(scene, status, imported);
}

/* One that fails leaves no file. */
static moonpad_status call_backup(call_scene *scene, moonpad_error *error) {
  const char *copy = scene->setting->copy;
  if (copy[0] == '\0') return MOONPAD_OK;
  moonpad_status status = moonpad_backup(scene->service, T(copy), error);
  assert_int_equal(access(copy, F_OK) == 0, status == MOONPAD_OK);
  remove(copy);
  return status;
}

const every_call every_calls[] = {
    {"open", call_open, CALL_WAITS},
    {"create", call_create, CALL_WAITS},
    {"get", call_get, CALL_WAITS},
    {"get recent", call_get_recent, CALL_WAITS},
    {"delete", call_delete, CALL_WAITS},
    {"delete user", call_delete_user, CALL_WAITS},
    {"list", call_list, CALL_WAITS},
    {"append", call_append, CALL_WAITS},
    {"append again", call_append_again, CALL_WAITS},
    {"append async", call_append_async, CALL_IS_ASYNC},
    {"append to a queue", call_append_to_a_queue, CALL_IS_ASYNC},
    {"commit", call_commit, CALL_WAITS},
    {"commit with id", call_commit_with_id, CALL_WAITS},
    {"commit async", call_commit_async, CALL_IS_ASYNC},
    {"commit when stored", call_commit_when_stored, CALL_CATCHES_UP},
    {"update async", call_update_async, CALL_TAKES_OWN},
    {"update session", call_update_session, CALL_WAITS},
    {"begin", call_begin, CALL_WAITS},
    {"set", call_set, CALL_WAITS},
    {"set text", call_set_text, CALL_WAITS},
    {"set inside", call_set_inside, CALL_WAITS},
    {"set inside again", call_set_inside_again, CALL_WAITS},
    {"remove inside", call_remove_inside, CALL_WAITS},
    {"remove", call_remove, CALL_WAITS},
    {"increment", call_increment, CALL_WAITS},
    {"append item", call_append_item, CALL_WAITS},
    {"get inside", call_get_inside, CALL_WAITS},
    {"get pending", call_get_pending, CALL_WAITS},
    {"has", call_has, CALL_WAITS},
    {"keys", call_keys, CALL_WAITS},
    {"delta", call_delta, CALL_WAITS},
    {"changed state", call_changed_state, CALL_WAITS},
    {"read", call_read, CALL_WAITS},
    {"read inside", call_read_inside, CALL_WAITS},
    {"state", call_state, CALL_WAITS},
    {"events", call_events, CALL_WAITS},
    {"event cursor", call_cursor, CALL_WAITS},
    {"refresh", call_refresh, CALL_WAITS},
    {"render", call_render, CALL_WAITS},
    {"get user", call_get_user, CALL_WAITS},
    {"get app", call_get_app, CALL_WAITS},
    {"update user", call_update_user, CALL_WAITS},
    {"update app", call_update_app, CALL_WAITS},
    {"increment user", call_increment_user, CALL_WAITS},
    {"increment app", call_increment_app, CALL_WAITS},
    {"state at", call_state_at, CALL_WAITS},
    {"fork", call_fork, CALL_WAITS},
    {"rewind", call_rewind, CALL_WAITS},
    {"rewind to revision", call_rewind_to_revision, CALL_WAITS},
    {"export", call_export, CALL_WAITS},
    {"import", call_import, CALL_WAITS},
    {"backup", call_backup, CALL_WAITS},
};
const size_t every_call_count = sizeof every_calls / sizeof *every_calls;
