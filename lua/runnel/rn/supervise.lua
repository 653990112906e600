---supervise: go blocks with names that are started again when they have ended.
---
---    rn.supervise({
---      { "web", function() return http.serve(8080, answer) end },
---      { "poll", poll, again = "error" },
---    })
---
---Each child runs in a go block of its own, of which the caller of `rn.supervise` waits for the end. A child that is to
---be started again gets a new go block, which sleeps for the pause and then calls the function: so a pause is ended as
---a call is, by cancelling.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local class = require "runnel.internal.class"
local decimal = require "runnel.internal.decimal"
local guard = require "runnel.internal.guard"
local living = require "runnel.internal.living"
local sign = require "runnel.internal.sign"
local internal = core.internal
local raise = internal.raise

local now, sleep, has_ended, xpcall = core.now, core.sleep, internal.has_ended, xpcall

---@class runnel.supervise
local supervise = {}

-- Objects that do not end by themselves are waited for on such channels, which must not be garbage meanwhile.
local waited_for = {} -- luacheck: ignore 241

-- How many causes the error of a supervisor that gives up tells.
local TOLD = 3

local PRIORITY = { priority = true }

local NO_ERROR = "its coroutine was closed, or it has called coroutine.yield"
local OTHERS_RESTART = "cancelled by its supervisor, which starts it again with another child"
local ENDS = "cancelled by its supervisor, which ends"

---A child, as the program describes it.
---@class runnel.SuperviseChild
---@field [1] string its name
---@field [2] fun(): any what it does. It has ended when this returns; or, if it returns an object with `<close>`, such
---as a server, a flow, a worker or a process, when that has ended. It fails by raising an error, by returning nil and
---one, or by a process that ends with another status than 0
---@field again? "always"|"error"|"never" when it is started again; default "always"

---@class runnel.SuperviseOptions
---@field order? "one"|"rest"|"all" which children are started again: the one that has ended, also those after it in
---the list, or all; default "one"
---@field restarts? number how many times children may be started again within that time; default 5
---@field within? number ms; default 60000
---@field backoff? number ms before a child is first started again, default 100; twice as long each further time, up to
---a minute, until it has run for `within` ms; of that a random part between the half and the whole
---@field ex_handler? fun(err: any, name: string) gets the errors of children; default: the handler of rn.on_error

---A child, while it is supervised. It is the guard of its go block (internal.guarded).
---@class runnel.internal.Child
---@field name string
---@field f function
---@field again "always"|"error"|"never"
---@field block runnel.Channel<any>|false the go block; false: it has ended, and is not started again
---@field is_running boolean its function was called and has not returned
---@field began number when that was
---@field tries integer how many times it was started again since it last ran for long enough
---@field restarts integer how many times it was started again
---@field failures integer
---@field has_failed boolean in its last run
---@field err any the error of that
---@field trace string?
local Child = {}
Child.__index = Child

---@class runnel.internal.Supervisor
---@field children runnel.internal.Child[]
---@field package caller runnel.Channel<any>|nil the go block that waits for it; nil outside any
---@field package order "one"|"rest"|"all"
---@field package most number
---@field package within number
---@field package first number
---@field package ex_handler? fun(err: any, name: string)
---@field package reason any why its caller was cancelled, the last time; nil: it was not
---@field package times number[] when children were started again within the last `within` ms
---@field package causes { name: string, err: any }[] why, the last ones
local Supervisor = {}
Supervisor.__index = Supervisor

local supervisors = setmetatable({}, { __mode = "k" })
living.supervisors = supervisors

---The error of a supervisor that gives up.
---@class runnel.GivenUp
---@field code "restarts"
---@field message string
---@field causes { name: string, err: any }[] why children were started again, the last ones, oldest first
local GivenUp = { code = "restarts", __name = "supervisor that has given up" }

function GivenUp:__tostring() return self.message end

function GivenUp.__concat(a, b) return tostring(a) .. tostring(b) end

-- ---- a child ----

-- Waits for the end of what a child has returned, which is then closed.
local function outlive(value, err)
  local meta = getmetatable(value)
  if type(meta) ~= "table" or not meta.__close or core.is_chan(value) then return value, err end
  local object <close> = value
  if object.wait then return object:wait() end
  if object.exit then
    local exit, problem = object.exit:take()
    if not exit then return nil, problem end
    if exit.code ~= 0 then return nil, "the process has ended with status " .. tostring(exit.code) end
    return true
  end
  local never <close> = setmetatable({ ch = core.chan() }, { __close = function(self) waited_for[self.ch] = nil end })
  waited_for[never.ch] = true
  never.ch:take()
