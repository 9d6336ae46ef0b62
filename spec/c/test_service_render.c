/* The public C API call by call: JSON that is read by path, and templates. */
#include "service_support.h"

/* ---- JSON and templates ---- */

static void test_json_is_read_by_path(void **state) {
  (void)state;
  moonpad_string json = T(" {\"a\" : [ {\"b\":\"x\\u0041\"} , 2.5 ], \"c\":{} } ");
  moonpad_buffer scratch = {0};
  moonpad_value value;
  OK(moonpad_json_read(json, T("a[1].b"), &scratch, &value, &failure));
  SAYS(value.as.text, "xA");
  OK(moonpad_json_read(json, T("a[2]"), &scratch, &value, &failure));
  assert_true(value.type == MOONPAD_FLOAT && value.as.number == 2.5);
  OK(moonpad_json_read(json, T("c"), &scratch, &value, &failure));
  assert_int_equal(value.type, MOONPAD_OBJECT);
  OK(moonpad_json_read(json, T("d.e"), &scratch, &value, &failure));
  assert_int_equal(value.type, MOONPAD_ABSENT);
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_json_read(T("{\"a\" oops"), T("a"), &scratch, &value, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_json_read(json, T("a["), &scratch, &value, &failure));
  moonpad_buffer_free(&scratch);
}

static bool look_up(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error) {
  int *calls = context;
  (*calls)++;
  if (name.length == 5 && memcmp(name.data, "topic", 5) == 0) *value = moonpad_string_value(T("moons {topic}"));
  if (name.length == 6 && memcmp(name.data, "user:n", 6) == 0) *value = moonpad_json(T("{\"a\":[1,2.0]}"));
  if (name.length == 4 && memcmp(name.data, "stop", 4) == 0) {
    error->code = MOONPAD_CANCELLED;
    strcpy(error->message, "enough");
    return false;
  }
  return true;
}

static void test_a_template_is_rendered_from_a_callback(void **state) {
  (void)state;
  int calls = 0;
  moonpad_buffer result = {0};
  OK(moonpad_render(T("{topic} <topic>, {user:n.a[2]} {user:n}{gone?} <b>\\{topic}"), NULL, look_up, &calls, &result,
                    &failure));
  GIVES(result, "moons {topic} moons {topic}, 2.0 {\"a\":[1,2.0]} <b>{topic}");
  assert_true(calls > 0);
  moonpad_template_options options;
  moonpad_template_options_init(&options);
  assert_int_equal(options.size, sizeof options);
  options.agent_name = T("Greeter");
  FAILS(MOONPAD_TEMPLATE, moonpad_render(T("{gone}"), &options, look_up, &calls, &result, &failure));
  assert_null(result.data);
  assert_non_null(strstr(failure.message, "gone"));
  assert_non_null(strstr(failure.message, "Greeter"));
  options.syntax = MOONPAD_TEMPLATE_ANGLES;
  OK(moonpad_render(T("{topic} <topic>"), &options, look_up, &calls, &result, &failure));
  GIVES(result, "{topic} moons {topic}");
  options.syntax = MOONPAD_TEMPLATE_BRACES;
  OK(moonpad_render(T("{topic} <topic>"), &options, look_up, &calls, &result, &failure));
  GIVES(result, "moons {topic} <topic>");
  FAILS(MOONPAD_CANCELLED, moonpad_render(T("{stop}"), NULL, look_up, &calls, &result, &failure));
  assert_string_equal(failure.message, "enough");
}

static void test_a_template_is_rendered_from_a_session(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":{\"a\":[1,\"two\"]},\"user:name\":\"Ann\",\"n\":null}"),
                  *other = host_get(self, "s");
  moonpad_buffer result = {0};
  OK(moonpad_session_render(session, T("Hi {user:name}, {k.a[2]}{n}{none?}!"), NULL, &result, &failure));
  GIVES(result, "Hi Ann, two!");
  FAILS(MOONPAD_TEMPLATE, moonpad_session_render(session, T("{none}"), NULL, &result, &failure));
  /* No read: a write after it is last-writer-wins on user keys. */
  host_append(other, "{\"user:name\":\"Bea\"}");
  host_append(session, "{\"user:name\":\"Cid\"}");
  OK(moonpad_session_render(session, T("{user:name}"), NULL, &result, &failure));
  GIVES(result, "Cid");
  moonpad_session_free(other);
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_json_is_read_by_path),
      cmocka_unit_test(test_a_template_is_rendered_from_a_callback),
      ON_EVERY_STORE(test_a_template_is_rendered_from_a_session),
  };
  return HOST_RUN(tests);
}
