/* SQLite without memory: its n-th allocation fails, or all from the n-th on. One thread. */
#ifndef SQLITE_MEMORY_H
#define SQLITE_MEMORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>
#include <sqlite3.h>

static struct {
  sqlite3_mem_methods under;
  long countdown; /* 0: nothing fails */
  bool lasting, has_failed;
} sqlite_memory;

static bool sqlite_memory_refuses(void) {
  if (sqlite_memory.countdown == 0) return false;
  if (sqlite_memory.countdown > 1) {
    sqlite_memory.countdown--;
    return false;
  }
  sqlite_memory.has_failed = true;
  if (!sqlite_memory.lasting) sqlite_memory.countdown = 0;
  return true;
}

static void *sqlite_memory_allocate(int size) {
  return sqlite_memory_refuses() ? NULL : sqlite_memory.under.xMalloc(size);
}

static void *sqlite_memory_resize(void *block, int size) {
  return sqlite_memory_refuses() ? NULL : sqlite_memory.under.xRealloc(block, size);
}

/* Once, before SQLite is used. */
static inline void sqlite_memory_install(void) {
  assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory.under), SQLITE_OK);
  sqlite3_mem_methods failing = sqlite_memory.under;
  failing.xMalloc = sqlite_memory_allocate;
  failing.xRealloc = sqlite_memory_resize;
  assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &failing), SQLITE_OK);
}

static inline void sqlite_memory_arm(long n, bool lasting) {
  sqlite_memory.countdown = n;
  sqlite_memory.lasting = lasting;
  sqlite_memory.has_failed = false;
}

/* Nothing fails any more. Has something failed since it was armed? */
static inline bool sqlite_memory_disarm(void) {
  sqlite_memory.countdown = 0;
  return sqlite_memory.has_failed;
}

#endif
