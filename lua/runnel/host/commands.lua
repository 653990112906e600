---The prompt's commands, which begin with a colon.

---@class runnel.host.commands
local commands = {}

function commands.names() return {} end

function commands.run(line) return nil, "there is no command " .. line end

return commands
