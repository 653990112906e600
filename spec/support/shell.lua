---Shell commands for specs that run programs as a user does.

local patience = require "spec.support.patience"
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

---Runs a shell command. In it, `lua` runs the interpreter and kills it after a minute; $LUA is the interpreter itself,
---for commands that need its process.
---@param command string
---@return string output
---@return string errors what it wrote to stderr
---@return integer status
---@return number ms how long it took
function shell.run(command)
  local script, errors = os.tmpname(), os.tmpname()
  local file <close> = assert(io.open(script, "w"))
  file:write(('LUA="%s"; lua() { %s$LUA "$@"; }\n%s\n'):format(LUA, patience.timeout(60), command))
  file:close()
  local start = rn.now()
  local pipe = assert(io.popen(("%ssh %s 2>%s"):format(patience.timeout(), script, errors)))
  local output = pipe:read "a"
  local _, _, status = pipe:close()
  local complaints = shell.contents(errors)
  os.remove(script)
  os.remove(errors)
  return output, complaints, status, rn.now() - start
end

return shell
