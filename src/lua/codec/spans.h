/* The members of an object that is being encoded: where each stands in the text. Raises nothing. */
#ifndef MP_LUA_CODEC_SPANS_H
#define MP_LUA_CODEC_SPANS_H

#include "lua/codec/encode_private.h"

/* Begins a span at the end of the text; false without memory. */
bool mp_push_member_span(const mp_encoder *e, moonpad_string name);
/* Puts the spans, of which the text from `begin` on consists, in their order. */
void mp_sort_member_spans(mp_encoder *e, size_t begin, mp_member_span *spans, size_t count);

#endif
