-- Checks a list of web pages, N at a time, and prints the results as a table. Needs luv and libcurl.
--
--     lua5.4 examples/httpcheck.lua [-n N] [-t MS] [-r RETRIES] [URL...]
--     lua5.4 examples/httpcheck.lua -n 20 < examples/urls.txt
--
-- Without URLs as arguments it reads them from standard input, one a line. Each attempt may take MS milliseconds, by
-- default 5000. An attempt that fails, or gets a status of 500 or more, is repeated up to RETRIES times, by default 2,
-- after 100 ms, 200 ms and so on. Redirects are not followed. The exit status is 1 if a page could not be fetched, or
-- has a status of 400 or more.

local rn = require "runnel"
local http = require "runnel.http"
local uv = require "runnel.uv"
local luv = require "luv"

local BACKOFF = 100 -- ms before the first retry; doubles with each retry

local USAGE = [[
usage: lua5.4 examples/httpcheck.lua [-n N] [-t MS] [-r RETRIES] [URL...]
  N: pages at a time, a whole number from 1; 10 by default
  MS: how long an attempt may take; 5000 by default
  RETRIES: attempts after the first, a whole number from 0; 2 by default
  URL: as in https://host[:port]/path; without URLs, they are read from a file or a pipe, one a line:
    lua5.4 examples/httpcheck.lua < examples/urls.txt
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

-- ---- checking ----

local function check(url, ms, retries)
  local start = rn.now()
  local row = { url = url, tries = 0 }
  repeat
    if row.tries > 0 then rn.sleep(BACKOFF * 2 ^ (row.tries - 1)) end
    row.tries = row.tries + 1
    row.page, row.err = http.get(url, { timeout = ms, redirects = 0 })
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

if #urls == 0 and luv.guess_handle(0) == "tty" then usage() end -- nobody types a list of URLs

local source = #urls > 0 and rn.to_chan(urls) or uv.lines(0)
local wanted = rn.pipe(source, rn.chan(1, rn.xf.filter(function(line) return line:find "%S" end)))
local rows = rn.pmap(n, function(url) return check(url, ms, retries) end, wanted)
local interrupted = uv.signal("int", "term")
local status, checked = 0, 0

print(("%-6s  %8s  %8s  %5s  %s"):format("status", "ms", "bytes", "tries", "URL"))
while true do
  local row, port = rn.alts({ interrupted, rows }, { priority = true })
  if port == interrupted then
    status = 130
    break
  elseif not row then
    break
  end
  checked = checked + 1
  local page = row.page or { status = "-" }
  local bytes = row.page and #page.body or "-"
  if not row.page or page.status >= 400 then status = 1 end
  print(("%-6s  %8.0f  %8s  %5d  %s%s"):format(page.status, row.ms, bytes, row.tries, row.url,
    row.err and ": " .. tostring(row.err) or ""))
  io.stdout:flush()
end
if checked == 0 and status == 0 then
  io.stderr:write "httpcheck: standard input has no URL\n"
  usage()
end
os.exit(status, true)
