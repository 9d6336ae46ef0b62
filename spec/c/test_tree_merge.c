/* Merging of trees: what was done in one is done over again in another, place by place (contract 1.4 point 3). */
#include "tree_support.h"

static int set_up(void **state) {
  *state = world_new();
  return 0;
}

static int tear_down(void **state) {
  world_free(*state);
  return 0;
}

typedef struct merge_case {
  const char *base, *target, *source, *expected;
} merge_case;

static const merge_case objects[] = {
    /* nothing done */
    {"{\"a\":1}", "a=2", "", "{\"a\":2}"},
    {"{\"a\":1}", "", "", "{\"a\":1}"},
    /* different places stand side by side, on the same place the later one wins */
    {"{}", "theme=1", "lang=2", "{\"lang\":2,\"theme\":1}"},
    {"{\"a\":1,\"b\":2}", "a=3", "b=4", "{\"a\":3,\"b\":4}"},
    {"{\"a\":1}", "a=2", "a=3", "{\"a\":3}"},
    {"{\"a\":1}", "a=2", "a=-", "{}"},
    {"{\"a\":1}", "a=-", "a=2", "{\"a\":2}"},
    {"{\"a\":1,\"b\":1}", "a=-", "b=-", "{}"},
    {"{\"a\":1}", "a=-", "a=-", "{}"},
    {"{\"a\":1}", "x=1", "a=-; a=1", "{\"a\":1,\"x\":1}"},
    {"{}", "x=1", "y=1; y=-", "{\"x\":1}"},
    {"{}", "y=1", "y=1; y=-", "{\"y\":1}"},
    /* nested */
    {"{\"p\":{\"q\":{\"x\":1}}}", "p.q.y=2", "p.q.z=3", "{\"p\":{\"q\":{\"x\":1,\"y\":2,\"z\":3}}}"},
    {"{\"p\":{\"q\":{\"x\":1}}}", "p.r=2", "p.q.x=-", "{\"p\":{\"q\":{},\"r\":2}}"},
    {"{\"p\":{\"x\":1}}", "p={\"n\":1}", "p.y=2", "{\"p\":{\"n\":1,\"y\":2}}"},
    {"{\"p\":{\"x\":1}}", "p.y=2", "p={\"n\":1}", "{\"p\":{\"n\":1}}"},
    /* an inside change whose place is gone, or holds something else, brings its whole */
    {"{\"p\":{\"x\":1}}", "p=-", "p.y=2", "{\"p\":{\"x\":1,\"y\":2}}"},
    {"{\"p\":{\"x\":1}}", "p=7", "p.y=2", "{\"p\":{\"x\":1,\"y\":2}}"},
    {"{\"p\":{\"x\":1}}", "p=[7]", "p.y=2", "{\"p\":{\"x\":1,\"y\":2}}"},
    {"{\"p\":[1]}", "p={\"x\":1}", "p+=2", "{\"p\":[1,2]}"},
    {"{\"p\":{\"x\":1}}", "p.y=2", "p=-", "{}"},
    {"{\"p\":{\"x\":1}}", "p.x=-; p[1]=1", "p.y=2", "{\"p\":{\"x\":1,\"y\":2}}"},
    {"{\"p\":{\"x\":1}}", "p.y=2", "p.x=-; p[1]=1", "{\"p\":[1]}"},
    {"{\"p\":{\"x\":1}}", "p={}", "p.x=-; p[1]=1", "{\"p\":[1]}"},
    {"{\"p\":{\"x\":1}}", "p=[5]", "p.x=-; p[1]=1", "{\"p\":[1]}"},
    {"{\"p\":{\"x\":1}}", "p=[5]", "p.x=-", "{\"p\":{}}"},
};

