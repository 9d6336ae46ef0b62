/*
** JSON text that this library wrote, as Lua values: what every read ends with. The text is valid and compact (a store checks what comes out of a file), so nothing
** is checked again, and nothing stands between text and tables. Events look alike: which name comes next, and how many members an object will have, is guessed from
** the last time, and a wrong guess costs no more than the time to find out.
*/
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#include <float.h>

#include "base/number.h"
#include "core/json_scan.h"
#include "lua/codec.h"

#define EXPECTED_MOST 16 /* members that an object is given room for before they have been read */
#define WAITING       32 /* items of an array that wait on the stack until it is known how many there are */
#define STACK_NEED    (WAITING + 8)
#define STACK_STEP    (8 * STACK_NEED)

typedef struct own_reader {
  lua_State *L;
  mp_lua *binding;
  const char *at;
  const char *end;
  int top;          /* of the Lua stack */
  int stack;        /* as far as it has been made sure of */
  int names;        /* where the table of interned names is */
  int array_meta;   /* and the metatable of arrays */
  unsigned name;    /* the slot of the last name: tells which is likely to follow */
  unsigned depth;   /* of open objects and arrays */
  bool has_removed; /* there is a top-level member removedStateKeys */
} own_reader;

static void make_room(own_reader *r) {
  if (r->stack - r->top >= STACK_NEED) return;
  luaL_checkstack(r->L, STACK_STEP, NULL);
  r->stack = r->top + STACK_STEP;
}

/* ---- Strings ---- */

/* The first quote or backslash from `at` on: there is one. Our own text has no control characters, so that nothing else ends a run of plain text. */
static inline const char *plain_end(const char *at, const char *end) {
#if defined(__SSE2__)
  const __m128i quotes = _mm_set1_epi8('"'), backslashes = _mm_set1_epi8('\\');
  for (; end - at >= 16; at += 16) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    int found = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(bytes, quotes), _mm_cmpeq_epi8(bytes, backslashes)));
    if (found != 0) return at + __builtin_ctz((unsigned)found);
  }
  while (*at != '"' && *at != '\\') at++;
  return at;
#else
  uint64_t ignored = 0;
  return at + mp_json_plain_end(at, 0, (size_t)(end - at), &ignored);
#endif
}

static void push_escaped(own_reader *r) {
  mp_buffer *characters = &r->binding->spare;
  moonpad_string literal = {r->at, mp_json_own_end(r->at, 0)};
  mp_buffer_clear(characters);
  mp_json_own_string(literal, characters);
  if (characters->failed) luaL_error(r->L, "not enough memory");
  lua_pushlstring(r->L, characters->data, characters->length);
  r->at += literal.length;
}

