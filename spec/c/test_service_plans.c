/*
** Appends as plans: a service whose store takes them answers, shows and stores what one does that
** decides everything in transactions, and needs one round trip where nothing stands against it.
*/
#include <stdio.h>

#include "fault_steps.h"
#include "service_support.h"
#include "slow_store.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- two services that live the same life ---- */

#define WRITERS 3 /* session objects of one session; the last one of another session of that user */

typedef struct service_life {
  void *state; /* a host */
  host *self;
  moonpad_session *writers[WRITERS];
  char *text; /* what all calls answered */
  size_t length, capacity;
} service_life;

static void say(service_life *life, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (life->capacity - life->length <= (size_t)length) {
    life->capacity = (life->length + (size_t)length + 1) * 2;
    life->text = realloc(life->text, life->capacity);
    assert_non_null(life->text);
  }
  va_start(arguments, format);
  vsnprintf(life->text + life->length, (size_t)length + 1, format, arguments);
  va_end(arguments);
  life->length += (size_t)length;
}

static void say_event(service_life *life, const moonpad_event *event) {
  if (event == NULL) return;
  moonpad_string json = moonpad_event_json(event);
  say(life, "%lld %.*s\n", (long long)moonpad_event_revision(event), (int)json.length, json.data);
}

static void say_answer(service_life *life, int writer, moonpad_status status, moonpad_event *event,
                       const moonpad_error *error) {
  moonpad_session *session = life->writers[writer];
  if (status != MOONPAD_OK) say(life, "%s: %s\n", moonpad_status_name(status), error->message);
  for (size_t i = 0; i < moonpad_session_conflict_count(session); i++) {
    moonpad_string key = moonpad_session_conflict_key(session, i);
    say(life, "conflict %.*s\n", (int)key.length, key.data);
  }
  say_event(life, event);
  moonpad_event_free(event);
  moonpad_buffer json = {0};
  moonpad_error reason;
  if (moonpad_session_state(session, &json, &reason) != MOONPAD_OK) say(life, "%s\n", reason.message);
  say(life, "%d: %lld, %lld messages, %g %.*s\n", writer, (long long)moonpad_session_revision(session),
      (long long)moonpad_session_conversation_count(session), moonpad_session_last_update_time(session),
      (int)json.length, json.data == NULL ? "" : json.data);
  moonpad_buffer_free(&json);
}

static void begin_life(service_life *life, const char *url, const moonpad_options *options, const char *state) {
  memset(life, 0, sizeof *life);
  host_setup(&life->state, url);
  life->self = life->state;
  if (options != NULL) {
    moonpad_service_release(life->self->service);
    life->self->options.max_value_bytes = options->max_value_bytes;
    life->self->options.max_event_bytes = options->max_event_bytes;
    life->self->options.max_state_bytes = options->max_state_bytes;
    life->self->options.on_conflict = options->on_conflict;
    OK(moonpad_open(T(life->self->url), &life->self->options, &life->self->service, &failure));
  }
  life->writers[0] = host_create(life->self, "s", state);
  life->writers[1] = host_get(life->self, "s");
  life->writers[2] = host_create(life->self, "other", "{}");
  say(life, "\n");
}

static void end_life(service_life *life) {
  static const char *const ids[] = {"s", "other"};
  for (size_t i = 0; i < WRITERS; i++) moonpad_session_free(life->writers[i]);
  for (size_t i = 0; i < COUNT(ids); i++) {
    life->writers[0] = host_get(life->self, ids[i]);
    say_answer(life, 0, MOONPAD_OK, NULL, NULL);
    for (size_t at = 0; at < host_event_count(life->writers[0]); at++) {
      moonpad_event *event = NULL;
      OK(moonpad_session_event(life->writers[0], at, &event, &failure));
      say_event(life, event);
      moonpad_event_free(event);
    }
    moonpad_session_free(life->writers[0]);
  }
}

/* Both lives are over then. */
static void expect_same_life(service_life *a, service_life *b, const char *what) {
  end_life(a);
  end_life(b);
  if (strcmp(a->text, b->text) != 0) {
    size_t at = 0;
    while (a->text[at] == b->text[at]) at++;
    while (at > 0 && a->text[at - 1] != '\n') at--;
    size_t before = at > 600 ? at - 600 : 0;
    fail_msg("%s: after\n%.*s\ndecided in a transaction:\n%.600s\nas a plan:\n%.600s\n", what, (int)(at - before),
             a->text + before, a->text + at, b->text + at);
  }
  free(a->text);
  free(b->text);
  host_teardown(&a->state);
  host_teardown(&b->state);
}

