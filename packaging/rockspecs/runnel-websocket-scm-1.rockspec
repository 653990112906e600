-- In this folder: luarocks --lua-version 5.4 make runnel-websocket-scm-1.rockspec. Made by `make project`.
rockspec_format = "3.0"
package = "runnel-websocket"
version = "scm-1"
source = { url = "." }
description = {
  summary = "the C module of WebSocket in runnel.http, with zlib",
  detailed = "WebSocket in runnel.http of the rock runnel needs this module.",
  license = "MIT",
  homepage = "https://example.invalid/runnel",
  issues_url = "https://example.invalid/runnel/issues",
  maintainer = "The runnel authors <maintainers@example.invalid>",
  labels = { "concurrency" },
}
dependencies = { "lua >= 5.4, < 5.6", "runnel == scm-1" }
supported_platforms = { "unix" }
external_dependencies = {
  ZLIB = { header = "zlib.h" },
}
build = {
  type = "builtin",
  modules = {
    ["runnel.websocket.core"] = {
      sources = {
        "../../csrc/base/clock.c",
        "../../csrc/base/heap.c",
        "../../csrc/base/loaded.c",
        "../../csrc/base/map.c",
        "../../csrc/base/sleep.c",
        "../../csrc/base/thread.c",
        "../../csrc/base/wakeup.c",
        "../../csrc/base/windows.c",
        "../../csrc/kit/events.c",
        "../../csrc/kit/handle.c",
        "../../csrc/websocket/accept.c",
        "../../csrc/websocket/deflate.c",
        "../../csrc/websocket/frame.c",
        "../../csrc/websocket/module.c",
        "../../csrc/websocket/session.c",
        "../../csrc/websocket/utf8.c",
      },
      defines = { "_POSIX_C_SOURCE=200809L" },
      incdirs = { "../../csrc", "$(ZLIB_INCDIR)" },
      libdirs = { "$(ZLIB_LIBDIR)" },
      libraries = { "pthread", "z" },
    },
  },
}
test = { type = "command", command = "make -C ../.. test SPEC=spec/http/websocket_spec.lua" }
