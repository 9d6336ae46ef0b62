/* See linked.h. */
#include "linked.h"

#include <stdio.h>

char *linked_port_in(char *url) {
  char *host_part = strstr(url, "127.0.0.1:");
  assert_non_null(host_part);
  return host_part + strlen("127.0.0.1:");
}

void linked_open(linked *scene, const char *store, const char *more) {
  char url[256];
  host_setup(&scene->state, store);
  scene->self = scene->state;
  scene->breaks_for_good = false;
  scene->link = link_open(atoi(linked_port_in(scene->self->url)));
  assert_non_null(scene->link);
  strcpy(url, scene->self->url);
  strcpy(scene->direct, url);
  char *port = linked_port_in(url), *behind = port + strspn(port, "0123456789");
  const char *plain = strcmp(store, "postgresql:") == 0 ? "&sslmode=disable&gssencmode=disable" : "";
  int before = (int)(port - url);
  snprintf(scene->self->url, sizeof scene->self->url, "%.*s%d%s%s%s", before, url, link_port(scene->link), behind,
           plain, more);
  /* The first option of all. */
  if (strchr(scene->self->url, '?') == NULL && more[0] != '\0') *strchr(scene->self->url, '&') = '?';
  host_reopen(scene->self);
}

void linked_close(linked *scene) {
  link_mend(scene->link);
  char *more = strchr(scene->self->url, '&');
  if (more != NULL) *more = '\0'; /* as server_forget_url knows it */
  host_teardown(&scene->state);
  link_close(scene->link);
}
