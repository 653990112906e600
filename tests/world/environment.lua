---What the operations of a program get: where they are, and the results that they return.

local rn = require "runnel"

---@class tests.world.Environment
---@field is_real boolean
---@field folder string
---@field server string the name or address of the host on which `setup` has run
---@field state table of the notion
---@field limit? number ms; nil: an operation may wait for ever
---@field other_words? boolean errors are made the same that differ only in their words
---@field closing function[] what is to be called at the end, in reality
local Environment = {}
Environment.__index = Environment

-- How long an operation waits that may wait for ever, ms: in reality all of it. In a search a timer may fire at any
-- time, unless the notion is punctual: then nothing that comes takes that long.
local LIMIT, LONG = 40, 250

local environment = {}

---@param is_real boolean
---@param folder string
---@param server string
---@param is_punctual? boolean
---@return tests.world.Environment
function environment.new(is_real, folder, server, is_punctual)
  return setmetatable({ is_real = is_real, folder = folder, server = server, state = {}, closing = {},
    limit = is_punctual and LONG or LIMIT }, Environment)
end

---@param name string
---@return string
function Environment:path(name) return self.folder .. "/" .. name end

---Calls f at the end of a real program; the last one first.
function Environment:at_end(f) table.insert(self.closing, f) end

---The result of an operation that has waited for too long.
environment.LATE = "late"

---Calls f(...), for at most a while. Returns "late"; or f's results.
function Environment:within(f, ...)
  local arguments = table.pack(...)
  local results = table.pack(pcall(rn.scope, function()
    return f(table.unpack(arguments, 1, arguments.n))
  end, { timeout = self.limit }))
  if results[1] then return table.unpack(results, 2, results.n) end
  if rn.is_timeout(results[2]) then return environment.LATE end
  error(results[2], 0)
end

-- ---- results as text, the same wherever they come from ----

local function text_of(value)
  local kind = math.type(value) or type(value)
  if kind == "string" then
    for letter in ("abc"):gmatch "." do
      value = value:gsub(letter .. "+", function(run) return #run > 9 and ("%s*%d"):format(letter, #run) or nil end)
    end
    return value
  elseif kind == "table" and not getmetatable(value) then
    local names, parts = {}, {}
    for name in pairs(value) do names[#names + 1] = name end
    table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
    for i, name in ipairs(names) do parts[i] = ("%s=%s"):format(name, text_of(value[name])) end
    return "{" .. table.concat(parts, " ") .. "}"
  end
  return tostring(value)
end

-- An error without what differs from run to run: addresses, folders, lines of programs, numbers of processes.
local function normal(self, text)
  text = text:gsub("[%w_./]+/runnel: ", "child: "):gsub('"p%d+', '"p')
  text = text:gsub(self.folder:gsub("%W", "%%%0") .. "/", ""):gsub("\n.*", "")
  text = text:gsub("^[%w_./]+%.lua:%d+: ", ""):gsub("%d+%.%d+%.%d+%.%d+:%d+", "HOST"):gsub("server:%d+", "HOST")
  return (text:gsub("127%.0%.0%.1", "HOST"):gsub("10%.0%.%d+%.%d+", "HOST"))
end

-- What libcurl and the system say, and the world: the same in other words.
local WORDS = {
  { "cannot connect: [%a ]+; the request may have been done", "no response" },
  { "cannot connect: Connection reset by peer", "no response" },
  { "the connection was closed before the response.*", "no response" },
  { "transfer closed with outstanding read data remaining", "cut" },
  { "the connection has ended in the middle of the body", "cut" },
  { "Operation timed out after.*", "late" }, { "Connection timed out after.*", "late" }, { "no response after %d+ ms",
    "late" },
  { "Failed to resolve host .* with timeout after.*", "late" }, { "Resolving timed out after.*", "late" },
  { "Empty reply from server", "no response" }, { "the connection has ended without a response", "no response" },
  { "Recv failure: Connection reset by peer", "no response" }, { "ECONNRESET: connection reset by peer$",
    "no response" },
  { "Send failure: [%a ]+", "no response" }, { "; the request may have been done", "" },
  { "cannot connect: Connection refused", "refused" }, { "ECONNREFUSED: connection refused", "refused" },
}

local function in_other_words(text)
  for _, pair in ipairs(WORDS) do text = text:gsub(pair[1], pair[2]) end
  return text
end

---The results of an operation as one text.
---@param ok boolean
---@param ... any the results, or the error
---@return string
function Environment:tell(ok, ...)
  local list = table.pack(...)
  for i = 1, list.n do
    list[i] = normal(self, text_of(list[i]))
    if self.other_words then list[i] = in_other_words(list[i]) end
  end
  return (ok and "" or "raises ") .. table.concat(list, ", ")
end

return environment
