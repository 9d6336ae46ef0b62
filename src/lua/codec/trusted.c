/*
** JSON text that this library wrote, as Lua values: what every read ends with. The text is valid
** and compact (a store checks what comes out of a file), so nothing is checked again, and nothing
** stands between text and tables. Events look alike: which name comes next, and how many members an
** object will have, is guessed from the last time, and a wrong guess costs no more than the time to
** find out.
*/
#include "base/bytes.h"
#include "core/json_lex.h"
#include "core/json_trusted.h"
#include "lua/codec/codec.h"

/* Members that an object is given room for before they have been read. */
#define EXPECTED_MOST 16
/* Items of an array that wait on the stack until it is known how many there are. */
#define WAITING    32
#define STACK_NEED (WAITING + 8)
#define STACK_STEP (8 * STACK_NEED)

/*
** Where the text has been read to is handed from function to function, as is `top`, the number of
** values on the Lua stack: both stay in registers.
*/
typedef struct trusted_reader {
  lua_State *L;
  mp_lua *binding;
  const char *end;
  int stack;        /* as far as the Lua stack has been made sure of */
  int strings;      /* where the table of interned strings is */
  int array_meta;   /* and the metatable of arrays */
  unsigned name;    /* the slot of the last name: tells which is likely to follow */
  bool has_removed; /* there is a top-level member removedStateKeys */
  bool has_null;    /* there is a null somewhere */
} trusted_reader;

static inline void make_room(trusted_reader *r, int top) {
  if (r->stack - top >= STACK_NEED) return;
  luaL_checkstack(r->L, STACK_STEP, NULL);
  r->stack = top + STACK_STEP;
}

/* ---- Strings ---- */

/*
** The first quote or backslash from `at` on: there is one. Trusted text has no control characters.
*/
static inline const char *plain_end(const char *at, const char *end) {
  uint64_t ignored = 0;
  return at + mp_json_plain_end(at, 0, (size_t)(end - at), &ignored);
}

/* All that push a value begin at its first byte and return the address behind it. */
static const char *push_escaped(const trusted_reader *r, const char *at) {
  mp_buffer *characters = &r->binding->scratch;
  moonpad_string literal = {at, mp_json_trusted_end(at, 0)};
  mp_buffer_clear(characters);
  mp_json_trusted_string(literal, characters);
  if (characters->failed) luaL_error(r->L, "not enough memory");
  lua_pushlstring(r->L, characters->data, characters->length);
  return at + literal.length;
}

static inline bool is_noted(const mp_name *name, const char *begin, size_t length) {
  return name->value_length == length && mp_same_bytes(name->value, begin, length);
}

/*
** A short text that stood under this name the last time too: the second time its Lua string is
** kept, from then on it need not be made again. Making it may run a finalizer that notes another
** text here.
*/
static inline bool push_known(const trusted_reader *r, const char *begin, size_t length) {
  mp_name *name = &r->binding->names[r->name];
  if (!is_noted(name, begin, length)) return false;
  lua_Integer slot = MP_STRING_VALUES + (lua_Integer)r->name;
  if (name->has_value) {
    lua_rawgeti(r->L, r->strings, slot);
    return true;
  }
  lua_pushlstring(r->L, begin, length);
  if (is_noted(name, begin, length)) {
    lua_pushvalue(r->L, -1);
    lua_rawseti(r->L, r->strings, slot);
    name->has_value = true;
  }
  return true;
}

static inline void note_value(const trusted_reader *r, const char *begin, size_t length) {
  mp_name *name = &r->binding->names[r->name];
  name->has_value = false;
  name->value_length = (uint8_t)length;
  if (r->end - begin >= MP_VALUE_BYTES) {
    memcpy(name->value, begin, MP_VALUE_BYTES);
  } else {
    memcpy(name->value, begin, length);
  }
}

static inline const char *push_string(const trusted_reader *r, const char *at) {
  const char *begin = at + 1, *end = plain_end(begin, r->end);
  if (*end != '"') return push_escaped(r, at);
  size_t length = (size_t)(end - begin);
  if (length <= MP_VALUE_BYTES) {
    if (push_known(r, begin, length)) return end + 1;
    note_value(r, begin, length);
  }
  lua_pushlstring(r->L, begin, length);
  return end + 1;
}

/* ---- Names: the same few come again and again, and in the same order ---- */

#define NAME_BYTES (MP_NAME_WORDS * sizeof(uint64_t))

