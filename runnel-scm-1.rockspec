-- Builds from the directory that it is in: luarocks --lua-version 5.4 make. Made by `make project`.
rockspec_format = "3.0"
package = "runnel"
version = "scm-1"
source = { url = "." }
description = {
  summary = "core.async's channels for Lua: go blocks, alts and pipelines on a C core",
  detailed = [[
    Go blocks that are plain coroutines, rendezvous and buffered channels, alts, timeouts, transducers, and pipelines
    with exact parallelism, for Lua 5.4 and 5.5. The C core needs Lua and POSIX only. Is built by GNU make. The
    requests of runnel.http need the rock runnel-http, runnel.nats the rock runnel-nats, runnel.tls the rock runnel-tls,
    WebSocket the rock runnel-websocket, runnel.sqlite and runnel.store the rock runnel-sqlite, and runnel.uv the rock
    luv. The executable with its prompt, and the library for C programs, come with `make install`.
  ]],
  license = "MIT",
  homepage = "https://example.invalid/runnel",
  issues_url = "https://example.invalid/runnel/issues",
  maintainer = "The runnel authors <maintainers@example.invalid>",
  labels = { "concurrency" },
}
dependencies = { "lua >= 5.4, < 5.6" }
supported_platforms = { "unix" }
build = {
  type = "make",
  build_target = "rock",
  install_target = "install-rock",
  variables = {
    ROCK = "runnel", CC = "$(CC)", CFLAGS = "$(CFLAGS)", LUA = "$(LUA)", LUA_CFLAGS = "-I$(LUA_INCDIR)",
  },
  install_variables = { ROCK = "runnel", LIBDIR = "$(LIBDIR)", LUADIR = "$(LUADIR)", LUA = "$(LUA)" },
}
test = { type = "command", command = "make test SPEC=spec/core" }
