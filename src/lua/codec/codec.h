/*
** Lua values to JSON text and back, exactly, in one pass (contract 1.2).
**
** Belongs here: values, deep copies and events as Lua tables and as text.
** Does not belong here: proxies themselves (lua/objects), where a text comes from or goes to.
** Arrows: to base and src/core; event -> encode, trusted; decode -> encode, trusted; encode ->
** spans -> encoder.
*/
#ifndef MP_LUA_CODEC_CODEC_H
#define MP_LUA_CODEC_CODEC_H

#include "lua/base/binding.h"

/* ---- Lua to JSON ---- */

/* Where a value is to stand: how the path in a message begins. */
typedef enum mp_value_path_kind {
  MP_VALUE_PATH_NAMED,       /* `name` is a C name: value.run */
  MP_VALUE_PATH_STATE,       /* a table of state keys: state["cart"].run */
  MP_VALUE_PATH_KEY,         /* state[name] */
  MP_VALUE_PATH_APPENDED,    /* an item of the array state[name] */
  MP_VALUE_PATH_NODE_MEMBER, /* node[name] */
  MP_VALUE_PATH_NODE_ITEM    /* node[index] */
} mp_value_path_kind;

typedef struct mp_value_path {
  mp_value_path_kind kind;
  moonpad_string name;
  mp_node *node;
  int64_t index;
} mp_value_path;

static inline mp_value_path mp_value_path_named(const char *name) {
  return (mp_value_path){MP_VALUE_PATH_NAMED, moonpad_text(name), NULL, 0};
}
static inline mp_value_path mp_value_path_state(void) {
  return (mp_value_path){MP_VALUE_PATH_STATE, {NULL, 0}, NULL, 0};
}
static inline mp_value_path mp_value_path_key(moonpad_string key) {
  return (mp_value_path){MP_VALUE_PATH_KEY, key, NULL, 0};
}
static inline mp_value_path mp_value_path_appended(moonpad_string key) {
  return (mp_value_path){MP_VALUE_PATH_APPENDED, key, NULL, 0};
}
static inline mp_value_path mp_value_path_member(mp_node *node, moonpad_string key) {
  return (mp_value_path){MP_VALUE_PATH_NODE_MEMBER, key, node, 0};
}
static inline mp_value_path mp_value_path_item(mp_node *node, int64_t index) {
  return (mp_value_path){MP_VALUE_PATH_NODE_ITEM, {NULL, 0}, node, index};
}

/* What is being written. */
typedef enum mp_encode_kind {
  MP_ENCODE_JSON,  /* moonpad.json.encode */
  MP_ENCODE_VALUE, /* a state value, or a table of them */
  /*
  ** a table of state values in which moonpad.removed deletes: such keys are left out and noted
  ** in binding->removed_keys
  */
  MP_ENCODE_SHARED,
  /*
  ** an event: moonpad.removed in actions.stateDelta is null plus removedStateKeys; `revision` is
  ** left out
  */
  MP_ENCODE_EVENT,
  MP_ENCODE_SHOWN_EVENT /* the same for moonpad.json.encode: with `revision` */
} mp_encode_kind;

/*
** What the text will be measured against where it is going: maxValueBytes, or maxEventBytes of
** an event. Encoding stops at a few times that, since a few tables that hold each other often are a
** text without end. What goes to no service has a fixed limit.
*/
#define MP_LIMIT_NONE INT64_C(0)
#define MP_LIMIT_TEXT INT64_C(-1) /* MP_TEXT_MOST; beyond it is invalid_argument */
#define MP_TEXT_MOST  ((size_t)256 * 1024 * 1024)

/*
** So many tables a copy may hold, each counted wherever it stands: a few that hold each other
** often are a tree without end, and as tables of Lua they take far more memory than as text.
*/
#define MP_COPY_TABLES 1000000

/*
** Appends the JSON text of the value at `index` to `out`. Calls no Lua code, runs no finalizer,
** raises nothing: what it wrote to binding->text is safe until the caller next calls Lua. Errors:
** invalid_argument naming the path, limit, no_memory. Raises -.
*/
moonpad_status mp_encode(lua_State *L, mp_lua *binding, int index, mp_value_path path, mp_encode_kind kind,
                         int64_t limit, mp_buffer *out, moonpad_type *type, moonpad_error *error);

/*
** The value at `index` (not nil) as a counted value of `env`: scalars without any text in between.
** One reference for the caller. Raises -.
*/
moonpad_status mp_encode_value(lua_State *L, mp_lua *binding, int index, mp_value_path path, mp_env *env, int64_t limit,
                               mp_value **value, moonpad_error *error);

/* ---- JSON to Lua ---- */

/*
** Pushes the value of JSON text that this library wrote; tells whether there is a null in it. The
** text must not move meanwhile. Raises e.
*/
bool mp_decode_trusted(lua_State *L, mp_lua *binding, moonpad_string text);
/*
** The same of an event's object, with its `revision` (0: without); tells whether there is a member
** removedStateKeys. Raises e.
*/
bool mp_decode_trusted_event(lua_State *L, mp_lua *binding, moonpad_string text, int64_t revision);
/* Pushes a scalar, or what JSON text stands for. Raises e. */
void mp_push_value(lua_State *L, mp_lua *binding, const moonpad_value *value);

/*
** Pushes a deep copy of the value at `index` in which proxies have become tables (moonpad.toTable).
** Raises e.
*/
void mp_push_copy(lua_State *L, mp_lua *binding, int index);

/* Adds functions to the module table at the top. Raises m. */
void mp_codec_module(lua_State *L, int binding_index);

#endif
