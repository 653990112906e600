---Channels of signals: puts luv's reports on them, and restores a signal's default effect in the end.

local core = require "runnel.core"
local loop = require "runnel.uv.loop"
local term = require "runnel.internal.sigterm"

local uv = loop.uv
local on_close = core.internal.on_close
local offer = core.methods.offer

local signals = {}

-- When a channel is unreachable and no go block waits on it, no take can follow: its signals get their default effect
-- back. So luv's callbacks hold their channel weakly, and its finalizer gives the signals back. But a go block that
-- waits on a channel is kept alive only by that channel. So the table `kept` holds a channel while a take waits on it.
-- A finalizer that runs in each cycle of the collector updates the table; the channel's own finalizer checks once more.

---The signals of one channel. Only the channel refers to it strongly.
---@class runnel.uv.Catch
---@field handles userdata[] luv's
---@field weak { ch?: runnel.Channel<any>, catch?: runnel.uv.Catch } what luv's callbacks refer to
---@field ch runnel.Channel<any>
---@field catches_int boolean whether Ctrl-C is among them
---@field ignored boolean whether the Ctrl-C before the last one had not been taken when the last one came
local Catch = {}
Catch.__index = Catch

-- Those of the real program. Those of a simulated host are in the list of its handles, and no collector ends them.
local open = setmetatable({}, { __mode = "k" }) ---@type table<runnel.Channel<any>, runnel.uv.Catch>
---@type table<runnel.Channel<any>, true?>
local kept = {} -- luacheck: ignore 241 (it only keeps them alive)
local has_ended = false -- the script has ended; go blocks run on
-- What lets go of the signals of luv's handles. It is strong, so that each does so by its finalizer when the state is
-- closed, at the latest.
local held = {} ---@type table<userdata, { handle: userdata, former: runnel.Former? }>
local Cycle = {} -- the metatable of a value that is collected in each cycle
local is_watched = false

local function waits(ch) return ch:stats().takes_waiting > 0 or nil end

function Cycle.__gc()
  local is_simulation = core.internal.is_simulation() -- then a finalizer must not change what happens next
  is_watched = is_simulation or next(open) ~= nil
  if not is_watched then return end
  if not is_simulation then
    for ch in pairs(open) do kept[ch] = waits(ch) end
  end
  setmetatable({}, Cycle)
end

-- A signal that luv catches. It lets go of it before luv's finalizer of the handle runs: newer releases of luv stop a
-- handle only with the loop, after all finalizers, and set the default action then.
local Held = {}
Held.__index = Held

function Held:let_go()
  local former = self.former
  if not former then return end
  self.former = nil
  self.handle:stop()
  former:restore()
end
Held.__gc = Held.let_go

function Catch:stop()
  open[self.ch], kept[self.ch] = nil, nil
  for i, handle in ipairs(self.handles) do
    self.handles[i] = nil
    if held[handle] then held[handle]:let_go() else handle:stop() end
    held[handle] = nil
    loop.close(handle)
  end
  core.internal.renew_endings()
  term.renew()
end

-- The channel is unreachable.
function Catch:__gc()
  if loop.is_simulated(self.handles[1]) then return end -- its host has ended
  if not waits(self.ch) then return self:stop() end
  self.weak.ch, self.weak.catch, open[self.ch], kept[self.ch] = self.ch, self, self, true
  setmetatable(self, Catch) -- for the next time
end

-- The catches of Ctrl-C of the program to which a handle belongs.
local function catches_of_int(handle)
  local list = {}
  if loop.is_simulated(handle) then
    for i, signal in ipairs(handle.host.signals) do list[i] = signal.holder end
  else
    for _, catch in pairs(open) do list[#list + 1] = catch end
  end
  for i = #list, 1, -1 do
    if not list[i].catches_int then table.remove(list, i) end
  end
  return list
end

-- Ends the program, as Ctrl-C does without the channels, if no take from a channel of this signal has happened since
-- the last signal.
local function end_if_ignored(handle)
  local list = catches_of_int(handle)
  for _, catch in ipairs(list) do
    if not catch.ignored then return end
  end
  for _, catch in ipairs(list) do catch:stop() end
  if loop.is_simulated(handle) then return handle:later(0, handle.host.kill, handle.host) end
  uv.kill(uv.os_getpid(), "sigint")
end

---Puts signals on a channel, which is closed with an error if that fails.
---@param ch runnel.Channel<string>
---@param wanted { name: string, full: string }[] the name to put, and luv's name
function signals.catch(ch, wanted)
  local weak = setmetatable({ ch = ch }, { __mode = "v" })
  local handles = {}
  for i, signal in ipairs(wanted) do
    local former = not loop.world() and core.internal.former(uv.constants[signal.full:upper()])
    local handle = loop.made(uv.new_signal(), "uv.signal", signal.name)
    handles[i] = handle
    if former then held[handle] = setmetatable({ handle = handle, former = former }, Held) end
  end
  -- Gets its finalizer after the handles: it then runs before theirs when the state is closed.
  local catch = setmetatable({ handles = handles, weak = weak, ch = ch, ignored = false, catches_int = false }, Catch)
  weak.catch = catch
  for _, handle in ipairs(handles) do loop.keep(handle, catch) end
  on_close(ch, function() catch:stop() end)
  if not loop.is_simulated(handles[1]) then
    open[ch] = catch
    if not is_watched then Cycle.__gc() end
  end
  for i, signal in ipairs(wanted) do
    local is_int = signal.full == "sigint"
    catch.catches_int = catch.catches_int or is_int
    local handle = handles[i]
    local ok, err = handle:start(signal.full, function()
      local to = weak.ch
      if not to or loop.over then return end
      local is_ignored = #to > 0
      offer(to, signal.name)
      if not is_int then return end
      weak.catch.ignored = is_ignored
      if is_ignored then end_if_ignored(handle) end
    end)
    if not ok then return ch:close(loop.message(err, signal.name)) end
    if held[handle] then held[handle].former:caught() end
    if has_ended then handle:unref() end
  end
end

---Whether a channel is one of signals.
---@return boolean
function signals.is_caught(ch) return open[ch] ~= nil end

---The script has ended: from now on signals alone do not keep the program running.
function signals.script_ended()
  has_ended = true
  for _, catch in pairs(open) do
    for _, handle in ipairs(catch.handles) do handle:unref() end
  end
end

return signals
