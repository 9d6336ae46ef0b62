/* What PostgreSQL's errors mean: to a caller, and for trying again. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/postgres.h"

/* ---- SQLSTATE: appendix A of PostgreSQL's manual ---- */

typedef struct meaning {
  const char *state; /* its beginning */
  moonpad_status status;
  mp_remote_again again;
  const char *text; /* NULL: what the server says */
} meaning;

static const meaning meanings[] = {
    {"40001", MOONPAD_BUSY, MP_AGAIN_CALL, "others kept changing the same"},
    {"40P01", MOONPAD_BUSY, MP_AGAIN_CALL, "others kept changing the same"},
    {"55P03", MOONPAD_BUSY, MP_AGAIN_NEVER, "another writer kept it locked for longer than busyTimeoutMs"},
    {"57014", MOONPAD_BUSY, MP_AGAIN_NEVER, "the server has cancelled it (statement_timeout, or by hand)"},
    {"57P", MOONPAD_STORAGE, MP_AGAIN_RECONNECT, NULL},
    {"25P03", MOONPAD_STORAGE, MP_AGAIN_RECONNECT, NULL},
    {"25006", MOONPAD_STORAGE, MP_AGAIN_RECONNECT, "the server is read-only (a standby?)"},
    {"08", MOONPAD_STORAGE, MP_AGAIN_RECONNECT, NULL},
    {"53300", MOONPAD_BUSY, MP_AGAIN_RECONNECT, "the server has no connection left (max_connections)"},
    {"53100", MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server's disk is full"},
    {"53200", MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server is out of memory"},
    {"28", MOONPAD_STORAGE, MP_AGAIN_NEVER, NULL},
    {"3D000", MOONPAD_STORAGE, MP_AGAIN_NEVER, NULL},
    {"42501", MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, NULL},
    {"42", MOONPAD_CORRUPT, MP_AGAIN_NEVER, NULL},
    {"3F000", MOONPAD_CORRUPT, MP_AGAIN_NEVER, NULL},
    {"XX001", MOONPAD_CORRUPT, MP_AGAIN_NEVER, NULL},
    {"XX002", MOONPAD_CORRUPT, MP_AGAIN_NEVER, NULL},
    {"54000", MOONPAD_LIMIT, MP_AGAIN_NEVER, NULL},
    {"22021", MOONPAD_INVALID_ARGUMENT, MP_AGAIN_NEVER, NULL},
    {"MP003", MOONPAD_STORAGE, MP_AGAIN_CALL, "an earlier attempt was still under way"},
    {"MP004", MOONPAD_BUSY, MP_AGAIN_CALL, "others kept changing the same"},
};

static const meaning *meaning_of(const char *state) {
  static const meaning other = {"", MOONPAD_STORAGE, MP_AGAIN_NEVER, NULL};
  for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
    if (strncmp(state, meanings[i].state, strlen(meanings[i].state)) == 0) return &meanings[i];
  }
  return &other;
}

/* ---- noting ---- */

moonpad_status mp_postgres_note(mp_postgres_connection *connection, moonpad_status status, const moonpad_error *error) {
  if (connection->base.failure.status != MOONPAD_OK) return status;
  return mp_remote_note(&connection->base, status, MP_AGAIN_NEVER, "", error);
}

/* The unique indexes of events: what the service calls ALREADY_EXISTS. */
static bool is_known_event(const PGresult *result, const char *state) {
  const char *constraint = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
  return strcmp(state, "23505") == 0 && constraint != NULL && strncmp(constraint, "events_", 7) == 0;
}

moonpad_status mp_postgres_fail(mp_postgres_connection *connection, const PGresult *result, moonpad_error *error) {
  const mp_postgres *store = connection->store;
  const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char *said = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  if (state == NULL) return mp_postgres_lost(connection, NULL, error);
  moonpad_error reason;
  moonpad_status status;
  const meaning *found = meaning_of(state);
  if (is_known_event(result, state)) {
    status = mp_fail(&reason, MOONPAD_ALREADY_EXISTS, "an event with this id or revision is already in this session");
  } else {
    const char *text = found->text != NULL ? found->text : said != NULL ? said : "an error without a message";
    status = mp_fail(&reason, found->status, "%s: %s (SQLSTATE %s)", store->remote.place, text, state);
    mp_remote_scrub(&store->remote, reason.message);
  }
  mp_remote_note(&connection->base, status, found->again, state, &reason);
  if (error != NULL) *error = reason;
  return status;
}

/* libpq's messages end with a line break, and may have several lines. */
static void first_line(const char *text, char *out, size_t size) {
  while (*text == '\n') text++;
  snprintf(out, size, "%s", text);
  out[strcspn(out, "\n")] = '\0';
}

moonpad_status mp_postgres_lost(mp_postgres_connection *connection, const char *what, moonpad_error *error) {
  char said[256];
  moonpad_error reason;
  first_line(what != NULL ? what : PQerrorMessage(connection->pg), said, sizeof said);
  mp_remote_scrub(&connection->store->remote, said);
  moonpad_status status = mp_fail(&reason, MOONPAD_STORAGE, "%s: the connection is lost: %s",
                                  connection->store->remote.place, said[0] == '\0' ? "no reason is known" : said);
  mp_remote_note(&connection->base, status, MP_AGAIN_RECONNECT, "", &reason);
  if (error != NULL) *error = reason;
  return status;
}

moonpad_status mp_postgres_corrupt(mp_postgres_connection *connection, const char *what, moonpad_error *error) {
  return mp_fail(error, MOONPAD_CORRUPT, "%s: the database is damaged: %s", connection->store->remote.place, what);
}
