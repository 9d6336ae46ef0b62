/*
** Events (core/event_draft.h): reading them in one pass gives what compacting them first gives, for
** any text. That there are two ways cannot be seen from outside, nor what a draft tells the store:
** its digest, the texts that it borrows, its deltas. The rules of contract 2.1 are tested in Lua.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/digest.h"
#include "core/event_draft.h"
#include "core/event_fields.h"
#include "core/event_read.h"
#include "core/json_compact.h"
#include "counted_env.h"
#include "repeatable_random.h"

#define DEPTH (MOONPAD_MAX_DEPTH + 8) /* of an event */

static const char *const events[] = {
    "{}",
    "{\"id\":\"019c0000-0000-7000-8000-000000000001\",\"invocationId\":\"e-1\",\"timestamp\":1763700000.125,\"author\":"
    "\"concierge\",\"content\":{\"parts\":[{\"text\":\"Your table for two is booked; shall I call a taxi?\"}],\"role\":"
    "\"model\"},\"actions\":{\"stateDelta\":{\"app:served\":1000001,\"step\":7,\"user:wish\":\"taxi\",\"temp:x\":1}}}",
    "{\"author\":\"user\",\"content\":{\"role\":\"user\",\"parts\":[{\"text\":\"h\xC3\xA9llo "
    "\\\"you\\\"\",\"thought\":true},"
    "{\"functionCall\":{\"id\":\"c\",\"name\":\"f\",\"args\":{\"n\":[1,2.5,-3,1e+300,null,false]}}}]},\"timestamp\":5}",
    "{\"id\":\"a\\nb\",\"revision\":4,\"partial\":true,\"turnComplete\":null,\"custom\":{\"a\":{},\"b\":[]},"
    "\"actions\":{"
    "\"escalate\":true,\"stateDelta\":{\"a\\tb\":{\"deep\":[[[]]]},\"gone\":null,\"kept\":null,\"temp:gone\":null},"
    "\"transferToAgent\":null,\"other\":3},\"removedStateKeys\":[\"gone\",\"temp:gone\",\"gone\"]}",
    "{\"id\":\"\",\"invocationId\":\"\",\"timestamp\":1763700000.010,\"longRunningToolIds\":[\"a\",\"b\"],\"state\":-0."
    "0}",
    "{\"actions\":{\"stateDelta\":{\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"6\":6,\"7\":7,\"8\":8}},\"big\":"
    "9223372036854775807}",
};
#define EVENTS (sizeof events / sizeof events[0])

/* All that was read, as one text. */
static void show(mp_event_draft *draft, mp_buffer *out) {
  char line[128];
  snprintf(line, sizeof line, "%llx %d %d %d ", (unsigned long long)draft->digest, draft->partial,
           draft->is_user_message, draft->removes);
  mp_buffer_clear(out);
  mp_buffer_add_string(out, moonpad_text(line));
  mp_buffer_add_string(out, draft->id);
  for (size_t i = 0; i < draft->delta.count; i++) {
    const mp_entry *entry = &draft->delta.items[i];
    assert_true(entry->hash == mp_hash(entry->key.data, entry->key.length));
    snprintf(line, sizeof line, " %d:", entry->scope);
    mp_buffer_add_string(out, moonpad_text(line));
    mp_buffer_add_string(out, entry->key);
    mp_buffer_add_char(out, '=');
    if (entry->value != NULL) mp_value_write(out, entry->value);
  }
  if (draft->id.length == 0) draft->id_literal = moonpad_text("\"-\"");
  if (draft->invocation.length == 0) draft->invocation = moonpad_text("\"-\"");
  if (draft->timestamp_json.length == 0) mp_event_draft_set_timestamp(draft, 1.5);
  size_t begin = out->length;
  mp_event_draft_write(draft, NULL, 0, NULL, out);
  assert_false(out->failed);
  moonpad_string stands;
  if (mp_event_draft_is_unchanged(draft, &stands)) {
    assert_int_equal(stands.length, out->length - begin);
    assert_memory_equal(stands.data, out->data + begin, stands.length);
  }
}

