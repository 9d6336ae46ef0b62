/*
** Memories: a row for each event that said something, and an index of its words. A search looks up
** the words of its query among those of one user; words.c says what a word is.
**
** Whoever writes or deletes memories of a user locks the user's row first. Its count of memories is
** that of the index: a memory that was deleted by its id keeps a row without content, so that its
** event is not stored again.
*/
#include "agent_stores/mysql/stores.h"

static const char create_owners[] = "CREATE TABLE IF NOT EXISTS #memory_owners(\n"
                                    "  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\n"
                                    "  app_name VARBINARY(255) NOT NULL,\n"
                                    "  user_id VARBINARY(255) NOT NULL,\n"
                                    "  memories BIGINT NOT NULL DEFAULT 0 COMMENT 'that can be found',\n"
                                    "  UNIQUE(app_name, user_id)\n"
                                    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

static const char create_sessions[] =
    "CREATE TABLE IF NOT EXISTS #memory_sessions(\n"
    "  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\n"
    "  owner BIGINT NOT NULL COMMENT 'memory_owners.id',\n"
    "  session_id VARBINARY(255) NOT NULL,\n"
    "  create_time DOUBLE NOT NULL COMMENT 'of the session: its id may have been used before',\n"
    "  indexed_revision BIGINT NOT NULL DEFAULT 0 COMMENT 'every event up to here has been looked at',\n"
    "  UNIQUE(owner, session_id, create_time)\n"
    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

static const char create_memories[] = "CREATE TABLE IF NOT EXISTS #memories(\n"
                                      "  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\n"
                                      "  session BIGINT NOT NULL COMMENT 'memory_sessions.id',\n"
                                      "  revision BIGINT NOT NULL COMMENT 'of the event',\n"
                                      "  timestamp DOUBLE NOT NULL COMMENT 'seconds since 1970',\n"
                                      "  touched DOUBLE NOT NULL COMMENT 'the same, or when a search found it last',\n"
                                      "  author LONGBLOB NOT NULL,\n"
                                      "  content LONGBLOB NOT NULL COMMENT 'JSON; empty: it was deleted by its id',\n"
                                      "  UNIQUE(session, revision)\n"
                                      ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

/* The second index removes the words of a memory. */
static const char create_words[] = "CREATE TABLE IF NOT EXISTS #memory_words(\n"
                                   "  owner BIGINT NOT NULL COMMENT 'memory_owners.id',\n"
                                   "  word VARBINARY(255) NOT NULL COMMENT 'lower case, without its ending',\n"
                                   "  memory BIGINT NOT NULL COMMENT 'memories.id',\n"
                                   "  size INT NOT NULL COMMENT 'how many words the memory has',\n"
                                   "  positions LONGBLOB NOT NULL COMMENT 'of the word among them: four bytes each',\n"
                                   "  PRIMARY KEY(owner, word, memory),\n"
                                   "  KEY(memory)\n"
                                   ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC";

/* Before writing: sets @mp_owner, whose row it locks, and @mp_told, the row of the session. */
static const char create_open[] =
    "CREATE PROCEDURE #open_memories_1(p_app VARBINARY(255), p_user VARBINARY(255), p_session VARBINARY(255),\n"
    "  p_created DOUBLE) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE o, s BIGINT;\n"
    "  SELECT id INTO o FROM #memory_owners WHERE app_name = p_app AND user_id = p_user FOR UPDATE;\n"
    "  IF o IS NULL THEN\n"
    "    INSERT INTO #memory_owners(app_name, user_id) VALUES(p_app, p_user) ON DUPLICATE KEY UPDATE user_id = "
    "p_user;\n"
    "    SELECT id INTO o FROM #memory_owners WHERE app_name = p_app AND user_id = p_user FOR UPDATE;\n"
    "  END IF;\n"
    "  SELECT id INTO s FROM #memory_sessions WHERE owner = o AND session_id = p_session AND create_time = p_created;\n"
    "  IF s IS NULL THEN\n"
    "    INSERT INTO #memory_sessions(owner, session_id, create_time) VALUES(o, p_session, p_created);\n"
    "    SET s = LAST_INSERT_ID();\n"
    "  END IF;\n"
    "  SET @mp_owner = o, @mp_told = s;\n"
    "END";

