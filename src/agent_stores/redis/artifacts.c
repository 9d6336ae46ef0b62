/* Artifacts on Redis. */
#include "agent_stores/redis/stores.h"
#include "base/error.h"

typedef struct redis_artifacts {
  mp_artifacts base; /* first */
  mp_env *env;
  mp_store *store;
} redis_artifacts;

static mp_store *store_of(mp_artifacts *artifacts) {
  return ((redis_artifacts *)artifacts)->store;
}

/* What is asked, and where the answer goes. */
typedef struct artifact_question {
  const mp_artifact_name *name;
  const mp_agent_time *time;
  const mp_artifact *artifact;
  int64_t number; /* a version, or how many; or the answer */
  mp_buffer *found;
} artifact_question;

static mp_redis_agent_call call_of(const mp_artifact_name *name, void *context) {
  return (mp_redis_agent_call){.app_name = name->app_name, .user_id = name->user_id, .context = context};
}

/* ---- what calls take ---- */

static void add_file(mp_redis_arguments *out, const mp_artifact_name *name) {
  mp_redis_add(out, name->session_id);
  mp_redis_add(out, name->filename);
}

static void add_alive_since(mp_redis_arguments *out, const artifact_question *asked) {
  mp_redis_agent_add_time(out, mp_agent_alive_since(asked->time));
}

static void add_living_file(mp_redis_arguments *out, void *context) {
  const artifact_question *asked = context;
  add_file(out, asked->name);
  add_alive_since(out, asked);
}

static moonpad_status take_number(mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                                  moonpad_error *error) {
  artifact_question *asked = call->context;
  (void)connection, (void)error;
  asked->number = mp_redis_integer(mp_redis_item(reply, MP_REDIS_ANSWER));
  return MOONPAD_OK;
}

/* The write says what the question has answered. */
static void add_number(mp_redis_arguments *out, void *context) {
  const artifact_question *asked = context;
  mp_redis_add_integer(out, asked->number);
}

/* ---- saving ---- */

/* What Redis takes as one value, unless it is told otherwise: 512 MiB. */
#define MOST_BYTES ((size_t)512 << 20)

static moonpad_status check_size(const mp_artifact *artifact, moonpad_error *error) {
  const moonpad_string parts[] = {artifact->data, artifact->mime_type, artifact->display_name};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (parts[i].length < MOST_BYTES) continue;
    return mp_fail(error, MOONPAD_LIMIT, "a file of %zu bytes: Redis stores less than 512 MiB in one piece",
                   parts[i].length);
  }
  return MOONPAD_OK;
}

static void add_version(mp_redis_arguments *out, void *context) {
  const artifact_question *save = context;
  const mp_artifact *artifact = save->artifact;
  add_number(out, context);
  mp_redis_add_time(out, save->time->now);
  mp_redis_add_switch(out, !artifact->is_text);
  mp_redis_add(out, artifact->is_text ? moonpad_text("") : artifact->mime_type);
  mp_redis_add_switch(out, artifact->has_display_name);
  mp_redis_add(out, artifact->has_display_name ? artifact->display_name : moonpad_text(""));
  mp_redis_add(out, artifact->data);
}

static moonpad_status save(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           const mp_artifact *artifact, int64_t *version, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time, .artifact = artifact};
  mp_redis_agent_call call = call_of(name, &asked);
  call.question = "?versions";
  call.write = "save";
  call.add = add_living_file;
  call.take = take_number;
  call.add_write = add_version;
  *version = 0;
  moonpad_status status = mp_remote_check_open(store_of(artifacts), error);
  if (status == MOONPAD_OK) status = check_size(artifact, error);
  if (status == MOONPAD_OK) status = mp_redis_agent_change(store_of(artifacts), &call, error);
  if (status == MOONPAD_OK) *version = asked.number;
  return status;
}

/* ---- loading ---- */

typedef struct artifact_load {
  artifact_question asked; /* first */
  bool found;
  double used;
  mp_artifact *artifact;
} artifact_load;

