/*
** Appends.
**
** service/append/request.h: mp_append_request, mp_append_now.
** service/append/async.h, which a poll or a step completes: mp_async_way, mp_append_watch,
**   mp_append_later; mp_job, mp_job_poll, mp_job_abandon.
** service/append/outcome.h, what the watch asks of it: mp_append_event, mp_append_write_refused,
**   mp_append_env, mp_append_take_conflicts.
*/
#ifndef MP_SERVICE_BINDING_APPEND_H
#define MP_SERVICE_BINDING_APPEND_H

#include "service/append/async.h"
#include "service/append/outcome.h"
#include "service/append/request.h"

#endif
