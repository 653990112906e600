-- A process of tests/runs/runs.lua: continues the runs of a store, and records what it sees, until it is killed.
--
--   lua5.4 worker.lua STORE LOG NAME SEED VERSION [FAULT]
--
-- VERSION 2 has a step that version 1 has not, in run:version. A fault is planted in what this program does, or in the
-- library, so that the check is seen to find it: with "early" a step has its result before it has done anything, with
-- "again" steps are done again, with "stolen" a process takes over the runs of living ones, and with "keyless" each run
-- has a key of its own.

local rn = require "runnel"
local recorder = require "spec.support.history.recorder"

require("runnel.queue.patience").scale(0.02)
local path, log, name, seed, version, fault = table.unpack(arg)
math.randomseed(math.tointeger(tonumber(seed)))
local record = recorder.open(log)
rn.on_error(function(err, _, where) io.stderr:write(where, ": ", tostring(err), "\n") end)

local store = require("runnel.store").open(path, { busy_timeout = 60000 })
local keys, busy = assert(store.db:locks(path .. "-keys", path)), {}

if fault == "stolen" then store.locks = { try = function() return true end, release = function() end } end

local values = 0
local function new_value()
  values = values + 1
  return name .. "." .. values
end

local function problem(text) record:moment(name, "problem", { text = text }) end

-- ---- steps ----

-- What happens in the file with the result of the step, or without it.
local function effect(what, run, tx)
  (tx or store.db):exec("insert into effects(what, run) values (?, ?)", what, run)
end

local note = store:once("note", effect, { tx = true, key = function(what) return what end })

-- Its effect is not in the file with its result: it happens at least once.
local function charge_card(run, of)
  if fault == "early" then
    rn.go(function()
      rn.sleep(math.random(0, 60))
      effect("charged", run)
    end)
  else
    effect("charged", run)
  end
  local value = new_value()
  record:moment(name, "begin", { key = run, of = of, computed = value })
  return value
end
local charge = fault == "again" and charge_card or store:once("charge", charge_card)

-- Calls the step `charge`, and records that.
local function charged(run)
  local back, number = record:call(name, "call", { key = run })
  local ok, value = pcall(charge, run, number)
  if ok then back { value = value } else back { refused = true } end
  if not ok then error(value, 0) end
  return value
end

local function fail_sometimes() if math.random(12) == 1 then error("not yet", 0) end end

-- ---- runs ----

local children = store:runs("child", function(run, number)
  fail_sometimes()
  note("child", run.key)
  return number
end, { tries = 1000000, starts = 1000000, backoff = 1 })

local KINDS <const> = {
  steps = function() end,
  blocks = function(run)
    rn.scope(function(s)
      for i = 1, 3 do s:go(note, "ship " .. i, run.key) end
    end)
    for _ in rn.pmap(2, function(i) return note("pack " .. i, run.key) or true end, { 1, 2, 3 }) do fail_sometimes() end
  end,
  sleeps = function(run, o)
    local before = run:now()
    run:sleep(o.number % 3 == 1 and 5 or 300)
    if run:now() < before + 5 then problem "a sleep has ended too soon" end
  end,
  signals = function(run)
    local first, second = run:wait "go", run:wait "go"
    local third = run:wait("go", { timeout = 3 })
    return ("%s, %s, %s"):format(first, second, third)
  end,
  cancelled = function(run)
    local ok, err = pcall(run.sleep, run, 1e9)
    note("refunded", run.key)
    if not ok then error(err, 0) end
  end,
  retries = function() if math.random(2) == 1 then error("not yet", 0) end end,
  children = function(run, o)
    local result, err = children:start(run.key, o.number):result()
    if result ~= o.number then problem(("the child of %s has the result %s, %s"):format(run.key, result, err)) end
  end,
  chances = function(run) return run:id() .. run:random() end,
  restarted = function(run) note("mailed", run.key) end,
}

-- One run of a key is in the memory of one process.
local function enter(key)
  if busy[key] or not keys:try(key) then problem("two runs of the key " .. key .. " at a time") end
  busy[key] = true
  return setmetatable({}, { __close = function()
    busy[key] = nil
    keys:release(key)
  end })
end

local function order(run, o)
  local alone <close> = enter(o.key) -- luacheck: ignore 211
  note("begun", run.key)
  fail_sometimes()
  if version == "2" and run:version "two mails" then note("second mail", run.key) end
  local receipt = charged(run.key)
  fail_sometimes()
  local result = KINDS[o.kind](run, o)
  fail_sometimes()
  note("ended", run.key)
  return ("%s: %s"):format(receipt, result)
end

local runs = store:runs("order", order, {
  key = function(o) return fault == "keyless" and o.number or o.key end, tries = 1000000, starts = 1000000, backoff = 1,
})

print "ready"
io.stdout:flush()

-- What it sees of the results of runs stays the same.
while true do
  rn.sleep(math.random(100))
  local r = runs:get("run " .. math.random(200))
  local result = r and r:result { timeout = 0 }
  if result then record:moment(name, "result", { key = r.id, value = result }) end
end
