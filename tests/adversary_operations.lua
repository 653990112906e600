---The operations of the library that tests/adversary/library.lua attacks.

local rn = require "runnel"

local N <const> = 8 -- values of a source

local function numbers(n)
  local i = 0
  return function()
    i = i + 1
    if i <= n then return i end
  end
end

-- Each takes `source`, which makes a channel of N values, and the user's function, which returns its argument. It
-- returns a list of the channels that it feeds: each with how many values must arrive, whether in order, or those of
-- each `key`; perhaps with `check`, which is called at the end.
local ops = {}

local function fed(ch, n, in_order) return { ch = ch, n = n or N, in_order = in_order } end

local function pipe(from, n) return rn.pipe(from, rn.chan(n)) end

function ops.pipe(source) return { fed(pipe(source(), math.random(0, 2)), N, true) } end

function ops.pipes(source) return { fed(pipe(pipe(pipe(source()), 1)), N, true) } end

function ops.merge(source) return { fed(rn.merge({ source(), source(), source() }, math.random(0, 3)), 3 * N) } end

function ops.mult(source)
  local m = rn.mult(source())
  return { fed(m:tap(rn.chan()), N, true), fed(m:tap(rn.chan(1)), N, true), fed(m:tap(rn.chan(100)), N, true) }
end

function ops.broadcast(source)
  local outs = { rn.chan(), rn.chan(2) }
  rn.pipe(source(), rn.broadcast(table.unpack(outs)))
  return { fed(outs[1], N, true), fed(outs[2], N, true) }
end

