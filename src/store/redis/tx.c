/*
** One transaction: its questions, what it writes, its commit; and what became of a commit whose
** answer was lost.
*/
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/platform.h"
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
    .each_app = mp_redis_each_app,
    .each_user = mp_redis_each_user,
};

/* ---- the apps that it is about ---- */

moonpad_string mp_redis_app_name(const mp_redis_part *part) {
  return mp_redis_argument(&part->known, 0);
}

moonpad_status mp_redis_no_memory(mp_redis_tx *tx, moonpad_error *error) {
  moonpad_error reason;
  moonpad_status status = mp_no_memory(&reason);
  return mp_redis_note(tx->connection, status, &reason, error);
}

static moonpad_status add_part(mp_redis_tx *tx, moonpad_string app_name, moonpad_error *error) {
  mp_redis_part *part = mp_allocate_zeroed(tx->env, sizeof *part);
  if (part == NULL) return mp_redis_no_memory(tx, error);
  mp_redis_arguments_init(&part->known, tx->env);
  mp_redis_arguments_init(&part->writes, tx->env);
  mp_redis_add(&part->known, app_name);
  part->next = tx->parts;
  tx->parts = tx->part = part;
  return part->known.failed ? mp_redis_no_memory(tx, error) : MOONPAD_OK;
}

static void free_parts(mp_redis_tx *tx) {
  for (mp_redis_part *part = tx->parts, *next; part != NULL; part = next) {
    next = part->next;
    mp_redis_arguments_free(&part->known);
    mp_redis_arguments_free(&part->writes);
    mp_release(tx->env, part->seen);
    mp_release(tx->env, part->made);
    mp_release(tx->env, part);
  }
}

moonpad_status mp_redis_enter_app(mp_redis_tx *tx, moonpad_string app_name, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (tx->part = tx->parts; tx->part != NULL; tx->part = tx->part->next) {
    if (mp_redis_is_same(mp_redis_app_name(tx->part), app_name)) break;
  }
  if (tx->part == NULL) status = add_part(tx, app_name, error);
  return status == MOONPAD_OK ? mp_redis_go_to_app(tx->connection, app_name, error) : status;
}

/* Only an id is known, which begins with the app's number. */
static moonpad_status enter_by_id(mp_redis_tx *tx, int64_t id, moonpad_error *error) {
  redisReply *reply = NULL;
  int64_t number = id >> MP_REDIS_NUMBER_BITS;
  moonpad_status status = mp_redis_find_app(tx->connection, number, &reply, error);
  if (status != MOONPAD_OK) return status;
  bool is_found = mp_redis_integer(mp_redis_item(reply, 1)) == number;
  status = is_found ? mp_redis_enter_app(tx, mp_redis_string(mp_redis_item(reply, 0)), error) : MOONPAD_NOT_FOUND;
  freeReplyObject(reply);
  return status;
}

moonpad_status mp_redis_enter(mp_redis_tx *tx, const mp_session_ref *ref, moonpad_error *error) {
  int64_t id = ref->session != 0 ? ref->session : ref->user != 0 ? ref->user : ref->app;
  bool has_name = ref->name.app_name.length > 0;
  return has_name || id == 0 ? mp_redis_enter_app(tx, ref->name.app_name, error) : enter_by_id(tx, id, error);
}

void mp_redis_add_prefix(const mp_redis_tx *tx, mp_redis_arguments *arguments, const char *mode) {
  mp_redis_begin_key(arguments, tx->connection->store, mp_redis_app_name(tx->part));
  mp_redis_end_key(arguments, "-");
  mp_redis_add_integer(arguments, tx->part->number);
  mp_redis_add_text(arguments, mode);
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
  const char *place = tx->connection->store->remote.place;
  moonpad_error reason;
  moonpad_status status = MOONPAD_OK;
  if (mp_redis_says(word, "moved")) return mp_redis_moved(tx->connection, error);
  if (mp_redis_says(word, "late")) {
    status = mp_fail(&reason, MOONPAD_STORAGE, "%s: an earlier attempt was still under way", place);
    if (error != NULL) *error = reason;
    return mp_remote_note(&tx->connection->base, status, MP_AGAIN_CALL, "", &reason);
  }
  if (mp_redis_says(word, "known")) {
    status = mp_fail(&reason, MOONPAD_ALREADY_EXISTS, "an event with this id or revision is already in this session");
  } else if (mp_redis_says(word, "damaged")) {
    status = mp_redis_corrupt(tx->connection, "a key holds what moonpad has not put there", &reason);
  } else if (mp_redis_says(word, "full")) {
    status = mp_fail(&reason, MOONPAD_LIMIT, "%s: the app has had all the numbers that there are", place);
  }
  return status == MOONPAD_OK ? status : mp_redis_note(tx->connection, status, &reason, error);
}