static moonpad_status read_compacted(mp_env *env, moonpad_string text, mp_buffer *compact, mp_event_draft *draft,
                                     moonpad_error *error) {
  moonpad_type type;
  mp_buffer_clear(compact);
  moonpad_status status = mp_json_compact(env, text, DEPTH, "event", compact, &type, error);
  return status == MOONPAD_OK ? mp_event_draft_read(env, mp_buffer_text(compact), true, draft, error) : status;
}

/* Returns whether it was read without being compacted. */
static bool check_same(mp_env *env, moonpad_string text) {
  /* of just its size: a read beyond its end is seen */
  char *copy = malloc(text.length == 0 ? 1 : text.length);
  if (text.length != 0) memcpy(copy, text.data, text.length);
  moonpad_string given = {copy, text.length};
  mp_buffer compact, shown, expected;
  mp_buffer_init(&compact, env);
  mp_buffer_init(&shown, env);
  mp_buffer_init(&expected, env);
  mp_event_draft draft, wanted;
  moonpad_error error = {MOONPAD_OK, ""}, wanted_error = {MOONPAD_OK, ""};
  bool in_one_pass = false;
  moonpad_status status = mp_event_draft_read(env, given, false, &draft, &error);
  moonpad_status wanted_status = read_compacted(env, given, &compact, &wanted, &wanted_error);
  if (status != wanted_status || strcmp(error.message, wanted_error.message) != 0) {
    fail_msg("%.*s: %d %s, compacted %d %s", (int)text.length, text.data, status, error.message, wanted_status,
             wanted_error.message);
  }
  if (status == MOONPAD_OK) {
    in_one_pass = draft.compact.data == NULL;
    show(&draft, &shown);
    show(&wanted, &expected);
    if (shown.length != expected.length || memcmp(shown.data, expected.data, shown.length) != 0) {
      fail_msg("%.*s: %.*s, compacted %.*s", (int)text.length, text.data, (int)shown.length, shown.data,
               (int)expected.length, expected.data);
    }
    mp_event_draft_free(&draft);
    mp_event_draft_free(&wanted);
  }
  mp_buffer_free(&compact);
  mp_buffer_free(&shown);
  mp_buffer_free(&expected);
  free(copy);
  return in_one_pass;
}

static void events_in_canonical_spelling_are_read_in_one_pass(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  for (size_t i = 0; i < EVENTS; i++) assert_true(check_same(env, moonpad_text(events[i])));
  mp_env_release(env);
}

static void other_spellings_are_read_as_the_canonical_one(void **state) {
  (void)state;
  static const char *const others[] = {
      "{ \"id\": \"x\", \"content\": {\"parts\": []} }",
      "{\"id\":\"\\u0041\"}",
      "{\"id\":\"a\\/b\"}",
      "{\"x\":-0}",
      "{\"x\":1.50}",
      "{\"x\":1E2}",
      "{\"x\":9223372036854775808}",
      "{\"timestamp\":5e3}",
      "{\"timestamp\":-0}",
      "{\"x\":0.1000000000000000055511151231257827}",
      "{\"actions\":{\"stateDelta\":{\"\\u0061\":1}}}",
  };
  mp_env *env = mp_env_new(NULL);
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    assert_false(check_same(env, moonpad_text(others[i])));
  }
  mp_env_release(env);
}

static void what_is_wrong_is_said_as_before(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "",
      "[]",
      "{\"a\":1,\"a\":2}",
      "{\"state_delta\":{}}",
      "{\"stateDelta\":{}}",
      "{\"invocation_id\":\"x\"}",
      "{\"content\":{\"Parts\":[]}}",
      "{\"content\":{\"parts\":[1]}}",
      "{\"content\":{\"parts\":[{\"text\":1}]}}",
      "{\"content\":{\"parts\":[{\"text\":1}]}} x",
      "{\"actions\":{\"stateDelta\":[]}}",
      "{\"timestamp\":\"x\"}",
      "{\"timestamp\":1e999}",
      "{\"removedStateKeys\":[\"x\"]}",
      "{\"removedStateKeys\":[1]}",
      "{\"x\":01}",
      "{\"x\":1.}",
      "{\"x\":\"\xFF\"}",
      "{\"x\":\"\xED\xA0\x80\"}",
      "{\"x\":\"a\x01\"}",
      "{\"x\":\"\\q\"}",
      "{\"x\":tru}",
      "{\"x\":1",
      "{\"x\"",
      "{\"x\":1}}",
  };
  mp_env *env = mp_env_new(NULL);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) check_same(env, moonpad_text(wrong[i]));
  mp_env_release(env);
}