function ops.pub(source, f)
  local p = rn.pub(source(), function(v) return f(v) % 2 end, function() return math.random(0, 2) end)
  return { fed(p:sub(0, rn.chan()), N // 2, true), fed(p:sub(1, rn.chan(1)), N // 2, true) }
end

function ops.mix(source)
  local out = rn.chan(1)
  local m = rn.mix(out)
  m:admix(source())
  m:admix(source())
  return { { ch = out, n = 2 * N, stays_open = true } }
end

function ops.split(source, f)
  local yes, no = rn.split(function(v) return f(v) % 2 == 0 end, source(), math.random(0, 1), 1)
  return { fed(yes, N // 2, true), fed(no, N // 2, true) }
end

function ops.map(source, f) return { fed(rn.map(f, { source(), source() }, math.random(0, 2)), N, true) } end

function ops.take(source) return { fed(rn.take(N - 2, source(), math.random(0, 2)), N - 2, true) } end

function ops.into(source)
  return { { ch = rn.into({}, source()), n = 1 } }
end

function ops.reduce(source, f) return { { ch = rn.reduce(function(_, v) return f(v) end, 0, source()), n = 1 } } end

function ops.transduce(source, f)
  return { { ch = rn.transduce(rn.xf.map(f), function(acc, v) return v or acc end, 0, source()), n = 1 } }
end

function ops.onto_chan(_, f)
  local next_number = numbers(N)
  local ch = rn.chan(math.random(0, 2))
  rn.onto_chan(ch, function()
    local v = next_number()
    return v and f(v)
  end)
  return { fed(ch, N, true) }
end

local function pipeline_of(kind, window)
  return function(source, f, told)
    local n = math.random(1, 3)
    local opts = { ex_handler = math.random(2) == 1 and told or nil, window = window and n + math.random(0, 2) or nil }
    local parks = math.random(2) == 1
    local to = rn[kind](n, rn.chan(math.random(0, 1)), function(v, result)
      if parks then
        rn.go(function()
          rn.sleep(v % 3)
          result:put(v)
          result:close()
        end)
        f(v)
      else
        result:put(f(v))
        result:close()
      end
    end, source(), true, opts)
    return { fed(to, N, kind == "pipeline_async") }
  end
end

ops.pipeline_async = pipeline_of("pipeline_async", false)
ops.pipeline_window = pipeline_of("pipeline_async", true)
ops.pipeline_unordered = pipeline_of("pipeline_async_unordered", false)

function ops.pipeline(source, f)
  return { fed(rn.pipeline(2, rn.chan(1), rn.xf.map(f), source()), N, true) }
end

-- A channel that need not give all values, but must give the last one.
local function newest(ch) return { ch = ch, n = N, in_order = true, is_newest = true } end

local function sometimes(value) return math.random(2) == 1 and value or nil end

function ops.throttle(source) return { newest(rn.throttle(source(), math.random(0, 3))) } end

function ops.sample(source) return { newest(rn.sample(source(), math.random(1, 3))) } end

function ops.debounce(source)
  return { newest(rn.debounce(source(), math.random(0, 3), { leading = sometimes(true), longest = sometimes(2) })) }
end

function ops.rate(source) return { fed(rn.rate(source(), math.random(3), math.random(0, 3)), N, true) } end

function ops.latest(source)
  local latest = rn.latest(source())
  return { newest(latest:tap()), fed(latest:tap(rn.chan(N)), N, true) }
end

local function by_key(v) return v % 3 end

local function keyed(kind)
  return function(source, f, told)
    local function job(v)
      rn.sleep(v % 4)
      return f(v)
    end
    local out = rn[kind](math.random(1, 3), job, source(), {
      key = by_key, ex_handler = sometimes(told), tries = math.random(1, 2), backoff = 1,
    })
    return { { ch = out, n = N, in_order = kind == "pmap", key = by_key } }
  end
end

ops.pmap_key = keyed "pmap"
ops.pmap_unordered_key = keyed "pmap_unordered"

-- Runs `f(out)` in a go block. When that ends, by an error too, the channel is closed.
local function feeding(name, f)
  local out = rn.chan()
  rn.go(function()
    rn.rename(name)
    local ok, err = pcall(f, out)
    out:close(not ok and err or nil)
  end)
  return out
end

function ops.shield(source, f)
  local from, begun, done = source(), 0, 0
  local function call(v)
    rn.rename "test shielded" -- is no victim from now on; one that was cancelled before ends here:
    rn.yield()
    local value = f(v)
    begun = begun + 1
    rn.sleep(v % 3)
    done = done + 1
    return value
  end
  local entry = fed(feeding("shielding", function(out)
    for v in from do out:put(rn.shield(call, nil, v)) end
  end), N, true)
  function entry.check() assert(begun == done, "shield: a call was not finished") end
  return { entry }
end

function ops.supervise(source, f, told)
  local from, failures, has_returned = source(), 0, false
  local function ex_handler()
    failures = failures + 1
    told()
  end
  local entry = fed(feeding("supervisor", function(out)
    rn.supervise({
      { "worker", function() for v in from do out:put(f(v)) end end, again = "error" },
      { "beside it", function() rn.sleep(math.random(5)) end, again = "never" },
    }, { backoff = math.random(0, 1), restarts = 3, order = sometimes "all", ex_handler = ex_handler })
    has_returned = true
  end), N, true)
  function entry.check() -- a worker that fails loses one value
    assert(not has_returned or #entry.values + failures >= N, "supervise: no worker has taken the other values")
  end
  return { entry }
end

-- As the manual has it.
local function generator(f)
  local values = rn.chan()
  local block = rn.go(f, function(value) values:put(value) end)
  local closing = setmetatable({}, { __close = function() rn.cancel(block, "the loop has ended") end })
  return function()
    local value, ch, err = rn.alts({ values, block }, { priority = true })
    if err ~= nil then error(err, 0) end
    if ch == values then return value end
  end, nil, nil, closing
end

function ops.generator(source, f)
  local from = source()
  return { fed(feeding("loop", function(out)
    for v in generator(function(yield)
      rn.rename "generating"
      for v in from do yield(f(v)) end
    end) do out:put(v) end
  end), N, true) }
end

return { by_name = ops, N = N }
