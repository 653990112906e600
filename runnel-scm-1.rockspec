-- Builds from the directory that it is in: luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "runnel"
version = "scm-1"
source = { url = "." }
description = {
  summary = "core.async's channels for Lua: go blocks, alts and pipelines on a C core",
  detailed = [[
    Go blocks that are plain coroutines, rendezvous and buffered channels, alts, timeouts, transducers, and pipelines
    with exact parallelism, for Lua 5.4. The C core needs Lua and POSIX only. The rock has the Lua module; the
    executable with its prompt, and the library for C programs, come with `make install`.
  ]],
  license = "MIT",
}
dependencies = { "lua >= 5.4, < 5.6" }
supported_platforms = { "unix" }
build = {
  type = "builtin",
  modules = {
    ["runnel.core"] = {
      sources = {
        "csrc/base/buffer.c",
        "csrc/base/clock.c",
        "csrc/base/heap.c",
        "csrc/core/anchor.c",
        "csrc/core/chan.c",
        "csrc/core/chan_user.c",
        "csrc/core/closing.c",
        "csrc/core/driver.c",
        "csrc/core/error.c",
        "csrc/core/go.c",
        "csrc/core/inspect.c",
        "csrc/core/keep.c",
        "csrc/core/name.c",
        "csrc/core/on_close.c",
        "csrc/core/origin.c",
        "csrc/core/sched.c",
        "csrc/core/timeout.c",
        "csrc/core/unhandled.c",
        "csrc/lua/alts.c",
        "csrc/lua/buffer.c",
        "csrc/lua/chan.c",
        "csrc/lua/core.c",
        "csrc/lua/go.c",
        "csrc/lua/internal.c",
        "csrc/lua/moving.c",
        "csrc/lua/run.c",
      },
      incdirs = { "csrc" },
      defines = { "_POSIX_C_SOURCE=200809L" },
      libraries = { "pthread" },
    },
    ["runnel"] = "lua/runnel.lua",
    ["runnel.all"] = "lua/runnel/all.lua",
    ["runnel.alt"] = "lua/runnel/alt.lua",
    ["runnel.collect"] = "lua/runnel/collect.lua",
    ["runnel.core_async"] = "lua/runnel/core_async.lua",
    ["runnel.driver.copas"] = "lua/runnel/driver/copas.lua",
    ["runnel.driver.cqueues"] = "lua/runnel/driver/cqueues.lua",
    ["runnel.driver.luasocket"] = "lua/runnel/driver/luasocket.lua",
    ["runnel.driver.luv"] = "lua/runnel/driver/luv.lua",
    ["runnel.internal.check"] = "lua/runnel/internal/check.lua",
    ["runnel.internal.ends"] = "lua/runnel/internal/ends.lua",
    ["runnel.internal.guard"] = "lua/runnel/internal/guard.lua",
    ["runnel.internal.need"] = "lua/runnel/internal/need.lua",
    ["runnel.internal.uv.descriptor"] = "lua/runnel/internal/uv/descriptor.lua",
    ["runnel.internal.uv.lines"] = "lua/runnel/internal/uv/lines.lua",
    ["runnel.internal.uv.loop"] = "lua/runnel/internal/uv/loop.lua",
    ["runnel.meta"] = "lua/runnel/meta.lua",
    ["runnel.mix"] = "lua/runnel/mix.lua",
    ["runnel.mult"] = "lua/runnel/mult.lua",
    ["runnel.pipe"] = "lua/runnel/pipe.lua",
    ["runnel.pipeline"] = "lua/runnel/pipeline.lua",
    ["runnel.plumbing"] = "lua/runnel/plumbing.lua",
    ["runnel.pmap"] = "lua/runnel/pmap.lua",
    ["runnel.priority_buffer"] = "lua/runnel/priority_buffer.lua",
    ["runnel.prompt"] = "lua/runnel/prompt.lua",
    ["runnel.pub"] = "lua/runnel/pub.lua",
    ["runnel.scope"] = "lua/runnel/scope.lua",
    ["runnel.sim"] = "lua/runnel/sim.lua",
    ["runnel.timed_out"] = "lua/runnel/timed_out.lua",
    ["runnel.uv"] = "lua/runnel/uv.lua",
    ["runnel.uv.event"] = "lua/runnel/uv/event.lua",
    ["runnel.uv.file"] = "lua/runnel/uv/file.lua",
    ["runnel.uv.follow"] = "lua/runnel/uv/follow.lua",
    ["runnel.uv.process"] = "lua/runnel/uv/process.lua",
    ["runnel.uv.run"] = "lua/runnel/uv/run.lua",
    ["runnel.uv.socket"] = "lua/runnel/uv/socket.lua",
    ["runnel.uv.stream"] = "lua/runnel/uv/stream.lua",
    ["runnel.xf"] = "lua/runnel/xf.lua",
  },
  install = { lua = { ["runnel.macros"] = "lua/runnel/macros.fnl" } },
}
