/*
** What the tests of trees (core/tree.h) and patches (core/patch.h) share: an env that counts its
** blocks, trees that are easy to plant, and a small language of writes:
** "cart[1].name=\"x\"; cart[2]=-; list+=[1]" sets, removes, appends (JSON without spaces or ';').
** A test, to be listed with set_up_world and tear_down_world:
**
**   static void a_removal_shortens(void **state) {
**     plant *p = plant_new(*state, "[1,2,3]");
**     assert_ok(write_all(p->w, p->root, "[3]=-"));
**     assert_text(p->root, "[1,2]");
**     plant_free(p);
**   }
*/
#ifndef SPEC_TREE_SUPPORT_H
#define SPEC_TREE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/json_write.h"
#include "core/patch.h"
#include "core/tree_write.h"
#include "counted_env.h"

typedef struct world {
  counting_allocator memory;
  mp_env *env;
  moonpad_error error;
  int asked;
  bool refuses;
} world;

static inline world *world_new(void) {
  world *w = calloc(1, sizeof(world));
  if (w == NULL) abort();
  w->env = counted_env(&w->memory);
  return w;
}

static inline void world_free(world *w) {
  mp_env_release(w->env);
  assert_int_equal(w->memory.alive, 0);
  free(w);
}

typedef struct plant {
  world *w;
  mp_tree_owner owner;
  mp_node *root;
} plant;

static inline moonpad_status plant_will_change(void *context, moonpad_error *error) {
  world *w = context;
  w->asked++;
  if (!w->refuses) return MOONPAD_OK;
  if (error != NULL) {
    error->code = MOONPAD_CLOSED;
    snprintf(error->message, sizeof(error->message), "refused");
  }
  return MOONPAD_CLOSED;
}

static inline mp_value *json_value(world *w, const char *json) {
  return mp_value_from_trusted_json(w->env, moonpad_text(json));
}

/* Out of memory: `root` is NULL. */
static inline plant *plant_try(world *w, const char *json) {
  plant *p = calloc(1, sizeof(plant));
  if (p == NULL) abort();
  p->w = w;
  p->owner.will_change = plant_will_change;
  p->owner.context = w;
  p->owner.key = mp_key_new(w->env, moonpad_text("cart"));
  mp_value *value = json_value(w, json);
  if (p->owner.key != NULL && value != NULL) p->root = mp_tree_new(w->env, value, &p->owner);
  mp_value_release(w->env, value);
  return p;
}

static inline plant *plant_new(world *w, const char *json) {
  plant *p = plant_try(w, json);
  assert_non_null(p->root);
  return p;
}

static inline void plant_free(plant *p) {
  if (p->root != NULL) {
    mp_tree_detach(p->root);
    mp_node_release(p->root);
  }
  if (p->owner.key != NULL) mp_key_release(p->w->env, p->owner.key);
  free(p);
}

/* Its text, to be freed. */
static inline char *text_of(mp_node *node) {
  mp_buffer out;
  mp_buffer_init(&out, mp_node_env(node));
  mp_node_write(node, &out);
  assert_false(out.failed);
  char *text = malloc(out.length + 1);
  if (text == NULL) abort();
  memcpy(text, out.data, out.length);
  text[out.length] = '\0';
  mp_buffer_free(&out);
  return text;
}

#define assert_text(node, expected)                                                                                    \
  do {                                                                                                                 \
    char *actual_text = text_of(node);                                                                                 \
    assert_string_equal(actual_text, expected);                                                                        \
    free(actual_text);                                                                                                 \
  } while (0)

/* One step of a path: a name up to '.', '[', '=', '+' or the end, or "[n]". */
typedef struct step {
  bool is_index;
  int64_t index;
  moonpad_string name;
} step;

