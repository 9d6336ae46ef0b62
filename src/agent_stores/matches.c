/*
** Results in one buffer: of each match the timestamp, then four texts, each behind its length; of
** each entry its revision and timestamp, then two texts.
*/
#include <stdio.h>
#include <stdlib.h>

#include "agent_stores/memories.h"

moonpad_string mp_memories_id_text(int64_t id, char digits[MP_MEMORY_ID_BYTES]) {
  snprintf(digits, MP_MEMORY_ID_BYTES, "%lld", (long long)id);
  return moonpad_text(digits);
}

/* It is the text that a search gave, and no other. */
bool mp_memories_read_id(moonpad_string text, int64_t *id) {
  char digits[MP_MEMORY_ID_BYTES], again[MP_MEMORY_ID_BYTES];
  if (text.length == 0 || text.length >= sizeof digits) return false;
  memcpy(digits, text.data, text.length);
  digits[text.length] = '\0';
  *id = strtoll(digits, NULL, 10);
  return strlen(digits) == text.length && strcmp(digits, mp_memories_id_text(*id, again).data) == 0;
}

static void add_text(mp_buffer *matches, moonpad_string text) {
  mp_buffer_add(matches, (const char *)&text.length, sizeof text.length);
  mp_buffer_add_string(matches, text);
}

static moonpad_string next_text(const mp_buffer *matches, size_t *at) {
  moonpad_string text;
  memcpy(&text.length, matches->data + *at, sizeof text.length);
  text.data = matches->data + *at + sizeof text.length;
  *at += sizeof text.length + text.length;
  return text;
}

void mp_memories_add_match(mp_buffer *matches, const mp_memories_match *match) {
  mp_buffer_add(matches, (const char *)&match->timestamp, sizeof match->timestamp);
  add_text(matches, match->id);
  add_text(matches, match->session_id);
  add_text(matches, match->author);
  add_text(matches, match->content);
}

bool mp_memories_next_match(const mp_buffer *matches, size_t *at, mp_memories_match *match) {
  if (*at >= matches->length) return false;
  memcpy(&match->timestamp, matches->data + *at, sizeof match->timestamp);
  *at += sizeof match->timestamp;
  match->id = next_text(matches, at);
  match->session_id = next_text(matches, at);
  match->author = next_text(matches, at);
  match->content = next_text(matches, at);
  return true;
}

void mp_memories_add_entry(mp_buffer *entries, const mp_memories_entry *entry) {
  mp_buffer_add(entries, (const char *)&entry->revision, sizeof entry->revision);
  mp_buffer_add(entries, (const char *)&entry->timestamp, sizeof entry->timestamp);
  add_text(entries, entry->author);
  add_text(entries, entry->content);
}

bool mp_memories_next_entry(const mp_buffer *entries, size_t *at, mp_memories_entry *entry) {
  if (*at >= entries->length) return false;
  memcpy(&entry->revision, entries->data + *at, sizeof entry->revision);
  *at += sizeof entry->revision;
  memcpy(&entry->timestamp, entries->data + *at, sizeof entry->timestamp);
  *at += sizeof entry->timestamp;
  entry->author = next_text(entries, at);
  entry->content = next_text(entries, at);
  return true;
}
