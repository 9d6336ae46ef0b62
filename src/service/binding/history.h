/*
** History, export.
**
** service/history/rewind.h: mp_rewind_target, mp_rewind_read, MP_REWIND_ATTEMPTS;
**                           mp_find_invocation.
** service/history/export.h: mp_export_is_ready, mp_export_load.
*/
#ifndef MP_SERVICE_BINDING_HISTORY_H
#define MP_SERVICE_BINDING_HISTORY_H

#include "service/history/export.h"
#include "service/history/rewind.h"

#endif
