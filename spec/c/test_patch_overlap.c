/*
** Patches of several who wrote concurrently (contract 1.4 point 3): where they overlap, and both
** together where they do not. The rule itself, pair by pair; tool calls are tested in Lua.
*/
#include "tree_support.h"

/* ---- Two that are concurrent ---- */

/* `both`: what the second makes of what the first left; NULL: they overlap. */
typedef struct pair_case {
  const char *base, *first, *second, *both;
} pair_case;

static const pair_case objects[] = {
    /* nothing done */
    {"{\"a\":1}", "a=2", "", "{\"a\":2}"},
    {"{\"a\":1}", "", "a=2", "{\"a\":2}"},
    {"{\"a\":1}", "", "", "{\"a\":1}"},
    {"{}", "x=1", "y=1; y=-", "{\"x\":1}"},
    /* different paths do not overlap, the same path does, even with the same value */
    {"{}", "theme=1", "lang=2", "{\"lang\":2,\"theme\":1}"},
    {"{\"a\":1,\"b\":2}", "a=3", "b=4", "{\"a\":3,\"b\":4}"},
    {"{\"a\":1}", "a=2", "a=3", NULL},
    {"{\"a\":1}", "a=2", "a=2", NULL},
    {"{\"a\":1}", "a=2", "a=-", NULL},
    {"{\"a\":1}", "a=-", "a=2", NULL},
    {"{\"a\":1}", "a=-", "a=-", NULL},
    {"{\"a\":1,\"b\":1}", "a=-", "b=-", "{}"},
    {"{\"a\":1}", "x=1", "a=-; a=1", "{\"a\":1,\"x\":1}"},
    /* nested */
    {"{\"p\":{\"q\":{\"x\":1}}}", "p.q.y=2", "p.q.z=3", "{\"p\":{\"q\":{\"x\":1,\"y\":2,\"z\":3}}}"},
    {"{\"p\":{\"q\":{\"x\":1}}}", "p.r=2", "p.q.x=-", "{\"p\":{\"q\":{},\"r\":2}}"},
    /* below what one replaced or removed there is nothing left for the other to write */
    {"{\"p\":{\"x\":1}}", "p={\"n\":1}", "p.y=2", NULL},
    {"{\"p\":{\"x\":1}}", "p=-", "p.y=2", NULL},
    {"{\"p\":{\"q\":{\"x\":1}}}", "p=7", "p.q.y=2", NULL},
    {"{\"p\":{\"x\":1}}", "p.x=-; p[1]=1", "p.y=2", NULL},
    {"{\"p\":[1]}", "p={\"x\":1}", "p+=2", NULL},
    {"{\"p\":{\"x\":1},\"ps\":{\"x\":1}}", "p=-", "ps.x=2", "{\"ps\":{\"x\":2}}"},
};

