/*
** moonpad: an embeddable agent state runtime.
**
** This header is the whole C API and its manual. It needs no Lua. "Contract n.n" is a section of
** docs/contract.md, where a rule comes from; docs/c.md goes through the API by task.
**
** Sections: version, limits, errors · text and values · option structs · hooks · service ·
** sessions · state of a session · change sets · events · asynchronous appends · user and app
** state · history · export and import · JSON and templates
**
** Conventions
**   Status     Every call that can fail returns a moonpad_status and takes, last, a
**              `moonpad_error *` owned by the caller (NULL when the message is of no interest). On
**              failure nothing has changed and no out parameter is left half-filled: handles and
**              buffers are NULL, counts are 0, values are MOONPAD_ABSENT.
**   Arguments  Handles and out parameters must not be NULL, unless a comment says that they may
**              be.
**   Strings    Text is (pointer, length) in UTF-8, as moonpad_string; a NUL byte may be part of it.
**              What the caller passes is copied before the call returns. What moonpad hands out as
**              moonpad_string or const char * is borrowed: it is valid as long as the function
**              says.
**   Ownership  A handle is released by the function named after it (`moonpad_session_free`), NULL
**              is accepted.
**   Time       Seconds since 1970-01-01 UTC, as double. Durations name their unit
**              (`busy_timeout_ms`).
**   Revisions  A session counts its events: revision n is the state after its n-th event, 0 the
**              state it was created with.
**   JSON       What the caller gives is checked: RFC 8259 in UTF-8, and no key twice in an object
**              (RFC 7493), because keeping one of the two would lose the other. invalid_argument
**              names the byte, and the key.
**   State keys carry their scope as a prefix: "user:", "app:", "temp:", none for this session
**              (contract 1.1).
**   Paths      reach into a value: "address.city", "items[2].name"; indices count from 1; empty:
**              the whole value.
**
** "Errors:" lists what a function can answer besides MOONPAD_OK. "Store errors" are what any call
** that asks the store can get:
**   closed       the service has been closed
**   busy         another process kept the store locked for longer than busy_timeout_ms
**   storage      the disk is full, an I/O error, a file that cannot be written or is gone
**   corrupt      the store is damaged
**   unsupported  a newer moonpad has brought the file to a schema that this library does not know
**   limit        what is to be written is larger than the store can keep
**   no_memory    an allocation failed
**
** "Threads:" says who may call it:
**   any            any thread, several at the same time
**   the session's  the thread that uses the session object. That, with its change sets and what was
**                  borrowed from it, belongs to one thread at a time (contract 6). Another thread
**                  may take it over where both synchronize.
**   one at a time  the object belongs to one thread at a time, in the same way
**
** There is no global state: clock, id source, allocator and log function are set per service.
*/
#ifndef MOONPAD_H
#define MOONPAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(MOONPAD_EXPORTS)
#define MOONPAD_API __declspec(dllexport) /* moonpad is being built, as a DLL */
#elif defined(__GNUC__)
#define MOONPAD_API __attribute__((visibility("default")))
#else
#define MOONPAD_API
#endif

/* ---- Version ---- */

#define MOONPAD_VERSION_MAJOR 0
#define MOONPAD_VERSION_MINOR 1
#define MOONPAD_VERSION_PATCH 0
#define MOONPAD_VERSION       "0.1.0"
/* 0.1.0 is 1000, 1.2.3 is 1002003: newer versions have larger numbers. */
#define MOONPAD_VERSION_NUMBER (MOONPAD_VERSION_MAJOR * 1000000 + MOONPAD_VERSION_MINOR * 1000 + MOONPAD_VERSION_PATCH)

/*
** The version of the library that is running, which may be another one than that of the header: as
** MOONPAD_VERSION ("0.1.0", a constant) and as MOONPAD_VERSION_NUMBER.
** Errors: none.
** Threads: any.
*/
MOONPAD_API const char *moonpad_version(void);
MOONPAD_API int moonpad_version_number(void);

/*
** ---- Fixed limits (contract 1.1, 1.2, 2, 2.1). Writing something that exceeds a limit is
** MOONPAD_INVALID_ARGUMENT; reading a key that is too long finds nothing. ----
*/

#define MOONPAD_MAX_KEY_BYTES      1024 /* a state key, prefix included */
#define MOONPAD_MAX_NAME_BYTES     255  /* appName, userId, sessionId */
#define MOONPAD_MAX_EVENT_ID_BYTES 1024 /* an event's id */
#define MOONPAD_MAX_DEPTH          128  /* nesting of a value */

/* ---- Errors (contract 2.3) ---- */

typedef enum moonpad_status {
  MOONPAD_OK = 0,
  MOONPAD_INVALID_ARGUMENT, /* a bad value, name, key, path or option */
  MOONPAD_NOT_FOUND,        /* no such session, revision, event or invocation */
  MOONPAD_ALREADY_EXISTS,   /* a session with this id, or another event with this id */
  MOONPAD_CONFLICT,         /* somebody else changed a key since it was read (contract 2.2) */
  MOONPAD_TEMPLATE,         /* an instruction template names something that is not there */
  MOONPAD_MODEL,            /* a model answered with an error (agents, moonpad_lua.h) */
  /* a script of an agent raised an error of its own (agents, moonpad_lua.h) */
  MOONPAD_TOOL,
  MOONPAD_LIMIT,      /* a configured limit was exceeded */
  MOONPAD_BUSY,       /* a lock was not had within busy_timeout_ms */
  MOONPAD_CLOSED,     /* the service has been closed, or a change set's session freed */
  MOONPAD_CANCELLED,  /* reserved for the agent layer */
  MOONPAD_STORAGE,    /* disk full, I/O error, read-only, a file that is gone */
  MOONPAD_CORRUPT,    /* not a database, or a damaged one */
  MOONPAD_NO_MEMORY,  /* an allocation failed */
  MOONPAD_UNSUPPORTED /* a store that is not built in, a newer file, a call the store lacks */
} moonpad_status;

/*
** Filled on failure. `message` is NUL-terminated UTF-8, cut at its end if need be, and never names
** a password. The keys of a conflict are not in here: the session object has them
** (moonpad_session_conflict_key).
*/
typedef struct moonpad_error {
  moonpad_status code;
  char message[1016];
} moonpad_error;

/*
** The name of a status as in the contract ("invalid_argument"): a constant, also for a number that
** is no status.
** Errors: none.
** Threads: any.
*/
MOONPAD_API const char *moonpad_status_name(moonpad_status status);

/* ---- Text and values (contract 1.2) ---- */

typedef struct moonpad_string {
  const char *data; /* may be NULL when length is 0 */
  size_t length;    /* bytes */
} moonpad_string;

