/*
** Writing to the nodes of core/tree.h, and whether a tree was written since it was last clean. What
** was written, core/patch.h makes a list of.
*/
#ifndef MP_CORE_TREE_WRITE_H
#define MP_CORE_TREE_WRITE_H

#include "core/tree.h"

/*
** Both take a reference of their own to `value`; NULL removes, and removing what is absent does
** nothing. An empty object whose first write is at index 1 becomes an array. Errors:
** invalid_argument (a stale node, an index into an object, a key into an array, an index beyond the
** next free one, too deep: the message names the path), no_memory, what the owner answers.
*/
moonpad_status mp_node_set_member(mp_node *node, moonpad_string key, mp_value *value, moonpad_error *error);
moonpad_status mp_node_set_index(mp_node *node, int64_t index, mp_value *value, moonpad_error *error);
/*
** Appends the items of a JSON array to an array, or to an empty object, which becomes one. After a
** failure some of the items may have been appended. Errors: as above.
*/
moonpad_status mp_node_extend(mp_node *node, const mp_value *items, moonpad_error *error);

bool mp_tree_is_dirty(const mp_node *root);
/* Later changes are measured against what the tree holds now. */
void mp_tree_mark_clean(mp_node *root);

#endif