static const merge_case arrays[] = {
    /* two that only extended give the items of both */
    {"{\"l\":[1]}", "l+=2; l+=3", "l+=4", "{\"l\":[1,2,3,4]}"},
    {"{\"l\":[]}", "l+=2", "l+=4; l+=5; l[2]=-; l[1]=6", "{\"l\":[2,6]}"},
    {"{\"l\":[[1]]}", "l[1]+=2", "l[1]+=3; l+=[4]; l[2]+=5", "{\"l\":[[1,2,3],[4,5]]}"},
    /* any other change replaces */
    {"{\"l\":[1,2]}", "l+=3", "l[1]=0; l+=4", "{\"l\":[0,2,4]}"},
    {"{\"l\":[1,2]}", "l+=3", "l[2]=-", "{\"l\":[1]}"},
    {"{\"l\":[1,2]}", "l+=3", "l[2]=-; l+=2", "{\"l\":[1,2]}"},
    {"{\"l\":[1,2]}", "l[1]=9", "l[1]=0", "{\"l\":[0,2]}"},
    /* an extension comes after what the other made of it */
    {"{\"l\":[2,1]}", "l[1]=1; l[2]=2", "l+=3", "{\"l\":[1,2,3]}"},
    {"{\"l\":[2,1]}", "l[2]=-; l[1]=-", "l+=3", "{\"l\":[3]}"},
    {"{\"l\":[2,1]}", "l=[7]", "l+=3", "{\"l\":[7,3]}"},
    {"{\"l\":[2,1]}", "l=-", "l+=3", "{\"l\":[2,1,3]}"},
    {"{\"l\":[2,1]}", "l={}", "l+=3", "{\"l\":[2,1,3]}"},
    {"{\"l\":[2,1]}", "l+=3", "l=[7]", "{\"l\":[7]}"},
    /* inside items */
    {"{\"l\":[{\"x\":1},{\"x\":2}]}", "l[1].y=1", "l[2].y=2; l+=3", "{\"l\":[{\"x\":1,\"y\":1},{\"x\":2,\"y\":2},3]}"},
    {"{\"l\":[{\"x\":1}]}", "l[1].y=1; l+=5", "l[1].x=-", "{\"l\":[{\"y\":1},5]}"},
    {"{\"l\":[{\"x\":1}]}", "l[1]={\"n\":1}", "l[1].y=1", "{\"l\":[{\"n\":1,\"y\":1}]}"},
    {"{\"l\":[{\"x\":1}]}", "l[1]=7", "l[1].y=1; l+=2", "{\"l\":[{\"x\":1,\"y\":1},2]}"},
    {"{\"l\":[1,{\"x\":1}]}", "l[2]=-", "l[2].y=1", "{\"l\":[1,{\"x\":1,\"y\":1}]}"},
    {"{\"l\":[1,{\"x\":1}]}", "l=[]", "l[2].y=1; l+=3", "{\"l\":[1,{\"x\":1,\"y\":1},3]}"},
    {"{\"l\":[{}]}", "l[1][1]=1; l+=8", "l[1].x=1; l+=9", "{\"l\":[{\"x\":1},8,9]}"},
    {"{\"l\":[{}]}", "l[1][1]=1", "l[1][1]=2", "{\"l\":[[1,2]]}"},
    /* an item that is something else now: alone it is replaced; where more was moved, the whole array is */
    {"{\"l\":[{},1]}", "l[1][1]=5; l+=8", "l[1].x=1; l+=9", "{\"l\":[{\"x\":1},1,8,9]}"},
    {"{\"l\":[{},1]}", "l[1][1]=5; l[2]=7", "l[1].x=1; l+=9", "{\"l\":[{\"x\":1},1,9]}"},
};

