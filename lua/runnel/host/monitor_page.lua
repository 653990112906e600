---The option --monitor.

local package = package

local host_monitor = {}

---Starts the monitor and prints its URL to stderr.
---@param port integer
function host_monitor.start(port)
  local found, monitor = pcall(require, "runnel.monitor")
  if not found then error(monitor, 0) end
  local m, why = monitor.listen(port, { program = arg[0] })
  if not m then error(why, 0) end
  io.stderr:write("monitor: ", m.url, "\n")
end

---Pages that are open at the end of the program show what has ended it.
---@param why string
function host_monitor.ending(why)
  local server_module = package.loaded["runnel.monitor.core"]
  if not server_module or not server_module.server then return end
  server_module.why(server_module.server, why:match "^(.-)\nstack traceback:" or why)
end

return host_monitor
