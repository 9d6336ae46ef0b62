/* Answers the whole questions of store.h with the small functions of a store. */
#include "store/parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/env.h"
#include "base/error.h"

static const mp_parts *parts_of(mp_tx *tx) {
  return ((mp_parts_tx *)tx)->parts;
}

/* ---- look ---- */

/* An app, and unless `user` is NULL, one of its users. */
static moonpad_status find_shared(mp_tx *tx, const moonpad_session_name *name, bool create, mp_head *app, mp_head *user,
                                  moonpad_error *error) {
  const mp_parts *parts = parts_of(tx);
  moonpad_status status = parts->find_shared(tx, MP_SCOPE_APP, 0, name->app_name, create, app, error);
  if (status != MOONPAD_OK || user == NULL) return status;
  return parts->find_shared(tx, MP_SCOPE_USER, app->id, name->user_id, create, user, error);
}

static moonpad_status find_heads(mp_tx *tx, const mp_look *look, mp_facts *facts, moonpad_error *error) {
  if (look->heads == MP_ALL_HEADS) return parts_of(tx)->find_session(tx, &look->ref, facts, error);
  bool is_user = look->heads == MP_HEAD(MP_SCOPE_USER);
  mp_scope scope = is_user ? MP_SCOPE_USER : MP_SCOPE_APP;
  mp_head app, user, *head = is_user ? &user : &app;
  moonpad_status status = find_shared(tx, &look->ref.name, look->create, &app, is_user ? &user : NULL, error);
  if (status != MOONPAD_OK) return status;
  *(is_user ? &facts->row.user : &facts->row.app) = head->id;
  *(is_user ? &facts->row.user_revision : &facts->row.app_revision) = head->revision;
  facts->forgotten[scope] = head->forgotten;
  facts->touched[scope] = head->touched;
  return MOONPAD_OK;
}

static mp_owner owner_of(const mp_session_row *row, mp_scope scope) {
  return (mp_owner){.id = mp_row_id(row, scope), .scope = scope};
}

static moonpad_status walk_keys(mp_tx *tx, const mp_look *look, mp_facts *facts, moonpad_error *error) {
  static const mp_scope order[] = {MP_SCOPE_APP, MP_SCOPE_USER, MP_SCOPE_SESSION};
  const mp_session_row *row = &facts->row;
  const int64_t revisions[] = {row->revision, row->user_revision, row->app_revision};
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    mp_scope scope = order[i];
    int64_t since = look->since[scope];
    if ((look->heads & MP_HEAD(scope)) == 0 || since >= revisions[scope]) continue;
    facts->whole[scope] = since < facts->forgotten[scope];
    if (facts->whole[scope]) since = MP_EVERY_KEY;
    moonpad_status status =
        parts_of(tx)->each_key(tx, owner_of(row, scope), since, look->each_state, look->context, error);
    if (status != MOONPAD_OK) return mp_walk_end(status);
  }
  return MOONPAD_OK;
}

