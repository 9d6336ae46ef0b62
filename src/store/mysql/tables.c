/*
** The tables and procedures (schema 1). Each # is the prefix of their names.
**
** Why the tables are as they are.
** - Names, keys and ids are bytes (VARBINARY): they compare by byte, keep NULs and blanks at their
**   end, and no collation makes Alice and alice one user. Values and events are JSON in LONGBLOB,
**   as they were written: the type JSON of MySQL changes numbers and the order of keys.
** - What an append changes has no index but its key. Lists sort instead.
** - There are no foreign keys, as in the file of SQLite.
** - The procedures are what takes several statements that depend on each other: one call is one
**   round trip. Their names end with a version, so that programs of several versions can use one
**   database. They run with the rights of their caller.
**
** What a procedure raises ends the transaction, so that a plan that is refused costs no round trip
** for a ROLLBACK: 45001 a plan is refused, 45002 there is no such session, 45003 the transaction
** was given up by its client, 45004 the user was deleted meanwhile, 45005 the event is stored.
*/
#include "store/mysql/mysql.h"

/* A session with more than 10,000 events leaves some of them as garbage, which is removed later. */

static const char create_meta[] = "CREATE TABLE IF NOT EXISTS #meta(\n"
                                  "  name VARBINARY(64) NOT NULL PRIMARY KEY,\n"
                                  "  value VARBINARY(255) NOT NULL\n"
                                  ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

static const char create_apps[] =
    "CREATE TABLE IF NOT EXISTS #apps(\n"
    "  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\n"
    "  app_name VARBINARY(255) NOT NULL UNIQUE,\n"
    "  revision BIGINT NOT NULL DEFAULT 0 COMMENT 'counts the changes of its state',\n"
    "  forgotten BIGINT NOT NULL DEFAULT 0 COMMENT 'removed keys up to this revision are gone',\n"
    "  touched DOUBLE NOT NULL DEFAULT 0 COMMENT 'when it was last used, in seconds since 1970; 0: not known'\n"
    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

static const char create_users[] = "CREATE TABLE IF NOT EXISTS #users(\n"
                                   "  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\n"
                                   "  app BIGINT NOT NULL COMMENT 'apps.id',\n"
                                   "  user_id VARBINARY(255) NOT NULL,\n"
                                   "  revision BIGINT NOT NULL DEFAULT 0,\n"
                                   "  forgotten BIGINT NOT NULL DEFAULT 0,\n"
                                   "  touched DOUBLE NOT NULL DEFAULT 0,\n"
                                   "  UNIQUE(app, user_id)\n"
                                   ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

static const char create_sessions[] =
    "CREATE TABLE IF NOT EXISTS #sessions(\n"
    "  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY COMMENT 'never given twice',\n"
    "  app BIGINT NOT NULL COMMENT 'apps.id',\n"
    "  usr BIGINT NOT NULL COMMENT 'users.id',\n"
    "  session_id VARBINARY(255) NOT NULL,\n"
    "  revision BIGINT NOT NULL DEFAULT 0 COMMENT 'of its last event',\n"
    "  base_revision BIGINT NOT NULL DEFAULT 0 COMMENT 'events up to here are gone; base_state is the state then',\n"
    "  conversation_count BIGINT NOT NULL DEFAULT 0 COMMENT 'messages of the user',\n"
    "  create_time DOUBLE NOT NULL COMMENT 'seconds since 1970',\n"
    "  last_update_time DOUBLE NOT NULL,\n"
    "  forgotten BIGINT NOT NULL DEFAULT 0,\n"
    "  touched DOUBLE NOT NULL DEFAULT 0,\n"
    "  UNIQUE(usr, session_id),\n"
    "  KEY(app)\n"
    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

static const char create_state[] =
    "CREATE TABLE IF NOT EXISTS #state(\n"
    "  scope TINYINT NOT NULL COMMENT '0: of a session, 1: of a user, 2: of an app',\n"
    "  owner BIGINT NOT NULL COMMENT 'sessions.id, users.id, apps.id',\n"
    "  `key` VARBINARY(1024) NOT NULL COMMENT 'UTF-8, without user: or app:',\n"
    "  value LONGBLOB COMMENT 'JSON; NULL: removed',\n"
    "  revision BIGINT NOT NULL COMMENT 'of the owner when this was last written or removed',\n"
    "  PRIMARY KEY(scope, owner, `key`)\n"
    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

