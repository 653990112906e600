---Random programs of go blocks: made from a seed, and run on the core. The model (model.lua) predicts what they do.
---
---A program has channels (name -> kind and limit) and blocks, each with a script: a list of operations, and what the
---block returns or raises at its end. A block's result channel goes by the block's name.

local rn = require "runnel"
local core = require "runnel.core"
local sim = require "runnel.sim"

local program = {}

-- ---- making ----

local function generator(seed)
  local state = seed * 2654435761 % 2147483647 + 1
  return function(n)
    state = state * 48271 % 2147483647
    return state // 7 % n + 1
  end
end

local KINDS = { "none", "none", "none", "fixed", "fixed", "dropping", "sliding", "promise" }

-- How often each operation comes.
local OPERATIONS = {}
for kind, weight in pairs {
  put = 6, take = 6, alts = 6, offer = 2, poll = 2, close = 1, sleep = 2, yield = 2, go = 1, put_async = 1,
  take_async = 1,
} do
  for _ = 1, weight do OPERATIONS[#OPERATIONS + 1] = kind end
end
table.sort(OPERATIONS) -- the same on every run

---Makes the program of a seed.
---@param seed integer
---@return table program
function program.make(seed)
  local random = generator(seed)
  for _ = 1, 10 do random(2) end
  local made = { channels = {}, blocks = {} }
  local names = {}
  for i = 1, random(5) do
    local name = "c" .. i
    names[i] = name
    made.channels[name] = { kind = KINDS[random(#KINDS)], limit = random(3) }
  end
  local nblocks = random(7) + 1
  local count = 0

  local function value()
    count = count + 1
    if random(12) == 1 then return false end
    return "v" .. count
  end
  -- A channel to take from: sometimes the result of a block that is there from the beginning.
  local function any_channel()
    if random(8) == 1 then return "b" .. random(nblocks) end
    return names[random(#names)]
  end

  local make_script
  local make = {}
  function make.put() return { ch = names[random(#names)], value = value() } end
  function make.take() return { ch = any_channel() } end
  make.offer, make.put_async = make.put, make.put
  make.poll, make.take_async = make.take, make.take
  function make.close() return { ch = names[random(#names)], reason = random(2) == 1 and "e" .. random(9) or nil } end
  function make.sleep() return { ms = random(6) * 10 } end
  make["yield"] = function() return {} end
  function make.go(name, depth)
    local child = name .. "." .. random(1000000)
    return { name = child, script = make_script(child, depth + 1) }
  end
  function make.alts()
    local op = {
      names = {}, values = {}, priority = random(2) == 1, by_index = random(2) == 1, ms = random(4) * 10,
      default = random(5) == 1 and (random(3) > 1 and "d") or nil,
    }
    local seen, twice = {}, false
    for i = 1, random(4) do
      if random(8) == 1 and not seen.timeout then
        op.names[i] = "timeout"
      elseif random(2) == 1 then
        op.names[i], op.values[i] = names[random(#names)], value()
      else
        op.names[i] = any_channel()
      end
      twice = twice or seen[op.names[i]]
      seen[op.names[i]] = true
    end
    -- With a channel twice the port does not tell which of the two happened.
    if twice then op.by_index = true end
    return op
  end

  function make_script(name, depth)
    local script = {}
    for i = 1, random(depth == 0 and 14 or 5) do
      local kind = OPERATIONS[random(#OPERATIONS)]
      if kind == "go" and depth > 1 then kind = "yield" end
      script[i] = make[kind](name, depth)
      script[i].kind = kind
    end
    local ending = random(6)
    if ending == 1 then script.raises = "raised by " .. name end
    if ending > 3 then script.returns = "result of " .. name end
    return script
  end

  for i = 1, nblocks do
    local name = "b" .. i
    made.blocks[i] = { name = name, script = make_script(name, 0) }
  end
  return made
end

-- ---- running ----

local constructors = {
  none = function() return rn.chan() end,
  fixed = function(limit) return rn.chan(limit) end,
  dropping = function(limit) return rn.chan(rn.dropping_buffer(limit)) end,
  sliding = function(limit) return rn.chan(rn.sliding_buffer(limit)) end,
  promise = function() return rn.promise_chan() end,
}

local function show(...)
  local list = table.pack(...)
  for i = 1, list.n do list[i] = tostring(list[i]) end
  return table.concat(list, ",")
end

-- Runs in the root block of a simulation.
local function execute(made, run)
  local channels, name_of = {}, {}
  for name, ch in pairs(made.channels) do
    channels[name] = constructors[ch.kind](ch.limit)
    name_of[channels[name]] = name
  end
  local function log(block, text) table.insert(run.events, ("%g %s %s"):format(rn.now(), block, text)) end

  local spawn
  local operations = {}
  function operations.put(op) return channels[op.ch]:put(op.value) end
  function operations.take(op) return channels[op.ch]:take() end
  function operations.offer(op) return (channels[op.ch]:offer(op.value)) end
  function operations.poll(op) return (channels[op.ch]:poll()) end
  function operations.close(op) channels[op.ch]:close(op.reason) end
  function operations.sleep(op) rn.sleep(op.ms) end
  operations["yield"] = function() rn.yield() end
  function operations.go(op) spawn(op.name, op.script) end
  function operations.put_async(op, block)
    return channels[op.ch]:put_async(op.value, function(...) log(block .. "/callback", "put_async " .. show(...)) end)
  end
  function operations.take_async(op, block)
    channels[op.ch]:take_async(function(...) log(block .. "/callback", "take_async " .. show(...)) end)
  end
  function operations.alts(op, block, pc)
    local ops = {}
    local timeout
    for i, name in ipairs(op.names) do
      local ch = channels[name]
      if name == "timeout" then
        timeout = timeout or rn.timeout(op.ms)
        ch = timeout
      end
      if op.values[i] ~= nil then ops[i] = { ch, op.values[i] } else ops[i] = ch end
    end
    local opts = { priority = op.priority, default = op.default }
    local function finish(value, port, ...)
      local name = port
      if op.by_index then
        if port ~= "default" then run.choices[block .. ":" .. pc] = port end
      else
        name = port == "default" and port or port == timeout and "timeout" or name_of[port]
        for i, n in ipairs(op.names) do
          if n == name then run.choices[block .. ":" .. pc] = i end
        end
      end
      return value, name, ...
    end
    return finish((op.by_index and core.alts_index or rn.alts)(ops, opts))
  end

  function spawn(name, script)
    channels[name] = rn.go(function()
      for pc, op in ipairs(script) do
        local function record(...) log(name, op.kind .. " " .. show(...)) end
        record(operations[op.kind](op, name, pc))
      end
      run.ended[name] = true
      if script.raises then error(script.raises, 0) end
      return script.returns
    end)
    name_of[channels[name]] = name
  end

  for _, block in ipairs(made.blocks) do spawn(block.name, block.script) end
  rn.sleep(1e9)
  for name, ch in pairs(channels) do
    local stats = ch:stats()
    run.channels[name] = {
      count = stats.count, puts = stats.puts, takes = stats.takes, closed = stats.closed,
      put_total = stats.put_total, take_total = stats.take_total,
    }
  end
end

---Runs a program on the core, in a simulation.
---@param made table
---@param opts? table of sim.run
---@return { events: string[], channels: table, ended: table, choices: table<string, integer> }
function program.run(made, opts)
  local run = { events = {}, channels = {}, ended = {}, choices = {} }
  local previous = rn.on_error(function() end)
  local ok, err = pcall(sim.run, function() execute(made, run) end, opts)
  rn.on_error(previous)
  if not ok then error(err, 0) end
  return run
end

return program
