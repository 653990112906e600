---The long programs (long.lua): random ones; as text; and smaller ones.

local long = require "tests.prove.long"
local transforms = require "tests.prove.transforms"

local long_space = {}

local function list_of(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = name end
  table.sort(list)
  return list
end
local TRANSDUCERS, HANDLERS = list_of(transforms.transducers), list_of(transforms.handlers)

local LIMITS = { 1, 1, 2, 3, 4, 7, 8, 9, 16, 17, 33, 129, 200 }
local KINDS = { "none", "none", "fixed", "fixed", "fixed", "dropping", "sliding", "promise" }
local OPERATIONS = {
  "put", "put", "take", "take", "take", "offer", "poll", "puts", "takes", "offers", "polls", "look", "sleep",
  "sleep", "timeout", "yield", "alts", "alts", "alts", "alts", "cancel", "cancel", "join", "go", "crowd", "crowd",
  "take_async", "put_async", "close", "done", "for", "timeouts", "nest", "closing", "garbage", "wrong", "raise",
  "coroutine_yield",
}
local TIMED = { sleep = true, timeout = true, timeouts = true }
local SIMPLE = { "offer", "poll", "look", "close", "cancel", "go", "put_async", "take_async", "offer", "poll", "put",
  "take" }

---A random program; `is_outside`: for long.outside.
---@param random fun(n: integer): integer
---@param is_outside? boolean
---@return table program
function long_space.make(random, is_outside)
  local program, n_values = { channels = {}, blocks = {} }, 0
  for i = 1, random(4) do
    local it = { kind = KINDS[random(#KINDS)], limit = LIMITS[random(#LIMITS)] }
    it.policy = random(4) == 1 and (it.kind == "fixed" or it.kind == "dropping" or it.kind == "sliding") or nil
    if it.kind ~= "none" and random(3) == 1 then
      it.transducer = TRANSDUCERS[random(#TRANSDUCERS)]
      it.handler = HANDLERS[random(5)]
    end
    program.channels[i] = it
  end
  local function ch() return random(#program.channels) end
  local function value()
    n_values = n_values + 1
    local kind = random(10)
    if kind == 1 then return false end
    return kind < 5 and n_values or "v" .. n_values
  end
  local function ms() return random(3) == 1 and random(100) / 2 or random(30) - 1 end
  local script
  local making = {}
  function making.put(op) op[2], op[3] = ch(), value() end
  making.offer = making.put
  function making.take(op) op[2] = ch() end
  making.poll, making.look, making.done = making.take, making.take, making.take
  function making.close(op) op[2], op[3] = ch(), random(2) == 1 and "closed " .. random(9) or nil end
  function making.puts(op) op[2], op[3], op[4] = ch(), random(20), "s" .. random(100) .. "." end
  function making.takes(op) op[2], op[3] = ch(), random(20) end
  making.polls, making["for"] = making.takes, making.takes
  function making.offers(op) op[2], op[3] = ch(), "o" .. random(100) .. "." end
  function making.sleep(op) op[2] = ms() end
  making.timeout = making.sleep
  function making.timeouts(op)
    op[2] = {}
    local scale = random(2) == 1 and 1 or 7
    for i = 1, random(40) do op[2][i] = random(60 * scale) / 2 end
  end
  function making.alts(op)
    op[2] = {}
    for i = 1, random(10) == 1 and random(80) or random(6) do
      local kind = random(7)
      if kind == 1 and not is_outside then op[2][i] = { "w", ms() }
      elseif kind < 5 then op[2][i] = { "t", ch() }
      else op[2][i] = { "p", ch(), value() } end
    end
    op.priority = is_outside or random(2) == 1 or nil
    if random(5) == 1 then op.default = "none" end
    if random(12) == 1 then op.nowait = true end
  end
  function making.cancel(op) op[2], op[3] = random(12), "cancelled " .. random(9) end
  function making.join(op) op[2] = random(12) end
  function making.go(op, depth) op[2] = script(depth + 1) end
  function making.crowd(op)
    op[2], op[3], op[4], op[5], op[6] = ch(), random(8), ({ "put", "take", "alts", "sleep" })[random(4)], {}, ch()
    if is_outside and op[4] ~= "put" then op[4] = "take" end
    if op[4] == "sleep" then op[3] = random(40) end
    for i = 1, random(5) - 1 do op[5][i] = random(op[3]) end
  end
  local function add_callback(op, depth)
    op[2], op[3], op[4] = ch(), random(3) > 1, {}
    for i = 1, depth > 1 and 0 or random(3) - 1 do
      local what = SIMPLE[random(#SIMPLE)]
      op[4][i] = { what }
      making[what](op[4][i], depth + 1)
    end
    op[4].catches = random(2) == 1 or nil
  end
  making.take_async = add_callback
  function making.put_async(op, depth)
    add_callback(op, depth)
    op[5] = value()
  end
  function making.nest(op) op[2], op[3], op[4] = ch(), random(20), random(2) == 1 end
  function making.closing(op, depth) op[2], op[3] = script(depth + 1), random(6) end
  function making.garbage(op) op[2], op[3], op[4] = ch(), random(12), random(12) end
  function making.wrong(op) op[2], op[3] = ch(), random(long.WRONG_CALLS) end
  function making.raise(op) op[2] = "raised " .. random(9) end
  function making.coroutine_yield() end
  making["yield"] = making.coroutine_yield

  function script(depth)
    local list = {}
    for i = 1, random(depth == 0 and 8 or 4) do
      local what = OPERATIONS[random(#OPERATIONS - (random(3) > 1 and 4 or 0))]
      -- lite.lua does not tell variables why they are closed when a go block has called coroutine.yield.
      local is_too_deep = depth > 1 and (what == "go" or what == "closing" or what:find "async")
      if is_too_deep or depth > 0 and what == "coroutine_yield" then what = "yield" end
      if is_outside and TIMED[what] then what = "yield" end
      list[i] = { what }
      making[what](list[i], depth)
    end
    list.catches = random(2) == 1 or random(3) == 1 and random(8) or nil
    local ending = random(8)
    if ending == 1 then list.raises = true elseif ending == 2 then list.fails = true
    elseif ending == 3 then list.returns = { false } elseif ending == 4 then list.returns = {} end
    return list
  end
  for g = 1, random(5) do program.blocks[g] = script(0) end
  return program
end

-- ---- printing, and making smaller ----

local function text_of(value)
  if type(value) ~= "table" then return type(value) == "string" and ("%q"):format(value) or tostring(value) end
  local parts, keys = {}, {}
  for _, one in ipairs(value) do parts[#parts + 1] = text_of(one) end
  for key in pairs(value) do
    if type(key) == "string" then keys[#keys + 1] = key end
  end
  table.sort(keys)
  for _, key in ipairs(keys) do parts[#parts + 1] = key .. " = " .. text_of(value[key]) end
  return #parts == 0 and "{}" or "{ " .. table.concat(parts, ", ") .. " }"
end

---A program as text.
function long_space.text(program)
  local lines = {}
  for i, it in ipairs(program.channels) do lines[i] = ("c%d: %s"):format(i, text_of(it)) end
  for g, script in ipairs(program.blocks) do lines[#lines + 1] = ("go block %d: %s"):format(g, text_of(script)) end
  return table.concat(lines, "\n")
end

---Calls f with each program that is smaller by one step.
function long_space.each_smaller(program, f)
  for g = #program.blocks, 1, -1 do
    local smaller = long.copy(program)
    table.remove(smaller.blocks, g)
    if #smaller.blocks > 0 then f(smaller) end
  end
  -- Every list of operations, by its number in the order of a walk.
  local function lists(of)
    local found = {}
    local function walk(value)
      if type(value) ~= "table" then return end
      if type(value[1]) == "table" then found[#found + 1] = value end
      for _, one in ipairs(value) do walk(one) end
    end
    for _, script in ipairs(of.blocks) do walk(script) end
    return found
  end
  for n, list in ipairs(lists(program)) do
    for i = #list, 1, -1 do
      local smaller = long.copy(program)
      local from = lists(smaller)[n]
      if #from > 1 then
        table.remove(from, i)
        f(smaller)
      end
    end
  end
  for i, it in ipairs(program.channels) do
    for _, key in ipairs { "policy", "handler", "transducer" } do
      if it[key] then
        local smaller = long.copy(program)
        smaller.channels[i][key] = nil
        f(smaller)
      end
    end
  end
end

return long_space
