/*
** A link to a server on this machine: it counts round trips, and can be cut, slow or dead, as a
** network can be. A program connects to its port instead of the server's.
*/
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct test_link test_link;

typedef enum link_fault {
  LINK_CUT_REQUEST, /* what is sent does not arrive, and the connection is reset */
  LINK_CUT_ANSWER,  /* what is sent arrives, and the connection is reset before the answer does */
  LINK_HANG         /* nothing goes through any more, and nothing is closed */
} link_fault;

/* To a port of 127.0.0.1. NULL: it cannot listen. */
test_link *link_open(int port);
void link_close(test_link *link);
int link_port(const test_link *link);

/*
** Round trips so far: what is sent after an answer, or first of all on a connection, begins one.
*/
long link_round_trips(test_link *link);
/* The fault comes in the n-th round trip from now on (1: the next one), once. */
void link_break(test_link *link, link_fault fault, int n);
/* The same, and when it has come, the other fault in the m-th round trip after it. */
void link_break_twice(test_link *link, link_fault fault, int n, link_fault other, int m);
/* The same, and from then on nobody gets through, nor connects, until it is mended. */
void link_break_for_good(test_link *link, link_fault fault, int n);
/* Has it come, the last one of them? */
bool link_has_broken(test_link *link);
/* No fault any more; a link that hangs is cut. */
void link_mend(test_link *link);
/* In what the server says, once, `text` becomes `other`. */
void link_replace(test_link *link, const char *text, const char *other, size_t length);

#endif
