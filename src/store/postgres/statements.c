/*
** The SQL of every question. Numbers come back as arrays, so that statements of several kinds of
** rows have the same columns. Which tables there are, and why they are so, is told in schema.c.
*/
#include "store/postgres/postgres.h"

/* ---- look: columns kind, scope, revision, key, value, digest, timestamp, numbers, times ---- */

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

/*
** OFFSET 0 keeps the planner from turning a join round: it looks rows up by their key, however
** small a table was when the plan was made.
*/
#define KEYS_OF(number, scope, owner, revision, forgotten, since)                                                      \
  " UNION ALL SELECT 1, " number ", t.revision, t.key, t.value, NULL, NULL, NULL, NULL FROM h CROSS JOIN LATERAL"      \
  " (SELECT revision, key, value FROM state WHERE scope = " scope " AND owner = h." owner " AND " since                \
  "::int8 < h." revision " AND CASE WHEN " since "::int8 < h." forgotten " OR " since                                  \
  "::int8 < 0 THEN value IS NOT NULL ELSE revision > " since "::int8 END OFFSET 0) t"

/*
** $4 to $6: `since` of the scopes; $7: recent; then, in a whole look, $8, $9: scopes and keys; $10:
** an event's id. Without these it is a get: it takes two thirds of the time, most of which a server
** spends to make a plan ready.
*/
#define GET(heads, from)                                                                                               \
  "WITH h AS MATERIALIZED (SELECT " heads " FROM " from ")"                                                            \
  " SELECT 0, NULL::int4, NULL::int8, NULL::bytea, NULL::text, NULL::int8, NULL::float8, " NUMBERS ", " TIMES          \
  " FROM h" KEYS_OF("2", "2", "app", "app_revision", "app_forgotten", "$6")                                            \
      KEYS_OF("1", "1", "usr", "user_revision", "user_forgotten", "$5") KEYS_OF(                                       \
          "0", "0", "id", "revision", "forgotten",                                                                     \
          "$4") " UNION ALL SELECT 4, NULL, e.revision, e.id, e.event, e.digest, e.timestamp, NULL, NULL FROM h"       \
                " CROSS JOIN LATERAL (SELECT * FROM events WHERE session = h.id AND revision > h.revision - $7::int8"  \
                " AND revision <= h.revision ORDER BY revision OFFSET 0) e"
#define LOOK(heads, from)                                                                                              \
  GET(heads, from)                                                                                                     \
  " UNION ALL SELECT 2, w.number::int4, t.revision, NULL, t.value, NULL, NULL, NULL, NULL FROM h"                      \
  " CROSS JOIN unnest($8::int4[], $9::bytea[]) WITH ORDINALITY AS w(scope, key, number) CROSS JOIN LATERAL"            \
  " (SELECT revision, value FROM state WHERE scope = w.scope AND key = w.key"                                          \
  " AND owner = CASE w.scope WHEN 0 THEN h.id WHEN 1 THEN h.usr ELSE h.app END OFFSET 0) t"                            \
  " UNION ALL SELECT 3, NULL, e.revision, e.id, e.event, e.digest, e.timestamp, NULL, NULL FROM h"                     \
  " CROSS JOIN LATERAL (SELECT * FROM events WHERE session = h.id AND id = $10::bytea OFFSET 0) e"

#define FROM_APP "(SELECT * FROM apps WHERE app_name = $1::text OFFSET 0) a"
#define FROM_USER                                                                                                      \
  FROM_APP " CROSS JOIN LATERAL (SELECT * FROM users WHERE app = a.id AND user_id = $2::text OFFSET 0) u"
#define FROM_SESSION                                                                                                   \
  FROM_USER " CROSS JOIN LATERAL (SELECT * FROM sessions WHERE usr = u.id AND session_id = $3::text OFFSET 0) s"
#define FROM_SESSION_ID                                                                                                \
  "(SELECT * FROM sessions WHERE id = $1::int8 OFFSET 0) s"                                                            \
  " CROSS JOIN LATERAL (SELECT * FROM users WHERE id = s.usr OFFSET 0) u"                                              \
  " CROSS JOIN LATERAL (SELECT * FROM apps WHERE id = s.app OFFSET 0) a"

