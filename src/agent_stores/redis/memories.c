/* Memories on Redis: opening, the watermark, deleting, sweeping. */
#include <inttypes.h>
#include <stdio.h>

#include "agent_stores/redis/stores.h"
#include "base/error.h"

/* The bits of a double, changed so that they sort as the numbers do. */
static uint64_t sortable(double time) {
  const uint64_t sign = UINT64_C(1) << 63;
  uint64_t bits;
  time += 0.0; /* -0 is 0 */
  memcpy(&bits, &time, sizeof bits);
  return (bits & sign) != 0 ? ~bits : bits | sign;
}

void mp_redis_add_memory_session(mp_redis_arguments *out, moonpad_string session_id, double create_time) {
  char digits[17];
  snprintf(digits, sizeof digits, "%016" PRIX64, sortable(create_time));
  mp_buffer_add_string(&out->bytes, session_id);
  mp_buffer_add_char(&out->bytes, '\0');
  mp_redis_add_text(out, digits);
}

/* ---- the watermark ---- */

typedef struct watermark {
  const mp_memories_session *session;
  int64_t revision;
} watermark;

static void add_session(mp_redis_arguments *out, void *context) {
  const watermark *asked = context;
  mp_redis_add_memory_session(out, asked->session->session_id, asked->session->create_time);
}

static moonpad_status take_revision(mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                                    moonpad_error *error) {
  watermark *asked = call->context;
  (void)connection, (void)error;
  asked->revision = mp_redis_integer(mp_redis_item(reply, MP_REDIS_ANSWER));
  return MOONPAD_OK;
}

static moonpad_status indexed(mp_memories *memories, const mp_memories_session *session, int64_t *revision,
                              moonpad_error *error) {
  watermark asked = {.session = session};
  mp_redis_agent_call call = {.question = "?indexed",
                              .app_name = session->app_name,
                              .user_id = session->user_id,
                              .add = add_session,
                              .take = take_revision,
                              .context = &asked};
  moonpad_status status = mp_redis_agent_ask(mp_redis_store_of(memories), &call, error);
  *revision = status == MOONPAD_OK ? asked.revision : 0;
  return status;
}

/* ---- deleting ---- */

typedef struct deletion {
  const mp_memories_owner *owner;
  const mp_agent_time *time;
  moonpad_string what; /* the id of a memory, or the name of a session; empty: of all */
  int64_t answer;
} deletion;

static void add_deletion(mp_redis_arguments *out, void *context) {
  const deletion *wanted = context;
  mp_redis_agent_add_time(out, mp_agent_alive_since(wanted->time));
  mp_redis_add(out, wanted->what);
}

/* How many are alive; and whether there is anything else that goes with them. */
static moonpad_status take_deletion(mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                                    moonpad_error *error) {
  deletion *wanted = call->context;
  (void)connection, (void)error;
  wanted->answer = mp_redis_integer(mp_redis_item(reply, MP_REDIS_ANSWER));
  call->is_idle = mp_redis_integer(mp_redis_item(reply, MP_REDIS_ANSWER + 1)) == 0;
  return MOONPAD_OK;
}

static void add_answer(mp_redis_arguments *out, void *context) {
  const deletion *wanted = context;
  mp_redis_add_integer(out, wanted->answer);
}

static moonpad_status run_deletion(mp_memories *memories, deletion *wanted, const char *question, const char *write,
                                   moonpad_error *error) {
  mp_redis_agent_call call = {.question = question,
                              .write = write,
                              .app_name = wanted->owner->app_name,
                              .user_id = wanted->owner->user_id,
                              .add = add_deletion,
                              .take = take_deletion,
                              .add_write = add_answer,
                              .context = wanted};
  moonpad_status status = mp_redis_agent_change(mp_redis_store_of(memories), &call, error);
  if (status != MOONPAD_OK) wanted->answer = 0;
  return status;
}