static void add_load(mp_redis_arguments *out, void *context) {
  add_living_file(out, context);
  add_number(out, context);
}

/* The pointers are set once the buffer no longer moves. */
static moonpad_status take_artifact(mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                                    moonpad_error *error) {
  enum { WORD, MIME_TYPE = MP_REDIS_ANSWER, DISPLAY_NAME, DATA, USED };
  artifact_load *load = call->context;
  mp_artifact *artifact = load->artifact;
  mp_buffer *bytes = load->asked.found;
  (void)connection;
  mp_buffer_clear(bytes);
  load->found = mp_redis_says(mp_redis_item(reply, WORD), "ok");
  if (!load->found) return MOONPAD_OK;
  artifact->mime_type = mp_redis_string(mp_redis_item(reply, MIME_TYPE));
  artifact->display_name = mp_redis_string(mp_redis_item(reply, DISPLAY_NAME));
  artifact->data = mp_redis_string(mp_redis_item(reply, DATA));
  artifact->is_text = artifact->mime_type.data == NULL;
  artifact->has_display_name = artifact->display_name.data != NULL;
  load->used = mp_redis_time(mp_redis_item(reply, USED));
  mp_buffer_add_string(bytes, artifact->data);
  mp_buffer_add_string(bytes, artifact->mime_type);
  mp_buffer_add_string(bytes, artifact->display_name);
  return bytes->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void add_renewal(mp_redis_arguments *out, void *context) {
  const artifact_question *renewal = context;
  add_file(out, renewal->name);
  mp_redis_add_time(out, renewal->time->now);
}

static moonpad_status load(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           int64_t version, bool *found, mp_artifact *artifact, mp_buffer *bytes,
                           moonpad_error *error) {
  artifact_load loaded = {.asked = {.name = name, .time = time, .number = version, .found = bytes},
                          .artifact = artifact};
  mp_redis_agent_call call = call_of(name, &loaded);
  call.question = "?load";
  call.add = add_load;
  call.take = take_artifact;
  moonpad_status status = mp_redis_agent_ask(store_of(artifacts), &call, error);
  *found = status == MOONPAD_OK && loaded.found;
  if (!*found) return status;
  artifact->data.data = bytes->data;
  artifact->mime_type.data = bytes->data + artifact->data.length;
  artifact->display_name.data = artifact->mime_type.data + artifact->mime_type.length;
  if (loaded.used >= mp_agent_renewed_since(time)) return status;
  /* What was read has been read, whether this is stored or not. */
  mp_redis_agent_call renew = call_of(name, &loaded.asked);
  renew.write = "use";
  renew.add = add_renewal;
  mp_redis_agent_renew(store_of(artifacts), &renew);
  return status;
}

/* ---- listing ---- */

static void add_list(mp_redis_arguments *out, void *context) {
  const artifact_question *asked = context;
  mp_redis_add(out, asked->name->session_id);
  add_alive_since(out, asked);
}

static int compare(moonpad_string a, moonpad_string b) {
  int order = memcmp(a.data, b.data, a.length < b.length ? a.length : b.length);
  return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

/* Those of the user and those of the session, both in order. */
static moonpad_status take_filenames(mp_redis_agent_call *call, mp_redis_connection *connection,
                                     const redisReply *reply, moonpad_error *error) {
  const artifact_question *asked = call->context;
  const redisReply *lists[] = {mp_redis_item(reply, MP_REDIS_ANSWER), mp_redis_item(reply, MP_REDIS_ANSWER + 1)};
  size_t at[] = {0, 0};
  (void)connection;
  mp_buffer_clear(asked->found);
  while (at[0] < mp_redis_count(lists[0]) || at[1] < mp_redis_count(lists[1])) {
    const redisReply *heads[] = {mp_redis_item(lists[0], at[0]), mp_redis_item(lists[1], at[1])};
    int order = heads[0] == NULL   ? 1
                : heads[1] == NULL ? -1
                                   : compare(mp_redis_string(heads[0]), mp_redis_string(heads[1]));
    mp_buffer_add_string(asked->found, mp_redis_string(heads[order > 0]));
    mp_buffer_add_char(asked->found, '\0');
    at[0] += order <= 0;
    at[1] += order >= 0;
  }
  return asked->found->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status list(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           mp_buffer *filenames, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time, .found = filenames};
  mp_redis_agent_call call = call_of(name, &asked);
  call.question = "?list_files";
  call.add = add_list;
  call.take = take_filenames;
  return mp_redis_agent_ask(store_of(artifacts), &call, error);
}

/* All that have been saved are there: they are deleted together. */
static moonpad_status versions(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                               mp_buffer *found, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time};
  mp_redis_agent_call call = call_of(name, &asked);
  call.question = "?versions";
  call.add = add_living_file;
  call.take = take_number;
  mp_buffer_clear(found);
  moonpad_status status = mp_redis_agent_ask(store_of(artifacts), &call, error);
  if (status != MOONPAD_OK) return status;
  for (int64_t version = 0; version < asked.number && !found->failed; version++) {
    mp_buffer_add(found, (const char *)&version, sizeof version);
  }
  return found->failed ? mp_no_memory(error) : MOONPAD_OK;
}

/* ---- the files of everybody ---- */

typedef struct file_walk {
  mp_store *store;
  int64_t left; /* how many more at most */
  mp_buffer *files;
} file_walk;

static void add_after(mp_redis_arguments *out, void *context) {
  const artifact_question *asked = context;
  add_file(out, asked->name);
  mp_redis_add_integer(out, asked->number);
}

/* Of each: user, session, file, versions. */
static moonpad_status take_files(mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                                 moonpad_error *error) {
  artifact_question *asked = call->context;
  const redisReply *rows = mp_redis_item(reply, MP_REDIS_ANSWER);
  (void)connection;
  for (size_t i = 0; i + 3 < mp_redis_count(rows); i += 4) {
    int64_t held = mp_redis_integer(mp_redis_item(rows, i + 3));
    mp_buffer_add_string(asked->found, call->app_name);
    for (size_t j = 0; j < 3; j++) {
      mp_buffer_add_char(asked->found, '\0');
      mp_buffer_add_string(asked->found, mp_redis_string(mp_redis_item(rows, i + j)));
    }
    mp_buffer_add_char(asked->found, '\0');
    mp_buffer_add(asked->found, (const char *)&held, sizeof held);
  }
  if (asked->found->failed) return mp_no_memory(error);
  asked->number -= (int64_t)(mp_redis_count(rows) / 4);
  return MOONPAD_OK;
}

static moonpad_status add_files(file_walk *walk, const mp_artifact_name *after, moonpad_error *error) {
  artifact_question asked = {.name = after, .number = walk->left, .found = walk->files};
  mp_redis_agent_call call = call_of(after, &asked);
  call.question = "?files";
  call.add = add_after;
  call.take = take_files;
  moonpad_status status = mp_redis_agent_ask(walk->store, &call, error);
  walk->left = asked.number;
  return status;
}

static moonpad_status add_files_of_app(void *context, moonpad_string app_name, moonpad_error *error) {
  file_walk *walk = context;
  mp_artifact_name first = {.app_name = app_name};
  if (walk->left <= 0) return MP_STOP;
  return add_files(walk, &first, error);
}

/* The apps are looked for only when that of `after` has no more. */
static moonpad_status files(mp_artifacts *artifacts, const mp_artifact_name *after, int64_t limit, mp_buffer *found,
                            moonpad_error *error) {
  file_walk walk = {.store = store_of(artifacts), .left = limit, .files = found};
  moonpad_status status = mp_remote_check_open(walk.store, error);
  mp_buffer_clear(found);
  if (status == MOONPAD_OK && after->app_name.length > 0) status = add_files(&walk, after, error);
  if (status != MOONPAD_OK || walk.left <= 0) return status;
  return mp_redis_agent_each_app(walk.store, after->app_name, add_files_of_app, &walk, error);
}

/* ---- deleting ---- */

/* How many are alive, and how many there are: what has expired goes as well. */
static moonpad_status take_deletion(mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                                    moonpad_error *error) {
  call->is_idle = mp_redis_integer(mp_redis_item(reply, MP_REDIS_ANSWER + 1)) == 0;
  return take_number(call, connection, reply, error);
}

static moonpad_status run_deletion(mp_artifacts *artifacts, mp_redis_agent_call *call, moonpad_error *error) {
  artifact_question *asked = call->context;
  call->take = take_deletion;
  call->add_write = add_number;
  moonpad_status status = mp_redis_agent_change(store_of(artifacts), call, error);
  if (status != MOONPAD_OK) asked->number = 0;
  return status;
}

static moonpad_status delete_file(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                                  bool *existed, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time};
  mp_redis_agent_call call = call_of(name, &asked);
  call.question = "?delete_file";
  call.write = "delete_file";
  call.add = add_living_file;
  moonpad_status status = run_deletion(artifacts, &call, error);
  *existed = asked.number != 0;
  return status;
}

