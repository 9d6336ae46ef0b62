/* Artifacts on PostgreSQL. */
#include "agent_stores/postgres/stores.h"
#include "base/error.h"

typedef struct postgres_artifacts {
  mp_artifacts base; /* first */
  mp_env *env;
  mp_store *store;
} postgres_artifacts;

static mp_store *store_of(mp_artifacts *artifacts) {
  return ((postgres_artifacts *)artifacts)->store;
}

/* What statements are sent with. */
typedef struct artifact_question {
  const mp_artifact_name *name;
  const mp_agent_time *time;
  const mp_artifact *artifact;
  int64_t number; /* a version, the id of a file, or how many */
} artifact_question;

static void add_user(mp_postgres_parameters *parameters, const mp_artifact_name *name) {
  mp_postgres_add_text(parameters, name->app_name);
  mp_postgres_add_text(parameters, name->user_id);
}

static void add_file(mp_postgres_parameters *parameters, const mp_artifact_name *name) {
  add_user(parameters, name);
  mp_postgres_add_text(parameters, name->session_id);
  mp_postgres_add_text(parameters, name->filename);
}

/* ---- saving ---- */

static void add_save(mp_postgres_parameters *parameters, const void *asked) {
  const artifact_question *save = asked;
  const mp_artifact *artifact = save->artifact;
  add_file(parameters, save->name);
  mp_postgres_add_double(parameters, save->time->now);
  mp_postgres_add_double(parameters, mp_agent_alive_since(save->time));
  if (artifact->is_text) {
    mp_postgres_add_null(parameters);
  } else {
    mp_postgres_add_text(parameters, artifact->mime_type);
  }
  if (artifact->has_display_name) {
    mp_postgres_add_bytes(parameters, artifact->display_name);
  } else {
    mp_postgres_add_null(parameters);
  }
  mp_postgres_add_bytes(parameters, artifact->data);
}

static moonpad_status save(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           const mp_artifact *artifact, int64_t *version, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time, .artifact = artifact};
  mp_postgres_call call = {MP_PG_SAVE_ARTIFACT, add_save, &asked, mp_postgres_take_number, version};
  *version = 0;
  return mp_postgres_change(store_of(artifacts), &call, error);
}

/* ---- loading ---- */

typedef struct loaded_artifact {
  bool found;
  int64_t file;
  double touched;
  mp_artifact *artifact;
  mp_buffer *bytes;
} loaded_artifact;

static void add_load(mp_postgres_parameters *parameters, const void *asked) {
  const artifact_question *load = asked;
  add_file(parameters, load->name);
  mp_postgres_add_double(parameters, mp_agent_alive_since(load->time));
  if (load->number == MP_ARTIFACT_LATEST) {
    mp_postgres_add_null(parameters);
  } else {
    mp_postgres_add_integer(parameters, load->number);
  }
}

/* The pointers are set once the buffer no longer moves. */
static moonpad_status take_artifact(void *found, const PGresult *rows, moonpad_error *error) {
  enum { MIME_TYPE, DISPLAY_NAME, DATA, FILE_ID, TOUCHED };
  loaded_artifact *loaded = found;
  mp_artifact *artifact = loaded->artifact;
  mp_buffer_clear(loaded->bytes);
  loaded->found = PQntuples(rows) > 0;
  if (!loaded->found) return MOONPAD_OK;
  artifact->is_text = mp_postgres_is_null(rows, 0, MIME_TYPE);
  artifact->has_display_name = !mp_postgres_is_null(rows, 0, DISPLAY_NAME);
  artifact->data = mp_postgres_bytes(rows, 0, DATA);
  artifact->mime_type = mp_postgres_bytes(rows, 0, MIME_TYPE);
  artifact->display_name = mp_postgres_bytes(rows, 0, DISPLAY_NAME);
  loaded->file = mp_postgres_integer(rows, 0, FILE_ID);
  loaded->touched = mp_postgres_double(rows, 0, TOUCHED);
  mp_buffer_add_string(loaded->bytes, artifact->data);
  mp_buffer_add_string(loaded->bytes, artifact->mime_type);
  mp_buffer_add_string(loaded->bytes, artifact->display_name);
  return loaded->bytes->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void add_renewal(mp_postgres_parameters *parameters, const void *asked) {
  const artifact_question *renewal = asked;
  mp_postgres_add_integer(parameters, renewal->number);
  mp_postgres_add_double(parameters, renewal->time->now);
}

static moonpad_status load(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           int64_t version, bool *found, mp_artifact *artifact, mp_buffer *bytes,
                           moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time, .number = version};
  loaded_artifact loaded = {.artifact = artifact, .bytes = bytes};
  mp_postgres_call call = {MP_PG_LOAD_ARTIFACT, add_load, &asked, take_artifact, &loaded};
  moonpad_status status = mp_postgres_ask(store_of(artifacts), &call, error);
  *found = status == MOONPAD_OK && loaded.found;
  if (!*found) return status;
  artifact->data.data = bytes->data;
  artifact->mime_type.data = bytes->data + artifact->data.length;
  artifact->display_name.data = artifact->mime_type.data + artifact->mime_type.length;
  if (loaded.touched >= mp_agent_renewed_since(time)) return status;
  /* What was read has been read, whether this is stored or not. */
  artifact_question renewal = {.time = time, .number = loaded.file};
  mp_postgres_call renew = {MP_PG_RENEW_ARTIFACT, add_renewal, &renewal, NULL, NULL};
  mp_postgres_renew(store_of(artifacts), &renew);
  return status;
}

