/*
** One transaction: its questions, what it writes, its commit; and what became of a commit whose
** answer was lost.
*/
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/condition.h"
#include "base/error.h"
#include "store/redis/redis.h"

static const mp_tx_ops tx_ops = {
    .size = sizeof tx_ops,
    .look = mp_redis_look,
    .each_listed = mp_redis_each_listed,
    .each_event = mp_redis_each_event,
    .find_invocation = mp_redis_find_invocation,
    .each_base_key = mp_redis_each_base_key,
    .create_session = mp_redis_create_session,
    .remove_session = mp_redis_remove_session,
    .remove_user = mp_redis_remove_user,
    .apply = mp_redis_apply,
    .copy_history = mp_redis_copy_history,
    .trim = mp_redis_trim,
    .purge = mp_redis_purge,
    .touch = mp_redis_touch,
    .sweep = mp_redis_sweep,
    .claim_token = mp_redis_claim_token,
    .each_app = mp_redis_each_app,
    .each_user = mp_redis_each_user,
};

/* ---- what the script is told first ---- */

static void add_prefix(const mp_redis_tx *tx, mp_redis_arguments *arguments, const char *mode) {
  mp_redis_add_text(arguments, tx->connection->store->prefix);
  mp_redis_add_text(arguments, mode);
}

/* "n b ": the creation of a session, and which events it has. */
static moonpad_string first_words(moonpad_string signature, int words) {
  size_t length = 0;
  for (; length < signature.length && words > 0; length++) words -= signature.data[length] == ' ';
  return (moonpad_string){signature.data, length};
}

/*
** What of a signature must be as it was. A commit insists on all of a head that it changes, and of
** a session; of a user or an app that it has only read, that it is the same one: else nobody could
** make a session while an app's counter is busy. In `read`, events of a session are the same as
** long as it has not been trimmed.
*/
static moonpad_string expected(const mp_redis_tx *tx, const mp_redis_seen *seen, mp_redis_reads reads) {
  moonpad_string signature = mp_redis_argument(&tx->known, seen->signature);
  if (seen->kind == 'l' || seen->kind == 'k') return signature;
  if (!tx->is_write && reads == MP_REDIS_READS_EVENTS) return first_words(signature, seen->kind == 's' ? 2 : 1);
  bool is_whole = seen->kind == 's' || seen->is_written || !tx->is_write;
  return is_whole ? signature : first_words(signature, 1);
}

/*
** In `write` the commit looks at all. Before it, only what the transaction's own writes are laid
** over must not have changed; a question finds out about the heads that it reads itself.
*/
static bool is_sent(const mp_redis_tx *tx, const mp_redis_seen *seen, bool commits) {
  return commits || !tx->is_write || seen->kind == 's' || seen->is_written;
}

static void add_seen(const mp_redis_tx *tx, mp_redis_arguments *arguments, mp_redis_reads reads, bool commits) {
  int64_t count = 0;
  for (size_t i = 0; i < tx->seen_count; i++) count += is_sent(tx, &tx->seen[i], commits);
  mp_redis_add_integer(arguments, count);
  for (size_t i = 0; i < tx->seen_count; i++) {
    const mp_redis_seen *seen = &tx->seen[i];
    if (!is_sent(tx, seen, commits)) continue;
    mp_redis_add(arguments, (moonpad_string){&seen->kind, 1});
    mp_redis_add(arguments, mp_redis_argument(&tx->known, seen->key));
    mp_redis_add(arguments, expected(tx, seen, reads));
  }
}

/* ---- what was seen ---- */