static moonpad_status read_keys(mp_tx *tx, const mp_look *look, const mp_facts *facts, moonpad_error *error) {
  for (size_t i = 0; i < look->key_count; i++) {
    mp_state_row *wanted = &look->keys[i];
    moonpad_status status = parts_of(tx)->read_key(tx, mp_row_id(&facts->row, wanted->scope), wanted, error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

static void release_keys(mp_env *env, mp_look *look) {
  for (size_t i = 0; i < look->key_count; i++) {
    mp_value_release(env, look->keys[i].value);
    look->keys[i].value = NULL;
  }
}

static moonpad_status find_events(mp_tx *tx, const mp_look *look, const mp_session_row *row, moonpad_error *error) {
  const mp_parts *parts = parts_of(tx);
  mp_event_query by_id = {.first = 0, .last = MP_MAX_REVISION, .id = look->event_id};
  mp_event_query recent = {.first = row->revision - look->recent + 1, .last = row->revision};
  moonpad_status status = MOONPAD_OK;
  if (look->event_id.data != NULL) {
    status = parts->each_event(tx, row->id, &by_id, look->each_event, look->context, error);
  }
  if (status == MOONPAD_OK && look->recent > 0) {
    status = parts->each_event(tx, row->id, &recent, look->each_event, look->context, error);
  }
  return mp_walk_end(status);
}

moonpad_status mp_parts_look(mp_tx *tx, mp_look *look, mp_facts *facts, moonpad_error *error) {
  memset(facts, 0, sizeof *facts);
  for (size_t i = 0; i < look->key_count; i++) {
    look->keys[i].value = NULL;
    look->keys[i].revision = 0;
  }
  moonpad_status status = find_heads(tx, look, facts, error);
  if (status == MOONPAD_OK) status = walk_keys(tx, look, facts, error);
  if (status == MOONPAD_OK) status = read_keys(tx, look, facts, error);
  if (status == MOONPAD_OK) status = find_events(tx, look, &facts->row, error);
  if (status != MOONPAD_OK) release_keys(((mp_parts_tx *)tx)->env, look);
  return status;
}

/* ---- lists ---- */

typedef struct seen_users {
  mp_env *env;
  int64_t *ids; /* a hash table, at most half full; 0: an empty slot */
  size_t capacity;
  size_t count;
} seen_users;

typedef struct listed_states {
  mp_tx *tx;
  const mp_listing *listing;
  seen_users users;
  bool app_emitted;
} listed_states;

static int64_t *user_slot(const seen_users *users, int64_t id) {
  size_t mask = users->capacity - 1;
  size_t at = (size_t)((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
  while (users->ids[at] != 0 && users->ids[at] != id) at = (at + 1) & mask;
  return &users->ids[at];
}

static bool grow_users(seen_users *users) {
  if (users->count < users->capacity / 2) return true;
  seen_users larger = *users;
  larger.capacity = users->capacity == 0 ? 16 : users->capacity * 2;
  larger.ids = mp_allocate_zeroed(users->env, larger.capacity * sizeof *larger.ids);
  if (larger.ids == NULL) return false;
  for (size_t i = 0; i < users->capacity; i++) {
    if (users->ids[i] != 0) *user_slot(&larger, users->ids[i]) = users->ids[i];
  }
  mp_release(users->env, users->ids);
  *users = larger;
  return true;
}

/* Adds a user to those seen. *is_new: it was not among them. */
static moonpad_status see_user(seen_users *users, int64_t id, bool *is_new, moonpad_error *error) {
  if (!grow_users(users)) return mp_no_memory(error);
  int64_t *slot = user_slot(users, id);
  *is_new = *slot == 0;
  if (*is_new) users->count++;
  *slot = id;
  return MOONPAD_OK;
}

static moonpad_status emit_keys(const listed_states *states, const mp_session_row *row, mp_scope scope,
                                moonpad_error *error) {
  const mp_listing *listing = states->listing;
  if (listing->state == NULL) return MOONPAD_OK;
  return parts_of(states->tx)
      ->each_key(states->tx, owner_of(row, scope), MP_EVERY_KEY, listing->state, listing->context, error);
}

static moonpad_status emit_listed(void *context, const mp_listed_session *listed, moonpad_error *error) {
  listed_states *states = context;
  const mp_listing *listing = states->listing;
  bool is_new = false;
  moonpad_status status = MOONPAD_OK;
  if (!states->app_emitted) status = emit_keys(states, &listed->row, MP_SCOPE_APP, error);
  states->app_emitted = true;
  if (status == MOONPAD_OK) status = see_user(&states->users, listed->row.user, &is_new, error);
  if (status == MOONPAD_OK && is_new) status = emit_keys(states, &listed->row, MP_SCOPE_USER, error);
  if (status == MOONPAD_OK) status = listing->session(listing->context, listed, error);
  return status == MOONPAD_OK ? emit_keys(states, &listed->row, MP_SCOPE_SESSION, error) : status;
}

moonpad_status mp_parts_each_listed(mp_tx *tx, const mp_list_query *query, const mp_listing *listing,
                                    moonpad_error *error) {
  mp_env *env = ((mp_parts_tx *)tx)->env;
  listed_states states = {tx, listing, {env, NULL, 0, 0}, false};
  moonpad_status status = parts_of(tx)->each_session(tx, query, emit_listed, &states, error);
  mp_release(env, states.users.ids);
  return mp_walk_end(status);
}

static int compare_listed(const void *a, const void *b) {
  const mp_listed_session *one = a, *other = b;
  double time = one->row.last_update_time, other_time = other->row.last_update_time;
  if (time != other_time) return time < other_time ? -1 : 1;
  int order = mp_text_compare(one->user_id, other->user_id);
  return order != 0 ? order : mp_text_compare(one->session_id, other->session_id);
}

static bool is_listed(const mp_listed_session *listed, const mp_list_query *query) {
  double touched = listed->touched[MP_SCOPE_SESSION];
  double used = touched != 0 ? touched : listed->row.last_update_time;
  if (query->touched_since != 0 && used < query->touched_since) return false;
  if (query->has_user_id && mp_text_compare(listed->user_id, query->user_id) != 0) return false;
  if (!query->has_after) return true;
  mp_listed_session after = {.user_id = query->after_user_id, .session_id = query->after_session_id};
  after.row.last_update_time = query->after_time;
  int order = compare_listed(listed, &after);
  return query->newest_first ? order < 0 : order > 0;
}

void mp_sorting_add(mp_sorting *sorting, const mp_listed_session *listed) {
  if (sorting->failed || !is_listed(listed, sorting->query)) return;
  void *sessions = sorting->sessions;
  sorting->failed =
      !mp_reserve(sorting->env, &sessions, &sorting->capacity, sizeof *sorting->sessions, sorting->count + 1);
  sorting->sessions = sessions;
  if (!sorting->failed) sorting->sessions[sorting->count++] = *listed;
}

moonpad_status mp_sorting_emit(mp_sorting *sorting, mp_each_session each, void *context, moonpad_error *error) {
  const mp_list_query *query = sorting->query;
  size_t count = sorting->count, emitted = count;
  moonpad_status status = sorting->failed ? mp_no_memory(error) : MOONPAD_OK;
  if (count > 1) qsort(sorting->sessions, count, sizeof *sorting->sessions, compare_listed);
  if (query->limit > 0 && (uint64_t)query->limit < count) emitted = (size_t)query->limit;
  for (size_t i = 0; status == MOONPAD_OK && i < emitted; i++) {
    status = each(context, &sorting->sessions[query->newest_first ? count - 1 - i : i], error);
  }
  mp_release(sorting->env, sorting->sessions);
  return status;
}

/* ---- making and removing ---- */

moonpad_status mp_parts_create_session(mp_tx *tx, const moonpad_session_name *name, double create_time,
                                       mp_session_row *row, moonpad_error *error) {
  mp_head app, user;
  moonpad_status status = find_shared(tx, name, true, &app, &user, error);
  if (status != MOONPAD_OK) return status;
  *row = (mp_session_row){.user = user.id,
                          .app = app.id,
                          .user_revision = user.revision,
                          .app_revision = app.revision,
                          .create_time = create_time,
                          .last_update_time = create_time};
  return parts_of(tx)->insert_session(tx, name->session_id, row, error);
}

moonpad_status mp_parts_remove_session(mp_tx *tx, const mp_session_ref *session, moonpad_error *error) {
  return parts_of(tx)->remove(tx, MP_SCOPE_SESSION, session->session, error);
}

typedef struct session_ids {
  mp_env *env;
  int64_t *ids;
  size_t capacity;
  size_t count;
} session_ids;

static moonpad_status note_session(void *context, const mp_listed_session *listed, moonpad_error *error) {
  session_ids *found = context;
  void *ids = found->ids;
  if (!mp_reserve(found->env, &ids, &found->capacity, sizeof *found->ids, found->count + 1)) return mp_no_memory(error);
  found->ids = ids;
  found->ids[found->count++] = listed->row.id;
  return MOONPAD_OK;
}

moonpad_status mp_parts_remove_user(mp_tx *tx, const mp_session_ref *user, int64_t *sessions, moonpad_error *error) {
  const mp_parts *parts = parts_of(tx);
  mp_head app, head;
  session_ids found = {.env = ((mp_parts_tx *)tx)->env};
  mp_list_query query = {.app_name = user->name.app_name, .has_user_id = true, .user_id = user->name.user_id};
  *sessions = 0;
  moonpad_status status = find_shared(tx, &user->name, false, &app, &head, error);
  if (status == MOONPAD_OK) status = parts->each_session(tx, &query, note_session, &found, error);
  for (size_t i = 0; status == MOONPAD_OK && i < found.count; i++) {
    status = parts->remove(tx, MP_SCOPE_SESSION, found.ids[i], error);
  }
  mp_release(found.env, found.ids);
  if (status == MOONPAD_OK) *sessions = (int64_t)found.count;
  return status == MOONPAD_OK ? parts->remove(tx, MP_SCOPE_USER, head.id, error) : status;
}

/* ---- histories ---- */

static mp_owner base_of(int64_t session) {
  return (mp_owner){.id = session, .scope = MP_SCOPE_SESSION, .is_base = true};
}

moonpad_status mp_parts_each_base_key(mp_tx *tx, const mp_session_ref *session, mp_each_state each, void *context,
                                      moonpad_error *error) {
  return mp_walk_end(parts_of(tx)->each_key(tx, base_of(session->session), MP_EVERY_KEY, each, context, error));
}

typedef struct invocation_search {
  moonpad_string invocation;
  int64_t revision;
} invocation_search;

static moonpad_status match_invocation(void *context, const mp_event_row *row, moonpad_error *error) {
  invocation_search *search = context;
  (void)error;
  if (row->invocation.length == 0 || mp_text_compare(row->invocation, search->invocation) != 0) return MOONPAD_OK;
  search->revision = row->revision;
  return MP_STOP;
}

moonpad_status mp_parts_each_event(mp_tx *tx, const mp_session_ref *session, const mp_event_query *query,
                                   mp_each_event each, void *context, moonpad_error *error) {
  return mp_walk_end(parts_of(tx)->each_event(tx, session->session, query, each, context, error));
}

moonpad_status mp_parts_find_invocation(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                        int64_t *revision, moonpad_error *error) {
  invocation_search search = {invocation, 0};
  mp_event_query query = {.first = 0, .last = MP_MAX_REVISION, .without_json = true, .tags = true};
  moonpad_status status = tx->ops->each_event(tx, session, &query, match_invocation, &search, error);
  *revision = search.revision;
  return status == MOONPAD_OK && search.revision == 0 ? MOONPAD_NOT_FOUND : status;
}

typedef struct copying {
  mp_tx *tx;
  int64_t to;
} copying;

static moonpad_status copy_event(void *context, const mp_event_row *row, moonpad_error *error) {
  const copying *copy = context;
  return parts_of(copy->tx)->append_event(copy->tx, copy->to, row, error);
}

static moonpad_status copy_base_key(void *context, const mp_state_row *row, moonpad_error *error) {
  const copying *copy = context;
  mp_state_row write = {.key = row->key, .value = row->value};
  return parts_of(copy->tx)->write_key(copy->tx, base_of(copy->to), &write, error);
}

moonpad_status mp_parts_copy_history(mp_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                     moonpad_error *error) {
  copying copy = {tx, to->session};
  mp_event_query query = {.first = 0, .last = last, .tags = true};
  moonpad_status status = tx->ops->each_base_key(tx, from, copy_base_key, &copy, error);
  return status == MOONPAD_OK ? tx->ops->each_event(tx, from, &query, copy_event, &copy, error) : status;
}

/* ---- apply ---- */

static moonpad_status append_event(mp_tx *tx, int64_t session, const mp_event_row *event, moonpad_error *error) {
  if (event->revision > MP_MAX_REVISION) {
    return mp_fail(error, MOONPAD_LIMIT, "revision %" PRId64 ": a session counts no further than %" PRId64,
                   event->revision, MP_MAX_REVISION);
  }
  return parts_of(tx)->append_event(tx, session, event, error);
}

moonpad_status mp_parts_apply(mp_tx *tx, const mp_batch *batch, moonpad_error *error) {
  const mp_parts *parts = parts_of(tx);
  const mp_session_row *row = batch->row;
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < batch->key_count; i++) {
    status = parts->write_key(tx, owner_of(row, batch->keys[i].scope), &batch->keys[i], error);
  }
  for (size_t i = 0; status == MOONPAD_OK && i < batch->base_key_count; i++) {
    status = parts->write_key(tx, base_of(row->id), &batch->base_keys[i], error);
  }
  for (size_t i = 0; status == MOONPAD_OK && i < batch->event_count; i++) {
    status = append_event(tx, row->id, &batch->events[i], error);
  }
  return status == MOONPAD_OK ? parts->update_heads(tx, batch, error) : status;
}

const mp_tx_ops mp_parts_ops = {.size = sizeof mp_parts_ops,
                                .look = mp_parts_look,
                                .each_listed = mp_parts_each_listed,
                                .each_event = mp_parts_each_event,
                                .find_invocation = mp_parts_find_invocation,
                                .each_base_key = mp_parts_each_base_key,
                                .create_session = mp_parts_create_session,
                                .remove_session = mp_parts_remove_session,
                                .remove_user = mp_parts_remove_user,
                                .apply = mp_parts_apply,
                                .copy_history = mp_parts_copy_history};
