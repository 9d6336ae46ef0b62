/*
** The grammar of placeholders in instruction templates (contract 4.1).
**
**   {key} with blanks (space, tab, CR, LF) allowed around the key; <key> without
**   key   = root { "." identifier | "[" digits "]" } [ "?" ]  |  "artifact." FILE [ "?" ]
**   root  = [ ("app" | "user" | "temp") ":" ] identifier
**   FILE  = any text before the closing bracket without a bracket of the same kind;
**           between angles also without a line break
**
** All else is text. So is, although it looks like a placeholder:
**   {{key}}   braces doubled on both sides (three or more count as well). On one side only, the
**             extra brace is text and the placeholder inside counts: {{key} is "{" and the value,
**             {key}} is the value and "}". That is what keeps {"a": {key}} whole.
**   <key>     where </key> stands anywhere in the template: markup.
** A backslash directly before a placeholder makes it text and is removed itself; before anything
** else it stays.
**
** Scanning takes linear time: a candidate is never read beyond the next opening bracket of its
** kind.
*/
#include "core/template_scan.h"

#include <string.h>

#include "base/digits.h"
#include "base/utf8.h"

static bool is_blank(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static moonpad_string slice(moonpad_string source, size_t begin, size_t end) {
  moonpad_string part = {source.data + begin, end - begin};
  return part;
}

static bool starts_with(moonpad_string text, const char *start, size_t length) {
  return text.length >= length && memcmp(text.data, start, length) == 0;
}

static size_t find_byte(moonpad_string source, size_t from, char byte) {
  const char *found = from < source.length ? memchr(source.data + from, byte, source.length - from) : NULL;
  return found == NULL ? source.length : (size_t)(found - source.data);
}

static bool byte_is(moonpad_string source, size_t position, char byte) {
  return position < source.length && source.data[position] == byte;
}

static size_t skip_blanks(moonpad_string source, size_t position) {
  while (position < source.length && is_blank(source.data[position])) position++;
  return position;
}

/* The offset after the identifier that begins at `position`; `position` if none does. */
static size_t identifier_end(moonpad_string source, size_t position) {
  size_t begin = position;
  while (position < source.length) {
    char byte = source.data[position];
    /* Most bytes are one of these. */
    if ((byte >= 'a' && byte <= 'z') || byte == '_') {
      position++;
      continue;
    }
    uint32_t character;
    size_t size = mp_utf8_decode(source.data + position, source.length - position, &character);
    if (size == 0) break;
    if (position == begin ? !mp_utf8_identifier_start(character) : !mp_utf8_identifier_part(character)) break;
    position += size;
  }
  return position;
}

static bool is_scope(moonpad_string name) {
  return (name.length == 3 && memcmp(name.data, "app", 3) == 0) ||
         (name.length == 4 && (memcmp(name.data, "user", 4) == 0 || memcmp(name.data, "temp", 4) == 0));
}

/* The offset after the root at `begin`; `begin` if there is none. */
static size_t read_root(moonpad_string source, size_t begin, mp_placeholder *placeholder) {
  size_t end = identifier_end(source, begin);
  if (end != begin && byte_is(source, end, ':')) {
    if (!is_scope(slice(source, begin, end))) return begin;
    size_t name = end + 1;
    end = identifier_end(source, name);
    if (end == name) return begin;
    placeholder->prefixed = true;
  }
  placeholder->root = slice(source, begin, end);
  return end;
}

/* The offset after the step at `position`; `position` if there is no complete one. */
static size_t step_end(moonpad_string source, size_t position) {
  if (byte_is(source, position, '.')) {
    size_t end = identifier_end(source, position + 1);
    return end == position + 1 ? position : end;
  }
  if (byte_is(source, position, '[')) {
    size_t end = position + 1;
    while (end < source.length && mp_is_digit(source.data[end])) end++;
    return end != position + 1 && byte_is(source, end, ']') ? end + 1 : position;
  }
  return position;
}

static bool read_state_key(moonpad_string source, size_t begin, mp_placeholder *placeholder) {
  size_t position = read_root(source, begin, placeholder);
  if (position == begin) return false;
  size_t steps = position;
  for (size_t next = step_end(source, position); next != position; next = step_end(source, position)) position = next;
  placeholder->path = slice(source, byte_is(source, steps, '.') && position != steps ? steps + 1 : steps, position);
  placeholder->key = slice(source, begin, position);
  placeholder->optional = byte_is(source, position, '?');
  if (placeholder->optional) position++;
  if (!placeholder->angles) position = skip_blanks(source, position);
  placeholder->end = position + 1;
  return byte_is(source, position, placeholder->angles ? '>' : '}');
}

#define MP_ARTIFACT        "artifact."
#define MP_ARTIFACT_LENGTH (sizeof MP_ARTIFACT - 1)

static bool ends_file(char byte, bool angles) {
  return angles ? byte == '<' || byte == '>' || byte == '\n' : byte == '{' || byte == '}';
}

static bool read_artifact_key(moonpad_string source, size_t begin, mp_placeholder *placeholder) {
  bool angles = placeholder->angles;
  size_t file = begin + MP_ARTIFACT_LENGTH, position = file;
  while (position < source.length && !ends_file(source.data[position], angles)) position++;
  if (!byte_is(source, position, angles ? '>' : '}')) return false;
  placeholder->end = position + 1;
  /* "<artifact.x and a > b" is prose */
  if (angles && is_blank(source.data[position - 1])) return false;
  while (position > file && is_blank(source.data[position - 1])) position--;
  placeholder->optional = position > file && source.data[position - 1] == '?';
  if (placeholder->optional) position--;
  /* <artifact.> is text; in braces it is a placeholder for an artifact that is missing */
  if (angles && position == file) return false;
  placeholder->artifact = true;
  placeholder->key = placeholder->root = slice(source, begin, position);
  placeholder->file = slice(source, file, position);
  return true;
}

/* Is there a placeholder at the opening bracket `at`, by the grammar alone? */
static bool read_placeholder(moonpad_string source, size_t at, mp_placeholder *placeholder) {
  memset(placeholder, 0, sizeof *placeholder);
  placeholder->begin = at;
  placeholder->angles = source.data[at] == '<';
  size_t begin = placeholder->angles ? at + 1 : skip_blanks(source, at + 1);
  if (begin >= source.length) return false;
  if (starts_with(slice(source, begin, source.length), MP_ARTIFACT, MP_ARTIFACT_LENGTH)) {
    return read_artifact_key(source, begin, placeholder);
  }
  return read_state_key(source, begin, placeholder);
}

static bool is_doubled(moonpad_string source, const mp_placeholder *placeholder) {
  return !placeholder->angles && placeholder->begin > 0 && source.data[placeholder->begin - 1] == '{' &&
         byte_is(source, placeholder->end, '}');
}

static bool add_closing_tag(mp_template_scanner *scanner, moonpad_string name) {
  uint64_t hash = mp_hash(name.data, name.length);
  if (mp_map_get_hashed(&scanner->closing_tags, name.data, name.length, hash) != NULL) return true;
  mp_key *key = mp_key_new_hashed(scanner->env, name, hash);
  if (key == NULL) return false;
  /* the map is used as a set: any pointer will do */
  bool added = mp_map_put(&scanner->closing_tags, key, scanner);
  mp_key_release(scanner->env, key);
  return added;
}

/* Collects all in one pass, so that a template full of <tags> is not searched for each of them. */
static bool collect_closing_tags(mp_template_scanner *scanner) {
  moonpad_string source = scanner->source;
  for (size_t at = find_byte(source, 0, '<'); at < source.length; at = find_byte(source, at + 1, '<')) {
    if (!byte_is(source, at + 1, '/')) continue;
    size_t begin = at + 2, end = begin;
    while (end < source.length && !ends_file(source.data[end], true)) end++;
    if (!byte_is(source, end, '>')) continue;
    while (end > begin && is_blank(source.data[end - 1])) end--;
    if (!add_closing_tag(scanner, slice(source, begin, end))) return false;
  }
  scanner->knows_closing_tags = true;
  return true;
}

/*
** Is the placeholder a <tag> that is closed somewhere? Tags are collected when the first <key> is
** met: most templates have none. False when out of memory.
*/
static bool check_markup(mp_template_scanner *scanner, const mp_placeholder *placeholder, bool *is_markup) {
  *is_markup = false;
  if (!placeholder->angles || placeholder->optional) return true;
  if (!scanner->knows_closing_tags && !collect_closing_tags(scanner)) return false;
  *is_markup = scanner->closing_tags.count != 0 && mp_map_get(&scanner->closing_tags, placeholder->key) != NULL;
  return true;
}

/* The next opening bracket. Each kind is remembered, so text without it is searched only once. */
static size_t next_opening(mp_template_scanner *scanner) {
  if (scanner->has_braces && scanner->next_brace < scanner->position) {
    scanner->next_brace = find_byte(scanner->source, scanner->position, '{');
  }
  if (scanner->has_angles && scanner->next_angle < scanner->position) {
    scanner->next_angle = find_byte(scanner->source, scanner->position, '<');
  }
  return scanner->next_brace < scanner->next_angle ? scanner->next_brace : scanner->next_angle;
}

mp_template_found mp_template_scan(mp_template_scanner *scanner, mp_placeholder *placeholder) {
  moonpad_string source = scanner->source;
  for (size_t at = next_opening(scanner); at < source.length; at = next_opening(scanner)) {
    scanner->position = at + 1;
    if (!read_placeholder(source, at, placeholder) || is_doubled(source, placeholder)) continue;
    bool is_markup;
    if (!check_markup(scanner, placeholder, &is_markup)) return MP_TEMPLATE_NO_MEMORY;
    if (is_markup) continue;
    placeholder->escaped = at > 0 && source.data[at - 1] == '\\';
    scanner->position = placeholder->end;
    return MP_TEMPLATE_PLACEHOLDER;
  }
  return MP_TEMPLATE_END;
}

void mp_template_scanner_init(mp_template_scanner *scanner, mp_env *env, moonpad_string source,
                              moonpad_template_syntax syntax) {
  scanner->source = source;
  scanner->position = 0;
  scanner->env = env;
  scanner->has_braces = syntax != MOONPAD_TEMPLATE_ANGLES;
  scanner->has_angles = syntax != MOONPAD_TEMPLATE_BRACES;
  scanner->next_brace = scanner->has_braces ? find_byte(source, 0, '{') : source.length;
  scanner->next_angle = scanner->has_angles ? find_byte(source, 0, '<') : source.length;
  scanner->knows_closing_tags = false;
  mp_map_init(&scanner->closing_tags, env);
}

void mp_template_scanner_free(mp_template_scanner *scanner) {
  mp_map_free(&scanner->closing_tags);
}
