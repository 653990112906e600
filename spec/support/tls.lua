---Certificates and servers that speak TLS, for specs; with openssl and nghttpd.

local rn = require "runnel"
local free_port = require "spec.support.free_port"
local process = require "spec.support.process"
local uv = require "runnel.uv"

local tls = {}

---Whether a program can be started.
---@param name string
function tls.has(name) return os.execute("command -v " .. name .. " >/dev/null") == true end

local function openssl(arguments, ...)
  assert(os.execute(("openssl " .. arguments .. " >/dev/null 2>&1"):format(...)), arguments)
end

local KEY <const> = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "

---Makes a new folder with an authority (`ca`), the certificate and key of a server called localhost (`cert`, `key`),
---and those of a client (`client`, `client_key`; and `locked_key`, with the password "secret").
---@return { path: string } folder a to-be-closed variable removes it
function tls.folder()
  local folder = process.directory()
  local at = folder.path
  openssl("req -x509 %s -nodes -days 2 -subj /CN=authority -keyout %s/ca_key -out %s/ca", KEY, at, at)
  folder:write("names", "subjectAltName=DNS:localhost\n")
  for name, files in pairs { localhost = { "key", "cert" }, client = { "client_key", "client" } } do
    openssl("req %s -nodes -subj /CN=%s -keyout %s/%s -out %s/request", KEY, name, at, files[1], at)
    -- Without -CAserial openssl keeps the number in a file that it shares with other folders: of the path it drops all
    -- that follows a dot.
    openssl("x509 -req -in %s/request -CA %s/ca -CAkey %s/ca_key -CAserial %s/serial -CAcreateserial -days 2 "
      .. "-extfile %s/names -out %s/%s", at, at, at, at, at, at, files[2])
  end
  openssl("pkey -in %s/client_key -aes128 -passout pass:secret -out %s/locked_key", at, at)
  return folder
end

---Starts a server on a free port, and waits until it listens.
---@param command fun(port: integer): table for uv.spawn
---@return integer port
---@return { program: runnel.uv.Process } server a to-be-closed variable ends it
function tls.serve(command)
  local server = {}
  setmetatable(server, { __close = function()
    server.program:kill "kill"
    server.program.exit:take()
  end })
  for _ = 1, 10 do
    local port = free_port()
    server.program = assert(uv.spawn(command(port)))
    for _ = 1, 600 do
      local conn = uv.connect("127.0.0.1", port)
      if conn then conn:close() end
      if server.program.exit:poll() then break end -- another program has the port
      if conn then return port, server end
      rn.sleep(50)
    end
    if not server.program.exit:poll() then break end
  end
  server.program:kill "kill"
  error "the server does not listen"
end

---The command of openssl's server, which answers each request with a page about the connection.
---@param folder { path: string } of tls.folder
---@param ... string further arguments
function tls.s_server(folder, ...)
  local more = { ... }
  return function(port)
    return { "openssl", "s_server", "-quiet", "-www", "-accept", "127.0.0.1:" .. port, "-key", folder.path .. "/key",
      "-cert", folder.path .. "/cert", stdout = false, stderr = false, table.unpack(more) }
  end
end

return tls
