/*
** The keys that were changed last: the list by itself, and what the SQLite store gives to who is
** behind, which must be what a scan of all keys finds, whatever has happened before.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "repeatable_random.h"
#include "sqlite_support.h"
#include "store/sqlite/sqlite.h"

/* ---- the list ---- */

static void expect_list(const mp_sqlite_recent *recent, const char *expected) {
  char text[MP_SQLITE_RECENT_TEXT];
  moonpad_string written = mp_sqlite_recent_write(recent, text);
  assert_int_equal(written.length, strlen(expected));
  assert_memory_equal(written.data, expected, written.length);
  mp_sqlite_recent again;
  mp_sqlite_recent_read(&again, written, recent->as_of);
  assert_int_equal(again.floor, recent->floor);
  assert_int_equal(again.length, recent->length);
  assert_memory_equal(again.entries, recent->entries, recent->length);
}

static void test_the_last_one_first(void **state) {
  (void)state;
  mp_sqlite_recent recent;
  mp_sqlite_recent_reset(&recent, 7);
  expect_list(&recent, "[7,7]");
  mp_sqlite_recent_add(&recent, moonpad_text("a"), 8);
  mp_sqlite_recent_add(&recent, moonpad_text("b c"), 9);
  mp_sqlite_recent_add(&recent, moonpad_text(""), 10);
  recent.as_of = 10;
  expect_list(&recent, "[10,7,\"\",10,\"b c\",9,\"a\",8]");
  mp_sqlite_recent_add(&recent, moonpad_text("a"), 11);
  mp_sqlite_recent_add(&recent, moonpad_text("b"), 11);
  mp_sqlite_recent_add(&recent, moonpad_text("a"), 12);
  recent.as_of = 12;
  expect_list(&recent, "[12,7,\"a\",12,\"b\",11,\"\",10,\"b c\",9]");
}

static void test_what_does_not_fit(void **state) {
  (void)state;
  mp_sqlite_recent recent;
  char key[200];
  mp_sqlite_recent_reset(&recent, 0);
  for (int i = 1; i <= 100; i++) {
    snprintf(key, sizeof key, "key%03d", i);
    mp_sqlite_recent_add(&recent, moonpad_text(key), i);
  }
  assert_in_range(recent.length, MP_SQLITE_RECENT_BYTES - 14, MP_SQLITE_RECENT_BYTES);
  moonpad_string listed;
  int64_t revision, last = 101;
  for (size_t position = 0; mp_sqlite_recent_next(&recent, &position, &listed, &revision); last = revision) {
    assert_int_equal(revision, last - 1);
  }
  assert_int_equal(recent.floor, last - 1);
  /*
  ** One that is older than others, as an import writes it, raises the floor no higher than it
  ** is itself.
  */
  mp_sqlite_recent_reset(&recent, 0);
  mp_sqlite_recent_add(&recent, moonpad_text("first"), 5);
  for (int i = 0; i < 40; i++) {
    snprintf(key, sizeof key, "key%03d", i);
    mp_sqlite_recent_add(&recent, moonpad_text(key), 3);
  }
  assert_int_equal(recent.floor, 5);
  /* What cannot be listed leaves the others alone. */
  memset(key, 'k', sizeof key);
  const moonpad_string odd[] = {{"\"", 1}, {"a\\b", 3}, {"\n", 1}, {"\0", 1}, {key, sizeof key}};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    mp_sqlite_recent_reset(&recent, 3);
    mp_sqlite_recent_add(&recent, moonpad_text("k"), 4);
    mp_sqlite_recent_add(&recent, odd[i], 6);
    mp_sqlite_recent_add(&recent, odd[i], 5);
    recent.as_of = 6;
    expect_list(&recent, "[6,6,\"k\",4]");
  }
}

