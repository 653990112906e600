---A prompt in a running program: clients of its socket evaluate Lua in it, concurrently with its go blocks.
---
---    require("runnel.prompt").listen "/run/user/1000/app.sock"
---    -- and from a shell: socat READLINE UNIX-CONNECT:/run/user/1000/app.sock
---
---A complete chunk runs in a go block, so `ch:take()` may wait while the program continues. Its values are printed, and
---`print` writes to the client. A chunk that still waits when its client has gone is cancelled. Chunks share the
---program's globals; locals last until the client disconnects. The commands are those of the prompt of `runnel`:
---`:help` lists them.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local commands = require "runnel.prompt.commands"
local describe = require "runnel.prompt.describe"
local hint = require "runnel.prompt.hint"
local loop = require "runnel.uv.loop"
local pretty = require "runnel.prompt.pretty"
local reach = require "runnel.prompt.reach"
local session = require "runnel.prompt.session"
local raise = core.internal.raise
local recorder = core.internal.trace
local uv = require "runnel.uv"
local fs = require "luv"

local prompt = {}

local LONGEST_PATH = 107 -- bytes, of a socket's path

-- How much output is kept for a client that does not read. Further output is dropped.
local PATIENCE = 1024 * 1024

local BANNER = "runnel on " .. _VERSION .. "; :help lists the commands, :quit ends\n"

-- ---- output ----

-- Returns a function that writes to a connection without waiting, and can be called anywhere; and one that waits until
-- all output is written, and ends the connection.
local function writer(conn)
  local parts, size, wake = {}, 0, core.chan(core.dropping_buffer(1))
  local ended = core.go(function()
    for _ in wake do
      local text = table.concat(parts)
      parts, size = {}, 0
      if not conn:write(text) then break end
    end
  end)
  recorder.hide(wake)
  recorder.hide(ended)
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

local COLUMNS, ROWS = 100, 30 -- of the client's screen, whose size is unknown

local function traceback(err)
  if type(err) ~= "string" and not (debug.getmetatable(err) or {}).__tostring then
    local is_table = type(err) == "table"
    err = is_table and pretty.value(err, pretty.style(COLUMNS)) or ("(error object is a %s value)"):format(type(err))
  end
  -- Removes the prompt's own functions, which are below the chunk.
  local text = debug.traceback(core.internal.error_text(err), 2):gsub("\n%s+%[C%]: in %l+ 'xpcall'.*$", "")
  return (text:gsub("(\n\t%[%d+%]:%d+: in )function <%[%d+%]:1>$", "%1main chunk"))
end

local CHECKED = 200 -- ms between two looks at whether the client of a chunk that runs has gone
local GONE = "the client of the prompt has gone"
local PRIORITY = { priority = true }

-- connection -> the go block in which a chunk of its client runs
local running = setmetatable({}, { __mode = "k" })

-- Whether nobody is at the other end of a connection. A client that has sent all, and still reads, is there: only the
-- end of what it sends would not tell them apart. Writing nothing fails if nobody can read.
local function has_gone(conn)
  local handle = conn.handle
  if not handle then return true end
  loop.ignore_sigpipe()
  local _, _, name = handle:try_write ""
  return name == "EPIPE" or name == "ECONNRESET"
end

-- Calls a function as xpcall does, in a go block of its own, which is cancelled when the client has gone: it would take
-- values that nobody sees. Returns whether that was so, and the results.
local function call_for(conn, f)
  local results, is_cancelled, port, err
  local block = core.go(function() results = table.pack(xpcall(f, traceback)) end)
  local _ <close> = setmetatable({}, { __close = function() core.cancel(block, GONE) end })
  running[conn] = block
  repeat
    port, err = select(2, core.alts({ block, core.timeout(CHECKED) }, PRIORITY))
    if port ~= block and has_gone(conn) then
      is_cancelled = true
      core.cancel(block, GONE) -- again and again, if it does not end
    end
  until port == block
  running[conn] = nil
  is_cancelled = is_cancelled or not conn.handle
  if not results then return is_cancelled, false, core.internal.error_text(err) end
  return is_cancelled, table.unpack(results, 1, results.n)
end

