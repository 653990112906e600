## Checks

# A release runs all checks. CI (.ci/run) runs the specs, a fifth of their files with gcc's sanitizers, a third of
# check-oom, and in turn most of the others; not valgrind, coverage, mcdc, soaks, specs-long, analyzer, static and proxies.
# LONG=1 runs the long form of a check.

# The programs in tests/ are linked with the core, and built with its assertions and with sanitizers.
TEST_CFLAGS = -O1 -DRUNNEL_DEBUG -g -fno-omit-frame-pointer
SANITIZED   = -fsanitize=address,undefined -fno-sanitize-recover=all
CHECKED     = BUILD=build/checked CFLAGS='$(TEST_CFLAGS) $(SANITIZED)'

# gcc's thread sanitizer. It must not record entries and exits of functions: Lua leaves functions by longjmp, so the
# record would overflow.
THREADS_SANITIZED = -fsanitize=thread --param=tsan-instrument-func-entry-exit=0
RACES             = CC=gcc BUILD=build/tsan CFLAGS='$(TEST_CFLAGS) $(THREADS_SANITIZED)'

# check-NAME installs NEEDED, then runs run-NAME, built as BUILT says.
CHECKS = adversary allocator-plain allocator-races api api-clang api-races crashes differences embed fuzz gc histories \
         host lite model mutants nats-memory nats-races httpd-memory httpd-races prove proxies runs sqlite-memory sqlite-races oom san-gcc san-clang shared-memory \
         shared-races soak soak-machines specs-long specs-rest spin threads \
         tls-memory tls-races valgrind websocket world
.PHONY: $(CHECKS:%=check-%) $(CHECKS:%=run-%)
$(CHECKS:%=check-%): NEEDED = san
$(CHECKS:%=check-%): BUILT  = $(CHECKED)
$(CHECKS:%=check-%): check-%:
	$(SETUP) $(NEEDED)
	$(THEN) run-$* $(BUILT)

# ---- the specs, in other ways ----

# Slow builds leave out the specs tagged #slow, which wait, or run Lua code alone for long. Those that run for each
# commit also leave out those tagged #heavy, which compute; and valgrind, which is ten times slower still, #ci, too.
FEWER_SPECS  = SPEC_LIMIT=300 BUSTED_FLAGS='$(BUSTED_FLAGS) --exclude-tags=slow'
FEWEST_SPECS = SPEC_LIMIT=300 BUSTED_FLAGS='$(BUSTED_FLAGS) --exclude-tags=slow,heavy'

check-specs-rest: ## the specs that compute much, which `make test` leaves out
check-specs-rest: NEEDED = test
check-specs-rest: BUILT  =
run-specs-rest:
	$(THEN) run-specs SPEC="$$(grep -rlE '#($(subst $(comma),|,$(REST)))\>' spec --include='*_spec.lua' | LC_ALL=C sort | tr '\n' ' ')" BUSTED_FLAGS=--tags=$(REST)

check-specs-long: ## the specs in their long form: twenty minutes of processor time
check-specs-long: NEEDED = test
check-specs-long: BUILT  = LONG=1
run-specs-long: run-specs

check-lite: ## the specs of runnel.lite in their long form, with each Lua that is installed
check-lite: NEEDED = test
check-lite: BUILT  = LONG=1 SPEC=spec/lite
run-lite: run-specs

# gcc's run has the debug build's assertions, clang's is the release code with a Lua that checks its own assertions
# and how its API is used, if it is Lua 5.4 and its source can be had. A module can use the sanitizers only if the
# interpreter is linked with them, so there is a small interpreter for that. `nodelete` keeps the module's symbols for
# reports of leaks, which are written after Lua has unloaded the module.
.PHONY: check-san
check-san: check-san-gcc check-san-clang ## the specs with address and undefined-behaviour sanitizers, gcc's and clang's
check-san-gcc:   BUILT = CC=gcc BUILD=build/san-gcc CFLAGS='-O1 -DRUNNEL_DEBUG $(SPECS_SANITIZED)' $(FEWEST_SPECS)
check-san-clang: BUILT = CC=clang BUILD=build/san-clang CFLAGS='-O2 $(SPECS_SANITIZED)' $(FEWER_SPECS)
SPECS_SANITIZED = -g -fno-omit-frame-pointer $(SANITIZED)
run-san-gcc run-san-clang: export ASAN_OPTIONS = detect_leaks=1:detect_stack_use_after_return=1:intercept_tls_get_addr=0
run-san-gcc run-san-clang: export UBSAN_OPTIONS = print_stacktrace=1
ASSERTING = $(abspath $(BUILD))/asserting$(LUA_VERSION)
run-san-gcc:
	$(THEN) run-with-sanitizers
run-san-clang:
	@([ '$(LUA_VERSION)' = 5.4 ] || exit 77; scripts/asserting_lua '$(ASSERTING)') || \
	  { [ $$? = 77 ] && echo 'assertions of Lua: skipped: there is no source of Lua 5.4'; }
	$(THEN) run-with-sanitizers \
	  $$([ ! -e '$(ASSERTING)/liblua5.4.a' ] || echo 'LUA_CFLAGS=-I$(ASSERTING)/include' 'LUA_LIBS=$(ASSERTING)/liblua5.4.a')
