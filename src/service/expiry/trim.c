/* Trimming: which turns go, and the base state that they lead to. */
#include "service/expiry/trim.h"

#include "base/error.h"
#include "base/map.h"
#include "core/event_draft.h"

/*
** So many events are looked at first. More of them are seldom needed: turns are shorter, and few
** invocations of other processes end so long after they have begun.
*/
#define FIRST_LOOK 64

typedef struct seen_event {
  int64_t revision;
  double timestamp;
  uint64_t invocation; /* a hash */
  size_t first;        /* the first event of its invocation, as an index */
  bool is_message;
} seen_event;

typedef struct beginning {
  const mp_trimming *trimming;
  mp_env *env;
  seen_event *events; /* the first ones of the session */
  size_t count;
  size_t capacity;
  /* Of the invocation that begins with an event: its last event, and whether it has a message. */
  size_t *last;
  bool *has_message;
  size_t *slots; /* a hash table of first events: index + 1; 0: an empty slot */
  size_t slot_count;
} beginning;

/* ---- what the store has ---- */

static moonpad_status see_event(void *context, const mp_event_row *row, moonpad_error *error) {
  beginning *begin = context;
  (void)error;
  if (begin->count == begin->capacity) return MP_STOP;
  uint64_t hash = mp_hash(row->invocation.data, row->invocation.length);
  /* Without an id it is an invocation of its own. */
  if (row->invocation.length == 0) hash = (uint64_t)row->revision;
  begin->events[begin->count++] = (seen_event){.revision = row->revision,
                                               .timestamp = row->timestamp,
                                               .invocation = hash,
                                               .is_message = (row->kinds & MP_EVENT_USER_MESSAGE) != 0};
  return MOONPAD_OK;
}

/* The first event of an invocation; `index` itself if it is that. */
static size_t first_of(beginning *begin, size_t index) {
  uint64_t invocation = begin->events[index].invocation;
  size_t mask = begin->slot_count - 1, at = (size_t)(invocation ^ invocation >> 32) & mask;
  while (begin->slots[at] != 0 && begin->events[begin->slots[at] - 1].invocation != invocation) at = (at + 1) & mask;
  if (begin->slots[at] == 0) begin->slots[at] = index + 1;
  return begin->slots[at] - 1;
}

static void find_invocations(beginning *begin) {
  for (size_t i = 0; i < begin->count; i++) {
    size_t first = begin->events[i].first = first_of(begin, i);
    begin->last[first] = i;
    begin->has_message[first] |= begin->events[i].is_message;
  }
}

static bool reserve(beginning *begin, size_t capacity) {
  begin->capacity = capacity;
  for (begin->slot_count = 16; begin->slot_count < 2 * capacity;) begin->slot_count *= 2;
  begin->events = mp_allocate(begin->env, capacity * sizeof *begin->events);
  begin->last = mp_allocate(begin->env, capacity * sizeof *begin->last);
  begin->has_message = mp_allocate_zeroed(begin->env, capacity * sizeof *begin->has_message);
  begin->slots = mp_allocate_zeroed(begin->env, begin->slot_count * sizeof *begin->slots);
  return begin->events != NULL && begin->last != NULL && begin->has_message != NULL && begin->slots != NULL;
}

static void free_beginning(beginning *begin) {
  mp_release(begin->env, begin->events);
  mp_release(begin->env, begin->last);
  mp_release(begin->env, begin->has_message);
  mp_release(begin->env, begin->slots);
}

/* ---- turns ---- */

static moonpad_status note_answer(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  *(bool *)context = mp_event_is_answer(row->json);
  return MOONPAD_OK;
}

