---Programs that run beside a spec, and end with it, also when the process of the spec is killed.
---
---    local set <close> = background.set()
---    local server = set:start { "nats-server", "-p", "4333" }
---    server:signal "KILL"
---    server:wait()

local patience = require "spec.support.patience"
local quote = require("spec.support.shell").quote

local background = {}

local Set, Program = {}, {}
Set.__index, Program.__index = Set, Program

local SCRIPT = debug.getinfo(1, "S").source:match "^@(.*)%.lua$" .. ".sh"

local function contents(path)
  local file <close> = io.open(path)
  return file and file:read "a"
end

---Whether the system has a command.
---@param name string
---@return boolean
function background.has_command(name) return (os.execute("command -v " .. name .. " >/dev/null 2>&1")) == true end

---A set of programs with a directory for their files. Closing it kills the programs and removes the directory.
function background.set()
  local pipe <close> = assert(io.popen "mktemp -d")
  local dir = assert(pipe:read "l", "mktemp has failed")
  local keeper = assert(io.popen(("exec sh %s %s"):format(quote(SCRIPT), quote(dir)), "w"))
  return setmetatable({ dir = dir, keeper = keeper, count = 0 }, Set)
end

---Starts a program: a list of its name and its arguments. Returns when it has a process id.
function Set:start(command)
  self.count = self.count + 1
  local program = setmetatable({ path = self.dir .. "/" .. self.count }, Program)
  local words = {}
  for i, word in ipairs(command) do words[i] = quote(word) end
  self:write(self.count .. ".sh", "exec " .. table.concat(words, " ") .. "\n")
  self.keeper:write(self.count, "\n")
  self.keeper:flush()
  program.pid = tonumber(patience.wait_until(function() return contents(program.path .. ".pid") end))
  return assert(program.pid and program, "the program did not start")
end

---Writes a file into the directory, and returns its path.
function Set:write(name, text)
  local path = self.dir .. "/" .. name
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
  return path
end

function Set:close()
  if not self.keeper then return end
  self.keeper:write "end\n"
  self.keeper:close() -- waits until the programs are dead and the directory is gone
  self.keeper = nil
end
Set.__close = Set.close

---What the program has written so far, to stdout and stderr.
function Program:output() return contents(self.path .. ".out") or "" end

---The exit status, or nil while it runs; 137 after SIGKILL.
function Program:status() return tonumber(contents(self.path .. ".status") or nil) end

---Sends a signal, by its name without SIG. Does nothing to a program that has ended.
function Program:signal(name)
  -- Not by os.execute, during which Ctrl-C would be lost: C's system() ignores it.
  if not self:status() then io.popen(("kill -%s %d 2>/dev/null"):format(name, self.pid)):close() end
end

---Waits until the program has ended, and returns its status; nil if it does not end.
function Program:wait()
  return patience.wait_until(function() return self:status() end)
end

---Waits until the output contains the text; false if that does not happen, or if the program has ended without it.
function Program:says(text)
  return patience.wait_until(function()
    if self:output():find(text, 1, true) then return "yes" end
    return self:status() and "no"
  end) == "yes"
end

return background
