/*
** Trees against a model that is simple enough to be seen right (plain nodes, nothing lazy, no counting), over many random writes; patches by their laws;
** and every allocation failing once.
*/
#include "tree_support.h"

#define NAMES          14
#define MODELS_AT_MOST 200000
#define HELD_AT_MOST   48

static const char *const names[NAMES] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k l", "\"", "\xC3\xA9", ""};

/* ---- The model ---- */

typedef enum model_kind { SCALAR, ARRAY, OBJECT } model_kind;

typedef struct model {
  model_kind kind;
  char text[24];                /* of a scalar */
  struct model **items;         /* of an array */
  size_t count;                 /* of an array */
  struct model *by_name[NAMES]; /* of an object */
  struct model *parent;
} model;

typedef struct random_world {
  world *w;
  uint32_t seed;
  model *all[MODELS_AT_MOST]; /* freed at the end: what is stale is compared too */
  size_t model_count;
} random_world;

static uint32_t roll(random_world *r, uint32_t below) {
  r->seed ^= r->seed << 13;
  r->seed ^= r->seed >> 17;
  r->seed ^= r->seed << 5;
  return r->seed % below;
}

static model *model_new(random_world *r, model_kind kind) {
  model *m = calloc(1, sizeof(model));
  if (m == NULL || r->model_count == MODELS_AT_MOST) abort();
  m->kind = kind;
  r->all[r->model_count++] = m;
  return m;
}

static void models_free(random_world *r) {
  for (size_t i = 0; i < r->model_count; i++) {
    free(r->all[i]->items);
    free(r->all[i]);
  }
  r->model_count = 0;
}

static void model_put_item(model *array, size_t place, model *item) {
  if (place == array->count) {
    array->items = realloc(array->items, (array->count + 1) * sizeof(model *));
    if (array->items == NULL) abort();
    array->count++;
  } else {
    array->items[place]->parent = NULL;
  }
  array->items[place] = item;
  item->parent = array;
}

static void model_put_member(model *object, size_t name, model *item) {
  if (object->by_name[name] != NULL) object->by_name[name]->parent = NULL;
  object->by_name[name] = item;
  if (item != NULL) item->parent = object;
}

static size_t model_members(const model *object) {
  size_t count = 0;
  for (size_t i = 0; i < NAMES; i++) count += object->by_name[i] != NULL;
  return count;
}

static model *model_scalar(random_world *r) {
  static const char *const scalars[] = {"null", "true", "false", "\"\"", "\"[\\\"\\u0001\"", "1.5", "\"x\""};
  model *m = model_new(r, SCALAR);
  uint32_t choice = roll(r, 12);
  if (choice < 7) {
    snprintf(m->text, sizeof(m->text), "%s", scalars[choice]);
  } else {
    snprintf(m->text, sizeof(m->text), "%d", (int)roll(r, 1000) - 500);
  }
  return m;
}

static model *model_random(random_world *r, unsigned depth) {
  uint32_t choice = roll(r, depth == 0 ? 1 : 4);
  if (choice <= 1) return model_scalar(r);
  model *m = model_new(r, choice == 2 ? ARRAY : OBJECT);
  for (uint32_t left = roll(r, 5); left > 0; left--) {
    model *item = model_random(r, depth - 1);
    if (m->kind == ARRAY) model_put_item(m, m->count, item);
    if (m->kind == OBJECT) model_put_member(m, roll(r, NAMES), item);
  }
  return m;
}

static model *model_composite(random_world *r, unsigned depth) {
  for (;;) {
    model *m = model_random(r, depth);
    if (m->kind != SCALAR) return m;
  }
}

static const size_t sorted_names[NAMES] = {13, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12};

