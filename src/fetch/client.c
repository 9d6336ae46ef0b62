/*
** fetch/: the client of http/client.h for a page: the browser's fetch does the work. Only
** emscripten compiles it. http/module.c, which hands the client to Lua, is the same.
** Belongs here: what the page does (the JavaScript below), and what its owner sees of it in C.
** Does not belong here: redirects, retries, streams of events (lua/moonpad/http).
** Arrows: fetch -> http/client.h, http/library.h, base.
**
** What comes in is kept by the page until the owner takes it. It comes only while no call into C is
** under way: nobody can wait for it in one.
**
** A page sees less than libcurl does. Whether a connection was made, how much has been sent, and
** where a redirection leads, it is not told. What it must not do, and would leave out in silence,
** is refused.
*/
#include "http/client.h"

#include <emscripten.h>
#include <math.h>
#include <stdio.h>

#include "http/library.h"

/* A larger buffer is freed once its contents have been read. */
#define KEPT_CAPACITY ((size_t)64 * 1024)

struct mp_http_client {
  mp_env *env;
};

struct mp_http_request {
  mp_env *env;
  int number; /* the page's */
  double timeout;
  double idle_timeout;
  mp_buffer unread;
  mp_buffer headers;
  char message[128];
};

/* How a transfer ends, and why none begins: the JavaScript has the same numbers. */
enum { COMPLETE, UNREACHABLE, BROKEN, LATE, SILENT, REDIRECTED, OUT_OF_MEMORY, CLOSED };
enum { NO_ADDRESS = -1, WITH_PASSWORD = -2, WITH_BODY = -3, FORBIDDEN = -4 };

/* ---- The page: without a backslash, which emcc does not carry over ---- */

/* clang-format off */

/*
** Starts a request. `headers` are lines as libcurl takes them: "Name: value", "Name;" for an empty
** value, "Name:" for none. Answers its number, or one of those below 0.
*/
EM_JS(int, mp_fetch_start, (const void *client, const char *url, const char *method, const char *const *headers,
                            const char *body, size_t length, double timeout, double idle, double most), {
  const COMPLETE = 0, UNREACHABLE = 1, BROKEN = 2, LATE = 3, SILENT = 4, REDIRECTED = 5;
  const NO_ADDRESS = -1, WITH_PASSWORD = -2, WITH_BODY = -3, FORBIDDEN = -4;
  const page = Module["moonpadFetch"] || (Module["moonpadFetch"] = { last: 0, activity: 0, requests: new Map() });

  // A header is bytes, which fetch has as letters up to 255.
  const bytesAt = (at) => {
    let text = "";
    for (; HEAPU8[at]; at++) text += String.fromCharCode(HEAPU8[at]);
    return text;
  };
  const list = [];
  for (let at = headers >> 2; HEAPU32[at]; at++) {
    const line = bytesAt(HEAPU32[at]), end = line.search(/[:;]/);
    const value = line.slice(end + 1).trim();
    if (value || line[end] === ";") list.push([line.slice(0, end), value]);
  }

  // What fetch says of what it does not take may quote a key: it is dropped.
  const verb = UTF8ToString(method);
  let address, request;
  try {
    address = new URL(UTF8ToString(url));
  } catch (error) {
    return NO_ADDRESS;
  }
  if (address.username || address.password) return WITH_PASSWORD;
  if (body && (verb === "GET" || verb === "HEAD")) return WITH_BODY;
  const abort = new AbortController();
  try {
    request = new Request(address, {
      method: verb, headers: list, body: body ? HEAPU8.slice(body, body + length) : undefined, signal: abort.signal,
      cache: "no-store", redirect: "manual", referrerPolicy: "no-referrer",
    });
  } catch (error) {
    return FORBIDDEN;
  }
  // Those that a page may not set are left out without a word.
  if (list.some(([name]) => !request.headers.has(name))) return FORBIDDEN;

  const one = {
    client, status: 0, retryAfter: 0, headers: [], pieces: [], unread: 0, ending: -1, goOn: null, timers: {},
  };
  const note = () => { page.activity = (page.activity + 1) | 0; };
  one.end = (ending) => {
    if (one.ending >= 0) return;
    one.ending = ending;
    for (const name in one.timers) clearTimeout(one.timers[name]);
    if (ending !== COMPLETE) abort.abort();
    note();
  };
  const endAfter = (name, milliseconds, ending) => {
    clearTimeout(one.timers[name]);
    if (milliseconds && one.ending < 0) one.timers[name] = setTimeout(one.end, milliseconds, ending);
  };
  const retryAfter = (text) => {
    if (/^[0-9]+$/.test(text)) return Number(text);
    if (!/[0-9]:[0-9]+:[0-9]/.test(text)) return 0;
    const date = Date.parse(text.endsWith("GMT") ? text : text + " GMT");
    return isNaN(date) ? 0 : Math.ceil((date - Date.now()) / 1000) || -1;
  };

  const receive = async () => {
    endAfter("silence", idle, SILENT);
    const response = await fetch(request);
    if (response.type === "opaqueredirect") return one.end(REDIRECTED);
    response.headers.forEach((value, name) => one.headers.push(name, value));
    one.retryAfter = retryAfter(response.headers.get("retry-after") || "");
    one.status = response.status;
    note();
    const reader = response.body && response.body.getReader();
    while (reader) {
      endAfter("silence", idle, SILENT);
      const piece = await reader.read();
      if (piece.done) break;
      one.pieces.push(piece.value);
      one.unread += piece.value.length;
      note();
      if (one.unread <= most) continue;
      // Whoever does not read is not waited for.
      clearTimeout(one.timers.silence);
      await new Promise((goOn) => { one.goOn = goOn; });
    }
    one.end(COMPLETE);
  };

  page.requests.set(++page.last, one);
  endAfter("whole", timeout, LATE);
  receive().catch(() => one.end(one.status ? BROKEN : UNREACHABLE));
  return page.last;
});

