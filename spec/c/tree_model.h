/*
** Trees against a model that is simple enough to be seen right (plain nodes, nothing lazy, no
** counting): random models, and random writes to a tree and its model alike. A law that is to hold
** for any tree:
**
**   random_world *r = random_new(4711);                    (a seed of the test's own)
**   for (int round = 0; round < 1000; round++) {
**     model *pattern = model_composite(r, 4), *m = NULL;   (a random value, at most 4 deep)
**     char *base = model_text(r, pattern);
**     plant *p = changed_copy(r, base, pattern, &m);       (a tree over it, written to at random)
**     compare(r, p->root, m);                              (... or whatever the law says)
**     plant_free(p);
**     free(base);
**     models_free(r);
**   }
**   random_free(r);
**
** A new kind of write goes into write_something(), which makes it in the tree and in the model.
*/
#ifndef SPEC_TREE_MODEL_H
#define SPEC_TREE_MODEL_H

#include "tree_support.h"

#define NAMES          14
#define MODELS_AT_MOST 200000

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

static inline uint32_t roll(random_world *r, uint32_t below) {
  r->seed ^= r->seed << 13;
  r->seed ^= r->seed >> 17;
  r->seed ^= r->seed << 5;
  return r->seed % below;
}

static inline model *model_new(random_world *r, model_kind kind) {
  model *m = calloc(1, sizeof(model));
  if (m == NULL || r->model_count == MODELS_AT_MOST) abort();
  m->kind = kind;
  r->all[r->model_count++] = m;
  return m;
}

static inline void models_free(random_world *r) {
  for (size_t i = 0; i < r->model_count; i++) {
    free(r->all[i]->items);
    free(r->all[i]);
  }
  r->model_count = 0;
}

static inline void model_put_item(model *array, size_t at, model *item) {
  if (at == array->count) {
    array->items = realloc(array->items, (array->count + 1) * sizeof(model *));
    if (array->items == NULL) abort();
    array->count++;
  } else {
    array->items[at]->parent = NULL;
  }
  array->items[at] = item;
  item->parent = array;
}

static inline void model_put_member(model *object, size_t name, model *item) {
  if (object->by_name[name] != NULL) object->by_name[name]->parent = NULL;
  object->by_name[name] = item;
  if (item != NULL) item->parent = object;
}

static inline size_t model_members(const model *object) {
  size_t count = 0;
  for (size_t i = 0; i < NAMES; i++) count += object->by_name[i] != NULL;
  return count;
}

static inline model *model_scalar(random_world *r) {
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

static inline model *model_random(random_world *r, unsigned depth) {
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

static inline model *model_composite(random_world *r, unsigned depth) {
  for (;;) {
    model *m = model_random(r, depth);
    if (m->kind != SCALAR) return m;
  }
}

static const size_t sorted_names[NAMES] = {13, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12};

static inline void model_write(const model *m, mp_buffer *out) {
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

static inline char *model_text(random_world *r, const model *m) {
  mp_buffer out;
  mp_buffer_init(&out, r->w->env);
  model_write(m, &out);
  mp_buffer_add_char(&out, '\0');
  assert_false(out.failed);
  char *text = strdup(out.data);
  mp_buffer_free(&out);
  return text;
}

static inline const model *model_root(const model *m) {
  while (m->parent != NULL) m = m->parent;
  return m;
}

static inline mp_value *model_value(random_world *r, const model *m) {
  char *text = model_text(r, m);
  mp_value *value = json_value(r->w, text);
  free(text);
  assert_non_null(value);
  return value;
}

/* ---- Random writes, to a node and its model alike ---- */

static inline unsigned model_level(const model *m) {
  unsigned level = 0;
  for (; m->parent != NULL; m = m->parent) level++;
  return level;
}

static inline moonpad_status write_index(random_world *r, mp_node *node, model *m, bool is_live) {
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

static inline moonpad_status write_member(random_world *r, mp_node *node, model *m, bool is_live) {
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

static inline void write_something(random_world *r, mp_node *node, model *m, bool is_live) {
  bool by_index = (m->kind == ARRAY) == (roll(r, 10) != 0);
  moonpad_status status = by_index ? write_index(r, node, m, is_live) : write_member(r, node, m, is_live);
  assert_int_equal(status, is_live ? MOONPAD_OK : MOONPAD_INVALID_ARGUMENT);
}

/* A child at random, NULL where there is a scalar or nothing; what is read is compared. */
static inline mp_node *walk_down(random_world *r, mp_node *node, const model *m, model **child) {
  mp_item item;
  size_t index = roll(r, m->kind == ARRAY ? (uint32_t)m->count + 1 : NAMES);
  if (m->kind == ARRAY) {
    assert_int_equal(mp_node_index(node, (int64_t)index + 1, &item, NULL), MOONPAD_OK);
    *child = index < m->count ? m->items[index] : NULL;
  } else {
    assert_int_equal(mp_node_member(node, moonpad_text(names[index]), &item, NULL), MOONPAD_OK);
    *child = m->by_name[index];
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

static inline void compare(random_world *r, mp_node *node, const model *m) {
  char *expected = model_text(r, m);
  assert_text(node, expected);
  size_t count = 0;
  assert_int_equal(mp_node_count(node, &count, NULL), MOONPAD_OK);
  assert_int_equal(count, m->kind == ARRAY ? m->count : model_members(m));
  assert_int_equal(mp_node_is_array(node), m->kind == ARRAY);
  free(expected);
}

static inline random_world *random_new(uint32_t seed) {
  random_world *r = calloc(1, sizeof(random_world));
  if (r == NULL) abort();
  r->w = world_new();
  r->seed = seed;
  return r;
}

static inline void random_free(random_world *r) {
  models_free(r);
  world_free(r->w);
  free(r);
}

/* Writes at random nodes of the tree. */
static inline void write_at_random(random_world *r, mp_node *root, model *m, unsigned writes) {
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

static inline model *model_copy(random_world *r, const model *m) {
  model *copy = model_new(r, m->kind);
  memcpy(copy->text, m->text, sizeof(copy->text));
  for (size_t i = 0; i < m->count; i++) model_put_item(copy, i, model_copy(r, m->items[i]));
  for (size_t i = 0; i < NAMES; i++) {
    if (m->by_name[i] != NULL) model_put_member(copy, i, model_copy(r, m->by_name[i]));
  }
  return copy;
}

/* A tree over `base` with some random writes in it. */
static inline plant *changed_copy(random_world *r, const char *base, const model *pattern, model **result) {
  plant *p = plant_new(r->w, base);
  *result = model_copy(r, pattern);
  write_at_random(r, p->root, *result, 1 + roll(r, 12));
  return p;
}

#endif
