/*
** Instruction templates (contract 4.1). moonpad_render of the public API is here; so is the list
** of artifacts that a template will ask for, which a host that loads them asynchronously needs
** before it renders.
*/
#ifndef MP_CORE_TEMPLATE_H
#define MP_CORE_TEMPLATE_H

#include "base/buffer.h"

moonpad_status mp_template_render(mp_env *env, moonpad_string source, const moonpad_template_options *options,
                                  moonpad_template_lookup lookup, void *context, mp_buffer *out, moonpad_error *error);
/*
** Calls `found` with each FILE of an artifact.FILE placeholder, in order of appearance (repeats
** included); false from it stops. Errors: no_memory.
*/
moonpad_status mp_template_artifacts(moonpad_string source, const moonpad_template_options *options,
                                     bool (*found)(void *context, moonpad_string file), void *context);

#endif
