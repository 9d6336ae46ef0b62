/* Renewals: noted, and stored together. */
#include "service/expiry/renewals.h"

#include "base/error.h"
#include "base/platform.h"
#include "service/expiry/expiry.h"

#define MOST_NOTES    65536 /* no more are kept while they cannot be stored */
#define NOTES_AT_ONCE 256   /* in one transaction */

/* Its key in the map is the scope and the names. */
typedef struct note {
  mp_session_ref ref; /* its names point into the key */
  mp_scope scope;
  double time;    /* when it was used last */
  double touched; /* when the store says so */
} note;

double mp_renewal_delay(double time_to_live) {
  double most = 1;
  return time_to_live / 20 < most ? time_to_live / 20 : most;
}

/* ---- keys: the scope, then the names with a NUL behind each, which no name has ---- */

#define KEY_BYTES (1 + 3 * (MOONPAD_MAX_NAME_BYTES + 1))

static size_t add_name(char *key, size_t length, moonpad_string name) {
  if (name.length > 0) memcpy(key + length, name.data, name.length);
  key[length + name.length] = '\0';
  return length + name.length + 1;
}

static moonpad_string key_of(const moonpad_session_name *name, mp_scope scope, char room[KEY_BYTES]) {
  room[0] = (char)('0' + (int)scope);
  size_t length = add_name(room, 1, name->app_name);
  if (scope != MP_SCOPE_APP) length = add_name(room, length, name->user_id);
  if (scope == MP_SCOPE_SESSION) length = add_name(room, length, name->session_id);
  return (moonpad_string){room, length};
}

/* The names as they stand in a key. */
static void point_into(note *noted, const mp_key *key) {
  moonpad_string *names[] = {&noted->ref.name.app_name, &noted->ref.name.user_id, &noted->ref.name.session_id};
  const char *at = key->bytes + 1, *end = key->bytes + key->length;
  for (size_t i = 0; i < 3; i++) {
    *names[i] = moonpad_text(at < end ? at : NULL);
    at += names[i]->length + 1;
  }
}

/* ---- looking and adding ---- */

void mp_renewals_find(mp_renewals *renewals, mp_expiry *expiry) {
  char room[KEY_BYTES];
  mp_mutex_lock(&renewals->mutex);
  for (int scope = 0; renewals->notes.count > 0 && scope < MP_STORED_SCOPES; scope++) {
    if ((expiry->heads & MP_HEAD(scope)) == 0) continue;
    const note *noted = mp_map_get(&renewals->notes, key_of(&expiry->ref.name, (mp_scope)scope, room));
    if (noted != NULL) expiry->noted[scope] = noted->time;
  }
  mp_mutex_unlock(&renewals->mutex);
}

/* NULL: there is no memory or too many are noted. */
static note *make_note(mp_renewals *renewals, moonpad_string text, mp_scope scope) {
  mp_env *env = renewals->service->env;
  void *room;
  if (renewals->notes.count >= MOST_NOTES) return NULL;
  mp_key *key = mp_key_new_with(env, text, mp_hash(text.data, text.length), sizeof(note), &room);
  if (key == NULL) return NULL;
  note *made = room;
  made->scope = scope;
  point_into(made, key);
  bool is_added = mp_map_put(&renewals->notes, key, made);
  mp_key_release(env, key);
  return is_added ? made : NULL;
}

static void add_note(mp_renewals *renewals, const mp_expiry *expiry, mp_scope scope) {
  char room[KEY_BYTES];
  moonpad_string key = key_of(&expiry->ref.name, scope, room);
  note *noted = mp_map_get(&renewals->notes, key);
  if (noted == NULL) noted = make_note(renewals, key, scope);
  if (noted == NULL) return;
  if (noted->time < expiry->now) noted->time = expiry->now;
  noted->touched = expiry->touched[scope];
  noted->ref.session = expiry->ref.session;
  noted->ref.user = expiry->ref.user;
  noted->ref.app = expiry->ref.app;
}

/* In how many seconds it is time to store: at once where little of a life is left. */
static double seconds_left(const mp_renewals *renewals, const mp_expiry *expiry, unsigned heads) {
  double soonest = 1;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((heads & MP_HEAD(scope)) == 0) continue;
    double lives = mp_time_to_live(expiry->service, (mp_scope)scope), delay = mp_renewal_delay(lives);
    if (expiry->now - expiry->touched[scope] > lives * 3 / 4) delay = 0;
    if (delay < soonest) soonest = delay;
  }
  double since = mp_monotonic() - renewals->stored_at;
  return since >= soonest ? 0 : soonest - since;
}

void mp_renewals_add(mp_renewals *renewals, const mp_expiry *expiry, unsigned heads) {
  mp_mutex_lock(&renewals->mutex);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((heads & MP_HEAD(scope)) != 0) add_note(renewals, expiry, (mp_scope)scope);
  }
  double seconds = seconds_left(renewals, expiry, heads);
  bool schedules = !renewals->is_scheduled || seconds == 0;
  renewals->is_scheduled = true;
  mp_mutex_unlock(&renewals->mutex);
  if (schedules) mp_executor_later(&renewals->service->executor, &renewals->task, seconds);
}

