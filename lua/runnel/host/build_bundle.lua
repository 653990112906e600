---The bundle behind an executable: how it is packed, written and read (csrc/host/bundle/bundle.h).

local builder = require "runnel.host.builder"

local bundle = {}

---The kinds of parts, as in csrc/host/bundle/bundle.h.
bundle.KINDS = { script = 1, module = 2, c_module = 3, library = 4, file = 5, option = 6, version = 7 }

local KIND_NAMES = {}
for name, number in pairs(bundle.KINDS) do KIND_NAMES[number] = name end

---@class runnel.host.Part
---@field kind "script"|"module"|"c_module"|"library"|"file"|"option"|"version"
---@field name string
---@field detail? string of Lua code its chunk name; of a C module the name of the function that opens it
---@field data? string its bytes
---@field needs? runnel.host.Part[] of a C module: libraries, each before those that need it; or, if it has no bytes,
---the module in whose file it is
---@field path? string of a script, a module or a file the path of the file it was read from

local NUMBER, ENTRY, RECORD = "=I8", "=I8I8I8I8I8I8I8", "=c16I8I8i8"
local MARK = builder.mark() -- the record begins with it
local ALIGNMENT = 16 -- of the bundle in the file

---@param parts runnel.host.Part[]
---@return string bytes
function bundle.pack(parts)
  local size, pieces, entries, numbers = NUMBER:packsize() + #parts * ENTRY:packsize(), {}, {}, {}
  for i, part in ipairs(parts) do numbers[part] = i - 1 end
  -- Adds bytes at a place that is a multiple of 8, and returns the place.
  local function add(bytes)
    local place, padding = size, -#bytes % 8
    pieces[#pieces + 1] = bytes
    pieces[#pieces + 1] = ("\0"):rep(padding)
    size = size + #bytes + padding
    return place
  end
  for i, part in ipairs(parts) do
    local needs, data = {}, part.data or ""
    for k, library in ipairs(part.needs or {}) do needs[k] = NUMBER:pack(numbers[library]) end
    entries[i] = ENTRY:pack(bundle.KINDS[part.kind], add(part.name .. "\0"), add((part.detail or "") .. "\0"),
      add(data), #data, add(table.concat(needs)), #needs)
  end
  return NUMBER:pack(#parts) .. table.concat(entries) .. table.concat(pieces)
end

-- The only place of the record in an executable, or nil and why not.
local function place_of_record(executable)
  local at = executable:find(MARK, 1, true)
  if not at then return nil, "it was not made by runnel build" end
  if executable:find(MARK, at + 1, true) then return nil, "it has more than one record" end
  return at
end

-- A path beside another one at which nothing is.
local function free_path(path)
  local new, n = path .. ".new", 1
  while builder.kind(new) do
    n = n + 1
    new = ("%s.new%d"):format(path, n)
  end
  return new
end

-- Writes a file that can be executed, in place of what is at the path. Returns true, or nil and why not.
local function write_executable(path, pieces)
  local new = free_path(path)
  local file, why = io.open(new, "wb")
  if not file then return nil, why end
  local ok
  ok, why = file:write(table.unpack(pieces))
  if ok then ok, why = file:close() else file:close() end
  if ok then ok, why = builder.make_executable(new) end
  if ok then ok, why = os.rename(new, path) end
  if not ok then os.remove(new) end
  return ok, why
end

---The bytes of the executable that runs, or nil and why not.
---@return string? bytes
---@return string? why
function bundle.executable()
  local file <close>, why = io.open("/proc/self/exe", "rb")
  if not file then return nil, "only Linux is supported, with /proc: " .. tostring(why) end
  return file:read "a"
end

---Writes an executable with a bundle.
---@param path string
---@param executable string bundle.executable()
---@param bytes string bundle.pack(parts), or bundle.bytes(program)
---@return integer? size how large the file is; nil if it cannot be written
---@return string? why
function bundle.write(path, executable, bytes)
  local at, wrong = place_of_record(executable)
  if not at then return nil, wrong end
  local padding = ("\0"):rep(-#executable % ALIGNMENT)
  local record = RECORD:pack(MARK, #executable + #padding, #bytes, builder.sum(bytes))
  local ok, why = write_executable(path,
    { executable:sub(1, at - 1), record, executable:sub(at + #record), padding, bytes })
  if not ok then return nil, why end
  return #executable + #padding + #bytes
end

---The bundle of an executable that runnel build has written, or nil and why there is none.
---@param executable string its bytes
---@return string? bytes
---@return string? why
function bundle.bytes(executable)
  local at, why = place_of_record(executable)
  if not at then return nil, why end
  local _, offset, size, sum = RECORD:unpack(executable, at)
  if offset == 0 then return nil, "it is runnel, without a program" end
  local bytes = executable:sub(offset + 1, offset + size)
  if #bytes < size or builder.sum(bytes) ~= sum then return nil, "it is damaged" end
  return bytes
end

---The parts of a bundle.
---@param bytes string
---@return runnel.host.Part[]
function bundle.unpack(bytes)
  local parts = {}
  for i = 1, (NUMBER:unpack(bytes)) do
    local kind, name, detail, data, length =
      ENTRY:unpack(bytes, NUMBER:packsize() + (i - 1) * ENTRY:packsize() + 1)
    parts[i] = { kind = KIND_NAMES[kind], name = ("z"):unpack(bytes, name + 1),
      detail = ("z"):unpack(bytes, detail + 1), data = bytes:sub(data + 1, data + length) }
  end
  return parts
end

return bundle
