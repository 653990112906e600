---Operations of the library, each started in a state in which its go blocks wait, to be ended there: the programs of
---spec/every_operation_spec.lua.

local rn = require "runnel"

local endings = {}

-- The setting of an operation.
---@class spec.Setting
---@field source fun(): runnel.Channel<integer> makes a channel that it takes from
---@field feed fun(ch: runnel.Channel<integer>): runnel.Channel<integer> feeds a channel, and returns it
---@field f fun(v: any): any a function of the program's, which may wait, and returns its argument
---@field release fun() functions wait no longer
---@field sources runnel.Channel<integer>[]

-- How many values each source gives. It stays open.
local VALUES = 20

---@class spec.Started
---@field outs runnel.Channel<any>[] what it feeds
---@field close? fun() ends it; nil: closing all that it feeds does
---@field ends_with_source? boolean it ends when its sources close, too, and not before
---@field is_shared? boolean its go blocks feed some channels each, so cancelling one closes these
---@field is_finite? boolean it may have given all its values when a go block is cancelled
---@field values? integer how many these are, if each value comes out once
---@field is_handled? boolean a handler decides what follows where the go block of a job is cancelled
---@field jobs_finish? boolean calls of functions that run when it is closed end by themselves

---The operations, by their names in the manual, possibly followed by a variant.
---@type table<string, fun(s: spec.Setting): spec.Started>
local operations = {}
endings.operations = operations

function operations.pipe(s) return { outs = { rn.pipe(s.source(), rn.chan()) } } end