/*
** Wraps a NUL-terminated string without copying it; NULL gives the empty string.
** Errors: none.
** Threads: any.
*/
static inline moonpad_string moonpad_text(const char *text) {
  moonpad_string string;
  string.data = text;
  string.length = 0;
  if (text != NULL) {
    while (text[string.length] != '\0') string.length++;
  }
  return string;
}

typedef enum moonpad_type {
  MOONPAD_ABSENT = 0, /* there is no such value */
  MOONPAD_NULL,
  MOONPAD_BOOLEAN,
  MOONPAD_INTEGER,
  MOONPAD_FLOAT,
  MOONPAD_STRING, /* `text` holds the string itself */
  MOONPAD_ARRAY,  /* `text` holds compact JSON */
  MOONPAD_OBJECT  /* `text` holds compact JSON */
} moonpad_type;

/*
** A typed scalar or JSON text. Borrowed: the function that fills it says how long `text` is valid.
** In a value that is given to moonpad, MOONPAD_ARRAY and MOONPAD_OBJECT mean the same: `text` is
** the JSON of an array or of an object, and moonpad finds out from the text which of the two it is.
** A value that moonpad fills has the type that its text has.
*/
typedef struct moonpad_value {
  moonpad_type type;
  union {
    bool boolean;
    int64_t integer;
    double number;
    moonpad_string text;
  } as;
} moonpad_value;

/*
** Values to give to moonpad. A text is not copied here but by the call that takes the value.
** moonpad_json wraps the JSON of an array or object. If its text is the JSON of a scalar, the call
** that takes the value fails with invalid_argument: use the function for the scalar's type.
** Errors: none.
** Threads: any.
*/
static inline moonpad_value moonpad_null_value(void) {
  moonpad_value value;
  value.type = MOONPAD_NULL;
  value.as.text.data = NULL;
  value.as.text.length = 0;
  return value;
}
static inline moonpad_value moonpad_boolean(bool boolean) {
  moonpad_value value = moonpad_null_value();
  value.type = MOONPAD_BOOLEAN;
  value.as.boolean = boolean;
  return value;
}
static inline moonpad_value moonpad_integer(int64_t integer) {
  moonpad_value value;
  value.type = MOONPAD_INTEGER;
  value.as.integer = integer;
  return value;
}
static inline moonpad_value moonpad_float(double number) {
  moonpad_value value;
  value.type = MOONPAD_FLOAT;
  value.as.number = number;
  return value;
}
static inline moonpad_value moonpad_string_value(moonpad_string text) {
  moonpad_value value;
  value.type = MOONPAD_STRING;
  value.as.text = text;
  return value;
}
static inline moonpad_value moonpad_json(moonpad_string text) {
  moonpad_value value;
  value.type = MOONPAD_OBJECT;
  value.as.text = text;
  return value;
}

/*
** Bytes that moonpad allocated for the caller. They outlive what they were got from, the service
** included.
*/
typedef struct moonpad_buffer {
  char *data;    /* NUL-terminated for convenience; the NUL is not counted */
  size_t length; /* bytes */
  void *owner;   /* private */
} moonpad_buffer;

/*
** Gives the bytes back; `buffer` (may be NULL, and may be {0}) is empty then.
** Errors: none.
** Threads: any, each buffer by one at a time.
*/
MOONPAD_API void moonpad_buffer_free(moonpad_buffer *buffer);

/*
** ---- Option structs ----
**
** Later versions may add fields to these structs, and to no other type. Each struct begins with its
** size. Its `_init` function, which is inline, sets the size and the defaults of the header that a
** program is built with; call it first. A library accepts a smaller struct, of an older program:
** the fields that the struct lacks have their defaults. A library accepts a larger struct, of a
** newer program, if the fields that the library does not know are zero bytes; otherwise the call
** is `unsupported`. A size that no version has is `invalid_argument`.
**
** Whoever adds a field: put it at the end, beginning where the struct ended before (no field may
** lie in what was padding), and let zero bytes (0, NULL, false) be its default, in _init and in the
** library. Then a program that does not set it runs with an older library as well. Never remove,
** move or resize a field, nor change what a value of it means.
*/

/* All stored events of a session. Of a run in moonpad_lua.h it means MOONPAD_DEFAULT. */
#define MOONPAD_ALL_EVENTS INT64_C(-1)
/* Of an option that the service has as well: as the service has it. */
#define MOONPAD_DEFAULT INT64_MIN

/*
** ---- Hooks of the host, per service (contract 6) ----
**
** They are called on whatever thread needs them: those that call moonpad, and the service's own, at
** the same time. What `context` points to must outlive the service and all that was got from it.
*/

/*
** Memory of the service and of all that is got from it. `allocate` gives `size` bytes (never 0),
** aligned for any type, or NULL. `resize` with NULL allocates. `release` never gets NULL. SQLite's
** own memory does not come from here.
** May call: no function of moonpad, nor wait for a thread that is in one. It is called in the
** middle of transactions.
** Threads: any, several at the same time.
*/
typedef struct moonpad_allocator {
  void *(*allocate)(void *context, size_t size);
  void *(*resize)(void *context, void *block, size_t size);
  void (*release)(void *context, void *block);
  void *context;
} moonpad_allocator;

/*
** The time now, in seconds since 1970. It is used for the times of sessions and events, and for
** UUIDv7. With NaN, an infinity or a time before 1970, the call that asked for the time fails with
** invalid_argument. The clock may go backwards: its time is used as it is.
** May call: no function of moonpad, nor wait for a thread that is in one.
** Threads: any, several at the same time.
*/
typedef double (*moonpad_clock_function)(void *context);

/*
** Fills `bytes` with 16 random bytes, from which UUIDs are made.
** May call: no function of moonpad, nor wait for a thread that is in one.
** Threads: any, several at the same time.
*/
typedef void (*moonpad_random_function)(void *context, unsigned char bytes[16]);

/*
** Receives the failures that no call can report: those of asynchronous appends that had no
** callback, or were dropped before they were polled. Also told is, as `storage`, that the store has
** lost events that a session object knew; the call that found out has brought the object to what is
** stored. `message` is borrowed for the call.
** May call: moonpad_status_name, and no other function of moonpad; it must not wait for a thread
** that is in one.
** Threads: any, several at the same time.
*/
typedef void (*moonpad_log_function)(void *context, moonpad_status status, const char *message);

/*
** A store that comes from outside the library: a module hands over its opener, which
** src/store/store.h describes with what it may call. `scheme` is the URL's without the colon
** ("example"); it is looked for before the built-in ones.
*/
typedef struct moonpad_store_opener moonpad_store_opener;
typedef struct moonpad_store_scheme {
  const char *scheme;
  const moonpad_store_opener *opener;
} moonpad_store_scheme;

/* ---- Service: an open store (contract 2 and 5) ---- */

