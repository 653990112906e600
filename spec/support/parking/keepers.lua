---Calls that park in reality, of stores and of connections to NATS: see parks.lua. `s.open()` opens one; `s.path` is
---the path of a store's file.

local rn = require "runnel"

local keepers = {}

-- Adds a call of a connection or a store; both is_store and not.
local function add(name, f)
  keepers[name] = function(s, call)
    local conn <close> = s.open()
    f(conn, call, s)
  end
end

local function stream_of(conn) return assert(conn:stream("s", { subjects = { "s" } })) end

local METHODS = {
  stream = { "s" }, kv = { "b" }, sink = { "s" }, source = { "s" }, stage = { "s", 1, print, nil, { name = "name" } },
  remote = { "name" }, serve = { "name", 1, tostring }, queues = { 10 }, queue = { "name" },
}
-- The pages on which the manual has them.
local PAGES = {
  stream = "streams", sink = "streams", source = "streams", stage = "streams", kv = "streams",
  remote = "remote", serve = "remote", queues = "queues",
  queue = "queues",
}

for name, arguments in pairs(METHODS) do
  local function f(conn, call)
    stream_of(conn)
    call(conn[name], conn, table.unpack(arguments, 1, 5))
  end
  add("store store:" .. name, f)
  if PAGES[name] then add(("%s conn:%s"):format(PAGES[name], name), f) end
end

-- ---- streams ----

for name, arguments in pairs {
  change = { { max_messages = 10 } }, delete_consumer = { "name" }, stats = {}, purge = {}, delete = {},
} do
  add("streams stream:" .. name, function(conn, call)
    local stream = stream_of(conn)
    call(stream[name], stream, table.unpack(arguments, 1, 5))
  end)
end

add("streams sink:put", function(conn, call)
  stream_of(conn)
  local sink = assert(conn:sink "s")
  call(sink.put, sink, "value")
end)

for _, name in ipairs { "drain", "wait" } do
  add("streams stage:" .. name, function(conn, call)
    stream_of(conn)
    local begun = rn.chan(1)
    local stage = assert(conn:stage("s", 1, function()
      begun:put(true)
      rn.sleep(20)
    end, nil, { name = "name" }))
    assert(conn:sink "s":put "value")
    begun:take()
    if name == "wait" then
      rn.go(function()
        rn.sleep(10)
        stage:stop()
      end)
    end
    call(stage[name], stage)
  end)
end

-- ---- buckets ----

for name, arguments in pairs {
  get = { "k" }, put = { "k", "v" }, create = { "l", "v" }, update = { "k", "v", 1 }, delete = { "k" }, keys = {},
  watch = {}, destroy = {},
} do
  add("streams bucket:" .. name, function(conn, call)
    local bucket = assert(conn:kv "b")
    bucket:put("k", "v")
    call(bucket[name], bucket, table.unpack(arguments, 1, 5))
  end)
end

-- ---- remote stages, workers, dead letters ----

for _, name in ipairs { "drain", "wait" } do
  add("remote worker:" .. name, function(conn, call)
    local begun = rn.chan(1)
    local worker = assert(conn:serve("name", 1, function()
      begun:put(true)
      rn.sleep(20)
    end))
    local remote = assert(conn:remote "name")
    local calling = rn.go(function() return pcall(remote, 1) end)
    begun:take()
    if name == "wait" then
      rn.go(function()
        rn.sleep(10)
        worker:stop()
      end)
    end
    call(worker[name], worker)
    rn.cancel(calling)
    remote:close()
  end)
end

local function with_letter(conn, f)
  stream_of(conn)
  assert(conn:sink "s":put "value")
  local _ <close> = assert(conn:stage("s", 1, function() error "no" end, nil, { name = "name", tries = 1 }))
  local dead, n = assert(conn:dead "name"), 0
  for _ = 1, 500 do
    n = dead:count()
    if n == 1 then break end
    rn.sleep(10)
  end
  assert(n == 1, "there is no dead letter")
  f(dead, assert(dead:list())[1].sequence)
end

for _, name in ipairs { "count", "list", "get", "drop", "replay" } do
  add("remote dead:" .. name, function(conn, call)
    with_letter(conn, function(dead, sequence)
      if name == "count" or name == "list" then call(dead[name], dead) else call(dead[name], dead, sequence) end
    end)
  end)
end

-- ---- queues ----

