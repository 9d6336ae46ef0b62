/*
** Belongs here: what every file of src/lua stands on: the record of a Lua state, the userdata types
** and their checks (handles.h), error objects, arguments, clocks.
** Does not belong here: what a type can do (lua/objects, lua/service), values as text (lua/codec).
** Arrows: to nothing else of src/lua; handles -> arguments -> errors -> binding.
**
** This header: what the binding keeps per Lua state: one userdata in the registry, found again when
** the module is opened once more (busted does so for every spec file). Every C function of the
** module has that userdata as its first upvalue.
**
** Comments say what a function may raise, as the Lua manual does: `-` nothing, `m` memory errors,
** `e` any error.
*/
#ifndef MP_LUA_BASE_BINDING_H
#define MP_LUA_BASE_BINDING_H

#include <lauxlib.h>
#include <lua.h>

#include "base/buffer.h"
#include "core/tree.h"

#include "moonpad_lua.h" /* refuses the headers of another Lua */

/* The slots of the binding, which are its user values: Lua objects that C code needs at hand. */
typedef enum mp_binding_slot {
  MP_LUA_SLOT_NODES = 1,       /* weak: node address -> its userdata */
  MP_LUA_SLOT_READ_ONLY_NODES, /* the same for nodes seen through a read-only state */
  /* weak: service address -> its userdata, which counts on the service */
  MP_LUA_SLOT_SERVICES,
  MP_LUA_SLOT_ARRAY_META,
  MP_LUA_SLOT_ERROR_META,
  MP_LUA_SLOT_EVENT_META,
  MP_LUA_SLOT_EVENT_METHODS,
  MP_LUA_SLOT_SESSION_METHODS,
  MP_LUA_SLOT_INLINE_META, /* of files in events, whose data is base64 */
  MP_LUA_SLOT_HANDLE_META,
  MP_LUA_SLOT_SERVICE_META,
  MP_LUA_SLOT_SESSION_META,
  MP_LUA_SLOT_EVENTS_META,
  MP_LUA_SLOT_STATE_META,
  MP_LUA_SLOT_NODE_META,
  MP_LUA_SLOT_PENDING_META,
  MP_LUA_SLOT_CALL_META,
  MP_LUA_SLOT_DUE_META,
  MP_LUA_SLOT_THREADS,        /* weak: coroutines that moonpad drives */
  MP_LUA_SLOT_STEPPER,        /* the userdata of `stepper`, or nil */
  MP_LUA_SLOT_CACHED_NODE,    /* an empty node proxy, or nil */
  MP_LUA_SLOT_CACHED_OUTCOME, /* the handle of an append's outcome that nobody uses, or nil */
  MP_LUA_SLOT_CACHED_CALL,    /* the userdata of a store call that is done, or nil */
  /* Lua strings that the reader of our own JSON has at hand: see MP_STRING_NAMES */
  MP_LUA_SLOT_STRINGS,
  MP_LUA_SLOT_FOLDER, /* where moonpad's own Lua files are, or nil */
  /* strings that the encoder looks up: pushing them from here allocates nothing */
  MP_LUA_SLOT_NAMES,
  MP_LUA_SLOT_COUNT = MP_LUA_SLOT_NAMES
} mp_binding_slot;

/*
** One member of an object being encoded: its text (with the comma after it) and the key to sort by.
*/
typedef struct mp_member_span {
  size_t begin;
  size_t length;
  uint64_t order;      /* what to sort by first: the beginning of the name, as a number */
  moonpad_string name; /* of a Lua string that the table on the stack keeps alive */
  bool removed;        /* its value is moonpad.removed */
} mp_member_span;

/*
** A name of a field, of which the Lua string is at hand, as is that of the short text that it often
** stands before.
*/
#define MP_NAME_BITS  7
#define MP_NAME_SLOTS (1 << MP_NAME_BITS)
/* Slots that hold no name: "before" the first name of a value, and of an event. */
#define MP_VALUE_START MP_NAME_SLOTS
#define MP_EVENT_START (MP_NAME_SLOTS + 1)
#define MP_NAME_COUNT  (MP_NAME_SLOTS + 2)
#define MP_NAME_WORDS  3
#define MP_VALUE_BYTES 40 /* the longest text that Lua hashes when it makes a string of it */
typedef struct mp_name {
  uint64_t words[MP_NAME_WORDS]; /* its bytes, then zeros */
  uint64_t masks[MP_NAME_WORDS]; /* which of them count */
  uint8_t length;                /* 0: none */
  uint8_t next;                  /* the slot of the name that came after it last time */
  uint8_t members;               /* of the object that stood there */
  uint8_t value_length;          /* of the last short text that stood there */
  bool has_value;                /* its Lua string is kept */
  char value[MP_VALUE_BYTES];
} mp_name;

/*
** Indices in the table of MP_LUA_SLOT_STRINGS: of the name and of the text in slot 0, which the
** other slots follow.
*/
#define MP_STRING_NAMES    1
#define MP_STRING_VALUES   (MP_STRING_NAMES + MP_NAME_COUNT)
#define MP_STRING_REVISION (MP_STRING_VALUES + MP_NAME_COUNT) /* "revision" */

