---Checks the description of a flow's stages.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local raise = core.internal.raise

---The description of a stage.
---@class runnel.FlowStage
---@field [1]? (fun(value: any): any)|runnel.Pool gets each value; its result goes on, unless it is nil
---@field step? fun(value: any, put: runnel.FlowPut, state: any): any, string? instead: puts any number of values, and
---may return one, and the output that it is for
---@field source? fun(put: runnel.FlowPut, state: any) instead: puts values, and returns when there are no more
---@field from? runnel.Channel<any>|any[]|(fun(): any) instead: a channel, a list or an iterator
---@field n? integer how many calls at a time, default 1
---@field ordered? boolean false: results go on as they are ready; by default in the order of the values
---@field tries? integer how often a value is tried, default once, or 3 times with `backoff`
---@field backoff? number ms before the second try, default 100; twice as long each further time, up to a minute
---@field key? fun(value: any): any values with the same key are worked on in their order, one at a time; nil: at once
---@field timeout? number ms for a call; one that takes longer is cancelled
---@field init? fun(number: integer): any makes the state of each of the n workers
---@field flush? fun(state: any, put: runnel.FlowPut) is called for each worker at the end of the input
---@field close? fun(state: any) is called last for each worker
---@field outs? string[] the names of further outputs
---@field input? boolean true: values come from `inject`; the stage ends when the flow is drained
---@field buffer? integer how many values may wait for the stage, default 16; 0: none

---@alias runnel.FlowPut fun(value: any, output?: string): boolean

local spec = {}

local kinds = check.kinds
local OPTIONS = {
  step = true, source = true, from = true, n = kinds.integer(1), ordered = kinds.boolean, tries = true, backoff = true,
  timeout = kinds.ms(0), init = kinds.callable, flush = kinds.callable, close = kinds.callable, outs = true,
  input = kinds.boolean, buffer = kinds.integer(0), key = kinds.callable,
}

-- The options of sources and channels.
local OF_SOURCE = { source = true, from = true, init = true, close = true, outs = true }
local OF_FROM = { from = true }

local BUFFER = 16

---A mark of the stages that flow.batch and the like make: their init gets the stage as well, and they have one worker.
---It is the call that makes them, as a program writes it.
---@type table<table, string>
spec.timed = setmetatable({}, { __mode = "k" })

