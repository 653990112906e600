---Frames of WebSocket, written and read in Lua, so that specs do not depend on the code that they check.

local frames = {}

frames.TEXT, frames.BINARY, frames.CONTINUATION = 1, 2, 0
frames.CLOSE, frames.PING, frames.PONG = 8, 9, 10

local function masked(payload, key)
  local bytes = {}
  for i = 1, #payload do bytes[i] = string.char(payload:byte(i) ~ key:byte((i - 1) % 4 + 1)) end
  return table.concat(bytes)
end

local function length_of(length, form)
  form = form or length < 126 and 7 or length < 65536 and 16 or 64
  if form == 7 then return length, "" end
  if form == 16 then return 126, string.pack(">I2", length) end
  return 127, string.pack(">i8", length)
end

---A frame.
---@param opcode integer
---@param payload? string
---@param with? { fin?: boolean, rsv?: integer, mask?: string|false, length?: integer, form?: 7|16|64 } `fin`: default
---true; `rsv`: the reserved bits, 4 is the first; `mask`: the key, false for none, default "\1\2\3\4"; `length`: what
---the header says; `form`: how many bits it takes for that
---@return string
function frames.frame(opcode, payload, with)
  payload, with = payload or "", with or {}
  local mask = with.mask == nil and "\1\2\3\4" or with.mask
  local short, long = length_of(with.length or #payload, with.form)
  local first = (with.fin == false and 0 or 0x80) | (with.rsv or 0) << 4 | opcode
  return string.char(first, (mask and 0x80 or 0) | short) .. long
    .. (mask and mask .. masked(payload, mask) or payload)
end

---The payload of a close frame.
---@param code integer
---@param reason? string
---@return string
function frames.closing(code, reason) return string.pack(">I2", code) .. (reason or "") end

---A frame as it was read.
---@class spec.Frame
---@field opcode integer
---@field payload string
---@field fin boolean
---@field rsv integer
---@field mask string|false

---Reads the frame at the beginning of bytes.
---@param bytes string
---@param at? integer where it begins; default 1
---@return spec.Frame? frame nil if it is not complete
---@return integer? next where the next one begins
function frames.first(bytes, at)
  at = at or 1
  if #bytes < at + 1 then return nil end
  local first, second = bytes:byte(at, at + 1)
  local length, size = second & 0x7F, 0
  at = at + 2
  if length == 126 then size = 2 elseif length == 127 then size = 8 end
  if #bytes < at + size - 1 then return nil end
  if size > 0 then length = string.unpack(size == 2 and ">I2" or ">i8", bytes, at) end
  at = at + size
  local mask = second & 0x80 ~= 0 and bytes:sub(at, at + 3)
  if mask then at = at + 4 end
  local payload = bytes:sub(at, at + length - 1)
  if #payload < length then return nil end
  return {
    opcode = first & 15, fin = first & 0x80 ~= 0, rsv = first >> 4 & 7, mask = mask,
    payload = mask and masked(payload, mask) or payload,
  }, at + length
end

---Reads all frames in bytes.
---@param bytes string
---@return spec.Frame[]
function frames.read(bytes)
  local list, at = {}, 1
  while at <= #bytes do list[#list + 1], at = frames.first(bytes, at) end
  return list
end

---Cuts a string into pieces of random sizes.
---@param text string
---@param most integer the largest size
---@return string[]
function frames.pieces(text, most)
  local list, at = {}, 1
  while at <= #text do
    local size = math.random(most)
    list[#list + 1] = text:sub(at, at + size - 1)
    at = at + size
  end
  return list
end

return frames
