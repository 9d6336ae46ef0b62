/*
** The tables and functions (schema 1): makes them in a schema that has none, and checks them in any
** other. The same for the tables of other stores in it (mp_postgres_tables).
**
** Why the tables are as they are.
** - Keys and ids of events are bytea, because they may hold a NUL. Values and events are JSON in
**   text, as they were written: jsonb would reorder keys and refuses \u0000. JSON holds no raw NUL.
** - Names compare by bytes (COLLATE "C"), as lists are sorted.
** - What an append changes has no index but its key, so that its rows are updated in place (HOT):
**   no index by time or by revision. Lists sort instead.
** - There are no foreign keys, as in the file of SQLite.
** - The functions are the append, and what takes several statements that depend on each other: one
**   call is one round trip. Their names end with a version, so that programs of several versions
**   can use one schema. Under READ COMMITTED each of their statements sees what was committed when
**   it began: what is read behind a lock is what counts.
**
** SQLSTATEs of the functions: MP001 a plan is refused, MP002 there is no such session, MP003 the
** transaction was given up by its client, MP004 the user was deleted meanwhile.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/postgres.h"

#define SCHEMA_VERSION 1
#define STRINGIZE(x)   #x
#define NUMBER(x)      STRINGIZE(x)

static const char create_tables[] =
    "CREATE TABLE meta(name text PRIMARY KEY, value text NOT NULL);\n"
    "CREATE TABLE apps(\n"
    "  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n"
    "  app_name text COLLATE \"C\" NOT NULL UNIQUE,\n"
    "  revision bigint NOT NULL DEFAULT 0, -- counts the changes of its state\n"
    "  forgotten bigint NOT NULL DEFAULT 0, -- removed keys up to this revision are gone\n"
    "  touched double precision NOT NULL DEFAULT 0 -- when it was last used, in seconds since 1970; 0: not known\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE users(\n"
    "  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n"
    "  app bigint NOT NULL, -- apps.id\n"
    "  user_id text COLLATE \"C\" NOT NULL,\n"
    "  revision bigint NOT NULL DEFAULT 0,\n"
    "  forgotten bigint NOT NULL DEFAULT 0,\n"
    "  touched double precision NOT NULL DEFAULT 0,\n"
    "  UNIQUE(app, user_id)\n"
    ") WITH (fillfactor = 70);\n"
    "CREATE TABLE sessions(\n"
    "  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- never given twice\n"
    "  app bigint NOT NULL, -- apps.id\n"
    "  usr bigint NOT NULL, -- users.id\n"
    "  session_id text COLLATE \"C\" NOT NULL,\n"
    "  revision bigint NOT NULL DEFAULT 0, -- of its last event\n"
    "  base_revision bigint NOT NULL DEFAULT 0, -- events up to here are gone; base_state is the state then\n"
    "  conversation_count bigint NOT NULL DEFAULT 0, -- messages of the user\n"
    "  create_time double precision NOT NULL, -- seconds since 1970\n"
    "  last_update_time double precision NOT NULL,\n"
    "  forgotten bigint NOT NULL DEFAULT 0,\n"
    "  touched double precision NOT NULL DEFAULT 0,\n"
    "  UNIQUE(usr, session_id)\n"
    ") WITH (fillfactor = 70);\n"
    "CREATE INDEX sessions_by_app ON sessions(app);\n"
    "CREATE TABLE state(\n"
    "  scope integer NOT NULL, -- 0: of a session, 1: of a user, 2: of an app\n"
    "  owner bigint NOT NULL, -- sessions.id, users.id, apps.id\n"
    "  key bytea NOT NULL, -- UTF-8, without \"user:\" or \"app:\"\n"
    "  value text, -- JSON; NULL: removed\n"
    "  revision bigint NOT NULL, -- of the owner when this was last written or removed\n"
    "  PRIMARY KEY(scope, owner, key)\n"
    ") WITH (fillfactor = 70);\n"
    "CREATE TABLE base_state( -- the state of sessions at their base_revision\n"
    "  session bigint NOT NULL, -- sessions.id\n"
    "  key bytea NOT NULL,\n"
    "  value text NOT NULL, -- JSON\n"
    "  PRIMARY KEY(session, key)\n"
    ");\n"
    "CREATE TABLE events(\n"
    "  session bigint NOT NULL, -- sessions.id\n"
    "  revision bigint NOT NULL, -- 1 is the first event of its session\n"
    "  id bytea NOT NULL,\n"
    "  timestamp double precision NOT NULL, -- seconds since 1970\n"
    "  digest bigint NOT NULL, -- of the event as the caller gave it, where the caller gave the id too; else 0\n"
    "  kinds integer NOT NULL, -- 1: a message of the user, 2: changes keys of the session's state, 3: both\n"
    "  invocation text, -- its invocationId as the JSON spells it\n"
    "  event text NOT NULL, -- JSON\n"
    "  PRIMARY KEY(session, revision),\n"
    "  UNIQUE(session, id)\n"
    ");\n"
    "CREATE TABLE tokens( -- calls without an event that have been done: repeated, they are not done twice\n"
    "  token bytea PRIMARY KEY,\n"
    "  time double precision NOT NULL -- seconds since 1970\n"
    ");\n"
    "CREATE INDEX tokens_by_time ON tokens(time);\n"
    "CREATE TABLE commits( -- of each connection, its last transaction that was committed or given up\n"
    "  slot bigint PRIMARY KEY,\n"
    "  number bigint NOT NULL,\n"
    "  given_up boolean NOT NULL,\n"
    "  time timestamptz NOT NULL DEFAULT now()\n"
    ");\n"
    "CREATE TABLE garbage(session bigint PRIMARY KEY); -- deleted, but some events of it are still there\n";

/* Version 13 does not know this, and not every server is built with lz4. */
static const char compress_better[] =
    "DO $do$ BEGIN\n"
    "  EXECUTE 'ALTER TABLE events ALTER COLUMN event SET COMPRESSION lz4';\n"
    "  EXECUTE 'ALTER TABLE state ALTER COLUMN value SET COMPRESSION lz4';\n"
    "EXCEPTION WHEN feature_not_supported OR invalid_parameter_value OR syntax_error THEN NULL; END $do$;\n";

