/*
** Rendering instruction templates (contract 4.1): looking up the value of each placeholder that
** template_scan.c finds, and saying what is missing.
*/
#include "core/template.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/options.h"
#include "core/json_path.h"
#include "core/json_write.h"
#include "core/template_scan.h"

#define POSITION_BYTES 700 /* two quoted names and some words */

typedef struct renderer {
  mp_env *env;
  moonpad_string source;
  moonpad_template_options options;
  moonpad_template_lookup lookup;
  void *context;
  mp_buffer *out;
  mp_buffer scratch; /* for nested strings with escapes */
  moonpad_error *error;
} renderer;

/* ---- messages ---- */

/* As mp_quote but without the quotes: shows a placeholder as the user writes it. */
static mp_quoted unquoted(moonpad_string text) {
  mp_quoted quoted = mp_quote(text);
  size_t length = strlen(quoted.text);
  memmove(quoted.text, quoted.text + 1, length - 2);
  quoted.text[length - 2] = '\0';
  return quoted;
}

/* Both count from 1; columns are characters. */
static void locate(moonpad_string source, size_t position, size_t *line, size_t *column) {
  *line = *column = 1;
  for (size_t i = 0; i < position; i++) {
    if (source.data[i] == '\n') {
      *line += 1;
      *column = 1;
    } else if (((unsigned char)source.data[i] & 0xC0u) != 0x80u) {
      *column += 1;
    }
  }
}

/* "{topic} at line 1, column 5 of the instruction of agent "greeter"" */
static void describe_position(const renderer *render, const mp_placeholder *at, char *out, size_t size) {
  moonpad_string agent = render->options.agent_name;
  size_t line, column;
  locate(render->source, at->begin, &line, &column);
  snprintf(out, size, "%c%s%c at line %zu, column %zu of the %s%s", at->angles ? '<' : '{', unquoted(at->key).text,
           at->angles ? '>' : '}', line, column, agent.length != 0 ? "instruction of agent " : "template",
           agent.length != 0 ? mp_quote(agent).text : "");
}

static moonpad_status fail_missing(const renderer *render, const mp_placeholder *at, const char *what) {
  char position[POSITION_BYTES];
  mp_quoted key = unquoted(at->key);
  char open = at->angles ? '<' : '{', close = at->angles ? '>' : '}';
  describe_position(render, at, position, sizeof position);
  return mp_fail(render->error, MOONPAD_TEMPLATE,
                 "%s: %s; %s it, write %c%s?%c if it may be missing, or \\%c%s%c to have it as text", position, what,
                 at->artifact ? "save" : "set", open, key.text, close, open, key.text, close);
}

static moonpad_status fail_missing_root(const renderer *render, const mp_placeholder *at) {
  char what[320];
  if (at->artifact) {
    snprintf(what, sizeof what, "there is no artifact %s", mp_quote(at->file).text);
  } else {
    snprintf(what, sizeof what, "the state has no key %s", mp_quote(at->root).text);
  }
  return fail_missing(render, at, what);
}

/*
** An index of 0, or one with too many digits, is a malformed path for mp_json_get. In a template
** it is a value that is absent.
*/
static moonpad_status walk_value(renderer *render, const moonpad_value *root, moonpad_string path,
                                 moonpad_value *value) {
  mp_path rest = {path};
  mp_path_step step;
  for (bool first = true; mp_path_next(&rest, first, &step); first = false) continue;
  if (rest.rest.length == 0) return mp_json_get(render->env, root, path, &render->scratch, value, render->error);
  *value = moonpad_null_value();
  value->type = MOONPAD_ABSENT;
  return MOONPAD_OK;
}

/* How much of `path` leads to a value. Tries longer and longer parts of it; nesting is limited. */
static moonpad_status measure_path(renderer *render, const moonpad_value *root, moonpad_string path, size_t *reached) {
  mp_path rest = {path};
  mp_path_step step;
  *reached = 0;
  for (bool first = true; mp_path_next(&rest, first, &step); first = false) {
    moonpad_value value;
    moonpad_string part = {path.data, path.length - rest.rest.length};
    moonpad_status status = mp_json_get(render->env, root, part, &render->scratch, &value, render->error);
    if (status != MOONPAD_OK) return status;
    if (value.type == MOONPAD_ABSENT) return MOONPAD_OK;
    *reached = part.length;
  }
  return MOONPAD_OK;
}

