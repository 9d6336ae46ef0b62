/* The part of a server's URL that is moonpad's own: some of the options behind the "?". */
#ifndef MP_STORE_SERVER_URL_H
#define MP_STORE_SERVER_URL_H

#include "base/env.h"

typedef struct mp_url_option {
  const char *name;
  char *value; /* found: NUL-terminated, to be freed by mp_url_free; NULL: not given */
} mp_url_option;

/*
** Takes the options with these names out of a URL. *left is what remains of it, NUL-terminated, to
** be freed by the caller with mp_release. Errors: invalid_argument (an option is given twice, has
** no value, or is not valid percent-encoding), no_memory.
*/
moonpad_status mp_url_take_options(mp_env *env, moonpad_string url, mp_url_option *options, size_t count, char **left,
                                   moonpad_error *error);
void mp_url_free(mp_env *env, mp_url_option *options, size_t count);

/* A whole number within limits, or `otherwise` where the option is not given. */
moonpad_status mp_url_number(const mp_url_option *option, int64_t least, int64_t most, int64_t otherwise,
                             int64_t *number, moonpad_error *error);
/* "on" and "1" are true, "off" and "0" false. */
moonpad_status mp_url_switch(const mp_url_option *option, bool otherwise, bool *on, moonpad_error *error);

#endif
