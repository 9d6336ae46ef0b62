# What this system has: asked of pkg-config and of the compiler in one go, whenever make runs, so
# that what was installed since is seen. What a variable says of a library counts instead.

SYSTEM := $(shell scripts/system.sh '$(PKG_CONFIG)' '$(CC)')
known = $(patsubst $(1):%,%,$(filter $(1):%,$(SYSTEM)))

# Windows, by mingw-w64: modules are DLLs, linked with the Lua that loads them, and export what
# MOONPAD_API says. All code is position-independent there.
WINDOWS := $(if $(filter windows,$(SYSTEM)),yes)
SO := $(if $(WINDOWS),dll,so)

# `make lib` does without Lua.
LUA_CFLAGS ?= $(call known,lua5.4.cflags)
LUA_LIBS ?= $(call known,lua5.4.libs)

# Without libcurl there is no HTTP, without libevent and http_parser no server, without libedit no
# editing of lines in the command.
CURL_CFLAGS ?= $(call known,libcurl.cflags)
CURL_LIBS ?= $(call known,libcurl.libs)
LIBEVENT_CFLAGS ?= $(call known,libevent_core.cflags)
LIBEVENT_LIBS ?= $(call known,libevent_core.libs)
HTTP_PARSER_LIBS ?= $(call known,http_parser.libs)
SERVER_LIBS := $(if $(LIBEVENT_LIBS),$(if $(HTTP_PARSER_LIBS),$(LIBEVENT_LIBS) $(HTTP_PARSER_LIBS)))
EDITLINE_CFLAGS ?= $(call known,libedit.cflags)
EDITLINE_LIBS ?= $(call known,libedit.libs)

# The stores on servers.
POSTGRES_CFLAGS ?= $(call known,libpq.cflags)
POSTGRES_LIBS ?= $(call known,libpq.libs)
MYSQL_CFLAGS ?= $(call known,libmariadb.cflags)
MYSQL_LIBS ?= $(call known,libmariadb.libs)
REDIS_TLS := $(call known,hiredis.tls)
REDIS_CFLAGS ?= $(call known,hiredis.cflags) $(if $(REDIS_TLS),-DMP_REDIS_TLS)
REDIS_LIBS ?= $(call known,hiredis.libs)

# Not there on Windows, whatever the machine has.
ifdef WINDOWS
SERVER_LIBS :=
EDITLINE_LIBS :=
POSTGRES_LIBS :=
MYSQL_LIBS :=
REDIS_LIBS :=
endif
# A thread of moonpad's does what libcurl does.
ifneq ($(findstring MOONPAD_NO_THREADS,$(CPPFLAGS) $(CFLAGS)),)
CURL_LIBS :=
endif

left-out:
	$(if $(CURL_LIBS),,@echo 'No libcurl, or no threads: built without moonpad.http and models over HTTP.')
ifdef WINDOWS
	@echo 'On Windows there is no moonpad.server, no editing of lines and no store on a server.'
else
	$(if $(SERVER_LIBS),,@echo 'No libevent, or no http_parser.h, was found: built without moonpad.server.')
	$(if $(EDITLINE_LIBS),,@echo 'pkg-config knows no libedit: the command is built without editing of lines.')
	$(if $(POSTGRES_LIBS),,@echo 'pkg-config knows no libpq: built without the store postgresql:.')
	$(if $(MYSQL_LIBS),,@echo 'pkg-config knows no libmariadb: built without the store mysql:.')
	$(if $(REDIS_LIBS),,@echo 'pkg-config knows no hiredis: built without the store redis:.')
endif

have-lua:
	$(if $(LUA_CFLAGS),,@echo 'Lua 5.4 was not found by pkg-config. "make deps" installs what is missing.' >&2; exit 1)