/*
** The append (store/plan.h). p_held: the revisions of session, user and app that its caller shows.
** p_least: the smallest guard of each, -1 where none is guarded. p_heads: bits of those that count
** up. p_since: what was last used before is refused; NULL: nothing. s_: keys to set or remove.
** a_: keys to add to. p_piece, p_pieces: the event's text; before p_pieces[i] comes the result of
** a_key[p_holes[i]].
*/
static const char create_append[] =
    "CREATE OR REPLACE FUNCTION append_1(p_session bigint, p_held bigint[], p_least bigint[], p_heads int,\n"
    "  p_id bytea, p_time double precision, p_digest bigint, p_kinds int, p_invocation text,\n"
    "  p_touched double precision, p_since double precision[],\n"
    "  s_scope int[], s_key bytea[], s_value text[], s_base bigint[],\n"
    "  a_scope int[], a_key bytea[], a_value text[], a_base bigint[],\n"
    "  p_piece text, p_pieces text[], p_holes int[], p_max_value bigint, p_max_event bigint, p_max_events bigint,\n"
    "  OUT numbers bigint[], OUT times double precision[], OUT results text[],\n"
    "  OUT changed_scope int[], OUT changed_key bytea[], OUT changed_value text[], OUT changed_revision bigint[])\n"
    "LANGUAGE plpgsql AS $function$\n"
    "DECLARE\n"
    "  s bigint; u bigint; a bigint; s_old bigint; u_old bigint; a_old bigint; usr_id bigint; app_id bigint;\n"
    "  base bigint; messages bigint; created double precision; s_touched double precision;\n"
    "  u_touched double precision; a_touched double precision; s_gone bigint; u_gone bigint; a_gone bigint;\n"
    "  event text := p_piece; i int;\n"
    "BEGIN\n"
    "  IF p_since IS NOT NULL THEN\n"
    "    SELECT usr, app, coalesce(nullif(touched, 0), last_update_time) INTO usr_id, app_id, s_touched\n"
    "      FROM sessions WHERE id = p_session FOR NO KEY UPDATE;\n"
    "    IF NOT FOUND THEN RAISE EXCEPTION 'no such session' USING ERRCODE = 'MP002'; END IF;\n"
    "    SELECT touched INTO u_touched FROM users WHERE id = usr_id;\n"
    "    SELECT touched INTO a_touched FROM apps WHERE id = app_id;\n"
    "    IF s_touched < p_since[1] OR (u_touched <> 0 AND u_touched < p_since[2])\n"
    "       OR (a_touched <> 0 AND a_touched < p_since[3]) THEN\n"
    "      RAISE EXCEPTION 'expired' USING ERRCODE = 'MP001';\n"
    "    END IF;\n"
    "  END IF;\n"
    "  UPDATE sessions SET revision = revision + 1, last_update_time = p_time,\n"
    "    conversation_count = conversation_count + (p_kinds & 1), touched = greatest(touched, p_touched)\n"
    "    WHERE id = p_session\n"
    "    RETURNING revision, base_revision, usr, app, conversation_count, create_time, touched, forgotten\n"
    "    INTO s, base, usr_id, app_id, messages, created, s_touched, s_gone;\n"
    "  IF NOT FOUND THEN RAISE EXCEPTION 'no such session' USING ERRCODE = 'MP002'; END IF;\n"
    "  s_old := s - 1;\n"
    "  IF p_max_events > 0 AND s - base > p_max_events THEN\n"
    "    RAISE EXCEPTION 'there would be too many events' USING ERRCODE = 'MP001';\n"
    "  END IF;\n"
    "  IF p_heads & 2 <> 0 THEN\n"
    "    UPDATE users SET revision = revision + 1, touched = greatest(touched, p_touched) WHERE id = usr_id\n"
    "      RETURNING revision, revision - 1, touched, forgotten INTO u, u_old, u_touched, u_gone;\n"
    "  ELSE\n"
    "    SELECT revision, revision, touched, forgotten INTO u, u_old, u_touched, u_gone FROM users WHERE id = usr_id;\n"
    "  END IF;\n"
    "  IF p_heads & 4 <> 0 THEN\n"
    "    UPDATE apps SET revision = revision + 1, touched = greatest(touched, p_touched) WHERE id = app_id\n"
    "      RETURNING revision, revision - 1, touched, forgotten INTO a, a_old, a_touched, a_gone;\n"
    "  ELSE\n"
    "    SELECT revision, revision, touched, forgotten INTO a, a_old, a_touched, a_gone FROM apps WHERE id = app_id;\n"
    "  END IF;\n"
    "  IF s_old < p_held[1] OR u_old < p_held[2] OR a_old < p_held[3]\n"
    "     OR s_old >= 17179869183 OR u_old >= 17179869183 OR a_old >= 17179869183 THEN\n"
    "    RAISE EXCEPTION 'a revision is out of range' USING ERRCODE = 'MP001';\n"
    "  END IF;\n"
    "  IF (p_least[1] >= 0 AND s_old > p_least[1]) OR (p_least[2] >= 0 AND u_old > p_least[2])\n"
    "     OR (p_least[3] >= 0 AND a_old > p_least[3]) THEN\n"
    "    IF EXISTS (SELECT FROM unnest(s_scope || a_scope, s_key || a_key, s_base || a_base) AS o(scope, key, base)\n"
    "      LEFT JOIN LATERAL (SELECT revision FROM state WHERE scope = o.scope AND key = o.key\n"
    "        AND owner = CASE o.scope WHEN 0 THEN p_session WHEN 1 THEN usr_id ELSE app_id END OFFSET 0) t ON true\n"
    "      WHERE o.base >= 0 AND o.base < coalesce(t.revision,\n"
    "        CASE o.scope WHEN 0 THEN s_gone WHEN 1 THEN u_gone ELSE a_gone END)) THEN\n"
    "      RAISE EXCEPTION 'a key has changed' USING ERRCODE = 'MP001';\n"
    "    END IF;\n"
    "  END IF;\n"
    "  IF s_old > p_held[1] OR u_old > p_held[2] OR a_old > p_held[3] THEN\n"
    "    SELECT array_agg(t.scope), array_agg(t.key), array_agg(t.value), array_agg(t.revision)\n"
    "      INTO changed_scope, changed_key, changed_value, changed_revision\n"
    "      FROM (VALUES (0, p_session, s_old, s_gone, p_held[1]), (1, usr_id, u_old, u_gone, p_held[2]),\n"
    "        (2, app_id, a_old, a_gone, p_held[3])) AS h(scope, owner, revision, gone, held)\n"
    "      CROSS JOIN LATERAL (SELECT * FROM state WHERE scope = h.scope AND owner = h.owner\n"
    "        AND h.held < h.revision\n"
    "        AND CASE WHEN h.held < h.gone THEN value IS NOT NULL ELSE revision > h.held END OFFSET 0) t;\n"
    "  END IF;\n"
    "  IF a_key IS NOT NULL THEN\n"
    "    WITH n AS (\n"
    "      INSERT INTO state SELECT o.scope, CASE o.scope WHEN 0 THEN p_session WHEN 1 THEN usr_id ELSE app_id END,\n"
    "        o.key, o.value, CASE o.scope WHEN 0 THEN s WHEN 1 THEN u ELSE a END\n"
    "        FROM unnest(a_scope, a_key, a_value) AS o(scope, key, value)\n"
    "      ON CONFLICT (scope, owner, key) DO UPDATE SET revision = excluded.revision, value = CASE\n"
    "        WHEN state.value IS NULL THEN excluded.value\n"
    "        WHEN left(excluded.value, 1) <> '[' THEN (state.value::bigint + excluded.value::bigint)::text\n"
    "        WHEN state.value IN ('[]', '{}') THEN excluded.value\n"
    "        WHEN left(state.value, 1) = '[' THEN left(state.value, -1) || ',' || substr(excluded.value, 2)\n"
    "        ELSE ('refused ' || state.scope)::bigint::text END\n"
    "      RETURNING scope, key, value)\n"
    "    SELECT array_agg(n.value ORDER BY o.number) INTO results\n"
    "      FROM unnest(a_scope, a_key) WITH ORDINALITY AS o(scope, key, number)\n"
    "      JOIN n ON n.scope = o.scope AND n.key = o.key;\n"
    "    IF p_max_value > 0 AND EXISTS (SELECT FROM unnest(results) AS r WHERE octet_length(r) > p_max_value) THEN\n"
    "      RAISE EXCEPTION 'a value is too long' USING ERRCODE = 'MP001';\n"
    "    END IF;\n"
    "    FOR i IN 1 .. coalesce(array_length(p_pieces, 1), 0) LOOP\n"
    "      event := event || results[p_holes[i]] || p_pieces[i];\n"
    "    END LOOP;\n"
    "  END IF;\n"
    "  IF p_max_event > 0 AND octet_length(event) > p_max_event THEN\n"
    "    RAISE EXCEPTION 'the event is too long' USING ERRCODE = 'MP001';\n"
    "  END IF;\n"
    "  IF s_key IS NOT NULL THEN\n"
    "    INSERT INTO state SELECT o.scope, CASE o.scope WHEN 0 THEN p_session WHEN 1 THEN usr_id ELSE app_id END,\n"
    "      o.key, o.value, CASE o.scope WHEN 0 THEN s WHEN 1 THEN u ELSE a END\n"
    "      FROM unnest(s_scope, s_key, s_value) AS o(scope, key, value)\n"
    "      ON CONFLICT (scope, owner, key) DO UPDATE SET value = excluded.value, revision = excluded.revision;\n"
    "  END IF;\n"
    "  INSERT INTO events VALUES (p_session, s, p_id, p_time, p_digest, p_kinds, p_invocation, event);\n"
    "  numbers := ARRAY[p_session, usr_id, app_id, s, base, u, a, messages, s_gone, u_gone, a_gone];\n"
    "  times := ARRAY[created, p_time, s_touched, u_touched, a_touched];\n"
    "END $function$;\n";

