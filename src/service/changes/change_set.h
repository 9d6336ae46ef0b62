/*
** The inside of a change set, for the files of this folder. Others include changes.h; scalar.h,
** whose calls are inline in src/lua, is the exception.
*/
#ifndef MP_SERVICE_CHANGES_CHANGE_SET_H
#define MP_SERVICE_CHANGES_CHANGE_SET_H

#include "core/operations.h"
#include "core/patch.h"
#include "service/changes/changes.h"

/* What a key showed before it changed, for the calls that had begun by then. */
typedef struct mp_version {
  struct mp_version *older;
  /* moonpad_changes.changed when this version was replaced. */
  int64_t number;
  /* Counted; NULL: there was none. */
  mp_value *value;
  bool was_pending;
  /* It was pending, and set or removed. */
  bool was_written;
  /* What a call did to it then, counted; NULL: it was changed by no call. */
  mp_patch *patch;
} mp_version;

/* What a change set knows of one key. */
struct mp_change {
  moonpad_changes *owner;
  mp_view_entry *entry;

  /* ---- the pending write ---- */

  bool pending;
  /* While pending. */
  mp_operation_kind kind;
  /*
  ** MP_SET: the value, which is out of date while `root` is dirty. MP_INCREMENT: the sum to add.
  ** MP_APPEND: the array of items.
  */
  mp_value *value;
  /* MP_APPEND: more items, each after a comma. mp_change_fold puts them into `value`. */
  mp_buffer further;
  /* It never conflicts (outputKey). */
  bool last_writer_wins;
  /* MP_SET by writes into the table that was there: concurrent calls may write other paths. */
  bool by_path;
  /* MP_SET of a table where there was none: concurrent calls may have done the same. */
  bool created;

  /* ---- the read set (contract 2.2) ---- */

  /* Read or written since it was last clean: `base` counts. */
  bool touched;
  /*
  ** The key's base (contract 2.2): the revision of the key's scope that the session object held
  ** when this set first read or wrote the key since it was last clean. If somebody else has changed
  ** the key after its base, a write of it conflicts.
  */
  int64_t base;
  /* Read since it was last clean. */
  bool read;
  /* Read in this transaction; of a set without transactions: since it was clean. */
  bool read_now;

  /* ---- what lies below ---- */

  /*
  ** Points to the value that this set lies over: the entry's or, of a tool call's set, below_value.
  ** NULL: not looked at in this transaction.
  */
  mp_value **under;
  /* Of a tool call's set: what the set below showed; counted. */
  mp_value *below_value;
  /* That was pending there. */
  bool over_pending;
  /* And set or removed there: reading it tells nothing about what others have stored. */
  bool over_written;
  /* While calls over its set are open: what it showed earlier, newest first. */
  mp_version *versions;

  /* ---- the opened value ---- */

  mp_node *root;
  /* What `root` was opened from, counted. Of a pending MP_SET it is `value`. */
  mp_value *root_source;
  /* An append is being shown in the opened array: this is no write by the user. */
  bool extending;
  mp_tree_owner tree_owner;
};

struct moonpad_changes {
  mp_env *env;
  /* NULL: detached, or the session object has been freed. */
  moonpad_session *session;
  bool session_freed;
  /* The next change set of the session object. */
  moonpad_changes *next;
  /* Of a parallel agent, like "team.writer"; NULL: none. */
  mp_key *branch;
  /* The session's, or private_view. */
  mp_view *view;
  mp_view private_view;
  /* key -> mp_change */
  mp_map map;
  size_t pending_count;
  /* Why it takes no more writes; NULL: it takes writes. */
  const char *ended;

  /* ---- the read set of the whole state ---- */

  /* All keys were looked at, when these revisions were held. */
  bool all_read;
  int64_t all_base[MP_STORED_SCOPES];
  /* The same in this transaction. */
  bool all_read_now;
  /* The snapshot when it was last clean after an append. An older base counts as this one. */
  int64_t clean_at[MP_STORED_SCOPES];

  /* ---- of a tool call's set: see transaction.h ---- */

  /* The set that its transactions commit to; NULL: it lies over the view itself. */
  moonpad_changes *below;
  /* Its call has begun a transaction: what the session object takes in since is hidden from it. */
  bool in_call;
  /* When its call began: `changed` of the set below, and the revisions of its snapshot. */
  int64_t call_began;
  int64_t began_at[MP_STORED_SCOPES];
  /* When its last transaction began: `changed` of the set below. */
  int64_t began;

  /* ---- of a set below tool calls ---- */

  /* Calls over it that are under way. */
  size_t open;
  /* How often a key has changed below them. */
  int64_t changed;
  /* There was no memory for an old version: these calls cannot commit. */
  bool has_lost;

  /* ---- what moonpad_changes_get handed out last ---- */

  /* The value, where it is kept nowhere else; counted. */
  mp_value *handed_out;
  /* An unescaped string. */
  mp_buffer scratch;
};