static void test_what_is_no_list(void **state) {
  (void)state;
  static const char *const texts[] = {"",
                                      "[",
                                      "[]",
                                      "[9",
                                      "[9,",
                                      "[9,1",
                                      "[9,]",
                                      "[9,1] ",
                                      "[9, 1]",
                                      "[9,-1]",
                                      "[9,1,]",
                                      "[9,1,\"a\"]",
                                      "[9,1,\"a\",]",
                                      "[9,1,\"a\",x]",
                                      "[9,1,\"a\",2",
                                      "[9,1,\"a\",2,]",
                                      "[9,1,\"a,2]",
                                      "[9,1,\"a",
                                      "[9,1,\"a\\n\",2]",
                                      "[9,1,a,2]",
                                      "[8,1,\"a\",2]",
                                      "[9,1,\"a\",1234567890123456789]",
                                      "[9,1234567890123456789]",
                                      "{\"a\":1}"};
  mp_sqlite_recent recent;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    mp_sqlite_recent_read(&recent, moonpad_text(texts[i]), 9);
    expect_list(&recent, "[9,9]");
  }
  char longer[400] = "[9,1";
  for (int i = 0; i < 50; i++) strcat(longer, ",\"a\",2");
  strcat(longer, "]");
  mp_sqlite_recent_read(&recent, moonpad_text(longer), 9);
  expect_list(&recent, "[9,9]");
  mp_sqlite_recent_read(&recent, moonpad_text("[9,1,\"\xc3\xa9\",2]"), 9);
  expect_list(&recent, "[9,1,\"\xc3\xa9\",2]");
}

/* ---- the store ---- */

#define SESSIONS 3
#define FAIL     MOONPAD_CONFLICT

typedef struct life {
  sqlite_files *files;
  mp_store *stores[2]; /* on one file */
  sqlite3 *db;         /* looks into the file by itself */
  int64_t ids[SESSIONS];
  mp_session_row row; /* of who is behind */
  int keys;           /* different ones */
  mp_scope scope;
  int64_t since;
  int64_t revision; /* of the head, as it was found */
  char *given;      /* what a walk gave: a letter for each key, in `found` */
  char found[4000];
} life;

static const int64_t *revision_of(const mp_session_row *row, mp_scope scope) {
  return scope == MP_SCOPE_USER ? &row->user_revision : scope == MP_SCOPE_APP ? &row->app_revision : &row->revision;
}

static moonpad_session_name name_of(int which) {
  static const char *const users[SESSIONS] = {"ann", "ann", "bob"};
  static const char *const sessions[SESSIONS] = {"one", "two", "three"};
  return (moonpad_session_name){moonpad_text("app"), moonpad_text(users[which]), moonpad_text(sessions[which])};
}

static void number_key(int number, char key[64]) {
  if (number % 37 == 5) {
    snprintf(key, 64, "\"odd\"%d", number);
  } else if (number % 11 == 3) {
    snprintf(key, 64, "a key of a name that is not short %d", number);
  } else {
    snprintf(key, 64, "%d", number);
  }
}

/* By its name, or by its id where that is known. */
static moonpad_status look_at(mp_tx *tx, life *all, int which, mp_facts *facts, moonpad_error *error) {
  mp_look look = {.ref = {.name = name_of(which), .session = next_random() % 2 == 0 ? all->ids[which] : 0},
                  .heads = MP_ALL_HEADS,
                  .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS}};
  moonpad_status status = tx->ops->look(tx, &look, facts, error);
  if (status == MOONPAD_NOT_FOUND && look.ref.session != 0) {
    look.ref.session = 0;
    status = tx->ops->look(tx, &look, facts, error);
  }
  all->ids[which] = status == MOONPAD_OK ? facts->row.id : 0;
  return status;
}