typedef struct name_words {
  uint64_t words[MP_NAME_WORDS];
} name_words;

static inline name_words load_words(const char *from) {
  name_words loaded;
  memcpy(loaded.words, from, NAME_BYTES);
  return loaded;
}

static inline bool same_name(const mp_name *known, const name_words *at) {
  return (((at->words[0] & known->masks[0]) ^ known->words[0]) | ((at->words[1] & known->masks[1]) ^ known->words[1]) |
          ((at->words[2] & known->masks[2]) ^ known->words[2])) == 0;
}

static void learn_name(trusted_reader *r, unsigned slot, const char *name, size_t length) {
  mp_name *known = &r->binding->names[slot];
  unsigned char masks[NAME_BYTES] = {0};
  /* It is known as nothing, should the following fail. */
  known->length = 0;
  lua_pushlstring(r->L, name, length);
  lua_pushvalue(r->L, -1);
  lua_rawseti(r->L, r->strings, MP_STRING_NAMES + (lua_Integer)slot);
  memset(masks, 0xFF, length);
  memcpy(known->masks, masks, NAME_BYTES);
  memset(known->words, 0, NAME_BYTES);
  memcpy(known->words, name, length);
  known->length = (uint8_t)length;
}

#define NAME_PLACES 4 /* where a name may be */

static unsigned name_slot(const char *name, size_t length) {
  return (unsigned)(mp_hash(name, length) >> (64 - MP_NAME_BITS));
}

/*
** Where the name is, or should be: in the first of its slots that is free, or instead of another
** in one that the name itself picks.
*/
static unsigned find_name(const mp_name *names, const char *name, size_t length) {
  unsigned home = name_slot(name, length);
  for (unsigned i = 0; i < NAME_PLACES; i++) {
    unsigned slot = (home + i) % MP_NAME_SLOTS;
    const mp_name *known = &names[slot];
    if (known->length == 0 || (known->length == length && memcmp(known->words, name, length) == 0)) return slot;
  }
  return home;
}

/*
** The name whose first byte is at `begin`, which is followed by at least NAME_BYTES more. NULL: it
** has not been pushed.
*/
static inline const char *push_expected_name(trusted_reader *r, const char *begin) {
  mp_name *names = r->binding->names;
  unsigned slot = names[r->name].next;
  const mp_name *known = &names[slot];
  name_words words = load_words(begin);
  if (known->length == 0 || begin[known->length] != '"' || !same_name(known, &words)) return NULL;
  lua_rawgeti(r->L, r->strings, MP_STRING_NAMES + (lua_Integer)slot);
  r->name = slot;
  return begin + known->length + 2;
}

static void push_other_name(trusted_reader *r, const char *begin, const char *end) {
  size_t length = (size_t)(end - begin);
  if (length == 0 || length > NAME_BYTES) {
    lua_pushlstring(r->L, begin, length);
    return;
  }
  unsigned slot = find_name(r->binding->names, begin, length);
  if (r->binding->names[slot].length == length && memcmp(r->binding->names[slot].words, begin, length) == 0) {
    lua_rawgeti(r->L, r->strings, MP_STRING_NAMES + (lua_Integer)slot);
  } else {
    learn_name(r, slot, begin, length);
  }
  r->binding->names[r->name].next = (uint8_t)slot;
  r->name = slot;
}

/* At the quote before a name; goes over the colon behind it. */
static inline const char *push_name(trusted_reader *r, const char *at) {
  const char *begin = at + 1;
  if ((size_t)(r->end - begin) > NAME_BYTES) {
    const char *behind = push_expected_name(r, begin);
    if (behind != NULL) return behind;
  }
  const char *end = plain_end(begin, r->end);
  if (*end != '"') return push_escaped(r, at) + 1;
  push_other_name(r, begin, end);
  return end + 2;
}

static inline bool is_removed_keys(const trusted_reader *r, const char *at) {
  static const char name[] = "\"removedStateKeys\"";
  return at[1] == 'r' && (size_t)(r->end - at) >= sizeof name && memcmp(at, name, sizeof name - 1) == 0;
}

/* ---- Numbers ---- */

static const char *push_number(const trusted_reader *r, const char *at) {
  mp_number_text number;
  (void)mp_json_scan_number(at, r->end, &number);
  moonpad_value value = mp_json_number(&number);
  if (value.type == MOONPAD_INTEGER) {
    lua_pushinteger(r->L, value.as.integer);
  } else {
    lua_pushnumber(r->L, value.as.number);
  }
  return number.end;
}

