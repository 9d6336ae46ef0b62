/*
** What the fuzz targets share. Each is a program of libFuzzer: `make fuzz`, and as a regression in
** `make check`. To add a target, write spec/fuzz/fuzz_NAME.c:
**
**   #include "fuzz.h"
**
**   int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
**     moonpad_buffer json;
**     moonpad_error error;
**     moonpad_status status = moonpad_json_string(input_text(data, size), &json, &error);
**     if (status != MOONPAD_OK) {
**       expect_error(&error, status, MOONPAD_INVALID_ARGUMENT, MOONPAD_NO_MEMORY);
**     } else {
**       HOLDS(json.length >= size + 2 && json.data[0] == '"');
**     }
**     moonpad_buffer_free(&json);
**     return 0;
**   }
**
** and make a folder spec/fuzz/corpus/NAME with at least one seed: a file that is an input, under
** any name. NAME.dict may hold words for libFuzzer to try. README.md has a row for each target. To
** add a seed to a target, put one more file there: an input that led to a defect, for instance.
*/
#ifndef FUZZ_H
#define FUZZ_H

#include <moonpad.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the run: libFuzzer keeps the input that led here. */
__attribute__((format(printf, 1, 2))) _Noreturn static inline void broken(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("BROKEN: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  abort();
}

#define HOLDS(condition) ((condition) ? (void)0 : broken("%s:%d: %s", __FILE__, __LINE__, #condition))

static inline bool same_text(moonpad_string a, moonpad_string b) {
  return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static inline moonpad_string input_text(const uint8_t *data, size_t size) {
  moonpad_string text = {size == 0 ? "" : (const char *)data, size};
  return text;
}

/* A failed call: one of these codes, with a message. */
static inline void expect_error(const moonpad_error *error, moonpad_status status, moonpad_status allowed,
                                moonpad_status also_allowed) {
  if (status != allowed && status != also_allowed) broken("status %d: %s", (int)status, error->message);
  HOLDS(error->code == status);
  HOLDS(error->message[0] != '\0');
  HOLDS(memchr(error->message, '\0', sizeof error->message) != NULL);
}

#endif