/* Removes one memory of an owner from the index. */
static const char create_forget[] =
    "CREATE PROCEDURE #forget_words_1(p_owner BIGINT, p_memory BIGINT) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DELETE FROM #memory_words WHERE memory = p_memory;\n"
    "  UPDATE #memory_owners SET memories = memories - 1 WHERE id = p_owner;\n"
    "END";

/* Where somebody else has locked it, it is renewed some other time. */
static const char create_renew[] =
    "CREATE PROCEDURE #renew_memory_1(p_memory BIGINT, p_now DOUBLE) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE found BIGINT;\n"
    "  SELECT id INTO found FROM #memories WHERE id = p_memory FOR UPDATE SKIP LOCKED;\n"
    "  IF found IS NOT NULL THEN UPDATE #memories SET touched = GREATEST(touched, p_now) WHERE id = found; END IF;\n"
    "END";

/* Result: had the user such a memory? */
static const char create_delete[] =
    "CREATE PROCEDURE #delete_memory_1(p_app VARBINARY(255), p_user VARBINARY(255), p_id BIGINT,\n"
    "  p_alive DOUBLE) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE o, found BIGINT;\n"
    "  SELECT id INTO o FROM #memory_owners WHERE app_name = p_app AND user_id = p_user FOR UPDATE;\n"
    "  SELECT m.id INTO found FROM #memories m STRAIGHT_JOIN #memory_sessions s ON s.id = m.session\n"
    "    WHERE m.id = p_id AND m.content <> '' AND m.touched >= p_alive AND s.owner = o;\n"
    "  IF found IS NOT NULL THEN\n"
    "    CALL #forget_words_1(o, found);\n"
    "    UPDATE #memories SET author = '', content = '' WHERE id = found;\n"
    "  END IF;\n"
    "  SELECT found IS NOT NULL;\n"
    "END";

/* p_session NULL: of all sessions. Result: how many were alive. */
static const char create_delete_all[] =
    "CREATE PROCEDURE #delete_memories_1(p_app VARBINARY(255), p_user VARBINARY(255), p_session VARBINARY(255),\n"
    "  p_alive DOUBLE) MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "  DECLARE o, held, alive BIGINT;\n"
    "  SELECT id INTO o FROM #memory_owners WHERE app_name = p_app AND user_id = p_user FOR UPDATE;\n"
    "  SELECT COUNT(*), COALESCE(SUM(m.touched >= p_alive), 0) INTO held, alive\n"
    "    FROM #memory_sessions s STRAIGHT_JOIN #memories m ON m.session = s.id\n"
    "    WHERE s.owner = o AND (p_session IS NULL OR s.session_id = p_session) AND m.content <> '';\n"
    "  IF p_session IS NULL THEN\n"
    "    DELETE FROM #memory_words WHERE owner = o;\n"
    "    DELETE FROM #memory_owners WHERE id = o;\n"
    "  ELSE\n"
    "    DELETE w FROM #memory_sessions s STRAIGHT_JOIN #memories m ON m.session = s.id\n"
    "      STRAIGHT_JOIN #memory_words w ON w.memory = m.id WHERE s.owner = o AND s.session_id = p_session;\n"
    "    UPDATE #memory_owners SET memories = memories - held WHERE id = o;\n"
    "  END IF;\n"
    "  DELETE m FROM #memory_sessions s STRAIGHT_JOIN #memories m ON m.session = s.id\n"
    "    WHERE s.owner = o AND (p_session IS NULL OR s.session_id = p_session);\n"
    "  DELETE FROM #memory_sessions WHERE owner = o AND (p_session IS NULL OR session_id = p_session);\n"
    "  SELECT alive;\n"
    "END";