/* At the opening quote. */
static void push_string(own_reader *r) {
  const char *begin = r->at + 1, *end = plain_end(begin, r->end);
  if (*end != '"') {
    push_escaped(r);
    return;
  }
  r->at = end + 1;
  lua_pushlstring(r->L, begin, (size_t)(end - begin));
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

static void learn_name(own_reader *r, unsigned slot, const char *name, size_t length) {
  mp_name *known = &r->binding->names[slot];
  unsigned char masks[NAME_BYTES] = {0};
  known->length = 0; /* nothing, should the following fail */
  lua_pushlstring(r->L, name, length);
  lua_pushvalue(r->L, -1);
  lua_rawseti(r->L, r->names, (lua_Integer)slot + 1);
  memset(masks, 0xFF, length);
  memcpy(known->masks, masks, NAME_BYTES);
  memset(known->words, 0, NAME_BYTES);
  memcpy(known->words, name, length);
  known->length = (uint8_t)length;
}

static unsigned name_slot(const char *name, size_t length) {
  uint64_t hash = length;
  for (size_t i = 0; i < length; i++) hash = hash * 31 + (unsigned char)name[i];
  return (unsigned)(hash * UINT64_C(0x9E3779B97F4A7C15) >> (64 - MP_NAME_BITS));
}

/* The name whose first byte is at `begin`, which is followed by at least NAME_BYTES more; false: it has not been pushed. */
static bool push_expected_name(own_reader *r, const char *begin) {
  mp_name *names = r->binding->names;
  unsigned slot = names[r->name].next;
  const mp_name *known = &names[slot];
  name_words words = load_words(begin);
  if (known->length == 0 || begin[known->length] != '"' || !same_name(known, &words)) return false;
  lua_rawgeti(r->L, r->names, (lua_Integer)slot + 1);
  r->at = begin + known->length + 2;
  r->name = slot;
  return true;
}

static void push_other_name(own_reader *r, const char *begin, const char *end) {
  size_t length = (size_t)(end - begin);
  r->at = end + 2;
  if (length == 0 || length > NAME_BYTES) {
    lua_pushlstring(r->L, begin, length);
    return;
  }
  unsigned slot = name_slot(begin, length);
  mp_name *known = &r->binding->names[slot];
  if (known->length == length && memcmp(known->words, begin, length) == 0) {
    lua_rawgeti(r->L, r->names, (lua_Integer)slot + 1);
  } else {
    learn_name(r, slot, begin, length);
  }
  r->binding->names[r->name].next = (uint8_t)slot;
  r->name = slot;
}

/* At the quote before a name; goes over the colon behind it. */
static void push_name(own_reader *r) {
  static const char removed[] = "removedStateKeys";
  const char *begin = r->at + 1;
  if (r->depth == 1 && *begin == 'r' && (size_t)(r->end - begin) >= sizeof removed &&
      memcmp(begin, removed, sizeof removed - 1) == 0) {
    r->has_removed = true;
  }
  if ((size_t)(r->end - begin) > NAME_BYTES && push_expected_name(r, begin)) return;
  const char *end = plain_end(begin, r->end);
  if (*end == '"') {
    push_other_name(r, begin, end);
    return;
  }
  push_escaped(r);
  r->at++;
}

/* ---- Numbers ---- */

/* Those that are not short: 64 bits to the last, exponents, all digits of a double. */
static void push_long_number(own_reader *r) {
  const char *at = r->at;
  bool is_float = false;
  for (; at < r->end && *at != ',' && *at != '}' && *at != ']'; at++) is_float |= *at == '.' || (*at | 0x20) == 'e';
  size_t length = (size_t)(at - r->at);
  int64_t integer;
  double number = 0.0;
  if (!is_float && mp_parse_integer(r->at, length, &integer)) {
    lua_pushinteger(r->L, integer);
  } else {
    mp_parse_float(r->at, length, &number);
    lua_pushnumber(r->L, number);
  }
  r->at = at;
}

/* Goes over digits and adds them to `number`, eight at a time where the machine's byte order allows it. */
static inline const char *take_digits(const char *at, const char *end, uint64_t *number) {
  uint64_t sum = *number;
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  static const uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
  while (end - at >= 8) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    word ^= MP_EVERY_BYTE('0');
    uint64_t others = (word + MP_EVERY_BYTE(0x76)) | word; /* the top bit of the first byte that is more than 9 */
    others &= MP_EVERY_BYTE(0x80);
    int count = others == 0 ? 8 : __builtin_ctzll(others) / 8;
    if (count == 0) break;
    word <<= 64 - 8 * count; /* as if zeros stood before them */
    word = (word * 10 + (word >> 8)) & UINT64_C(0x00FF00FF00FF00FF);
    word = (word * 100 + (word >> 16)) & UINT64_C(0x0000FFFF0000FFFF);
    word = (word * 10000 + (word >> 32)) & UINT64_C(0x00000000FFFFFFFF);
    sum = sum * powers[count] + word;
    at += count;
    if (count < 8) break;
  }
#endif
  for (; at < end && (unsigned char)(*at - '0') < 10; at++) sum = sum * 10 + (uint64_t)(*at - '0');
  *number = sum;
  return at;
}

#define INTEGER_DIGITS 18
#define EXACT_DIGITS                                                                                                   \
  15 /* any number of so many digits is a double, and so are these powers of ten: one division rounds once */