static void nesting_is_limited_in_both(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  for (size_t depth = MOONPAD_MAX_DEPTH - 2; depth < DEPTH + 3; depth++) {
    static const char *const outer[] = {"{\"x\":", "}", "{\"actions\":{\"stateDelta\":{\"x\":", "}}}"};
    for (size_t i = 0; i < 4; i += 2) {
      mp_buffer text;
      mp_buffer_init(&text, env);
      mp_buffer_add_string(&text, moonpad_text(outer[i]));
      for (size_t j = 0; j < depth; j++) mp_buffer_add_char(&text, '[');
      for (size_t j = 0; j < depth; j++) mp_buffer_add_char(&text, ']');
      mp_buffer_add_string(&text, moonpad_text(outer[i + 1]));
      assert_int_equal(check_same(env, mp_buffer_text(&text)), depth <= MOONPAD_MAX_DEPTH);
      mp_buffer_free(&text);
    }
  }
  mp_env_release(env);
}

static void objects_of_many_keys_are_read(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  for (int twice = 0; twice < 2; twice++) {
    mp_buffer text;
    mp_buffer_init(&text, env);
    mp_buffer_add_literal(&text, "{\"actions\":{\"stateDelta\":{");
    for (int i = 0; i < 300; i++) {
      char member[32];
      snprintf(member, sizeof member, "%s\"k%d\":%d", i == 0 ? "" : ",", i == 299 && twice ? 17 : i, i);
      mp_buffer_add_string(&text, moonpad_text(member));
    }
    mp_buffer_add_literal(&text, "}}}");
    assert_false(check_same(env, mp_buffer_text(&text)));
    mp_buffer_free(&text);
  }
  mp_env_release(env);
}

/* ---- numbers: taken as canonical only where compacting would leave them ---- */

static void check_number(mp_env *env, const char *number) {
  char text[96];
  moonpad_type type;
  mp_buffer compact;
  snprintf(text, sizeof text, "{\"x\":%s}", number);
  mp_buffer_init(&compact, env);
  moonpad_status status = mp_json_compact(env, moonpad_text(text), DEPTH, NULL, &compact, &type, NULL);
  bool stays =
      status == MOONPAD_OK && compact.length == strlen(text) && memcmp(compact.data, text, compact.length) == 0;
  if (check_same(env, moonpad_text(text)) != stays) fail_msg("%s: canonical or not", number);
  mp_buffer_free(&compact);
}

static void numbers_are_canonical_as_they_are_formatted(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  for (int i = 0; i < 20000; i++) {
    char number[64];
    size_t used = 0, whole = 1 + random_size() % 20, fraction = random_size() % 3 == 0 ? 0 : random_size() % 19;
    if (next_random() % 4 == 0) number[used++] = '-';
    for (size_t j = 0; j < whole; j++) number[used++] = (char)('0' + (next_random() % 3 == 0 ? 0 : next_random() % 10));
    if (fraction != 0) number[used++] = '.';
    for (size_t j = 0; j < fraction; j++)
      number[used++] = (char)('0' + (next_random() % 2 == 0 ? 0 : next_random() % 10));
    if (next_random() % 16 == 0) used += (size_t)snprintf(number + used, 8, "e%d", (int)(next_random() % 40) - 20);
    number[used] = '\0';
    check_number(env, number);
    if (number[0] == '0') check_number(env, number + 1 - (fraction == 0));
  }
  mp_env_release(env);
}

