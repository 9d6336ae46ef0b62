/*
** A session as JSON lines (contract 2, 6): a header with the names, the numbers and the base state,
** then each event as it is stored. User and app state also belong to others and are not exported;
** what events say of them stays in the events. import.c reads this form.
**
** Below: an export in steps, for a caller that asks the store on another thread.
*/
#ifndef MP_SERVICE_HISTORY_EXPORT_H
#define MP_SERVICE_HISTORY_EXPORT_H

#include "service/service.h"

/* The header's "moonpadSession". */
#define MP_EXPORT_FORMAT 1

/*
** Can moonpad_export_next answer without asking the store? If not, mp_export_load asks it, on any
** thread, while nobody else uses the export. Errors: those of the store.
*/
bool mp_export_is_ready(const moonpad_export *exporting);
moonpad_status mp_export_load(moonpad_export *exporting, moonpad_error *error);

#endif
