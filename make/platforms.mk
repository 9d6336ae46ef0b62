# What takes moonpad elsewhere: the two files of `make amalgamation`, the page of `make web`, and
# what scripts/platforms.sh builds besides the tests.

# ---- Two files for hosts that take moonpad into their own build: docs/embedding.md ----

AMALGAMATED := $(patsubst %,$(BUILD)/amalgamation/%,moonpad.c moonpad.h moonpad_lua.c moonpad_lua.h)
HEADERS := $(sort $(wildcard include/*.h src/*/*.h src/*/*/*.h))

# Artifacts and memories, which elsewhere are a module of their own, are inside the second; so is
# HTTP for a page. What is there under a condition comes last: all that it includes is there before.
$(BUILD)/amalgamation/moonpad.c: $(LIBRARY_SOURCES)
$(BUILD)/amalgamation/moonpad_lua.c: $(CORE_SOURCES) $(BUILD)/lua_sources.c \
	$(filter-out %/lua_server_module.c,$(call c_files,src/agent_stores)) src/http/module.c src/fetch/client.c
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

# ---- A Lua with all in C inside that specs load, for scripts/platforms.sh ----

# LUA_LIBS there holds Lua's main program, lua.c, and the modules of others as well.
LUA_PROGRAM_OBJECTS := $(call objects,spec/platforms/modules.c spec/platforms/shell.c spec/support/folders.c \
                       spec/support/slow_store.c spec/c/slow_store.c)
$(BUILD)/obj/spec/platforms/modules.o: private MODULE_CFLAGS = $(LUA_CFLAGS)

$(BUILD)/lua5.4: $(LUA_PROGRAM_OBJECTS) $(AGENT_STORES_OBJECTS) $(CLI_OBJECTS) $(PROCESS_OBJECTS) \
		$(BUILD)/libmoonpad_lua.a $(BUILD)/libmoonpad.a
	$(say) LINK $@
	$(Q)$(LINK) -Wl,--wrap=luaL_openlibs -o $@ $(filter %.o %.a,$^) $(LUA_LIBS) $(LIBS)

# The shell that specs ask where Windows is wine, and on WebAssembly.
$(BUILD)/obj/spec/platforms/shell.o: private MODULE_CFLAGS = $(LUA_CFLAGS)

$(BUILD)/spec/shell.$(SO): $(BUILD)/obj/spec/platforms/shell.o
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $^ $(LUA_DLL)
