/*
** Patches: the changes of one state key's value as a list of edits. Two patches of the same value
** can be checked for overlap, and a patch can be applied to a value that others have changed
** meanwhile (contract 1.4 point 3). They serve the tool calls of one answer, merged in
** service/changes/transaction.c; what two sessions write is never merged, but compared by key
** (service/append/conflicts.c). One thread at a time.
*/
#ifndef MP_CORE_PATCH_H
#define MP_CORE_PATCH_H

#include "core/tree.h"

typedef enum mp_edit_kind {
  MP_EDIT_SET,    /* `value` is put at the path */
  MP_EDIT_REMOVE, /* the value at the path is removed; no `value` */
  MP_EDIT_EXTEND, /* the items of `value`, an array, are appended to the array at the path */
  /* `value`, [] or {}, is put at the path unless an array or object is there already */
  MP_EDIT_MAKE_EMPTY,
  MP_EDIT_INCREMENT, /* only with an empty path: `value` is a number to add */
  /* only with an empty path: `value` is an array of items to append at commit */
  MP_EDIT_APPEND
} mp_edit_kind;

/*
** A path is a sequence of steps from the value of the state key downwards. A step into an object is
** the key as a JSON string literal, a step into an array is the index (from 1) in brackets:
** "prefs""theme", "cart"[2]"name". The empty path is the whole value.
*/
typedef struct mp_edit {
  mp_edit_kind kind;
  mp_key *path;
  mp_value *value; /* NULL for REMOVE */
} mp_edit;

typedef struct mp_patch {
  mp_env *env;
  int references;
  mp_edit *edits; /* in the order in which they are applied */
  size_t count;
  size_t capacity;
} mp_patch;

/* An empty patch; one reference for the caller. NULL when out of memory. */
mp_patch *mp_patch_new(mp_env *env);
mp_patch *mp_patch_retain(mp_patch *patch);
void mp_patch_release(mp_patch *patch); /* accepts NULL */

/*
** The next three append edits. False: out of memory, and some of the edits may have been appended.
*/

/* `path` must be well formed. Takes a reference of its own to `value`. */
bool mp_patch_add(mp_patch *patch, mp_edit_kind kind, moonpad_string path, mp_value *value);
/*
** The changes of a tree since it was last clean. Applied to what it held then, they give what it
** holds now.
*/
bool mp_patch_add_tree(mp_patch *patch, mp_node *root);
/*
** `value` was put under a key that had no value. An array or object is put there path by path, so
** that it merges with what others put there; a scalar is set.
*/
bool mp_patch_add_whole(mp_patch *patch, mp_value *value);

/*
** Does `mine` overlap with any of `theirs`, all made from the same value (contract 1.4 point 3)?
** Two edits overlap if one sets or removes a path and the other is at or below that path, or if one
** adds items at a path (or makes an array there) and the other is at a key below it. An increment
** or append in `mine` never overlaps: it is applied last. Patches that do not overlap can be
** applied in any order. Takes time in proportion to the length of all paths. False: out of memory.
*/
bool mp_patch_overlaps(const mp_patch *mine, mp_patch *const *theirs, size_t count, bool *overlaps);

/*
** Applies the edits to a tree by the writes of core/tree_write.h: its owner is asked, and the tree
** records them as its own changes. SET and REMOVE with an empty path, INCREMENT and APPEND concern
** the state key, not a tree: they fail. Errors: invalid_argument (an edit does not fit the value),
** no_memory, what the owner answers. After a failure some edits may be applied: discard the tree.
*/
moonpad_status mp_patch_apply(const mp_patch *patch, mp_node *root, moonpad_error *error);

#endif
