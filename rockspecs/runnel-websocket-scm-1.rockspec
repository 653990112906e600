-- From the directory above: luarocks --lua-version 5.4 make rockspecs/runnel-websocket-scm-1.rockspec. Made by `make project`.
rockspec_format = "3.0"
package = "runnel-websocket"
version = "scm-1"
source = { url = "." }
description = {
  summary = "the C module of WebSocket in runnel.http, with zlib",
  detailed = "WebSocket in runnel.http of the rock runnel needs this module. Is built by GNU make.",
  license = "MIT",
  homepage = "https://example.invalid/runnel",
  issues_url = "https://example.invalid/runnel/issues",
  maintainer = "The runnel authors <maintainers@example.invalid>",
  labels = { "concurrency" },
}
dependencies = { "lua >= 5.4, < 5.6", "runnel == scm-1" }
supported_platforms = { "unix" }
build = {
  type = "make",
  build_target = "rock",
  install_target = "install-rock",
  variables = {
    ROCK = "runnel-websocket", CC = "$(CC)", CFLAGS = "$(CFLAGS)", LUA = "$(LUA)", LUA_CFLAGS = "-I$(LUA_INCDIR)",
  },
  install_variables = { ROCK = "runnel-websocket", LIBDIR = "$(LIBDIR)", LUADIR = "$(LUADIR)", LUA = "$(LUA)" },
}
test = { type = "command", command = "make test SPEC=spec/http/websocket_spec.lua" }