static const merge_case created[] = {
    /* put there because there was none, then only extended: items of both, members side by side */
    {"{}", "l={}; l+=1", "l={}; l+=2", "{\"l\":[1,2]}"},
    {"{}", "l=[]; l+=1", "l={}; l+=2", "{\"l\":[1,2]}"},
    {"{}", "l={}; l+=1", "l=[]; l+=2", "{\"l\":[1,2]}"},
    {"{}", "o={}; o.x=1", "o={}; o.y=2", "{\"o\":{\"x\":1,\"y\":2}}"},
    {"{}", "o={}; o.x=1", "o={}; o.x=2", "{\"o\":{\"x\":2}}"},
    {"{}", "o={}; o.p={}; o.p.x=1", "o={}; o.p={}; o.p.y=2", "{\"o\":{\"p\":{\"x\":1,\"y\":2}}}"},
    {"{}", "o={}; o.p={}; o.p+=1", "o={}; o.p={}; o.p+=2", "{\"o\":{\"p\":[1,2]}}"},
    {"{\"deep\":{}}", "deep.l={}; deep.l+=1", "deep.l={}; deep.l+=2", "{\"deep\":{\"l\":[1,2]}}"},
    {"{}", "l=[1,2]", "l={}; l+=3", "{\"l\":[1,2,3]}"},
    {"{}", "o={\"x\":1}", "o={}; o.y=3", "{\"o\":{\"x\":1,\"y\":3}}"},
    {"{}", "", "l={}; l+=3", "{\"l\":[3]}"},
    {"{}", "l={}", "l={}; l+=3", "{\"l\":[3]}"},
    {"{}", "l={}; l+=1", "l={}", "{\"l\":[1]}"},
    {"{}", "o={}; o.x=1", "o={}", "{\"o\":{\"x\":1}}"},
    {"{}", "l={}; l+=1", "l={}; l.x=1; l.x=-", "{\"l\":[1]}"},
    {"{}", "l={}", "l=[]", "{\"l\":[]}"},
    {"{}", "l=[]", "l={}", "{\"l\":[]}"},
    /* not the same kind: the later one wins */
    {"{}", "l={}; l+=1", "l={}; l.x=1", "{\"l\":{\"x\":1}}"},
    {"{}", "l={}; l.x=1", "l={}; l+=1", "{\"l\":[1]}"},
    {"{}", "l={}; l.x=1", "l=[]", "{\"l\":[]}"},
    {"{}", "l=7", "l={}; l+=1", "{\"l\":[1]}"},
    {"{}", "l=7", "l={}", "{\"l\":{}}"},
    /* not begun empty, or not absent: it was assigned as a whole */
    {"{}", "l={}; l+=1", "l=[2]; l+=3", "{\"l\":[2,3]}"},
    {"{\"l\":[0]}", "l+=1", "l={}; l+=2", "{\"l\":[2]}"},
    {"{\"l\":[0]}", "l+=1", "l=-; l={}; l+=2", "{\"l\":[2]}"},
    {"{}", "l={}; l+=1", "l={}; l+=9; l=[5]", "{\"l\":[5]}"},
    /* an empty object that was there and became an array */
    {"{\"l\":{}}", "l+=1", "l+=2", "{\"l\":[1,2]}"},
    {"{\"l\":{}}", "", "l+=2", "{\"l\":[2]}"},
    {"{\"l\":{}}", "l.x=1", "l+=2", "{\"l\":[2]}"},
    {"{\"l\":{}}", "l+=1", "l.x=2", "{\"l\":{\"x\":2}}"},
    {"{\"l\":{}}", "l+=1", "l.x=2; l.x=-", "{\"l\":[1]}"},
};

static const merge_case roots[] = {
    {"[1]", "[2]=2", "[2]=3", "[1,2,3]"},
    {"[1]", "[1]=2", "[2]=3", "[2,3]"},
    {"[1]", "[2]=2", "[1]=-", "[]"},
    {"{}", "[1]=1", "[1]=2", "[1,2]"},
    {"{}", "", "[1]=2", "[2]"},
    {"{}", "x=1", "[1]=2", "[2]"},
    {"{}", "[1]=2", "x=1", "{\"x\":1}"},
    {"{\"x\":1}", "y=2", "x=-; [1]=2", "[2]"},
    {"[{\"x\":1}]", "[1].y=1", "[1].z=2; [2]=3", "[{\"x\":1,\"y\":1,\"z\":2},3]"},
    {"[[1]]", "[1]=-", "[1][2]=5", "[[1,5]]"},
};

