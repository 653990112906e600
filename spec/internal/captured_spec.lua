local process = require "spec.support.process"

-- What a program may take from its scripts. Not `string`, `pairs` and the like, which every script needs.
local TAKEN = { "debug", "io", "os", "package", "require", "load", "loadfile", "dofile", "collectgarbage", "coroutine" }

-- Uses the library once `name` is no global any more.
local PROGRAM <const> = [[
local rn, sim, flow = require "runnel.all", require "runnel.sim", require "runnel.flow"
local result
%s = nil
local ok, err = xpcall(function()
  -- Threads, of a state that has started none before and of one that has.
  for i = 1, 3 do assert(rn.thread(function(v) return v + 1 end, i):take() == i + 1) end
  local pool <close> = rn.threads(2, function(v) return v * v end)
  local n = 0
  for v in rn.pmap(4, pool, { 1, 2, 3 }, { timeout = 1e6 }) do n = n + v end
  assert(n == 14)
  assert(rn.scope(function(s) return s:thread(function() return "there" end):take() end) == "there")
  assert(not pcall(rn.scope, function(s) s:thread(function() error "oops" end) end))
  -- Errors, with their traces and lines.
  assert(not rn.go(function() local t = nil; return t.x end):take())
  local _, stuck = pcall(function() rn.chan():take() end)
  assert(stuck:find "deadlock", stuck)
  assert(not pcall(rn.pmap, "no number"))
  assert(rn.ps() and rn.leaks() and rn.metrics():text())
  rn.metrics(false)
  -- Flows and simulations.
  local f <close> = flow("f", { from = { from = { 1, 2 } }, sum = function(v) n = n + v end, "from > sum" })
  f:wait()
  assert(n == 17)
  sim.run(function()
    rn.sleep(10)
    assert(rn.retry(function() return 1 end) == 1)
  end)
  sim.explore(function()
    local ch = rn.chan()
    rn.go(function() ch:put(1) end)
    assert(ch:take() == 1)
  end)
end, function(e) return e end)
if not ok then
  print(err)
else
  print "well"
end
]]

describe("the library, loaded before the program removes a global,", function()
  for _, name in ipairs(TAKEN) do
    it("works without `" .. name .. "`", function()
      local dir <close> = process.directory()
      dir:write("program.lua", PROGRAM:format(name))
      local said = process.run(dir.path, ("cd '%s' && %s %s/program.lua"):format(os.getenv "PWD",
        os.getenv "LUA" or "lua5.4", dir.path))
      assert.same({ out = "well\n", err = "", status = 0 }, said)
    end)
  end
end)
