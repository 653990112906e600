---Go blocks that use buckets and streams: of a store, each by a connection of its own or all by one; and of a NATS
---server (nats.lua).

local rn = require "runnel"
local has_sqlite = pcall(require, "runnel.sqlite")

-- Its connections ask again and again whether there is something, so that a program which waits for ever goes on.
local keepers = { name = "keepers", has_clocks = true }

function keepers.missing() return not has_sqlite and "runnel.sqlite is not built" or nil end

function keepers.blocks(random) return random(3) > 1 and { "user", "user" } or { "user", "user", "user" } end

keepers.roles = { user = { "get", "put", "create", "create", "update", "update", "delete", "keys", "watch", "sink",
  "sink", "source",
  "source", "stats", "once", "purge", "stage", "dead" } }

function keepers.setting(random) return { op = "store", shared = random(2) == 1 } end

local function open(env)
  local conn = require("runnel.store").open(env:path "f.db", { synchronous = "off" })
  env:at_end(function() conn:close() end)
  return conn
end

function keepers.setup(env, setting)
  env.state.open = open
  local conn = open(env)
  assert(conn:stream("s", { subjects = { "s" } }))
  assert(conn:kv "b":put("k", "begin"))
  env.state.n, env.state.revisions = 0, {}
  if setting.shared then env.state.conn = conn end
end

-- What a block uses, made once.
local function bucket(mine)
  mine.bucket = mine.bucket or assert(mine.conn:kv "b")
  return mine.bucket
end

local KEYS = { "k", "k", "l" }

local function draw(random) return { key = KEYS[random(#KEYS)] } end

-- Revisions are numbers of the keeper: what counts is whether they are there.
local function done(revision, err) return revision ~= nil, err and tostring(err):match "^[%w ]+" end

keepers.operations = {
  get = { draw = draw, perform = function(op, _, mine)
    local value, revision = bucket(mine):get(op.key)
    mine.revision = revision
    return value
  end },
  put = { draw = draw, perform = function(op, _, mine) return done(bucket(mine):put(op.key, mine.name)) end },
  create = { draw = draw, perform = function(op, _, mine) return done(bucket(mine):create(op.key,
    mine.name .. "!")) end },
  update = { draw = draw, perform = function(op, _, mine) -- compare and set
    local value, revision = bucket(mine):get(op.key)
    if not value then return "none" end
    return value, (bucket(mine):update(op.key, mine.name .. "+", mine.revision or revision)) ~= nil
  end },
  delete = { draw = draw, perform = function(op, _, mine) return done(bucket(mine):delete(op.key)) end },
  keys = { perform = function(_, _, mine)
    local keys = assert(bucket(mine):keys())
    table.sort(keys)
    return table.concat(keys, " ")
  end },
  watch = { perform = function(_, env, mine)
    local ch = assert(bucket(mine):watch())
    local list = {}
    repeat
      local entry = env:within(ch.take, ch)
      list[#list + 1] = type(entry) == "table" and ("%s=%s"):format(entry.key, entry.value) or tostring(entry)
    until type(entry) ~= "table"
    ch:close()
    return table.concat(list, " ")
  end },
  sink = { draw = function(random) return { id = random(2) == 1 and "id" or nil } end, perform = function(op, env, mine)
    mine.sink = mine.sink or assert(mine.conn:sink "s")
    env.state.n = env.state.n + 1
    return done(mine.sink:put(mine.name .. env.state.n, { id = op.id }))
  end },
  source = { draw = function(random) return { how = ({ "ack", "ack", "nak", "none", "term" })[random(5)],
    name = random(2) == 1 and "c" or nil } end,
    perform = function(op, env, mine)
      local source, err = mine.conn:source("s", op.name and { name = op.name, ack_wait = 1000 } or nil)
      if not source then return err end
      local m = env:within(source.take, source)
      local text = type(m) == "table" and ("%s %d"):format(m.value, m.deliveries) or m
      if type(m) == "table" and op.name and op.how ~= "none" then m[op.how](m) end
      source:close()
      return text
    end },
  stats = { perform = function(_, _, mine)
    local stream = assert(mine.conn:stream "s")
    return assert(stream:stats()).messages
  end },
  purge = { perform = function(_, _, mine) return (assert(mine.conn:stream "s"):purge()) ~= nil end },
  stage = { draw = function(random) return { fails = random(3) == 1 } end, perform = function(op, env, mine)
    local list, begun = {}, rn.chan(1)
    local stage, err = mine.conn:stage("s", 1, function(value)
      list[#list + 1] = value
      begun:offer(true)
      if op.fails then error("no", 0) end
    end, nil, { name = "stage", tries = 1 })
    if not stage then return err end
    env:within(begun.take, begun)
    local ok, why = stage:drain(1000)
    table.sort(list)
    return ok, why, table.concat(list, " ")
  end },
  dead = { perform = function(_, _, mine)
    local dead, err = mine.conn:dead "stage"
    if not dead then return err end
    return (dead:count())
  end },
  once = { draw = function(random) return { raises = random(3) == 1 } end, perform = function(op, env, mine)
    if not mine.conn.once then return "none" end
    mine.once = mine.once or mine.conn:once("once", function(_, fails)
      env.state.calls = (env.state.calls or 0) + 1
      rn.sleep(1)
      if fails then error("failed", 0) end
      return env.state.calls
    end)
    return mine.once("key", op.raises)
  end },
}

for _, operation in pairs(keepers.operations) do
  local perform = operation.perform
  function operation.perform(op, env, mine)
    if not mine.conn then
      env.state.users = (env.state.users or 0) + 1
      mine.conn, mine.name = env.state.conn or env.state.open(env), "v"
    end
    return perform(op, env, mine)
  end
end

return keepers