typedef struct moonpad_service moonpad_service;
typedef struct moonpad_session moonpad_session;
typedef struct moonpad_changes moonpad_changes;
typedef struct moonpad_event moonpad_event;
typedef struct moonpad_event_cursor moonpad_event_cursor;
typedef struct moonpad_queue moonpad_queue;
typedef struct moonpad_export moonpad_export;
typedef struct moonpad_import moonpad_import;

typedef enum moonpad_durability {
  MOONPAD_DURABILITY_FULL = 0, /* an acknowledged append survives power loss */
  MOONPAD_DURABILITY_NORMAL    /* survives a crash of the process */
} moonpad_durability;

typedef enum moonpad_on_conflict {
  MOONPAD_ON_CONFLICT_ERROR = 0,
  MOONPAD_ON_CONFLICT_OVERWRITE /* no conflict checks: the last append wins */
} moonpad_on_conflict;

typedef enum moonpad_on_max_sessions {
  MOONPAD_ON_MAX_SESSIONS_REFUSE = 0,
  MOONPAD_ON_MAX_SESSIONS_DELETE_OLDEST /* by their last update */
} moonpad_on_max_sessions;

/* Later versions append fields: see "Option structs". */
typedef struct moonpad_options {
  size_t size; /* set by moonpad_options_init */
  moonpad_durability durability;
  moonpad_on_conflict on_conflict;
  int64_t busy_timeout_ms;            /* 5000 */
  int64_t num_recent_events;          /* of moonpad_get_session by default; MOONPAD_ALL_EVENTS */
  int64_t max_value_bytes;            /* of one state value; 16 MiB; 0 = no limit */
  int64_t max_event_bytes;            /* of one stored event; 64 MiB; 0 = no limit */
  int64_t max_state_bytes;            /* of one session's own state; 256 MiB; 0 = no limit */
  const moonpad_allocator *allocator; /* NULL: malloc; copied */
  moonpad_clock_function clock;       /* NULL: the system's */
  void *clock_context;
  moonpad_random_function random; /* NULL: the system's */
  void *random_context;
  moonpad_log_function log; /* NULL: silent */
  void *log_context;
  /* borrowed until moonpad_open returns; NULL: the built-in ones only */
  const moonpad_store_scheme *stores;
  size_t store_count;
  /*
  ** How long sessions, the state of users and that of apps live without being used, in seconds,
  ** fractions included; 0 = for ever. Each has its own clock, which getting and refreshing a
  ** session, appends and the calls on history and on user and app state start again. What has
  ** expired is absent everywhere, whether it has been swept or not (contract 5).
  */
  double session_ttl_seconds;
  double user_ttl_seconds;
  double app_ttl_seconds;
  /* how often the service sweeps by itself (moonpad_sweep), in seconds of real time; 0 = never */
  double sweep_interval_seconds;
  /* what an append leaves of a session's events at most, in whole turns; 0 = all (contract 5) */
  int64_t max_events;
  double event_ttl_seconds; /* the same by the timestamp of a turn's last event; 0 = for ever */
  moonpad_on_max_sessions on_max_sessions;
  int64_t max_sessions_per_user; /* 0 = no limit */
} moonpad_options;

/*
** Sets the size and the defaults. First of all.
** Errors: none.
** Threads: any.
*/
static inline void moonpad_options_init(moonpad_options *options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
  options->busy_timeout_ms = 5000;
  options->num_recent_events = MOONPAD_ALL_EVENTS;
  options->max_value_bytes = INT64_C(16) << 20;
  options->max_event_bytes = INT64_C(64) << 20;
  options->max_state_bytes = INT64_C(256) << 20;
}

/*
** Opens a store: "memory:", "sqlite:PATH", "sqlite::memory:", "sqlite:///relative",
** "sqlite:////absolute". `options` may be NULL. *service is the caller's, one reference.
** Errors: invalid_argument (an option, or what follows the scheme), unsupported (a scheme that is
** not built in, a file of a newer schema, an option of a later version), corrupt (not a database of
** moonpad, or a damaged one; the file is left alone), storage (the file or its folder cannot be
** used), busy, no_memory.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_open(moonpad_string url, const moonpad_options *options, moonpad_service **service,
                                        moonpad_error *error);

/*
** Closes the store: waits for calls and asynchronous appends under way, then every further call on
** the service or its sessions is `closed`. What a session already holds stays readable, and what is
** pending on it can still be read and changed, but not stored. Idempotent, NULL is ignored. If
** several threads close the service, each call returns when the store is closed. While somebody
** else keeps the store locked, the call waits for busy_timeout_ms; queued appends then fail with
** `busy`.
** Errors: none.
** Threads: any.
*/
MOONPAD_API void moonpad_service_close(moonpad_service *service);

/*
** A service has a reference count: every session, cursor, queue, export and import holds a
** reference, and whoever shares the service retains it. The last release closes the service.
** Asynchronous appends that nobody has polled by then are stored all the same, but their callbacks
** are not called; the log hook is told of those that failed. moonpad_service_retain returns its
** argument. NULL is ignored.
** Errors: none.
** Threads: any.
*/
MOONPAD_API moonpad_service *moonpad_service_retain(moonpad_service *service);
MOONPAD_API void moonpad_service_release(moonpad_service *service);

/*
** A consistent copy of the store in a new file at `path`, while others write.
** Errors: unsupported (this store has no backup), invalid_argument (the path is empty, has a NUL or
** is not UTF-8), already_exists (there is such a file), store errors.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_backup(moonpad_service *service, moonpad_string path, moonpad_error *error);

/*
** What a sweep has freed: sessions, users and apps whose state it was, events of living sessions.
*/
typedef struct moonpad_swept {
  int64_t sessions;
  int64_t users;
  int64_t apps;
  int64_t events;
} moonpad_swept;

/*
** Frees what has expired by the times to live of this service: sessions, the state of users and of
** apps, and turns older than event_ttl_seconds. It works in small transactions, so that others can
** write in between; what one of them has freed stays freed if a later one fails. `swept` (may be
** NULL) becomes what was freed, on failure as well. sweep_interval_seconds does this by itself;
** failures of that are told to the log hook.
** Errors: invalid_argument (the clock), unsupported (the store cannot sweep), store errors.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_sweep(moonpad_service *service, moonpad_swept *swept, moonpad_error *error);

/*
** ---- Sessions (contract 2) ----
**
** A session object is a snapshot of a stored session: it changes by its own appends and by
** moonpad_refresh only. It belongs to one creation: once its session is deleted, it gets not_found
** from the store, even when the same id exists again.
*/