/* Merging into what is clean gives the source, whatever was done there: a merged tree remembers as much as one that was written. */
static void assert_can_be_repeated(world *w, const char *base, plant *source) {
  char *expected = text_of(source->root);
  plant *clean = plant_new(w, base);
  assert_int_equal(mp_tree_merge(clean->root, source->root, &w->error), MOONPAD_OK);
  assert_text(clean->root, expected);
  plant *again = plant_new(w, base);
  assert_int_equal(mp_tree_merge(again->root, clean->root, &w->error), MOONPAD_OK);
  assert_text(again->root, expected);
  plant_free(again);
  plant_free(clean);
  free(expected);
}

static void run_case(world *w, const merge_case *c) {
  plant *target = plant_new(w, c->base);
  plant *source = plant_new(w, c->base);
  assert_int_equal(write_all(w, target->root, c->target), MOONPAD_OK);
  assert_int_equal(write_all(w, source->root, c->source), MOONPAD_OK);
  char *source_text = text_of(source->root);
  w->asked = 0;
  assert_int_equal(mp_tree_merge(target->root, source->root, &w->error), MOONPAD_OK);
  assert_int_equal(w->asked, c->source[0] == '\0' ? 0 : 1);
  char *merged = text_of(target->root);
  if (strcmp(merged, c->expected) != 0) {
    fail_msg("%s | %s | %s: %s, not %s", c->base, c->target, c->source, merged, c->expected);
  }
  assert_text(source->root, source_text);
  assert_can_be_repeated(w, c->base, source);
  assert_can_be_repeated(w, c->base, target);
  free(merged);
  free(source_text);
  plant_free(source);
  plant_free(target);
}

#define RUN_CASES(cases)                                                                                               \
  for (size_t i = 0; i < sizeof(cases) / sizeof((cases)[0]); i++) run_case(*state, &(cases)[i])

static void objects_are_merged(void **state) {
  RUN_CASES(objects);
}
static void arrays_are_merged(void **state) {
  RUN_CASES(arrays);
}
static void created_tables_are_merged(void **state) {
  RUN_CASES(created);
}
static void roots_are_merged(void **state) {
  RUN_CASES(roots);
}

/* The calls of one model answer, in call order; then what they made together lies over other such work. */
static void several_are_merged_in_order(void **state) {
  world *w = *state;
  static const char base[] = "{\"log\":[0]}";
  plant *target = plant_new(w, base);
  for (int i = 1; i <= 3; i++) {
    plant *call = plant_new(w, base);
    char writes[128];
    snprintf(writes, sizeof(writes), "log+=%d; seen={}; seen+=%d; by={}; by.c%d=%d; last=%d", i, i, i, i, i);
    assert_int_equal(write_all(w, call->root, writes), MOONPAD_OK);
    assert_int_equal(mp_tree_merge(target->root, call->root, &w->error), MOONPAD_OK);
    plant_free(call);
  }
  static const char merged[] = "{\"by\":{\"c1\":1,\"c2\":2,\"c3\":3},\"last\":3,\"log\":[0,1,2,3],\"seen\":[1,2,3]}";
  assert_text(target->root, merged);
  plant *other = plant_new(w, base);
  assert_int_equal(write_all(w, other->root, "log+=9; seen={}; seen+=9; by={}; by.c9=9; last=9"), MOONPAD_OK);
  assert_int_equal(mp_tree_merge(other->root, target->root, &w->error), MOONPAD_OK);
  assert_text(other->root, "{\"by\":{\"c1\":1,\"c2\":2,\"c3\":3,\"c9\":9},\"last\":3,\"log\":[0,9,1,2,3],"
                           "\"seen\":[9,1,2,3]}");
  plant_free(other);
  plant_free(target);
}

/* A removal is remembered however many other members come and go after it. */
static void removals_are_remembered(void **state) {
  world *w = *state;
  plant *source = plant_new(w, "{\"a\":1,\"b\":2}");
  plant *target = plant_new(w, "{\"a\":1,\"b\":2}");
  assert_int_equal(write_all(w, source->root, "a=-"), MOONPAD_OK);
  for (int i = 0; i < 500; i++) {
    char writes[64];
    snprintf(writes, sizeof(writes), "k%d=1; k%d=-", i, i);
    assert_int_equal(write_all(w, source->root, writes), MOONPAD_OK);
  }
  assert_int_equal(mp_tree_merge(target->root, source->root, &w->error), MOONPAD_OK);
  assert_text(target->root, "{\"b\":2}");
  plant_free(source);
  plant_free(target);
}

