/*
** The journal of a session object's own writes: was a stored change its own? One answer for all
** writers of the object. How the journal is made up is said in own_writes.h.
*/
#include "service/session/own_writes.h"

static bool same_branch(const mp_key *a, const mp_key *b) {
  return a->hash == b->hash && a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

bool mp_own_writes_reserve(mp_env *env, mp_own_writes *own, mp_key *branch, mp_own_note *note) {
  mp_branch_write *by = own->branches;
  while (by != NULL && !same_branch(by->branch, branch)) by = by->next;
  if (by == NULL) {
    by = mp_allocate(env, sizeof *by);
    if (by == NULL) return false;
    *by = (mp_branch_write){mp_key_retain(branch), 0, own->branches};
    own->branches = by;
  }
  note->by = by;
  return true;
}

void mp_own_writes_note(mp_own_writes *own, int64_t before, int64_t after, mp_own_note *note) {
  note->is_noted = true;
  note->from = own->from;
  note->to = own->to;
  /* With somebody else's change in between, what is older can never count again. */
  if (before != own->to) own->from = before;
  own->to = after;
  if (note->by == NULL) return;
  note->last = note->by->last;
  note->by->last = after;
}

void mp_own_writes_undo(mp_own_writes *own, mp_own_note *note) {
  if (!note->is_noted) return;
  note->is_noted = false;
  own->from = note->from;
  own->to = note->to;
  if (note->by != NULL) note->by->last = note->last;
}

void mp_own_writes_clear(mp_own_writes *own) {
  own->from = own->to = 0;
  for (mp_branch_write *by = own->branches; by != NULL; by = by->next) by->last = 0;
}

void mp_own_writes_free(mp_env *env, mp_own_writes *own) {
  for (mp_branch_write *by; (by = own->branches) != NULL;) {
    own->branches = by->next;
    mp_key_release(env, by->branch);
    mp_release(env, by);
  }
}

/*
** Is `inner` the branch `outer`, or one below it? Names are compared step by step: a.b is not
** above a.bc.
*/
static bool is_within(const mp_key *inner, const mp_key *outer) {
  if (inner->length < outer->length || memcmp(inner->bytes, outer->bytes, outer->length) != 0) return false;
  return inner->length == outer->length || inner->bytes[outer->length] == '.';
}

bool mp_own_writes_conflict(const mp_own_writes *own, int64_t changed, int64_t base, bool has_read,
                            const mp_key *branch) {
  if (changed <= base) return false;
  if (changed != own->to || base < own->from) return true;
  if (!has_read || branch == NULL) return false;
  for (const mp_branch_write *by = own->branches; by != NULL; by = by->next) {
    bool is_concurrent = !is_within(by->branch, branch) && !is_within(branch, by->branch);
    if (is_concurrent && by->last > base) return true;
  }
  return false;
}