/* Some keys of all scopes, and sometimes a failure after it. */
static moonpad_status writes_keys(mp_tx *tx, void *context, moonpad_error *error) {
  life *all = context;
  int which = (int)(next_random() % SESSIONS);
  mp_facts facts;
  moonpad_status status = look_at(tx, all, which, &facts, error);
  moonpad_session_name name = name_of(which);
  if (status == MOONPAD_NOT_FOUND) status = tx->ops->create_session(tx, &name, 1.0, &facts.row, error);
  if (status != MOONPAD_OK) return status;
  char keys[8][64];
  mp_state_row writes[8];
  mp_batch batch = {.row = &facts.row, .keys = writes, .heads = MP_HEAD(MP_SCOPE_SESSION)};
  batch.key_count = next_random() % 8;
  facts.row.revision++;
  for (size_t i = 0; i < batch.key_count; i++) {
    mp_scope scope = (mp_scope)(next_random() % MP_STORED_SCOPES);
    int64_t *revision = (int64_t *)revision_of(&facts.row, scope);
    if ((batch.heads & MP_HEAD(scope)) == 0) ++*revision;
    batch.heads |= MP_HEAD(scope);
    number_key((int)(next_random() % (uint64_t)all->keys), keys[i]);
    writes[i] = (mp_state_row){scope, moonpad_text(keys[i]), NULL, *revision};
    if (scope == MP_SCOPE_SESSION && next_random() % 4 == 0) writes[i].revision -= (int64_t)(next_random() % 3);
    if (writes[i].revision < 0) writes[i].revision = 0;
    if (next_random() % 3 != 0) {
      writes[i].value = mp_value_new_integer(all->files->env, *revision);
    }
  }
  if (next_random() % 5 == 0) batch.touched = (double)(next_random() % 1000);
  status = tx->ops->apply(tx, &batch, error);
  for (size_t i = 0; i < batch.key_count; i++) mp_value_release(all->files->env, writes[i].value);
  if (status == MOONPAD_OK && next_random() % 8 == 0) return FAIL;
  return status;
}

static moonpad_status purges(mp_tx *tx, void *context, moonpad_error *error) {
  life *all = context;
  mp_facts facts;
  moonpad_status status = look_at(tx, all, (int)(next_random() % SESSIONS), &facts, error);
  if (status != MOONPAD_OK) return MOONPAD_OK;
  mp_scope scope = (mp_scope)(next_random() % MP_STORED_SCOPES);
  mp_session_ref ref = {.session = facts.row.id, .user = facts.row.user, .app = facts.row.app};
  int64_t last = *revision_of(&facts.row, scope);
  return tx->ops->purge(tx, &ref, scope, last - (int64_t)(next_random() % 20), error);
}

static moonpad_status sweep_one(mp_tx *tx, moonpad_error *error) {
  mp_sweep sweep = {.scope = (mp_scope)(next_random() % MP_STORED_SCOPES),
                    .touched_before = (double)(next_random() % 100),
                    .limit = 1};
  return tx->ops->sweep(tx, &sweep, error);
}

static moonpad_status removes(mp_tx *tx, void *context, moonpad_error *error) {
  life *all = context;
  mp_facts facts;
  int which = (int)(next_random() % SESSIONS);
  moonpad_status status = look_at(tx, all, which, &facts, error);
  if (status != MOONPAD_OK) return MOONPAD_OK;
  mp_session_ref ref = {.name = name_of(which), .session = facts.row.id};
  int64_t removed;
  switch (next_random() % 4) {
  case 0:
    return tx->ops->remove_session(tx, &ref, error);
  case 1:
    return tx->ops->remove_user(tx, &ref, &removed, error);
  default:
    return sweep_one(tx, error);
  }
}

static moonpad_status touches(mp_tx *tx, void *context, moonpad_error *error) {
  life *all = context;
  mp_facts facts;
  moonpad_status status = look_at(tx, all, (int)(next_random() % SESSIONS), &facts, error);
  if (status != MOONPAD_OK) return MOONPAD_OK;
  mp_touch touch = {.heads = (unsigned)(next_random() % 8), .time = (double)(next_random() % 1000)};
  touch.ref.session = facts.row.id;
  touch.ref.user = facts.row.user;
  touch.ref.app = facts.row.app;
  return tx->ops->touch(tx, &touch, 1, error);
}

/* ---- what somebody sees who is behind ---- */

