---Random programs of go blocks, made from a seed. The model (model.lua) predicts what they do; the core does it
---(perform.lua).
---
---A program is plain data, so that it can be printed, run again and reduced (shrink.lua). It has channels (name ->
---kind, limit, transducer, handler, whether it is a shared one) and go blocks. Each go block has a script: a list of
---operations, what the go block returns or raises at its end, and whether it goes on with the next operation when it is
---cancelled (`catches`). The result channel of a go block has the go block's name, and NAME:done is the done() channel
---of NAME.

local program = {}

local function generator(seed)
  local state = seed * 2654435761 % 2147483647 + 1
  return function(n)
    state = state * 48271 % 2147483647
    return state // 7 % n + 1
  end
end

local KINDS = {
  "none", "none", "none", "none", "fixed", "fixed", "fixed", "dropping", "sliding", "promise", "priority", "picky",
}
local SHAREABLE = { none = true, fixed = true, dropping = true, sliding = true, promise = true }
local TRANSDUCERS = { "map", "filter", "twice", "first", "pairs", "late", "late", "raising", "raising_late", "wrong" }
local HANDLERS = { "value", "nothing", "raising" }
local COLLECTORS = { "usual", "usual", "restless", "generational", "steps" }

-- The relative frequency of each operation.
local function weighted(weights)
  local list = {}
  for kind, weight in pairs(weights) do
    for _ = 1, weight do list[#list + 1] = kind end
  end
  table.sort(list) -- the same on every run
  return list
end

local OPERATIONS = weighted {
  put = 12, take = 12, alts = 12, offer = 4, poll = 4, close = 1, sleep = 3, timeout = 2, ["yield"] = 4, go = 2,
  put_async = 3, take_async = 3, look = 2, cancel = 3, scope = 2,
}
local IN_CALLBACKS = weighted { offer = 4, poll = 4, close = 1, look = 1, go = 1, cancel = 1 }

---Makes the program of a seed.
---@param seed integer
---@return table program
function program.make(seed)
  local random = generator(seed)
  for _ = 1, 10 do random(2) end
  local made = { seed = seed, collector = COLLECTORS[random(#COLLECTORS)], channels = {}, blocks = {} }
  local names = {}
  for i = 1, random(5) do
    local name, ch = "c" .. i, { kind = KINDS[random(#KINDS)], limit = random(3) }
    names[i], made.channels[name] = name, ch
    if ch.kind ~= "none" and random(2) == 1 then
      ch.xf = TRANSDUCERS[random(#TRANSDUCERS)]
      ch.handler = HANDLERS[random(5)]
    elseif SHAREABLE[ch.kind] and random(3) == 1 then
      ch.shared = true
    end
  end
  local nblocks = random(7) + 1
  local count = 0

  local function value()
    count = count + 1
    if random(12) == 1 then return false end
    return "v" .. count
  end
  -- A channel to take from: sometimes the result channel of a go block that the program starts at the beginning.
  local function any_channel()
    if random(16) == 1 then return names[random(#names)] .. ":done" end
    if random(8) == 1 then return "b" .. random(nblocks) end
    return names[random(#names)]
  end

  local make_script
  local make = {}
  function make.put() return { ch = names[random(#names)], value = value() } end
  function make.take() return { ch = any_channel() } end
  make.offer, make.poll = make.put, make.take
  function make.close() return { ch = names[random(#names)], reason = random(2) == 1 and "e" .. random(9) or nil } end
  function make.sleep() return { ms = random(6) * 10 } end
  make.timeout = make.sleep
  make["yield"] = function() return {} end
  function make.cancel() return { ch = "b" .. random(nblocks), reason = "r" .. random(9) } end
  function make.look() return { ch = names[random(#names)] } end
  function make.go(name, depth)
    local child = name .. "." .. random(1000000)
    return { name = child, script = make_script(child, depth + 1) }
  end
  -- A script for the scope's body, and one for each go block that this starts before.
  function make.scope(name, depth)
    local id = name .. ".s" .. random(1000000)
    local op = { name = id, children = {}, ms = random(3) == 1 and random(5) * 10 or nil }
    for i = 1, random(4) - 1 do op.children[i] = make_script(id .. "." .. i, depth + 1) end
    op.script = make_script(id, depth + 1)
    return op
  end
  -- What a callback does when it is called, and how it ends.
  local function with_callback(op, name, depth)
    op.queued, op.raises = random(3) == 1, random(8) == 1 and "raised by a callback" or nil
    op.script = {}
    for i = 1, random(3) - 1 do
      local kind = IN_CALLBACKS[random(#IN_CALLBACKS)]
      if kind == "go" and depth > 1 then kind = "look" end
      op.script[i] = make[kind](name, depth)
      op.script[i].kind = kind
    end
    return op
  end
  function make.put_async(name, depth) return with_callback(make.put(), name, depth) end
  function make.take_async(name, depth) return with_callback(make.take(), name, depth) end
  function make.alts()
    local op = { ops = {}, priority = random(2) == 1, by_index = random(2) == 1, ms = random(4) * 10 }
    if random(5) == 1 then op.default = random(3) > 1 and "d" end
    op.nowait = random(20) == 1 or nil
    local seen, twice = {}, false
    for i = 1, random(4) do
      local one
      if random(8) == 1 and not seen.timeout then
        one = { ch = "timeout" }
      elseif random(2) == 1 then
        one = make.put()
      else
        one = make.take()
      end
      op.ops[i] = one
      twice = twice or seen[one.ch]
      seen[one.ch] = true
    end
    -- If a channel occurs twice, the port does not say which of the two operations happened.
    if twice then op.by_index = true end
    return op
  end

  function make_script(name, depth)
    local script = {}
    for i = 1, random(depth == 0 and 14 or 5) do
      local kind = OPERATIONS[random(#OPERATIONS)]
      if (kind == "go" or kind == "scope") and depth > 1 then kind = "yield" end
      script[i] = make[kind](name, depth)
      script[i].kind = kind
    end
    script.catches = random(3) == 1 or nil
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

-- ---- printing ----

local function write(value, indent, out)
  if type(value) ~= "table" then
    out[#out + 1] = type(value) == "string" and ("%q"):format(value) or tostring(value)
    return
  end
  local keys, flat = {}, true
  for key, field in pairs(value) do
    if not math.tointeger(key) then keys[#keys + 1] = key end
    flat = flat and (type(field) ~= "table" or next(field) == nil)
  end
  table.sort(keys)
  local inner = indent .. "  "
  local separator = flat and " " or "\n" .. inner
  local n = 0
  local function field(key)
    out[#out + 1] = (n == 0 and "{" or ",") .. separator
    n = n + 1
    if key then out[#out + 1] = key:match "^[%a_][%w_]*$" and key .. " = " or ("[%q] = "):format(key) end
  end
  for _, key in ipairs(keys) do
    field(key)
    write(value[key], inner, out)
  end
  for _, element in ipairs(value) do
    field()
    write(element, inner, out)
  end
  out[#out + 1] = n == 0 and "{}" or (flat and " }" or "\n" .. indent .. "}")
end

---A program as Lua source that returns it.
---@param made table
---@return string
function program.text(made)
  local out = { "return " }
  write(made, "", out)
  return table.concat(out) .. "\n"
end

return program
