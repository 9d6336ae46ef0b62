/* What comes back, in PostgreSQL's binary format. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/postgres.h"
#include "store/stored.h"

static uint64_t get(const char *bytes, size_t length) {
  uint64_t number = 0;
  for (size_t i = 0; i < length; i++) number = number << 8 | (unsigned char)bytes[i];
  return number;
}

static double double_of(const char *bytes) {
  uint64_t bits = get(bytes, 8);
  double number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

bool mp_postgres_is_null(const PGresult *rows, int row, int column) {
  return PQgetisnull(rows, row, column) != 0;
}

moonpad_string mp_postgres_bytes(const PGresult *rows, int row, int column) {
  if (mp_postgres_is_null(rows, row, column)) return (moonpad_string){NULL, 0};
  return (moonpad_string){PQgetvalue(rows, row, column), (size_t)PQgetlength(rows, row, column)};
}

int64_t mp_postgres_item_as_integer(moonpad_string item) {
  if (item.data == NULL || item.length > 8 || item.length == 0) return 0;
  uint64_t number = get(item.data, item.length);
  unsigned missing = (unsigned)(64 - 8 * item.length);
  return (int64_t)(number << missing) >> missing; /* with its sign */
}

int64_t mp_postgres_integer(const PGresult *rows, int row, int column) {
  return mp_postgres_item_as_integer(mp_postgres_bytes(rows, row, column));
}

double mp_postgres_double(const PGresult *rows, int row, int column) {
  moonpad_string bytes = mp_postgres_bytes(rows, row, column);
  return bytes.data == NULL || bytes.length != 8 ? 0 : double_of(bytes.data);
}

/* ---- arrays ---- */

#define ARRAY_HEADER 20 /* of an array with one dimension; without any it is shorter, and empty */

mp_postgres_array mp_postgres_array_of(const PGresult *rows, int row, int column) {
  moonpad_string bytes = mp_postgres_bytes(rows, row, column);
  mp_postgres_array array = {{NULL, 0}, 0};
  if (bytes.data == NULL || bytes.length < ARRAY_HEADER || get(bytes.data, 4) != 1) return array;
  array.count = (size_t)get(bytes.data + 12, 4);
  array.left = (moonpad_string){bytes.data + ARRAY_HEADER, bytes.length - ARRAY_HEADER};
  return array;
}

bool mp_postgres_next_item(mp_postgres_array *array, moonpad_string *item) {
  *item = (moonpad_string){NULL, 0};
  if (array->count == 0 || array->left.length < 4) return false;
  size_t length = (size_t)get(array->left.data, 4);
  bool is_null = length == UINT32_MAX;
  if (is_null) length = 0;
  if (length > array->left.length - 4) return false;
  if (!is_null) *item = (moonpad_string){array->left.data + 4, length};
  array->left = (moonpad_string){array->left.data + 4 + length, array->left.length - 4 - length};
  array->count--;
  return true;
}

bool mp_postgres_integers(const PGresult *rows, int row, int column, int64_t *out, size_t count) {
  mp_postgres_array array = mp_postgres_array_of(rows, row, column);
  moonpad_string item;
  if (array.count != count) return false;
  for (size_t i = 0; i < count; i++) {
    if (!mp_postgres_next_item(&array, &item)) return false;
    out[i] = mp_postgres_item_as_integer(item);
  }
  return true;
}

bool mp_postgres_doubles(const PGresult *rows, int row, int column, double *out, size_t count) {
  mp_postgres_array array = mp_postgres_array_of(rows, row, column);
  moonpad_string item;
  if (array.count != count) return false;
  for (size_t i = 0; i < count; i++) {
    if (!mp_postgres_next_item(&array, &item) || (item.data != NULL && item.length != 8)) return false;
    out[i] = item.data == NULL ? 0 : double_of(item.data);
  }
  return true;
}

/* ---- state ---- */

moonpad_status mp_postgres_read_state(mp_postgres_connection *connection, mp_scope scope, moonpad_string key,
                                      moonpad_string value, int64_t revision, mp_state_row *row, moonpad_error *error) {
  *row = (mp_state_row){.scope = scope, .key = key, .revision = revision};
  if (value.data == NULL) return MOONPAD_OK;
  moonpad_status status = mp_stored_value(connection->store->remote.env, value, &row->value);
  if (status == MOONPAD_NO_MEMORY) return mp_no_memory(error);
  return status == MOONPAD_OK ? status : mp_postgres_corrupt(connection, "a value of the state is not JSON", error);
}