/* A session with more events than this leaves some of them as garbage, which is removed later. */
#define EVENTS_AT_ONCE "10000"

static const char create_functions[] =
    "CREATE OR REPLACE FUNCTION remove_garbage_1() RETURNS void LANGUAGE plpgsql AS $function$\n"
    "DECLARE gone bigint; removed bigint;\n"
    "BEGIN\n"
    "  SELECT session INTO gone FROM garbage LIMIT 1 FOR UPDATE SKIP LOCKED;\n"
    "  IF NOT FOUND THEN RETURN; END IF;\n"
    "  DELETE FROM events WHERE session = gone AND revision IN\n"
    "    (SELECT revision FROM events WHERE session = gone LIMIT " EVENTS_AT_ONCE ");\n"
    "  GET DIAGNOSTICS removed = ROW_COUNT;\n"
    "  IF removed < " EVENTS_AT_ONCE " THEN DELETE FROM garbage WHERE session = gone; END IF;\n"
    "END $function$;\n"
    "CREATE OR REPLACE FUNCTION remove_session_1(p_session bigint) RETURNS void LANGUAGE plpgsql AS $function$\n"
    "BEGIN\n"
    "  DELETE FROM sessions WHERE id = p_session;\n"
    "  DELETE FROM state WHERE scope = 0 AND owner = p_session;\n"
    "  DELETE FROM base_state WHERE session = p_session;\n"
    "  IF EXISTS (SELECT FROM events WHERE session = p_session OFFSET " EVENTS_AT_ONCE ") THEN\n"
    "    INSERT INTO garbage VALUES (p_session) ON CONFLICT DO NOTHING;\n"
    "  ELSE\n"
    "    DELETE FROM events WHERE session = p_session;\n"
    "  END IF;\n"
    "  PERFORM remove_garbage_1();\n"
    "END $function$;\n"
    "CREATE OR REPLACE FUNCTION remove_user_1(p_app text, p_user text) RETURNS bigint LANGUAGE plpgsql AS $function$\n"
    "DECLARE gone bigint; held bigint; removed bigint := 0;\n"
    "BEGIN\n"
    "  SELECT id INTO gone FROM users WHERE app = (SELECT id FROM apps WHERE app_name = p_app)\n"
    "    AND user_id = p_user FOR UPDATE;\n"
    "  IF NOT FOUND THEN RETURN NULL; END IF;\n"
    "  FOR held IN SELECT id FROM sessions WHERE usr = gone ORDER BY id LOOP\n"
    "    PERFORM remove_session_1(held);\n"
    "    removed := removed + 1;\n"
    "  END LOOP;\n"
    "  DELETE FROM state WHERE scope = 1 AND owner = gone;\n"
    "  DELETE FROM users WHERE id = gone;\n"
    "  RETURN removed;\n"
    "END $function$;\n"
    "CREATE OR REPLACE FUNCTION purge_1(p_scope int, p_owner bigint, p_last bigint) RETURNS void\n"
    "LANGUAGE plpgsql AS $function$\n"
    "BEGIN\n"
    "  IF p_scope = 0 THEN\n"
    "    UPDATE sessions SET forgotten = greatest(forgotten, least(p_last, revision)) WHERE id = p_owner;\n"
    "  ELSIF p_scope = 1 THEN\n"
    "    UPDATE users SET forgotten = greatest(forgotten, least(p_last, revision)) WHERE id = p_owner;\n"
    "  ELSE\n"
    "    UPDATE apps SET forgotten = greatest(forgotten, least(p_last, revision)) WHERE id = p_owner;\n"
    "  END IF;\n"
    "  DELETE FROM state WHERE scope = p_scope AND owner = p_owner AND value IS NULL AND revision <= p_last;\n"
    "END $function$;\n"
    "CREATE OR REPLACE FUNCTION touch_1(p_scope int[], p_owner bigint[], p_time double precision[]) RETURNS void\n"
    "LANGUAGE plpgsql AS $function$\n"
    "DECLARE used record;\n"
    "BEGIN\n"
    "  FOR used IN SELECT scope, owner, max(time) AS time\n"
    "    FROM unnest(p_scope, p_owner, p_time) AS w(scope, owner, time) GROUP BY scope, owner ORDER BY scope, owner\n"
    "  LOOP\n"
    "    IF used.scope = 0 THEN\n"
    "      UPDATE sessions SET touched = used.time WHERE id = used.owner AND touched < used.time;\n"
    "    ELSIF used.scope = 1 THEN\n"
    "      UPDATE users SET touched = used.time WHERE id = used.owner AND touched < used.time;\n"
    "    ELSE\n"
    "      UPDATE apps SET touched = used.time WHERE id = used.owner AND touched < used.time;\n"
    "    END IF;\n"
    "  END LOOP;\n"
    "END $function$;\n"
    /* Looks at 4096 entries in one call. What somebody else has locked is in use. */
    "CREATE OR REPLACE FUNCTION sweep_1(p_scope int, p_before double precision, p_limit bigint, p_position bigint,\n"
    "  OUT removed bigint, OUT place bigint, OUT is_done int) LANGUAGE plpgsql AS $function$\n"
    "DECLARE seen record; looked_at bigint := 0;\n"
    "BEGIN\n"
    "  removed := 0;\n"
    "  place := p_position;\n"
    "  is_done := 0;\n"
    "  IF p_scope = 0 THEN PERFORM remove_garbage_1(); END IF;\n"
    "  FOR seen IN EXECUTE CASE p_scope\n"
    "    WHEN 0 THEN 'SELECT id, coalesce(nullif(touched, 0), last_update_time) AS used FROM sessions'\n"
    "    WHEN 1 THEN 'SELECT id, touched AS used FROM users' ELSE 'SELECT id, touched AS used FROM apps' END\n"
    "    || ' WHERE id > $1 ORDER BY id LIMIT 4096' USING p_position\n"
    "  LOOP\n"
    "    EXIT WHEN removed >= p_limit;\n"
    "    looked_at := looked_at + 1;\n"
    "    IF seen.used <> 0 AND seen.used < p_before THEN\n"
    "      IF p_scope = 0 THEN\n"
    "        PERFORM FROM sessions WHERE id = seen.id AND coalesce(nullif(touched, 0), last_update_time) < p_before\n"
    "          FOR UPDATE SKIP LOCKED;\n"
    "        IF FOUND THEN\n"
    "          PERFORM remove_session_1(seen.id);\n"
    "          removed := removed + 1;\n"
    "        END IF;\n"
    "      ELSIF EXISTS (SELECT FROM state WHERE scope = p_scope AND owner = seen.id) THEN\n"
    "        IF p_scope = 1 THEN\n"
    "          PERFORM FROM users WHERE id = seen.id AND touched < p_before FOR UPDATE SKIP LOCKED;\n"
    "        ELSE\n"
    "          PERFORM FROM apps WHERE id = seen.id AND touched < p_before FOR UPDATE SKIP LOCKED;\n"
    "        END IF;\n"
    "        IF FOUND THEN\n"
    "          DELETE FROM state WHERE scope = p_scope AND owner = seen.id;\n"
    "          UPDATE users SET revision = revision + 1, forgotten = revision + 1, touched = 0\n"
    "            WHERE p_scope = 1 AND id = seen.id;\n"
    "          UPDATE apps SET revision = revision + 1, forgotten = revision + 1, touched = 0\n"
    "            WHERE p_scope = 2 AND id = seen.id;\n"
    "          removed := removed + 1;\n"
    "        END IF;\n"
    "      END IF;\n"
    "    END IF;\n"
    "    place := seen.id;\n"
    "  END LOOP;\n"
    "  IF looked_at < 4096 AND removed < p_limit THEN is_done := 1; END IF;\n"
    "END $function$;\n"
    "CREATE OR REPLACE FUNCTION claim_token_1(p_token bytea, p_now double precision, p_expired double precision)\n"
    "RETURNS boolean LANGUAGE plpgsql AS $function$\n"
    "BEGIN\n"
    "  DELETE FROM tokens WHERE token IN\n"
    "    (SELECT token FROM tokens WHERE time < p_expired ORDER BY time LIMIT 100 FOR UPDATE SKIP LOCKED);\n"
    "  INSERT INTO tokens VALUES (p_token, p_now)\n"
    "    ON CONFLICT (token) DO UPDATE SET time = excluded.time WHERE tokens.time < p_expired;\n"
    "  RETURN FOUND;\n"
    "END $function$;\n"
    /*
    ** A COMMIT whose answer is lost. Each transaction that writes notes its number, higher than
    ** the last one. Whoever does not know whether it was committed asks for that number. If it was
    ** not, the question notes the number itself, as given up: should the lost transaction still be
    ** on its way to the server, it then fails (MP003). Asked again, the answer is the same.
    */
    "CREATE OR REPLACE FUNCTION note_commit_1(p_slot bigint, p_number bigint) RETURNS void\n"
    "LANGUAGE plpgsql AS $function$\n"
    "BEGIN\n"
    "  INSERT INTO commits VALUES (p_slot, p_number, false) ON CONFLICT (slot) DO UPDATE\n"
    "    SET number = excluded.number, given_up = false, time = now() WHERE commits.number < excluded.number;\n"
    "  IF NOT FOUND THEN RAISE EXCEPTION 'given up by its client' USING ERRCODE = 'MP003'; END IF;\n"
    "END $function$;\n"
    "CREATE OR REPLACE FUNCTION find_commit_1(p_slot bigint, p_number bigint) RETURNS boolean\n"
    "LANGUAGE plpgsql AS $function$\n"
    "BEGIN\n"
    "  INSERT INTO commits VALUES (p_slot, p_number, true) ON CONFLICT (slot) DO UPDATE\n"
    "    SET number = excluded.number, given_up = true, time = now() WHERE commits.number < excluded.number;\n"
    "  RETURN (SELECT NOT given_up FROM commits WHERE slot = p_slot);\n"
    "END $function$;\n";

