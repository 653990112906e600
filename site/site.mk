## The site

# The site: README and docs/ as pages whose snippets run, and a playground. `make site` writes it to build/site. It has
# its own dependencies (scripts/setup site); nothing else needs it.

SITE      = build/site
SITE_WORK = build/site-work

.PHONY: site run-site check-site
site: ## write the documentation, with snippets that run in the browser, into build/site
	$(SETUP) site
	+@$(MAKE) --no-print-directory dist
	@scripts/debian_source liblua5.4-dev $(SITE_WORK)/lua
	@site/packages $(SITE_WORK)
	$(THEN) run-site
run-site: modules $(SITE_WORK)/runnel.js $(SITE_WORK)/modules.txt $(SITE_WORK)/worlds.txt $(DOC_INDEX)
	@RUNNEL_VERSION='$(VERSION)' SITE_URL='$(SITE_URL)' SOURCE_URL='$(SOURCE_URL)' SOURCES='$(DIST).tar.gz' \
	  node site/build.mjs $(SITE_WORK) $(SITE) $(DOC_INDEX)
	@$(LUA) scripts/docs/llms.lua $(SITE) $(SITE_URL)
	@node site/compress.mjs $(SITE)

# ---- the module: Lua and the core in WebAssembly ----

# What a page has no use for, or cannot do. csrc/site/runnel.site.lua says so when a program asks for it.
WASM_OTHERS    = host/runtime/inspect monitor/feed monitor/summary monitor/text monitor/view
# What csrc/site/main.c does in its own way; what only C modules and C programs use; threads, profiles, processes,
# descriptors and signals; and the allocator: WebAssembly cannot reserve memory without taking it, and lua/state/spans.h
# would take 256 MB.
WASM_NO_C      = base/sleep capi/functions capi/api_shared capi/api_task \
                 $(addprefix lua/internal/,lua_ending lua_profile lua_resolver lua_sigterm packing polled pool spawn) \
                 $(addprefix lua/state/,allocator blocking lua_thread spans) $(addprefix port/,ending former resolver sigterm) \
                 $(addprefix profile/,profile profile_blocked profile_state profile_timer profile_tree profile_waits)
