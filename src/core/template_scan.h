/*
** Finding the placeholders of an instruction template (contract 4.1). The grammar is at the head of
** template_scan.c.
*/
#ifndef MP_CORE_TEMPLATE_SCAN_H
#define MP_CORE_TEMPLATE_SCAN_H

#include "base/map.h"

typedef struct mp_placeholder {
  size_t begin;        /* of the opening bracket; if `escaped`, a backslash stands before it */
  size_t end;          /* after the closing bracket */
  moonpad_string key;  /* as written, without brackets and '?' */
  moonpad_string root; /* what to look up: "topic", "user:name", "artifact.FILE" */
  moonpad_string path; /* the path below the root, without the first dot; may be empty */
  moonpad_string file; /* if `artifact`: FILE */
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
  size_t position; /* where to search on */
  /* the next '{' and '<' if at or after `position`, else outdated; the length of `source`: none */
  size_t next_brace;
  size_t next_angle;
  bool has_braces, has_angles; /* which syntax is enabled */
  bool knows_closing_tags;
  mp_map closing_tags; /* the names of all </name> in the source */
  mp_env *env;
} mp_template_scanner;

void mp_template_scanner_init(mp_template_scanner *scanner, mp_env *env, moonpad_string source,
                              moonpad_template_syntax syntax);
void mp_template_scanner_free(mp_template_scanner *scanner);
/* Finds the next placeholder. */
mp_template_found mp_template_scan(mp_template_scanner *scanner, mp_placeholder *placeholder);

#endif