static void model_write(const model *m, mp_buffer *out) {
  if (m->kind == SCALAR) {
    mp_buffer_add_string(out, moonpad_text(m->text));
    return;
  }
  bool first = true;
  mp_buffer_add_char(out, m->kind == ARRAY ? '[' : '{');
  for (size_t i = 0; i < (m->kind == ARRAY ? m->count : NAMES); i++) {
    const model *item = m->kind == ARRAY ? m->items[i] : m->by_name[sorted_names[i]];
    if (item == NULL) continue;
    if (!first) mp_buffer_add_char(out, ',');
    first = false;
    if (m->kind == OBJECT) {
      const char *name = names[sorted_names[i]];
      mp_buffer_add_char(out, '"');
      if (name[0] == '"') mp_buffer_add_char(out, '\\');
      mp_buffer_add_string(out, moonpad_text(name));
      mp_buffer_add_literal(out, "\":");
    }
    model_write(item, out);
  }
  mp_buffer_add_char(out, m->kind == ARRAY ? ']' : '}');
}

static char *model_text(random_world *r, const model *m) {
  mp_buffer out;
  mp_buffer_init(&out, r->w->env);
  model_write(m, &out);
  mp_buffer_add_char(&out, '\0');
  assert_false(out.failed);
  char *text = strdup(out.data);
  mp_buffer_free(&out);
  return text;
}

static const model *model_root(const model *m) {
  while (m->parent != NULL) m = m->parent;
  return m;
}

static mp_value *model_value(random_world *r, const model *m) {
  char *text = model_text(r, m);
  mp_value *value = json_value(r->w, text);
  free(text);
  assert_non_null(value);
  return value;
}

/* ---- Random writes, to a node and its model alike ---- */

static unsigned model_level(const model *m) {
  unsigned level = 0;
  for (; m->parent != NULL; m = m->parent) level++;
  return level;
}

static moonpad_status write_index(random_world *r, mp_node *node, model *m, bool is_live) {
  int64_t index = (int64_t)roll(r, (uint32_t)m->count + 3);
  if (roll(r, 2) == 0) index = (int64_t)m->count + 1;
  bool removes = m->count > 12 || roll(r, 4) == 0;
  if (removes && roll(r, 2) == 0) index = (int64_t)m->count;
  if (removes) {
    moonpad_status status = mp_node_set_index(node, index, NULL, NULL);
    if (!is_live) return status;
    bool inside = m->kind == ARRAY && index >= 1 && (size_t)index <= m->count;
    assert_int_equal(status, inside && (size_t)index < m->count ? MOONPAD_INVALID_ARGUMENT : MOONPAD_OK);
    if (inside && status == MOONPAD_OK) {
      m->count--;
      m->items[m->count]->parent = NULL;
    }
    return MOONPAD_OK;
  }
  model *item = model_random(r, model_level(m) > 5 ? 0 : 2);
  mp_value *value = model_value(r, item);
  moonpad_status status = mp_node_set_index(node, index, value, NULL);
  mp_value_release(r->w->env, value);
  if (!is_live) return status;
  bool can = index >= 1 && (size_t)index <= m->count + 1 && (m->kind == ARRAY || model_members(m) == 0);
  assert_int_equal(status, can ? MOONPAD_OK : MOONPAD_INVALID_ARGUMENT);
  if (can) {
    m->kind = ARRAY;
    model_put_item(m, (size_t)index - 1, item);
  }
  return MOONPAD_OK;
}

static moonpad_status write_member(random_world *r, mp_node *node, model *m, bool is_live) {
  size_t name = roll(r, NAMES);
  model *item = roll(r, 3) == 0 ? NULL : model_random(r, model_level(m) > 5 ? 0 : 2);
  mp_value *value = item == NULL ? NULL : model_value(r, item);
  moonpad_status status = mp_node_set_member(node, moonpad_text(names[name]), value, NULL);
  mp_value_release(r->w->env, value);
  if (!is_live) return status;
  assert_int_equal(status, item != NULL && m->kind == ARRAY ? MOONPAD_INVALID_ARGUMENT : MOONPAD_OK);
  if (m->kind == OBJECT) model_put_member(m, name, item);
  return MOONPAD_OK;
}

