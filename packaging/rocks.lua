---The rocks: what differs from one to the next. scripts/rockspec.lua makes their rockspecs of it.
---
---`c`: the C modules, as the Makefile names their files; `lua`: its modules in Lua, of the rock `runnel` all; `external`:
---what LuaRocks must find, by the names under which a user can say where it is, as in OPENSSL_DIR=/opt/openssl (of libcurl
---not the header, which Debian has where LuaRocks does not look); `make`: it is built by GNU make, since a file of C is
---made first; `specs`: what `luarocks test` runs.

return {
  {
    name = "runnel", specs = "spec/core", c = { "core.so", "http/core.so" },
    summary = "core.async's channels for Lua: go blocks, alts and pipelines on a C core",
    detailed = [[
    Go blocks that are plain coroutines, rendezvous and buffered channels, alts, timeouts, transducers, and pipelines
    with exact parallelism, for Lua 5.4 and 5.5. The C core needs Lua and POSIX only. The requests of runnel.http need
    the rock runnel-http, runnel.nats the rock runnel-nats, runnel.tls the rock runnel-tls, WebSocket the rock
    runnel-websocket, runnel.sqlite and runnel.store the rock runnel-sqlite, runnel.monitor the rock runnel-monitor, and
    runnel.uv the rock luv. The executable with its prompt, and the library for C programs, come with `make install`.
  ]],
  },
  {
    name = "runnel-http", specs = "spec/http", c = { "http/curl.so" },
    external = { CURL = { library = "curl" }, ZLIB = { header = "zlib.h" } },
    summary = "the C module of runnel.http: requests over HTTP and HTTPS, by libcurl",
    detailed = "http.get, http.request and http.stream of the rock runnel need this module.",
  },
  {
    name = "runnel-monitor", specs = "spec/monitor", c = { "monitor/core.so" }, make = true,
    summary = "the C module of runnel.monitor: a page that shows a program while it runs",
    detailed = "runnel.monitor of the rock runnel needs this module. Is built by GNU make.",
  },
  {
    name = "runnel-nats", specs = "spec/nats", c = { "nats/core.so" },
    external = { NATS = { header = "nats/nats.h" } },
    summary = "the C module of runnel.nats: messages between programs over NATS, by libnats",
    detailed = "runnel.nats of the rock runnel needs this module.",
  },
  {
    name = "runnel-sqlite", specs = "spec/sqlite", c = { "sqlite/core.so" },
    external = { SQLITE = { header = "sqlite3.h" } },
    summary = "the C module of runnel.sqlite and runnel.store, on libsqlite3",
    detailed = "runnel.sqlite and runnel.store of the rock runnel need this module.",
  },
  {
    name = "runnel-tls", specs = "spec/tls_spec.lua", c = { "tls/core.so" },
    external = { OPENSSL = { header = "openssl/ssl.h" } },
    summary = "the C module of runnel.tls: connections and servers with TLS, by OpenSSL",
    detailed = "runnel.tls of the rock runnel needs this module.",
  },
  {
    name = "runnel-websocket", specs = "spec/http/websocket_spec.lua", c = { "websocket/core.so" },
    external = { ZLIB = { header = "zlib.h" } },
    summary = "the C module of WebSocket in runnel.http, with zlib",
    detailed = "WebSocket in runnel.http of the rock runnel needs this module.",
  },
  {
    name = "runnel-lite", specs = "spec/lite", lua = "lua/runnel/lite.lua lua/runnel/lite/*.lua",
    dependencies = "lua >= 5.1, < 5.6",
    summary = "channels and go blocks in plain Lua, for every Lua",
    detailed = [[
    runnel.lite: the channels, go blocks, scopes, pipelines and searches of runnel, for Lua 5.1 to 5.5 and LuaJIT. Is
    built without a compiler. The rock runnel has these files, too: install only one of them.
  ]],
  },
}
