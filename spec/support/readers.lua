---Reads a stream by readers of all forms, one after the other, at random. Together they must get all of it.

local rn = require "runnel"

local readers = {}

---A text of lines, some of them empty, and some long.
---@param random fun(m: integer, n?: integer): integer
---@return string
function readers.text(random)
  local list = {}
  for i = 1, random(1, 400) do
    local size = random(20) == 1 and random(70000) or random(0, 60)
    list[i] = (i .. " "):rep(size // 4) .. "\n"
  end
  return table.concat(list)
end

---Calls a function with the pieces of a text, and yields, or sleeps, now and then.
---@param random fun(m: integer, n?: integer): integer
---@param text string
---@param send fun(piece: string)
function readers.send(random, text, send)
  local from = 1
  while from <= #text do
    local size = random(3) == 1 and random(100000) or random(200)
    send(text:sub(from, from + size - 1))
    from = from + size
    if random(4) == 1 then rn.sleep(random(0, 2)) end
  end
end

---Reads all. Each reader is taken from for a while, by a take, an alts or a go block that is cancelled. Then it is
---closed, or only left.
---@param random fun(m: integer, n?: integer): integer
---@param forms table<string, fun(): runnel.Channel<string>> makes a reader of lines, if its name is "lines"
---@return string what the readers got
---@return string[] story what was done, for messages
function readers.all(random, forms)
  local names, parts, story = {}, {}, {}
  for name in pairs(forms) do names[#names + 1] = name end
  table.sort(names)
  local name, reader
  local function got(value)
    story[#story + 1] = value and #value or "nothing"
    if value then parts[#parts + 1] = name == "lines" and value .. "\n" or value end
  end
  local function take()
    local value, err = reader:take()
    assert(err == nil, err)
    got(value)
    return value
  end
  while true do
    if reader and random(2) == 1 then
      story[#story + 1] = "close"
      reader:close()
    end
    name = names[random(#names)]
    story[#story + 1] = name
    reader = forms[name]()
    for _ = 1, random(5) do
      local how = random(8)
      if how == 1 then
        local block = rn.go(take)
        for _ = 1, random(3) do rn.yield() end
        rn.cancel(block)
        rn.yield()
        story[#story + 1] = "cancel"
      elseif how == 2 then
        local value, ch = rn.alts { reader, rn.timeout(random(0, 20)) }
        if ch == reader then
          got(value)
          if value == nil then return table.concat(parts), story end
        end
      elseif not take() then
        return table.concat(parts), story
      end
      if random(6) == 1 then rn.sleep(random(0, 2)) end
    end
  end
end

---A source of random numbers of its own.
---@param seed integer
---@return fun(m: integer, n?: integer): integer
function readers.random(seed)
  local state = seed * 2654435761 % 4294967296
  return function(m, n)
    if not n then m, n = 1, m end
    state = (state * 1664525 + 1013904223) % 4294967296
    return m + (state >> 8) % (n - m + 1)
  end
end

return readers
