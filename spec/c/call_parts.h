/* What the scene of call_support.c and the calls of call_list.c share. */
#ifndef CALL_PARTS_H
#define CALL_PARTS_H

#include "call_support.h"

/* A session of app "app" and user "u". Good until the next call. */
const moonpad_session_name *call_name(const char *session_id);
/* The events that session "s" begins with. */
#define CALL_HISTORY 3
extern const char *const call_history[CALL_HISTORY];
/* Writes of each kind into the change set. */
moonpad_status call_try_pending(call_scene *scene, moonpad_error *error);

/* A moonpad_write_line into a FILE. */
bool call_keep_line(void *context, moonpad_string line);
void call_print_string(FILE *to, moonpad_string text);
void call_print_value(FILE *to, const moonpad_value *value);
moonpad_status call_print_events(FILE *to, moonpad_session *session, moonpad_error *error);
moonpad_status call_print_session(FILE *to, moonpad_session *session, bool events, moonpad_error *error);

#endif
