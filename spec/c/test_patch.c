/*
** Patches: what was done to a value as a list of edits, noted and applied (core/patch.h). From
** outside only the value is seen, not which edits it came from.
*/
#include "scope.h"
#include "tree_support.h"

/* ---- What is noted ---- */

typedef struct edits_case {
  const char *base, *writes, *edits;
} edits_case;

static const edits_case noted[] = {
    {"{\"a\":1}", "", ""},
    {"{\"a\":1}", "a=2", "set \"a\" 2"},
    {"{\"a\":1}", "a=1", "set \"a\" 1"},
    {"{\"a\":1}", "b=\"x\"; a=-", "remove \"a\"; set \"b\" \"x\""},
    {"{\"a\":1}", "a=-; a=2", "set \"a\" 2"},
    {"{\"a\":1}", "b=1; b=-", ""},
    {"{\"a\":1}", "b=1; b=-; b={}", "make \"b\" {}"},
    {"{\"a\":{\"b\":{\"c\":1}}}", "a.b.c=2; a.d=3", "set \"a\"\"b\"\"c\" 2; set \"a\"\"d\" 3"},
    {"{\"a\":{\"b\":{\"c\":1}}}", "a.b={\"d\":2}; a.b.e=3", "set \"a\"\"b\" {\"d\":2,\"e\":3}"},
    {"{\"a\":1}", "a=-; [1]=1", "set . [1]"},
    {"{}", "x=1; x=-; [1]=1", "extend . [1]"},
    {"{}", "[1]=1; [1]=-", "make . []"},
    /* what was put where there was none is noted path by path */
    {"{}", "o={\"x\":1,\"y\":{\"z\":[]}}",
     "make \"o\" {}; set \"o\"\"x\" 1; make \"o\"\"y\" {}; make \"o\"\"y\"\"z\" []"},
    {"{}", "o={}; o.x=1; o.l={}; o.l+=2", "make \"o\" {}; make \"o\"\"l\" []; extend \"o\"\"l\" [2]; set \"o\"\"x\" 1"},
    {"{}", "l=[1,[2],{\"x\":3}]", "make \"l\" []; extend \"l\" [1,[2],{\"x\":3}]"},
    {"{\"o\":1}", "o={\"x\":1}", "set \"o\" {\"x\":1}"},
    {"{\"o\":1}", "o=-; o={\"x\":1}", "set \"o\" {\"x\":1}"},
    /* arrays */
    {"[1,2]", "[1]=5", "set [1] 5"},
    {"[1,2]", "[3]=5; [4]=[6]; [4]+=7", "extend . [5,[6,7]]"},
    {"[1,2]", "[3]=5; [3]=-", ""},
    {"[1,2]", "[2]=4; [3]=5", "set [2] 4; extend . [5]"},
    {"[1,2]", "[2]=-", "set . [1]"},
    {"[1,2]", "[2]=-; [2]=2", "set . [1,2]"},
    {"[1]", "[1]=-", "set . []"},
    {"[1,{\"x\":1},[3]]", "[2].x=2; [3]+=4; [3][1]=5", "set [2]\"x\" 2; set [3][1] 5; extend [3] [4]"},
    {"[1,{\"x\":1}]", "[2]={\"x\":2}; [2].y=3", "set [2] {\"x\":2,\"y\":3}"},
    {"[{}]", "[1][1]=1", "extend [1] [1]"},
    {"{\"l\":[1,2]}", "l[2]=-; l+=3", "set \"l\" [1,3]"},
};

static void edits_are_noted(void **state) {
  for (size_t i = 0; i < COUNT_OF(noted); i++) {
    plant *p = written(*state, noted[i].base, noted[i].writes);
    char *text = text_of(p->root);
    mp_patch *patch = patch_of(p->root);
    char *edits = patch_text(patch);
    const char *expected = noted[i].edits;
    bool same = strcmp(edits, expected) == 0;
    if (!same) fail_msg("%s | %s: %s, not %s", noted[i].base, noted[i].writes, edits, expected);
    plant *again = plant_new(p->w, noted[i].base);
    assert_ok(plant_apply(again, patch));
    assert_text(again->root, text);
    plant_free(again);
    mp_patch_release(patch);
    mp_tree_mark_clean(p->root);
    patch = patch_of(p->root);
    assert_int_equal(patch->count, 0);
    mp_patch_release(patch);
    assert_text(p->root, text);
    free(edits);
    free(text);
    plant_free(p);
  }
}

