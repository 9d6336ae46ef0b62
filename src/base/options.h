/*
** Reading an option struct of a program that may have been built with another header (moonpad.h,
** "Option structs").
*/
#ifndef MP_BASE_OPTIONS_H
#define MP_BASE_OPTIONS_H

#include <stddef.h>

#include "moonpad.h"

/*
** The size of a struct whose last field is `field`: what the first version had is the least that
** is given.
*/
#define MP_SIZE_UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/*
** Copies `given` (NULL: nothing), as far as it goes, over `options`, which has `size` bytes and
** holds the defaults. Both begin with their size. Errors: invalid_argument (a size that cannot be),
** unsupported (it sets what is not known here).
*/
moonpad_status mp_take_options(const char *name, size_t first_size, const void *given, void *options, size_t size,
                               moonpad_error *error);

#endif