static const char create_base_state[] = "CREATE TABLE IF NOT EXISTS #base_state(\n"
                                        "  session BIGINT NOT NULL COMMENT 'sessions.id',\n"
                                        "  `key` VARBINARY(1024) NOT NULL,\n"
                                        "  value LONGBLOB NOT NULL COMMENT 'JSON',\n"
                                        "  PRIMARY KEY(session, `key`)\n"
                                        ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

static const char create_events[] =
    "CREATE TABLE IF NOT EXISTS #events(\n"
    "  session BIGINT NOT NULL COMMENT 'sessions.id',\n"
    "  revision BIGINT NOT NULL COMMENT '1 is the first event of its session',\n"
    "  id VARBINARY(2048) NOT NULL,\n"
    "  timestamp DOUBLE NOT NULL COMMENT 'seconds since 1970',\n"
    "  digest BIGINT NOT NULL COMMENT 'of the event as the caller gave it,\n"
    "    where the caller gave the id too; else 0',\n"
    "  kinds INT NOT NULL COMMENT '1: a message of the user, 2: changes keys of the session, 3: both',\n"
    "  invocation LONGBLOB COMMENT 'its invocationId as the JSON spells it',\n"
    "  event LONGBLOB NOT NULL COMMENT 'JSON',\n"
    "  PRIMARY KEY(session, revision),\n"
    "  UNIQUE(session, id)\n"
    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

static const char create_tokens[] =
    "CREATE TABLE IF NOT EXISTS #tokens(\n"
    "  token VARBINARY(16) NOT NULL PRIMARY KEY,\n"
    "  time DOUBLE NOT NULL COMMENT 'seconds since 1970',\n"
    "  KEY(time)\n"
    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='calls without an event that have been done: repeated,\n"
    "  they are not done twice'";

static const char create_commits[] = "CREATE TABLE IF NOT EXISTS #commits(\n"
                                     "  slot BIGINT NOT NULL PRIMARY KEY,\n"
                                     "  number BIGINT NOT NULL,\n"
                                     "  given_up TINYINT NOT NULL,\n"
                                     "  time BIGINT NOT NULL COMMENT 'seconds since 1970'\n"
                                     ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='of each connection,\n"
                                     "  its last transaction that was committed or given up'";

static const char create_garbage[] =
    "CREATE TABLE IF NOT EXISTS #garbage(session BIGINT NOT NULL PRIMARY KEY\n"
    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='deleted, but some events are still there'";

/* Ends the transaction with an error. */
static const char create_raise[] =
    "CREATE PROCEDURE #raise_1(p_number INT) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  ROLLBACK;\n"
    "  SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = p_number, MESSAGE_TEXT = 'not to be done';\n"
    "END";

