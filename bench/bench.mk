# Benchmarks; Makefile includes this. What they measure, and what they found: docs/performance.md, docs/costs.md.

BENCHES = bench bench-peers bench-io bench-web bench-store bench-queues bench-programs bench-scale bench-cores \
          bench-tracing bench-host bench-port bench-machines
# What scripts/setup installs for them, if not the least.
NEEDED_bench-peers = peers
NEEDED_bench-io = demo
NEEDED_bench-web = web
NEEDED_bench-store = sqlite
NEEDED_bench-queues = queues
NEEDED_bench-programs = programs
NEEDED_bench-tracing = demo
NEEDED_bench-machines = cluster

## Benchmarks

bench: ## set up, build and run the benchmark
run-bench: programs
	$(LUA) bench/bench.lua

bench-peers: ## compare runnel with Go, core.async and others; PEERS='--quick go chan0' runs a part
run-bench-peers: programs
	$(LUA) bench/peers.lua $(PEERS)

.PHONY: bench-flags
bench-flags: ## compare compiler options, from -O2 to PGO
	$(SETUP) run
	$(LUA) bench/flags.lua

bench-io: ## compare I/O through channels with I/O without them; IO='--quick echo' runs a part
run-bench-io: programs
	$(LUA) bench/io.lua $(IO)

bench-web: ## compare requests and servers of HTTP with Go, nginx, node, curl and others; WEB='--quick few' runs a part
# Debian has nginx there, which is not in the PATH of an ordinary user.
run-bench-web: export PATH := $(PATH):/usr/sbin
run-bench-web: programs $(BUILD)/web/load
	$(LUA) bench/web.lua $(WEB)

$(BUILD)/web/load: bench/web/load.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) $(CFLAGS) -o $@ $< -lssl -lcrypto

bench-store: ## measure runnel.sqlite and runnel.store on this disk; STORE=folder
run-bench-store: programs
	$(LUA) bench/store.lua $(STORE)
	$(LUA) bench/runs.lua $(STORE)

bench-queues: ## compare durable queues: a store, NATS, BullMQ, pg-boss; QUEUES='--quick store' runs a part
run-bench-queues: programs
	$(LUA) bench/queues.lua $(QUEUES)

bench-programs: ## compare whole programs with Go, node, Python and others; PROGRAMS='--quick logs' runs a part
run-bench-programs: programs
	$(LUA) bench/programs.lua $(PROGRAMS)

bench-scale: ## measure how costs grow, to a million go blocks; SCALE='--quick alts' runs a part
run-bench-scale: programs
	$(LUA) bench/scale.lua $(SCALE)

bench-cores: ## measure how much faster jobs are in threads; CORES=--quick is inexact
run-bench-cores: programs
	$(LUA) bench/cores.lua $(CORES)

bench-tracing: ## measure what the trace and the monitor cost
run-bench-tracing: programs
	$(LUA) bench/tracing.lua

bench-host: ## measure how fast the executable starts, and how fast its prompt echoes keys
run-bench-host: $(BUILD)/host $(BUILD)/bin/runnel
	$(BUILD)/host $(LUA) $(BUILD)/bin/runnel

$(BUILD)/host: bench/host.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_XOPEN_SOURCE=700 $(WARNINGS) $(CFLAGS) -o $@ $<

bench-port: ## measure messages per second from another thread through a port
run-bench-port: $(BUILD)/port
	$(BUILD)/port

$(BUILD)/port: bench/port.c $(LIB_OBJECTS) Makefile
	$(Q)$(CC) $(CORE_CFLAGS) $(CFLAGS) -o $@ $< $(LIB_OBJECTS) $(LIBS)

bench-machines: ## compare remote stages with plain nats.c; MACHINES='--quick latency' runs a part
run-bench-machines: programs $(BUILD)/machines
	$(LUA) bench/machines.lua $(MACHINES)

$(BUILD)/machines: bench/machines.c Makefile
	$(Q)$(CC) -std=c11 -D_POSIX_C_SOURCE=200809L $(WARNINGS) $(CFLAGS) -o $@ $< -lnats -pthread
