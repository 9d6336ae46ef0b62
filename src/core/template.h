/*
** Rendering instruction templates (contract 4.1). Implements moonpad_render of the public API. What
** a placeholder looks like is decided in core/template_scan.h.
*/
#ifndef MP_CORE_TEMPLATE_H
#define MP_CORE_TEMPLATE_H

#include "base/buffer.h"

/*
** Appends the rendered template to `out`; on failure `out` keeps the length it had. `options` may
** be NULL. `lookup` gives the value of each placeholder. Errors: template (a value is missing),
** invalid_argument, no_memory, what `lookup` answers.
*/
moonpad_status mp_template_render(mp_env *env, moonpad_string source, const moonpad_template_options *options,
                                  moonpad_template_lookup lookup, void *context, mp_buffer *out, moonpad_error *error);
/*
** Calls `found` with the FILE of each artifact.FILE placeholder, in order of appearance, repeats
** included, until it returns false. For hosts that load artifacts before they render. Errors:
** no_memory.
*/
moonpad_status mp_template_artifacts(moonpad_string source, const moonpad_template_options *options,
                                     bool (*found)(void *context, moonpad_string file), void *context);

#endif
