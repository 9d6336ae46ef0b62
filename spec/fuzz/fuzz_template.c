/*
** Templates: the first byte chooses the syntax, the rest is the template. Values hold placeholders themselves, which must come out as they are: text that was inserted is not
** scanned again.
*/
#include "core/template.h"
#include "fuzz.h"

#define MARK "{x}<x>\\{x}"

static void found_value(moonpad_value *value, moonpad_type type, const char *text) {
  value->type = type;
  value->as.text = moonpad_text(text);
}

/* A few keys of every type; what is not there is absent. */
static bool look_up(void *context, moonpad_string key, moonpad_value *value, moonpad_error *error) {
  (void)error;
  ++*(size_t *)context;
  memset(value, 0, sizeof *value);
  value->type = MOONPAD_ABSENT;
  if (same_text(key, moonpad_text("x")) || same_text(key, moonpad_text("user:x"))) {
    found_value(value, MOONPAD_STRING, MARK);
  } else if (same_text(key, moonpad_text("list"))) {
    found_value(value, MOONPAD_ARRAY, "[1,[2,\"{x}\"],{\"a\":null}]");
  } else if (same_text(key, moonpad_text("profile"))) {
    found_value(value, MOONPAD_OBJECT, "{\"address\":{\"city\":\"Ulm\",\"zip\":89073}}");
  } else if (same_text(key, moonpad_text("n"))) {
    value->type = MOONPAD_INTEGER;
    value->as.integer = INT64_MIN;
  } else if (same_text(key, moonpad_text("nothing"))) {
    value->type = MOONPAD_NULL;
  }
  return true;
}

static bool count_file(void *context, moonpad_string file) {
  ++*(size_t *)context;
  return file.length < 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mp_env *env;
  if (env == NULL) {
    moonpad_options defaults;
    moonpad_options_init(&defaults);
    env = mp_env_new(&defaults);
  }
  if (size == 0) return 0;
  moonpad_template_options options;
  moonpad_template_options_init(&options);
  options.syntax = (moonpad_template_syntax)(data[0] % 3);
  options.agent_name = moonpad_text("A");
  moonpad_string source = input_text(data + 1, size - 1);
  moonpad_error error = {MOONPAD_OK, ""};
  mp_buffer out, again;
  size_t lookups = 0, lookups_again = 0, files = 0;
  mp_buffer_init(&out, env);
  mp_buffer_init(&again, env);
  moonpad_status status = mp_template_render(env, source, &options, look_up, &lookups, &out, &error);
  if (status == MOONPAD_OK) {
    HOLDS(mp_template_render(env, source, &options, look_up, &lookups_again, &again, NULL) == MOONPAD_OK);
    HOLDS(same_text(mp_buffer_text(&out), mp_buffer_text(&again)));
    HOLDS(lookups == lookups_again);
    bool is_plain = memchr(source.data, '{', source.length) == NULL && memchr(source.data, '<', source.length) == NULL;
    if (is_plain) HOLDS(same_text(mp_buffer_text(&out), source));
    if (lookups == 0 && memchr(source.data, '\\', source.length) == NULL) HOLDS(out.length <= source.length);
  } else {
    expect_error(&error, status, MOONPAD_TEMPLATE, MOONPAD_INVALID_ARGUMENT);
  }
  mp_template_artifacts(source, &options, count_file, &files);
  mp_buffer_free(&out);
  mp_buffer_free(&again);
  return 0;
}
