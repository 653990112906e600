---A prompt for a program while it runs: whoever connects to its socket evaluates Lua in it, beside its go blocks.
---
---    require("runnel.prompt").listen "/run/user/1000/app.sock"
---    -- and from a shell: socat READLINE UNIX-CONNECT:/run/user/1000/app.sock
---
---A line is evaluated when it is complete; values are printed, and `print` prints here. Each chunk runs in a go block,
---so that `ch:take()` waits while all else goes on. What is global is the program's.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local uv = require "runnel.uv"
local fs = require "luv"

local prompt = {}

local LONGEST_PATH = 107 -- of a socket

-- What may wait for a client that does not read; then its output is lost.
local PATIENCE = 1024 * 1024

local BANNER = "runnel on " .. _VERSION .. "; an empty line abandons what is incomplete, end of file ends\n"

-- ---- output ----

-- A function that writes to a connection without ever waiting, from wherever it is called; and one that waits until all
-- is written, and ends it.
local function writer(conn)
  local parts, size, wake = {}, 0, core.chan(core.dropping_buffer(1))
  local ended = core.go(function()
    for _ in wake do
      local text = table.concat(parts)
      parts, size = {}, 0
      if not conn:write(text) then break end
    end
  end)
  local function write(text, essential)
    if size > PATIENCE and not essential then return end
    size = size + #text
    if size > PATIENCE and not essential then text = "\n... (output is lost)\n" end
    parts[#parts + 1] = text
    wake:offer(true)
  end
  local function finish()
    wake:close()
    ended:take()
  end
  return write, finish
end

local function joined(...)
  local words = table.pack(...)
  for i = 1, words.n do words[i] = tostring(words[i]) end
  return table.concat(words, "\t") .. "\n"
end

-- ---- evaluation ----

-- Compiles an expression or statements. Returns a function, or nil, an error, and whether more lines may mend it.
local function compile(text, env)
  local f = load("return " .. text, "=prompt", "t", env)
  if f then return f end
  local err
  f, err = load(text, "=prompt", "t", env)
  return f, err, err and err:find "<eof>$" ~= nil
end

-- Values and errors, as they are printed.
local function shown(ok, ...)
  if ok and select("#", ...) == 0 then return "" end
  return joined(...)
end

local function traceback(err)
  if type(err) ~= "string" and not (getmetatable(err) or {}).__tostring then return err end
  -- What is below the chunk is ours.
  return (debug.traceback(tostring(err), 2):gsub("\n%s+%[C%]: in function 'xpcall'.*$", ""))
end

---Serves one client, until it ends its side. For other kinds of connections than `listen` makes.
---@param conn table a connection of runnel.uv's
---@param env? table what chunks find besides the globals
function prompt.serve(conn, env)
  local write, finish = writer(conn)
  local own = { print = function(...) write(joined(...)) end }
  local scope = setmetatable(own, {
    __index = function(_, key)
      local value = env and env[key]
      if value == nil then value = _G[key] end
      return value
    end,
    __newindex = _G,
  })
  local held = "" -- lines that are not complete yet
  write(BANNER)
  write "> "
  for received in conn:lines() do
    local line = received:gsub("\r$", "")
    local text = held == "" and line or held .. "\n" .. line
    local f, err, incomplete = compile(text, scope)
    held = ""
    if incomplete and line ~= "" then
      held = text
    elseif f then
      write(shown(xpcall(f, traceback)))
    else
      write(err .. "\n")
    end
    write(held == "" and "> " or ">> ", true)
  end
  finish()
  conn:close()
end

-- ---- the socket ----

-- Makes room for a socket: what is at its path may be that of a program which has ended, and nothing else.
local function make_room(path)
  local found = fs.fs_lstat(path)
  if not found then return true end
  if found.type ~= "socket" then return false, path .. " exists, and is no socket" end
  local conn, err = uv.connect(path)
  if conn then
    conn:close()
    return false, path .. " is in use by another program"
  end
  ---@cast err string
  if not err:find "ECONNREFUSED" then return false, err end
  return fs.fs_unlink(path)
end

local function listen_private(path)
  if #path > LONGEST_PATH then return nil, nil, path .. " is too long for the path of a socket" end
  local ok, err = make_room(path)
  if not ok then return nil, nil, err end
  return uv.listen(path, nil, { mode = tonumber("600", 8) })
end

---@class runnel.Prompt
---@field place string where it is
---@field close fun(self: runnel.Prompt) ends it, and all clients; the socket's file is removed

---Listens for clients, and serves each, any number at a time.
---@param place string|integer the path of a unix socket, which only this user can open; or, if it must be, a port on
---127.0.0.1, where everybody on this machine is let in
---@param env? table what chunks find besides the globals
---@return runnel.Prompt? prompt closes with `<close>`, too
---@return string? err
function prompt.listen(place, env)
  local is_port = math.type(place) == "integer" and place >= 0 and place < 65536
  if not is_port and type(place) ~= "string" then
    local got = place == nil and "nothing" or type(place) == "number" and tostring(place) or "a " .. type(place)
    error("listen: a path or a port expected, got " .. got, 2)
  end
  if env ~= nil then check.table(env, "listen: env") end
  local clients, where, err
  if is_port then
    ---@cast place integer
    clients, where, err = uv.listen("127.0.0.1", place)
  else
    ---@cast place string
    clients, where, err = listen_private(place)
  end
  if not where then return nil, err end
  ---@cast clients -?
  local open = {}
  core.go(function()
    for conn in clients do
      core.go(function()
        open[conn] = true
        prompt.serve(conn, env)
        open[conn] = nil
      end)
    end
  end)
  local self = { place = is_port and "127.0.0.1, port " .. where or place }
  function self.close()
    clients:close()
    for conn in pairs(open) do conn:close() end
  end
  return (setmetatable(self, { __close = self.close }))
end

return prompt