/* ---- storing ---- */

typedef struct taken_note {
  note *noted;
  double time;
} taken_note;

typedef struct storing {
  taken_note taken[NOTES_AT_ONCE];
  mp_touch touches[NOTES_AT_ONCE];
  size_t count;
} storing;

static moonpad_status store_in(mp_tx *tx, void *context, moonpad_error *error) {
  const storing *store = context;
  if (!MP_HAS(mp_tx_ops, tx->ops, touch)) return MOONPAD_OK;
  return tx->ops->touch(tx, store->touches, store->count, error);
}

/* Only whoever stores removes notes, so these stay. */
static void take_some(mp_renewals *renewals, storing *store) {
  size_t position = 0;
  store->count = 0;
  mp_mutex_lock(&renewals->mutex);
  const mp_map_slot *slot;
  while (store->count < NOTES_AT_ONCE && (slot = mp_map_next(&renewals->notes, &position)) != NULL) {
    note *noted = slot->value;
    store->taken[store->count] = (taken_note){noted, noted->time};
    store->touches[store->count++] = (mp_touch){.ref = noted->ref, .heads = MP_HEAD(noted->scope), .time = noted->time};
  }
  mp_mutex_unlock(&renewals->mutex);
}

/* Those that have been used again meanwhile stay noted. */
static void forget_stored(mp_renewals *renewals, const storing *store) {
  char room[KEY_BYTES];
  mp_mutex_lock(&renewals->mutex);
  for (size_t i = 0; i < store->count; i++) {
    const note *noted = store->taken[i].noted;
    if (noted->time == store->taken[i].time) {
      (void)mp_map_remove(&renewals->notes, key_of(&noted->ref.name, noted->scope, room));
    }
  }
  renewals->stored_at = mp_monotonic();
  mp_mutex_unlock(&renewals->mutex);
}

moonpad_status mp_renewals_store(mp_renewals *renewals, moonpad_error *error) {
  mp_store *store = renewals->service->store;
  storing some;
  moonpad_status status = MOONPAD_OK;
  mp_mutex_lock(&renewals->storing);
  /* So many times at most: notes may be added all the while. */
  for (size_t left = MOST_NOTES / NOTES_AT_ONCE; status == MOONPAD_OK && left > 0; left--) {
    take_some(renewals, &some);
    if (some.count == 0) break;
    status = store->ops->write(store, store_in, &some, error);
    if (status == MOONPAD_OK) forget_stored(renewals, &some);
    if (some.count < NOTES_AT_ONCE) break;
  }
  mp_mutex_unlock(&renewals->storing);
  return status;
}

static bool has_notes(mp_renewals *renewals) {
  mp_mutex_lock(&renewals->mutex);
  bool has_some = renewals->notes.count > 0;
  mp_mutex_unlock(&renewals->mutex);
  return has_some;
}

static bool hides(mp_renewals *renewals, double now) {
  size_t position = 0;
  bool found = false;
  mp_mutex_lock(&renewals->mutex);
  for (const mp_map_slot *slot; !found && (slot = mp_map_next(&renewals->notes, &position)) != NULL;) {
    const note *noted = slot->value;
    found = mp_has_expired(noted->touched, now, mp_time_to_live(renewals->service, noted->scope));
  }
  mp_mutex_unlock(&renewals->mutex);
  return found;
}

void mp_renewals_store_hidden(moonpad_service *service) {
  double now;
  if (!has_notes(&service->renewals)) return;
  bool is_late = mp_now(service->env, &now, NULL) == MOONPAD_OK && hides(&service->renewals, now);
  if (is_late) (void)mp_renewals_store(&service->renewals, NULL);
}

/* ---- the task ---- */

static void run_task(mp_task *task) {
  mp_renewals *renewals = (mp_renewals *)task;
  moonpad_error error;
  moonpad_status status = mp_renewals_store(renewals, &error);
  if (status != MOONPAD_OK) mp_log(renewals->service->env, status, error.message);
  mp_mutex_lock(&renewals->mutex);
  bool again = renewals->notes.count > 0;
  renewals->is_scheduled = again;
  mp_mutex_unlock(&renewals->mutex);
  if (again) mp_executor_later(&renewals->service->executor, task, 1);
}

/* ---- its life ---- */

bool mp_renewals_init(mp_renewals *renewals, moonpad_service *service) {
  memset(renewals, 0, sizeof *renewals);
  renewals->task.run = run_task;
  renewals->task.writes = true;
  renewals->service = service;
  mp_map_init(&renewals->notes, service->env);
  if (!mp_mutex_init(&renewals->mutex)) return false;
  if (mp_mutex_init(&renewals->storing)) return true;
  mp_mutex_destroy(&renewals->mutex);
  return false;
}

void mp_renewals_destroy(mp_renewals *renewals) {
  mp_map_free(&renewals->notes);
  mp_mutex_destroy(&renewals->storing);
  mp_mutex_destroy(&renewals->mutex);
}
