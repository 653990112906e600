-- In this folder: luarocks --lua-version 5.4 make runnel-nats-scm-1.rockspec. Made by `make project`.
rockspec_format = "3.0"
package = "runnel-nats"
version = "scm-1"
source = { url = "." }
description = {
  summary = "the C module of runnel.nats: messages between programs over NATS, by libnats",
  detailed = "runnel.nats of the rock runnel needs this module.",
  license = "MIT",
  homepage = "https://example.invalid/runnel",
  issues_url = "https://example.invalid/runnel/issues",
  maintainer = "The runnel authors <maintainers@example.invalid>",
  labels = { "concurrency" },
}
dependencies = { "lua >= 5.4, < 5.6", "runnel == scm-1" }
supported_platforms = { "unix" }
external_dependencies = {
  NATS = { header = "nats/nats.h" },
}
build = {
  type = "builtin",
  modules = {
    ["runnel.nats.core"] = {
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
        "../../csrc/nats/beat.c",
        "../../csrc/nats/conn.c",
        "../../csrc/nats/connect.c",
        "../../csrc/nats/delivery.c",
        "../../csrc/nats/events.c",
        "../../csrc/nats/io.c",
        "../../csrc/nats/message.c",
        "../../csrc/nats/module.c",
        "../../csrc/nats/options.c",
        "../../csrc/nats/outbox.c",
        "../../csrc/nats/sub.c",
        "../../csrc/nats/subject.c",
        "../../csrc/nats/thread.c",
      },
      defines = { "_POSIX_C_SOURCE=200809L" },
      incdirs = { "../../csrc", "$(NATS_INCDIR)" },
      libdirs = { "$(NATS_LIBDIR)" },
      libraries = { "pthread", "nats" },
    },
  },
}
test = { type = "command", command = "make -C ../.. test SPEC=spec/nats" }