/* Does another turn begin with the event at `index`? `reach`: where those before it end. */
static moonpad_status begins_turn(const beginning *begin, mp_tx *tx, size_t index, size_t reach, bool *begins,
                                  moonpad_error *error) {
  const seen_event *event = &begin->events[index];
  *begins = event->first == index && begin->has_message[index] && reach < index;
  if (!*begins || !event->is_message) return MOONPAD_OK;
  bool is_answer = false;
  mp_event_query query = {.first = event->revision, .last = event->revision};
  moonpad_status status = tx->ops->each_event(tx, begin->trimming->ref, &query, note_answer, &is_answer, error);
  *begins = !is_answer;
  return status;
}

/* A turn is known once the next one begins. */
static moonpad_status list_turns(const beginning *begin, mp_tx *tx, mp_known_turns *known, moonpad_error *error) {
  size_t reach = 0;
  for (size_t i = 0; i + 1 < begin->count && known->count < MP_KNOWN_TURNS; i++) {
    const seen_event *event = &begin->events[i];
    bool begins;
    if (begin->last[event->first] > reach) reach = begin->last[event->first];
    moonpad_status status = begins_turn(begin, tx, i + 1, reach, &begins, error);
    if (status != MOONPAD_OK) return status;
    if (!begins) continue;
    known->turns[known->count].last = event->revision;
    known->turns[known->count++].timestamp = event->timestamp;
  }
  return MOONPAD_OK;
}

static moonpad_status look(const mp_trimming *trimming, mp_tx *tx, int64_t first, int64_t last, mp_known_turns *known,
                           moonpad_error *error) {
  beginning begin = {.trimming = trimming, .env = trimming->service->env};
  mp_event_query query = {.first = first, .last = last, .without_json = true, .tags = true};
  moonpad_status status = reserve(&begin, (size_t)(last - first + 1)) ? MOONPAD_OK : mp_no_memory(error);
  known->count = 0;
  if (status == MOONPAD_OK) status = tx->ops->each_event(tx, trimming->ref, &query, see_event, &begin, error);
  if (status == MOONPAD_OK) {
    find_invocations(&begin);
    status = list_turns(&begin, tx, known, error);
  }
  free_beginning(&begin);
  return status;
}

/*
** Looks at more and more events until it knows a turn; there is none if all events are one. Of
** those that are known to be one, only the last ones are looked at again.
*/
static moonpad_status find_turns(const mp_trimming *trimming, mp_tx *tx, const mp_session_row *row,
                                 mp_known_turns *known, moonpad_error *error) {
  int64_t first = row->base_revision + 1;
  if (known->base_revision == row->base_revision && known->one_turn_to - FIRST_LOOK >= first) {
    first = known->one_turn_to - FIRST_LOOK + 1;
  }
  known->base_revision = row->base_revision;
  known->one_turn_to = 0;
  moonpad_status status = MOONPAD_OK;
  for (int64_t count = FIRST_LOOK; status == MOONPAD_OK && known->one_turn_to == 0; count *= 4) {
    bool is_all = first + count > row->revision;
    status = look(trimming, tx, first, is_all ? row->revision : first + count, known, error);
    if (status == MOONPAD_OK && known->count > 0) break;
    if (is_all) known->one_turn_to = row->revision;
  }
  return status;
}

/* Is it still one turn? Without looking: only a message of the user begins another one. */
static bool is_one_turn(const mp_trimming *trimming, const mp_session_row *row, mp_known_turns *known) {
  bool was_one = known->base_revision == row->base_revision && known->one_turn_to == row->revision - 1;
  if (!was_one || known->one_turn_to == 0 || trimming->may_begin_turn) return false;
  known->one_turn_to = row->revision;
  return true;
}

/* How many of the known turns go. */
static size_t turns_to_go(const mp_trimming *trimming, const mp_session_row *row, const mp_known_turns *known) {
  double lives = trimming->service->options.event_ttl_seconds;
  int64_t gone = row->base_revision;
  size_t count = 0;
  for (; count < known->count; count++) {
    bool is_too_many = trimming->max_events > 0 && row->revision - gone > trimming->max_events;
    bool is_old = lives > 0 && known->turns[count].timestamp < trimming->now - lives;
    if (!is_too_many && !is_old) break;
    gone = known->turns[count].last;
  }
  return count;
}

