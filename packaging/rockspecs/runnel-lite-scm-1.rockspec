-- In this folder: luarocks --lua-version 5.4 make runnel-lite-scm-1.rockspec. Made by `make project`.
rockspec_format = "3.0"
package = "runnel-lite"
version = "scm-1"
source = { url = "." }
description = {
  summary = "channels and go blocks in plain Lua, for every Lua",
  detailed = [[
    runnel.lite: the channels, go blocks, scopes, pipelines and searches of runnel, for Lua 5.1 to 5.5 and LuaJIT. Is
    built without a compiler. The rock runnel has these files, too: install only one of them.
  ]],
  license = "MIT",
  homepage = "https://example.invalid/runnel",
  issues_url = "https://example.invalid/runnel/issues",
  maintainer = "The runnel authors <maintainers@example.invalid>",
  labels = { "concurrency" },
}
dependencies = { "lua >= 5.1, < 5.6" }
build = {
  type = "builtin",
  modules = {
    ["runnel.lite"] = "../../lua/runnel/lite.lua",
    ["runnel.lite.fake_copas"] = "../../lua/runnel/lite/fake_copas.lua",
    ["runnel.lite.fake_socket"] = "../../lua/runnel/lite/fake_socket.lua",
    ["runnel.lite.fake_vim"] = "../../lua/runnel/lite/fake_vim.lua",
    ["runnel.lite.loop"] = "../../lua/runnel/lite/loop.lua",
    ["runnel.lite.love"] = "../../lua/runnel/lite/love.lua",
    ["runnel.lite.luv"] = "../../lua/runnel/lite/luv.lua",
    ["runnel.lite.nginx"] = "../../lua/runnel/lite/nginx.lua",
    ["runnel.lite.nvim"] = "../../lua/runnel/lite/nvim.lua",
    ["runnel.lite.process"] = "../../lua/runnel/lite/process.lua",
    ["runnel.lite.testing"] = "../../lua/runnel/lite/testing.lua",
  },
}
test = { type = "command", command = "make -C ../.. test SPEC=spec/lite" }
