/*
** What the Lua binding (src/lua) uses of the inside of the service, besides moonpad.h: a header for
** each thing that it is about. This one: a service itself.
**
** Belongs here: what no host needs, and the binding does: calls cut in two, so that a stepped run
** asks a store on another thread; state read as Lua reads it; limits and hooks of a service.
** Does not belong here: anything that a host may call (moonpad.h), and any rule of the service
** itself.
** Arrows: src/lua includes these headers and no other one of src/service, and none of src/store; a
** file includes those whose calls it makes. Nothing in src/service includes them.
** `scripts/check.sh layers` looks that each internal function that the binding calls is named in
** one of them.
**
** Each names what it is for; a function is described where it is declared.
**
** service/service.h: mp_service_open_scratch (agents as tools), mp_vacuum (the command).
** service/session/list.h: mp_list_apps, mp_list_users (the command).
*/
#ifndef MP_SERVICE_BINDING_SERVICE_H
#define MP_SERVICE_BINDING_SERVICE_H

#include "service/service.h"
#include "service/session/list.h"

/* Its limits and defaults. */
static inline const moonpad_options *mp_service_options(const moonpad_service *service) {
  return &service->options;
}

/* The allocator, the clock and the random source that its host gave. */
static inline mp_env *mp_service_env(const moonpad_service *service) {
  return service->env;
}

/* Does its store answer without waiting for a disk or a link? */
static inline bool mp_service_is_in_memory(const moonpad_service *service) {
  return service->store->in_memory;
}

/* Any thread. */
static inline bool mp_service_is_closed(const moonpad_service *service) {
  return mp_check_open(service, NULL) != MOONPAD_OK;
}

#endif
