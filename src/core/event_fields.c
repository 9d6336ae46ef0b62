/* The tables of known fields, and the checks by them. */
#include "core/event_fields.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "core/json_trusted.h"

#define NO_OPENING        '\0'
#define OPENING_ANYTHING  NO_OPENING
#define OPENING_NUMBER    NO_OPENING
#define OPENING_TEXT_LIST NO_OPENING
#define OPENING_TEXT      '"'
#define OPENING_BOOLEAN   't'
#define OPENING_OBJECT    '{'
#define OPENING_ARRAY     '['
#define KNOWN(name, kind, digest, inside)                                                                              \
  { "\"" name "\":", name, sizeof(name) - 1, MP_FIELD_##kind, OPENING_##kind, UINT64_C(digest), inside }
#define FIELD(name, kind, digest) KNOWN(name, kind, digest, NULL)
/* Of objects inside a part only the names are checked. */
#define INSIDE(name, kind) KNOWN(name, kind, 0, NULL)
#define END_OF_FIELDS                                                                                                  \
  { NULL, NULL, 0, MP_FIELD_ANYTHING, NO_OPENING, 0, NULL }

/* The digests are mp_digest_text of the names; a test compares them. */
const mp_field mp_event_fields[] = {[MP_EVENT_ID] = FIELD("id", TEXT, 0xDFFC07E788B406C1),
                                    [MP_EVENT_INVOCATION] = FIELD("invocationId", TEXT, 0x9A678989C8E0F27F),
                                    [MP_EVENT_AUTHOR] = FIELD("author", TEXT, 0xC7652C30A02325C3),
                                    [MP_EVENT_TIMESTAMP] = FIELD("timestamp", NUMBER, 0x2B1AB4B32303313E),
                                    [MP_EVENT_CONTENT] = FIELD("content", OBJECT, 0x8124B1DA0B2EF830),
                                    [MP_EVENT_ACTIONS] = FIELD("actions", OBJECT, 0xF5143D2098633328),
                                    [MP_EVENT_PARTIAL] = FIELD("partial", BOOLEAN, 0x887EFAEB2302DF28),
                                    [MP_EVENT_REMOVED_KEYS] = FIELD("removedStateKeys", TEXT_LIST, 0x78E5C4F5F28917E7),
                                    [MP_EVENT_REVISION] = FIELD("revision", ANYTHING, 0x94E5197A5D9250A6),
                                    FIELD("turnComplete", BOOLEAN, 0xAECF46AF19D990A2),
                                    FIELD("interrupted", BOOLEAN, 0x7535E2510A552ABE),
                                    FIELD("errorCode", TEXT, 0x4E1A64B2AE8ECBDD),
                                    FIELD("errorMessage", TEXT, 0x8B3CBAEE08177759),
                                    FIELD("branch", TEXT, 0x0D8CC35080258FD2),
                                    FIELD("longRunningToolIds", TEXT_LIST, 0x520DC396F847EC83),
                                    FIELD("usageMetadata", OBJECT, 0x2A08B6C87F38E60D),
                                    FIELD("customMetadata", ANYTHING, 0x3DB7918CB4EDF997),
                                    FIELD("finishReason", TEXT, 0x9016380AD78C5C85),
                                    END_OF_FIELDS};

const mp_field mp_action_fields[] = {[MP_ACTIONS_DELTA] = FIELD("stateDelta", OBJECT, 0x18A43CE229AD6D81),
                                     FIELD("artifactDelta", OBJECT, 0x449FD4BC178A7525),
                                     FIELD("transferToAgent", TEXT, 0xB4CA66136974886E),
                                     FIELD("escalate", BOOLEAN, 0x1B0D512CF9AB45A5),
                                     FIELD("skipSummarization", BOOLEAN, 0x5326640B0A3F3303),
                                     FIELD("compaction", OBJECT, 0xEACF9D026DE84481),
                                     FIELD("rewindBeforeInvocationId", TEXT, 0x1C543904F23622B7),
                                     FIELD("rewindToRevision", NUMBER, 0xA590B0590A0A7D58),
                                     FIELD("requestedAuthConfigs", OBJECT, 0x245694F8248CEF2B),
                                     FIELD("requestedToolConfirmations", OBJECT, 0xE710D7864CFD8004),
                                     END_OF_FIELDS};

const mp_field mp_content_fields[] = {[MP_CONTENT_PARTS] = FIELD("parts", ARRAY, 0x1CAD4048B7A159E3),
                                      FIELD("role", TEXT, 0x19DAC0A21C880201),
                                      END_OF_FIELDS};
static const mp_field call_fields[] = {INSIDE("id", TEXT), INSIDE("name", TEXT), INSIDE("args", OBJECT), END_OF_FIELDS};
static const mp_field response_fields[] = {INSIDE("id", TEXT), INSIDE("name", TEXT), INSIDE("response", OBJECT),
                                           END_OF_FIELDS};
static const mp_field data_fields[] = {INSIDE("mimeType", TEXT), INSIDE("data", TEXT), INSIDE("displayName", TEXT),
                                       END_OF_FIELDS};
const mp_field mp_part_fields[] = {FIELD("text", TEXT, 0xDCC3F6E057DE39EF),
                                   FIELD("thought", BOOLEAN, 0xA682BB9023FFB6E8),
                                   KNOWN("functionCall", OBJECT, 0x66A48BCB32F09317, call_fields),
                                   KNOWN("functionResponse", OBJECT, 0xA68E544DD2AD7F08, response_fields),
                                   KNOWN("inlineData", OBJECT, 0x6CDEC4B7A7F28D29, data_fields),
                                   END_OF_FIELDS};

const mp_field *mp_field_find(const mp_field *fields, moonpad_string name) {
  for (const mp_field *known = fields; known->name != NULL; known++) {
    if (name.length == known->length && name.data[0] == known->name[0] &&
        mp_same_bytes(name.data, known->name, name.length)) {
      return known;
    }
  }
  return NULL;
}

/* ---- near misses ---- */

/* Equal but for case and underscores? */
static bool near_miss(moonpad_string given, const char *known) {
  size_t at = 0;
  for (size_t i = 0; i < given.length; i++) {
    char byte = given.data[i];
    if (byte == '_') continue;
    char expected = known[at];
    if (expected == '\0') return false;
    if (byte >= 'A' && byte <= 'Z') byte = (char)(byte - 'A' + 'a');
    if (expected >= 'A' && expected <= 'Z') expected = (char)(expected - 'A' + 'a');
    if (byte != expected) return false;
    at++;
  }
  return known[at] == '\0';
}

static const mp_field *find_near_miss(const mp_field *fields, moonpad_string name) {
  for (const mp_field *known = fields; known->name != NULL; known++) {
    if (near_miss(name, known->name)) return known;
  }
  return NULL;
}

static const char *path_text(mp_event_path where, char text[64]) {
  if (where.index == 0) return where.name;
  snprintf(text, 64, "%s[%d]", where.name, where.index);
  return text;
}

static int shown_length(moonpad_string name) {
  return (int)(name.length > 80 ? 80 : name.length);
}

moonpad_status mp_field_refuse_near_miss(const mp_field *fields, mp_event_path where, moonpad_string name,
                                         moonpad_error *error) {
  char text[64];
  const mp_field *meant = find_near_miss(fields, name);
  if (meant != NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s.%.*s: unknown field, did you mean %s?", path_text(where, text),
                   shown_length(name), name.data, meant->name);
  }
  if (fields != mp_event_fields) return MOONPAD_OK;
  meant = find_near_miss(mp_action_fields, name);
  if (meant == NULL) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "event.%.*s: belongs into event.actions.%s", shown_length(name),
                 name.data, meant->name);
}