/* Ends it in any case; what is unread is gone. */
EM_JS(void, mp_fetch_end, (int number, int ending), {
  const one = Module["moonpadFetch"].requests.get(number);
  one.end(ending);
  one.ending = ending;
  one.pieces = [];
  one.unread = 0;
  if (one.goOn) one.goOn();
});

EM_JS(void, mp_fetch_forget, (int number), {
  Module["moonpadFetch"].requests.delete(number);
});

/* Ends all of a client's. */
EM_JS(void, mp_fetch_end_all, (const void *client, int ending), {
  const page = Module["moonpadFetch"];
  if (page) page.requests.forEach((one) => { if (one.client === client) one.end(ending); });
});

EM_JS(int, mp_fetch_activity, (void), {
  const page = Module["moonpadFetch"];
  return page ? page.activity : 0;
});

EM_JS(int, mp_fetch_status, (int number), {
  return Module["moonpadFetch"].requests.get(number).status;
});

EM_JS(double, mp_fetch_retry_after, (int number), {
  return Module["moonpadFetch"].requests.get(number).retryAfter;
});

/* Less than 0: it has not ended. */
EM_JS(int, mp_fetch_ending, (int number), {
  return Module["moonpadFetch"].requests.get(number).ending;
});

/* Answers how long the headers are, and puts them at `into`, unless that is NULL. */
EM_JS(size_t, mp_fetch_headers, (int number, char *into), {
  const headers = Module["moonpadFetch"].requests.get(number).headers;
  const text = headers.map((one) => one + String.fromCharCode(0)).join("");
  if (into) for (let i = 0; i < text.length; i++) HEAPU8[into + i] = text.charCodeAt(i);
  return text.length;
});

EM_JS(size_t, mp_fetch_unread, (int number), {
  return Module["moonpadFetch"].requests.get(number).unread;
});

