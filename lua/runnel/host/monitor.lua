---The option --monitor.

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

return host_monitor
