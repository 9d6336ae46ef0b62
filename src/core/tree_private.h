/*
** What tree.c (nodes, reading, text), tree_write.c (writing) and patch.c (their marks) share.
** Nobody else includes it.
*/
#ifndef MP_CORE_TREE_PRIVATE_H
#define MP_CORE_TREE_PRIVATE_H

#include "core/tree.h"

typedef enum mp_slot_kind {
  /* of an object: a member that was removed; its key stays until the tree is clean again */
  MP_SLOT_HOLE = 0,
  MP_SLOT_TEXT, /* JSON inside the text of the node's `source`, not looked at yet */
  MP_SLOT_VALUE,
  MP_SLOT_NODE /* holds one reference to the child */
} mp_slot_kind;

typedef struct mp_slot {
  mp_slot_kind kind;
  bool at_clean; /* it was there when the tree was last clean */
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
  bool is_open;      /* slots are there; else only `text` */
  bool is_cut;       /* was taken out of its tree while somebody held it */
  bool is_dirty;     /* written, here or below, since it was last clean */
  bool restructured; /* written since then in a way that only replacing the whole can repeat */

  mp_node *parent; /* not counted; NULL: a root, or cut */
  size_t place;    /* its slot in the parent */

  const mp_tree_owner *owner; /* of a root that is not stale */
  mp_key *root_key;           /* of a root, or of a cut node the root's that it had */
  /* of a cut node: the path that it had; NULL when there was no memory for it */
  mp_key *label;

  mp_value *source;    /* what `text` and slots of kind TEXT point into */
  moonpad_string text; /* what it holds, as long as it was not written */
  mp_value *whole;     /* what it holds, where that is at hand as a value */

  mp_slot *slots;
  size_t slot_count; /* holes included */
  size_t slot_capacity;
  mp_key **keys; /* of an object, beside the slots */
  size_t key_capacity;
  size_t count;       /* without holes */
  size_t base_length; /* of an array: the items that were there when it was last clean */

  mp_map index; /* key -> place + 1; only while `is_indexed` */
  bool is_indexed;
  size_t cursor_slot;  /* where the last search by position ended, and */
  size_t cursor_alive; /* how many slots before it are no holes */
};

#define MP_NO_PLACE SIZE_MAX

/* tree.c; a false or NULL means out of memory. */
bool mp_node_open(mp_node *node);
/* The slot of a key in an open object, be it a hole; MP_NO_PLACE when there is none. */
size_t mp_node_find(mp_node *node, moonpad_string key);
bool mp_node_read_slot(mp_node *node, size_t place, mp_item *item);
mp_value *mp_node_slot_value(mp_node *node, size_t place);
/* The items of an open array from a place on, as a JSON array. */
void mp_node_write_items(mp_node *node, size_t from, mp_buffer *out);
void mp_node_drop_index(mp_node *node);
/* Gives up what a slot of `node` held: a child that somebody else holds becomes stale. */
void mp_node_drop_slot(mp_node *node, mp_slot *slot);
void mp_node_clear_slots(mp_node *node);
mp_node *mp_node_root(const mp_node *node);

#endif
