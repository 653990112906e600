---Events as channels: signals, changes of files, ticks.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local loop = require "runnel.internal.uv.loop"
local signals = require "runnel.internal.uv.signals"

local uv = loop.uv
local internal = core.internal
local chan, offer, put_while_open = core.chan, core.methods.offer, internal.moving.put_while_open

-- How many signals wait for a take; later ones are dropped.
local SIGNALS = 16
-- For how many names changes wait for a take; later ones are merged into one change without a name.
local CHANGES = 256

---@class runnel.uv.event
local event = {}

-- ---- signals ----

local function number_of(name)
  if type(name) ~= "string" then
    return nil, "the name of a signal expected, got " .. (name == nil and "nothing" or "a " .. type(name))
  end
  local full = name:lower()
  if full:sub(1, 3) ~= "sig" then full = "sig" .. full end
  if not uv.constants[full:upper()] then return nil, ("there is no signal %q"):format(name) end
  return full
end

---Makes a channel of the signals that the program gets. These signals have no other effect until the channel closes, or
---is unreachable and no take waits on it. A signal waits until it is taken; a second Ctrl-C (`int`) ends the program if
---the first one has not been taken.
---@param ... string the names of the signals, as in `uv.signal("int", "term")`
---@return runnel.Channel<string> names the names, as they were passed
function event.signal(...)
  local wanted = {}
  for i = 1, math.max(1, select("#", ...)) do
    local name = (select(i, ...))
    local full, problem = number_of(name)
    if not full then error("signal: " .. problem, 2) end
    wanted[i] = { name = name, full = full }
  end
  loop.check "signal"
  local ch = chan(SIGNALS)
  signals.catch(ch, wanted)
  return ch
end

-- ---- files ----

---A change of a file.
---@class runnel.uv.Change
---@field path string the path that is watched
---@field name? string the name of the file, if the path is a directory
---@field change? boolean its contents or attributes have changed
---@field rename? boolean it was created, removed or renamed

-- Returns a function that adds a change to a queue and puts the queue's changes on the channel. Changes of the same
-- name are merged while they wait.
local function queue(ch, path)
  local waiting, first, last, by_name, busy = {}, 1, 0, {}, false
  local origin = internal.origin "uv.watch"
  local deliver

  local function put(change)
    if put_while_open(ch, change) then deliver() end
  end

  function deliver()
    busy = false
    while first <= last do
      local change = waiting[first]
      waiting[first] = nil
      first = first + 1
      by_name[change.name or ""] = nil
      local taken = offer(ch, change)
      if taken == false then return end
      if taken == nil then
        busy = true
        internal.started(guard.go(guard.close, ch, put, change), origin)
        return
      end
    end
  end

  return function(name, what)
    if last - first >= CHANGES then name = nil end
    local change = by_name[name or ""]
    if not change then
      change = { path = path, name = name }
      by_name[name or ""] = change
      last = last + 1
      waiting[last] = change
    end
    change.change = change.change or what.change or nil
    change.rename = change.rename or what.rename or nil
    if not busy then deliver() end
  end
end

---Makes a channel of the changes of a file, or of the files in a directory. Waiting changes of one file are merged into
---one. Closing the channel ends the watch.
---@param path string
---@return runnel.Channel<runnel.uv.Change> changes closes with an error if the path cannot be watched
function event.watch(path)
  check.string(path, "a path", "watch")
  loop.check "watch"
  local ch, handle = loop.chan(path), loop.made(uv.new_fs_event(), "uv.watch", path)
  internal.on_close(ch, function()
    handle:stop()
    loop.close(handle)
  end)
  local add = queue(ch, path)
  local ok, err, name = handle:start(path, {}, function(problem, file, what)
    if loop.over then return end
    if problem then return ch:close(loop.message(problem, path)) end
    add(file, what)
  end)
  if not ok then ch:close(loop.message(name or err, path)) end
  return ch
end

-- ---- time ----

local function tick(ch, ms)
  local start, n = core.now(), 0
  while true do
    n = math.max(n, (core.now() - start) // ms) + 1
    core.sleep(math.max(0, start + n * ms - core.now()))
    if not ch:put(math.tointeger(n)) then return end
  end
end

---Makes a channel of ticks at a fixed rate: the numbers 1, 2, 3 and so on. A tick waits until it is taken; ticks that
---come due meanwhile are skipped.
---@param ms number from one tick to the next
---@return runnel.Channel<integer> numbers
function event.ticker(ms)
  if type(ms) ~= "number" or not (ms > 0 and ms < math.huge) then
    error("ticker: a number of ms above 0 expected, got " .. tostring(ms), 2)
  end
  local ch = chan()
  guard.started(guard.go_while_open(ch, guard.close, ch, tick, ch, ms), "uv.ticker")
  return ch
end

return event
