-- A process of tests/histories/histories.lua: uses buckets, streams and once of a store or of NATS, records each call
-- before it, and each return after it, and goes on until it is killed.
--
--   lua5.4 worker.lua PLACE LOG NAME SEED [FAULT]     PLACE: the path of a store, or the url of a nats-server
--
-- A fault is planted in what this program does, so that the check is seen to find it: with "early" it takes a put for
-- done that has only begun, with "blind" it updates a key without the check of the revision, with "stale" it gets what
-- a key had a moment ago, with "gaps" it misses changes of a bucket, and with "again" it does steps of once again.

local rn = require "runnel"
local recorder = require "spec.support.history.recorder"

local place, log, name, seed, fault = table.unpack(arg)
math.randomseed(math.tointeger(tonumber(seed)))
local record = recorder.open(log)
local is_nats = place:find "^nats:"
rn.on_error(function(err, _, where) io.stderr:write(where, ": ", tostring(err), "\n") end)

-- Calls the function until it succeeds: a disk that is full, or a server that is away, comes back.
local function insist(f, ...)
  while true do
    local ok, result, err = pcall(f, ...)
    if ok and result then return result end
    io.stderr:write(tostring(ok and err or result), "\n")
    rn.sleep(20)
  end
end

local owner
if is_nats then
  owner = insist(require("runnel.nats").connect, place, { reconnect_wait = 50, encoding = "msgpack" })
else
  local levels = { "off", "normal", "full" }
  owner = insist(require("runnel.store").open, place, { busy_timeout = 60000, synchronous = levels[math.random(3)] })
end

-- Over NATS, how many requests each go block has made: a write that was tried again may have happened twice.
local requests = {}
if is_nats then
  local request = owner.request
  function owner.request(...)
    local block = coroutine.running()
    requests[block] = (requests[block] or 0) + 1
    return request(...)
  end
end

-- Values are unique: of this process, with a number.
local values = 0
local function new_value()
  values = values + 1
  return name .. "." .. values
end

-- Whether a failed call of a store or a server may have done something. A store says that it has failed if it has not
-- done it; a server may be silent.
local function refused() return not is_nats end

local function pause() rn.sleep(math.random(0, 4)) end

-- ---- buckets ----

local KEYS <const> = 6
local bucket = insist(owner.kv, owner, "bucket")

-- Whether a write has failed because of its condition: then it has done nothing.
local function is_condition(err)
  err = tostring(err)
  return err:find "^the key " ~= nil and not err:find "it may have done this"
end

-- Calls a method that writes, and records it.
local function write(process, what, key, value, revision)
  local arguments = { key = key, value = value, revision = revision }
  local back = record:call(process, what, arguments)
  if fault == "early" and what == "put" then
    rn.go(function()
      rn.sleep(math.random(20))
      bucket:put(key, value)
    end)
    return back()
  end
  local before, new, err = requests[coroutine.running()]
  if what == "put" then new, err = bucket:put(key, value)
  elseif what == "create" then new, err = bucket:create(key, value)
  elseif what == "delete" then new, err = bucket:delete(key, revision)
  elseif fault == "blind" then
    local _, now = bucket:get(key)
    rn.sleep(math.random(5))
    if now == revision then new, err = bucket:put(key, value) else err = "the key has another revision" end
  else new, err = bucket:update(key, value, revision) end
  if new then back { new_revision = new, tries = is_nats and requests[coroutine.running()] - (before or 0) or nil }
  elseif is_condition(err) then back { failed = true, err = tostring(err) }
  elseif refused() then back { refused = true, err = tostring(err) } end
end

local cache = {}

-- With the fault "stale", what a key had up to 100 ms ago.
local function get(key)
  local one = cache[key]
  if one and fault == "stale" and rn.now() - one.at < 100 then return table.unpack(one, 1, 3) end
  cache[key] = { at = rn.now(), bucket:get(key) }
  return table.unpack(cache[key], 1, 3)
end

local function read(process, key)
  local back = record:call(process, "get", { key = key })
  local value, revision, err = get(key)
  if err then back { refused = true, err = tostring(err) } else back { value = value, seen_revision = revision } end
  return value, revision
end

local function use_bucket(process)
  while true do
    local key, choice = "k" .. math.random(KEYS), math.random(10)
    if choice <= 2 then write(process, "put", key, new_value())
    elseif choice == 3 then write(process, "create", key, new_value())
    elseif choice == 4 then write(process, "delete", key)
    else
      local value, revision = read(process, key)
      if value ~= nil and choice <= 8 then write(process, "update", key, new_value(), revision)
      elseif value ~= nil and choice == 9 then write(process, "delete", key, nil, revision) end
    end
    pause()
  end
end

-- ---- a bucket that is watched ----

local watched = insist(owner.kv, owner, "watched", { history = 20 })

