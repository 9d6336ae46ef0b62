# Modules that load when they are used, so that the core does without artifacts and memories,
# libcurl, child processes, a terminal, servers; and archives of them for hosts in C.

# ---- What is compiled with the same flags ----

# $(call part,NAME,SOURCES,FLAGS): NAME_OBJECTS.
define part
$(1)_OBJECTS := $$(call objects,$(2))
PART_SOURCES += $(2)
$$($(1)_OBJECTS): private MODULE_CFLAGS = $(3)
$(if $(findstring LUA_CFLAGS,$(3)),$$($(1)_OBJECTS): | have-lua)
endef
PART_SOURCES :=
# What Redis runs is Lua, of which the build makes strings of C.
redis_scripts = $(patsubst %.lua,$(BUILD)/%.c,$(sort $(wildcard $(1)/scripts/*.lua)))
c_files = $(sort $(wildcard $(addsuffix /*.c,$(1))))

SYSTEM_FOLDER := src/process/$(if $(WINDOWS),windows,posix)
$(eval $(call part,AGENT_STORES,$(call c_files,src/agent_stores),$$(LUA_CFLAGS)))
$(eval $(call part,PROCESS,$(call c_files,src/process $(SYSTEM_FOLDER)),$$(LUA_CFLAGS)))
$(eval $(call part,CLI,$(call c_files,src/cli),$$(LUA_CFLAGS)))
$(eval $(call part,HTTP,$(call c_files,src/http),$$(LUA_CFLAGS) $$(CURL_CFLAGS)))
$(eval $(call part,SERVER,$(call c_files,src/server),$$(LUA_CFLAGS) $$(LIBEVENT_CFLAGS)))
$(eval $(call part,EDITLINE,$(call c_files,src/editline),$$(LUA_CFLAGS) $$(EDITLINE_CFLAGS)))
# The stores on servers, what they share, and what hands them to Lua.
REDIS_SOURCES := $(call c_files,src/store/redis) $(call redis_scripts,src/store/redis)
$(eval $(call part,REMOTE,$(call c_files,src/store/server)))
$(eval $(call part,POSTGRES,$(call c_files,src/store/postgres),$$(POSTGRES_CFLAGS)))
$(eval $(call part,MYSQL,$(call c_files,src/store/mysql),$$(MYSQL_CFLAGS)))
$(eval $(call part,REDIS,$(REDIS_SOURCES),$$(REDIS_CFLAGS)))
$(eval $(call part,STORE_MODULES,$(call c_files,src/store_modules),$$(LUA_CFLAGS)))
# Artifacts and memories on the servers.
REDIS_AGENT_SOURCES := $(call c_files,src/agent_stores/redis) $(call redis_scripts,src/agent_stores/redis)
$(eval $(call part,POSTGRES_AGENT,$(call c_files,src/agent_stores/postgres),$$(LUA_CFLAGS) $$(POSTGRES_CFLAGS)))
$(eval $(call part,MYSQL_AGENT,$(call c_files,src/agent_stores/mysql),$$(LUA_CFLAGS) $$(MYSQL_CFLAGS)))
$(eval $(call part,REDIS_AGENT,$(REDIS_AGENT_SOURCES),$$(LUA_CFLAGS) $$(REDIS_CFLAGS)))
AGENT_SHARED_OBJECTS := $(patsubst %,$(BUILD)/obj/src/agent_stores/%.o,\
                        fts5 lookup lua_server_module matches ranking words)

# SCRIPT.lua becomes the string mp_redis_lua_SCRIPT.
$(BUILD)/%.c: %.lua $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q){ echo '#include "store/redis/scripts.h"'; echo 'const char mp_redis_lua_$(*F)[] ='; \
		sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $<; echo ';'; } >$@

# ---- The modules ----

# $(call module,NAME,OBJECTS,LIBRARIES,FLAGS). It brings what it needs of the library, as the core
# does, so that neither needs the other's symbols.
define module
$(BUILD)/moonpad/$(1).$(SO): $(2) $(BUILD)/ground.a $(BUILD)/sources
	@mkdir -p $$(@D)
	$$(say) LINK $$@
	$$(Q)$$(LINK) -shared $(4) -o $$@ $$(filter %.o %.a,$$^) -Wl,--exclude-libs,ALL $(3) $$(LUA_DLL) $$(LIBS)
endef
# For what stays loaded once it is: its threads (libcurl's, one that waits for the end of a child)
# or its functions (a store's, of services) may outlive the Lua state that opened it. On Windows a
# module sees to that itself (mp_stay_loaded).
STAYS := $(if $(WINDOWS),,-z nodelete)

$(eval $(call module,agent_stores_core,$(AGENT_STORES_OBJECTS)))
$(eval $(call module,cli_core,$(CLI_OBJECTS)))
$(eval $(call module,process_core,$(PROCESS_OBJECTS),,$(STAYS)))
$(eval $(call module,http_core,$(HTTP_OBJECTS),$$(CURL_LIBS),$(STAYS)))
$(eval $(call module,server_core,$(SERVER_OBJECTS),$$(SERVER_LIBS)))
$(eval $(call module,editline_core,$(EDITLINE_OBJECTS),$$(EDITLINE_LIBS)))
# It needs nothing but that.
$(BUILD)/moonpad/editline_core.$(SO): private LIBS :=

# The stores, and artifacts and memories beside them.
POSTGRES_STORE := $(POSTGRES_OBJECTS) $(REMOTE_OBJECTS)
MYSQL_STORE := $(MYSQL_OBJECTS) $(REMOTE_OBJECTS)
REDIS_STORE := $(REDIS_OBJECTS) $(REMOTE_OBJECTS)
to_lua = $(BUILD)/obj/src/store_modules/$(1).o
$(eval $(call module,postgres,$(POSTGRES_STORE) $(call to_lua,postgres),$$(POSTGRES_LIBS),$(STAYS)))
$(eval $(call module,mysql,$(MYSQL_STORE) $(call to_lua,mysql),$$(MYSQL_LIBS),$(STAYS)))
$(eval $(call module,redis,$(REDIS_STORE) $(call to_lua,redis),$$(REDIS_LIBS),$(STAYS)))
POSTGRES_AGENTS := $(POSTGRES_AGENT_OBJECTS) $(AGENT_SHARED_OBJECTS) $(POSTGRES_STORE)
MYSQL_AGENTS := $(MYSQL_AGENT_OBJECTS) $(AGENT_SHARED_OBJECTS) $(MYSQL_STORE)
REDIS_AGENTS := $(REDIS_AGENT_OBJECTS) $(AGENT_SHARED_OBJECTS) $(REDIS_STORE)
$(eval $(call module,postgres_agent_stores,$(POSTGRES_AGENTS),$$(POSTGRES_LIBS),$(STAYS)))
$(eval $(call module,mysql_agent_stores,$(MYSQL_AGENTS),$$(MYSQL_LIBS),$(STAYS)))
$(eval $(call module,redis_agent_stores,$(REDIS_AGENTS),$$(REDIS_LIBS),$(STAYS)))

MODULE_NAMES := agent_stores_core cli_core process_core $(if $(CURL_LIBS),http_core) \
                $(if $(SERVER_LIBS),server_core) $(if $(EDITLINE_LIBS),editline_core) \
                $(if $(POSTGRES_LIBS),postgres postgres_agent_stores) \
                $(if $(MYSQL_LIBS),mysql mysql_agent_stores) $(if $(REDIS_LIBS),redis redis_agent_stores)
MODULES := $(MODULE_NAMES:%=$(BUILD)/moonpad/%.$(SO))

# ---- Archives for hosts in C, with the C library inside ----

STORE_LIBRARIES := $(if $(POSTGRES_LIBS),$(BUILD)/whole/libmoonpad_postgres.a) \
                   $(if $(MYSQL_LIBS),$(BUILD)/whole/libmoonpad_mysql.a) \
                   $(if $(REDIS_LIBS),$(BUILD)/whole/libmoonpad_redis.a)

$(BUILD)/whole/libmoonpad_postgres.a: $(POSTGRES_OBJECTS)
$(BUILD)/whole/libmoonpad_mysql.a: $(MYSQL_OBJECTS)
$(BUILD)/whole/libmoonpad_redis.a: $(REDIS_OBJECTS)
$(BUILD)/whole/libmoonpad_postgres.a $(BUILD)/whole/libmoonpad_mysql.a $(BUILD)/whole/libmoonpad_redis.a: \
		$(REMOTE_OBJECTS) $(LIBRARY_OBJECTS) $(BUILD)/sources
	$(archive)

# The same of libmoonpad_lua.a, with artifacts and memories, as it is installed: build systems that
# sort libraries as they like, as CMake does, have nothing to sort.
$(BUILD)/whole/libmoonpad_lua.a: $(LIBRARY_OBJECTS) $(if $(AMALGAMATION),$(CORE_OBJECTS),$(BUILD)/obj/whole/embed.o \
		$(filter-out %/src/lua/embed.o,$(CORE_OBJECTS)) $(AGENT_STORES_OBJECTS)) $(BUILD)/sources
	$(archive)

$(BUILD)/obj/whole/embed.o: src/lua/embed.c $(BUILD)/flags | have-lua
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(COMPILE) $(LUA_CFLAGS) -DMOONPAD_AGENT_STORES_INSIDE -MMD -MP -c -o $@ $<
