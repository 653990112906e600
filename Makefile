# runnel: the commands for building, testing and installing; `make help` lists them. `make demo` and `make test` install
# what is missing (scripts/setup), so they need only make and a package manager.
#
# To override: LUA, CC, CFLAGS, PREFIX, DESTDIR; LUA_CFLAGS and LUA_LIBS for another Lua. V=1 shows each command. To run
# some of the specs only: SPEC (files or folders) and BUSTED_FLAGS, for example
#   make test SPEC=spec/core/chan_spec.lua BUSTED_FLAGS=--filter=close
# LONG=1 runs the long form of a check or of the specs (spec/support/long.lua).

.DEFAULT_GOAL := all

LUA    ?= lua5.4
OPTIMIZED = $(if $(PARTS),-Os,-O3) -fno-plt $(LTO)
CFLAGS ?= $(OPTIMIZED)
BUILD  ?= build$(if $(PARTS),/parts)
SPEC   ?= spec

PREFIX ?= /usr/local
ROOT    = $(DESTDIR)$(PREFIX)
LIB     = lib# below the prefix, for libraries: on Debian lib/x86_64-linux-gnu
LIBDIR  = $(ROOT)/$(LIB)/lua/$(LUA_VERSION)
LUADIR  = $(ROOT)/share/lua/$(LUA_VERSION)

# Which Lua this is, 5.4 or 5.5: what the interpreter says; before it is installed, what its name says.
LUA_VERSION := $(or $(shell $(LUA) -e 'io.write(_VERSION:match "%d.%d")' 2>/dev/null),\
                 $(patsubst lua%,%,$(filter lua5.%,$(LUA))),5.4)
# Where the system has this Lua for C. Its name in pkg-config differs from one distribution to the next.
LUA_NAMES    = lua$(LUA_VERSION) lua-$(LUA_VERSION) 'lua >= $(LUA_VERSION) lua < $(LUA_VERSION).99'
lua_config  = $(shell for name in $(LUA_NAMES); do \
                pkg-config $(1) "$$name" 2>/dev/null && exit; done; echo "$(2)")
# With LUA_LIBS all parts are linked with the Lua that the user has chosen, since a program must not have two.
LUA_CHOSEN := $(filter-out undefined,$(origin LUA_LIBS))
LUA_PACKAGE = $(if $(LUA_CHOSEN),,$(shell for name in $(LUA_NAMES); do \
                pkg-config --exists "$$name" 2>/dev/null && echo "$$name" && exit; done))
LUA_CFLAGS ?= $(call lua_config,--cflags,-I/usr/include/lua$(LUA_VERSION))
LUA_LIBS   ?= $(call lua_config,--libs,-llua$(LUA_VERSION))
LUA_CFLAGS := $(LUA_CFLAGS)# so that pkg-config runs once, not for each file
LUA_LIBS   := $(LUA_LIBS)
LIBS        = $(LUA_LIBS) $(SYSTEM_LIBS)
# Whether the compiler finds these headers.
has         = $(shell $(CC) $(CPPFLAGS) $(filter -I%,$(CFLAGS)) -E $(addprefix -include ,$(1)) -x c /dev/null >/dev/null 2>&1 && echo yes)
# Before version 2.34 of glibc, dlopen and threads were in libraries of their own.
SYSTEM_LIBS = -pthread $(if $(filter Linux,$(shell uname)),-ldl)

# Link-time optimisation, and calling Lua without the PLT, save a tenth of the time of a message (make bench). Not every
# linker supports clang's link-time optimisation.
LTO := $(if $(findstring Free Software,$(shell $(CC) --version 2>/dev/null)),-flto=auto)

DEBUG_CFLAGS = -Og -g -DRUNNEL_DEBUG
WARNINGS     = -Wall -Wextra -Wpedantic -Wshadow -Wconversion
CORE_CFLAGS  = -std=c11 -iquote csrc -fPIC -fvisibility=hidden -D_POSIX_C_SOURCE=200809L $(WARNINGS) $(LUA_CFLAGS)
comma        = ,
VERSION     := $(shell sed -n 's/^.define RUNNEL_VERSION "\(.*\)"/\1/p' csrc/capi/runnel.h)
ABI          = 1
ifeq ($(shell uname),Darwin)
MODULE_LDFLAGS = -bundle -undefined dynamic_lookup
HOST_LDFLAGS   = -Wl,-export_dynamic
LIBRARY        = librunnel.$(ABI).dylib
LIBRARY_LINK   = librunnel.dylib
LIBRARY_FLAGS  = -dynamiclib -install_name $(PREFIX)/$(LIB)/$(LIBRARY)
else
MODULE_LDFLAGS = -shared
HOST_LDFLAGS   = -Wl,-E
LIBRARY        = librunnel.so.$(ABI)
LIBRARY_LINK   = librunnel.so
LIBRARY_FLAGS  = -shared -Wl,-soname,$(LIBRARY)
STRIPPED       = $(if $(PARTS),-Wl$(comma)-s)
endif

# The module is everything that other C modules may use. The library adds the Lua modules (csrc/librunnel), the
# executable csrc/host.
MODULE_FOLDERS  = base csv json shared core lifetimes errors channels states blocks timers sim profile tracing port capi lua \
                  lua/internal lua/state
