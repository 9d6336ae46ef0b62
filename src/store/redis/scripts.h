/*
** The scripts that the server runs: each a file of Lua (5.1, as Redis has it) in scripts, or in
** agent_stores/redis/scripts, of which the build makes a string.
*/
#ifndef MP_STORE_REDIS_SCRIPTS_H
#define MP_STORE_REDIS_SCRIPTS_H

extern const char mp_redis_lua_append[];       /* carries out a plan */
extern const char mp_redis_lua_find_commit[];  /* was a transaction stored? */
extern const char mp_redis_lua_register_app[]; /* gives an app its number */

/* Parts of the script of transactions, in this order (pages.lua). */
extern const char mp_redis_lua_pages[];
extern const char mp_redis_lua_places[];
extern const char mp_redis_lua_writes[];
extern const char mp_redis_lua_questions[];
extern const char mp_redis_lua_store[];
/* Either the lists and one of these two, or nothing, go before the last. */
extern const char mp_redis_lua_lists[];
extern const char mp_redis_lua_artifacts[];
extern const char mp_redis_lua_memories[];
extern const char mp_redis_lua_run[];

#endif
