---Pieces of text that end between two characters of UTF-8.

local byte, sub = string.byte, string.sub

local characters = {}

---How many bytes at the end of a string begin a character whose rest is missing. Bytes that are no UTF-8 are not waited
---for.
---@param s string
---@return integer
function characters.incomplete(s)
  for back = 1, math.min(3, #s) do
    local b = byte(s, -back)
    if b < 0x80 then return 0 end
    if b >= 0xC2 then
      local whole = b > 0xF4 and 1 or b >= 0xF0 and 4 or b >= 0xE0 and 3 or 2
      return whole > back and back or 0
    end
  end
  return 0
end

---Makes a function for chunks, and nil at the end, that calls `emit` with all of their bytes, but only with whole
---characters.
---@param emit fun(chunk: string): boolean
---@param unread? runnel.uv.Unread gets to know the bytes that wait for others
---@return fun(chunk: string?): boolean
function characters.aligned(emit, unread)
  local held = ""
  return function(chunk)
    local whole = held
    if chunk then
      whole = held .. chunk
      local n = characters.incomplete(whole)
      whole, held = sub(whole, 1, -n - 1), n > 0 and sub(whole, -n) or ""
    else
      held = ""
    end
    if unread then unread.held = held end
    return whole == "" or emit(whole)
  end
end

return characters