/* ---- what a schema says it is ---- */

typedef struct found_schema {
  bool exists;
  bool is_usable;     /* by this account */
  bool has_meta;      /* it has the table that tells the versions */
  long version;       /* 0: it is not moonpad's */
  long other_version; /* of mp_postgres_tables; 0: they are not there */
} found_schema;

static moonpad_status find_versions(mp_postgres_connection *connection, found_schema *found, moonpad_error *error) {
  const mp_postgres_tables *tables = connection->store->tables;
  char sql[256], *value = NULL, *end = NULL;
  snprintf(sql, sizeof sql,
           "SELECT coalesce(max(value) FILTER (WHERE name = 'schema'), '0') || ' '"
           " || coalesce(max(value) FILTER (WHERE name = '%s'), '0') FROM meta",
           tables == NULL ? "schema" : tables->name);
  moonpad_status status = mp_postgres_ask_text(connection, sql, &value, error);
  if (status == MOONPAD_OK && value != NULL) {
    found->version = strtol(value, &end, 10);
    found->other_version = strtol(end, NULL, 10);
  }
  free(value);
  return status;
}

static moonpad_status find_schema(mp_postgres_connection *connection, found_schema *found, moonpad_error *error) {
  static const char sql[] = "SELECT has_schema_privilege(n.oid, 'USAGE')::int::text || (c.oid IS NOT NULL)::int::text"
                            " FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'meta'"
                            " WHERE n.nspname = current_setting('moonpad.schema')";
  char *value = NULL;
  *found = (found_schema){.version = 0};
  moonpad_status status = mp_postgres_ask_text(connection, sql, &value, error);
  if (status != MOONPAD_OK) return status;
  found->exists = value != NULL;
  found->is_usable = value == NULL || value[0] == '1';
  found->has_meta = value != NULL && value[1] == '1';
  free(value);
  if (!found->is_usable) {
    return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: the account may not use the schema %s (GRANT USAGE ON SCHEMA)",
                   connection->store->remote.place, connection->store->quoted_schema);
  }
  return found->has_meta ? find_versions(connection, found, error) : MOONPAD_OK;
}