/*
** Names are non-empty UTF-8 of at most MOONPAD_MAX_NAME_BYTES without NUL; session_id is trimmed of
** ASCII blanks. An invalid name is invalid_argument; the message says which: appName, userId or
** sessionId.
*/
typedef struct moonpad_session_name {
  moonpad_string app_name;
  moonpad_string user_id;
  moonpad_string session_id;
} moonpad_session_name;

/*
** Creates a session. An empty or blank session_id gets a UUIDv4. `state` is a JSON object of
** initial state or empty; it is split by scope, "temp:" keys are dropped, and it is revision 0.
** *session is the caller's.
** Errors: invalid_argument (a name, the state, the clock), already_exists, limit (max_value_bytes,
** max_state_bytes, max_sessions_per_user), store errors.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_create_session(moonpad_service *service, const moonpad_session_name *name,
                                                  moonpad_string state, moonpad_session **session,
                                                  moonpad_error *error);

/* Later versions append fields: see "Option structs". */
typedef struct moonpad_get_options {
  size_t size;
  /* the last n; 0 none; MOONPAD_ALL_EVENTS; MOONPAD_DEFAULT: as the service has it */
  int64_t num_recent_events;
  bool has_after_timestamp;
  double after_timestamp; /* inclusive; used when has_after_timestamp; before num_recent_events */
} moonpad_get_options;

/*
** Sets the size and the defaults. First of all.
** Errors: none.
** Threads: any.
*/
static inline void moonpad_get_options_init(moonpad_get_options *options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
  options->num_recent_events = MOONPAD_DEFAULT;
}

/*
** Reads a session; `options` may be NULL. Costs the size of its state, not of its history. *session
** is the caller's.
** Errors: not_found (there is no such session), invalid_argument (a name, an option), unsupported
** (an option of a later version), store errors.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_get_session(moonpad_service *service, const moonpad_session_name *name,
                                               const moonpad_get_options *options, moonpad_session **session,
                                               moonpad_error *error);

/*
** Frees the object (not the stored session; NULL is ignored). Waits first until its asynchronous
** appends are stored; their callbacks get NULL for it. What its change sets have pending is
** dropped: every call on them is `closed` from then on. They must still be freed.
** Errors: none.
** Threads: the session's.
*/
MOONPAD_API void moonpad_session_free(moonpad_session *session);

/*
** Deletes a stored session. `existed` (may be NULL) tells whether there was one. User and app state
** stay.
** Errors: invalid_argument (a name), store errors.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_delete_session(moonpad_service *service, const moonpad_session_name *name,
                                                  bool *existed, moonpad_error *error);

/*
** Forgets a user: all its sessions and its user state, in one transaction. `sessions` (may be
** NULL) becomes how many sessions it had, expired ones not counted; of a user that is not known, 0.
** Session objects of the user get not_found from then on.
** Errors: invalid_argument (a name, the clock), store errors.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_delete_user(moonpad_service *service, moonpad_string app_name,
                                               moonpad_string user_id, int64_t *sessions, moonpad_error *error);

/* Later versions append fields: see "Option structs". */
typedef struct moonpad_list_options {
  size_t size;
  moonpad_string user_id; /* used when has_user_id */
  bool has_user_id;
  /* false: by last update, then user id, then session id; true: the exact reverse */
  bool newest_first;
  int64_t limit;        /* 0: all */
  moonpad_string after; /* the cursor of the page before, or empty */
} moonpad_list_options;

/*
** Sets the size and the defaults. First of all.
** Errors: none.
** Threads: any.
*/
static inline void moonpad_list_options_init(moonpad_list_options *options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
}

typedef struct moonpad_session_list moonpad_session_list;

/*
** Lists sessions of an app with merged state and no events. `options` may be NULL. *list is the
** caller's.
** Errors: invalid_argument (a name, a negative limit, an `after` that is no cursor), unsupported
** (an option of a later version), store errors.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_list_sessions(moonpad_service *service, moonpad_string app_name,
                                                 const moonpad_list_options *options, moonpad_session_list **list,
                                                 moonpad_error *error);
/*
** What is in a list. `_at` gives a session that is borrowed from the list, `_take` takes it out,
** and the caller frees it: both give NULL beyond the end, and for one that was taken before.
** `_cursor`, borrowed from the list, is for `after` of the next page; empty when there is none.
** `_free` frees the list with the sessions in it; NULL is ignored.
** Errors: none.
** Threads: one at a time.
*/
MOONPAD_API size_t moonpad_session_list_count(const moonpad_session_list *list);
MOONPAD_API moonpad_session *moonpad_session_list_at(const moonpad_session_list *list, size_t index);
MOONPAD_API moonpad_session *moonpad_session_list_take(moonpad_session_list *list, size_t index);
MOONPAD_API moonpad_string moonpad_session_list_cursor(const moonpad_session_list *list);
MOONPAD_API void moonpad_session_list_free(moonpad_session_list *list);

/*
** What a session object holds. Strings, and the service, are borrowed until it is freed. Times are
** seconds since 1970; the conversation count is that of the user's messages so far.
** Errors: none.
** Threads: the session's.
*/
MOONPAD_API moonpad_string moonpad_session_id(const moonpad_session *session);
MOONPAD_API moonpad_string moonpad_session_app_name(const moonpad_session *session);
MOONPAD_API moonpad_string moonpad_session_user_id(const moonpad_session *session);
MOONPAD_API double moonpad_session_create_time(const moonpad_session *session);
MOONPAD_API double moonpad_session_last_update_time(const moonpad_session *session);
MOONPAD_API int64_t moonpad_session_revision(const moonpad_session *session);
MOONPAD_API int64_t moonpad_session_conversation_count(const moonpad_session *session);
MOONPAD_API moonpad_service *moonpad_session_service(const moonpad_session *session);

/*
** Brings the object up to the stored revision. Pending writes stay pending, and count as written
** after the new values were seen (contract 2.2). Waits first for the object's asynchronous appends.
** Errors: not_found (deleted meanwhile), store errors.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_refresh(moonpad_session *session, moonpad_error *error);

/*
** The keys of the last `conflict` that an append of this session object failed with. Those of an
** asynchronous append are there from its callback on. The keys are borrowed from the session object
** (a moonpad_error owns no memory) until its next append. {NULL, 0} beyond the last key.
** Errors: none.
** Threads: the session's.
*/
MOONPAD_API size_t moonpad_session_conflict_count(const moonpad_session *session);
MOONPAD_API moonpad_string moonpad_session_conflict_key(const moonpad_session *session, size_t index);

/* ---- State of a session (contract 1) ---- */