static void add_time(mp_redis_arguments *out, void *context) {
  add_alive_since(out, context);
}

static moonpad_status delete_user(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                                  int64_t *count, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time};
  mp_redis_agent_call call = call_of(name, &asked);
  call.question = "?delete_files";
  call.write = "delete_files";
  call.add = add_time;
  moonpad_status status = run_deletion(artifacts, &call, error);
  *count = asked.number;
  return status;
}

static moonpad_status sweep(mp_artifacts *artifacts, const mp_agent_time *time, int64_t *count, moonpad_error *error) {
  *count = 0;
  if (time->time_to_live == 0) return mp_remote_check_open(store_of(artifacts), error);
  return mp_redis_agent_sweep(store_of(artifacts), "?old_files", "sweep_files", time, count, error);
}

/* ---- opening and closing ---- */

static void close_store(mp_artifacts *artifacts) {
  store_of(artifacts)->ops->close(store_of(artifacts));
}

static void free_store(mp_artifacts *artifacts) {
  redis_artifacts *self = (redis_artifacts *)artifacts;
  mp_env *env = self->env;
  if (self->store != NULL) {
    self->store->ops->close(self->store);
    self->store->ops->free(self->store);
  }
  mp_release(env, self);
  mp_env_release(env);
}

static moonpad_status open_any(mp_env *env, mp_redis_kind kind, moonpad_string rest, const moonpad_options *options,
                               mp_artifacts **artifacts, moonpad_error *error) {
  static const char *const scripts[] = {mp_redis_lua_lists, mp_redis_lua_artifacts, NULL};
  const mp_redis_extras extras = {.kind = kind, .registry = "file_apps", .script = scripts};
  static const mp_artifacts_ops ops = {
      .size = sizeof ops,
      .save = save,
      .load = load,
      .list = list,
      .versions = versions,
      .delete_file = delete_file,
      .delete_user = delete_user,
      .sweep = sweep,
      .files = files,
      .close = close_store,
      .free = free_store,
  };
  *artifacts = NULL;
  redis_artifacts *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  made->base.ops = &ops;
  made->env = mp_env_retain(env);
  moonpad_status status = mp_redis_open_with(env, rest, options, &extras, &made->store, error);
  if (status == MOONPAD_OK) {
    *artifacts = &made->base;
  } else {
    free_store(&made->base);
  }
  return status;
}

moonpad_status mp_redis_artifacts_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                       mp_artifacts **artifacts, moonpad_error *error) {
  return open_any(env, MP_REDIS_SINGLE, rest, options, artifacts, error);
}

moonpad_status mp_redis_artifacts_open_tls(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                           mp_artifacts **artifacts, moonpad_error *error) {
  return open_any(env, MP_REDIS_WITH_TLS, rest, options, artifacts, error);
}

moonpad_status mp_redis_artifacts_open_cluster(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                               mp_artifacts **artifacts, moonpad_error *error) {
  return open_any(env, MP_REDIS_CLUSTER, rest, options, artifacts, error);
}
