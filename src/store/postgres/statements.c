/*
** The SQL of every question. Numbers come back as arrays, so that statements of several kinds of
** rows have the same columns. Which tables there are, and why they are so, is told in schema.c.
*/
#include "store/postgres/postgres.h"

/* ---- look: columns kind, scope, revision, key, value, numbers, times (look.c) ---- */

#define SESSION_HEADS                                                                                                  \
  "s.id, s.usr, s.app, s.revision, s.base_revision, u.revision AS user_revision, a.revision AS app_revision,"          \
  " s.conversation_count, s.forgotten, u.forgotten AS user_forgotten, a.forgotten AS app_forgotten, s.create_time,"    \
  " s.last_update_time, s.touched, u.touched AS user_touched, a.touched AS app_touched"
#define USER_HEAD                                                                                                      \
  "0::int8 AS id, u.id AS usr, 0::int8 AS app, 0::int8 AS revision, 0::int8 AS base_revision,"                         \
  " u.revision AS user_revision, 0::int8 AS app_revision, 0::int8 AS conversation_count, 0::int8 AS forgotten,"        \
  " u.forgotten AS user_forgotten, 0::int8 AS app_forgotten, 0::float8 AS create_time, 0::float8 AS last_update_time," \
  " 0::float8 AS touched, u.touched AS user_touched, 0::float8 AS app_touched"
#define APP_HEAD                                                                                                       \
  "0::int8 AS id, 0::int8 AS usr, a.id AS app, 0::int8 AS revision, 0::int8 AS base_revision,"                         \
  " 0::int8 AS user_revision, a.revision AS app_revision, 0::int8 AS conversation_count, 0::int8 AS forgotten,"        \
  " 0::int8 AS user_forgotten, a.forgotten AS app_forgotten, 0::float8 AS create_time, 0::float8 AS last_update_time," \
  " 0::float8 AS touched, 0::float8 AS user_touched, a.touched AS app_touched"

#define NUMBERS                                                                                                        \
  "ARRAY[h.id, h.usr, h.app, h.revision, h.base_revision, h.user_revision, h.app_revision, h.conversation_count,"      \
  " h.forgotten, h.user_forgotten, h.app_forgotten]"
#define TIMES "ARRAY[h.create_time, h.last_update_time, h.touched, h.user_touched, h.app_touched]"

/* $4 to $6: `since` of the scopes; $7, $8: scopes and keys; $9: an event's id; $10: recent */
#define LOOK(heads, from)                                                                                              \
  "WITH h AS MATERIALIZED (SELECT " heads " FROM " from ")"                                                            \
  " SELECT 0, NULL::int4, NULL::int8, NULL::bytea, NULL::text, " NUMBERS ", " TIMES " FROM h"                          \
  " UNION ALL SELECT 1, t.scope, t.revision, t.key, t.value, NULL, NULL FROM h CROSS JOIN LATERAL"                     \
  " (VALUES (0, h.id, h.revision, h.forgotten, $4::int8), (1, h.usr, h.user_revision, h.user_forgotten, $5::int8),"    \
  " (2, h.app, h.app_revision, h.app_forgotten, $6::int8)) AS o(scope, owner, revision, forgotten, since)"             \
  " JOIN state t ON t.scope = o.scope AND t.owner = o.owner WHERE o.since < o.revision"                                \
  " AND CASE WHEN o.since < o.forgotten OR o.since < 0 THEN t.value IS NOT NULL ELSE t.revision > o.since END"         \
  " UNION ALL SELECT 2, w.number::int4, t.revision, NULL, t.value, NULL, NULL FROM h"                                  \
  " CROSS JOIN unnest($7::int4[], $8::bytea[]) WITH ORDINALITY AS w(scope, key, number) JOIN state t"                  \
  " ON t.scope = w.scope AND t.owner = CASE w.scope WHEN 0 THEN h.id WHEN 1 THEN h.usr ELSE h.app END"                 \
  " AND t.key = w.key"                                                                                                 \
  " UNION ALL SELECT 3, NULL, e.revision, e.id, e.event, ARRAY[e.digest], ARRAY[e.timestamp] FROM h"                   \
  " JOIN events e ON e.session = h.id WHERE e.id = $9::bytea"                                                          \
  " UNION ALL (SELECT 4, NULL, e.revision, e.id, e.event, ARRAY[e.digest], ARRAY[e.timestamp] FROM h"                  \
  " JOIN events e ON e.session = h.id WHERE e.revision > h.revision - $10::int8 AND e.revision <= h.revision"          \
  " ORDER BY e.revision)"

