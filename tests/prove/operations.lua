---The operations of the programs of `make prove`, the most important first, and the channels on which they work.
---
---An operation is { name, f }: f(e, id) does it and returns what the story shows. `e` is the go block: its module `rn`,
---the channels `a` and `b`, the result channels `results` of all go blocks, and its number `g`. `id` is a value that no
---other operation puts. The name has the channels that it uses, which space.lua looks for.

local operations = {}

local function show(...)
  local n, parts = select("#", ...), {}
  for i = 1, n do parts[i] = tostring((select(i, ...))) end
  return table.concat(parts, ",")
end

-- ---- channels ----

-- The first value as it is, the second twice; the third raises, the fourth is dropped, the fifth ends the stream.
local function transducer(rn)
  return function(rf)
    local n = 0
    return function(...)
      if select("#", ...) == 0 then return rf() end
      local acc, value = ...
      if select("#", ...) == 1 then return rf(rf(acc, "end")) end
      n = n + 1
      if n == 3 then error("no third", 0) end
      if n == 4 then return acc end
      if n == 5 then return rn.reduced(acc) end
      acc = rf(acc, value)
      return n == 2 and rf(acc, value) or acc
    end
  end
end

---How a channel is made, by its kind.
---@type table<string, fun(rn: table): table>
operations.channels = {
  ["0"] = function(rn) return rn.chan() end,
  ["1"] = function(rn) return rn.chan(1) end,
  ["2"] = function(rn) return rn.chan(2) end,
  dropping = function(rn) return rn.chan(rn.dropping_buffer(1)) end,
  sliding = function(rn) return rn.chan(rn.sliding_buffer(1)) end,
  promise = function(rn) return rn.promise_chan() end,
  transducer = function(rn) return rn.chan(1, transducer(rn)) end,
}

---The kinds in a fixed order.
operations.kinds = { "0", "1", "2", "dropping", "sliding", "promise", "transducer" }

---The same, and shared channels, which samples use, too. Those that one state uses do what others do, so lite.lua has
---others in their place.
operations.all_kinds = { table.unpack(operations.kinds) }
for _, kind in ipairs { "0", "1", "2", "dropping", "sliding", "promise" } do
  local name, make = "shared " .. kind, operations.channels[kind]
  operations.all_kinds[#operations.all_kinds + 1] = name
  operations.channels[name] = function(rn)
    if not rn.shared_chan then return make(rn) end
    local buffers = { promise = "promise", dropping = rn.dropping_buffer(1), sliding = rn.sliding_buffer(1) }
    return rn.shared_chan(buffers[kind] or tonumber(kind))
  end
end

-- ---- operations ----

local list = {}
local function add(name, f) list[#list + 1] = { name = name, f = f } end

-- An alts; `ops` is as "ta pb": take from a, put on b; "w" waits 5 ms. The log shows the port by its letter.
local function alts(e, id, ops, opts)
  local clauses, ports = {}, {}
  for what, where in ops:gmatch "([tpw])([ab]?)" do
    local ch = what == "w" and e.rn.timeout(5) or e[where]
    ports[ch] = what == "w" and "w" or where
    clauses[#clauses + 1] = what == "p" and { ch, id + #clauses / 10 } or ch
  end
  local value, port, err = e.rn.alts(clauses, opts)
  return show(value, ports[port] or port, err)
end
local function add_alts(ops, opts)
  local name = "alts " .. ops
  for key in pairs(opts or {}) do name = name .. " " .. key end
  add(name, function(e, id) return alts(e, id, ops, opts) end)
end

add("put a", function(e, id) return show(e.a:put(id)) end)
add("take a", function(e) return show(e.a:take()) end)
add("take b", function(e) return show(e.b:take()) end)
add("put b", function(e, id) return show(e.b:put(id)) end)
add("close a", function(e) return show(e.a:close()) end)
add_alts("ta tb")
add_alts("pa tb")
add("cancel the next", function(e)
  return show(e.rn.cancel(e.results[e.g % #e.results + 1], "cancelled by " .. e.g))
end)
add("close b with an error", function(e) return show(e.b:close("closed by " .. e.g)) end)
add_alts("ta w")
add_alts("pa ta tb", { priority = true })
add("go that takes from a, and take its result", function(e)
  return show(e.rn.go(function() return e.a:take() end):take())
end)
add("poll a", function(e) return show(e.a:poll()) end)
add("offer a", function(e, id) return show(e.a:offer(id)) end)
add("sleep 1", function(e) return show(e.rn.sleep(1)) end)
add_alts("pa pa tb")
add("take timeout 2", function(e) return show(e.rn.timeout(2):take()) end)
add("catch", function(e) e.catches = true return "" end)
add("take_async a", function(e)
  return show(e.a:take_async(function(...) e.say("callback", show(...)) end))
end)
add("put_async b", function(e, id)
  return show(e.b:put_async(id, function(...) e.say("callback", show(...)) end))
end)
add("raise", function(e)
  e.catches = false
  error("raised by " .. e.g, 0)
end)
add("take a's done", function(e) return show(e.a:done():take()) end)
add("loop over b", function(e)
  local taken = "no value"
  for v in e.b do -- luacheck: ignore 512
    taken = show(v)
    break
  end
  return taken
end)
add("sleep 0", function(e) return show(e.rn.sleep(0)) end)
add("yield", function(e) return show(e.rn.yield()) end)
add("take the next's result", function(e) return show(e.results[e.g % #e.results + 1]:take()) end)
add("close b", function(e) return show(e.b:close()) end)
add("close a with an error", function(e) return show(e.a:close("closed by " .. e.g)) end)
add("poll b", function(e) return show(e.b:poll()) end)
add("offer b", function(e, id) return show(e.b:offer(id)) end)
add("cancel the previous", function(e)
  return show(e.rn.cancel(e.results[(e.g - 2) % #e.results + 1], "cancelled by " .. e.g))
end)
add("go that raises", function(e)
  e.rn.go(function() error("raised by a child of " .. e.g, 0) end)
  return ""
end)
add("go that returns an error", function(e)
  return show(e.rn.go(function() return nil, "an error" end):take())
end)
add("put_async a, not at once", function(e, id)
  return show(e.a:put_async(id, function(...) e.say("callback", show(...)) end, false))
end)
add("callback of a take from a that raises", function(e)
  return show(e.a:take_async(function() error("raised by a callback of " .. e.g, 0) end))
end)
add("close the own result", function(e) return show(e.results[e.g]:close("early " .. e.g)) end)

-- All other alts of one to three operations.
local ONE = { "ta", "tb", "pa", "pb" }
local known = { ["ta tb"] = true, ["pa tb"] = true, ["pa pa tb"] = true }
local function add_all(ops, n)
  if n > 0 then
    local text = table.concat(ops, " ")
    local is_sorted = true -- without priority the order makes no difference
    for i = 2, n do is_sorted = is_sorted and ops[i - 1] <= ops[i] end
    if is_sorted and not known[text] then add_alts(text) end
    if is_sorted then add_alts(text, { default = "none" }) end
    if n > 1 and text ~= "pa ta tb" then add_alts(text, { priority = true }) end
  end
  for i = 1, n < 3 and #ONE or 0 do
    ops[n + 1] = ONE[i]
    add_all(ops, n + 1)
    ops[n + 1] = nil
  end
end
add_all({}, 0)

---@type { name: string, f: fun(e: table, id: number): string }[]
operations.list = list

return operations
