---sim.explore: runs a program under one schedule after another until one fails, all are done, or the time is up. The
---core runs the program under a schedule (sim/explore.h); this file chooses schedules and handles failures.

local collectgarbage = collectgarbage
local core = require "runnel.core"
local current = require "runnel.internal.world"
local schedules = require "runnel.search.schedules"
local story = require "runnel.search.explore_story"
local explorer, now, is_interrupt = core.internal.explore, core.now, core.internal.is_interrupt
local recorder = core.internal.trace

local FIRST, RANDOM, PRIORITIES = 0, 1, 2 -- Strategy in sim/explore.h

-- Schedules of a round: depth first, then random, then as many by priorities, with 1 to 4 changes of priority. Each
-- strategy finds bugs for which the two others take a thousand times as long.
local DEPTH_FIRST, OTHERS = 8, 4

-- With share = "channels", after all schedules: how many orders are run by another strategy, to check the promise.
local SAMPLES = 20

-- The limit for shortening a failing schedule: runs.
local MOST_RUNS = 5000

-- The first run may take this much longer than the search, ms: a search must check something, on a slow machine, too.
local PATIENCE = 10000

-- How long the run is, at most, whose end tells what goes on for ever; ms.
local TOLD = 200

-- How many records the trace holds during a run. This is the minimum, so that the ring of another recording does not
-- grow, which would empty it.
local RING = 256

---@class runnel.search.explore
---@field shortening number ms that shortening a failing schedule may take; specs change it
---@field most_schedules number after how many a search ends; specs change it, so that their work is the same
---on each machine
local explore = { shortening = 2000, most_schedules = math.huge }

---@class runnel.internal.Search
---@field explorer any the core's
---@field f fun()
---@field leaks boolean
---@field full? boolean tell the whole story
---@field shares boolean the option share: only one of equivalent orders is run
---@field keys integer[] with that: the keys of runs in other orders
---@field seen runnel.internal.FaultsSeen
---@field heard? { err: any } the first unhandled error of this run
---@field given_up integer how many runs were given up
---@field deadline? number when the search ends; ms
local Search = {}
Search.__index = Search

-- The error for a search that cannot go on because `f` makes other choices when it runs again.
---@class runnel.internal.NotTheSame
---@field message string
local NotTheSame = {}
NotTheSame.__index = NotTheSame

-- The lines at which the last run went over objects as keys, or nil.
local function unordered()
  local lines = current.ordered.lines
  return lines and table.concat(lines, ", ")
end

local function not_the_same(...)
  local lines = unordered()
  local causes = lines and ("; a likely cause: pairs over a table with objects as keys, at " .. lines)
    or "; likely causes: state outside of f, or the clock"
  local message = "sim.explore: f is not the same in every run: " .. string.format(...) .. causes
  error(setmetatable({ message = message }, NotTheSame), 0)
end

-- How the core's errors begin; one of the program may begin with such a word.
local KINDS = {
  ["^deadlock: [^\n]* would wait for ever"] = "deadlock", ["^livelock: a"] = "livelock",
  ["^leak: %d+ go blocks? "] = "leak", ["^leak: the program of host "] = "leak",
}

-- What kind of failure an error is.
local function kind_of(err)
  for pattern, kind in pairs(KINDS) do
    if type(err) == "string" and err:find(pattern) then return kind end
  end
  return "error"
end

-- Runs f once. Returns nil on success, "long" if the run was given up, "asleep" if that was since it is equivalent to
-- another one, or the kind of failure and the error.
---@return string? kind
---@return any err
function Search:run(prefix, strategy, seed, changes)
  self.heard = nil
  core.on_error(self.hear) -- again each time: f may have set another one
  math.randomseed(1)
  local ok, elapsed, err, at, before, found = current.run(self.seen, explorer.run, self.explorer, self.f, self.leaks,
    prefix, strategy, seed, changes, self.deadline)
  self.elapsed = elapsed
  if is_interrupt(err) then error(err, 0) end -- which ends the search
  if at then not_the_same("at choice %d there %s, before %s", at, found, before:match "%d+") end
  if ok == nil then return self.shares and select(2, explorer.shared(self.explorer)) and "asleep" or "long" end
  if self.heard then return "error", self.heard.err end
  if ok then return nil end
  return kind_of(err), err