/* Puts all that is unread at `into`, and lets the transfer go on. */
EM_JS(void, mp_fetch_take, (int number, char *into), {
  const one = Module["moonpadFetch"].requests.get(number);
  for (const piece of one.pieces) {
    HEAPU8.set(piece, into);
    into += piece.length;
  }
  one.pieces = [];
  one.unread = 0;
  if (one.goOn) one.goOn();
  one.goOn = null;
});

/* clang-format on */

/* ---- Clients ---- */

bool mp_http_prepare(void) {
  return true;
}

mp_http_client *mp_http_client_new(void) {
  mp_env *env = mp_env_new(NULL);
  if (env == NULL) return NULL;
  mp_http_client *client = mp_allocate(env, sizeof *client);
  if (client == NULL) {
    mp_env_release(env);
    return NULL;
  }
  client->env = env;
  return client;
}

void mp_http_client_free(mp_http_client *client) {
  if (client == NULL) return;
  mp_fetch_end_all(client, CLOSED);
  mp_env *env = client->env;
  mp_release(env, client);
  mp_env_release(env);
}

bool mp_http_can_be_awaited(void) {
  return false;
}

uint64_t mp_http_activity(mp_http_client *client) {
  (void)client;
  return (uint32_t)mp_fetch_activity();
}

int mp_http_descriptor(const mp_http_client *client) {
  (void)client;
  return -1;
}

uint64_t mp_http_drain(mp_http_client *client) {
  return mp_http_activity(client);
}

/* ---- Starting ---- */

/* In one piece, at least one byte long; NULL: out of memory. */
static char *join_body(mp_env *env, const mp_http_options *options, size_t *length) {
  *length = 0;
  for (size_t i = 0; i < options->body_count; i++) *length += options->body[i].length;
  char *body = mp_allocate(env, *length);
  char *end = body;
  for (size_t i = 0; body != NULL && i < options->body_count; i++) {
    moonpad_string piece = options->body[i];
    if (piece.length != 0) memcpy(end, piece.data, piece.length);
    end += piece.length;
  }
  return body;
}

/* Why it cannot be started; NULL: it was. */
static const char *refusal(int number) {
  switch (number) {
  case NO_ADDRESS:
    return "this is no address";
  case WITH_PASSWORD:
    return "a page cannot send the name and password of an address: give the header";
  case WITH_BODY:
    return "a page cannot send a body with GET or HEAD";
  case FORBIDDEN:
    return "the browser sends no such request: it keeps this method, or one of these headers, to itself";
  default:
    return NULL;
  }
}

/* What it asks for, and only a program can have; NULL: nothing. */
static const char *missing(const mp_http_options *options) {
  if (options->ca_file != NULL) return "caFile: a page cannot choose which certificates it trusts";
  if (options->is_sent_once) return "sendOnce: a browser may send a request again when a connection closes";
  return NULL;
}

/* False: out of memory. */
static bool send_request(mp_http_request *request, const mp_http_client *client, const mp_http_options *options) {
  char *body = NULL;
  size_t length = 0;
  if (options->body != NULL) {
    body = join_body(request->env, options, &length);
    if (body == NULL) return false;
  }
  request->number = mp_fetch_start(client, options->url, options->method, options->headers, body, length,
                                   request->timeout, request->idle_timeout, (double)options->max_unread);
  mp_release(request->env, body);
  return true;
}

static void destroy(mp_http_request *request) {
  mp_env *env = request->env;
  mp_buffer_free(&request->unread);
  mp_buffer_free(&request->headers);
  mp_release(env, request);
  mp_env_release(env);
}