static int compare_lines(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the lines of a text. */
static void sort_lines(char *text) {
  char copy[4000], *lines[400];
  size_t count = 0;
  strcpy(copy, text);
  for (char *at = copy; *at != '\0';) {
    char *end = strchr(at, '\n');
    lines[count++] = at;
    *end = '\0';
    at = end + 1;
  }
  qsort(lines, count, sizeof *lines, compare_lines);
  *text = '\0';
  for (size_t i = 0; i < count; i++) {
    text += sprintf(text, "%s\n", lines[i]);
  }
}

static moonpad_status note_key(void *context, const mp_state_row *row, moonpad_error *error) {
  (void)error;
  life *all = context;
  size_t at = strlen(all->found);
  snprintf(all->found + at, sizeof all->found - at, "%d %.*s %s %" PRId64 "\n", (int)row->scope, (int)row->key.length,
           row->key.data, row->value == NULL ? "removed" : "there", row->revision);
  return MOONPAD_OK;
}

static bool same_facts(const mp_facts *a, const mp_facts *b) {
  return a->row.id == b->row.id && a->row.revision == b->row.revision && a->row.user_revision == b->row.user_revision &&
         a->row.app_revision == b->row.app_revision && memcmp(a->forgotten, b->forgotten, sizeof a->forgotten) == 0 &&
         memcmp(a->touched, b->touched, sizeof a->touched) == 0;
}

static moonpad_status looks_behind(mp_tx *tx, void *context, moonpad_error *error) {
  life *all = context;
  int which = (int)(next_random() % SESSIONS);
  all->found[0] = '\0';
  all->revision = -1;
  mp_facts facts, found;
  moonpad_status status = look_at(tx, all, which, &facts, error);
  if (status != MOONPAD_OK) return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
  /* What a connection remembers is what the file holds. */
  status = look_at(tx, all, which, &found, error);
  if (status == MOONPAD_OK && !same_facts(&facts, &found))
    status = mp_fail(error, MOONPAD_CORRUPT, "not as it is stored");
  if (status != MOONPAD_OK) return status;
  int64_t revision = *revision_of(&facts.row, all->scope);
  int64_t behind = next_random() % 4 == 0 ? (int64_t)(next_random() % 200) : (int64_t)(next_random() % 6);
  mp_look look = {.ref.session = facts.row.id,
                  .heads = MP_ALL_HEADS,
                  .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS},
                  .each_state = note_key,
                  .context = all};
  all->since = behind > revision ? 0 : revision - behind;
  look.since[all->scope] = all->since;
  status = tx->ops->look(tx, &look, &facts, error);
  all->revision = facts.whole[all->scope] ? -1 : revision;
  all->row = facts.row;
  return status;
}

static void scan(life *all, char text[4000]) {
  sqlite3_stmt *statement;
  int64_t id = mp_row_id(&all->row, all->scope);
  *text = '\0';
  assert_int_equal(sqlite3_prepare_v2(all->db,
                                      "SELECT key, iif(value IS NULL, 'removed', 'there'), revision FROM state"
                                      " WHERE scope = ?1 AND owner = ?2 AND key >= '' AND revision > ?3",
                                      -1, &statement, NULL),
                   SQLITE_OK);
  sqlite3_bind_int(statement, 1, (int)all->scope);
  sqlite3_bind_int64(statement, 2, id);
  sqlite3_bind_int64(statement, 3, all->since);
  while (sqlite3_step(statement) == SQLITE_ROW) {
    text += sprintf(text, "%d %s %s %" PRId64 "\n", (int)all->scope, sqlite3_column_text(statement, 0),
                    sqlite3_column_text(statement, 1), (int64_t)sqlite3_column_int64(statement, 2));
  }
  assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
}

static void expect_as_scanned(life *all) {
  char expected[4000];
  moonpad_error error = {MOONPAD_OK, ""};
  bool writing = next_random() % 2 == 0;
  all->scope = (mp_scope)(next_random() % MP_STORED_SCOPES);
  mp_store *store = all->stores[next_random() % 2];
  moonpad_status status = (writing ? store->ops->write : store->ops->read)(store, looks_behind, all, &error);
  if (status != MOONPAD_OK) fail_msg("%s", error.message);
  if (all->revision < 0) return;
  scan(all, expected);
  sort_lines(expected);
  sort_lines(all->found);
  assert_string_equal(all->found, expected);
}

