/*
** The compactor: reads any valid JSON with the pull reader and writes it in canonical spelling.
** Finds duplicate keys.
*/
#include "core/json_compact.h"

#include "base/error.h"
#include "base/map.h"
#include "core/json_reader.h"
#include "core/json_write.h"

/* Objects of up to this many keys are searched linearly; larger ones get a hash table. */
#define INLINE_KEYS 8

/*
** A key of an open object, as written to the output. That spelling is canonical, so equal keys have
** equal bytes.
*/
typedef struct seen_key {
  uint64_t hash;
  size_t begin;
  size_t length;
} seen_key;

/*
** An open object. Its keys and its hash table are at the top of two stacks: while an inner object
** is open, the outer one gets no keys.
*/
typedef struct open_object {
  size_t first_key;
  size_t first_slot;
  size_t slot_count; /* of its hash table; 0: it has none yet */
} open_object;

typedef struct compactor {
  mp_env *env;
  mp_json_reader reader;
  mp_buffer *out;
  size_t begin; /* where the output starts in `out` */
  seen_key *keys;
  size_t key_count, key_capacity;
  size_t *table; /* the hash tables: 1 + index into `keys`; 0: empty slot */
  size_t table_count, table_capacity;
  open_object objects[MP_JSON_DEPTH_LIMIT];
} compactor;

typedef enum added_key { KEY_ADDED, KEY_KNOWN, KEY_NO_MEMORY } added_key;

static bool same_key(const compactor *work, const seen_key *a, const seen_key *b) {
  return a->hash == b->hash && a->length == b->length &&
         memcmp(work->out->data + a->begin, work->out->data + b->begin, a->length) == 0;
}

static bool is_known_by_search(const compactor *work, const open_object *object, const seen_key *key) {
  for (size_t i = object->first_key; i < work->key_count; i++) {
    if (same_key(work, &work->keys[i], key)) return true;
  }
  return false;
}

/* The slot of the key in the object's hash table, or the empty one where it would be put. */
static size_t *find_slot(const compactor *work, const open_object *object, const seen_key *key) {
  size_t *table = work->table + object->first_slot;
  size_t mask = object->slot_count - 1;
  for (size_t i = (size_t)key->hash & mask;; i = (i + 1) & mask) {
    if (table[i] == 0 || same_key(work, &work->keys[table[i] - 1], key)) return &table[i];
  }
}

/* Makes the table of the innermost object at least twice as large as its number of keys. */
static bool grow_table(compactor *work, open_object *object) {
  size_t count = work->key_count - object->first_key;
  if (object->slot_count > count * 2) return true;
  if (count > SIZE_MAX / 64) return false;
  size_t slot_count = object->slot_count == 0 ? (size_t)INLINE_KEYS * 4 : object->slot_count * 2;
  if (object->slot_count == 0) object->first_slot = work->table_count;
  size_t end = object->first_slot + slot_count;
  void *table = work->table;
  bool grown = mp_reserve(work->env, &table, &work->table_capacity, sizeof *work->table, end);
  work->table = table;
  if (!grown) return false;
  work->table_count = end;
  object->slot_count = slot_count;
  memset(work->table + object->first_slot, 0, slot_count * sizeof *work->table);
  for (size_t i = object->first_key; i < work->key_count; i++) *find_slot(work, object, &work->keys[i]) = i + 1;
  return true;
}

static added_key add_key(compactor *work, size_t begin) {
  open_object *object = &work->objects[work->reader.depth - 1];
  seen_key key = {0, begin, work->out->length - begin};
  key.hash = mp_hash(work->out->data + key.begin, key.length);
  void *keys = work->keys;
  bool grown = mp_reserve(work->env, &keys, &work->key_capacity, sizeof *work->keys, work->key_count + 1);
  work->keys = keys;
  if (!grown) return KEY_NO_MEMORY;
  if (work->key_count - object->first_key < INLINE_KEYS) {
    if (is_known_by_search(work, object, &key)) return KEY_KNOWN;
  } else {
    if (!grow_table(work, object)) return KEY_NO_MEMORY;
    size_t *slot = find_slot(work, object, &key);
    if (*slot != 0) return KEY_KNOWN;
    *slot = work->key_count + 1;
  }
  work->keys[work->key_count++] = key;
  return KEY_ADDED;
}

/* Writes the string that was read last. */
static void compact_string(compactor *work) {
  const mp_json_reader *reader = &work->reader;
  if (reader->string.data == reader->scratch.data) {
    mp_json_write_string(work->out, reader->string);
    return;
  }
  /*
  ** A string without escapes is canonical already. It is copied from the text, with the quotes
  ** around it.
  */
  mp_buffer_add(work->out, reader->string.data - 1, reader->string.length + 2);
}

