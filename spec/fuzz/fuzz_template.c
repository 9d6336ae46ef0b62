/*
** Templates: the first byte chooses the syntax, the rest is the template. Values hold
** placeholders themselves, which must come out as they are: text that was inserted is not scanned
** again. What stands apart is rendered apart.
*/
#include "core/template.h"
#include "fuzz.h"

#define MARK      "{x}<x>\\{x}"
#define BLANK     "\x01" /* stands for the mark where it could not be told from the template */
#define SEPARATOR '\x02' /* no placeholder reaches across it */
#define ARTIFACT  "artifact."

/* What a lookup answers, and what it was asked. */
typedef struct state {
  const char *mark;
  size_t lookups;
  size_t artifacts; /* asked for, of some name */
} state;

static void found_value(moonpad_value *value, moonpad_type type, const char *text) {
  value->type = type;
  value->as.text = moonpad_text(text);
}

static bool begins_with(moonpad_string text, const char *start) {
  size_t length = strlen(start);
  return text.length >= length && memcmp(text.data, start, length) == 0;
}

/*
** A few keys of every type, and the artifacts whose names begin with f; what is not there
** is absent.
*/
static bool look_up(void *context, moonpad_string key, moonpad_value *value, moonpad_error *error) {
  state *state = context;
  (void)error;
  state->lookups++;
  memset(value, 0, sizeof *value);
  value->type = MOONPAD_ABSENT;
  if (same_text(key, moonpad_text("x")) || same_text(key, moonpad_text("user:x"))) {
    found_value(value, MOONPAD_STRING, state->mark);
  } else if (same_text(key, moonpad_text("list"))) {
    found_value(value, MOONPAD_ARRAY, "[1,[2,\"{x}\"],{\"a\":null}]");
  } else if (same_text(key, moonpad_text("profile"))) {
    found_value(value, MOONPAD_OBJECT, "{\"address\":{\"city\":\"Ulm\",\"zip\":89073}}");
  } else if (same_text(key, moonpad_text("n"))) {
    value->type = MOONPAD_INTEGER;
    value->as.integer = INT64_MIN;
  } else if (same_text(key, moonpad_text("nothing"))) {
    value->type = MOONPAD_NULL;
  } else if (begins_with(key, ARTIFACT)) {
    state->artifacts++;
    if (begins_with(key, ARTIFACT "f")) found_value(value, MOONPAD_STRING, state->mark);
  }
  return true;
}

static bool count_file(void *context, moonpad_string file) {
  HOLDS(file.length != 0);
  ++*(size_t *)context;
  return true;
}

typedef struct input {
  mp_env *env;
  moonpad_template_options options;
  moonpad_string source;
} input;

static moonpad_status render(const input *input, moonpad_string source, state *state, mp_buffer *out,
                             moonpad_error *error) {
  return mp_template_render(input->env, source, &input->options, look_up, state, out, error);
}

static bool has(moonpad_string text, char byte) {
  return text.length != 0 && memchr(text.data, byte, text.length) != NULL;
}

static bool has_text(moonpad_string text, const char *part) {
  size_t length = strlen(part);
  for (size_t i = 0; i + length <= text.length; i++) {
    if (memcmp(text.data + i, part, length) == 0) return true;
  }
  return false;
}

/* With another value in the same places the rest is the same. */
static void expect_one_pass(const input *input, moonpad_string rendered) {
  if (has(input->source, BLANK[0])) return;
  state blank = {BLANK, 0, 0};
  mp_buffer out, filled;
  mp_buffer_init(&out, input->env);
  mp_buffer_init(&filled, input->env);
  HOLDS(render(input, input->source, &blank, &out, NULL) == MOONPAD_OK);
  for (size_t i = 0; i < out.length; i++) {
    if (out.data[i] == BLANK[0]) {
      mp_buffer_add_literal(&filled, MARK);
    } else {
      mp_buffer_add_char(&filled, out.data[i]);
    }
  }
  HOLDS(same_text(mp_buffer_text(&filled), rendered));
  mp_buffer_free(&out);
  mp_buffer_free(&filled);
}

/*
** Halves with something between them that is part of no placeholder. A closing tag counts for the
** whole template, and file names may hold anything.
*/
static void expect_halves(const input *input) {
  moonpad_string source = input->source;
  if (has_text(source, "</") || has_text(source, ARTIFACT)) return;
  size_t half = source.length / 2;
  moonpad_string first = {source.data, half}, second = {source.data + half, source.length - half};
  state state = {MARK, 0, 0};
  mp_buffer joined, apart, whole;
  mp_buffer_init(&joined, input->env);
  mp_buffer_init(&apart, input->env);
  mp_buffer_init(&whole, input->env);
  mp_buffer_add_string(&joined, first);
  mp_buffer_add_char(&joined, SEPARATOR);
  mp_buffer_add_string(&joined, second);
  moonpad_status expected = render(input, first, &state, &apart, NULL);
  mp_buffer_add_char(&apart, SEPARATOR);
  if (expected == MOONPAD_OK) expected = render(input, second, &state, &apart, NULL);
  HOLDS(render(input, mp_buffer_text(&joined), &state, &whole, NULL) == expected);
  if (expected == MOONPAD_OK) HOLDS(same_text(mp_buffer_text(&whole), mp_buffer_text(&apart)));
  mp_buffer_free(&joined);
  mp_buffer_free(&apart);
  mp_buffer_free(&whole);
}

static void expect_rendered(const input *input, const state *seen, moonpad_string rendered) {
  moonpad_string source = input->source;
  bool has_braces = input->options.syntax != MOONPAD_TEMPLATE_ANGLES && has(source, '{');
  bool has_angles = input->options.syntax != MOONPAD_TEMPLATE_BRACES && has(source, '<');
  if (!has_braces && !has_angles) HOLDS(same_text(rendered, source) && seen->lookups == 0);
  if (seen->lookups == 0 && !has(source, '\\')) HOLDS(rendered.length <= source.length);
  size_t files = 0;
  HOLDS(mp_template_artifacts(source, &input->options, count_file, &files) == MOONPAD_OK);
  HOLDS(files == seen->artifacts);
  moonpad_buffer public = {0};
  state again = {MARK, 0, 0};
  HOLDS(moonpad_render(source, &input->options, look_up, &again, &public, NULL) == MOONPAD_OK);
  moonpad_string text = {public.data, public.length};
  HOLDS(same_text(text, rendered) && again.lookups == seen->lookups);
  moonpad_buffer_free(&public);
  expect_one_pass(input, rendered);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mp_env *env;
  if (env == NULL) {
    moonpad_options defaults;
    moonpad_options_init(&defaults);
    env = mp_env_new(&defaults);
  }
  if (size == 0) return 0;
  input input = {.env = env, .source = input_text(data + 1, size - 1)};
  moonpad_template_options_init(&input.options);
  input.options.syntax = (moonpad_template_syntax)(data[0] % 3);
  input.options.agent_name = moonpad_text("A");
  moonpad_error error = {MOONPAD_OK, ""};
  state state = {MARK, 0, 0};
  mp_buffer out;
  mp_buffer_init(&out, env);
  moonpad_status status = render(&input, input.source, &state, &out, &error);
  if (status == MOONPAD_OK) {
    expect_rendered(&input, &state, mp_buffer_text(&out));
  } else {
    expect_error(&error, status, MOONPAD_TEMPLATE, MOONPAD_INVALID_ARGUMENT);
    HOLDS(out.length == 0);
  }
  expect_halves(&input);
  mp_buffer_free(&out);
  return 0;
}