/* What is locked stands in no subquery: each table has a condition of its own. */
#define APP_ID       "(SELECT id FROM apps WHERE app_name = $1::text)"
#define USER_ID      "(SELECT id FROM users WHERE app = " APP_ID " AND user_id = $2::text)"
#define OF_ID(field) "(SELECT " field " FROM sessions WHERE id = $1::int8)"

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
  " FROM (SELECT usr, min(number) AS number FROM l GROUP BY usr) f CROSS JOIN LATERAL (SELECT * FROM state"            \
  " WHERE $8::bool AND scope = 1 AND owner = f.usr AND value IS NOT NULL OFFSET 0) t"                                  \
  " UNION ALL SELECT 3, 0, t.revision, t.key, t.value, NULL, NULL, NULL, NULL, l.number"                               \
  " FROM l CROSS JOIN LATERAL (SELECT * FROM state WHERE $8::bool AND scope = 0 AND owner = l.id"                      \
  " AND value IS NOT NULL OFFSET 0) t"                                                                                 \
  " ORDER BY number, kind"
#define OF_APP                                                                                                         \
  FROM_APP " CROSS JOIN LATERAL (SELECT * FROM sessions WHERE app = a.id OFFSET 0) s"                                  \
           " CROSS JOIN LATERAL (SELECT * FROM users WHERE id = s.usr OFFSET 0) u WHERE $2::text IS NULL"
#define OF_USER FROM_USER " CROSS JOIN LATERAL (SELECT * FROM sessions WHERE usr = u.id OFFSET 0) s WHERE true"

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

    [MP_PG_LOCK_SESSION] = "SELECT 1 FROM sessions s, users u, apps a WHERE s.id = $1::int8"
                           " AND u.id = " OF_ID("usr") " AND a.id = " OF_ID("app") " FOR NO KEY UPDATE OF s, u, a",
    [MP_PG_LOCK_SESSION_BY_NAME] =
        "SELECT 1 FROM sessions s, users u, apps a WHERE s.usr = " USER_ID " AND s.session_id = $3::text"
        " AND u.id = " USER_ID " AND a.id = " APP_ID " FOR NO KEY UPDATE OF s, u, a",
    [MP_PG_LOCK_USER] = "SELECT 1 FROM users WHERE app = " APP_ID " AND user_id = $2::text FOR NO KEY UPDATE",
    [MP_PG_LOCK_USER_AND_APP] = "SELECT 1 FROM users u, apps a WHERE u.app = " APP_ID " AND u.user_id = $2::text"
                                " AND a.id = " APP_ID " FOR NO KEY UPDATE OF u, a",
    [MP_PG_LOCK_APP] = "SELECT 1 FROM apps WHERE app_name = $1::text FOR NO KEY UPDATE",
    [MP_PG_LOCK_SESSIONS] = "SELECT FROM sessions WHERE id = ANY($1::int8[]) ORDER BY id FOR NO KEY UPDATE",
    [MP_PG_LOCK_USERS] = "SELECT FROM users WHERE id = ANY($1::int8[]) ORDER BY id FOR NO KEY UPDATE",
    [MP_PG_LOOK] = LOOK(SESSION_HEADS, FROM_SESSION_ID " WHERE $2::text IS NULL AND $3::text IS NULL"),
    [MP_PG_LOOK_BY_NAME] = LOOK(SESSION_HEADS, FROM_SESSION),
    [MP_PG_GET] = GET(SESSION_HEADS, FROM_SESSION_ID " WHERE $2::text IS NULL AND $3::text IS NULL"),
    [MP_PG_GET_BY_NAME] = GET(SESSION_HEADS, FROM_SESSION),
    [MP_PG_LOOK_AT_USER] = LOOK(USER_HEAD, FROM_USER " WHERE $3::text IS NULL"),
    [MP_PG_LOOK_AT_APP] = LOOK(APP_HEAD, FROM_APP " WHERE $2::text IS NULL AND $3::text IS NULL"),

    [MP_PG_LIST_APP_OLDEST] = LIST(OF_APP, ">", "ASC"),
    [MP_PG_LIST_APP_NEWEST] = LIST(OF_APP, "<", "DESC"),
    [MP_PG_LIST_USER_OLDEST] = LIST(OF_USER, ">", "ASC"),
    [MP_PG_LIST_USER_NEWEST] = LIST(OF_USER, "<", "DESC"),
    [MP_PG_LIST_APPS] = "SELECT app_name FROM apps",
    [MP_PG_LIST_USERS] = "SELECT user_id FROM users WHERE app = " APP_ID,

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
                             " SELECT app, id, $3::text, $4::float8, $4::float8 FROM users"
                             " WHERE app = " APP_ID " AND user_id = $2::text ON CONFLICT (usr, session_id) DO NOTHING"
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