static const pair_case arrays[] = {
    /* items of both, in the order of application */
    {"{\"l\":[1]}", "l+=2; l+=3", "l+=4", "{\"l\":[1,2,3,4]}"},
    {"{\"l\":[]}", "l+=2", "l+=4; l+=5; l[2]=-; l[1]=6", "{\"l\":[2,6]}"},
    {"{\"l\":[[1]]}", "l[1]+=2", "l[1]+=3; l+=[4]; l[2]+=5", "{\"l\":[[1,2,3],[4,5]]}"},
    /* an item that is assigned is a path of its own */
    {"{\"l\":[1,2]}", "l+=3", "l[1]=0; l+=4", "{\"l\":[0,2,3,4]}"},
    {"{\"l\":[1,2]}", "l[1]=9", "l[2]=0", "{\"l\":[9,0]}"},
    {"{\"l\":[1,2]}", "l[1]=9", "l[1]=0", NULL},
    {"{\"l\":[2,1]}", "l[1]=1; l[2]=2", "l+=3", "{\"l\":[1,2,3]}"},
    /* an array that got shorter is a new one, even where it grew again */
    {"{\"l\":[1,2]}", "l+=3", "l[2]=-", NULL},
    {"{\"l\":[1,2]}", "l+=3", "l[2]=-; l+=2", NULL},
    {"{\"l\":[1,2]}", "l[1]=5", "l[2]=-", NULL},
    {"{\"l\":[1,2],\"m\":[1,2]}", "m+=3", "l[2]=-", "{\"l\":[1],\"m\":[1,2,3]}"},
    {"{\"l\":[2,1]}", "l=[7]", "l+=3", NULL},
    {"{\"l\":[2,1]}", "l=-", "l+=3", NULL},
    /* inside items */
    {"{\"l\":[{\"x\":1},{\"x\":2}]}", "l[1].y=1", "l[2].y=2; l+=3", "{\"l\":[{\"x\":1,\"y\":1},{\"x\":2,\"y\":2},3]}"},
    {"{\"l\":[{\"x\":1}]}", "l[1].y=1; l+=5", "l[1].x=-", "{\"l\":[{\"y\":1},5]}"},
    {"{\"l\":[{\"x\":1}]}", "l[1]={\"n\":1}", "l[1].y=1", NULL},
    {"{\"l\":[1,{\"x\":1}]}", "l[2]=-", "l[2].y=1", NULL},
    {"{\"l\":[{}]}", "l[1][1]=1", "l[1][1]=2", "{\"l\":[[1,2]]}"},
    /* one has members where the other has items */
    {"{\"l\":[{}]}", "l[1][1]=1; l+=8", "l[1].x=1; l+=9", NULL},
};

static const pair_case created[] = {
    /* put there because there was none: the items of both, and the members of both */
    {"{}", "l={}; l+=1", "l={}; l+=2", "{\"l\":[1,2]}"},
    {"{}", "l=[]; l+=1", "l={}; l+=2", "{\"l\":[1,2]}"},
    {"{}", "l=[1,2]", "l=[3]", "{\"l\":[1,2,3]}"},
    {"{}", "o={}; o.x=1", "o={}; o.y=2", "{\"o\":{\"x\":1,\"y\":2}}"},
    {"{}", "o={\"x\":1}", "o={\"y\":3}", "{\"o\":{\"x\":1,\"y\":3}}"},
    {"{}", "o={}; o.x=1", "o={}; o.x=2", NULL},
    {"{}", "o={}; o.p={}; o.p.x=1", "o={}; o.p={}; o.p.y=2", "{\"o\":{\"p\":{\"x\":1,\"y\":2}}}"},
    {"{}", "o={}; o.p={}; o.p+=1", "o={\"p\":[2]}", "{\"o\":{\"p\":[1,2]}}"},
    {"{\"deep\":{}}", "deep.l={}; deep.l+=1", "deep.l={}; deep.l+=2", "{\"deep\":{\"l\":[1,2]}}"},
    {"{}", "", "l={}; l+=3", "{\"l\":[3]}"},
    {"{}", "l={}", "l={}; l+=3", "{\"l\":[3]}"},
    {"{}", "l={}; l+=1", "l={}", "{\"l\":[1]}"},
    {"{}", "o={}; o.x=1", "o={}", "{\"o\":{\"x\":1}}"},
    {"{}", "l={}; l+=1", "l={}; l.x=1; l.x=-", "{\"l\":[1]}"},
    {"{}", "l={}", "l=[]", "{\"l\":[]}"},
    {"{}", "l=[]", "l={}", "{\"l\":[]}"},
    /* not the same kind */
    {"{}", "l={}; l+=1", "l={}; l.x=1", NULL},
    {"{}", "l={}; l.x=1", "l={}; l+=1", NULL},
    {"{}", "l={}; l.x=1", "l=[]", NULL},
    {"{}", "l=7", "l={}; l+=1", NULL},
    {"{}", "l={}", "l=7", NULL},
    /* not absent: it was assigned as a whole */
    {"{\"l\":[0]}", "l+=1", "l={}; l+=2", NULL},
    {"{\"l\":[0]}", "l+=1", "l=-; l={}; l+=2", NULL},
    /* an empty object that was there and became an array */
    {"{\"l\":{}}", "l+=1", "l+=2", "{\"l\":[1,2]}"},
    {"{\"l\":{}}", "", "l+=2", "{\"l\":[2]}"},
    {"{\"l\":{}}", "l.x=1", "l+=2", NULL},
    {"{\"l\":{}}", "l+=1", "l.x=2", NULL},
    {"{\"l\":{}}", "l+=1", "l+=2; l[1]=-", "{\"l\":[1]}"},
    {"{\"l\":{}}", "l+=1", "l.x=2; l.x=-", "{\"l\":[1]}"},
};

