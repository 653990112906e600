---SIGTERM in this Lua state: what runs ends in good order, and then the program does. Servers come first, since their
---requests may need all the others; then flows, which may use workers; then workers and stages; connections last. Other
---states of the process have handlers of their own.
---
---If the program waits for the end of one of them, as `worker:wait()` does, it has something left to do then. So
---connections stay until the go blocks that waited have ended, or the script, if the main program waited.

local io = io
local core = require "runnel.core"
local entries = require "runnel.internal.entries"
local exit = require "runnel.internal.exit"
local living = require "runnel.internal.living"
local world = require "runnel.internal.world"
local internal = core.internal

-- `patience`: how many ms after the signal the program says why it has not ended.
local term = { SERVERS = 1, FLOWS = 2, WORKERS = 3, CONNECTIONS = 4, patience = 5000 }

-- How many turns the other go blocks have between the last drain and the end of the program.
local LAST_TURNS <const> = 16

-- How many go blocks the text names.
local LISTED <const> = 16

---Something that SIGTERM ends.
---@class runnel.internal.Draining
---@field order integer term.SERVERS, ...
---@field name string
---@field drain fun(owner: any) waits until it has ended
---@field done? runnel.Channel<any> closes when it has ended
---@field catches boolean the program catches SIGTERM because of it
---@field number integer in the order in which they were added

---@class runnel.internal.Term
---@field members table<any, runnel.internal.Draining> by owner; weak, so that abandoned flows are collected
---@field added integer
---@field watch? userdata the core's; `true` on a simulated host
---@field has_come boolean
---@field main_waits boolean the main program waits for one of the members
---@field waiters runnel.Channel<any>[] the results of the go blocks that wait for one
---@field is_draining boolean a go block drains them
local Term = {}
Term.__index = Term

local function new()
  return setmetatable({
    members = setmetatable({}, { __mode = "k" }), added = 0, watch = nil, has_come = false, main_waits = false,
    waiters = {}, is_draining = false,
  }, Term)
end

local here = new() -- that of the real program

-- ---- draining ----

local function stays(self) return self.main_waits or #self.waiters > 0 end