static void a_whole_is_noted_path_by_path(void **state) {
  static const struct {
    const char *value, *edits;
  } cases[] = {
      {"5", "set . 5"},
      {"\"x\"", "set . \"x\""},
      {"null", "set . null"},
      {"{}", "make . {}"},
      {"[]", "make . []"},
      {"[1,2.5,{\"x\":[]}]", "make . []; extend . [1,2.5,{\"x\":[]}]"},
      {"{\"\":0,\"a\\\"\\u0000\":{\"b\":[true]}}",
       "make . {}; set \"\" 0; make \"a\\\"\\u0000\" {}; "
       "make \"a\\\"\\u0000\"\"b\" []; extend \"a\\\"\\u0000\"\"b\" [true]"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    mp_patch *patch = patch_of_whole(*state, cases[i].value);
    assert_patch(patch, cases[i].edits);
    mp_patch_release(patch);
  }
}

/* ---- Deep and long ---- */

/* "{"k":{"k":...INNER...}}" */
static char *nested(const char *key, unsigned depth, const char *inner) {
  size_t level = strlen(key) + 5;
  char *text = malloc(depth * (level + 1) + strlen(inner) + 1);
  if (text == NULL) abort();
  char *end = text;
  for (unsigned i = 0; i < depth; i++) end += sprintf(end, "{\"%s\":", key);
  end += sprintf(end, "%s", inner);
  memset(end, '}', depth);
  end[depth] = '\0';
  return text;
}

static mp_node *deepest(mp_node *node, const char *key, unsigned depth) {
  for (unsigned i = 0; i < depth; i++) node = child_of(node, moonpad_text(key));
  return node;
}

static void assert_both_at_depth(world *w, const char *key, unsigned depth) {
  char *base = nested(key, depth, "{\"l\":[]}");
  plant *plants[2];
  mp_patch *patches[2];
  for (int i = 0; i < 2; i++) {
    plants[i] = plant_new(w, base);
    assert_ok(write_all(w, deepest(plants[i]->root, key, depth), i == 0 ? "x=1; l+=1" : "y=2; l+=2"));
    patches[i] = patch_of(plants[i]->root);
    assert_int_equal(patches[i]->count, 2);
  }
  assert_false(overlap(patches[0], patches[1]));
  assert_ok(mp_patch_apply(patches[1], plants[0]->root, &w->error));
  char *both = nested(key, depth, "{\"l\":[1,2],\"x\":1,\"y\":2}");
  assert_text(plants[0]->root, both);
  /* as a whole, too */
  mp_patch *whole = patch_of_whole(w, both);
  assert_true(overlap(whole, patches[0]));
  plant *anew = plant_new(w, "{}");
  assert_ok(mp_patch_apply(whole, anew->root, &w->error));
  assert_text(anew->root, both);
  plant_free(anew);
  mp_patch_release(whole);
  for (int i = 0; i < 2; i++) {
    mp_patch_release(patches[i]);
    plant_free(plants[i]);
  }
  free(both);
  free(base);
}

static void deep_paths_are_reached(void **state) {
  assert_both_at_depth(*state, "k", 0);
  assert_both_at_depth(*state, "k", 126); /* the list is at level 128 */
  char key[1001];
  memset(key, 'k', 1000);
  key[1000] = '\0';
  assert_both_at_depth(*state, key, 126);
}

static void what_would_be_too_deep_does_not_fit(void **state) {
  world *w = *state;
  char *base = nested("k", 127, "{}");
  plant *p = plant_new(w, base);
  mp_buffer path;
  mp_buffer_init(&path, w->env);
  for (int i = 0; i < 128; i++) mp_buffer_add_literal(&path, "\"k\"");
  mp_patch *patch = mp_patch_new(w->env);
  mp_value *value = json_value(w, "{}");
  assert_true(mp_patch_add(patch, MP_EDIT_MAKE_EMPTY, mp_buffer_text(&path), value));
  assert_int_equal(mp_patch_apply(patch, p->root, &w->error), MOONPAD_INVALID_ARGUMENT);
  assert_non_null(strstr(w->error.message, "nested more than 128 levels deep"));
  assert_text(p->root, base);
  mp_value_release(w->env, value);
  mp_patch_release(patch);
  mp_buffer_free(&path);
  plant_free(p);
  free(base);
}

/* So many that a walk over all pairs of paths would not come to an end, or would take long. */
#define MANY (scope_is("quick") ? 10000 : 100000)

static void huge_arrays_take_linear_time(void **state) {
  world *w = *state;
  mp_buffer text;
  mp_buffer_init(&text, w->env);
  for (int i = 0; i < MANY; i++) mp_buffer_add_literal(&text, ",{}");
  mp_buffer_add_literal(&text, "]");
  mp_buffer_add_char(&text, '\0');
  text.data[0] = '[';
  plant *plants[2];
  mp_patch *patches[2];
  mp_value *value = json_value(w, "7");
  for (int i = 0; i < 2; i++) {
    plants[i] = plant_new(w, text.data);
    for (int64_t k = 1; k <= MANY; k++) {
      mp_item item;
      assert_ok(mp_node_index(plants[i]->root, k, &item, NULL));
      assert_ok(mp_node_set_member(item.node, moonpad_text(i == 0 ? "x" : "y"), value, NULL));
    }
    for (int64_t k = 1; k <= MANY; k++) assert_ok(mp_node_set_index(plants[i]->root, MANY + k, value, NULL));
    patches[i] = patch_of(plants[i]->root);
    assert_int_equal(patches[i]->count, MANY + 1);
  }
  assert_false(overlap(patches[0], patches[1]));
  assert_ok(mp_patch_apply(patches[1], plants[0]->root, &w->error));
  size_t count = 0;
  assert_ok(mp_node_count(plants[0]->root, &count, NULL));
  assert_int_equal(count, 3 * MANY);
  mp_patch *both = patch_of(plants[0]->root);
  assert_int_equal(both->count, 2 * MANY + 1);
  assert_true(overlap(both, patches[0]));
  mp_patch_release(both);
  mp_value_release(w->env, value);
  for (int i = 0; i < 2; i++) {
    mp_patch_release(patches[i]);
    plant_free(plants[i]);
  }
  mp_buffer_free(&text);
}

static void huge_objects_take_linear_time(void **state) {
  world *w = *state;
  plant *p = plant_new(w, "{\"o\":{}}");
  mp_node *o = down(p->root, "o");
  mp_value *value = json_value(w, "{\"x\":[1]}");
  for (int i = 0; i < MANY; i++) {
    char key[32];
    snprintf(key, sizeof(key), "k%d", i);
    assert_ok(mp_node_set_member(o, moonpad_text(key), value, NULL));
  }
  mp_patch *patch = patch_of(p->root);
  assert_int_equal(patch->count, 3 * MANY);
  plant *target = plant_new(w, "{\"o\":{}}");
  assert_ok(mp_patch_apply(patch, target->root, &w->error));
  char *text = text_of(p->root);
  assert_text(target->root, text);
  assert_false(overlap(patch, patch)); /* tables that were put there, items */
  free(text);
  mp_value_release(w->env, value);
  mp_patch_release(patch);
  plant_free(target);
  plant_free(p);
}

/* ---- Applying ---- */

static void what_does_not_fit_is_an_error(void **state) {
  static const struct {
    const char *base;
    mp_edit_kind kind;
    const char *path, *value, *message;
  } cases[] = {
      {"{}", MP_EDIT_SET, "\"p\"\"x\"", "1", "the value at \"\\\"p\\\"\\\"x\\\"\" is gone, or is something else now"},
      {"{\"p\":7}", MP_EDIT_SET, "\"p\"\"x\"", "1", "is gone, or is something else now"},
      {"{}", MP_EDIT_REMOVE, "\"p\"\"x\"", NULL, "is gone"},
      {"{}", MP_EDIT_EXTEND, "\"p\"", "[1]", "is gone"},
      {"{\"p\":7}", MP_EDIT_EXTEND, "\"p\"", "[1]", "is gone"},
      {"{\"p\":{\"x\":1}}", MP_EDIT_EXTEND, "\"p\"", "[1]", "state[\"cart\"].p[2]: this is a table with string keys"},
      {"{\"p\":7}", MP_EDIT_MAKE_EMPTY, "\"p\"", "{}", "is gone"},
      {"{}", MP_EDIT_MAKE_EMPTY, "\"p\"\"q\"", "{}", "is gone"},
      {"{\"p\":{\"x\":1}}", MP_EDIT_MAKE_EMPTY, "\"p\"", "[]",
       "state[\"cart\"].p[1]: this is a table with string keys"},
      {"[1]", MP_EDIT_SET, "\"x\"", "1", "state[\"cart\"].x: an array has no string keys"},
      {"[1]", MP_EDIT_SET, "[2]", "1", "the value at \"[2]\" is gone"},
      {"{}", MP_EDIT_SET, "[1]", "1", "the value at \"[1]\" is gone"},
      {"[1]", MP_EDIT_SET, "[2]\"x\"", "1", "is gone"},
      {"{\"x\":1}", MP_EDIT_EXTEND, "", "[1]", "this is a table with string keys"},
      {"{}", MP_EDIT_SET, "", "1", "the value at \"\" is gone"},
      {"{}", MP_EDIT_REMOVE, "", NULL, "the value at \"\" is gone"},
      {"[]", MP_EDIT_APPEND, "", "[1]", "the value at \"\" is gone"},
      {"[]", MP_EDIT_INCREMENT, "", "1", "the value at \"\" is gone"},
  };
  world *w = *state;
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    plant *p = plant_new(w, cases[i].base);
    mp_patch *patch = mp_patch_new(w->env);
    mp_value *value = cases[i].value == NULL ? NULL : json_value(w, cases[i].value);
    assert_true(mp_patch_add(patch, cases[i].kind, moonpad_text(cases[i].path), value));
    assert_int_equal(mp_patch_apply(patch, p->root, &w->error), MOONPAD_INVALID_ARGUMENT);
    if (strstr(w->error.message, cases[i].message) == NULL) fail_msg("%s: %s", cases[i].message, w->error.message);
    assert_text(p->root, cases[i].base);
    assert_false(mp_tree_is_dirty(p->root));
    assert_int_equal(mp_patch_apply(patch, p->root, NULL), MOONPAD_INVALID_ARGUMENT);
    mp_value_release(w->env, value);
    mp_patch_release(patch);
    plant_free(p);
  }
}

