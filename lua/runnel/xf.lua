---xf: transducers, for channels, pipelines and transduce.
---
---    local xf = rn.xf
---    local ch = rn.chan(10, xf.comp(xf.map(tonumber), xf.filter(function(n) return n and n % 2 == 0 end)))
---
---A transducer takes a reducing function and returns one. A reducing function `rf` is called in three ways: `rf()`
---returns a first accumulator, `rf(acc)` completes the reduction, and `rf(acc, v)` is a step, which returns the next
---accumulator, or `rn.reduced(acc)` to end the reduction. The number of arguments says which way it is. So a stage may
---pass nil on to the next stage (but a channel at the end does not accept it), and false is a value like any other.
---
---Several channels may use the same transducer: each application to a reducing function has its own state. Values that
---it holds back are added on completion, once. If a user function raises, that step raises: its value is lost, and the
---next step works as usual.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local sign = require "runnel.internal.sign"

local reduced, is_reduced, is_callable = core.reduced, core.is_reduced, check.is_callable
local select = select

---@class runnel.xf
local xf = {}

-- Stands for "no value yet"; it equals no value.
local NONE = {}

local function ensure_reduced(acc)
  if is_reduced(acc) then return acc end
  return reduced(acc)
end

-- Every stage repeats the lines that tell a step from the other two calls. A common constructor of stages would cost
-- one more call: 8 % of the instructions of a message through a channel with one stage, 18 % with three.

-- Completes a stage that has held back a value. If adding it raises, the later stages still complete.
local function finish(rf, acc, rest)
  local ok, result = pcall(rf, acc, rest)
  if not ok then
    rf(acc)
    error(result, 0)
  end
  if is_reduced(result) then result = result[1] end
  return rf(result)
end

-- ---- one at a time ----

---Replaces each value by `f(v)`. Source: Clojure's map.
---@param f fun(v: any): any
---@return runnel.Transducer
function xf.map(f)
  check.callable(f, "xf.map: function")
  return function(rf)
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      return rf(acc, (f(v)))
    end
  end
end

---Replaces each value by `f(i, v)`, where i numbers the values from 1. Source: Clojure's map-indexed, which counts from
---0.
---@param f fun(i: integer, v: any): any
---@return runnel.Transducer
function xf.map_indexed(f)
  check.callable(f, "xf.map_indexed: function")
  return function(rf)
    local i = 0
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      i = i + 1
      return rf(acc, (f(i, v)))
    end
  end
end

---Passes on the values for which `pred(v)` is true: neither false nor nil. Source: Clojure's filter.
---@param pred fun(v: any): any
---@return runnel.Transducer
function xf.filter(pred)
  check.callable(pred, "xf.filter: predicate")
  return function(rf)
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      if pred(v) then return rf(acc, v) end
      return acc
    end
  end
end

---Passes on the values for which `pred(v)` is false or nil. Source: Clojure's remove.
---@param pred fun(v: any): any
---@return runnel.Transducer
function xf.remove(pred)
  check.callable(pred, "xf.remove: predicate")
  return function(rf)
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      if pred(v) then return acc end
      return rf(acc, v)
    end
  end
end

---Replaces each value by `f(v)`, and drops it if that is nil, but not if it is false. Source: Clojure's keep.
---@param f fun(v: any): any
---@return runnel.Transducer
function xf.keep(f)
  check.callable(f, "xf.keep: function")
  return function(rf)
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      local result = f(v)
      if result == nil then return acc end
      return rf(acc, result)
    end
  end
end

-- ---- several values for one ----

-- Adds the elements of a list, or the values of an iterator function, until the accumulator is reduced.
local function add_all(rf, acc, source)
  if is_callable(source) then
    for v in source do
      acc = rf(acc, v)
      if is_reduced(acc) then return acc end
    end
    return acc
  end
  if type(source) ~= "table" then
    error("xf.cat: a list or an iterator function expected, got a " .. type(source), 0)
  end
  local i = 1
  local v = source[1]
  while v ~= nil do
    acc = rf(acc, v)
    if is_reduced(acc) then return acc end
    i = i + 1
    v = source[i]
  end
  return acc
end

---Replaces each value, a list (up to its first nil) or an iterator function, by its elements. It is itself a
---transducer: write `xf.cat`, not `xf.cat()`. Source: Clojure's cat.
---@param rf runnel.Reducer
---@return runnel.Reducer
function xf.cat(rf)
  check.callable(rf, "xf.cat is the transducer itself (xf.cat, not xf.cat()); reducing function")
  return function(...)
    local acc, source = ...
    if source == nil and select("#", ...) < 2 then return rf(...) end
    return add_all(rf, acc, source)
  end
end

---Replaces each value by the elements of the list or iterator function that `f(v)` returns. Source: Clojure's mapcat.
---@param f fun(v: any): table|fun(): any
---@return runnel.Transducer
function xf.mapcat(f)
  check.callable(f, "xf.mapcat: function")
  return function(rf)
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      return add_all(rf, acc, (f(v)))
    end
  end
end

---Puts a separator between values. Source: Clojure's interpose.
---@param separator any not nil
---@return runnel.Transducer
function xf.interpose(separator)
  sign.dot(separator, "xf", "interpose")
  check.value(separator, "xf.interpose: separator")
  return function(rf)
    local started = false
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      if started then
        acc = rf(acc, separator)
        if is_reduced(acc) then return acc end
      end
      started = true
      return rf(acc, v)
    end
  end
end

-- ---- the first, and the rest ----