/* ---- what a writer does ---- */

typedef enum act { ACT_SET, ACT_REMOVE, ACT_INCREMENT, ACT_APPEND, ACT_SET_BY_HAND, ACT_REMOVE_BY_HAND } act;

/* json NULL: removes the key. */
static void append_by_hand(service_life *life, int writer, const char *id, const char *key, const char *json) {
  char text[512], given[64] = "", removed[64] = "";
  moonpad_event *event = NULL;
  moonpad_error error;
  if (id != NULL) snprintf(given, sizeof given, "\"id\":\"%s\",", id);
  if (json == NULL) snprintf(removed, sizeof removed, ",\"removedStateKeys\":[\"%s\"]", key);
  snprintf(
      text, sizeof text,
      "{%s\"author\":\"user\",\"content\":{\"parts\":[{\"text\":\"hi\"}]},\"actions\":{\"stateDelta\":{\"%s\":%s}}%s}",
      given, key, json == NULL ? "null" : json, removed);
  moonpad_status status = moonpad_append_event(life->writers[writer], T(text), &event, &error);
  say_answer(life, writer, status, event, &error);
}

static moonpad_value value_of(const char *json) {
  moonpad_value value;
  moonpad_buffer scratch = {0};
  if (json[0] == '[' || json[0] == '{') return moonpad_json(T(json));
  if (json[0] == '"') return moonpad_string_value((moonpad_string){json + 1, strlen(json) - 2});
  OK(moonpad_json_read(T(json), T(""), &scratch, &value, &failure));
  moonpad_buffer_free(&scratch);
  return value;
}

/* The pending write is there, or was refused, in both lives alike. */
static void write_pending(service_life *life, int writer, act what, const char *key, const char *json) {
  moonpad_changes *changes = NULL;
  moonpad_error error;
  moonpad_value value = {0};
  OK(moonpad_session_changes(life->writers[writer], &changes, &failure));
  if (json != NULL) value = value_of(json);
  moonpad_status status;
  if (what == ACT_SET) {
    status = moonpad_changes_set(changes, T(key), T(""), &value, &error);
  } else if (what == ACT_REMOVE) {
    status = moonpad_changes_remove(changes, T(key), T(""), &error);
  } else if (what == ACT_INCREMENT) {
    status = moonpad_changes_increment(changes, T(key), &value, &error);
  } else {
    status = moonpad_changes_append(changes, T(key), &value, &error);
  }
  if (status != MOONPAD_OK) say(life, "refused: %s\n", error.message);
}

static void read_key(service_life *life, int writer, const char *key) {
  moonpad_changes *changes = NULL;
  moonpad_value value;
  moonpad_error error;
  OK(moonpad_session_changes(life->writers[writer], &changes, &failure));
  if (moonpad_changes_get(changes, T(key), T(""), &value, &error) != MOONPAD_OK) say(life, "%s\n", error.message);
}

static void commit(service_life *life, int writer) {
  moonpad_event *event = NULL;
  moonpad_error error;
  moonpad_status status = moonpad_update_session(life->writers[writer], &event, &error);
  say_answer(life, writer, status, event, &error);
}

static void refresh(service_life *life, int writer) {
  moonpad_error error;
  moonpad_status status = moonpad_refresh(life->writers[writer], &error);
  say_answer(life, writer, status, NULL, &error);
}

/* A pending write, or an event by hand, and then the append. */
static void act_on(service_life *life, int writer, act what, const char *key, const char *json) {
  if (what == ACT_SET_BY_HAND || what == ACT_REMOVE_BY_HAND) {
    append_by_hand(life, writer, NULL, key, what == ACT_SET_BY_HAND ? json : NULL);
  } else {
    write_pending(life, writer, what, key, json);
    commit(life, writer);
  }
}

/* ---- every operation, on every value held, on every value stored, with and without a read ---- */

static const char *const values[] = {
    NULL, "null", "true",    "7",        "9223372036854775800", "-9223372036854775800", "1.5", "1e308", "\"text\"",
    "[]", "{}",   "[1,[2]]", "{\"a\":1}"};
