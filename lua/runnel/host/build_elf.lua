---What an executable or a shared object of this machine needs to run, read from its ELF headers.

local elf = {}

local NEEDED, STRTAB, SONAME, VERNEED = 1, 5, 14, 0x6ffffffe -- tags of the dynamic section
local LOAD, DYNAMIC = 1, 2 -- types of segments

-- Formats for string.unpack, and where the header has the place, the size and the number of the segments' headers.
local FORMATS = {
  ["\1"] = { place = "=I4", place_at = 29, count = "=I2I2", count_at = 43, entry = "=i4I4" },
  ["\2"] = { place = "=I8", place_at = 33, count = "=I2I2", count_at = 55, entry = "=i8I8" },
}

-- The type, the place in the file, the address and the size of the segment whose header is at `at`.
local function read_segment(bytes, wide, at)
  if wide then
    local kind, _, place, address, _, size = ("=I4I4I8I8I8I8"):unpack(bytes, at)
    return { kind = kind, place = place, address = address, size = size }
  end
  local kind, place, address, _, size = ("=I4I4I4I4I4"):unpack(bytes, at)
  return { kind = kind, place = place, address = address, size = size }
end

---The newer of two versions, such as "2.4" and "2.34".
---@param a? string
---@param b? string
---@return string?
function elf.newer(a, b)
  if not a or not b then return a or b end
  local one, two = a:gmatch "%d+", b:gmatch "%d+"
  while true do
    local x, y = math.tointeger(one() or -1), math.tointeger(two() or -1)
    if x ~= y then return x > y and a or b end
    if x == -1 then return a end
  end
end

-- The newest version of glibc in the table of needed versions at `at`. `text(i)` is a string of the file.
local function glibc_version(bytes, at, text)
  local newest
  repeat
    local _, count, _, first, next_at = ("=I2I2I4I4I4"):unpack(bytes, at)
    local entry = at + first
    for _ = 1, count do
      local _, _, _, name, further = ("=I4I2I2I4I4"):unpack(bytes, entry)
      local version = text(name):match "^GLIBC_([%d.]+)$"
      if version then newest = elf.newer(newest, version) end
      entry = entry + further
    end
    at = at + next_at
  until next_at == 0
  return newest
end

---What a file needs.
---@class runnel.host.Needs
---@field soname? string the name by which others need it
---@field libraries string[] the names of shared libraries
---@field glibc? string the oldest version of glibc that has all it uses, as in "2.34"

---@param bytes string the whole file
---@return runnel.host.Needs? needs nil if it is no ELF file
function elf.needs(bytes)
  local format = bytes:sub(1, 4) == "\127ELF" and FORMATS[bytes:sub(5, 5)]
  if not format then return nil end
  local header = format.place:unpack(bytes, format.place_at) + 1
  local size, count = format.count:unpack(bytes, format.count_at)
  local loaded, dynamic = {}, nil
  for i = 0, count - 1 do
    local segment = read_segment(bytes, bytes:sub(5, 5) == "\2", header + i * size)
    if segment.kind == LOAD then loaded[#loaded + 1] = segment end
    if segment.kind == DYNAMIC then dynamic = segment end
  end
  local needs = { libraries = {} }
  if not dynamic then return needs end -- it is static

  -- The position in `bytes` of an address.
  local function position(address)
    for _, segment in ipairs(loaded) do
      local offset = address - segment.address
      if offset >= 0 and offset < segment.size then return segment.place + offset + 1 end
    end
    error("a damaged shared object", 0)
  end

  local names, strings, versions = {}, nil, nil
  local at = dynamic.place + 1
  repeat
    local tag, value
    tag, value, at = format.entry:unpack(bytes, at)
    if tag == NEEDED then names[#names + 1] = value
    elseif tag == SONAME then needs.soname = value
    elseif tag == STRTAB then strings = position(value)
    elseif tag == VERNEED then versions = position(value) end
  until tag == 0
  local function text(i) return (("z"):unpack(bytes, strings + i)) end
  for i, name in ipairs(names) do needs.libraries[i] = text(name) end
  needs.soname = needs.soname and text(needs.soname)
  needs.glibc = versions and glibc_version(bytes, versions, text)
  return needs
end

---Whether an executable needs no shared library.
---@param bytes string the whole file
---@return boolean
function elf.is_static(bytes)
  local needs = elf.needs(bytes)
  return not needs or #needs.libraries == 0
end

return elf
