---The rocks: what differs from one to the next. scripts/rockspec.lua makes their rockspecs of it.

return {
  {
    name = "runnel", specs = "spec/core",
    summary = "core.async's channels for Lua: go blocks, alts and pipelines on a C core",
    detailed = [[
    Go blocks that are plain coroutines, rendezvous and buffered channels, alts, timeouts, transducers, and pipelines
    with exact parallelism, for Lua 5.4 and 5.5. The C core needs Lua and POSIX only. Is built by GNU make. The
    requests of runnel.http need the rock runnel-http, runnel.nats the rock runnel-nats, runnel.tls the rock runnel-tls,
    WebSocket the rock runnel-websocket, runnel.sqlite and runnel.store the rock runnel-sqlite, and runnel.uv the rock
    luv. The executable with its prompt, and the library for C programs, come with `make install`.
  ]],
  },
  {
    name = "runnel-http", specs = "spec/http",
    summary = "the C module of runnel.http: requests over HTTP and HTTPS, by libcurl",
    detailed = "http.get, http.request and http.stream of the rock runnel need this module. Is built by GNU make.",
  },
  {
    name = "runnel-nats", specs = "spec/nats",
    summary = "the C module of runnel.nats: messages between programs over NATS, by libnats",
    detailed = "runnel.nats of the rock runnel needs this module. Is built by GNU make.",
  },
  {
    name = "runnel-sqlite", specs = "spec/sqlite",
    summary = "the C module of runnel.sqlite and runnel.store, on libsqlite3",
    detailed = "runnel.sqlite and runnel.store of the rock runnel need this module. Is built by GNU make.",
  },
  {
    name = "runnel-tls", specs = "spec/tls_spec.lua",
    summary = "the C module of runnel.tls: connections and servers with TLS, by OpenSSL",
    detailed = "runnel.tls of the rock runnel needs this module. Is built by GNU make.",
  },
  {
    name = "runnel-websocket", specs = "spec/http/websocket_spec.lua",
    summary = "the C module of WebSocket in runnel.http, with zlib",
    detailed = "WebSocket in runnel.http of the rock runnel needs this module. Is built by GNU make.",
  },
}
