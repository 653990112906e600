---frontier: pmap_unordered over values to which the function itself adds: pages and the links on them, folders and
---their contents, the states of a puzzle.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local pmap = require "runnel.rn.pmap"
local retry = require "runnel.rn.retry"
local raise = core.internal.raise

---@class runnel.frontier
local frontier = {}

-- A buffer that is never full: a job adds values, and must not wait for another job.
local Queue = {}
Queue.__index = Queue

function Queue.full() return false end

function Queue:count() return self.last - self.first + 1 end

function Queue:add(value)
  self[self.last + 1] = value
  self.last = self.last + 1
end

function Queue:remove()
  local value = self[self.first]
  self[self.first] = nil
  self.first = self.first + 1
  return value
end

---Calls f(value, add) with each value, `n` calls at a time, and puts the results as they become ready. `add(value)`
---adds a value, unless an equal one was added before; it returns whether it was new. The result channel closes when all
---calls have ended: then no value can be added any more.
---@generic V, R
---@param n integer
---@param f fun(v: V, add: fun(v: V): boolean): R?, any? may park; a result of nil is left out; nil and an error is a
---failure, as an error that it raises
---@param values V[] those to begin with
---@param opts? runnel.PmapOptions without `window`; `timeout` is for each try
---@return runnel.Channel<R> results
function frontier.frontier(n, f, values, opts)
  check.integer(n, 1, "frontier: n")
  check.callable(f, "frontier: f")
  check.table(values, "frontier: values")
  check.list(values, "frontier: values")
  check.options(opts, pmap.UNORDERED_OPTIONS, "frontier")
  for i, value in ipairs(values) do
    if value ~= value then raise(("frontier: values: element %d is nan, which is not equal to itself"):format(i)) end
  end
  opts = opts or {}
  local todo = core.chan(setmetatable({ first = 1, last = 0 }, Queue)):name "values of a frontier"
  local seen, open = {}, 0

  local function add(value)
    if value == nil then raise("add: a value expected, got nothing") end
    check.key(value, "add")
    if todo:closed() then
      raise("add: all calls of the frontier have ended, so nothing can be added: add values before f returns")
    end
    if seen[value] then return false end
    seen[value] = true
    open = open + 1
    todo:put(value)
    return true
  end

  -- Ends a call, in every case.
  local Done = { __close = function()
    open = open - 1
    if open == 0 then todo:close() end
  end }

  local has_tries, tries, pause = opts.tries or opts.backoff, backoff.options(opts, "frontier")
  local out = check.new_chan(opts.buffer, "frontier: buffer")
  local function job(value)
    local _ <close> = setmetatable({}, Done)
    if has_tries then return retry.call("frontier", tries, pause, opts.timeout, f, value, add) end
    return f(value, add)
  end

  for i = 1, #values do add(values[i]) end
  if open == 0 then todo:close() end
  return pmap.start {
    what = "frontier", n = n, f = job, from = todo, out = out, ex_handler = opts.ex_handler,
    timeout = not has_tries and opts.timeout or nil, tries = 1, retry = 0,
  }
end

return frontier