/* ---- any text ---- */

/* One change of a byte, a piece taken out, or a piece put in again elsewhere. */
static size_t mutate(char *text, size_t length, size_t room) {
  static const char bytes[] = "{}[]\",:\\ \n0123456789.eE-+tfnul_aZ\xC3\xA9\x01\xFF";
  size_t at = random_size() % (length + 1), size = random_size() % 12;
  switch (next_random() % 4) {
  case 0:
    if (at < length) text[at] = bytes[next_random() % (sizeof bytes - 1)];
    return length;
  case 1:
    if (length == room) return length;
    memmove(text + at + 1, text + at, length - at);
    text[at] = bytes[next_random() % (sizeof bytes - 1)];
    return length + 1;
  case 2:
    if (size > length - at) size = length - at;
    memmove(text + at, text + at + size, length - at - size);
    return length - size;
  default:
    if (size > length - at || length + size > room) return length;
    memmove(text + at + size, text + at, length - at);
    return length + size;
  }
}

static void mutated_events_are_read_alike(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  for (int i = 0; i < 20000; i++) {
    char text[1024];
    const char *event = events[next_random() % EVENTS];
    size_t length = strlen(event), changes = 1 + random_size() % 3;
    memcpy(text, event, length);
    for (size_t j = 0; j < changes; j++) length = mutate(text, length, sizeof text);
    check_same(env, (moonpad_string){text, length});
  }
  mp_env_release(env);
}

/* ---- without memory ---- */

static void nothing_is_left_when_memory_runs_out(void **state) {
  (void)state;
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  for (size_t i = 0; i < EVENTS; i++) {
    size_t alive = counter.alive;
    moonpad_status status = MOONPAD_NO_MEMORY;
    for (size_t n = 1; status != MOONPAD_OK; n++) {
      mp_event_draft draft;
      moonpad_error error;
      counting_arm(&counter, n);
      status = mp_event_draft_read(env, moonpad_text(events[i]), false, &draft, &error);
      counting_disarm(&counter);
      if (status == MOONPAD_OK) {
        mp_event_draft_free(&draft);
      } else {
        assert_int_equal(status, MOONPAD_NO_MEMORY);
        assert_int_equal(error.code, MOONPAD_NO_MEMORY);
      }
      assert_int_equal(counter.alive, alive);
    }
  }
  mp_env_release(env);
  assert_int_equal(counter.alive, 0);
}

/*
** What is written need not be where it stands in the text already, members in the order in which
** they are stored.
*/
static void only_what_is_spelt_as_stored_stands(void **state) {
#define BEGIN "{\"id\":\"i\",\"invocationId\":\"e\",\"timestamp\":1.5"
#define DELTA ",\"actions\":{\"stateDelta\":{\"a\":1}"
  static const struct {
    const char *text;
    bool stands;
  } cases[] = {
      {BEGIN DELTA "}}", true},
      {BEGIN ",\"author\":\"x\",\"own\":[1]" DELTA ",\"escalate\":true,\"own\":{}}}", true},
      {BEGIN ",\"actions\":{\"stateDelta\":{}}}", true},
      {" " BEGIN DELTA "}}", true}, /* compacted first */
      {BEGIN DELTA "},\"author\":\"x\"}", false},
      {BEGIN ",\"revision\":1" DELTA "}}", false},
      {BEGIN DELTA "},\"revision\":1}", false},
      {BEGIN DELTA ",\"escalate\":null}}", false},
      {BEGIN ",\"author\":null" DELTA "}}", false},
      {BEGIN ",\"author\":\"x\",\"branch\":null,\"own\":1" DELTA "}}", false},
      {BEGIN ",\"actions\":{\"escalate\":true,\"stateDelta\":{}}}", false},
      {BEGIN ",\"actions\":{\"stateDelta\":{\"a\":null}},\"removedStateKeys\":[\"a\"]}", false},
      {BEGIN ",\"actions\":{}}", false},
      {BEGIN "}", false},
      {"{\"id\":\"i\",\"invocationId\":\"e\",\"timestamp\":1.50" DELTA "}}", false},
      {"{\"id\":\"i\",\"timestamp\":1.5,\"invocationId\":\"e\"" DELTA "}}", false},
      {"{\"invocationId\":\"e\",\"timestamp\":1.5" DELTA "}}", false},
  };
  (void)state;
  mp_env *env = mp_env_new(NULL);
  mp_buffer shown;
  mp_buffer_init(&shown, env);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mp_event_draft draft;
    moonpad_string text;
    assert_int_equal(mp_event_draft_read(env, moonpad_text(cases[i].text), false, &draft, NULL), MOONPAD_OK);
    if (mp_event_draft_is_unchanged(&draft, &text) != cases[i].stands) fail_msg("%s", cases[i].text);
    show(&draft, &shown);
    mp_event_draft_free(&draft);
  }
  mp_buffer_free(&shown);
  mp_env_release(env);
}

