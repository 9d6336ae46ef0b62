/*
** Reading an option struct of a program that may have been built with an older or newer header
** (moonpad.h, "Option structs").
*/
#ifndef MP_BASE_OPTIONS_H
#define MP_BASE_OPTIONS_H

#include <stddef.h>

#include "moonpad.h"

/*
** The size of a struct whose last field is `field`. The size in the first version is the smallest
** one that a program can give.
*/
#define MP_SIZE_UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/*
** Copies the fields that `given` has over `options`, which has `size` bytes and holds the defaults.
** Both structs begin with their size; `given` may be NULL. Errors: invalid_argument (an impossible
** size), unsupported (a field is set that this version does not know).
*/
moonpad_status mp_take_options(const char *name, size_t first_size, const void *given, void *options, size_t size,
                               moonpad_error *error);

#endif
