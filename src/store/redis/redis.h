/*
** src/store/redis: the store "redis:", on Redis 6 and later, and on its clusters, by hiredis (what
** 0.14 and 1.x share).
** Does not belong here: rules of moonpad (src/service), and what stores on servers share
** (store/server). Arrows point down this list; none points up.
**
** open.c               URL and options, opening, freeing
** append.c             plans: appends of one round trip each, several in one pipeline
** tx.c                 one transaction: its questions, what it writes, its commit
** seen.c               what a transaction has seen, and others must not have changed
** housekeeping.c       trimming, purging, touching, sweeping, tokens
** write.c              batches; making and removing sessions and users; copying histories
** stage.c              long histories of sessions that are being made
** events.c             walks over events, the base state
** list.c               lists of sessions with their state; users
** registry.c           the apps, by number
** look.c               whole questions
** cluster.c            which node of a cluster has what
** tls.c                TLS, if hiredis has it
** connect.c            opens and closes connections, to one server or to the nodes of a cluster
** scripts.c            what the server runs: scripts/append.lua carries out a plan, the others are
**                      parts of the script of questions and commits
** replies.c            what comes back
** wire.c               sends scripts and commands, receives replies
** arguments.c          what is sent
** errors.c             what an error means: to the caller, and for trying again
**
** A transaction. Redis has none that would read, decide here, and write. So each question is one
** script; what the transaction writes is kept here (mp_redis_tx.writes) and sent with every later
** question, whose script lays it over what is stored and answers from both. The commit is the same
** script: if the heads that the transaction has looked at are as it has seen them, it stores what
** was laid over them, all at once, for nothing else runs while a script does. If they are not, the
** transaction function is called again. In `read` each question makes sure that the heads of the
** earlier ones have not changed.
**
** Long histories of a session that is being made (an import, a fork) go in parts before the commit,
** under the number of the session, where nobody finds them as long as no head tells of it
** (stage.c).
**
** A script is not rolled back. So both scripts find out first whether all of it can be stored, and
** then run commands that cannot fail. Where memory has run out, the first of them fails.
**
** Apps. All keys of an app are in one slot of a cluster, so a script is about one app. A
** transaction that asks about several has a part for each, and a commit: so what belongs together
** is written in one. The service does, but where it notes when something was used, and sweeps.
**
** hiredis does not use the host's allocator.
*/
#ifndef MP_STORE_REDIS_REDIS_H
#define MP_STORE_REDIS_REDIS_H

/* What hiredis 0.14 has inline in its headers converts numbers in every way. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <hiredis.h>
#pragma GCC diagnostic pop

#include <stdatomic.h>

#include "base/buffer.h"
#include "base/platform.h"
#include "store/server/remote.h"
#include "store/server/url.h"

#define MP_REDIS_LONGEST_PREFIX 64

typedef enum mp_redis_script_id {
  MP_REDIS_APPEND,
  MP_REDIS_TRANSACTION,
  MP_REDIS_FIND_COMMIT,
  MP_REDIS_REGISTER,
  MP_REDIS_SCRIPTS
} mp_redis_script_id;

#define MP_REDIS_SLOTS 16384

typedef struct mp_redis_address {
  char host[256];
  int port;
} mp_redis_address;

/* Nodes of a cluster that were there when it was last asked. */
#define MP_REDIS_MOST_LEARNED 64
typedef struct mp_redis_learned {
  mp_mutex lock;
  mp_redis_address nodes[MP_REDIS_MOST_LEARNED];
  size_t count;
} mp_redis_learned;

typedef struct mp_redis {
  mp_remote remote; /* first */
  mp_url_parts url;
  char *socket;              /* a path; NULL: the URL has hosts */
  mp_redis_learned *learned; /* of a cluster; NULL: it is none */
  atomic_uint host;          /* of the URL, by number: the one that was there last */
  int64_t database;
  int64_t replicas;                         /* that must have what is stored, before a call ends */
  char prefix[MP_REDIS_LONGEST_PREFIX + 1]; /* of all keys */
  char *transaction_script;
  const char *registry; /* which key has the apps (registry.c) */
  bool has_tls;
  void *tls; /* OpenSSL's context (tls.c) */
  char *ca, *cert, *key;
} mp_redis;