static const pair_case roots[] = {
    {"[1]", "[2]=2", "[2]=3", "[1,2,3]"},
    {"[1]", "[1]=2", "[2]=3", "[2,3]"},
    {"[1]", "[2]=2", "[1]=-", NULL},
    {"{}", "[1]=1", "[1]=2", "[1,2]"},
    {"{}", "", "[1]=2", "[2]"},
    {"{}", "x=1", "[1]=2", NULL},
    {"{}", "[1]=2", "x=1", NULL},
    {"{\"x\":1}", "y=2", "x=-; [1]=2", NULL},
    {"[{\"x\":1}]", "[1].y=1", "[1].z=2; [2]=3", "[{\"x\":1,\"y\":1,\"z\":2},3]"},
    {"[[1]]", "[1]=-", "[1][2]=5", NULL},
};

static void run_pair(world *w, const pair_case *c) {
  plant *target = written(w, c->base, c->first);
  mp_patch *first = patch_of(target->root);
  mp_patch *second = patch_of_writes(w, c->base, c->second);
  if (overlap(second, first) != (c->both == NULL) || overlap(first, second) != (c->both == NULL)) {
    fail_msg("%s | %s | %s: %s", c->base, c->first, c->second, c->both == NULL ? "no overlap" : "overlap");
  }
  if (c->both != NULL) {
    assert_ok(plant_apply(target, second));
    char *both = text_of(target->root);
    if (strcmp(both, c->both) != 0) fail_msg("%s | %s | %s: %s, not %s", c->base, c->first, c->second, both, c->both);
    free(both);
  }
  mp_patch_release(first);
  mp_patch_release(second);
  plant_free(target);
}

#define RUN_PAIRS(cases)                                                                                               \
  for (size_t i = 0; i < COUNT_OF(cases); i++) run_pair(*state, &(cases)[i])

static void writes_to_objects_stand_side_by_side(void **state) {
  RUN_PAIRS(objects);
}
static void writes_to_arrays_stand_side_by_side(void **state) {
  RUN_PAIRS(arrays);
}
static void created_tables_stand_side_by_side(void **state) {
  RUN_PAIRS(created);
}
static void writes_to_the_whole_stand_side_by_side(void **state) {
  RUN_PAIRS(roots);
}

/* Tables that several put under a key that had none. */
static void wholes_stand_side_by_side(void **state) {
  static const struct {
    const char *first, *second, *both;
  } cases[] = {
      {"[1]", "[2,3]", "[1,2,3]"},
      {"{\"x\":{\"y\":1}}", "{\"x\":{\"z\":[2]},\"w\":3}", "{\"w\":3,\"x\":{\"y\":1,\"z\":[2]}}"},
      {"{\"l\":[1]}", "{\"l\":[1]}", "{\"l\":[1,1]}"},
      {"{}", "[1]", "[1]"},
      {"[1]", "{}", "[1]"},
      {"{}", "[]", "[]"},
      {"{\"x\":1}", "{\"x\":1}", NULL},
      {"{\"x\":1}", "{\"x\":{}}", NULL},
      {"{\"x\":1}", "[]", NULL},
      {"[]", "{\"x\":1}", NULL},
      {"5", "{}", NULL},
      {"[]", "5", NULL},
      {"5", "5", NULL},
  };
  world *w = *state;
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    mp_patch *first = patch_of_whole(w, cases[i].first);
    mp_patch *second = patch_of_whole(w, cases[i].second);
    assert_int_equal(overlap(first, second), cases[i].both == NULL);
    assert_int_equal(overlap(second, first), cases[i].both == NULL);
    if (cases[i].both != NULL) {
      plant *target = plant_new(w, cases[i].first);
      assert_ok(mp_patch_apply(second, target->root, &w->error));
      assert_text(target->root, cases[i].both);
      plant_free(target);
    }
    mp_patch_release(first);
    mp_patch_release(second);
  }
}

