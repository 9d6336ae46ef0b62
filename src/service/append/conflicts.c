/*
** When a write conflicts (contract 2.2). Which writes are checked is said in prepare.c; whether a
** change was the session object's own, mp_own_writes_conflict tells (session/own_writes.h: its
** journal), in which an append is noted here, too.
*/
#include "service/append/append.h"

/* What the store has found of the key; NULL: nothing that is newer than the object. */
static const mp_entry *find_other(mp_append *append, const mp_operation *operation) {
  mp_entries *found = &append->others.found;
  return found->count == 0 ? NULL : mp_entries_find(found, mp_key_text(operation->key), operation->key->hash);
}

static bool is_ahead(const mp_append *append, const mp_operation *operation) {
  return operation->scope != MP_SCOPE_TEMP && (append->others.ahead_scopes & MP_HEAD(operation->scope)) != 0;
}

/* As far as the object knows; its own appends may be ahead of what it shows. */
static int64_t last_known_change(const mp_operation *operation) {
  int64_t own = operation->entry->own.to;
  return own > operation->known_change ? own : operation->known_change;
}

/*
** When the key was last changed, by anybody. What others changed since the snapshot is in `others`.
** A key that the object showed and that the store does not have was removed by somebody, whose
** tombstone has been purged. Else it is the newer of what the object knew and its own last append.
*/
int64_t mp_append_last_change(mp_append *append, const mp_operation *operation) {
  const mp_entry *other = find_other(append, operation);
  if (other != NULL) return other->revision;
  bool is_gone = (append->others.complete_scopes & MP_HEAD(operation->scope)) != 0 && !operation->was_absent;
  if (is_gone || is_ahead(append, operation)) return append->facts.forgotten[operation->scope];
  return last_known_change(operation);
}

/*
** The object's revisions are those of a history that the store does not have. So what counts is
** whether the key is stored as the object showed it; and whether the object knew already that the
** writer had not seen that.
*/
static bool is_overtaken_ahead(mp_append *append, const mp_operation *operation) {
  const mp_entry *other = find_other(append, operation);
  if (!mp_equal_values(operation->previous_value, other == NULL ? NULL : other->value)) return true;
  return mp_own_writes_conflict(&operation->entry->own, last_known_change(operation), operation->base,
                                operation->has_read, append->branch);
}

/*
** A delta with an expected revision (rewind) is compared with an empty journal: what the object
** itself has stored after that revision counts as somebody else's, too.
*/
bool mp_append_is_overtaken(mp_append *append, const mp_operation *operation) {
  static const mp_own_writes none;
  bool is_expected = operation->given != NULL && mp_append_expects_revision(append);
  if (!operation->checked) return false;
  if (!is_expected && is_ahead(append, operation)) return is_overtaken_ahead(append, operation);
  if (append->has_looked && mp_row_revision(&append->row, operation->scope) <= operation->base) return false;
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
