/*
** For tests of the stores of artifacts and memories (src/agent_stores): opening both on a URL, and
** short forms of their calls. These tests are called test_agent_*.c, which are linked with the
** stores. To add
**   a test: in test_agent_stores.c, TEST(test_x) runs it on every URL that they are served by. Both
**           stores are open as self->scene; when it ends, all that they allocated must be free.
**   a call: a function that makes it once, and its row in calls[] of test_agent_faults.c. It is
**           made with each allocation of moonpad and of SQLite and each operation of the disk
**           failing, and must do all of its work or nothing.
*/
#ifndef AGENT_SCENE_H
#define AGENT_SCENE_H

#include <stdio.h>

#include "agent_stores/open.h"
#include "counting_allocator.h"
#include "redis_support.h"
#include "server_support.h"
#include "sqlite_support.h"
#include "timeout.h"

typedef struct agent_scene {
  mp_env *env;
  mp_artifacts *artifacts;
  mp_memories *memories;
} agent_scene;

/* ---- Opening ---- */

/* The variable that tells where the URL's server is; NULL: it is on none. */
static inline const char *server_of(const char *url) {
  return strncmp(url, "postgresql:", 11) == 0 ? "MOONPAD_TEST_POSTGRESQL"
         : strncmp(url, "mysql:", 6) == 0     ? "MOONPAD_TEST_MYSQL"
         : strncmp(url, "redis:", 6) == 0     ? "MOONPAD_TEST_REDIS"
                                              : NULL;
}

/* As redis_opener (redis_support.h). */
static inline const mp_agent_opener *redis_agent_opener(void) {
  return redis_opener() == moonpad_redis_store() ? &mp_redis_agent_stores : &mp_redis_cluster_agent_stores;
}

static inline const mp_agent_opener *opener_of(const char *url) {
  if (server_of(url) == NULL) return NULL;
  return url[0] == 'm' ? &mp_mysql_agent_stores : url[0] == 'r' ? redis_agent_opener() : &mp_postgres_agent_stores;
}

/* Either store may be left NULL where this fails. `env` is counted by the scene. */
static moonpad_status scene_try(agent_scene *scene, mp_env *env, const char *url, moonpad_error *error) {
  const mp_agent_opener *opener = opener_of(url);
  moonpad_options options;
  moonpad_options_init(&options);
  options.durability = MOONPAD_DURABILITY_FULL;
  options.busy_timeout_ms = opener == NULL ? 5 : TIMEOUT_MS;
  *scene = (agent_scene){mp_env_retain(env), NULL, NULL};
  moonpad_status status = mp_artifacts_open(env, moonpad_text(url), opener, &options, &scene->artifacts, error);
  if (status == MOONPAD_OK) {
    status = mp_memories_open(env, moonpad_text(url), opener, &options, &scene->memories, error);
  }
  return status;
}

static inline void scene_open(agent_scene *scene, mp_env *env, const char *url) {
  moonpad_error error = {MOONPAD_OK, ""};
  if (scene_try(scene, env, url, &error) != MOONPAD_OK) fail_msg("%s: %s", url, error.message);
}

static void scene_close(agent_scene *scene) {
  if (scene->artifacts != NULL) scene->artifacts->ops->free(scene->artifacts);
  if (scene->memories != NULL) scene->memories->ops->free(scene->memories);
  mp_env_release(scene->env);
}

/* ---- Time ---- */

static const mp_agent_time for_ever = {1.5, 0};

/* ---- Artifacts ---- */

static inline mp_artifact_name file_named(const char *session, const char *filename) {
  return (mp_artifact_name){moonpad_text("app"), moonpad_text("ann"), moonpad_text(session), moonpad_text(filename)};
}

static inline moonpad_status save_text(const agent_scene *scene, const char *session, const char *filename,
                                       const char *text, int64_t *version, moonpad_error *error) {
  mp_artifact_name name = file_named(session, filename);
  mp_artifact artifact = {true, {NULL, 0}, {NULL, 0}, false, moonpad_text(text)};
  return scene->artifacts->ops->save(scene->artifacts, &name, &for_ever, &artifact, version, error);
}

/* ---- Memories ---- */

static const mp_memories_session session_of_ann = {{"app", 3}, {"ann", 3}, {"s", 1}, 12.5};
static const mp_memories_owner all_of_ann = {{"app", 3}, {"ann", 3}, {NULL, 0}};

static inline mp_memories_entry entry_of(int64_t revision, const char *text) {
  return (mp_memories_entry){revision, (double)revision, moonpad_text("user"), moonpad_text(text), moonpad_text(text)};
}

static inline moonpad_status search_for(const agent_scene *scene, const char *user, const char *phrase, int64_t limit,
                                        mp_buffer *matches, moonpad_error *error) {
  moonpad_string phrases[] = {moonpad_text(phrase), moonpad_text("no \"or\" (such")};
  mp_memories_query query = {moonpad_text("app"), moonpad_text(user), phrases, 2, limit};
  return scene->memories->ops->search(scene->memories, &query, &for_ever, matches, error);
}

/* The texts of what is found, each with a blank behind it. */
static inline void expect_found(const agent_scene *scene, const char *user, const char *phrase, const char *expected) {
  char found[256] = "";
  size_t length = 0;
  mp_memories_match match;
  mp_buffer matches;
  moonpad_error error;
  mp_buffer_init(&matches, scene->env);
  assert_int_equal(search_for(scene, user, phrase, 10, &matches, &error), MOONPAD_OK);
  for (size_t at = 0; mp_memories_next_match(&matches, &at, &match);) {
    length +=
        (size_t)snprintf(found + length, sizeof found - length, "%.*s ", (int)match.content.length, match.content.data);
  }
  mp_buffer_free(&matches);
  assert_string_equal(found, expected);
}

#endif