static void the_owner_is_asked(void **state) {
  world *w = *state;
  static const char *const writes[] = {"x=1", "o.y=-", "l+=1", "n={}", "l[1]=5"};
  for (size_t i = 0; i < COUNT_OF(writes); i++) {
    static const char base[] = "{\"l\":[0],\"o\":{\"y\":1}}";
    plant *target = plant_new(w, base);
    mp_patch *patch = patch_of_writes(w, base, writes[i]);
    w->asked = 0;
    w->refuses = true;
    assert_int_equal(mp_patch_apply(patch, target->root, &w->error), MOONPAD_CLOSED);
    assert_int_equal(w->asked, 1);
    assert_text(target->root, base);
    w->refuses = false;
    mp_tree_detach(target->root);
    assert_int_equal(mp_patch_apply(patch, target->root, &w->error), MOONPAD_INVALID_ARGUMENT);
    assert_non_null(strstr(w->error.message, "is stale"));
    mp_patch_release(patch);
    plant_free(target);
  }
}

/* Nodes stay what they are as long as their slot is not replaced. */
static void applying_a_patch_keeps_the_identity_of_nodes(void **state) {
  world *w = *state;
  static const char base[] = "{\"e\":{},\"l\":[{\"x\":1},2],\"o\":{},\"s\":[1,1]}";
  plant *target = plant_new(w, base);
  mp_node *empty = down(target->root, "e");
  mp_node *list = down(target->root, "l");
  mp_node *item = down(target->root, "l[1]");
  mp_node *object = mp_node_retain(down(target->root, "o"));
  mp_node *sorted = down(target->root, "s");
  mp_patch *patch = patch_of_writes(w, base, "e+=1; e[1]=-; l[1].y=2; l+=3; o={\"n\":1}; s[1]=2");
  assert_ok(mp_patch_apply(patch, target->root, &w->error));
  mp_patch_release(patch);
  assert_ptr_equal(down(target->root, "e"), empty);
  assert_ptr_equal(down(target->root, "l"), list);
  assert_ptr_equal(down(target->root, "l[1]"), item);
  assert_ptr_equal(down(target->root, "s"), sorted);
  assert_text(empty, "[]");
  assert_text(sorted, "[2,1]");
  assert_text(item, "{\"x\":1,\"y\":2}");
  assert_true(mp_node_is_stale(object));
  mp_node_release(object);
  assert_ok(write_all(w, item, "z=3"));
  assert_ok(write_all(w, sorted, "[3]=4"));
  assert_text(target->root, "{\"e\":[],\"l\":[{\"x\":1,\"y\":2,\"z\":3},2,3],\"o\":{\"n\":1},\"s\":[2,1,4]}");
  plant_free(target);
}