/*
** An append (store/plan.h) without its keys: locks the heads, counts them up, decides, and stores
** the event, unless p_event is NULL. Sets @mp_session, @mp_user and @mp_app to their ids, @mp_s,
** @mp_u and @mp_a to their new revisions, for what follows in the text. p_usr, p_app: 0, the caller
** does not know them. held_: the revisions that the caller shows. least_: the smallest guard of
** each, -1 where none is guarded. p_heads: bits of those that count up. p_known: an event with that
** id may be stored already. since_: what was last used before is refused; NULL: nothing. p_guards:
** of each guarded key its scope (1 digit), base (18), length (4), and itself.
** Each UPDATE reads what it leaves as it is: one statement less for each head, a third of the time.
** Results: what others have changed (4 columns), then the heads (16).
*/
static const char create_append[] =
    "CREATE PROCEDURE #append_1(p_session BIGINT, p_usr BIGINT, p_app BIGINT, held_s BIGINT, held_u BIGINT,\n"
    "  held_a BIGINT, least_s BIGINT, least_u BIGINT, least_a BIGINT, p_heads INT, p_known INT,\n"
    "  p_id VARBINARY(2048), p_time DOUBLE, p_digest BIGINT, p_kinds INT, p_invocation LONGBLOB, p_event LONGBLOB,\n"
    "  p_touched DOUBLE, since_s DOUBLE, since_u DOUBLE, since_a DOUBLE, p_max_events BIGINT, p_guards LONGBLOB)\n"
    "MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE s, u, a, was, place, bytes, scoped BIGINT;\n"
    "  DECLARE s_touched, u_touched, a_touched DOUBLE;\n"
    "  IF p_usr = 0 OR p_app = 0 THEN SELECT usr, app INTO p_usr, p_app FROM #sessions WHERE id = p_session; END IF;\n"
    "  IF since_s IS NOT NULL THEN\n"
    "    SELECT id INTO was FROM #sessions WHERE id = p_session FOR UPDATE;\n"
    "    SELECT IF(t.touched = 0, t.last_update_time, t.touched), v.touched, w.touched\n"
    "      INTO s_touched, u_touched, a_touched\n"
    "      FROM #sessions t JOIN #users v ON v.id = t.usr JOIN #apps w ON w.id = t.app WHERE t.id = p_session;\n"
    "    IF s_touched < since_s OR (u_touched <> 0 AND u_touched < since_u)\n"
    "      OR (a_touched <> 0 AND a_touched < since_a) THEN\n"
    "      CALL #raise_1(45001);\n"
    "    END IF;\n"
    "  END IF;\n"
    "  UPDATE #sessions SET revision = (@mp_s := revision + 1), base_revision = (@mp_base := base_revision),\n"
    "    conversation_count = (@mp_messages := conversation_count + (p_kinds & 1)), last_update_time = p_time,\n"
    "    touched = (@mp_s_touched := GREATEST(touched, p_touched)), forgotten = (@mp_s_gone := forgotten),\n"
    "    create_time = (@mp_created := create_time) WHERE id = p_session;\n"
    "  IF ROW_COUNT() = 0 THEN CALL #raise_1(45002); END IF;\n"
    "  IF p_heads & 2 THEN\n"
    "    UPDATE #users SET revision = (@mp_u := revision + 1), forgotten = (@mp_u_gone := forgotten),\n"
    "      touched = (@mp_u_touched := GREATEST(touched, p_touched)) WHERE id = p_usr;\n"
    "  ELSE\n"
    "    SELECT revision, touched, forgotten INTO @mp_u, @mp_u_touched, @mp_u_gone FROM #users WHERE id = p_usr;\n"
    "  END IF;\n"
    "  IF p_heads & 4 THEN\n"
    "    UPDATE #apps SET revision = (@mp_a := revision + 1), forgotten = (@mp_a_gone := forgotten),\n"
    "      touched = (@mp_a_touched := GREATEST(touched, p_touched)) WHERE id = p_app;\n"
    "  ELSE\n"
    "    SELECT revision, touched, forgotten INTO @mp_a, @mp_a_touched, @mp_a_gone FROM #apps WHERE id = p_app;\n"
    "  END IF;\n"
    "  SET @mp_session = p_session, @mp_user = p_usr, @mp_app = p_app, s = @mp_s - 1,\n"
    "    u = @mp_u - IF(p_heads & 2, 1, 0), a = @mp_a - IF(p_heads & 4, 1, 0);\n"
    "  IF p_known THEN\n"
    "    IF EXISTS(SELECT 1 FROM #events WHERE session = p_session AND id = p_id) THEN\n"
    "      CALL #raise_1(45005);\n"
    "    END IF;\n"
    "  END IF;\n"
    "  IF (p_max_events > 0 AND @mp_s - @mp_base > p_max_events) OR s < held_s OR u < held_u OR a < held_a\n"
    "    OR s >= 17179869183 OR u >= 17179869183 OR a >= 17179869183 THEN\n"
    "    CALL #raise_1(45001);\n"
    "  END IF;\n"
    "  IF (least_s >= 0 AND s > least_s) OR (least_u >= 0 AND u > least_u) OR (least_a >= 0 AND a > least_a) THEN\n"
    "    SET place = 1;\n"
    "    WHILE place < LENGTH(p_guards) DO\n"
    "      SET scoped = SUBSTR(p_guards, place, 1), bytes = SUBSTR(p_guards, place + 19, 4), was = NULL;\n"
    "      SELECT revision INTO was FROM #state WHERE scope = scoped\n"
    "        AND owner = CASE scoped WHEN 0 THEN p_session WHEN 1 THEN p_usr ELSE p_app END\n"
    "        AND `key` = SUBSTR(p_guards, place + 23, bytes);\n"
    "      IF COALESCE(was, CASE scoped WHEN 0 THEN @mp_s_gone WHEN 1 THEN @mp_u_gone ELSE @mp_a_gone END)\n"
    "        > CAST(SUBSTR(p_guards, place + 1, 18) AS SIGNED) THEN\n"
    "        CALL #raise_1(45001);\n"
    "      END IF;\n"
    "      SET place = place + 23 + bytes;\n"
    "    END WHILE;\n"
    "  END IF;\n"
    "  IF s > held_s OR u > held_u OR a > held_a THEN\n"
    "    SELECT scope, `key`, value, revision FROM #state WHERE\n"
    "      (scope = 0 AND owner = p_session AND IF(held_s < @mp_s_gone, value IS NOT NULL, revision > held_s)\n"
    "        AND held_s < s)\n"
    "      OR (scope = 1 AND owner = p_usr AND IF(held_u < @mp_u_gone, value IS NOT NULL, revision > held_u)\n"
    "        AND held_u < u)\n"
    "      OR (scope = 2 AND owner = p_app AND IF(held_a < @mp_a_gone, value IS NOT NULL, revision > held_a)\n"
    "        AND held_a < a);\n"
    "  END IF;\n"
    "  IF p_event IS NOT NULL THEN\n"
    "    INSERT INTO #events VALUES(p_session, @mp_s, p_id, p_time, p_digest, p_kinds, p_invocation, p_event);\n"
    "  END IF;\n"
    "  SELECT p_session, p_usr, p_app, @mp_s, @mp_base, @mp_u, @mp_a, @mp_messages, @mp_s_gone, @mp_u_gone,\n"
    "    @mp_a_gone, @mp_created, p_time, @mp_s_touched, @mp_u_touched, @mp_a_touched;\n"
    "END";