/* The calls of one model answer, in the order in which they end; then what they made together
** concurrent with other such work. */
static void several_are_applied_in_order(void **state) {
  world *w = *state;
  static const char base[] = "{\"log\":[0]}";
  plant *target = plant_new(w, base);
  mp_patch *before[3];
  for (size_t i = 0; i < 3; i++) {
    char writes[128];
    snprintf(writes, sizeof(writes), "log+=%zu; seen={}; seen+=%zu; by={}; by.c%zu=%zu", i, i, i, i);
    mp_patch *patch = patch_of_writes(w, base, writes);
    bool overlaps = true;
    assert_true(mp_patch_overlaps(patch, before, i, &overlaps));
    assert_false(overlaps);
    assert_ok(mp_patch_apply(patch, target->root, &w->error));
    before[i] = patch;
  }
  assert_text(target->root, "{\"by\":{\"c0\":0,\"c1\":1,\"c2\":2},\"log\":[0,0,1,2],\"seen\":[0,1,2]}");
  bool overlaps = false;
  mp_patch *fourth = patch_of_writes(w, base, "by={}; by.c1=9");
  assert_true(mp_patch_overlaps(fourth, before, 3, &overlaps));
  assert_true(overlaps);
  assert_true(mp_patch_overlaps(fourth, before, 1, &overlaps));
  assert_false(overlaps);
  assert_true(mp_patch_overlaps(fourth, NULL, 0, &overlaps));
  assert_false(overlaps);
  mp_patch_release(fourth);
  mp_patch *together = patch_of(target->root);
  plant *other = written(w, base, "log+=9; seen={}; seen+=9; by={}; by.c9=9");
  assert_ok(mp_patch_apply(together, other->root, &w->error));
  assert_text(other->root, "{\"by\":{\"c0\":0,\"c1\":1,\"c2\":2,\"c9\":9},\"log\":[0,9,0,1,2],\"seen\":[9,0,1,2]}");
  plant_free(other);
  mp_patch_release(together);
  for (size_t i = 0; i < 3; i++) mp_patch_release(before[i]);
  plant_free(target);
}

/* ---- Overlaps by kind ---- */

#define KINDS 7

static mp_patch *one_edit(world *w, size_t number, const char *path) {
  static const mp_edit_kind kinds[KINDS] = {MP_EDIT_SET,        MP_EDIT_REMOVE,    MP_EDIT_EXTEND, MP_EDIT_MAKE_EMPTY,
                                            MP_EDIT_MAKE_EMPTY, MP_EDIT_INCREMENT, MP_EDIT_APPEND};
  static const char *const values[KINDS] = {"1", NULL, "[1]", "{}", "[]", "1", "[1]"};
  mp_patch *patch = mp_patch_new(w->env);
  mp_value *value = values[number] == NULL ? NULL : json_value(w, values[number]);
  assert_true(mp_patch_add(patch, kinds[number], moonpad_text(path), value));
  mp_value_release(w->env, value);
  return patch;
}

