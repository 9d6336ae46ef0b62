/*
** Finding the placeholders of an instruction template (contract 4.1): their grammar, and what is
** left alone.
*/
#ifndef MP_CORE_TEMPLATE_SCAN_H
#define MP_CORE_TEMPLATE_SCAN_H

#include "base/map.h"

typedef struct mp_placeholder {
  size_t begin;        /* of its opening bracket; where `escaped`, a backslash stands before it */
  size_t end;          /* behind its closing bracket */
  moonpad_string key;  /* as written: no brackets, no '?' */
  moonpad_string root; /* what is looked up: "topic", "user:name", "artifact.FILE" */
  moonpad_string path; /* the steps below the root, without the first dot; or empty */
  moonpad_string file; /* FILE, where `artifact` */
  bool angles;
  bool artifact;
  bool prefixed;
  bool optional;
  bool escaped;
} mp_placeholder;

typedef enum mp_template_found {
  MP_TEMPLATE_END = 0,
  MP_TEMPLATE_PLACEHOLDER,
  MP_TEMPLATE_NO_MEMORY
} mp_template_found;

typedef struct mp_template_scanner {
  moonpad_string source;
  size_t position; /* everything before it is done with */
  /*
  ** the first '{' at or behind `position`, as far as known; the length of the source where there
  ** is none
  */
  size_t next_brace;
  size_t next_angle;
  bool has_braces, has_angles; /* which syntax is on */
  bool knows_closing_tags;
  mp_map closing_tags; /* names of </name> in the source */
  mp_env *env;
} mp_template_scanner;

void mp_template_scanner_init(mp_template_scanner *scanner, mp_env *env, moonpad_string source,
                              moonpad_template_syntax syntax);
void mp_template_scanner_free(mp_template_scanner *scanner);
mp_template_found mp_template_scan(mp_template_scanner *scanner, mp_placeholder *placeholder);

#endif