static void write_separator(mp_buffer *out, size_t begin) {
  if (out->length == begin) return;
  char last = out->data[out->length - 1];
  if (last != '[' && last != '{' && last != ':') mp_buffer_add_char(out, ',');
}

static moonpad_status compact_key(compactor *work, const char *where, moonpad_error *error) {
  size_t begin = work->out->length;
  compact_string(work);
  if (work->out->failed) return mp_no_memory(error);
  added_key added = add_key(work, begin);
  mp_buffer_add_char(work->out, ':');
  if (added == KEY_ADDED) return MOONPAD_OK;
  if (added == KEY_NO_MEMORY) return mp_no_memory(error);
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s%sduplicate key %s at byte %zu", where == NULL ? "" : where,
                 where == NULL ? "" : ": ", mp_quote(work->reader.string).text, work->reader.token_position + 1);
}

static void begin_object(compactor *work) {
  open_object *object = &work->objects[work->reader.depth - 1];
  object->first_key = work->key_count;
  object->first_slot = work->table_count;
  object->slot_count = 0;
  mp_buffer_add_char(work->out, '{');
}

static void end_object(compactor *work) {
  const open_object *object = &work->objects[work->reader.depth];
  work->key_count = object->first_key;
  work->table_count = object->first_slot;
  mp_buffer_add_char(work->out, '}');
}

static void write_token(compactor *work, mp_json_token token) {
  mp_buffer *out = work->out;
  switch (token) {
  case MP_JSON_OBJECT_BEGIN:
    begin_object(work);
    break;
  case MP_JSON_OBJECT_END:
    end_object(work);
    break;
  case MP_JSON_ARRAY_BEGIN:
    mp_buffer_add_char(out, '[');
    break;
  case MP_JSON_ARRAY_END:
    mp_buffer_add_char(out, ']');
    break;
  case MP_JSON_STRING:
    compact_string(work);
    break;
  case MP_JSON_INTEGER:
    mp_json_write_integer(out, work->reader.integer);
    break;
  case MP_JSON_FLOAT:
    mp_json_write_float(out, work->reader.number);
    break;
  case MP_JSON_TRUE:
    mp_buffer_add_literal(out, "true");
    break;
  case MP_JSON_FALSE:
    mp_buffer_add_literal(out, "false");
    break;
  default:
    mp_buffer_add_literal(out, "null");
    break;
  }
}

static moonpad_type type_of(mp_json_token token) {
  switch (token) {
  case MP_JSON_OBJECT_BEGIN:
    return MOONPAD_OBJECT;
  case MP_JSON_ARRAY_BEGIN:
    return MOONPAD_ARRAY;
  case MP_JSON_STRING:
    return MOONPAD_STRING;
  case MP_JSON_INTEGER:
    return MOONPAD_INTEGER;
  case MP_JSON_FLOAT:
    return MOONPAD_FLOAT;
  case MP_JSON_TRUE:
  case MP_JSON_FALSE:
    return MOONPAD_BOOLEAN;
  default:
    return MOONPAD_NULL;
  }
}

static moonpad_status compact_tokens(compactor *work, const char *where, moonpad_type *type, moonpad_error *error) {
  for (bool first = true;; first = false) {
    mp_json_token token = mp_json_next(&work->reader);
    if (token == MP_JSON_ERROR) return mp_json_fail(&work->reader, where, error);
    if (token == MP_JSON_END) return MOONPAD_OK;
    if (first) *type = type_of(token);
    if (token != MP_JSON_OBJECT_END && token != MP_JSON_ARRAY_END) write_separator(work->out, work->begin);
    if (token == MP_JSON_KEY) {
      moonpad_status status = compact_key(work, where, error);
      if (status != MOONPAD_OK) return status;
    } else {
      write_token(work, token);
    }
    if (work->out->failed) return mp_no_memory(error);
  }
}

moonpad_status mp_json_compact(mp_env *env, moonpad_string text, unsigned max_depth, const char *where, mp_buffer *out,
                               moonpad_type *type, moonpad_error *error) {
  compactor work;
  moonpad_type found = MOONPAD_ABSENT;
  work.env = env;
  work.out = out;
  work.begin = out->length;
  work.keys = NULL;
  work.table = NULL;
  work.key_count = work.key_capacity = work.table_count = work.table_capacity = 0;
  if (!mp_buffer_room(out, text.length)) return mp_no_memory(error);
  mp_json_reader_init(&work.reader, env, text, max_depth);
  moonpad_status status = compact_tokens(&work, where, &found, error);
  mp_json_reader_free(&work.reader);
  mp_release(env, work.keys);
  mp_release(env, work.table);
  if (status != MOONPAD_OK) {
    out->length = work.begin;
    return status;
  }
  *type = found;
  return MOONPAD_OK;
}
