/*
** Artifacts: a row for each file and a row for each of its versions. A file was last used when its
** row says so. Texts, bytes and display names are bytea, because they may hold a NUL.
**
** Whoever saves or deletes locks the row of the file first. So two writers at once get two
** versions, and what is deleted goes with all its versions.
*/
#include "agent_stores/postgres/stores.h"

#define OF_FILE "app_name = $1::text AND user_id = $2::text AND session_id = $3::text AND filename = $4::text"

static const char create[] =
    "CREATE TABLE artifact_files(\n"
    "  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n"
    "  app_name text COLLATE \"C\" NOT NULL,\n"
    "  user_id text COLLATE \"C\" NOT NULL,\n"
    "  session_id text COLLATE \"C\" NOT NULL, -- '': of the user, for all sessions\n"
    "  filename text COLLATE \"C\" NOT NULL, -- with \"user:\" where it is the user's\n"
    "  next_version bigint NOT NULL,\n"
    "  touched double precision NOT NULL, -- when it was last saved or loaded, in seconds since 1970\n"
    "  UNIQUE(app_name, user_id, session_id, filename)\n"
    ");\n"
    "CREATE TABLE artifacts(\n"
    "  file bigint NOT NULL, -- artifact_files.id\n"
    "  version bigint NOT NULL, -- from 0\n"
    "  create_time double precision NOT NULL, -- seconds since 1970\n"
    "  mime_type text, -- NULL: data is a text in UTF-8\n"
    "  display_name bytea, -- UTF-8\n"
    "  data bytea NOT NULL,\n"
    "  PRIMARY KEY(file, version)\n"
    ");\n"
    "CREATE OR REPLACE FUNCTION save_artifact_1(p_app text, p_user text, p_session text, p_filename text,\n"
    "  p_now double precision, p_alive double precision, p_mime text, p_display bytea, p_data bytea)\n"
    "RETURNS bigint LANGUAGE plpgsql AS $function$\n"
    "DECLARE f bigint; v bigint;\n"
    "BEGIN\n"
    "  INSERT INTO artifact_files AS a (app_name, user_id, session_id, filename, next_version, touched)\n"
    "    VALUES (p_app, p_user, p_session, p_filename, 1, p_now)\n"
    "    ON CONFLICT (app_name, user_id, session_id, filename) DO UPDATE\n"
    "    SET next_version = CASE WHEN a.touched < p_alive THEN 1 ELSE a.next_version + 1 END,\n"
    "      touched = greatest(a.touched, excluded.touched)\n"
    "    RETURNING id, next_version - 1 INTO f, v;\n"
    "  IF v = 0 THEN DELETE FROM artifacts WHERE file = f; END IF;\n"
    "  INSERT INTO artifacts VALUES (f, v, p_now, p_mime, p_display, p_data);\n"
    "  RETURN v;\n"
    "END $function$;\n"
    /* NULL: there was none. */
    "CREATE OR REPLACE FUNCTION delete_artifact_1(p_app text, p_user text, p_session text, p_filename text,\n"
    "  p_alive double precision) RETURNS boolean LANGUAGE plpgsql AS $function$\n"
    "DECLARE f bigint; used double precision;\n"
    "BEGIN\n"
    "  DELETE FROM artifact_files WHERE app_name = p_app AND user_id = p_user AND session_id = p_session\n"
    "    AND filename = p_filename RETURNING id, touched INTO f, used;\n"
    "  DELETE FROM artifacts WHERE file = f;\n"
    "  RETURN used >= p_alive;\n"
    "END $function$;\n"
    "CREATE OR REPLACE FUNCTION delete_artifacts_1(p_app text, p_user text, p_alive double precision)\n"
    "RETURNS bigint LANGUAGE plpgsql AS $function$\n"
    "DECLARE held record; alive bigint := 0;\n"
    "BEGIN\n"
    "  FOR held IN SELECT id, touched FROM artifact_files WHERE app_name = p_app AND user_id = p_user\n"
    "    ORDER BY id FOR UPDATE\n"
    "  LOOP\n"
    "    DELETE FROM artifacts WHERE file = held.id;\n"
    "    DELETE FROM artifact_files WHERE id = held.id;\n"
    "    IF held.touched >= p_alive THEN alive := alive + 1; END IF;\n"
    "  END LOOP;\n"
    "  RETURN alive;\n"
    "END $function$;\n"
    /* Looks at 4096 files in one call, and removes 256. What somebody else has locked is in use. */
    "CREATE OR REPLACE FUNCTION sweep_artifacts_1(p_position bigint, p_alive double precision,\n"
    "  OUT removed bigint, OUT place bigint, OUT is_done boolean) LANGUAGE plpgsql AS $function$\n"
    "DECLARE seen record; looked_at int := 0;\n"
    "BEGIN\n"
    "  removed := 0;\n"
    "  place := p_position;\n"
    "  FOR seen IN SELECT id, touched FROM artifact_files WHERE id > p_position ORDER BY id LIMIT 4096 LOOP\n"
    "    EXIT WHEN removed >= 256;\n"
    "    looked_at := looked_at + 1;\n"
    "    place := seen.id;\n"
    "    CONTINUE WHEN seen.touched >= p_alive;\n"
    "    PERFORM FROM artifact_files WHERE id = seen.id AND touched < p_alive FOR UPDATE SKIP LOCKED;\n"
    "    CONTINUE WHEN NOT FOUND;\n"
    "    DELETE FROM artifacts WHERE file = seen.id;\n"
    "    DELETE FROM artifact_files WHERE id = seen.id;\n"
    "    removed := removed + 1;\n"
    "  END LOOP;\n"
    "  is_done := looked_at < 4096 AND removed < 256;\n"
    "END $function$;\n";

