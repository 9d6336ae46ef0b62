/*
** Trees: the value of a state key (an array or object), opened for nested reading and writing.
** Nodes are the arrays and objects in it; their slots hold scalars, unopened JSON or child nodes.
** A node records how it changed since its tree was last clean, which core/patch.h turns into a list
** of edits (contract 1.4). A node is stale when it was replaced or removed, or when its tree has no
** owner any more: reading gives what it held, writing fails. One thread at a time. Writing is
** declared in core/tree_write.h.
*/
#ifndef MP_CORE_TREE_H
#define MP_CORE_TREE_H

#include "base/map.h"
#include "core/value.h"

typedef struct mp_node mp_node;

/* Callbacks of whoever opened the tree. They may read the tree, but not write to it. */
typedef struct mp_tree_owner {
  /* called before each write; anything but MOONPAD_OK prevents it */
  moonpad_status (*will_change)(void *context, moonpad_error *error);
  void (*was_read)(void *context); /* called by mp_node_note_read */
  void *context;
  mp_key *key; /* the state key with its prefix, for paths in messages */
} mp_tree_owner;

/*
** The root node of a tree over a composite value; one reference for the caller. `owner` must live
** until mp_tree_detach. NULL when out of memory.
*/
mp_node *mp_tree_new(mp_env *env, mp_value *value, const mp_tree_owner *owner);
/* Takes the owner away: all nodes of the tree are stale from now on. */
void mp_tree_detach(mp_node *root);

mp_node *mp_node_retain(mp_node *node);
void mp_node_release(mp_node *node);

bool mp_node_is_array(const mp_node *node);
bool mp_node_is_stale(const mp_node *node);
/* Calls the owner's was_read, if there still is an owner. */
void mp_node_note_read(const mp_node *node);
/* The number of items or members. The first access opens the node. Errors: no_memory. */
moonpad_status mp_node_count(mp_node *node, size_t *count, moonpad_error *error);

/*
** What is at a key or index: for an array or object `node` (borrowed: retain it to keep it), else
** `scalar`, borrowed until the next write. Type ABSENT: nothing.
*/
typedef struct mp_item {
  moonpad_value scalar;
  mp_node *node;
} mp_item;
moonpad_status mp_node_member(mp_node *node, moonpad_string key, mp_item *item, moonpad_error *error);
/* `index` counts from 1. */
moonpad_status mp_node_index(mp_node *node, int64_t index, mp_item *item, moonpad_error *error);
/*
** The member at `position` (from 0), for iterating. Members stand in the order of the text (sorted
** by key if this library wrote it), new ones last; removing one moves those after it up. `item` may
** be NULL: then only the key is read and no child node is made.
*/
moonpad_status mp_node_member_at(mp_node *node, size_t position, moonpad_string *key, mp_item *item,
                                 moonpad_error *error);

/* Is `child` what `node` has under this key or index? Then assigning it there changes nothing. */
bool mp_node_holds_member(mp_node *node, moonpad_string key, const mp_node *child);
bool mp_node_holds_index(mp_node *node, int64_t index, const mp_node *child);

/* Appends the compact JSON of what the node holds. */
void mp_node_write(mp_node *node, mp_buffer *out);
/* The same as an owned value; NULL when out of memory. */
mp_value *mp_node_value(mp_node *node);
/*
** How many nodes are above it: 0 for a root. With the depth of a value this is checked against
** MOONPAD_MAX_DEPTH.
*/
unsigned mp_node_level(const mp_node *node);
/* Appends the node's path for messages, as in state["cart"][2].name */
void mp_node_path(const mp_node *node, mp_buffer *out);
/* The same for a key or index in it. */
void mp_node_member_path(const mp_node *node, moonpad_string key, mp_buffer *out);
void mp_node_index_path(const mp_node *node, int64_t index, mp_buffer *out);

mp_env *mp_node_env(const mp_node *node);

#endif