/* Strings to be sent. */
typedef struct mp_redis_arguments {
  mp_env *env;
  mp_buffer bytes;
  size_t *ends; /* of each, in the bytes */
  size_t count, capacity;
  bool failed; /* out of memory */
} mp_redis_arguments;

/* A server, and what is open to it. */
typedef struct mp_redis_node {
  mp_redis_address address;
  redisContext *redis;               /* NULL: nothing was sent there yet */
  double silence;                    /* seconds without a byte, until it counts as gone */
  size_t most_words;                 /* that it takes in one command */
  char hashes[MP_REDIS_SCRIPTS][41]; /* of the scripts, as the server knows them; "": it does not */
} mp_redis_node;

/* To a server, or to all nodes of a cluster. Used by one thread at a time. */
typedef struct mp_redis_connection {
  mp_remote_connection base; /* first */
  mp_redis *store;
  mp_redis_node *node; /* where it goes now */
  mp_redis_node *nodes;
  size_t node_count;
  uint16_t *slots; /* of a cluster: the number of the node that has a slot, and 1; 0: none */
  mp_redis_arguments tag;
  const char **values; /* room for what is sent */
  size_t *lengths;
  size_t value_capacity, length_capacity;
  mp_buffer scratch; /* an event's text on its way in */
} mp_redis_connection;

/* ---- arguments.c ---- */

void mp_redis_arguments_init(mp_redis_arguments *arguments, mp_env *env);
void mp_redis_arguments_free(mp_redis_arguments *arguments);
void mp_redis_arguments_clear(mp_redis_arguments *arguments);
void mp_redis_add(mp_redis_arguments *arguments, moonpad_string text); /* data NULL: "" */
void mp_redis_add_text(mp_redis_arguments *arguments, const char *text);
void mp_redis_add_integer(mp_redis_arguments *arguments, int64_t number);
void mp_redis_add_switch(mp_redis_arguments *arguments, bool on);
void mp_redis_add_time(mp_redis_arguments *arguments, double seconds);
void mp_redis_add_value(mp_redis_arguments *arguments, const mp_value *value);
/* Of an event: time, digest, kinds and, if it has one, invocation, with a blank between them. */
void mp_redis_add_about(mp_redis_arguments *arguments, const mp_event_row *event);
/* An argument of several parts: they are added to `bytes`, then this ends it. */
void mp_redis_end_argument(mp_redis_arguments *arguments);
/* A name, so that no byte of it is syntax in a key; a part of an argument. */
void mp_redis_encode(mp_redis_arguments *arguments, moonpad_string name);
/* A key of an app: "PREFIX{app}:", what is added, and its end. */
void mp_redis_begin_key(mp_redis_arguments *arguments, const mp_redis *store, moonpad_string app_name);
void mp_redis_end_key(mp_redis_arguments *arguments, const char *end);
moonpad_string mp_redis_argument(const mp_redis_arguments *arguments, size_t index);
bool mp_redis_is_same(moonpad_string a, moonpad_string b);

/* ---- wire.c ---- */

/* Runs a script when its reply is received. `keys` are the first of the arguments. */
moonpad_status mp_redis_send_script(mp_redis_connection *connection, mp_redis_script_id id, size_t keys, bool by_hash,
                                    const mp_redis_arguments *const *parts, size_t count, moonpad_error *error);
/* Sends a command with its arguments. */
moonpad_status mp_redis_send_command(mp_redis_connection *connection, const char *command,
                                     const mp_redis_arguments *arguments, moonpad_error *error);
