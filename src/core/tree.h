/*
** A composite value opened up for nested reading and writing: nodes are arrays and objects,
** their slots hold scalars, unopened JSON, or child nodes. A node knows what was done to it since
** it was last clean (places set, removed, an array extended), of which core/patch.h makes a list
** (contract 1.4). A node that is no longer in its tree, or whose tree has no owner any more, is
** stale: it still reads what it held, writing to it fails. One thread at a time.
*/
#ifndef MP_CORE_TREE_H
#define MP_CORE_TREE_H

#include "base/map.h"
#include "core/value.h"

typedef struct mp_node mp_node;

/*
** Told when anything in the tree is written, before it is. Refusing (not MOONPAD_OK) prevents the
** write. It may read the tree, not write to it.
*/
typedef struct mp_tree_owner {
  moonpad_status (*will_change)(void *context, moonpad_error *error);
  void (*was_read)(void *context); /* told by mp_node_note_read */
  void *context;
  mp_key *key; /* the state key, with prefix: for paths in messages */
} mp_tree_owner;

/*
** The root over a composite value; one reference for the caller. `owner` must live until
** mp_tree_detach. NULL when out of memory.
*/
mp_node *mp_tree_new(mp_env *env, mp_value *value, const mp_tree_owner *owner);
/* The tree has lost its place: all its nodes are stale from now on. */
void mp_tree_detach(mp_node *root);

mp_node *mp_node_retain(mp_node *node);
void mp_node_release(mp_node *node);

bool mp_node_is_array(const mp_node *node);
bool mp_node_is_stale(const mp_node *node);
/* Tells the owner, if there still is one, that somebody looks at the tree through this node. */
void mp_node_note_read(const mp_node *node);
/*
** Of an array its items, of an object its members. The first look opens the node, which may
** fail (no_memory).
*/
moonpad_status mp_node_count(mp_node *node, size_t *count, moonpad_error *error);

/*
** What a slot holds: `node` for an array or object (borrowed: retain it to keep it), else a scalar
** borrowed until the next write. type ABSENT: nothing there.
*/
typedef struct mp_item {
  moonpad_value scalar;
  mp_node *node;
} mp_item;
moonpad_status mp_node_member(mp_node *node, moonpad_string key, mp_item *item, moonpad_error *error);
/* from 1 */
moonpad_status mp_node_index(mp_node *node, int64_t index, mp_item *item, moonpad_error *error);
/*
** Member number `position` (from 0, in the order of the text; sorted by key when `moonpad` wrote
** it; new members come last, and removing one moves those behind it up). `item` may be NULL: then
** only the key is looked at, and no child is opened up.
*/
moonpad_status mp_node_member_at(mp_node *node, size_t position, moonpad_string *key, mp_item *item,
                                 moonpad_error *error);

/* Is `child` what is now at that place of `node`? Then assigning it there changes nothing. */
bool mp_node_holds_member(mp_node *node, moonpad_string key, const mp_node *child);
bool mp_node_holds_index(mp_node *node, int64_t index, const mp_node *child);

/* Compact JSON of what it holds. */
void mp_node_write(mp_node *node, mp_buffer *out);
/* The same as an owned value; NULL when out of memory. */
mp_value *mp_node_value(mp_node *node);
/*
** How deep its place is: 0 for a root. With the depth of a value this keeps
** within MOONPAD_MAX_DEPTH.
*/
unsigned mp_node_level(const mp_node *node);
/* Its path for messages: state["cart"][2].name */
void mp_node_path(const mp_node *node, mp_buffer *out);
/* The same for one place in it. */
void mp_node_member_path(const mp_node *node, moonpad_string key, mp_buffer *out);
void mp_node_index_path(const mp_node *node, int64_t index, mp_buffer *out);

mp_env *mp_node_env(const mp_node *node);

#endif
