/*
** What was done to the value of one state key, as a list of edits: it can be compared with what
** others did to the same value meanwhile, and done over again upon it (contract 1.4 point 3).
** One thread at a time.
*/
#ifndef MP_CORE_PATCH_H
#define MP_CORE_PATCH_H

#include "core/tree.h"

typedef enum mp_edit_kind {
  MP_EDIT_SET,    /* the place holds `value` */
  MP_EDIT_REMOVE, /* it holds nothing; there is no value */
  MP_EDIT_EXTEND, /* the items of `value`, a JSON array, stand at the end of the array there */
  /* `value`, [] or {}, was put where there was none: a table that others put there is as good */
  MP_EDIT_MAKE_EMPTY,
  MP_EDIT_INCREMENT, /* of the whole key only: `value` is a number to add */
  /* of the whole key only: `value` is a JSON array of items to append at commit */
  MP_EDIT_APPEND
} mp_edit_kind;

/*
** A path is one step after the other, each as JSON writes it: of a member its string literal, of
** an item its index (from 1) in brackets. So there are "prefs""theme" and "cart"[2]"name", and ""
** is the key itself. A path with which another one begins, up to the end of a step, is a place
** above it.
*/
typedef struct mp_edit {
  mp_edit_kind kind;
  mp_key *path;
  mp_value *value; /* NULL of REMOVE */
} mp_edit;

typedef struct mp_patch {
  mp_env *env;
  int references;
  mp_edit *edits; /* in the order in which they are to be done */
  size_t count;
  size_t capacity;
} mp_patch;

/* Without edits; one reference for the caller. NULL when out of memory. */
mp_patch *mp_patch_new(mp_env *env);
mp_patch *mp_patch_retain(mp_patch *patch);
void mp_patch_release(mp_patch *patch); /* accepts NULL */

/*
** These add behind the edits that are there. False: out of memory, and the patch may have a part of
** what was to be added.
*/

/* `path` is well formed. Takes a reference of its own to `value`. */
bool mp_patch_add(mp_patch *patch, mp_edit_kind kind, moonpad_string path, mp_value *value);
/*
** What was done in the tree since it was clean: done upon what was there then, it gives the tree.
*/
bool mp_patch_add_tree(mp_patch *patch, mp_node *root);
/*
** `value` was put under a key that had none. A table is put there place by place, so that it stands
** side by side with what others put there; a scalar is set.
*/
bool mp_patch_add_whole(mp_patch *patch, mp_value *value);

/*
** Do `mine` and any of `theirs`, made upon the same value, want the same place (contract 1.4 point
** 3)? They do where one sets or removes a place and the other has an edit there or below, and
** where one adds items to a table and the other has members in it. An increment or append of mine
** never does: it goes on top. What does not overlap fits upon what they left, in any order. Takes
** time in proportion to the length of all paths. False: out of memory.
*/
bool mp_patch_overlaps(const mp_patch *mine, mp_patch *const *theirs, size_t count, bool *overlaps);

/*
** Does the edits over again in a tree by the writes of core/tree.h: its owner is asked, and it
** knows of them as of any write. Errors: invalid_argument (an edit does not fit what is there),
** no_memory, what the owner says; the tree may have a part of the edits then: discard it. SET and
** REMOVE of the whole key, INCREMENT and APPEND are for whoever holds the key, not for a tree:
** invalid_argument.
*/
moonpad_status mp_patch_apply(const mp_patch *patch, mp_node *root, moonpad_error *error);

#endif