static void forget_turns(mp_known_turns *known, size_t count) {
  known->base_revision = known->turns[count - 1].last;
  known->one_turn_to = 0;
  known->count -= count;
  memmove(known->turns, known->turns + count, known->count * sizeof *known->turns);
}

/* ---- the base state ---- */

static moonpad_status change_base(void *context, moonpad_string key, mp_value *value, moonpad_error *error) {
  if (mp_scope_of(key) != MP_SCOPE_SESSION) return MOONPAD_OK;
  return mp_entries_put(context, key, value, 0) ? MOONPAD_OK : mp_no_memory(error);
}

static moonpad_status read_change(void *context, const mp_event_row *row, moonpad_error *error) {
  mp_entries *changes = context;
  return mp_event_each_delta(changes->env, row->json, change_base, changes, error);
}

/*
** Stores the row with its new base, and the keys of the base state that those events have changed.
*/
static moonpad_status move_base(const mp_trimming *trimming, mp_tx *tx, mp_session_row *row, int64_t last,
                                moonpad_error *error) {
  mp_entries changes;
  mp_entries_init(&changes, trimming->service->env);
  mp_event_query query = {.first = row->base_revision + 1, .last = last, .kinds = MP_EVENT_SESSION_CHANGE};
  moonpad_status status = tx->ops->each_event(tx, trimming->ref, &query, read_change, &changes, error);
  mp_state_row *rows = status == MOONPAD_OK ? mp_rows_of(&changes) : NULL;
  if (status == MOONPAD_OK && rows == NULL) status = mp_no_memory(error);
  if (status == MOONPAD_OK) {
    row->base_revision = last;
    mp_batch batch = {.ref = *trimming->ref,
                      .row = row,
                      .heads = MP_HEAD(MP_SCOPE_SESSION),
                      .base_keys = rows,
                      .base_key_count = changes.count};
    status = tx->ops->apply(tx, &batch, error);
  }
  mp_release(trimming->service->env, rows);
  mp_entries_free(&changes);
  return status;
}

/* ---- the whole ---- */

static bool may_be_due(const mp_trimming *trimming, const mp_session_row *row) {
  if (trimming->service->options.event_ttl_seconds > 0) return true;
  return trimming->max_events > 0 && row->revision - row->base_revision > trimming->max_events;
}

static moonpad_status delete_turns(const mp_trimming *trimming, mp_tx *tx, mp_session_row *row, int64_t last,
                                   moonpad_error *error) {
  if (!MP_HAS(mp_tx_ops, tx->ops, trim)) {
    return mp_fail(error, MOONPAD_UNSUPPORTED, "maxEvents, eventTtlSeconds: this store cannot delete events");
  }
  moonpad_status status = move_base(trimming, tx, row, last, error);
  return status == MOONPAD_OK ? tx->ops->trim(tx, trimming->ref, last, error) : status;
}

moonpad_status mp_trim(const mp_trimming *trimming, mp_tx *tx, mp_session_row *row, mp_known_turns *known,
                       int64_t *trimmed, moonpad_error *error) {
  int64_t before = row->base_revision;
  moonpad_status status = MOONPAD_OK;
  bool is_done = !may_be_due(trimming, row) || is_one_turn(trimming, row, known);
  while (status == MOONPAD_OK && !is_done) {
    bool is_known = known->count > 0 && known->base_revision == row->base_revision;
    if (!is_known) status = find_turns(trimming, tx, row, known, error);
    size_t count = status == MOONPAD_OK ? turns_to_go(trimming, row, known) : 0;
    if (count > 0) status = delete_turns(trimming, tx, row, known->turns[count - 1].last, error);
    if (count > 0) forget_turns(known, count);
    is_done = count == 0 || known->count > 0 || row->base_revision - before >= MP_TRIMMED_AT_ONCE;
  }
  if (trimmed != NULL) *trimmed = row->base_revision - before;
  return status;
}
