/*
** Memories: a row for each event that said something, and an index of its words. A search looks up
** the words of its query among those of one user; words.c says what a word is. Words and authors
** are bytea: an author may hold a NUL, and a long word is cut between bytes.
**
** Whoever writes or deletes memories of a user locks the user's row first. Its count of memories is
** that of the index: a memory that was deleted by its id keeps a row without content, so that its
** event is not stored again.
**
** A memory has its words, too, so that they can be removed from the index without a second index.
*/
#include "agent_stores/postgres/stores.h"

static const char create[] =
    "CREATE TABLE memory_owners(\n"
    "  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n"
    "  app_name text COLLATE \"C\" NOT NULL,\n"
    "  user_id text COLLATE \"C\" NOT NULL,\n"
    "  memories bigint NOT NULL DEFAULT 0, -- that can be found\n"
    "  UNIQUE(app_name, user_id)\n"
    ");\n"
    "CREATE TABLE memory_sessions(\n"
    "  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n"
    "  owner bigint NOT NULL, -- memory_owners.id\n"
    "  session_id text COLLATE \"C\" NOT NULL,\n"
    "  create_time double precision NOT NULL, -- of the session: its id may have been used before\n"
    "  indexed_revision bigint NOT NULL DEFAULT 0, -- every event up to here has been looked at\n"
    "  UNIQUE(owner, session_id, create_time)\n"
    ");\n"
    "CREATE TABLE memories(\n"
    "  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n"
    "  session bigint NOT NULL, -- memory_sessions.id\n"
    "  revision bigint NOT NULL, -- of the event\n"
    "  timestamp double precision NOT NULL, -- seconds since 1970\n"
    "  touched double precision NOT NULL, -- the same, or when a search found it last\n"
    "  author bytea NOT NULL,\n"
    "  content text NOT NULL, -- JSON; '': it was deleted by its id\n"
    "  words bytea[] NOT NULL, -- each once\n"
    "  UNIQUE(session, revision)\n"
    ");\n"
    "CREATE TABLE memory_words(\n"
    "  owner bigint NOT NULL, -- memory_owners.id\n"
    "  word bytea NOT NULL, -- lower case, without its ending\n"
    "  memory bigint NOT NULL, -- memories.id\n"
    "  size int NOT NULL, -- how many words the memory has\n"
    "  positions bytea NOT NULL, -- of the word among them: four bytes each\n"
    "  PRIMARY KEY(owner, word, memory)\n"
    ");\n"
    "CREATE OR REPLACE FUNCTION memory_owner_1(p_app text, p_user text) RETURNS bigint LANGUAGE sql AS $function$\n"
    "  SELECT id FROM memory_owners WHERE app_name = p_app AND user_id = p_user FOR UPDATE\n"
    "$function$;\n"
    /* Removes these memories of an owner from the index. */
    "CREATE OR REPLACE FUNCTION forget_words_1(p_owner bigint, p_memories bigint[]) RETURNS void\n"
    "LANGUAGE plpgsql AS $function$\n"
    "BEGIN\n"
    "  DELETE FROM memory_words WHERE ctid = ANY (ARRAY(\n"
    "    SELECT w.row FROM (SELECT id, unnest(words) AS word FROM memories WHERE id = ANY (p_memories) OFFSET 0) m\n"
    "    CROSS JOIN LATERAL (SELECT ctid AS row FROM memory_words\n"
    "      WHERE owner = p_owner AND word = m.word AND memory = m.id OFFSET 0) w));\n"
    "  UPDATE memory_owners SET memories = memories - coalesce(array_length(p_memories, 1), 0) WHERE id = p_owner;\n"
    "END $function$;\n"
    /* p_first[i] to p_last[i]: the words of the i-th memory in w_word. */
    "CREATE OR REPLACE FUNCTION write_memories_1(p_app text, p_user text, p_session text,\n"
    "  p_created double precision, p_indexed bigint, p_removed bigint[], p_alive double precision,\n"
    "  p_revision bigint[], p_time double precision[], p_author bytea[], p_content text[], p_size int[],\n"
    "  p_first int[], p_last int[], w_word bytea[], w_positions bytea[]) RETURNS void\n"
    "LANGUAGE plpgsql AS $function$\n"
    "DECLARE o bigint; s bigint; m bigint; i int; gone bigint[];\n"
    "BEGIN\n"
    "  o := memory_owner_1(p_app, p_user);\n"
    "  IF o IS NULL THEN\n"
    "    INSERT INTO memory_owners(app_name, user_id) VALUES (p_app, p_user) ON CONFLICT DO NOTHING;\n"
    "    o := memory_owner_1(p_app, p_user);\n"
    "    IF o IS NULL THEN RAISE EXCEPTION 'the user was deleted meanwhile' USING ERRCODE = 'MP004'; END IF;\n"
    "  END IF;\n"
    "  SELECT id INTO s FROM memory_sessions WHERE owner = o AND session_id = p_session AND create_time = p_created;\n"
    "  IF NOT FOUND THEN\n"
    "    INSERT INTO memory_sessions(owner, session_id, create_time) VALUES (o, p_session, p_created)\n"
    "      RETURNING id INTO s;\n"
    "  END IF;\n"
    "  gone := ARRAY(SELECT id FROM memories WHERE session = s AND revision = ANY (p_removed) AND content <> '');\n"
    "  PERFORM forget_words_1(o, gone);\n"
    "  DELETE FROM memories WHERE id = ANY (gone);\n"
    "  FOR i IN 1 .. coalesce(array_length(p_revision, 1), 0) LOOP\n"
    "    CONTINUE WHEN p_time[i] < p_alive;\n"
    "    CONTINUE WHEN EXISTS (SELECT FROM memories WHERE session = s AND revision = p_revision[i]);\n"
    "    INSERT INTO memories(session, revision, timestamp, touched, author, content, words)\n"
    "      VALUES (s, p_revision[i], p_time[i], p_time[i], p_author[i], p_content[i], w_word[p_first[i]:p_last[i]])\n"
    "      RETURNING id INTO m;\n"
    "    CONTINUE WHEN p_content[i] = '';\n"
    "    INSERT INTO memory_words SELECT o, w.word, m, p_size[i], w.positions\n"
    "      FROM unnest(w_word[p_first[i]:p_last[i]], w_positions[p_first[i]:p_last[i]]) AS w(word, positions);\n"
    "    UPDATE memory_owners SET memories = memories + 1 WHERE id = o;\n"
    "  END LOOP;\n"
    "  UPDATE memory_sessions SET indexed_revision = p_indexed WHERE id = s AND indexed_revision < p_indexed;\n"
    "END $function$;\n"
    "CREATE OR REPLACE FUNCTION delete_memory_1(p_app text, p_user text, p_id bigint, p_alive double precision)\n"
    "RETURNS boolean LANGUAGE plpgsql AS $function$\n"
    "DECLARE o bigint := memory_owner_1(p_app, p_user);\n"
    "BEGIN\n"
    "  PERFORM FROM memories WHERE id = p_id AND content <> '' AND touched >= p_alive\n"
    "    AND (SELECT owner FROM memory_sessions WHERE id = session) = o;\n"
    "  IF NOT FOUND THEN RETURN false; END IF;\n"
    "  PERFORM forget_words_1(o, ARRAY[p_id]);\n"
    "  UPDATE memories SET author = '', content = '', words = '{}' WHERE id = p_id;\n"
    "  RETURN true;\n"
    "END $function$;\n"
    /* p_session NULL: of all sessions. */
    "CREATE OR REPLACE FUNCTION delete_memories_1(p_app text, p_user text, p_session text,\n"
    "  p_alive double precision) RETURNS bigint LANGUAGE plpgsql AS $function$\n"
    "DECLARE o bigint := memory_owner_1(p_app, p_user); sessions bigint[]; alive bigint;\n"
    "BEGIN\n"
    "  sessions := ARRAY(SELECT id FROM memory_sessions WHERE owner = o\n"
    "    AND (p_session IS NULL OR session_id = p_session));\n"
    "  SELECT count(*) INTO alive FROM memories WHERE session = ANY (sessions) AND content <> ''\n"
    "    AND touched >= p_alive;\n"
    "  IF p_session IS NULL THEN\n"
    "    DELETE FROM memory_words WHERE owner = o;\n"
    "    DELETE FROM memory_owners WHERE id = o;\n"
    "  ELSE\n"
    "    PERFORM forget_words_1(o, ARRAY(SELECT id FROM memories WHERE session = ANY (sessions) AND content <> ''));\n"
    "  END IF;\n"
    "  DELETE FROM memories WHERE session = ANY (sessions);\n"
    "  DELETE FROM memory_sessions WHERE id = ANY (sessions);\n"
    "  RETURN alive;\n"
    "END $function$;\n"
    /*
    ** Looks at 4096 rows in one call, and removes 256: of memories, of sessions, of owners. What
    ** somebody else has locked is in use. A session that is not that old may have said nothing yet:
    ** its watermark stays.
    */
    "CREATE OR REPLACE FUNCTION sweep_memories_1(p_step int, p_position bigint, p_alive double precision,\n"
    "  OUT removed bigint, OUT place bigint, OUT is_done boolean) LANGUAGE plpgsql AS $function$\n"
    "DECLARE seen record; looked_at int := 0; gone int := 0; said boolean;\n"
    "BEGIN\n"
    "  removed := 0;\n"
    "  place := p_position;\n"
    "  FOR seen IN EXECUTE CASE p_step\n"
    "    WHEN 0 THEN 'SELECT m.id, s.owner, m.touched < $2 AS may_go FROM (SELECT * FROM memories WHERE id > $1\n"
    "      ORDER BY id LIMIT 4096) m JOIN LATERAL (SELECT owner FROM memory_sessions WHERE id = m.session OFFSET 0) s\n"
    "      ON true ORDER BY m.id'\n"
    "    WHEN 1 THEN 'SELECT id, owner, create_time < $2 AS may_go FROM memory_sessions WHERE id > $1\n"
    "      ORDER BY id LIMIT 4096'\n"
    "    ELSE 'SELECT id, id AS owner, $2 IS NOT NULL AS may_go FROM memory_owners WHERE id > $1\n"
    "      ORDER BY id LIMIT 4096' END USING p_position, p_alive\n"
    "  LOOP\n"
    "    EXIT WHEN gone >= 256;\n"
    "    looked_at := looked_at + 1;\n"
    "    place := seen.id;\n"
    "    CONTINUE WHEN NOT seen.may_go;\n"
    "    PERFORM FROM memory_owners WHERE id = seen.owner FOR UPDATE SKIP LOCKED;\n"
    "    CONTINUE WHEN NOT FOUND;\n"
    "    gone := gone + 1;\n"
    "    IF p_step = 0 THEN\n"
    "      SELECT content <> '' INTO said FROM memories WHERE id = seen.id AND touched < p_alive;\n"
    "      CONTINUE WHEN NOT FOUND;\n"
    "      IF said THEN PERFORM forget_words_1(seen.owner, ARRAY[seen.id]); END IF;\n"
    "      DELETE FROM memories WHERE id = seen.id;\n"
    "      IF said THEN removed := removed + 1; END IF;\n"
    "    ELSIF p_step = 1 THEN\n"
    "      DELETE FROM memory_sessions WHERE id = seen.id AND NOT EXISTS (SELECT FROM memories WHERE session = "
    "seen.id);\n"
    "    ELSE\n"
    "      DELETE FROM memory_owners WHERE id = seen.id\n"
    "        AND NOT EXISTS (SELECT FROM memory_sessions WHERE owner = seen.id);\n"
    "    END IF;\n"
    "  END LOOP;\n"
    "  is_done := looked_at < 4096 AND gone < 256;\n"
    "END $function$;\n";

