/*
** The userdata types of the module. Several Lua objects may stand on one C object (a session,
** its state, its events, nodes in it), and the collector finalizes them in an order of its own: so
** each counts on the C object, which goes with the last of them.
**
** Every userdata is made empty, then filled: one with a NULL pointer in it is closed, and every
** function says so.
*/
#ifndef MP_LUA_BASE_HANDLES_H
#define MP_LUA_BASE_HANDLES_H

#include "lua/base/binding.h"

/* What the userdata on one session object of the C library count on. */
typedef struct mp_session_object {
  unsigned references;
  mp_env *env;
  moonpad_session *session;     /* NULL until it has been got */
  struct mp_append_wait *waits; /* stepped runs that wait for its appends: append_wait.h */
} mp_session_object;

/* The same of a change set: of state objects, and of the nodes in them. */
typedef struct mp_change_set {
  unsigned references;
  mp_env *env;
  mp_session_object *session; /* NULL: of no session */
  moonpad_changes *changes;   /* NULL until begun */
  bool owned;                 /* else the session's own change set */
  /* Of a tool call, counted: the set of the answer that the call belongs to. Else NULL. */
  struct mp_change_set *below;
  char *reason; /* why it ended: mp_changes_end borrows it */
} mp_change_set;

/* Its user values: 1 its URL without password, 2 the table of core.historyCache. */
#define MP_SERVICE_USER_VALUES 2
typedef struct mp_lua_service {
  moonpad_service *service;
  moonpad_queue *queue; /* for what this Lua state does asynchronously; NULL until it does */
  bool closed;
} mp_lua_service;

/* Its user values: 1 the state, 2 the list of events, made when first asked for. */
#define MP_SESSION_USER_VALUES 2
typedef struct mp_lua_session {
  mp_session_object *object;
} mp_lua_session;

typedef struct mp_lua_events {
  mp_session_object *object;
} mp_lua_events;

#define MP_STATE_KEYS 16
/* Its address marks state objects. */
extern const char mp_state_type;

typedef struct mp_lua_state {
  const void *type; /* marks a state object: faster to ask for than its metatable */
  mp_change_set *set;
  bool read_only;
  /*
  ** A cache of the keys used by index lately, by the address of the key's string. None has the name
  ** of a method. They live as long as the change set.
  */
  struct mp_change *keys[MP_STATE_KEYS];
} mp_lua_state;

typedef struct mp_lua_node {
  mp_node *node;
  mp_change_set *set; /* keeps the change set that the node belongs to */
  bool read_only;
} mp_lua_node;

/*
** What an append gives. It is in a handle that is made before: to make one afterwards may run a
** finalizer, which may append.
*/
typedef struct mp_outcome {
  moonpad_event *event;
  mp_env *env; /* of the keys, counted; NULL: there are none */
  /* Moved out of the session object, which forgets them at the next append. */
  mp_key **conflicts;
  size_t conflict_count;
} mp_outcome;

/* ---- Counted C objects (raise nothing) ---- */

mp_session_object *mp_session_object_retain(mp_session_object *object);
void mp_session_object_release(mp_session_object *object);

mp_change_set *mp_change_set_new(mp_lua *binding, mp_session_object *session);
mp_change_set *mp_change_set_retain(mp_change_set *set);
void mp_change_set_release(mp_change_set *set);

/* ---- Services ---- */

/* Pushes an empty service object. Raises m. */
mp_lua_service *mp_push_service(lua_State *L, mp_lua *binding);
/*
** A service has one object in a Lua state, so that scripts can use it as a key. Registers the one
** at the top, which has its service already. Raises m.
*/
void mp_register_service(lua_State *L, const mp_lua_service *handle);
/* Pushes the object of a service, making it where there is none yet. Raises m. */
void mp_push_shared_service(lua_State *L, mp_lua *binding, moonpad_service *service);
/* Pushes the object of a service, or nothing. Raises -. */
bool mp_push_registered_service(lua_State *L, moonpad_service *service);
/*
** Makes the queue of this Lua state and service, if it has none yet: what others do through the
** service completes elsewhere. Raises -.
*/
moonpad_status mp_need_queue(mp_lua_service *handle, moonpad_error *error);
/* The open service at argument 1; `where` is "service:getSession". Raises e. */
moonpad_service *mp_check_service(lua_State *L, mp_lua *binding, const char *where);
/* The same, with no argument behind `last` (self is 1). Raises e. */
moonpad_service *mp_check_call(lua_State *L, mp_lua *binding, const char *where, int last);

/* ---- Sessions ---- */

/* Pushes a session object that has no session yet: the caller sets it. Raises m. */
mp_lua_session *mp_push_session(lua_State *L, mp_lua *binding);
/*
** Tells the collector about a session that was just got; returns 1, for `return`. May run
** finalizers. Raises e.
*/
int mp_finish_session(lua_State *L, mp_lua *binding, const mp_lua_session *session);
/* The session at `index`. Raises e. */
mp_session_object *mp_check_session(lua_State *L, mp_lua *binding, int index, const char *where);
/* The same, or NULL when there is something else. Raises e: when it is closed. */
mp_session_object *mp_test_session(lua_State *L, mp_lua *binding, int index);
/* The session at `index`, which must be one of this service. Raises e. */
mp_session_object *mp_check_session_of(lua_State *L, mp_lua *binding, moonpad_service *service, int index,
                                       const char *where);

/* ---- State objects ---- */

/* Pushes an empty state object. Raises m. */
mp_lua_state *mp_push_state(lua_State *L, mp_lua *binding);
/* The state object at `index`. Raises e. */
mp_lua_state *mp_check_state(lua_State *L, mp_lua *binding, int index, const char *where);

/* ---- Nodes ---- */

/*
** The node at that index, to be looked at: its key counts as read. NULL: there is none, or a
** closed one. Raises -.
*/
static inline mp_lua_node *mp_read_node(lua_State *L, const mp_lua *binding, int index) {
  mp_lua_node *proxy = mp_test_userdata(L, index, binding->node_meta);
  if (proxy == NULL || proxy->node == NULL) return NULL;
  mp_node_note_read(proxy->node);
  return proxy;
}

/* ---- Errors that concern handles ---- */

/*
** "service.getSession: call it with a colon, service:getSession(...)", or that the object is
** closed. Raises e.
*/
_Noreturn void mp_raise_self(lua_State *L, int index, const char *where);
/* Moves the keys of a conflict out of the session: before a finalizer may run. Raises -. */
void mp_take_conflicts(mp_outcome *outcome, moonpad_session *session);
/* Pushes why an append failed, as an error object: see below. Raises m. */
void mp_push_append_error(lua_State *L, const mp_outcome *outcome, const moonpad_error *error, int event_index);
/*
** Raises why an append failed; a conflict names its keys and carries the event at `event_index`
** (0: none).
*/
_Noreturn void mp_raise_append(lua_State *L, mp_outcome *outcome, moonpad_session *session, const moonpad_error *error,
                               int event_index);

#endif