/*
** The value of a key (with its prefix), pending writes of the session object included; `path`
** reaches into it without decoding the rest. Absent: type MOONPAD_ABSENT and MOONPAD_OK. Counts as
** a read of the key (contract 2.2). The text is borrowed until the next call on this session or a
** change set of it, or a poll of its queue.
** Errors: invalid_argument (a malformed path into a key that is there; a pending increment or
** append that does not fit what others have stored since), no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_session_read(moonpad_session *session, moonpad_string key, moonpad_string path,
                                                moonpad_value *value, moonpad_error *error);

/*
** The merged state as one JSON object, keys sorted, pending writes of the session object included.
** Counts as a read of every key. `json` is the caller's.
** Errors: invalid_argument (a pending increment or append does not fit what others have stored
** since), no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_session_state(moonpad_session *session, moonpad_buffer *json, moonpad_error *error);

/*
** ---- Change sets: pending writes on a session (contract 1.3, 1.4) ----
**
** A change set lies over what the session object shows. Nothing is seen by others until it is
** committed as an event. Several may be open on one session; each is to be freed, before the
** session or after it. Once the session is freed, every call on them is `closed`, and nothing is
** pending. Every `key` carries its prefix, every `path` reaches into the key's value.
*/

/*
** Opens a change set, which is the caller's.
** Errors: no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_begin(moonpad_session *session, moonpad_changes **changes,
                                                 moonpad_error *error);
/*
** The session object's own change set, borrowed until the session is freed: what
** moonpad_session_read reads through, and moonpad_update_session stores.
** Errors: no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_session_changes(moonpad_session *session, moonpad_changes **changes,
                                                   moonpad_error *error);
/*
** `_discard` drops what is pending. `_free` drops it as well, and frees the change set (NULL is
** ignored). Do not free a session object's own change set.
** Errors: none.
** Threads: the session's.
*/
MOONPAD_API void moonpad_changes_discard(moonpad_changes *changes);
MOONPAD_API void moonpad_changes_free(moonpad_changes *changes);

/*
** Reads through the pending writes; as moonpad_session_read. The text is borrowed until the next
** call on this change set or its session, or a poll of the session's queue.
** Errors: closed (the session has been freed), invalid_argument (a malformed path into a key that
** is there; a pending increment or append that does not fit what others have stored since),
** no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_get(moonpad_changes *changes, moonpad_string key, moonpad_string path,
                                               moonpad_value *value, moonpad_error *error);

/*
** Is the key there, pending writes included? A stored null is. Counts as a read of the key.
** Errors: closed (the session has been freed), no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_has(moonpad_changes *changes, moonpad_string key, bool *there,
                                               moonpad_error *error);

typedef struct moonpad_key_list moonpad_key_list;

/*
** All keys that have a value, prefixes in place, pending writes included, sorted by their bytes.
** Counts as a read of every key, those included that are not there. *keys is the caller's.
** Errors: closed (the session has been freed), no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_keys(moonpad_changes *changes, moonpad_key_list **keys,
                                                moonpad_error *error);
/*
** What is in the list, which stays as it was made, also when the session has been freed. `_at` is
** borrowed from the list; {NULL, 0} beyond its end. `_free` ignores NULL.
** Errors: none.
** Threads: the session's.
*/
MOONPAD_API size_t moonpad_key_list_count(const moonpad_key_list *list);
MOONPAD_API moonpad_string moonpad_key_list_at(const moonpad_key_list *list, size_t index);
MOONPAD_API void moonpad_key_list_free(moonpad_key_list *list);

/*
** What is pending. `delta` becomes a JSON object of the written keys, with the values that this
** change set shows now. `removed` (may be NULL) becomes a JSON array of the keys that are to be
** removed. Both are sorted; both are the caller's. The call does not count as a read.
** Errors: closed (the session has been freed), invalid_argument (a pending increment or append does
** not fit what others have stored since), no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_delta(moonpad_changes *changes, moonpad_buffer *delta,
                                                 moonpad_buffer *removed, moonpad_error *error);

/*
** The merged state, pending writes included, as one JSON object with sorted keys. Counts as a read
** of every key. `json` is the caller's.
** Errors: closed (the session has been freed), invalid_argument (a pending increment or append does
** not fit what others have stored since), no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_state(moonpad_changes *changes, moonpad_buffer *json, moonpad_error *error);

/*
** Is anything pending? Not when the session has been freed.
** Errors: none.
** Threads: the session's.
*/
MOONPAD_API bool moonpad_changes_pending(const moonpad_changes *changes);

/*
** Sets a value or, with a path, one value inside it (what is above it must be there).
** Errors: closed (the session has been freed), invalid_argument (the key, the path, the value, a
** path through what is no table, or through a pending increment that does not fit any more, a
** change set that takes no more writes), limit (a whole value is larger than max_value_bytes; of a
** value inside, the commit tells), no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_set(moonpad_changes *changes, moonpad_string key, moonpad_string path,
                                               const moonpad_value *value, moonpad_error *error);
/*
** Removes a key, or one value inside it (of an array: the last item only). To remove a value
** that is not there, or one below it, does nothing; to remove a key that is not there is pending
** like any other removal.
** Errors: closed (the session has been freed), invalid_argument (the key, the path, an item that is
** not the last, a change set that takes no more writes), no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_remove(moonpad_changes *changes, moonpad_string key, moonpad_string path,
                                                  moonpad_error *error);
/*
** Adds at commit, under the store's lock, to the value stored then; `by` is an integer or a float.
** A missing key counts from 0. Reads in between see the local sum. No conflict (contract 2.2).
** Errors: closed (the session has been freed), invalid_argument (the key, `by` is no number, the
** value there is none, the sum overflows, a change set that takes no more writes), no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_increment(moonpad_changes *changes, moonpad_string key,
                                                     const moonpad_value *by, moonpad_error *error);
/*
** Appends an item to an array at commit, under the store's lock; a missing key and an empty object
** count as an empty array. The array is one level of the value's depth. No conflict.
** Errors: closed (the session has been freed), invalid_argument (the key, the item, the value there
** is no array, a change set that takes no more writes), no_memory.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_append(moonpad_changes *changes, moonpad_string key,
                                                  const moonpad_value *item, moonpad_error *error);

/*
** Appends `event` (a JSON object, "{}" will do) with the pending writes added to its stateDelta, as
** moonpad_append_event does. On failure the writes stay pending.
** Errors: those of moonpad_append_event; closed (the session has been freed), too.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_commit(moonpad_changes *changes, moonpad_string event,
                                                  moonpad_event **stored, moonpad_error *error);

/*
** Appends what is pending on the session object itself (written through moonpad_session_changes, or
** Lua's session.state) as one event by "system". Nothing pending: MOONPAD_OK and *stored is NULL.
** `stored` may be NULL.
** Errors: those of moonpad_append_event; closed (the service) also when nothing is pending.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_update_session(moonpad_session *session, moonpad_event **stored,
                                                  moonpad_error *error);

/* ---- Events (contract 2.1 and 3) ---- */

