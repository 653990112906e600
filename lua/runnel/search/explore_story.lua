---Tells what happened in one run of sim.explore, step by step: which go block did what, and where.

local require = require
local recorder = require "runnel.core".internal.trace
local decimal = require "runnel.internal.decimal"
local shorten = require "runnel.internal.short"

local RUN, PARK, SPAWN, END, PUT, TAKE, CLOSE = 1, 2, 3, 4, 6, 7, 8 -- TraceKind in tracing/trace_state.h
local READY, ALTS, CHOSEN, DEADLOCK = 33, 34, 35, 36 -- tracing/story.h
local OFFER_VAIN, POLL_VAIN, PARK_TOO, TIMER = 40, 41, 42, 44
local STARTED, RESTARTED = 0, 1 -- StoryTimer
local USES = { [0] = "starts %s of %d ms%s", "restarts %s: %d ms%s", "stops %s%s", "stops %s%s, which is not pending" }
local DIRECT, WAITED, RESULT, TIMEOUT = 1, 4, 8, 16 -- TraceHow
local ON_TAKE, ON_PUT, ON_ALTS, ON_SLEEP = 0, 1, 2, 3 -- TraceWhat

local MOST = 100 -- lines of steps; of a longer story, the end
local FEW = 12 -- of one without an end
local WAITS = 30 -- go blocks that wait at the end
local NAMED = 4 -- go blocks whose values fill a channel, at most

local story = {}

-- Without the folders of files.
local function short(text) return (text:gsub("[^%s/]*/", "")) end

-- Names by id. Of several things with one name, the second is "name #2".
local function number(ids, name_of)
  local names, count = {}, {}
  for _, id in ipairs(ids) do
    local name = name_of(id)
    count[name] = (count[name] or 0) + 1
    names[id] = count[name] == 1 and name or ("%s #%d"):format(name, count[name])
  end
  return names
end

-- The low half of an id, as in records.
local function low(id) return id & 0xFFFFFFFF end

local NAMES_CHANNEL = {
  [PUT] = true, [TAKE] = true, [CLOSE] = true, [PARK] = true, [OFFER_VAIN] = true, [POLL_VAIN] = true,
  [PARK_TOO] = true,
}

