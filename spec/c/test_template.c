/*
** Instruction templates: contract 4.1, ADK's own table, errors. All by moonpad_render, but for the
** list of the artifacts that a template names (core/template.h), which only Lua asks for.
*/
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/template.h"
#include "template_state.h"

/* ---- tables of cases ---- */

typedef struct render_case {
  const char *source;
  const char *expected; /* SAME: the source; NULL: an error `template` */
} render_case;

#define SAME "\x01same"

static moonpad_status render(const char *source, moonpad_template_syntax syntax, const char *agent, char *out,
                             moonpad_error *error) {
  template_state state = example_state();
  moonpad_template_options options;
  moonpad_buffer result = {0};
  moonpad_template_options_init(&options);
  options.syntax = syntax;
  options.agent_name = moonpad_text(agent);
  moonpad_status status = moonpad_render(moonpad_text(source), &options, look_up_in_state, &state, &result, error);
  if (status == MOONPAD_OK) {
    assert_int_equal(strlen(result.data), result.length);
    strcpy(out, result.data);
  } else {
    assert_null(result.data);
    assert_int_equal(error->code, status);
  }
  moonpad_buffer_free(&result);
  return status;
}

static void check_cases(const render_case *cases, size_t count, moonpad_template_syntax syntax) {
  for (size_t i = 0; i < count; i++) {
    char got[4096] = "";
    moonpad_error error;
    const char *source = cases[i].source, *expected = cases[i].expected;
    moonpad_status status = render(source, syntax, "", got, &error);
    if (expected == NULL) {
      if (status != MOONPAD_TEMPLATE) fail_msg("%s: %d instead of an error, \"%s\"", source, (int)status, got);
      continue;
    }
    if (strcmp(expected, SAME) == 0) expected = source;
    if (status != MOONPAD_OK) fail_msg("%s: %s", source, error.message);
    if (strcmp(got, expected) != 0) fail_msg("%s: \"%s\" instead of \"%s\"", source, got, expected);
  }
}
#define CHECK(cases, syntax) check_cases(cases, sizeof(cases) / sizeof(cases)[0], syntax)

static void the_contract_holds(void **unused) {
  (void)unused;
  static const render_case cases[] = {
      {"{topic}", "owls"},
      {"<topic>", "owls"},
      {"{ topic }", "owls"},
      {"{\t\r\n topic\n}", "owls"},
      {"< topic >", SAME},
      {"<topic >", SAME},
      {"{missing?}", ""},
      {"<missing?>", ""},
      {"{nobody.name?}", ""},
      {"<nobody.name?>", ""},
      {"<user:missing?>", ""},
      {"{missing}", NULL},
      {"{user:missing}", NULL},
      {"<user:missing>", NULL},
      {"<missing>", SAME},
      {"{{topic}}", SAME},
      {"\\{topic}", "{topic}"},
      {"\\<topic>", "<topic>"},
      {"{\"a\": {topic}}", "{\"a\": owls}"},
      {"{profile.address.city}", "Z\xC3\xBCrich"},
      {"{cart[1].n}", "2"},
      {"{cart[2]}", "[3,4.5]"},
      {"<profile.address.city>", "Z\xC3\xBCrich"},
      {"{profile.address.country}", NULL},
      {"<profile.address.country>", NULL},
      {"{cart[9]}", NULL},
      {"{nobody.name}", SAME},
      {"<nobody.name>", SAME},
      {"{nobody[1]}", SAME},
      {"{user:nobody.name}", SAME},
      {"<user:nobody.name>", SAME},
      {"{1x}", SAME},
      {"{a b}", SAME},
      {"{foo:k}", SAME},
      {"{}", SAME},
      {"<a href=\"x\">", SAME},
      {"a < b > c", SAME},
      {"</topic>", SAME},
      {"<topic>x</topic>", SAME},
      {"</topic> and <topic> and <x>", "</topic> and <topic> and V"},
      {"{x}{n}{b}{off}{i}{f}{d}", "Vtruefalse-92233720368547758081.0{\"a\":[1,null,\"q\"]}"},
      {"{s}", "{x}<x>\\{x}"},
      {"{artifact.notes.txt}", "NOTES"},
      {"<artifact.notes.txt>", "NOTES"},
      {"{user:name}<user:name>{app:k}{temp:t}", "AdaAdaA7"},
      {"{profile.address}", "{\"city\":\"Z\\u00fcrich\",\"zip\":8001}"},
  };
  CHECK(cases, MOONPAD_TEMPLATE_BOTH);
}