static moonpad_status fail_missing_step(renderer *render, const mp_placeholder *at, const moonpad_value *root) {
  size_t reached;
  moonpad_status status = measure_path(render, root, at->path, &reached);
  if (status != MOONPAD_OK) return status;
  const char *end = at->path.data + reached, *key_end = at->key.data + at->key.length;
  moonpad_string parent = at->root;
  if (reached != 0) parent.length = (size_t)(end - at->key.data);
  bool is_index = *end == '[';
  moonpad_string step = {end, 0};
  if (is_index || *end == '.') step.data++;
  while (step.data + step.length < key_end && strchr(".[]", step.data[step.length]) == NULL) step.length++;
  char what[640];
  if (is_index) {
    snprintf(what, sizeof what, "%s has no item %s%s", mp_quote(parent).text, unquoted(step).text,
             step.data[0] == '0' ? " (the first is 1)" : "");
  } else {
    snprintf(what, sizeof what, "%s has no member %s", mp_quote(parent).text, mp_quote(step).text);
  }
  return fail_missing(render, at, what);
}

/* ---- values ---- */

static moonpad_status render_float(const renderer *render, const mp_placeholder *at, double number) {
  if (!isfinite(number)) {
    char position[POSITION_BYTES];
    describe_position(render, at, position, sizeof position);
    return mp_fail(render->error, MOONPAD_INVALID_ARGUMENT, "%s: its value is not a finite number", position);
  }
  mp_json_write_float(render->out, number);
  return MOONPAD_OK;
}

static moonpad_status render_value(const renderer *render, const mp_placeholder *at, const moonpad_value *value) {
  switch (value->type) {
  case MOONPAD_BOOLEAN:
    mp_buffer_add_string(render->out, moonpad_text(value->as.boolean ? "true" : "false"));
    return MOONPAD_OK;
  case MOONPAD_INTEGER:
    mp_json_write_integer(render->out, value->as.integer);
    return MOONPAD_OK;
  case MOONPAD_FLOAT:
    return render_float(render, at, value->as.number);
  case MOONPAD_STRING:
  case MOONPAD_ARRAY:
  case MOONPAD_OBJECT:
    mp_buffer_add_string(render->out, value->as.text);
    return MOONPAD_OK;
  default:
    /* Absent (and optional) or null: empty. */
    return MOONPAD_OK;
  }
}

static moonpad_status look_up_root(const renderer *render, const mp_placeholder *at, moonpad_value *value) {
  *value = moonpad_null_value();
  value->type = MOONPAD_ABSENT;
  /* no artifact can have an empty name */
  if (at->artifact && at->file.length == 0) return MOONPAD_OK;
  moonpad_error failure;
  failure.code = MOONPAD_OK;
  failure.message[0] = '\0';
  if (render->lookup(render->context, at->root, value, &failure)) return MOONPAD_OK;
  if (failure.code != MOONPAD_OK) {
    if (render->error != NULL) *render->error = failure;
    return failure.code;
  }
  char position[POSITION_BYTES];
  describe_position(render, at, position, sizeof position);
  return mp_fail(render->error, MOONPAD_TEMPLATE, "%s: its value could not be looked up", position);
}

/*
** Prompts are full of markup and code, so some placeholders without a value are text and no
** mistake: a path whose root is absent, and a bare <name> if braces are enabled as the strict form.
*/
static bool is_text_without_root(const renderer *render, const mp_placeholder *at) {
  if (at->artifact || render->options.syntax == MOONPAD_TEMPLATE_ANGLES) return false;
  return at->path.length != 0 || (at->angles && !at->prefixed);
}

static void add_source(const renderer *render, size_t begin, size_t end) {
  if (begin != end) mp_buffer_add(render->out, render->source.data + begin, end - begin);
}

static moonpad_status render_placeholder(renderer *render, const mp_placeholder *at) {
  moonpad_value root, value;
  moonpad_status status = look_up_root(render, at, &root);
  if (status != MOONPAD_OK) return status;
  if (root.type == MOONPAD_ABSENT) {
    if (at->optional) return MOONPAD_OK;
    if (!is_text_without_root(render, at)) return fail_missing_root(render, at);
    add_source(render, at->begin, at->end);
    return MOONPAD_OK;
  }
  if (at->path.length == 0) return render_value(render, at, &root);
  status = walk_value(render, &root, at->path, &value);
  if (status != MOONPAD_OK) return status;
  if (value.type == MOONPAD_ABSENT && !at->optional) return fail_missing_step(render, at, &root);
  return render_value(render, at, &value);
}

