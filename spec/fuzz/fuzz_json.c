/*
** The JSON reader. Text that is accepted becomes compact text that says the same, that is
** accepted again unchanged, and that every way of reading agrees on. SQLite judges as well: what
** is accepted is JSON there too, and what is refused is either no JSON there or refused for a
** reason that only moonpad has.
*/
#include <errno.h>
#include <sqlite3.h>

#include "base/utf8.h"
#include "core/event_draft.h"
#include "core/json_compact.h"
#include "core/json_path.h"
#include "core/json_reader.h"
#include "core/json_scan.h"
#include "core/json_trusted.h"
#include "core/value.h"
#include "fuzz.h"

#define DEPTH     128
#define MAX_PATHS 64 /* read by path, of each input */
#define MAX_PATH  512

typedef struct judge {
  mp_env *env;
  sqlite3 *db;
  sqlite3_stmt *valid;
  sqlite3_stmt *text;
} judge;

static judge the_judge(void) {
  static judge made;
  if (made.env == NULL) {
    moonpad_options options;
    moonpad_options_init(&options);
    made.env = mp_env_new(&options);
    HOLDS(sqlite3_open(":memory:", &made.db) == SQLITE_OK);
    HOLDS(sqlite3_prepare_v2(made.db, "SELECT json_valid(?1)", -1, &made.valid, NULL) == SQLITE_OK);
    HOLDS(sqlite3_prepare_v2(made.db, "SELECT json_extract(?1, '$')", -1, &made.text, NULL) == SQLITE_OK);
  }
  return made;
}

/* ---- SQLite's verdict ---- */

static bool sqlite_accepts(const judge *judge, moonpad_string json) {
  sqlite3_bind_text(judge->valid, 1, json.data, (int)json.length, SQLITE_STATIC);
  HOLDS(sqlite3_step(judge->valid) == SQLITE_ROW);
  bool valid = sqlite3_column_int(judge->valid, 0) == 1;
  sqlite3_reset(judge->valid);
  return valid;
}

/*
** SQLite ends a text at a NUL, looks at no UTF-8 and no surrogates, knows no limits, and takes an
** array or object for a key if a string is last in it.
*/
static void expect_reason(const judge *judge, moonpad_string given, const char *message) {
  static const char *const reasons[] = {"nested too deep", "invalid UTF-8",
                                        "surrogate",       "too large for a double",
                                        "duplicate key",   "a key in double quotes was expected"};
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
    if (strstr(message, reasons[i]) != NULL) return;
  }
  if (memchr(given.data, '\0', given.length) != NULL) return;
  if (sqlite_accepts(judge, given)) broken("SQLite takes it, but: %s", message);
}

/* A string by itself: SQLite finds the same characters. It ends one at \u0000. */
static void expect_characters(const judge *judge, const mp_value *value, moonpad_string json) {
  moonpad_string own = value->as.as.text;
  if (own.length != 0 && memchr(own.data, '\0', own.length) != NULL) return;
  sqlite3_bind_text(judge->text, 1, json.data, (int)json.length, SQLITE_STATIC);
  HOLDS(sqlite3_step(judge->text) == SQLITE_ROW);
  moonpad_string theirs = {(const char *)sqlite3_column_text(judge->text, 0), 0};
  theirs.length = (size_t)sqlite3_column_bytes(judge->text, 0);
  HOLDS(same_text(own, theirs));
  sqlite3_reset(judge->text);
}

/* ---- The same tokens in what was given and in what was made of it ---- */

static void expect_same_number(const mp_json_reader *given, const mp_json_reader *compact, mp_json_token token) {
  const char *digits = given->text + given->token_position;
  if (token == MP_JSON_INTEGER) {
    errno = 0;
    HOLDS(given->integer == compact->integer && given->integer == strtoll(digits, NULL, 10) && errno == 0);
  } else {
    double expected = strtod(digits, NULL);
    HOLDS(memcmp(&given->number, &expected, sizeof expected) == 0);
    HOLDS(memcmp(&given->number, &compact->number, sizeof expected) == 0);
  }
}

