-- Checks a list of web pages, N at a time, and prints the results as a table. Needs luv.
--
--     lua5.4 examples/httpcheck.lua [-n N] [-t MS] [-r RETRIES] [URL...]
--     printf 'http://localhost/\nhttp://localhost:8080/health\n' | lua5.4 examples/httpcheck.lua -n 20
--
-- Without arguments it reads URLs from standard input, one a line. Each attempt may take MS milliseconds, by default
-- 5000. An attempt that fails, or gets a status of 500 or more, is repeated up to RETRIES times, by default 2, after
-- 100 ms, 200 ms and so on. The protocol is HTTP/1.1 without encryption. The exit status is 1 if a page could not be
-- fetched, or has a status of 400 or more.

local rn = require "runnel"
local uv = require "runnel.uv"

local BACKOFF = 100 -- ms before the first retry; doubles with each retry

local USAGE = [[
usage: lua5.4 examples/httpcheck.lua [-n N] [-t MS] [-r RETRIES] [URL...]
  N: pages at a time, a whole number from 1; 10 by default
  MS: how long an attempt may take; 5000 by default
  RETRIES: attempts after the first, a whole number from 0; 2 by default
  URL: as in http://host[:port]/path; without arguments, URLs are read from standard input
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

-- ---- HTTP ----

local function parse(url)
  local host, rest = url:match "^[Hh][Tt][Tt][Pp]://([^/?#]+)([^#]*)"
  if not host then return nil, "not an http:// URL" end
  local port
  host, port = host:match "^(.-):?(%d*)$"
  if host:find "^%[.*%]$" then host = host:sub(2, -2) end
  port = port == "" and 80 or tonumber(port)
  if host == "" or port > 65535 then return nil, "invalid host or port" end
  return { host = host, port = port, path = rest:find "^/" and rest or "/" .. rest, name = url:match "//([^/?#]+)" }
end

-- Reads from a connection: lines, or a number of bytes.
local function reader(conn)
  local chunks, held = conn:read(), ""
  local self = {}

  local function more()
    local chunk, err = chunks:take()
    if not chunk then error(err or "the server closed the connection in the middle of its answer", 0) end
    held = held .. chunk
  end

  function self.line()
    local at = held:find("\n", 1, true)
    while not at do
      if #held > 65536 then error("a header line of the answer is too long", 0) end
      more()
      at = held:find("\n", 1, true)
    end
    local line = held:sub(1, at - 1):gsub("\r$", "")
    held = held:sub(at + 1)
    return line
  end

  -- Skips n bytes.
  function self.skip(n)
    while #held < n do
      n, held = n - #held, ""
      more()
    end
    held = held:sub(n + 1)
  end

  -- Skips all bytes until the connection ends; returns how many.
  function self.rest()
    local n = #held
    for chunk in chunks do n = n + #chunk end
    return n
  end

  return self
end

-- The status line and the headers.
local function read_head(from)
  local line = from.line()
  local status = line:match "^HTTP/1%.%d (%d%d%d)"
  if not status then error("not an HTTP/1.1 server", 0) end
  local headers = {}
  for header in from.line do
    if header == "" then break end
    local name, value = header:match "^([^:%s]+):%s*(.-)%s*$"
    if name then headers[name:lower()] = value end
  end
  return tonumber(status), headers
end

-- Reads the body; returns its length.
local function read_body(from, status, headers)
  if status == 204 or status == 304 then return 0 end
  if (headers["transfer-encoding"] or ""):lower():find "chunked" then
    local size = 0
    while true do
      local n = tonumber(from.line():match "^%s*(%x+)", 16)
      if not n then error("a chunk of the answer has no length", 0) end
      if n == 0 then return size end
      from.skip(n)
      from.line()
      size = size + n
    end
  end
  local length = math.tointeger(tonumber(headers["content-length"]))
  if not length then return from.rest() end
  from.skip(length)
  return length
end

-- Gets a page over a new connection, or raises an error. Passes the connection to `keep`, which may refuse it.
local function get(url, keep)
  local conn, err = uv.connect(url.host, url.port)
  if not conn then error(err, 0) end
  if not keep(conn) then return end
  conn:write(("GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: runnel\r\nAccept: */*\r\nConnection: close\r\n\r\n")
    :format(url.path, url.name))
  local from = reader(conn)
  local status, headers
  repeat
    status, headers = read_head(from)
  until status >= 200
  return { status = status, bytes = read_body(from, status, headers) }
end

-- ---- checking ----

-- Makes one attempt within `ms`. Returns a page, or nil and an error.
local function attempt(url, ms)
  local conn, over = nil, false
  local answer = rn.go(function()
    local ok, page = pcall(get, url, function(opened)
      conn = opened
      if over then conn:close() end
      return not over
    end)
    return { page = ok and page, err = not ok and tostring(page) }
  end)
  local result = rn.alts { answer, rn.timeout(ms) }
  over = true
  if conn then conn:close() end
  if not result then return nil, ("no answer within %g ms"):format(ms) end
  return result.page or nil, result.err
end

local function check(text, ms, retries)
  local start = rn.now()
  local row = { url = text, tries = 0 }
  local url, problem = parse(text)
  repeat
    if row.tries > 0 then rn.sleep(BACKOFF * 2 ^ (row.tries - 1)) end
    row.page, row.err = nil, problem
    if not url then break end
    row.tries = row.tries + 1
    row.page, row.err = attempt(url, ms)
  until row.page and row.page.status < 500 or row.tries > retries
  row.ms = rn.now() - start
  return row
end

-- ---- the command line ----

local options, urls = { ["-n"] = 10, ["-t"] = 5000, ["-r"] = 2 }, {}
local i = 1
while arg[i] do
  if options[arg[i]] then
    options[arg[i]] = tonumber(arg[i + 1]) or usage()
    i = i + 1
  elseif arg[i]:find "^%-" then
    usage()
  else
    urls[#urls + 1] = arg[i]
  end
  i = i + 1
end
local n, ms, retries = math.tointeger(options["-n"]), options["-t"], math.tointeger(options["-r"])
if not n or n < 1 or not (ms > 0 and ms < math.huge) or not retries or retries < 0 then usage() end

local source = #urls > 0 and rn.to_chan(urls) or uv.lines(0)
local wanted = rn.pipe(source, rn.chan(1, rn.xf.filter(function(line) return line:find "%S" end)))
local rows = rn.pmap(n, function(url) return check(url, ms, retries) end, wanted)
local interrupted = uv.signal("int", "term")
local status = 0

print(("%-6s  %8s  %8s  %5s  %s"):format("status", "ms", "bytes", "tries", "URL"))
while true do
  local row, port = rn.alts({ interrupted, rows }, { priority = true })
  if port == interrupted then
    status = 130
    break
  elseif not row then
    break
  end
  local page = row.page or { status = "-", bytes = "-" }
  if not row.page or page.status >= 400 then status = 1 end
  print(("%-6s  %8.0f  %8s  %5d  %s%s"):format(page.status, row.ms, page.bytes, row.tries, row.url,
    row.err and ": " .. row.err or ""))
  io.stdout:flush()
end
os.exit(status, true)