/* ---- templates ---- */

static moonpad_status render_all(renderer *render) {
  mp_template_scanner scanner;
  mp_placeholder at;
  mp_template_found found;
  moonpad_status status = MOONPAD_OK;
  size_t done = 0;
  mp_template_scanner_init(&scanner, render->env, render->source, render->options.syntax);
  while (status == MOONPAD_OK && (found = mp_template_scan(&scanner, &at)) != MP_TEMPLATE_END) {
    if (found == MP_TEMPLATE_NO_MEMORY) {
      status = mp_no_memory(render->error);
      break;
    }
    add_source(render, done, at.escaped ? at.begin - 1 : at.begin);
    if (at.escaped) {
      add_source(render, at.begin, at.end);
    } else {
      status = render_placeholder(render, &at);
    }
    done = at.end;
  }
  mp_template_scanner_free(&scanner);
  add_source(render, done, render->source.length);
  return status;
}

static moonpad_status check_syntax(const moonpad_template_options *options, moonpad_error *error) {
  switch (options->syntax) {
  case MOONPAD_TEMPLATE_BOTH:
  case MOONPAD_TEMPLATE_BRACES:
  case MOONPAD_TEMPLATE_ANGLES:
    return MOONPAD_OK;
  default:
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "template syntax %d: there is no such syntax, use both, braces or angles", (int)options->syntax);
  }
}

moonpad_status mp_template_render(mp_env *env, moonpad_string source, const moonpad_template_options *options,
                                  moonpad_template_lookup lookup, void *context, mp_buffer *out, moonpad_error *error) {
  renderer render = {.env = env, .source = source, .lookup = lookup, .context = context, .out = out, .error = error};
  size_t begin = out->length;
  moonpad_template_options_init(&render.options);
  moonpad_status status =
      mp_take_options("moonpad_template_options", MP_SIZE_UP_TO(moonpad_template_options, agent_name), options,
                      &render.options, sizeof render.options, error);
  if (status == MOONPAD_OK) status = check_syntax(&render.options, error);
  if (status != MOONPAD_OK) return status;
  mp_buffer_init(&render.scratch, env);
  mp_buffer_room(out, source.length);
  status = render_all(&render);
  mp_buffer_free(&render.scratch);
  if (status == MOONPAD_OK && out->failed) status = mp_no_memory(error);
  if (status != MOONPAD_OK) out->length = begin;
  return status;
}

moonpad_status mp_template_artifacts(moonpad_string source, const moonpad_template_options *options,
                                     bool (*found)(void *context, moonpad_string file), void *context) {
  mp_template_scanner scanner;
  mp_placeholder at;
  mp_template_found result;
  mp_env *env = mp_env_new(NULL);
  if (env == NULL) return MOONPAD_NO_MEMORY;
  mp_template_scanner_init(&scanner, env, source, options != NULL ? options->syntax : MOONPAD_TEMPLATE_BOTH);
  while ((result = mp_template_scan(&scanner, &at)) == MP_TEMPLATE_PLACEHOLDER) {
    if (at.artifact && !at.escaped && at.file.length != 0 && !found(context, at.file)) break;
  }
  mp_template_scanner_free(&scanner);
  mp_env_release(env);
  return result == MP_TEMPLATE_NO_MEMORY ? MOONPAD_NO_MEMORY : MOONPAD_OK;
}

moonpad_status moonpad_render(moonpad_string source, const moonpad_template_options *options,
                              moonpad_template_lookup lookup, void *context, moonpad_buffer *result,
                              moonpad_error *error) {
  mp_buffer out;
  memset(result, 0, sizeof *result);
  mp_env *env = mp_env_new(NULL);
  if (env == NULL) return mp_no_memory(error);
  mp_buffer_init(&out, env);
  moonpad_status status = mp_template_render(env, source, options, lookup, context, &out, error);
  if (status == MOONPAD_OK) status = mp_buffer_hand_over(&out, result, error);
  mp_buffer_free(&out);
  mp_env_release(env);
  return status;
}