/* Is everything there that this store needs? */
static bool is_complete(const mp_postgres *store, const found_schema *found) {
  return found->has_meta && (store->tables == NULL || found->other_version != 0);
}

static moonpad_status judge(const mp_postgres *store, const found_schema *found, moonpad_error *error) {
  long newest = found->version > found->other_version ? found->version : found->other_version;
  if (newest > SCHEMA_VERSION) {
    return mp_fail(error, MOONPAD_UNSUPPORTED,
                   "%s: schema %s was written by a newer moonpad: schema %ld, this build knows %d", store->remote.place,
                   store->quoted_schema, newest, SCHEMA_VERSION);
  }
  if (found->version == SCHEMA_VERSION) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_CORRUPT, "%s: schema %s is not moonpad's: its table meta belongs to another program",
                 store->remote.place, store->quoted_schema);
}

/* ---- making it ---- */

static moonpad_status missing_right(mp_postgres_connection *connection, moonpad_error *error) {
  const mp_postgres *store = connection->store;
  bool is_right = strcmp(connection->base.failure.code, "42501") == 0;
  if (!is_right) return connection->base.failure.status;
  char said[160];
  snprintf(said, sizeof said, "%.159s", connection->base.failure.error.message);
  return mp_fail(
      error, MOONPAD_UNSUPPORTED,
      "%s: the account may not make moonpad's tables in the schema %s (it needs CREATE on the schema, or on the "
      "database where there is none): %s",
      store->remote.place, store->quoted_schema, said);
}