/*
** Appends an event given as a JSON object: the one way in which state changes. A removal in
** `actions.stateDelta` is written as null plus the key in the event's `removedStateKeys` list.
** `stored` (may be NULL) gets the stored event, which is the caller's; a partial event comes back
** unchanged with revision 0. Returns when it is durable, after the asynchronous appends of this
** session object. To append an event with the id and the content of a stored one succeeds, and does
** not apply it again. If memory runs out only after the event is durable, the call does not fail:
** the status is OK, `stored` gets NULL, and the event can be read with moonpad_session_event.
** Errors: invalid_argument (the event, the clock, an increment or append that does not fit what is
** stored), not_found (the session has been deleted), already_exists (an event of this id with other
** content), conflict (somebody else has changed a key that it writes, contract 2.2), limit
** (max_value_bytes, max_event_bytes, max_state_bytes), store errors.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_append_event(moonpad_session *session, moonpad_string event, moonpad_event **stored,
                                                moonpad_error *error);

/*
** What an event holds. Text is borrowed until the event is freed; of an event that a cursor gave,
** until the next call on the cursor (moonpad_event_cursor_next); of one that a callback got, until
** the callback returns (moonpad_append_callback). moonpad_event_json is compact and without the
** revision, which is 0 for a partial event. The time is in seconds since 1970.
** Errors: none.
** Threads: one at a time.
*/
MOONPAD_API moonpad_string moonpad_event_json(const moonpad_event *event);
MOONPAD_API int64_t moonpad_event_revision(const moonpad_event *event);
MOONPAD_API moonpad_string moonpad_event_id(const moonpad_event *event);
MOONPAD_API double moonpad_event_timestamp(const moonpad_event *event);

/*
** Frees an event that is the caller's, not one that a cursor or a callback owns. NULL is ignored.
** Errors: none.
** Threads: one at a time.
*/
MOONPAD_API void moonpad_event_free(moonpad_event *event);

/*
** How many events the session object shows (filters of moonpad_get_session and its own appends
** included). Asks the store only where after_timestamp was used, the first time; of a session that
** has been deleted by then it is 0.
** Errors: store errors, where it asks the store; else none.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_session_event_count(moonpad_session *session, size_t *count, moonpad_error *error);

/*
** The event at `index` (from 0), read from the store in pages. `event` is the caller's.
** Errors: not_found (there are not so many, the session has been deleted, or the event trimmed),
** store errors.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_session_event(moonpad_session *session, size_t index, moonpad_event **event,
                                                 moonpad_error *error);

/* Later versions append fields: see "Option structs". */
typedef struct moonpad_event_cursor_options {
  size_t size;
  /*
  ** Both 0: the events that the session object shows. Otherwise the events of these revisions,
  ** shown or not. A first_revision of 0 is the oldest stored one; a last_revision of 0, or beyond
  ** the newest one that the object knows, is that newest one.
  */
  int64_t first_revision;
  int64_t last_revision;
  bool newest_first;
} moonpad_event_cursor_options;

/*
** Sets the size and the defaults. First of all.
** Errors: none.
** Threads: any.
*/
static inline void moonpad_event_cursor_options_init(moonpad_event_cursor_options *options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
}

/*
** Opens a cursor over the events that the session object shows now. The cursor reads them in pages
** of about a mebibyte, so the history may have any length, and gives them without copying each.
** Later calls on the object and later appends do not change what the cursor gives; the object may
** be freed. `options` may be NULL. *cursor is the caller's.
** Errors: invalid_argument (a negative revision, an option), unsupported (an option of a later
** version), closed, no_memory; those of moonpad_session_event_count where after_timestamp was used.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_event_cursor_open(moonpad_session *session,
                                                     const moonpad_event_cursor_options *options,
                                                     moonpad_event_cursor **cursor, moonpad_error *error);
/*
** Gives the next event, borrowed from the cursor; *event is NULL after the last one. Do not free
** the event. The event, and all that is borrowed from it, is valid until the next call on the
** cursor. After an error the cursor has not moved, and the call can be repeated.
** Errors: not_found (the event has been trimmed, or the session deleted), store errors.
** Threads: one at a time.
*/
MOONPAD_API moonpad_status moonpad_event_cursor_next(moonpad_event_cursor *cursor, const moonpad_event **event,
                                                     moonpad_error *error);
/*
** Frees a cursor, which holds its service until then, as a session does. NULL is ignored.
** Errors: none.
** Threads: one at a time.
*/
MOONPAD_API void moonpad_event_cursor_free(moonpad_event_cursor *cursor);

/*
** ---- Asynchronous appends, and where they complete (contract 2, 6) ----
**
** An asynchronous append is stored by a thread of the service, which the first one starts; a store
** that answers from memory needs none. The session object shows the append at once; the new
** revision of the object, and that of the event, are known on completion. A completed append waits
** in a completion queue until a poll of that queue reports it, on the thread that polls.
**
** A service has one queue of its own. That is enough for a program with one thread, or one loop,
** that uses sessions. A thread that appends beside others makes a queue for itself and gives it to
** its sessions (moonpad_session_set_queue): appends that complete in that queue are reported on
** this thread, and this thread polls no appends of the others.
**
** If an append fails, those queued behind it on this session object fail with it, and the object
** shows what is stored. A call on the object that asks the store (append, commit, update, refresh,
** rewind, fork, moonpad_state_at, export) waits for them first.
*/

/*
** Tells what has become of an append. Called by a poll and by nothing else. On success `event` is
** the stored event and `error` is NULL; on failure `event` is NULL and `error` says why. Both are
** borrowed for the call. Where there was no memory for the text of what is stored, the event has
** none. `session` is NULL when it has been freed meanwhile.
** May call: everything. It may append anew (which is for the next poll), poll, free the session,
** its change sets and the queue, close the service and let go of it. No lock is held.
** Threads: the one that polls.
*/
typedef void (*moonpad_append_callback)(void *context, moonpad_session *session, const moonpad_event *event,
                                        const moonpad_error *error);

