# What tests run, and what Lua specs load: a program for each spec/c/test_*.c, spec/c/cluster_*.c,
# spec/fuzz/fuzz_*.c and examples/*.c.

TEST_SOURCES := $(sort $(wildcard spec/c/test_*.c))
# Those that start clusters of servers, for `make check` alone.
CLUSTER_SOURCES := $(sort $(wildcard spec/c/cluster_*.c))
TEST_SUPPORT := $(filter-out $(TEST_SOURCES) $(CLUSTER_SOURCES),$(sort $(wildcard spec/c/*.c)))

TEST_PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(TEST_SOURCES))
ifdef WITHOUT_SERVERS
TEST_PROGRAMS := $(filter-out $(patsubst %,$(BUILD)/spec/c/test_%, \
                 server% postgres mysql redis% agent_redis agent_servers),$(TEST_PROGRAMS))
endif
CLUSTER_PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(CLUSTER_SOURCES))
EXAMPLE_PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard examples/*.c)))
FUZZERS := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard spec/fuzz/fuzz_*.c)))
# What Lua specs need beside moonpad itself: modules, and what a program in the tutorial links.
SPEC_FILES := $(patsubst %,$(BUILD)/spec/%.$(SO),slow_store folders servers) $(BUILD)/whole/libmoonpad_lua.a

# SKIPPED_TESTS="test_threads ...": without these.
test-programs: $(filter-out $(SKIPPED_TESTS:%=$(BUILD)/spec/c/%),$(TEST_PROGRAMS))

clusters: $(CLUSTER_PROGRAMS)

fuzzers: $(FUZZERS)

# For warnings alone, of what this system compiles: nothing is linked but the examples.
objects: $(call objects,$(filter-out src/process/windows/% src/fetch/%,$(sort $(wildcard src/*/*.c src/*/*/*.c)))) \
         $(call objects,$(sort $(wildcard spec/c/*.c spec/support/*.c))) $(REDIS_OBJECTS) \
         $(REDIS_AGENT_OBJECTS) $(call objects,$(BUILD)/lua_sources.c) $(EXAMPLE_PROGRAMS)

# ---- C tests ----

$(BUILD)/obj/spec/c/test_lua_%.o: private MODULE_CFLAGS = $(LUA_CFLAGS) $(TEST_CFLAGS)
$(BUILD)/obj/spec/c/%.o: private MODULE_CFLAGS = $(TEST_CFLAGS)
$(BUILD)/obj/spec/c/server_support.o: private MODULE_CFLAGS = $(POSTGRES_CFLAGS)
$(BUILD)/obj/spec/c/mysql_support.o: private MODULE_CFLAGS = $(MYSQL_CFLAGS)
$(BUILD)/obj/spec/c/test_redis_hosts.o $(BUILD)/obj/spec/c/redis_support.o: private MODULE_CFLAGS = $(REDIS_CFLAGS)

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

$(BUILD)/spec/slow_store.$(SO): $(BUILD)/obj/spec/support/slow_store.o $(BUILD)/obj/spec/c/slow_store.o \
		$(BUILD)/libmoonpad.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $^ -Wl,--exclude-libs,ALL $(LUA_DLL) $(LIBS)

$(BUILD)/obj/spec/support/folders.o: private MODULE_CFLAGS = $(LUA_CFLAGS)

$(BUILD)/spec/folders.$(SO): $(BUILD)/obj/spec/support/folders.o $(BUILD)/ground.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $^ -Wl,--exclude-libs,ALL $(LUA_DLL) $(LIBS)

# Places on the servers, for specs: build/spec/servers.so is `require "spec.servers"`. It stays
# loaded: what libmariadb keeps for the whole process would be lost with the library.
$(BUILD)/obj/spec/support/servers.o: private MODULE_CFLAGS = $(LUA_CFLAGS)

$(BUILD)/spec/servers.$(SO): $(BUILD)/obj/spec/support/servers.o $(BUILD)/obj/spec/c/server_support.o \
		$(BUILD)/obj/spec/c/mysql_support.o $(BUILD)/obj/spec/c/redis_support.o
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared $(STAYS) -o $@ $^ $(POSTGRES_LIBS) $(MYSQL_LIBS) $(REDIS_LIBS) $(LUA_DLL)

# ---- Fuzz targets ----

# They want CC=clang SANITIZE=fuzzer-no-link,... (scripts/fuzz.sh).

$(BUILD)/obj/spec/fuzz/%.o: private MODULE_CFLAGS = $(LUA_CFLAGS)

$(BUILD)/spec/fuzz/%: $(BUILD)/obj/spec/fuzz/%.o $(BUILD)/libmoonpad_lua.a $(BUILD)/libmoonpad.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -fsanitize=fuzzer -Wl,-E -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LUA_LIBS) $(LIBS)
$(BUILD)/spec/fuzz/fuzz_request: $(filter-out %/module.o,$(SERVER_OBJECTS))
$(BUILD)/spec/fuzz/fuzz_request: private LIBS += $(SERVER_LIBS)

# ---- Examples ----

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
