/* Reading URLs of servers. No message shows any part of a URL but the names of its options. */
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

/* SCHEME://USER:PASSWORD@HOST:PORT,HOST:PORT/PATH */

#define MP_URL_MOST_HOSTS 16

typedef struct mp_url_host {
  char *name; /* an IPv6 address is without its brackets */
  int port;   /* 0: not given */
} mp_url_host;

/* Decoded and NUL-terminated; NULL: not given. Freed by mp_url_free_parts. */
typedef struct mp_url_parts {
  char *user;
  char *password; /* overwritten when it is freed */
  mp_url_host hosts[MP_URL_MOST_HOSTS];
  size_t host_count;
  char *path; /* behind the "/" */
} mp_url_parts;

/*
** Splits a URL behind its scheme, without its options. Errors: invalid_argument with `expected`,
** which tells how to write one; no_memory.
*/
moonpad_status mp_url_split(mp_env *env, const char *url, const char *expected, mp_url_parts *parts,
                            moonpad_error *error);
/* "HOST:PORT,HOST" for messages, cut where there is no room. Returns its length. */
size_t mp_url_write_hosts(const mp_url_parts *parts, char *text, size_t size);
void mp_url_free_parts(mp_env *env, mp_url_parts *parts);

/* Is it this machine? A socket's path is, too, and an empty name. */
bool mp_url_is_loopback(const char *host);

/* The first option in a URL that is none of `known`, which ends with NULL, is invalid_argument. */
moonpad_status mp_url_check_names(const char *scheme, const char *url, const char *const *known, moonpad_error *error);

#endif
