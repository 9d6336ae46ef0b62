/* How many sessions a user may have. */
#include "service/session/quota.h"

#include "base/error.h"

typedef struct counting {
  const mp_quota *quota;
  mp_env *env;
  int64_t count;
  /* How many are noted, of the oldest ones but the new one. */
  int64_t wanted;
  mp_session_ref *oldest; /* by id, and with the names below */
  size_t noted;
  mp_buffer names;
} counting;

moonpad_status mp_quota_begin(mp_quota *quota, moonpad_service *service, const moonpad_session_name *name,
                              moonpad_error *error) {
  moonpad_status status = mp_expiry_threshold(service, &quota->touched_since, error);
  if (status != MOONPAD_OK) return status;
  return mp_expiry_begin(&quota->expiry, service, &(mp_session_ref){.name = *name}, MP_ALL_HEADS, error);
}

static moonpad_status list(counting *count, mp_tx *tx, mp_each_session each, moonpad_error *error) {
  const moonpad_session_name *name = &count->quota->expiry.ref.name;
  mp_list_query query = {.app_name = name->app_name,
                         .has_user_id = true,
                         .user_id = name->user_id,
                         .touched_since = count->quota->touched_since};
  mp_listing listing = {each, NULL, count};
  return tx->ops->each_listed(tx, &query, &listing, error);
}

static moonpad_status count_one(void *context, const mp_listed_session *listed, moonpad_error *error) {
  (void)listed, (void)error;
  ((counting *)context)->count++;
  return MOONPAD_OK;
}

static moonpad_status note_oldest(void *context, const mp_listed_session *listed, moonpad_error *error) {
  counting *count = context;
  if (listed->row.id == count->quota->expiry.ref.session) return MOONPAD_OK;
  if (count->noted == (size_t)count->wanted) return MP_STOP;
  mp_buffer_add_string(&count->names, listed->session_id);
  if (count->names.failed) return mp_no_memory(error);
  count->oldest[count->noted++] = (mp_session_ref){.name = {.session_id = {NULL, listed->session_id.length}},
                                                   .session = listed->row.id,
                                                   .user = listed->row.user,
                                                   .app = listed->row.app};
  return MOONPAD_OK;
}

static moonpad_status remove_oldest(const counting *count, mp_tx *tx, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  size_t at = 0;
  for (size_t i = 0; status == MOONPAD_OK && i < count->noted; i++) {
    mp_session_ref ref = count->oldest[i];
    size_t length = ref.name.session_id.length;
    ref.name = count->quota->expiry.ref.name;
    ref.name.session_id = (moonpad_string){count->names.data + at, length};
    at += length;
    status = tx->ops->remove_session(tx, &ref, error);
  }
  return status;
}

static moonpad_status delete_oldest(counting *count, mp_tx *tx, moonpad_error *error) {
  mp_buffer_init(&count->names, count->env);
  count->oldest = mp_allocate(count->env, (size_t)count->wanted * sizeof *count->oldest);
  moonpad_status status = count->oldest == NULL ? mp_no_memory(error) : list(count, tx, note_oldest, error);
  if (status == MOONPAD_OK) status = remove_oldest(count, tx, error);
  mp_release(count->env, count->oldest);
  mp_buffer_free(&count->names);
  return status;
}

moonpad_status mp_quota_apply(const mp_quota *quota, mp_tx *tx, moonpad_error *error) {
  const moonpad_service *service = quota->expiry.service;
  int64_t limit = service->options.max_sessions_per_user;
  if (limit == 0) return MOONPAD_OK;
  counting count = {.quota = quota, .env = service->env};
  moonpad_status status = list(&count, tx, count_one, error);
  if (status != MOONPAD_OK || count.count <= limit) return status;
  count.wanted = count.count - limit;
  if (service->options.on_max_sessions == MOONPAD_ON_MAX_SESSIONS_DELETE_OLDEST) {
    return delete_oldest(&count, tx, error);
  }
  const moonpad_session_name *name = &quota->expiry.ref.name;
  return mp_fail(error, MOONPAD_LIMIT, "user %s of app %s has %lld sessions already, and maxSessionsPerUser is %lld",
                 mp_quote(name->user_id).text, mp_quote(name->app_name).text, (long long)(count.count - 1),
                 (long long)limit);
}
