/*
** What the stores on servers have in common: a store, its connections, what is done again when the
** server fails. Each store brings the functions that know its server (mp_remote_ops).
**
** remote.c        taking and giving back connections; failures; when to try again; opening, closing
** transactions.c  mp_store_ops.write and read: a transaction, until it is known what became of it
** plans.c         mp_store_ops.append: plans, until it is known what became of each
*/
#ifndef MP_STORE_SERVER_REMOTE_H
#define MP_STORE_SERVER_REMOTE_H

#include "base/buffer.h"
#include "store/server/plan_queue.h"
#include "store/server/pool.h"
#include "store/store.h"

/* What a failure means for trying again. */
typedef enum mp_remote_again {
  MP_AGAIN_NEVER,     /* the same would happen again */
  MP_AGAIN_CALL,      /* the same call, on this connection: after a deadlock, say */
  MP_AGAIN_RECONNECT, /* on a new connection: the server went away, or is no primary any more */
  MP_AGAIN_SNAPSHOT   /* at once, as a transaction that reads: a second question has come */
} mp_remote_again;

#define MP_REMOTE_CODE_BYTES 6 /* a SQLSTATE and a NUL */

/* The failure that counts: the first of an attempt. */
typedef struct mp_remote_failure {
  moonpad_status status; /* MOONPAD_OK: none */
  mp_remote_again again;
  char code[MP_REMOTE_CODE_BYTES]; /* the server's; "": it came from the client's library */
  bool was_connecting;             /* there was no connection yet */
  moonpad_error error;
} mp_remote_failure;

typedef struct mp_remote mp_remote;

/* A connection of a store begins with this struct. Used by one thread at a time. */
typedef struct mp_remote_connection {
  mp_pooled pooled;          /* first */
  mp_remote_failure failure; /* of what has been sent since it was last cleared */
  bool must_close;           /* it is in no state to be used again */
  /* Its row among the commits, and the number of the last transaction that it noted there. */
  int64_t slot;
  int64_t number;
} mp_remote_connection;

/* A transaction on its way. */
typedef struct mp_remote_attempt {
  mp_tx_function function;
  void *context;
  moonpad_error *error;
  bool is_write;
  bool is_snapshot;          /* it reads, and puts more than one question */
  bool is_hurried;           /* it is tried once, and waits for no connection */
  mp_remote_failure failure; /* the store's own */
  /* A COMMIT was sent and not answered; this is what it noted, and where, if a store must know. */
  bool is_unknown;
  int64_t slot, number;
  mp_buffer where;
} mp_remote_attempt;

/* What knows the server. */
typedef struct mp_remote_ops {
  /* Opens a connection. NULL: why is in *failure. */
  mp_remote_connection *(*connect)(mp_remote *remote, mp_remote_failure *failure);
  /* The first connection of a store: makes the schema where it must, or whatever else it needs. */
  moonpad_status (*prepare)(mp_remote_connection *connection, moonpad_error *error);
  /* From now on it is used for `run` and the others. Why not is in connection->failure. */
  moonpad_status (*start)(mp_remote_connection *connection, moonpad_error *error);
  void (*disconnect)(mp_remote_connection *connection);
  /* False: its client's library has given it up, or the store is at another host now. */
  bool (*is_connected)(const mp_remote_connection *connection);
  /*
  ** Runs a transaction function once, to COMMIT or ROLLBACK, and returns what it has returned, or
  ** what the COMMIT has. Failures of the store are in connection->failure. *sent: a COMMIT was sent
  ** that notes connection->number.
  */
  moonpad_status (*run)(mp_remote_connection *connection, mp_remote_attempt *once, bool *sent);
  /*
  ** Was what the attempt noted committed? If it was not, it never will be. A failure is in
  ** connection->failure.
  */
  moonpad_status (*find_commit)(mp_remote_connection *connection, const mp_remote_attempt *once, bool *is_done);
  /*
  ** Sends plans once, which come in the order of their apps; or of their sessions, if they lock
  ** nothing else. One that has neither an outcome nor a failure then is to be sent again, if
  ** that is worth while: connection->failure says so.
  */
  void (*send)(mp_remote_connection *connection, mp_sent_plan *const *plans, size_t count);
} mp_remote_ops;