static const struct {
  act what;
  const char *json;
} acts[] = {{ACT_SET, "5"},         {ACT_SET, "[5]"},           {ACT_REMOVE, NULL},     {ACT_INCREMENT, "3"},
            {ACT_INCREMENT, "100"}, {ACT_INCREMENT, "-100"},    {ACT_INCREMENT, "0.5"}, {ACT_INCREMENT, "1e308"},
            {ACT_APPEND, "9"},      {ACT_APPEND, "{\"b\":[]}"}, {ACT_SET_BY_HAND, "6"}, {ACT_REMOVE_BY_HAND, NULL}};

static void try_all_on(service_life *life, const char *key, const char *held, const char *stored, bool changes) {
  for (size_t i = 0; i < COUNT(acts); i++) {
    for (int reads = 0; reads < 2; reads++) {
      say(life, "act %zu, reads %d\n", i, reads);
      append_by_hand(life, 1, NULL, key, held);
      refresh(life, 0);
      if (reads) read_key(life, 0, key);
      append_by_hand(life, 1, NULL, changes ? key : "beside", stored);
      act_on(life, 0, acts[i].what, key, acts[i].json);
      refresh(life, 0);
      moonpad_changes *pending = NULL;
      OK(moonpad_session_changes(life->writers[0], &pending, &failure));
      moonpad_changes_discard(pending);
      refresh(life, 1);
    }
  }
}

/* The state of these two is the URL of a store that takes plans. */
static void test_every_operation_comes_to_the_same(void **state) {
  const char *url = *state;
  static const char *const keys[] = {"k", "user:k", "app:k"};
  bool are_few = fault_is_sample() && strncmp(url, "slow:", 5) != 0;
  size_t stride = are_few ? 6 : 1;
  for (size_t key = 0; key < COUNT(keys); key++) {
    for (size_t held = (size_t)scope_turn() % stride; held < COUNT(values); held += stride) {
      service_life plain, planned;
      begin_life(&plain, "memory:", NULL, "{}");
      begin_life(&planned, url, NULL, "{}");
      try_all_on(&plain, keys[key], values[held], "1", false);
      try_all_on(&planned, keys[key], values[held], "1", false);
      for (size_t stored = 0; stored < COUNT(values); stored++) {
        try_all_on(&plain, keys[key], values[held], values[stored], true);
        try_all_on(&planned, keys[key], values[held], values[stored], true);
      }
      char what[64];
      snprintf(what, sizeof what, "%s, held %zu", keys[key], held);
      expect_same_life(&plain, &planned, what);
    }
  }
}

/* ---- random lives ---- */

static const char *const life_keys[] = {"k", "n", "list", "user:n", "user:list", "app:n", "temp:n", "temp:k"};

static void live(service_life *life, uint64_t seed, int steps) {
  static const char *const ids[] = {"one", "two", "three", "four"};
  static const char *const numbers[] = {"1", "-7", "0.5", "9223372036854775807"};
  random_state = seed * 2 + 1;
  for (int i = 0; i < steps; i++) {
    uint64_t drawn = next_random();
    int writer = (int)(drawn % WRITERS);
    const char *key = life_keys[(drawn >> 8) % COUNT(life_keys)];
    const char *json = values[1 + (drawn >> 16) % (COUNT(values) - 1)];
    say(life, "step %d\n", i);
    switch ((drawn >> 24) % 12) {
    case 0:
      write_pending(life, writer, ACT_SET, key, json);
      break;
    case 1:
      write_pending(life, writer, ACT_REMOVE, key, NULL);
      break;
    case 2:
    case 3:
      write_pending(life, writer, ACT_INCREMENT, key, numbers[(drawn >> 32) % COUNT(numbers)]);
      break;
    case 4:
    case 5:
      write_pending(life, writer, ACT_APPEND, key, json);
      break;
    case 6:
      read_key(life, writer, key);
      break;
    case 7:
      append_by_hand(life, writer, NULL, key, (drawn >> 32) % 4 == 0 ? NULL : json);
      break;
    case 8:
      append_by_hand(life, writer, ids[(drawn >> 32) % COUNT(ids)], "k", (drawn >> 40) % 2 == 0 ? "1" : "2");
      break;
    case 9:
      refresh(life, writer);
      break;
    default:
      commit(life, writer);
    }
  }
}