/* A row for each kind of mine, a letter for each kind of theirs: does it overlap? */
static void assert_matrix(world *w, const char *mine, const char *theirs, const char *const expected[KINDS]) {
  for (size_t i = 0; i < KINDS; i++) {
    char found[KINDS + 1] = {0};
    for (size_t k = 0; k < KINDS; k++) {
      mp_patch *my = one_edit(w, i, mine);
      mp_patch *their = one_edit(w, k, theirs);
      found[k] = overlap(my, their) ? 'x' : '.';
      mp_patch_release(my);
      mp_patch_release(their);
    }
    if (strcmp(found, expected[i]) != 0) {
      fail_msg("kind %zu at %s, theirs at %s: %s, not %s", i, mine, theirs, found, expected[i]);
    }
  }
}

static void every_pair_of_kinds_is_compared(void **state) {
  /*                                                SREoaIA     set, remove, extend, {}, [],
  ** increment, append */
  static const char *const same[KINDS] = {/* set */ "xxxxxxx",
                                          /* rem */ "xxxxxxx",
                                          /* ext */ "xx...x.",
                                          /* {}  */ "xx...x.",
                                          /* []  */ "xx...x.",
                                          /* inc */ ".......",
                                          /* app */ "......."};
  static const char *const mine_below[KINDS] = {"xxx.xxx", "xxx.xxx", "xxx.xxx", "xxx.xxx",
                                                "xxx.xxx", ".......", "......."};
  static const char *const mine_below_an_item[KINDS] = {"xx...x.", "xx...x.", "xx...x.", "xx...x.",
                                                        "xx...x.", ".......", "......."};
  static const char *const mine_above[KINDS] = {"xxxxxxx", "xxxxxxx", "xxxxxxx", ".......",
                                                "xxxxxxx", ".......", "......."};
  static const char *const mine_above_an_item[KINDS] = {"xxxxxxx", "xxxxxxx", ".......", ".......",
                                                        ".......", ".......", "......."};
  static const char *const apart[KINDS] = {".......", ".......", ".......", ".......", ".......", ".......", "......."};
  world *w = *state;
  assert_matrix(w, "", "", same);
  assert_matrix(w, "\"a\"[3]", "\"a\"[3]", same);
  assert_matrix(w, "\"a\"", "", mine_below);
  assert_matrix(w, "\"a\"[1]\"b\"\"c\"", "\"a\"[1]\"b\"", mine_below);
  assert_matrix(w, "[1]", "", mine_below_an_item);
  assert_matrix(w, "\"a\"[1]\"b\"\"c\"", "\"a\"", mine_below_an_item);
  assert_matrix(w, "", "\"a\"", mine_above);
  assert_matrix(w, "\"a\"", "\"a\"\"b\"[1]\"c\"", mine_above);
  assert_matrix(w, "", "[1]", mine_above_an_item);
  assert_matrix(w, "\"a\"", "\"a\"[1]\"c\"", mine_above_an_item);
  assert_matrix(w, "\"a\"", "\"b\"", apart);
  assert_matrix(w, "[1]", "[11]", apart);
  assert_matrix(w, "[11]\"x\"", "[1]\"x\"", apart);
  assert_matrix(w, "\"a\"\"b\"", "\"a\"\"c\"", apart);
}

/* ---- Odd keys ---- */

static moonpad_string odd_key(char *room, size_t number) {
  static const char *const keys[] = {
      "",       "a",      "a\"",      "\"", "\\", "\\\"", "a.b",  "[1]", "[1",   "1",        "\"\"",
      "\"\"\"", "\"a\"",  "\xC3\xA9", "\n", "]",  "a\\",  "\x7F", " ",   "\x01", "\"[1]\"a", "\xF0\x9F\x8C\x99",
      "{}",     "\\u0000"};
  if (number < COUNT_OF(keys)) return moonpad_text(keys[number]);
  memset(room, 'k', 1000);
  if (number == COUNT_OF(keys)) return (moonpad_string){"\0", 1};
  if (number == COUNT_OF(keys) + 1) return (moonpad_string){"a\0b", 3};
  if (number == COUNT_OF(keys) + 2) return (moonpad_string){room, 1000};
  room[999] = '"';
  return (moonpad_string){room, 1000};
}
#define ODD_KEYS 28

