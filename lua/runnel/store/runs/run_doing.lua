---Steps that are being done: one that takes long is noted in the file, so that it can be seen. Its row is that of its
---tries, of which none has failed yet.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local table_of = require "runnel.store.runs.run_table"

local internal = core.internal

local run_doing = {}

-- After how many ms a step is noted.
local LONG <const> = 1000

---@class runnel.store.RunDoing
---@field private work runnel.store.RunWork
---@field private doing table<table, true> the steps
---@field private shown table<runnel.store.RunSteps, table> the step of a run that its row names
---@field private block? any the go block that looks
local Doing = {}
Doing.__index = Doing

---@param work runnel.store.RunWork
---@return runnel.store.RunDoing
function run_doing.new(work) return setmetatable({ work = work, doing = {}, shown = {} }, Doing) end

-- Those that take long, the oldest first.
local function long(self, time)
  local list = {}
  for step in pairs(self.doing) do
    if time - step.began >= LONG then list[#list + 1] = step end
  end
  table.sort(list, function(a, b)
    if a.began ~= b.began then return a.began < b.began end
    return a.of.scope .. a.of.name .. a.of.text < b.of.scope .. b.of.name .. b.of.text
  end)
  return list
end

-- Names a step in the row of its run; nil: none is done that takes long.
local function show(self, run, step, time)
  self.shown[run] = step
  if run.is_over or run:has_left() then return end
  local at = step and step.of.at or {}
  self.work.store:attempt("exec", table_of.SHOW_STEP, run.work.name, run.id, at.step, at.line,
    step and step.began or time)
end

local function look(self)
  local time, oldest = self.work.store:time(), {}
  for _, step in ipairs(long(self, time)) do
    local run = step.run
    oldest[run] = oldest[run] or step
    if not step.is_noted then
      step.is_noted = true
      run:note_try(step.of, nil)
    end
  end
  for run, step in pairs(self.shown) do
    if oldest[run] ~= step then show(self, run, oldest[run], time) end
  end
  for run, step in pairs(oldest) do
    if not self.shown[run] then show(self, run, step, time) end
  end
end

-- As long as steps are done, or are shown.
local function follow(self)
  internal.trace.set_context(nil)
  while next(self.doing) or next(self.shown) do
    core.sleep(LONG)
    local ok, err = pcall(look, self)
    if not ok then guard.raise_cancelled(err) end -- what cannot be stored is only not seen
  end
  self.block = nil
end

---A step begins.
---@param step table
function Doing:add(step)
  self.doing[step] = true
  if not self.block then self.block = guard.started(guard.go(guard.nothing, nil, follow, self), "runs") end
end

---A step has ended.
---@param step table
function Doing:remove(step) self.doing[step] = nil end

---The worker has ended.
function Doing:close()
  if self.block then core.cancel(self.block) end
end

return run_doing
