-- pack FILE [VALUES [SEED]]: random values through the packer of shared channels and back, and through libmsgpackc if
-- the program has it; what cannot be packed; and bytes that mean nothing.
local pack = pack -- luacheck: ignore
local n, seed = tonumber(arg[1]) or 2000, tonumber(arg[2]) or 1
math.randomseed(seed)
local random = math.random

local function same(a, b)
  if math.type(a) ~= math.type(b) or type(a) ~= type(b) then return false end
  if type(a) ~= "table" then return a == b or (a ~= a and b ~= b) end
  for k, v in pairs(a) do
    if not same(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

local EDGES = { 0, 1, 127, 128, 255, 256, 65535, 65536, 2 ^ 31 | 0, 2 ^ 32 - 1 | 0, 2 ^ 32 | 0, math.maxinteger,
  -1, -32, -33, -128, -129, -32768, -32769, -2 ^ 31 | 0, -2 ^ 31 - 1 | 0, math.mininteger }
local LENGTHS = { 0, 1, 8, 15, 16, 17, 31, 32, 255, 256, 65535, 65536 }

local function text()
  local length = random(4) == 1 and LENGTHS[random(#LENGTHS)] or random(0, 20)
  if random(3) > 1 then return ("a"):rep(length) end
  if random(2) == 1 then return ("é漢😀"):rep(length // 9) end
  local bytes = {}
  for i = 1, length % 300 do bytes[i] = string.char(random(0, 255)) end
  return table.concat(bytes)
end

local function scalar()
  local kind = random(6)
  if kind == 1 then return random(2) == 1 end
  if kind == 2 then return EDGES[random(#EDGES)] end
  if kind == 3 then return random(0) end
  if kind == 4 then return random() * 10 ^ random(-300, 300) end
  if kind == 5 then return ({ 0.0, -0.0, 1 / 0, -1 / 0, 1.0, 2 ^ 63 })[random(6)] end
  return text()
end

local function value(depth)
  if depth == 0 or random(3) == 1 then return scalar() end
  local t, count = {}, random(10) == 1 and random(0, 40) or random(0, 6)
  local kind = random(4)
  for i = 1, count do
    if kind == 1 then t[i] = value(depth - 1)
    elseif kind == 2 then t[count + 1 - i] = value(depth - 1) -- a list that Lua keeps otherwise
    elseif kind == 3 then t[text() .. i] = value(depth - 1)
    else t[random(2) == 1 and i or scalar()] = value(depth - 1) end
  end
  return t
end

local compared = 0
for i = 1, n do
  local v = value(4)
  if type(v) == "table" or i % 10 == 0 then
    local bytes = assert(pack.bytes(v))
    assert(same(v, (pack.value(bytes))), "a value changed on the way")
    assert(same(v, pack.through(v)), "a value changed on the way through a channel")
    if pack.reference then
      assert(pack.reference(bytes) == bytes, "libmsgpackc packs it otherwise")
      compared = compared + 1
    end
    -- cut short, or with a byte changed: a message or a value, and no harm
    for _ = 1, 3 do
      local cut = random(0, #bytes - 1)
      assert(not pack.value(bytes:sub(1, cut)))
      local at = random(#bytes)
      pack.value(bytes:sub(1, at - 1) .. string.char(random(0, 255)) .. bytes:sub(at + 1))
    end
    assert(not pack.value(bytes .. "\0"))
  end
end

-- arrays and maps are told apart as other languages do
local function head(v) return (pack.bytes(v):byte()) end
assert(head {} == 0x90 and head { 1, 2 } == 0x92 and head { [2] = 1, [1] = 2 } == 0x92 and head { x = 1 } == 0x81)
assert(head { [1] = 1, [3] = 1 } == 0x82 and head { 1, 2, x = 1 } == 0x83 and head { {}, x = 1 } == 0x82)

-- what cannot be packed, and where it is
local function refused(v, message)
  local ok, why = pack.bytes(v)
  assert(ok == nil and why == message, why)
  ok, why = pack.through(v)
  assert(ok == nil and why == message, why)
end
refused(print, "value: a function cannot be sent")
refused({ items = { 1, 2, { f = print } } }, "value.items[3].f: a function cannot be sent")
refused({ [true] = { [1.5] = coroutine.create(print) } }, "value[true][1.5]: a coroutine cannot be sent")
refused({ io.stdout }, "value[1]: a userdata cannot be sent")
refused({ a = setmetatable({}, {}) }, "value.a: a table with a metatable cannot be sent")
refused({ [{}] = 1 }, "value[table]: only booleans, numbers and strings can be sent as keys")
local cycle = { b = {} }
cycle.b.a = { cycle }
refused(cycle, "value.b.a[1]: a table that contains itself cannot be sent")
local deep = {}
for _ = 1, 100 do deep = { deep } end
refused(deep, "value: tables nested more than 100 deep cannot be sent")
assert(pack.value(pack.bytes(deep[1])))
assert(not pack.value(("\x91"):rep(101) .. "\xc0"))
refused({ [("k"):rep(1000)] = { [("l"):rep(1000)] = print } },
  "value." .. ("k"):rep(40) .. "." .. ("l"):rep(40) .. ": a function cannot be sent")

-- a table that two have becomes two; nothing is packed more often than it occurs
local part = { 1 }
local two = pack.value(pack.bytes { part, part })
assert(two[1] ~= two[2] and two[1][1] == 1)
local mixed = 1
for _ = 1, 90 do mixed = { mixed, x = 1 } end
assert(#pack.bytes(mixed) < 1000)

-- channels go by reference, and are held by what they are in
local chan, other = pack.chan(), pack.chan()
assert(pack.id(chan) ~= pack.id(other))
assert(pack.id(pack.through(chan)) == pack.id(chan))
local t = pack.through { chan, { chan, other } }
assert(pack.id(t[1]) == pack.id(chan) and pack.id(t[2][1]) == pack.id(chan) and pack.id(t[2][2]) == pack.id(other))
assert(select(2, pack.value(pack.bytes { chan })) == "the packed value has an extension type that is not known")

-- bytes from elsewhere
local function wrong(bytes, message)
  local v, why = pack.value(bytes)
  assert(v == nil and why == message, why)
end
wrong("", "the packed value is cut short")
wrong("\xdd\xff\xff\xff\xff", "the packed value is cut short")
wrong("\xdf\xff\xff\xff\xff", "the packed value is cut short")
wrong("\xc6\xff\xff\xff\xffx", "the packed value is cut short")
wrong("\xc1", "the packed value has a byte (0xc1) that means nothing")
wrong("\x81\xc0\x01", "the packed value has nil as a key")
wrong("\x81\xcb\x7f\xf8\0\0\0\0\0\0\x01", "the packed value has NaN as a key")
wrong("\xd4\x05x", "the packed value has an extension type that is not known")
assert(pack.value "\xca\x3f\xc0\0\0" == 1.5)
assert(pack.value "\xcf\xff\xff\xff\xff\xff\xff\xff\xff" == 2.0 ^ 64)
assert(pack.value "\xcf\x7f\xff\xff\xff\xff\xff\xff\xff" == math.maxinteger)

print(("pack: %d values from seed %d, %d compared with libmsgpackc"):format(n, seed, compared))

if arg[3] == "time" then
  local record = { id = 17, name = "a name", price = 12.5, active = true, tags = "x,y", n1 = 1, n2 = 2000,
    n3 = 3e10, s = "short", t = "longer text here" }
  local m = 200000
  local start = pack.seconds()
  for _ = 1, m do pack.bytes(record) end
  local packed = pack.seconds()
  local bytes = pack.bytes(record)
  for _ = 1, m do pack.value(bytes) end
  print(("pack %.0f ns, unpack %.0f ns"):format((packed - start) / m * 1e9, (pack.seconds() - packed) / m * 1e9))
end
