/* Descriptors that wake who waits. */
#include "base/wakeup.h"

#include "base/platform.h"

void mp_wakeup_init(mp_wakeup *wakeup) {
  *wakeup = (mp_wakeup){{-1, -1}, false};
}

int mp_wakeup_make(mp_wakeup *wakeup) {
  int pair[2];
  if (wakeup->descriptors[0] >= 0) return 0;
  int number = mp_make_descriptors(pair);
  if (number != 0) return number;
  wakeup->descriptors[0] = pair[0];
  wakeup->descriptors[1] = pair[1];
  if (wakeup->is_raised) mp_write_descriptor(pair[1]);
  return 0;
}

int mp_wakeup_fd(const mp_wakeup *wakeup) {
  return wakeup->descriptors[0];
}

void mp_wakeup_free(mp_wakeup *wakeup) {
  if (wakeup->descriptors[0] >= 0) mp_close_descriptors(wakeup->descriptors);
  mp_wakeup_init(wakeup);
}

void mp_wakeup_raise(mp_wakeup *wakeup) {
  if (wakeup->is_raised) return;
  wakeup->is_raised = true;
  if (wakeup->descriptors[1] >= 0) mp_write_descriptor(wakeup->descriptors[1]);
}

void mp_wakeup_lower(mp_wakeup *wakeup) {
  if (!wakeup->is_raised) return;
  wakeup->is_raised = false;
  if (wakeup->descriptors[0] >= 0) mp_empty_descriptor(wakeup->descriptors[0]);
}