/*
** moonpad_append_event without waiting. `callback` may be NULL: then the log hook is told of a
** failure. If this call returns MOONPAD_OK, a poll calls the callback once; the callbacks of a
** session come in the order of its appends. If it returns anything else, or if nobody polls, the
** callback is never called. `context` is not used after the callback, nor once the queue has been
** freed or the service released.
** Errors: those that are found without the store are returned here, and nothing is queued:
** invalid_argument (the event, a partial one too; the clock), closed (the service, or the session's
** queue has been freed), no_memory. The other errors of moonpad_append_event come to the callback.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_append_event_async(moonpad_session *session, moonpad_string event,
                                                      moonpad_append_callback callback, void *context,
                                                      moonpad_error *error);

/*
** moonpad_changes_commit without waiting: the change set is clean at once, and nothing of it is
** pending after a failure either. `callback` as above.
** Errors: those of moonpad_append_event_async; closed (the session has been freed), too;
** invalid_argument also for a pending increment or append that does not fit any more, and for a
** change set that takes no more writes.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_changes_commit_async(moonpad_changes *changes, moonpad_string event,
                                                        moonpad_append_callback callback, void *context,
                                                        moonpad_error *error);

/*
** moonpad_update_session without waiting. `callback` as above. *queued (may be NULL): false when
** nothing was pending, and no callback will come.
** Errors: those of moonpad_append_event_async; invalid_argument also for a pending increment or
** append that does not fit any more.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_update_session_async(moonpad_session *session, moonpad_append_callback callback,
                                                        void *context, bool *queued, moonpad_error *error);

/*
** Calls the callbacks of the appends that have completed by now, in the service's own queue or in a
** queue of a thread. The callbacks of one session come in the order of its appends. If no append
** has completed, the call waits for the first one, for at most `timeout_ms`; it does not wait if
** that is 0 or less, or if nothing is under way for this queue. Returns how many completed appends
** it took out, with a callback or without. Completed appends can be polled after
** moonpad_service_close, too.
** Errors: none.
** Threads: the one that uses the sessions whose appends complete in that queue.
*/
MOONPAD_API size_t moonpad_poll(moonpad_service *service, int64_t timeout_ms);
MOONPAD_API size_t moonpad_queue_poll(moonpad_queue *queue, int64_t timeout_ms);

/*
** A file descriptor that is readable as long as a poll has something to do: for the poll(2), epoll
** or kqueue of a host's event loop. It is the library's: wait for it, but neither read nor close
** it. It is made when first asked for, and valid until the queue is freed, or until the last
** release of the service. *fd is -1 on failure.
** Errors: storage (no file descriptor is left).
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_fd(moonpad_service *service, int *fd, moonpad_error *error);
MOONPAD_API moonpad_status moonpad_queue_fd(moonpad_queue *queue, int *fd, moonpad_error *error);

/*
** Makes a completion queue for one thread. It is the caller's, and holds the service until it is
** freed.
** Errors: closed, no_memory.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_queue_new(moonpad_service *service, moonpad_queue **queue, moonpad_error *error);

/*
** Frees a queue. Waits first until the appends that complete in it are done. Those that nobody has
** polled by then are stored all the same, but their callbacks are not called; the log hook is told
** of those that failed. A session that still has the queue gets `closed` for its next asynchronous
** append. NULL is ignored.
** Errors: none.
** Threads: the one that polls it.
*/
MOONPAD_API void moonpad_queue_free(moonpad_queue *queue);

/*
** Sets the queue in which later asynchronous appends of this session object complete. Appends that
** are under way stay in their queue. NULL: the service's own queue, which is the default. The
** session object may be freed before the queue or after it.
** Errors: invalid_argument (a queue of another service).
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_session_set_queue(moonpad_session *session, moonpad_queue *queue,
                                                     moonpad_error *error);

/*
** ---- User and app state, without a session (contract 2, 6) ----
**
** Keys have no prefix here. Each call comes twice; an empty user id is invalid_argument, never the
** app.
*/

/*
** The state of an app, or of a user of it, as a JSON object with sorted keys; "{}" where there is
** none. `json` is the caller's.
** Errors: invalid_argument (a name), store errors.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_get_app_state(moonpad_service *service, moonpad_string app_name,
                                                 moonpad_buffer *json, moonpad_error *error);
MOONPAD_API moonpad_status moonpad_get_user_state(moonpad_service *service, moonpad_string app_name,
                                                  moonpad_string user_id, moonpad_buffer *json, moonpad_error *error);

/*
** Merges a JSON object into it (`state` may be empty), then removes the keys of `removed` (a JSON
** array of strings, or empty), in one transaction.
** Errors: invalid_argument (a name, a key, the JSON), limit (max_value_bytes), store errors.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_update_app_state(moonpad_service *service, moonpad_string app_name,
                                                    moonpad_string state, moonpad_string removed, moonpad_error *error);
MOONPAD_API moonpad_status moonpad_update_user_state(moonpad_service *service, moonpad_string app_name,
                                                     moonpad_string user_id, moonpad_string state,
                                                     moonpad_string removed, moonpad_error *error);

/*
** Adds to a number at once; `by` is an integer or a float, *result (may be NULL) the committed
** value. A missing key counts from 0.
** Errors: invalid_argument (a name, the key, `by` is no number, the value there is none, the sum
** overflows), limit (max_value_bytes), store errors.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_increment_app_state(moonpad_service *service, moonpad_string app_name,
                                                       moonpad_string key, const moonpad_value *by,
                                                       moonpad_value *result, moonpad_error *error);
MOONPAD_API moonpad_status moonpad_increment_user_state(moonpad_service *service, moonpad_string app_name,
                                                        moonpad_string user_id, moonpad_string key,
                                                        const moonpad_value *by, moonpad_value *result,
                                                        moonpad_error *error);

/* ---- History (contract 2) ---- */

/*
** Session-scope state after `revision` as a JSON object, which is the caller's. Costs the history
** up to it.
** Errors: not_found (there is no such revision, it has been trimmed, or the session deleted), store
** errors.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_state_at(moonpad_session *session, int64_t revision, moonpad_buffer *json,
                                            moonpad_error *error);
/*
** A new session with the events up to `revision` and the state after them. Empty
** session_id: UUIDv4. *forked is the caller's.
** Errors: not_found (as moonpad_state_at), already_exists (a session of this id), invalid_argument
** (the id, the clock), store errors.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_fork(moonpad_session *session, int64_t revision, moonpad_string session_id,
                                        moonpad_session **forked, moonpad_error *error);
/*
** Appends one event that restores session-scope state: moonpad_rewind to before the first event of
** that invocation (`actions.rewindBeforeInvocationId`), moonpad_rewind_to_revision to after that
** revision (`actions.rewindToRevision`; 0: as the session was created). History is kept; prompts
** skip what was rewound. The session object takes the event in as one of its own appends. `stored`
** (may be NULL) gets the event, which is the caller's.
** Errors: not_found (there is no such invocation or revision, it has been trimmed, or the session
** deleted), conflict (others kept appending in between), limit, invalid_argument (the clock, an
** invocation id that is not UTF-8), store errors.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_rewind(moonpad_session *session, moonpad_string invocation_id,
                                          moonpad_event **stored, moonpad_error *error);
MOONPAD_API moonpad_status moonpad_rewind_to_revision(moonpad_session *session, int64_t revision,
                                                      moonpad_event **stored, moonpad_error *error);

/* ---- Export and import: JSON lines, exact both ways (contract 6) ---- */