static redisReply *ask_once(mp_redis_tx *tx, mp_redis_reads reads, moonpad_error *error) {
  mp_redis_arguments head;
  mp_redis_arguments_init(&head, tx->env);
  mp_redis_add_prefix(tx, &head, "ask");
  mp_redis_add_seen(tx, &head, reads, false);
  const mp_redis_arguments *parts[] = {&head, &tx->part->writes, &tx->question};
  redisReply *reply = mp_redis_call(tx->connection, MP_REDIS_TRANSACTION, 1, parts, 3, error);
  mp_redis_arguments_free(&head);
  return reply;
}

/* Something is made in an app for the first time: the script needs its number. */
static bool is_unregistered(const redisReply *reply) {
  return mp_redis_says(mp_redis_item(reply, 0), "unregistered");
}

static moonpad_status register_app(mp_redis_tx *tx, moonpad_error *error) {
  moonpad_string app_name = mp_redis_app_name(tx->part);
  moonpad_status status = mp_redis_register_app(tx->connection, app_name, &tx->part->number, error);
  return status == MOONPAD_OK ? mp_redis_go_to_app(tx->connection, app_name, error) : status;
}

moonpad_status mp_redis_ask(mp_redis_tx *tx, mp_redis_reads reads, redisReply **reply, moonpad_error *error) {
  *reply = ask_once(tx, reads, error);
  if (is_unregistered(*reply)) {
    freeReplyObject(*reply);
    *reply = register_app(tx, error) == MOONPAD_OK ? ask_once(tx, reads, error) : NULL;
  }
  if (*reply == NULL) return tx->connection->base.failure.status;
  moonpad_status status = mp_redis_check_word(tx, *reply, error);
  if (status == MOONPAD_OK) status = mp_redis_note_seen(tx, mp_redis_item(*reply, 1), reads, error);
  if (status == MOONPAD_OK) return status;
  freeReplyObject(*reply);
  *reply = NULL;
  return status;
}

/* ---- writing ---- */

mp_redis_arguments *mp_redis_begin_write(mp_redis_tx *tx, const char *name) {
  mp_redis_add_text(&tx->part->writes, name);
  return &tx->part->writes;
}

moonpad_status mp_redis_end_write(mp_redis_tx *tx, moonpad_error *error) {
  return tx->part->writes.failed ? mp_redis_no_memory(tx, error) : MOONPAD_OK;
}

void mp_redis_add_place(mp_redis_arguments *arguments, const moonpad_session_name *name, int64_t id) {
  mp_redis_add(arguments, name->user_id);
  mp_redis_add(arguments, name->session_id);
  mp_redis_add_integer(arguments, id);
}

/* ---- the end ---- */

/* Where a commit leaves its number: at the app, as all that it stores. */
static void add_commit_key(const mp_redis *store, mp_redis_arguments *arguments, moonpad_string app_name,
                           int64_t slot) {
  char end[32];
  mp_redis_begin_key(arguments, store, app_name);
  snprintf(end, sizeof end, "c:%lld", (long long)slot);
  mp_redis_end_key(arguments, end);
}

static redisReply *send_commit(mp_redis_tx *tx, mp_remote_attempt *once, bool *sent) {
  mp_redis_connection *connection = tx->connection;
  moonpad_string app_name = mp_redis_app_name(tx->part);
  if (mp_redis_go_to_app(connection, app_name, once->error) != MOONPAD_OK) return NULL;
  mp_redis_arguments head;
  mp_redis_arguments_init(&head, tx->env);
  mp_redis_add_prefix(tx, &head, "commit");
  add_commit_key(connection->store, &head, app_name, connection->base.slot);
  mp_redis_add_integer(&head, ++connection->base.number);
  mp_redis_add_seen(tx, &head, MP_REDIS_READS_HEADS, true);
  const mp_redis_arguments *parts[] = {&head, &tx->part->writes};
  mp_buffer_clear(&once->where);
  mp_buffer_add_string(&once->where, app_name);
  if (once->where.failed) head.failed = true;
  *sent = true;
  redisReply *reply = mp_redis_call(connection, MP_REDIS_TRANSACTION, 1, parts, 2, once->error);
  mp_redis_arguments_free(&head);
  return reply;
}