/* A removal is remembered however many other members come and go after it. */
static void removals_are_remembered(void **state) {
  world *w = *state;
  plant *p = written(w, "{\"a\":1,\"b\":2}", "a=-");
  for (int i = 0; i < 500; i++) {
    char writes[64];
    snprintf(writes, sizeof(writes), "k%d=1; k%d=-", i, i);
    assert_ok(write_all(w, p->root, writes));
  }
  mp_patch *patch = patch_of(p->root);
  assert_patch(patch, "remove \"a\"");
  mp_patch_release(patch);
  plant_free(p);
}

/* What counts is what was done since the tree was clean. */
static void what_was_done_before_clean_is_not_noted(void **state) {
  world *w = *state;
  plant *p = written(w, "{\"a\":1,\"l\":[{}],\"z\":1}", "a=2; b={}; b.c=3; l[1].x=1; l+=2; z=-; e={}; e+=1");
  mp_tree_mark_clean(p->root);
  mp_patch *patch = patch_of(p->root);
  assert_patch(patch, "");
  assert_ok(write_all(w, p->root, "n=1; b={\"d\":1}; l[2]=5; l+=6; e+=2"));
  assert_true(mp_patch_add_tree(patch, p->root));
  assert_patch(patch, "set \"l\"[2] 5; extend \"l\" [6]; set \"b\" {\"d\":1}; extend \"e\" [2]; set \"n\" 1");
  mp_patch_release(patch);
  plant_free(p);
}

