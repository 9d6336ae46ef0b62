/* What whoever stores them knows of one session object's asynchronous appends. */
#include "service/lane.h"

#include "base/error.h"

/* One write of a key. The newest that counts is the last with this key. */
typedef struct lane_write {
  mp_key *key;
  int64_t revision;
} lane_write;

struct mp_lane {
  atomic_uint references;
  mp_env *env;
  lane_write *writes; /* `kept` of them are committed, one per key; the rest belong to the transaction under way */
  size_t count;
  size_t kept;
  size_t capacity;
  moonpad_error failure; /* of the first append that failed */
  bool failure_kept;     /* else it belongs to the transaction under way */
};

mp_lane *mp_lane_new(mp_env *env) {
  mp_lane *lane = mp_allocate_zeroed(env, sizeof *lane);
  if (lane == NULL) return NULL;
  atomic_init(&lane->references, 1);
  lane->env = mp_env_retain(env);
  return lane;
}

mp_lane *mp_lane_retain(mp_lane *lane) {
  atomic_fetch_add_explicit(&lane->references, 1, memory_order_relaxed);
  return lane;
}

void mp_lane_release(mp_lane *lane) {
  if (lane == NULL || atomic_fetch_sub_explicit(&lane->references, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < lane->count; i++) mp_key_release(lane->env, lane->writes[i].key);
  mp_env *env = lane->env;
  mp_release(env, lane->writes);
  mp_release(env, lane);
  mp_env_release(env);
}

static bool same_key(const mp_key *a, const mp_key *b) {
  return a == b || (a->hash == b->hash && a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0);
}

bool mp_lane_wrote(const mp_lane *lane, const mp_key *key, int64_t revision) {
  if (lane == NULL) return false;
  for (size_t i = lane->count; i > 0; i--) {
    if (same_key(lane->writes[i - 1].key, key)) return lane->writes[i - 1].revision == revision;
  }
  return false;
}

void mp_lane_rewind(mp_lane *lane) {
  if (!lane->failure_kept) lane->failure.code = MOONPAD_OK;
  while (lane->count > lane->kept) mp_key_release(lane->env, lane->writes[--lane->count].key);
}

void mp_lane_keep(mp_lane *lane) {
  for (size_t i = lane->kept; i < lane->count; i++) {
    lane_write write = lane->writes[i];
    size_t at = 0;
    while (at < lane->kept && !same_key(lane->writes[at].key, write.key)) at++;
    if (at < lane->kept) {
      lane->writes[at].revision = write.revision;
      mp_key_release(lane->env, write.key);
    } else {
      lane->writes[lane->kept++] = write;
    }
  }
  lane->count = lane->kept;
  lane->failure_kept = lane->failure.code != MOONPAD_OK;
}

/* A key that somebody else had changed unseen stays theirs: an own write on top must not hide that. */
static bool counts_as_own(const mp_lane *lane, const mp_operation *operation) {
  int64_t before = operation->previous_revision;
  return before <= operation->base || mp_lane_wrote(lane, operation->key, before);
}

moonpad_status mp_lane_note(mp_lane *lane, const mp_append *append, moonpad_error *error) {
  if (!mp_reserve(lane->env, (void **)&lane->writes, &lane->capacity, sizeof *lane->writes,
                  lane->count + append->stored_count)) {
    return mp_no_memory(error);
  }
  for (size_t i = 0; i < append->stored_count; i++) {
    const mp_operation *operation = &append->operations[i];
    if (!counts_as_own(lane, operation)) continue;
    lane_write write = {mp_key_retain(operation->key), mp_row_revision(&append->row, operation->scope)};
    lane->writes[lane->count++] = write;
  }
  return MOONPAD_OK;
}

void mp_lane_fail(mp_lane *lane, const moonpad_error *error) {
  if (lane->failure.code == MOONPAD_OK) lane->failure = *error;
}

moonpad_status mp_lane_failure(const mp_lane *lane, moonpad_error *error) {
  if (lane->failure.code == MOONPAD_OK) return MOONPAD_OK;
  return mp_fail(error, lane->failure.code, "an earlier append of this session object failed: %s",
                 lane->failure.message);
}