end

-- The tail call puts the program's function in the place of this one on the stack, so that the go block counts as one
-- of the program: it can be cancelled although it catches errors in a loop.
local function live(child, pause)
  if pause then sleep(pause) end
  child.is_running, child.began = true, now()
  return child.f()
end

local function unless_failed(child, ok, value, err)
  child.has_failed = not ok or value == nil and err ~= nil
  if not ok then child.err, child.trace = value, err else child.err, child.trace = err, nil end
end

-- Gets the results of xpcall. Its object may outlive the function.
function Child:returned(...)
  local ok, value, err = guard.tried(...)
  if ok then ok, value, err = guard.try(outlive, value, err) end
  unless_failed(self, ok, value, err)
end

function Child:__close() self.is_running = false end

local function start(child, pause)
  child.has_failed, child.err, child.trace, child.is_running = true, NO_ERROR, nil, false
  child.block = core.go(internal.guarded, child, xpcall, live, guard.keep_traceback, child, pause):name(child.name)
end

-- ---- the supervisor ----

-- Tells of the error of a child.
function Supervisor:failed(child, err, trace)
  child.failures = child.failures + 1
  if not self.ex_handler then return internal.report(err, trace, child.name) end
  guard.call("the ex_handler of a supervisor", self.ex_handler, err, child.name)
end

-- A child has ended by itself; `reason` is the error with which its result channel has closed, if its function did not
-- return. Returns whether it is to be started again.
function Supervisor:left(child, reason)
  if reason ~= nil then child.err = reason end
  child.block = false
  if child.has_failed then self:failed(child, child.err, child.trace) end
  return child.again == "always" or child.again == "error" and child.has_failed
end

-- Ends children, the last one first, and waits for each. Returns, in the order of the list, those that may be started
-- again: not those that have meanwhile ended for good. And the error of a wait, such as a deadlock: then some may still
-- run.
function Supervisor:stop(list, reason)
  local stopped, problem = {}, nil
  for i = #list, 1, -1 do
    local child = list[i]
    local may_start = true
    if child.block and has_ended(child.block) then
      may_start = self:left(child, select(2, child.block:poll()))
    elseif child.block then
      core.cancel(child.block, reason)
      local last, err = guard.join(child.block, self.caller, self.reason)
      self.reason, problem = last, problem or err
      child.block = false
      if child.has_failed and child.err ~= reason and child.err ~= NO_ERROR then
        self:failed(child, child.err, child.trace)
      end
    end
    if may_start then table.insert(stopped, 1, child) end
  end
  return stopped, problem
end