/*
** Everything here is shared by all calls of the Lua state, and a call may begin in the middle of
** another: whatever allocates in Lua (lua_push...string, lua_createtable, lua_newuserdatauv,
** lua_concat, a call) may run a finalizer that calls moonpad, before it returns. It has copied by
** then what it was given. lua_next, lua_raw... and lua_checkstack run none. So:
** - A scratch (`text`, `scratch`, `removed_keys`, `spans`) belongs to whoever filled it until the
**   next allocation. What is needed after it goes into a handle or onto the Lua stack.
** - What is borrowed from a session, a state or a node ends there too: make handles before you
**   borrow.
** - A cached object is taken out of its slot before it is used, so that a call in the middle makes
**   its own.
** - A cache is looked at again after an allocation, before it is changed.
*/
typedef struct mp_lua {
  mp_env *env; /* NULL: the Lua state is being closed */
  /* Metatables by address: comparing pointers is the fast form of luaL_testudata. */
  const void *array_meta;
  const void *error_meta;
  const void *event_meta;
  const void *inline_meta;
  const void *service_meta;
  const void *session_meta;
  const void *events_meta;
  const void *state_meta;
  const void *node_meta;
  const void *pending_meta;
  const void *due_meta;
  void *removed; /* the light userdata moonpad.removed */
  /* what was encoded last: used at once, before anything that may run a finalizer */
  mp_buffer text;
  mp_buffer scratch;      /* for reordering, and for paths in messages */
  mp_buffer removed_keys; /* JSON string literals joined by commas */
  mp_member_span *spans;  /* a stack */
  size_t span_count;
  size_t span_capacity;
  struct mp_lua_service *stepper; /* of the run that is being stepped; NULL: calls block */
  /* of the userdata in MP_LUA_SLOT_CACHED_CALL; NULL: there is none */
  struct mp_store_call *cached_call;
  bool keeps_no_call; /* any more: the Lua state is being closed */
  bool has_cached_node;
  /* what is in the handle of MP_LUA_SLOT_CACHED_OUTCOME; NULL: there is none */
  struct mp_outcome *cached_outcome;
  mp_name names[MP_NAME_COUNT]; /* a cache: where each belongs, its bytes tell */
  /* bytes of C memory that the collector has not been told about */
  size_t unreported;
} mp_lua;

/*
** For module.c, which makes the one of a Lua state: pushes one that holds no metatables yet; makes
** the one at `index` that of the Lua state; pushes that, if there is one. All raise m.
*/
mp_lua *mp_lua_push_new(lua_State *L);
void mp_lua_register(lua_State *L, int index);
bool mp_lua_push_found(lua_State *L);

/* The binding of this Lua state if there is one already, else NULL. Raises -. */
mp_lua *mp_lua_find_binding(lua_State *L);

/*
** The binding, inside a C function of the module. Raises e: closed, when the Lua state is
** being closed.
*/
mp_lua *mp_lua_of(lua_State *L);

/* Pushes what is in one of its slots, inside a C function of the module. Raises -. */
static inline void mp_push_slot(lua_State *L, mp_binding_slot slot) {
  lua_getiuservalue(L, lua_upvalueindex(1), (int)slot);
}

/*
** The same inside one of another module, whose upvalues are its own; this module is open. Raises -.
*/
void mp_push_slot_anywhere(lua_State *L, mp_binding_slot slot);

/* The userdata at `index` if `metatable` is its metatable, else NULL. Raises -. */
static inline void *mp_test_userdata(lua_State *L, int index, const void *metatable) {
  void *data = lua_touserdata(L, index);
  if (data == NULL || !lua_getmetatable(L, index)) return NULL;
  bool same = lua_topointer(L, -1) == metatable;
  lua_pop(L, 1);
  return same ? data : NULL;
}

/*
** Pushes a handle: a userdata that owns what is in its memory, which is zeroed at first. `release`
** is called for it once, by mp_handle_release or when it is collected, so that no error on the way
** leaks what it owns. `release` must accept the zeroed state. Raises m.
*/
void *mp_handle_push(lua_State *L, size_t size, void (*release)(void *payload));
/* The memory of the handle at `index`. Raises -. */
void *mp_handle_object(lua_State *L, int index);
/*
** The same of a value that may be anything; NULL where it is no handle with that `release`.
** Raises -.
*/
void *mp_handle_test(lua_State *L, int index, void (*release)(void *payload));
/* Calls its `release` now, unless it has been called. Raises -. */
void mp_handle_release(void *payload);
/* The finalizer of handles. Raises -. */
int mp_handle_gc(lua_State *L);
/* A handle with an empty buffer. Raises m. */
mp_buffer *mp_handle_push_buffer(lua_State *L, mp_lua *binding);

/*
** Tells the collector about C memory that a userdata holds. May run finalizers: call it last.
** Raises e (from finalizers: -).
*/
void mp_report_memory(lua_State *L, mp_lua *binding, size_t bytes);

/*
** Registers C functions with the binding (at `binding_index`) as their upvalue into the table at
** the top. Raises m.
*/
void mp_set_functions(lua_State *L, int binding_index, const luaL_Reg *functions);
/* Pushes one such function. Raises m. */
void mp_push_function(lua_State *L, int binding_index, lua_CFunction function);
/*
** Makes a C function, without upvalues, the __gc and the __close of the metatable at the top.
** Raises m.
*/
void mp_set_finalizer(lua_State *L, lua_CFunction function);

#endif
