---Records what a process does, in a file of its own: a line for each call before it, and one for each return after it.
---So a process that is killed leaves calls without a return. Times are rn.now(), which all processes of a machine
---share.

local rn = require "runnel"

local recorder = {}

local Recorder = {}
Recorder.__index = Recorder

---@param path string
---@return table recorder
function recorder.open(path)
  local file = assert(io.open(path, "w"))
  file:setvbuf "full"
  return setmetatable({ file = file, count = 0 }, Recorder)
end

-- Writes a line at once: what is written survives the process.
local function write(self, fields)
  local parts = {}
  for name, value in pairs(fields) do parts[#parts + 1] = ("%s=%q"):format(name, value):gsub("\\\n", "\\n") end
  local ok = self.file:write("{", table.concat(parts, ","), "}\n") and self.file:flush()
  if not ok then os.exit(1, false) end -- the file is too large, perhaps: nothing is done without a record
end

---Records a call, and returns a function for its return, which gets its results.
---@param process string
---@param what string
---@param arguments table<string, string|number|boolean>
---@return fun(results?: table<string, string|number|boolean>) back
---@return integer number of the call
function Recorder:call(process, what, arguments)
  self.count = self.count + 1
  local number, call = self.count, { process = process, what = what, number = self.count }
  for name, value in pairs(arguments) do call[name] = value end
  call.call = rn.now()
  write(self, call)
  return function(results)
    local back = { number = number, back = rn.now() }
    for name, value in pairs(results or {}) do back[name] = value end
    write(self, back)
  end, number
end

---Records what happened at one moment.
---@param process string
---@param what string
---@param fields table<string, string|number|boolean>
function Recorder:moment(process, what, fields)
  self.count = self.count + 1
  local all = { process = process, what = what, number = self.count, call = rn.now() }
  for name, value in pairs(fields) do all[name] = value end
  all.back = all.call
  write(self, all)
end

---Reads the operations of a file. The last line may be incomplete.
---@param path string
---@return history.Operation[]
function recorder.read(path)
  local file <close> = assert(io.open(path))
  local operations, by_number = {}, {}
  for line in file:lines "L" do
    local fields = line:sub(-1) == "\n" and assert(load("return " .. line, path, "t", {}))()
    local operation = fields and by_number[fields.number]
    if operation then
      for name, value in pairs(fields) do operation[name] = value end
    elseif fields then
      operations[#operations + 1], by_number[fields.number] = fields, fields
    end
  end
  return operations
end

return recorder
