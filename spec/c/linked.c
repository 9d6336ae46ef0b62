/* See linked.h. */
#include "linked.h"

#include <stdio.h>

char *linked_port_in(char *url) {
  char *host_part = strstr(url, "127.0.0.1:");
  assert_non_null(host_part);
  return host_part + strlen("127.0.0.1:");
}

void linked_open(linked *scene, const char *more) {
  char url[256];
  host_setup(&scene->state, "postgresql:");
  scene->self = scene->state;
  scene->link = link_open(atoi(linked_port_in(scene->self->url)));
  assert_non_null(scene->link);
  strcpy(url, scene->self->url);
  char *port = linked_port_in(url), *behind = port + strspn(port, "0123456789");
  int before = (int)(port - url);
  snprintf(scene->self->url, sizeof scene->self->url, "%.*s%d%s&sslmode=disable&gssencmode=disable%s", before, url,
           link_port(scene->link), behind, more);
  host_reopen(scene->self);
}

void linked_close(linked *scene) {
  link_mend(scene->link);
  strcpy(strchr(scene->self->url, '&'), ""); /* as server_forget_url knows it */
  host_teardown(&scene->state);
  link_close(scene->link);
}
