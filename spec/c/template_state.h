/* A small state for the tests of templates. */
#ifndef SPEC_TEMPLATE_STATE_H
#define SPEC_TEMPLATE_STATE_H

#include "moonpad.h"

typedef struct state_entry {
  const char *key;
  moonpad_value value;
} state_entry;

typedef struct template_state {
  state_entry entries[32];
  size_t count;
  size_t lookups;
  const char *refused; /* asking for this one is an error */
} template_state;

void put_in_state(template_state *state, const char *key, moonpad_value value);
/* Some of everything; see there. */
template_state example_state(void);
/* A moonpad_template_lookup; its context is the template_state. */
bool look_up_in_state(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error);

#endif
