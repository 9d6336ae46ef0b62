/*
** Trees (core/tree.h) against a model, over many random writes; and every allocation failing once,
** and then for good.
*/
#include "tree_model.h"

#define HELD_AT_MOST 48

/* ---- Long random lives ---- */

typedef struct held {
  mp_node *node;
  model *as;
} held;

static void hold(random_world *r, held *list, size_t *count, mp_node *node, model *m) {
  for (size_t i = 0; i < *count; i++) {
    assert_int_equal(list[i].as == m, list[i].node == node);
    if (list[i].as == m) return;
  }
  size_t slot = *count;
  if (slot == HELD_AT_MOST) {
    slot = roll(r, HELD_AT_MOST);
    mp_node_release(list[slot].node);
  } else {
    ++*count;
  }
  list[slot].node = mp_node_retain(node);
  list[slot].as = m;
}

static void live_once(random_world *r, unsigned steps) {
  model *root = model_composite(r, 4);
  char *text = model_text(r, root);
  plant *p = plant_new(r->w, text);
  free(text);
  held list[HELD_AT_MOST];
  size_t count = 0;
  for (unsigned done = 0; done < steps; done++) {
    size_t chosen = roll(r, (uint32_t)count + 1);
    mp_node *node = chosen == count ? p->root : list[chosen].node;
    model *m = chosen == count ? root : list[chosen].as;
    bool is_live = model_root(m) == root;
    assert_int_equal(mp_node_is_stale(node), !is_live);
    if (is_live) assert_int_equal(mp_node_level(node), model_level(m));
    model *child = NULL;
    mp_node *below = walk_down(r, node, m, &child);
    if (below != NULL && roll(r, 2) == 0) hold(r, list, &count, below, child);
    write_something(r, node, m, is_live);
    if (roll(r, 4) == 0) compare(r, node, m);
    if (roll(r, 8) == 0) compare(r, p->root, root);
    if (roll(r, 50) == 0) mp_tree_mark_clean(p->root);
    if (roll(r, 30) == 0) mp_value_release(r->w->env, mp_node_value(node));
  }
  for (size_t i = 0; i < count; i++) {
    compare(r, list[i].node, list[i].as);
    if (i % 2 == 0) mp_node_release(list[i].node);
  }
  plant_free(p);
  for (size_t i = 1; i < count; i += 2) {
    compare(r, list[i].node, list[i].as);
    assert_true(mp_node_is_stale(list[i].node));
    mp_node_release(list[i].node);
  }
  models_free(r);
}

static void trees_do_what_the_model_does(void **state) {
  (void)state;
  random_world *r = random_new(20240607);
  for (int life = 0; life < 150; life++) live_once(r, 400);
  random_free(r);
}

/* ---- Every allocation fails once ---- */

/* Does one write; if memory was out, nothing may have changed. False: out of memory. */
static bool write_or_nothing(world *w, plant *p, const char *statement) {
  w->memory.paused = true;
  char *before = text_of(p->root);
  w->memory.paused = false;
  moonpad_status status = write_one(w, p->root, statement);
  if (status != MOONPAD_OK) {
    assert_int_equal(status, MOONPAD_NO_MEMORY);
    w->memory.paused = true;
    assert_text(p->root, before);
  }
  free(before);
  return status == MOONPAD_OK;
}

static bool write_each(world *w, plant *p, const char *const *statements, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!write_or_nothing(w, p, statements[i])) return false;
  }
  return true;
}

static const char scenario_base[] = "{\"a\":{\"x\\n\":[1,{\"y\":\"q\\\"\"}]},\"b\":1,\"c\":1,\"d\":1,\"e\":{},\"f\":1,"
                                    "\"g\":1,\"h\":1,\"i\":[{\"z\":1}],\"j\":{\"k\":1}}";
static const char *const scenario_source[] = {
    "a.new={}", "a.new+=1", "e+=\"x\"", "i[1].w={}", "i[1].w.v=1", "i+=2", "k={\"l\":1}", "k.l=-",   "b=-",
    "i[2]=-",   "j.k=-",    "j+=1",     "m=1",       "n=\"text\"", "o={}", "o.p=[1,2,3]", "i+=[{}]", "j+=2"};
static const char *const scenario_target[] = {"a.new={}", "a.new+=0", "e+=\"t\"", "i[1].w={}", "i[1].w.t=1", "p=7"};

static bool read_all(world *w, plant *p) {
  mp_item item;
  mp_node *node = p->root;
  if (mp_node_member(node, moonpad_text("a"), &item, NULL) != MOONPAD_OK) return false;
  if (mp_node_member(item.node, moonpad_text("x\n"), &item, NULL) != MOONPAD_OK) return false;
  assert_non_null(item.node);
  if (mp_node_index(item.node, 2, &item, NULL) != MOONPAD_OK) return false;
  node = item.node;
  mp_node_retain(node);
  moonpad_status status = mp_node_member(node, moonpad_text("y"), &item, NULL);
  bool replaced = status == MOONPAD_OK && write_or_nothing(w, p, "a.x\n=[]");
  mp_value *value = replaced ? mp_node_value(node) : NULL;
  mp_value *whole = value != NULL ? mp_node_value(p->root) : NULL;
  mp_value_release(w->env, value);
  mp_value_release(w->env, whole);
  mp_node_release(node);
  return whole != NULL;
}

/* Does over again in `target` what was done in `source`. False: out of memory. */
static bool patch_over(world *w, plant *target, plant *source) {
  mp_patch *theirs = mp_patch_new(w->env);
  mp_patch *mine = mp_patch_new(w->env);
  bool overlaps = false;
  bool done = theirs != NULL && mine != NULL && mp_patch_add_tree(theirs, target->root) &&
              mp_patch_add_tree(mine, source->root) && mp_patch_overlaps(mine, &theirs, 1, &overlaps);
  assert_false(overlaps);
  if (done) {
    moonpad_status status = mp_patch_apply(mine, target->root, &w->error);
    done = status == MOONPAD_OK;
    if (!done) assert_int_equal(status, MOONPAD_NO_MEMORY);
  }
  mp_patch_release(theirs);
  mp_patch_release(mine);
  return done;
}

static bool run_scenario(world *w) {
  plant *source = plant_try(w, scenario_base);
  plant *target = plant_try(w, scenario_base);
  bool done = source->root != NULL && target->root != NULL &&
              write_each(w, source, scenario_source, COUNT_OF(scenario_source)) &&
              write_each(w, target, scenario_target, COUNT_OF(scenario_target)) && read_all(w, source);
  if (done) {
    w->memory.paused = true;
    char *before = text_of(source->root);
    w->memory.paused = false;
    done = patch_over(w, target, source);
    w->memory.paused = true;
    assert_text(source->root, before);
    free(before);
  }
  if (done) {
    assert_text(target->root,
                "{\"a\":{\"new\":[0,1],\"x\\n\":[]},\"c\":1,\"d\":1,\"e\":[\"t\",\"x\"],\"f\":1,\"g\":1,\"h\":1,"
                "\"i\":[{\"w\":{\"t\":1,\"v\":1},\"z\":1},[{}]],\"j\":[1,2],\"k\":{},\"m\":1,"
                "\"n\":\"text\",\"o\":{\"p\":[1,2,3]},\"p\":7}");
  }
  plant_free(source);
  plant_free(target);
  return done;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  fail_each_allocation(run_scenario, 150);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trees_do_what_the_model_does),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests_name("tree_random", tests, NULL, NULL);
}
