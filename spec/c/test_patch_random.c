/*
** Patches by their laws, over many random writes: one applied to what was there before gives what
** the tree holds, and overlaps are those that a slow rule finds.
*/
#include "tree_model.h"

/* What is applied upon what was there before gives what the tree holds, and is remembered as it
** was. */
static void a_patch_repeats_all(void **state) {
  (void)state;
  random_world *r = random_new(77);
  for (int round = 0; round < 5000; round++) {
    model *pattern = model_composite(r, 4);
    char *base = model_text(r, pattern);
    model *m = NULL;
    plant *source = changed_copy(r, base, pattern, &m);
    mp_patch *patch = patch_of(source->root);
    compare(r, source->root, m);
    plant *target = plant_new(r->w, base);
    assert_int_equal(plant_apply(target, patch), MOONPAD_OK);
    compare(r, target->root, m);
    if (patch->count == 0 || !is_whole(&patch->edits[0])) {
      mp_patch *again = patch_of(target->root);
      plant *clean = plant_new(r->w, base);
      assert_int_equal(plant_apply(clean, again), MOONPAD_OK);
      compare(r, clean->root, m);
      plant_free(clean);
      mp_patch_release(again);
    }
    mp_patch_release(patch);
    plant_free(target);
    plant_free(source);
    free(base);
    models_free(r);
  }
  random_free(r);
}

/* A patch of a whole value, applied to nothing, gives that value. */
static void a_whole_gives_its_value(void **state) {
  (void)state;
  random_world *r = random_new(99);
  for (int round = 0; round < 3000; round++) {
    model *m = model_composite(r, 5);
    mp_value *value = model_value(r, m);
    mp_patch *patch = mp_patch_new(r->w->env);
    assert_true(mp_patch_add_whole(patch, value));
    assert_int_equal(patch->edits[0].kind, MP_EDIT_MAKE_EMPTY);
    plant *target = plant_new(r->w, m->kind == ARRAY && roll(r, 2) == 0 ? "[]" : "{}");
    assert_int_equal(plant_apply(target, patch), MOONPAD_OK);
    compare(r, target->root, m);
    mp_patch_release(patch);
    plant_free(target);
    mp_value_release(r->w->env, value);
    models_free(r);
  }
  random_free(r);
}

/* The rule of overlaps for two edits, as core/patch.h says it, without haste. */
static bool is_at_or_above(moonpad_string above, moonpad_string path) {
  return above.length <= path.length && memcmp(above.data, path.data, above.length) == 0 &&
         (above.length == path.length || path.data[above.length] == '"' || path.data[above.length] == '[');
}

static bool removes_or_sets(const mp_edit *edit) {
  return edit->kind == MP_EDIT_SET || edit->kind == MP_EDIT_REMOVE;
}

static bool is_for_items(const mp_edit *edit) {
  return edit->kind == MP_EDIT_EXTEND || (edit->kind == MP_EDIT_MAKE_EMPTY && edit->value->as.type == MOONPAD_ARRAY);
}

static bool clashes(const mp_edit *a, const mp_edit *b) {
  moonpad_string above = mp_key_text(a->path), below = mp_key_text(b->path);
  if (!is_at_or_above(above, below)) return false;
  return removes_or_sets(a) || (is_for_items(a) && below.length > above.length && below.data[above.length] == '"');
}

