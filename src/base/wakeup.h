/*
** A descriptor that is readable from when it is raised until it is lowered: it wakes whoever waits
** for descriptors. The owner's lock guards it.
*/
#ifndef MP_BASE_WAKEUP_H
#define MP_BASE_WAKEUP_H

#include <stdbool.h>

typedef struct mp_wakeup {
  int read_fd;  /* to wait for */
  int write_fd; /* may be the same */
  bool is_raised;
} mp_wakeup;

/*
** Makes what one waits for (the first) and what is written to (the second, which may be the same):
** both without blocking, and not inherited. False, with the reason in errno: there are none.
*/
bool mp_wakeup_make_fds(int fds[2]);

/* False: the system has no descriptor for it, and there is nothing to free. */
bool mp_wakeup_init(mp_wakeup *wakeup);
void mp_wakeup_free(mp_wakeup *wakeup);

void mp_wakeup_raise(mp_wakeup *wakeup);
void mp_wakeup_lower(mp_wakeup *wakeup);

#endif
