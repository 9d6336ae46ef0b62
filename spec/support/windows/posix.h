/* Included before each C test on Windows: what they use of POSIX, as far as they need it. */
#ifndef WINDOWS_POSIX_H
#define WINDOWS_POSIX_H

#include <winsock2.h> /* before windows.h */

#include <direct.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

/* Words of windows.h that are names in tests. */
#undef interface
#undef small
#undef near
#undef far

#define SIGKILL                  9
#define mkdir(path, mode)        _mkdir(path)
#define malloc_usable_size(size) _msize(size)
#define setenv(name, value, yes) _putenv_s(name, value)
#define unsetenv(name)           _putenv_s(name, "")

/* Of its own process alone. */
int kill(int process, int signal_number);
char *mkdtemp(char *template);

/* A stream into memory: into a file, and from there when it is closed. */
FILE *open_memstream(char **text, size_t *length);
int windows_close(FILE *file);
#if !defined(WINDOWS_POSIX_C)
#define fclose windows_close
#endif

#endif