static bool overlap_by_pairs(const mp_patch *a, const mp_patch *b) {
  for (size_t i = 0; i < a->count; i++) {
    for (size_t k = 0; k < b->count; k++) {
      if (clashes(&a->edits[i], &b->edits[k]) || clashes(&b->edits[k], &a->edits[i])) return true;
    }
  }
  return false;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Its text with the items of every array sorted: the same for two that differ in the order of what
** was added. */
static char *unordered_text(random_world *r, mp_node *node) {
  size_t count = 0;
  assert_int_equal(mp_node_count(node, &count, NULL), MOONPAD_OK);
  char **parts = calloc(count + 1, sizeof(char *));
  size_t length = 3;
  for (size_t i = 0; i < count; i++) {
    mp_item item;
    moonpad_string key;
    mp_buffer out;
    mp_buffer_init(&out, r->w->env);
    assert_int_equal(mp_node_member_at(node, i, &key, &item, NULL), MOONPAD_OK);
    if (!mp_node_is_array(node)) mp_json_write_string(&out, key);
    if (item.node == NULL) {
      mp_value_write_borrowed(&out, &item.scalar);
    } else {
      char *below = unordered_text(r, item.node);
      mp_buffer_add_string(&out, moonpad_text(below));
      free(below);
    }
    mp_buffer_add_char(&out, '\0');
    assert_false(out.failed);
    length += out.length;
    parts[i] = strdup(out.data);
    mp_buffer_free(&out);
  }
  qsort(parts, count, sizeof(char *), by_text);
  char *text = malloc(length);
  char *end = text;
  *end++ = mp_node_is_array(node) ? '[' : '{';
  for (size_t i = 0; i < count; i++) {
    size_t part = strlen(parts[i]);
    memcpy(end, parts[i], part);
    end[part] = ',';
    end += part + 1;
    free(parts[i]);
  }
  *end = '\0';
  free(parts);
  return text;
}

/* ---- Patches done over again in a model ---- */

static model *model_of_node(random_world *r, mp_node *node);

static model *model_of_item(random_world *r, const mp_item *item) {
  if (item->node != NULL) return model_of_node(r, item->node);
  mp_buffer out;
  mp_buffer_init(&out, r->w->env);
  mp_value_write_borrowed(&out, &item->scalar);
  model *m = model_new(r, SCALAR);
  assert_true(out.length < sizeof(m->text));
  memcpy(m->text, out.data, out.length);
  mp_buffer_free(&out);
  return m;
}

static size_t name_number(moonpad_string name) {
  for (size_t i = 0; i < NAMES; i++) {
    if (strlen(names[i]) == name.length && memcmp(names[i], name.data, name.length) == 0) return i;
  }
  fail_msg("no such name: %.*s", (int)name.length, name.data);
  return 0;
}

static model *model_of_node(random_world *r, mp_node *node) {
  model *m = model_new(r, mp_node_is_array(node) ? ARRAY : OBJECT);
  size_t count = 0;
  assert_int_equal(mp_node_count(node, &count, NULL), MOONPAD_OK);
  for (size_t i = 0; i < count; i++) {
    mp_item item;
    moonpad_string key;
    assert_int_equal(mp_node_member_at(node, i, &key, &item, NULL), MOONPAD_OK);
    if (m->kind == ARRAY) {
      model_put_item(m, i, model_of_item(r, &item));
    } else {
      model_put_member(m, name_number(key), model_of_item(r, &item));
    }
  }
  return m;
}

static model *model_of_value(random_world *r, mp_value *value) {
  mp_item scalar = {value->as, NULL};
  if (value->as.type != MOONPAD_ARRAY && value->as.type != MOONPAD_OBJECT) return model_of_item(r, &scalar);
  mp_node *root = mp_tree_new(r->w->env, value, NULL);
  model *m = model_of_node(r, root);
  mp_node_release(root);
  return m;
}

/* The slot that a step leads to, where a model or NULL is; *rest goes behind the step. */
static model **model_step(model *m, const char **rest) {
  const char *at = *rest;
  if (*at == '[') {
    char *end = NULL;
    size_t index = (size_t)strtoul(at + 1, &end, 10);
    *rest = end + 1;
    assert_true(m->kind == ARRAY && index >= 1 && index <= m->count);
    return &m->items[index - 1];
  }
  assert_int_equal(m->kind, OBJECT);
  for (size_t i = 0; i < NAMES; i++) {
    char literal[16];
    snprintf(literal, sizeof(literal), names[i][0] == '"' ? "\"\\%s\"" : "\"%s\"", names[i]);
    if (strncmp(at, literal, strlen(literal)) != 0) continue;
    *rest = at + strlen(literal);
    return &m->by_name[i];
  }
  fail_msg("no such step: %s", at);
  return NULL;
}

static void model_edit(random_world *r, model **root, const mp_edit *edit) {
  const char *rest = edit->path->bytes;
  model **slot = root;
  while (*rest != '\0') {
    model *above = *slot;
    slot = model_step(above, &rest);
  }
  switch (edit->kind) {
  case MP_EDIT_SET:
    *slot = model_of_value(r, edit->value);
    break;
  case MP_EDIT_REMOVE:
    *slot = NULL;
    break;
  case MP_EDIT_MAKE_EMPTY:
    if (*slot == NULL) *slot = model_of_value(r, edit->value);
    if (edit->value->as.type == MOONPAD_ARRAY) (*slot)->kind = ARRAY;
    break;
  default: {
    model *items = model_of_value(r, edit->value);
    assert_true((*slot)->kind == ARRAY || model_members(*slot) == 0);
    (*slot)->kind = ARRAY;
    for (size_t i = 0; i < items->count; i++) model_put_item(*slot, (*slot)->count, items->items[i]);
  }
  }
}

static model *model_after(random_world *r, const model *pattern, const mp_patch *first, const mp_patch *second) {
  model *m = model_copy(r, pattern);
  for (size_t i = 0; i < first->count; i++) model_edit(r, &m, &first->edits[i]);
  for (size_t i = 0; i < second->count; i++) model_edit(r, &m, &second->edits[i]);
  return m;
}

/* A table at a member that both are likely to choose. */
static void put_composite(random_world *r, mp_node *root, model *m) {
  if (m->kind == ARRAY) return;
  size_t name = roll(r, 2);
  model *item = model_composite(r, 2);
  mp_value *value = model_value(r, item);
  assert_int_equal(mp_node_set_member(root, moonpad_text(names[name]), value, NULL), MOONPAD_OK);
  model_put_member(m, name, item);
  mp_value_release(r->w->env, value);
}

/* What does not overlap fits, in either order, and gives the same values; items stand in the order
** of application. */
static void patches_that_do_not_overlap_give_both(void **state) {
  (void)state;
  random_world *r = random_new(4711);
  int both = 0;
  for (int round = 0; round < 20000; round++) {
    model *pattern = model_composite(r, 4);
    char *base = model_text(r, pattern);
    model *models[2];
    plant *plants[2];
    mp_patch *patches[2];
    for (int i = 0; i < 2; i++) {
      plants[i] = changed_copy(r, base, pattern, &models[i]);
      if (round % 3 == 0) put_composite(r, plants[i]->root, models[i]);
      patches[i] = patch_of(plants[i]->root);
    }
    bool overlaps = overlap(patches[0], patches[1]);
    assert_int_equal(overlaps, overlap(patches[1], patches[0]));
    assert_int_equal(overlaps, overlap_by_pairs(patches[0], patches[1]));
    if (!overlaps && patches[0]->count > 0 && patches[1]->count > 0) {
      both++;
      for (int i = 0; i < 2; i++) {
        assert_int_equal(plant_apply(plants[i], patches[1 - i]), MOONPAD_OK);
        compare(r, plants[i]->root, model_after(r, pattern, patches[i], patches[1 - i]));
        mp_patch *together = patch_of(plants[i]->root);
        plant *again = plant_new(r->w, base);
        assert_int_equal(plant_apply(again, together), MOONPAD_OK);
        char *expected = text_of(plants[i]->root);
        assert_text(again->root, expected);
        free(expected);
        plant_free(again);
        mp_patch_release(together);
      }
      char *left = unordered_text(r, plants[0]->root);
      char *right = unordered_text(r, plants[1]->root);
      assert_string_equal(left, right);
      free(left);
      free(right);
    }
    for (int i = 0; i < 2; i++) {
      mp_patch_release(patches[i]);
      plant_free(plants[i]);
    }
    free(base);
    models_free(r);
  }
  assert_true(both > 3000);
  random_free(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_patch_repeats_all),
      cmocka_unit_test(a_whole_gives_its_value),
      cmocka_unit_test(patches_that_do_not_overlap_give_both),
  };
  return cmocka_run_group_tests_name("patch_random", tests, NULL, NULL);
}
