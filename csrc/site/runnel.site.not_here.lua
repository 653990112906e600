---Modules that need what a page has not.

local NOT_HERE = {
  ["runnel.http"] = "sockets", ["runnel.nats"] = "sockets", ["runnel.prompt"] = "a terminal",
  ["runnel.sqlite"] = "files", ["runnel.store"] = "files", ["runnel.tls"] = "sockets",
  ["runnel.rn.file"] = "files", ["runnel.rn.metrics"] = "sockets", ["runnel.rn.thread"] = "threads",
  ["runnel.rn.profile"] = "timer of processor time", ["runnel.rn.traceparent"] = "sockets",
  ["luv"] = "files, sockets and processes", ["runnel.driver.luv"] = "files, sockets and processes",
  ["runnel.internal.threads.module_job"] = "threads", -- a pipeline that is given a module's name
  ["runnel.sim.nats.server"] = "runnel.nats", ["runnel.sim.http"] = "runnel.http",
}

---A loader that says so, for a module of which this is known.
---@param name string
---@return function?
return function(name)
  local what = NOT_HERE[name]
  if not what then return nil end
  return function()
    error(("%s does not run in a web page, which has no %s; it does in the executable (make, then build/bin/runnel)")
      :format(name:gsub("^runnel%.rn%.", "rn."), what), 3)
  end
end