.PHONY: run-with-sanitizers
run-with-sanitizers: $(BUILD)/lua
	$(THEN) run-specs LUA=$(abspath $(BUILD))/lua LDFLAGS=-Wl,-z,nodelete

$(BUILD)/lua: scripts/san_lua.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(WARNINGS) $(LUA_CFLAGS) $(CFLAGS) -o $@ $< $(if $(filter %.a,$(LUA_LIBS)),$(WHOLE_LUA),$(LUA_LIBS))

# All functions of Lua, also those that only modules call.
WHOLE_LUA = -Wl,-E -Wl,--whole-archive $(LUA_LIBS) -Wl,--no-whole-archive -lm -ldl

# Only the specs that reach the C code of runnel in their own process, since valgrind does not follow the programs that a
# spec starts, and is 30 times slower: not those of Lua modules. Of NATS, only those of connections: the others wait in
# real time for what Lua code does. The watchdog sets no limit under it.
check-valgrind: ## the specs of the core and of the C modules under valgrind's memcheck, with the core's assertions
check-valgrind: NEEDED = valgrind
check-valgrind: BUILT  = BUILD=build/valgrind CFLAGS='$(DEBUG_CFLAGS)' SPEC='$(if $(filter spec,$(SPEC)),$(VALGRIND_SPECS),$(SPEC))' \
                         BUSTED_FLAGS='$(BUSTED_FLAGS) --exclude-tags=slow,heavy,ci'
VALGRIND_SPECS = $(addprefix spec/,core http internal kit sqlite) $(wildcard spec/rn/thread*_spec.lua spec/rn/trace*_spec.lua) \
                 $(patsubst %,spec/%_spec.lua,csv every_operation json large_numbers sqlite tls zero_bytes) \
                 $(patsubst %,spec/nats/%_spec.lua,connection credentials direct ends events jetstream limits network \
                   options outage silence traceparent)
run-valgrind: export RUNNEL_MALLOC = 1 # so that valgrind sees each object
run-valgrind: export SPEC_LIMIT = 0
run-valgrind: export UNDER = valgrind --quiet --child-silent-after-fork=yes --error-exitcode=99 --leak-check=full \
                             --keep-debuginfo=yes --num-callers=20 --suppressions=tests/valgrind.supp
run-valgrind: run-specs

.PHONY: coverage run-coverage
# Counts processes also when they end themselves by a signal, as on Ctrl-C, or by _exit (tests/counts.c). Does not count
# lines that only other checks reach. Counts the branches of a function that is always inlined once, not for each of its
# callers (always_inline).
coverage: ## check that the specs reach 90 % of the branches of csrc/, and all lines except those with a reason
	$(SETUP) coverage
	@rm -rf build/coverage # else it would count sources that no longer exist
	$(THEN) run-coverage CC=gcc BUILD=build/coverage CFLAGS='-O0 -g --coverage -fprofile-update=atomic -Dalways_inline='
run-coverage: programs
	$(THEN) run-specs run-api run-host run-shared-memory run-nats-memory run-httpd-memory run-tls-memory run-tls-races \
	  run-websocket-memory run-allocator-plain
	$(THEN) run-oom OOM_SCENARIOS="tests/oom/shared.lua tests/oom/threads.lua"
	gcovr --root . --object-directory $(BUILD) --filter csrc/ --xml $(BUILD)/coverage.xml
	$(LUA) scripts/coverage.lua 90 <$(BUILD)/coverage.xml

