/* Lists for tools, besides moonpad_list_sessions. */
#ifndef MP_SERVICE_SESSION_LIST_H
#define MP_SERVICE_SESSION_LIST_H

#include "base/buffer.h"
#include "service/service.h"

/*
** The names of the apps of a store, in any order: each is added to `names` with a NUL behind it,
** which no name contains. A store that cannot tell: MOONPAD_UNSUPPORTED.
*/
moonpad_status mp_list_apps(moonpad_service *service, mp_buffer *names, moonpad_error *error);
/* The same of the users of an app, those without a session, too. */
moonpad_status mp_list_users(moonpad_service *service, moonpad_string app_name, mp_buffer *names, moonpad_error *error);

#endif