static moonpad_status run(mp_postgres_connection *connection, const char *sql, moonpad_error *error) {
  return mp_postgres_run_text(connection, sql, error);
}

/* In the order in which they are run. */
static const char *const create_sessions[] = {create_tables, compress_better, create_append, create_functions};
#define NOTE_VERSION "INSERT INTO meta VALUES ('%s', '" NUMBER(SCHEMA_VERSION) "');\n"

static moonpad_status note_version(mp_postgres_connection *connection, const char *name, moonpad_error *error) {
  char text[128];
  snprintf(text, sizeof text, NOTE_VERSION, name);
  return run(connection, text, error);
}

static moonpad_status create_schema(mp_postgres_connection *connection, const found_schema *found,
                                    moonpad_error *error) {
  char text[192];
  snprintf(text, sizeof text, "CREATE SCHEMA IF NOT EXISTS %s", connection->store->quoted_schema);
  moonpad_status status = found->exists ? MOONPAD_OK : run(connection, text, error);
  for (size_t i = 0; status == MOONPAD_OK && i < sizeof create_sessions / sizeof *create_sessions; i++) {
    status = run(connection, create_sessions[i], error);
  }
  return status == MOONPAD_OK ? note_version(connection, "schema", error) : status;
}

static moonpad_status create_what_is_missing(mp_postgres_connection *connection, moonpad_error *error) {
  const mp_postgres_tables *tables = connection->store->tables;
  found_schema found;
  moonpad_status status = find_schema(connection, &found, error);
  if (status != MOONPAD_OK) return status;
  status = found.has_meta ? judge(connection->store, &found, error) : create_schema(connection, &found, error);
  if (status != MOONPAD_OK || tables == NULL || found.other_version != 0) return status;
  status = run(connection, tables->create, error);
  return status == MOONPAD_OK ? note_version(connection, tables->name, error) : status;
}

