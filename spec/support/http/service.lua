---A service with all that programs put around their functions: supervision, a log, cookies, forms, compression, limits,
---and a proxy to a server behind. It changes no request and no response but by what these are for, so that what is true
---of http.serve must be true of it.

local http = require "runnel.http"
local rn = require "runnel"

local service = {}

---The function of such a service. A request with the cookie `session` gets its value back, and one to `/form` its form
---as JSON; all others go to f, with their bodies as they come.
---@param f fun(req: runnel.http.Request): integer, table?, any
---@return fun(req: runnel.http.Request): integer, table?, any
function service.around(f)
  local function form(req)
    local found, err, status = req:form { max_file = 100000, file = function(part)
      local size = 0
      for piece in part.read, part do size = size + #piece end
      return size
    end }
    if not found then return status, nil, err end
    return 200, nil, found.fields
  end
  local function page(req)
    if req.path == "/form" then return form(req) end
    if not req.cookies.session then return f(req) end
    return 200, { ["Set-Cookie"] = http.cookie("session", req.cookies.session) }, "known"
  end
  local limited = http.limit(http.within(page, { max = 1048576, timeout = 60000 }), 1000000000, 60000)
  return http.log(http.compress(limited), { to = function() end })
end

---Serves it, supervised, in front of another server.
---@param behind string the URL of a server
---@param opts? table of http.serve
---@return { port: integer, close: fun(), crash: fun() } served `crash` makes its go block fail; it is started again
function service.start(behind, opts)
  local ready, server, crashes = rn.chan(1), nil, nil
  local f = service.around(http.proxy(behind))
  local function child()
    local own <close> = assert(http.serve(server and server.port or 0, f, opts))
    server, crashes = own, rn.chan()
    ready:put(true)
    error(crashes:take(), 0)
  end
  local block = rn.go(rn.supervise, { { "service", child } }, { backoff = 1, ex_handler = function() end })
  ready:take()
  return {
    port = server.port,
    close = function()
      rn.cancel(block, "over")
      block:take()
    end,
    crash = function()
      crashes:put "a crash"
      ready:take()
    end,
  }
end

return service