static void test_random_lives_come_to_the_same(void **state) {
  const char *url = *state;
  moonpad_options kinds[6];
  for (size_t i = 0; i < COUNT(kinds); i++) moonpad_options_init(&kinds[i]);
  kinds[1].max_value_bytes = 12;
  kinds[2].max_event_bytes = 190;
  kinds[3].max_state_bytes = 30;
  kinds[4].max_state_bytes = 50;
  kinds[4].max_value_bytes = 20;
  kinds[5].on_conflict = MOONPAD_ON_CONFLICT_OVERWRITE;
  long lives = fault_count(120);
  uint64_t seed = fault_seeds(lives);
  for (long i = 0; i < lives; i++, seed++) {
    const moonpad_options *options = &kinds[(size_t)i % COUNT(kinds)];
    service_life plain, planned;
    char what[64];
    begin_life(&plain, "memory:", options, "{\"k\":1,\"list\":[1],\"user:n\":2}");
    begin_life(&planned, url, options, "{\"k\":1,\"list\":[1],\"user:n\":2}");
    live(&plain, seed, 60);
    live(&planned, seed, 60);
    snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
    expect_same_life(&plain, &planned, what);
  }
}

/* ---- round trips ---- */

#define TAKES(count, ...)                                                                                              \
  do {                                                                                                                 \
    long before_it = slow_store_round_trips();                                                                         \
    __VA_ARGS__;                                                                                                       \
    long trips = slow_store_round_trips() - before_it;                                                                 \
    if (trips != (count)) fail_msg("line %d: %ld round trips, not %d", __LINE__, trips, (count));                      \
  } while (0)

static void test_a_call_needs_one_round_trip(void **state) {
  (void)state;
  service_life life;
  begin_life(&life, "slow:0:memory:", NULL, "{\"n\":1,\"list\":[],\"text\":\"x\",\"float\":1.5}");
  host *self = life.self;
  TAKES(1, moonpad_session_free(host_get(self, "s")));
  TAKES(1, refresh(&life, 0));
  TAKES(1, append_by_hand(&life, 0, NULL, "k", "1"));
  TAKES(1, append_by_hand(&life, 0, "given", "k", "2"));
  /* An object that is behind, whatever it does to other keys. */
  TAKES(1, append_by_hand(&life, 1, NULL, "other", "1"));
  TAKES(1, act_on(&life, 0, ACT_SET, "set", "1"));
  TAKES(1, act_on(&life, 1, ACT_REMOVE, "gone", NULL));
  TAKES(1, act_on(&life, 0, ACT_INCREMENT, "n", "1"));
  TAKES(1, act_on(&life, 1, ACT_INCREMENT, "n", "1"));
  TAKES(1, act_on(&life, 0, ACT_APPEND, "list", "1"));
  TAKES(1, act_on(&life, 1, ACT_APPEND, "list", "2"));
  TAKES(1, act_on(&life, 0, ACT_INCREMENT, "float", "1"));
  TAKES(1, act_on(&life, 2, ACT_INCREMENT, "app:n", "1"));
  TAKES(1, act_on(&life, 0, ACT_INCREMENT, "app:n", "1"));
  STATE(life.writers[0],
        "{\"app:n\":2,\"float\":2.5,\"k\":2,\"list\":[1,2],\"n\":3,\"other\":1,\"set\":1,\"text\":\"x\"}");
  /* What the object itself has stored since the writer looked stands against nobody. */
  read_key(&life, 0, "set");
  write_pending(&life, 0, ACT_SET, "set", "2");
  TAKES(1, append_by_hand(&life, 0, NULL, "set", "3"));
  TAKES(1, commit(&life, 0));
  moonpad_session_list *list = NULL;
  TAKES(1, OK(moonpad_list_sessions(self->service, T("app"), NULL, &list, &failure)));
  moonpad_session_list_free(list);
  /*
  ** What is refused is decided in a transaction: a conflict, a sum of floats somebody else has
  ** changed, a string.
  */
  refresh(&life, 1);
  read_key(&life, 1, "k");
  append_by_hand(&life, 0, NULL, "k", "3");
  write_pending(&life, 1, ACT_SET, "k", "4");
  TAKES(2, commit(&life, 1));
  assert_int_equal(moonpad_session_conflict_count(life.writers[1]), 1);
  TAKES(1, act_on(&life, 0, ACT_INCREMENT, "float", "1"));
  moonpad_changes *changes = NULL;
  OK(moonpad_session_changes(life.writers[1], &changes, &failure));
  moonpad_changes_discard(changes);
  TAKES(2, act_on(&life, 1, ACT_INCREMENT, "float", "1"));
  TAKES(2, append_by_hand(&life, 1, "given", "k", "2")); /* a duplicate */
  for (size_t i = 0; i < WRITERS; i++) moonpad_session_free(life.writers[i]);
  free(life.text);
  host_teardown(&life.state);
}