/* The revision of a scope that it sees. */
static inline int64_t mp_changes_seen_at(const moonpad_changes *changes, mp_scope scope) {
  return changes->in_call ? changes->began_at[scope] : mp_snapshot_revision(changes->session, scope);
}

/* Whose revisions its base is one of: temporary keys go with those of the session. */
static inline mp_scope mp_change_base_scope(const mp_change *change) {
  mp_scope scope = change->entry->scope;
  return scope == MP_SCOPE_TEMP ? MP_SCOPE_SESSION : scope;
}

/* Was what lies below looked at, and can it not have changed since for this set? */
static inline bool mp_change_knows_below(const mp_change *change) {
  return change->under != NULL && (change->under != &change->below_value || change->owner->in_call);
}

static inline bool mp_change_is_written(const mp_change *change) {
  return change->pending && !mp_is_computed(change->kind);
}

/* ---- key.c: one key ---- */

/*
** What the change set shows for a key now. *value is borrowed. The result of a pending increment or
** append is made for it: one counted reference in *owned, else NULL.
*/
moonpad_status mp_change_shown(mp_change *change, const mp_value **value, mp_value **owned, moonpad_error *error);
/* Brings `value` up to date with a dirty root, or with all items that are to be appended. */
moonpad_status mp_change_fold(mp_change *change, moonpad_error *error);

/* mp_change_of, with what lies below looked at. */
moonpad_status mp_change_look(moonpad_changes *changes, moonpad_string key, mp_change **change, moonpad_error *error);
moonpad_status mp_change_look_below(mp_change *change, moonpad_error *error);
/* What was seen below counts no longer; of one key, of all. */
void mp_change_forget_below(mp_change *change);
void mp_changes_forget_below(moonpad_changes *changes);
/*
** Of a set below tool calls: what the key showed when the transaction of `changes` began; NULL:
** what it shows now.
*/
const mp_version *mp_change_version(const mp_change *change, const moonpad_changes *changes);

/* Notes that the key is read or written; the first time, notes its base as well. */
void mp_change_touch(mp_change *change, bool reading);
void mp_change_begin_pending(mp_change *change, mp_operation_kind kind);
void mp_change_forget_pending(mp_change *change);
/* Nothing is pending, and the read set has no part of it. The root stays. */
void mp_change_clear(mp_change *change);
void mp_change_drop_root(mp_change *change);

/* ---- versions.c: what keys showed before, for calls under way ---- */

/* What the key shows now, of a set below calls. `patch` as in mp_version. */
moonpad_status mp_version_new(mp_change *change, mp_patch *patch, mp_version **made, moonpad_error *error);
void mp_version_free(mp_env *env, mp_version *version);
/* Takes it over: the key is about to change. */
void mp_change_add_version(mp_change *change, mp_version *version);
void mp_change_drop_versions(mp_change *change);
/* mp_view.will_change: calls under way keep what the view showed. The context is the session. */
void mp_changes_keep_version(void *session, const mp_view_entry *entry);
/* From now on what is newly stored is hidden from the call (contract 1.4 point 5). */
void mp_call_begin(moonpad_changes *changes);
/* A transaction begins: commits of other calls until now become visible. */
void mp_call_look_anew(moonpad_changes *changes);
/* Nothing where it has not begun. */
void mp_call_end(moonpad_changes *changes);

/* ---- life.c ---- */

/* Drops all that is pending; the read set stays when `keep_marks`. */
void mp_changes_reset(moonpad_changes *changes, bool keep_marks);
/* Errors: invalid_argument; closed. */
moonpad_status mp_changes_refuse_if_ended(const moonpad_changes *changes, moonpad_error *error);
moonpad_status mp_changes_refuse_if_session_freed(const moonpad_changes *changes, moonpad_error *error);

/* ---- value.c: the opened value ---- */

/* The opened composite, or NULL in *root when the key shows none. */
moonpad_status mp_change_root(mp_change *change, mp_node **root, moonpad_error *error);
/* Appends to an opened array, so that nodes keep their identity. */
moonpad_status mp_change_extend_node(mp_node *node, moonpad_string key, const mp_value *items, moonpad_error *error);
/*
** Shows a pending append in the opened array, without making the key a plain write: at commit the
** items are appended. On failure the root is dropped.
*/
moonpad_status mp_change_extend_root(mp_change *change, const mp_value *items, mp_value *shown, moonpad_error *error);

/* ---- write.c ---- */

/* As mp_changes_put, without a check: cannot fail. */
void mp_change_put(mp_change *change, mp_value *value, bool last_writer_wins);
/* Adds an increment (a number) or an append (an array of items); `operand` stays the caller's. */
moonpad_status mp_changes_add(moonpad_changes *changes, moonpad_string key, mp_operation_kind kind, mp_value *operand,
                              moonpad_error *error);

/* ---- list.c, agent_tool_writes.c ---- */

/* The whole state has been looked at. */
void mp_changes_mark_all_read(moonpad_changes *changes);
/* What its pending write did to the key; NULL: out of memory. */
mp_patch *mp_change_patch(mp_change *change);

#endif
