/*
** What the command asks of the system: terminals, Ctrl-C, signals, folders. Paths and texts are
** UTF-8.
*/
#ifndef MP_CLI_SYSTEM_H
#define MP_CLI_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>

/*
** Once, before the others. On Windows a console shows UTF-8 from then on, until the end, and files
** and pipes get and give bytes as they are.
*/
void mp_cli_prepare(void);

/* A copy, which free() frees, of the argument at `index`, of `count` that main() has got. */
char *mp_cli_argument(const char *text, int index, int count);

/* ---- Terminals ---- */

bool mp_cli_is_terminal(int fd);
/* Does the terminal of standard output understand codes that move the cursor and colour text? */
bool mp_cli_has_codes(void);

typedef enum mp_cli_input {
  MP_CLI_LINE,
  MP_CLI_END,
  MP_CLI_INTERRUPTED,
} mp_cli_input;

/*
** Waits for a line at the terminal of standard input: a copy, without its end, which free() frees.
** A Ctrl-C that ends the wait counts as told.
*/
mp_cli_input mp_cli_read_line(char **line, size_t *length);

/* ---- Ctrl-C and the end ---- */

/*
** From now on Ctrl-C is noted instead of ending the program; the second one ends it, if nobody has
** asked. System calls that wait end with EINTR.
*/
void mp_cli_catch_interrupts(void);
/* Has there been one since the last call? */
bool mp_cli_interrupted(void);

/*
** A descriptor that is readable once SIGINT or SIGTERM has come, instead of the end of the program;
** -1 where the system has none.
*/
int mp_cli_catch_end(void);
/* Was it SIGINT that came? */
bool mp_cli_was_interrupted(void);

/* ---- Folders: 0, or a number of errno ---- */

bool mp_cli_is_folder(const char *path);
int mp_cli_make_folder(const char *path, bool is_private);
bool mp_cli_is_slash(char byte);
/* Calls `take` with each name in it but "." and "..". */
int mp_cli_list(const char *path, void (*take)(void *context, const char *name), void *context);

#endif
