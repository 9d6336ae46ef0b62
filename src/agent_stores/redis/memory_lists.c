/* Memories on Redis: all of them, for tools. */
#include <stdlib.h>
#include <string.h>

#include "agent_stores/redis/stores.h"
#include "base/error.h"
#include "base/number.h"

typedef struct memories_listing {
  mp_store *store;
  mp_memories_session session; /* the one to go on behind, or whose entries are listed */
  int64_t after;               /* a revision */
  int64_t left;                /* how many more at most */
  mp_buffer *found;
} memories_listing;

static mp_redis_agent_call call_of(memories_listing *listing) {
  return (mp_redis_agent_call){
      .app_name = listing->session.app_name, .user_id = listing->session.user_id, .context = listing};
}

static void add_session(mp_redis_arguments *out, const mp_memories_session *session) {
  mp_redis_add_memory_session(out, session->session_id, session->create_time);
}

/* ---- sessions ---- */

static void add_after(mp_redis_arguments *out, void *context) {
  const memories_listing *listing = context;
  add_session(out, &listing->session);
  mp_redis_add_integer(out, listing->left);
}

/* "WATERMARK TIME". False: it is not what was written. */
static bool read_info(moonpad_string info, int64_t *revision, double *create_time) {
  const char *blank = info.data == NULL ? NULL : memchr(info.data, ' ', info.length);
  if (blank == NULL) return false;
  *revision = strtoll(info.data, NULL, 10);
  return mp_parse_float(blank + 1, (size_t)(info.data + info.length - blank) - 1, create_time);
}

/* Of each: user, session, and what is known of it. */
static moonpad_status take_sessions(mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                                    moonpad_error *error) {
  enum { USER, SESSION, INFO, ITEMS };
  memories_listing *listing = call->context;
  const redisReply *rows = mp_redis_item(reply, MP_REDIS_ANSWER);
  for (size_t at = 0; at + ITEMS <= mp_redis_count(rows); at += ITEMS) {
    int64_t revision;
    double create_time;
    const moonpad_string names[] = {call->app_name, mp_redis_string(mp_redis_item(rows, at + USER)),
                                    mp_redis_string(mp_redis_item(rows, at + SESSION))};
    if (!read_info(mp_redis_string(mp_redis_item(rows, at + INFO)), &revision, &create_time)) {
      return mp_redis_corrupt(connection, "a session of memories lacks its time", error);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
      mp_buffer_add_string(listing->found, names[i]);
      mp_buffer_add_char(listing->found, '\0');
    }
    mp_buffer_add(listing->found, (const char *)&create_time, sizeof create_time);
    mp_buffer_add(listing->found, (const char *)&revision, sizeof revision);
  }
  listing->left -= (int64_t)(mp_redis_count(rows) / ITEMS);
  return listing->found->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status list_sessions(memories_listing *listing, moonpad_error *error) {
  mp_redis_agent_call call = call_of(listing);
  call.question = "?sessions";
  call.add = add_after;
  call.take = take_sessions;
  return mp_redis_agent_ask(listing->store, &call, error);
}

static moonpad_status list_sessions_of_app(void *context, moonpad_string app_name, moonpad_error *error) {
  memories_listing *listing = context;
  if (listing->left <= 0) return MP_STOP;
  listing->session = (mp_memories_session){.app_name = app_name};
  return list_sessions(listing, error);
}

/* The apps are looked for only when that of `after` has no more. */
moonpad_status mp_redis_memories_sessions(mp_memories *memories, const mp_memories_session *after, int64_t limit,
                                          mp_buffer *sessions, moonpad_error *error) {
  mp_store *store = mp_redis_store_of(memories);
  memories_listing listing = {.store = store, .session = *after, .left = limit, .found = sessions};
  moonpad_status status = mp_remote_check_open(store, error);
  mp_buffer_clear(sessions);
  if (status == MOONPAD_OK && after->app_name.length > 0) status = list_sessions(&listing, error);
  if (status != MOONPAD_OK || listing.left <= 0) return status;
  return mp_redis_agent_each_app(store, after->app_name, list_sessions_of_app, &listing, error);
}

/* ---- the entries of one ---- */

static void add_place(mp_redis_arguments *out, void *context) {
  const memories_listing *listing = context;
  add_session(out, &listing->session);
  mp_redis_add_integer(out, listing->after);
  mp_redis_add_integer(out, listing->left);
}

static moonpad_status take_entries(mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                                   moonpad_error *error) {
  enum { REVISION, TIMESTAMP, AUTHOR, CONTENT, ITEMS };
  const memories_listing *listing = call->context;
  const redisReply *rows = mp_redis_item(reply, MP_REDIS_ANSWER);
  (void)connection;
  mp_buffer_clear(listing->found);
  for (size_t at = 0; at + ITEMS <= mp_redis_count(rows); at += ITEMS) {
    mp_memories_entry entry = {.revision = mp_redis_integer(mp_redis_item(rows, at + REVISION)),
                               .timestamp = mp_redis_time(mp_redis_item(rows, at + TIMESTAMP)),
                               .author = mp_redis_string(mp_redis_item(rows, at + AUTHOR)),
                               .content = mp_redis_string(mp_redis_item(rows, at + CONTENT))};
    mp_memories_add_entry(listing->found, &entry);
  }
  return listing->found->failed ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status mp_redis_memories_entries(mp_memories *memories, const mp_memories_session *session, int64_t after,
                                         int64_t limit, mp_buffer *entries, moonpad_error *error) {
  memories_listing listing = {mp_redis_store_of(memories), *session, after, limit, entries};
  mp_redis_agent_call call = call_of(&listing);
  call.question = "?entries";
  call.add = add_place;
  call.take = take_entries;
  return mp_redis_agent_ask(listing.store, &call, error);
}