static bool is_same(moonpad_string a, moonpad_string b) {
  return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

static mp_redis_seen *find_seen(mp_redis_tx *tx, moonpad_string key) {
  for (size_t i = 0; i < tx->seen_count; i++) {
    if (is_same(mp_redis_argument(&tx->known, tx->seen[i].key), key)) return &tx->seen[i];
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
  moonpad_string before = mp_redis_argument(&tx->known, seen->signature);
  bool was_weak = is_weak(seen->kind), only_identity = was_weak || is_weak(kind);
  if (!tx->is_write) before = expected(tx, seen, reads);
  if (only_identity) before = first_words(before, 1);
  bool is_as_before = signature.length >= before.length && memcmp(signature.data, before.data, before.length) == 0;
  if (was_weak && !is_weak(kind) && !seen->is_written) {
    seen->kind = kind;
    seen->signature = tx->known.count;
    mp_redis_add(&tx->known, signature);
  }
  return is_as_before;
}

static moonpad_status no_memory(mp_redis_tx *tx, moonpad_error *error) {
  moonpad_error reason;
  moonpad_status status = mp_no_memory(&reason);
  if (error != NULL) *error = reason;
  return mp_redis_note(tx->connection, status, &reason);
}

static moonpad_status note_new(mp_redis_tx *tx, char kind, moonpad_string key, moonpad_string signature,
                               moonpad_error *error) {
  void *seen = tx->seen;
  bool has_room = mp_reserve(tx->env, &seen, &tx->seen_capacity, sizeof *tx->seen, tx->seen_count + 1);
  tx->seen = seen;
  size_t at = tx->known.count;
  mp_redis_add(&tx->known, key);
  mp_redis_add(&tx->known, signature);
  if (!has_room || tx->known.failed) return no_memory(tx, error);
  tx->seen[tx->seen_count++] = (mp_redis_seen){.kind = kind, .key = at, .signature = at + 1};
  return MOONPAD_OK;
}

static moonpad_status note_seen(mp_redis_tx *tx, const redisReply *list, mp_redis_reads reads, moonpad_error *error) {
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
    if (status == MOONPAD_OK && tx->known.failed) status = no_memory(tx, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

/* Of "n b r ...", where n is the session: the revision. */
int64_t mp_redis_last_seen(const mp_redis_tx *tx, const mp_session_ref *session) {
  for (size_t i = 0; !tx->is_write && i < tx->seen_count; i++) {
    long long id, base, revision;
    moonpad_string signature = mp_redis_argument(&tx->known, tx->seen[i].signature);
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)(signature.length < 63 ? signature.length : 63), signature.data);
    bool is_session = tx->seen[i].kind == 's' && sscanf(text, "%lld %lld %lld", &id, &base, &revision) == 3;
    if (is_session && id == session->session) return revision;
  }
  return -1;
}

void mp_redis_note_written(mp_redis_tx *tx, unsigned heads) {
  for (size_t i = 0; i < tx->seen_count; i++) {
    char kind = tx->seen[i].kind;
    bool is_user = kind == 'u' || kind == 'U', is_app = kind == 'a' || kind == 'A';
    if (is_user && (heads & MP_HEAD(MP_SCOPE_USER)) != 0) tx->seen[i].is_written = true;
    if (is_app && (heads & MP_HEAD(MP_SCOPE_APP)) != 0) tx->seen[i].is_written = true;
  }
}

/* ---- questions ---- */

mp_redis_arguments *mp_redis_begin_question(mp_redis_tx *tx, const char *name) {
  mp_redis_arguments_clear(&tx->question);
  mp_redis_add_text(&tx->question, name);
  return &tx->question;
}

/* A word of the script that is no answer to a question. */
moonpad_status mp_redis_check_word(mp_redis_tx *tx, const redisReply *reply, moonpad_error *error) {
  const redisReply *word = mp_redis_item(reply, 0);
  moonpad_error reason;
  if (mp_redis_says(word, "moved")) return mp_redis_moved(tx->connection, error);
  if (mp_redis_says(word, "known")) {
    moonpad_status status =
        mp_fail(&reason, MOONPAD_ALREADY_EXISTS, "an event with this id or revision is already in this session");
    mp_redis_note(tx->connection, status, &reason);
    if (error != NULL) *error = reason;
    return status;
  }
  if (mp_redis_says(word, "damaged")) {
    moonpad_status status = mp_redis_corrupt(tx->connection, "a key holds what moonpad has not put there", &reason);
    mp_redis_note(tx->connection, status, &reason);
    if (error != NULL) *error = reason;
    return status;
  }
  if (mp_redis_says(word, "late")) {
    moonpad_status status = mp_fail(&reason, MOONPAD_STORAGE, "%s: an earlier attempt was still under way",
                                    tx->connection->store->remote.place);
    mp_remote_note(&tx->connection->base, status, MP_AGAIN_CALL, "", &reason);
    if (error != NULL) *error = reason;
    return status;
  }
  return MOONPAD_OK;
}

moonpad_status mp_redis_ask(mp_redis_tx *tx, mp_redis_reads reads, redisReply **reply, moonpad_error *error) {
  mp_redis_arguments head;
  mp_redis_arguments_init(&head, tx->env);
  add_prefix(tx, &head, "ask");
  add_seen(tx, &head, reads, false);
  tx->questions++;
  const mp_redis_arguments *parts[] = {&head, &tx->writes, &tx->question};
  *reply = mp_redis_call(tx->connection, MP_REDIS_TRANSACTION, 0, parts, 3, error);
  mp_redis_arguments_free(&head);
  if (*reply == NULL) return tx->connection->base.failure.status;
  moonpad_status status = mp_redis_check_word(tx, *reply, error);
  if (status == MOONPAD_OK) status = note_seen(tx, mp_redis_item(*reply, 1), reads, error);
  if (status == MOONPAD_OK) return status;
  freeReplyObject(*reply);
  *reply = NULL;
  return status;
}

/* ---- writing ---- */

mp_redis_arguments *mp_redis_begin_write(mp_redis_tx *tx, const char *name) {
  mp_redis_add_text(&tx->writes, name);
  return &tx->writes;
}

moonpad_status mp_redis_end_write(mp_redis_tx *tx, moonpad_error *error) {
  return tx->writes.failed ? no_memory(tx, error) : MOONPAD_OK;
}

void mp_redis_add_place(mp_redis_arguments *arguments, const moonpad_session_name *name, int64_t id) {
  mp_redis_add(arguments, name->app_name);
  mp_redis_add(arguments, name->user_id);
  mp_redis_add(arguments, name->session_id);
  mp_redis_add_integer(arguments, id);
}

/* ---- the end ---- */

static void add_commit_key(const mp_redis *store, mp_redis_arguments *arguments, int64_t slot) {
  char key[MP_REDIS_LONGEST_PREFIX + 32];
  snprintf(key, sizeof key, "%sc:%lld", store->prefix, (long long)slot);
  mp_redis_add_text(arguments, key);
}

static moonpad_status commit(mp_redis_tx *tx, bool *sent, moonpad_error *error) {
  mp_redis_connection *connection = tx->connection;
  if (tx->writes.count == 0) return MOONPAD_OK;
  mp_redis_arguments head;
  mp_redis_arguments_init(&head, tx->env);
  add_prefix(tx, &head, "commit");
  add_commit_key(connection->store, &head, connection->base.slot);
  mp_redis_add_integer(&head, ++connection->base.number);
  add_seen(tx, &head, MP_REDIS_READS_HEADS, true);
  const mp_redis_arguments *parts[] = {&head, &tx->writes};
  *sent = true;
  redisReply *reply = mp_redis_call(connection, MP_REDIS_TRANSACTION, 0, parts, 2, error);
  mp_redis_arguments_free(&head);
  if (reply == NULL) return connection->base.failure.status;
  moonpad_status status = mp_redis_check_word(tx, reply, error);
  freeReplyObject(reply);
  return status == MOONPAD_OK ? mp_redis_wait_for_replicas(connection, error) : status;
}

static void begin(mp_redis_tx *tx, mp_redis_connection *connection, const mp_remote_attempt *once) {
  *tx = (mp_redis_tx){
      .tx = {&tx_ops}, .connection = connection, .env = connection->store->remote.env, .is_write = once->is_write};
  mp_redis_arguments_init(&tx->known, tx->env);
  mp_redis_arguments_init(&tx->writes, tx->env);
  mp_redis_arguments_init(&tx->question, tx->env);
}

static void end(mp_redis_tx *tx) {
  mp_redis_arguments_free(&tx->known);
  mp_redis_arguments_free(&tx->writes);
  mp_redis_arguments_free(&tx->question);
  mp_release(tx->env, tx->seen);
  mp_release(tx->env, tx->made);
}

static moonpad_status run_once(mp_redis_connection *connection, mp_remote_attempt *once, bool *sent) {
  mp_redis_tx tx;
  begin(&tx, connection, once);
  moonpad_status status = once->function(&tx.tx, once->context, once->error);
  bool succeeds = status == MOONPAD_OK && connection->base.failure.status == MOONPAD_OK;
  if (succeeds && once->is_write) status = commit(&tx, sent, once->error);
  bool is_stored = succeeds && connection->base.failure.status == MOONPAD_OK;
  if (!is_stored && tx.made_count > 0) mp_redis_unstage(&tx);
  end(&tx);
  return status;
}

/*
** Who was overtaken tries again soon, for others only take a moment; longer pauses are those of
** every store (mp_remote_try_again).
*/
#define QUICK_TRIES 12

static void pause_briefly(int tries) {
  double now = mp_monotonic() * 1e6;
  double part = now - (double)(int64_t)now; /* not all at the same time */
  long longest = 50000L << (tries < 6 ? tries : 6);
  struct timespec time = {0, (long)(part * (double)longest)};
  nanosleep(&time, NULL);
}

moonpad_status mp_redis_run(mp_remote_connection *base, mp_remote_attempt *once, bool *sent) {
  mp_redis_connection *connection = (mp_redis_connection *)base;
  moonpad_status status = MOONPAD_OK;
  for (int tries = 0;; tries++) {
    status = run_once(connection, once, sent);
    bool is_overtaken = base->failure.status == MOONPAD_BUSY && base->failure.again == MP_AGAIN_CALL;
    if (!is_overtaken || tries == QUICK_TRIES || once->is_hurried) return status;
    *sent = false;
    mp_remote_clear_failure(base);
    if (once->error != NULL) *once->error = (moonpad_error){MOONPAD_OK, ""};
    pause_briefly(tries);
  }
}

moonpad_status mp_redis_find_commit(mp_remote_connection *base, const mp_remote_attempt *once, bool *is_done) {
  mp_redis_connection *connection = (mp_redis_connection *)base;
  mp_redis_arguments arguments;
  mp_redis_arguments_init(&arguments, connection->store->remote.env);
  add_commit_key(connection->store, &arguments, once->slot);
  mp_redis_add_integer(&arguments, once->number);
  const mp_redis_arguments *parts[] = {&arguments};
  redisReply *reply = mp_redis_call(connection, MP_REDIS_FIND_COMMIT, 1, parts, 1, NULL);
  mp_redis_arguments_free(&arguments);
  if (reply == NULL) return base->failure.status;
  *is_done = mp_redis_says(mp_redis_item(reply, 0), "done");
  freeReplyObject(reply);
  return MOONPAD_OK;
}
