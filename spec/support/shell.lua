---Shell commands for specs that run programs as a user does.

local process = require "spec.support.process"
local rn = require "runnel"

local shell = {}

local LUA = os.getenv "LUA" or "lua5.4"

function shell.contents(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

---A word of a shell command.
---@param word string|number
---@return string
function shell.quote(word) return "'" .. tostring(word):gsub("'", "'\\''") .. "'" end

---Runs a shell command. In it, `lua` runs the interpreter; $LUA is the interpreter itself, for commands that need its
---process.
---@param command string
---@return string output
---@return string errors what it wrote to stderr
---@return integer status
---@return number ms how long it took
function shell.run(command)
  local errors = os.tmpname()
  local start = rn.now()
  local output, status = process.capture(('exec 2>%s; LUA="%s"; lua() { $LUA "$@"; }\n%s'):format(errors, LUA, command))
  local complaints = shell.contents(errors)
  os.remove(errors)
  return output, complaints, status, rn.now() - start
end

return shell
