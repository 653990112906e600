---Adds to the error of a deadlock what to do about it: which channel was not closed, and which jobs of a pipeline have
---not ended. Go blocks of the library that it explains are removed from the list.

local debug = debug
local core = require "runnel.core"
local short = require "runnel.internal.short"

local name_of, peek, value_of = core.internal.name_of, core.internal.peek, core.internal.job.value

-- How many jobs of each pipeline are named, and how many bytes of each value are shown.
local NAMED, LONGEST = 8, 60

-- Functions of the library that take from one channel until it closes, or from several.
local READERS = {
  batch = true, debounce = true, into = true, latest = true, map = true, merge = true, pipe = true, pmap = true,
  pmap_unordered = true, rate = true, reduce = true, sample = true, split = true, take = true, throttle = true,
  transduce = true,
}

local deadlock = {}

---The library's internal channels.
---@type table<runnel.Channel<any>, true>
deadlock.private = setmetatable({}, { __mode = "k" })

-- ---- channels that were not closed ----

-- The channels on which a go block of the library puts, and which it closes.
local function targets(entry)
  local fed = entry.fed
  if core.is_chan(fed) then return { fed } end
  if type(fed) ~= "table" then return {} end
  local to = rawget(fed, "to") or rawget(fed, "out")
  if to then return { to } end
  return core.is_chan(fed[1]) and fed or {}
end

-- The channels that a go block waits for, and whether it ends when they close.
local function sources(entry)
  if entry.operation == "put" then return {}, false end
  local fed = entry.fed
  local from = type(fed) == "table" and rawget(fed, "from")
  if from then return { from }, true end
  local chs = entry.channel and { entry.channel } or entry.channels or {}
  if fed == nil or not entry.is_silent then return chs, entry.loops or false end
  return READERS[entry.name:match "^[%a_]+"] and chs or {}, true
end

-- Follows the waits backwards: from a waiting go block to its channels, from those to the go blocks that put on them,
-- and so on. Returns the first channel on which no go block would put and the go block that takes all its values, if
-- any; or nothing.
local function unclosed(entry, feeders, seen)
  local chs, is_reader = sources(entry)
  for _, ch in ipairs(chs) do
    if core.is_chan(ch) and not (seen[ch] or deadlock.private[ch]) and not ch:closed() and ch:done() ~= ch then
      seen[ch] = true
      if not feeders[ch] then
        if is_reader then return ch, entry end
      else
        for _, feeder in ipairs(feeders[ch]) do
          local found, reader = unclosed(feeder, feeders, seen)
          if found then return found, reader end
        end
      end
    end
  end
end

local function about_channel(list, waits)
  local feeders, starts = {}, { waits }
  for _, entry in ipairs(list) do
    local chs = { entry.result, table.unpack(targets(entry)) }
    if entry.fed ~= nil and #chs == 1 then return nil end -- it may feed any channel
    for _, ch in ipairs(chs) do
      feeders[ch] = feeders[ch] or {}
      table.insert(feeders[ch], entry)
    end
    if not waits and entry.loops then table.insert(starts, entry) end
  end
  for _, start in ipairs(starts) do
    local ch, reader = unclosed(start, feeders, {})
    if ch then
      local who = not reader.loops and reader.name
        or reader.where and "the for loop at " .. reader.where
        or "the for loop over it"
      return ("%s was not closed: %s ends when it is. Call ch:close() after the last put"):format(name_of(ch), who)
    end
  end
end

-- ---- jobs that have not ended ----

-- The result channels that the go blocks of a pipeline hold.
local function results_of(jobs)
  local results = jobs.queue and peek(jobs.queue, math.maxinteger) or {}
  for holder in pairs(jobs.holders) do results[#results + 1] = holder.result or nil end
  return results
end

local function about_jobs(name, jobs)
  local values, n = {}, 0
  for _, result in ipairs(results_of(jobs)) do
    local value = value_of(result)
    if value ~= nil and not result:closed() then
      n = n + 1
      if n <= NAMED then values[n] = short.value(value, LONGEST) end
    end
  end
  if n == 0 then return nil end
  table.sort(values)
  return ("%s: %s. A job ends when its result channel is closed: the function at %s, or the go block that it starts, "
    .. "must call result:close() after the last put, also after an error"):format(name:gsub(" %->.*", ""),
    (n == 1 and "the job of the value %s has not ended" or n .. " jobs have not ended, those of the values %s")
      :format(short.list(values, NAMED, n)), jobs.where)
end

---The unfinished jobs of a pipeline, for the report of a deadlock. A table that has this as its field `jobs`, passed to
---guard.go, names them after its pipeline.
---@class runnel.Jobs
---@field where string where the function of the jobs was defined
---@field holders table<{ result: runnel.Channel<any>|false }, true> what the go blocks that deliver results are at
---@field queue? runnel.Channel<runnel.Channel<any>> ordered: the result channels that are to be delivered after those

---@param af any the function of the jobs
---@param holders table<{ result: runnel.Channel<any>|false }, true>
---@param queue? runnel.Channel<runnel.Channel<any>>
---@return runnel.Jobs
function deadlock.jobs(af, holders, queue)
  local where = "?"
  if type(af) == "function" then
    local info = debug.getinfo(af, "S")
    where = info.linedefined > 0 and info.short_src .. ":" .. info.linedefined or "[C]"
  end
  return { where = where, holders = holders, queue = queue }
end

local function jobs_of(entry) return type(entry.fed) == "table" and rawget(entry.fed, "jobs") or nil end

-- Removes from the list the go blocks of explained pipelines that wait in functions of the library.
local function remove_explained(list, explained)
  local n = 0
  for i, entry in ipairs(list) do
    list[i] = nil
    if not (entry.is_silent and explained[jobs_of(entry) or list]) then
      n = n + 1
      list[n] = entry
    end
  end
end

---What to do about a deadlock.
---@param list table[] the go blocks, as in rn.ps; those of the library that the text explains are removed
---@param waits? table what waits outside any go block
---@return string text with a newline before it; or empty
function deadlock.explain(list, waits)
  local lines, explained = {}, {}
  for _, entry in ipairs(list) do
    local jobs = jobs_of(entry)
    if jobs and explained[jobs] == nil then
      local line = about_jobs(entry.name, jobs)
      explained[jobs] = line ~= nil
      table.insert(lines, line)
    end
  end
  if #lines == 0 then lines[1] = about_channel(list, waits) end
  remove_explained(list, explained)
  return #lines > 0 and "\n" .. table.concat(lines, "\n") or ""
end

return deadlock
