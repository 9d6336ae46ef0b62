/*
** src/agent_stores/redis: artifacts and memories on Redis, on the store of the sessions
** (src/store/redis): its connections, its transactions, its prefix of keys. A module of its own,
** with hiredis.
** Does not belong here: which words a text has and which memories are the best, which are the same
** on every store (words.h, lookup.h, ranking.h).
**
** artifacts.c        artifacts.h
** memories.c         memories.h: opening, deleting, sweeping
** remember.c         memories.h: writing
** search.c           memories.h: searching
** memory_lists.c     memories.h: listing for tools
** calls.c            one call in one transaction
** apps.c             the apps, in order
** sweep.c            sweeping all of them
** scripts            the questions and the writes, parts of the script of transactions; the layout
**                    of the keys
** opener.c           how these stores are handed in (agent_stores/opener.h)
** module.c           the Lua module moonpad.redis_agent_stores
**
** All keys of an app carry its hash tag. A question is one script. A write is told what its
** question has answered, and stores nothing if the answer would be another one by now: then the
** transaction is called again.
*/
#ifndef MP_AGENT_STORES_REDIS_STORES_H
#define MP_AGENT_STORES_REDIS_STORES_H

#include "agent_stores/opener.h"
#include "agent_stores/words.h"
#include "store/redis/redis.h"
#include "store/redis/scripts.h"

moonpad_status mp_redis_artifacts_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                       mp_artifacts **artifacts, moonpad_error *error);
moonpad_status mp_redis_artifacts_open_tls(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                           mp_artifacts **artifacts, moonpad_error *error);
moonpad_status mp_redis_artifacts_open_cluster(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                               mp_artifacts **artifacts, moonpad_error *error);
moonpad_status mp_redis_memories_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                      mp_memories **memories, moonpad_error *error);
moonpad_status mp_redis_memories_open_tls(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                          mp_memories **memories, moonpad_error *error);
moonpad_status mp_redis_memories_open_cluster(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                              mp_memories **memories, moonpad_error *error);

/* ---- calls.c ---- */

/* One transaction: a question, a write, or a write after a question. */
typedef struct mp_redis_agent_call {
  const char *question; /* its name, behind a "?"; NULL: none is asked */
  const char *write;    /* its name; NULL: nothing is written */
  moonpad_string app_name;
  moonpad_string user_id;
  /* What question and write take behind app and user. */
  void (*add)(mp_redis_arguments *out, void *context);
  /*
  ** Takes the answer to the question, whose third item is the first of its own. A write may be
  ** called again: then it forgets what an earlier attempt has found.
  */
  moonpad_status (*take)(struct mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                         moonpad_error *error);
  /* What the write takes in the end. NULL: nothing more. */
  void (*add_write)(mp_redis_arguments *out, void *context);
  void *context;
  bool is_idle; /* set by `take`: there is nothing to write */
} mp_redis_agent_call;

enum { MP_REDIS_ANSWER = 2 }; /* the first item of a question's own */

moonpad_status mp_redis_agent_ask(mp_store *store, mp_redis_agent_call *call, moonpad_error *error);
/* In a transaction that writes. */
moonpad_status mp_redis_agent_change(mp_store *store, mp_redis_agent_call *call, moonpad_error *error);
/* The same for a renewal after a read: if it cannot be stored at once, nothing is said. */
void mp_redis_agent_renew(mp_store *store, mp_redis_agent_call *call);
/* A time; one before all others in place of an infinite one. */
void mp_redis_agent_add_time(mp_redis_arguments *out, double time);

/* ---- apps.c ---- */

/* Those behind `after` (empty: all), in order, until `each` returns something but MOONPAD_OK. */
moonpad_status mp_redis_agent_each_app(mp_store *store, moonpad_string after, mp_each_name each, void *context,
                                       moonpad_error *error);

/* ---- sweep.c ---- */

/*
** Sweeps every app, in small transactions, and counts up *removed. The
** question answers with how many count, with rows of three names, and with the three names of the
** place where it goes on; the write takes the rows.
*/
moonpad_status mp_redis_agent_sweep(mp_store *store, const char *question, const char *write, const mp_agent_time *time,
                                    int64_t *removed, moonpad_error *error);

/* ---- memories.c, remember.c, search.c, memory_lists.c ---- */

typedef struct mp_redis_memories {
  mp_memories base; /* first */
  mp_env *env;
  mp_store *store;
  mp_tokenizer *tokenizer;
} mp_redis_memories;

static inline mp_store *mp_redis_store_of(mp_memories *memories) {
  return ((mp_redis_memories *)memories)->store;
}

/* A creation of a session, as it stands in a list: its name and, so that it sorts, its time. */
void mp_redis_add_memory_session(mp_redis_arguments *out, moonpad_string session_id, double create_time);

moonpad_status mp_redis_memories_write(mp_memories *memories, const mp_memories_session *session,
                                       const mp_agent_time *time, const mp_memories_batch *batch, moonpad_error *error);
moonpad_status mp_redis_memories_search(mp_memories *memories, const mp_memories_query *query,
                                        const mp_agent_time *time, mp_buffer *matches, moonpad_error *error);
moonpad_status mp_redis_memories_sessions(mp_memories *memories, const mp_memories_session *after, int64_t limit,
                                          mp_buffer *sessions, moonpad_error *error);
moonpad_status mp_redis_memories_entries(mp_memories *memories, const mp_memories_session *session, int64_t after,
                                         int64_t limit, mp_buffer *entries, moonpad_error *error);

#endif
