/*
** SQLite without memory: its n-th allocation fails, or all from the n-th on. SQLite has one
** allocator for the whole process. Only its calls are counted here, not the blocks that are alive.
*/
#ifndef SQLITE_MEMORY_H
#define SQLITE_MEMORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "counting_allocator.h"

static counting_allocator sqlite_memory;
static sqlite3_mem_methods sqlite_memory_under;

static void *sqlite_memory_allocate(int size) {
  return counting_refuses(&sqlite_memory) ? NULL : sqlite_memory_under.xMalloc(size);
}

static void *sqlite_memory_resize(void *block, int size) {
  return counting_refuses(&sqlite_memory) ? NULL : sqlite_memory_under.xRealloc(block, size);
}

/* Once, before SQLite is used. */
static inline void sqlite_memory_install(void) {
  counting_init(&sqlite_memory);
  assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory_under), SQLITE_OK);
  sqlite3_mem_methods failing = sqlite_memory_under;
  failing.xMalloc = sqlite_memory_allocate;
  failing.xRealloc = sqlite_memory_resize;
  assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &failing), SQLITE_OK);
}

static inline void sqlite_memory_arm(long n, bool lasting) {
  counting_arm_as(&sqlite_memory, (size_t)n, lasting);
}

/* Nothing fails any more. Has something failed since it was armed? */
static inline bool sqlite_memory_disarm(void) {
  bool has_failed = counting_has_failed(&sqlite_memory);
  counting_disarm(&sqlite_memory);
  return has_failed;
}

#endif