/*
** Opens an export of the whole stored session, whatever part of its events the object shows, as it
** is stored now: without what is pending, and without user and app state. The object may be freed.
** *exporting is the caller's.
** Errors: not_found (the session has been deleted), store errors.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_export_open(moonpad_session *session, moonpad_export **exporting,
                                               moonpad_error *error);
/*
** Gives the next line, with its newline, borrowed until the next call on the export; after the last
** one, line->data is NULL. Nothing is locked between two calls: events are read in pages, as by an
** event cursor. After an error the call can be repeated.
** Errors: not_found (the session has been deleted meanwhile, or an event trimmed), store errors.
** Threads: one at a time.
*/
MOONPAD_API moonpad_status moonpad_export_next(moonpad_export *exporting, moonpad_string *line, moonpad_error *error);
/*
** NULL is ignored.
** Errors: none.
** Threads: one at a time.
*/
MOONPAD_API void moonpad_export_free(moonpad_export *exporting);

/*
** Begins an import, which creates the session that the lines describe. Each member of `name` (may
** be NULL) that is not empty replaces the one of the header. *importing is the caller's.
** Errors: closed, no_memory.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_import_begin(moonpad_service *service, const moonpad_session_name *name,
                                                moonpad_import **importing, moonpad_error *error);
/*
** Takes the next line, with or without its newline: the header first. After an error, nothing of
** this import is stored any more, and every further call gives the same error.
** Errors: invalid_argument (the line, which it names; the import has been committed), limit
** (max_event_bytes), unsupported (a newer format), closed, no_memory.
** Threads: one at a time.
*/
MOONPAD_API moonpad_status moonpad_import_line(moonpad_import *importing, moonpad_string line, moonpad_error *error);
/*
** Stores the session in one transaction: all or nothing. *session is the caller's. What failed at
** the store can be repeated.
** Errors: already_exists (the session), invalid_argument (lines are missing, a line is not one that
** an export can have written, or the import has been committed), limit (max_value_bytes,
** max_state_bytes), the error of an earlier line, store errors.
** Threads: one at a time.
*/
MOONPAD_API moonpad_status moonpad_import_commit(moonpad_import *importing, moonpad_session **session,
                                                 moonpad_error *error);
/*
** Frees an import. If it was not committed, nothing of it is stored. NULL is ignored.
** Errors: none.
** Threads: one at a time.
*/
MOONPAD_API void moonpad_import_free(moonpad_import *importing);

/*
** Takes one line per call, with its newline, borrowed for the call; false stops the export with
** `storage`.
** May call: everything, on the same session as well, which it may free. No transaction is open, and
** the export goes on with what was stored when it began.
** Threads: the one that called moonpad_export_session.
*/
typedef bool (*moonpad_write_line)(void *context, moonpad_string line);

/*
** Gives the next line, borrowed until it is called again; false at the end.
** May call: everything. No transaction is open.
** Threads: the one that called moonpad_import_session.
*/
typedef bool (*moonpad_read_line)(void *context, moonpad_string *line);

/*
** Export and import in one call, with a function of the caller.
** Errors: those of the calls above; storage (`write` returned false), too.
** Threads: the session's for the export, any for the import.
*/
MOONPAD_API moonpad_status moonpad_export_session(moonpad_session *session, moonpad_write_line write, void *context,
                                                  moonpad_error *error);
MOONPAD_API moonpad_status moonpad_import_session(moonpad_service *service, const moonpad_session_name *name,
                                                  moonpad_read_line read, void *context, moonpad_session **session,
                                                  moonpad_error *error);

/*
** ---- JSON and templates ----
**
** What belongs to no service (moonpad_json_read, moonpad_json_string, moonpad_render) takes its
** memory from malloc.
*/

/*
** Reads a value in JSON text by its path, without decoding the rest. `text` of the result is
** borrowed from `json`, or, where a string has escapes, from `scratch`, which the caller starts as
** {0} and frees (moonpad_buffer_free); where `scratch` is NULL, such a string is invalid_argument.
** Of keys that come twice it reads the first. Absent: type MOONPAD_ABSENT and MOONPAD_OK.
** Errors: invalid_argument (the path; malformed JSON on the way, with its byte; a string with
** escapes and no `scratch`), no_memory.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_json_read(moonpad_string json, moonpad_string path, moonpad_buffer *scratch,
                                             moonpad_value *value, moonpad_error *error);

/*
** Writes a text as a JSON string, with its quotes, so that the text can be put into other JSON
** without changing it. `json` is the caller's.
** Errors: invalid_argument (it is not UTF-8; names the byte), no_memory.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_json_string(moonpad_string text, moonpad_buffer *json, moonpad_error *error);

typedef enum moonpad_template_syntax {
  MOONPAD_TEMPLATE_BOTH = 0,
  MOONPAD_TEMPLATE_BRACES,
  MOONPAD_TEMPLATE_ANGLES
} moonpad_template_syntax;

/*
** Looks a template's root name up ("topic", "user:name", "artifact.FILE"). Sets *value, whose text
** is borrowed until the function is called again or the render call returns; leaves it
** MOONPAD_ABSENT where there is none. Returns false to stop with the error it filled, which is
** never NULL.
** May call: everything. No lock is held.
** Threads: the one that called moonpad_render.
*/
typedef bool (*moonpad_template_lookup)(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error);

/* Later versions append fields: see "Option structs". */
typedef struct moonpad_template_options {
  size_t size;
  moonpad_template_syntax syntax;
  moonpad_string agent_name; /* named in errors; may be empty */
} moonpad_template_options;

/*
** Sets the size and the defaults. First of all.
** Errors: none.
** Threads: any.
*/
static inline void moonpad_template_options_init(moonpad_template_options *options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
  options->syntax = MOONPAD_TEMPLATE_BOTH;
}

/*
** Renders a template (contract 4.1). `options` may be NULL. `result` is the caller's.
** Errors: template (a placeholder names what is not there), invalid_argument (an option; JSON of
** the look-up that a path leads into), unsupported (an option of a later version), what the look-up
** filled, no_memory.
** Threads: any.
*/
MOONPAD_API moonpad_status moonpad_render(moonpad_string source, const moonpad_template_options *options,
                                          moonpad_template_lookup lookup, void *context, moonpad_buffer *result,
                                          moonpad_error *error);
/*
** The same from a session's state, pending writes of the session object included; reads by
** templates do not count as reads (contract 2.2). artifact.* is absent here.
** Errors: those of moonpad_render; invalid_argument (a pending increment or append does not fit
** what others have stored since), too.
** Threads: the session's.
*/
MOONPAD_API moonpad_status moonpad_session_render(moonpad_session *session, moonpad_string source,
                                                  const moonpad_template_options *options, moonpad_buffer *result,
                                                  moonpad_error *error);

#ifdef __cplusplus
}
#endif

#endif
