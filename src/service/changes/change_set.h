/*
** The inside of a change set: for its own files (changes*.c, transaction.c, writes.c) and for what
** appends it.
*/
#ifndef MP_SERVICE_CHANGES_CHANGE_SET_H
#define MP_SERVICE_CHANGES_CHANGE_SET_H

#include "core/operations.h"
#include "core/patch.h"
#include "service/changes/changes.h"
#include "service/changes/transaction.h"
#include "service/session/session.h"

/* What a key showed before it changed, for the calls that had begun by then. */
typedef struct mp_version {
  struct mp_version *older;
  int64_t number;  /* of that change, among those of its set */
  mp_value *value; /* counted; NULL: there was none */
  bool was_pending;
  bool was_written; /* pending, and set or removed */
  mp_patch *patch;  /* what a call did to it then, counted; NULL: it was no call */
} mp_version;

/* What a change set knows of one key. */
struct mp_change {
  moonpad_changes *owner;
  mp_view_entry *entry;
  bool pending;
  bool touched; /* read or written since it was last clean: `base` counts */
  bool read;
  /* read in this transaction; of a set without transactions: since it was clean */
  bool read_now;
  bool last_writer_wins; /* outputKey: never conflicts */
  /* MP_SET by nested writes into what was there: overlapping calls may write other places */
  bool by_place;
  /* MP_SET: a table put there because there was none, as overlapping calls may have done */
  bool created;
  int64_t base;
  mp_operation_kind kind; /* while pending */
  /*
  ** MP_SET: the value (behind `root` when that is dirty); MP_INCREMENT: the sum to add; MP_APPEND:
  ** array of items
  */
  mp_value *value;
  /* MP_APPEND: items behind those in `value`, each after a comma; mp_change_fold puts them there */
  mp_buffer further;
  /* what lies below: the view's value, or `held`; NULL: not looked at in this transaction */
  mp_value **under;
  mp_value *held;    /* counted */
  bool over_pending; /* `held` was pending in the set below, */
  /* set or removed there: to read it tells nothing about what others have stored */
  bool over_written;
  mp_version *versions; /* while transactions over its set are open, newest first */
  mp_node *root;        /* the opened value */
  /* what `root` was opened from, counted; for a pending MP_SET it is `value` */
  mp_value *root_source;
  bool extending; /* an append is being shown in the opened array: no write by the user */
  mp_tree_owner tree_owner;
};

struct moonpad_changes {
  mp_env *env;
  moonpad_session *session; /* NULL: detached, or `left` */
  bool session_freed;       /* the session object has been freed */
  mp_key *branch;           /* of a parallel agent, like "team.writer"; NULL: none */
  mp_view *view;            /* the session's, or private_view */
  mp_view private_view;
  mp_map map; /* key -> mp_change */
  size_t pending_count;
  /* that its transactions commit to (transaction.h); NULL: it lies over the view itself */
  moonpad_changes *below;
  /* the last of them, after so many changes of that set, whose later ones it does not see */
  int64_t began;
  bool in_call;                       /* and, from its first transaction on, what was stored then */
  int64_t call_began;                 /* after so many changes of the set below, */
  int64_t began_at[MP_STORED_SCOPES]; /* when these revisions were held */
  bool all_read_now;                  /* the whole state was looked at in this transaction */
  size_t open;                        /* calls over it that are under way, */
  int64_t changed;                    /* how often a key has changed below them, */
  /* and there was no memory for an old version: they cannot commit */
  bool has_lost;
  /* the whole state was looked at when these revisions were held */
  bool all_read;
  int64_t all_base[MP_STORED_SCOPES];
  /* what was held when it was last clean after an append: no base is older */
  int64_t clean_at[MP_STORED_SCOPES];
  const char *ended; /* why it takes no more writes, or NULL */
  /* what the last moonpad_changes_get handed out, where it is kept nowhere else */
  mp_value *lent;
  mp_buffer scratch;     /* of the same: an unescaped string */
  moonpad_changes *next; /* in the session's list */
};

/* ---- among the files of a change set ---- */