---Ends after n values. With n = 0 it ends at the first value and drops it, because only a step can end a reduction.
---Source: Clojure's take.
---@param n integer 0 or more
---@return runnel.Transducer
function xf.take(n)
  check.integer(n, 0, "xf.take: n")
  return function(rf)
    local left = n
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      left = left - 1
      if left >= 0 then acc = rf(acc, v) end
      if left > 0 then return acc end
      return ensure_reduced(acc)
    end
  end
end

---Ends before the first value for which `pred(v)` is false or nil. Source: Clojure's take-while.
---@param pred fun(v: any): any
---@return runnel.Transducer
function xf.take_while(pred)
  check.callable(pred, "xf.take_while: predicate")
  return function(rf)
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      if pred(v) then return rf(acc, v) end
      return reduced(acc)
    end
  end
end

---Drops the first n values. Source: Clojure's drop.
---@param n integer 0 or more
---@return runnel.Transducer
function xf.drop(n)
  check.integer(n, 0, "xf.drop: n")
  return function(rf)
    local left = n
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      if left <= 0 then return rf(acc, v) end
      left = left - 1
      return acc
    end
  end
end

---Drops values until the first one for which `pred(v)` is false or nil. Source: Clojure's drop-while.
---@param pred fun(v: any): any not called again after that
---@return runnel.Transducer
function xf.drop_while(pred)
  check.callable(pred, "xf.drop_while: predicate")
  return function(rf)
    local dropping = true
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      if dropping and pred(v) then return acc end
      dropping = false
      return rf(acc, v)
    end
  end
end

---Passes on the first value, and every n-th after it. Source: Clojure's take-nth.
---@param n integer 1 or more
---@return runnel.Transducer
function xf.take_nth(n)
  check.integer(n, 1, "xf.take_nth: n")
  return function(rf)
    local before = n - 1 -- values since the last one that was passed on
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      before = before + 1
      if before < n then return acc end
      before = 0
      return rf(acc, v)
    end
  end
end

-- ---- no repetitions ----

---Drops values that equal (`==`) the one before. Source: Clojure's dedupe.
---@return runnel.Transducer
function xf.dedupe(...)
  sign.dot((...), "xf", "dedupe")
  return function(rf)
    local last = NONE
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      if v == last then return acc end
      last = v
      return rf(acc, v)
    end
  end
end

---Drops values that have come before, compared like the keys of a table. Remembers all of them. Source: Clojure's
---distinct.
---@return runnel.Transducer
function xf.distinct(...)
  sign.dot((...), "xf", "distinct")
  return function(rf)
    local seen = {}
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then return rf(...) end
      local key = v
      if v == nil then key = NONE end
      if seen[key] then return acc end
      if v == v then seen[key] = true end -- nan cannot be a key, and equals no value
      return rf(acc, v)
    end
  end
end

-- ---- parts ----

---Collects values into lists of n; the last one may be shorter. Source: Clojure's partition-all.
---@param n integer 1 or more
---@return runnel.Transducer
function xf.partition_all(n)
  check.integer(n, 1, "xf.partition_all: n")
  return function(rf)
    local part, count = {}, 0
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then
        if count == 0 or select("#", ...) == 0 then return rf(...) end
        local rest = part
        part, count = {}, 0
        return finish(rf, acc, rest)
      end
      count = count + 1
      part[count] = v
      if count < n then return acc end
      local full = part
      part, count = {}, 0
      return rf(acc, full)
    end
  end
end

---Collects values into lists, and begins a new one whenever `f(v)` differs (`~=`) from that of the value before.
---Source: Clojure's partition-by.
---@param f fun(v: any): any
---@return runnel.Transducer
function xf.partition_by(f)
  check.callable(f, "xf.partition_by: function")
  return function(rf)
    local part, count, last = {}, 0, nil
    return function(...)
      local acc, v = ...
      if v == nil and select("#", ...) < 2 then
        if count == 0 or select("#", ...) == 0 then return rf(...) end
        local rest = part
        part, count = {}, 0
        return finish(rf, acc, rest)
      end
      local key = f(v)
      if count == 0 or key == last then
        count, last = count + 1, key
        part[count] = v
        return acc
      end
      local done = part
      part, count, last = { v }, 1, key
      acc = rf(acc, done)
      if is_reduced(acc) then part, count = {}, 0 end -- the reduction has ended: drops the list just begun
      return acc
    end
  end
end

-- ---- together ----

---Makes one transducer of several; values go through them from left to right. Source: Clojure's comp of transducers.
---@param ... runnel.Transducer if there are none, values are passed on unchanged
---@return runnel.Transducer
function xf.comp(...)
  local n, stages = select("#", ...), { ... }
  for i = 1, n do check.callable(stages[i], "xf.comp: transducer " .. i) end
  return function(rf)
    for i = n, 1, -1 do
      rf = stages[i](rf)
      if not is_callable(rf) then
        error(("xf.comp: transducer %d returned a %s instead of a reducing function"):format(i, type(rf)), 0)
      end
    end
    return rf
  end
end

---Makes a reducing function for rn.transduce of a function that takes an accumulator and a value only. Source:
---Clojure's completing.
---@param f fun(acc: any, v: any): any the step
---@param done? fun(acc: any): any makes the result of the last accumulator; by default it is the result
---@return fun(...: any): any rf
function xf.completing(f, done)
  check.callable(f, "xf.completing: function")
  if done ~= nil then check.callable(done, "xf.completing: done") end
  return function(...)
    if select("#", ...) ~= 1 then return f(...) end
    if done then return done(...) end
    return ...
  end
end

return xf