static void live(life *all, int steps) {
  static const mp_tx_function rare[] = {purges, removes, touches};
  for (int i = 0; i < steps; i++) {
    moonpad_error error = {MOONPAD_OK, ""};
    mp_tx_function function = next_random() % 12 == 0 ? rare[next_random() % 3] : writes_keys;
    mp_store **store = &all->stores[next_random() % 4 == 0];
    moonpad_status status = (*store)->ops->write(*store, function, all, &error);
    if (status != MOONPAD_OK && status != FAIL) fail_msg("step %d: %s", i, error.message);
    for (int look = 0; look < 3; look++) expect_as_scanned(all);
    if (next_random() % 50 == 0) { /* what is remembered must be in the file as well */
      folder_close(*store);
      *store = folder_open(all->files);
    }
    if (next_random() % 50 == 0) {
      sql_run(all->files->path, "UPDATE sessions SET recent = NULL; UPDATE state SET value = 'x' WHERE key = 0");
    }
  }
}

static void begin_life(life *all, void **state, int keys) {
  memset(all, 0, sizeof *all);
  all->files = *state;
  for (size_t i = 0; i < 2; i++) all->stores[i] = folder_open(all->files);
  all->keys = keys;
  assert_int_equal(sqlite3_open(all->files->path, &all->db), SQLITE_OK);
}

static void end_life(life *all) {
  assert_int_equal(sqlite3_close(all->db), SQLITE_OK);
  for (size_t i = 0; i < 2; i++) folder_close(all->stores[i]);
  expect_sound_file(all->files->path);
}

static void test_random_lives(void **state) {
  static const int keys[] = {3, 20, 100};
  life all;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    begin_life(&all, state, keys[i]);
    live(&all, 700);
    end_life(&all);
  }
}

/* ---- the list is used ---- */

static moonpad_status writes_hundred(mp_tx *tx, void *context, moonpad_error *error) {
  life *all = context;
  moonpad_session_name name = name_of(0);
  mp_session_row row;
  moonpad_status status = tx->ops->create_session(tx, &name, 1.0, &row, error);
  char key[64];
  mp_value *value = mp_value_new_integer(all->files->env, 1);
  for (int i = 0; status == MOONPAD_OK && i < 100; i++) {
    row.revision = row.user_revision = row.app_revision = i + 1;
    snprintf(key, sizeof key, "key%d", i);
    mp_state_row writes[MP_STORED_SCOPES];
    for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
      writes[scope] = (mp_state_row){(mp_scope)scope, moonpad_text(key), value, i + 1};
    }
    mp_batch batch = {.row = &row, .heads = MP_ALL_HEADS, .keys = writes, .key_count = MP_STORED_SCOPES};
    status = tx->ops->apply(tx, &batch, error);
  }
  mp_value_release(all->files->env, value);
  return status;
}

static moonpad_status looks_from_98(mp_tx *tx, void *context, moonpad_error *error) {
  life *all = context;
  mp_facts facts;
  mp_look look = {
      .ref.name = name_of(0), .heads = MP_ALL_HEADS, .since = {98, 98, 98}, .each_state = note_key, .context = all};
  all->found[0] = '\0';
  return tx->ops->look(tx, &look, &facts, error);
}

#define LISTED                                                                                                         \
  "0 key98 there 99\n0 key99 there 100\n1 key98 there 99\n1 key99 there 100\n2 key98 there 99\n2 key99 there 100\n"

static void expect_found(life *all, const char *expected) {
  moonpad_error error = {MOONPAD_OK, ""};
  for (int writing = 0; writing < 2; writing++) {
    const mp_store_ops *ops = all->stores[0]->ops;
    assert_int_equal((writing != 0 ? ops->write : ops->read)(all->stores[0], looks_from_98, all, &error), MOONPAD_OK);
    sort_lines(all->found);
    assert_string_equal(all->found, expected);
  }
}

