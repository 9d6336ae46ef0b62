/*
** The C API on the memory store: append (1), getSession and the last events (6, 7), a session
** object that is behind (9), templates (12), memory (14). The limits are what the same work costs
** in C at least: reading the event, memcpy, three upserts in a hash table, an index of event ids; a
** single scan of the template.
*/
#include "read_json.h"

#define BATCH 250 /* appends per sample: one alone is too short for the clock */
#define WORK  10000L

/* ---- The limit of an append: bytes, three keys, an index of ids ---- */

typedef struct limit_key {
  char key[16];
  size_t key_length;
  char value[32];
  size_t value_length;
} limit_key;

#define KEY_SLOTS 64
#define FIRST_IDS 64

/*
** An id is where its event begins; its hash is kept with it, so that growing and most searches go
** to no event.
*/
typedef struct limit_id {
  const char *id; /* in `bytes`; NULL: a free slot */
  uint32_t hash;
} limit_id;

typedef struct limit_store {
  char *bytes;
  size_t used;
  limit_key keys[KEY_SLOTS];
  limit_id *ids;
  size_t id_slots; /* a power of two, at most three quarters of them taken */
  size_t id_count;
} limit_store;

static uint32_t hash_bytes(const char *data, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)data[i]) * 16777619u;
  return hash;
}

static void upsert(limit_store *store, const char *key, size_t key_length, const char *value, size_t value_length) {
  size_t slot = hash_bytes(key, key_length) % KEY_SLOTS;
  limit_key *entry = &store->keys[slot];
  while (entry->key_length != 0 && (entry->key_length != key_length || memcmp(entry->key, key, key_length) != 0)) {
    slot = (slot + 1) % KEY_SLOTS;
    entry = &store->keys[slot];
  }
  memcpy(entry->key, key, key_length);
  entry->key_length = key_length;
  memcpy(entry->value, value, value_length);
  entry->value_length = value_length;
}

static void grow_ids(limit_store *store) {
  size_t slots = store->id_slots == 0 ? FIRST_IDS : store->id_slots * 2;
  limit_id *ids = calloc(slots, sizeof *ids);
  must(ids != NULL, "calloc");
  for (size_t i = 0; i < store->id_slots; i++) {
    if (store->ids[i].id == NULL) continue;
    size_t slot = store->ids[i].hash & (slots - 1);
    while (ids[slot].id != NULL) slot = (slot + 1) & (slots - 1);
    ids[slot] = store->ids[i];
  }
  free(store->ids);
  store->ids = ids;
  store->id_slots = slots;
}

static bool index_id(limit_store *store, const char *id) {
  uint32_t hash = hash_bytes(id, EVENT_ID_BYTES);
  if (store->id_count >= store->id_slots / 4 * 3) grow_ids(store);
  size_t slot = hash & (store->id_slots - 1);
  while (store->ids[slot].id != NULL) {
    if (store->ids[slot].hash == hash && memcmp(store->ids[slot].id, id, EVENT_ID_BYTES) == 0) return false;
    slot = (slot + 1) & (store->id_slots - 1);
  }
  store->ids[slot].id = id;
  store->ids[slot].hash = hash;
  store->id_count++;
  return true;
}

static limit_store *new_limit_store(size_t events) {
  limit_store *store = must_allocate(sizeof *store);
  memset(store, 0, sizeof *store);
  store->bytes = must_allocate(events * EVENT_BYTES);
  memset(store->bytes, 1, events * EVENT_BYTES); /* warm: the pages are there */
  return store;
}

static void free_limit_store(limit_store *store) {
  free(store->ids);
  free(store->bytes);
  free(store);
}

#define ID_OFFSET 7 /* {"id":" */

static void limit_append(limit_store *store, const event_text *event) {
  char *copy = store->bytes + store->used;
  memcpy(copy, event->text, event->length);
  store->used += event->length;
  must(index_id(store, copy + ID_OFFSET), "an id of its own");
  upsert(store, "app:served", 10, event->text + 150, 7);
  upsert(store, "step", 4, event->text + 160, 7);
  upsert(store, "user:wish", 9, event->text + 170, 14);
}

/* ---- 1: append ---- */

static double time_limit(limit_store *store, const event_text *events) {
  double start = worked_us();
  for (int i = 0; i < BATCH; i++) limit_append(store, &events[i]);
  return (worked_us() - start) / BATCH;
}

static double time_batch(moonpad_session *session, const event_text *events) {
  double start = worked_us();
  for (int i = 0; i < BATCH; i++) append(session, &events[i]);
  return (worked_us() - start) / BATCH;
}

#define GROWN 100000L

