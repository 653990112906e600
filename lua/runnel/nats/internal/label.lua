---Identifies this process in errors: its host and process id, as in "host:4711".

local lib = require "runnel.nats.internal.lib"

---@return string
local function label() return ("%s:%d"):format(lib.process()) end

return label
