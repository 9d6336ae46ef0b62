/*
** Artifacts: a row for each file and a row for each of its versions. A file was last used when its
** row says so. Names are bytes, as those of sessions (src/store/mysql/tables.c).
**
** Whoever saves or deletes locks the row of the file first. So two writers at once get two
** versions, and what is deleted goes with all its versions.
*/
#include "agent_stores/mysql/stores.h"

static const char create_files[] =
    "CREATE TABLE IF NOT EXISTS #artifact_files(\n"
    "  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\n"
    "  app_name VARBINARY(255) NOT NULL,\n"
    "  user_id VARBINARY(255) NOT NULL,\n"
    "  session_id VARBINARY(255) NOT NULL COMMENT 'empty: of the user, for all sessions',\n"
    "  filename VARBINARY(1024) NOT NULL COMMENT 'with user: before it where it is of the user',\n"
    "  next_version BIGINT NOT NULL,\n"
    "  touched DOUBLE NOT NULL COMMENT 'when it was last saved or loaded, in seconds since 1970',\n"
    "  UNIQUE(app_name, user_id, session_id, filename)\n"
    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

static const char create_artifacts[] = "CREATE TABLE IF NOT EXISTS #artifacts(\n"
                                       "  file BIGINT NOT NULL COMMENT 'artifact_files.id',\n"
                                       "  version BIGINT NOT NULL COMMENT 'from 0',\n"
                                       "  create_time DOUBLE NOT NULL COMMENT 'seconds since 1970',\n"
                                       "  mime_type LONGBLOB COMMENT 'NULL: data is a text in UTF-8',\n"
                                       "  display_name LONGBLOB COMMENT 'UTF-8',\n"
                                       "  data LONGBLOB NOT NULL,\n"
                                       "  PRIMARY KEY(file, version)\n"
                                       ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

/*
** The first half of saving: sets @mp_file and @mp_version for the INSERT that follows in the text,
** so that no procedure copies the data. Result: the version.
*/
static const char create_save[] =
    "CREATE PROCEDURE #save_artifact_1(p_app VARBINARY(255), p_user VARBINARY(255), p_session VARBINARY(255),\n"
    "  p_filename VARBINARY(1024), p_now DOUBLE, p_alive DOUBLE) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE f, v BIGINT; DECLARE used DOUBLE;\n"
    "  SELECT id, next_version, touched INTO f, v, used FROM #artifact_files WHERE app_name = p_app\n"
    "    AND user_id = p_user AND session_id = p_session AND filename = p_filename FOR UPDATE;\n"
    "  IF f IS NULL THEN\n"
    "    INSERT INTO #artifact_files(app_name, user_id, session_id, filename, next_version, touched)\n"
    "      VALUES(p_app, p_user, p_session, p_filename, 0, p_now) ON DUPLICATE KEY UPDATE filename = p_filename;\n"
    "    SELECT id, next_version, touched INTO f, v, used FROM #artifact_files WHERE app_name = p_app\n"
    "      AND user_id = p_user AND session_id = p_session AND filename = p_filename FOR UPDATE;\n"
    "  END IF;\n"
    "  IF used < p_alive THEN\n"
    "    SET v = 0;\n"
    "    DELETE FROM #artifacts WHERE file = f;\n"
    "  END IF;\n"
    "  UPDATE #artifact_files SET next_version = v + 1, touched = GREATEST(used, p_now) WHERE id = f;\n"
    "  SET @mp_file = f, @mp_version = v;\n"
    "  SELECT v;\n"
    "END";

/* Where somebody else has locked it, it is renewed some other time. */
static const char create_renew[] =
    "CREATE PROCEDURE #renew_artifact_1(p_file BIGINT, p_now DOUBLE) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE found BIGINT;\n"
    "  SELECT id INTO found FROM #artifact_files WHERE id = p_file FOR UPDATE SKIP LOCKED;\n"
    "  IF found IS NOT NULL THEN\n"
    "    UPDATE #artifact_files SET touched = GREATEST(touched, p_now) WHERE id = found;\n"
    "  END IF;\n"
    "END";