/* An integer added to one; absent counts as 0. p_most: bytes of the result; 0: any. */
static const char create_sum[] =
    "CREATE PROCEDURE #sum_1(p_scope INT, p_owner BIGINT, p_key VARBINARY(1024), p_add BIGINT, p_most BIGINT,\n"
    "  OUT p_value VARBINARY(24)) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE old LONGBLOB;\n"
    "  DECLARE EXIT HANDLER FOR 1690 CALL #raise_1(45001);\n"
    "  SELECT value INTO old FROM #state WHERE scope = p_scope AND owner = p_owner AND `key` = p_key;\n"
    "  IF old IS NULL THEN\n"
    "    SET p_value = p_add;\n"
    "  ELSEIF LENGTH(old) > 20 OR old <> CAST(CAST(old AS SIGNED) AS CHAR) THEN\n"
    "    CALL #raise_1(45001);\n"
    "  ELSE\n"
    "    SET p_value = CAST(old AS SIGNED) + p_add;\n"
    "  END IF;\n"
    "  IF p_most > 0 AND LENGTH(p_value) > p_most THEN CALL #raise_1(45001); END IF;\n"
    "END";

/* Items put at the end of an array; absent, [] and {} count as empty. */
static const char create_extend[] =
    "CREATE PROCEDURE #extend_1(p_scope INT, p_owner BIGINT, p_key VARBINARY(1024), p_items LONGBLOB,\n"
    "  p_most BIGINT, OUT p_value LONGBLOB) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE old LONGBLOB;\n"
    "  SELECT value INTO old FROM #state WHERE scope = p_scope AND owner = p_owner AND `key` = p_key;\n"
    "  IF old IS NULL OR old = '[]' OR old = '{}' THEN\n"
    "    SET p_value = p_items;\n"
    "  ELSEIF LEFT(old, 1) = '[' THEN\n"
    "    SET p_value = CONCAT(LEFT(old, LENGTH(old) - 1), ',', SUBSTR(p_items, 2));\n"
    "  END IF;\n"
    "  IF p_value IS NULL OR (p_most > 0 AND LENGTH(p_value) > p_most) THEN\n"
    "    CALL #raise_1(45001);\n"
    "  END IF;\n"
    "END";

static const char create_check_length[] =
    "CREATE PROCEDURE #check_length_1(p_length BIGINT, p_most BIGINT) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  IF p_length IS NULL OR p_length > p_most THEN CALL #raise_1(45001); END IF;\n"
    "END";

/* Locks what a question is about, in the order in which everybody locks. */
static const char create_lock[] =
    "CREATE PROCEDURE #lock_1(p_id BIGINT, p_app VARBINARY(255), p_user VARBINARY(255), p_session VARBINARY(255),\n"
    "  p_heads INT)\n"
    "MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE u_id, found BIGINT;\n"
    "  IF p_id IS NULL AND p_heads & 2 THEN\n"
    "    SELECT v.id INTO u_id FROM #apps w JOIN #users v ON v.app = w.id\n"
    "      WHERE w.app_name = p_app AND v.user_id = p_user;\n"
    "  END IF;\n"
    "  IF p_id IS NOT NULL THEN\n"
    "    SELECT t.id INTO found FROM #sessions t STRAIGHT_JOIN #users v ON v.id = t.usr\n"
    "      STRAIGHT_JOIN #apps w ON w.id = t.app WHERE t.id = p_id FOR UPDATE;\n"
    "  ELSEIF p_heads = 7 THEN\n"
    "    SELECT t.id INTO found FROM #sessions t STRAIGHT_JOIN #users v ON v.id = t.usr\n"
    "      STRAIGHT_JOIN #apps w ON w.id = t.app WHERE t.usr = u_id AND t.session_id = p_session FOR UPDATE;\n"
    "  ELSEIF p_heads = 2 THEN\n"
    "    SELECT id INTO found FROM #users WHERE id = u_id FOR UPDATE;\n"
    "  ELSE\n"
    "    SELECT id INTO found FROM #apps WHERE app_name = p_app FOR UPDATE;\n"
    "  END IF;\n"
    "END";