static bool ignore_line(void *context, moonpad_string line) {
  (void)context, (void)line;
  return true;
}

static void test_round_trips_of_other_calls(void **state) {
  host *self = *state;
  moonpad_session_name name = host_name("s");
  moonpad_session *session = NULL, *forked = NULL;
  moonpad_buffer json = {0};
  moonpad_value value, by = moonpad_integer(2);
  moonpad_event *event = NULL;
  bool existed = false;
  TAKES(2,
        OK(moonpad_create_session(self->service, &name, T("{\"k\":1,\"user:u\":2,\"app:a\":3}"), &session, &failure)));
  host_append(session, "{\"k\":2}");
  host_append(session, "{\"k\":3}");
  TAKES(1, OK(moonpad_update_user_state(self->service, T("app"), T("u"), T("{\"x\":1}"), T("[]"), &failure)));
  TAKES(1, OK(moonpad_increment_app_state(self->service, T("app"), T("n"), &by, &value, &failure)));
  TAKES(1, OK(moonpad_get_user_state(self->service, T("app"), T("u"), &json, &failure)));
  moonpad_buffer_free(&json);
  moonpad_session_free(session);
  TAKES(1, session = host_get(self, "s"));
  TAKES(1, OK(moonpad_session_event(session, 0, &event, &failure)));
  moonpad_event_free(event);
  TAKES(0, OK(moonpad_session_event(session, 1, &event, &failure)));
  moonpad_event_free(event);
  TAKES(3, OK(moonpad_state_at(session, 1, &json, &failure)));
  moonpad_buffer_free(&json);
  TAKES(7, OK(moonpad_fork(session, 1, T("f"), &forked, &failure)));
  moonpad_session_free(forked);
  TAKES(4, OK(moonpad_rewind_to_revision(session, 1, NULL, &failure)));
  TAKES(3, OK(moonpad_export_session(session, ignore_line, NULL, &failure)));
  moonpad_session_free(session);
  TAKES(1, OK(moonpad_delete_session(self->service, &name, &existed, &failure)));
}

/* ---- answers that are lost ---- */

/*
** The store sends the same plan again: it is stored once, and the session object shows it,
** temp: included.
*/
static void lose_answers(service_life *life, int answers, const char *id) {
  append_by_hand(life, 1, NULL, "n", "10");
  write_pending(life, 0, ACT_INCREMENT, "n", "1");
  write_pending(life, 0, ACT_APPEND, "list", "{}");
  write_pending(life, 0, ACT_SET, "temp:t", "1");
  slow_store_lose_answers(answers);
  commit(life, 0);
  slow_store_lose_answers(answers);
  append_by_hand(life, 0, id, "k", "5");
  slow_store_lose_answers(0);
  refresh(life, 1);
}

static void test_a_lost_answer_takes_effect_once(void **state) {
  (void)state;
  static const char *const ids[] = {NULL, "given"};
  for (size_t i = 0; i < COUNT(ids); i++) {
    service_life plain, planned;
    begin_life(&plain, "slow:0:memory:", NULL, "{\"n\":1,\"list\":[0]}");
    begin_life(&planned, "slow:0:memory:", NULL, "{\"n\":1,\"list\":[0]}");
    lose_answers(&plain, 0, ids[i]);
    lose_answers(&planned, 1, ids[i]);
    expect_same_life(&plain, &planned, "a lost answer");
  }
}

/* What was sent twice is the object's own: it stands against nobody who writes through it. */
static void test_what_was_sent_twice_is_own(void **state) {
  (void)state;
  service_life life;
  begin_life(&life, "slow:0:memory:", NULL, "{\"k\":1}");
  moonpad_changes *one, *two;
  OK(moonpad_changes_begin(life.writers[0], &one, &failure));
  OK(moonpad_changes_begin(life.writers[0], &two, &failure));
  set_json(one, "k", "", "[2]");
  set_json(two, "k", "", "[3]");
  slow_store_lose_answers(1);
  OK(moonpad_changes_commit(one, T("{}"), NULL, &failure));
  OK(moonpad_changes_commit(two, T("{}"), NULL, &failure));
  /* Somebody else's change on top of it still stands. */
  set_json(one, "k", "", "[4]");
  set_json(two, "k", "", "[5]");
  slow_store_lose_answers(1);
  OK(moonpad_changes_commit(one, T("{}"), NULL, &failure));
  refresh(&life, 1);
  append_by_hand(&life, 1, NULL, "k", "6");
  FAILS(MOONPAD_CONFLICT, moonpad_changes_commit(two, T("{}"), NULL, &failure));
  moonpad_changes_free(one);
  moonpad_changes_free(two);
  end_life(&life);
  free(life.text);
  host_teardown(&life.state);
}

