/*
** The journal of own writes: which changes of a key were appends of this session object. It tells a
** conflict from what the object did itself (contract 2.2, 1.4 point 5), for all of its writers:
** change sets, events by hand, appends in flight, branches of parallel agents.
*/
#ifndef MP_SERVICE_SESSION_OWN_WRITES_H
#define MP_SERVICE_SESSION_OWN_WRITES_H

#include "base/map.h"

/* A branch of a parallel agent that has written the key. */
typedef struct mp_branch_write {
  /* Like "team.writer"; counted. */
  mp_key *branch;
  /* The revision of its last own write; 0: none is stored yet. */
  int64_t last;
  struct mp_branch_write *next;
} mp_branch_write;

/*
** Of one key. Whoever stores the object's appends uses it: a worker while asynchronous ones are in
** flight, when the object's own thread does not look at it.
*/
typedef struct mp_own_writes {
  /* Every change of the key after revision `from`, up to `to`, was an own append. */
  int64_t from;
  /* 0: there has been none. */
  int64_t to;
  mp_branch_write *branches;
} mp_own_writes;

/* One write in a journal, and what undoes it. */
typedef struct mp_own_note {
  /* The writer; NULL: no branch. */
  mp_branch_write *by;
  /* The journal as it was before. */
  int64_t from, to, last;
  bool is_noted;
} mp_own_note;

/* Makes room for the note of a branch, which cannot fail any more then. False without memory. */
bool mp_own_writes_reserve(mp_env *env, mp_own_writes *own, mp_key *branch, mp_own_note *note);
/*
** The object itself has changed the key at revision `after`. The change before that, by anybody,
** was at `before`.
*/
void mp_own_writes_note(mp_own_writes *own, int64_t before, int64_t after, mp_own_note *note);
/* That was not stored after all. Of several notes the last one goes first. */
void mp_own_writes_undo(mp_own_writes *own, mp_own_note *note);
/* None of the object's writes is stored any more. Room for branches stays. */
void mp_own_writes_clear(mp_own_writes *own);
void mp_own_writes_free(mp_env *env, mp_own_writes *own);

/*
** The rule of conflicts (append/conflicts.c asks it). The key was last changed at revision
** `changed`; a write of it has the base `base`. Is there a change in between that is not the
** object's own? If the write depends on a read (`has_read`), own writes of branches concurrent
** with `branch` count as well.
*/
bool mp_own_writes_conflict(const mp_own_writes *own, int64_t changed, int64_t base, bool has_read,
                            const mp_key *branch);

#endif