/*
** A whole question (mp_look): by p_id, or by names. p_heads: all three bits, or that of a user or
** an app. p_mode: 0, it is part of a transaction; 1, of one that writes; 2, a snapshot alone.
** Results: the heads (16 columns), nothing more where there is no such; keys of the app, the user,
** the session (4); the event by its id, the recent events (5).
*/
static const char create_look[] =
    "CREATE PROCEDURE #look_1(p_id BIGINT, p_app VARBINARY(255), p_user VARBINARY(255), p_session VARBINARY(255),\n"
    "  p_heads INT, since_s BIGINT, since_u BIGINT, since_a BIGINT, p_recent BIGINT, p_event VARBINARY(2048),\n"
    "  p_mode INT)\n"
    "MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE s_id, u_id, a_id, s, u, a, base, messages, s_gone, u_gone, a_gone BIGINT;\n"
    "  DECLARE created, updated, s_touched, u_touched, a_touched DOUBLE;\n"
    "  IF p_mode = 1 THEN CALL #lock_1(p_id, p_app, p_user, p_session, p_heads); END IF;\n"
    "  IF p_mode = 2 THEN\n"
    "    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;\n"
    "    START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY;\n"
    "  END IF;\n"
    "  IF p_id IS NOT NULL THEN\n"
    "    SELECT t.id, v.id, w.id, t.revision, t.base_revision, v.revision, w.revision, t.conversation_count,\n"
    "      t.forgotten, v.forgotten, w.forgotten, t.create_time, t.last_update_time, t.touched, v.touched, w.touched\n"
    "      INTO s_id, u_id, a_id, s, base, u, a, messages, s_gone, u_gone, a_gone, created, updated, s_touched,\n"
    "        u_touched, a_touched\n"
    "      FROM #sessions t JOIN #users v ON v.id = t.usr JOIN #apps w ON w.id = t.app WHERE t.id = p_id;\n"
    "  ELSEIF p_heads = 7 THEN\n"
    "    SELECT t.id, v.id, w.id, t.revision, t.base_revision, v.revision, w.revision, t.conversation_count,\n"
    "      t.forgotten, v.forgotten, w.forgotten, t.create_time, t.last_update_time, t.touched, v.touched, w.touched\n"
    "      INTO s_id, u_id, a_id, s, base, u, a, messages, s_gone, u_gone, a_gone, created, updated, s_touched,\n"
    "        u_touched, a_touched\n"
    "      FROM #apps w JOIN #users v ON v.app = w.id JOIN #sessions t ON t.usr = v.id\n"
    "      WHERE w.app_name = p_app AND v.user_id = p_user AND t.session_id = p_session;\n"
    "  ELSEIF p_heads = 2 THEN\n"
    "    SELECT v.id, v.revision, v.touched, v.forgotten INTO u_id, u, u_touched, u_gone\n"
    "      FROM #apps w JOIN #users v ON v.app = w.id WHERE w.app_name = p_app AND v.user_id = p_user;\n"
    "  ELSE\n"
    "    SELECT id, revision, touched, forgotten INTO a_id, a, a_touched, a_gone FROM #apps WHERE app_name = p_app;\n"
    "  END IF;\n"
    "  SET @mp_session = s_id, @mp_user = u_id, @mp_app = a_id;\n"
    "  IF COALESCE(s_id, u_id, a_id) IS NOT NULL THEN\n"
    "    SELECT s_id, u_id, a_id, s, base, u, a, messages, s_gone, u_gone, a_gone, created, updated, s_touched,\n"
    "      u_touched, a_touched;\n"
    "    IF since_s < s OR since_u < u OR since_a < a THEN\n"
    "      SELECT scope, `key`, value, revision FROM #state WHERE\n"
    "        (scope = 2 AND owner = a_id AND since_a < a\n"
    "          AND IF(since_a < a_gone OR since_a < 0, value IS NOT NULL, revision > since_a))\n"
    "        OR (scope = 1 AND owner = u_id AND since_u < u\n"
    "          AND IF(since_u < u_gone OR since_u < 0, value IS NOT NULL, revision > since_u))\n"
    "        OR (scope = 0 AND owner = s_id AND since_s < s\n"
    "          AND IF(since_s < s_gone OR since_s < 0, value IS NOT NULL, revision > since_s))\n"
    "        ORDER BY scope DESC;\n"
    "    END IF;\n"
    "    IF p_event IS NOT NULL THEN\n"
    "      SELECT revision, timestamp, id, digest, event FROM #events WHERE session = s_id AND id = p_event;\n"
    "    END IF;\n"
    "    IF p_recent > 0 THEN\n"
    "      SELECT revision, timestamp, id, digest, event FROM #events WHERE session = s_id\n"
    "        AND revision > s - p_recent AND revision <= s ORDER BY revision;\n"
    "    END IF;\n"
    "  END IF;\n"
    "  IF p_mode = 2 THEN COMMIT; END IF;\n"
    "END";

