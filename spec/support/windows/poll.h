/* For C tests on Windows: what they wait for are sockets. */
#ifndef WINDOWS_POLL_H
#define WINDOWS_POLL_H

#include <winsock2.h>

#define poll WSAPoll

#endif
