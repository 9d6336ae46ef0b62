/* The strict pull reader of JSON. Its stack is one bool for each open array or object. */
#include "core/json_reader.h"

#include "base/error.h"
#include "base/utf8.h"
#include "core/json_lex.h"

enum { EXPECT_VALUE = 0, EXPECT_FIRST_ITEM, EXPECT_FIRST_KEY, EXPECT_AFTER, EXPECT_NOTHING };

static const char problem_no_memory[] = "out of memory";
static const char problem_too_deep[] = "nested too deep";

void mp_json_reader_init(mp_json_reader *reader, mp_env *env, moonpad_string text, unsigned max_depth) {
  reader->text = text.length == 0 ? "" : text.data;
  reader->length = text.length;
  reader->position = 0;
  reader->token_position = 0;
  reader->depth = 0;
  reader->max_depth = max_depth < MP_JSON_DEPTH_LIMIT ? max_depth : MP_JSON_DEPTH_LIMIT;
  reader->expecting = EXPECT_VALUE;
  reader->string.data = "";
  reader->string.length = 0;
  reader->integer = 0;
  reader->number = 0.0;
  mp_buffer_init(&reader->scratch, env);
  reader->problem = NULL;
}

void mp_json_reader_free(mp_json_reader *reader) {
  mp_buffer_free(&reader->scratch);
}

static mp_json_token fail_at(mp_json_reader *reader, size_t position, const char *problem) {
  reader->position = position;
  reader->problem = problem;
  reader->expecting = EXPECT_NOTHING;
  return MP_JSON_ERROR;
}

static bool at_end(const mp_json_reader *reader) {
  return reader->position >= reader->length;
}

/* The next byte; -1 at the end. */
static int peek(const mp_json_reader *reader) {
  return at_end(reader) ? -1 : (unsigned char)reader->text[reader->position];
}

