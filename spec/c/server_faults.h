/*
** What the tests of every server share: calls of which any round trip is lost, writers under which
** a server dies, servers of a test's own.
*/
#ifndef SERVER_FAULTS_H
#define SERVER_FAULTS_H

#include <stdatomic.h>

#include "linked.h"

/* Adds 1 to a key, by an append. */
void faults_increment(moonpad_session *session, const char *key);

/* ---- a round trip that is lost, at any place of any call ---- */

/*
** Makes every call that reads or writes with each of its round trips lost once, the answer and the
** request: what is stored then must be the same as when none is. With scene->breaks_for_good the
** host behind the link is lost with it.
*/
void faults_lose_each_round_trip(linked *scene);
/*
** The COMMIT of a call is lost, and then an answer to what is asked because of it. `commit`: which
** round trip of an update of a user's state is its COMMIT.
*/
void faults_lose_commit_and_answer(linked *scene, int commit);

/* ---- servers of a test's own ---- */

typedef struct own_server {
  const char *script; /* spec/servers/NAME.sh */
  char folder[64];
  char url[256];
} own_server;

/* Runs the script with a verb, the folder, and more arguments. */
void own_server_run(const own_server *server, const char *verb, const char *more);
/* Makes a folder, runs the script in it, and takes the URL. */
void own_server_make(own_server *server, const char *script, const char *verb, const char *more);
/* Stops it and removes its folder. */
void own_server_end(own_server *server);

/* Two certificates for localhost, each signed by itself: FOLDER/cert0.pem, key0.pem, cert1.pem. */
void faults_make_certificates(const char *folder);

/* The message of the last failure has this text. */
void faults_say(const char *text);

/* Opens a service on a server's URL, whichever it is: one that waits far beyond what it has to. */
moonpad_status faults_open(const char *url, moonpad_service **service);
/*
** With this busyTimeoutMs: a service that gives up soon. The second opens it again where a busy
** machine does not let it come to the server in that time, until it is open.
*/
moonpad_status faults_open_within(const char *url, int64_t busy_timeout_ms, moonpad_service **service);
void faults_open_hasty(const char *url, int64_t busy_timeout_ms, moonpad_service **service);
/*
** It is not opened: what is waited for, as long as the service may, does not happen. The last
** failure says so, in words that have `says`.
*/
void faults_refuse(const char *url, moonpad_status status, const char *says);

/* Six processes open a URL at the same time, when there is nothing there yet. */
void faults_open_by_many(const char *url);

/* ---- eight writers ---- */

#define WRITERS 8

typedef struct writer {
  pthread_t thread;
  moonpad_service *service;
  int number;
  atomic_bool *ends;
  bool is_over;       /* it has been waited for */
  atomic_int stored;  /* appends that were acknowledged */
  atomic_int unknown; /* those that failed: they may have been stored */
  moonpad_error last;
} writer;

/* Each adds to a key of the app, from a session of its own, until *ends. */
void writers_start(writer *writers, moonpad_service *service, atomic_bool *ends);
/* The same, every other one through another service. */
void writers_start_on(writer *writers, moonpad_service *even, moonpad_service *odd, atomic_bool *ends);
/* The same, with numbers from `first` on: others write to the same app. */
void writers_start_from(writer *writers, int first, moonpad_service *service, atomic_bool *ends);
/* Until each of them has stored some more. */
void writers_go_on(const writer *writers);
/* Waits for their end. */
void writers_join(writer *writers);
/*
** The same; then every acknowledged event is there once, and the counter is the number of events.
*/
void writers_check(writer *writers, moonpad_service *service);
/* Its parts, for writers that have ended: how many events there are; is that the counter? */
int64_t writers_count(const writer *writers, moonpad_service *service);
void writers_check_sum(moonpad_service *service, int64_t events);
/* The same where a failover has lost events: whole ones may be missing. */
void writers_check_what_is_left(writer *writers, moonpad_service *service);

/*
** The server has two connections for the account of the URL, and a pool would take eight: writers
** wait for one, and who gets none is told, in words that have `says`.
*/
void faults_wait_for_a_connection(const char *url, const char *says);

#endif