/* Both texts end with a NUL, for strtod. */
static void expect_same_tokens(mp_env *env, moonpad_string given_text, moonpad_string compact_text) {
  mp_json_reader given, compact;
  mp_json_reader_init(&given, env, given_text, DEPTH);
  mp_json_reader_init(&compact, env, compact_text, DEPTH);
  mp_json_token token;
  do {
    token = mp_json_next(&given);
    HOLDS(token != MP_JSON_ERROR && token == mp_json_next(&compact) && given.depth == compact.depth);
    if (token == MP_JSON_KEY || token == MP_JSON_STRING) HOLDS(same_text(given.string, compact.string));
    if (token == MP_JSON_INTEGER || token == MP_JSON_FLOAT) expect_same_number(&given, &compact, token);
  } while (token != MP_JSON_END);
  HOLDS(compact.depth == 0);
  mp_json_reader_free(&given);
  mp_json_reader_free(&compact);
}

/* ---- Every value, found by walking, is found by its path ---- */

typedef struct path_walk {
  mp_env *env;
  mp_value *root;
  mp_buffer scratch;
  size_t left;
  char path[MAX_PATH];
} path_walk;

static void expect_path(path_walk *walk, size_t length, moonpad_string json) {
  moonpad_value found;
  moonpad_string path = {walk->path, length};
  mp_buffer written;
  mp_buffer_init(&written, walk->env);
  HOLDS(mp_json_get(walk->env, &walk->root->as, path, &walk->scratch, &found, NULL) == MOONPAD_OK);
  mp_value_write_borrowed(&written, &found);
  HOLDS(same_text(mp_buffer_text(&written), json));
  mp_buffer_free(&written);
}

static void expect_paths_below(path_walk *walk, size_t length, moonpad_string json);

static void expect_items(path_walk *walk, size_t length, moonpad_string array) {
  int index = 0;
  mp_items items = mp_items_of(array);
  moonpad_string item;
  while (mp_items_next(&items, &item)) {
    int digits = snprintf(walk->path + length, MAX_PATH - length, "[%d]", ++index);
    if (length + (size_t)digits < MAX_PATH) expect_paths_below(walk, length + (size_t)digits, item);
  }
}

/* Names that a path cannot spell are passed by. */
static void expect_members(path_walk *walk, size_t length, moonpad_string object) {
  mp_members members = mp_members_of(object);
  moonpad_string key, value, name;
  while (mp_members_next(&members, &key, &value)) {
    HOLDS(mp_literal_text(key, &walk->scratch, &name));
    bool is_plain = name.length != 0;
    for (size_t i = 0; i < name.length; i++) is_plain = is_plain && strchr(".[]", name.data[i]) == NULL;
    if (!is_plain || length + 1 + name.length >= MAX_PATH) continue;
    size_t dot = length == 0 ? 0 : 1;
    if (dot == 1) walk->path[length] = '.';
    memcpy(walk->path + length + dot, name.data, name.length);
    expect_paths_below(walk, length + dot + name.length, value);
  }
}

static void expect_paths_below(path_walk *walk, size_t length, moonpad_string json) {
  if (walk->left == 0) return;
  walk->left--;
  if (length != 0) expect_path(walk, length, json);
  if (json.data[0] == '{') expect_members(walk, length, json);
  if (json.data[0] == '[') expect_items(walk, length, json);
}

static void expect_paths(mp_env *env, mp_value *root, moonpad_string json) {
  path_walk walk = {.env = env, .root = root, .left = MAX_PATHS};
  mp_buffer_init(&walk.scratch, env);
  expect_paths_below(&walk, 0, json);
  mp_buffer_free(&walk.scratch);
}

/* Any text may be asked for a place without being checked first. */
static void read_unchecked(moonpad_string given, bool accepted) {
  static const char *const paths[] = {"", "a", "[1]", "a.b[2].c"};
  moonpad_buffer scratch = {0};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    moonpad_value value;
    moonpad_error error = {MOONPAD_OK, ""};
    moonpad_status status = moonpad_json_read(given, moonpad_text(paths[i]), &scratch, &value, &error);
    if (status == MOONPAD_OK) continue;
    expect_error(&error, status, MOONPAD_INVALID_ARGUMENT, MOONPAD_INVALID_ARGUMENT);
    HOLDS(!accepted && value.type == MOONPAD_ABSENT);
  }
  moonpad_buffer_free(&scratch);
}