/* ---- listing ---- */

static void add_list(mp_postgres_parameters *parameters, const void *asked) {
  const artifact_question *list = asked;
  add_user(parameters, list->name);
  mp_postgres_add_text(parameters, list->name->session_id);
  mp_postgres_add_double(parameters, mp_agent_alive_since(list->time));
}

static moonpad_status take_filenames(void *found, const PGresult *rows, moonpad_error *error) {
  mp_buffer *filenames = found;
  mp_buffer_clear(filenames);
  for (int row = 0; row < PQntuples(rows); row++) {
    mp_buffer_add_string(filenames, mp_postgres_bytes(rows, row, 0));
    mp_buffer_add_char(filenames, '\0');
  }
  return filenames->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status list(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           mp_buffer *filenames, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time};
  mp_postgres_call call = {MP_PG_LIST_ARTIFACTS, add_list, &asked, take_filenames, filenames};
  return mp_postgres_ask(store_of(artifacts), &call, error);
}

static void add_file_alive(mp_postgres_parameters *parameters, const void *asked) {
  const artifact_question *question = asked;
  add_file(parameters, question->name);
  mp_postgres_add_double(parameters, mp_agent_alive_since(question->time));
}

static moonpad_status take_versions(void *found, const PGresult *rows, moonpad_error *error) {
  mp_buffer *versions = found;
  mp_buffer_clear(versions);
  for (int row = 0; row < PQntuples(rows); row++) {
    int64_t version = mp_postgres_integer(rows, row, 0);
    mp_buffer_add(versions, (const char *)&version, sizeof version);
  }
  return versions->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status versions(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                               mp_buffer *found, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time};
  mp_postgres_call call = {MP_PG_ARTIFACT_VERSIONS, add_file_alive, &asked, take_versions, found};
  return mp_postgres_ask(store_of(artifacts), &call, error);
}

static void add_after(mp_postgres_parameters *parameters, const void *asked) {
  const artifact_question *question = asked;
  add_file(parameters, question->name);
  mp_postgres_add_integer(parameters, question->number);
}

static moonpad_status take_files(void *found, const PGresult *rows, moonpad_error *error) {
  mp_buffer *files = found;
  mp_buffer_clear(files);
  for (int row = 0; row < PQntuples(rows); row++) {
    int64_t versions = mp_postgres_integer(rows, row, 4);
    for (int column = 0; column < 4; column++) {
      mp_buffer_add_string(files, mp_postgres_bytes(rows, row, column));
      mp_buffer_add_char(files, '\0');
    }
    mp_buffer_add(files, (const char *)&versions, sizeof versions);
  }
  return files->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status files(mp_artifacts *artifacts, const mp_artifact_name *after, int64_t limit, mp_buffer *found,
                            moonpad_error *error) {
  artifact_question asked = {.name = after, .number = limit};
  mp_postgres_call call = {MP_PG_ARTIFACT_FILES, add_after, &asked, take_files, found};
  return mp_postgres_ask(store_of(artifacts), &call, error);
}

/* ---- deleting ---- */

static moonpad_status delete_file(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                                  bool *existed, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time};
  int64_t found = 0;
  mp_postgres_call call = {MP_PG_DELETE_ARTIFACT, add_file_alive, &asked, mp_postgres_take_number, &found};
  moonpad_status status = mp_postgres_change(store_of(artifacts), &call, error);
  *existed = status == MOONPAD_OK && found != 0;
  return status;
}

static void add_user_alive(mp_postgres_parameters *parameters, const void *asked) {
  const artifact_question *question = asked;
  add_user(parameters, question->name);
  mp_postgres_add_double(parameters, mp_agent_alive_since(question->time));
}

static moonpad_status delete_user(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                                  int64_t *files, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time};
  mp_postgres_call call = {MP_PG_DELETE_ARTIFACTS, add_user_alive, &asked, mp_postgres_take_number, files};
  moonpad_status status = mp_postgres_change(store_of(artifacts), &call, error);
  if (status != MOONPAD_OK) *files = 0;
  return status;
}

static moonpad_status sweep(mp_artifacts *artifacts, const mp_agent_time *time, int64_t *files, moonpad_error *error) {
  *files = 0;
  if (time->time_to_live == 0) return mp_remote_check_open(store_of(artifacts), error);
  return mp_postgres_sweep_table(store_of(artifacts), MP_PG_SWEEP_ARTIFACTS, 0, time, files, error);
}

/* ---- opening and closing ---- */

static void close_store(mp_artifacts *artifacts) {
  store_of(artifacts)->ops->close(store_of(artifacts));
}

static void free_store(mp_artifacts *artifacts) {
  postgres_artifacts *self = (postgres_artifacts *)artifacts;
  mp_env *env = self->env;
  if (self->store != NULL) {
    self->store->ops->close(self->store);
    self->store->ops->free(self->store);
  }
  mp_release(env, self);
  mp_env_release(env);
}

moonpad_status mp_postgres_artifacts_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                          mp_artifacts **artifacts, moonpad_error *error) {
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
  postgres_artifacts *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  made->base.ops = &ops;
  made->env = mp_env_retain(env);
  moonpad_status status =
      mp_postgres_open_tables(env, rest, options, &mp_postgres_artifact_tables, &made->store, error);
  if (status == MOONPAD_OK) {
    *artifacts = &made->base;
  } else {
    free_store(&made->base);
  }
  return status;
}
