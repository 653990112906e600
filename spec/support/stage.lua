---What the specs of the scheduler share: each test hears of every error, and leaves nothing behind.

local rn = require "runnel"
local core = require "runnel.core"
local sim = require "runnel.sim"

local stage = {}

-- Whether an error of a `__close` replaces the one for which it is called, `__close` may wait, and coroutine.close
-- tells of the error that the coroutine has died of: from Lua 5.4.3 on.
local died = coroutine.create(error)
coroutine.resume(died)
stage.is_5_4_3 = not coroutine.close(died)

local heard = {}
local previous_handler, previous_driver

---For before_each: collects errors instead of printing them, and takes the built-in driver.
function stage.open()
  heard = {}
  previous_handler = rn.on_error(function(err, trace, name)
    heard[#heard + 1] = { err = err, trace = trace, name = name }
  end)
  previous_driver = rn.driver(nil)
  -- What earlier tests have abandoned must not show up among this one's go blocks.
  collectgarbage()
  collectgarbage()
end

---For after_each: restores what was there, and fails for errors that the test has not asked for.
function stage.close()
  local left = stage.heard()
  rn.on_error(previous_handler)
  rn.driver(previous_driver)
  if #left > 0 then error("an error that the test did not expect: " .. tostring(left[1].err), 0) end
end

---The errors that on_error has heard of since the last call. Those that nobody has taken by now are reported first.
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

---The names of all go blocks but the running one, sorted.
---@return string[]
function stage.others()
  local names = {}
  for _, entry in ipairs(rn.ps()) do
    if entry.state ~= "running" then names[#names + 1] = entry.name end
  end
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
---@return string output of both kinds
---@return integer status
function stage.script(text)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local pipe = assert(io.popen(("%s %s 2>&1"):format(os.getenv "LUA" or "lua5.4", path)))
  local output = pipe:read "a"
  local _, _, status = pipe:close()
  os.remove(path)
  return output, status
end

---Asserts that Ctrl-C ends a take that waits for ever. In an interpreter of its own: lua5.4 takes only the first one.
---@param setup string code before it, which makes the driver
function stage.check_interrupt(setup)
  local output = stage.script(setup .. [[

    local rn = require "runnel"
    os.execute "{ p=$PPID; sleep 0.2; kill -INT $p; } &"
    local start = rn.now()
    local ok, err = pcall(function() rn.chan():take() end)
    print(ok, err, rn.now() - start < 5000)
  ]])
  if not output:find "^false\t[^\n]*interrupted!\ttrue\n$" then error(output, 2) end
end

---A buffer policy for 100 values that raises for those of which `likes` is false.
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

return stage
