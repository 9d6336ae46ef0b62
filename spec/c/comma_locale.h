/*
** A locale that writes 1,5 for 1.5, for tests of what must not notice. Where the system has none, a
** test says so and goes on in the C locale. One can be made for a run:
**
**   localedef -i de_DE -f UTF-8 /tmp/locales/de_DE.UTF-8
**   LOCPATH=/tmp/locales build/spec/c/test_number
*/
#ifndef COMMA_LOCALE_H
#define COMMA_LOCALE_H

#include <locale.h>
#include <stddef.h>

static inline void begin_comma_locale(void) {
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (setlocale(LC_ALL, names[i]) != NULL) return;
  }
  print_message("no locale with a decimal comma here: checked in the C locale only\n");
}

static inline void end_comma_locale(void) {
  setlocale(LC_ALL, "C");
}

#endif