/*
** Sends at once what waits for any node, so that they work side by side. (Otherwise what is sent
** waits until a reply of its node is received.)
*/
void mp_redis_flush(mp_redis_connection *connection);
/* To be freed with freeReplyObject. NULL: the connection is lost, and has a failure. */
redisReply *mp_redis_receive(mp_redis_connection *connection, moonpad_error *error);
/* The server has forgotten the script, after a restart say. */
bool mp_redis_lacks_script(const redisReply *reply);
/*
** Sends a script and receives its reply: an array that begins with a word. NULL: why is in the
** connection's failure.
*/
redisReply *mp_redis_call(mp_redis_connection *connection, mp_redis_script_id id, size_t keys,
                          const mp_redis_arguments *const *parts, size_t count, moonpad_error *error);
/* The same of a command, whatever it replies but an error. */
redisReply *mp_redis_command(mp_redis_connection *connection, const char *command, const mp_redis_arguments *arguments,
                             moonpad_error *error);
/*
** Waits until as many replicas as the URL asks for have all that was written on this connection.
** busy: they have not in time; it is stored, but not there.
*/
moonpad_status mp_redis_wait_for_replicas(mp_redis_connection *connection, moonpad_error *error);

/* ---- replies.c ---- */

/* An item of an array. NULL: there is none. */
const redisReply *mp_redis_item(const redisReply *array, size_t index);
size_t mp_redis_count(const redisReply *array);
bool mp_redis_is_nil(const redisReply *reply);
moonpad_string mp_redis_string(const redisReply *reply); /* nil: data NULL */
int64_t mp_redis_integer(const redisReply *reply);
double mp_redis_time(const redisReply *reply);
bool mp_redis_says(const redisReply *reply, const char *word);
/* The 16 numbers of a session's heads. False: they are out of range. */
bool mp_redis_read_heads(const redisReply *numbers, mp_facts *facts);
/* A state row of four items; its value is one reference for the caller. */
moonpad_status mp_redis_read_row(mp_redis_connection *connection, const redisReply *rows, size_t at, mp_state_row *row,
                                 moonpad_error *error);
/* Its value. Nil: NULL. */
moonpad_status mp_redis_read_value(mp_redis_connection *connection, const redisReply *json, mp_value **value,
                                   moonpad_error *error);
#define MP_REDIS_EVENT_ITEMS 4
/*
** An event of four items: revision, id, what mp_redis_add_about has written, JSON. `with_json`: its
** text is read and must be a JSON object.
*/
moonpad_status mp_redis_read_event(mp_redis_connection *connection, const redisReply *rows, size_t at, bool with_json,
                                   mp_event_row *event, moonpad_error *error);

/* ---- errors.c ---- */

/* Notes a failure that a server tells, if it is the first, and words it for the caller. */
moonpad_status mp_redis_fail(mp_redis_connection *connection, const redisReply *reply, moonpad_error *error);
/* The connection is lost. `what` may be NULL: what hiredis says. */
moonpad_status mp_redis_lost(mp_redis_connection *connection, const char *what, moonpad_error *error);
moonpad_status mp_redis_corrupt(mp_redis_connection *connection, const char *what, moonpad_error *error);
/* Notes a failure of this side, memory say, if it is the first, and tells it the caller. */
moonpad_status mp_redis_note(mp_redis_connection *connection, moonpad_status status, const moonpad_error *reason,
                             moonpad_error *error);
/* Others have changed what the transaction has seen: it is to be called again. */
moonpad_status mp_redis_moved(mp_redis_connection *connection, moonpad_error *error);
/* Why a connection was lost. `text` is room for it. */
const char *mp_redis_reason(const mp_redis_node *node, char *text, size_t size);
/* Why there is no connection. `said`: by the server, or mp_redis_reason. */
void mp_redis_refuse(const mp_redis *store, const char *said, mp_remote_failure *failure);

/* ---- scripts.c ---- */

/*
** The script of transactions with questions and writes of other stores (mp_redis_open_with), to be
** freed with mp_release. NULL: no memory.
*/
char *mp_redis_build_transaction_script(mp_env *env, const char *const *more);
const char *mp_redis_script(const mp_redis *store, mp_redis_script_id id);

