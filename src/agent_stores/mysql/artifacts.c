/* Artifacts on MariaDB and MySQL. */
#include "agent_stores/mysql/stores.h"
#include "base/error.h"

typedef struct mysql_artifacts {
  mp_artifacts base; /* first */
  mp_env *env;
  mp_store *store;
} mysql_artifacts;

static mp_store *store_of(mp_artifacts *artifacts) {
  return ((mysql_artifacts *)artifacts)->store;
}

/* What is asked, and where the answer goes. */
typedef struct artifact_question {
  const mp_artifact_name *name;
  const mp_agent_time *time;
  const mp_artifact *artifact;
  int64_t number; /* a version, the id of a file, or how many; or the answer */
  mp_buffer *found;
} artifact_question;

/* ---- names ---- */

enum { NAMES_OF_USER = 2, NAMES = 4 };

static const char *const columns[] = {"app_name", "user_id", "session_id", "filename"};

static void names_in(const mp_artifact_name *name, moonpad_string names[NAMES]) {
  names[0] = name->app_name;
  names[1] = name->user_id;
  names[2] = name->session_id;
  names[3] = name->filename;
}

/* The first parameters of a procedure. */
static void add_names(mp_mysql_connection *connection, const mp_artifact_name *name, size_t count) {
  moonpad_string names[NAMES];
  names_in(name, names);
  for (size_t i = 0; i < count; i++) mp_mysql_sql_text(connection, i == 0 ? "" : ",", names[i]);
}

static void is_file(mp_mysql_connection *connection, const artifact_question *question) {
  moonpad_string names[NAMES];
  names_in(question->name, names);
  mp_mysql_are(connection, columns, names, NAMES);
  mp_mysql_sql_time(connection, " AND touched >= ", mp_agent_alive_since(question->time));
}

/* ---- saving ---- */

static void write_save(mp_mysql_connection *connection, void *context) {
  artifact_question *save = context;
  const mp_artifact *artifact = save->artifact;
  save->number = 0;
  mp_mysql_begin_call(connection, mp_mysql_take_number, &save->number);
  mp_mysql_sql(connection, "CALL #save_artifact_1(");
  add_names(connection, save->name, NAMES);
  mp_mysql_sql_time(connection, ",", save->time->now);
  mp_mysql_sql_time(connection, ",", mp_agent_alive_since(save->time));
  mp_mysql_sql(connection, ")");
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql(connection, "INSERT INTO #artifacts VALUES(@mp_file, @mp_version");
  mp_mysql_sql_time(connection, ",", save->time->now);
  if (artifact->is_text) {
    mp_mysql_sql(connection, ",NULL");
  } else {
    mp_mysql_sql_text(connection, ",", artifact->mime_type);
  }
  if (artifact->has_display_name) {
    mp_mysql_sql_text(connection, ",", artifact->display_name);
  } else {
    mp_mysql_sql(connection, ",NULL");
  }
  mp_mysql_sql_text(connection, ",", artifact->data);
  mp_mysql_sql(connection, ")");
}

static moonpad_status save(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           const mp_artifact *artifact, int64_t *version, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time, .artifact = artifact};
  mp_mysql_call call = {write_save, &asked, true, artifact->data.length};
  moonpad_status status = mp_mysql_change_once(store_of(artifacts), &call, error);
  *version = status == MOONPAD_OK ? asked.number : 0;
  return status;
}

/* ---- loading ---- */

typedef struct artifact_load {
  artifact_question asked;
  bool found;
  int64_t file;
  double touched;
  mp_artifact *artifact;
} artifact_load;

