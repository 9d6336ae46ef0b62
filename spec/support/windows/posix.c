/* See posix.h. */
#define WINDOWS_POSIX_C
#include "posix.h"

int kill(int process, int signal_number) {
  (void)process;
  TerminateProcess(GetCurrentProcess(), (UINT)signal_number);
  return -1;
}

char *mkdtemp(char *template) {
  if (_mktemp(template) == NULL || _mkdir(template) != 0) return NULL;
  return template;
}

#define STREAMS 8

static struct stream {
  FILE *file;
  char **text;
  size_t *length;
} streams[STREAMS];

static struct stream *find(const FILE *file) {
  for (size_t i = 0; i < STREAMS; i++) {
    if (streams[i].file == file) return &streams[i];
  }
  return NULL;
}

FILE *open_memstream(char **text, size_t *length) {
  struct stream *stream = find(NULL);
  FILE *file = tmpfile();
  if (stream == NULL || file == NULL) abort();
  *stream = (struct stream){file, text, length};
  return file;
}

int windows_close(FILE *file) {
  struct stream *stream = file == NULL ? NULL : find(file);
  if (stream != NULL) {
    size_t length = (size_t)ftell(file);
    char *text = malloc(length + 1);
    rewind(file);
    if (text == NULL || fread(text, 1, length, file) != length) abort();
    text[length] = '\0';
    *stream->text = text;
    *stream->length = length;
    stream->file = NULL;
  }
  return fclose(file);
}
