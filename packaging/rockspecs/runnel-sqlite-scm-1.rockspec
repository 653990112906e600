-- In this folder: luarocks --lua-version 5.4 make runnel-sqlite-scm-1.rockspec. Made by `make project`.
rockspec_format = "3.0"
package = "runnel-sqlite"
version = "scm-1"
source = { url = "." }
description = {
  summary = "the C module of runnel.sqlite and runnel.store, on libsqlite3",
  detailed = "runnel.sqlite and runnel.store of the rock runnel need this module.",
  license = "MIT",
  homepage = "https://example.invalid/runnel",
  issues_url = "https://example.invalid/runnel/issues",
  maintainer = "The runnel authors <maintainers@example.invalid>",
  labels = { "concurrency" },
}
dependencies = { "lua >= 5.4, < 5.6", "runnel == scm-1" }
supported_platforms = { "unix" }
external_dependencies = {
  SQLITE = { header = "sqlite3.h" },
}
build = {
  type = "builtin",
  modules = {
    ["runnel.sqlite.core"] = {
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
        "../../csrc/sqlite/ask.c",
        "../../csrc/sqlite/batch.c",
        "../../csrc/sqlite/connection.c",
        "../../csrc/sqlite/disk.c",
        "../../csrc/sqlite/here.c",
        "../../csrc/sqlite/job.c",
        "../../csrc/sqlite/limits.c",
        "../../csrc/sqlite/locks.c",
        "../../csrc/sqlite/many.c",
        "../../csrc/sqlite/matches.c",
        "../../csrc/sqlite/module.c",
        "../../csrc/sqlite/news.c",
        "../../csrc/sqlite/rows.c",
        "../../csrc/sqlite/run.c",
        "../../csrc/sqlite/statement.c",
      },
      defines = { "_POSIX_C_SOURCE=200809L" },
      incdirs = { "../../csrc", "$(SQLITE_INCDIR)" },
      libdirs = { "$(SQLITE_LIBDIR)" },
      libraries = { "pthread", "sqlite3" },
    },
  },
}
test = { type = "command", command = "make -C ../.. test SPEC=spec/sqlite" }