/* Keys that are put into the file behind its back, which a scan would find. */
static void test_only_what_is_listed_is_read(void **state) {
  life all;
  moonpad_error error = {MOONPAD_OK, ""};
  begin_life(&all, state, 0);
  assert_int_equal(all.stores[0]->ops->write(all.stores[0], writes_hundred, &all, &error), MOONPAD_OK);
  sql_run(all.files->path, "INSERT INTO state(scope, owner, key, value, revision) VALUES(0, 1, 'hidden', '1', 100),"
                           " (1, 1, 'hidden', '1', 100), (2, 1, 'hidden', '1', 100)");
  expect_found(&all, LISTED);
  /* Who counts the head up and does not know of the list makes it worth nothing. */
  sql_run(all.files->path, "UPDATE state SET revision = 101 WHERE key = 0; UPDATE sessions SET revision = 101");
  expect_found(&all, "0 hidden there 100\n0 key98 there 99\n0 key99 there 100\n"
                     "1 hidden there 100\n1 key98 there 99\n1 key99 there 100\n"
                     "2 hidden there 100\n2 key98 there 99\n2 key99 there 100\n");
  end_life(&all);
}

/* ---- heads that are known without their session ---- */

static moonpad_status makes_session(mp_tx *tx, void *context, moonpad_error *error) {
  moonpad_session_name name = name_of(0);
  return tx->ops->create_session(tx, &name, 1.0, &((life *)context)->row, error);
}

static moonpad_status counts_up(mp_tx *tx, void *context, moonpad_error *error) {
  mp_session_row *row = &((life *)context)->row;
  row->revision++;
  mp_batch batch = {.row = row, .heads = MP_HEAD(MP_SCOPE_SESSION)};
  return tx->ops->apply(tx, &batch, error);
}

static moonpad_status touches_heads(mp_tx *tx, void *context, moonpad_error *error) {
  const mp_session_row *row = &((life *)context)->row;
  mp_touch touch = {.ref = {.session = row->id, .user = row->user, .app = row->app}, .heads = MP_ALL_HEADS, .time = 5};
  return tx->ops->touch(tx, &touch, 1, error);
}

static moonpad_status sees_revision(mp_tx *tx, void *context, moonpad_error *error) {
  const life *all = context;
  mp_look look = {.heads = MP_ALL_HEADS, .since = {MP_NO_KEYS, MP_NO_KEYS, MP_NO_KEYS}};
  look.ref.session = all->row.id;
  mp_facts facts;
  moonpad_status status = tx->ops->look(tx, &look, &facts, error);
  bool same = status == MOONPAD_OK && facts.row.revision == all->row.revision && facts.touched[MP_SCOPE_SESSION] == 5;
  return status != MOONPAD_OK || same ? status : mp_fail(error, MOONPAD_CORRUPT, "not as it is stored");
}

static void test_what_others_wrote_meanwhile(void **state) {
  static const mp_tx_function by[] = {makes_session, counts_up, counts_up, touches_heads, sees_revision};
  static const int where[] = {0, 0, 1, 0, 0};
  life all;
  moonpad_error error = {MOONPAD_OK, ""};
  begin_life(&all, state, 0);
  for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
    mp_store *store = all.stores[where[i]];
    if (store->ops->write(store, by[i], &all, &error) != MOONPAD_OK) fail_msg("step %zu: %s", i, error.message);
  }
  end_life(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_last_one_first),
      cmocka_unit_test(test_what_does_not_fit),
      cmocka_unit_test(test_what_is_no_list),
      cmocka_unit_test_setup_teardown(test_random_lives, folder_setup, folder_teardown),
      cmocka_unit_test_setup_teardown(test_only_what_is_listed_is_read, folder_setup, folder_teardown),
      cmocka_unit_test_setup_teardown(test_what_others_wrote_meanwhile, folder_setup, folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
