/* What is to be appended, and appending it before the call returns. append.h has the whole. */
#ifndef MP_SERVICE_APPEND_REQUEST_H
#define MP_SERVICE_APPEND_REQUEST_H

#include "moonpad.h"

/*
** What a delta by hand is compared with, unless a request says otherwise: the session object's
** snapshot (contract 2.2). 0 can say this, for revision 0 is what an object of a new session holds.
*/
#define MP_EXPECT_SNAPSHOT INT64_C(0)

/* What is to be appended. */
typedef struct mp_append_request {
  /* JSON. Borrowed: it must outlive mp_append_now; mp_append_later copies it. */
  moonpad_string event;
  /*
  ** The text was written by this library's encoder (compact, valid, no key twice): it is only
  ** checked for being an event.
  */
  bool is_trusted;
  /* The change set whose pending writes go along; NULL: none. */
  moonpad_changes *changes;
  /*
  ** Refuses a key that is pending there and in the event's own delta as well. Not looked at for a
  ** partial event, which stores nothing.
  */
  bool refuses_shared_keys;
  /* The session's revision that the delta was made from; MP_EXPECT_SNAPSHOT is the default. */
  int64_t expected_revision;
} mp_append_request;

/*
** Appends before it returns; *stored (may be NULL) as in moonpad_append_event. A partial event is
** handed back and stores nothing; pending writes stay pending then.
*/
moonpad_status mp_append_now(moonpad_session *session, const mp_append_request *request, moonpad_event **stored,
                             moonpad_error *error);

#endif
