/*
** A descriptor that is readable from when it is raised until it is lowered: it wakes whoever waits
** for descriptors. The owner's lock guards it.
*/
#ifndef MP_BASE_WAKEUP_H
#define MP_BASE_WAKEUP_H

#include <stdbool.h>

typedef struct mp_wakeup {
  int descriptors[2]; /* to wait for, to write to; -1: not made yet */
  bool is_raised;
} mp_wakeup;

/* Makes no descriptor yet. */
void mp_wakeup_init(mp_wakeup *wakeup);
/* Makes the descriptor, once: 0, or the system's error number why there is none. */
int mp_wakeup_make(mp_wakeup *wakeup);
/* The descriptor to wait for; -1: not made yet. */
int mp_wakeup_fd(const mp_wakeup *wakeup);
void mp_wakeup_free(mp_wakeup *wakeup);

/* May be raised before it is made: then it is made readable. */
void mp_wakeup_raise(mp_wakeup *wakeup);
void mp_wakeup_lower(mp_wakeup *wakeup);

#endif