-- The children that are started again with this one.
function Supervisor:group(child)
  local list, is_after = {}, self.order == "all"
  for _, one in ipairs(self.children) do
    is_after = is_after or self.order == "rest" and one == child
    if one == child or is_after and one.block then list[#list + 1] = one end
  end
  return list
end

-- Counts one more restart. Returns the error if these are too many.
function Supervisor:count(child, err)
  local times, causes, at = self.times, self.causes, now()
  while times[1] and times[1] <= at - self.within do table.remove(times, 1) end
  if #causes == TOLD then table.remove(causes, 1) end
  causes[#causes + 1] = { name = child.name, err = err }
  if #times < self.most then
    if self.most < math.huge then times[#times + 1] = at end
    return nil
  end
  local lines = {}
  for i, cause in ipairs(causes) do lines[i] = ("%s: %s"):format(cause.name, internal.error_text(cause.err)) end
  local message = ("supervise: gives up after %d restarts within %s ms; the last causes: %s")
    :format(self.most, decimal.text(self.within), table.concat(lines, "; "))
  return setmetatable({ message = message, causes = causes }, GivenUp)
end

-- A child has ended by itself: it is started again with its group, if it is to be.
function Supervisor:ended(child, reason)
  if not self:left(child, reason) then return end
  if now() - child.began >= self.within then child.tries = 0 end
  local cause = "it has returned" ---@type any
  if child.has_failed then cause = child.err end -- which may be nil or false
  local given_up = self:count(child, cause)
  if given_up then error(given_up, 0) end
  child.tries = child.tries + 1
  local pause = backoff.pause(self.first, child.tries)
  local group, problem = self:stop(self:group(child), OTHERS_RESTART)
  if self.reason ~= nil then error(self.reason, 0) end
  if problem ~= nil then error(problem, 0) end
  for _, one in ipairs(group) do
    one.restarts = one.restarts + 1
    start(one, pause)
  end
end

-- Runs until no child is left.
function Supervisor:watch()
  for _, child in ipairs(self.children) do start(child) end
  while true do
    local blocks, by_block = {}, {}
    for _, child in ipairs(self.children) do
      if child.block then
        blocks[#blocks + 1] = child.block
        by_block[child.block] = child
      end
    end
    if #blocks == 0 then return end
    local _, block, reason = core.alts(blocks, PRIORITY)
    self:ended(by_block[block], reason)
  end
end

-- The go block that waits for the supervisor was killed: nothing waits for the children any more.
function Supervisor:__close()
  supervisors[self] = nil
  for _, child in ipairs(self.children) do
    if child.block then core.cancel(child.block, ENDS) end
  end
end

-- ---- what programs call ----

local RULES = check.kinds.one_of { "always", "error", "never" }

local function check_most(value, what)
  if value ~= math.huge then check.integer(value, 0, what) end
end

local OPTIONS = {
  order = check.kinds.one_of { "one", "rest", "all" }, restarts = check_most, within = check.kinds.ms(0),
  backoff = check.kinds.ms(0), ex_handler = check.kinds.callable,
}

local FIELDS = { again = RULES }

-- Reads the list of children.
local function read(list)
  sign.dot(list, "rn", "supervise")
  check.table(list, "supervise: children")
  for key in pairs(getmetatable(list) == nil and list or {}) do
    if math.type(key) ~= "integer" and key ~= "n" then -- table.pack() has an `n`
      raise(("supervise: the list of children has a field %s; options go into a table of their own: "
        .. "rn.supervise({ ... }, { order = \"all\" })"):format(check.describe(key)))
    end
  end
  check.list(list, "supervise: children")
  local children, names = {}, {}
  for i, one in ipairs(list) do
    local what = ("supervise: child %d"):format(i)
    check.table(one, what)
    check.string(one[1], 'a name first, as in { "poll", poll },', what)
    what = ("supervise: child %q"):format(one[1])
    check.callable(one[2], what)
    local fields = {}
    for key, value in pairs(one) do
      if key ~= 1 and key ~= 2 then fields[key] = value end
    end
    check.options(fields, FIELDS, what)
    if names[one[1]] then raise(what .. ": there is another child of that name") end
    names[one[1]] = true
    children[i] = setmetatable({
      name = one[1], f = one[2], again = one.again or "always", block = false, is_running = false, began = 0, tries = 0,
      restarts = 0, failures = 0, has_failed = false, err = nil, trace = nil,
    }, Child)
  end
  if #children == 0 then raise('supervise: children expected, as in { { "poll", poll } }, but the list has none') end
  return children
end

---Runs functions, each in a go block of its own, and starts those again that end. Returns when all have ended and none
---is to be started again. If children were started again too often, all are ended and an error is raised: a table with
---`code = "restarts"`, `message` and `causes`. Cancelling the caller cancels all children, the last one first, and
---waits for them.
---@param children runnel.SuperviseChild[]
---@param opts? runnel.SuperviseOptions
function supervise.supervise(children, opts)
  children = read(children)
  check.options(opts, OPTIONS, "supervise")
  opts = opts or {}
  local self <close> = setmetatable({
    children = children, order = opts.order or "one", most = opts.restarts or 5, within = opts.within or 60000,
    first = opts.backoff or 100, ex_handler = opts.ex_handler, times = {}, causes = {},
    caller = internal.self "supervise",
  }, Supervisor)
  supervisors[self] = true
  local ok, err = pcall(self.watch, self)
  local is_cancelled = not ok and internal.is_cancelled(err)
  if is_cancelled then self.reason = err end
  self:stop(children, ENDS)
  if is_cancelled then err = self.reason end
  if not ok then error(err, 0) end
end

class.finish(GivenUp)

return supervise
