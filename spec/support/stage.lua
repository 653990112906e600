---The fixture of specs that use go blocks: each test sees every error that is reported, and only its own go blocks.
---
---A spec has either open and close before and after each test, or runs the bodies of its tests by `run` or `within`,
---which also check that no go block stays behind.

local rn = require "runnel"
local core = require "runnel.core"
local explore = require "runnel.search.explore"
local long = require "spec.support.long"
local remains = require "spec.support.remains"
local process = require "spec.support.process"
local sim = require "runnel.sim"

local stage = {}

-- Whether an error in a `__close` replaces the one for which it is called, `__close` may wait, and coroutine.close
-- returns the error of which the coroutine has died: from Lua 5.4.3 on.
local died = coroutine.create(error)
coroutine.resume(died)
stage.is_5_4_3 = not coroutine.close(died)

-- What pcall(error) gives as the error: nil, and from Lua 5.5 on a text.
local _, raised_nil = pcall(error)
stage.raised_nil = raised_nil

-- How a traceback of this Lua describes the call of the global function error.
local raises = coroutine.create(function() error "" end)
coroutine.resume(raises)
stage.call_of_error = debug.traceback(raises):match "%[C%]: in [^\n]*"

local heard = {}
local previous_handler, previous_driver, before

-- The id of the newest channel or go block at the beginning of the test. Go blocks with lower ids belong to earlier
-- tests: abandoned ones stay until the next collection.
local mark = 0

---Makes `others` ignore the present go blocks.
function stage.forget() mark = rn.chan():stats().id end

