/* The names of apps, users and sessions. */
#include "service/names.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

/* ---- Checks ---- */

moonpad_status mp_check_name(const char *field, moonpad_string name, moonpad_error *error) {
  if (name.length == 0) return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: must not be empty", field);
  if (name.length > MOONPAD_MAX_NAME_BYTES) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: %zu bytes, at most %d are allowed", field, name.length,
                   MOONPAD_MAX_NAME_BYTES);
  }
  if (memchr(name.data, '\0', name.length) != NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: a NUL byte is not allowed in %s", field, mp_quote(name).text);
  }
  size_t valid = mp_utf8_valid_prefix(name.data, name.length);
  if (valid != name.length) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: invalid UTF-8 at byte %zu of %s", field, valid + 1,
                   mp_quote(name).text);
  }
  return MOONPAD_OK;
}

static bool is_ascii_space(char byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* The text without ASCII white space at both ends. */
static moonpad_string trim(moonpad_string text) {
  while (text.length > 0 && is_ascii_space(text.data[0])) {
    text.data++;
    text.length--;
  }
  while (text.length > 0 && is_ascii_space(text.data[text.length - 1])) text.length--;
  return text;
}

static moonpad_status check_owner(const moonpad_session_name *name, moonpad_error *error) {
  moonpad_status status = mp_check_name("appName", name->app_name, error);
  return status == MOONPAD_OK ? mp_check_name("userId", name->user_id, error) : status;
}

moonpad_status mp_check_session_name(const moonpad_session_name *given, moonpad_session_name *name,
                                     moonpad_error *error) {
  *name = *given;
  name->session_id = trim(name->session_id);
  moonpad_status status = check_owner(name, error);
  return status == MOONPAD_OK ? mp_check_name("sessionId", name->session_id, error) : status;
}

moonpad_status mp_name_new_session(mp_env *env, const moonpad_session_name *given, char id[MP_UUID_BYTES],
                                   moonpad_session_name *name, moonpad_error *error) {
  *name = *given;
  name->session_id = trim(name->session_id);
  if (name->session_id.length > 0) return mp_check_session_name(given, name, error);
  moonpad_status status = check_owner(name, error);
  if (status != MOONPAD_OK) return status;
  mp_uuid4(env, id);
  name->session_id = (moonpad_string){id, MP_UUID_BYTES};
  return MOONPAD_OK;
}

/* ---- In messages ---- */

mp_session_label mp_label(const moonpad_session_name *name) {
  mp_session_label label;
  snprintf(label.text, sizeof label.text, "session %s of user %s in app %s", mp_quote(name->session_id).text,
           mp_quote(name->user_id).text, mp_quote(name->app_name).text);
  return label;
}

moonpad_status mp_fail_exists(const moonpad_session_name *name, moonpad_error *error) {
  return mp_fail(error, MOONPAD_ALREADY_EXISTS, "%s exists already", mp_label(name).text);
}

moonpad_status mp_fail_not_found(const moonpad_session_name *name, moonpad_error *error) {
  return mp_fail(error, MOONPAD_NOT_FOUND, "%s does not exist (or was deleted and created anew)", mp_label(name).text);
}
