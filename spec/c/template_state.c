/* A small state for the tests of templates. */
#include "template_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void put_in_state(template_state *state, const char *key, moonpad_value value) {
  assert_true(state->count < sizeof state->entries / sizeof *state->entries);
  state->entries[state->count].key = key;
  state->entries[state->count++].value = value;
}

static moonpad_value text_value(const char *text) {
  return moonpad_string_value(moonpad_text(text));
}

static moonpad_value array_value(const char *json) {
  moonpad_value value = moonpad_json(moonpad_text(json));
  value.type = MOONPAD_ARRAY;
  return value;
}

template_state example_state(void) {
  template_state state = {.count = 0};
  put_in_state(&state, "topic", text_value("owls"));
  put_in_state(&state, "x", text_value("V"));
  put_in_state(&state, "x2", text_value("W"));
  put_in_state(&state, "n", moonpad_null_value());
  put_in_state(&state, "b", moonpad_boolean(true));
  put_in_state(&state, "off", moonpad_boolean(false));
  put_in_state(&state, "i", moonpad_integer(INT64_MIN));
  put_in_state(&state, "f", moonpad_float(1.0));
  put_in_state(&state, "d", moonpad_json(moonpad_text("{\"a\":[1,null,\"q\"]}")));
  put_in_state(&state, "s", text_value("{x}<x>\\{x}"));
  put_in_state(&state, "app:k", text_value("A"));
  put_in_state(&state, "user:name", text_value("Ada"));
  put_in_state(&state, "temp:t", moonpad_integer(7));
  put_in_state(&state, "app", text_value("plain"));
  put_in_state(&state, "caf\xC3\xA9", text_value("noir"));
  put_in_state(&state, "\xE6\x9C\x88", text_value("moon"));
  put_in_state(&state, "_", text_value("under"));
  put_in_state(&state, "cart", array_value("[{\"sku\":\"a\\\"1\",\"n\":2},[3,4.5],null,false]"));
  put_in_state(
      &state, "profile",
      moonpad_json(moonpad_text("{\"address\":{\"city\":\"Z\\u00fcrich\",\"zip\":8001},\"nick\":\"lune\",\"none\":null,"
                                "\"tags\":[\"a\",\"b\"]}")));
  put_in_state(&state, "artifact.notes.txt", text_value("NOTES"));
  put_in_state(&state, "artifact.a/b c.txt", text_value("SPACED"));
  put_in_state(&state, "artifact. f", text_value("LEADING"));
  put_in_state(&state, "artifact", text_value("just a key"));
  put_in_state(&state, "user:p", moonpad_json(moonpad_text("{\"q\":1}")));
  return state;
}

bool look_up_in_state(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error) {
  template_state *state = context;
  state->lookups++;
  if (state->refused != NULL && strlen(state->refused) == name.length &&
      memcmp(state->refused, name.data, name.length) == 0) {
    error->code = MOONPAD_BUSY;
    snprintf(error->message, sizeof error->message, "try again");
    return false;
  }
  for (size_t i = 0; i < state->count; i++) {
    const char *key = state->entries[i].key;
    if (strlen(key) == name.length && memcmp(key, name.data, name.length) == 0) *value = state->entries[i].value;
  }
  return true;
}