static const char *const statements[] = {
    [MP_PG_SAVE_ARTIFACT - MP_PG_STATEMENTS] = "SELECT save_artifact_1($1::text, $2::text, $3::text, $4::text,"
                                               " $5::float8, $6::float8, $7::text, $8::bytea, $9::bytea)",
    /* $6: a version, or NULL for the latest */
    [MP_PG_LOAD_ARTIFACT - MP_PG_STATEMENTS] =
        "SELECT a.mime_type, a.display_name, a.data, f.id, f.touched"
        " FROM (SELECT * FROM artifact_files WHERE " OF_FILE " AND touched >= $5::float8 OFFSET 0) f"
        " CROSS JOIN LATERAL (SELECT * FROM artifacts WHERE file = f.id"
        " AND version = coalesce($6::int8, f.next_version - 1) OFFSET 0) a",
    [MP_PG_RENEW_ARTIFACT - MP_PG_STATEMENTS] =
        "UPDATE artifact_files SET touched = greatest(touched, $2::float8) WHERE id ="
        " (SELECT id FROM artifact_files WHERE id = $1::int8 FOR NO KEY UPDATE SKIP LOCKED)",
    [MP_PG_LIST_ARTIFACTS - MP_PG_STATEMENTS] =
        "SELECT DISTINCT filename FROM artifact_files WHERE app_name = $1::text AND user_id = $2::text"
        " AND session_id IN ($3::text, '') AND touched >= $4::float8 ORDER BY filename",
    [MP_PG_ARTIFACT_VERSIONS - MP_PG_STATEMENTS] =
        "SELECT a.version FROM (SELECT id FROM artifact_files WHERE " OF_FILE " AND touched >= $5::float8 OFFSET 0) f"
        " CROSS JOIN LATERAL (SELECT version FROM artifacts WHERE file = f.id OFFSET 0) a ORDER BY a.version",
    [MP_PG_DELETE_ARTIFACT - MP_PG_STATEMENTS] =
        "SELECT delete_artifact_1($1::text, $2::text, $3::text, $4::text, $5::float8)",
    [MP_PG_DELETE_ARTIFACTS - MP_PG_STATEMENTS] = "SELECT delete_artifacts_1($1::text, $2::text, $3::float8)",
    [MP_PG_ARTIFACT_FILES - MP_PG_STATEMENTS] =
        ("SELECT app_name, user_id, session_id, filename, next_version FROM artifact_files"
         " WHERE (app_name, user_id, session_id, filename) > ($1::text, $2::text, $3::text, $4::text)"
         " ORDER BY app_name, user_id, session_id, filename LIMIT $5::int8"),
    /* $1: there is but one table of files */
    [MP_PG_SWEEP_ARTIFACTS - MP_PG_STATEMENTS] = "SELECT removed, place, is_done FROM"
                                                 " sweep_artifacts_1($2::int8, $3::float8) WHERE $1::int4 = 0",
};

const mp_postgres_tables mp_postgres_artifact_tables = {"artifacts", statements, create};