/*
** Looks at 4096 rows in one call, and removes 256: of memories, of sessions, of owners. What
** somebody else has locked is in use. A session that is not that old may have said nothing yet: its
** watermark stays.
*/
static const char create_sweep[] =
    "CREATE PROCEDURE #sweep_memories_1(p_step INT, p_place BIGINT, p_alive DOUBLE) MODIFIES SQL DATA SQL SECURITY\n"
    "  INVOKER\n"
    "BEGIN\n"
    "  DECLARE seen, seen_owner, found BIGINT; DECLARE may_go, said INT;\n"
    "  DECLARE removed, looked_at, gone, is_over INT DEFAULT 0; DECLARE at_id BIGINT DEFAULT p_place;\n"
    "  DECLARE each_row CURSOR FOR\n"
    "    (SELECT m.id, s.owner, m.touched < p_alive FROM (SELECT id, session, touched FROM #memories\n"
    "      WHERE p_step = 0 AND id > p_place ORDER BY id LIMIT 4096) m\n"
    "      STRAIGHT_JOIN #memory_sessions s ON s.id = m.session ORDER BY m.id LIMIT 4096)\n"
    "    UNION ALL (SELECT id, owner, create_time < p_alive FROM #memory_sessions WHERE p_step = 1 AND id > p_place\n"
    "      ORDER BY id LIMIT 4096)\n"
    "    UNION ALL (SELECT id, id, 1 FROM #memory_owners WHERE p_step = 2 AND id > p_place ORDER BY id LIMIT 4096);\n"
    "  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = 1;\n"
    "  OPEN each_row;\n"
    "  FETCH each_row INTO seen, seen_owner, may_go;\n"
    "  WHILE NOT is_over AND gone < 256 DO\n"
    "    SET looked_at = looked_at + 1, found = NULL, said = NULL;\n"
    "    IF may_go THEN\n"
    "      SELECT id INTO found FROM #memory_owners WHERE id = seen_owner FOR UPDATE SKIP LOCKED;\n"
    "    END IF;\n"
    "    IF found IS NOT NULL THEN\n"
    "      SET gone = gone + 1;\n"
    "      IF p_step = 0 THEN\n"
    "        SELECT content <> '' INTO said FROM #memories WHERE id = seen AND touched < p_alive\n"
    "          FOR UPDATE SKIP LOCKED;\n"
    "        IF said THEN\n"
    "          CALL #forget_words_1(seen_owner, seen);\n"
    "          SET removed = removed + 1;\n"
    "        END IF;\n"
    "        DELETE FROM #memories WHERE said IS NOT NULL AND id = seen;\n"
    "      ELSEIF p_step = 1 THEN\n"
    "        DELETE FROM #memory_sessions WHERE id = seen\n"
    "          AND NOT EXISTS(SELECT 1 FROM #memories WHERE session = seen);\n"
    "      ELSE\n"
    "        DELETE FROM #memory_owners WHERE id = seen\n"
    "          AND NOT EXISTS(SELECT 1 FROM #memory_sessions WHERE owner = seen);\n"
    "      END IF;\n"
    "    END IF;\n"
    "    SET at_id = seen, is_over = 0;\n"
    "    FETCH each_row INTO seen, seen_owner, may_go;\n"
    "  END WHILE;\n"
    "  CLOSE each_row;\n"
    "  SELECT removed, at_id, looked_at < 4096 AND gone < 256;\n"
    "END";

static const char *const create[] = {create_owners, create_sessions, create_memories, create_words,      create_open,
                                     create_forget, create_renew,    create_delete,   create_delete_all, create_sweep,
                                     NULL};

const mp_mysql_tables mp_mysql_memory_tables = {"memories", create};