/* ---- cluster.c ---- */

/* From now on scripts and commands go where the keys of this app are. */
moonpad_status mp_redis_go_to_app(mp_redis_connection *connection, moonpad_string app_name, moonpad_error *error);
/* Where a key is that belongs to no app. `name` stands behind the prefix. */
moonpad_status mp_redis_go_to_key(mp_redis_connection *connection, const char *name, moonpad_error *error);
/* Goes to a node by its place in `nodes`. */
moonpad_status mp_redis_go_to_node(mp_redis_connection *connection, size_t index, moonpad_error *error);
/* Asks the node where it is now for the nodes of its cluster. */
moonpad_status mp_redis_read_cluster(mp_redis_connection *connection, mp_remote_failure *failure);

/* ---- connect.c ---- */

/* Opens a connection to the node where it goes now. */
moonpad_status mp_redis_open_node(mp_redis_connection *connection, bool may_be_replica, mp_remote_failure *failure);
void mp_redis_close_node(mp_redis_connection *connection, mp_redis_node *node);

/* Of mp_remote_ops. */
mp_remote_connection *mp_redis_connect(mp_remote *remote, mp_remote_failure *failure);
void mp_redis_disconnect(mp_remote_connection *connection);
bool mp_redis_is_connected(const mp_remote_connection *connection);

/* ---- tls.c ---- */

/* Errors: unsupported: hiredis has none. */
moonpad_status mp_redis_check_tls(moonpad_error *error);
/* Reads the files that the URL names. Errors: invalid_argument, no_memory. */
moonpad_status mp_redis_make_tls(mp_redis *store, moonpad_error *error);
void mp_redis_free_tls(mp_redis *store);
/* The first thing on a connection. False: why is in node->redis. */
bool mp_redis_start_tls(const mp_redis *store, mp_redis_node *node);
/* Around what reads or writes: what OpenSSL says of a failure is then in hiredis's context. */
void mp_redis_before_tls(const mp_redis *store);
void mp_redis_after_tls(const mp_redis *store, redisContext *redis);

/* ---- tx.c ---- */

/* A head, or a list, that the transaction has read. */
typedef struct mp_redis_seen {
  /* s: of a session, u: of a user, a: of an app; U, A: only that it is there; l, k: a list. */
  char kind;
  bool is_written;
  bool may_grow;         /* a session: what is read of it comes before what is appended */
  size_t key, signature; /* among the arguments of `known` */
} mp_redis_seen;

/* A session that the transaction has made: where its events are before the commit. */
typedef enum mp_redis_history { MP_REDIS_NO_EVENTS, MP_REDIS_AMONG_WRITES, MP_REDIS_STAGED } mp_redis_history;
typedef struct mp_redis_made {
  int64_t id;
  mp_redis_history history;
  int64_t staged; /* so many events */
} mp_redis_made;

/* What a transaction has seen and written of one app. */
typedef struct mp_redis_part {
  struct mp_redis_part *next;
  int64_t number;           /* the app's; 0: not known */
  mp_redis_arguments known; /* the app's name; keys and signatures of what was seen */
  mp_redis_seen *seen;
  size_t seen_count, seen_capacity;
  mp_redis_made *made;
  size_t made_count, made_capacity;
  mp_redis_arguments writes; /* so far */
  bool is_stored;            /* they are committed */
} mp_redis_part;

typedef struct mp_redis_tx {
  mp_tx tx; /* first */
  mp_redis_connection *connection;
  mp_env *env;
  bool is_write;
  mp_redis_part *parts;
  mp_redis_part *part;         /* of the app that it is about now */
  mp_redis_arguments question; /* the one to be asked next */
} mp_redis_tx;

static inline mp_redis_tx *mp_redis_tx_of(mp_tx *tx) {
  return (mp_redis_tx *)tx;
}