#define ALL_JOINED "sessions s JOIN users u ON u.id = s.usr JOIN apps a ON a.id = s.app"
#define BY_NAME                                                                                                        \
  "apps a JOIN users u ON u.app = a.id JOIN sessions s ON s.usr = u.id"                                                \
  " WHERE a.app_name = $1::text AND u.user_id = $2::text AND s.session_id = $3::text"
#define USER_BY_NAME "apps a JOIN users u ON u.app = a.id WHERE a.app_name = $1::text AND u.user_id = $2::text"

/*
** ---- lists: columns of look without kind's event rows, and two names; in the order in which they
** are emitted (list.c) ----
*/

/* $3 to $5: the position behind which it begins; $6: touched_since; $7: limit; $8: with state. */
#define LIST(from, compare, direction)                                                                                 \
  "WITH l AS MATERIALIZED (SELECT row_number() OVER (ORDER BY s.last_update_time " direction ", u.user_id " direction  \
  ", s.session_id " direction ") AS number, u.user_id, s.session_id, " SESSION_HEADS " FROM " from                     \
  " AND (s.last_update_time, u.user_id, s.session_id) " compare " ($3::float8, $4::text, $5::text)"                    \
  " AND coalesce(nullif(s.touched, 0), s.last_update_time) >= $6::float8 ORDER BY 1 LIMIT $7::int8)"                   \
  " SELECT 2 AS kind, NULL::int4, NULL::int8, NULL::bytea, NULL::text, " NUMBERS ", " TIMES                            \
  ", h.user_id, h.session_id, h.number FROM l AS h"                                                                    \
  " UNION ALL SELECT 0, 2, t.revision, t.key, t.value, NULL, NULL, NULL, NULL, 0 FROM state t"                         \
  " WHERE $8::bool AND t.scope = 2 AND t.owner = (SELECT app FROM l LIMIT 1) AND t.value IS NOT NULL"                  \
  " UNION ALL SELECT 1, 1, t.revision, t.key, t.value, NULL, NULL, NULL, NULL, f.number"                               \
  " FROM (SELECT usr, min(number) AS number FROM l GROUP BY usr) f JOIN state t ON t.scope = 1 AND t.owner = f.usr"    \
  " WHERE $8::bool AND t.value IS NOT NULL"                                                                            \
  " UNION ALL SELECT 3, 0, t.revision, t.key, t.value, NULL, NULL, NULL, NULL, l.number"                               \
  " FROM l JOIN state t ON t.scope = 0 AND t.owner = l.id WHERE $8::bool AND t.value IS NOT NULL"                      \
  " ORDER BY number, kind"
#define OF_APP                                                                                                         \
  "apps a JOIN sessions s ON s.app = a.id JOIN users u ON u.id = s.usr WHERE a.app_name = $1::text"                    \
  " AND $2::text IS NULL"
#define OF_USER                                                                                                        \
  "apps a JOIN users u ON u.app = a.id JOIN sessions s ON s.usr = u.id"                                                \
  " WHERE a.app_name = $1::text AND u.user_id = $2::text"

/* ---- events ---- */

/* $1: session; $2, $3: revisions, or $2: an id; $4: with JSON; $5: kinds; $6: with invocation */
#define EVENT_COLUMNS                                                                                                  \
  "SELECT revision, timestamp, id, digest, CASE WHEN $4::bool THEN event END, kinds,"                                  \
  " CASE WHEN $6::bool THEN coalesce(invocation, '') END FROM events WHERE session = $1::int8"
#define EVENTS(order)                                                                                                  \
  EVENT_COLUMNS                                                                                                        \
  " AND revision BETWEEN $2::int8 AND $3::int8 AND ($5::int4 = 0 OR (kinds & $5::int4) <> 0)"                          \
  " ORDER BY revision" order

