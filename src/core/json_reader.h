/*
** A strict pull reader of JSON (RFC 8259): it gives one token after the other, builds no tree and
** does not recurse. Integers of 64 bits and doubles are kept apart: a number with '.', 'e' or 'E',
** or one beyond 64 bits, is a float. Duplicate keys are not detected here, see
** core/json_compact.h. Text from outside comes here through mp_json_compact or core/json_path.c; an
** event (core/event_read.c) and what Lua decodes (lua/codec/decode.c) only where the one pass of
** core/json_scan.h has refused it.
**
** The caller says how deep the text may be: MOONPAD_MAX_DEPTH (moonpad.h) for a value, one more for
** a whole state, MP_EVENT_MAX_DEPTH (core/event_draft.h) for an event, whose stateDelta values and
** unknown fields core/event_read.c holds to MOONPAD_MAX_DEPTH. Writes into a tree are held to it by
** core/tree_write.c. MP_JSON_DEPTH_LIMIT (json_lex.h) is only the size of the stack.
*/
#ifndef MP_CORE_JSON_READER_H
#define MP_CORE_JSON_READER_H

#include "base/buffer.h"
#include "core/json_lex.h"

typedef enum mp_json_token {
  MP_JSON_END = 0, /* the one value is complete and only white space follows */
  MP_JSON_ERROR,   /* see `problem` and `position` */
  MP_JSON_OBJECT_BEGIN,
  MP_JSON_OBJECT_END,
  MP_JSON_ARRAY_BEGIN,
  MP_JSON_ARRAY_END,
  MP_JSON_KEY,    /* `string` */
  MP_JSON_STRING, /* `string` */
  MP_JSON_INTEGER,
  MP_JSON_FLOAT,
  MP_JSON_TRUE,
  MP_JSON_FALSE,
  MP_JSON_NULL
} mp_json_token;

typedef struct mp_json_reader {
  const char *text;
  size_t length;
  size_t position;       /* of the next byte; after an error, of the byte at fault */
  size_t token_position; /* where the last token began */
  unsigned depth;
  unsigned max_depth;
  bool in_array[MP_JSON_DEPTH_LIMIT]; /* the stack of open arrays and objects */
  int expecting;                      /* private */
  /* borrowed from the text, or from `scratch` if it had escapes; valid until the next token */
  moonpad_string string;
  int64_t integer;
  double number;
  mp_buffer scratch;
  const char *problem; /* after an error: a constant text */
} mp_json_reader;

/* `max_depth` is at most MP_JSON_DEPTH_LIMIT. Free the reader with mp_json_reader_free. */
void mp_json_reader_init(mp_json_reader *reader, mp_env *env, moonpad_string text, unsigned max_depth);
void mp_json_reader_free(mp_json_reader *reader);
mp_json_token mp_json_next(mp_json_reader *reader);
/* After a token that begins a value: reads to the end of that value. False on error. */
bool mp_json_skip(mp_json_reader *reader, mp_json_token token);
/*
** After MP_JSON_ERROR: fills `error` with "WHERE: PROBLEM at byte N", counted from 1. `where` may
** be NULL. Returns invalid_argument or no_memory.
*/
moonpad_status mp_json_fail(const mp_json_reader *reader, const char *where, moonpad_error *error);

#endif