/* Of mp_remote_ops. */
moonpad_status mp_redis_run(mp_remote_connection *connection, mp_remote_attempt *once, bool *sent);
moonpad_status mp_redis_find_commit(mp_remote_connection *connection, const mp_remote_attempt *once, bool *is_done);

/*
** From now on it is about the app that a session, a user or an app belongs to. Errors: not_found,
** without a message: only an id is given, and no app has it.
*/
moonpad_status mp_redis_enter(mp_redis_tx *tx, const mp_session_ref *ref, moonpad_error *error);
moonpad_status mp_redis_enter_app(mp_redis_tx *tx, moonpad_string app_name, moonpad_error *error);
moonpad_string mp_redis_app_name(const mp_redis_part *part);
/* What the script is told first; the first argument is its key. */
void mp_redis_add_prefix(const mp_redis_tx *tx, mp_redis_arguments *arguments, const char *mode);
/* Begins a question: its name, then what it takes is added. */
mp_redis_arguments *mp_redis_begin_question(mp_redis_tx *tx, const char *name);
/*
** What a question may see of the events of a session that has been looked at: no later ones than
** then, where the transaction does not change it.
*/
typedef enum mp_redis_reads { MP_REDIS_READS_HEADS, MP_REDIS_READS_EVENTS } mp_redis_reads;
/*
** Asks the question. *reply is to be freed; its first item is a word: "ok", "none", "exists". NULL
** on failure.
*/
moonpad_status mp_redis_ask(mp_redis_tx *tx, mp_redis_reads reads, redisReply **reply, moonpad_error *error);
/* Fails where a script answers with a word that is no answer: others were faster, say. */
moonpad_status mp_redis_check_word(mp_redis_tx *tx, const redisReply *reply, moonpad_error *error);
/* Begins something that is written: its name, then what it takes is added. */
mp_redis_arguments *mp_redis_begin_write(mp_redis_tx *tx, const char *name);
/* An event that is written: four arguments. */
void mp_redis_add_event(mp_redis_arguments *arguments, const mp_event_row *event);
moonpad_status mp_redis_end_write(mp_redis_tx *tx, moonpad_error *error);
moonpad_status mp_redis_no_memory(mp_redis_tx *tx, moonpad_error *error);
/* Where in the app: three arguments. */
void mp_redis_add_place(mp_redis_arguments *arguments, const moonpad_session_name *name, int64_t id);

/* ---- seen.c ---- */

/* What the script is to compare: a count, and three arguments each. */
void mp_redis_add_seen(const mp_redis_tx *tx, mp_redis_arguments *arguments, mp_redis_reads reads, bool commits);
/* Notes what a question has read. It is not as it was before: mp_redis_moved. */
moonpad_status mp_redis_note_seen(mp_redis_tx *tx, const redisReply *list, mp_redis_reads reads, moonpad_error *error);
/* Heads that change: by the commit they must be as they were seen. A session counts by its id. */
void mp_redis_note_written(mp_redis_tx *tx, const mp_session_ref *ref, unsigned heads);
/* Of a session that is copied: by the commit it may have grown. */
void mp_redis_note_copied(mp_redis_tx *tx, const mp_session_ref *session);
/*
** The revision with which the session was first seen; -1: it was not, or the transaction changes
** it.
*/
int64_t mp_redis_last_seen(const mp_redis_tx *tx, const mp_session_ref *session);

/* ---- registry.c ---- */

#define MP_REDIS_MOST_APPS   1000000
#define MP_REDIS_NUMBER_BITS 32

/* The number of an app, which it gets now if it has none. */
moonpad_status mp_redis_register_app(mp_redis_connection *connection, moonpad_string app_name, int64_t *number,
                                     moonpad_error *error);
/* The app with this number, or the next one: name and number, or nothing. *reply is to be freed. */
moonpad_status mp_redis_find_app(mp_redis_connection *connection, int64_t number, redisReply **reply,
                                 moonpad_error *error);