/* Makes a missing app and, unless p_user is NULL, a missing user. */
static const char create_make_shared[] =
    "CREATE PROCEDURE #make_shared_1(p_app VARBINARY(255), p_user VARBINARY(255)) MODIFIES SQL DATA SQL SECURITY\n"
    "  INVOKER\n"
    "BEGIN\n"
    "  DECLARE a_id BIGINT;\n"
    "  SELECT id INTO a_id FROM #apps WHERE app_name = p_app;\n"
    "  IF a_id IS NULL THEN\n"
    "    INSERT INTO #apps(app_name) VALUES(p_app) ON DUPLICATE KEY UPDATE app_name = p_app;\n"
    "    SELECT id INTO a_id FROM #apps WHERE app_name = p_app;\n"
    "  END IF;\n"
    "  IF p_user IS NOT NULL AND NOT EXISTS(SELECT 1 FROM #users WHERE app = a_id AND user_id = p_user) THEN\n"
    "    INSERT INTO #users(app, user_id) VALUES(a_id, p_user) ON DUPLICATE KEY UPDATE user_id = p_user;\n"
    "  END IF;\n"
    "END";

/* Result: ids and revisions (5 columns); the first is 0 where the session is there already. */
static const char create_create_session[] =
    "CREATE PROCEDURE #create_session_1(p_app VARBINARY(255), p_user VARBINARY(255), p_session VARBINARY(255),\n"
    "  p_time DOUBLE) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE a_id, u_id, u, a BIGINT;\n"
    "  CALL #make_shared_1(p_app, p_user);\n"
    "  SELECT id INTO a_id FROM #apps WHERE app_name = p_app;\n"
    "  SELECT id, revision INTO u_id, u FROM #users WHERE app = a_id AND user_id = p_user FOR UPDATE;\n"
    "  IF u_id IS NULL THEN CALL #raise_1(45004); END IF;\n"
    "  SELECT revision INTO a FROM #apps WHERE id = a_id FOR UPDATE;\n"
    "  IF EXISTS(SELECT 1 FROM #sessions WHERE usr = u_id AND session_id = p_session) THEN\n"
    "    SELECT 0, u_id, a_id, u, a;\n"
    "  ELSE\n"
    "    INSERT INTO #sessions(app, usr, session_id, create_time, last_update_time)\n"
    "      VALUES(a_id, u_id, p_session, p_time, p_time);\n"
    "    SELECT LAST_INSERT_ID(), u_id, a_id, u, a;\n"
    "  END IF;\n"
    "END";

static const char create_remove_garbage[] =
    "CREATE PROCEDURE #remove_garbage_1() MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE gone BIGINT;\n"
    "  SELECT session INTO gone FROM #garbage LIMIT 1 FOR UPDATE SKIP LOCKED;\n"
    "  IF gone IS NOT NULL THEN\n"
    "    DELETE FROM #events WHERE session = gone LIMIT 10000;\n"
    "    IF ROW_COUNT() < 10000 THEN DELETE FROM #garbage WHERE session = gone; END IF;\n"
    "  END IF;\n"
    "END";

static const char create_remove_session[] =
    "CREATE PROCEDURE #remove_session_1(p_session BIGINT) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DELETE FROM #sessions WHERE id = p_session;\n"
    "  DELETE FROM #state WHERE scope = 0 AND owner = p_session;\n"
    "  DELETE FROM #base_state WHERE session = p_session;\n"
    "  IF EXISTS(SELECT 1 FROM #events WHERE session = p_session LIMIT 10000, 1) THEN\n"
    "    INSERT INTO #garbage VALUES(p_session) ON DUPLICATE KEY UPDATE session = p_session;\n"
    "  ELSE\n"
    "    DELETE FROM #events WHERE session = p_session;\n"
    "  END IF;\n"
    "  CALL #remove_garbage_1();\n"
    "END";