/* One at a time makes it: who waited finds it made. */
static moonpad_status create(mp_postgres_connection *connection, moonpad_error *error) {
  moonpad_status status = run(connection,
                              "BEGIN; SELECT pg_advisory_xact_lock(hashtext('moonpad'), hashtext(current_setting("
                              "'moonpad.schema')))",
                              error);
  if (status == MOONPAD_OK) status = create_what_is_missing(connection, error);
  if (status == MOONPAD_OK) return run(connection, "COMMIT", error);
  bool is_own = connection->base.failure.status == MOONPAD_OK; /* not the server's */
  if (!is_own) status = missing_right(connection, error);
  if (!mp_remote_is_broken(&connection->base)) {
    mp_remote_failure failure = connection->base.failure;
    mp_remote_clear_failure(&connection->base);
    run(connection, "ROLLBACK", NULL);
    connection->base.failure = failure;
  }
  return status;
}

moonpad_status mp_postgres_prepare_schema(mp_postgres_connection *connection, moonpad_error *error) {
  const mp_postgres *store = connection->store;
  found_schema found;
  moonpad_status status = find_schema(connection, &found, error);
  if (status != MOONPAD_OK) return status;
  if (is_complete(store, &found)) return judge(store, &found, error);
  if (store->remote.migrates) return create(connection, error);
  return mp_fail(error, MOONPAD_UNSUPPORTED,
                 "%s: there is no schema %s of moonpad%s%s, and it is not to be made (migrate=off)",
                 store->remote.place, store->quoted_schema, store->tables == NULL ? "" : " with tables for ",
                 store->tables == NULL ? "" : store->tables->name);
}

void mp_postgres_write_schema(const char *quoted_schema, const mp_postgres_tables *const *tables, size_t count,
                              mp_buffer *sql) {
  char text[512];
  snprintf(text, sizeof text, "BEGIN;\nCREATE SCHEMA IF NOT EXISTS %s;\nSET LOCAL search_path = %s;\n", quoted_schema,
           quoted_schema);
  mp_buffer_add(sql, text, strlen(text));
  for (size_t i = 0; i < sizeof create_sessions / sizeof *create_sessions; i++) {
    mp_buffer_add(sql, create_sessions[i], strlen(create_sessions[i]));
  }
  snprintf(text, sizeof text, NOTE_VERSION, "schema");
  mp_buffer_add(sql, text, strlen(text));
  for (size_t i = 0; i < count; i++) {
    mp_buffer_add(sql, tables[i]->create, strlen(tables[i]->create));
    snprintf(text, sizeof text, NOTE_VERSION, tables[i]->name);
    mp_buffer_add(sql, text, strlen(text));
  }
  mp_buffer_add_literal(sql, "COMMIT;\n");
}