# Each term of each condition of these folders decides it alone, once true and once false, or tests/conditions.lua says
# why not. Without the assertions, since these cannot be false.
MCDC_FOLDERS = csrc/base csrc/channels csrc/blocks
MCDC_SPECS   = spec/core spec/driver spec/sim/sim_spec.lua $(filter-out %/profile_spec.lua,$(wildcard spec/rn/*_spec.lua))
.PHONY: check-mcdc run-mcdc
check-mcdc: export MCDC_CFLAGS = -O0 -g --coverage -fcondition-coverage -fprofile-update=atomic -Dalways_inline=
check-mcdc: ## modified condition/decision coverage of channels and go blocks (MCDC_FOLDERS), in a Debian 13 root; as root
	$(SETUP) fresh
	@scripts/check_mcdc
run-mcdc: programs
	$(THEN) run-specs SPEC='$(MCDC_SPECS)'
	$(THEN) run-api run-base run-shared-memory run-allocator-plain run-gc run-model
	$(THEN) run-oom
	gcov --conditions --json-format --stdout $$(find $(BUILD) -name '*.gcda') 2>/dev/null | \
	  $(LUA) scripts/conditions.lua tests/conditions.lua $(MCDC_FOLDERS)

# ---- programs of their own ----

check-model: ## random programs on the core and on a model of it; SEED=n runs and prints one of them
run-model: $(BUILD)/runner
	$(BUILD)/runner tests/model.lua check $(BUILD)/runner $(if $(LONG),10000000,300000) $(SEED)

# A sample of programs, the same for the same seed: about a minute of CPU time.
.PHONY: prove prove-all mutants
prove: check-prove ## small programs in every order on the core and on lite.lua: a random sample of SEED, by default the commit
check-prove: NEEDED = run
check-prove: BUILT  = $(if $(SEED),SEED=$(SEED))
run-prove: modules $(BUILD)/structures
	$(BUILD)/structures $(or $(SEED),$(COMMIT_SEED))
	$(LUA) tests/prove/prove.lua first $(or $(SEED),$(COMMIT_SEED))
	$(LUA) tests/prove/prove.lua long $(or $(SEED),$(COMMIT_SEED)) $(if $(LONG),100000,5000)
	$(LUA) tests/prove/prove.lua sample $(or $(SEED),$(COMMIT_SEED)) $(if $(LONG),400000,12000)
COMMIT_SEED = $(shell printf '%d' 0x$$(git rev-parse --short=6 HEAD 2>/dev/null || echo 1))

prove-all: ## all programs of tests/prove/space.lua, in half a day: JOBS at a time; continues build/proved, which says what was done
	$(SETUP) run
	$(THEN) modules
	seq $(JOBS) | xargs -P $(JOBS) -I @ $(LUA) tests/prove/prove.lua all build/proved $(or $(SECONDS),1000000) @ $(JOBS)

# COUNT faults, spread over the sources, chosen by SEED; or all of them. Goes on with build/mutants/done, which says what
# was done; remove it to begin again.
mutants: check-mutants ## 200 faults planted in csrc/channels, csrc/blocks and csrc/base: what finds each; COUNT=, SEED=, or ALL=1
check-mutants: NEEDED = test
check-mutants: BUILT  = CC=gcc BUILD=build/mutants CFLAGS=-O1 $(if $(SEED),SEED=$(SEED)) $(if $(COUNT),COUNT=$(COUNT)) $(if $(ALL),ALL=1)
FAULTS = $(BUILD) $(if $(ALL),0,$(or $(COUNT),200)) $(or $(SEED),1)
run-mutants: programs $(BUILD)/runner $(BUILD)/structures
	@printf '%s\n' '$(CORE_CFLAGS) $(CPPFLAGS) $(CFLAGS)' >$(BUILD)/flags
	@printf '%s\n' '$(LIBS)' >$(BUILD)/libs
	@printf ' %s \n' '$(OBJECTS)' >$(BUILD)/parts
	@seq 2 | CC='$(CC)' xargs -P 2 -I @ nice $(LUA) tests/mutants/mutants.lua run $(FAULTS) @ 2
	@$(LUA) tests/mutants/mutants.lua tell $(FAULTS)

check-oom: ## every allocation of tests/oom/*.lua fails once
OOM_SCENARIOS ?= $(sort $(wildcard tests/oom/*.lua))
run-oom: export RUNNEL_MALLOC = 1 # so that each allocation is a malloc, which can fail
run-oom: $(BUILD)/oom
	printf '%s\n' $(OOM_SCENARIOS) | xargs -P $(JOBS) -n 1 $(BUILD)/oom $(if $(LONG),--long 10)

check-fuzz: ## libFuzzer on the core, with assertions and invariants, and on the parser of HTTP; LONG=1: an hour each; INPUT=file: repeats one input of the core
check-fuzz: NEEDED = fuzz
check-fuzz: BUILT  = CC=clang BUILD=build/fuzz CFLAGS='$(TEST_CFLAGS) $(SANITIZED) -fsanitize=fuzzer-no-link'
run-fuzz: $(BUILD)/fuzz $(BUILD)/fuzz_http
	mkdir -p $(BUILD)/corpus $(BUILD)/corpus_http
	$(BUILD)/fuzz_http -artifact_prefix=$(BUILD)/http- -timeout=30 -max_len=600 -dict=tests/http/fuzz_http.dict \
	  $(if $(LONG),-max_total_time=3600 $(BUILD)/corpus_http,-runs=300000 -seed=1)
	$(BUILD)/fuzz -artifact_prefix=$(BUILD)/ -timeout=30 -max_len=1024 -len_control=0 \
	  $(or $(INPUT),$(if $(LONG),-max_total_time=3600 $(BUILD)/corpus,-runs=12000 -seed=1))

check-gc: ## go blocks and the collector: unreachable go blocks, finalizers, closing the state; memory does not grow
run-gc: $(BUILD)/runner
	$(BUILD)/runner tests/gc.lua $(if $(LONG),10000000,300000)
	$(if $(LONG),for seed in $$(seq 2 30); do $(BUILD)/runner tests/gc.lua 100000 $$seed || exit; done)

# Each of these is a program of its own: runner FILE ROUNDS [SEED].
check-adversary: ## tests/adversary/*.lua: random programs that misuse the library; SEED=n repeats a failure
ADVERSARIES ?= $(sort $(wildcard tests/adversary/*.lua))
run-adversary: $(BUILD)/runner
	for file in $(ADVERSARIES); do $(BUILD)/runner $$file $(if $(LONG),1000,10) $(SEED) || exit; done

check-soak: ## load on everything at once for 10 s (LONG=1: 10 minutes): no lost values, stable memory
run-soak: $(BUILD)/runner
	$(BUILD)/runner tests/soak/soak.lua $(if $(LONG),600,10) $(SEED)
	$(BUILD)/runner tests/soak/soak_io.lua $(if $(LONG),600,10) $(SEED)

check-soak-machines: ## random kills of workers, submitters and servers for 30 s (LONG=1: 34 minutes): nothing is lost
check-soak-machines: NEEDED = cluster
check-soak-machines: BUILT  =
run-soak-machines: programs
	$(LUA) tests/soak/soak_machines.lua $(if $(LONG),800,20) $(or $(SEED),0) 1
	$(if $(LONG),$(LUA) tests/soak/soak_machines.lua 800 $(or $(SEED),0) 3)
	$(LUA) tests/soak/soak_jobs.lua $(if $(LONG),300,10) $(or $(SEED),0)

check-histories: ## processes on a store, a nats-server and three are killed, stopped and disturbed: their histories are linearizable; ROUNDS=n, or 60m, as with LONG=1; SEED=n
check-histories: NEEDED = cluster
check-histories: BUILT  = $(if $(SEED),SEED=$(SEED)) $(if $(ROUNDS),ROUNDS=$(ROUNDS))
run-histories: programs
	$(LUA) tests/histories/histories.lua $(or $(ROUNDS),$(if $(LONG),60m,1)) $(or $(SEED),$(COMMIT_SEED))

check-runs: ## processes that continue runs of a store are killed, clocks are set and disks full: none is lost, none does anything twice; KILLS=n, or 2,000 with LONG=1; SEED=n
check-runs: NEEDED = sqlite
check-runs: BUILT  = $(if $(SEED),SEED=$(SEED)) $(if $(KILLS),KILLS=$(KILLS))
run-runs: programs
	$(LUA) tests/runs/runs.lua $(or $(KILLS),$(if $(LONG),2000,40)) $(or $(SEED),$(COMMIT_SEED))

check-crashes: ## a machine crashes while a store works: each disk that this may leave is right; CRASHES=n, LONG=1: ten million; SEED=n
check-crashes: NEEDED = sqlite
check-crashes: BUILT  = $(if $(SEED),SEED=$(SEED)) $(if $(CRASHES),CRASHES=$(CRASHES))
run-crashes: $(if $(SQLITE_MODULE),programs $(BUILD)/crashes.so)
	$(if $(SQLITE_MODULE),$(LUA) tests/crashes/crashes.lua $(or $(CRASHES),$(if $(LONG),10000000,300000)) $(or $(SEED),$(COMMIT_SEED)),\
	  @echo 'crashes: skipped: libsqlite3 is not installed')

# The same programs by default, so that a failure is not one of chance. They wait more than they compute.
check-world: ## random programs in reality and in a simulated world, which must have every outcome of reality; PROGRAMS=n, SEED=n, NOTION=sockets
check-world: NEEDED = world
check-world: BUILT  = $(if $(PROGRAMS),PROGRAMS=$(PROGRAMS)) $(if $(SEED),SEED=$(SEED)) $(if $(NOTION),NOTION=$(NOTION))
WORLD_JOBS = 6
run-world: programs
	seq $(WORLD_JOBS) | RUNNEL='$(RUNNEL)' xargs -P $(WORLD_JOBS) -I @ $(LUA) tests/world/world.lua \
	  $(or $(PROGRAMS),$(if $(LONG),10000,200)) $(or $(SEED),1) @ $(WORLD_JOBS) $(NOTION)

# Random and table-driven programs on the C API.
CAPI_TESTS = $(patsubst tests/capi/%.c,$(BUILD)/capi/%,$(wildcard tests/capi/*.c))

check-api: check-api-clang check-api-races ## the C API: tests/api.c and tests/capi, with the address and thread sanitizers; SEED=n
check-api-clang: BUILT = CC=clang BUILD=build/checked-clang CFLAGS='-O2 -g -fno-omit-frame-pointer $(SANITIZED)'
check-api-races: BUILT = $(RACES)
run-api run-api-clang run-api-races: export RUNNEL_MALLOC = 1 # so that each allocation is a malloc, which can fail
run-api run-api-clang run-api-races: $(BUILD)/api $(CAPI_TESTS)
	$(BUILD)/api
	for test in $(CAPI_TESTS); do $$test $(if $(LONG),1000,20) $(SEED) || exit; done

check-host: ## what specs reach only partly, with sanitizers: parts of the executable (tests/host.c), csrc/base (tests/base.c)
run-host: $(BUILD)/host_parts run-base
	$(BUILD)/host_parts

.PHONY: run-base
run-base: $(BUILD)/base
	$(BUILD)/base

check-embed: ## the programs in examples/embed, built outside the tree: plain, under valgrind, with the thread sanitizer, with parts of the library
check-embed: NEEDED = embed
check-embed: BUILT  = CC=gcc
run-embed: export THREADS_SANITIZED := $(THREADS_SANITIZED)
run-embed:
	rm -rf build/embed
	$(THEN) install-library PREFIX='$(abspath build/embed/plain)' DESTDIR= >/dev/null
	$(THEN) install-library PREFIX='$(abspath build/embed/tsan)' DESTDIR= $(RACES) >/dev/null
	$(THEN) install-library PREFIX='$(abspath build/embed/core)' DESTDIR= PARTS=core >/dev/null
	$(THEN) install-library PREFIX='$(abspath build/embed/parts)' DESTDIR= PARTS=rn >/dev/null
	scripts/check_embed '$(abspath build/embed)'

.PHONY: check-allocator
check-allocator: check-allocator-plain check-allocator-races ## memory of small objects: random calls, states, threads
check-allocator-plain: BUILT = BUILD=build/debug CFLAGS='$(DEBUG_CFLAGS)'
check-allocator-races: BUILT = $(RACES)
run-allocator-plain run-allocator-races: $(BUILD)/allocator
	$(BUILD)/allocator $(if $(LONG),2000,8) $(SEED)

check-threads: ## Lua states in different threads share nothing, checked by the thread sanitizer
check-threads: BUILT = BUILD=build/threads CFLAGS='-O1 -g -fsanitize=thread'
run-threads: $(BUILD)/threads
	$(BUILD)/threads tests/threads.lua $(if $(LONG),32,4)

.PHONY: check-shared
check-shared: check-shared-memory check-shared-races ## shared channels: random operations of threads and states, with sanitizers
check-shared-memory check-shared-races: NEEDED = shared
check-shared-races: BUILT = $(RACES)
run-shared-memory run-shared-races: $(BUILD)/shared $(BUILD)/shared_lua $(BUILD)/pack $(BUILD)/runner
	$(BUILD)/pack tests/shared/pack.lua $(if $(LONG),100000,2000)
	$(BUILD)/shared $(if $(LONG),500,10)
	$(BUILD)/runner tests/shared/family.lua $(if $(LONG),1000,20)
	for seed in $$(seq 1 $(if $(LONG),500,10)); do \
	  $(BUILD)/shared_lua tests/shared/shared_lua.lua 2 4 1000000 orderly $$seed && \
	  $(BUILD)/shared_lua tests/shared/shared_lua.lua 4 5 1000000 abrupt $$seed && \
	  $(BUILD)/shared_lua tests/shared/callbacks.lua 4 1 1000000 abrupt $$seed || exit; done

.PHONY: check-nats
check-nats: check-nats-memory check-nats-races ## connections to NATS used and closed in every way, with sanitizers
check-nats-memory check-nats-races: NEEDED = nats
check-nats-races: BUILT = $(RACES)
run-nats-memory run-nats-races: export LUA_CPATH := $(abspath $(BUILD))/?.so;;
run-nats-memory run-nats-races: $(BUILD)/runner $(NATS_MODULE) $(if $(NATS_MODULE),$(BUILD)/nats_oom)
	$(if $(NATS_MODULE),$(BUILD)/nats_oom)
	$(BUILD)/runner tests/nats/nats.lua $(if $(LONG),1000,40)

check-differences: ## random requests that http.serve, Node and Go read differently; skipped without node or go; SEED=n
check-differences: NEEDED = web
check-differences: BUILT  =
run-differences: programs
	$(RUNNEL) tests/http/http_differences.lua $(if $(LONG),600,60) $(SEED) || [ $$? = 77 ] # it has said that it is skipped

check-proxies: ## requests that nginx, HAProxy or Caddy in front of http.serve has not read as it does; LONG=1: 10 minutes of random ones; SEED=n
check-proxies: NEEDED = proxies
check-proxies: BUILT  =
# Debian has nginx and HAProxy there, which is not in the PATH of an ordinary user.
check-proxies run-proxies: export PATH := $(PATH):/usr/sbin
run-proxies: programs
	$(RUNNEL) tests/http/http_proxies.lua $(if $(LONG),600,60) $(SEED)

# Failing allocations with the thread sanitizer take a quarter of an hour, so only the long form has them.
.PHONY: check-sqlite
check-sqlite: check-sqlite-memory check-sqlite-races ## databases of runnel.sqlite used in every way, with sanitizers
check-sqlite-memory check-sqlite-races: NEEDED = sqlite
check-sqlite-races: BUILT = $(RACES)
run-sqlite-memory run-sqlite-races: export LUA_CPATH := $(abspath $(BUILD))/?.so;;
run-sqlite-memory run-sqlite-races: export RUNNEL_MALLOC = 1
run-sqlite-memory run-sqlite-races: $(BUILD)/runner $(SQLITE_MODULE) $(if $(SQLITE_MODULE),$(BUILD)/sqlite_oom)
	$(if $(SQLITE_MODULE),$(if $(LONG)$(filter-out %tsan,$(BUILD)),\
	  $(BUILD)/sqlite_oom tests/sqlite/sqlite_oom.lua $(if $(LONG),0,40)))
	$(if $(SQLITE_MODULE),$(BUILD)/runner tests/sqlite/sqlite.lua $(if $(LONG),1000,40))

.PHONY: check-httpd
check-httpd: check-httpd-memory check-httpd-races ## client and servers of runnel.http used in every way, with sanitizers
check-httpd-memory check-httpd-races: NEEDED = httpd
check-httpd-races: BUILT = $(RACES) BUILD=build/tsan-poll CPPFLAGS=-DRUNNEL_NO_EPOLL # and so poll is checked, too
run-httpd-memory run-httpd-races: export LUA_CPATH := $(abspath $(BUILD))/?.so;;
run-httpd-memory run-httpd-races: export RUNNEL_MALLOC = 1 # so that each allocation is a malloc, which can fail
# The programs run beside each other, since they wait; httpd_oom most of all.
HTTPD_RUNS = httpd-oom httpd-random http-gc $(if $(HTTP_MODULE),http-oom http-random)
.PHONY: $(HTTPD_RUNS:%=run-%)
run-httpd-memory run-httpd-races: $(HTTPD_RUNS:%=run-%)
run-http-oom: $(BUILD)/http_oom
	$(BUILD)/http_oom tests/http/http_oom.lua $(if $(LONG),0,20)
run-httpd-oom: $(BUILD)/httpd_oom
	seq 8 | xargs -P 8 -n 1 $(BUILD)/httpd_oom $(if $(LONG),2000,300) 8
run-httpd-random run-http-gc run-http-random: $(BUILD)/runner $(HTTPD_MODULE) $(HTTP_MODULE)
run-httpd-random:
	$(BUILD)/runner tests/http/httpd.lua $(if $(LONG),1000,40)
run-http-gc:
	$(BUILD)/runner tests/http/http_gc.lua
run-http-random:
	$(BUILD)/runner tests/http/http.lua $(if $(LONG),1000,40)

.PHONY: check-tls
check-tls: check-tls-memory check-tls-races ## TLS where memory runs out, and in several threads, with sanitizers
check-tls-memory check-tls-races: NEEDED = tls
check-tls-races: BUILT = $(RACES)
run-tls-memory: export RUNNEL_MALLOC = 1 # so that each allocation is a malloc, which can fail
run-tls-races: export TSAN_OPTIONS = suppressions=$(CURDIR)/tests/tls/tsan.supp
run-tls-memory run-tls-races: $(if $(TLS_MODULE),$(BUILD)/tls)
run-tls-memory:
	$(if $(TLS_MODULE),$(BUILD)/tls tickets)
	$(if $(TLS_MODULE),$(BUILD)/tls memory tests/tls/tls.lua $(if $(LONG),0,20))
run-tls-races:
	$(if $(TLS_MODULE),$(BUILD)/tls threads $(if $(LONG),60,2))

check-websocket: ## the codec of WebSocket: failing allocations, and libFuzzer for a minute; LONG=1: for an hour; INPUT=file
check-websocket: NEEDED = websocket
check-websocket: BUILT  = CC=clang BUILD=build/fuzz CFLAGS='$(TEST_CFLAGS) $(SANITIZED) -fsanitize=fuzzer-no-link'
run-websocket: run-websocket-memory $(if $(WEBSOCKET_MODULE),$(BUILD)/websocket_fuzz)
	mkdir -p $(BUILD)/websocket-corpus
	$(if $(WEBSOCKET_MODULE),$(BUILD)/websocket_fuzz -artifact_prefix=$(BUILD)/ -timeout=30 -max_len=4096 \
	  $(or $(INPUT),-max_total_time=$(if $(LONG),3600,60) $(BUILD)/websocket-corpus))
.PHONY: run-websocket-memory
run-websocket-memory: $(if $(WEBSOCKET_MODULE),$(BUILD)/websocket_oom)
	$(if $(WEBSOCKET_MODULE),$(BUILD)/websocket_oom tests/websocket/websocket_oom.lua)

check-spin: ## the protocol of shared channels, as models whose states spin visits all; and that planted faults are found
check-spin: NEEDED = spin
check-spin: BUILT  =
run-spin:
	tests/spin/check build/spin

.PHONY: check-browser
check-browser: ## the monitor's page in chromium; skipped where chromium, node or npm is missing
	$(SETUP) browser
	$(THEN) run-browser
run-browser: programs
	@BUILD='$(BUILD)' RUNNEL='$(RUNNEL)' tests/browser/check build/browser $(TEST)

.PHONY: pictures
pictures: ## make docs/monitor.png and docs/timeline.png anew, in chromium
	$(SETUP) browser
	$(THEN) run-browser TEST=pictures

.PHONY: check-trace-viewers
check-trace-viewers: ## traces in speedscope in chromium; skipped where chromium or npm is missing
	$(SETUP) browser
	$(THEN) run-trace-viewers
run-trace-viewers: programs
	@scripts/check_trace_viewers $(BUILD)/trace-viewers

# ---- building them ----

TEST_OBJECTS = $(patsubst tests/%.c,$(BUILD)/tests/%.o,$(wildcard tests/*.c tests/*/*.c))
CORE_TEST    = $(BUILD)/tests/invariants.o $(OBJECTS)