/* ---- failing allocations ---- */

#define MANY_KEYS 20 /* more than find room without an allocation */

static bool fails_after(long allowed) {
  service_life life;
  begin_life(&life, "slow:0:memory:", NULL, "{\"n\":1,\"list\":[0]}");
  char keys[MANY_KEYS][16];
  for (int i = 0; i < MANY_KEYS; i++) {
    snprintf(keys[i], sizeof keys[i], "%s%d", i % 3 == 0 ? "app:" : "k", i);
    append_by_hand(&life, 1, NULL, keys[i], i % 2 == 0 ? "1" : "[1]");
  }
  refresh(&life, 0);
  for (int i = 0; i < MANY_KEYS; i++) write_pending(&life, 0, i % 2 == 0 ? ACT_INCREMENT : ACT_APPEND, keys[i], "2");
  append_by_hand(&life, 1, NULL, "beside", "[1]");
  moonpad_event *event = NULL;
  moonpad_error error;
  int64_t before = moonpad_session_revision(life.writers[0]);
  life.self->allowed = allowed;
  moonpad_status status = moonpad_update_session(life.writers[0], &event, &error);
  bool failed = life.self->allowed == 0;
  life.self->allowed = -1;
  if (status != MOONPAD_OK) assert_int_equal(status, MOONPAD_NO_MEMORY);
  assert_int_equal(moonpad_session_revision(life.writers[0]), before + (status == MOONPAD_OK ? 2 : 0));
  if (status != MOONPAD_OK) OK(moonpad_update_session(life.writers[0], &event, &failure));
  moonpad_session *stored = host_get(life.self, "s");
  moonpad_buffer json = {0}, shown = {0};
  OK(moonpad_session_state(stored, &json, &failure));
  OK(moonpad_session_state(life.writers[0], &shown, &failure));
  assert_string_equal(json.data, shown.data);
  assert_non_null(strstr(json.data, "\"k1\":[1,2]"));
  assert_non_null(strstr(json.data, "\"k2\":3"));
  assert_int_equal(moonpad_session_revision(stored), before + 2);
  moonpad_buffer_free(&json);
  moonpad_buffer_free(&shown);
  moonpad_session_free(stored);
  moonpad_event_free(event);
  for (size_t i = 0; i < WRITERS; i++) moonpad_session_free(life.writers[i]);
  free(life.text);
  host_teardown(&life.state);
  return failed;
}

static void test_a_plan_without_memory_stores_all_or_nothing(void **state) {
  (void)state;
  long allowed = 0;
  while (fails_after(allowed)) allowed++;
  assert_true(allowed > MANY_KEYS);
}

#define WITH(test, url)                                                                                                \
  { #test " on " url, test, NULL, NULL, (void *)(url) }

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH(test_every_operation_comes_to_the_same, "slow:0:memory:"),
      WITH(test_every_operation_comes_to_the_same, "postgresql:"),
      WITH(test_every_operation_comes_to_the_same, "mysql:"),
      WITH(test_every_operation_comes_to_the_same, "redis:"),
      WITH(test_random_lives_come_to_the_same, "slow:0:memory:"),
      WITH(test_random_lives_come_to_the_same, "slow:0:sqlite::memory:"),
      WITH(test_random_lives_come_to_the_same, "postgresql:"),
      WITH(test_random_lives_come_to_the_same, "mysql:"),
      WITH(test_random_lives_come_to_the_same, "redis:"),
      cmocka_unit_test(test_a_call_needs_one_round_trip),
      ON_STORE(test_round_trips_of_other_calls, "slow:0:memory:"),
      cmocka_unit_test(test_a_lost_answer_takes_effect_once),
      cmocka_unit_test(test_what_was_sent_twice_is_own),
      cmocka_unit_test(test_a_plan_without_memory_stores_all_or_nothing),
  };
  return HOST_RUN(tests);
}
