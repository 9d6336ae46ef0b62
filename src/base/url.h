/* What is common to the URLs of all stores. */
#ifndef MP_BASE_URL_H
#define MP_BASE_URL_H

#include "moonpad.h"

/*
** The scheme of a URL with its colon, or nothing: "letters, then letters, digits, + - ." of RFC
** 3986. Messages name no more of a URL: the rest may hold a password, also where the scheme is
** missing ("secret@host:6379").
*/
moonpad_string mp_url_scheme(moonpad_string url);

#endif
