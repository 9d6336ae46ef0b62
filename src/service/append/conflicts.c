/*
** When a write conflicts (contract 2.2). Which writes are checked is said in prepare.c; whether a
** change was the session object's own, mp_own_writes_conflict tells (session/own_writes.h: its
** journal), in which an append is noted here, too.
*/
#include "service/append/append.h"

/*
** When the key was last changed, by anybody. What others changed since the snapshot is in `others`.
** A key that the object showed and that the store does not have was removed by somebody, whose
** tombstone has been purged. Else it is the newer of what the object knew and its own last append.
*/
int64_t mp_append_last_change(mp_append *append, const mp_operation *operation) {
  const mp_key *key = operation->key;
  mp_entries *found = &append->others.found;
  const mp_entry *other = found->count == 0 ? NULL : mp_entries_find(found, mp_key_text(key), key->hash);
  if (other != NULL) return other->revision;
  bool is_gone = (append->others.complete_scopes & MP_HEAD(operation->scope)) != 0 && !operation->was_absent;
  if (is_gone) return append->facts.forgotten[operation->scope];
  int64_t own = operation->entry->own.to;
  return own > operation->known_change ? own : operation->known_change;
}

/*
** A delta with an expected revision (rewind) is compared with an empty journal: what the object
** itself has stored after that revision counts as somebody else's, too.
*/
bool mp_append_is_overtaken(mp_append *append, const mp_operation *operation) {
  static const mp_own_writes none;
  bool is_unchanged = append->has_looked && mp_row_revision(&append->row, operation->scope) <= operation->base;
  if (!operation->checked || is_unchanged) return false;
  bool is_expected = operation->given != NULL && mp_append_expects_revision(append);
  return mp_own_writes_conflict(is_expected ? &none : &operation->entry->own, mp_append_last_change(append, operation),
                                operation->base, operation->has_read, append->branch);
}

bool mp_append_reserve_notes(mp_append *append) {
  for (size_t i = 0; append->branch != NULL && i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    if (!mp_own_writes_reserve(append->env, &operation->entry->own, append->branch, &operation->note)) return false;
  }
  return true;
}

/*
** The first sending was stored, but its answer was lost. Its session keys are noted as own writes;
** they hide nobody else's, because the first sending had looked. User and app keys are not noted:
** their revision at that time is not known.
*/
static void note_sent_before(mp_append *append, mp_operation *operation) {
  int64_t revision = append->event_revision, own = operation->entry->own.to;
  bool is_known = operation->scope == MP_SCOPE_SESSION && operation->checked && !append->id_given;
  if (!is_known || mp_append_last_change(append, operation) != revision) return;
  int64_t before = own > operation->known_change ? own : operation->known_change;
  if (before < revision) mp_own_writes_note(&operation->entry->own, before, revision, &operation->note);
}

void mp_append_note(mp_append *append) {
  size_t first = mp_append_first_taken_in(append);
  for (size_t i = 0; i < first && i < append->stored_count; i++) note_sent_before(append, &append->operations[i]);
  for (size_t i = first; i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    mp_own_writes_note(&operation->entry->own, mp_append_last_change(append, operation),
                       mp_row_revision(&append->row, operation->scope), &operation->note);
  }
}
