/*
** What the encoder went over, kept on the Lua stack: the keys and values of a table and of all tables in it. Once the text has been stored as it was encoded, the caller's copy of
** it is made from these, without reading the text again and with the strings that are there already.
**
** The table that was encoded is not asked again: between encoding and copying, a finalizer may have changed it.
*/
#ifndef MP_LUA_RECORDING_H
#define MP_LUA_RECORDING_H

#include "lua/binding.h"

#define MP_RECORDED_TABLES 32
#define MP_RECORDED_SLOTS  256 /* of the Lua stack: larger events are read from their text */

/* A table: its pairs stand above it, each nested table followed by its own. */
typedef struct mp_recorded {
  uint16_t members;
  bool is_array;
} mp_recorded;

typedef struct mp_recording {
  bool whole;       /* everything that was encoded is there */
  int first;        /* where the outermost table stands */
  int last;         /* how far it may reach */
  size_t head;      /* of an event's text: how long it is up to what comes after id, invocationId and timestamp */
  int64_t revision; /* of the event, once it has been stored as it was encoded; else 0 */
  unsigned count;
  mp_recorded tables[MP_RECORDED_TABLES]; /* in the order in which they stand */
} mp_recording;

static inline void mp_recording_init(mp_recording *recording, int first) {
  recording->whole = true;
  recording->first = first;
  recording->last = first + MP_RECORDED_SLOTS;
  recording->head = 1;
  recording->revision = 0;
  recording->count = 0;
}

/* Pushes a copy of the outermost table, with room for `more` fields. The recording must be whole and still on the stack. Raises m. */
void mp_push_recorded(lua_State *L, const mp_recording *recording, int more);

#endif
