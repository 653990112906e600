-- Builds from the directory that it is in: luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "runnel"
version = "scm-1"
source = { url = "." }
description = {
  summary = "core.async's channels for Lua: go blocks, alts and pipelines on a C core",
  detailed = [[
    Go blocks that are plain coroutines, rendezvous and buffered channels, alts, timeouts, transducers, and pipelines
    with exact parallelism, for Lua 5.4. The C core needs Lua and POSIX only.
  ]],
  license = "MIT",
}
dependencies = { "lua >= 5.4, < 5.5" }
supported_platforms = { "unix" }
build = {
  type = "builtin",
  modules = {
    ["runnel.core"] = {
      sources = {
        "csrc/alt.c",
        "csrc/buffer.c",
        "csrc/clock.c",
        "csrc/heap.c",
      },
      defines = { "_POSIX_C_SOURCE=200809L" },
    },
    ["runnel"] = "lua/runnel.lua",
  },
}