static void write_something(random_world *r, mp_node *node, model *m, bool is_live) {
  bool by_index = (m->kind == ARRAY) == (roll(r, 10) != 0);
  moonpad_status status = by_index ? write_index(r, node, m, is_live) : write_member(r, node, m, is_live);
  assert_int_equal(status, is_live ? MOONPAD_OK : MOONPAD_INVALID_ARGUMENT);
}

/* A child at random, NULL where there is a scalar or nothing; what is read is compared. */
static mp_node *walk_down(random_world *r, mp_node *node, const model *m, model **child) {
  mp_item item;
  size_t place = roll(r, m->kind == ARRAY ? (uint32_t)m->count + 1 : NAMES);
  if (m->kind == ARRAY) {
    assert_int_equal(mp_node_index(node, (int64_t)place + 1, &item, NULL), MOONPAD_OK);
    *child = place < m->count ? m->items[place] : NULL;
  } else {
    assert_int_equal(mp_node_member(node, moonpad_text(names[place]), &item, NULL), MOONPAD_OK);
    *child = m->by_name[place];
  }
  if (*child == NULL) {
    assert_int_equal(item.scalar.type, MOONPAD_ABSENT);
    return NULL;
  }
  assert_true(((*child)->kind != SCALAR) == (item.node != NULL));
  if (item.node != NULL) return item.node;
  mp_buffer out;
  mp_buffer_init(&out, r->w->env);
  mp_value_write_borrowed(&out, &item.scalar);
  assert_int_equal(out.length, strlen((*child)->text));
  assert_memory_equal(out.data, (*child)->text, out.length);
  mp_buffer_free(&out);
  return NULL;
}

/* ---- Long random lives ---- */

typedef struct held {
  mp_node *node;
  model *as;
} held;

static void compare(random_world *r, mp_node *node, const model *m) {
  char *expected = model_text(r, m);
  assert_text(node, expected);
  size_t count = 0;
  assert_int_equal(mp_node_count(node, &count, NULL), MOONPAD_OK);
  assert_int_equal(count, m->kind == ARRAY ? m->count : model_members(m));
  assert_int_equal(mp_node_is_array(node), m->kind == ARRAY);
  free(expected);
}