/* The revision of a scope that it sees. */
static inline int64_t mp_changes_seen_at(const moonpad_changes *changes, mp_scope scope) {
  return changes->in_call ? changes->began_at[scope] : mp_snapshot_revision(changes->session, scope);
}

/* Was what lies below looked at, and can it not have changed since for this set? */
static inline bool mp_change_knows_below(const mp_change *change) {
  return change->under != NULL && (change->under != &change->held || change->owner->in_call);
}

static inline bool mp_change_is_written(const mp_change *change) {
  return change->pending && (change->kind == MP_SET || change->kind == MP_REMOVE);
}

/* As mp_changes_put, without a check: cannot fail. */
void mp_change_put(mp_change *change, mp_value *value, bool last_writer_wins);
/* A key becomes pending, and is not any more. */
void mp_change_begin_pending(mp_change *change, mp_operation_kind kind);
void mp_change_forget_pending(mp_change *change);
moonpad_status mp_changes_refuse_if_ended(const moonpad_changes *changes, moonpad_error *error);
/* Its session object has been freed: every call is `closed`. */
moonpad_status mp_changes_refuse_if_session_freed(const moonpad_changes *changes, moonpad_error *error);
/* Appends through the tree, so that nodes keep their identity and the extension is known as one. */
moonpad_status mp_change_extend_node(mp_node *node, moonpad_string key, const mp_value *items, moonpad_error *error);
/*
** A pending append shows in the opened array as an extension, without making the key a plain
** write: it is still the items that are appended at commit. On failure the root is dropped.
*/
moonpad_status mp_change_extend_root(mp_change *change, const mp_value *items, mp_value *shown, moonpad_error *error);

/* ---- one key ---- */

/* mp_change_of, with what lies below looked at. */
moonpad_status mp_change_look(moonpad_changes *changes, moonpad_string key, mp_change **change, moonpad_error *error);
moonpad_status mp_change_look_below(mp_change *change, moonpad_error *error);
/* What was noted of what lies below counts no longer. */
void mp_change_forget_below(mp_change *change);
/* The same of every key. */
void mp_changes_forget_below(moonpad_changes *changes);
void mp_change_drop_versions(mp_change *change);
/*
** Of a set below transactions: what the key showed when the one of `changes` began; NULL: what it
** shows now.
*/
const mp_version *mp_change_version(const mp_change *change, const moonpad_changes *changes);
/* Its call, if one is under way, is over. */
void mp_call_end(moonpad_changes *changes);
/*
** The view is about to show another value there: transactions under way keep the one that they
** began with.
*/
void mp_changes_keep_version(void *session, const mp_view_entry *entry);
/* Notes the base on first contact. */
void mp_change_touch(mp_change *change, bool reading);
/*
** What the change set shows for a key now: *value is borrowed (a local result of an increment or
** append: one counted reference in *owned).
*/
moonpad_status mp_change_shown(mp_change *change, const mp_value **value, mp_value **owned, moonpad_error *error);
/* Clean again: nothing pending, marks forgotten. The root stays. */
void mp_change_clear(mp_change *change);
void mp_change_drop_root(mp_change *change);
/* The opened composite, or NULL in *root when the key shows none. */
moonpad_status mp_change_root(mp_change *change, mp_node **root, moonpad_error *error);
/* Brings `value` up to what the dirty root holds, or to all the items that are to be appended. */
moonpad_status mp_change_fold(mp_change *change, moonpad_error *error);
/* The whole state has been looked at. */
void mp_changes_mark_all_read(moonpad_changes *changes);
/* What its pending write did to the key; NULL: out of memory. */
mp_patch *mp_change_patch(mp_change *change);
/* Drops all that is pending; marks stay when `keep_marks`. */
void mp_changes_reset(moonpad_changes *changes, bool keep_marks);

/* Adds an increment (a number) or an append (an array of items); `operand` stays the caller's. */
moonpad_status mp_changes_add(moonpad_changes *changes, moonpad_string key, mp_operation_kind kind, mp_value *operand,
                              moonpad_error *error);

#endif
