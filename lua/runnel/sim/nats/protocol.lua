---NATS' protocol, for both sides of a simulated connection: lines, some with headers and a body behind them.

local decimal = require "runnel.internal.decimal"

local protocol = {}

local find, match, sub = string.find, string.match, string.sub

-- ---- headers ----

local function add_line(lines, name, value)
  if math.type(value) == "float" then value = decimal.format("%.14g", value) end
  lines[#lines + 1] = ("%s: %s\r\n"):format(name, value)
end

---The text of headers.
---@param headers table<string, string|number|string[]>
---@return string
function protocol.headers(headers)
  local names, lines = {}, { "NATS/1.0\r\n" }
  for name in pairs(headers) do names[#names + 1] = name end
  table.sort(names) -- so that a run is the same in each process
  for _, name in ipairs(names) do
    local value = headers[name]
    if type(value) == "table" then
      for _, one in ipairs(value) do add_line(lines, name, one) end
    else
      add_line(lines, name, value)
    end
  end
  lines[#lines + 1] = "\r\n"
  return table.concat(lines)
end

---The text of headers that have a status, which the server sends.
---@param status string as "408 Request Timeout"
---@param more? string further lines
---@return string
function protocol.status(status, more) return ("NATS/1.0 %s\r\n%s\r\n"):format(status, more or "") end

---The value of a header in a text; nil if there is none.
---@param text string
---@param name string without characters that mean something in patterns, but for "-"
---@return string?
function protocol.header(text, name) return match(text, "\n" .. name:gsub("-", "%%-") .. ": *([^\r]*)\r") end

---The headers in a text. A status is one of them, as "Status" and "Description".
---@param text string
---@return table<string, string|string[]> headers
function protocol.parse_headers(text)
  local headers = {}
  local status, description = match(text, "^NATS/1%.0 +(%d+) *([^\r]*)")
  if status then headers.Status, headers.Description = status, description ~= "" and description or nil end
  for name, value in text:gmatch "\n([^:\r\n]+): *([^\r\n]*)" do
    local before = headers[name]
    if before == nil then headers[name] = value
    elseif type(before) == "table" then before[#before + 1] = value
    else headers[name] = { before, value } end
  end
  return headers
end

-- ---- messages ----

-- A line with what is behind it. `words`: what comes before the sizes.
local function with_body(name, words, headers, body)
  if not headers then return ("%s %s %d\r\n%s\r\n"):format(name, words, #body, body) end
  return ("H%s %s %d %d\r\n%s%s\r\n"):format(name, words, #headers, #headers + #body, headers, body)
end

---A message to the server.
---@param subject string
---@param reply? string
---@param headers? string
---@param body string
---@return string
function protocol.pub(subject, reply, headers, body)
  return with_body("PUB", reply and subject .. " " .. reply or subject, headers, body)
end

---A message to the client.
---@param subject string
---@param id string of the subscription
---@param reply? string
---@param headers? string
---@param body string
---@return string
function protocol.msg(subject, id, reply, headers, body)
  return with_body("MSG", reply and subject .. " " .. id .. " " .. reply or subject .. " " .. id, headers, body)
end

-- ---- reading ----

local HAS_BODY = { PUB = true, HPUB = true, MSG = true, HMSG = true }

---Returns a function that gets the bytes as they come, and calls `on` for each line that is complete.
---@param on fun(name: string, words: string, headers: string?, body: string?) `words`: the rest of the line, without
---the sizes
---@return fun(data: string)
function protocol.reader(on)
  local rest = ""
  return function(data)
    if rest ~= "" then data = rest .. data end
    local at = 1
    while true do
      local ending = find(data, "\r\n", at, true)
      if not ending then break end
      local line = sub(data, at, ending - 1)
      local name, words = match(line, "^(%S+) ?(.*)$")
      if HAS_BODY[name] then
        local head
        if sub(name, 1, 1) == "H" then words, head = match(words, "^(.-) (%d+) %d+$") end
        local size = match(line, "(%d+)$") + 0
        local last = ending + 1 + size
        if #data < last + 2 then break end
        head = head and head + 0
        if not head then words = match(words, "^(.-) %d+$") end
        on(head and sub(name, 2) or name, words, head and sub(data, ending + 2, ending + 1 + head),
          sub(data, ending + 2 + (head or 0), last))
        at = last + 3
      else
        on(name, words)
        at = ending + 2
      end
    end
    rest = sub(data, at)
  end
end

-- ---- subjects ----

-- The parts of a pattern; once for each.
local function parts_of(pattern)
  local parts = {}
  for part in pattern:gmatch "[^.]+" do parts[#parts + 1] = part end
  return parts
end

---Returns a function that says whether a subject matches a pattern with * and >; nil if the pattern has none of them.
---@param pattern string
---@return (fun(subject: string): boolean)?
function protocol.matcher(pattern)
  if not find(pattern, "[*>]") then return nil end
  if pattern == ">" then return function() return true end end
  local start, last = match(pattern, "^([^*>]*%.)([*>])$")
  if start then
    local n = #start
    return function(subject)
      return sub(subject, 1, n) == start and #subject > n and (last == ">" or not find(subject, ".", n + 1, true))
    end
  end
  local parts = parts_of(pattern)
  return function(subject)
    local i = 0
    for part in subject:gmatch "[^.]+" do
      i = i + 1
      if parts[i] == ">" then return true end
      if parts[i] ~= "*" and parts[i] ~= part then return false end
    end
    return i == #parts
  end
end

---Whether there are subjects that match both patterns.
---@param a string
---@param b string
---@return boolean
function protocol.overlap(a, b)
  local x, y = parts_of(a), parts_of(b)
  for i = 1, math.max(#x, #y) do
    if x[i] == ">" and y[i] or y[i] == ">" and x[i] then return true end
    if not x[i] or not y[i] then return false end
    if x[i] ~= "*" and y[i] ~= "*" and x[i] ~= y[i] then return false end
  end
  return true
end

return protocol