for name, arguments in pairs { pause = { 10 }, change = { { ack_wait = 9e3 } }, delete = {}, get = { 1 },
  list = {}, cancel = { 1 }, resume = { 10 } } do
  add("queues queue:" .. name, function(conn, call)
    stream_of(conn)
    local stage <close> = assert(conn:stage("s", 1, tostring, nil, { name = "name" }))
    local queue = assert(conn:queue "name")
    if name == "delete" then stage:stop() end
    call(queue[name], queue, table.unpack(arguments, 1, 5))
  end)
end

-- ---- only one of the two ----

local stores = {
  ["queues queue:move"] = function(s, call)
    local store <close> = s.open()
    stream_of(store)
    local stage <close> = assert(store:stage("s", 1, tostring, nil, { name = "name" })) -- luacheck: ignore 211
    local queue = assert(store:queue "name")
    call(queue.move, queue, 1, "s")
  end,
  ["store stores.open"] = function(s, call) call(require "runnel.store".open, s.path) end,
  ["store store:forget"] = function(s, call)
    local store <close> = s.open()
    call(store.forget, store, "name")
  end,
  ["store store:close"] = function(s, call)
    local store = s.open()
    call(store.close, store)
  end,
  ["store store:drain"] = function(s, call)
    local store = s.open()
    call(store.drain, store)
  end,
}

local nats = {
  ["nats nats.connect"] = function(s, call) call(require "runnel.nats".connect, s.url) end,
  ["nats conn:request"] = function(s, call)
    local conn <close> = s.open()
    local ch, sub = conn:subscribe "q"
    rn.go(function() conn:publish(ch:take().reply, "answer") end)
    call(conn.request, conn, "q", "question")
    sub:close()
  end,
  ["nats conn:flush"] = function(s, call)
    local conn <close> = s.open()
    call(conn.flush, conn)
  end,
  ["nats conn:drain"] = function(s, call)
    local conn = s.open()
    call(conn.drain, conn)
  end,
}

-- ---- what only stores have ----

for name, arguments in pairs { cancel = { "1" }, replace = { "1", 2 } } do
  stores["streams stream:" .. name] = function(s, call)
    local store <close> = s.open()
    local stream = stream_of(store)
    call(stream[name], stream, table.unpack(arguments))
  end
end

-- ---- runs ----

local function nothing() end

for name, arguments in pairs {
  start = { "18", 1 }, get = { "17" }, list = {}, drain = {}, wait = {},
} do
  stores["runs runs:" .. name] = function(s, call)
    local store <close> = s.open()
    local orders = store:runs("order", function(run) run:sleep(1000) end)
    local r = assert(orders:start "17")
    repeat rn.sleep(1) until r:state().state == "sleeping"
    if name == "wait" then rn.go(orders.stop, orders) end
    call(orders[name], orders, table.unpack(arguments))
  end
end

for name, arguments in pairs {
  result = {}, state = {}, steps = {}, signal = { "name" }, cancel = {}, restart = {}, forget = {},
} do
  stores["runs r:" .. name] = function(s, call)
    local store <close> = s.open()
    local r = assert(store:runs("order", nothing):start "17")
    call(r[name], r, table.unpack(arguments))
  end
end

for name, arguments in pairs {
  sleep = { 1 }, wait = { "name", { timeout = 1 } }, now = {}, random = {}, id = {}, version = { "name" },
  note = { "text" },
} do
  stores["runs run:" .. name] = function(s, call)
    local store <close> = s.open()
    local orders = store:runs("order", function(run) call(run[name], run, table.unpack(arguments)) end)
    assert(orders:start "17"):result()
  end
end

for name, arguments in pairs { state = {}, pause = { { lasts = 1 } }, resume = {}, run_now = {}, remove = {} } do
  stores["schedules schedule:" .. name] = function(s, call)
    local store <close> = s.open()
    local schedule = store:schedule("order", "@daily", nothing)
    call(schedule[name], schedule, table.unpack(arguments))
  end
end

stores["runs schedule:run_now"] = stores["schedules schedule:run_now"]

for _, page in ipairs { "store", "schedules" } do
  stores[page .. " store:schedule"] = function(s, call)
    local store <close> = s.open()
    call(store.schedule, store, "order", "@daily", nothing)
  end
  stores[page .. " store:schedules"] = function(s, call)
    local store <close> = s.open()
    call(store.schedules, store)
  end
end

for _, page in ipairs { "store", "runs" } do
  stores[page .. " store:runs"] = function(s, call)
    local store <close> = s.open()
    call(store.runs, store, "order", nothing)
  end
end

return { both = keepers, stores = stores, nats = nats }