-- The members of the first kind that has any, in the order in which they were added.
local function next_members(self)
  local list, order = {}, math.huge
  for owner, one in pairs(self.members) do
    local is_kept = one.order == term.CONNECTIONS and stays(self)
    if one.order < order and not is_kept then list, order = {}, one.order end
    if one.order == order and not is_kept then list[#list + 1] = { owner = owner, one = one } end
  end
  table.sort(list, function(a, b) return a.one.number < b.one.number end)
  return list
end

local function note_waits(self)
  for _, one in pairs(self.members) do
    if one.done then
      local blocks, main_waits = internal.takers(one.done)
      self.main_waits = self.main_waits or main_waits
      for _, id in ipairs(blocks) do self.waiters[#self.waiters + 1] = internal.find_go(id) end
    end
  end
end

-- All has been drained.
local function end_program(self)
  if self.watch == true then
    if not stays(self) then exit(0) end
  elseif internal.sigterm_drained(self.watch, stays(self)) then
    exit()
  end
end

local function drain_one(owner, one) one.drain(owner) end

local begin_draining

local function drain_all(self)
  local list = next_members(self)
  repeat
    local blocks = {}
    for i, entry in ipairs(list) do
      blocks[i] = internal.trace.hide(internal.started(core.go(drain_one, entry.owner, entry.one), "SIGTERM"))
    end
    for i, block in ipairs(blocks) do
      internal.join(block)
      self.members[list[i].owner] = nil
    end
    list = next_members(self)
    if #list == 0 then
      -- What the drain has cut off ends in these turns: an event stream gets its line in http.log, for instance. The
      -- turns are few, since other go blocks may go on for ever. What begins meanwhile is drained, too.
      for _ = 1, LAST_TURNS do core.yield() end
      list = next_members(self)
    end
  until #list == 0
  self.is_draining = false
  end_program(self)
  local waiters = self.waiters
  if #waiters == 0 then return end
  for _, block in ipairs(waiters) do internal.join(block) end
  -- Otherwise the main program may have waited for them.
  if internal.main_is_idle() and self.waiters == waiters then
    self.waiters = {}
    begin_draining(self)
  end
end

function begin_draining(self)
  if self.is_draining then return end
  self.is_draining = true
  internal.trace.hide(internal.started(core.go(drain_all, self), "SIGTERM"))
end

-- ---- what keeps the program ----

local function text_of(self)
  local lines, blocks = {}, {}
  local draining = {}
  for _, one in pairs(self.members) do draining[#draining + 1] = one end
  table.sort(draining, function(a, b) return a.order == b.order and a.number < b.number or a.order < b.order end)
  for i, one in ipairs(draining) do lines[i] = ("\n  the end of the %s"):format(one.name) end
  local main = internal.main_line()
  if main then lines[#lines + 1] = "\n  the main program at " .. main end
  for _, entry in ipairs(internal.waits()) do
    if entries.is_of_program(entry) then blocks[#blocks + 1] = entry end
  end
  return ("%s%s"):format(table.concat(lines),
    #blocks > 0 and "\ngo blocks of the program:" .. entries.lines(blocks, LISTED, true) or "")
end

-- Each time when the core finds that the program has not ended, tells what keeps it, unless that is the same as
-- before.
local function watch_end(self, before)
  local late = internal.trace.hide(core.chan())
  internal.on_close(late, function()
    if not self.is_draining then end_program(self) end -- perhaps another state has ended since
    local text = text_of(self)
    if text ~= before and text ~= "" then
      io.stderr:write("runnel: SIGTERM has come, and the program waits for:", text,
        "\nA second SIGTERM ends it at once.\n")
    end
    watch_end(self, text)
  end)
  internal.sigterm_begin(self.watch, late)
end

-- ---- the signal ----

local function come(self)
  self.has_come = true
  note_waits(self)
  if self.watch ~= true then watch_end(self) end
  begin_draining(self)
end

-- Whether the signal is caught because of one of the members.
local function catches(self)
  for _, one in pairs(self.members) do
    if one.catches then return true end
  end
  return false
end

-- Begins to watch for the signal, unless the program handles it itself.
local function begin(self)
  local ch, watch = internal.trace.hide(core.chan()), nil
  internal.on_close(ch, function()
    if watch and self.watch == watch then come(self) end
  end)
  watch = internal.sigterm_watch(ch, term.patience)
  self.watch = watch
end

-- The one of the running program; nil if no signal of a process can come there.
local function current()
  if world.world then
    local host = world.world:here()
    if not host then return nil end
    local one = rawget(host, "term") -- a process inherits from the host that has started it
    if not one then
      one = new()
      one.watch, host.term = true, one
    end
    return one
  end
  return not internal.is_simulation() and here or nil
end

---Sends SIGTERM to the program of a simulated host.
---@param host runnel.sim.Host
---@return boolean heard false: it has its usual effect
function term.tell(host)
  local self = rawget(host, "term")
  if not self or self.has_come or not catches(self) then return false end
  self.has_come = true
  host.world:later(0, host, come, self)
  return true
end

-- Whether signals are somebody else's: the prompt's, or those of a program that does not let a script end it.
local function is_guest()
  local without = internal.without
  return living.prompt or without and without.exit
end

local function remove(self, owner)
  self.members[owner] = nil
  if self.has_come or self ~= here or not self.watch or catches(self) then return end
  local watch = self.watch
  self.watch = nil
  internal.sigterm_unwatch(watch)
end

---Makes the first SIGTERM end something before it ends the program; at once if the signal has already arrived. Does
---nothing if the program handles the signal itself. Call it while the library function that the program has called
---runs.
---@param owner any what ends; it is referred to weakly
---@param what string as in "worker"
---@param one { order: integer, name: string, drain: fun(owner: any), done?: runnel.Channel<any>, catches?: boolean }
---`catches`: false if it does not keep SIGTERM from ending a program that has nothing else to end
---@return fun() remove it has ended
function term.add(owner, what, one)
  local self = current()
  if not self or is_guest() then return function() end end
  local _, origin = internal.origin(what)
  self.added = self.added + 1
  self.members[owner] = {
    order = one.order, drain = one.drain, done = one.done, catches = one.catches ~= false, number = self.added,
    name = ("%s %s%s"):format(what, one.name, origin and origin:match " at .*" or ""),
  }
  if one.catches ~= false and not self.watch then begin(self) end
  if self.has_come then
    note_waits(self)
    begin_draining(self)
  end
  return function() remove(self, owner) end
end

---The script has ended, and its go blocks run on.
function term.script_ended()
  local self = here
  if not (self.has_come and self.main_waits) then return end
  self.main_waits = false
  begin_draining(self)
end

---The program does not handle the signal any more.
function term.renew()
  local self = current()
  if self and not self.watch and catches(self) then begin(self) end
end

return term