static inline bool next_step(const char **path, step *found) {
  const char *at = *path;
  if (*at == '.') at++;
  if (*at == '\0' || *at == '=' || *at == '+') return false;
  found->is_index = *at == '[';
  if (found->is_index) {
    char *end = NULL;
    found->index = strtoll(at + 1, &end, 10);
    at = end + 1;
  } else {
    found->name.data = at;
    found->name.length = strcspn(at, ".[=+");
    at += found->name.length;
  }
  *path = at;
  return true;
}

static inline moonpad_status read_step(mp_node *node, step s, mp_item *item, moonpad_error *error) {
  return s.is_index ? mp_node_index(node, s.index, item, error) : mp_node_member(node, s.name, item, error);
}

static inline moonpad_status write_step(mp_node *node, step s, mp_value *value, moonpad_error *error) {
  return s.is_index ? mp_node_set_index(node, s.index, value, error) : mp_node_set_member(node, s.name, value, error);
}

/* The node at a path; it must be there. */
static inline mp_node *down(mp_node *node, const char *path) {
  step s;
  while (next_step(&path, &s)) {
    mp_item item;
    assert_int_equal(read_step(node, s, &item, NULL), MOONPAD_OK);
    assert_non_null(item.node);
    node = item.node;
  }
  return node;
}

static inline moonpad_status append_json(world *w, mp_node *node, const char *json) {
  size_t count = 0;
  moonpad_status status = mp_node_count(node, &count, &w->error);
  if (status != MOONPAD_OK) return status;
  mp_value *value = json_value(w, json);
  if (value == NULL) return MOONPAD_NO_MEMORY;
  status = mp_node_set_index(node, (int64_t)count + 1, value, &w->error);
  mp_value_release(w->env, value);
  return status;
}

/* One statement of the language. */
static inline moonpad_status write_one(world *w, mp_node *node, const char *statement) {
  const char *path = statement;
  const char *json = strchr(statement, '=') + 1;
  bool appends = json[-2] == '+';
  step s = {false, 0, {NULL, 0}};
  bool more = next_step(&path, &s);
  while (more) {
    step after;
    bool is_last = !next_step(&path, &after);
    if (is_last && !appends) break;
    mp_item item;
    moonpad_status status = read_step(node, s, &item, &w->error);
    if (status != MOONPAD_OK) return status;
    assert_non_null(item.node);
    node = item.node;
    if (is_last) break;
    s = after;
  }
  if (appends) return append_json(w, node, json);
  if (strcmp(json, "-") == 0) return write_step(node, s, NULL, &w->error);
  mp_value *value = json_value(w, json);
  if (value == NULL) return MOONPAD_NO_MEMORY;
  moonpad_status status = write_step(node, s, value, &w->error);
  mp_value_release(w->env, value);
  return status;
}

/* Statements separated by "; ". Stops at the first that fails. */
static inline moonpad_status write_all(world *w, mp_node *root, const char *statements) {
  moonpad_status status = MOONPAD_OK;
  while (status == MOONPAD_OK && *statements != '\0') {
    char one[4096];
    size_t length = strcspn(statements, ";");
    assert_true(length < sizeof(one));
    memcpy(one, statements, length);
    one[length] = '\0';
    status = write_one(w, root, one);
    statements += length;
    statements += strspn(statements, "; ");
  }
  return status;
}

/* What was done in a tree since it was clean. */
static inline mp_patch *patch_of(mp_node *root) {
  mp_patch *patch = mp_patch_new(mp_node_env(root));
  assert_non_null(patch);
  assert_true(mp_patch_add_tree(patch, root));
  return patch;
}

static inline bool is_whole(const mp_edit *edit) {
  return edit->path->length == 0 && edit->kind == MP_EDIT_SET;
}

/* Does a patch over again in a plant, as whoever holds the key would: a value for the whole key
** replaces the tree. */
static inline moonpad_status plant_apply(plant *p, const mp_patch *patch) {
  if (patch->count == 0 || !is_whole(&patch->edits[0])) return mp_patch_apply(patch, p->root, &p->w->error);
  assert_int_equal(patch->count, 1);
  mp_tree_detach(p->root);
  mp_node_release(p->root);
  p->root = mp_tree_new(p->w->env, patch->edits[0].value, &p->owner);
  return p->root != NULL ? MOONPAD_OK : MOONPAD_NO_MEMORY;
}

