# What is installed below $(DESTDIR)$(PREFIX), where, and how it is removed again. Each of these
# folders can be another one.

# Debian's Lua searches the two Lua folders below /usr/local as they are.
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
PKGCONFIGDIR ?= $(LIBDIR)/pkgconfig
LUA_LMOD ?= $(PREFIX)/share/lua/5.4
LUA_CMOD ?= $(PREFIX)/lib/lua/5.4
DOCDIR ?= $(PREFIX)/share/doc/moonpad
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions

VERSION = $(eval VERSION := $$(shell sed -n 's/^.define MOONPAD_VERSION  *"\(.*\)"/\1/p' include/moonpad.h))$(VERSION)

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

install-lua: $(BUILD)/moonpad/core.$(SO) $(MODULES) left-out ## the Lua module and the moonpad command alone
	@echo "Installing the Lua module and the command: $(DESTDIR)$(LUA_LMOD), $(DESTDIR)$(LUA_CMOD), $(DESTDIR)$(BINDIR)"
	@$(INSTALL) -d '$(DESTDIR)$(LUA_CMOD)/moonpad' '$(DESTDIR)$(BINDIR)'
	@$(INSTALL) -m 755 $(BUILD)/moonpad/core.$(SO) $(MODULES) '$(DESTDIR)$(LUA_CMOD)/moonpad'
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
