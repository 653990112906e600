---What programs of simulated hosts are made of, for specs: servers that answer lines, clients that ask, small files.

local rn = require "runnel"

local has_luv, uv = pcall(require, "runnel.uv")

local hosts = { has_luv = has_luv, uv = has_luv and uv or nil }

---Calls f(conn) for each connection, in a go block of its own, and closes it then.
---@param f fun(conn: table)
---@param port? integer
function hosts.serve(f, port)
  for conn in assert(uv.listen("0.0.0.0", port or 80)) do
    rn.go(function()
      f(conn)
      conn:close()
    end)
  end
end

---Calls f(line) for each line of each connection, and sends what it returns; if that is nil, nothing.
---@param f fun(line: string): string?
---@param port? integer
function hosts.answer(f, port)
  hosts.serve(function(conn)
    local lines = conn:lines()
    while true do
      local line = lines:take()
      if not line then return end
      local text = f(line)
      if text then conn:write(text .. "\n") end
    end
  end, port)
end

---Sends a line, and returns the answer; or nil, if there is none.
---@param host string
---@param line string
---@param timeout? number ms
---@return string?
function hosts.ask(host, line, timeout)
  local conn <close> = uv.connect(host, 80, { timeout = timeout })
  if not conn or not conn:write(line .. "\n") then return nil end
  return (rn.alts { conn:lines(), timeout and rn.timeout(timeout) or nil })
end

---Asks until there is an answer.
---@param host string
---@param line string
---@param timeout? number ms
---@return string
function hosts.insist(host, line, timeout)
  for i = 1, 20 do
    local text = hosts.ask(host, line, timeout)
    if text then return text end
    rn.sleep(100 * i)
  end
  error("no answer of " .. host, 0)
end

---Writes a text to a file. Returns the number of bytes; or nil and an error.
---@param path string
---@param text string
---@param opts? { append?: boolean, sync?: boolean }
---@return integer? n
---@return string? err
function hosts.write(path, text, opts)
  local ch = rn.chan(1)
  ch:put(text)
  ch:close()
  return uv.write(path, ch, opts):take()
end

---The contents of a file; or nil, if it cannot be read.
---@param path string
---@return string?
function hosts.read(path)
  local parts, ch = {}, uv.read(path)
  while true do
    local chunk, err = ch:take()
    if err then return nil end
    if not chunk then return table.concat(parts) end
    parts[#parts + 1] = chunk
  end
end

return hosts