-- What is in the events: the names of go blocks and channels.
local function survey(event)
  local gos, labels, timeouts, seen = {}, {}, {}, {}
  for i = 1, math.huge do
    local kind, _, go, ch, seq, how, label = event(i)
    if not kind then break end
    if kind == SPAWN or kind == RUN and #gos == 0 then gos[#gos + 1] = kind == SPAWN and low(seq) or go end
    if go ~= 0 and label ~= 0 then labels[go] = label end
    if kind == CLOSE and how & TIMEOUT ~= 0 then timeouts[ch] = true end
    if NAMES_CHANNEL[kind] then seen[ch] = true end
  end
  local found = { timeouts = timeouts, started = 0, timer = {} }
  found.gos = number(gos, function(id)
    if id == gos[1] then return "f" end
    return labels[id] and short(recorder.label(labels[id])) or "a go block"
  end)
  found.librarys = {}
  for id, label in pairs(labels) do
    local text = recorder.label(label)
    found.librarys[id] = text:find "runnel/sim/" ~= nil or text:find "runnel/nats/" ~= nil
      or text:find " at %S+:%d+" ~= nil
  end
  local names, unnamed = recorder.names()
  local ids = {}
  for id in pairs(names) do -- also of earlier runs, if something else (such as the monitor) records
    if seen[low(id)] then ids[#ids + 1] = id end
  end
  table.sort(ids)
  local chans = number(ids, function(id) return unnamed[id] and "chan " .. short(names[id]) or names[id] end)
  found.chans = {}
  for id, name in pairs(chans) do found.chans[low(id)] = name end
  return found
end

-- The name of a channel.
local function channel(found, id)
  if found.chans[id] then return found.chans[id] end
  if found.gos[id] then return "the result of " .. found.gos[id] end
  return found.timeouts[id] and "a timeout" or "a channel"
end

-- What a parked go block waits for. `chs` are the channels of an alts, at most four of the n.
local function wait(found, how, chs, n, place)
  local ch = chs[1]
  if how == ON_TAKE then return ("waits to take from %s%s"):format(channel(found, ch), place) end
  if how == ON_PUT then return ("waits to put on %s%s"):format(channel(found, ch), place) end
  if how == ON_SLEEP then return "sleeps" .. place end
  if how ~= ON_ALTS then return "yields" .. place end
  local names = {}
  for i, each in ipairs(chs) do names[i] = channel(found, each) end
  return ("waits in alts on %s%s"):format(shorten.list(names, #names, n), place)
end

-- What a go block does with a timer. `id` may stand for another timer later, which begins by being started.
local function use(found, id, ms, how, place)
  if how == STARTED then
    found.started = found.started + 1
    found.timer[id] = "timer " .. found.started
  end
  local name = found.timer[id] or "a timer"
  if how > RESTARTED then return USES[how]:format(name, place) end
  return USES[how]:format(name, ms, place)
end

-- What a go block does in an event, or nil.
local function deed(found, kind, ch, seq, how, place)
  if kind == PUT then return ("puts on %s%s"):format(channel(found, ch), place) end
  if kind == TAKE then return ("takes from %s%s"):format(channel(found, ch), place) end
  if kind == CLOSE then return ("closes %s%s"):format(channel(found, ch), place) end
  if kind == OFFER_VAIN then
    local why = how == 0 and "nobody waits" or "it is full"
    return ("offers on %s%s: %s, dropped"):format(channel(found, ch), place, why)
  end
  if kind == POLL_VAIN then return ("polls %s%s: nothing there"):format(channel(found, ch), place) end
  if kind == SPAWN then return ("starts %s"):format(found.gos[low(seq)] or "a go block") end
  if kind == END then return how == 0 and "ends" or "ends with an error" end
  if kind == ALTS then return ("does the ready operation %d of %d%s"):format(ch + 1, seq, place) end
  if kind == TIMER then return use(found, ch, seq, how, place) end
  if kind == CHOSEN then return ("sim.choose(%d) is %d%s"):format(seq, ch + 1, place) end
end

-- What a go block did, with the name of the go block that it woke (nil: none).
local function woken(did, who) return did and who and ("%s, which wakes %s"):format(did, who) or did end

-- The channels of an alts that has parked in event i.
local function channels_of(event, i, first)
  local chs = { first }
  for j = i + 1, math.huge do
    local kind, _, _, ch = event(j)
    if kind ~= PARK_TOO then return chs end
    chs[#chs + 1] = ch
  end
end

-- The steps: each has who, is_marked, time, and did, a list. Also what each go block waits for at the end (`text`, and
-- for a put `on`, its channel), and the go blocks whose values each channel then holds, in order.
local function steps_of(event, found, kind_of_failure)
  local places = {} -- what is written for each place
  local list, waits, holds, step, is_marked, wakes = {}, {}, {}, nil, false, nil
  for i = 1, math.huge do
    local kind, time, go, ch, seq, how, _, where = event(i)
    if not kind or kind == DEADLOCK and kind_of_failure == "deadlock" then break end
    local place = where and places[where] or ""
    if where and place == "" then
      place = (" (%s)"):format(short(where))
      places[where] = place
    end
    if kind == PUT or kind == TAKE then
      holds[ch] = holds[ch] or {}
      if kind == PUT then table.insert(holds[ch], go) else table.remove(holds[ch], 1) end
    end
    if kind == READY then
      is_marked = ch > 0
    elseif kind == RUN and go ~= 0 then
      step = { who = found.gos[go] or "a callback", is_marked = is_marked, time = time, go = go, did = {} }
      list[#list + 1] = step
      waits[go], is_marked = nil, false
    elseif step and kind == PARK and go == step.go then
      step.did[#step.did + 1] = wait(found, how, channels_of(event, i, ch), seq, place)
      waits[go] = { text = step.did[#step.did], on = how == ON_PUT and ch or nil }
    elseif step and (kind == PUT or kind == TAKE) and how & WAITED ~= 0 and go ~= step.go then
      -- A put that waited is recorded before the take, a take after the put.
      local last = #step.did
      if kind == PUT and how & DIRECT ~= 0 then wakes = found.gos[go]
      elseif last > 0 and found.gos[go] then step.did[last] = woken(step.did[last], found.gos[go]) end
    elseif step and (go == step.go or kind == ALTS or kind == CHOSEN) and (kind == SPAWN or kind == END or
      how & RESULT == 0) then
      step.did[#step.did + 1] = woken(deed(found, kind, ch, seq, how, place), wakes)
      wakes = nil
    end
  end
  return list, waits, holds
end

-- What a go block waits for at the end. For a put on a full channel also: which go blocks filled it, and their waits.
local function last_wait(found, waits, holds, id)
  local wait_of = waits[id]
  local text = wait_of.text:gsub("^waits", "waits for ever")
  local owners = {}
  for _, owner in ipairs(wait_of.on and holds[wait_of.on] or {}) do
    if #owners < NAMED and found.gos[owner] and owner ~= id then
      local its = waits[owner]
      local does = its and its.text or "has ended"
      owners[#owners + 1] = ("%s has put what is in it, and %s"):format(found.gos[owner], does)
    end
  end
  if #owners == 0 then return text end
  return ("%s: %s"):format(text, table.concat(owners, "; "))
end

-- The first of the last steps that make `most` lines at least, and how many lines of it are too many.
local function first_of(steps, most)
  local first, count = #steps + 1, 0
  while first > 1 and count < most do
    first = first - 1
    count = count + math.max(1, #steps[first].did)
  end
  return first, math.max(0, count - most)
end

local function counted(n, what) return ("%d %s%s"):format(n, what, n == 1 and "" or "s") end

-- What is left out before step `first`, and of that step.
local function left_out(first, cut)
  local parts = {}
  if first > 1 then parts[1] = counted(first - 1, "step") end
  if cut > 0 then parts[#parts + 1] = ("%s of step %d"):format(counted(cut, "action"), first) end
  return ("  ... %s (the option full shows all), then:"):format(table.concat(parts, " and "))
end

-- The lines of these steps, how wide the names are, and whether a step is marked.
local function lines_of(steps, most)
  local width, has_marks, lines, time = 0, false, {}, 0
  for _, step in ipairs(steps) do width = math.max(width, #step.who) end
  local first, cut = first_of(steps, most)
  if first > 1 or cut > 0 then lines[1] = left_out(first, cut) end
  for i = first, #steps do
    local step, skipped = steps[i], i == first and cut or 0
    if step.time ~= time then lines[#lines + 1] = ("  at %s ms:"):format(decimal.format("%.14g", step.time)) end
    time, has_marks = step.time, has_marks or step.is_marked
    lines[#lines + 1] = ("%3d %s %-" .. width .. "s  %s"):format(i, step.is_marked and "*" or " ", step.who,
      step.did[skipped + 1] or "goes on")
    for k = skipped + 2, #step.did do lines[#lines + 1] = (" "):rep(8 + width) .. step.did[k] end
  end
  return lines, width, has_marks
end

---@param event fun(i: integer): integer?, number?, integer?, integer?, integer?, integer?, integer?, string?
---@param kind string of failure
---@param notes runnel.sim.Note[] what a simulated world has told
---@param full? boolean all of it
---@param is_endless? boolean the run goes on for ever: its end is enough
---@return { text: string, has_marks: boolean, told?: runnel.internal.Told } `told`: of a simulated world
function story.tell(event, kind, notes, full, is_endless)
  local found = survey(event)
  local steps, waits, holds = steps_of(event, found, kind)
  local lines, width, has_marks = lines_of(steps, full and math.huge or is_endless and FEW or MOST)
  local told
  if #notes > 0 then
    width = 0
    local world_story = require "runnel.search.world_story" -- the site leaves it out
    lines, has_marks, told = world_story.tell(event, found, notes, deed, full)
    for id in pairs(waits) do
      if found.librarys[id] then waits[id] = nil else width = math.max(width, #(found.gos[id] or "a callback")) end
    end
  end
  if kind == "leak" or kind == "deadlock" then
    local ids = {}
    for id in pairs(waits) do ids[#ids + 1] = id end
    table.sort(ids)
    if #ids > 0 then lines[#lines + 1] = "At the end:" end
    for i, id in ipairs(ids) do
      if i > WAITS and not full then
        lines[#lines + 1] = ("      ... and %s (the option full shows all)"):format(
          counted(#ids - WAITS, "more go block"))
        break
      end
      local who, text = found.gos[id] or "a callback", last_wait(found, waits, holds, id)
      lines[#lines + 1] = ("      %-" .. math.max(1, width) .. "s  %s"):format(who, text)
      if told then told:add_wait(who, text) end
    end
  end
  return { text = table.concat(lines, "\n"), has_marks = has_marks, told = told }
end

return story