/*
** The history grows from nothing to so many events, and the index of ids with it. Each batch is
** made just before, as an event is that is to be stored.
*/
static void measure_append(void) {
  samples reading = {0}, limit = {0}, ours = {0}, without_id = {0};
  for (int round = 0; round < ROUNDS; round++) {
    limit_store *store = new_limit_store((size_t)GROWN);
    moonpad_service *service = open_service("memory:", MOONPAD_DURABILITY_FULL, NULL);
    moonpad_session *given = create_session(service, "given"), *made = create_session(service, "made");
    for (long first = 0; first < GROWN; first += BATCH) {
      event_text *events = make_events(first, BATCH, 0, true), *plain = make_events(first, BATCH, 0, false);
      add_sample(&reading, time_reading(events, BATCH));
      add_sample(&limit, time_limit(store, events) + reading.values[reading.count - 1]);
      add_sample(&ours, time_batch(given, events));
      add_sample(&without_id, time_batch(made, plain));
      free(plain);
      free(events);
    }
    moonpad_session_free(made);
    moonpad_session_free(given);
    moonpad_service_release(service);
    free_limit_store(store);
  }
  print_pairs_at_most("1", "append, memory, id given and checked, p50", "us", &limit, &ours, 3);
  print_noted("1", "append, memory, id made by us, p50", "us", median(&without_id));
  print_noted("1", "reading the event, a part of the limit (" JSON_READER ")", "us", median(&reading));
  clear_samples(&without_id);
  clear_samples(&reading);
}

/* ---- 14: memory per event ---- */

static void *count_allocate(void *context, size_t size) {
  size_t *block = malloc(size + 16);
  if (block == NULL) return NULL;
  *block = size;
  *(size_t *)context += size;
  return (char *)block + 16;
}

static void count_release(void *context, void *block) {
  if (block == NULL) return;
  size_t *start = (size_t *)(void *)((char *)block - 16);
  *(size_t *)context -= *start;
  free(start);
}

static void *count_resize(void *context, void *block, size_t size) {
  void *moved = count_allocate(context, size);
  if (moved == NULL || block == NULL) return moved;
  size_t before = *(size_t *)(void *)((char *)block - 16);
  memcpy(moved, block, before < size ? before : size);
  count_release(context, block);
  return moved;
}

static void measure_memory(long history) {
  size_t bytes = 0;
  char work[96], counted[32];
  moonpad_allocator allocator = {count_allocate, count_resize, count_release, &bytes};
  moonpad_service *service = open_service("memory:", MOONPAD_DURABILITY_FULL, &allocator);
  moonpad_session *session = create_session(service, "s");
  event_text event;
  size_t before = bytes;
  for (long i = 0; i < history; i++) {
    event.length = write_event(event.text, i, 0, true);
    append(session, &event);
  }
  double each = (double)(bytes - before) / (double)history;
  snprintf(work, sizeof work, "memory per event, %s events of %d bytes", count_text(counted, history), EVENT_BYTES);
  print_bound("14", work, "B", each, EVENT_BYTES + 120);
  moonpad_session_free(session);
  moonpad_service_release(service);
}

#define SESSIONS 100000L

/*
** Sessions of as many users, stored with a state of three keys and an event each; and one that is
** only there.
*/
static void measure_sessions(void) {
  size_t bytes = 0, before = 0;
  double each[2];
  moonpad_allocator allocator = {count_allocate, count_resize, count_release, &bytes};
  for (int used = 0; used < 2; used++) {
    moonpad_service *service = open_service("memory:", MOONPAD_DURABILITY_FULL, &allocator);
    before = bytes;
    for (long i = 0; i < SESSIONS; i++) {
      char user[32], id[32];
      moonpad_session *session;
      moonpad_error error;
      event_text event;
      snprintf(user, sizeof user, "user %ld", i);
      snprintf(id, sizeof id, "session %ld", i);
      moonpad_session_name name = {moonpad_text("hotel"), moonpad_text(user), moonpad_text(id)};
      must_call(moonpad_create_session(service, &name, moonpad_text("{}"), &session, &error), &error);
      event.length = write_event(event.text, i, 0, true);
      if (used) append(session, &event);
      moonpad_session_free(session);
    }
    each[used] = (double)(bytes - before) / (double)SESSIONS;
    moonpad_service_release(service);
  }
  print_noted("14", "memory per session and its user, 100,000 of them, empty", "B", each[0]);
  print_noted("14", "memory per session and its user, 100,000 of them, with one event and its state", "B", each[1]);
}

/* ---- 1, 6, 7: with a long history ---- */

static double time_gets(moonpad_service *service, const char *id) {
  double start = worked_us();
  for (int i = 0; i < 20; i++) moonpad_session_free(get_session(service, id, MOONPAD_ALL_EVENTS));
  return (worked_us() - start) / 20;
}

