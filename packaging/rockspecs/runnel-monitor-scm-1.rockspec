-- In this folder: luarocks --lua-version 5.4 make runnel-monitor-scm-1.rockspec. Made by `make project`.
rockspec_format = "3.0"
package = "runnel-monitor"
version = "scm-1"
source = { url = "." }
description = {
  summary = "the C module of runnel.monitor: a page that shows a program while it runs",
  detailed = "runnel.monitor of the rock runnel needs this module. Is built by GNU make.",
  license = "MIT",
  homepage = "https://example.invalid/runnel",
  issues_url = "https://example.invalid/runnel/issues",
  maintainer = "The runnel authors <maintainers@example.invalid>",
  labels = { "concurrency" },
}
dependencies = { "lua >= 5.4, < 5.6", "runnel == scm-1" }
supported_platforms = { "unix" }
build = {
  type = "command",
  build_command = "make -C ../.. rock CC='$(CC)' CFLAGS='$(CFLAGS)' LUA='$(LUA)' LUA_CFLAGS='-I$(LUA_INCDIR)'",
  install_command = "make -C ../.. install-rock LIBDIR='$(LIBDIR)' LUA='$(LUA)'",
}
test = { type = "command", command = "make -C ../.. test SPEC=spec/monitor" }