static void skip_white_space(mp_json_reader *reader) {
  size_t position = reader->position;
  while (position < reader->length) {
    char byte = reader->text[position];
    if ((unsigned char)byte > ' ' || (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t')) break;
    position++;
  }
  reader->position = position;
}

static mp_json_token fail_here(mp_json_reader *reader, const char *problem) {
  return fail_at(reader, reader->position, at_end(reader) ? "the text ends too early" : problem);
}

/* ---- strings ---- */

/* Checks the UTF-8 of the span from `begin` to `end`, which has no special byte. */
static bool check_span(mp_json_reader *reader, size_t begin, size_t end, uint64_t non_ascii) {
  if (!mp_json_has_non_ascii(non_ascii)) return true;
  size_t valid = mp_utf8_valid_prefix(reader->text + begin, end - begin);
  if (valid == end - begin) return true;
  fail_at(reader, begin + valid, "invalid UTF-8");
  return false;
}

/* At a backslash. */
static bool read_escape(mp_json_reader *reader) {
  const char *at = reader->text + reader->position;
  uint32_t code;
  char bytes[4];
  const char *problem = mp_json_escape(&at, reader->text + reader->length, &code);
  reader->position = (size_t)(at - reader->text);
  if (problem != NULL) return fail_at(reader, reader->position, problem), false;
  mp_buffer_add(&reader->scratch, bytes, mp_utf8_encode(code, bytes));
  return true;
}

/*
** Decodes a string with escapes to `scratch`. Its first span, from `begin` to the position, is read
** already.
*/
static bool read_escaped_string(mp_json_reader *reader, size_t begin) {
  mp_buffer_clear(&reader->scratch);
  for (;;) {
    mp_buffer_add(&reader->scratch, reader->text + begin, reader->position - begin);
    int byte = peek(reader);
    if (byte == '"') break;
    if (byte != '\\') {
      fail_at(reader, reader->position, byte < 0 ? "the text ends inside a string" : "a control character in a string");
      return false;
    }
    if (!read_escape(reader)) return false;
    begin = reader->position;
    uint64_t non_ascii = 0;
    reader->position = mp_json_plain_end(reader->text, begin, reader->length, &non_ascii);
    if (!check_span(reader, begin, reader->position, non_ascii)) return false;
  }
  if (reader->scratch.failed) return fail_at(reader, reader->position, problem_no_memory), false;
  reader->string = mp_buffer_text(&reader->scratch);
  return true;
}

/* At the opening quote. The decoded characters are in reader->string. */
static bool read_string(mp_json_reader *reader) {
  size_t begin = reader->position + 1;
  uint64_t non_ascii = 0;
  reader->position = mp_json_plain_end(reader->text, begin, reader->length, &non_ascii);
  if (!check_span(reader, begin, reader->position, non_ascii)) return false;
  if (peek(reader) == '"') {
    reader->string.data = reader->text + begin;
    reader->string.length = reader->position - begin;
  } else if (!read_escaped_string(reader, begin)) {
    return false;
  }
  reader->position++;
  return true;
}

/* ---- other values ---- */

static mp_json_token read_number_token(mp_json_reader *reader) {
  mp_number_text number;
  size_t begin = reader->position;
  bool valid = mp_json_scan_number(reader->text + begin, reader->text + reader->length, &number);
  reader->position = (size_t)(number.end - reader->text);
  if (!valid)
    return fail_here(reader, mp_is_digit(peek(reader)) ? "a number with a leading zero" : "a digit was expected");
  moonpad_value value = mp_json_number(&number);
  if (value.type == MOONPAD_ABSENT) return fail_at(reader, begin, "a number too large for a double");
  reader->expecting = EXPECT_AFTER;
  if (value.type == MOONPAD_FLOAT) {
    reader->number = value.as.number;
    return MP_JSON_FLOAT;
  }
  reader->integer = value.as.integer;
  return MP_JSON_INTEGER;
}

static mp_json_token read_word_token(mp_json_reader *reader, const char *word, size_t length, mp_json_token token) {
  if (reader->length - reader->position < length || memcmp(reader->text + reader->position, word, length) != 0) {
    return fail_at(reader, reader->position, "a value was expected");
  }
  reader->position += length;
  reader->expecting = EXPECT_AFTER;
  return token;
}

static mp_json_token begin_container(mp_json_reader *reader, bool is_array) {
  if (reader->depth >= reader->max_depth) return fail_at(reader, reader->position, problem_too_deep);
  reader->in_array[reader->depth++] = is_array;
  reader->position++;
  reader->expecting = is_array ? EXPECT_FIRST_ITEM : EXPECT_FIRST_KEY;
  return is_array ? MP_JSON_ARRAY_BEGIN : MP_JSON_OBJECT_BEGIN;
}

static mp_json_token end_container(mp_json_reader *reader) {
  bool is_array = reader->in_array[--reader->depth];
  reader->position++;
  reader->expecting = EXPECT_AFTER;
  return is_array ? MP_JSON_ARRAY_END : MP_JSON_OBJECT_END;
}

static mp_json_token fail_on_value(mp_json_reader *reader) {
  bool at_mark = reader->position == 0 && reader->length >= 3 && memcmp(reader->text, "\xEF\xBB\xBF", 3) == 0;
  return fail_here(reader, at_mark ? "a byte order mark" : "a value was expected");
}

static mp_json_token read_value_token(mp_json_reader *reader) {
  reader->token_position = reader->position;
  int byte = peek(reader);
  switch (byte) {
  case '"':
    if (!read_string(reader)) return MP_JSON_ERROR;
    reader->expecting = EXPECT_AFTER;
    return MP_JSON_STRING;
  case '{':
    return begin_container(reader, false);
  case '[':
    return begin_container(reader, true);
  case 't':
    return read_word_token(reader, "true", 4, MP_JSON_TRUE);
  case 'f':
    return read_word_token(reader, "false", 5, MP_JSON_FALSE);
  case 'n':
    return read_word_token(reader, "null", 4, MP_JSON_NULL);
  default:
    return byte == '-' || mp_is_digit(byte) ? read_number_token(reader) : fail_on_value(reader);
  }
}

/* A key and the colon after it. */
static mp_json_token read_key_token(mp_json_reader *reader) {
  reader->token_position = reader->position;
  if (peek(reader) != '"') return fail_here(reader, "a key in double quotes was expected");
  if (!read_string(reader)) return MP_JSON_ERROR;
  skip_white_space(reader);
  if (peek(reader) != ':') return fail_here(reader, "':' was expected");
  reader->position++;
  reader->expecting = EXPECT_VALUE;
  return MP_JSON_KEY;
}

static mp_json_token read_after(mp_json_reader *reader) {
  reader->token_position = reader->position;
  int byte = peek(reader);
  if (reader->depth == 0) {
    return byte < 0 ? MP_JSON_END : fail_at(reader, reader->position, "text after the end of the value");
  }
  bool is_array = reader->in_array[reader->depth - 1];
  if (byte == (is_array ? ']' : '}')) return end_container(reader);
  if (byte != ',') return fail_here(reader, is_array ? "',' or ']' was expected" : "',' or '}' was expected");
  reader->position++;
  skip_white_space(reader);
  return is_array ? read_value_token(reader) : read_key_token(reader);
}

mp_json_token mp_json_next(mp_json_reader *reader) {
  if (reader->expecting == EXPECT_NOTHING) return MP_JSON_ERROR;
  skip_white_space(reader);
  switch (reader->expecting) {
  case EXPECT_AFTER:
    return read_after(reader);
  case EXPECT_FIRST_ITEM:
    if (peek(reader) != ']') return read_value_token(reader);
    break;
  case EXPECT_FIRST_KEY:
    if (peek(reader) != '}') return read_key_token(reader);
    break;
  default:
    return read_value_token(reader);
  }
  reader->token_position = reader->position;
  return end_container(reader);
}

bool mp_json_skip(mp_json_reader *reader, mp_json_token token) {
  if (token == MP_JSON_ERROR) return false;
  if (token != MP_JSON_ARRAY_BEGIN && token != MP_JSON_OBJECT_BEGIN) return true;
  unsigned outside = reader->depth - 1;
  while (reader->depth > outside) {
    if (mp_json_next(reader) == MP_JSON_ERROR) return false;
  }
  return true;
}

moonpad_status mp_json_fail(const mp_json_reader *reader, const char *where, moonpad_error *error) {
  if (reader->problem == problem_no_memory) return mp_no_memory(error);
  if (reader->problem == problem_too_deep) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s%snested deeper than %u at byte %zu", where == NULL ? "" : where,
                   where == NULL ? "" : ": ", reader->max_depth, reader->position + 1);
  }
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s%s%s at byte %zu", where == NULL ? "" : where,
                 where == NULL ? "" : ": ", reader->problem, reader->position + 1);
}