static void measure_history(long history) {
  char work[96], counted[32];
  samples at_start = {0}, at_end = {0}, few = {0}, many = {0};
  moonpad_service *service = open_service("memory:", MOONPAD_DURABILITY_FULL, NULL);
  moonpad_session *longest = create_session(service, "long");
  fill_history(service, longest, 0, history);
  long next = history;
  for (int round = 0; round < ROUNDS; round++) {
    char id[16];
    snprintf(id, sizeof id, "short %d", round);
    moonpad_session *shortest = create_session(service, id);
    for (long first = 0; first < WORK;
         first += BATCH, next += BATCH) { /* in turns, so that both meet the same machine */
      event_text *events = make_events(first, BATCH, 0, true), *more = make_events(next, BATCH, 0, true);
      add_sample(&at_start, time_batch(shortest, events));
      add_sample(&at_end, time_batch(longest, more));
      free(more);
      free(events);
    }
    moonpad_session_free(shortest);
  }
  snprintf(work, sizeof work, "append, memory, at 0 / at %s events, p50", count_text(counted, history));
  print_pairs_at_most("1", work, "us", &at_start, &at_end, 1.2);

  moonpad_session *ten = create_session(service, "ten");
  fill_history(service, ten, 0, 10);
  snprintf(work, sizeof work, "getSession in C, memory, 10 / %s events", counted);
  for (int i = 0; i < 200; i++) {
    add_sample(&few, time_gets(service, "ten"));
    add_sample(&many, time_gets(service, "long"));
  }
  print_pairs_at_most("6", work, "us", &few, &many, 1.3);
  moonpad_session_free(ten);
  moonpad_session_free(longest);
  moonpad_service_release(service);
}

/* ---- 9: a session object that is behind ---- */

static void measure_behind(void) {
  static const long distances[] = {10, 1000, 100000};
  for (size_t d = 0; d < sizeof distances / sizeof distances[0]; d++) {
    moonpad_service *service = open_service("memory:", MOONPAD_DURABILITY_FULL, NULL);
    print_behind(service, "memory", distances[d]);
    moonpad_service_release(service);
  }
}

/* ---- 12: a template of 2 KB with 20 placeholders ---- */

#define PLACEHOLDERS 20

static void make_template(char *text, size_t size) {
  size_t used = 0;
  for (int i = 0; i < PLACEHOLDERS; i++) {
    used += (size_t)snprintf(
        text + used, size - used,
        "%d. The guest has told us about this before, so do not ask again, but keep it in mind: {key_%02d}. ", i + 10,
        i);
  }
  must(used > 1900 && used < 2200, "a template of 2 KB");
}

/*
** Looks at every byte, since braces, angles and backslashes all mean something, and copies what
** lies between.
*/
static size_t scan_template(const limit_store *state, const char *source, size_t length, char *out) {
  const char *end = source + length, *text = source;
  size_t used = 0;
  while (source < end) {
    char byte = *source++;
    if (byte != '{' && byte != '<' && byte != '\\') continue;
    const char *open = source;
    while (source < end && *source != '}') source++;
    must(byte == '{' && source < end, "the template");
    size_t name_length = (size_t)(source - open), slot = hash_bytes(open, name_length) % KEY_SLOTS;
    while (state->keys[slot].key_length != name_length || memcmp(state->keys[slot].key, open, name_length) != 0) {
      slot = (slot + 1) % KEY_SLOTS;
    }
    memcpy(out + used, text, (size_t)(open - 1 - text));
    used += (size_t)(open - 1 - text);
    memcpy(out + used, state->keys[slot].value, state->keys[slot].value_length);
    used += state->keys[slot].value_length;
    text = ++source;
  }
  memcpy(out + used, text, (size_t)(end - text));
  return used + (size_t)(end - text);
}

static void measure_template(void) {
  char source[4096], *out;
  samples limit = {0}, ours = {0};
  moonpad_error error;
  make_template(source, sizeof source);
  size_t length = strlen(source);
  limit_store *state = new_limit_store(1);
  moonpad_service *service = open_service("memory:", MOONPAD_DURABILITY_FULL, NULL);
  moonpad_session *session = create_session(service, "s");
  for (int i = 0; i < PLACEHOLDERS; i++) {
    char key[16], value[16], event[128];
    snprintf(key, sizeof key, "key_%02d", i);
    snprintf(value, sizeof value, "value of %02d", i);
    snprintf(event, sizeof event, "{\"actions\":{\"stateDelta\":{\"%s\":\"%s\"}}}", key, value);
    upsert(state, key, strlen(key), value, strlen(value));
    must_call(moonpad_append_event(session, moonpad_text(event), NULL, &error), &error);
  }
  size_t written = 0, rendered = 0;
  for (int round = 0; round < 200; round++) {
    double start = worked_us();
    for (int i = 0; i < 50; i++) { /* both give the text in memory of its own */
      out = must_allocate(4096);
      written = scan_template(state, source, length, out);
      free(out);
    }
    add_sample(&limit, (worked_us() - start) / 50);
    start = worked_us();
    for (int i = 0; i < 50; i++) {
      moonpad_buffer result;
      moonpad_string text = {source, length};
      must_call(moonpad_session_render(session, text, NULL, &result, &error), &error);
      rendered = result.length;
      moonpad_buffer_free(&result);
    }
    add_sample(&ours, (worked_us() - start) / 50);
  }
  must(written == rendered, "the same text");
  print_pairs_at_most("12", "template of 2 KB, 20 placeholders, C", "us", &limit, &ours, 1.5);
  free_limit_store(state);
  moonpad_session_free(session);
  moonpad_service_release(service);
}

int main(int count, char **values) {
  bench_arguments arguments = read_arguments(count, values);
  measure_append();
  measure_history(arguments.history);
  measure_behind();
  measure_template();
  measure_memory(arguments.history);
  measure_sessions();
  return 0;
}
