/* The part that the URLs of all stores have in common: the scheme. */
#ifndef MP_BASE_URL_H
#define MP_BASE_URL_H

#include "moonpad.h"

/*
** The scheme of a URL (RFC 3986) with its colon, or an empty text. Messages show no more of a URL:
** the rest may hold a password, also if the scheme is missing ("secret@host:6379").
*/
moonpad_string mp_url_scheme(moonpad_string url);

#endif