/* ---- Objects and arrays ---- */

static const char *push_object(trusted_reader *r, const char *at, int top);
static const char *push_array(trusted_reader *r, const char *at, int top);

static const char *push_word(trusted_reader *r, const char *at) {
  if (*at == 'n') {
    lua_pushlightuserdata(r->L, NULL);
    r->has_null = true;
  } else {
    lua_pushboolean(r->L, *at == 't');
  }
  return at + (*at == 'f' ? 5 : 4);
}

/* `top` values are on the stack; one more then. */
MP_INLINE const char *push_any(trusted_reader *r, const char *at, int top) {
  char first = *at;
  if (first == '"') return push_string(r, at);
  if (first == '-' || (unsigned char)(first - '0') < 10) return push_number(r, at);
  if (first == '{') return push_object(r, at, top);
  if (first == '[') return push_array(r, at, top);
  return push_word(r, at);
}

/*
** The table gets the size of the last one of that name. That of an event has room for one
** more member.
*/
MP_INLINE const char *push_members(trusted_reader *r, const char *at, int top, bool is_event) {
  mp_name *name = &r->binding->names[r->name];
  int expected = name->members, count = 0, table = top + 1;
  make_room(r, top);
  lua_createtable(r->L, 0, expected + is_event);
  if (*++at != '}') {
    for (;; at++) {
      if (is_event && is_removed_keys(r, at)) r->has_removed = true;
      at = push_name(r, at);
      at = push_any(r, at, table + 1);
      lua_rawset(r->L, table);
      count++;
      if (*at != ',') break;
    }
  }
  if (count != expected) name->members = (uint8_t)(count < EXPECTED_MOST ? count : EXPECTED_MOST);
  return at + 1;
}

static const char *push_object(trusted_reader *r, const char *at, int top) {
  return push_members(r, at, top, false);
}

/* Makes the table of the items that wait above `table`, or adds them to it. */
static void add_items(const trusted_reader *r, int table, int waiting, lua_Integer done) {
  if (done == 0) {
    lua_createtable(r->L, waiting, 0);
    lua_replace(r->L, table);
  }
  for (lua_Integer i = done + waiting; i > done; i--) lua_rawseti(r->L, table, i);
}

static const char *push_array(trusted_reader *r, const char *at, int top) {
  int table = top + 1, waiting = 0;
  lua_Integer done = 0;
  make_room(r, top);
  /* Where the table is to stand. */
  lua_pushnil(r->L);
  if (*++at != ']') {
    for (;; at++) {
      at = push_any(r, at, table + waiting);
      if (++waiting == WAITING) {
        add_items(r, table, waiting, done);
        done += waiting;
        waiting = 0;
      }
      if (*at != ',') break;
    }
  }
  add_items(r, table, waiting, done);
  lua_pushvalue(r->L, r->array_meta);
  lua_setmetatable(r->L, table);
  return at + 1;
}

static trusted_reader open_reader(lua_State *L, mp_lua *binding, moonpad_string text, unsigned start) {
  luaL_checkstack(L, 4, NULL);
  int top = lua_gettop(L);
  mp_push_slot(L, MP_LUA_SLOT_STRINGS);
  mp_push_slot(L, MP_LUA_SLOT_ARRAY_META);
  return (trusted_reader){.L = L,
                          .binding = binding,
                          .end = text.data + text.length,
                          .stack = top + 4,
                          .strings = top + 1,
                          .array_meta = top + 2,
                          .name = start};
}

/* Leaves only the value on the stack. */
static void close_reader(const trusted_reader *r) {
  lua_copy(r->L, -1, r->strings);
  lua_settop(r->L, r->strings);
}

bool mp_decode_trusted(lua_State *L, mp_lua *binding, moonpad_string text) {
  trusted_reader reader = open_reader(L, binding, text, MP_VALUE_START);
  push_any(&reader, text.data, reader.array_meta);
  close_reader(&reader);
  return reader.has_null;
}

bool mp_decode_trusted_event(lua_State *L, mp_lua *binding, moonpad_string text, int64_t revision) {
  trusted_reader reader = open_reader(L, binding, text, MP_EVENT_START);
  push_members(&reader, text.data, reader.array_meta, true);
  if (revision != 0) {
    lua_rawgeti(L, reader.strings, MP_STRING_REVISION);
    lua_pushinteger(L, revision);
    lua_rawset(L, -3);
  }
  close_reader(&reader);
  return reader.has_removed;
}
