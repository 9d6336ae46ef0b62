/* Memories on MariaDB and MySQL: opening, the watermark, deleting, sweeping. */
#include "agent_stores/mysql/stores.h"
#include "base/error.h"

void mp_mysql_memory_session(mp_mysql_connection *connection, const mp_memories_session *session) {
  mp_mysql_sql_text(connection, "", session->app_name);
  mp_mysql_sql_text(connection, ",", session->user_id);
  mp_mysql_sql_text(connection, ",", session->session_id);
  mp_mysql_sql_time(connection, ",", session->create_time);
}

/* ---- the watermark ---- */

typedef struct watermark {
  const mp_memories_session *session;
  int64_t revision;
} watermark;

static void write_indexed(mp_mysql_connection *connection, void *context) {
  watermark *asked = context;
  const mp_memories_session *session = asked->session;
  asked->revision = 0;
  mp_mysql_begin(connection, mp_mysql_take_number, &asked->revision);
  mp_mysql_sql(connection, "SELECT s.indexed_revision FROM #memory_owners o STRAIGHT_JOIN #memory_sessions s"
                           " ON s.owner = o.id WHERE");
  mp_mysql_sql_text(connection, " o.app_name = ", session->app_name);
  mp_mysql_sql_text(connection, " AND o.user_id = ", session->user_id);
  mp_mysql_sql_text(connection, " AND s.session_id = ", session->session_id);
  mp_mysql_sql_time(connection, " AND s.create_time = ", session->create_time);
}

static moonpad_status indexed(mp_memories *memories, const mp_memories_session *session, int64_t *revision,
                              moonpad_error *error) {
  watermark asked = {.session = session};
  mp_mysql_call call = {write_indexed, &asked, true, 0};
  moonpad_status status = mp_mysql_ask_once(mp_mysql_store_of(memories), &call, error);
  *revision = status == MOONPAD_OK ? asked.revision : 0;
  return status;
}

/* ---- deleting ---- */

typedef struct deletion {
  const mp_memories_owner *owner;
  const mp_agent_time *time;
  int64_t id;
  int64_t answer;
} deletion;

static void begin_deletion(mp_mysql_connection *connection, const char *sql, deletion *wanted) {
  wanted->answer = 0;
  mp_mysql_begin_call(connection, mp_mysql_take_number, &wanted->answer);
  mp_mysql_sql_text(connection, sql, wanted->owner->app_name);
  mp_mysql_sql_text(connection, ",", wanted->owner->user_id);
}

static void end_deletion(mp_mysql_connection *connection, const deletion *wanted) {
  mp_mysql_sql_time(connection, ",", mp_agent_alive_since(wanted->time));
  mp_mysql_sql(connection, ")");
}

static void write_delete_memory(mp_mysql_connection *connection, void *context) {
  deletion *wanted = context;
  begin_deletion(connection, "CALL #delete_memory_1(", wanted);
  mp_mysql_sql_integer(connection, ",", wanted->id);
  end_deletion(connection, wanted);
}

static moonpad_status delete_memory(mp_memories *memories, const mp_memories_owner *owner, moonpad_string id,
                                    const mp_agent_time *time, bool *existed, moonpad_error *error) {
  mp_store *store = mp_mysql_store_of(memories);
  deletion wanted = {.owner = owner, .time = time};
  *existed = false;
  if (!mp_memories_read_id(id, &wanted.id)) return mp_remote_check_open(store, error);
  mp_mysql_call call = {write_delete_memory, &wanted, true, 0};
  moonpad_status status = mp_mysql_change_once(store, &call, error);
  *existed = status == MOONPAD_OK && wanted.answer != 0;
  return status;
}

static void write_delete_all(mp_mysql_connection *connection, void *context) {
  deletion *wanted = context;
  begin_deletion(connection, "CALL #delete_memories_1(", wanted);
  if (wanted->owner->session_id.length == 0) {
    mp_mysql_sql(connection, ",NULL");
  } else {
    mp_mysql_sql_text(connection, ",", wanted->owner->session_id);
  }
  end_deletion(connection, wanted);
}

static moonpad_status delete_all(mp_memories *memories, const mp_memories_owner *owner, const mp_agent_time *time,
                                 int64_t *count, moonpad_error *error) {
  deletion wanted = {.owner = owner, .time = time};
  mp_mysql_call call = {write_delete_all, &wanted, true, 0};
  moonpad_status status = mp_mysql_change_once(mp_mysql_store_of(memories), &call, error);
  *count = status == MOONPAD_OK ? wanted.answer : 0;
  return status;
}

/* Memories, then their sessions, then their owners. */
static moonpad_status sweep(mp_memories *memories, const mp_agent_time *time, int64_t *count, moonpad_error *error) {
  static const char *const steps[] = {"CALL #sweep_memories_1(0,", "CALL #sweep_memories_1(1,",
                                      "CALL #sweep_memories_1(2,"};
  mp_store *store = mp_mysql_store_of(memories);
  moonpad_status status = mp_remote_check_open(store, error);
  *count = 0;
  if (time->time_to_live == 0) return status;
  for (size_t step = 0; step < sizeof steps / sizeof *steps && status == MOONPAD_OK; step++) {
    status = mp_mysql_sweep_table(store, steps[step], time, count, error);
  }
  return status;
}

/* What is deleted is out of the index at once; the server purges it by itself. */
static moonpad_status rebuild_index(mp_memories *memories, moonpad_error *error) {
  return mp_remote_check_open(mp_mysql_store_of(memories), error);
}

/* ---- opening and closing ---- */

static void close_store(mp_memories *memories) {
  mp_store *store = mp_mysql_store_of(memories);
  store->ops->close(store);
}

static void free_store(mp_memories *memories) {
  mp_mysql_memories *self = (mp_mysql_memories *)memories;
  mp_env *env = self->env;
  if (self->store != NULL) {
    self->store->ops->close(self->store);
    self->store->ops->free(self->store);
  }
  mp_tokenizer_free(self->tokenizer);
  mp_release(env, self);
  mp_env_release(env);
}

moonpad_status mp_mysql_memories_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                      mp_memories **memories, moonpad_error *error) {
  static const mp_memories_ops ops = {
      .size = sizeof ops,
      .indexed = indexed,
      .write = mp_mysql_memories_write,
      .search = mp_mysql_memories_search,
      .delete_memory = delete_memory,
      .delete_all = delete_all,
      .sweep = sweep,
      .rebuild_index = rebuild_index,
      .sessions = mp_mysql_memories_sessions,
      .entries = mp_mysql_memories_entries,
      .close = close_store,
      .free = free_store,
  };
  *memories = NULL;
  mp_mysql_memories *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  made->base.ops = &ops;
  made->env = mp_env_retain(env);
  moonpad_status status = mp_tokenizer_new(env, &made->tokenizer, error);
  if (status == MOONPAD_OK) {
    status = mp_mysql_open_tables(env, rest, options, &mp_mysql_memory_tables, &made->store, error);
  }
  if (status == MOONPAD_OK) {
    *memories = &made->base;
  } else {
    free_store(&made->base);
  }
  return status;
}
