-- A process of tests/histories/histories.lua: uses buckets, streams and once of a store or of NATS, records each call
-- before it, and each return after it, and goes on until it is killed.
--
--   lua5.4 worker.lua PLACE LOG NAME SEED [FAULT]     PLACE: the path of a store, or the url of a nats-server
--
-- A fault is planted in what this program does, so that the check is seen to find it: with "early" it takes a put for
-- done that has only begun, with "blind" it updates a key without the check of the revision.

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
  local new, err
  if what == "put" then new, err = bucket:put(key, value)
  elseif what == "create" then new, err = bucket:create(key, value)
  elseif what == "delete" then new, err = bucket:delete(key, revision)
  elseif fault == "blind" then
    local _, now = bucket:get(key)
    rn.sleep(math.random(5))
    if now == revision then new, err = bucket:put(key, value) else err = "the key has another revision" end
  else new, err = bucket:update(key, value, revision) end
  if new then back { new_revision = new }
  elseif is_condition(err) then back { failed = true, err = tostring(err) }
  elseif refused() then back { refused = true, err = tostring(err) } end
end

local function read(process, key)
  local back = record:call(process, "get", { key = key })
  local value, revision, err = bucket:get(key)
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

local function use_once(process)
  local once = owner:once("once", function(key)
    local call = calls[coroutine.running()]
    local value = new_value()
    record:moment(call.process, "begin", { key = key, of = call.number, computed = value })
    rn.sleep(math.random(0, 20))
    return value
  end)
  while true do
    local key = "key" .. math.random(RESULTS)
    local back, number = record:call(process, "call", { key = key })
    calls[coroutine.running()] = { process = process, number = number }
    local ok, value = pcall(once, key)
    if ok then back { value = value } else back { refused = true, err = tostring(value) } end
    pause()
  end
end

-- ---- all together ----

print "ready"
io.stdout:flush()
local blocks = {}
for i, f in ipairs { use_bucket, use_bucket, fill_stream, read_stream, fill_queue, work } do
  blocks[i] = rn.go(f, name .. "/" .. i)
end
for i = 7, is_nats and 6 or 8 do blocks[i] = rn.go(use_once, name .. "/" .. i) end
for _, block in ipairs(blocks) do
  local _, err = block:take()
  if err then error(err, 0) end
end
