---The places where streams and durable stages can be, for specs that are the same for all of them: a nats-server, and a
---store in a file.
---
---    for _, at in ipairs(places) do
---      describe("a stage " .. at.name, function()
---        if at.missing then return pending(at.missing) end
---        it("...", at.within(function(place) local stage = assert(place.owner:stage(...)) end))
---
---A place has `owner`, a connection or a store; open(), another one, as in another process; `started(text)`, which
---starts a program with the variable `owner`.

local background = require "spec.support.background"
local missing = require "spec.support.missing"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"

local LUA = os.getenv "LUA" or "lua5.4"

local function on_server(f)
  return function()
    local nats = nats_server.library()
    local server <close> = nats_server.start()
    local open = {}
    local function connect()
      open[#open + 1] = assert(nats.connect(server.url, { reconnect_wait = 20, encoding = "msgpack" }))
      return open[#open]
    end
    local closing <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
      for _, conn in ipairs(open) do conn:close() end
    end })
    f {
      owner = connect(), open = connect,
      started = function(text)
        return server.set:start { LUA, server.set:write("program.lua", [[
          local rn = require "runnel"
          local owner = assert(require("runnel.nats").connect(arg[1], { encoding = "msgpack" }))
        ]] .. text), server.url }
      end,
    }
  end
end

local function in_store(f)
  return function()
    local stores = require "runnel.store"
    local dir <close> = process.directory()
    local set <close> = background.set()
    local open = {}
    local function again()
      open[#open + 1] = stores.open(dir.path .. "/work.db")
      return open[#open]
    end
    local closing <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
      for _, store in ipairs(open) do store:close() end
    end })
    f {
      owner = again(), open = again,
      started = function(text)
        return set:start { LUA, set:write("program.lua", [[
          local rn = require "runnel"
          local owner = require("runnel.store").open(arg[1])
        ]] .. text), dir.path .. "/work.db" }
      end,
    }
  end
end

local _, no_server = nats_server.library()
local places = {
  { name = "on a nats-server", within = on_server, missing = no_server },
  { name = "in a store", within = in_store, missing = missing "runnel.sqlite" },
}

-- ---- what the specs need ----

---Takes from a channel for at most ms.
function places.take_within(ch, ms) return (rn.alts { ch, rn.timeout(ms) }) end

---Makes a stream with values. Returns its sink and the stream.
function places.stored(owner, name, ...)
  local stream = assert(owner:stream(name))
  local sink = assert(owner:sink(name))
  for _, v in ipairs { ... } do assert(sink:put(v)) end
  return sink, stream
end

---How many messages of a queue are not done.
function places.left(owner, name)
  local queue = assert(owner:queue(name))
  return queue.waiting + queue.running
end

---How long to wait for answers of workers, in ms.
function places.answer() return math.ceil(300 * patience.factor()) end

return places
