/* What errors mean: to a caller, and for trying again. */
#include <errmsg.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/mysql/mysql.h"

/* ---- numbers: MariaDB's and MySQL's lists of errors ---- */

typedef struct meaning {
  unsigned number;
  moonpad_status status;
  mp_remote_again again;
  const char *text; /* NULL: what the server says */
} meaning;

#define GIVEN_UP_BY_GALERA 1    /* no error of a server's */
#define WSREP_NOT_READY    1047 /* ER_UNKNOWN_COM_ERROR, but for Galera */
#define STATEMENT_TIMEOUT  1969 /* MariaDB: max_statement_time */
#define IDLE_TRANSACTION   1927 /* MariaDB: the connection was killed */
#define EXECUTION_TIMEOUT  3024 /* MySQL: max_execution_time */
#define READ_ONLY_MODE     1836
#define WRITE_FAILED       3 /* EE_WRITE: of a temporary file */

static const meaning meanings[] = {
    {ER_LOCK_DEADLOCK, MOONPAD_BUSY, MP_AGAIN_CALL, "others kept changing the same"},
    {GIVEN_UP_BY_GALERA, MOONPAD_BUSY, MP_AGAIN_CALL, "others kept changing the same"},
    {MP_MYSQL_GONE, MOONPAD_BUSY, MP_AGAIN_CALL, "others kept changing the same"},
    {MP_MYSQL_GIVEN_UP, MOONPAD_STORAGE, MP_AGAIN_CALL, "an earlier attempt was still under way"},
    {WSREP_NOT_READY, MOONPAD_BUSY, MP_AGAIN_RECONNECT, "the node is not part of its cluster"},
    {ER_LOCK_WAIT_TIMEOUT, MOONPAD_BUSY, MP_AGAIN_NEVER, "another writer kept it locked for longer than busyTimeoutMs"},
    {ER_QUERY_INTERRUPTED, MOONPAD_BUSY, MP_AGAIN_NEVER, "the server has cancelled it"},
    {STATEMENT_TIMEOUT, MOONPAD_BUSY, MP_AGAIN_NEVER, "the server has cancelled it (max_statement_time)"},
    {EXECUTION_TIMEOUT, MOONPAD_BUSY, MP_AGAIN_NEVER, "the server has cancelled it (max_execution_time)"},
    {ER_CON_COUNT_ERROR, MOONPAD_BUSY, MP_AGAIN_CALL, "the server has no connection left (max_connections)"},
    {ER_TOO_MANY_USER_CONNECTIONS, MOONPAD_BUSY, MP_AGAIN_CALL,
     "the account has no connection left (max_user_connections)"},
    {ER_USER_LIMIT_REACHED, MOONPAD_BUSY, MP_AGAIN_CALL, NULL},
    {ER_SERVER_SHUTDOWN, MOONPAD_STORAGE, MP_AGAIN_RECONNECT, NULL},
    {ER_NORMAL_SHUTDOWN, MOONPAD_STORAGE, MP_AGAIN_RECONNECT, NULL},
    {IDLE_TRANSACTION, MOONPAD_STORAGE, MP_AGAIN_RECONNECT, NULL},
    {ER_OPTION_PREVENTS_STATEMENT, MOONPAD_STORAGE, MP_AGAIN_RECONNECT, "the server is read-only (a replica?)"},
    {READ_ONLY_MODE, MOONPAD_STORAGE, MP_AGAIN_RECONNECT, "the server is read-only (a replica?)"},
    {WRITE_FAILED, MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server's disk is full"},
    {ER_DISK_FULL, MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server's disk is full"},
    {ER_RECORD_FILE_FULL, MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server's disk is full"},
    {ER_OUTOFMEMORY, MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server is out of memory"},
    {ER_OUT_OF_RESOURCES, MOONPAD_STORAGE, MP_AGAIN_NEVER, "the server is out of memory"},
    {ER_NET_PACKET_TOO_LARGE, MOONPAD_LIMIT, MP_AGAIN_RECONNECT, NULL},
    {CR_NET_PACKET_TOO_LARGE, MOONPAD_LIMIT, MP_AGAIN_RECONNECT, NULL},
    {CR_OUT_OF_MEMORY, MOONPAD_NO_MEMORY, MP_AGAIN_NEVER, "out of memory"},
    {ER_ACCESS_DENIED_ERROR, MOONPAD_STORAGE, MP_AGAIN_NEVER, NULL},
    {ER_DBACCESS_DENIED_ERROR, MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, NULL},
    {ER_TABLEACCESS_DENIED_ERROR, MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, NULL},
    {ER_COLUMNACCESS_DENIED_ERROR, MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, NULL},
    {ER_PROCACCESS_DENIED_ERROR, MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, NULL},
    {ER_SPECIFIC_ACCESS_DENIED_ERROR, MOONPAD_UNSUPPORTED, MP_AGAIN_NEVER, NULL},
    {ER_BAD_DB_ERROR, MOONPAD_STORAGE, MP_AGAIN_NEVER, NULL},
    {ER_NO_SUCH_TABLE, MOONPAD_CORRUPT, MP_AGAIN_NEVER, NULL},
    {ER_SP_DOES_NOT_EXIST, MOONPAD_CORRUPT, MP_AGAIN_NEVER, NULL},
    {ER_BAD_FIELD_ERROR, MOONPAD_CORRUPT, MP_AGAIN_NEVER, NULL},
    {ER_WRONG_VALUE_COUNT_ON_ROW, MOONPAD_CORRUPT, MP_AGAIN_NEVER, NULL},
    {ER_CRASHED_ON_USAGE, MOONPAD_CORRUPT, MP_AGAIN_NEVER, NULL},
    {ER_NOT_KEYFILE, MOONPAD_CORRUPT, MP_AGAIN_NEVER, NULL},
};

static bool is_of_library(unsigned number) {
  return number >= CR_MIN_ERROR && number <= CR_MAX_ERROR;
}

static const meaning *meaning_of(unsigned number) {
  static const meaning lost = {0, MOONPAD_STORAGE, MP_AGAIN_RECONNECT, NULL};
  static const meaning other = {0, MOONPAD_STORAGE, MP_AGAIN_NEVER, NULL};
  for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
    if (meanings[i].number == number) return &meanings[i];
  }
  return is_of_library(number) ? &lost : &other;
}

/* ---- noting ---- */

moonpad_status mp_mysql_note(mp_mysql_connection *connection, moonpad_status status, const moonpad_error *error) {
  if (connection->base.failure.status != MOONPAD_OK) return status;
  return mp_remote_note(&connection->base, status, MP_AGAIN_NEVER, "", error);
}

/* What the service calls ALREADY_EXISTS. */
static bool is_known_event(const mp_mysql_connection *connection, unsigned number) {
  if (number == MP_MYSQL_KNOWN) return true;
  bool is_in_text = connection->answered < connection->pending_count;
  return (number == ER_DUP_ENTRY || number == ER_DUP_ENTRY_WITH_KEY_NAME) && is_in_text &&
         connection->pending[connection->answered].appends_events;
}

static void word(const mp_mysql *store, unsigned number, const char *said, const meaning *found,
                 moonpad_error *reason) {
  const char *text = found->text != NULL ? found->text : said;
  if (is_of_library(number)) {
    mp_fail(reason, found->status, "%s: the connection is lost: %.200s", store->remote.place, text);
  } else {
    mp_fail(reason, found->status, "%s: %.300s (error %u)", store->remote.place, text, number);
  }
  mp_remote_scrub(&store->remote, reason->message);
}

/* The savepoint is not there: the transaction is not, either. */
static bool is_given_up(const mp_mysql_connection *connection, unsigned number) {
  return number == ER_SP_DOES_NOT_EXIST && connection->answered < connection->pending_count &&
         connection->pending[connection->answered].is_guard;
}

moonpad_status mp_mysql_fail(mp_mysql_connection *connection, moonpad_error *error) {
  unsigned number = mysql_errno(connection->my);
  if (is_given_up(connection, number)) number = GIVEN_UP_BY_GALERA;
  const meaning *found = meaning_of(number);
  moonpad_error reason;
  char code[16];
  moonpad_status status = found->status;
  if (is_known_event(connection, number)) {
    status = mp_fail(&reason, MOONPAD_ALREADY_EXISTS, "an event with this id or revision is already in this session");
  } else {
    word(connection->store, number, mysql_error(connection->my), found, &reason);
  }
  snprintf(code, sizeof code, "%u", number);
  mp_remote_note(&connection->base, status, found->again, code, &reason);
  /* These end the transaction on the server. Galera may have begun another one by then (tx.c). */
  bool has_ended = (number == ER_LOCK_DEADLOCK && !connection->is_galera) ||
                   (number >= MP_MYSQL_REFUSED && number <= MP_MYSQL_KNOWN);
  if (has_ended) connection->is_open = false;
  /* What libmariadb has not done, for want of memory say, leaves it where nobody knows. */
  if (is_of_library(number)) connection->base.must_close = true;
  if (error != NULL) *error = reason;
  return status;
}

moonpad_status mp_mysql_corrupt(mp_mysql_connection *connection, const char *what, moonpad_error *error) {
  return mp_fail(error, MOONPAD_CORRUPT, "%s: the database is damaged: %s", connection->store->remote.place, what);
}

/* ---- no connection ---- */

void mp_mysql_refuse(const mp_mysql *store, MYSQL *my, mp_remote_failure *failure) {
  unsigned number = mysql_errno(my);
  const meaning *found = meaning_of(number);
  /* A certificate or a plugin will not be another one the next time. */
  bool is_final =
      number == CR_SSL_CONNECTION_ERROR || number == CR_AUTH_PLUGIN_CANNOT_LOAD || number == CR_AUTH_PLUGIN_ERR;
  failure->again = is_final ? MP_AGAIN_NEVER : found->again;
  failure->was_connecting = true;
  failure->status = mp_fail(&failure->error, found->status, "%s: no connection: %.300s", store->remote.place,
                            found->text != NULL ? found->text : mysql_error(my));
  mp_remote_scrub(&store->remote, failure->error.message);
}
