/* service: what concerns the store as a whole: backup, expiry (contract 2, 5). */
#include "lua/service/calls.h"

#include "lua/async/store_call.h"
typedef struct backup_call {
  mp_store_call call;
  moonpad_string path;
} backup_call;

static moonpad_status ask_backup(mp_store_call *call, moonpad_error *error) {
  return moonpad_backup(call->service, ((backup_call *)call)->path, error);
}

static int finish_backup(lua_State *L, mp_store_call *call) {
  mp_check(L, call->status, &call->error);
  lua_pushboolean(L, true);
  return 1;
}

/* service:backup(path) */
static int backup(lua_State *L) {
  static const char where[] = "service:backup";
  static const mp_store_call_type type = {sizeof(backup_call), ask_backup, finish_backup, NULL, false};
  moonpad_service *service = mp_check_call(L, mp_lua_of(L), where, 2);
  moonpad_string path = mp_argument_string(L, 2, where, "path");
  backup_call *call = (backup_call *)mp_store_call_push(L, &type, service);
  call->path = path;
  mp_store_call_keep(&call->call, &call->path);
  return mp_ask_service(L, &call->call);
}

/*
** service:sweep(): no option of this version gives anything a TTL (moonpad.open refuses them), so
** there is nothing to expire.
*/
static int sweep(lua_State *L) {
  mp_check_call(L, mp_lua_of(L), "service:sweep", 1);
  lua_pushinteger(L, 0);
  return 1;
}

const luaL_Reg mp_service_store_calls[] = {{"backup", backup}, {"sweep", sweep}, {NULL, NULL}};
