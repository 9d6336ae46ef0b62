/*
** The inside of trees, shared by tree.c (nodes, reading, text), tree_write.c (writing) and patch.c
** (from the recorded changes to edits). Nobody else includes it.
*/
#ifndef MP_CORE_TREE_PRIVATE_H
#define MP_CORE_TREE_PRIVATE_H

#include "core/tree.h"

typedef enum mp_slot_kind {
  /* a removed member of an object; its key stays until the tree is clean again */
  MP_SLOT_DELETED = 0,
  MP_SLOT_TEXT, /* JSON inside the node's `source`, not decoded yet */
  MP_SLOT_VALUE,
  MP_SLOT_NODE /* holds one reference to the child */
} mp_slot_kind;

typedef struct mp_slot {
  mp_slot_kind kind;
  bool at_clean; /* it had a value when the tree was last clean */
  bool is_set;   /* assigned as a whole since then */
  union {
    moonpad_string text;
    mp_value *value;
    mp_node *node;
  } as;
} mp_slot;

struct mp_node {
  mp_env *env;
  int references;
  bool is_array;
  bool is_open;       /* it has slots; else only `text` */
  bool is_detached;   /* replaced or removed while somebody held a reference */
  bool is_dirty;      /* written since it was last clean, here or below */
  bool shape_changed; /* since then so that only replacing the whole node repeats it */

  mp_node *parent;    /* borrowed; NULL: a root, or detached */
  size_t parent_slot; /* number of its slot in the parent */

  const mp_tree_owner *owner; /* of a root; NULL once it is stale */
  mp_key *root_key;           /* of a root, or of the former root of a detached node */
  /* of a detached node: its former path; NULL if there was no memory for it */
  mp_key *detached_path;

  mp_value *source;    /* `text` and slots of kind TEXT point into it */
  moonpad_string text; /* what the node holds, until it is written */
  mp_value *whole;     /* what the node holds, if there is a value of it; or NULL */

  mp_slot *slots;
  size_t slot_count; /* deleted ones included */
  size_t slot_capacity;
  mp_key **keys; /* of an object: the key of each slot */
  size_t key_capacity;
  size_t count;       /* slots that are not deleted */
  size_t base_length; /* of an array: its length when it was last clean */

  mp_map index; /* key -> number of its slot + 1; only while `is_indexed` */
  bool is_indexed;
  /* where the last search by position ended: the slot, and how many members come before it */
  size_t cursor_slot;
  size_t cursor_position;
};

#define MP_NO_SLOT SIZE_MAX

/* In tree.c. False or NULL: out of memory. `at` is the number of a slot, from 0. */
bool mp_node_open(mp_node *node);
/* The slot of a key in an open object, which may be deleted; or MP_NO_SLOT. */
size_t mp_node_find(mp_node *node, moonpad_string key);
mp_value *mp_node_slot_value(mp_node *node, size_t at);
/* Writes the items of an open array, from slot `from` on, as a JSON array. */
void mp_node_write_items(mp_node *node, size_t from, mp_buffer *out);
void mp_node_drop_index(mp_node *node);
/* Releases what a slot of `node` held. A child with other references becomes stale. */
void mp_node_drop_slot(mp_node *node, mp_slot *slot);
void mp_node_clear_slots(mp_node *node);
mp_node *mp_node_root(const mp_node *node);

#endif