/* What counts is what was done since the source was clean. */
static void what_was_done_before_clean_is_not_repeated(void **state) {
  world *w = *state;
  plant *source = plant_new(w, "{\"a\":1,\"l\":[{}],\"z\":1}");
  plant *target = plant_new(w, "{\"a\":5}");
  assert_int_equal(write_all(w, source->root, "a=2; b={}; b.c=3; l[1].x=1; l+=2; z=-; e={}; e+=1"), MOONPAD_OK);
  mp_tree_mark_clean(source->root);
  assert_int_equal(mp_tree_merge(target->root, source->root, &w->error), MOONPAD_OK);
  assert_text(target->root, "{\"a\":5}");
  assert_int_equal(write_all(w, source->root, "n=1"), MOONPAD_OK);
  assert_int_equal(mp_tree_merge(target->root, source->root, &w->error), MOONPAD_OK);
  assert_text(target->root, "{\"a\":5,\"n\":1}");
  plant_free(source);
  plant_free(target);
}

/* Nodes of the target stay what they are as long as their place is not replaced. */
static void identity_survives_a_merge(void **state) {
  world *w = *state;
  plant *target = plant_new(w, "{\"l\":[{\"x\":1},2],\"o\":{},\"s\":[1]}");
  plant *source = plant_new(w, "{\"l\":[{\"x\":1},2],\"o\":{},\"s\":[1]}");
  mp_node *list = down(target->root, "l");
  mp_node *item = down(target->root, "l[1]");
  mp_node *object = mp_node_retain(down(target->root, "o"));
  mp_node *sorted = down(target->root, "s");
  assert_int_equal(write_all(w, source->root, "l[1].y=2; l+=3; o={\"n\":1}; s[1]=2"), MOONPAD_OK);
  assert_int_equal(mp_tree_merge(target->root, source->root, &w->error), MOONPAD_OK);
  assert_ptr_equal(down(target->root, "l"), list);
  assert_ptr_equal(down(target->root, "l[1]"), item);
  assert_ptr_equal(down(target->root, "s"), sorted);
  assert_text(sorted, "[2]");
  assert_text(item, "{\"x\":1,\"y\":2}");
  assert_true(mp_node_is_stale(object));
  mp_node_release(object);
  assert_int_equal(write_all(w, item, "z=3"), MOONPAD_OK);
  assert_int_equal(write_all(w, sorted, "[2]=4"), MOONPAD_OK);
  assert_text(target->root, "{\"l\":[{\"x\":1,\"y\":2,\"z\":3},2,3],\"o\":{\"n\":1},\"s\":[2,4]}");
  plant_free(source);
  plant_free(target);
}

static void a_refusing_owner_stops_it(void **state) {
  world *w = *state;
  plant *target = plant_new(w, "{}");
  plant *source = plant_new(w, "{}");
  assert_int_equal(write_all(w, source->root, "x=1"), MOONPAD_OK);
  w->refuses = true;
  assert_int_equal(mp_tree_merge(target->root, source->root, &w->error), MOONPAD_CLOSED);
  assert_text(target->root, "{}");
  w->refuses = false;
  mp_tree_detach(target->root);
  assert_int_equal(mp_tree_merge(target->root, source->root, &w->error), MOONPAD_OK);
  assert_text(target->root, "{\"x\":1}");
  plant_free(source);
  plant_free(target);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(objects_are_merged),
      TEST(arrays_are_merged),
      TEST(created_tables_are_merged),
      TEST(roots_are_merged),
      TEST(several_are_merged_in_order),
      TEST(removals_are_remembered),
      TEST(what_was_done_before_clean_is_not_repeated),
      TEST(identity_survives_a_merge),
      TEST(a_refusing_owner_stops_it),
  };
  return cmocka_run_group_tests_name("tree_merge", tests, NULL, NULL);
}