static void adk_behaves_the_same_but_keeps_braces(void **unused) {
  (void)unused;
  static const render_case cases[] = {
      {"{{x}}", SAME},
      {"{{{x}}}", SAME},
      {"{{x}", "{V"},
      {"{x}}", "V}"},
      {"{x}}}}y", "V}}}y"},
      {"{}{{}}{ }", SAME},
      {"{x}{x2}", "VW"},
      {"{a{x}b}", "{aVb}"},
      {"}{x}{", "}V{"},
      {"{x", SAME},
      {"x}", SAME},
      {"{", SAME},
      {"}", SAME},
      {"{\"a\": 1}", SAME},
      {"{\"a\": {x}}", "{\"a\": V}"},
      {"{\"a\":{\"b\":{x}}}", "{\"a\":{\"b\":V}}"},
      {"{{\"k\": \"{x}\"}}", "{{\"k\": \"V\"}}"},
      {"{artifact.}", NULL},
      {"{artifact.?}", ""},
      {"{x?}{ x? }", "VV"},
      {"{x ?}{x??}{?}", SAME},
      {"{zz?}", ""},
      {"{zz}", NULL},
      {"{X}", NULL},
      {"{artifact}", "just a key"},
      {"{n}{n?}", ""},
      {"{app:k}{app:k?}", "AA"},
      {"{app: k}{app :k}{foo:k}{app:}{app:a:b}{:k}{App:k}", SAME},
      {"{1x}{x-y}{x!r}{x:>10}{x|upper}{nope.y}", SAME},
      {"{_}{caf\xC3\xA9}{\xE6\x9C\x88}", "undernoirmoon"},
      {"{class}", NULL},
      {"{x\xC2\xA0}", SAME},
      {"{artifact. f}", "LEADING"},
      {"{artifact.a/b c.txt}{artifact.a/b c.txt?}{ artifact.a/b c.txt }", "SPACEDSPACEDSPACED"},
      {"{artifact.no such?}", ""},
      {"{artifact.no such}", NULL},
  };
  CHECK(cases, MOONPAD_TEMPLATE_BOTH);
}

static void braces_doubled_on_both_sides_stay(void **unused) {
  (void)unused;
  static const render_case cases[] = {
      {"{{ x }}", SAME},
      {"{{x?}}{{missing}}{{missing?}}", SAME},
      {"{{artifact.nothing}}", SAME},
      {"{ {x}}", "{ V}"},
      {"{{x} }", "{V }"},
      {"{{x}{x2}}", "{VW}"},
      {"{{x}}{x}", "{{x}}V"},
      {"{x}{{x}}", "V{{x}}"},
      {"{\\{x}}", "{{x}}"},
      {"\\{{x}}", SAME},
      {"<<x>>", "<V>"},
      {"<{x}>", "<V>"},
      {"{<x>}", "{V}"},
      {"${x}", "$V"},
      {"\\frac{1}{2}", SAME},
  };
  CHECK(cases, MOONPAD_TEMPLATE_BOTH);
}