-- The interface of a client for the commands.
local function interface(conn, own, write, lines)
  local tapped, ui
  local function say(text) write(text .. "\n") end
  local function called(is_cancelled, ...)
    ui.is_over = is_cancelled
    return ...
  end
  ui = {
    session = own, style = pretty.style(COLUMNS), print = say, complain = say,
    keys = "An empty line abandons what is incomplete.",
    is_over = false, -- what its client has typed is not run any more
    call = function(f) return called(call_for(conn, f)) end,
    size = function() return ROWS, COLUMNS end,
    paint = function(rows) say(rows and table.concat(rows, "\n") .. "\n" or "") end,
    key = function(ms)
      local line, port = core.alts { lines, core.timeout(ms) }
      if port ~= lines then return nil end
      return line or false -- the client has sent all, or has gone
    end,
    channels = reach,
    trace = function(ch, f)
      tapped = f and ch
      recorder.tap(ch, f)
    end,
    untrace = function()
      if tapped then recorder.tap(tapped, nil) end
    end,
  }
  return ui
end

-- Runs the chunks of a text.
local function run_all(ui, texts)
  local own = ui.session
  for _, text in ipairs(texts) do
    local chunk, err = own:compile(text)
    if not chunk then return ui.print(err) end
    local entry = own:note(chunk)
    local results = table.pack(ui.call(chunk.run))
    if ui.is_over then return end
    if not results[1] then
      entry.failed = true
      ui.print(results[2])
      local question = hint.of_error(own, results[2])
      if question then ui.print(question) end
    elseif results.n > 1 then
      local value = results[2]
      local is_function = results.n == 2 and type(value) == "function"
      ui.print(is_function and describe.func(own, value, text, COLUMNS)
        or pretty.values(ui.style, table.unpack(results, 2, results.n)))
      local question = results.n == 2 and value == nil and hint.of_chunk(own, text)
      if question then ui.print(question) end
      if chunk.has_value then own:keep(value) end
    end
  end
end

---Serves one client until it closes its side. For connections other than those of `listen`.
---@param conn table a connection of runnel.uv's
---@param env? table what chunks find besides the globals
function prompt.serve(conn, env)
  local write, finish = writer(conn)
  local globals = { print = function(...) write(joined(...)) end }
  local function lookup(key) -- without metamethods, which may raise
    local value = rawget(globals, key)
    if value == nil and env then value = rawget(env, key) end
    if value == nil then value = rawget(_G, key) end
    return value
  end
  local function index(_, key)
    local value = env and env[key]
    if value == nil then value = _G[key] end
    return value
  end
  -- Without `env` no function of this file is between the chunk and a metatable of the globals, as of strict.lua.
  setmetatable(globals, { __index = env and index or _G, __newindex = _G })
  local lines = conn:lines()
  local own = session.new(globals, globals, lookup)
  local ui = interface(conn, own, write, lines)
  local typed = commands.new(ui)
  local _ <close> = setmetatable({}, { __close = ui.untrace })
  local read
  write(BANNER)
  write(own:name() .. "> ")
  for line in lines do
    local is_command, ends, texts, err
    if not read then is_command, ends = typed:run(line) end
    if ends or ui.is_over then break end
    if not is_command and (read or line ~= "") then
      local held = read
      read = read or own:reader()
      texts, err = read(line)
      if held and line == "" and err == "incomplete" then err = "abandoned" end
      if err ~= "incomplete" then
        read = nil
        if texts then run_all(ui, texts) else ui.print(err) end
        if ui.is_over then break end
      end
    end
    write(read and ">> " or own:name() .. "> ", true)
  end
  lines:poll() -- takes the error of a killed client: it is not this program's error
  own.locals:close(ui.print)
  finish()
  conn:close()
end

-- ---- the socket ----

-- Removes the socket at a path if its program has ended; anything else there is an error.
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
  if #path > LONGEST_PATH then return nil, path .. " is too long for the path of a socket" end
  local ok, err = make_room(path)
  if not ok then return nil, err end
  return uv.listen(path, nil, { mode = tonumber("600", 8) })
end

---@class runnel.Prompt
---@field place string the path of the socket
---@field close fun(self: runnel.Prompt) ends it, and all clients; the socket's file is removed

---Listens for clients, and serves each, any number at a time.
---@param path string the path of a unix socket, which only this user can open
---@param env? table names for chunks in addition to the globals
---@return runnel.Prompt? prompt closes with `<close>`, too
---@return string? err
function prompt.listen(path, env)
  if type(path) ~= "string" then
    local got = path == nil and "nothing" or type(path) == "number" and tostring(path) or "a " .. type(path)
    raise("listen: the path of a socket expected, got " .. got)
  end
  check.no_zero(path, "listen: the path")
  if env ~= nil then check.table(env, "listen: env") end
  local clients, err = listen_private(path)
  if not clients then return nil, err end
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
  local self = { place = path }
  function self.close()
    clients:close()
    for conn in pairs(open) do
      conn:close()
      if running[conn] then core.cancel(running[conn], GONE) end
    end
  end
  return (setmetatable(self, { __close = self.close }))
end

return prompt