/* Every edit, as text: "set \"a\"[1] 5; remove \"b\"", of the whole key "set . 5". To be freed. */
static inline char *patch_text(const mp_patch *patch) {
  static const char *const kinds[] = {"set", "remove", "extend", "make", "increment", "append"};
  mp_buffer out;
  mp_buffer_init(&out, patch->env);
  for (size_t i = 0; i < patch->count; i++) {
    const mp_edit *edit = &patch->edits[i];
    if (i > 0) mp_buffer_add_literal(&out, "; ");
    mp_buffer_add_string(&out, moonpad_text(kinds[edit->kind]));
    mp_buffer_add_char(&out, ' ');
    mp_buffer_add_string(&out, mp_key_text(edit->path));
    if (edit->path->length == 0) mp_buffer_add_char(&out, '.');
    if (edit->value != NULL) {
      mp_buffer_add_char(&out, ' ');
      mp_value_write(&out, edit->value);
    }
  }
  mp_buffer_add_char(&out, '\0');
  assert_false(out.failed);
  char *text = strdup(out.data);
  mp_buffer_free(&out);
  return text;
}

#define assert_patch(patch, expected)                                                                                  \
  do {                                                                                                                 \
    char *actual_patch = patch_text(patch);                                                                            \
    assert_string_equal(actual_patch, expected);                                                                       \
    free(actual_patch);                                                                                                \
  } while (0)

/* A plant in which these writes were made. */
static inline plant *written(world *w, const char *base, const char *writes) {
  plant *p = plant_new(w, base);
  assert_int_equal(write_all(w, p->root, writes), MOONPAD_OK);
  return p;
}

static inline mp_patch *patch_of_writes(world *w, const char *base, const char *writes) {
  plant *p = written(w, base, writes);
  mp_patch *patch = patch_of(p->root);
  plant_free(p);
  return patch;
}

static inline mp_patch *patch_of_whole(world *w, const char *json) {
  mp_value *value = json_value(w, json);
  mp_patch *patch = mp_patch_new(w->env);
  assert_true(mp_patch_add_whole(patch, value));
  mp_value_release(w->env, value);
  return patch;
}

static inline bool overlap(const mp_patch *mine, mp_patch *theirs) {
  bool overlaps = false;
  assert_true(mp_patch_overlaps(mine, &theirs, 1, &overlaps));
  return overlaps;
}

static inline mp_node *child_of(mp_node *node, moonpad_string key) {
  mp_item item;
  assert_int_equal(mp_node_member(node, key, &item, NULL), MOONPAD_OK);
  assert_non_null(item.node);
  return item.node;
}

static inline int set_up_world(void **state) {
  *state = world_new();
  return 0;
}

static inline int tear_down_world(void **state) {
  world_free(*state);
  return 0;
}

#define COUNT_OF(list)  (sizeof(list) / sizeof((list)[0]))
#define assert_ok(call) assert_int_equal(call, MOONPAD_OK)

/*
** Runs it on a new world for each allocation, which fails once, and then for good, until none does
** any more: more than so many. `run` returns false when it was out of memory. For what it needs
** memory for itself, to compare texts for instance, it pauses: w->memory.paused = true.
*/
static inline void fail_each_allocation(bool (*run)(world *w), size_t more_than) {
  for (int lasting = 0; lasting < 2; lasting++) {
    size_t n = 1;
    for (;; n++) {
      world *w = world_new();
      counting_arm_as(&w->memory, n, lasting == 1);
      bool done = run(w);
      bool has_failed = counting_has_failed(&w->memory);
      world_free(w);
      if (done && !has_failed) break;
    }
    assert_true(n > more_than);
  }
}

#endif