/* Whoever holds a patch needs neither the tree that it was made of nor anything else. */
static void a_patch_lives_by_itself(void **state) {
  world *w = *state;
  mp_patch *patch =
      mp_patch_retain(patch_of_writes(w, "{\"a\":1}", "a=\"long enough to be a piece of memory\"; b=[1]"));
  mp_patch_release(patch);
  mp_env *env = mp_env_retain(patch->env);
  assert_patch(patch, "set \"a\" \"long enough to be a piece of memory\"; make \"b\" []; extend \"b\" [1]");
  mp_patch_release(patch);
  mp_patch_release(NULL);
  mp_env_release(env);
}

/* ---- Every allocation fails once ---- */

/* False: out of memory. */
static bool run_patches(world *w) {
  static const char base[] = "{\"a\":{\"b\\n\":[1,{\"c\":\"q\\\"\"}]},\"d\":1,\"e\":{},\"f\":[1,2],\"h\":{\"x\":1}}";
  w->memory.paused = true;
  plant *source = written(w, base,
                          "a.b\n[2].d=\"\\u0001\"; a.b\n+=[3]; d=-; e+=1; e[1]=-; f[1]=4; f+=5; h.x=-; "
                          "n={\"o\":{\"p\":[1]},\"q\":\"r\\n\"}; n.o.p+=2; s={}");
  plant *target = written(w, base, "a.x=1; f[2]=3; n={\"t\":1}");
  mp_value *whole = json_value(w, "{\"x\":[1,2],\"y\":{\"z\":\"\\n\"}}");
  w->memory.paused = false;
  mp_patch *mine = mp_patch_new(w->env);
  mp_patch *theirs[2] = {mp_patch_new(w->env), mp_patch_new(w->env)};
  bool overlaps = true;
  bool done = mine != NULL && theirs[0] != NULL && theirs[1] != NULL && mp_patch_add_tree(mine, source->root) &&
              mp_patch_add_tree(theirs[0], target->root) && mp_patch_add_whole(theirs[1], whole) &&
              mp_patch_overlaps(mine, theirs, 2, &overlaps);
  if (done) {
    assert_false(overlaps);
    moonpad_status status = mp_patch_apply(mine, target->root, &w->error);
    done = status == MOONPAD_OK;
    if (!done) assert_int_equal(status, MOONPAD_NO_MEMORY);
  }
  w->memory.paused = true;
  if (done) {
    assert_text(target->root, "{\"a\":{\"b\\n\":[1,{\"c\":\"q\\\"\",\"d\":\"\\u0001\"},[3]],\"x\":1},\"e\":[],"
                              "\"f\":[4,3,5],\"h\":{},\"n\":{\"o\":{\"p\":[1,2]},\"q\":\"r\\n\",\"t\":1},\"s\":{}}");
  } else {
    assert_true(counting_has_failed(&w->memory));
  }
  mp_patch_release(mine);
  mp_patch_release(theirs[0]);
  mp_patch_release(theirs[1]);
  mp_value_release(w->env, whole);
  plant_free(source);
  plant_free(target);
  return done;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  fail_each_allocation(run_patches, 60);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_world, tear_down_world)
  const struct CMUnitTest tests[] = {
      TEST(edits_are_noted),
      TEST(a_whole_is_noted_path_by_path),
      TEST(deep_paths_are_reached),
      TEST(what_would_be_too_deep_does_not_fit),
      TEST(huge_arrays_take_linear_time),
      TEST(huge_objects_take_linear_time),
      TEST(what_does_not_fit_is_an_error),
      TEST(the_owner_is_asked),
      TEST(applying_a_patch_keeps_the_identity_of_nodes),
      TEST(removals_are_remembered),
      TEST(what_was_done_before_clean_is_not_noted),
      TEST(a_patch_lives_by_itself),
      TEST(every_allocation_may_fail),
  };
  return cmocka_run_group_tests_name("patch", tests, NULL, NULL);
}