# Where malloc and its like can fail (tests/memory.h).
FAILING = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc

$(BUILD)/runner: $(BUILD)/tests/runner.o $(BUILD)/tests/memory.o $(CORE_TEST)
	$(Q)$(CC) $(CFLAGS) $(FAILING) -o $@ $^ $(LIBS)

# Only what it checks, so that a fault elsewhere in csrc/base does not matter.
$(BUILD)/structures: $(BUILD)/tests/prove/structures.o $(patsubst %,$(BUILD)/obj/base/%.o,clock heap map windows)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/oom: $(BUILD)/tests/oom.o $(BUILD)/tests/memory.o $(CORE_TEST) # threads get a state that is watched
	$(Q)$(CC) $(CFLAGS) $(FAILING),--wrap=luaL_newstate -o $@ $^ $(LIBS)

$(BUILD)/nats_oom:   MODULE_LIBS = $(NATS_LIBS)
$(BUILD)/httpd_oom:  MODULE_LIBS = $(HTTPD_LIBS)
$(BUILD)/http_oom:   MODULE_LIBS = $(HTTP_LIBS) $(HTTPD_LIBS)
$(BUILD)/sqlite_oom: MODULE_LIBS = $(SQLITE_LIBS)
$(BUILD)/nats_oom:   $(BUILD)/tests/nats/nats_oom.o $(NATS_OBJECTS)
$(BUILD)/httpd_oom:  $(BUILD)/tests/http/httpd_oom.o $(HTTPD_OBJECTS)
$(BUILD)/http_oom:   $(BUILD)/tests/http/http_oom.o $(HTTP_OBJECTS) $(HTTPD_OBJECTS)
$(BUILD)/sqlite_oom: $(BUILD)/tests/sqlite/sqlite_oom.o $(SQLITE_OBJECTS)
# Programs that run scenarios while allocations fail (tests/scenarios.h).
SCENARIOS = $(BUILD)/tests/scenarios.o $(BUILD)/tests/memory.o
$(BUILD)/nats_oom $(BUILD)/sqlite_oom $(BUILD)/httpd_oom $(BUILD)/http_oom: $(SCENARIOS) $(OBJECTS)
	$(Q)$(CC) $(CFLAGS) $(FAILING) -o $@ $^ $(MODULE_LIBS) $(LIBS)

