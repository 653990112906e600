---A program with a monitor, in a process of its own, and requests to it. The requests use bash, which can open TCP
---connections, so that no library is needed.

local json = require "dkjson"
local patience = require "spec.support.patience"
local quote = require("spec.support.shell").quote

local monitored = {}

-- Runs a bash script, with a connection to the port as descriptor 3, for at most some seconds. Returns its output.
local function bash(port, seconds, script)
  local command = ("exec 3<>/dev/tcp/127.0.0.1/%d && %s"):format(port, script)
  local limited = ("timeout %d bash -c %s 2>&1"):format(patience.seconds(seconds), quote(command))
  local pipe <close> = assert(io.popen(limited))
  return pipe:read "a"
end

---Sends a request and reads the answer.
---@param port integer
---@param head string the request line and headers, one a line; HTTP/1.1 gets a header Host if there is none
---@param body? string
---@param seconds? number how long to read; default 10
---@return integer? status nil if there was no answer
---@return string answer with its headers
function monitored.request(port, head, body, seconds)
  local lines = {}
  for line in head:gmatch "[^\n]+" do lines[#lines + 1] = line end
  if not head:find "\nHost:" and not head:find "HTTP/1%.0" then lines[#lines + 1] = "Host: 127.0.0.1:" .. port end
  lines[#lines + 1] = "Connection: close"
  if body then
    lines[#lines + 1] = "Content-Type: application/x-www-form-urlencoded"
    lines[#lines + 1] = "Content-Length: " .. #body
  end
  local text = table.concat(lines, "\r\n") .. "\r\n\r\n" .. (body or "")
  local answer = bash(port, seconds or 10, ("printf %%s %s >&3 && cat <&3"):format(quote(text)))
  return math.tointeger(tonumber(answer:match "^HTTP/1.1 (%d+)")), answer
end

local function contents(path)
  local file <close> = io.open(path)
  return file and file:read "a"
end

---@class spec.Monitored
local Program = {}
Program.__index = Program

---Runs a program, whose text may use `rn` and `monitor`, and must begin with a call of `listen(port, opts)`. It can
---wait for the spec: told() says whether the spec has called the program's `tell`.
---@param text string
---@param period? integer ms between two snapshots; by default a tenth of the usual time
---@return spec.Monitored
function monitored.start(text, period)
  local prelude = [[
    local rn = require "runnel"
    local monitor = require "runnel.monitor"
    local server_module = require "runnel.monitor.core"
    local start = server_module.start
    function server_module.start(watch, port, control, program) return start(watch, port, control, program, %d) end
    local function listen(...)
      local m = assert(monitor.listen(...))
      print(m.url)
      io.stdout:flush()
      return m
    end
    local function told()
      local sign <close> = io.open %q
      return sign ~= nil
    end
  ]]
  local sign = os.tmpname()
  os.remove(sign)
  local lua = os.getenv "LUA" or "lua5.4"
  local out = io.popen(("echo $$; exec %s -e %s 2>&1"):format(lua, quote(prelude:format(period or 50, sign) .. text)))
  local pid, url = out:read(), out:read()
  local port, token = (url or ""):match "^http://127%.0%.0%.1:(%d+)/%?token=(%x+)$"
  if not port then error("no URL: " .. tostring(url)) end
  local self = { out = out, pid = pid, sign = sign, url = url, port = math.tointeger(tonumber(port)), token = token }
  return setmetatable(self, Program)
end

---Makes told() true in the program.
function Program:tell() assert(io.open(self.sign, "w")):close() end

---The status and text of a request; a `?` in the path gets the token.
function Program:get(path, headers)
  path = path:gsub("%?", "?token=" .. self.token)
  return monitored.request(self.port, ("GET %s HTTP/1.1\n%s"):format(path, headers or ""))
end

function Program:post(path, body, headers)
  path = path:gsub("%?", "?token=" .. self.token)
  return monitored.request(self.port, ("POST %s HTTP/1.1\n%s"):format(path, headers or ""), body)
end

---Makes n equal requests, one after another, in one process: much faster than with `post`. Returns their statuses.
---@return integer[]
function Program:post_often(n, path, body)
  path = path:gsub("%?", "?token=" .. self.token)
  local request = ("POST %s HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\nConnection: close\\r\\n"
    .. "Content-Type: application/x-www-form-urlencoded\\r\\nContent-Length: %d\\r\\n\\r\\n%s"):format(path,
    self.port, #body, body)
  local script = ([[for i in {1..%d}; do
      exec 4<>/dev/tcp/127.0.0.1/%d; printf '%s' >&4; read -r line <&4; echo "$line"; exec 4>&-
    done]]):format(n, self.port, request)
  local statuses = {}
  for status in bash(self.port, 60, script):gmatch "HTTP/1.1 (%d+)" do
    statuses[#statuses + 1] = math.tointeger(tonumber(status))
  end
  return statuses
end

---Opens the stream of events, and pipes it to this command, for example "cat <&3". Returns a function that waits for
---the end of the command, at most a minute and a half, and returns its output.
function Program:stream(command)
  -- HTTP/1.0 has no chunks, whose marks would be in the output.
  local head = ("GET /events?token=%s HTTP/1.0\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n"):format(self.token, self.port)
  local script = ("exec 3<>/dev/tcp/127.0.0.1/%d; printf '%s' >&3; %s"):format(self.port, head, command)
  local pipe = io.popen(("timeout %d bash -c %s"):format(patience.seconds(90), quote(script)))
  return function()
    local text = pipe:read "a"
    pipe:close()
    return (text:gsub("^HTTP.-\r\n\r\n", ""))
  end
end

---Opens the stream of events, and returns after the first one: later ones have the results of commands. The rest is as
---for `stream`, up to a line that matches this pattern of sed.
---@param pattern string
---@param first? string a pattern of Lua for the first event; by default any
---@return fun(): string finish
---@return fun(): boolean has_come whether the line with the pattern has come
function Program:open_stream(pattern, first)
  local path = os.tmpname()
  local finish = self:stream(("tee %s <&3 | { sed -u '/%s/q'; rm %s; }"):format(path, pattern, path))
  local function has_come() return contents(path) == nil end
  assert(patience.wait_until(function() return has_come() or contents(path):find(first or "\ndata") end))
  return finish, has_come
end

---The events up to a line that matches this pattern of sed.
---@return string text
function Program:events_until(pattern) return self:stream(("sed -u '/%s/q' <&3"):format(pattern))() end

---This many messages.
---@return string text
function Program:events(n) return self:stream(("grep -m %d '^data: {.' <&3"):format(n))() end

---Tells the program to continue, and waits for its end; returns its output.
function Program:finish()
  self:tell()
  return self:wait()
end

---Waits for the program's end; returns its output.
function Program:wait()
  local text = self.out:read "a"
  self:close()
  return text
end

-- Whether the process has ended: it is gone, or a zombie.
local function has_ended(pid)
  local file <close> = io.open(("/proc/%d/stat"):format(pid))
  return not file or file:read("a"):find "^%d+ %b() Z" ~= nil
end

---Ends the program, unless it has ended: as Ctrl-C does, so that it closes its state, or by force after some seconds.
function Program:close()
  if io.type(self.out) ~= "file" then return end
  if not has_ended(self.pid) then
    os.execute("kill -INT " .. self.pid)
    if not patience.wait_until(function() return has_ended(self.pid) end) then os.execute("kill " .. self.pid) end
  end
  os.remove(self.sign)
  self.out:close()
end

---For a spec: a function that starts a program, and one to call after each test, which closes it.
---@return fun(text: string, period: integer?): table start
---@return fun() stop
function monitored.starter()
  local program
  local function start(text, period)
    program = monitored.start(text, period)
    return program
  end
  local function stop()
    if program then program:close() end
    program = nil
  end
  return start, stop
end

---The messages of a stream's text, decoded; without the {} of its end.
---@param text string
---@return table[]
function monitored.messages(text)
  local list = {}
  for line in text:gmatch "data: ({\".-})\n" do list[#list + 1] = assert(json.decode(line)) end
  return list
end

---The newest rows of some messages, by kind: 0 channels, 1 fills, 2 go blocks, 3 edges; and the texts.
---@param list table[]
function monitored.rows_of(list)
  local rows, texts = { [0] = {}, {}, {}, {} }, {}
  for _, message in ipairs(list) do
    for _, text in ipairs(message.n) do texts[text[1]] = text[2] end
    for _, row in ipairs(message.u) do rows[row[1]][row[2]] = row end
    for _, gone in ipairs(message.d or {}) do rows[gone[1]][gone[2]] = nil end
  end
  return rows, texts
end

return monitored
