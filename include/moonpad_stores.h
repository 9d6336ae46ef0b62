/*
** The stores that are libraries of their own: each needs a client library that the core does
** without. A host in C hands them to moonpad_open:
**
**   moonpad_store_scheme stores[] = {{"postgresql", moonpad_postgres_store()}};
**   options.stores = stores;
**   options.store_count = 1;
**   moonpad_open(moonpad_text("postgresql://user@host/database"), &options, &service, &error);
**
** In Lua moonpad.open loads them by itself. docs/servers.md tells what each promises.
*/
#ifndef MOONPAD_STORES_H
#define MOONPAD_STORES_H

#include "moonpad.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
** PostgreSQL 13 and later, with libpq: pkg-config's moonpad-postgres. The scheme is "postgresql".
** The URL is one of libpq, with options of moonpad's own: schema=moonpad (where the tables are),
** pool=4 (at most so many connections, up to 64), migrate=on|off (whether it may make the schema),
** strict=1 (refuses a server that does not keep what `durability` asks for). libpq's memory does
** not come from the host's allocator.
** The result lives as long as the program, and is nobody's to free.
** Errors: none.
** Threads: any.
*/
MOONPAD_API const moonpad_store_opener *moonpad_postgres_store(void);

/*
** MariaDB 10.6 and MySQL 8 and later, with libmariadb: pkg-config's moonpad-mysql. The scheme is
** "mysql". The URL is mysql://USER:PASSWORD@HOST:PORT,HOST/DATABASE with these options:
** prefix=moonpad_ (begins the names of the tables), socket=PATH (instead of a host),
** ssl=off|on|verify-full with ca=, cert=, key= (files), and pool, migrate, strict as above.
** libmariadb's memory does not come from the host's allocator.
** The result lives as long as the program, and is nobody's to free.
** Errors: none.
** Threads: any.
*/
MOONPAD_API const moonpad_store_opener *moonpad_mysql_store(void);

/*
** Redis 6 and later, with hiredis: pkg-config's moonpad-redis. The schemes are "redis" and
** "redis+unix". The URL is redis://:PASSWORD@HOST:PORT/DB or redis+unix://:PASSWORD@PATH?db=DB with
** these options: prefix=mp: (begins all keys), replicas=0 (so many must have what is stored before
** a call ends), and pool, migrate, strict as above. hiredis's memory does not come from the host's
** allocator.
** The result lives as long as the program, and is nobody's to free.
** Errors: none.
** Threads: any.
*/
MOONPAD_API const moonpad_store_opener *moonpad_redis_store(void);

/*
** The same with TLS, for the scheme "rediss": rediss://:PASSWORD@HOST:PORT/DB. The server's
** certificate and name are always checked. More options: ca=, cert=, key= (files). Opening is
** `unsupported` where hiredis has no TLS.
** The result lives as long as the program, and is nobody's to free.
** Errors: none.
** Threads: any.
*/
MOONPAD_API const moonpad_store_opener *moonpad_redis_tls_store(void);

/*
** Redis Cluster, with the same library: the scheme is "redis+cluster". The URL is
** redis+cluster://:PASSWORD@HOST:PORT,HOST:PORT, of some nodes; the others are found. All of an app
** is on one node. Options, but for DB, and memory are as above.
** The result lives as long as the program, and is nobody's to free.
** Errors: none.
** Threads: any.
*/
MOONPAD_API const moonpad_store_opener *moonpad_redis_cluster_store(void);

#ifdef __cplusplus
}
#endif

#endif
