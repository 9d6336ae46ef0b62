/* The members of an object that is being encoded: where each stands in the text. Raises nothing. */
#ifndef MP_LUA_CODEC_SPANS_H
#define MP_LUA_CODEC_SPANS_H

#include "lua/codec/encoder.h"

/* Begins a segment at the end of the text; false without memory. */
bool mp_push_segment(const mp_encoder *e, moonpad_string name);
/* Puts the segments, of which the text from `begin` on consists, in their order. */
void mp_order_segments(mp_encoder *e, size_t begin, mp_segment *segments, size_t count);

#endif
