# moonpad: the build.
#
#   make            the C library, the Lua module and what embedding hosts link
#   make help       every target
#   make demo       installs what is missing, builds, runs the demonstration
#   make test       installs what is missing, builds, runs every spec and every C test
#
# Nothing is written outside $(BUILD). Another build folder, other flags or another compiler:
#   make BUILD=build-asan SANITIZE=address,undefined CC=gcc CFLAGS="-O1 -g"
# AMALGAMATION=1 builds the libraries and the module of the two files of `make amalgamation`.
# A change of flags or of the list of files rebuilds what depends on it.

BUILD ?= build
CFLAGS ?= -O2 -g
SANITIZE ?=
PTHREAD ?= -pthread
WERROR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
LUA ?= lua5.4
PREFIX ?= /usr/local
DESTDIR ?=
INSTALL ?= install
PKG_CONFIG ?= pkg-config

# Windows, by mingw-w64: modules are DLLs, linked with the Lua that loads them, and export what
# MOONPAD_API says. All code is position-independent there.
WINDOWS := $(if $(findstring mingw,$(shell $(CC) -dumpmachine 2>/dev/null)),yes)
SO := $(if $(WINDOWS),dll,so)

# Where things are installed. Debian's Lua searches the two Lua folders below /usr/local as they
# are.
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
PKGCONFIGDIR ?= $(LIBDIR)/pkgconfig
LUA_LMOD ?= $(PREFIX)/share/lua/5.4
LUA_CMOD ?= $(PREFIX)/lib/lua/5.4
DOCDIR ?= $(PREFIX)/share/doc/moonpad
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions

# ---- Flags: ours first, so that the user's CFLAGS, CPPFLAGS and LDFLAGS have the last word ----

# mingw's isnan() and isfinite() are macros full of casts.
WARNINGS := -Wall -Wextra -Wshadow -Wconversion $(if $(WINDOWS),-Wno-float-conversion) -Wstrict-prototypes -Wvla \
            $(if $(WERROR),-Werror)
SANITIZER := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all)
COMPILE = $(CC) -std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc $(MODULE_CFLAGS) $(CPPFLAGS) \
          $(if $(WINDOWS),-DMOONPAD_EXPORTS,-fPIC -fvisibility=hidden) $(PTHREAD) $(WARNINGS) $(SANITIZER) $(CFLAGS)
LINK = $(CC) $(PTHREAD) $(SANITIZER) $(CFLAGS) $(LDFLAGS)
SYSTEM_LIBS := $(if $(WINDOWS),-lws2_32 -lbcrypt,-lpthread -lm)
LIBS := -lsqlite3 $(SYSTEM_LIBS)

# Asked for only when something is built: `make deps` may not have run yet. `make lib` does without.
LUA_CFLAGS ?= $(shell $(PKG_CONFIG) --cflags lua5.4 2>/dev/null)
LUA_LIBS ?= $(shell $(PKG_CONFIG) --libs lua5.4 2>/dev/null)
LUA_DLL = $(if $(WINDOWS),$(LUA_LIBS))
# For a module that stays loaded once it is. On Windows it sees to that itself (mp_stay_loaded).
STAYS := $(if $(WINDOWS),,-z nodelete)

VERSION := $(shell sed -n 's/^.define MOONPAD_VERSION  *"\(.*\)"/\1/p' include/moonpad.h)
ifdef WINDOWS
SONAME := libmoonpad.dll
NAMED := -Wl,--out-implib,$(BUILD)/$(SONAME).a
else
SONAME := libmoonpad.so.0
NAMED := -Wl,-soname,$(SONAME)
endif

# ---- Files ----