static void a_backslash_escapes_placeholders_only(void **unused) {
  (void)unused;
  static const render_case cases[] = {
      {"\\{missing}", "{missing}"},
      {"\\{x?}", "{x?}"},
      {"\\{ x }", "{ x }"},
      {"\\<missing>", "<missing>"},
      {"\\{profile.nothing}", "{profile.nothing}"},
      {"\\{artifact.nothing}", "{artifact.nothing}"},
      {"\\\\{x}", "\\{x}"},
      {"\\ {x}", "\\ V"},
      {"\\{1x}\\{}\\n\\", SAME},
      {"{x}\\{x}{x}", "V{x}V"},
      {"\\<x>y</x>", SAME},
  };
  CHECK(cases, MOONPAD_TEMPLATE_BOTH);
}

static void markup_is_left_alone(void **unused) {
  (void)unused;
  static const render_case cases[] = {
      {"<x>{x}</x>", "<x>V</x>"},
      {"</x ><x>", SAME},
      {"</x", SAME},
      {"<x></x", "V</x"},
      {"<x></ x>", "V</ x>"},
      {"<x?></x>", "V</x>"},
      {"<x2></x>", "W</x>"},
      {"<user:name></user:name><user:missing></user:missing>", SAME},
      {"<profile.nick></profile>", "lune</profile>"},
      {"<profile.nick></profile.nick>", SAME},
      {"<artifact.notes.txt></artifact.notes.txt>", SAME},
      {"<br/><br><br />", SAME},
      {"<!-- x --><!DOCTYPE html>", SAME},
      {"Map<String, List<T>>", SAME},
  };
  CHECK(cases, MOONPAD_TEMPLATE_BOTH);
}

static void paths_reach_into_values(void **unused) {
  (void)unused;
  static const render_case cases[] = {
      {"{cart[1].sku}", "a\"1"},
      {"{cart[2][2]}{cart[3]}{cart[4]}", "4.5false"},
      {"{profile.tags[2]}{profile.none}{profile.none?}", "b"},
      {"{user:p.q}<user:p.q>", "11"},
      {"{cart[0]}", NULL},
      {"{cart[0]?}", ""},
      {"{cart[99999999999999999999999]?}", ""},
      {"{cart[99999999999999999999999]}", NULL},
      {"{cart[01].n}{cart[1].none?}{cart[1][0].x?}", "2"},
      {"{cart.sku}", NULL},
      {"{profile[1]}", NULL},
      {"{profile.nick.first}", NULL},
      {"{profile.nick.first?}", ""},
      {"{profile.none.more}", NULL},
      {"{x.y}", NULL},
      {"{x.y?}", ""},
      {"{n.y}", NULL},
      {"{profile.}{profile..nick}{.nick}{profile.1}{cart[]}{cart[-1]}{cart[a]}{cart[1}{cart]}{cart[ 1]}", SAME},
      {"{profile . nick}{profile. nick}{profile.nick ?}", SAME},
      {"{artifact[1]?}", ""},
  };
  CHECK(cases, MOONPAD_TEMPLATE_BOTH);
}

static void one_syntax_leaves_the_other_alone(void **unused) {
  (void)unused;
  static const render_case braces[] = {
      {"{x}<x><missing><user:missing>\\<x>", "V<x><missing><user:missing>\\<x>"},
      {"{x}</x>", "V</x>"},
      {"{nobody.name}", SAME},
      {"{missing}", NULL},
  };
  static const render_case angles[] = {
      {"<x>{x}{missing}\\{x}", "V{x}{missing}\\{x}"},
      {"<missing>", NULL},
      {"<nobody.name>", NULL},
      {"<user:missing>", NULL},
      {"<missing?><nobody.name?>", ""},
      {"<missing></missing>", SAME},
      {"\\<missing>", "<missing>"},
      {"<artifact.nothing>", NULL},
      {"<a href=\"x\"> a < b > c", SAME},
  };
  CHECK(braces, MOONPAD_TEMPLATE_BRACES);
  CHECK(angles, MOONPAD_TEMPLATE_ANGLES);
}