/* ---- Text of the host's ---- */

/* Any text becomes a string that is the text again, or it is no UTF-8. */
static void expect_string(moonpad_string given) {
  moonpad_buffer json, scratch = {0};
  moonpad_value value;
  bool is_text = mp_utf8_valid_prefix(given.data, given.length) == given.length;
  HOLDS(moonpad_json_string(given, &json, NULL) == (is_text ? MOONPAD_OK : MOONPAD_INVALID_ARGUMENT));
  HOLDS((json.data != NULL) == is_text);
  if (!is_text) return;
  moonpad_string written = {json.data, json.length};
  HOLDS(moonpad_json_read(written, moonpad_text(""), &scratch, &value, NULL) == MOONPAD_OK);
  HOLDS(value.type == MOONPAD_STRING && same_text(value.as.text, given));
  moonpad_buffer_free(&json);
  moonpad_buffer_free(&scratch);
}

/* ---- Compact text ---- */

static void expect_written(mp_env *env, mp_value *value, moonpad_string json) {
  mp_buffer written;
  mp_buffer_init(&written, env);
  mp_value_write(&written, value);
  HOLDS(same_text(mp_buffer_text(&written), json));
  mp_buffer_free(&written);
}

static void expect_same_again(mp_env *env, moonpad_string json, moonpad_type type) {
  mp_buffer again;
  moonpad_type type_again;
  mp_buffer_init(&again, env);
  HOLDS(mp_json_compact(env, json, DEPTH, NULL, &again, &type_again, NULL) == MOONPAD_OK);
  HOLDS(type == type_again && same_text(mp_buffer_text(&again), json));
  HOLDS(mp_json_digest(mp_buffer_text(&again)) == mp_json_digest(json));
  mp_buffer_free(&again);
}

static void expect_value(const judge *judge, moonpad_string json, moonpad_type type) {
  mp_value *value, *own = mp_value_from_trusted_json(judge->env, json);
  HOLDS(mp_value_parse(judge->env, json, NULL, &value, NULL) == MOONPAD_OK);
  HOLDS(value->as.type == type && own->as.type == type);
  expect_written(judge->env, value, json);
  expect_written(judge->env, own, json);
  if (type == MOONPAD_STRING) expect_characters(judge, value, json);
  expect_paths(judge->env, value, json);
  mp_value_release(judge->env, value);
  mp_value_release(judge->env, own);
}

static void expect_accepted(const judge *judge, moonpad_string given, moonpad_string json, moonpad_type type) {
  if (type == MOONPAD_OBJECT || type == MOONPAD_ARRAY) HOLDS(mp_json_trusted_end(json.data, 0) == json.length);
  HOLDS(mp_scan_check(json));
  HOLDS(sqlite_accepts(judge, given) && sqlite_accepts(judge, json));
  expect_same_tokens(judge->env, given, json);
  expect_same_again(judge->env, json, type);
  expect_value(judge, json, type);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  judge judge = the_judge();
  mp_buffer given, out;
  moonpad_type type;
  moonpad_error error = {MOONPAD_OK, ""};
  /* of exactly this size: a byte too many that is read is seen */
  moonpad_string text = input_text(data, size);
  mp_buffer_init(&out, judge.env);
  moonpad_status status = mp_json_compact(judge.env, text, DEPTH, "input", &out, &type, &error);
  if (status == MOONPAD_OK) {
    mp_buffer_init(&given, judge.env);
    mp_buffer_add_string(&given, text);
    mp_buffer_add_char(&given, '\0');
    mp_buffer_add_char(&out, '\0');
    moonpad_string ended = {given.data, size}, json = {out.data, out.length - 1};
    expect_accepted(&judge, ended, json, type);
    mp_buffer_free(&given);
  } else {
    expect_error(&error, status, MOONPAD_INVALID_ARGUMENT, MOONPAD_INVALID_ARGUMENT);
    expect_reason(&judge, text, error.message);
  }
  read_unchecked(text, status == MOONPAD_OK);
  expect_string(text);
  mp_buffer_free(&out);
  return 0;
}