/* A patch that sets one path, two keys deep. */
static mp_patch *odd_patch(world *w, const char *base, moonpad_string outer, moonpad_string inner) {
  plant *p = plant_new(w, base);
  mp_value *value = json_value(w, "1");
  assert_ok(mp_node_set_member(child_of(p->root, outer), inner, value, &w->error));
  mp_value_release(w->env, value);
  mp_patch *patch = patch_of(p->root);
  plant_free(p);
  return patch;
}

static void odd_keys_are_steps_like_others(void **state) {
  world *w = *state;
  char room[1000], other_room[1000];
  mp_buffer base;
  mp_buffer_init(&base, w->env);
  mp_buffer_add_char(&base, '{');
  for (size_t i = 0; i < ODD_KEYS; i++) {
    if (i > 0) mp_buffer_add_char(&base, ',');
    mp_json_write_string(&base, odd_key(room, i));
    mp_buffer_add_literal(&base, ":{}");
  }
  mp_buffer_add_literal(&base, "}");
  mp_buffer_add_char(&base, '\0');
  mp_patch *patches[ODD_KEYS][2];
  for (size_t i = 0; i < ODD_KEYS; i++) {
    patches[i][0] = odd_patch(w, base.data, odd_key(room, i), odd_key(other_room, (i + 1) % ODD_KEYS));
    patches[i][1] = odd_patch(w, base.data, odd_key(room, i), odd_key(other_room, (i + 2) % ODD_KEYS));
  }
  plant *target = plant_new(w, base.data);
  mp_patch *all[ODD_KEYS * 2];
  for (size_t i = 0; i < ODD_KEYS * 2; i++) {
    mp_patch *patch = patches[i / 2][i % 2];
    bool overlaps = true;
    assert_true(mp_patch_overlaps(patch, all, i, &overlaps));
    assert_false(overlaps);
    assert_ok(mp_patch_apply(patch, target->root, &w->error));
    all[i] = patch;
    assert_true(mp_patch_overlaps(patch, all, i + 1, &overlaps));
    assert_true(overlaps);
  }
  for (size_t i = 0; i < ODD_KEYS; i++) {
    mp_node *child = child_of(target->root, odd_key(room, i));
    size_t count = 0;
    assert_ok(mp_node_count(child, &count, NULL));
    assert_int_equal(count, 2);
    for (size_t k = 1; k <= 2; k++) {
      mp_item item;
      assert_ok(mp_node_member(child, odd_key(other_room, (i + k) % ODD_KEYS), &item, NULL));
      assert_int_equal(item.scalar.type, MOONPAD_INTEGER);
    }
  }
  /* the same as one whole value */
  mp_value *whole = mp_node_value(target->root);
  mp_patch *patch = mp_patch_new(w->env);
  assert_true(mp_patch_add_whole(patch, whole));
  plant *again = plant_new(w, "{}");
  assert_ok(mp_patch_apply(patch, again->root, &w->error));
  char *text = text_of(target->root);
  assert_text(again->root, text);
  for (size_t i = 0; i < ODD_KEYS * 2; i++) assert_true(overlap(all[i], patch) && overlap(patch, all[i]));
  free(text);
  plant_free(again);
  mp_patch_release(patch);
  mp_value_release(w->env, whole);
  for (size_t i = 0; i < ODD_KEYS * 2; i++) mp_patch_release(all[i]);
  plant_free(target);
  mp_buffer_free(&base);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_world, tear_down_world)
  const struct CMUnitTest tests[] = {
      TEST(writes_to_objects_stand_side_by_side),
      TEST(writes_to_arrays_stand_side_by_side),
      TEST(created_tables_stand_side_by_side),
      TEST(writes_to_the_whole_stand_side_by_side),
      TEST(wholes_stand_side_by_side),
      TEST(several_are_applied_in_order),
      TEST(every_pair_of_kinds_is_compared),
      TEST(odd_keys_are_steps_like_others),
  };
  return cmocka_run_group_tests_name("patch_overlap", tests, NULL, NULL);
}