-- The kind of a stage, and its function.
local function kind_of(what, options)
  local found = {}
  for _, name in ipairs { 1, "step", "source", "from" } do
    if options[name] ~= nil then found[#found + 1] = name end
  end
  if #found == 0 then raise(what .. ": it does nothing: a function, `step`, `source` or `from` expected") end
  if #found > 1 then
    raise(("%s: one of a function, `step`, `source` and `from` expected, got %d of them"):format(what, #found))
  end
  return found[1], options[found[1]]
end

local function check_function(what, name, value) check.callable(value, what .. ": " .. name) end

local function check_options(what, options)
  for key, value in pairs(options) do
    local kind = key == 1 or OPTIONS[key]
    if not kind then
      raise(type(key) == "number" and what .. ": one function expected, got several"
        or ("%s: %s"):format(what, check.unknown(key, OPTIONS)))
    end
    if kind ~= true then kind(value, what .. ": " .. key) end
  end
end

-- Raises if a source has an option of other stages.
local function check_of_source(what, options, kind)
  local allowed = kind == "from" and OF_FROM or OF_SOURCE
  for key in pairs(options) do
    if not allowed[key] then
      raise(("%s: %s: a stage with `%s` does not have that option"):format(what, tostring(key), kind))
    end
  end
end

-- The names of the outputs: as a list and as a set in one table.
local function outputs(what, outs)
  local set = { "out", "error", out = true, error = true }
  if outs == nil then return set end
  if type(outs) ~= "table" then raise(what .. ": outs: a list of names expected, got " .. check.article(outs)) end
  check.list(outs, what .. ": outs")
  for _, name in ipairs(outs) do
    if type(name) ~= "string" or not name:find "^[%w_-]+$" or set[name] then
      raise(("%s: outs: %s cannot be the name of an output"):format(what, check.describe(name)))
    end
    set[name], set[#set + 1] = true, name
  end
  return set
end

local function check_from(what, from)
  if core.is_chan(from) then return from end
  local iterator, got = ends.iterator(from)
  if not iterator then raise(("%s: from: a channel, a list or an iterator expected, got %s"):format(what, got)) end
  return iterator
end

---@class runnel.flow.Spec
---@field kind "function"|"step"|"source"|"from"|"channel"
---@field f function|nil
---@field from any a channel or an iterator
---@field channel runnel.Channel<any>|nil of kind "channel": whether it is an input or an output, its edges tell
---@field given any what the program has said of the stage
---@field outputs table<string|integer, string|boolean>
---@field n integer
---@field buffer integer
---@field tries integer
---@field backoff number
---@field is_timed string|nil the call of flow.batch or the like that has made it

---Checks a stage.
---@param name any
---@param given any what the program says of it
---@return runnel.flow.Spec
function spec.stage(name, given)
  if type(name) ~= "string" or not name:find "^[%w_-]+$" then
    raise(("flow: %s cannot be the name of a stage: letters, digits, _ and - expected"):format(check.describe(name)))
  end
  local what = "flow: stage " .. name
  if core.is_chan(given) then
    local outs = outputs(what)
    return { kind = "channel", channel = given, given = given, outputs = outs, n = 1, buffer = BUFFER, tries = 1,
      backoff = 0 }
  end
  if check.is_callable(given) then given = { given } end
  if type(given) ~= "table" then
    raise(("%s: a function, a table of options or a channel expected, got %s"):format(what, check.article(given)))
  end
  check_options(what, given)
  local kind, f = kind_of(what, given)
  if kind == "source" or kind == "from" then check_of_source(what, given, kind) end
  local made = {
    kind = kind == 1 and "function" or kind, ordered = given.ordered ~= false, timeout = given.timeout,
    init = given.init, flush = given.flush, close = given.close, input = given.input, is_timed = spec.timed[given],
    given = given, key = given.key, n = given.n or 1, buffer = given.buffer or BUFFER,
    outputs = outputs(what, given.outs),
  }
  made.tries, made.backoff = backoff.options(given, what, given.backoff == nil and 1 or nil)
  if kind == "from" then
    made.from = check_from(what, f)
  else
    check_function(what, kind == 1 and "function" or kind, f)
    made.f = f
  end
  for _, other in ipairs { "init", "flush", "close" } do
    if given.key and given[other] then
      raise(("%s: key: the stage cannot have %s, since any of its workers may get the values of a key")
        :format(what, other))
    end
  end
  if made.is_timed and made.n > 1 then raise(what .. ": n: a stage of flow.batch or flow.debounce has one worker") end
  return made --[[@as runnel.flow.Spec]]
end

-- Raises if a stage of flow.batch or the like takes the place of anything but its own kind: its calls need the state
-- that its `init` makes.
local function check_timed(name, given, before)
  local call, old = spec.timed[given], spec.timed[before]
  local kind = call and call:match "^[%w.]+"
  if not call or old and old:match "^[%w.]+" == kind then return end
  raise(("replace: stage %s: %s takes the place only of another %s; add a stage with f:add"):format(name, call, kind))
end

---The argument of `replace`: a function, or a table with `step` or a function.
---@param name string of the stage
---@param given any
---@param is_step boolean what the stage had
---@param before any what the program has said of the stage when it was made
---@return function f
---@return boolean is_step
function spec.replacement(name, given, is_step, before)
  check_timed(name, given, before)
  if type(given) == "table" and not check.is_callable(given) then
    for key in pairs(given) do
      if key ~= 1 and key ~= "step" and not spec.timed[given] then
        raise(("replace: %s: only a function or `step` can be replaced"):format(tostring(key)))
      end
    end
    local kind, f = kind_of("replace", given)
    given, is_step = f, kind == "step"
  end
  check_function("replace", "stage", given)
  return given, is_step
end

return spec