/* Result: was it alive? NULL: there was none. */
static const char create_delete[] =
    "CREATE PROCEDURE #delete_artifact_1(p_app VARBINARY(255), p_user VARBINARY(255), p_session VARBINARY(255),\n"
    "  p_filename VARBINARY(1024), p_alive DOUBLE) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE f BIGINT; DECLARE used DOUBLE;\n"
    "  SELECT id, touched INTO f, used FROM #artifact_files WHERE app_name = p_app AND user_id = p_user\n"
    "    AND session_id = p_session AND filename = p_filename FOR UPDATE;\n"
    "  DELETE FROM #artifacts WHERE file = f;\n"
    "  DELETE FROM #artifact_files WHERE id = f;\n"
    "  SELECT used >= p_alive;\n"
    "END";

/* All of a user. Result: how many were alive. */
static const char create_delete_all[] =
    "CREATE PROCEDURE #delete_artifacts_1(p_app VARBINARY(255), p_user VARBINARY(255),\n"
    "  p_alive DOUBLE) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE held BIGINT; DECLARE used DOUBLE; DECLARE alive BIGINT DEFAULT 0; DECLARE is_over INT DEFAULT 0;\n"
    "  DECLARE each_file CURSOR FOR SELECT id FROM #artifact_files WHERE app_name = p_app AND user_id = p_user\n"
    "    ORDER BY id;\n"
    "  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = 1;\n"
    "  OPEN each_file;\n"
    "  FETCH each_file INTO held;\n"
    "  WHILE NOT is_over DO\n"
    "    SET used = NULL;\n"
    "    SELECT touched INTO used FROM #artifact_files WHERE id = held FOR UPDATE;\n"
    "    IF used IS NOT NULL THEN\n"
    "      DELETE FROM #artifacts WHERE file = held;\n"
    "      DELETE FROM #artifact_files WHERE id = held;\n"
    "      IF used >= p_alive THEN SET alive = alive + 1; END IF;\n"
    "    END IF;\n"
    "    SET is_over = 0;\n"
    "    FETCH each_file INTO held;\n"
    "  END WHILE;\n"
    "  CLOSE each_file;\n"
    "  SELECT alive;\n"
    "END";

/* Looks at 4096 files in one call, and removes 256. What somebody else has locked is in use. */
static const char create_sweep[] =
    "CREATE PROCEDURE #sweep_artifacts_1(p_place BIGINT, p_alive DOUBLE) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE seen, found BIGINT; DECLARE used DOUBLE;\n"
    "  DECLARE removed, looked_at, is_over INT DEFAULT 0; DECLARE at_id BIGINT DEFAULT p_place;\n"
    "  DECLARE each_file CURSOR FOR SELECT id, touched FROM #artifact_files WHERE id > p_place ORDER BY id LIMIT "
    "4096;\n"
    "  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = 1;\n"
    "  OPEN each_file;\n"
    "  FETCH each_file INTO seen, used;\n"
    "  WHILE NOT is_over AND removed < 256 DO\n"
    "    SET looked_at = looked_at + 1, found = NULL;\n"
    "    IF used < p_alive THEN\n"
    "      SELECT id INTO found FROM #artifact_files WHERE id = seen AND touched < p_alive FOR UPDATE SKIP LOCKED;\n"
    "    END IF;\n"
    "    IF found IS NOT NULL THEN\n"
    "      DELETE FROM #artifacts WHERE file = seen;\n"
    "      DELETE FROM #artifact_files WHERE id = seen;\n"
    "      SET removed = removed + 1;\n"
    "    END IF;\n"
    "    SET at_id = seen, is_over = 0;\n"
    "    FETCH each_file INTO seen, used;\n"
    "  END WHILE;\n"
    "  CLOSE each_file;\n"
    "  SELECT removed, at_id, looked_at < 4096 AND removed < 256;\n"
    "END";

static const char *const create[] = {create_files,  create_artifacts,  create_save,  create_renew,
                                     create_delete, create_delete_all, create_sweep, NULL};

const mp_mysql_tables mp_mysql_artifact_tables = {"artifacts", create};