LIBRARY_SOURCES := $(sort $(wildcard src/base/*.c src/core/*.c src/service/*.c src/service/*/*.c \
                   src/store/*.c src/store/memory/*.c src/store/sqlite/*.c))
HEADERS := $(sort $(wildcard include/*.h src/*/*.h src/*/*/*.h))
MODULE_SOURCES := $(sort $(wildcard src/lua/*.c src/lua/*/*.c))
LUA_FILES := $(sort $(shell find lua/moonpad -name '*.lua' 2>/dev/null))
TEST_SOURCES := $(sort $(wildcard spec/c/test_*.c))
# Those that start clusters of servers, for `make check` alone.
CLUSTER_SOURCES := $(sort $(wildcard spec/c/cluster_*.c))
TEST_SUPPORT := $(filter-out $(TEST_SOURCES) $(CLUSTER_SOURCES),$(sort $(wildcard spec/c/*.c)))

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
AMALGAMATED := $(patsubst %,$(BUILD)/amalgamation/%,moonpad.c moonpad.h moonpad_lua.c moonpad_lua.h)
ifdef AMALGAMATION
LIBRARY_OBJECTS := $(call objects,$(BUILD)/amalgamation/moonpad.c)
MODULE_OBJECTS := $(call objects,$(BUILD)/amalgamation/moonpad_lua.c)
else
LIBRARY_OBJECTS := $(call objects,$(LIBRARY_SOURCES))
MODULE_OBJECTS := $(call objects,$(MODULE_SOURCES) $(BUILD)/lua_sources.c)
endif
EXAMPLE_PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard examples/*.c)))
TEST_PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(TEST_SOURCES))
ifdef WITHOUT_SERVERS
TEST_PROGRAMS := $(filter-out $(patsubst %,$(BUILD)/spec/c/test_%, \
                 server% postgres mysql redis% agent_redis agent_servers),$(TEST_PROGRAMS))
endif
CLUSTER_PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(CLUSTER_SOURCES))
SPEC_MODULE := $(BUILD)/spec/slow_store.$(SO)
# What Lua specs need beside moonpad itself: a module, and what a program in the tutorial links.
SPEC_FILES := $(SPEC_MODULE) $(BUILD)/spec/folders.$(SO) $(BUILD)/spec/servers.$(SO) $(BUILD)/whole/libmoonpad_lua.a

LIBRARY := $(BUILD)/libmoonpad.a $(BUILD)/$(SONAME) $(if $(WINDOWS),,$(BUILD)/libmoonpad.so)
MODULE := $(BUILD)/moonpad/core.$(SO) $(BUILD)/libmoonpad_lua.a

# Modules that load when they are used, so that the core does without artifacts and memories,
# libcurl, child processes, a server, a terminal and libedit. Without libcurl there is no HTTP,
# without libevent and http_parser no server, without libedit no editing of lines in the command.
AGENT_STORES_SOURCES := $(sort $(wildcard src/agent_stores/*.c))
HTTP_SOURCES := $(sort $(wildcard src/http/*.c))
PROCESS_SOURCES := $(sort $(wildcard src/process/*.c src/process/$(if $(WINDOWS),windows,posix)/*.c))
SERVER_SOURCES := $(sort $(wildcard src/server/*.c))
CLI_SOURCES := $(sort $(wildcard src/cli/*.c))
EDITLINE_SOURCES := $(sort $(wildcard src/editline/*.c))
# The stores on servers, and what they share.
REMOTE_SOURCES := $(sort $(wildcard src/store/server/*.c))
POSTGRES_SOURCES := $(sort $(wildcard src/store/postgres/*.c))
MYSQL_SOURCES := $(sort $(wildcard src/store/mysql/*.c))
# What Redis runs is Lua, of which the build makes strings of C.
redis_scripts = $(patsubst %.lua,$(BUILD)/%.c,$(sort $(wildcard $(1)/scripts/*.lua)))
REDIS_SOURCES := $(sort $(wildcard src/store/redis/*.c)) $(call redis_scripts,src/store/redis)
# Artifacts and memories on the servers, with what they share.
POSTGRES_AGENT_SOURCES := $(sort $(wildcard src/agent_stores/postgres/*.c))
MYSQL_AGENT_SOURCES := $(sort $(wildcard src/agent_stores/mysql/*.c))
REDIS_AGENT_SOURCES := $(sort $(wildcard src/agent_stores/redis/*.c)) $(call redis_scripts,src/agent_stores/redis)
AGENT_SHARED_SOURCES := $(patsubst %,src/agent_stores/%.c,fts5 lookup lua_server_module matches ranking words)
AGENT_STORES_OBJECTS := $(call objects,$(AGENT_STORES_SOURCES))
HTTP_OBJECTS := $(call objects,$(HTTP_SOURCES))
PROCESS_OBJECTS := $(call objects,$(PROCESS_SOURCES))
SERVER_OBJECTS := $(call objects,$(SERVER_SOURCES))
CLI_OBJECTS := $(call objects,$(CLI_SOURCES))
EDITLINE_OBJECTS := $(call objects,$(EDITLINE_SOURCES))
REMOTE_OBJECTS := $(call objects,$(REMOTE_SOURCES))
POSTGRES_OBJECTS := $(call objects,$(POSTGRES_SOURCES))
MYSQL_OBJECTS := $(call objects,$(MYSQL_SOURCES))
REDIS_OBJECTS := $(call objects,$(REDIS_SOURCES))
POSTGRES_AGENT_OBJECTS := $(call objects,$(POSTGRES_AGENT_SOURCES))
MYSQL_AGENT_OBJECTS := $(call objects,$(MYSQL_AGENT_SOURCES))
REDIS_AGENT_OBJECTS := $(call objects,$(REDIS_AGENT_SOURCES))
AGENT_SHARED_OBJECTS := $(call objects,$(AGENT_SHARED_SOURCES))
CURL_CFLAGS ?= $(shell $(PKG_CONFIG) --cflags libcurl 2>/dev/null)
CURL_LIBS ?= $(shell $(PKG_CONFIG) --libs libcurl 2>/dev/null)
LIBEVENT_CFLAGS ?= $(shell $(PKG_CONFIG) --cflags libevent_core 2>/dev/null)
LIBEVENT_LIBS ?= $(shell $(PKG_CONFIG) --libs libevent_core 2>/dev/null)
# It has no file for pkg-config.
HTTP_PARSER_LIBS ?= $(shell echo '\#include <http_parser.h>' | $(CC) -E - >/dev/null 2>&1 && echo -lhttp_parser)
SERVER_LIBS := $(if $(LIBEVENT_LIBS),$(if $(HTTP_PARSER_LIBS),$(LIBEVENT_LIBS) $(HTTP_PARSER_LIBS)))
EDITLINE_CFLAGS ?= $(shell $(PKG_CONFIG) --cflags libedit 2>/dev/null)
EDITLINE_LIBS ?= $(shell $(PKG_CONFIG) --libs libedit 2>/dev/null)
POSTGRES_CFLAGS ?= $(shell $(PKG_CONFIG) --cflags libpq 2>/dev/null)
POSTGRES_LIBS ?= $(shell $(PKG_CONFIG) --libs libpq 2>/dev/null)
MYSQL_CFLAGS ?= $(shell $(PKG_CONFIG) --cflags libmariadb 2>/dev/null)
MYSQL_LIBS ?= $(shell $(PKG_CONFIG) --libs libmariadb 2>/dev/null)
# hiredis has TLS since 1.0, in a library of its own.
REDIS_TLS := $(shell $(PKG_CONFIG) --exists hiredis_ssl openssl 2>/dev/null && echo hiredis_ssl openssl)
REDIS_CFLAGS ?= $(shell $(PKG_CONFIG) --cflags hiredis $(REDIS_TLS) 2>/dev/null) $(if $(REDIS_TLS),-DMP_REDIS_TLS)
REDIS_LIBS ?= $(strip $(shell $(PKG_CONFIG) --libs hiredis $(REDIS_TLS) 2>/dev/null))
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
OPTIONAL_NAMES := agent_stores_core cli_core process_core $(if $(CURL_LIBS),http_core) \
                  $(if $(SERVER_LIBS),server_core) $(if $(EDITLINE_LIBS),editline_core) \
                  $(if $(POSTGRES_LIBS),postgres postgres_agent_stores) \
                  $(if $(MYSQL_LIBS),mysql mysql_agent_stores) $(if $(REDIS_LIBS),redis redis_agent_stores)
OPTIONAL := $(OPTIONAL_NAMES:%=$(BUILD)/moonpad/%.$(SO))
STORE_LIBRARIES := $(if $(POSTGRES_LIBS),$(BUILD)/whole/libmoonpad_postgres.a) \
                   $(if $(MYSQL_LIBS),$(BUILD)/whole/libmoonpad_mysql.a) \
                   $(if $(REDIS_LIBS),$(BUILD)/whole/libmoonpad_redis.a)

# `make V=1` shows the commands themselves.
Q := $(if $(V),,@)
say = @$(if $(V),:,printf '  %-8s %s\n')

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all lib amalgamation web examples tests test-programs clusters objects fuzzers demo test test-lua \
        test-c check platforms fuzz soak format deps bench clean help reference have-lua FORCE \
        left-out install install-lib install-lua install-doc uninstall

# ---- What users ask for ----

all: lib $(MODULE) $(OPTIONAL) $(STORE_LIBRARIES) left-out ## the C library and the Lua module (the default)

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

lib: $(LIBRARY) ## the C library alone: needs no Lua

examples: $(EXAMPLE_PROGRAMS) ## builds the examples in C

tests: $(MODULE) $(OPTIONAL) $(TEST_PROGRAMS) $(SPEC_FILES) examples ## builds all that the tests need, runs nothing

# SKIPPED_TESTS="test_threads ...": without these.
test-programs: $(filter-out $(SKIPPED_TESTS:%=$(BUILD)/spec/c/%),$(TEST_PROGRAMS))

clusters: $(CLUSTER_PROGRAMS)

# For warnings alone, of what this system compiles: nothing is linked but the examples.
objects: $(call objects,$(filter-out src/process/windows/% src/fetch/%,$(sort $(wildcard src/*/*.c src/*/*/*.c)))) \
         $(call objects,$(sort $(wildcard spec/c/*.c spec/support/*.c))) $(REDIS_OBJECTS) \
         $(REDIS_AGENT_OBJECTS) $(call objects,$(BUILD)/lua_sources.c) $(EXAMPLE_PROGRAMS)

# `demo` and `test` start make once more after `deps`, so that what was just installed is seen by
# the build.
demo: deps ## installs what is missing, builds, runs the demonstration on SQLite (STORE=postgresql|mysql|redis: there)
	@echo 'Building moonpad in $(BUILD)/'
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@scripts/demo.sh -b $(BUILD) $(if $(STORE),-s '$(STORE)')

test: deps ## installs what is missing, builds, and runs every spec and every C test
	@echo 'Building moonpad and its tests in $(BUILD)/'
	@$(MAKE) --no-print-directory -j$(JOBS) all tests || { echo 'The build failed: no test was run.'; exit 1; }
	@JOBS=$(JOBS) scripts/run_tests.sh -b $(BUILD) -l test lua c; scripts/total.sh $(BUILD)/test-results test

test-lua: all $(SPEC_FILES) ## runs the Lua specs alone
	@JOBS=$(JOBS) scripts/run_tests.sh -b $(BUILD) -l test lua; scripts/total.sh $(BUILD)/test-results test-lua

test-c: tests ## runs the C tests alone
	@JOBS=$(JOBS) scripts/run_tests.sh -b $(BUILD) -l test c; scripts/total.sh $(BUILD)/test-results test-c

check: ## installs what is missing; warnings, lint, sanitizers, valgrind, installation (MOONPAD_TURN=all: whole)
	@scripts/deps.sh check
	@BUILD=$(BUILD) JOBS=$(JOBS) scripts/check.sh

fuzz: ## feeds random input to the fuzz targets: TARGET=json RUNS=1000000, or TIME=600 (seconds, of each)
	@scripts/deps.sh check
	@BUILD=$(BUILD) JOBS=$(JOBS) scripts/fuzz.sh \
		$(if $(TIME),-t $(TIME) $(if $(RUNS),-r $(RUNS)),-r $(or $(RUNS),1000000)) $(TARGET)

platforms: ## builds for other systems and machines, and runs C tests and Lua specs there: NAMES="musl armhf"
	@scripts/deps.sh platforms
	@BUILD=$(BUILD) JOBS=$(JOBS) scripts/platforms.sh $(NAMES)

soak: all tests ## all of `check` whole, then goes on with random tests, faults and fuzzing: make soak MINUTES=60
	@scripts/deps.sh check
	@JOBS=$(JOBS) scripts/soak.sh -b $(BUILD) -m $(or $(MINUTES),60)

format: ## formats all C files in place
	@find include src spec bench examples -name '*.[ch]' | xargs clang-format -i

deps: ## installs the Debian packages that are missing
	@scripts/deps.sh

bench: all ## measures moonpad against the least that the same work can cost, in one run
	@bench/run.sh -b $(BUILD)

reference: ## makes docs/reference.md of the annotations in the Lua files
	@$(LUA) scripts/reference.lua > docs/reference.md.new && mv docs/reference.md.new docs/reference.md

clean: ## removes the build folder
	rm -rf $(BUILD)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# ---- Objects ----

# Two files that change only when what they hold changes: what is built with other flags, or from
# other files, is built again. MODULE_CFLAGS are `private` below, so that $(BUILD)/flags does not
# have those of whichever object asks for it first.
define remember
	@mkdir -p $(@D)
	@printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' > $@
endef

$(BUILD)/flags: FORCE
	$(call remember,$(COMPILE) | $(LUA_CFLAGS) | $(CURL_CFLAGS) | $(LIBEVENT_CFLAGS) | \
		$(POSTGRES_CFLAGS) | $(MYSQL_CFLAGS) | $(REDIS_CFLAGS) | $(TEST_CFLAGS) | $(LINK))

$(BUILD)/sources: FORCE
	$(call remember,$(LIBRARY_SOURCES) | $(MODULE_SOURCES) | $(AGENT_STORES_SOURCES) | $(HTTP_SOURCES) | \
		$(PROCESS_SOURCES) | $(SERVER_SOURCES) | $(CLI_SOURCES) | $(EDITLINE_SOURCES) | \
		$(REMOTE_SOURCES) | $(POSTGRES_SOURCES) | $(POSTGRES_AGENT_SOURCES) | $(MYSQL_SOURCES) | \
		$(MYSQL_AGENT_SOURCES) | $(REDIS_SOURCES) | $(REDIS_AGENT_SOURCES) | $(TEST_SUPPORT))

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

# The Lua files as C arrays, for hosts that carry them inside. The script leaves the file alone when
# nothing changed.
$(BUILD)/lua_sources.c: scripts/embed_lua.lua $(LUA_FILES) FORCE
	@mkdir -p $(@D)
	@$(LUA) scripts/embed_lua.lua $@ lua $(LUA_FILES)

# ---- Two files for hosts that take moonpad into their own build: docs/embedding.md ----

# Artifacts and memories, which elsewhere are a module of their own, are inside the second; so is
# HTTP for a page. What is there under a condition comes last: all that it includes is there before.
$(BUILD)/amalgamation/moonpad.c: $(LIBRARY_SOURCES)
$(BUILD)/amalgamation/moonpad_lua.c: $(MODULE_SOURCES) $(BUILD)/lua_sources.c \
	$(filter-out %/lua_server_module.c,$(AGENT_STORES_SOURCES)) src/http/module.c src/fetch/client.c
$(BUILD)/amalgamation/%.c: scripts/amalgamate.lua $(HEADERS) $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) JOIN $@
	$(Q)$(LUA) scripts/amalgamate.lua $@ $(filter %.c,$^)

$(BUILD)/amalgamation/%.h: include/%.h
	@mkdir -p $(@D)
	@cp $< $@

# What is local to one file there may shadow what is local to another.
$(BUILD)/obj/$(BUILD)/amalgamation/%.o: private WARNINGS = -Wall -Wextra $(if $(WERROR),-Werror)

amalgamation: $(AMALGAMATED) ## moonpad in two C files and two headers, in $(BUILD)/amalgamation

web: $(AMALGAMATED) ## the page of examples/web in $(BUILD)/web, by emcc: docs/embedding.md
	@BUILD=$(BUILD) JOBS=$(JOBS) scripts/web.sh

# SCRIPT.lua becomes the string mp_redis_lua_SCRIPT.
$(BUILD)/%.c: %.lua $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q){ echo '#include "store/redis/scripts.h"'; echo 'const char mp_redis_lua_$(*F)[] ='; \
		sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $<; echo ';'; } >$@

$(MODULE_OBJECTS) $(AGENT_STORES_OBJECTS) $(PROCESS_OBJECTS) $(CLI_OBJECTS): private MODULE_CFLAGS = $(LUA_CFLAGS)
$(BUILD)/obj/spec/c/test_lua_%.o: private MODULE_CFLAGS = $(LUA_CFLAGS) $(TEST_CFLAGS)
$(BUILD)/obj/spec/c/%.o: private MODULE_CFLAGS = $(TEST_CFLAGS)
$(BUILD)/obj/spec/c/server_support.o: private MODULE_CFLAGS = $(POSTGRES_CFLAGS)
$(BUILD)/obj/spec/c/mysql_support.o: private MODULE_CFLAGS = $(MYSQL_CFLAGS)
$(BUILD)/obj/spec/c/test_redis_hosts.o $(BUILD)/obj/spec/c/redis_support.o: private MODULE_CFLAGS = $(REDIS_CFLAGS)
$(HTTP_OBJECTS): private MODULE_CFLAGS = $(LUA_CFLAGS) $(CURL_CFLAGS)
$(SERVER_OBJECTS): private MODULE_CFLAGS = $(LUA_CFLAGS) $(LIBEVENT_CFLAGS)
$(EDITLINE_OBJECTS): private MODULE_CFLAGS = $(LUA_CFLAGS) $(EDITLINE_CFLAGS)
$(POSTGRES_OBJECTS): private MODULE_CFLAGS = $(POSTGRES_CFLAGS)
$(MYSQL_OBJECTS): private MODULE_CFLAGS = $(MYSQL_CFLAGS)
$(REDIS_OBJECTS): private MODULE_CFLAGS = $(REDIS_CFLAGS)
$(POSTGRES_AGENT_OBJECTS): private MODULE_CFLAGS = $(LUA_CFLAGS) $(POSTGRES_CFLAGS)
$(MYSQL_AGENT_OBJECTS): private MODULE_CFLAGS = $(LUA_CFLAGS) $(MYSQL_CFLAGS)
$(REDIS_AGENT_OBJECTS): private MODULE_CFLAGS = $(LUA_CFLAGS) $(REDIS_CFLAGS)
$(BUILD)/obj/src/store_modules/%.o: private MODULE_CFLAGS = $(LUA_CFLAGS)
$(MODULE_OBJECTS) $(AGENT_STORES_OBJECTS) $(CLI_OBJECTS) $(HTTP_OBJECTS) $(PROCESS_OBJECTS) $(SERVER_OBJECTS) \
	$(EDITLINE_OBJECTS): | have-lua

have-lua:
	@test -n "$(LUA_CFLAGS)" || \
		{ echo 'Lua 5.4 was not found by pkg-config. "make deps" installs what is missing.' >&2; exit 1; }

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# ---- The C library ----

$(BUILD)/libmoonpad.a: $(LIBRARY_OBJECTS) $(BUILD)/sources
	$(say) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $(LIBRARY_OBJECTS)

# The sanitizers' own symbols come with the program, so only a plain build can insist on having
# every symbol.
$(BUILD)/$(SONAME): $(LIBRARY_OBJECTS) $(BUILD)/sources
	$(say) LINK $@
	$(Q)$(LINK) -shared $(NAMED) $(if $(SANITIZE),,-Wl,--no-undefined) -o $@ $(LIBRARY_OBJECTS) $(LIBS)

$(BUILD)/libmoonpad.so: $(BUILD)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

# ---- The Lua module ----

# It holds the library and is not linked with liblua: the Lua that loads it brings its own.
$(BUILD)/moonpad/core.$(SO): $(MODULE_OBJECTS) $(LIBRARY_OBJECTS) $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $(MODULE_OBJECTS) $(LIBRARY_OBJECTS) $(LUA_DLL) $(LIBS)

$(BUILD)/libmoonpad_lua.a: $(MODULE_OBJECTS) $(BUILD)/sources
	$(say) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $(MODULE_OBJECTS)

# The same with the C library, artifacts and memories inside, as it is installed: build systems that
# sort libraries as they like, as CMake does, have nothing to sort.
WHOLE_OBJECTS := $(LIBRARY_OBJECTS) $(if $(AMALGAMATION),$(MODULE_OBJECTS),$(BUILD)/obj/whole/embed.o \
                 $(filter-out %/src/lua/embed.o,$(MODULE_OBJECTS)) $(AGENT_STORES_OBJECTS))
$(BUILD)/obj/whole/embed.o: src/lua/embed.c $(BUILD)/flags | have-lua
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(COMPILE) $(LUA_CFLAGS) -DMOONPAD_AGENT_STORES_INSIDE -MMD -MP -c -o $@ $<

$(BUILD)/whole/libmoonpad_lua.a: $(WHOLE_OBJECTS) $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $(WHOLE_OBJECTS)

# It brings what it needs of the library, as the core does, so that neither needs the other's
# symbols.
$(BUILD)/moonpad/agent_stores_core.$(SO): $(AGENT_STORES_OBJECTS) $(BUILD)/libmoonpad.a $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $(AGENT_STORES_OBJECTS) $(BUILD)/libmoonpad.a -Wl,--exclude-libs,ALL $(LUA_DLL) $(LIBS)

# It stays loaded once it is: libcurl's threads may outlive the Lua state that opened it.
$(BUILD)/moonpad/http_core.$(SO): $(HTTP_OBJECTS) $(BUILD)/libmoonpad.a $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared $(STAYS) -o $@ $(HTTP_OBJECTS) $(BUILD)/libmoonpad.a \
		-Wl,--exclude-libs,ALL $(CURL_LIBS) $(LUA_DLL) $(LIBS)

# So does this one: a thread that waits for the end of a child may outlive the Lua state.
$(BUILD)/moonpad/process_core.$(SO): $(PROCESS_OBJECTS) $(BUILD)/libmoonpad.a $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared $(STAYS) -o $@ $(PROCESS_OBJECTS) $(BUILD)/libmoonpad.a \
		-Wl,--exclude-libs,ALL $(LUA_DLL) $(LIBS)

$(BUILD)/moonpad/server_core.$(SO): $(SERVER_OBJECTS) $(BUILD)/libmoonpad.a $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $(SERVER_OBJECTS) $(BUILD)/libmoonpad.a -Wl,--exclude-libs,ALL \
		$(SERVER_LIBS) $(LUA_DLL) $(LIBS)

$(BUILD)/moonpad/cli_core.$(SO): $(CLI_OBJECTS) $(BUILD)/libmoonpad.a $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $(CLI_OBJECTS) $(BUILD)/libmoonpad.a -Wl,--exclude-libs,ALL $(LUA_DLL) $(LIBS)

$(BUILD)/moonpad/editline_core.$(SO): $(EDITLINE_OBJECTS) $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $(EDITLINE_OBJECTS) $(EDITLINE_LIBS) $(LUA_DLL)

# It stays loaded, like the two above: its functions belong to services that may outlive a Lua
# state.
$(BUILD)/moonpad/postgres.$(SO): $(POSTGRES_OBJECTS) $(REMOTE_OBJECTS) $(BUILD)/obj/src/store_modules/postgres.o \
		$(BUILD)/libmoonpad.a $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared $(STAYS) -o $@ $(filter %.o %.a,$^) -Wl,--exclude-libs,ALL $(POSTGRES_LIBS) $(LUA_DLL) $(LIBS)

$(BUILD)/moonpad/postgres_agent_stores.$(SO): $(POSTGRES_AGENT_OBJECTS) $(AGENT_SHARED_OBJECTS) $(POSTGRES_OBJECTS) \
		$(REMOTE_OBJECTS) $(BUILD)/libmoonpad.a $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared $(STAYS) -o $@ $(filter %.o %.a,$^) -Wl,--exclude-libs,ALL $(POSTGRES_LIBS) $(LUA_DLL) $(LIBS)

$(BUILD)/moonpad/mysql.$(SO): $(MYSQL_OBJECTS) $(REMOTE_OBJECTS) $(BUILD)/obj/src/store_modules/mysql.o \
		$(BUILD)/libmoonpad.a $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared $(STAYS) -o $@ $(filter %.o %.a,$^) -Wl,--exclude-libs,ALL $(MYSQL_LIBS) $(LUA_DLL) $(LIBS)

$(BUILD)/moonpad/mysql_agent_stores.$(SO): $(MYSQL_AGENT_OBJECTS) $(AGENT_SHARED_OBJECTS) $(MYSQL_OBJECTS) \
		$(REMOTE_OBJECTS) $(BUILD)/libmoonpad.a $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared $(STAYS) -o $@ $(filter %.o %.a,$^) -Wl,--exclude-libs,ALL $(MYSQL_LIBS) $(LUA_DLL) $(LIBS)

$(BUILD)/moonpad/redis.$(SO): $(REDIS_OBJECTS) $(REMOTE_OBJECTS) $(BUILD)/obj/src/store_modules/redis.o \
		$(BUILD)/libmoonpad.a $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared $(STAYS) -o $@ $(filter %.o %.a,$^) -Wl,--exclude-libs,ALL $(REDIS_LIBS) $(LUA_DLL) $(LIBS)

$(BUILD)/moonpad/redis_agent_stores.$(SO): $(REDIS_AGENT_OBJECTS) $(AGENT_SHARED_OBJECTS) $(REDIS_OBJECTS) \
		$(REMOTE_OBJECTS) $(BUILD)/libmoonpad.a $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared $(STAYS) -o $@ $(filter %.o %.a,$^) -Wl,--exclude-libs,ALL $(REDIS_LIBS) $(LUA_DLL) $(LIBS)

# For hosts in C, with the C library inside.
$(BUILD)/whole/libmoonpad_postgres.a: $(POSTGRES_OBJECTS)
$(BUILD)/whole/libmoonpad_mysql.a: $(MYSQL_OBJECTS)
$(BUILD)/whole/libmoonpad_redis.a: $(REDIS_OBJECTS)
$(BUILD)/whole/libmoonpad_postgres.a $(BUILD)/whole/libmoonpad_mysql.a $(BUILD)/whole/libmoonpad_redis.a: \
		$(REMOTE_OBJECTS) $(LIBRARY_OBJECTS) $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

# ---- C tests: one program for each spec/c/test_*.c and spec/c/cluster_*.c ----

# Those that embed Lua are called test_lua_*, those of src/agent_stores test_agent_*. The one of
# src/process is test_process, that of src/server test_server.

# They run on the servers, too, or WITHOUT_SERVERS=1 on those stores alone that need no library of
# others. TEST_PORT: C files, TEST_CFLAGS: flags, that tests need on another system.
SERVER_SUPPORT := $(patsubst %,spec/c/%.c,link linked mysql_support redis_support server_faults server_support)
ifdef WITHOUT_SERVERS
TEST_OBJECTS := $(call objects,$(filter-out $(SERVER_SUPPORT),$(TEST_SUPPORT)) spec/support/no_servers.c)
TEST_OBJECTS += $(call objects,$(TEST_PORT))
TEST_LIBS := -lcmocka
else
TEST_OBJECTS := $(call objects,$(TEST_SUPPORT)) $(POSTGRES_OBJECTS) $(MYSQL_OBJECTS) $(REDIS_OBJECTS) \
                $(REMOTE_OBJECTS)
TEST_LIBS := $(POSTGRES_LIBS) $(MYSQL_LIBS) $(REDIS_LIBS) -lcmocka
endif
SERVER_AGENT_OBJECTS := $(if $(POSTGRES_LIBS),$(POSTGRES_AGENT_OBJECTS)) $(if $(MYSQL_LIBS),$(MYSQL_AGENT_OBJECTS)) \
                        $(if $(REDIS_LIBS),$(REDIS_AGENT_OBJECTS))

$(BUILD)/spec/c/test_lua_%: $(BUILD)/obj/spec/c/test_lua_%.o $(TEST_OBJECTS) $(BUILD)/libmoonpad_lua.a \
		$(BUILD)/libmoonpad.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -Wl,-E -o $@ $(filter %.o %.a,$^) $(TEST_LIBS) $(LUA_LIBS) $(LIBS)

$(BUILD)/spec/c/test_lua_agent_stores: $(SERVER_AGENT_OBJECTS) $(if $(AMALGAMATION),\
	$(call objects,src/agent_stores/lua_server_module.c),$(AGENT_STORES_OBJECTS))
$(BUILD)/spec/c/test_process: $(filter-out %/module.o,$(PROCESS_OBJECTS))
$(BUILD)/spec/c/test_server: $(filter-out %/module.o,$(SERVER_OBJECTS))
$(BUILD)/spec/c/test_server: private LIBS += $(SERVER_LIBS)

$(BUILD)/spec/c/test_agent_%: $(BUILD)/obj/spec/c/test_agent_%.o $(TEST_OBJECTS) $(AGENT_STORES_OBJECTS) \
		$(SERVER_AGENT_OBJECTS) $(BUILD)/libmoonpad.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -o $@ $(filter-out %/module.o $(BUILD)/obj/src/agent_stores/lua_%,$(filter %.o %.a,$^)) \
		$(TEST_LIBS) $(LIBS)

$(BUILD)/spec/c/%: $(BUILD)/obj/spec/c/%.o $(TEST_OBJECTS) $(BUILD)/libmoonpad.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) $(LIBS)

# ---- What Lua specs and benches load beside the module: a store behind a slow link ----

$(BUILD)/obj/spec/support/slow_store.o: private MODULE_CFLAGS = $(LUA_CFLAGS) $(TEST_CFLAGS)

$(SPEC_MODULE): $(BUILD)/obj/spec/support/slow_store.o $(BUILD)/obj/spec/c/slow_store.o $(BUILD)/libmoonpad.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $^ -Wl,--exclude-libs,ALL $(LUA_DLL) $(LIBS)

$(BUILD)/obj/spec/support/folders.o: private MODULE_CFLAGS = $(LUA_CFLAGS)

$(BUILD)/spec/folders.$(SO): $(BUILD)/obj/spec/support/folders.o $(BUILD)/libmoonpad.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $^ -Wl,--exclude-libs,ALL $(LUA_DLL) $(LIBS)

# The shell that specs ask where Windows is wine, and on WebAssembly.
$(BUILD)/obj/spec/platforms/shell.o: private MODULE_CFLAGS = $(LUA_CFLAGS)

$(BUILD)/spec/shell.$(SO): $(BUILD)/obj/spec/platforms/shell.o
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $^ $(LUA_DLL)

# Places on the servers, for specs: build/spec/servers.so is `require "spec.servers"`. It stays
# loaded: what libmariadb keeps for the whole process would be lost with the library.
$(BUILD)/obj/spec/support/servers.o: private MODULE_CFLAGS = $(LUA_CFLAGS)

$(BUILD)/spec/servers.$(SO): $(BUILD)/obj/spec/support/servers.o $(BUILD)/obj/spec/c/server_support.o \
		$(BUILD)/obj/spec/c/mysql_support.o $(BUILD)/obj/spec/c/redis_support.o
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared $(STAYS) -o $@ $^ $(POSTGRES_LIBS) $(MYSQL_LIBS) $(REDIS_LIBS) $(LUA_DLL)

# ---- A Lua with all in C inside that specs load, for scripts/platforms.sh ----

# LUA_LIBS there holds Lua's main program, lua.c, and the modules of others as well.
LUA_PROGRAM_OBJECTS := $(call objects,spec/platforms/modules.c spec/platforms/shell.c spec/support/folders.c \
                       spec/support/slow_store.c spec/c/slow_store.c)
$(BUILD)/obj/spec/platforms/modules.o: private MODULE_CFLAGS = $(LUA_CFLAGS)

$(BUILD)/lua5.4: $(LUA_PROGRAM_OBJECTS) $(AGENT_STORES_OBJECTS) $(CLI_OBJECTS) $(PROCESS_OBJECTS) \
		$(BUILD)/libmoonpad_lua.a $(BUILD)/libmoonpad.a
	$(say) LINK $@
	$(Q)$(LINK) -Wl,--wrap=luaL_openlibs -o $@ $(filter %.o %.a,$^) $(LUA_LIBS) $(LIBS)

# ---- Fuzz targets: one program for each spec/fuzz/fuzz_*.c ----

# It wants CC=clang SANITIZE=fuzzer-no-link,... (scripts/fuzz.sh).

FUZZERS := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard spec/fuzz/fuzz_*.c)))

fuzzers: $(FUZZERS)

$(BUILD)/obj/spec/fuzz/%.o: private MODULE_CFLAGS = $(LUA_CFLAGS)

$(BUILD)/spec/fuzz/%: $(BUILD)/obj/spec/fuzz/%.o $(BUILD)/libmoonpad_lua.a $(BUILD)/libmoonpad.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -fsanitize=fuzzer -Wl,-E -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LUA_LIBS) $(LIBS)
$(BUILD)/spec/fuzz/fuzz_request: $(filter-out %/module.o,$(SERVER_OBJECTS))
$(BUILD)/spec/fuzz/fuzz_request: private LIBS += $(SERVER_LIBS)

# As a user builds them: with the public headers alone. The one that embeds Lua is linked with it.
$(BUILD)/examples/tavern: examples/tavern.c $(BUILD)/libmoonpad_lua.a $(BUILD)/libmoonpad.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -std=c11 -Iinclude $(LUA_CFLAGS) $(PTHREAD) $(WARNINGS) $(SANITIZER) $(CFLAGS) -Wl,-E -o $@ $< \
		$(BUILD)/libmoonpad_lua.a $(BUILD)/libmoonpad.a $(LUA_LIBS) $(LIBS)

$(BUILD)/examples/%: examples/%.c $(BUILD)/libmoonpad.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude $(PTHREAD) $(WARNINGS) $(SANITIZER) $(CFLAGS) -o $@ $< \
		$(BUILD)/libmoonpad.a $(LIBS)

# ---- Installation ----

install: install-lib install-lua install-doc ## installs below $(DESTDIR)$(PREFIX)
	@scripts/after_install.sh '$(DESTDIR)' '$(PREFIX)' '$(LIBDIR)' '$(LUA_LMOD)' '$(LUA_CMOD)' '$(BINDIR)'

# A pkg-config file from its template.
pc = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
         -e 's|@VERSION@|$(VERSION)|' -e 's|@REDIS_TLS@|$(REDIS_TLS)|' -e 's|@LIBS@|$(SYSTEM_LIBS)|' \
         moonpad$(1).pc.in \
         > '$(DESTDIR)$(PKGCONFIGDIR)/moonpad$(1).pc'

install-lib: lib $(BUILD)/whole/libmoonpad_lua.a $(STORE_LIBRARIES) ## the headers, libraries and pkg-config files alone
	@echo "Installing headers and libraries: $(DESTDIR)$(INCLUDEDIR), $(DESTDIR)$(LIBDIR)"
	@$(INSTALL) -d '$(DESTDIR)$(INCLUDEDIR)' '$(DESTDIR)$(LIBDIR)' '$(DESTDIR)$(PKGCONFIGDIR)'
	@$(INSTALL) -m 644 include/*.h '$(DESTDIR)$(INCLUDEDIR)'
	@$(INSTALL) -m 644 $(BUILD)/libmoonpad.a $(BUILD)/whole/libmoonpad_lua.a $(STORE_LIBRARIES) '$(DESTDIR)$(LIBDIR)'
ifdef WINDOWS
	@$(INSTALL) -d '$(DESTDIR)$(BINDIR)'
	@$(INSTALL) -m 755 $(BUILD)/$(SONAME) '$(DESTDIR)$(BINDIR)'
	@$(INSTALL) -m 644 $(BUILD)/$(SONAME).a '$(DESTDIR)$(LIBDIR)'
else
	@$(INSTALL) -m 755 $(BUILD)/$(SONAME) '$(DESTDIR)$(LIBDIR)/libmoonpad.so.$(VERSION)'
	@ln -sf libmoonpad.so.$(VERSION) '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	@ln -sf $(SONAME) '$(DESTDIR)$(LIBDIR)/libmoonpad.so'
endif
	@$(call pc,)
	@$(call pc,-lua)
	@$(INSTALL) -d '$(DESTDIR)$(LIBDIR)/cmake/moonpad'
	@for file in moonpadConfig moonpadConfigVersion; do \
		sed -e 's|@VERSION@|$(VERSION)|' -e 's/@THREADS@\|@SQLITE@/ON/' $$file.cmake.in \
			> '$(DESTDIR)$(LIBDIR)/cmake/moonpad'/$$file.cmake || exit 1; done
	@$(if $(POSTGRES_LIBS),$(call pc,-postgres))
	@$(if $(MYSQL_LIBS),$(call pc,-mysql))
	@$(if $(REDIS_LIBS),$(call pc,-redis))

install-lua: $(BUILD)/moonpad/core.$(SO) $(OPTIONAL) left-out ## the Lua module and the moonpad command alone
	@echo "Installing the Lua module and the command: $(DESTDIR)$(LUA_LMOD), $(DESTDIR)$(LUA_CMOD), $(DESTDIR)$(BINDIR)"
	@$(INSTALL) -d '$(DESTDIR)$(LUA_CMOD)/moonpad' '$(DESTDIR)$(BINDIR)'
	@$(INSTALL) -m 755 $(BUILD)/moonpad/core.$(SO) $(OPTIONAL) '$(DESTDIR)$(LUA_CMOD)/moonpad'
	@for file in $(LUA_FILES:lua/%=%); do $(INSTALL) -D -m 644 lua/$$file '$(DESTDIR)$(LUA_LMOD)'/$$file || exit 1; done
	@$(INSTALL) -m 755 bin/moonpad $(if $(WINDOWS),bin/moonpad.cmd) '$(DESTDIR)$(BINDIR)'

# The completion is what the command itself says; without argparse there is none, and no command.
install-doc: all ## the documentation, the licence, the examples and the completion for bash alone
	@echo "Installing documentation and examples: $(DESTDIR)$(DOCDIR)"
	@$(INSTALL) -d '$(DESTDIR)$(DOCDIR)/docs' '$(DESTDIR)$(DOCDIR)/examples' '$(DESTDIR)$(COMPLETIONDIR)'
	@$(INSTALL) -m 644 README.md CHANGELOG.md LICENSE '$(DESTDIR)$(DOCDIR)'
	@$(INSTALL) -m 644 docs/* '$(DESTDIR)$(DOCDIR)/docs'
	@$(INSTALL) -m 644 examples/*.c examples/*.cpp examples/*.lua examples/*.txt '$(DESTDIR)$(DOCDIR)/examples'
	@for file in examples/cmake/*/CMakeLists.txt; do \
		$(INSTALL) -D -m 644 $$file '$(DESTDIR)$(DOCDIR)'/$$file || exit 1; done
	@$(INSTALL) -d '$(DESTDIR)$(DOCDIR)/examples/web'
	@$(INSTALL) -m 644 examples/web/* '$(DESTDIR)$(DOCDIR)/examples/web'
	@MOONPAD_BUILD='$(abspath $(BUILD))' bin/moonpad completion bash > '$(DESTDIR)$(COMPLETIONDIR)/moonpad' || \
		rm -f '$(DESTDIR)$(COMPLETIONDIR)/moonpad'

uninstall: ## removes what `make install` with the same variables has put there
	rm -f $(patsubst include/%,'$(DESTDIR)$(INCLUDEDIR)/%',$(wildcard include/*.h))
	rm -f '$(DESTDIR)$(LIBDIR)/libmoonpad.a' '$(DESTDIR)$(LIBDIR)/libmoonpad_lua.a' '$(DESTDIR)$(LIBDIR)/libmoonpad.so' \
	      '$(DESTDIR)$(LIBDIR)/$(SONAME)' '$(DESTDIR)$(LIBDIR)/libmoonpad.so.$(VERSION)'
	rm -f '$(DESTDIR)$(LIBDIR)/libmoonpad_postgres.a' '$(DESTDIR)$(PKGCONFIGDIR)/moonpad-postgres.pc' \
	      '$(DESTDIR)$(LIBDIR)/libmoonpad_mysql.a' '$(DESTDIR)$(PKGCONFIGDIR)/moonpad-mysql.pc' \
	      '$(DESTDIR)$(LIBDIR)/libmoonpad_redis.a' '$(DESTDIR)$(PKGCONFIGDIR)/moonpad-redis.pc'
	rm -f '$(DESTDIR)$(PKGCONFIGDIR)/moonpad.pc' '$(DESTDIR)$(PKGCONFIGDIR)/moonpad-lua.pc' '$(DESTDIR)$(BINDIR)/moonpad'
ifdef WINDOWS
	rm -f '$(DESTDIR)$(BINDIR)/$(SONAME)' '$(DESTDIR)$(LIBDIR)/$(SONAME).a' '$(DESTDIR)$(BINDIR)/moonpad.cmd'
endif
	rm -rf '$(DESTDIR)$(LIBDIR)/cmake/moonpad'
	rm -rf '$(DESTDIR)$(LUA_LMOD)/moonpad' '$(DESTDIR)$(LUA_CMOD)/moonpad' '$(DESTDIR)$(DOCDIR)'
	rm -f '$(DESTDIR)$(COMPLETIONDIR)/moonpad'
