# The C library, and the Lua module core, which holds it: how C becomes objects, and objects
# archives.

LIBRARY_SOURCES := $(sort $(wildcard src/base/*.c src/core/*.c src/service/*.c src/service/*/*.c \
                   src/store/*.c src/store/memory/*.c src/store/sqlite/*.c))
CORE_SOURCES := $(sort $(wildcard src/lua/*.c src/lua/*/*.c))
LUA_FILES := $(sort $(shell find lua/moonpad -name '*.lua' 2>/dev/null))

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
ifdef AMALGAMATION
LIBRARY_OBJECTS := $(call objects,$(BUILD)/amalgamation/moonpad.c)
CORE_OBJECTS := $(call objects,$(BUILD)/amalgamation/moonpad_lua.c)
GROUND_OBJECTS := $(LIBRARY_OBJECTS)
else
LIBRARY_OBJECTS := $(call objects,$(LIBRARY_SOURCES))
CORE_OBJECTS := $(call objects,$(CORE_SOURCES) $(BUILD)/lua_sources.c)
# What stores and modules stand on: all of the library but the service.
GROUND_OBJECTS := $(call objects,$(filter-out src/service/%,$(LIBRARY_SOURCES)))
endif

LIBRARY := $(BUILD)/libmoonpad.a $(BUILD)/$(SONAME) $(if $(WINDOWS),,$(BUILD)/libmoonpad.so)
CORE := $(BUILD)/moonpad/core.$(SO) $(BUILD)/libmoonpad_lua.a

# ---- Objects ----

# MODULE_CFLAGS are `private` to objects, here and in the other files: nothing that they are made
# from inherits them.
$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

$(CORE_OBJECTS): private MODULE_CFLAGS = $(LUA_CFLAGS)
$(CORE_OBJECTS): | have-lua

# The Lua files as C arrays, for hosts that carry them inside.
$(BUILD)/lua_sources.c: scripts/embed_lua.lua $(LUA_FILES) $(BUILD)/lua_files
	@mkdir -p $(@D)
	@$(LUA) scripts/embed_lua.lua $@ lua $(LUA_FILES)

# The headers that each object was made from. Nothing makes these lists but the compiler.
DEPENDENCIES := $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
$(DEPENDENCIES): ;
-include $(DEPENDENCIES)

# ---- The C library ----

define archive
	@mkdir -p $(@D)
	$(say) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)
endef

$(BUILD)/libmoonpad.a: $(LIBRARY_OBJECTS) $(BUILD)/sources
	$(archive)

$(BUILD)/ground.a: $(GROUND_OBJECTS) $(BUILD)/sources
	$(archive)

# The sanitizers' own symbols come with the program, so only a plain build can insist on having
# every symbol.
$(BUILD)/$(SONAME): $(LIBRARY_OBJECTS) $(BUILD)/sources
	$(say) LINK $@
	$(Q)$(LINK) -shared $(NAMED) $(if $(SANITIZE),,-Wl,--no-undefined) -o $@ $(LIBRARY_OBJECTS) $(LIBS)

$(BUILD)/libmoonpad.so: $(BUILD)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

# ---- The Lua module ----

# It holds the library and is not linked with liblua: the Lua that loads it brings its own.
$(BUILD)/moonpad/core.$(SO): $(CORE_OBJECTS) $(LIBRARY_OBJECTS) $(BUILD)/sources
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(LINK) -shared -o $@ $(CORE_OBJECTS) $(LIBRARY_OBJECTS) $(LUA_DLL) $(LIBS)

$(BUILD)/libmoonpad_lua.a: $(CORE_OBJECTS) $(BUILD)/sources
	$(archive)
