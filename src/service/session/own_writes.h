/*
** Which changes of a key were this session object's own appends: the journal that tells a
** conflict from the object's own doing (contract 2.2, 1.4 point 5), whoever of its writers asks: a
** change set, an event by hand, an append that waits behind others, a branch of a parallel agent.
*/
#ifndef MP_SERVICE_SESSION_OWN_WRITES_H
#define MP_SERVICE_SESSION_OWN_WRITES_H

#include "base/map.h"

/* A branch of a parallel agent that has written the key. */
typedef struct mp_branch_write {
  mp_key *branch; /* like "team.writer" */
  int64_t last;   /* revision of its last own write; 0: none is stored yet */
  struct mp_branch_write *next;
} mp_branch_write;

/*
** Of one key. It belongs to whoever stores the object's appends: to a worker as long as
** asynchronous ones are under way, and the object's own thread does not look at it then.
*/
typedef struct mp_own_writes {
  int64_t from; /* every change of the key after this revision, */
  int64_t to;   /* up to this one, was an own append; 0: there has been none */
  mp_branch_write *branches;
} mp_own_writes;

/* One write in a journal, and what undoes it. */
typedef struct mp_own_note {
  mp_branch_write *by;    /* NULL: no branch's */
  int64_t from, to, last; /* as they were before */
  bool is_noted;
} mp_own_note;

/*
** Before the note of a branch, which cannot fail any more: makes room for it. False without memory.
*/
bool mp_own_writes_reserve(mp_env *env, mp_own_writes *own, mp_key *branch, mp_own_note *note);
/*
** The object itself has changed the key at revision `after`; the change before it, whoever's, was
** at `before`.
*/
void mp_own_writes_note(mp_own_writes *own, int64_t before, int64_t after, mp_own_note *note);
/* That has not been stored after all. Of several notes the last one goes first. */
void mp_own_writes_undo(mp_own_writes *own, mp_own_note *note);
void mp_own_writes_free(mp_env *env, mp_own_writes *own);

/*
** The rule. Does a change of the key, which was last changed at `changed`, stand against a write
** that was decided in sight of revision `base`? Somebody else's does, also below an own one. What a
** branch beside the writer's has stored does where the write depends on a read.
*/
bool mp_own_writes_conflict(const mp_own_writes *own, int64_t changed, int64_t base, bool has_read,
                            const mp_key *branch);

#endif
