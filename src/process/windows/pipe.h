/* How pipes are made on Windows. */
#ifndef MP_PROCESS_WINDOWS_PIPE_H
#define MP_PROCESS_WINDOWS_PIPE_H

#include <winsock2.h> /* before windows.h */

#include <windows.h>

#include "process/pipe.h"

/*
** Our end of a pipe, to write to or to read from, of a handle for overlapped operations, which it
** closes in any case. 0, or the system's error number.
*/
int mp_pipe_of_handle(HANDLE handle, bool is_written, mp_pipe *pipe);

#endif