/* A store on a server begins with this struct. */
struct mp_remote {
  mp_store base; /* first */
  const mp_remote_ops *ops;
  mp_env *env;
  char *place;    /* for messages: "postgresql://HOST:PORT/DATABASE" */
  char *password; /* NULL: none is known */
  moonpad_durability durability;
  double patience; /* busyTimeoutMs in seconds: how long something is tried again */
  double silence;  /* seconds without a byte from the server, until it counts as gone */
  bool migrates;   /* the URL's option: it may make what is missing on the server */
  bool strict;     /* the URL's option: less durability than asked for is a failure */
  bool has_pool;
  mp_pool pool;
  mp_plan_queue plans;
};

/* ---- remote.c ---- */

/* The first thing with a store that is zeroed. */
void mp_remote_init(mp_remote *remote, mp_env *env, const mp_store_ops *store_ops, const mp_remote_ops *ops,
                    const moonpad_options *options);
/*
** Opens the pool and its first connection, and prepares what is on the server. A busy server is
** tried again for a while. One that is not there is told at once, while the URL is before the
** reader's eyes.
*/
moonpad_status mp_remote_open(mp_remote *remote, int64_t connections, moonpad_error *error);
/* Frees what is in it: not itself, and its env is still held. */
void mp_remote_destroy(mp_remote *remote);
/* mp_store_ops.close. */
void mp_remote_close(mp_store *store);
/*
** The server does not keep what `durability` asks for; `what` says how. The URL's option strict
** makes that a failure, otherwise the log is told. Errors: unsupported.
*/
moonpad_status mp_remote_is_less_durable(const mp_remote *remote, const char *what, moonpad_error *error);
/* Keeps the password of a URL, or else that of the environment. Errors: no_memory. */
moonpad_status mp_remote_note_password(mp_remote *remote, const char *given, moonpad_error *error);
/* For a call that needs no connection. Errors: closed. */
moonpad_status mp_remote_check_open(mp_store *store, moonpad_error *error);

/*
** Takes a connection from the pool, and opens it where it must. *connection NULL: why is in
** `failure`.
*/
void mp_remote_take(mp_remote *remote, double until, mp_remote_connection **connection, mp_remote_failure *failure);
/* Gives it back; disconnects it where it is broken. */
void mp_remote_give_back(mp_remote *remote, mp_remote_connection *connection);
/* In this process only: a forked child leaves alone what is its parent's. */
bool mp_remote_is_owner(const mp_remote *remote);
/*
** After an attempt that failed: is it to be made again, and has it the time? Then it has slept.
** `attempt` counts from 0.
*/
bool mp_remote_try_again(mp_remote *remote, const mp_remote_failure *failure, int attempt, double until);

/* Notes a failure if it is the first, or if the connection is lost by it. Returns its status. */
moonpad_status mp_remote_note(mp_remote_connection *connection, moonpad_status status, mp_remote_again again,
                              const char *code, const moonpad_error *error);
void mp_remote_clear_failure(mp_remote_connection *connection);
bool mp_remote_is_broken(const mp_remote_connection *connection);
/* NULL: no memory. */
char *mp_remote_copy_text(mp_env *env, const char *text);
/* Replaces the password in a text by "...". */
void mp_remote_scrub(const mp_remote *remote, char *text);

/* ---- transactions.c ---- */

moonpad_status mp_remote_write(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
/* For what is better left out than waited for: it is tried once, on a connection that is free. */
moonpad_status mp_remote_write_in_a_hurry(mp_store *store, mp_tx_function function, void *context,
                                          moonpad_error *error);
moonpad_status mp_remote_read(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);

/* mp_tx_ops.apply: a revision above MP_MAX_REVISION is MOONPAD_LIMIT. */
moonpad_status mp_remote_check_revisions(const mp_batch *batch, moonpad_error *error);

/* ---- plans.c ---- */

/* mp_store_ops.append. */
void mp_remote_append(mp_store *store, mp_plan *plans, size_t count);
/* An mp_send_plans. */
void mp_remote_send_plans(void *store, mp_sent_plan *const *plans, size_t count);
/* Does it add to what is stored, so that it has a result? */
bool mp_plan_adds(const mp_guarded *operation);
/* The heads that a plan counts up. */
unsigned mp_plan_heads(const mp_plan *plan);
/*
** A sum has its memory before it is sent: it is stored then, and there must be no want of memory to
** say so. (Of an array nobody knows how long it will be.) False: there is none now.
*/
bool mp_plan_reserve_sums(mp_env *env, mp_plan *plan);
/* What the heads of a stored plan were before it decides what is whole, as in mp_look. */
void mp_plan_note_whole(mp_plan *plan);
/* It has neither an outcome nor a failure. */
bool mp_remote_is_untried(const mp_sent_plan *sent);

#endif
