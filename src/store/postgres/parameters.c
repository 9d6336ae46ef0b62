/* Values and arrays in PostgreSQL's binary format: big-endian numbers, bytes as they are. */
#include <string.h>

#include "store/postgres/postgres.h"

static void put_4(char out[4], uint32_t number) {
  for (int i = 0; i < 4; i++) out[i] = (char)(number >> (24 - 8 * i));
}

static void put_8(char out[8], uint64_t number) {
  put_4(out, (uint32_t)(number >> 32));
  put_4(out + 4, (uint32_t)number);
}

/*
** What a statement sends, and what it answers, is one message of less than a gigabyte: a server
** ends the connection of who sends more. The rest is room for what comes along.
*/
#define MOST_BYTES (((size_t)1 << 30) - ((size_t)1 << 20))

static void count_bytes(mp_postgres_parameters *parameters, size_t length) {
  if (length > MOST_BYTES - parameters->bytes) {
    parameters->too_large = true;
  } else {
    parameters->bytes += length;
  }
}

static uint64_t bits_of(double number) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

void mp_postgres_parameters_init(mp_postgres_parameters *parameters, mp_postgres_connection *connection) {
  parameters->connection = connection;
  parameters->count = 0;
  parameters->bytes = 0;
  parameters->too_large = false;
  mp_buffer_clear(&connection->scratch);
}

static void add(mp_postgres_parameters *parameters, const char *value, size_t length) {
  int at = parameters->count++;
  count_bytes(parameters, length);
  parameters->values[at] = value;
  parameters->lengths[at] = (int)length;
  parameters->formats[at] = 1;
  parameters->is_array[at] = false;
}

static char *number_room(mp_postgres_parameters *parameters, size_t length) {
  char *room = parameters->numbers[parameters->count];
  add(parameters, room, length);
  return room;
}

void mp_postgres_add_integer(mp_postgres_parameters *parameters, int64_t number) {
  put_8(number_room(parameters, 8), (uint64_t)number);
}

void mp_postgres_add_small(mp_postgres_parameters *parameters, int number) {
  put_4(number_room(parameters, 4), (uint32_t)number);
}

void mp_postgres_add_double(mp_postgres_parameters *parameters, double number) {
  put_8(number_room(parameters, 8), bits_of(number));
}

void mp_postgres_add_boolean(mp_postgres_parameters *parameters, bool value) {
  *number_room(parameters, 1) = value;
}

void mp_postgres_add_text(mp_postgres_parameters *parameters, moonpad_string text) {
  add(parameters, text.data == NULL ? "" : text.data, text.length);
}

void mp_postgres_add_bytes(mp_postgres_parameters *parameters, moonpad_string bytes) {
  mp_postgres_add_text(parameters, bytes);
}

void mp_postgres_add_null(mp_postgres_parameters *parameters) {
  add(parameters, NULL, 0);
}

/*
** ---- arrays: dimensions, whether there are NULLs, type, length, lower bound; then each item's
** length and bytes ----
*/

static void put_buffer_4(mp_buffer *buffer, uint32_t number) {
  char bytes[4];
  put_4(bytes, number);
  mp_buffer_add(buffer, bytes, sizeof bytes);
}

void mp_postgres_begin_array(mp_postgres_parameters *parameters, mp_postgres_type type) {
  mp_buffer *buffer = &parameters->connection->scratch;
  add(parameters, NULL, 0);
  parameters->is_array[parameters->count - 1] = true;
  parameters->array_at[parameters->count - 1] = buffer->length;
  put_buffer_4(buffer, 1);
  put_buffer_4(buffer, 1);
  put_buffer_4(buffer, (uint32_t)type);
  parameters->count_at = buffer->length;
  parameters->items = 0;
  put_buffer_4(buffer, 0);
  put_buffer_4(buffer, 1);
}

static void put_item(mp_postgres_parameters *parameters, const char *data, size_t length) {
  mp_buffer *buffer = &parameters->connection->scratch;
  count_bytes(parameters, 4 + length);
  if (parameters->too_large) return;
  put_buffer_4(buffer, (uint32_t)length);
  mp_buffer_add(buffer, data, length);
  parameters->items++;
}

void mp_postgres_item_integer(mp_postgres_parameters *parameters, int64_t number) {
  char bytes[8];
  put_8(bytes, (uint64_t)number);
  put_item(parameters, bytes, sizeof bytes);
}

void mp_postgres_item_small(mp_postgres_parameters *parameters, int number) {
  char bytes[4];
  put_4(bytes, (uint32_t)number);
  put_item(parameters, bytes, sizeof bytes);
}

void mp_postgres_item_double(mp_postgres_parameters *parameters, double number) {
  char bytes[8];
  put_8(bytes, bits_of(number));
  put_item(parameters, bytes, sizeof bytes);
}

void mp_postgres_item_bytes(mp_postgres_parameters *parameters, moonpad_string bytes) {
  put_item(parameters, bytes.data, bytes.length);
}

void mp_postgres_item_null(mp_postgres_parameters *parameters) {
  put_buffer_4(&parameters->connection->scratch, UINT32_MAX);
  parameters->items++;
}

void mp_postgres_item_value(mp_postgres_parameters *parameters, const mp_value *value) {
  mp_buffer *buffer = &parameters->connection->scratch;
  if (value == NULL) {
    mp_postgres_item_null(parameters);
    return;
  }
  size_t at = buffer->length;
  put_buffer_4(buffer, 0);
  mp_value_write(buffer, value);
  parameters->items++;
  if (buffer->failed) return;
  size_t length = buffer->length - at - 4;
  count_bytes(parameters, 4 + length);
  put_4(buffer->data + at, (uint32_t)length);
}

void mp_postgres_end_array(mp_postgres_parameters *parameters) {
  mp_buffer *buffer = &parameters->connection->scratch;
  if (buffer->failed) return;
  int at = parameters->count - 1;
  parameters->lengths[at] = (int)(buffer->length - parameters->array_at[at]);
  put_4(buffer->data + parameters->count_at, parameters->items);
}