static void hold(random_world *r, held *list, size_t *count, mp_node *node, model *m) {
  for (size_t i = 0; i < *count; i++) {
    assert_int_equal(list[i].as == m, list[i].node == node);
    if (list[i].as == m) return;
  }
  size_t place = *count;
  if (place == HELD_AT_MOST) {
    place = roll(r, HELD_AT_MOST);
    mp_node_release(list[place].node);
  } else {
    ++*count;
  }
  list[place].node = mp_node_retain(node);
  list[place].as = m;
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

static random_world *random_new(uint32_t seed) {
  random_world *r = calloc(1, sizeof(random_world));
  if (r == NULL) abort();
  r->w = world_new();
  r->seed = seed;
  return r;
}

static void random_free(random_world *r) {
  models_free(r);
  world_free(r->w);
  free(r);
}

static void trees_do_what_the_model_does(void **state) {
  (void)state;
  random_world *r = random_new(20240607);
  for (int life = 0; life < 150; life++) live_once(r, 400);
  random_free(r);
}

/* ---- Laws of patches ---- */

/* Writes at random places of the tree. */
static void write_at_random(random_world *r, mp_node *root, model *m, unsigned writes) {
  for (unsigned i = 0; i < writes; i++) {
    mp_node *node = root;
    model *at = m;
    for (int steps = (int)roll(r, 5); steps > 0; steps--) {
      model *child = NULL;
      mp_node *below = walk_down(r, node, at, &child);
      if (below == NULL) continue;
      node = below;
      at = child;
    }
    write_something(r, node, at, true);
  }
}

static model *model_copy(random_world *r, const model *m) {
  model *copy = model_new(r, m->kind);
  memcpy(copy->text, m->text, sizeof(copy->text));
  for (size_t i = 0; i < m->count; i++) model_put_item(copy, i, model_copy(r, m->items[i]));
  for (size_t i = 0; i < NAMES; i++) {
    if (m->by_name[i] != NULL) model_put_member(copy, i, model_copy(r, m->by_name[i]));
  }
  return copy;
}

/* A tree over `base` with some random writes in it. */
static plant *changed_copy(random_world *r, const char *base, const model *pattern, model **result) {
  plant *p = plant_new(r->w, base);
  *result = model_copy(r, pattern);
  write_at_random(r, p->root, *result, 1 + roll(r, 12));
  return p;
}

/* What is applied upon what was there before gives what the tree holds, and is remembered as it was. */
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

/* A whole value, put side by side with nothing, is that value. */
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

static bool overlap(const mp_patch *mine, mp_patch *theirs) {
  bool overlaps = false;
  assert_true(mp_patch_overlaps(mine, &theirs, 1, &overlaps));
  return overlaps;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Its text with the items of every array sorted: the same for two that differ in the order of what was added. */
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

/* The place that a step leads to; *rest goes behind it. */
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
  model **place = root;
  while (*rest != '\0') {
    model *above = *place;
    place = model_step(above, &rest);
  }
  switch (edit->kind) {
  case MP_EDIT_SET:
    *place = model_of_value(r, edit->value);
    break;
  case MP_EDIT_REMOVE:
    *place = NULL;
    break;
  case MP_EDIT_MAKE_EMPTY:
    if (*place == NULL) *place = model_of_value(r, edit->value);
    if (edit->value->as.type == MOONPAD_ARRAY) (*place)->kind = ARRAY;
    break;
  default: {
    model *items = model_of_value(r, edit->value);
    assert_true((*place)->kind == ARRAY || model_members(*place) == 0);
    (*place)->kind = ARRAY;
    for (size_t i = 0; i < items->count; i++) model_put_item(*place, (*place)->count, items->items[i]);
  }
  }
}

static model *model_after(random_world *r, const model *pattern, const mp_patch *first, const mp_patch *second) {
  model *m = model_copy(r, pattern);
  for (size_t i = 0; i < first->count; i++) model_edit(r, &m, &first->edits[i]);
  for (size_t i = 0; i < second->count; i++) model_edit(r, &m, &second->edits[i]);
  return m;
}

/* What does not overlap fits, in either order, and gives the same places; items stand in the order of application. */
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

/* ---- Every allocation fails once ---- */

/* Does one write; if memory was out, nothing may have changed. False: out of memory. */
static bool write_or_nothing(world *w, plant *p, const char *statement) {
  long until = w->memory.until_failure;
  w->memory.until_failure = -1;
  char *before = text_of(p->root);
  w->memory.until_failure = until;
  moonpad_status status = write_one(w, p->root, statement);
  if (status != MOONPAD_OK) {
    assert_int_equal(status, MOONPAD_NO_MEMORY);
    w->memory.until_failure = -1;
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
#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

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

/* Does over again in `target` what was done in `source`, which does not overlap. False: out of memory. */
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
    long until = w->memory.until_failure;
    w->memory.until_failure = -1;
    char *before = text_of(source->root);
    w->memory.until_failure = until;
    done = patch_over(w, target, source);
    w->memory.until_failure = -1;
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
  for (int goes_on = 0; goes_on < 2; goes_on++) {
    long n = 0;
    for (;; n++) {
      world *w = world_new();
      w->memory.goes_on = goes_on == 1;
      w->memory.until_failure = n;
      bool done = run_scenario(w);
      bool has_failed = w->memory.has_failed;
      w->memory.until_failure = -1;
      world_free(w);
      if (done && !has_failed) break;
    }
    assert_true(n > 150);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trees_do_what_the_model_does), cmocka_unit_test(a_patch_repeats_all),
      cmocka_unit_test(a_whole_gives_its_value),      cmocka_unit_test(patches_that_do_not_overlap_give_both),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests_name("tree_random", tests, NULL, NULL);
}
