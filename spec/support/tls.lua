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

-- Makes a certificate and a key of the authority in a folder.
local function certify(folder, name, files, opts)
  local at = folder.path
  folder:write("names", "subjectAltName=" .. opts.names .. "\n" .. (opts.extensions or ""))
  openssl("req %s -nodes -subj /CN=%s -keyout %s/%s -out %s/request", opts.kind or KEY, name, at, files[2], at)
  if opts.from then -- of the commands of openssl 3.0 only `ca` can say from when on
    folder:write("ca.conf", ([[
      [ca]
      default_ca = one
      [one]
      database = %s/index
      new_certs_dir = %s
      default_md = sha256
      rand_serial = yes
      policy = any
      [any]
      commonName = supplied
    ]]):format(at, at))
    folder:write("index", "")
    return openssl("ca -batch -config %s/ca.conf -in %s/request -cert %s/ca -keyfile %s/ca_key "
      .. "-startdate %s -days 2 -extfile %s/names -notext -out %s/%s", at, at, at, at, opts.from, at, at, files[1])
  end
  -- Without -CAserial openssl keeps the number in a file that it shares with other folders: of the path it drops all
  -- that follows a dot.
  openssl("x509 -req -in %s/request -CA %s/%s -CAkey %s/%s -CAserial %s/serial -CAcreateserial -days %d "
    .. "-extfile %s/names -out %s/%s", at, at, opts.ca or "ca", at, opts.ca_key or "ca_key", at, opts.days or 2, at, at,
    files[1])
end

---Makes a certificate NAME and its key NAME_key, signed by the authority of a folder.
---@param folder { path: string } of tls.folder
---@param name string its subject
---@param opts? { names?: string, days?: integer, from?: string, extensions?: string, ca?: string, ca_key?: string,
---kind?: string } `names`: as in "DNS:localhost,IP:127.0.0.1"; `days`: how long it is valid, from now on; 0: it has
---expired (openssl 3.5 refuses a negative number); `from`: since when instead, as in "20491231235958Z"; `extensions`:
---lines for openssl; `ca`: the files of another authority; `kind`: arguments of openssl for the key
---@return string cert the path
---@return string key
function tls.certify(folder, name, opts)
  opts = opts or {}
  certify(folder, name, { name, name .. "_key" }, setmetatable({ names = opts.names or "DNS:" .. name },
    { __index = opts }))
  return folder.path .. "/" .. name, folder.path .. "/" .. name .. "_key"
end

---Makes a certificate NAME that its key NAME_key has signed itself.
---@param folder { path: string } of tls.folder
---@param name string
---@return string cert the path
---@return string key
function tls.self_signed(folder, name)
  local path = folder.path .. "/" .. name
  openssl("req -x509 %s -nodes -days 2 -subj /CN=%s -keyout %s_key -out %s", KEY, name, path, path)
  return path, path .. "_key"
end

---Makes a new folder with an authority (`ca`), the certificate and key of a server called localhost (`cert`, `key`),
---and those of a client (`client`, `client_key`; and `locked_key`, with the password "secret").
---@return { path: string } folder a to-be-closed variable removes it
function tls.folder()
  local folder = process.directory()
  local at = folder.path
  openssl("req -x509 %s -nodes -days 2 -subj /CN=authority -keyout %s/ca_key -out %s/ca", KEY, at, at)
  certify(folder, "localhost", { "cert", "key" }, { names = "DNS:localhost" })
  certify(folder, "client", { "client", "client_key" }, { names = "DNS:localhost" })
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
