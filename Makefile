# moonpad: the build.
#
#   make            the C library, the Lua module and what embedding hosts link
#   make help       every target
#   make demo       installs what is missing, builds, runs the demonstration
#   make test       installs what is missing, builds, runs the specs and C tests
#   make quick      in a minute something of all of them (CONTRIBUTING.md has the rest)
#
# Nothing is written outside $(BUILD). Another build folder, other flags or another compiler:
#   make BUILD=build-asan SANITIZE=address,undefined CC=gcc CFLAGS="-O1 -g"
# AMALGAMATION=1 builds the libraries and the module of the two files of `make amalgamation`.
# A change of flags or of the list of files rebuilds what depends on it.
#
# This file: what users ask for and what all of the build goes by; the rules are in make/:
#   system.mk   what this system has          modules.mk    what loads when it is used, and stores
#   library.mk  the C library, the Lua core   tests.mk      tests, fuzz targets, examples
#   install.mk  installing and removing       platforms.mk  two files, a page, other systems

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

# No rules but ours: looking for others takes longer than all else when nothing is to be done.
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:

include make/system.mk

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

LUA_DLL = $(if $(WINDOWS),$(LUA_LIBS))

ifdef WINDOWS
SONAME := libmoonpad.dll
NAMED := -Wl,--out-implib,$(BUILD)/$(SONAME).a
else
SONAME := libmoonpad.so.0
NAMED := -Wl,-soname,$(SONAME)
endif

# `make V=1` shows the commands themselves.
Q := $(if $(V),,@)
say = @$(if $(V),:,printf '  %-8s %s\n')

# $(call remember,FILE,VARIABLE): a file that changes only when the variable does.
define remember
ifneq ($$(file <$(1)),$$($(2)))
$(1): FORCE
endif
$(1):
	@mkdir -p $$(@D)
	@printf '%s\n' '$$(subst ','\'',$$($(2)))' > $$@
endef

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all lib amalgamation web examples tests test-programs clusters objects fuzzers demo quick test \
        test-all busy check platforms fuzz soak format deps bench clean help reference have-lua FORCE \
        left-out install install-lib install-lua install-doc uninstall

include make/library.mk make/modules.mk make/tests.mk make/platforms.mk make/install.mk

# What is built with other flags, or from other files, is built again.
FLAGS := $(COMPILE) | $(LUA_CFLAGS) | $(CURL_CFLAGS) | $(LIBEVENT_CFLAGS) | $(EDITLINE_CFLAGS) | $(POSTGRES_CFLAGS) | \
         $(MYSQL_CFLAGS) | $(REDIS_CFLAGS) | $(TEST_CFLAGS) | $(LINK)
SOURCES := $(LIBRARY_SOURCES) $(CORE_SOURCES) $(PART_SOURCES) $(TEST_SUPPORT)
$(eval $(call remember,$(BUILD)/flags,FLAGS))
$(eval $(call remember,$(BUILD)/sources,SOURCES))
$(eval $(call remember,$(BUILD)/lua_files,LUA_FILES))

# ---- What users ask for ----

all: lib $(CORE) $(MODULES) $(STORE_LIBRARIES) left-out ## the C library and the Lua module (the default)

lib: $(LIBRARY) ## the C library alone: needs no Lua

examples: $(EXAMPLE_PROGRAMS) ## builds the examples in C

tests: $(CORE) $(MODULES) $(TEST_PROGRAMS) $(SPEC_FILES) examples ## builds all that the tests need, runs nothing

# `demo` and `test` start make once more after scripts/deps.sh, so that what was just installed is
# seen by the build.

# The demonstration is there to be seen soon: what it runs is built of two files, without
# optimization, in a folder of its own. With the objects and flags of `make` it takes four times as
# long.
DEMO_STORE := $(filter-out sqlite,$(STORE))
DEMO_MODULE := $(patsubst postgresql,postgres,$(DEMO_STORE))
DEMO_NAMES := core cli_core agent_stores_core $(if $(DEMO_MODULE),$(DEMO_MODULE) $(DEMO_MODULE)_agent_stores)

.PHONY: demo-modules
demo-modules: $(DEMO_NAMES:%=$(BUILD)/moonpad/%.$(SO))
	@:

demo: ## installs what is missing, builds, runs the demonstration on SQLite (STORE=postgresql|mysql|redis: there)
	@scripts/demo.sh -n $(if $(STORE),-s '$(STORE)')
	@scripts/deps.sh build $(DEMO_STORE)
	@echo 'Building what the demonstration runs in $(BUILD)/demo/'
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD)/demo AMALGAMATION=1 \
		$(if $(filter file,$(origin CFLAGS)),CFLAGS=-O0) demo-modules
	@scripts/demo.sh -b $(BUILD)/demo $(if $(STORE),-s '$(STORE)')

# ONLY="plugins test_json": only these tests. MOONPAD_TURN=57: the sample of that turn once more.
run_tests = JOBS=$(JOBS) scripts/run_tests.sh -b $(BUILD) $(if $(ONLY),-o '$(ONLY)')
in_turn = turn=$$(scripts/turn.sh $(BUILD)) || exit 2; [ $$turn != all ] || turn=0
total = scripts/total.sh $(BUILD)/test-results

quick: all tests ## in a minute something of every spec and C test, on memory alone: ONLY="plugins test_json"
	@$(in_turn); $(run_tests) -k quick -t $$turn -l quick lua c; $(total) quick

test: deps ## installs what is missing, builds, runs all on memory, on SQLite and one server by turn (ONLY=...)
	@echo 'Building moonpad and its tests in $(BUILD)/'
	@$(MAKE) --no-print-directory -j$(JOBS) all tests || { echo 'The build failed: no test was run.'; exit 1; }
	@$(in_turn); $(run_tests) -k test -t $$turn -l test lua c; \
		echo 'make check runs the rest by turns: each file on the other servers, other samples of many like cases,'; \
		echo 'programs of others, clusters, sanitizers, valgrind, users'\'' builds. make test-all is every store, whole.'; \
		$(total) test

test-all: deps ## the same on every store, and without samples
	@echo 'Building moonpad and its tests in $(BUILD)/'
	@$(MAKE) --no-print-directory -j$(JOBS) all tests || { echo 'The build failed: no test was run.'; exit 1; }
	@$(run_tests) -l test-all lua c; $(total) test-all

busy: all tests ## three times what `test` runs, while the machine is busy with something else (ONLY=...)
	@JOBS=$(JOBS) scripts/busy.sh -b $(BUILD) $(if $(ONLY),-o '$(ONLY)')

check: ## warnings, lint, sanitizers, valgrind, users' builds, the rest by turns (ONLY="lint asan", MOONPAD_TURN=all)
	@scripts/deps.sh checks
	@BUILD=$(BUILD) JOBS=$(JOBS) EXCEPT='$(EXCEPT)' scripts/check.sh $(ONLY)

fuzz: ## feeds random input to the fuzz targets: TARGET=json RUNS=1000000, or TIME=600 (seconds, of each)
	@scripts/deps.sh checks
	@BUILD=$(BUILD) JOBS=$(JOBS) scripts/fuzz.sh \
		$(if $(TIME),-t $(TIME) $(if $(RUNS),-r $(RUNS)),-r $(or $(RUNS),1000000)) $(TARGET)

platforms: ## builds for other systems and machines, and runs C tests and Lua specs there: NAMES="musl armhf"
	@scripts/deps.sh platforms
	@BUILD=$(BUILD) JOBS=$(JOBS) scripts/platforms.sh $(NAMES)

soak: all tests ## all of `check` whole, then goes on with random tests, faults and fuzzing: make soak MINUTES=60
	@scripts/deps.sh checks
	@JOBS=$(JOBS) scripts/soak.sh -b $(BUILD) -m $(or $(MINUTES),60)

format: ## formats all C files in place
	@find include src spec bench examples -name '*.[ch]' | xargs clang-format -i

deps: ## installs the Debian packages that are missing for all but `make check` and `make platforms`
	@scripts/deps.sh

bench: all ## measures moonpad against the least that the same work can cost, in one run
	@bench/run.sh -b $(BUILD)

reference: ## makes docs/reference.md of the annotations in the Lua files
	@$(LUA) scripts/reference.lua > docs/reference.md.new && mv docs/reference.md.new docs/reference.md

clean: ## removes the build folder
	rm -rf $(BUILD)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(filter Makefile make/%,$(MAKEFILE_LIST))