#define OWNER "(SELECT * FROM memory_owners WHERE app_name = $1::text AND user_id = $2::text OFFSET 0) o"

static const char *const statements[] = {
    [MP_PG_INDEXED - MP_PG_STATEMENTS] =
        "SELECT indexed_revision FROM " OWNER " CROSS JOIN LATERAL (SELECT * FROM memory_sessions WHERE owner = o.id"
        " AND session_id = $3::text AND create_time = $4::float8 OFFSET 0) s",
    [MP_PG_WRITE_MEMORIES - MP_PG_STATEMENTS] =
        "SELECT write_memories_1($1::text, $2::text, $3::text, $4::float8, $5::int8, $6::int8[], $7::float8,"
        " $8::int8[], $9::float8[], $10::bytea[], $11::text[], $12::int4[], $13::int4[], $14::int4[], $15::bytea[],"
        " $16::bytea[])",
    /* $3: words; $4: alive since. First a row with the number of memories. */
    [MP_PG_FIND_WORDS - MP_PG_STATEMENTS] =
        "SELECT 0::int8 AS number, o.memories, 0, ''::bytea FROM " OWNER
        " UNION ALL SELECT w.number, m.memory, m.size, m.positions FROM " OWNER
        " CROSS JOIN unnest($3::bytea[]) WITH ORDINALITY AS w(word, number)"
        " CROSS JOIN LATERAL (SELECT * FROM memory_words WHERE owner = o.id AND word = w.word OFFSET 0) m"
        " WHERE $4::float8 = '-infinity' OR (SELECT touched FROM memories WHERE id = m.memory) >= $4::float8",
    [MP_PG_READ_MEMORIES - MP_PG_STATEMENTS] =
        "SELECT m.id, s.session_id, m.author, m.timestamp, m.content, m.touched"
        " FROM unnest($1::int8[]) WITH ORDINALITY AS w(id, number)"
        " CROSS JOIN LATERAL (SELECT * FROM memories WHERE id = w.id AND content <> '' OFFSET 0) m"
        " CROSS JOIN LATERAL (SELECT session_id FROM memory_sessions WHERE id = m.session OFFSET 0) s"
        " ORDER BY w.number",
    [MP_PG_RENEW_MEMORIES - MP_PG_STATEMENTS] =
        ("UPDATE memories SET touched = greatest(touched, $2::float8) WHERE id = ANY (ARRAY"
         " (SELECT id FROM memories WHERE id = ANY ($1::int8[]) FOR NO KEY UPDATE SKIP LOCKED))"),
    [MP_PG_DELETE_MEMORY - MP_PG_STATEMENTS] = "SELECT delete_memory_1($1::text, $2::text, $3::int8, $4::float8)",
    [MP_PG_DELETE_MEMORIES - MP_PG_STATEMENTS] = "SELECT delete_memories_1($1::text, $2::text, $3::text, $4::float8)",
    [MP_PG_MEMORY_SESSIONS - MP_PG_STATEMENTS] =
        ("SELECT o.app_name, o.user_id, s.session_id, s.create_time, s.indexed_revision"
         " FROM (SELECT * FROM memory_owners WHERE (app_name, user_id) >= ($1::text, $2::text)"
         " ORDER BY app_name, user_id) o CROSS JOIN LATERAL (SELECT * FROM memory_sessions WHERE owner = o.id"
         " ORDER BY session_id, create_time) s WHERE (o.app_name, o.user_id, s.session_id, s.create_time) >"
         " ($1::text, $2::text, $3::text, $4::float8) ORDER BY 1, 2, 3, 4 LIMIT $5::int8"),
    [MP_PG_MEMORY_ENTRIES - MP_PG_STATEMENTS] =
        ("SELECT revision, timestamp, author, content FROM memories WHERE session = (SELECT id FROM memory_sessions"
         " WHERE owner = (SELECT id FROM memory_owners WHERE app_name = $1::text AND user_id = $2::text)"
         " AND session_id = $3::text AND create_time = $4::float8) AND revision > $6::int8"
         " ORDER BY revision LIMIT $5::int8"),
    [MP_PG_SWEEP_MEMORIES - MP_PG_STATEMENTS] =
        "SELECT removed, place, is_done FROM sweep_memories_1($1::int4, $2::int8, $3::float8)",
};

const mp_postgres_tables mp_postgres_memory_tables = {"memories", statements, create};