const char *const mp_postgres_statements[MP_PG_STATEMENTS] = {
    [MP_PG_BEGIN] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    [MP_PG_BEGIN_READ] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    [MP_PG_COMMIT] = "COMMIT",
    [MP_PG_ROLLBACK] = "ROLLBACK",

    [MP_PG_LOCK_SESSION] = "SELECT 1 FROM " ALL_JOINED " WHERE s.id = $1::int8 FOR NO KEY UPDATE OF s, u, a",
    [MP_PG_LOCK_SESSION_BY_NAME] = "SELECT 1 FROM " BY_NAME " FOR NO KEY UPDATE OF s, u, a",
    [MP_PG_LOCK_USER] = "SELECT 1 FROM " USER_BY_NAME " FOR NO KEY UPDATE OF u",
    [MP_PG_LOCK_USER_AND_APP] = "SELECT 1 FROM " USER_BY_NAME " FOR NO KEY UPDATE OF u, a",
    [MP_PG_LOCK_APP] = "SELECT 1 FROM apps WHERE app_name = $1::text FOR NO KEY UPDATE",
    [MP_PG_LOOK] = LOOK(SESSION_HEADS, ALL_JOINED " WHERE s.id = $1::int8 AND $2::text IS NULL AND $3::text IS NULL"),
    [MP_PG_LOOK_BY_NAME] = LOOK(SESSION_HEADS, BY_NAME),
    [MP_PG_LOOK_AT_USER] = LOOK(USER_HEAD, USER_BY_NAME " AND $3::text IS NULL"),
    [MP_PG_LOOK_AT_APP] =
        LOOK(APP_HEAD, "apps a WHERE a.app_name = $1::text AND $2::text IS NULL AND $3::text IS NULL"),

    [MP_PG_LIST_APP_OLDEST] = LIST(OF_APP, ">", "ASC"),
    [MP_PG_LIST_APP_NEWEST] = LIST(OF_APP, "<", "DESC"),
    [MP_PG_LIST_USER_OLDEST] = LIST(OF_USER, ">", "ASC"),
    [MP_PG_LIST_USER_NEWEST] = LIST(OF_USER, "<", "DESC"),
    [MP_PG_LIST_APPS] = "SELECT app_name FROM apps",

    [MP_PG_EVENT_BY_ID] = EVENT_COLUMNS " AND id = $2::bytea AND $3::int8 IS NULL AND $5::int4 IS NULL",
    [MP_PG_EVENTS] = EVENTS(""),
    [MP_PG_EVENTS_NEWEST] = EVENTS(" DESC"),
    [MP_PG_FIND_INVOCATION] = "SELECT revision FROM events WHERE session = $1::int8 AND invocation = $2::text"
                              " ORDER BY revision LIMIT 1",
    [MP_PG_BASE_KEYS] = "SELECT key, value FROM base_state WHERE session = $1::int8",

    /* WHERE NOT EXISTS: an INSERT that finds a row uses up a number of the sequence. */
    [MP_PG_CREATE_APP] = "INSERT INTO apps(app_name) SELECT $1::text"
                         " WHERE NOT EXISTS (SELECT FROM apps WHERE app_name = $1::text) ON CONFLICT DO NOTHING",
    [MP_PG_CREATE_USER] = "INSERT INTO users(app, user_id) SELECT id, $2::text FROM apps a WHERE app_name = $1::text"
                          " AND NOT EXISTS (SELECT FROM users WHERE app = a.id AND user_id = $2::text)"
                          " ON CONFLICT DO NOTHING",
    [MP_PG_CREATE_SESSION] = "INSERT INTO sessions(app, usr, session_id, create_time, last_update_time)"
                             " SELECT a.id, u.id, $3::text, $4::float8, $4::float8 FROM " USER_BY_NAME
                             " ON CONFLICT (usr, session_id) DO NOTHING"
                             " RETURNING id, usr, app, (SELECT revision FROM users WHERE id = usr),"
                             " (SELECT revision FROM apps WHERE id = app)",
    [MP_PG_REMOVE_SESSION] = "SELECT remove_session_1($1::int8)",
    [MP_PG_REMOVE_USER] = "SELECT remove_user_1($1::text, $2::text)",

    /* $1 to $3: the ids of session, user, app. A key may come twice: the last time counts. */
    [MP_PG_WRITE_KEYS] = "INSERT INTO state(scope, owner, key, value, revision)"
                         " SELECT DISTINCT ON (w.scope, w.key)"
                         " w.scope, CASE w.scope WHEN 0 THEN $1::int8 WHEN 1 THEN $2::int8 ELSE $3::int8 END,"
                         " w.key, w.value, w.revision FROM unnest($4::int4[], $5::bytea[], $6::text[], $7::int8[])"
                         " WITH ORDINALITY AS w(scope, key, value, revision, number)"
                         " ORDER BY w.scope, w.key, w.number DESC ON CONFLICT (scope, owner, key) DO UPDATE"
                         " SET value = excluded.value, revision = excluded.revision",
    [MP_PG_WRITE_BASE_KEYS] = "INSERT INTO base_state(session, key, value)"
                              " SELECT $1::int8, l.key, l.value FROM (SELECT DISTINCT ON (w.key) w.key, w.value"
                              " FROM unnest($2::bytea[], $3::text[]) WITH ORDINALITY AS w(key, value, number)"
                              " ORDER BY w.key, w.number DESC) AS l WHERE l.value IS NOT NULL"
                              " ON CONFLICT (session, key) DO UPDATE SET value = excluded.value",
    [MP_PG_REMOVE_BASE_KEYS] = "DELETE FROM base_state WHERE session = $1::int8 AND key = ANY ($2::bytea[])",
    [MP_PG_APPEND_EVENTS] = "INSERT INTO events(session, revision, id, timestamp, digest, kinds, invocation, event)"
                            " SELECT $1::int8, w.* FROM unnest($2::int8[], $3::bytea[], $4::float8[], $5::int8[],"
                            " $6::int4[], $7::text[], $8::text[]) AS w",
    [MP_PG_UPDATE_SESSION] = "UPDATE sessions SET revision = $2::int8, base_revision = $3::int8,"
                             " conversation_count = $4::int8, last_update_time = $5::float8,"
                             " touched = greatest(touched, $6::float8) WHERE id = $1::int8",
    [MP_PG_UPDATE_USER] = "UPDATE users SET revision = $2::int8, touched = greatest(touched, $3::float8)"
                          " WHERE id = $1::int8",
    [MP_PG_UPDATE_APP] = "UPDATE apps SET revision = $2::int8, touched = greatest(touched, $3::float8)"
                         " WHERE id = $1::int8",
    [MP_PG_COPY_BASE_STATE] = "INSERT INTO base_state(session, key, value)"
                              " SELECT $2::int8, key, value FROM base_state WHERE session = $1::int8",
    [MP_PG_COPY_EVENTS] = "INSERT INTO events(session, revision, id, timestamp, digest, kinds, invocation, event)"
                          " SELECT $2::int8, revision, id, timestamp, digest, kinds, invocation, event FROM events"
                          " WHERE session = $1::int8 AND revision <= $3::int8 ORDER BY revision",

    [MP_PG_TRIM] = "DELETE FROM events WHERE session = $1::int8 AND revision <= $2::int8",
    [MP_PG_PURGE] = "SELECT purge_1($1::int4, $2::int8, $3::int8)",
    /* A head may be in the list more than once. */
    [MP_PG_TOUCH] = "SELECT touch_1($1::int4[], $2::int8[], $3::float8[])",
    [MP_PG_SWEEP] = "SELECT removed, place, is_done FROM sweep_1($1::int4, $2::float8, $3::int8, $4::int8)",
    [MP_PG_CLAIM_TOKEN] = "SELECT claim_token_1($1::bytea, $2::float8, $3::float8)",

    [MP_PG_APPEND] = "SELECT * FROM append_1($1::int8, $2::int8[], $3::int8[], $4::int4, $5::bytea, $6::float8,"
                     " $7::int8, $8::int4, $9::text, $10::float8, $11::float8[], $12::int4[], $13::bytea[],"
                     " $14::text[], $15::int8[], $16::int4[], $17::bytea[], $18::text[], $19::int8[], $20::text,"
                     " $21::text[], $22::int4[], $23::int8, $24::int8, $25::int8)",
    [MP_PG_NOTE_COMMIT] = "SELECT note_commit_1($1::int8, $2::int8)",
    [MP_PG_FIND_COMMIT] = "SELECT find_commit_1($1::int8, $2::int8)",
};
