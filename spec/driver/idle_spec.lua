-- What waits uses no CPU time, whatever the driver.

local process = require "spec.support.process"
local stage = require "spec.support.stage"
local terminal = require "spec.support.terminal"

-- The lines that set a driver.
local DRIVERS = {
  luv = 'require "runnel.uv"',
  cqueues = 'rn.driver(require "runnel.driver.cqueues")',
  ["cqueues beside runnel.uv"] = 'rn.driver(require "runnel.driver.cqueues") require "runnel.uv"',
  luasocket = 'rn.driver(require "runnel.driver.luasocket")',
  -- Copas is plain Lua; Debian has it for other versions of Lua only.
  copas = 'package.path = package.path .. ";/usr/share/lua/5.2/?.lua;/usr/share/lua/5.3/?.lua" '
    .. 'rn.driver(require "runnel.driver.copas")',
}

-- The seconds of CPU time of all threads that a script prints, whose main part is `wait`.
local function seconds(setup, text)
  local output, status = stage.script('local rn = require "runnel"\n' .. setup .. "\n" .. text)
  if status ~= 0 then error(output, 2) end
  return assert(tonumber(output), output)
end

for name, setup in pairs(DRIVERS) do
  describe("under the driver " .. name, function()
    local output, status = stage.script('local rn = require "runnel"\n' .. setup)
    if status ~= 0 then
      local is_old = output:find("needs Copas 2", 1, true)
      local why = is_old and "the installed Copas is older than version 2" or "its library is not installed"
      return it("idle pools and threads use no CPU time #slow", function() pending(why) end)
    end

    it("idle pools and threads use no CPU time #slow", function()
      local used = seconds(setup, [[
        local jobs = rn.shared_chan()
        rn.thread(function(ch) return ch:take() end, jobs)
        local pool <close> = rn.threads(2, function(v) return v end)
        for _ in rn.pmap(2, pool, { 1, 2, 3 }) do end
        local used
        for _ = 1, 10 do -- what has just run may still be at work, and is not what is meant
          local before = os.clock()
          rn.sleep(500)
          used = os.clock() - before
          if used < 0.1 then break end
        end
        print(used)
        jobs:close()
      ]])
      assert.is_true(used < 0.1, used) -- three threads that spin use up to 0.5 s on each processor
    end)

    it("an idle prompt uses no CPU time #slow", function()
      if not terminal.available then return pending "tmux is missing" end
      local dir <close> = process.directory()
      local term <close> = setmetatable(terminal.runnel(dir), { __close = function(self) self:close() end })
      term:enter(setup .. " function used() return ('used %.2f'):format(os.clock() - before) end")
      term:expect "%[2%]>$"
      local used
      for round = 1, 10 do -- as above
        term:enter("before = os.clock() -- " .. round)
        os.execute "sleep 0.5"
        term:enter "used()"
        local last = ('"used ([%%d.]+)"\n%%[%d%%]>$'):format(2 * round + 2)
        used = tonumber(term:expect(last):match(last))
        if used < 0.1 then break end
      end
      assert.is_true(used < 0.1, used)
    end)
  end)
end

describe("runnel.uv", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end

  it("leaves the cost of a pool's jobs as it is #slow #ci", function()
    local function cost(setup)
      return seconds(setup, [[
        local pool <close> = rn.threads(2, function(v) return v end)
        local before = os.clock()
        local n = 0
        local function count() n = n + 1 return n <= 20000 and n or nil end
        for _ in rn.pmap(8, pool, count) do end
        print(os.clock() - before)
      ]])
    end
    local without, with
    for _ = 1, 3 do -- threads of a busy machine wait for each other, at a cost
      without, with = cost "", cost(DRIVERS.luv)
      if with < 3 * without + 0.2 then return end
    end
    error(("%.2f s, and %.2f without it"):format(with, without), 0)
  end)
end)