operations["pipe from a channel whose buffer is the program's"] = function(s)
  local list = {}
  local from = rn.chan {
    full = function() return #list >= 2 end, count = function() return #list end,
    add = function(_, v) list[#list + 1] = v end, remove = function() return table.remove(list, 1) end,
  }
  s.sources[1] = from
  return { outs = { rn.pipe(s.feed(from), rn.chan()) } }
end

function operations.merge(s) return { outs = { rn.merge { s.source(), s.source() } } } end

function operations.multiplex(s) return { outs = { rn.multiplex(s.source(), s.source()) } } end

function operations.broadcast(s)
  local a, b = rn.chan(), rn.chan(1)
  local ch = s.feed(rn.broadcast(a, b))
  s.sources[1] = ch
  return { outs = { a, b }, close = function() ch:close() a:close() b:close() end, is_shared = true }
end

operations["into"] = function(s) return { outs = { rn.into({}, s.source()) } } end

function operations.reduce(s) return { outs = { rn.reduce(function(_, v) return s.f(v) end, 0, s.source()) } } end

function operations.transduce(s)
  return { outs = { rn.transduce(rn.xf.map(s.f), function(acc, v) return v or acc end, 0, s.source()) } }
end

local function numbers(s)
  local i = 0
  return function()
    i = i + 1
    return i <= VALUES and s.f(i) or s.idle:take()
  end
end

local function list()
  local values = {}
  for i = 1, VALUES do values[i] = i end
  return values
end

function operations.onto_chan(s)
  local ch = rn.chan()
  rn.onto_chan(ch, numbers(s))
  return { outs = { ch } }
end

operations["onto_chan of a list"] = function()
  local ch = rn.chan()
  rn.onto_chan(ch, list())
  return { outs = { ch }, is_finite = true }
end

operations["onto_chan, of which the other result is closed"] = function(s)
  local ch = rn.chan()
  local done = rn.onto_chan(ch, numbers(s))
  return { outs = { ch, done }, close = function() done:close() end }
end

operations["onto_chan, twice on a channel"] = function(s)
  local ch = rn.chan()
  rn.onto_chan(ch, numbers(s))
  rn.onto_chan(ch, numbers(s))
  return { outs = { ch } }
end

function operations.to_chan(s) return { outs = { rn.to_chan(numbers(s)) } } end

operations["to_chan of a list"] = function()
  return { outs = { rn.to_chan(list()) }, is_finite = true, values = VALUES }
end

function operations.split(s)
  return { outs = { rn.split(function(v) return s.f(v) % 2 == 0 end, s.source()) } }
end

function operations.map(s) return { outs = { rn.map(function(v) return s.f(v) end, { s.source(), s.source() }) } } end

function operations.take(s) return { outs = { rn.take(VALUES + 1, s.source()) } } end

function operations.mult(s)
  local m = rn.mult(s.source())
  return { outs = { m:tap(rn.chan()), m:tap(rn.chan(1)) }, ends_with_source = true, is_shared = true }
end

function operations.mix(s)
  local out = rn.chan()
  local m = rn.mix(out)
  m:admix(s.source())
  m:admix(s.source())
  return { outs = { out } }
end

function operations.pub(s)
  local p = rn.pub(s.source(), function(v) return s.f(v) % 2 end)
  return { outs = { p:sub(0, rn.chan()), p:sub(1, rn.chan(1)) }, ends_with_source = true, is_shared = true }
end

function operations.batch(s) return { outs = { rn.batch(s.source(), 3, 5) } } end

operations["batch without a time"] = function(s) return { outs = { rn.batch(s.source(), 100) } } end

function operations.rate(s) return { outs = { rn.rate(s.source(), 1, 5) } } end

operations["debounce with a leading edge and a longest wait"] = function(s)
  return { outs = { rn.debounce(s.source(), 5, { leading = true, longest = 10 }) } }
end

function operations.throttle(s) return { outs = { rn.throttle(s.source(), 5) } } end

function operations.sample(s) return { outs = { rn.sample(s.source(), 5) } } end

function operations.latest(s)
  local latest = rn.latest(s.source())
  return { outs = { latest:tap(), latest:tap(rn.chan(1)) }, ends_with_source = true }
end

function operations.debounce(s) return { outs = { rn.debounce(s.source(), 5) } } end

for _, name in ipairs { "pmap", "pmap_unordered" } do
  local window = name == "pmap" and 3 or nil
  operations[name] = function(s) return { outs = { rn[name](3, s.f, s.source(), { window = window }) } } end

  operations[name .. " with a time limit and tries"] = function(s)
    return { outs = { rn[name](3, s.f, s.source(), { timeout = 1e6, tries = 3, window = window }) } }
  end

  operations[name .. " with keys"] = function(s)
    return { outs = { rn[name](3, s.f, s.source(), { key = function(v) return v % 2 end }) } }
  end

  operations[name .. " of a list"] = function(s)
    return { outs = { rn[name](3, s.f, list()) }, is_finite = true, values = VALUES }
  end

  operations[name .. " of an iterator"] = function(s)
    return { outs = { rn[name](3, function(v) return v end, numbers(s)) } }
  end

  operations[name .. " with a handler"] = function(s)
    return { outs = { rn[name](3, function(v) error(v, 0) end, s.source(), { ex_handler = s.f }) }, is_handled = true }
  end
end

function operations.frontier(s)
  return { outs = { rn.frontier(3, function(v, add)
    if v < VALUES then add(v + 1) end
    return s.f(v)
  end, { 1 }) }, is_finite = true }
end

for _, name in ipairs { "pipeline_async", "pipeline_async_unordered" } do
  local function results(s)
    return function(v, result)
      local _ <close> = result
      result:put(s.f(v))
      result:put(v)
    end
  end

  operations[name] = function(s)
    return { outs = { rn[name](3, rn.chan(), results(s), s.source()) }, jobs_finish = true }
  end

  operations[name .. " with jobs that go on"] = function(s)
    return { outs = { rn[name](3, rn.chan(), function(v, result)
      rn.go(function()
        rn.rename "test job"
        results(s)(v, result)
      end)
    end, s.source()) }, jobs_finish = true }
  end
end

for _, name in ipairs { "pipeline_async", "pipeline_async_unordered" } do
  operations[name .. " with a handler"] = function(s)
    return { outs = { rn[name](3, rn.chan(), function(v) error(v, 0) end, s.source(), true, { ex_handler = s.f }) },
      jobs_finish = true, is_handled = true }
  end
end

operations["pipeline_async with a window"] = function(s)
  return { outs = { rn.pipeline_async(3, rn.chan(), function(v, result)
    local _ <close> = result
    result:put(s.f(v))
  end, s.source(), true, { window = 6 }) }, jobs_finish = true }
end

for _, name in ipairs { "pipeline", "pipeline_blocking" } do
  operations[name] = function(s) return { outs = { rn[name](3, rn.chan(), rn.xf.map(tostring), s.source()) } } end
end

---Makes a setting.
---@param feeds boolean the sources give values
---@param parks fun(call: integer): boolean whether a call of `f` waits until it is released
---@param pause? fun() called between the values of a source, and in f
---@return spec.Setting
function endings.setting(feeds, parks, pause)
  local s = { sources = {}, idle = rn.chan() }
  local gate, calls = rn.chan(), 0
  pause = pause or function() end

  function s.feed(ch)
    if not feeds then return ch end
    rn.go(function()
      rn.rename "test source"
      for i = 1, VALUES do
        pause()
        if not ch:put(i) then return end
      end
    end)
    return ch
  end

  function s.source()
    local ch = rn.chan()
    s.sources[#s.sources + 1] = ch
    return s.feed(ch)
  end

  function s.f(v)
    calls = calls + 1
    pause()
    if parks(calls) then gate:take() end
    return v
  end

  function s.release() gate:close() end

  return s
end

return endings