/* Result: how many sessions the user had; none where there is no such user. */
static const char create_remove_user[] =
    "CREATE PROCEDURE #remove_user_1(p_app VARBINARY(255), p_user VARBINARY(255)) MODIFIES SQL DATA SQL SECURITY\n"
    "  INVOKER\n"
    "BEGIN\n"
    "  DECLARE u_id, held BIGINT; DECLARE removed BIGINT DEFAULT 0; DECLARE is_over INT DEFAULT 0;\n"
    "  DECLARE each_session CURSOR FOR SELECT id FROM #sessions WHERE usr = u_id ORDER BY id;\n"
    "  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = 1;\n"
    "  SELECT id INTO u_id FROM #users WHERE app = (SELECT id FROM #apps WHERE app_name = p_app)\n"
    "    AND user_id = p_user FOR UPDATE;\n"
    "  IF u_id IS NOT NULL THEN\n"
    "    SET is_over = 0;\n"
    "    OPEN each_session;\n"
    "    FETCH each_session INTO held;\n"
    "    WHILE NOT is_over DO\n"
    "      CALL #remove_session_1(held);\n"
    "      SET removed = removed + 1, is_over = 0;\n"
    "      FETCH each_session INTO held;\n"
    "    END WHILE;\n"
    "    CLOSE each_session;\n"
    "    DELETE FROM #state WHERE scope = 1 AND owner = u_id;\n"
    "    DELETE FROM #users WHERE id = u_id;\n"
    "    SELECT removed;\n"
    "  END IF;\n"
    "END";

static const char create_purge[] =
    "CREATE PROCEDURE #purge_1(p_scope INT, p_owner BIGINT, p_last BIGINT) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  IF p_scope = 0 THEN\n"
    "    UPDATE #sessions SET forgotten = GREATEST(forgotten, LEAST(p_last, revision)) WHERE id = p_owner;\n"
    "  ELSEIF p_scope = 1 THEN\n"
    "    UPDATE #users SET forgotten = GREATEST(forgotten, LEAST(p_last, revision)) WHERE id = p_owner;\n"
    "  ELSE\n"
    "    UPDATE #apps SET forgotten = GREATEST(forgotten, LEAST(p_last, revision)) WHERE id = p_owner;\n"
    "  END IF;\n"
    "  DELETE FROM #state WHERE scope = p_scope AND owner = p_owner AND value IS NULL AND revision <= p_last;\n"
    "END";

/* Looks at 4096 entries in one call. What somebody else has locked is in use. */
static const char create_sweep[] =
    "CREATE PROCEDURE #sweep_1(p_scope INT, p_before DOUBLE, p_limit BIGINT,\n"
    "  p_place BIGINT) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE seen, found BIGINT; DECLARE used DOUBLE;\n"
    "  DECLARE removed, looked_at, is_over INT DEFAULT 0; DECLARE at_id BIGINT DEFAULT p_place;\n"
    "  DECLARE each_entry CURSOR FOR\n"
    "    (SELECT id, IF(touched = 0, last_update_time, touched) FROM #sessions WHERE p_scope = 0 AND id > p_place\n"
    "      ORDER BY id LIMIT 4096)\n"
    "    UNION ALL (SELECT id, touched FROM #users WHERE p_scope = 1 AND id > p_place ORDER BY id LIMIT 4096)\n"
    "    UNION ALL (SELECT id, touched FROM #apps WHERE p_scope = 2 AND id > p_place ORDER BY id LIMIT 4096);\n"
    "  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = 1;\n"
    "  IF p_scope = 0 THEN CALL #remove_garbage_1(); END IF;\n"
    "  SET is_over = 0;\n"
    "  OPEN each_entry;\n"
    "  FETCH each_entry INTO seen, used;\n"
    "  WHILE NOT is_over AND removed < p_limit DO\n"
    "    SET looked_at = looked_at + 1, found = NULL;\n"
    "    IF used <> 0 AND used < p_before THEN\n"
    "      IF p_scope = 0 THEN\n"
    "        SELECT id INTO found FROM #sessions WHERE id = seen\n"
    "          AND IF(touched = 0, last_update_time, touched) < p_before FOR UPDATE SKIP LOCKED;\n"
    "        IF found IS NOT NULL THEN CALL #remove_session_1(seen); END IF;\n"
    "      ELSEIF EXISTS(SELECT 1 FROM #state WHERE scope = p_scope AND owner = seen) THEN\n"
    "        IF p_scope = 1 THEN\n"
    "          SELECT id INTO found FROM #users WHERE id = seen AND touched < p_before FOR UPDATE SKIP LOCKED;\n"
    "        ELSE\n"
    "          SELECT id INTO found FROM #apps WHERE id = seen AND touched < p_before FOR UPDATE SKIP LOCKED;\n"
    "        END IF;\n"
    "        IF found IS NOT NULL THEN\n"
    "          DELETE FROM #state WHERE scope = p_scope AND owner = seen;\n"
    "          UPDATE #users SET revision = revision + 1, forgotten = revision, touched = 0\n"
    "            WHERE p_scope = 1 AND id = seen;\n"
    "          UPDATE #apps SET revision = revision + 1, forgotten = revision, touched = 0\n"
    "            WHERE p_scope = 2 AND id = seen;\n"
    "        END IF;\n"
    "      END IF;\n"
    "      IF found IS NOT NULL THEN SET removed = removed + 1; END IF;\n"
    "    END IF;\n"
    "    SET at_id = seen, is_over = 0;\n"
    "    FETCH each_entry INTO seen, used;\n"
    "  END WHILE;\n"
    "  CLOSE each_entry;\n"
    "  SELECT removed, at_id, looked_at < 4096 AND removed < p_limit;\n"
    "END";

