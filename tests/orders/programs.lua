---Random programs for tests/orders/orders.lua: go blocks that share channels, and nothing else. Each writes down the
---results of its operations; these, and how the program ends, are its outcome.

local generator = require "spec.support.generator"
local rn = require "runnel"

local programs = {}

-- ---- what go blocks do ----

-- Each makes an operation of a program: a text, and a function of the program's channels and go blocks, that returns
-- its results.
local KINDS = {}

local function channel(random, shape) return random(#shape.buffers) end

local function put(random, shape)
  local c, v = channel(random, shape), random(9)
  return ("put %d on %d"):format(v, c), function(run) return run.channels[c]:put(v) end
end

local function take(random, shape)
  local c = channel(random, shape)
  return ("take from %d"):format(c), function(run) return run.channels[c]:take() end
end

-- The most frequent ones first.
KINDS[1], KINDS[2], KINDS[3], KINDS[4] = put, take, put, take

KINDS[5] = function(random, shape)
  local c = channel(random, shape)
  local err = random(2) == 1 and "reason " .. random(9) or nil
  return ("close %d %s"):format(c, err or ""), function(run) run.channels[c]:close(err) end
end

KINDS[6] = function(random, shape)
  local c, is_offer = channel(random, shape), random(2) == 1
  return ("%s %d"):format(is_offer and "offer" or "poll", c), function(run)
    if is_offer then return run.channels[c]:offer(1) end
    return run.channels[c]:poll()
  end
end

KINDS[7] = function(random, shape)
  local ops, text, n = {}, {}, random(2) + 1
  for i = 1, n do
    ops[i] = { channel(random, shape), random(2) == 1 and random(9) or nil }
    text[i] = (ops[i][2] and "put on " or "take from ") .. ops[i][1]
  end
  local how = random(4)
  local ms = random(3) == 1 and random(3) * 10 - 10 or nil
  local options = how == 1 and { default = "no" } or how == 2 and { priority = true } or nil
  return ("alts %s %s %s"):format(table.concat(text, ", "), ({ "default", "priority" })[how] or "", ms or ""),
    function(run)
      local list = {}
      for i, op in ipairs(ops) do
        list[i] = op[2] and { run.channels[op[1]], op[2] } or run.channels[op[1]]
      end
      if ms then list[#list + 1] = rn.timeout(ms) end
      local v, port = rn.alts(list, options)
      return v, run.numbers[port] or (port == "default" and port or "timeout")
    end
end

KINDS[8] = function(random)
  local ms = random(3) * 5 - 5
  return ("sleep %d"):format(ms), function() rn.sleep(ms) end
end

KINDS[9] = function(random, shape)
  local c, what = channel(random, shape), random(4)
  return ("%s %d"):format(({ "count", "closed", "stats", "done" })[what], c), function(run)
    local ch = run.channels[c]
    if what == 1 then return #ch end
    if what == 2 then return ch:closed() end
    if what == 4 then return ch:done():poll(), ch:done():closed() end
    local s = ch:stats()
    return s.count, s.puts_waiting, s.takes_waiting, s.puts, s.takes, s.closed
  end
end

KINDS[10] = function(random, shape)
  local i = random(shape.blocks)
  return ("cancel block %d"):format(i), function(run) return rn.cancel(run.blocks[i], "stop") end
end

KINDS[11] = function(random, shape)
  local i = random(shape.blocks)
  return ("take the result of block %d"):format(i), function(run) return run.blocks[i]:take() end
end

KINDS[12] = function(random, shape)
  local c, v = channel(random, shape), random(9)
  return ("start a put of %d on %d, take its result"):format(v, c), function(run)
    local ch = run.channels[c]
    return rn.go(function() return ch:put(v) end):take()
  end
end

KINDS[13] = function() return "yield", function() rn.yield() end end

KINDS[14] = function(random, shape)
  local c = channel(random, shape)
  return ("take from %d, or 10 ms"):format(c), function(run)
    return rn.alts { run.channels[c], rn.timeout(10) }
  end
end

KINDS[15] = function(random)
  local ms = random(2) * 10
  return ("take from a timeout of %d"):format(ms), function() return rn.timeout(ms):take() end
end

KINDS[16] = function(random, shape)
  local c = channel(random, shape)
  return ("put_async on %d, take_async from it"):format(c), function(run)
    local ch = run.channels[c]
    ch:put_async(7)
    ch:take_async(function() end)
  end
end

KINDS[17] = function(random)
  local fails = random(2) == 1
  return fails and "raise" or "wait for a promise of its own", function()
    if fails then error("raised", 0) end
    local p = rn.promise_chan()
    p:offer(3)
    return p:take()
  end
end

-- ---- programs ----

local BUFFERS = {
  function() return rn.chan() end,
  function() return rn.chan(1) end,
  function() return rn.chan(2) end,
  function() return rn.chan(rn.sliding_buffer(1)) end,
  function() return rn.chan(rn.dropping_buffer(1)) end,
  function() return rn.promise_chan() end,
  function() return rn.chan(1, require("runnel.xf").filter(function(v) return v ~= 3 end)) end,
}

---@class tests.Program
---@field text string
---@field lists { [1]: string, [2]: fun(run: table): ... }[][] what each go block does
---@field buffers integer[]
---@field leaks boolean a run goes on when the program's function has returned

---A random program.
---@param seed integer
---@return tests.Program
function programs.random(seed)
  local random = generator(seed)
  local blocks = random(3) + 1
  local shape = { blocks = blocks, buffers = {} }
  for i = 1, random(3) do shape.buffers[i] = random(2) == 1 and 1 or random(#BUFFERS) end
  local lists, text = {}, { "channels " .. table.concat(shape.buffers, " ") }
  for b = 1, blocks do
    local list, names = {}, {}
    for i = 1, random(blocks > 3 and 2 or 3) do
      local name, f = KINDS[random(random(2) == 1 and 4 or #KINDS)](random, shape)
      list[i], names[i] = { name, f }, name
    end
    lists[b], text[#text + 1] = list, ("block %d: %s"):format(b, table.concat(names, "; "))
  end
  local leaks = random(3) > 1
  text[#text + 1] = leaks and "until all rest" or "until block 1 ends"
  return { text = table.concat(text, "\n"), lists = lists, buffers = shape.buffers, leaks = leaks }
end

local function described(...)
  local parts = table.pack(...)
  for i = 1, parts.n do parts[i] = type(parts[i]) == "userdata" and "channel" or tostring(parts[i]) end
  return table.concat(parts, " ", 1, parts.n)
end

-- Returns a block's function. It refers only to its own log.
local function body(list, run, log)
  return function()
    for i = 1, #list do
      log[#log + 1] = "?" -- it has begun
      log[#log] = described(list[i][2](run))
    end
    log[#log + 1] = "end"
  end
end

---A function for a search, which runs a program, and one that returns its outcome after that.
---@param program tests.Program
---@return fun() run
---@return fun(ending: string?): string outcome
function programs.runner(program)
  local logs
  local function start()
    local run, of_all = { channels = {}, blocks = {}, numbers = {} }, {}
    logs = of_all
    for i, kind in ipairs(program.buffers) do
      run.channels[i] = BUFFERS[kind]()
      run.numbers[run.channels[i]] = i
    end
    for i, list in ipairs(program.lists) do
      of_all[i] = {}
      if i > 1 or program.leaks then run.blocks[i] = rn.go(body(list, run, of_all[i])) end
    end
    if program.leaks then return end
    run.blocks[1] = rn.go(body(program.lists[1], run, of_all[1]))
    run.blocks[1]:take()
  end
  local function outcome(ending)
    local parts = {}
    for i, log in ipairs(logs) do parts[i] = table.concat(log, ", ") end
    return table.concat(parts, " | ") .. " | " .. (ending or "well")
  end
  return start, outcome
end

return programs
