/* Exports, for whoever asks the store on another thread. */
#ifndef MP_SERVICE_HISTORY_TRANSFER_H
#define MP_SERVICE_HISTORY_TRANSFER_H

#include "service/service.h"

/*
** Can it give its next line, or say that there is none, without asking the store? Else `load` makes
** it so.
*/
bool mp_export_is_ready(const moonpad_export *exporting);
moonpad_status mp_export_load(moonpad_export *exporting, moonpad_error *error);

#endif