moonpad_status mp_field_check_inside(const mp_field *object, mp_event_path where, moonpad_string value,
                                     moonpad_error *error) {
  mp_members members = mp_members_of(value);
  moonpad_string name, ignored;
  while (mp_members_next(&members, &name, &ignored)) {
    if (mp_field_find(object->inside, name) == NULL) {
      char path[64], here[128];
      snprintf(here, sizeof here, "%s.%s", path_text(where, path), object->name);
      moonpad_status status = mp_field_refuse_near_miss(object->inside, (mp_event_path){here, 0}, name, error);
      if (status != MOONPAD_OK) return status;
    }
  }
  return MOONPAD_OK;
}

moonpad_status mp_field_refuse(mp_event_path where, const char *problem, moonpad_error *error) {
  char text[64];
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: %s", path_text(where, text), problem);
}

/* ---- values ---- */

static bool is_text_list(moonpad_string value) {
  if (value.data[0] != '[') return false;
  mp_items items = mp_items_of(value);
  moonpad_string item;
  while (mp_items_next(&items, &item)) {
    if (item.data[0] != '"') return false;
  }
  return true;
}

static bool is_empty_object(moonpad_string value) {
  return value.length == 2 && value.data[0] == '{';
}

/* What the value must be instead; NULL if its type is right. */
static const char *wanted_instead(mp_field_kind kind, moonpad_string value) {
  char first = value.data[0];
  switch (kind) {
  case MP_FIELD_ANYTHING:
    return NULL;
  case MP_FIELD_TEXT:
    return first == '"' ? NULL : "a string";
  case MP_FIELD_NUMBER:
    return first == '-' || (first >= '0' && first <= '9') ? NULL : "a number";
  case MP_FIELD_BOOLEAN:
    return first == 't' || first == 'f' ? NULL : "a boolean";
  case MP_FIELD_OBJECT:
    return first == '{' ? NULL : "an object";
  case MP_FIELD_ARRAY:
    return first == '[' || is_empty_object(value) ? NULL : "an array";
  case MP_FIELD_TEXT_LIST:
    return is_text_list(value) || is_empty_object(value) ? NULL : "an array of strings";
  }
  return NULL;
}

moonpad_status mp_field_check_closely(const mp_field *known, mp_event_path where, moonpad_string value,
                                      moonpad_error *error) {
  char text[64];
  if (value.data[0] == 'n') return MOONPAD_OK;
  const char *wanted = wanted_instead(known->kind, value);
  if (wanted == NULL) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s.%s: must be %s", path_text(where, text), known->name, wanted);
}
