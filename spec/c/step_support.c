/* See step_support.h. */
#include "step_support.h"

#include "service/append/append.h"

static void note_done(void *context, mp_append *append, moonpad_session *session, const moonpad_error *error) {
  told *self = context;
  self->done++;
  self->status = error == NULL ? MOONPAD_OK : error->code;
  self->session = session;
  self->revision = error == NULL ? append->event_revision : -1;
  if (append->conflict_count == 0) return;
  moonpad_string key = mp_key_text(append->conflicts[0]);
  snprintf(self->conflict, sizeof self->conflict, "%.*s", (int)key.length, key.data);
  if (session == NULL) return;
  mp_buffer event;
  mp_buffer_init(&event, append->env);
  mp_append_write_refused(append, &event);
  snprintf(self->refused, sizeof self->refused, "%.*s", (int)event.length, event.data);
  mp_buffer_free(&event);
}

static void note_dropped(void *context) {
  ((told *)context)->dropped++;
}

const mp_append_watch step_watch = {note_done, note_dropped};
const char plain_event[] = "{\"author\":\"a\"}";

moonpad_status step_try_append(moonpad_session *session, moonpad_changes *changes, const char *event, told *got,
                               mp_job **job) {
  mp_async_way way = {.when_stored = true, .watch = &step_watch, .context = got};
  *job = NULL;
  mp_append_request request = {.event = T(event), .changes = changes};
  return mp_append_later(session, &request, &way, job, &failure);
}

mp_job *step_append(moonpad_session *session, moonpad_changes *changes, const char *event, told *got) {
  mp_job *job;
  OK(step_try_append(session, changes, event, got, &job));
  assert_non_null(job);
  return job;
}

/* As a step does: each time that something is done, it looks whether its own is. */
void step_wait(host *self, mp_job *job) {
  while (!mp_job_poll(job)) assert_int_equal(moonpad_poll(self->service, TIMEOUT_MS), 0);
}

void set_number(moonpad_changes *changes, const char *key, int64_t number) {
  moonpad_value value = moonpad_integer(number);
  OK(moonpad_changes_set(changes, T(key), T(""), &value, &failure));
}

void set_text(moonpad_changes *changes, const char *key, const char *path, const char *text) {
  moonpad_value value = moonpad_string_value(T(text));
  OK(moonpad_changes_set(changes, T(key), T(path), &value, &failure));
}

void add_number(moonpad_changes *changes, const char *key, int64_t number) {
  moonpad_value value = moonpad_integer(number);
  OK(moonpad_changes_increment(changes, T(key), &value, &failure));
}

void add_item(moonpad_changes *changes, const char *key, int64_t number) {
  moonpad_value value = moonpad_integer(number);
  OK(moonpad_changes_append(changes, T(key), &value, &failure));
}

moonpad_changes *begin_changes(moonpad_session *session) {
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  return changes;
}

/* What the whole of a change set shows: it has looked at all of it then. */
void print_all(FILE *to, moonpad_changes *changes) {
  mp_buffer out;
  mp_buffer_init(&out, mp_changes_env(changes));
  OK(mp_changes_write_all(changes, true, &out, &failure));
  fprintf(to, "%.*s\n", (int)out.length, out.data);
  mp_buffer_free(&out);
}

void look_at_all(moonpad_changes *changes) {
  mp_entries keys;
  OK(mp_changes_keys(changes, &keys, &failure));
  mp_entries_free(&keys);
}

bool is_writable(moonpad_changes *changes) {
  moonpad_value one = moonpad_integer(1);
  moonpad_status status = moonpad_changes_set(changes, T("more"), T(""), &one, &failure);
  if (status == MOONPAD_OK) {
    moonpad_changes_discard(changes);
    return true;
  }
  assert_int_equal(status, MOONPAD_INVALID_ARGUMENT);
  return false;
}
