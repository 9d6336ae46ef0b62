/*
** What the store asks of the system about its files. Paths are UTF-8. Error numbers are the
** system's (mp_system_message); 0: none.
*/
#ifndef MP_STORE_SQLITE_SYSTEM_H
#define MP_STORE_SQLITE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tells SQLite what it has to know of the system before it opens a file. May be repeated. */
void mp_sqlite_prepare_system(void);

/* Of one path: with another device or number it names another file than before. */
typedef struct mp_sqlite_identity {
  uint64_t device;
  uint64_t number;
  uint64_t size; /* in bytes; no part of the identity */
} mp_sqlite_identity;

/* Which file does this path name? Answers an error number. Cheap: it is asked for each commit. */
int mp_sqlite_identify(const char *path, mp_sqlite_identity *identity);

/* What is there? Answers an error number. */
int mp_sqlite_look(const char *path, bool *is_folder, int64_t *size);
/* Does the error number say that there is no such file? */
bool mp_sqlite_is_absent(int number);
/* The error number with which writing to it is denied; of a folder: making files in it. */
int mp_sqlite_denied(const char *path, bool is_folder);
/* The slash before the last name of the path; NULL: there is none. */
char *mp_sqlite_last_slash(const char *path);
/* So many bytes of the path name the folder that its last name is in; 0: the current one. */
size_t mp_sqlite_folder_length(const char *path);
/*
** May somebody have written to the file `written` since the file `placed` got its path? True also
** on a system that does not tell; false where one of them is not there.
*/
bool mp_sqlite_written_since(const char *written, const char *placed);

/* Makes an empty file with the permissions of the file `like` (NULL: for its owner alone). */
int mp_sqlite_create_file(const char *path, const char *like);
/* Does the error number say that there is such a file already? */
bool mp_sqlite_is_present(int number);
/* Makes sure that a new file in it survives a loss of power. */
int mp_sqlite_sync_folder(const char *folder);
void mp_sqlite_remove_file(const char *path);

#endif