LIBRARY_FOLDERS = librunnel
SOURCES     = $(wildcard $(MODULE_FOLDERS:%=csrc/%/*.c))
OBJECTS     = $(SOURCES:csrc/%.c=$(BUILD)/obj/%.o)

LIB_SOURCES = $(wildcard $(LIBRARY_FOLDERS:%=csrc/%/*.c))
LIB_OBJECTS = $(OBJECTS) $(LIB_SOURCES:csrc/%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/modules.o
MODULES = $(patsubst lua/%,%,$(sort $(shell find lua -name '*.lua' -not -path 'lua/runnel/host/*' -o -name '*.fnl')))

# The executable is one file: Lua and libedit are linked into it, if the system has them as archives. C modules find
# Lua's functions in it (HOST_LDFLAGS). Without libedit the prompt has no line editor.
archives        = $(foreach name,$(1),$(firstword $(wildcard $(addsuffix /lib$(name).a,$(STATIC_FOLDER) $(LIBRARY_PATHS)))))
all_of          = $(if $(filter-out $(words $(1)),$(words $(2))),,$(2))
STATIC_FOLDER   = $(BUILD)/static/libraries
LIBRARY_PATHS  := $(shell $(CC) -print-search-dirs 2>/dev/null | sed -n 's/^libraries: =//p' | tr ':' ' ') /usr/local/lib
HOST_LUA_LIBS  ?= $(or $(if $(LUA_CHOSEN),,$(call archives,lua$(LUA_VERSION))),$(LUA_LIBS)) -lm
# The executable carries its modules as bytecode, where Lua is linked into it, so that the two always fit: this Lua writes
# it. `make BYTECODE=` leaves it out, for a compiler whose programs do not run here.
BYTECODE       ?= $(if $(filter %.a,$(HOST_LUA_LIBS)),yes)
EDIT_PARTS      = edit bsd md tinfo
EDIT           := $(call has,histedit.h)
HOST_EDIT_LIBS ?= $(if $(EDIT),$(or $(call all_of,$(EDIT_PARTS),$(call archives,$(EDIT_PARTS))),-ledit))
EDITOR          = $(patsubst %,csrc/host/prompt/%.c,editing typed drawing keys editor)
HOST_SOURCES    = $(filter-out $(if $(EDIT),,$(EDITOR)),$(wildcard csrc/host/*.c csrc/host/*/*.c))
HOST_OBJECTS    = $(HOST_SOURCES:csrc/%.c=$(BUILD)/obj/%.o)
HOST_MODULES    = $(BUILD)/obj/$(if $(BYTECODE),compiled_)modules.o $(BUILD)/obj/host_modules.o
HOST_LINKED     = $(filter-out $(BUILD)/obj/modules.o,$(LIB_OBJECTS)) $(HOST_MODULES)
HOST_LUA_FILES  = $(sort $(wildcard lua/runnel/host/*.lua))
HOST_CPPFLAGS   = -D_GNU_SOURCE -D_DARWIN_C_SOURCE $(if $(EDIT),-DRUNNEL_EDITOR)
$(HOST_OBJECTS): CPPFLAGS += $(HOST_CPPFLAGS)
HOST_KIND       = $(BUILD)/obj/host/$(if $(EDIT),with,without)-editor

# With coverage, counts also what processes run that end themselves (tests/counts.c).
COUNTS = $(if $(findstring --coverage,$(CFLAGS)),$(BUILD)/tests/counts.o)
COUNTED = $(if $(COUNTS),-Wl$(comma)--wrap=raise -Wl$(comma)--wrap=_exit)

# C modules of their own, each built where the headers of its library are, if it has one. They get the functions of the
# core from the state (csrc/capi/runnel.h), so they are linked with nothing but their own files, csrc/base and csrc/kit.
#   $(call c_module,NAME,FILE,SOURCES,HEADERS,LIBRARIES,FURTHER OBJECTS)
# sets NAME_OBJECTS and NAME_LIBS, and NAME_MODULE, which is empty if headers are missing.
define c_module
$(1)_LIBS    ?= $(5)
$(1)_OBJECTS := $(patsubst csrc/%.c,$(BUILD)/obj/%.o,$(wildcard $(3) csrc/base/*.c csrc/kit/*.c)) $(6)
$(1)_MODULE  := $(if $(if $(4),$(call has,$(4)),yes),$(BUILD)/runnel/$(2))
C_MODULES    += $(2)
$(BUILD)/runnel/$(2): $$($(1)_OBJECTS) $$(COUNTS)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS) $$(LDFLAGS) $$(MODULE_LDFLAGS) $$(COUNTED) -o $$@ $$^ $$($(1)_LIBS) -pthread
-include $$($(1)_OBJECTS:.o=.d)
endef

# Of the HTTP server, what knows no Lua: the monitor has it, too.
ENGINE = $(patsubst %,csrc/http/server/%.c,head chunks poller listen timers wire part loader reply conn input advance engine)

$(eval $(call c_module,TLS,tls/core.so,csrc/tls/*.c,openssl/ssl.h,-lssl -lcrypto))
$(eval $(call c_module,NATS,nats/core.so,csrc/nats/*.c,nats/nats.h,-lnats))
$(eval $(call c_module,HTTP,http/curl.so,csrc/http/client/*.c,curl/curl.h zlib.h,-lcurl -lz))
$(eval $(call c_module,HTTPD,http/core.so,csrc/http/server/*.c))
$(eval $(call c_module,SQLITE,sqlite/core.so,csrc/sqlite/*.c,sqlite3.h,-lsqlite3))
$(eval $(call c_module,MONITOR,monitor/core.so,csrc/monitor/*.c $(ENGINE),,,$(BUILD)/obj/monitor_assets.o))
$(eval $(call c_module,WEBSOCKET,websocket/core.so,csrc/websocket/*.c,zlib.h,-lz))

MONITOR_ASSETS   = $(sort $(wildcard csrc/monitor/page/*.* csrc/monitor/page/vendor/*.*)) lua/runnel/profile/flame.lua
OPTIONAL_MODULES = $(TLS_MODULE) $(NATS_MODULE) $(HTTP_MODULE) $(HTTPD_MODULE) $(SQLITE_MODULE) $(MONITOR_MODULE) $(WEBSOCKET_MODULE)

# Programs that make runs find the tree's modules first, then installed ones. `make env` prints these variables.
LUA_PATH  := $(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;$(or $(LUA_PATH),;)
LUA_CPATH := $(abspath $(BUILD))/?.so;$(or $(LUA_CPATH),;)
RUNNEL    := $(abspath $(BUILD))/bin/runnel
export LUA LUA_PATH LUA_CPATH RUNNEL
unexport LUA_PATH_5_4 LUA_CPATH_5_4 LUA_PATH_5_5 LUA_CPATH_5_5 # Lua would prefer these to the two above

# Each of the commands below first installs what it needs, then starts make again, so that make sees what was just
# installed. That make runs as many jobs as there are processors, unless the caller has chosen (make -j).
SETUP = @CC='$(CC)' scripts/setup
JOBS  = $(shell nproc 2>/dev/null || echo 2)
THEN  = +@$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))

# Stops a build that cannot succeed: without a compiler, Lua and the headers of the same version.
FOUND = $(eval FOUND := $(if $(filter 5.4 5.5,$(LUA_VERSION)),$(shell $(LUA) /dev/null >/dev/null 2>&1 && \
          printf '\043if LUA_VERSION_NUM != $(subst .,0,$(LUA_VERSION))\n\043error\n\043endif\n' | \
          $(CC) $(LUA_CFLAGS) -E -include lua.h -x c - >/dev/null 2>&1 && echo yes)))$(FOUND)
# Not with make -n, since $(LUA) itself may be a program that make would build.
IS_DRY = $(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
NEEDS = $(if $(FOUND)$(IS_DRY),,$(error The build needs a C compiler, Lua 5.4 or 5.5 and the headers of the same version. \
          `scripts/setup run` installs them; if they have other names, set CC, LUA and LUA_CFLAGS))

# Q hides a command, unless V is set. BUILDING prints a line if there is something to build.
Q        = $(if $(V),,@)
BUILDING = +@$(MAKE) -q programs >/dev/null 2>&1 || echo 'building runnel (V=1 shows the commands)'

## Building and running

.PHONY: all
all: programs library ## build the module, the executable and the library into build/
	@echo 'built in $(BUILD)/: runnel/core.so (the module), bin/runnel (the executable), $(LIBRARY), librunnel.a'
	$(call left_out,$(EDIT),the line editor of bin/runnel's prompt,libedit,libedit-dev)
	$(MODULES_LEFT_OUT)

# What was not built, and how to get it.
left_out = $(if $(1),,@echo "left out: $(2). It needs the headers of $(3) (Debian: $(4)); install them and build again")
define MODULES_LEFT_OUT
$(call left_out,$(TLS_MODULE),TLS (runnel.tls),OpenSSL,libssl-dev)
$(call left_out,$(NATS_MODULE),runnel.nats,libnats,libnats-dev)
$(call left_out,$(HTTP_MODULE),the client of runnel.http,libcurl and zlib,libcurl4-openssl-dev zlib1g-dev)
$(call left_out,$(WEBSOCKET_MODULE),WebSocket (http.websocket and req:websocket),zlib,zlib1g-dev)
$(call left_out,$(SQLITE_MODULE),runnel.sqlite and runnel.store,libsqlite3,libsqlite3-dev)
endef

.PHONY: programs
programs: modules $(BUILD)/bin/runnel

.PHONY: modules
modules: $(BUILD)/runnel/core.so $(OPTIONAL_MODULES)

$(BUILD)/runnel/core.so: $(OBJECTS) $(COUNTS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(MODULE_LDFLAGS) $(COUNTED) -o $@ $^ $(SYSTEM_LIBS)

$(BUILD)/monitor_assets.c: scripts/embed_assets.lua $(MONITOR_ASSETS)
	@mkdir -p $(@D)
	$(Q)$(LUA) scripts/embed_assets.lua $(MONITOR_ASSETS) > $@.new
	@mv $@.new $@

# All objects are built again for another Lua.
LUA_KIND = $(BUILD)/obj/for-lua-$(LUA_VERSION)
$(LUA_KIND):
	@mkdir -p $(@D)
	@rm -f $(@D)/for-lua-*
	@touch $@

$(BUILD)/obj/%.o: csrc/%.c Makefile $(LUA_KIND)
	@mkdir -p $(@D)
	$(NEEDS)$(Q)$(CC) $(CORE_CFLAGS) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/%.o: $(BUILD)/%.c Makefile $(LUA_KIND)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CORE_CFLAGS) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

ifdef PARTS # small, but what runs at each operation is fast
$(foreach folder,base core lifetimes channels blocks,$(BUILD)/obj/$(folder)/%.o): OPTIMIZED = -O2 -fno-plt $(LTO)
endif

# A C++ exception that passes through it is noticed (capi/api.c).
$(BUILD)/obj/capi/api.o $(BUILD)/obj/hidden/capi/api.o: CPPFLAGS += -fexceptions

# The library has the modules without comments; with PARTS only those that the parts need (scripts/parts.lua), and other
# modules are said to be left out.
LUA_FILES = $(sort $(shell find lua -name '*.lua' -not -path 'lua/runnel/host/*'))
PARTS_KIND = $(BUILD)/obj/parts-of-library/$(or $(subst $() ,_,$(strip $(PARTS))),all)
$(BUILD)/modules.c: scripts/embed.lua scripts/bare_lua.lua scripts/parts.lua $(LUA_FILES) $(SOURCES) $(PARTS_KIND)
	@mkdir -p $(@D)
	$(Q)$(LUA) scripts/parts.lua '$(or $(PARTS),all)' $(LUA_FILES) $(SOURCES) > $(BUILD)/modules.list
	$(Q)$(LUA) scripts/embed.lua --bare runnel_modules librunnel/modules.h $$(cat $(BUILD)/modules.list) > $@.new
	@mv $@.new $@
$(PARTS_KIND):
	@rm -rf $(@D)
	@mkdir -p $(@D)
	@touch $@
ifdef PARTS
$(BUILD)/obj/librunnel/open.o $(BUILD)/obj/hidden/librunnel/open.o: $(PARTS_KIND)
$(BUILD)/obj/librunnel/open.o $(BUILD)/obj/hidden/librunnel/open.o: CPPFLAGS += -DRUNNEL_PARTS='"$(PARTS)"'
endif

# What the prompt's :doc shows, and the index in which it and the site search.
DOC_TABLES = $(BUILD)/runnel.host.manual_tables.lua
DOC_INDEX  = $(BUILD)/runnel.host.search_index.lua
DOC_PAGES  = README.md $(sort $(wildcard docs/*.md docs/manual/*.md site/tour/*.md)) CONTRIBUTING.md CHANGELOG.md
DOC_TOOLS  = scripts/docs/sections.lua scripts/docs/rows.lua scripts/docs/markdown_tables.lua
$(DOC_TABLES): scripts/docs/manual_tables.lua $(DOC_TOOLS) $(DOC_PAGES)
$(DOC_INDEX): scripts/docs/search_index.lua scripts/docs/search_words.lua $(DOC_TOOLS) $(DOC_PAGES) docs/search.txt \
  lua/runnel/prompt/words.lua
$(DOC_TABLES) $(DOC_INDEX):
	@mkdir -p $(@D)
	$(Q)$(LUA) $< $(DOC_PAGES) > $@.new
	@mv $@.new $@

# The Lua that the executable has, as an interpreter.
$(BUILD)/compiler: scripts/san_lua.c Makefile $(LUA_KIND)
	@mkdir -p $(@D)
	$(NEEDS)$(Q)$(CC) -std=c11 -D_POSIX_C_SOURCE=200809L $(LUA_CFLAGS) -O1 -o $@ $< $(HOST_LUA_LIBS) $(SYSTEM_LIBS)

EMBED_IN_HOST = $(if $(PARTS),$(LUA) scripts/embed.lua --bare,$(if $(BYTECODE),$(BUILD)/compiler scripts/embed.lua --compiled,$(LUA) scripts/embed.lua))
DOCUMENTS     = $(if $(PARTS),,$(DOC_TABLES) $(DOC_INDEX))
COMPILER      = $(if $(BYTECODE),$(BUILD)/compiler)
$(BUILD)/compiled_modules.c: $(LUA_FILES) scripts/embed.lua $(COMPILER)
	@mkdir -p $(@D)
	$(Q)$(EMBED_IN_HOST) runnel_modules librunnel/modules.h $(LUA_FILES) > $@.new
	@mv $@.new $@
$(BUILD)/host_modules.c: $(HOST_LUA_FILES) $(DOCUMENTS) scripts/embed.lua $(COMPILER)
	@mkdir -p $(@D)
	$(Q)$(EMBED_IN_HOST) host_modules librunnel/modules.h $(HOST_LUA_FILES) $(DOCUMENTS) > $@.new
	@mv $@.new $@

$(HOST_OBJECTS): $(HOST_KIND)
$(HOST_KIND): # the host is built again after libedit was installed or removed
	@mkdir -p $(@D)
	@rm -f $(@D)/*-editor
	@touch $@

$(BUILD)/bin/runnel: $(HOST_OBJECTS) $(HOST_LINKED) $(COUNTS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(HOST_LDFLAGS) $(COUNTED) -o $@ $^ $(HOST_LUA_LIBS) $(HOST_EDIT_LIBS) $(SYSTEM_LIBS)

# An executable that needs no other file, not even the C library; nor do the programs that it builds. C modules are
# linked into it, if their libraries are there as archives; it can load no others. Of libcurl it must be the archive that
# scripts/static_libraries builds: Debian's cannot be linked (docs/manual/build.md).
static_part = $(if $(and $($(1)_MODULE),$(or $(if $(2),,yes),$(call all_of,$(2),$(call archives,$(2))))),$(1))
STATIC_PARTS   = $(call static_part,HTTPD) $(call static_part,MONITOR) $(call static_part,SQLITE,sqlite3) \
                 $(call static_part,TLS,ssl crypto) $(call static_part,WEBSOCKET,z) \
                 $(call static_part,NATS,nats ssl crypto) \
                 $(if $(wildcard $(STATIC_FOLDER)/libcurl.a),$(call static_part,HTTP,$(CURL_AND_NEEDS)))
CURL_AND_NEEDS = curl psl idn2 unistring nghttp2 ssl crypto z
with_uv        = $(call all_of,lua$(LUA_VERSION)-luv $(1),$(call archives,lua$(LUA_VERSION)-luv $(1)))
STATIC_LUV     = $(or $(call with_uv,uv),$(call with_uv,uv_a))
STATIC_OBJECTS = $(STATIC_PARTS:%=$(BUILD)/static/%.o)
# libcrypto may need libzstd: Debian 13's does.
STATIC_LIBS    = $(STATIC_LUV) $(call archives,sqlite3 nats $(CURL_AND_NEEDS) zstd) $(HOST_LUA_LIBS) $(HOST_EDIT_LIBS)
.PHONY: static
static: $(BUILD)/bin/runnel-static ## build an executable that needs not even the C library: build/bin/runnel-static
	@echo 'built: $< (linked into it: $(if $(STATIC_LUV),luv )$(STATIC_PARTS))'

# The same with parts that need no library, for machines with little room. $*: of check-system-NAME.
SMALL_PARTS  = rn flow json csv xf core_async driver profile
SMALL_STATIC = PARTS='$(SMALL_PARTS)' EDIT= HOST_EDIT_LIBS= BYTECODE= STATIC_PARTS= STATIC_LUV= \
  CFLAGS='-Os -s -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -Wl,--gc-sections \
  $(if $(filter musl,$*),-fno-exceptions)'
.PHONY: static-small
static-small: ## one of some 2 MB, with SMALL_PARTS only: scripts, without C modules, the prompt and documents: build/small/bin/runnel-static
	$(THEN) build/small/bin/runnel-static BUILD=build/small $(SMALL_STATIC)
	@echo 'built: build/small/bin/runnel-static'

.PHONY: static-libraries
static-libraries: ## build libcurl and libnats as archives, for make static
	$(SETUP) static
	@scripts/static_libraries $(STATIC_FOLDER)

# Each module is one object, whose functions other modules do not see: some have the same names.
define static_object
$(BUILD)/static/$(1).o: $$($(1)_OBJECTS)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS) $$(if $$(LTO),-flinker-output=nolto-rel) -r -o $$@ $$^
	$$(Q)objcopy --localize-hidden $$@
endef
$(foreach part,HTTP HTTPD MONITOR NATS SQLITE TLS WEBSOCKET,$(eval $(call static_object,$(part))))

STATIC_KIND = $(BUILD)/static/with-$(subst $() ,-,$(strip $(if $(STATIC_LUV),luv) $(STATIC_PARTS)))
$(STATIC_KIND): # linked.o is built again when there are other archives
	@mkdir -p $(@D)
	@rm -f $(@D)/with-*
	@touch $@

$(BUILD)/static/linked.o: csrc/host/linked.c Makefile $(LUA_KIND) $(STATIC_KIND)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CORE_CFLAGS) $(CPPFLAGS) $(STATIC_PARTS:%=-DRUNNEL_LINKED_%) $(if $(STATIC_LUV),-DRUNNEL_LINKED_LUV) $(CFLAGS) -c -o $@ $<

$(BUILD)/bin/runnel-static: $(filter-out %/linked.o,$(HOST_OBJECTS)) $(BUILD)/static/linked.o $(HOST_LINKED) $(STATIC_OBJECTS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -static -o $@ $^ $(STATIC_LIBS) $(SYSTEM_LIBS)

# The library for C programs, shared and static. The archive has one object, with the names of runnel.h only; a shared
# library that it is linked into does not export them.
.PHONY: library librunnel
library: $(BUILD)/$(LIBRARY) $(BUILD)/librunnel.a $(BUILD)/runnel.pc

librunnel: library ## the library for C programs only; PARTS="rn flow": with these parts, small, into build/parts/
	@echo 'built in $(BUILD)/: $(LIBRARY), librunnel.a$(if $(PARTS),$(comma) with: $(PARTS))'

$(BUILD)/$(LIBRARY): $(LIB_OBJECTS)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(LIBRARY_FLAGS) $(STRIPPED) -o $@ $(LIB_OBJECTS) $(LIBS)

EXPORTING       = capi/% librunnel/open lua/state/open
ARCHIVE_OBJECTS = $(foreach name,$(LIB_OBJECTS:$(BUILD)/obj/%.o=%),$(BUILD)/obj/$(if $(filter $(EXPORTING),$(name)),hidden/)$(name).o)
$(BUILD)/obj/hidden/%.o: csrc/%.c Makefile $(LUA_KIND)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CORE_CFLAGS) $(CPPFLAGS) -DRUNNEL_API= $(CFLAGS) -MMD -MP -c -o $@ $<
-include $(ARCHIVE_OBJECTS:.o=.d)

$(BUILD)/librunnel.a: $(ARCHIVE_OBJECTS)
	$(Q)$(CC) $(CFLAGS) $(if $(LTO),-flinker-output=nolto-rel) -r -o $(BUILD)/librunnel.o $(ARCHIVE_OBJECTS)
	$(Q)if command -v objcopy >/dev/null; then \
	  objcopy --wildcard --keep-global-symbol='runnel_*' --keep-global-symbol=luaopen_runnel_core $(BUILD)/librunnel.o; fi
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $(BUILD)/librunnel.o

# A program finds the library where it was installed, without ldconfig or LD_LIBRARY_PATH; below /usr it needs no help.
RPATH = $(if $(filter-out /usr,$(PREFIX)), -Wl$(comma)-rpath$(comma)"$${libdir}")
$(BUILD)/runnel.pc: csrc/librunnel/runnel.pc.in csrc/capi/runnel.h Makefile .FORCE
	@mkdir -p $(@D)
	@sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIB@|$(LIB)|; s|@VERSION@|$(VERSION)|; s|@LUA@|$(if $(LUA_PACKAGE),Requires: $(LUA_PACKAGE))|' \
	  -e 's|@LUA_CFLAGS@|$(if $(LUA_PACKAGE),, $(LUA_CFLAGS))|; s|@LUA_LIBS@|$(if $(LUA_PACKAGE),, $(LUA_LIBS))|' \
	  -e 's|@RPATH@|$(RPATH)|; s|@SYSTEM_LIBS@|$(SYSTEM_LIBS)|' $< > $@
.FORCE: # PREFIX may differ from the last run

-include $(LIB_OBJECTS:.o=.d) $(HOST_OBJECTS:.o=.d)

.PHONY: env
env: ## print the variables with which runnel and Lua use this tree: eval "$(make -s env)"
	@echo "export LUA_PATH='$(LUA_PATH)'"
	@echo "export LUA_CPATH='$(LUA_CPATH)'"
	@echo "export RUNNEL='$(RUNNEL)'"
	@echo "export PATH='$(patsubst %/,%,$(dir $(RUNNEL)))':\"\$$PATH\""

include bench/bench.mk

# Each of these installs what it needs, then runs run-NAME.
COMMANDS = demo demo-cluster $(BENCHES)
NEEDED_demo         = demo
NEEDED_demo-cluster = cluster
.PHONY: $(COMMANDS) $(COMMANDS:%=run-%)
$(COMMANDS): %:
	$(SETUP) $(or $(NEEDED_$*),run)
	$(BUILDING)
	$(THEN) run-$*

demo: ## set up, build, and run five programs: words, pipelines, processes, threads, a store
run-demo: programs
	@scripts/demo

demo-cluster: ## kill workers and nats-servers, and check that no result is lost; CLUSTER=3 FILES=folder
run-demo-cluster: programs
	@$(LUA) scripts/interruptible.lua scripts/demo_cluster.lua

# The contract: all public names, made from the program.
.PHONY: api
api: programs ## write spec/api.txt, the list of all public names, from the program
	@$(LUA) scripts/docs/api.lua > $(BUILD)/api.txt
	@mv $(BUILD)/api.txt spec/api.txt
	@git diff --stat -- spec/api.txt 2>/dev/null || true

.PHONY: llms
llms: modules ## write llms.txt, llms-full.txt, doc.json and the pages as Markdown into build/llms; make site adds them, too
	@rm -rf $(BUILD)/llms && mkdir -p $(BUILD)/llms
	@$(LUA) scripts/docs/llms.lua $(BUILD)/llms $(SITE_URL)
	@echo 'written: $(BUILD)/llms'

# What lua-language-server and other readers of LuaCATS annotations need to know runnel without an installation.
ADDON = $(BUILD)/addon/runnel
.PHONY: addon
addon: ## write an addon for lua-language-server, also for EmmyLua, into build/addon/runnel
	@rm -rf $(ADDON) && mkdir -p $(ADDON)/library
	@cp packaging/addon/config.json packaging/addon/emmyrc.json $(ADDON)/
	@$(LUA) scripts/docs/addon.lua $(ADDON)/library
	@echo 'written: $(ADDON)'

.PHONY: teal
teal: ## write declarations for Teal (runnel.d.tl and those of the modules) into build/teal
	@rm -rf $(BUILD)/teal
	@$(LUA) scripts/docs/teal.lua $(BUILD)/teal
	@echo 'written: $(BUILD)/teal'

.PHONY: test run-specs
test: ## set up, build and run the specs, without those that compute much (check-specs-rest); SPEC and BUSTED_FLAGS choose among all
	$(SETUP) test
	$(BUILDING)
	$(THEN) run-specs $(if $(LONG)$(BUSTED_FLAGS)$(filter-out spec,$(SPEC)),,BUSTED_FLAGS=--exclude-tags=$(REST))
# The tags of specs that compute much (spec/support/long.lua).
REST = heavy,ci
# SPEC_LIMIT: the seconds that a spec may take; 0 is no limit.
run-specs: programs
	$(Q)UNDER='$(UNDER)' BUILD='$(BUILD)' RUNNEL_LONG='$(LONG)' SPEC_LIMIT=$(or $(SPEC_LIMIT),$(if $(LONG),3600,120)) \
	  $(LUA) scripts/specs.lua $(SPEC) -- \
	  $(if $(LONG),,--exclude-tags=long) $(BUSTED_FLAGS)

.PHONY: debug
debug: ## run the specs with the core's invariants asserted, in build/debug/
	$(SETUP) test
	$(THEN) run-specs BUILD=build/debug CFLAGS='$(DEBUG_CFLAGS)'

include tests/checks.mk
include site/site.mk

## The sources

.PHONY: lint lint-lua lint-format lint-warnings lint-tidy lint-cppcheck lint-tree lint-shell lint-annotations
lint: ## check the sources with all tools
	$(SETUP) lint
	$(THEN) --keep-going --output-sync=target lint-lua lint-format lint-warnings lint-tidy lint-cppcheck lint-tree lint-shell \
	  lint-annotations lint-site

C_FILES   = $(wildcard csrc/*/*.c csrc/*/*/*.c scripts/*.c tests/*.c tests/*/*.c bench/*.c)
LUA_TREES = $(wildcard lua csrc/site spec examples bench scripts tests)

# Releases of clang-format differ in some lines, so only one release checks them.
FORMATTED    = $(C_FILES) $(wildcard csrc/*/*.h csrc/*/*/*.h tests/*.h tests/*/*.h examples/embed/*.c)
CLANG_FORMAT = 14
lint-format:
	@if clang-format --version | grep -q 'version $(CLANG_FORMAT)\.'; then clang-format --dry-run --Werror $(FORMATTED); \
	else echo 'lint-format: skipped, since clang-format is not of version $(CLANG_FORMAT)'; fi

.PHONY: format
format: ## format the C files with clang-format
	clang-format -i $(FORMATTED)

lint-lua:
	luacheck --quiet --no-color $(LUA_TREES)
	find $(LUA_TREES) -name '*.lua' | xargs luac5.4 -l -l -p | $(LUA) scripts/check_loops.lua

# Both compilers, with and without assertions. gcc finds some faults only while it optimizes; clang without that, and with
# assertions in lint-tidy.
.PHONY: lint-objects
lint-objects:
	$(THEN) all CC=gcc BUILD=build/lint/gcc       CFLAGS='-O2 -Werror'
	$(THEN) all CC=gcc BUILD=build/lint/gcc-debug CFLAGS='-O2 -Werror -DRUNNEL_DEBUG'

lint-warnings: lint-objects
	clang -fsyntax-only -Werror $(CORE_CFLAGS) $(filter csrc/%,$(filter-out csrc/host/%,$(C_FILES)))
	clang -fsyntax-only -Werror $(CORE_CFLAGS) $(HOST_CPPFLAGS) $(filter csrc/host/%,$(C_FILES))

# With clang's warnings, and without its analyzer, which takes longer than all other checks of the sources together
# (check-analyzer). All files get the flags of the host.
lint-tidy:
	clang-tidy --quiet --checks='clang-diagnostic-*,-clang-analyzer-*' $(C_FILES) -- $(CORE_CFLAGS) -DRUNNEL_DEBUG $(HOST_CPPFLAGS)

# It checks each file once for each way in which the conditions of the preprocessor may turn out: for other systems, too,
# but not once more for each compiler and processor, which the compilers above see.
ONE_COMPILER = $(addprefix -U,__GNUC__ __SANITIZE_ADDRESS__ __has_feature __i386__ __x86_64__)
lint-cppcheck:
	cppcheck --quiet --std=c11 --library=posix --enable=warning,performance,portability --inline-suppr \
	  --suppress=missingIncludeSystem $(ONE_COMPILER) --error-exitcode=1 -Icsrc $(C_FILES)

lint-tree: lint-objects # no include and no call runs upward or in a circle; no tabs, except in Go, and no trailing spaces
	@$(LUA) scripts/check_includes.lua csrc build/lint/gcc/obj build/lint/gcc-debug/obj
	@$(LUA) scripts/check_requires.lua lua
	@grep -rnIP --exclude-dir=.git --exclude-dir=build --exclude-dir=vendor --exclude=Makefile --exclude=rules --exclude='*.mk' --exclude='*.go' \
	  '\t|\s$$' .; test $$? -eq 1 # 2 means that grep failed
	@grep -rnIP --include='*.go' '\s$$' bench examples; test $$? -eq 1
	@grep -rnE "[\"']lua5\.[45] " spec; test $$? -eq 1 # specs run the interpreter that LUA names

lint-shell:
	shellcheck .ci/run tests/browser/check site/check/check site/check/lighthouse site/packages $(filter-out %.lua %.c %/docs,$(wildcard scripts/*))

# lua-language-server, if it is installed, checks the annotations in lua/, the examples, and the snippets of README.md
# and the manual. Before 3.19 it does not know what the call of a generic class returns, and reports correct code.
ANNOTATIONS = $(abspath $(BUILD))/annotations
lint-annotations: programs
	@rm -rf $(ANNOTATIONS)
	@$(LUA) scripts/snippets.lua $(ANNOTATIONS)/tree/snippets README.md $(sort $(wildcard docs/manual/*.md))
	@cp -R lua examples .luarc.json $(ANNOTATIONS)/tree/
	@if ! command -v lua-language-server >/dev/null; then \
	  echo 'lint-annotations: skipped, since lua-language-server is not installed'; \
	elif ! printf '3.19\n%s\n' "$$(lua-language-server --version)" | sort -C -V; then \
	  echo 'lint-annotations: skipped, since lua-language-server is older than 3.19'; \
	else \
	  lua-language-server --check=$(ANNOTATIONS)/tree --checklevel=Warning --logpath=$(ANNOTATIONS)/log \
	    >$(ANNOTATIONS)/report 2>&1 || { sed 's/.*\r//' $(ANNOTATIONS)/report; exit 1; }; \
	fi

## Installing

.PHONY: install
install: all install-library install-modules ## install below $(DESTDIR)$(PREFIX), by default /usr/local
	$(Q)install -d "$(ROOT)/bin" "$(ROOT)/share/man/man1"
	$(Q)install -m 755 $(BUILD)/bin/runnel "$(ROOT)/bin/runnel"
	$(Q)install -m 644 docs/runnel.1 "$(ROOT)/share/man/man1/runnel.1"
	@echo 'installed below $(ROOT)'
	$(if $(filter-out /usr,$(PREFIX)),$(if $(filter-out /usr/local/lib,$(PREFIX)/$(LIB)),@echo "$(ELSEWHERE)"))
ELSEWHERE = $(LUA) does not look there by itself: \
export LUA_PATH='$(PREFIX)/share/lua/$(LUA_VERSION)/?.lua;;' LUA_CPATH='$(PREFIX)/$(LIB)/lua/$(LUA_VERSION)/?.so;;'

# INSTALLED: the C modules.
INSTALLED = core.so $(OPTIONAL_MODULES:$(BUILD)/runnel/%=%)
.PHONY: install-modules install-c-modules install-lua-modules
install-modules: install-c-modules install-lua-modules
install-c-modules: $(INSTALLED:%=$(BUILD)/runnel/%)
	$(Q)for module in $(INSTALLED); do \
	  install -d "$$(dirname "$(LIBDIR)/runnel/$$module")" && \
	  install -m 755 "$(BUILD)/runnel/$$module" "$(LIBDIR)/runnel/$$module" || exit; \
	done
install-lua-modules:
	$(Q)for file in $(MODULES); do \
	  install -d "$$(dirname "$(LUADIR)/$$file")" && install -m 644 "lua/$$file" "$(LUADIR)/$$file" || exit; \
	done

# The rocks (packaging/rocks.lua). LuaRocks builds them without make, except the one with the monitor's C module, whose
# page is made into a file of C first: it runs these two rules. It may build for another Lua than `make` has built for
# here, so it builds everything anew, into a folder of its own.
ROCK = BUILD=build/rock CFLAGS='$(OPTIMIZED) $(CFLAGS)'
.PHONY: rock install-rock
rock:
	@rm -rf build/rock
	$(THEN) build/rock/runnel/monitor/core.so $(ROCK)
install-rock:
	$(THEN) install-c-modules INSTALLED=monitor/core.so $(ROCK)

# A release: the archive of the last commit, which builds without git, its checksum, and the changes of this version. In
# an unpacked archive, which is no repository, it is an archive of the files there.
DIST = $(BUILD)/dist/runnel-$(VERSION)
.PHONY: dist
dist: ## write the source archive of the last commit, checksums, release notes and an SBOM into build/dist/
	@[ ! -e .git ] || git diff --quiet HEAD || echo 'note: uncommitted changes are not in the archive'
	@rm -rf $(BUILD)/dist && mkdir -p $(BUILD)/dist
	$(Q)if [ -e .git ]; then git archive --format=tar.gz --prefix=runnel-$(VERSION)/ -o $(DIST).tar.gz HEAD; \
	  else tar -czf $(DIST).tar.gz --exclude=./build --transform='s,^[.],runnel-$(VERSION),' .; fi
	$(Q)$(LUA) scripts/release_notes.lua $(VERSION) <CHANGELOG.md >$(DIST).md
	$(Q)$(SBOM) >$(DIST).spdx.json
	$(Q)$(LUA) scripts/rockspec.lua $(VERSION) $(BUILD)/dist
	$(Q)cd $(BUILD)/dist && sha256sum runnel-$(VERSION).tar.gz >runnel-$(VERSION).tar.gz.sha256 && \
	  sha256sum runnel-$(VERSION).tar.gz runnel-$(VERSION).md runnel-$(VERSION).spdx.json >SHA256SUMS
	@echo 'written: $(DIST).tar.gz, its checksum (.sha256), the release notes $(DIST).md, what the'
	@echo 'executable is made of ($(DIST).spdx.json), the checksums of all three (SHA256SUMS), and rockspecs'

# What is in the executable, and so in what `runnel build` writes, as SPDX; with PROGRAM, what such a program has besides.
COMMIT_DATE = $(or $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null),$(shell date -u +%Y-%m-%dT%H:%M:%SZ))
SBOM = TZ=UTC $(LUA) scripts/sbom.lua $(VERSION) $(or $(shell git rev-parse --short=12 HEAD 2>/dev/null),archive) \
  $(COMMIT_DATE) $(if $(PROGRAM),--program '$(PROGRAM)') $(HOST_LUA_LIBS) $(HOST_EDIT_LIBS) -lc
.PHONY: sbom
sbom: ## print what the executable is made of, as SPDX; PROGRAM=FILE: what runnel build has put into that one, too
	@$(SBOM)

.PHONY: deb run-deb
deb: ## build Debian's packages of the last commit into build/deb/
	$(SETUP) deb
	+@$(MAKE) --no-print-directory dist run-deb
run-deb:
	$(Q)scripts/debian_package $(DIST).tar.gz $(BUILD)/deb
	@echo 'written: the packages $(BUILD)/deb/*.deb'

# What programs of this version leave on disk and send, for the specs of later versions. With paths that say nothing of
# this machine.
.PHONY: fixtures
fixtures: modules ## write spec/fixtures/VERSION, the files by which specs know what this version writes; for a release
	@mkdir -p spec/fixtures/$(VERSION)
	@test -e spec/fixtures/$(VERSION)/program.lua || cp "$$(ls spec/fixtures/*/program.lua | sort -V | tail -n 1)" spec/fixtures/$(VERSION)/
	@LUA_PATH='lua/?.lua;lua/?/init.lua;;' $(LUA) spec/fixtures/make.lua $(VERSION)

# The addresses of the project, in packaging/project and in the files that are made from it.
.PHONY: project check-addresses
project: ## write SECURITY.md and others again, with the addresses of packaging/project
	@$(LUA) scripts/project.lua
check-addresses: ## no address in packaging/project is a placeholder; for a release
	@$(LUA) scripts/project.lua --check
	@$(LUA) scripts/project.lua --placeholders

.PHONY: install-library
install-library: library
	$(Q)install -d "$(ROOT)/include" "$(ROOT)/$(LIB)/pkgconfig"
	$(Q)install -m 644 csrc/capi/runnel.h "$(ROOT)/include/runnel.h"
	$(Q)install -m 644 $(BUILD)/librunnel.a "$(ROOT)/$(LIB)/librunnel.a"
	$(Q)install -m 755 $(BUILD)/$(LIBRARY) "$(ROOT)/$(LIB)/$(LIBRARY)"
	$(Q)ln -sf $(LIBRARY) "$(ROOT)/$(LIB)/$(LIBRARY_LINK)"
	$(Q)install -m 644 $(BUILD)/runnel.pc "$(ROOT)/$(LIB)/pkgconfig/runnel.pc"

.PHONY: uninstall
uninstall: ## remove what `make install` has installed
	$(Q)rm -f $(patsubst %,"$(LIBDIR)/runnel/%",core.so $(C_MODULES)) \
	  $(MODULES:%="$(LUADIR)/%") "$(ROOT)/bin/runnel" \
	  "$(ROOT)/share/man/man1/runnel.1" "$(ROOT)/include/runnel.h" \
	  $(addprefix "$(ROOT)/$(LIB)/,librunnel.a" $(LIBRARY)" $(LIBRARY_LINK)" pkgconfig/runnel.pc")
	$(Q)for dir in "$(LIBDIR)/runnel" "$(LUADIR)/runnel"; do [ ! -d "$$dir" ] || find "$$dir" -type d -empty -delete; done
	@echo 'uninstalled from $(ROOT)'

.PHONY: clean
clean: ## remove build/
	rm -rf build

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^## / { print "\n" substr($$0, 4) } /^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile bench/bench.mk tests/checks.mk site/site.mk