end

local function is_failure(kind) return kind ~= nil and kind ~= "long" and kind ~= "asleep" end

-- ---- the search ----

-- With share = "channels", after all schedules: each run in another order must be equivalent to one of them.
function Search:check_promise(schedules_run)
  for _, key in ipairs(self.keys) do
    if not explorer.is_known(self.explorer, key) then
      error(setmetatable({ message = ('sim.explore: share = "channels" is not true: another order of the go blocks is '
        .. "equivalent to none of the %d that were run. They share something that the search does not see, such as a "
        .. "global, a module's state, math.random, or a table that was sent over a channel: pass its values over "
        .. "channels, or leave the option out"):format(schedules_run) }, NotTheSame), 0)
    end
  end
end

-- Returns the kind of the first failure and its error, or nil; the number of schedules run; and whether those are all.
function Search:search(seconds)
  local deadline = now() + seconds * 1000
  local runs, paths, seed, long = 0, 0, 0, false
  local kind, err
  local function fails(...)
    self.deadline = runs > self.given_up and deadline or deadline + PATIENCE
    runs = runs + 1
    kind, err = self:run(...)
    if kind == "long" then self.given_up = self.given_up + 1 end
    if kind == "asleep" then runs = runs - 1 end
    self.deadline = nil
    return is_failure(kind)
  end
  local function fails_in_other_order(...)
    local is_failing = fails(nil, ...)
    if self.shares then self.keys[#self.keys + 1] = explorer.shared(self.explorer) end
    return is_failing
  end
  local function is_over() return now() >= deadline or runs >= explore.most_schedules end
  while true do
    for _ = 1, DEPTH_FIRST do
      paths = paths + 1
      if fails "path" then return kind, err, runs end
      if kind == "asleep" then paths = paths - 1 end
      long = long or kind == "long"
      if not explorer.backtrack(self.explorer) then
        for i = 1, self.shares and not long and SAMPLES or 0 do
          local is_random = i % 2 == 0
          seed = seed + 1
          if fails_in_other_order(is_random and RANDOM or PRIORITIES, seed, 4) then return kind, err, runs end
        end
        if not long then self:check_promise(paths) end
        return nil, nil, long and runs or paths, not long
      end
      if is_over() then return nil, nil, runs, false end
    end
    for i = 1, OTHERS do
      seed = seed + 1
      if fails_in_other_order(RANDOM, seed) then return kind, err, runs end
      if fails_in_other_order(PRIORITIES, seed, i) then return kind, err, runs end
      if is_over() then return nil, nil, runs, false end
    end
  end
end

-- ---- shortening ----

-- Strips the zeros at the end: from there on the order is first come, first served anyway.
local function trim(choices)
  while choices[#choices] == 0 do choices[#choices] = nil end
  return choices
end

-- The places of the choices that are not first come, first served.
local function places(choices)
  local list = {}
  for i, choice in ipairs(choices) do
    if choice ~= 0 then list[#list + 1] = i end
  end
  return list
end

-- Whether a is simpler than b: it has fewer choices, or is shorter, or its choices are lower.
local function is_simpler(a, b)
  local m, n = #places(a), #places(b)
  if m ~= n then return m < n end
  if #a ~= #b then return #a < #b end
  local sum = 0
  for i = 1, #a do sum = sum + a[i] - b[i] end
  return sum < 0
end

-- Makes a failing schedule simpler while it leads to the same kind of failure.
function Search:shorten(choices, kind)
  local deadline, runs = now() + explore.shortening, 0
  local best = trim(choices)
  local function may_go_on() return runs < MOST_RUNS and now() < deadline end
  local function try(candidate)
    runs = runs + 1
    explorer.script(self.explorer, candidate)
    if self:run("script", FIRST) ~= kind then return false end
    local made = trim((explorer.made(self.explorer)))
    if not is_simpler(made, best) then return false end
    best = made
    return true
  end
  -- Each of these changes a part, and returns whether the schedule became simpler.
  local function first_come(from, to)
    local candidate, at = table.move(best, 1, #best, 1, {}), places(best)
    for i = from, math.min(to, #at) do candidate[at[i]] = 0 end
    return try(candidate)
  end
  local function lower(at)
    for choice = 1, best[at] - 1 do
      local candidate = table.move(best, 1, #best, 1, {})
      candidate[at] = choice
      if try(candidate) then return true end
    end
  end
  local function drop(at)
    local candidate = table.move(best, 1, #best, 1, {})
    table.remove(candidate, at)
    if try(candidate) then return end
    for choice = 1, candidate[at] and 3 or 0 do -- one step sooner it may have another number
      candidate[at] = choice
      if may_go_on() and try(candidate) then return end
    end
  end
  local before
  repeat
    before = best
    local size = #places(best)
    while size >= 1 do -- halves, quarters, ...
      local from = 1
      while from <= #places(best) and may_go_on() do
        if not first_come(from, from + size - 1) then from = from + size end
      end
      size = size // 2
    end
    for at = #best, 1, -1 do
      if may_go_on() and at <= #best and best[at] > 1 then lower(at) end
    end
    for at = #best, 1, -1 do
      if may_go_on() and at <= #best then drop(at) end
    end
  until best == before or not may_go_on()
  return best
end

-- ---- a failure ----

-- Runs the explorer's script once more, and returns its story. The collector is stopped meanwhile, because the name of
-- a channel is lost when the channel is collected.
function Search:tell()
  local collects = collectgarbage "isrunning"
  collectgarbage "stop"
  recorder.hold("r", RING)
  explorer.record(self.explorer, true)
  local notes = {}
  current.notes = notes
  local ok, kind, err = pcall(self.run, self, "script", FIRST)
  current.notes = nil
  local is_endless = kind == "livelock" or kind == "long" or kind == "leak" and err:find "^[^\n]* on for ever" ~= nil
  local told = ok and story.tell(function(i) return explorer.event(self.explorer, i) end, kind, notes, self.full,
    is_endless)
  explorer.record(self.explorer, false)
  recorder.release "r"
  if collects then collectgarbage "restart" end
  if not ok then error(kind, 0) end
  return told, kind, err
end

-- How sim.explore is called to replay a schedule.
local function replay(schedule, options)
  local text = { ("schedule = %q"):format(schedule) }
  if options.leaks == false then text[#text + 1] = "leaks = false" end
  if options.timers then text[#text + 1] = "timers = \"any\"" end
  if options.steps then text[#text + 1] = ("steps = %d"):format(options.steps) end
  return ("sim.explore(f, { %s })"):format(table.concat(text, ", "))
end

-- The message about the failure that the explorer's script reproduces.
function Search:report(which, options)
  local told, kind, err = self:tell()
  local choices, hash = explorer.made(self.explorer)
  local text = kind == "deadlock" and "f waits for ever" or core.internal.error_text(err)
  if kind == "leak" then text = text:match "^leak: ([^\n]*)" end
  if kind == "livelock" then text = text:match "^livelock: (.*)" end
  local first, rest = text:match "^([^\n]*)(.*)$"
  if told.told then told.told.failure = ("%s: %s"):format(kind, first) end
  current.told = told.told
  local schedule = schedules.format(trim(choices), hash)
  local lines = unordered()
  return ("sim.explore: %s: %s (%s)%s\n%s\n%sTo replay: %s%s"):format(kind, first,
    which or ("schedule %q"):format(schedule), rest, told.text,
    told.has_marks and "* not the first in the queue. " or "", replay(schedule, options),
    lines and "\nIt may not replay: nothing fixes the order of the objects that are keys at " .. lines or "")
end

-- The message about the failure of the last run, run `number`.
function Search:fail(kind, number, options)
  explorer.repeat_last(self.explorer)
  local again = self:run("script", FIRST)
  if again ~= kind then
    not_the_same("schedule %d fails (%s), and then does not", number, kind)
  end
  local choices = explorer.made(self.explorer)
  local before = table.move(choices, 1, #choices, 1, {})
  choices = self:shorten(choices, kind)
  explorer.script(self.explorer, choices)
  local n = #places(choices)
  local which = "schedule " .. number
  if is_simpler(choices, trim(before)) then
    which = ("%s, shortened to %d %s"):format(which, n, n == 1 and "choice" or "choices")
  end
  return self:report(which, options)
end

-- ---- the result ----

-- 1234567 as 1,234,567
local function grouped(n)
  local text = tostring(n)
  return (text:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
end

---What sim.explore returns; tostring gives "all 142 schedules of its go blocks" or "18,758 schedules of its go blocks,
---not all", or "18,758 schedules of its go blocks, not all; 7 were given up".
---@class runnel.Explored
---@field schedules integer how many were run; or, of all, how many there are
---@field all boolean whether the program has no other schedule
---@field given_up? integer how many of them were given up, since they took more steps than the option `steps` allows;
---or the last one, since the time was over
local Explored = {}

function Explored:__tostring()
  local text = grouped(self.schedules) .. (self.schedules == 1 and " schedule" or " schedules") .. " of its go blocks"
  if self.all then return "all " .. text end
  local given_up = self.given_up and ("; %s %s given up"):format(grouped(self.given_up),
    self.given_up == 1 and "was" or "were") or ""
  return text .. ", not all" .. given_up
end

-- The error of a search in which every run was given up, with the end of the first run; or of a part of it, if steps
-- would let it take long.
function Search:checked_nothing(runs, options)
  explorer.script(self.explorer, {})
  self.deadline = now() + TOLD
  local told = self:tell()
  return ("sim.explore: %s given up, so nothing was checked: more than %s steps (the option steps), or too much time. "
    .. "The end of the first run:\n%s"):format(
    runs == 1 and "the only run was" or ("each of the %s runs was"):format(grouped(runs)),
    grouped(options.steps or 10000), told.text)
end

-- Replays one schedule.
function Search:replay(options)
  local choices, hash = schedules.parse(options.schedule)
  explorer.script(self.explorer, choices)
  local kind = self:run("script", FIRST)
  local _, found = explorer.made(self.explorer)
  if kind == "long" then return nil, "sim.explore: this schedule takes more steps than the option steps allows" end
  if found & 0xFFFF ~= hash then
    not_the_same("it makes other choices than when schedule %q was found", options.schedule)
  end
  if not is_failure(kind) then return setmetatable({ schedules = 1, all = false }, Explored) end
  return nil, self:report(nil, options)
end

---Searches the schedules of f. Returns the result, or nil, the message of the failure, and whether f's caller caused
---it.
---@param f fun()
---@param options table checked
---@param seconds number
---@param explorers any the core's explorer
---@return runnel.Explored?
---@return string? message
---@return boolean? is_callers
---@return number elapsed the virtual time of the last run
function explore.run(f, options, seconds, explorers)
  local seen = current.new_seen(8)
  local search = setmetatable({ explorer = explorers, f = f, leaks = options.leaks ~= false, seen = seen,
    full = options.full, given_up = 0, shares = options.share ~= nil and not options.schedule, keys = {} }, Search)
  function search.hear(err) search.heard = search.heard or { err = err } end
  local before = core.on_error(nil)
  local a, b = math.random(0), math.random(0)
  current.shares = search.shares
  if search.shares then explorer.share(explorers, not search.leaks) end
  local ok, result, message = pcall(function()
    if options.schedule then return search:replay(options) end
    local kind, _, runs, all = search:search(seconds)
    if kind then return nil, search:fail(kind, runs, options) end
    if search.given_up == runs then return nil, search:checked_nothing(runs, options) end
    local problem = current.impossible(seen)
    if problem then return nil, "sim.explore: " .. problem end
    local given_up = search.given_up > 0 and search.given_up or nil
    return setmetatable({ schedules = runs, all = all, given_up = given_up }, Explored)
  end)
  core.on_error(before)
  current.shares = false
  math.randomseed(a, b) -- as random as it was, or as reproducible
  if ok then return result, message, false, search.elapsed end
  if getmetatable(result) == NotTheSame then return nil, result.message, true, search.elapsed end
  error(result, 0)
end

return explore
