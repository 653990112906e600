---"Did you mean": the word of a list that is most like one that does not exist.

-- How many letters must be inserted, removed, replaced or exchanged with the next one to make one word of another.
local function distance(a, b)
  local before, last = {}, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    local row = { [0] = i }
    for j = 1, #b do
      local is_same = a:byte(i) == b:byte(j)
      local least = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (is_same and 0 or 1))
      local is_exchanged = i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j)
      row[j] = is_exchanged and math.min(least, before[j - 2] + 1) or least
    end
    before, last = last, row
  end
  return last[#b]
end

---@param word string
---@param list string[]
---@return string? nearest nil if none is like it
return function(word, list)
  local limit = #word <= 2 and 0 or #word <= 4 and 1 or 2
  local best, least
  for _, one in ipairs(list) do
    if math.abs(#one - #word) <= limit then
      local n = distance(word:lower(), one:lower())
      if n <= limit and (not least or n < least or n == least and one < best) then best, least = one, n end
    end
  end
  return best
end
