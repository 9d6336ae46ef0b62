/* Finding secrets in a text: see secrets.h. */
#include "base/secrets.h"

#include <string.h>

/* ---- Bytes ---- */

static bool is_digit(unsigned char byte) {
  return byte >= '0' && byte <= '9';
}

static bool is_letter(unsigned char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static bool is_punctuation(unsigned char byte) {
  return byte > ' ' && byte < 0x7F && !is_digit(byte) && !is_letter(byte);
}

/* The value of a hexadecimal digit, or -1. */
static int hex_value(unsigned char byte) {
  if (is_digit(byte)) return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

/* The byte at a place, or 0 behind the end. */
static unsigned char byte_at(moonpad_string text, size_t position) {
  return position < text.length ? (unsigned char)text.data[position] : 0;
}

static bool has_at(moonpad_string text, size_t position, const char *word) {
  size_t length = strlen(word);
  return position < text.length && text.length - position >= length && memcmp(text.data + position, word, length) == 0;
}

/* How many hexadecimal digits there are at a place, at most so many. */
static size_t count_hex(moonpad_string text, size_t position, size_t most) {
  size_t count = 0;
  while (count < most && position + count < text.length && hex_value(byte_at(text, position + count)) >= 0) count++;
  return count;
}

/* Two of them. */
static int hex_byte(moonpad_string text, size_t position) {
  return hex_value(byte_at(text, position)) << 4 | hex_value(byte_at(text, position + 1));
}

/* ---- What is escaped ---- */

typedef struct escape {
  bool is_cut; /* the text ends in the middle of it, or of a longer one */
  int byte;    /* that it stands for; -1: none */
  size_t end;
} escape;

/* What stands in front of an escape each time that it is escaped again: so often nobody does. */
#define MOST_REPEATS 16

static const escape no_escape = {false, -1, 0};
static const escape cut_escape = {true, -1, 0};

static escape found(int byte, size_t end) {
  return (escape){false, byte, end};
}

/* JSON, JavaScript, the shell; backslashes may have been escaped themselves. */
static escape read_backslash(moonpad_string text, size_t position) {
  size_t start = position + 1;
  for (int i = 0; i < MOST_REPEATS && byte_at(text, start) == '\\'; i++) start++;
  if (start >= text.length) return cut_escape;
  unsigned char kind = byte_at(text, start);
  if (kind == 'u' || kind == 'x') {
    size_t needed = kind == 'u' ? 4 : 2;
    size_t count = count_hex(text, start + 1, needed);
    if (count < needed) return start + 1 + count == text.length ? cut_escape : no_escape;
    if (kind == 'x') return found(hex_byte(text, start + 1), start + 3);
    return has_at(text, start + 1, "00") ? found(hex_byte(text, start + 3), start + 5) : no_escape;
  }
  return is_punctuation(kind) ? found(kind, start + 1) : no_escape;
}

/* Addresses: %2F, or %252F where it was escaped twice. */
static escape read_percent(moonpad_string text, size_t position) {
  size_t start = position + 1;
  for (int i = 0; i < MOST_REPEATS && has_at(text, start, "25") && count_hex(text, start + 2, 2) == 2; i++) start += 2;
  size_t count = count_hex(text, start, 4);
  bool is_open = start + count >= text.length; /* more may come */
  bool may_be_longer = has_at(text, start, "25") && is_open && count < 4;
  if (count >= 2) return (escape){may_be_longer, hex_byte(text, start), start + 2};
  return is_open && count < 4 ? cut_escape : no_escape;
}

/* The entities that stand for a byte which a secret may hold. */
static const struct {
  const char *name;
  char byte;
} entities[] = {
    {"amp", '&'},  {"lt", '<'},     {"gt", '>'},     {"quot", '"'},   {"apos", '\''},  {"sol", '/'}, {"bsol", '\\'},
    {"plus", '+'}, {"equals", '='}, {"colon", ':'},  {"period", '.'}, {"lowbar", '_'}, {"num", '#'}, {"percnt", '%'},
    {"ast", '*'},  {"excl", '!'},   {"commat", '@'}, {"dollar", '$'}, {"comma", ','},
};

#define LONGEST_ENTITY 12

static int entity_byte(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++) {
    if (strlen(entities[i].name) == length && memcmp(entities[i].name, name, length) == 0) return entities[i].byte;
  }
  return -1;
}

/* Where the letters and digits at a place end. */
static size_t skip_word(moonpad_string text, size_t position) {
  while (is_letter(byte_at(text, position)) || is_digit(byte_at(text, position))) position++;
  return position;
}

/* Of digits between `begin` and `end`; -1: too many for a byte, or none. */
static int number_of(moonpad_string text, size_t begin, size_t end, int base) {
  int number = begin < end ? 0 : -1;
  for (; begin < end && number >= 0; begin++) {
    int digit = hex_value(byte_at(text, begin));
    number = digit < 0 || digit >= base || number > 0xFF ? -1 : number * base + digit;
  }
  return number > 0xFF ? -1 : number;
}

/* The byte of #47, #x2F or sol. */
static int reference_byte(moonpad_string text, size_t begin, size_t end) {
  if (byte_at(text, begin) != '#') return entity_byte(text.data + begin, end - begin);
  bool is_hex = (byte_at(text, begin + 1) | 0x20) == 'x';
  return number_of(text, begin + (is_hex ? 2 : 1), end, is_hex ? 16 : 10);
}

/* HTML: &#47; or &#x2F; or &sol;, or &amp;#47; where it was escaped twice. */
static escape read_ampersand(moonpad_string text, size_t position) {
  size_t start = position + 1;
  for (int i = 0; i < MOST_REPEATS && has_at(text, start, "amp;"); i++) {
    /* Is it in front of another one? */
    size_t inner = start + 4;
    if (byte_at(text, inner) != '#' && !is_letter(byte_at(text, inner))) break;
    if (byte_at(text, skip_word(text, inner + 1)) != ';') break;
    start = inner;
  }
  bool is_number = byte_at(text, start) == '#';
  size_t end = skip_word(text, start + is_number);
  bool may_be_longer =
      has_at(text, start, "amp;") && skip_word(text, start + 4 + (byte_at(text, start + 4) == '#')) >= text.length;
  if (byte_at(text, end) == ';' && end > start + is_number)
    return (escape){may_be_longer, reference_byte(text, start, end), end + 1};
  bool may_go_on = end >= text.length && text.length - position <= LONGEST_ENTITY;
  return may_go_on ? cut_escape : no_escape;
}

static bool is_escape(unsigned char byte) {
  return byte == '\\' || byte == '%' || byte == '&';
}

static escape read_escape(moonpad_string text, size_t position) {
  switch (byte_at(text, position)) {
  case '\\':
    return read_backslash(text, position);
  case '%':
    return read_percent(text, position);
  case '&':
    return read_ampersand(text, position);
  default:
    return no_escape;
  }
}

/* ---- Finding ---- */

#define NONE ((size_t)-1)
#define CUT  ((size_t)-2)

/* Where the word ends that begins there; NONE; or CUT, when the text ends before the word does. */
static size_t match(moonpad_string text, size_t position, moonpad_string word) {
  bool is_cut = false; /* what is at the end of the text could be read in another way, too */
  for (size_t i = 0; i < word.length; i++) {
    if (position >= text.length) return CUT;
    unsigned char byte = byte_at(text, position), wanted = (unsigned char)word.data[i];
    escape read = is_escape(byte) ? read_escape(text, position) : no_escape;
    is_cut = is_cut || read.is_cut;
    if (read.byte == wanted) {
      position = read.end;
    } else if (byte == wanted) {
      position++;
    } else {
      return is_cut ? CUT : NONE;
    }
  }
  return position;
}

/* Is there one of them that begins there? */
static mp_secret_place find_at(const mp_secrets *secrets, moonpad_string text, size_t position, bool is_whole) {
  unsigned char byte = (unsigned char)text.data[position];
  for (size_t i = 0; i < secrets->count; i++) {
    moonpad_string word = secrets->words[i];
    if ((unsigned char)word.data[0] != byte && !is_escape(byte)) continue;
    size_t end = match(text, position, word);
    if (end == CUT && !is_whole) return (mp_secret_place){true, true, position, 0};
    if (end < CUT) return (mp_secret_place){true, false, position, end};
  }
  return (mp_secret_place){false, false, 0, 0};
}

void mp_secrets_prepare(mp_secrets *secrets) {
  memset(secrets->starts, 0, sizeof secrets->starts);
  secrets->starts['\\'] = secrets->starts['%'] = secrets->starts['&'] = true;
  for (size_t i = 0; i < secrets->count; i++) secrets->starts[(unsigned char)secrets->words[i].data[0]] = true;
}

mp_secret_place mp_secrets_find(const mp_secrets *secrets, moonpad_string text, size_t first, size_t last,
                                bool is_whole) {
  for (size_t position = first; position < last && position < text.length; position++) {
    if (!secrets->starts[(unsigned char)text.data[position]]) continue;
    mp_secret_place place = find_at(secrets, text, position, is_whole);
    if (place.is_found) return place;
  }
  return (mp_secret_place){false, false, 0, 0};
}