/*
** The digest of an event stands in files, so it never changes: not with the machine, nor with the
** order of the fields that are known. docs/storage.md says how it is made; the numbers are from a
** program that was written after that page.
*/
static void digests_are_those_that_files_hold(void **state) {
  static const struct {
    const char *text;
    uint64_t digest;
  } cases[] = {
      {"{}", UINT64_C(0)},
      {"{\"author\":\"user\"}", UINT64_C(0x2bb7b3af6ae2c034)},
      {"{\"id\":\"e1\",\"invocationId\":\"i1\",\"timestamp\":1763700000.125,\"author\":\"user\",\"content\":{\"role\":"
       "\"user\","
       "\"parts\":[{\"text\":\"Tea for two, please; and a "
       "biscuit.\"},{\"functionCall\":{\"id\":\"c\",\"name\":\"f\",\"args\":{}}}]}}",
       UINT64_C(0xa27082976c22fbeb)},
      {"{\"own\":{\"b\":[1,2.5,null],\"a\":false},\"actions\":{\"escalate\":true,\"mine\":[],\"stateDelta\":{\"k\":1,"
       "\"user:name\":\"Ann\",\"gone\":null,\"temp:x\":2}},\"removedStateKeys\":[\"gone\"],\"revision\":7,\"branch\":"
       "null}",
       UINT64_C(0xde73d4de1b2b3cd2)},
  };
  (void)state;
  mp_env *env = mp_env_new(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mp_event_draft draft;
    assert_int_equal(mp_event_draft_read(env, moonpad_text(cases[i].text), false, &draft, NULL), MOONPAD_OK);
    if (draft.digest != cases[i].digest) {
      print_error("%s: 0x%llx\n", cases[i].text, (unsigned long long)draft.digest);
      fail();
    }
    mp_event_draft_free(&draft);
  }
  mp_env_release(env);
}

static void each_known_field_has_the_digest_of_its_name(void **state) {
  static const mp_field *const tables[] = {mp_event_fields, mp_action_fields, mp_content_fields, mp_part_fields};
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    for (const mp_field *field = tables[i]; field->name != NULL; field++) {
      uint64_t digest = mp_digest_text(moonpad_text(field->name));
      if (field->digest != digest) fail_msg("%s: 0x%016llx", field->name, (unsigned long long)digest);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(events_in_canonical_spelling_are_read_in_one_pass),
      cmocka_unit_test(other_spellings_are_read_as_the_canonical_one),
      cmocka_unit_test(what_is_wrong_is_said_as_before),
      cmocka_unit_test(nesting_is_limited_in_both),
      cmocka_unit_test(objects_of_many_keys_are_read),
      cmocka_unit_test(numbers_are_canonical_as_they_are_formatted),
      cmocka_unit_test(mutated_events_are_read_alike),
      cmocka_unit_test(only_what_is_spelt_as_stored_stands),
      cmocka_unit_test(nothing_is_left_when_memory_runs_out),
      cmocka_unit_test(digests_are_those_that_files_hold),
      cmocka_unit_test(each_known_field_has_the_digest_of_its_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
