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
dependencies = { "lua >= 5.4, < 5.6" }
supported_platforms = { "unix" }
build = {
  type = "builtin",
  modules = {
    ["runnel.core"] = {
      sources = {
        "csrc/anchor.c",
        "csrc/bell.c",
        "csrc/buffer.c",
        "csrc/carry.c",
        "csrc/chan.c",
        "csrc/chan_user.c",
        "csrc/clock.c",
        "csrc/driver.c",
        "csrc/go.c",
        "csrc/heap.c",
        "csrc/lua_alts.c",
        "csrc/lua_buffer.c",
        "csrc/lua_chan.c",
        "csrc/lua_core.c",
        "csrc/lua_go.c",
        "csrc/lua_lines.c",
        "csrc/lua_run.c",
        "csrc/lua_scope.c",
        "csrc/on_close.c",
        "csrc/port.c",
        "csrc/report.c",
        "csrc/sched.c",
        "csrc/timeout.c",
        "csrc/unwind.c",
      },
      defines = { "_POSIX_C_SOURCE=200809L" },
      libraries = { "pthread" },
    },
    ["runnel"] = "lua/runnel.lua",
    ["runnel.alt"] = "lua/runnel/alt.lua",
    ["runnel.check"] = "lua/runnel/check.lua",
    ["runnel.collect"] = "lua/runnel/collect.lua",
    ["runnel.core_async"] = "lua/runnel/core_async.lua",
    ["runnel.driver.copas"] = "lua/runnel/driver/copas.lua",
    ["runnel.driver.cqueues"] = "lua/runnel/driver/cqueues.lua",
    ["runnel.driver.luasocket"] = "lua/runnel/driver/luasocket.lua",
    ["runnel.driver.luv"] = "lua/runnel/driver/luv.lua",
    ["runnel.ends"] = "lua/runnel/ends.lua",
    ["runnel.guard"] = "lua/runnel/guard.lua",
    ["runnel.meta"] = "lua/runnel/meta.lua",
    ["runnel.mix"] = "lua/runnel/mix.lua",
    ["runnel.mult"] = "lua/runnel/mult.lua",
    ["runnel.need"] = "lua/runnel/need.lua",
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
    ["runnel.uv.command"] = "lua/runnel/uv/command.lua",
    ["runnel.uv.descriptor"] = "lua/runnel/uv/descriptor.lua",
    ["runnel.uv.event"] = "lua/runnel/uv/event.lua",
    ["runnel.uv.file"] = "lua/runnel/uv/file.lua",
    ["runnel.uv.lines"] = "lua/runnel/uv/lines.lua",
    ["runnel.uv.loop"] = "lua/runnel/uv/loop.lua",
    ["runnel.uv.process"] = "lua/runnel/uv/process.lua",
    ["runnel.uv.resolve"] = "lua/runnel/uv/resolve.lua",
    ["runnel.uv.socket"] = "lua/runnel/uv/socket.lua",
    ["runnel.uv.stream"] = "lua/runnel/uv/stream.lua",
    ["runnel.xf"] = "lua/runnel/xf.lua",
  },
  install = { lua = { ["runnel.macros"] = "lua/runnel/macros.fnl" } },
}