static moonpad_status delete_memory(mp_memories *memories, const mp_memories_owner *owner, moonpad_string id,
                                    const mp_agent_time *time, bool *existed, moonpad_error *error) {
  deletion wanted = {.owner = owner, .time = time, .what = id};
  int64_t number;
  *existed = false;
  if (!mp_memories_read_id(id, &number)) return mp_remote_check_open(mp_redis_store_of(memories), error);
  moonpad_status status = run_deletion(memories, &wanted, "?delete_memory", "delete_memory", error);
  *existed = wanted.answer != 0;
  return status;
}

static moonpad_status delete_all(mp_memories *memories, const mp_memories_owner *owner, const mp_agent_time *time,
                                 int64_t *count, moonpad_error *error) {
  deletion wanted = {.owner = owner, .time = time, .what = owner->session_id};
  moonpad_status status = run_deletion(memories, &wanted, "?delete_memories", "delete_memories", error);
  *count = wanted.answer;
  return status;
}

/* Sessions go with their last memory, and users with their last session. */
static moonpad_status sweep(mp_memories *memories, const mp_agent_time *time, int64_t *count, moonpad_error *error) {
  mp_store *store = mp_redis_store_of(memories);
  *count = 0;
  if (time->time_to_live == 0) return mp_remote_check_open(store, error);
  return mp_redis_agent_sweep(store, "?old_memories", "sweep_memories", time, count, error);
}

/* What is deleted is out of the index at once. */
static moonpad_status rebuild_index(mp_memories *memories, moonpad_error *error) {
  return mp_remote_check_open(mp_redis_store_of(memories), error);
}

/* ---- opening and closing ---- */

static void close_store(mp_memories *memories) {
  mp_store *store = mp_redis_store_of(memories);
  store->ops->close(store);
}

static void free_store(mp_memories *memories) {
  mp_redis_memories *self = (mp_redis_memories *)memories;
  mp_env *env = self->env;
  if (self->store != NULL) {
    self->store->ops->close(self->store);
    self->store->ops->free(self->store);
  }
  mp_tokenizer_free(self->tokenizer);
  mp_release(env, self);
  mp_env_release(env);
}

static moonpad_status open_any(mp_env *env, mp_redis_kind kind, moonpad_string rest, const moonpad_options *options,
                               mp_memories **memories, moonpad_error *error) {
  static const char *const scripts[] = {mp_redis_lua_lists, mp_redis_lua_memories, NULL};
  const mp_redis_extras extras = {.kind = kind, .registry = "memory_apps", .script = scripts};
  static const mp_memories_ops ops = {
      .size = sizeof ops,
      .indexed = indexed,
      .write = mp_redis_memories_write,
      .search = mp_redis_memories_search,
      .delete_memory = delete_memory,
      .delete_all = delete_all,
      .sweep = sweep,
      .rebuild_index = rebuild_index,
      .sessions = mp_redis_memories_sessions,
      .entries = mp_redis_memories_entries,
      .close = close_store,
      .free = free_store,
  };
  *memories = NULL;
  mp_redis_memories *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  made->base.ops = &ops;
  made->env = mp_env_retain(env);
  moonpad_status status = mp_tokenizer_new(env, &made->tokenizer, error);
  if (status == MOONPAD_OK) status = mp_redis_open_with(env, rest, options, &extras, &made->store, error);
  if (status == MOONPAD_OK) {
    *memories = &made->base;
  } else {
    free_store(&made->base);
  }
  return status;
}

moonpad_status mp_redis_memories_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                      mp_memories **memories, moonpad_error *error) {
  return open_any(env, MP_REDIS_SINGLE, rest, options, memories, error);
}

moonpad_status mp_redis_memories_open_tls(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                          mp_memories **memories, moonpad_error *error) {
  return open_any(env, MP_REDIS_WITH_TLS, rest, options, memories, error);
}

moonpad_status mp_redis_memories_open_cluster(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                              mp_memories **memories, moonpad_error *error) {
  return open_any(env, MP_REDIS_CLUSTER, rest, options, memories, error);
}
