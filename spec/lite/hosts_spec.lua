-- The programs of the hosts' pages and of examples/embed on both engines, unchanged: spec/support/lite/hosted.lua
-- stands for the host. In the real programs they run on lite: specs of nvim, nginx, love, testing and step.

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"
local programs = require "spec.support.lite.programs"
local testing_page = require "spec.support.lite.testing_page"

local LUA = os.getenv "LUA" or "lua5.4"
local NEOVIM, NGINX, LOVE, TESTING = "docs/neovim.md", "docs/openresty.md", "docs/love.md", "docs/testing-lua.md"

-- Blocks of code of the pages, by a text in each, and the names of their files.
local BLOCKS = {
  [NEOVIM] = {
    first = "nothing within a second", picker = "Starts search(query)", find = "function M.open",
    picker_test = "shows only what the last query has found",
  },
  [NGINX] = {
    redis = "redis takes too long", fan = "no answer within 300 ms", jobs = "Whether there was room for the job",
  },
  [LOVE] = { first = "Three seconds are over", loader = "What each thread runs", main = 'require "loader"' },
}

-- What is left out, by a text, with the reason.
local LEFT_OUT = {
  [NEOVIM] = {
    ["vim.async.await"] = "three lines, each for a library of Neovim that is not there: vim.async, plenary, nvim-nio",
    ["vim.loop.fs_stat"] = "one line, which asks Neovim's own file system; nvim_spec runs it there",
    ["found, wanted, pause = never"] = "a part of the picker with a pause; nvim_spec runs it in place of the picker's",
  },
  [NGINX] = {
    ["content_by_lua_file"] = "a part of nginx.conf",
    ["log_by_lua_block"] = "a part of nginx.conf",
    ["init_worker_by_lua_block"] = "a part of nginx.conf",
    ["ngx.worker.exiting()"] = "it ends with nginx's worker; nginx_spec runs it there",
  },
  [LOVE] = {
    ["problem or tostring(err)"] = "a part of love.update that shows LÖVE's blue screen; love_spec runs it there",
  },
}
local EMBEDDED = { ["step.lua"] = "step", ["frames.lua"] = "frames" }
local EMBEDDED_LEFT_OUT = {
  ["sensors.lua"] = "it uses rn.xf, which lite does not have; its values come from threads",
  ["frames.c"] = "it uses the C API of runnel, which lite does not have", ["sensors.c"] = "the same",
  ["waits.c"] = "the same", ["step.c"] = "it is the host of step.lua, and runs in step_spec",
}

-- What a program must print, on both engines: the function of hosted.lua, its files, and the output.
local PROGRAMS = {
  { NEOVIM, "first_of_neovim", { "first" }, "one\nkilled: git\tAnn\n" },
  { NEOVIM, "picker", { "find", "picker" }, "f\ta: f, b: fo\nkilled: grep\t.\nfo\tb: fo\n" },
  { NEOVIM, "picker_test", { "picker_test", "picker" }, "shows only what the last query has found\ttrue\n" },
  { NGINX, "redis", { "redis" }, "hello\nredis takes too long\n" },
  { NGINX, "fan", { "fan" }, "from 1\n1 2 3\tnil\t20 ms\n4: refused\n2: status 500\n2 4\t504\t10 ms\n"
    .. "2: status 500\nno answer within 300 ms\n2 3\t504\t300 ms\n" },
  { NGINX, "jobs", { "jobs" }, "true\ta\tnil\t1000\ntrue\nwaited for\tb\nfalse\n" },
  { LOVE, "first_of_love", { "first" }, "Press a key 10 10\nYou pressed space 10 10\n" },
  { LOVE, "loading", { "main", "loader" }, "Loading 10 10\n0 of 300\nLoading 10 10\n85 of 300\nLoading 10 10\n"
    .. "170 of 300\nLoading 10 10\n255 of 300\nimage of data 10 10\n" },
  { LOVE, "cancelled", { "main", "loader" }, "cancelled 10 10\n0 of 300\n" },
}

-- The output of a program on an engine.
local function output(dir, engine, ...)
  local command = ("export LUA_PATH='%s;%s/?.lua;;' LUA_CPATH=\"%s/${BUILD:-build}/?.so;$LUA_CPATH\"\n%s %s %s %s")
    :format(programs.path, dir.path, programs.root, LUA,
      programs.root .. "/spec/support/lite/hosted.lua", engine, table.concat({ ... }, " "))
  local result = process.run(dir.path, command)
  if result.status ~= 0 or result.err ~= "" then error(result.out .. result.err, 2) end
  return result.out
end

describe("a program for a host of runnel.lite", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  local function both(expected, ...)
    assert.equal(expected, output(dir, "lite", ...))
    assert.equal(expected, output(dir, "runnel", ...))
  end

  for _, program in ipairs(PROGRAMS) do
    local page, name, files, expected = table.unpack(program)
    it(("does the same on runnel, unchanged: %s of %s"):format(name, page), function()
      for key, text in pairs(BLOCKS[page]) do dir:write(key .. ".lua", pages.block(page, text)) end
      both(expected, name, table.concat(files, ".lua ") .. ".lua")
    end)
  end

  local list, files = testing_page(TESTING)
  for _, program in ipairs(list) do
    local title = "finds the same in a test in every order on runnel: %s%s of %s"
    it(title:format(program.test, program.is_mended and ", mended," or "", TESTING), function()
      for name, code in pairs(program.files) do dir:write(name, code) end
      local problem = program.expected:match "^sim%.explore: error: ([^\n]*) %(schedule %d+%)"
      both((problem or "right in every order") .. "\n", "testing", program.test)
    end)
  end
  it("for a test framework does the same on runnel: account_spec.lua and account_unit.lua of " .. TESTING, function()
    for name, code in pairs(files) do dir:write(name, code) end
    both("keeps every deposit\ttrue\n", "busted", "account_spec.lua")
    both("testFirstAnswer\ttrue\n", "luaunit", "account_unit.lua")
  end)

  it("with a loop of its own does the same on runnel: examples/embed/step.lua and frames.lua #ci", function()
    both('3 lines, the first is "line 1"\n1 lines, the first is "alone"\n', "step",
      programs.root .. "/examples/embed/step.lua")
    local drawn = {}
    for i, x in ipairs { 10, 20, 10, 0, 10, 20 } do drawn[i] = ("frame %4d: %so\n"):format(i * 10, (" "):rep(x)) end
    both(table.concat(drawn), "frames", programs.root .. "/examples/embed/frames.lua")
  end)

  it("is run on both engines, or left out with a reason", function()
    for page, texts in pairs(BLOCKS) do
      local known = {}
      for _, text in pairs(texts) do known[#known + 1] = text end
      for text, reason in pairs(LEFT_OUT[page]) do
        known[#known + 1] = text
        assert.is_true(#reason > 10)
      end
      for _, block in ipairs(pages.blocks(page)) do
        local n = 0
        for _, text in ipairs(known) do n = n + (block:find(text, 1, true) and 1 or 0) end
        assert.equal(1, n, page .. ": this code is neither run nor left out, or twice:\n" .. block)
      end
    end
    local names <close> = assert(io.popen "ls examples/embed")
    for name in names:lines() do assert.is_truthy(EMBEDDED[name] or EMBEDDED_LEFT_OUT[name], name) end
  end)
end)
