/* Branches: the agents of a parallel one write through one session object, yet are writers of their own to each other (contract 1.4 point 5). */
#include "base/error.h"
#include "service/pending.h"

moonpad_status mp_changes_set_branch(moonpad_changes *changes, moonpad_string branch, moonpad_error *error) {
  mp_key *name = NULL;
  if (branch.length != 0) {
    name = mp_key_new(changes->env, branch);
    if (name == NULL) return mp_no_memory(error);
  }
  mp_key_release(changes->env, changes->branch);
  changes->branch = name;
  return MOONPAD_OK;
}

/* Is `inner` the branch `outer`, or one below it? Names are compared step by step: a.b is not above a.bc. */
static bool is_within(const mp_key *inner, const mp_key *outer) {
  if (inner->length < outer->length || memcmp(inner->bytes, outer->bytes, outer->length) != 0) return false;
  return inner->length == outer->length || inner->bytes[outer->length] == '.';
}

bool mp_changes_run_beside(const moonpad_changes *a, const moonpad_changes *b) {
  if (a == NULL || b == NULL || a->branch == NULL || b->branch == NULL) return false;
  return !is_within(a->branch, b->branch) && !is_within(b->branch, a->branch);
}

void mp_change_follow(mp_change *change, int64_t before, int64_t after, bool beside) {
  mp_change_renew_base(change);
  bool overtaken = change->reach > change->base;
  int64_t known = overtaken ? change->reach : change->base;
  if (before > known) return; /* somebody else's change came in between */
  if (overtaken || beside) {
    change->reach = after;
  } else {
    change->base = after;
  }
}

int64_t mp_change_measure(const mp_change *change) {
  bool blind = !change->read && change->reach > change->base;
  return blind ? change->reach : change->base;
}