local function fill_watched(process)
  while true do
    local key, value = "w" .. math.random(8), new_value()
    local back = record:call(process, "put", { key = key, value = value })
    local before = requests[coroutine.running()] or 0
    local revision, err = watched:put(key, value)
    if revision then back { new_revision = revision, tries = (requests[coroutine.running()] or 0) - before }
    elseif refused() then back { refused = true, err = tostring(err) } end
    rn.sleep(math.random(0, 40))
  end
end

local function watch(process)
  while true do
    process = process .. "'"
    local from = math.random(2) == 1 and "all" or "new"
    for change in insist(watched.watch, watched, ">", { from = from }) do
      if not (fault == "gaps" and math.random(10) == 1) then
        record:moment(process, "watch", { key = change.key, revision = change.revision, value = change.value,
          is_all = from == "all" })
      end
      if math.random(200) == 1 then break end -- and begins again
    end
  end
end

-- ---- a stream, in which each id is stored once ----

local IDS <const> = 400
local sink = insist(owner.sink, owner, "log")

local function put(process, to, what, id, value)
  local back = record:call(process, what, { id = id, value = value })
  if fault == "early" then
    rn.go(function()
      rn.sleep(math.random(20))
      to:put(value, { id = id })
    end)
    return back()
  end
  local ok, sequence, is_duplicate = to:put(value, { id = id })
  -- (A put over NATS that has tried twice may find its own value.)
  if ok then
    if is_duplicate and is_nats then is_duplicate = nil end -- if it has tried twice, it may have found its own value
    back { sequence = sequence, is_duplicate = is_duplicate }
  elseif refused() then
    back { refused = true, err = tostring(sequence) }
  end
end

local function fill_stream(process)
  while true do
    put(process, sink, "put to log", "id" .. math.random(IDS), new_value())
    pause()
  end
end

local function read_stream(process)
  while true do
    process = process .. "'"
    local source = insist(owner.source, owner, "log")
    for m in source do
      record:moment(process, "read", { sequence = m.sequence, value = m.value })
      if math.random(200) == 1 then break end -- and begins again
    end
    source:close()
  end
end

-- ---- a work queue ----

local work_sink = insist(owner.sink, owner, "work")

local function fill_queue(process)
  while true do
    local id = new_value()
    put(process, work_sink, "put", id, id)
    rn.sleep(math.random(0, 8))
  end
end

-- Waits until the store has the acknowledgement: it stores it in the background.
local function is_settled(sequence)
  local rows = owner.db:attempt("rows", "select 1 from runnel_delivery where stream = 'work' and seq = ?", sequence)
  return rows and not rows[1]
end

local function work(process)
  local source = insist(owner.source, owner, "work", { name = "work", buffer = 8, ack_wait = is_nats and 2000 or 1e7 })
  for m in source do
    record:moment(process, "take", { id = m.value })
    pause()
    local back = record:call(process, "ack", { id = m.value })
    m:ack()
    while not is_nats and not is_settled(m.sequence) do rn.sleep(1) end
    back()
  end
end

-- ---- once ----

local RESULTS <const> = 300
local calls = {} -- of each key: the process, and the number of its record

-- Calls a function of once, and records that.
local function call(f, process, key, ...)
  local back, number = record:call(process, "call", { key = key })
  local outer = calls[coroutine.running()]
  calls[coroutine.running()] = { process = process, number = number, key = key }
  local ok, value = pcall(f, ...)
  calls[coroutine.running()] = outer
  if ok then back { value = value } else back { refused = true, err = tostring(value) } end
  if not ok then error(value, 0) end
  return value
end

-- Records that once calls its function.
local function compute()
  local by = calls[coroutine.running()]
  local value = new_value()
  record:moment(by.process, "begin", { key = by.key, of = by.number, computed = value })
  rn.sleep(math.random(0, 20))
  return value, by
end

local function use_once(process)
  local step = fault == "again" and compute or owner:once("step", compute)
  local once = owner:once("once", function()
    local value, by = compute()
    for i = 1, #by.key % 3 do call(step, by.process, ("%s step %d"):format(by.key, i), i) end
    return value
  end)
  while true do
    local key = "key" .. math.random(RESULTS)
    pcall(call, once, process, key, key)
    pause()
  end
end

-- ---- all together ----

print "ready"
io.stdout:flush()
local blocks = {}
for i, f in ipairs { use_bucket, use_bucket, fill_stream, read_stream, fill_queue, work, fill_watched, watch } do
  blocks[i] = rn.go(f, name .. "/" .. i)
end
for i = 9, is_nats and 8 or 10 do blocks[i] = rn.go(use_once, name .. "/" .. i) end
for _, block in ipairs(blocks) do
  local _, err = block:take()
  if err then error(err, 0) end
end