/* What is stored in the app that the transaction is about now. */
static moonpad_status commit_part(mp_redis_tx *tx, mp_remote_attempt *once, bool *sent) {
  redisReply *reply = send_commit(tx, once, sent);
  if (is_unregistered(reply)) {
    freeReplyObject(reply);
    reply = register_app(tx, once->error) == MOONPAD_OK ? send_commit(tx, once, sent) : NULL;
  }
  if (reply == NULL) return tx->connection->base.failure.status;
  moonpad_status status = mp_redis_check_word(tx, reply, once->error);
  freeReplyObject(reply);
  tx->part->is_stored = status == MOONPAD_OK;
  bool waits = status == MOONPAD_OK && !once->is_hurried;
  return waits ? mp_redis_wait_for_replicas(tx->connection, once->error) : status;
}

static const mp_redis_part *last_written(const mp_redis_tx *tx) {
  const mp_redis_part *last = NULL;
  for (const mp_redis_part *part = tx->parts; part != NULL; part = part->next) {
    if (part->writes.count > 0) last = part;
  }
  return last;
}

/*
** Only of the last part an answer that is lost leaves open whether the transaction was stored.
** Where one of another part is lost, all of it is done again, which does no harm twice.
*/
static moonpad_status commit(mp_redis_tx *tx, mp_remote_attempt *once, bool *sent) {
  const mp_redis_part *last = last_written(tx);
  moonpad_status status = MOONPAD_OK;
  for (tx->part = tx->parts; status == MOONPAD_OK && tx->part != NULL; tx->part = tx->part->next) {
    bool not_all = false;
    if (tx->part->writes.count == 0) continue;
    status = mp_redis_keep_staged(tx, once->error);
    if (status == MOONPAD_OK) status = commit_part(tx, once, tx->part == last ? sent : &not_all);
  }
  return status;
}

/* What was stored stays, though it may not be on enough replicas. */
static void unstage(mp_redis_tx *tx) {
  for (tx->part = tx->parts; tx->part != NULL; tx->part = tx->part->next) {
    if (tx->part->made_count == 0 || tx->part->is_stored) continue;
    if (mp_redis_go_to_app(tx->connection, mp_redis_app_name(tx->part), NULL) == MOONPAD_OK) mp_redis_unstage(tx);
  }
}

static moonpad_status run_once(mp_redis_connection *connection, mp_remote_attempt *once, bool *sent) {
  mp_env *env = connection->store->remote.env;
  mp_redis_tx tx = {.tx = {&tx_ops}, .connection = connection, .env = env, .is_write = once->is_write};
  mp_redis_arguments_init(&tx.question, env);
  moonpad_status status = once->function(&tx.tx, once->context, once->error);
  bool succeeds = status == MOONPAD_OK && connection->base.failure.status == MOONPAD_OK;
  if (succeeds && once->is_write) status = commit(&tx, once, sent);
  bool is_stored = succeeds && connection->base.failure.status == MOONPAD_OK;
  if (!is_stored) unstage(&tx);
  free_parts(&tx);
  mp_redis_arguments_free(&tx.question);
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
  double longest = 50e-6 * (double)(1 << (tries < 6 ? tries : 6));
  mp_sleep(part * longest);
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
  moonpad_string app_name = {once->where.data, once->where.length};
  moonpad_status status = mp_redis_go_to_app(connection, app_name, NULL);
  if (status != MOONPAD_OK) return status;
  mp_redis_arguments arguments;
  mp_redis_arguments_init(&arguments, connection->store->remote.env);
  add_commit_key(connection->store, &arguments, app_name, once->slot);
  mp_redis_add_integer(&arguments, once->number);
  const mp_redis_arguments *parts[] = {&arguments};
  redisReply *reply = mp_redis_call(connection, MP_REDIS_FIND_COMMIT, 1, parts, 1, NULL);
  mp_redis_arguments_free(&arguments);
  if (reply == NULL) return base->failure.status;
  *is_done = mp_redis_says(mp_redis_item(reply, 0), "done");
  freeReplyObject(reply);
  return *is_done ? mp_redis_wait_for_replicas(connection, NULL) : MOONPAD_OK;
}
