---The story of a run with a simulated world (sim.world): what the hosts sent each other, and what the program's go
---blocks did besides. It leaves out their waits, since messages tell of them, and the go blocks of the library.

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

-- The lines: each has `time`, `text` and `is_marked`.
local function lines_of(event, found, notes, tell)
  local list, running, is_marked, is_worlds = {}, nil, false, false
  local function add(time, text)
    list[#list + 1] = { time = time, text = text, is_marked = is_marked }
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
      if seq > 0 then add(time, notes[seq]) end
    elseif kind == CHOSEN and is_worlds then
      is_worlds = false
    elseif running and not found.librarys[running] and (go == running or kind == CHOSEN)
      and is_told(kind, how, found.chans[ch]) then
      local place = where and (" (%s)"):format(where:gsub("[^%s/]*/", "")) or ""
      local text = kind == PARK and "sleeps" .. place or tell(found, kind, ch, seq, how, place)
      add(time, ("%s %s"):format(found.gos[running] or "f", text))
    end
  end
end

---@param event fun(i: integer): integer?, number?, integer?, integer?, integer?, integer?, integer?, string?
---@param found table the names of go blocks and channels
---@param notes string[] what the world has told
---@param tell fun(...: any): string what a go block does in an event
---@param full? boolean all lines
---@return string[] lines
---@return boolean has_marks
function world_story.tell(event, found, notes, tell, full)
  local list = lines_of(event, found, notes, tell)
  local first = full and 1 or math.max(1, #list - MOST + 1)
  local lines, time, has_marks = {}, 0, false
  if first > 1 then lines[1] = ("  ... %d lines (the option full shows them), then:"):format(first - 1) end
  for i = first, #list do
    local line = list[i]
    if line.time ~= time then lines[#lines + 1] = ("  at %.14g ms:"):format(line.time) end
    time, has_marks = line.time, has_marks or line.is_marked
    lines[#lines + 1] = (line.is_marked and "  * " or "    ") .. line.text
  end
  return lines, has_marks
end

return world_story
