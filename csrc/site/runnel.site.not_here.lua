---What needs what a page has not.

local NOT_HERE = {
  ["runnel.http"] = "sockets", ["runnel.nats"] = "sockets", ["runnel.prompt"] = "a terminal",
  ["runnel.sqlite"] = "files", ["runnel.store"] = "files", ["runnel.queue.keeper"] = "files",
  ["runnel.otlp"] = "sockets", ["runnel.tls"] = "sockets",
  ["rn.counter"] = "sockets", ["rn.file"] = "files", ["rn.gauge"] = "sockets", ["rn.histogram"] = "sockets",
  ["rn.metrics"] = "sockets", ["rn.traceparent"] = "sockets",
  ["rn.cores"] = "threads", ["rn.thread"] = "threads", ["rn.threads"] = "threads",
  ["rn.profile"] = "timer of processor time",
  ["luv"] = "files, sockets and processes", ["runnel.driver.luv"] = "files, sockets and processes",
  ["runnel.sim.nats.nats_server"] = "runnel.nats", ["runnel.sim.sim_http"] = "runnel.http",
}

---Why something cannot be used, or nil if it is not one of these.
---@param name string as "rn.threads" or "runnel.http"
---@return string?
return function(name)
  local what = NOT_HERE[name]
  if name:find "^runnel%.threads%." then -- as s:thread needs it, and a pipeline that is given a module's name
    name, what = "this", "threads"
  end
  if not what then return nil end
  local text = "%s does not run in a web page, which has no %s; it does in the executable (make, then build/bin/runnel)"
  return text:format(name, what)
end
