/* From a URL to a store. */
#include "agent_stores/open.h"

#include "agent_stores/sqlite_stores.h"
#include "base/error.h"
#include "base/url.h"

static const mp_agent_opener sqlite = {MP_AGENT_OPENER_VERSION, mp_sqlite_artifacts_open, mp_sqlite_memories_open};

typedef struct agent_scheme {
  const char *name;
  const char *rest; /* used in place of the rest of the URL, which must be empty then; else NULL */
  const mp_agent_opener *opener;
} agent_scheme;

static const agent_scheme schemes[] = {{"memory:", ":memory:", &sqlite}, {"sqlite:", NULL, &sqlite}};

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
static moonpad_status find_built_in(const char *what, moonpad_string url, const mp_agent_opener **found,
                                    moonpad_string *rest, moonpad_error *error) {
  moonpad_string name = mp_url_scheme(url);
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    const agent_scheme *at = &schemes[i];
    if (!is_same(name, at->name)) continue;
    *found = at->opener;
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

static moonpad_status find(const char *what, moonpad_string url, const mp_agent_opener *given,
                           const mp_agent_opener **found, moonpad_string *rest, moonpad_error *error) {
  size_t scheme = mp_url_scheme(url).length;
  *rest = (moonpad_string){url.data + scheme, url.length - scheme};
  *found = given;
  if (given == NULL) return find_built_in(what, url, found, rest, error);
  if (given->version == MP_AGENT_OPENER_VERSION) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: the store's module was built for another version of moonpad", what);
}

moonpad_status mp_artifacts_open(mp_env *env, moonpad_string url, const mp_agent_opener *opener,
                                 const moonpad_options *options, mp_artifacts **artifacts, moonpad_error *error) {
  const mp_agent_opener *found;
  moonpad_string rest;
  *artifacts = NULL;
  moonpad_status status = find("artifactService", url, opener, &found, &rest, error);
  return status == MOONPAD_OK ? found->artifacts(env, rest, options, artifacts, error) : status;
}

moonpad_status mp_memories_open(mp_env *env, moonpad_string url, const mp_agent_opener *opener,
                                const moonpad_options *options, mp_memories **memories, moonpad_error *error) {
  const mp_agent_opener *found;
  moonpad_string rest;
  *memories = NULL;
  moonpad_status status = find("memoryService", url, opener, &found, &rest, error);
  return status == MOONPAD_OK ? found->memories(env, rest, options, memories, error) : status;
}