moonpad_status mp_redis_each_app(mp_tx *tx, mp_each_name each, void *context, moonpad_error *error);

/* ---- stage.c ---- */

/* Notes a session that the transaction has made. */
moonpad_status mp_redis_note_made(mp_redis_tx *tx, int64_t id, moonpad_error *error);
/* Stages the events of a batch, if that is worth while; *staged: the writes do without them. */
moonpad_status mp_redis_stage_events(mp_redis_tx *tx, const mp_batch *batch, bool *staged, moonpad_error *error);
/* The same of events up to `last` that are copied. */
moonpad_status mp_redis_stage_copy(mp_redis_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                   bool *staged, moonpad_error *error);
/* At the commit, in the app that it is about: what was staged lasts, if all of it is there. */
moonpad_status mp_redis_keep_staged(mp_redis_tx *tx, moonpad_error *error);
/* The transaction has failed: removes what it has staged in the app that it is about. */
void mp_redis_unstage(mp_redis_tx *tx);

/* ---- append.c: of mp_remote_ops ---- */

void mp_redis_send_plans(mp_remote_connection *connection, mp_sent_plan *const *plans, size_t count);

/* ---- look.c, list.c, events.c, write.c, housekeeping.c: the operations of mp_tx_ops ---- */

moonpad_status mp_redis_look(mp_tx *tx, mp_look *look, mp_facts *facts, moonpad_error *error);
moonpad_status mp_redis_each_listed(mp_tx *tx, const mp_list_query *query, const mp_listing *listing,
                                    moonpad_error *error);
moonpad_status mp_redis_each_user(mp_tx *tx, moonpad_string app_name, mp_each_name each, void *context,
                                  moonpad_error *error);
moonpad_status mp_redis_each_event(mp_tx *tx, const mp_session_ref *session, const mp_event_query *query,
                                   mp_each_event each, void *context, moonpad_error *error);
moonpad_status mp_redis_find_invocation(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                        int64_t *revision, moonpad_error *error);
moonpad_status mp_redis_each_base_key(mp_tx *tx, const mp_session_ref *session, mp_each_state each, void *context,
                                      moonpad_error *error);
moonpad_status mp_redis_create_session(mp_tx *tx, const moonpad_session_name *name, double create_time,
                                       mp_session_row *row, moonpad_error *error);
moonpad_status mp_redis_remove_session(mp_tx *tx, const mp_session_ref *session, moonpad_error *error);
moonpad_status mp_redis_remove_user(mp_tx *tx, const mp_session_ref *user, int64_t *sessions, moonpad_error *error);
moonpad_status mp_redis_apply(mp_tx *tx, const mp_batch *batch, moonpad_error *error);
moonpad_status mp_redis_copy_history(mp_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                     moonpad_error *error);
moonpad_status mp_redis_trim(mp_tx *tx, const mp_session_ref *session, int64_t last, moonpad_error *error);
moonpad_status mp_redis_purge(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t last, moonpad_error *error);
moonpad_status mp_redis_touch(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error);
moonpad_status mp_redis_sweep(mp_tx *tx, mp_sweep *sweep, moonpad_error *error);

/* ---- open.c ---- */

typedef enum mp_redis_kind { MP_REDIS_SINGLE, MP_REDIS_WITH_TLS, MP_REDIS_CLUSTER } mp_redis_kind;

/*
** A store that has questions and writes of its own beside those of sessions: parts of Lua that go
** into the script of transactions one behind the other; NULL behind the last.
*/
typedef struct mp_redis_extras {
  mp_redis_kind kind;
  const char *registry; /* the name of the key that has its apps */
  const char *const *script;
} mp_redis_extras;
moonpad_status mp_redis_open_with(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                  const mp_redis_extras *extras, mp_store **store, moonpad_error *error);
moonpad_status mp_redis_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                             moonpad_error *error);
moonpad_status mp_redis_open_tls(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                 moonpad_error *error);
moonpad_status mp_redis_open_cluster(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                     moonpad_error *error);

#endif
