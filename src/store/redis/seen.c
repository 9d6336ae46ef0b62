/*
** What a transaction has seen: heads, and lists, with a signature each. The commit compares them,
** so does every later question of a transaction that reads.
*/
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/redis/redis.h"

/* "n b ": the creation of a session, and which events it has. */
static moonpad_string first_words(moonpad_string signature, int words) {
  size_t length = 0;
  for (; length < signature.length && words > 0; length++) words -= signature.data[length] == ' ';
  return (moonpad_string){signature.data, length};
}

/*
** What of a signature must be as it was, for a commit and for a later look. In `write` that is all
** of a session, and of a head that is changed; of a user or an app that was only read, that it is
** the same one: else nobody could make a session, or fork a long one, while an app's counter is
** busy. The events of a session that the transaction does not change are the same as long as it has
** not been trimmed: later ones are left out.
*/
static moonpad_string expected(const mp_redis_tx *tx, const mp_redis_seen *seen, mp_redis_reads reads) {
  moonpad_string signature = mp_redis_argument(&tx->part->known, seen->signature);
  bool is_session = seen->kind == 's', reads_events = reads == MP_REDIS_READS_EVENTS && !seen->is_written;
  if (seen->kind == 'l' || seen->kind == 'k') return signature;
  if (reads_events || seen->may_grow) return first_words(signature, is_session ? 2 : 1);
  bool is_whole = is_session || seen->is_written || !tx->is_write;
  return is_whole ? signature : first_words(signature, 1);
}

/*
** In `write` the commit looks at all. Before it, only what the transaction's own writes are laid
** over must not have changed; a question finds out about the heads that it reads itself.
*/
static bool is_sent(const mp_redis_tx *tx, const mp_redis_seen *seen, bool commits) {
  return commits || !tx->is_write || seen->is_written;
}

void mp_redis_add_seen(const mp_redis_tx *tx, mp_redis_arguments *arguments, mp_redis_reads reads, bool commits) {
  int64_t count = 0;
  for (size_t i = 0; i < tx->part->seen_count; i++) count += is_sent(tx, &tx->part->seen[i], commits);
  mp_redis_add_integer(arguments, count);
  for (size_t i = 0; i < tx->part->seen_count; i++) {
    const mp_redis_seen *seen = &tx->part->seen[i];
    if (!is_sent(tx, seen, commits)) continue;
    mp_redis_add(arguments, (moonpad_string){&seen->kind, 1});
    mp_redis_add(arguments, mp_redis_argument(&tx->part->known, seen->key));
    mp_redis_add(arguments, expected(tx, seen, reads));
  }
}

static mp_redis_seen *find_seen(mp_redis_tx *tx, moonpad_string key) {
  for (size_t i = 0; i < tx->part->seen_count; i++) {
    if (mp_redis_is_same(mp_redis_argument(&tx->part->known, tx->part->seen[i].key), key)) return &tx->part->seen[i];
  }
  return NULL;
}

static bool is_weak(char kind) {
  return kind == 'U' || kind == 'A';
}

/*
** False: it is not as it was when this transaction saw it before. Of what was only known to be
** there so far, this is what counts from now on.
*/
static bool note_again(mp_redis_tx *tx, mp_redis_seen *seen, char kind, moonpad_string signature,
                       mp_redis_reads reads) {
  moonpad_string before = expected(tx, seen, reads);
  bool was_weak = is_weak(seen->kind), only_identity = was_weak || is_weak(kind);
  if (only_identity) before = first_words(before, 1);
  bool is_as_before = signature.length >= before.length && memcmp(signature.data, before.data, before.length) == 0;
  if (was_weak && !is_weak(kind) && !seen->is_written) {
    seen->kind = kind;
    seen->signature = tx->part->known.count;
    mp_redis_add(&tx->part->known, signature);
  }
  return is_as_before;
}

