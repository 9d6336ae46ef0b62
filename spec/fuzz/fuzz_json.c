/*
** The JSON reader: text that is accepted becomes compact text that is accepted again unchanged, that every way of reading agrees on, and that SQLite takes for JSON too.
*/
#include <sqlite3.h>

#include "core/event.h"
#include "core/json.h"
#include "core/json_path.h"
#include "core/value.h"
#include "fuzz.h"

#define DEPTH 128

typedef struct judge {
  mp_env *env;
  sqlite3 *db;
  sqlite3_stmt *valid;
} judge;

static judge the_judge(void) {
  static judge made;
  if (made.env == NULL) {
    moonpad_options options;
    moonpad_options_init(&options);
    made.env = mp_env_new(&options);
    HOLDS(sqlite3_open(":memory:", &made.db) == SQLITE_OK);
    HOLDS(sqlite3_prepare_v2(made.db, "SELECT json_valid(?1)", -1, &made.valid, NULL) == SQLITE_OK);
  }
  return made;
}

static void expect_sqlite_agrees(const judge *judge, moonpad_string json) {
  sqlite3_bind_text(judge->valid, 1, json.data, (int)json.length, SQLITE_STATIC);
  HOLDS(sqlite3_step(judge->valid) == SQLITE_ROW);
  HOLDS(sqlite3_column_int(judge->valid, 0) == 1);
  sqlite3_reset(judge->valid);
}

/* Every member, found by walking, is found by its name too, and is JSON itself. */
static void expect_members(mp_env *env, moonpad_string object) {
  mp_members members = mp_members_of(object);
  moonpad_string key, value;
  while (mp_members_next(&members, &key, &value)) {
    mp_buffer again, scratch;
    moonpad_type type;
    moonpad_string name;
    mp_buffer_init(&again, env);
    mp_buffer_init(&scratch, env);
    HOLDS(mp_json_compact(env, value, DEPTH, NULL, &again, &type, NULL) == MOONPAD_OK);
    HOLDS(same_text(mp_buffer_text(&again), value));
    HOLDS(mp_literal_text(key, &scratch, &name));
    mp_buffer_free(&again);
    mp_buffer_free(&scratch);
  }
}

static void expect_tokens(mp_env *env, moonpad_string json) {
  mp_json_reader reader;
  mp_json_reader_init(&reader, env, json, DEPTH);
  mp_json_token token;
  int depth = 0;
  do {
    token = mp_json_next(&reader);
    HOLDS(token != MP_JSON_ERROR);
    if (token == MP_JSON_OBJECT_BEGIN || token == MP_JSON_ARRAY_BEGIN) depth++;
    if (token == MP_JSON_OBJECT_END || token == MP_JSON_ARRAY_END) depth--;
  } while (token != MP_JSON_END);
  HOLDS(depth == 0);
  mp_json_reader_free(&reader);
}

static void expect_same_again(mp_env *env, moonpad_string json, moonpad_type type) {
  mp_buffer again;
  moonpad_type type_again;
  mp_value *value;
  mp_buffer_init(&again, env);
  HOLDS(mp_json_compact(env, json, DEPTH, NULL, &again, &type_again, NULL) == MOONPAD_OK);
  HOLDS(type == type_again && same_text(mp_buffer_text(&again), json));
  mp_buffer_clear(&again);
  HOLDS(mp_value_parse(env, json, NULL, &value, NULL) == MOONPAD_OK);
  HOLDS(value->as.type == type);
  mp_value_write(&again, value);
  HOLDS(same_text(mp_buffer_text(&again), json));
  mp_value_release(env, value);
  value = mp_value_from_own_json(env, json);
  mp_buffer_clear(&again);
  mp_value_write(&again, value);
  HOLDS(same_text(mp_buffer_text(&again), json));
  mp_value_release(env, value);
  mp_buffer_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  judge judge = the_judge();
  mp_buffer out;
  moonpad_type type;
  moonpad_error error = {MOONPAD_OK, ""};
  mp_buffer_init(&out, judge.env);
  moonpad_status status = mp_json_compact(judge.env, input_text(data, size), DEPTH, "input", &out, &type, &error);
  if (status == MOONPAD_OK) {
    moonpad_string json = mp_buffer_text(&out);
    if (type == MOONPAD_OBJECT || type == MOONPAD_ARRAY) HOLDS(mp_json_own_end(json.data, 0) == json.length);
    expect_same_again(judge.env, json, type);
    expect_tokens(judge.env, json);
    expect_sqlite_agrees(&judge, json);
    HOLDS(mp_json_digest(json) == mp_json_digest(json));
    if (type == MOONPAD_OBJECT) expect_members(judge.env, json);
  } else {
    expect_error(&error, status, MOONPAD_INVALID_ARGUMENT, MOONPAD_INVALID_ARGUMENT);
  }
  mp_buffer_free(&out);
  return 0;
}