/* Result: whether it is claimed now. */
static const char create_claim_token[] =
    "CREATE PROCEDURE #claim_token_1(p_token VARBINARY(16), p_now DOUBLE,\n"
    "  p_expired DOUBLE) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE is_there INT DEFAULT 0;\n"
    "  DECLARE CONTINUE HANDLER FOR 1062 SET is_there = 1;\n"
    "  DELETE FROM #tokens WHERE time < p_expired LIMIT 100;\n"
    "  INSERT INTO #tokens VALUES(p_token, p_now);\n"
    "  IF is_there THEN\n"
    "    UPDATE #tokens SET time = p_now WHERE token = p_token AND time < p_expired;\n"
    "    SELECT ROW_COUNT() > 0;\n"
    "  ELSE\n"
    "    SELECT 1;\n"
    "  END IF;\n"
    "END";

/*
** A COMMIT whose answer is lost. Each transaction that writes notes its number, higher than the
** last one. Whoever does not know whether it was committed asks for that number. If it was not, the
** question notes the number itself, as given up: should the lost transaction still be on its way to
** the server, it then fails. Asked again, the answer is the same.
*/
static const char create_note_commit[] =
    "CREATE PROCEDURE #note_commit_1(p_slot BIGINT, p_number BIGINT) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE EXIT HANDLER FOR 1062 CALL #raise_1(45003);\n"
    "  UPDATE #commits SET number = p_number, given_up = 0, time = UNIX_TIMESTAMP()\n"
    "    WHERE slot = p_slot AND number < p_number;\n"
    "  IF ROW_COUNT() = 0 THEN INSERT INTO #commits VALUES(p_slot, p_number, 0, UNIX_TIMESTAMP()); END IF;\n"
    "END";

static const char create_find_commit[] =
    "CREATE PROCEDURE #find_commit_1(p_slot BIGINT, p_number BIGINT) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  INSERT INTO #commits VALUES(p_slot, p_number, 1, UNIX_TIMESTAMP()) ON DUPLICATE KEY UPDATE\n"
    "    given_up = IF(number < p_number, 1, given_up), time = UNIX_TIMESTAMP(), number = GREATEST(number,\n"
    "      p_number);\n"
    "  SELECT NOT given_up FROM #commits WHERE slot = p_slot;\n"
    "END";

/* In the order in which they are run. */
const char *const mp_mysql_create_all[] = {create_meta,
                                           create_apps,
                                           create_users,
                                           create_sessions,
                                           create_state,
                                           create_base_state,
                                           create_events,
                                           create_tokens,
                                           create_commits,
                                           create_garbage,
                                           create_raise,
                                           create_append,
                                           create_sum,
                                           create_extend,
                                           create_check_length,
                                           create_lock,
                                           create_look,
                                           create_make_shared,
                                           create_create_session,
                                           create_remove_garbage,
                                           create_remove_session,
                                           create_remove_user,
                                           create_purge,
                                           create_sweep,
                                           create_claim_token,
                                           create_note_commit,
                                           create_find_commit,
                                           NULL};