static moonpad_status note_new(mp_redis_tx *tx, char kind, moonpad_string key, moonpad_string signature,
                               moonpad_error *error) {
  mp_redis_part *part = tx->part;
  void *seen = part->seen;
  bool has_room = mp_reserve(tx->env, &seen, &part->seen_capacity, sizeof *part->seen, part->seen_count + 1);
  part->seen = seen;
  size_t at = part->known.count;
  mp_redis_add(&part->known, key);
  mp_redis_add(&part->known, signature);
  if (!has_room || part->known.failed) return mp_redis_no_memory(tx, error);
  part->seen[part->seen_count++] = (mp_redis_seen){.kind = kind, .key = at, .signature = at + 1};
  return MOONPAD_OK;
}

moonpad_status mp_redis_note_seen(mp_redis_tx *tx, const redisReply *list, mp_redis_reads reads, moonpad_error *error) {
  for (size_t i = 0; i + 2 < mp_redis_count(list); i += 3) {
    moonpad_string kind = mp_redis_string(mp_redis_item(list, i));
    moonpad_string key = mp_redis_string(mp_redis_item(list, i + 1));
    moonpad_string signature = mp_redis_string(mp_redis_item(list, i + 2));
    mp_redis_seen *known = find_seen(tx, key);
    moonpad_status status = MOONPAD_OK;
    if (known == NULL) {
      status = note_new(tx, kind.data[0], key, signature, error);
    } else if (!note_again(tx, known, kind.data[0], signature, reads)) {
      status = mp_redis_moved(tx->connection, error);
    }
    if (status == MOONPAD_OK && tx->part->known.failed) status = mp_redis_no_memory(tx, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

/* Of "n b r ...", where n is the session: the revision; -1: it is not this session. */
static int64_t revision_in(const mp_redis_part *part, const mp_redis_seen *seen, const mp_session_ref *session) {
  long long id, base, revision;
  moonpad_string signature = mp_redis_argument(&part->known, seen->signature);
  char text[80];
  snprintf(text, sizeof text, "%.*s", (int)(signature.length < 79 ? signature.length : 79), signature.data);
  bool is_session = seen->kind == 's' && sscanf(text, "%lld %lld %lld", &id, &base, &revision) == 3;
  return is_session && id == session->session ? revision : -1;
}

int64_t mp_redis_last_seen(const mp_redis_tx *tx, const mp_session_ref *session) {
  int64_t revision = -1;
  for (size_t i = 0; revision < 0 && i < tx->part->seen_count; i++) {
    const mp_redis_seen *seen = &tx->part->seen[i];
    if (!seen->is_written) revision = revision_in(tx->part, seen, session);
  }
  return revision;
}

void mp_redis_note_copied(mp_redis_tx *tx, const mp_session_ref *session) {
  for (size_t i = 0; i < tx->part->seen_count; i++) {
    mp_redis_seen *seen = &tx->part->seen[i];
    if (revision_in(tx->part, seen, session) >= 0) seen->may_grow = true;
  }
}

static bool is_changed(const mp_redis_part *part, const mp_redis_seen *seen, const mp_session_ref *ref,
                       unsigned heads) {
  if (seen->kind == 'u' || seen->kind == 'U') return (heads & MP_HEAD(MP_SCOPE_USER)) != 0;
  if (seen->kind == 'a' || seen->kind == 'A') return (heads & MP_HEAD(MP_SCOPE_APP)) != 0;
  return (heads & MP_HEAD(MP_SCOPE_SESSION)) != 0 && revision_in(part, seen, ref) >= 0;
}

void mp_redis_note_written(mp_redis_tx *tx, const mp_session_ref *ref, unsigned heads) {
  for (size_t i = 0; i < tx->part->seen_count; i++) {
    mp_redis_seen *seen = &tx->part->seen[i];
    if (is_changed(tx->part, seen, ref, heads)) seen->is_written = true;
  }
}