static void artifacts_between_angles(void **unused) {
  (void)unused;
  static const render_case cases[] = {
      {"<artifact.a/b c.txt>", "SPACED"},
      {"<artifact.no such?>", ""},
      {"<artifact.nothing>", NULL},
      {"<artifact.>", SAME},
      {"<artifact.notes.txt >", SAME},
      {"<artifact.notes\n.txt>", SAME},
      {"<artifact.notes<x>", "<artifact.notesV"},
      {"{artifact.notes{x}", "{artifact.notesV"},
  };
  CHECK(cases, MOONPAD_TEMPLATE_BOTH);
}

/* ---- errors ---- */

static void check_message(const char *source, const char *agent, const char *expected) {
  char got[4096];
  moonpad_error error;
  assert_int_equal(render(source, MOONPAD_TEMPLATE_BOTH, agent, got, &error), MOONPAD_TEMPLATE);
  assert_string_equal(error.message, expected);
}

static void errors_name_key_agent_position_and_ways_out(void **unused) {
  (void)unused;
  check_message("One\n\xC3\xA9\xC3\xA9 {user:missing}", "greeter",
                "{user:missing} at line 2, column 4 of the instruction of agent \"greeter\": the state has no key "
                "\"user:missing\"; set it, write {user:missing?} if it may be missing, or \\{user:missing} to have it "
                "as text");
  check_message("<user:missing>", "",
                "<user:missing> at line 1, column 1 of the template: the state has no key \"user:missing\"; set it, "
                "write <user:missing?> if it may be missing, or \\<user:missing> to have it as text");
  check_message("{profile.address.country.code}", "",
                "{profile.address.country.code} at line 1, column 1 of the template: \"profile.address\" has no member "
                "\"country\"; set it, write {profile.address.country.code?} if it may be missing, or "
                "\\{profile.address.country.code} to have it as text");
  check_message("x {cart[7].sku}", "",
                "{cart[7].sku} at line 1, column 3 of the template: \"cart\" has no item 7; set it, write "
                "{cart[7].sku?} if it may be missing, or \\{cart[7].sku} to have it as text");
  check_message("{cart[2][0]}", "",
                "{cart[2][0]} at line 1, column 1 of the template: \"cart[2]\" has no item 0 (the first is 1); set it, "
                "write {cart[2][0]?} if it may be missing, or \\{cart[2][0]} to have it as text");
  check_message("{profile.nick.first}", "",
                "{profile.nick.first} at line 1, column 1 of the template: \"profile.nick\" has no member \"first\"; "
                "set it, write {profile.nick.first?} if it may be missing, or \\{profile.nick.first} to have it as "
                "text");
  check_message("{artifact.a b}", "",
                "{artifact.a b} at line 1, column 1 of the template: there is no artifact \"a b\"; save it, write "
                "{artifact.a b?} if it may be missing, or \\{artifact.a b} to have it as text");
}

static void a_long_key_still_gives_a_message(void **unused) {
  (void)unused;
  char source[3002], got[4096];
  moonpad_error error;
  memset(source, 1, sizeof source);
  memcpy(source, "{artifact.", 10);
  source[3000] = '}';
  source[3001] = '\0';
  assert_int_equal(render(source, MOONPAD_TEMPLATE_BOTH, "a", got, &error), MOONPAD_TEMPLATE);
  assert_true(strlen(error.message) < sizeof error.message);
  assert_non_null(strstr(error.message, "there is no artifact"));
}

static void a_lookup_that_fails_stops(void **unused) {
  (void)unused;
  template_state state = example_state();
  moonpad_buffer result;
  moonpad_error error;
  state.refused = "x";
  assert_int_equal(moonpad_render(moonpad_text("{topic}{x?}{x2}"), NULL, look_up_in_state, &state, &result, &error),
                   MOONPAD_BUSY);
  assert_string_equal(error.message, "try again");
  assert_int_equal(error.code, MOONPAD_BUSY);
  assert_int_equal(state.lookups, 2);
  assert_null(result.data);
  assert_int_equal(moonpad_render(moonpad_text("{x}"), NULL, look_up_in_state, &state, &result, NULL), MOONPAD_BUSY);
}

