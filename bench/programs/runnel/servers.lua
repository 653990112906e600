-- Programs of make bench-programs that serve until SIGTERM ends them (main.lua). Each prints its port.

local rn = require "runnel"

local programs = {}

local function say(port)
  print("port " .. port)
  io.stdout:flush()
end

-- Serves the files of a folder.
function programs.files(dir)
  local http = require "runnel.http"
  say(assert(http.serve(0, http.files(dir))).port)
  rn.run()
end

-- Sends each message of a WebSocket back.
function programs.wsecho()
  local http = require "runnel.http"
  say(assert(http.serve(0, function(req)
    local conn, err, status, headers = req:websocket()
    if not conn then return status, headers, err end
    for message in conn:read() do conn:write(message) end
  end)).port)
  rn.run()
end

-- Sends each line that a client sends to all clients. A new one gets a line once it hears the others.
function programs.chat()
  local uv = require "runnel.uv"
  local conns, port = assert(uv.listen("127.0.0.1", 0))
  local lines = rn.chan()
  local all = rn.mult(lines)
  say(port)
  for conn in conns do
    rn.go(function()
      local _ <close> = conn
      local out = rn.chan(16)
      all:tap(out)
      conn:write "welcome\n"
      rn.go(function()
        for line in out do
          if not conn:write(line) then break end
        end
      end)
      for line in conn:lines() do lines:put(line .. "\n") end
      all:untap(out)
      out:close()
    end)
  end
end

-- Counts the lines that are appended to 50 files, until there are n; then writes their number and sum to `done`.
function programs.tail(dir, n)
  local uv = require "runnel.uv"
  local list, sum = {}, 0
  for i = 1, 50 do list[i] = uv.follow(("%s/%d.log"):format(dir, i)) end
  local lines = rn.merge(list)
  rn.sleep(100)
  say(1)
  for _ = 1, tonumber(n) do sum = sum + tonumber(lines:take():match "%d+") end
  lines:close()
  for _, ch in ipairs(list) do ch:close() end
  local file <close> = assert(io.open(dir .. "/done", "w"))
  file:write(("%d %d\n"):format(n, sum))
  file:close()
  rn.sleep(60000)
end

return programs
