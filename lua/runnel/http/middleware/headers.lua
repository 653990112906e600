---The headers of responses that functions around others change: copies, since the program may use its table again.

local headers = {}

---@param from? table the headers of a response
---@return table
function headers.copy(from)
  local copy = {}
  if type(from) ~= "table" then return copy end
  for name, value in pairs(from) do copy[name] = value end
  return copy
end

-- A list of values as one, which means the same; others as they are.
local function joined(value)
  if type(value) ~= "table" then return value end
  local texts = {}
  for i, one in ipairs(value) do texts[i] = tostring(one) end -- what is no text is an error, which the server reports
  return table.concat(texts, ", ")
end

---The name of a header as the table has it, and its value; that of a list has commas.
---@param from table
---@param name string in lower case
---@return string? key
---@return any value
function headers.find(from, name)
  for key, value in pairs(from) do
    if type(key) == "string" and key:lower() == name then return key, joined(value) end
  end
end

---Sets a header, in place of one whose name is written in another way: two of them would contradict each other.
---@param to table is changed
---@param name string
---@param value any
function headers.set(to, name, value)
  local lower = name:lower()
  for key in pairs(to) do
    if key ~= name and type(key) == "string" and #key == #name and key:lower() == lower then to[key] = nil end
  end
  to[name] = value
end

---Says that the response depends on a header of the request.
---@param to table is changed
---@param name string
function headers.add_vary(to, name)
  local key, value = headers.find(to, "vary")
  local has_it = value and (", " .. value:lower() .. ","):find(", " .. name:lower() .. ",", 1, true)
  if has_it or value == "*" then return end
  to[key or "Vary"] = value and value .. ", " .. name or name
end

return headers
