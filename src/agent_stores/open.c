/* From a URL to a store. Another store is another row of `schemes`. */
#include "agent_stores/open.h"

#include "agent_stores/sqlite_stores.h"
#include "base/error.h"
#include "base/url.h"

typedef moonpad_status (*artifacts_opener)(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                           mp_artifacts **artifacts, moonpad_error *error);
typedef moonpad_status (*memories_opener)(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                          mp_memories **memories, moonpad_error *error);

typedef struct agent_scheme {
  const char *name;
  const char *rest; /* used in place of the rest of the URL, which must be empty then; else NULL */
  artifacts_opener artifacts;
  memories_opener memories;
} agent_scheme;

static const agent_scheme schemes[] = {
    {"memory:", ":memory:", mp_sqlite_artifacts_open, mp_sqlite_memories_open},
    {"sqlite:", NULL, mp_sqlite_artifacts_open, mp_sqlite_memories_open},
};

static bool is_same(moonpad_string text, const char *name) {
  return text.length == strlen(name) && memcmp(text.data, name, text.length) == 0;
}

static moonpad_status refuse(const char *what, moonpad_string name, moonpad_error *error) {
  if (name.length == 0) {
    return mp_fail(error, MOONPAD_UNSUPPORTED,
                   "%s: the URL has no scheme: write \"sqlite:PATH\" or \"memory:\" (built in are memory: and sqlite:)",
                   what);
  }
  return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: %s: not served; built in are memory: and sqlite:", what,
                 mp_quote(name).text);
}

/* `what` is the name of the Lua function, for messages. */
static moonpad_status find(const char *what, moonpad_string url, const agent_scheme **found, moonpad_string *rest,
                           moonpad_error *error) {
  moonpad_string name = mp_url_scheme(url);
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    const agent_scheme *at = &schemes[i];
    if (!is_same(name, at->name)) continue;
    *found = at;
    *rest = (moonpad_string){url.data + name.length, url.length - name.length};
    if (at->rest == NULL) return MOONPAD_OK;
    if (rest->length > 0) {
      return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                     "%s: memory: takes no name: each service in memory is one of its own", what);
    }
    *rest = moonpad_text(at->rest);
    return MOONPAD_OK;
  }
  return refuse(what, name, error);
}

moonpad_status mp_artifacts_open(mp_env *env, moonpad_string url, const moonpad_options *options,
                                 mp_artifacts **artifacts, moonpad_error *error) {
  const agent_scheme *found;
  moonpad_string rest;
  *artifacts = NULL;
  moonpad_status status = find("artifactService", url, &found, &rest, error);
  return status == MOONPAD_OK ? found->artifacts(env, rest, options, artifacts, error) : status;
}

moonpad_status mp_memories_open(mp_env *env, moonpad_string url, const moonpad_options *options, mp_memories **memories,
                                moonpad_error *error) {
  const agent_scheme *found;
  moonpad_string rest;
  *memories = NULL;
  moonpad_status status = find("memoryService", url, &found, &rest, error);
  return status == MOONPAD_OK ? found->memories(env, rest, options, memories, error) : status;
}