static bool refuse_silently(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error) {
  (void)context, (void)name, (void)value, (void)error;
  return false;
}

static void a_lookup_that_fails_without_a_word_is_an_error_too(void **unused) {
  (void)unused;
  moonpad_buffer result;
  moonpad_error error;
  assert_int_equal(moonpad_render(moonpad_text("{x}"), NULL, refuse_silently, NULL, &result, &error), MOONPAD_TEMPLATE);
  assert_string_equal(error.message, "{x} at line 1, column 1 of the template: its value could not be looked up");
}

static void bad_values_and_options_are_refused(void **unused) {
  (void)unused;
  template_state state = {.count = 0};
  moonpad_template_options options;
  moonpad_buffer result;
  moonpad_error error;
  put_in_state(&state, "nan", moonpad_float((double)NAN));
  put_in_state(&state, "broken", moonpad_json(moonpad_text("{\"a\":")));
  assert_int_equal(moonpad_render(moonpad_text("{nan}"), NULL, look_up_in_state, &state, &result, &error),
                   MOONPAD_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "{nan} at line 1"));
  assert_int_equal(moonpad_render(moonpad_text("{broken.a}"), NULL, look_up_in_state, &state, &result, &error),
                   MOONPAD_INVALID_ARGUMENT);
  moonpad_template_options_init(&options);
  options.syntax = (moonpad_template_syntax)9;
  assert_int_equal(moonpad_render(moonpad_text("x"), &options, look_up_in_state, &state, &result, &error),
                   MOONPAD_INVALID_ARGUMENT);
}

/* ---- the list of artifacts ---- */

typedef struct listing {
  char text[256];
  size_t count, stop_after;
} listing;

static bool list_file(void *context, moonpad_string file) {
  listing *list = context;
  strncat(list->text, file.data, file.length);
  strcat(list->text, "|");
  return ++list->count != list->stop_after;
}

static void artifacts_are_listed(void **unused) {
  (void)unused;
  moonpad_string source = moonpad_text("{artifact.a.txt} {{artifact.b}} \\{artifact.c} {artifact. d e?} <artifact.f> "
                                       "<artifact.g></artifact.g> {artifact.a.txt} {artifact.} {x} {artifact}");
  listing all = {.count = 0}, some = {.count = 0, .stop_after = 2}, braces = {.count = 0};
  moonpad_template_options options;
  assert_int_equal(mp_template_artifacts(source, NULL, list_file, &all), MOONPAD_OK);
  assert_string_equal(all.text, "a.txt| d e|f|a.txt|");
  assert_int_equal(mp_template_artifacts(source, NULL, list_file, &some), MOONPAD_OK);
  assert_string_equal(some.text, "a.txt| d e|");
  moonpad_template_options_init(&options);
  options.syntax = MOONPAD_TEMPLATE_BRACES;
  assert_int_equal(mp_template_artifacts(source, &options, list_file, &braces), MOONPAD_OK);
  assert_string_equal(braces.text, "a.txt| d e|a.txt|");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_contract_holds),
      cmocka_unit_test(adk_behaves_the_same_but_keeps_braces),
      cmocka_unit_test(braces_doubled_on_both_sides_stay),
      cmocka_unit_test(a_backslash_escapes_placeholders_only),
      cmocka_unit_test(markup_is_left_alone),
      cmocka_unit_test(paths_reach_into_values),
      cmocka_unit_test(one_syntax_leaves_the_other_alone),
      cmocka_unit_test(artifacts_between_angles),
      cmocka_unit_test(errors_name_key_agent_position_and_ways_out),
      cmocka_unit_test(a_long_key_still_gives_a_message),
      cmocka_unit_test(a_lookup_that_fails_stops),
      cmocka_unit_test(a_lookup_that_fails_without_a_word_is_an_error_too),
      cmocka_unit_test(bad_values_and_options_are_refused),
      cmocka_unit_test(artifacts_are_listed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