WASM_SOURCES   = $(filter-out $(WASM_NO_C:%=csrc/%.c),$(SOURCES)) $(LIB_SOURCES) $(WASM_OTHERS:%=csrc/%.c) $(wildcard csrc/site/*.c)
WASM_OBJECTS   = $(WASM_SOURCES:csrc/%.c=$(SITE_WORK)/obj/%.o) $(SITE_WORK)/obj/modules.o $(SITE_WORK)/obj/host_modules.o
WASM_LUA       = $(filter-out lua luac,$(basename $(notdir $(wildcard $(SITE_WORK)/lua/source/src/l*.c))))
WASM_NO_LUA    = nats nats/% queue/% store store/% sqlite sqlite/% http http/% otlp otlp/% tls internal/tls_options uv uv/% \
                 prompt prompt/% sim/% driver/% meta all lite rn/file_lines rn/thread threads/% \
                 internal/base64 internal/days internal/errors/blocked \
                 internal/instruments rn/metrics internal/metrics_text rn/traceparent internal/trace_context tracing/otlp \
                 $(WASM_STORY) rn/profile profile/%
WASM_LUA_FILES = $(filter-out $(WASM_NO_LUA:%=lua/runnel/%.lua),$(filter %.lua,$(LUA_FILES)))
# What every program needs is in the module. The page loads the rest, modules.txt, after the first output.
WASM_LUA_FIRST = lua/runnel.lua $(patsubst %,lua/runnel/%.lua,monitor $(addprefix rn/,alt pipe pipeline reduce) \
                 $(addprefix internal/,check decimal ends entries errors/deadlock errors/reports exit guard living need short sign) \
                 $(addprefix workers/,gathering pipeline_jobs))
# Simulated worlds, and runnel.uv on top of them. A program that uses them loads worlds.txt.
WASM_STORY     = search/world_story
WASM_NO_WORLD  = uv/real sim/database sim/sim_http sim/sim_exchange sim/sim_redirect sim/upgrade sim/sim_nats sim/nats/%
WASM_WORLD     = $(filter-out $(WASM_NO_WORLD:%=lua/runnel/%.lua),$(filter $(patsubst %,lua/runnel/%.lua,$(WASM_STORY) uv uv/% \
                 uv/% sim/%),$(LUA_FILES))) csrc/site/runnel.uv.real.lua csrc/site/runnel.site.story.lua
WASM_HOST      = lua/runnel/host/blocks.lua csrc/site/runnel.site.lua

# A name in these lists that no file has any more would leave nothing out, or end the build, which few machines can run.
WASM_NAMES = $(WASM_LUA_FIRST) $(patsubst %,lua/runnel/%.lua,$(subst %,*,$(WASM_NO_LUA) $(WASM_NO_WORLD))) $(WASM_HOST) \
             $(patsubst %,csrc/%.c,$(WASM_OTHERS) $(WASM_NO_C))
.PHONY: lint-site
lint-site:
	@$(foreach name,$(WASM_NAMES),$(if $(wildcard $(name)),,echo 'site/site.mk: there is no $(name)'; status=1;)) exit $${status:-0}

# longjmp by WebAssembly's own exceptions: no JavaScript is on the stack, so that a program can be suspended, and a yield
# is a few times faster.
# acorn, which emcc runs in node, is where Debian has modules of node.
EMCC = NODE_PATH=/usr/share/nodejs emcc
EMCC_CFLAGS = -Oz -flto -fwasm-exceptions -sSUPPORT_LONGJMP=wasm
WASM_CFLAGS = -std=gnu11 -iquote csrc -I$(SITE_WORK)/lua/source/src -I$(SITE_WORK)/include $(WARNINGS) $(EMCC_CFLAGS)
WASM_MEMORY = 268435456
EMCC_LDFLAGS = $(EMCC_CFLAGS) --js-library csrc/site/imports.js -sMODULARIZE=1 -sEXPORT_NAME=Runnel \
  -sALLOW_MEMORY_GROWTH=1 -sMALLOC=emmalloc -sMAXIMUM_MEMORY=$(WASM_MEMORY) -sTOTAL_STACK=1MB -sENVIRONMENT=worker \
  -sPOLYFILL=0 -sTEXTDECODER=2 -sINCOMING_MODULE_JS_API=instantiateWasm,preRun \
  -sEXPORTED_FUNCTIONS=_site_run,_malloc,_free -sEXPORTED_RUNTIME_METHODS=FS,HEAPU8

$(SITE_WORK)/runnel.js: $(WASM_OBJECTS) $(WASM_LUA:%=$(SITE_WORK)/obj/lua54/%.o) csrc/site/imports.js site/site.mk
	$(Q)$(EMCC) $(EMCC_LDFLAGS) -o $@ $(filter %.o,$^)
	$(Q)wasm-opt -Os --enable-exception-handling --strip-debug --strip-producers $(@:.js=.wasm) -o $(@:.js=.wasm)

# Debian's Lua names its folder of C modules by a header of the machine's architecture.
DEB_HEADER = $(SITE_WORK)/include/lua5.4-deb-multiarch.h
$(DEB_HEADER):
	@mkdir -p $(@D)
	@echo '#define DEB_HOST_MULTIARCH "wasm32"' > $@

$(SITE_WORK)/obj/lua54/%.o: $(SITE_WORK)/lua/source/src/%.c site/site.mk | $(DEB_HEADER)
	@mkdir -p $(@D)
	$(Q)$(EMCC) -std=gnu99 -I$(SITE_WORK)/include $(EMCC_CFLAGS) -c -o $@ $<

$(SITE_WORK)/obj/%.o: csrc/%.c site/site.mk | $(DEB_HEADER)
	@mkdir -p $(@D)
	$(Q)$(EMCC) $(WASM_CFLAGS) -MMD -MP -c -o $@ $<

$(SITE_WORK)/obj/%.o: $(SITE_WORK)/%.c site/site.mk | $(DEB_HEADER)
	@mkdir -p $(@D)
	$(Q)$(EMCC) $(WASM_CFLAGS) -c -o $@ $<

$(SITE_WORK)/modules.c: scripts/embed.lua scripts/bare_lua.lua site/site.mk $(WASM_LUA_FIRST)
	@mkdir -p $(@D)
	$(Q)$(LUA) scripts/embed.lua --bare runnel_modules librunnel/modules.h $(WASM_LUA_FIRST) > $@.new
	@mv $@.new $@

$(SITE_WORK)/modules.txt: $(filter-out $(WASM_LUA_FIRST),$(WASM_LUA_FILES)) csrc/site/runnel.site.not_here.lua
$(SITE_WORK)/worlds.txt: $(WASM_WORLD)
$(SITE_WORK)/modules.txt $(SITE_WORK)/worlds.txt: scripts/embed.lua scripts/bare_lua.lua site/site.mk
	@mkdir -p $(@D)
	$(Q)$(LUA) scripts/embed.lua --text $(filter lua/% csrc/%,$^) > $@.new
	@mv $@.new $@

$(SITE_WORK)/host_modules.c: scripts/embed.lua scripts/bare_lua.lua site/site.mk $(WASM_HOST)
	@mkdir -p $(@D)
	$(Q)$(LUA) scripts/embed.lua --bare host_modules librunnel/modules.h $(WASM_HOST) > $@.new
	@mv $@.new $@

-include $(WASM_SOURCES:csrc/%.c=$(SITE_WORK)/obj/%.d)

# ---- its check ----

# Skipped with a message where emscripten or chromium is missing.
check-site: ## the site: its snippets in node, its pages in chromium; TEST=part of a name; skipped without emscripten
	@scripts/setup site || { echo 'check-site: skipped: what make site needs is missing'; exit 77; }
	@scripts/setup browser
	@$(MAKE) --no-print-directory site
	@site/check/check $(SITE_WORK) $(SITE) $(TEST)