---For before_each: collects errors instead of printing them, and takes the built-in driver.
function stage.open()
  heard = {}
  previous_handler = rn.on_error(function(err, trace, name)
    heard[#heard + 1] = { err = err, trace = trace, name = name }
  end)
  previous_driver = rn.driver(nil)
  stage.forget()
  before = remains.now()
end

---Lets the test's closing resources end, by the test's own driver. Returns its remains, as a text; or nil.
---@return string?
function stage.rest() return remains.since(before) end

---For after_each: restores the handler and the driver, and fails for unexpected errors, and for the test's remains.
function stage.close()
  local errors = stage.heard()
  rn.driver(nil) -- the test may have closed its own
  local rest = remains.since(before)
  rn.on_error(previous_handler)
  rn.driver(previous_driver)
  if #errors > 0 then error("an error that the test did not expect: " .. tostring(errors[1].err), 0) end
  if rest then error("the test leaves behind: " .. rest, 0) end
end

---The errors reported to on_error since the last call. First reports those that have not been taken.
---@return { err: any, trace: string?, name: string? }[]
function stage.heard()
  core.internal.report_unhandled()
  local list = heard
  heard = {}
  return list
end

---A test that runs as a go block under virtual time.
---@param f fun()
---@return fun()
function stage.sim(f)
  return function() sim.run(f) end
end

---Starts a go block that sleeps, and returns a function that ends it early.
---@param ms number
---@return fun()
function stage.sleeper(ms)
  local co
  rn.go(function()
    co = coroutine.running()
    rn.sleep(ms)
  end)
  return function() coroutine.close(co) end
end

---The entries of ps for the test's go blocks but the running one, those that began first at the front.
---@return table[]
function stage.entries()
  local list = {}
  for _, entry in ipairs(rn.ps()) do
    if entry.id > mark and entry.state ~= "running" then list[#list + 1] = entry end
  end
  return list
end

---The names of the test's go blocks but the running one, sorted.
---@return string[]
function stage.others()
  local names = {}
  for i, entry in ipairs(stage.entries()) do names[i] = entry.name end
  table.sort(names)
  return names
end

---The entry of ps for the go block of a result channel.
---@param result any
---@return table?
function stage.entry(result)
  for _, entry in ipairs(rn.ps()) do
    if entry.result == result then return entry end
  end
end

---The file and line of the caller, as errors and ps give it.
---@param offset? integer lines further down
---@return string
function stage.here(offset)
  local info = debug.getinfo(2, "Sl")
  return ("%s:%d"):format(info.short_src, info.currentline + (offset or 0))
end

---Runs a script in an interpreter of its own.
---@param text string
---@param prefix? string what is in the shell's command before the interpreter, such as "ulimit -n 64;"
---@return string output of both kinds
---@return integer status
function stage.script(text, prefix)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local output, status = process.capture(("%s %s %s 2>&1"):format(prefix or "", os.getenv "LUA" or "lua5.4", path))
  os.remove(path)
  -- On a busy machine a command takes so long that runnel tells of it.
  return (output:gsub("runnel: [^\n]* has blocked the thread for [^\n]*\n", "")), status
end

---Asserts that Ctrl-C ends a take that waits forever. In an interpreter of its own: lua5.4 catches only the first one.
---@param setup string code before it, which makes the driver
---@param when? string of process.interrupt
function stage.check_interrupt(setup, when)
  local output = stage.script(setup .. ([[

    local rn = require "runnel"
    rn.go(os.execute, %q) -- runs while the take waits
    local start = rn.now()
    local ok, err = pcall(function() rn.chan():take() end)
    print(ok, err, rn.now() - start < 50000)
  ]]):format(process.interrupt(when)))
  if not output:find "^false\t[^\n]*interrupted!\ttrue\n$" then error(output, 2) end
end

---A buffer policy for 100 values that raises for values that `likes` rejects.
---@param likes fun(v: any): boolean
---@return table
function stage.picky(likes)
  local list = {}
  return {
    full = function() return #list >= 100 end,
    add = function(_, v)
      if not likes(v) then error(("no %s here"):format(v), 0) end
      list[#list + 1] = v
    end,
    remove = function() return table.remove(list, 1) end,
    count = function() return #list end,
  }
end

---All values of a channel, in order.
---@param ch any
---@return any[]
function stage.drain(ch)
  local list = {}
  for value in ch do list[#list + 1] = value end
  return list
end

---Calls a function while on_error collects, and restores the handler. Reports errors of go blocks that have not been
---taken at the end of f.
---@param f function
---@return { err: any, trace: string?, where: any }[] reports the arguments of on_error
function stage.reports(f, ...)
  local list = {}
  local previous = rn.on_error(function(err, trace, where)
    list[#list + 1] = { err = err, trace = trace, where = where }
  end)
  local ok, err = pcall(f, list, ...)
  core.internal.report_unhandled()
  rn.on_error(previous)
  if not ok then error(#list > 0 and list[1].err or err, 0) end
  return list
end

---The errors reported while f runs, as strings.
---@param f function
---@return string[] texts
function stage.report_texts(f)
  local list = {}
  for i, report in ipairs(stage.reports(f)) do list[i] = tostring(report.err) end
  return list
end

---In a simulation, runs go blocks until none is ready.
function stage.settle() rn.sleep(1) end

---Asserts, in a simulation in which nothing else runs, that no timer is left, hidden ones included: a wait for ever
---fails once there is none.
function stage.check_timers()
  local at = rn.now()
  local ok, err = pcall(function() rn.chan():take() end)
  assert(not ok and tostring(err):find "^deadlock", "no deadlock")
  if rn.now() ~= at then error(("a timer is left: it was due after %s ms"):format(rn.now() - at), 2) end
end

---Runs a function in a simulation. Uncaught errors and remaining go blocks fail.
---@param f fun(...): any
---@param opts? { seed?: integer, shuffle?: boolean, left?: integer } `left`: how many go blocks may stay behind
---@return any ... what f returns
function stage.run(f, opts)
  opts = opts or {}
  local left, results
  stage.forget()
  local reports = stage.reports(function()
    sim.run(function()
      results = table.pack(f())
      stage.settle()
      left = stage.entries()
    end, { seed = opts.seed, shuffle = opts.shuffle })
  end)
  if #reports > 0 then error(("%s: %s"):format(tostring(reports[1].where), tostring(reports[1].err)), 0) end
  if #left ~= (opts.left or 0) then
    for i, entry in ipairs(left) do
      left[i] = ("#%d %s: %s at %s"):format(entry.id, entry.state, entry.operation, entry.where)
    end
    error(("%d go blocks stayed behind: %s"):format(#left, table.concat(left, "; ", 1, math.min(#left, 5))), 0)
  end
  return table.unpack(results, 1, results.n)
end

-- How many schedules of a search there are, at most.
local SCHEDULES <const> = long.times(300, 3000)

---Searches the schedules of a test for a short while. Remaining go blocks fail, unless `leaks` is false.
---@param f fun()
---@param opts? { leaks?: boolean }
function stage.explore(f, opts)
  local most <const> = explore.most_schedules
  local _ <close> = setmetatable({}, { __close = function() explore.most_schedules = most end })
  explore.most_schedules = math.min(most, SCHEDULES)
  return sim.explore(f, { seconds = 0.05, leaks = opts and opts.leaks })
end

---A function that runs its argument by stage.run: `it("...", stage.within(function() ... end))`.
function stage.within(f, opts)
  return function() stage.run(f, opts) end
end

---All results of a function, as a list with `n`.
function stage.pack_take(ch) return table.pack(ch:take()) end

---Asserts that nothing waits on the channels.
function stage.assert_no_waiters(...)
  for i, ch in ipairs { ... } do
    local stats = ch:stats()
    if stats.puts_waiting ~= 0 or stats.takes_waiting ~= 0 then
      error(("channel %d: %s has waiters"):format(i, tostring(ch)), 2)
    end
  end
end

return stage
