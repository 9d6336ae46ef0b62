/*
** The least that reading an event takes: yyjson, where pkg-config knows it (bench/run.sh).
** Debian 12 has no package of it. There a quarter of what SQLite's json_valid takes stands in its
** place, which also reads the whole text into a tree: yyjson 0.12 took 0.24 to 0.26 of its time
** for the typical event, in turns with it in memory.c (five runs on one machine, SQLite 3.40, gcc
** 12 -O2).
*/
#ifndef READ_JSON_H
#define READ_JSON_H

#include "bench.h"

#ifdef WITH_YYJSON

#include <yyjson.h>

#define JSON_READER     "yyjson"
#define JSON_READ_SHARE 1.0

static inline void read_json(const event_text *event) {
  yyjson_doc *tree = yyjson_read(event->text, event->length, 0);
  must(tree != NULL, "reading the event");
  yyjson_doc_free(tree);
}

#else

#include <sqlite3.h>

#define JSON_READER     "a quarter of SQLite's json_valid"
#define JSON_READ_SHARE 0.25

static inline void read_json(const event_text *event) {
  static sqlite3_stmt *valid; /* lives as long as the program */
  sqlite3 *db;
  if (valid == NULL) {
    must(sqlite3_open(":memory:", &db) == SQLITE_OK, "opening SQLite");
    must(sqlite3_prepare_v2(db, "SELECT json_valid(?1)", -1, &valid, NULL) == SQLITE_OK, "SQLite's JSON");
  }
  sqlite3_bind_text(valid, 1, event->text, (int)event->length, SQLITE_STATIC);
  must(sqlite3_step(valid) == SQLITE_ROW && sqlite3_column_int(valid, 0) == 1, "reading the event");
  sqlite3_reset(valid);
}

#endif

/* Microseconds for each of `count` events. */
static inline double time_reading(const event_text *events, int count) {
  double start = worked_us();
  for (int i = 0; i < count; i++) read_json(&events[i]);
  return (worked_us() - start) / count * JSON_READ_SHARE;
}

#endif
