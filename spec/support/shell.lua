---Shell commands for specs that run programs as a user does.

local patience = require "spec.support.patience"
local rn = require "runnel"

local shell = {}

local LUA = os.getenv "LUA" or "lua5.4"

function shell.contents(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

-- A command ends before its spec reaches its time limit, because the watchdog interrupts only Lua: the process of the
-- spec would wait for the command when it ends. Without a limit for specs, commands have none either.
local SPEC_LIMIT <const> = tonumber(os.getenv "SPEC_LIMIT" or 120)
local function limit(seconds)
  return SPEC_LIMIT == 0 and "" or ("timeout -k 1 %d "):format(patience.seconds(seconds))
end

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
  file:write(('LUA="%s"; lua() { %s$LUA "$@"; }\n%s\n'):format(LUA, limit(60), command))
  file:close()
  local start = rn.now()
  local pipe = assert(io.popen(("%ssh %s 2>%s"):format(limit(math.max(1, SPEC_LIMIT - 10)), script, errors)))
  local output = pipe:read "a"
  local _, _, status = pipe:close()
  local complaints = shell.contents(errors)
  os.remove(script)
  os.remove(errors)
  return output, complaints, status, rn.now() - start
end

return shell
