---The story of a run with a simulated world (sim.world): what the hosts sent each other, and what the program's go
---blocks did besides. It leaves out their waits, since messages tell of them, and the go blocks of the library.

local decimal = require "runnel.internal.decimal"

local PARK, END, PUT, CLOSE = 2, 4, 6, 8 -- TraceKind in tracing/trace_state.h
local RUN, READY, CHOSEN, OFFER_VAIN, NOTE = 1, 33, 35, 40, 43 -- tracing/story.h
local RESULT = 8 -- TraceHow
local ON_SLEEP = 3 -- TraceWhat

local MOST = 40 -- lines; of a longer story, the end

local world_story = {}

-- Whether a channel has the name of a connection.
local function is_address(name) return name ~= nil and name:find "^%S+:%d+" ~= nil end

-- Whether a go block of the program tells of this event. Channels of the library that feed no program have names that
-- begin with "runnel.".
local function is_told(kind, how, name)
  if kind == END then return how ~= 0 end
  if name and name:find("runnel.", 1, true) == 1 then return false end
  if kind == PARK then return how == ON_SLEEP end
  if kind == CLOSE and is_address(name) then return false end
  return (kind == PUT or kind == CLOSE) and how & RESULT == 0 or kind == CHOSEN or kind == OFFER_VAIN
end

-- A line of a story as data.
---@class runnel.internal.ToldLine
---@field at number ms
---@field what string
---@field from? string the host that does it, or sends it; nil: it is of no host
---@field to? string the host to which it is sent
---@field arrives? number when it arrives there, ms; nil: never
---@field fault? string
---@field kind? "connect"|"reset"|"crash"|"start"|"wait" as of runnel.sim.Note; or what waits for ever at the end
---@field marked boolean not the first in the queue

---A story as data: what a page draws.
---@class runnel.internal.Told
---@field failure string
---@field hosts string[] in the order in which the story names them
---@field lines runnel.internal.ToldLine[]
---@field left_out integer how many lines came before these
local Told = {}
Told.__index = Told

-- The host of a go block, whose name begins with that of its host or process, as in "bank: server.lua:3"; and the text
-- without the name of its host.
local function on_host(self, who, text)
  local prefix = who:match "^(.-): "
  local host = prefix
  while host and not self.is_host[host] do host = host:match "^(.*)/" end
  return host, host and host == prefix and text:sub(#host + 3) or text
end

---Adds what waits for ever at the end.
---@param who string
---@param text string
function Told:add_wait(who, text)
  local last = self.lines[#self.lines]
  local host, what = on_host(self, who, who .. " " .. text)
  self.lines[#self.lines + 1] = { at = last and last.at or 0, from = host, what = what, kind = "wait", marked = false }
end

-- What a note of the world is in the text.
local function text_of(told)
  local who = not told.from and "" or told.to and ("%s -> %s: "):format(told.from.name, told.to.name)
    or told.from.name .. ": "
  local arrives = not told.kind and told.arrives
    and (" (arrives at %s ms)"):format(decimal.format("%.14g", told.arrives)) or ""
  local fault = told.fault and (" (fault %s)"):format(told.fault) or ""
  return who .. told.what .. arrives .. (told.more or "") .. fault
end

-- The lines: each has `at`, `text` and `marked`, and the note of the world, or the name of the go block that did it.
local function lines_of(event, found, notes, tell)
  local list, running, is_marked, is_worlds = {}, nil, false, false
  local function add(at, text, told, who)
    list[#list + 1] = { at = at, text = text, marked = is_marked, told = told, who = who }
    is_marked = false
  end
  for i = 1, math.huge do
    local kind, time, go, ch, seq, how, _, where = event(i)
    if not kind then return list end
    if kind == READY then
      is_marked = ch > 0
    elseif kind == RUN and go ~= 0 then
      running = go
    elseif kind == NOTE then
      is_worlds = seq == 0 -- the next choice is the world's
      if seq > 0 then add(time, text_of(notes[seq]), notes[seq]) end
    elseif kind == CHOSEN and is_worlds then
      is_worlds = false
    elseif running and not found.librarys[running] and (go == running or kind == CHOSEN)
      and is_told(kind, how, found.chans[ch]) then
      local place = where and (" (%s)"):format(where:gsub("[^%s/]*/", "")) or ""
      local text = kind == PARK and "sleeps" .. place or tell(found, kind, ch, seq, how, place)
      local who = found.gos[running] or "f"
      add(time, ("%s %s"):format(who, text), nil, who)
    end
  end
end

-- The story as data, from line `first` on.
local function as_data(list, first)
  local self = setmetatable({ failure = "", hosts = {}, is_host = {}, lines = {}, left_out = first - 1 }, Told)
  local function name_of(host)
    local name = host and host.machine.name
    if name and not self.is_host[name] then
      self.is_host[name] = true
      self.hosts[#self.hosts + 1] = name
    end
    return name
  end
  for i = first, #list do
    local told = list[i].told
    if told then
      name_of(told.from)
      name_of(told.to)
    end
  end
  for i = first, #list do
    local line, told = list[i], list[i].told
    if told then
      self.lines[#self.lines + 1] = {
        at = line.at, marked = line.marked, from = name_of(told.from), to = name_of(told.to), arrives = told.arrives,
        what = told.what .. (told.more or ""), fault = told.fault, kind = told.kind,
      }
    else
      local host, what = on_host(self, line.who, line.text)
      self.lines[#self.lines + 1] = { at = line.at, marked = line.marked, from = host, what = what }
    end
  end
  return self
end

---@param event fun(i: integer): integer?, number?, integer?, integer?, integer?, integer?, integer?, string?
---@param found table the names of go blocks and channels
---@param notes runnel.sim.Note[] what the world has told
---@param tell fun(...: any): string what a go block does in an event
---@param full? boolean all lines
---@return string[] lines
---@return boolean has_marks
---@return runnel.internal.Told told the same as data
function world_story.tell(event, found, notes, tell, full)
  local list = lines_of(event, found, notes, tell)
  local first = full and 1 or math.max(1, #list - MOST + 1)
  local lines, at, has_marks = {}, 0, false
  if first > 1 then
    lines[1] = ("  ... %d line%s (the option full shows all), then:"):format(first - 1, first == 2 and "" or "s")
  end
  for i = first, #list do
    local line = list[i]
    if line.at ~= at then lines[#lines + 1] = ("  at %s ms:"):format(decimal.format("%.14g", line.at)) end
    at, has_marks = line.at, has_marks or line.marked
    lines[#lines + 1] = (line.marked and "  * " or "    ") .. line.text
  end
  return lines, has_marks, as_data(list, first)
end

return world_story
