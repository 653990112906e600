---`runnel --sim`: a script as a go block under virtual time.

local core = require "runnel.core"
local sim = require "runnel.sim"

local function describe(err)
  if type(err) ~= "string" then
    err = (type(err) == "table" or type(err) == "number") and core.internal.error_text(err)
      or ("(error object is a %s value)"):format(type(err))
  end
  return debug.traceback(err, 2)
end

---@param chunk function
---@param seed integer
---@param drain boolean whether to run until no go block is ready and no timer is pending
---@param ... any the script's arguments
---@return string|true result the message of an error, or true
return function(chunk, seed, drain, ...)
  local arguments, failure = table.pack(...), nil
  local never = core.chan()
  local ok, err = pcall(sim.run, function()
    core.rename "the script"
    local well, message = xpcall(chunk, describe, table.unpack(arguments, 1, arguments.n))
    if not well then failure = message end
    -- A take without a put raises a deadlock when nothing else is left to do.
    if well and drain then pcall(never.take, never) end
  end, { seed = seed })
  never:close() -- so that the list of parked go blocks does not include this one
  if failure then return failure end
  return ok or core.internal.error_text(err)
end