# A module for Lua, on the same libsqlite3 as runnel.sqlite.
$(BUILD)/crashes.so: $(patsubst tests/%.c,$(BUILD)/tests/%.o,$(wildcard tests/crashes/*.c))
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(MODULE_LDFLAGS) -o $@ $^ $(SQLITE_LIBS) -pthread

$(BUILD)/tls: $(BUILD)/tests/tls/tls.o $(SCENARIOS) $(OBJECTS) $(TLS_OBJECTS)
	$(Q)$(CC) $(CFLAGS) $(FAILING) -o $@ $^ $(TLS_LIBS) $(LIBS)
# zlib's archive, if there is one, so that its allocations fail, too.
WEBSOCKET_PARTS = $(filter $(BUILD)/obj/websocket/%,$(WEBSOCKET_OBJECTS))
$(BUILD)/websocket_oom: $(BUILD)/tests/websocket/websocket_oom.o $(SCENARIOS) $(WEBSOCKET_PARTS)
	$(Q)$(CC) $(CFLAGS) $(FAILING) -o $@ $^ $(or $(call archives,z),-lz) $(LIBS)

$(BUILD)/websocket_fuzz: $(BUILD)/tests/websocket/websocket_fuzz.o $(filter-out %/module.o,$(WEBSOCKET_PARTS))
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer -o $@ $^ $(WEBSOCKET_LIBS)

$(BUILD)/fuzz: $(BUILD)/tests/fuzz.o $(BUILD)/tests/memory.o $(CORE_TEST)
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer $(FAILING) -Wl,--wrap=clock_gettime,--wrap=pselect,--wrap=ppoll,--wrap=fprintf -o $@ $^ \
	  $(LUA_LIBS)

$(BUILD)/fuzz_http: $(BUILD)/tests/http/fuzz_http.o $(BUILD)/obj/http/server/head.o $(BUILD)/obj/http/server/chunks.o
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer -o $@ $^

$(BUILD)/api: $(BUILD)/tests/api.o $(BUILD)/tests/memory.o $(LIB_OBJECTS)
	$(Q)$(CC) $(CFLAGS) $(FAILING) -o $@ $^ $(LIBS)

# Programs on the C API.
$(CAPI_TESTS): $(BUILD)/capi/%: $(BUILD)/tests/capi/%.o $(LIB_OBJECTS) $(COUNTS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(COUNTED) -o $@ $^ $(LIBS)

HOST_PARTS = $(patsubst %,$(BUILD)/obj/host/%.o,bundle/bundle options $(addprefix prompt/,output paste picture utf8 width))
$(BUILD)/tests/host.o: CPPFLAGS += $(HOST_CPPFLAGS)
$(BUILD)/host_parts: $(BUILD)/tests/host.o $(HOST_PARTS)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ -pthread

# What tests/base.c makes fail, or waits for.
WATCHED = -Wl,--wrap=read,--wrap=write,--wrap=fcntl,--wrap=sched_yield,--wrap=pthread_create
$(BUILD)/base: $(BUILD)/tests/base.o $(BUILD)/tests/memory.o $(filter $(BUILD)/obj/base/%,$(OBJECTS))
	$(Q)$(CC) $(CFLAGS) $(FAILING) $(WATCHED) -o $@ $^ $(LIBS)

$(BUILD)/shared: $(BUILD)/tests/shared/shared.o $(OBJECTS)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LIBS)

# If msgpack's C library is there, what the core packs is compared with what it packs. Its version 6 has another name.
MSGPACK = $(eval MSGPACK := $(shell for name in msgpackc msgpack-c; do echo 'int main(void) { return 0; }' | \
  $(CC) -include msgpack.h -x c - -o /dev/null -l$$name 2>/dev/null && echo -l$$name && break; done))$(MSGPACK)
$(BUILD)/tests/shared/pack.o: CPPFLAGS += $(if $(MSGPACK),-DHAVE_MSGPACK)
$(BUILD)/pack: $(BUILD)/tests/shared/pack.o $(OBJECTS)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LIBS) $(MSGPACK)

$(BUILD)/shared_lua: $(BUILD)/tests/shared/shared_lua.o $(CORE_TEST)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/allocator: $(BUILD)/tests/allocator.o $(OBJECTS)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/threads: $(BUILD)/tests/threads.o $(OBJECTS)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/tests/%.o: tests/%.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(CORE_CFLAGS) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

-include $(TEST_OBJECTS:.o=.d)

# ---- together, and outside the tree ----

# Two run at a time: first the longest, of which every second one has work for one processor only.
LONG_CHECKS = check-specs-long check-mcdc check-valgrind check-sqlite check-san-clang check-httpd check-analyzer coverage \
              check-reproducible check-install check-shared check-runs check-api check-embed check-soak-machines \
              check-websocket check-tls check-spin check-histories check-differences check-fuzz check-proxies check-oom check-model \
              check-world check-gc check-crashes check-allocator check-nats check-threads check-soak check-static check-adversary \
              check-host
.PHONY: check-long
check-long: ## all checks that take long, in a tree from the archive, and one table; SUITE=trixie: in a root of Debian, as root
	+@scripts/check_release long
.PHONY: long-checks
long-checks: # their names, for scripts/check_release
	@echo $(LONG_CHECKS)

.PHONY: check-release
check-release: ## all checks of a release, from the archive, and one table (docs/releasing.md); ROWS: some of them; as root
	+@scripts/check_release $(ROWS)

# Other machines and another C library: the core, JSON and transducers, with Lua for each of them (scripts/foreign_lua).
# Without the modules that need libraries, whose headers the compilers find, but not the libraries. musl-gcc is the
# system's gcc with another C library, for which that has no code for exceptions.
SYSTEMS = arm64 s390x i386 musl
SYSTEM_SPECS = spec/core spec/json_spec.lua spec/xf_spec.lua
.PHONY: check-systems $(SYSTEMS:%=check-system-%)
check-systems: $(SYSTEMS:%=check-system-%) ## the specs of the core for arm64, s390x (by qemu), i386 and musl, and static executables; or check-system-NAME
$(SYSTEMS:%=check-system-%): check-system-%:
	$(SETUP) systems
	@scripts/foreign_lua $* build/systems/$*
	+@LUA_PATH='$(CURDIR)/build/systems/$*/modules/?.lua;;' LUA_CPATH='$(CURDIR)/build/systems/$*/modules/?.so' \
	  $(MAKE) --no-print-directory run-specs SPEC='$(if $(filter spec,$(SPEC)),$(SYSTEM_SPECS),$(SPEC))' SPEC_LIMIT=900 \
	  BUILD=build/systems/$*/build $(call FOREIGN,$*) LUA=$(CURDIR)/build/systems/$*/lua \
	  RUNNEL=$(CURDIR)/build/systems/$*/runnel CFLAGS='-O2 $(if $(filter musl,$*),-fno-exceptions)'
	+@$(MAKE) --no-print-directory build/systems/$*/static/bin/runnel-static \
	  BUILD=build/systems/$*/static $(call FOREIGN,$*) $(SMALL_STATIC)
	@scripts/foreign_lua --hello $* build/systems/$*/static/bin/runnel-static
FOREIGN = CC=$$(scripts/foreign_lua $(1)) BYTECODE= has= \
  LUA_CFLAGS=-I$(CURDIR)/build/systems/$(1)/include LUA_LIBS=$(CURDIR)/build/systems/$(1)/liblua.a

# A process for each file: after another file the analyzer takes each va_list for uninitialized.
.PHONY: check-analyzer
check-analyzer: ## all checks of clang-tidy, with clang's analyzer
	$(SETUP) lint
	$(THEN) run-analyzer
.PHONY: run-analyzer
run-analyzer:
	printf '%s\n' $(C_FILES) | xargs -P "$$(nproc 2>/dev/null || echo 2)" -I @ \
	  clang-tidy --quiet @ -- $(CORE_CFLAGS) -DRUNNEL_DEBUG $(HOST_CPPFLAGS)

.PHONY: check-install
check-install: ## install with make and with luarocks below build/, and use the module from outside the tree
	$(SETUP) rock
	@scripts/check_install

.PHONY: check-reproducible
check-reproducible: ## two builds of the last commit in two folders have the same bytes
	$(SETUP) demo
	@scripts/check_reproducible

.PHONY: check-static run-static
check-static: ## programs of a static runnel (make static) run in a root without any other file
	$(SETUP) demo
	$(THEN) run-static
run-static: $(BUILD)/bin/runnel-static
	@scripts/check_static $<

# Debian's packages. SUITE names releases of Debian, such as bookworm trixie.
.PHONY: check-deb
check-deb: ## build, check, install, upgrade and purge Debian's packages in minimal Debian roots, by chroot; as root
	$(SETUP) fresh
	@scripts/check_deb $(SUITE)

.PHONY: check-container
check-container: ## build the image of packaging/Containerfile by buildah, and use it; as root
	$(SETUP) container
	@scripts/check_container

# Finds dependencies that the packages on this machine hide. SUITE names releases of Debian, such as bookworm trixie, or
# a release and a Lua, as unstable/lua5.4.
.PHONY: check-fresh
check-fresh: ## demo, tests and installation in a minimal Debian root, by chroot; as root
	$(SETUP) fresh
	@scripts/check_fresh $(SUITE)