/* The pointers are set once the buffer no longer moves. */
static moonpad_status take_artifact(void *context, const mp_mysql_row *row, moonpad_error *error) {
  enum { MIME_TYPE, DISPLAY_NAME, DATA, FILE_ID, TOUCHED };
  artifact_load *load = context;
  mp_artifact *artifact = load->artifact;
  mp_buffer *bytes = load->asked.found;
  load->found = true;
  artifact->is_text = mp_mysql_is_null(row, MIME_TYPE);
  artifact->has_display_name = !mp_mysql_is_null(row, DISPLAY_NAME);
  artifact->data = mp_mysql_bytes_of(row, DATA);
  artifact->mime_type = mp_mysql_bytes_of(row, MIME_TYPE);
  artifact->display_name = mp_mysql_bytes_of(row, DISPLAY_NAME);
  load->file = mp_mysql_integer_of(row, FILE_ID);
  load->touched = mp_mysql_double_of(row, TOUCHED);
  mp_buffer_add_string(bytes, artifact->data);
  mp_buffer_add_string(bytes, artifact->mime_type);
  mp_buffer_add_string(bytes, artifact->display_name);
  return bytes->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void write_load(mp_mysql_connection *connection, void *context) {
  artifact_load *load = context;
  const artifact_question *asked = &load->asked;
  load->found = false;
  mp_buffer_clear(asked->found);
  mp_mysql_begin(connection, take_artifact, load);
  mp_mysql_sql(connection, "SELECT a.mime_type, a.display_name, a.data, f.id, f.touched FROM #artifact_files f"
                           " STRAIGHT_JOIN #artifacts a ON a.file = f.id WHERE a.version = ");
  if (asked->number == MP_ARTIFACT_LATEST) {
    mp_mysql_sql(connection, "f.next_version - 1");
  } else {
    mp_mysql_integer(connection, asked->number);
  }
  mp_mysql_sql(connection, " AND");
  is_file(connection, asked);
}

static void write_renewal(mp_mysql_connection *connection, void *context) {
  const artifact_question *renewal = context;
  mp_mysql_begin_call(connection, NULL, NULL);
  mp_mysql_sql_integer(connection, "CALL #renew_artifact_1(", renewal->number);
  mp_mysql_sql_time(connection, ",", renewal->time->now);
  mp_mysql_sql(connection, ")");
}

static moonpad_status load(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           int64_t version, bool *found, mp_artifact *artifact, mp_buffer *bytes,
                           moonpad_error *error) {
  artifact_load loaded = {.asked = {.name = name, .time = time, .number = version, .found = bytes},
                          .artifact = artifact};
  mp_mysql_call call = {write_load, &loaded, true, 0};
  moonpad_status status = mp_mysql_ask_once(store_of(artifacts), &call, error);
  *found = status == MOONPAD_OK && loaded.found;
  if (!*found) return status;
  artifact->data.data = bytes->data;
  artifact->mime_type.data = bytes->data + artifact->data.length;
  artifact->display_name.data = artifact->mime_type.data + artifact->mime_type.length;
  if (loaded.touched >= mp_agent_renewed_since(time)) return status;
  /* What was read has been read, whether this is stored or not. */
  artifact_question renewal = {.time = time, .number = loaded.file};
  mp_mysql_call renew = {write_renewal, &renewal, false, 0};
  mp_mysql_renew(store_of(artifacts), &renew);
  return status;
}

/* ---- listing ---- */

static moonpad_status take_filename(void *context, const mp_mysql_row *row, moonpad_error *error) {
  mp_buffer *filenames = context;
  mp_buffer_add_string(filenames, mp_mysql_bytes_of(row, 0));
  mp_buffer_add_char(filenames, '\0');
  return filenames->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void write_list(mp_mysql_connection *connection, void *context) {
  const artifact_question *list = context;
  moonpad_string names[NAMES];
  names_in(list->name, names);
  mp_buffer_clear(list->found);
  mp_mysql_begin(connection, take_filename, list->found);
  mp_mysql_sql(connection, "SELECT DISTINCT filename FROM #artifact_files WHERE");
  mp_mysql_are(connection, columns, names, NAMES_OF_USER);
  mp_mysql_sql_text(connection, " AND session_id IN('',", list->name->session_id);
  mp_mysql_sql_time(connection, ") AND touched >= ", mp_agent_alive_since(list->time));
  mp_mysql_sql(connection, " ORDER BY filename");
}

static moonpad_status list(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                           mp_buffer *filenames, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time, .found = filenames};
  mp_mysql_call call = {write_list, &asked, true, 0};
  return mp_mysql_ask_once(store_of(artifacts), &call, error);
}

static moonpad_status take_version(void *context, const mp_mysql_row *row, moonpad_error *error) {
  mp_buffer *versions = context;
  int64_t version = mp_mysql_integer_of(row, 0);
  mp_buffer_add(versions, (const char *)&version, sizeof version);
  return versions->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void write_versions(mp_mysql_connection *connection, void *context) {
  const artifact_question *asked = context;
  mp_buffer_clear(asked->found);
  mp_mysql_begin(connection, take_version, asked->found);
  mp_mysql_sql(connection, "SELECT a.version FROM #artifact_files f STRAIGHT_JOIN #artifacts a ON a.file = f.id WHERE");
  is_file(connection, asked);
  mp_mysql_sql(connection, " ORDER BY a.version");
}

static moonpad_status versions(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                               mp_buffer *found, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time, .found = found};
  mp_mysql_call call = {write_versions, &asked, true, 0};
  return mp_mysql_ask_once(store_of(artifacts), &call, error);
}

static moonpad_status take_file(void *context, const mp_mysql_row *row, moonpad_error *error) {
  mp_buffer *files = context;
  int64_t held = mp_mysql_integer_of(row, NAMES);
  for (unsigned column = 0; column < NAMES; column++) {
    mp_buffer_add_string(files, mp_mysql_bytes_of(row, column));
    mp_buffer_add_char(files, '\0');
  }
  mp_buffer_add(files, (const char *)&held, sizeof held);
  return files->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void write_files(mp_mysql_connection *connection, void *context) {
  const artifact_question *asked = context;
  moonpad_string names[NAMES];
  names_in(asked->name, names);
  mp_buffer_clear(asked->found);
  mp_mysql_begin(connection, take_file, asked->found);
  mp_mysql_sql(connection, "SELECT app_name, user_id, session_id, filename, next_version FROM #artifact_files"
                           " FORCE INDEX(app_name) WHERE");
  mp_mysql_are_behind(connection, columns, names, NAMES);
  mp_mysql_sql_integer(connection, " ORDER BY app_name, user_id, session_id, filename LIMIT ", asked->number);
}

static moonpad_status files(mp_artifacts *artifacts, const mp_artifact_name *after, int64_t limit, mp_buffer *found,
                            moonpad_error *error) {
  artifact_question asked = {.name = after, .number = limit, .found = found};
  mp_mysql_call call = {write_files, &asked, true, 0};
  return mp_mysql_ask_once(store_of(artifacts), &call, error);
}

/* ---- deleting ---- */

static void write_deletion(mp_mysql_connection *connection, artifact_question *asked, const char *sql, size_t names) {
  asked->number = 0;
  mp_mysql_begin_call(connection, mp_mysql_take_number, &asked->number);
  mp_mysql_sql(connection, sql);
  add_names(connection, asked->name, names);
  mp_mysql_sql_time(connection, ",", mp_agent_alive_since(asked->time));
  mp_mysql_sql(connection, ")");
}

static void write_delete_file(mp_mysql_connection *connection, void *context) {
  write_deletion(connection, context, "CALL #delete_artifact_1(", NAMES);
}

static void write_delete_user(mp_mysql_connection *connection, void *context) {
  write_deletion(connection, context, "CALL #delete_artifacts_1(", NAMES_OF_USER);
}

static moonpad_status delete_file(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                                  bool *existed, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time};
  mp_mysql_call call = {write_delete_file, &asked, true, 0};
  moonpad_status status = mp_mysql_change_once(store_of(artifacts), &call, error);
  *existed = status == MOONPAD_OK && asked.number != 0;
  return status;
}

static moonpad_status delete_user(mp_artifacts *artifacts, const mp_artifact_name *name, const mp_agent_time *time,
                                  int64_t *count, moonpad_error *error) {
  artifact_question asked = {.name = name, .time = time};
  mp_mysql_call call = {write_delete_user, &asked, true, 0};
  moonpad_status status = mp_mysql_change_once(store_of(artifacts), &call, error);
  *count = status == MOONPAD_OK ? asked.number : 0;
  return status;
}

static moonpad_status sweep(mp_artifacts *artifacts, const mp_agent_time *time, int64_t *count, moonpad_error *error) {
  *count = 0;
  if (time->time_to_live == 0) return mp_remote_check_open(store_of(artifacts), error);
  return mp_mysql_sweep_table(store_of(artifacts), "CALL #sweep_artifacts_1(", time, count, error);
}

/* ---- opening and closing ---- */

static void close_store(mp_artifacts *artifacts) {
  store_of(artifacts)->ops->close(store_of(artifacts));
}

static void free_store(mp_artifacts *artifacts) {
  mysql_artifacts *self = (mysql_artifacts *)artifacts;
  mp_env *env = self->env;
  if (self->store != NULL) {
    self->store->ops->close(self->store);
    self->store->ops->free(self->store);
  }
  mp_release(env, self);
  mp_env_release(env);
}

moonpad_status mp_mysql_artifacts_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
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
  mysql_artifacts *made = mp_allocate_zeroed(env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  made->base.ops = &ops;
  made->env = mp_env_retain(env);
  moonpad_status status = mp_mysql_open_tables(env, rest, options, &mp_mysql_artifact_tables, &made->store, error);
  if (status == MOONPAD_OK) {
    *artifacts = &made->base;
  } else {
    free_store(&made->base);
  }
  return status;
}
