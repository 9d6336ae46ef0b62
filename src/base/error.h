/* Filling the caller's moonpad_error. */
#ifndef MP_BASE_ERROR_H
#define MP_BASE_ERROR_H

#include <stdarg.h>

#include "moonpad.h"

#if defined(__GNUC__)
/* On Windows there are two: that of C, and an older one of Microsoft's. */
#if defined(__MINGW32__)
#define MP_PRINTF(format_index, first_argument) __attribute__((format(gnu_printf, format_index, first_argument)))
#else
#define MP_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#endif
/*
** Marks functions of failure paths. The compiler moves the code that calls them out of the way, so
** that the usual path of an append stays in the instruction cache.
*/
#define MP_COLD __attribute__((cold))
#else
#define MP_PRINTF(format_index, first_argument)
#define MP_COLD
#endif

/*
** Fills `error` (may be NULL) and returns `status`. A message that is too long ends at a character
** boundary.
*/
MP_COLD moonpad_status mp_fail(moonpad_error *error, moonpad_status status, const char *format, ...) MP_PRINTF(3, 4);
MP_COLD moonpad_status mp_no_memory(moonpad_error *error);
/*
** Fails with "PATHREASON", where the reason begins with ": " or " is". The middle of a long path is
** left out, so that the reason is never cut off.
*/
MP_COLD moonpad_status mp_fail_at_path(moonpad_error *error, moonpad_status status, moonpad_string path,
                                       const char *reason);

/*
** For a "%s" in a message: `text` in double quotes, shortened to at most 60 bytes, with control
** characters and invalid UTF-8 as \xNN.
*/
typedef struct mp_quoted {
  char text[272];
} mp_quoted;
MP_COLD mp_quoted mp_quote(moonpad_string text);

#endif
