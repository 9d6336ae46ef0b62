/*
** The inside of the encoder: encode.c has whole values and tables, encode_leaf.c what is no table,
** encode_errors.c the messages. Nothing here raises.
*/
#ifndef MP_LUA_CODEC_ENCODE_PRIVATE_H
#define MP_LUA_CODEC_ENCODE_PRIVATE_H

#include "core/event_draft.h"
#include "lua/codec/codec.h"

#define MP_DELTA_LEVEL 3 /* event.actions.stateDelta: its values stand three tables deep */

/* A table on the way to the value at hand, and the index in it. */
typedef struct mp_encoder_step {
  const void *table;
  moonpad_string name; /* data NULL: an index */
  lua_Integer index;
} mp_encoder_step;

typedef struct mp_encoder {
  lua_State *L;
  mp_lua *binding;
  mp_buffer *out;
  moonpad_error *error;
  mp_value_path root;
  mp_encode_kind kind;
  int64_t limit;      /* see mp_encode */
  unsigned base;      /* tables around the whole value */
  unsigned depth;     /* tables around the value at hand, without those */
  bool removed;       /* the value that was written last is moonpad.removed */
  bool removes;       /* and so is one in stateDelta, so far */
  bool lists_removed; /* the event has a member removedStateKeys */
  int stack;          /* as far as the Lua stack has been made sure of */
  mp_encoder_step path[MP_EVENT_MAX_DEPTH];
} mp_encoder;

/* "PATH: PROBLEM", where the path has that many steps. */
moonpad_status mp_encoder_refuse(const mp_encoder *e, unsigned steps, const char *problem);
/* "PATH: WHAT cannot be stored" */
moonpad_status mp_encoder_refuse_kind(const mp_encoder *e, unsigned steps, const char *what);
moonpad_status mp_encoder_refuse_depth(const mp_encoder *e);
/* The text cannot grow any more: there is no memory, or it is longer than it may be. */
moonpad_status mp_encoder_fail_full(const mp_encoder *e);
/* How many tables may be around a value where the encoder stands now. */
unsigned mp_encoder_depth_limit(const mp_encoder *e);

/* `what` ("a key is") goes before "not valid UTF-8". */
moonpad_status mp_encoder_check_text(const mp_encoder *e, unsigned steps, moonpad_string text, const char *what);
moonpad_status mp_encoder_check_number(const mp_encoder *e, lua_Number number);

/*
** Writes a key as a string literal, and the colon; refuses it with its path where it is not
** valid UTF-8.
*/
moonpad_status mp_encode_key(const mp_encoder *e, moonpad_string key);

moonpad_status mp_encode_string(mp_encoder *e, int index);
moonpad_status mp_encode_number(mp_encoder *e, int index);
moonpad_status mp_encode_light_userdata(mp_encoder *e, int index);
moonpad_status mp_encode_userdata(mp_encoder *e, int index);

/* What a table's metatable says about it. */
typedef enum mp_array_mark { MP_MARK_NONE, MP_MARK_ARRAY, MP_MARK_ARRAY_IF_EMPTY } mp_array_mark;
mp_array_mark mp_encoder_mark(mp_encoder *e, int table);

/* Adds a key to binding->removed_keys. */
void mp_encoder_note_removed(mp_encoder *e, moonpad_string key);
/* Is an event being written, with all its rules? */
bool mp_encodes_event(const mp_encoder *e);
/* What messages say of a value: it cannot be "stored" or "encoded". */
const char *mp_encoder_verb(const mp_encoder *e);
/* `literal` is one: its length is known to the compiler. */
static inline bool mp_text_is(moonpad_string text, const char *literal) {
  return text.data != NULL && text.length == strlen(literal) && memcmp(text.data, literal, text.length) == 0;
}

#endif
