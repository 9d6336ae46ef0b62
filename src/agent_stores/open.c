/* From a URL to a store: a server's store is one more row. */
#include "agent_stores/artifacts.h"
#include "agent_stores/memories.h"
#include "base/error.h"

typedef struct scheme {
  const char *name;
  const char *rest; /* stands for the rest of the URL, where there must be none; else NULL */
  mp_artifacts_opener artifacts;
  mp_memories_opener memories;
} scheme;

static const scheme schemes[] = {
    {"memory:", ":memory:", mp_sqlite_artifacts_open, mp_sqlite_memories_open},
    {"sqlite:", NULL, mp_sqlite_artifacts_open, mp_sqlite_memories_open},
};

static bool begins_with(moonpad_string text, const char *prefix) {
  size_t length = strlen(prefix);
  return text.length >= length && memcmp(text.data, prefix, length) == 0;
}

static moonpad_status refuse(const char *what, moonpad_string url, moonpad_error *error) {
  const char *colon = url.length == 0 ? NULL : memchr(url.data, ':', url.length);
  if (colon == NULL) {
    return mp_fail(error, MOONPAD_UNSUPPORTED,
                   "%s: the URL has no scheme: write \"sqlite:PATH\" or \"memory:\" (built in are memory: and sqlite:)",
                   what);
  }
  mp_quoted name = mp_quote((moonpad_string){url.data, (size_t)(colon - url.data) + 1});
  return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: %s: not served; built in are memory: and sqlite:", what, name.text);
}

/* `what` names the call of Lua. */
static moonpad_status find(const char *what, moonpad_string url, const scheme **found, moonpad_string *rest,
                           moonpad_error *error) {
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    const scheme *at = &schemes[i];
    if (!begins_with(url, at->name)) continue;
    size_t length = strlen(at->name);
    *found = at;
    *rest = (moonpad_string){url.data + length, url.length - length};
    if (at->rest == NULL) return MOONPAD_OK;
    if (rest->length > 0) {
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                     "%s: memory: takes no name: each service in memory is one of its own", what);
    }
    *rest = moonpad_text(at->rest);
    return MOONPAD_OK;
  }
  return refuse(what, url, error);
}

moonpad_status mp_artifacts_open(mp_env *env, moonpad_string url, const moonpad_options *options,
                                 mp_artifacts **artifacts, moonpad_error *error) {
  const scheme *found;
  moonpad_string rest;
  *artifacts = NULL;
  moonpad_status status = find("artifactService", url, &found, &rest, error);
  return status == MOONPAD_OK ? found->artifacts(env, rest, options, artifacts, error) : status;
}

moonpad_status mp_memories_open(mp_env *env, moonpad_string url, const moonpad_options *options, mp_memories **memories,
                                moonpad_error *error) {
  const scheme *found;
  moonpad_string rest;
  *memories = NULL;
  moonpad_status status = find("memoryService", url, &found, &rest, error);
  return status == MOONPAD_OK ? found->memories(env, rest, options, memories, error) : status;
}