mp_http_request *mp_http_start(mp_http_client *client, const mp_http_options *options, mp_http_failure *failure,
                               const char **message) {
  *failure = MP_HTTP_UNSUPPORTED;
  *message = missing(options);
  if (*message != NULL) return NULL;
  *failure = MP_HTTP_NO_MEMORY;
  *message = "out of memory";
  mp_http_request *request = mp_allocate_zeroed(client->env, sizeof *request);
  if (request == NULL) return NULL;
  request->env = mp_env_retain(client->env);
  request->timeout = (double)options->timeout;
  request->idle_timeout = (double)options->idle_timeout;
  mp_buffer_init(&request->unread, request->env);
  mp_buffer_init(&request->headers, request->env);
  bool has_memory = send_request(request, client, options);
  if (has_memory && request->number > 0) return request;
  if (has_memory) {
    *failure = request->number == NO_ADDRESS ? MP_HTTP_ADDRESS : MP_HTTP_UNSUPPORTED;
    *message = refusal(request->number);
  }
  destroy(request);
  return NULL;
}

void mp_http_request_free(mp_http_request *request) {
  if (request == NULL) return;
  mp_fetch_end(request->number, CLOSED);
  mp_fetch_forget(request->number);
  destroy(request);
}

/* ---- What has come ---- */

long mp_http_status(mp_http_request *request) {
  return mp_fetch_status(request->number);
}

int64_t mp_http_retry_after(const mp_http_request *request) {
  return (int64_t)fmin(mp_fetch_retry_after(request->number), 1e15);
}

moonpad_string mp_http_headers(mp_http_request *request) {
  size_t length = request->headers.length == 0 ? mp_fetch_headers(request->number, NULL) : 0;
  if (length != 0 && mp_buffer_room(&request->headers, length)) {
    mp_fetch_headers(request->number, request->headers.data);
    request->headers.length = length;
  }
  if (request->headers.failed) mp_fetch_end(request->number, OUT_OF_MEMORY);
  return mp_buffer_text(&request->headers);
}

bool mp_http_is_done(mp_http_request *request) {
  return mp_fetch_ending(request->number) >= 0;
}

moonpad_string mp_http_unread(mp_http_request *request) {
  size_t length = request->unread.length == 0 ? mp_fetch_unread(request->number) : 0;
  if (length != 0 && mp_buffer_room(&request->unread, length)) {
    mp_fetch_take(request->number, request->unread.data);
    request->unread.length = length;
  }
  if (request->unread.failed) mp_fetch_end(request->number, OUT_OF_MEMORY);
  return mp_buffer_text(&request->unread);
}

void mp_http_consume(mp_http_request *request) {
  if (request->unread.capacity > KEPT_CAPACITY) {
    mp_buffer_free(&request->unread);
  } else {
    mp_buffer_clear(&request->unread);
  }
}

const char *mp_http_redirect(mp_http_request *request) {
  (void)request;
  return NULL;
}

/* ---- Its end ---- */

/* With the time in milliseconds where `format` has one. */
static void explain(mp_http_request *request, const char *format, double milliseconds) {
  snprintf(request->message, sizeof request->message, format, milliseconds);
}

mp_http_failure mp_http_failure_of(mp_http_request *request, const char **message) {
  *message = request->message;
  switch (mp_fetch_ending(request->number)) {
  case UNREACHABLE:
    *message = "no connection, or the server does not let this page read its answers (CORS); the browser's console "
               "may say more";
    return MP_HTTP_CONNECT;
  case BROKEN:
    *message = "the connection broke before the answer was complete";
    return MP_HTTP_TRANSFER;
  case LATE:
    explain(request, "timed out: not complete after %.0f ms", request->timeout);
    return MP_HTTP_TIMEOUT;
  case SILENT:
    explain(request, "timed out: nothing was sent or received for %.0f ms", request->idle_timeout);
    return MP_HTTP_TIMEOUT;
  case REDIRECTED:
    *message = "redirected, and a page is not told where to";
    return MP_HTTP_REDIRECT;
  case OUT_OF_MEMORY:
    *message = "out of memory";
    return MP_HTTP_NO_MEMORY;
  case CLOSED:
    *message = "the HTTP client has been closed";
    return MP_HTTP_CLOSED;
  default:
    return MP_HTTP_NO_FAILURE;
  }
}
