/*
** Waiting for a store without holding the thread.
**
** service/task.h:       mp_task.
** service/service.h:    mp_submit.
** service/queue.h:      mp_task_take, mp_task_wait, mp_task_abandon, mp_queue_drop_abandoned;
**                       mp_queue_await; mp_queue_add_due, mp_queue_remove_due; mp_queue_retain,
**                       mp_queue_release.
** service/queue_poll.h: mp_queue_poll.
*/
#ifndef MP_SERVICE_BINDING_TASKS_H
#define MP_SERVICE_BINDING_TASKS_H

#include "service/queue_poll.h"
#include "service/service.h"

#endif