static void push_number(own_reader *r) {
  static const double powers[EXACT_DIGITS + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  const char *digits = r->at + (*r->at == '-'), *point = digits;
  bool negative = *r->at == '-';
  uint64_t number = 0;
  point = take_digits(digits, r->end, &number);
  char next = point < r->end ? *point : ',';
  if (next != '.' && (next | 0x20) != 'e' && point - digits <= INTEGER_DIGITS) {
    r->at = point;
    lua_pushinteger(r->L, negative ? -(int64_t)number : (int64_t)number);
    return;
  }
  if (next == '.' && FLT_EVAL_METHOD == 0) {
    const char *at = take_digits(point + 1, r->end, &number);
    next = at < r->end ? *at : ',';
    if ((next | 0x20) != 'e' && at - digits <= EXACT_DIGITS + 1) {
      double magnitude = (double)number / powers[at - point - 1];
      r->at = at;
      lua_pushnumber(r->L, negative ? -magnitude : magnitude);
      return;
    }
  }
  push_long_number(r);
}

/* ---- Objects and arrays ---- */

static void push_any(own_reader *r);

/* At '{'. The table gets the size of the last one of that name, and room for `more`. */
static void push_object(own_reader *r, int more) {
  mp_name *name = &r->binding->names[r->name];
  int expected = name->members, count = 0;
  make_room(r);
  lua_createtable(r->L, 0, expected + more);
  int place = ++r->top;
  r->depth++;
  do {
    r->at++;
    if (*r->at == '}') break;
    push_name(r);
    r->top++;
    push_any(r);
    lua_rawset(r->L, place);
    r->top = place;
    count++;
  } while (*r->at == ',');
  r->at++;
  r->depth--;
  if (count != expected) name->members = (uint8_t)(count < EXPECTED_MOST ? count : EXPECTED_MOST);
}

static void add_items(own_reader *r, int place, int waiting, lua_Integer done) {
  if (done == 0) {
    lua_createtable(r->L, waiting, 0);
    lua_replace(r->L, place);
  }
  for (lua_Integer i = done + waiting; i > done; i--) lua_rawseti(r->L, place, i);
  r->top = place;
}

/* At '['. */
static void push_array(own_reader *r) {
  make_room(r);
  lua_pushnil(r->L); /* keeps the table's place */
  int place = ++r->top, waiting = 0;
  lua_Integer done = 0;
  r->depth++;
  do {
    r->at++;
    if (*r->at == ']') break;
    push_any(r);
    r->top++;
    if (++waiting < WAITING) continue;
    add_items(r, place, waiting, done);
    done += waiting;
    waiting = 0;
  } while (*r->at == ',');
  r->at++;
  r->depth--;
  add_items(r, place, waiting, done);
  lua_pushvalue(r->L, r->array_meta);
  lua_setmetatable(r->L, place);
}

static void push_word(own_reader *r) {
  if (*r->at == 'n') {
    lua_pushlightuserdata(r->L, NULL);
  } else {
    lua_pushboolean(r->L, *r->at == 't');
  }
  r->at += *r->at == 'f' ? 5 : 4;
}

/* One value more on the stack. Of an object or array r->top counts it already, which its maker puts right. */
static void push_any(own_reader *r) {
  char first = *r->at;
  if (first == '"') {
    push_string(r);
  } else if (first == '-' || (unsigned char)(first - '0') < 10) {
    push_number(r);
  } else if (first == '{') {
    push_object(r, 0);
    r->top--;
  } else if (first == '[') {
    push_array(r);
    r->top--;
  } else {
    push_word(r);
  }
}

static own_reader open_reader(lua_State *L, mp_lua *binding, moonpad_string text) {
  luaL_checkstack(L, 4, NULL);
  int top = lua_gettop(L);
  mp_push_anchor(L, MP_ANCHOR_FIELD_NAMES);
  mp_push_anchor(L, MP_ANCHOR_ARRAY_META);
  return (own_reader){.L = L,
                      .binding = binding,
                      .at = text.data,
                      .end = text.data + text.length,
                      .top = top + 2,
                      .stack = top + 4,
                      .names = top + 1,
                      .array_meta = top + 2};
}

/* Leaves only the value on the stack. */
static void close_reader(const own_reader *r) {
  lua_replace(r->L, r->names);
  lua_settop(r->L, r->names);
}

void mp_decode_own(lua_State *L, mp_lua *binding, moonpad_string text) {
  own_reader reader = open_reader(L, binding, text);
  push_any(&reader);
  close_reader(&reader);
}

bool mp_decode_own_event(lua_State *L, mp_lua *binding, moonpad_string text) {
  own_reader reader = open_reader(L, binding, text);
  push_object(&reader, 1);
  close_reader(&reader);
  return reader.has_removed;
}
