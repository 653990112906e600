-- Run by websocket_oom.c: what sessions do while allocations fail. A call either raises and has done nothing, or
-- the session is lost and says so from then on; but it never makes another message of what has come.

local number = ...
local arm = arm -- luacheck: globals arm
local lib = require "runnel.websocket.core"

local MAX = 1 << 20
local LONG = ("0123456789 the same again "):rep(400)
local BITS, WAYS, CONTROLS = { 0, 15 }, { "text", "binary" }, { "ping", "pong" }
local MESSAGES = { "", "a", ("b"):rep(200), LONG, ("\u{20AC}"):rep(1000), ("c"):rep(70000) }

-- The bytes of a message to be sent: a long frame of a server has two parts.
local function sent(session, way, message)
  local bytes, more = session[way](session, message)
  return more and bytes .. more or bytes
end

-- Calls a function until it succeeds; it may fail while allocations do.
local function sure(f, ...)
  local ok, result = pcall(f, ...)
  while not ok do
    if not tostring(result):find "not enough memory" then error(result, 0) end
    arm(false)
    ok, result = pcall(f, ...)
    arm(true)
  end
  return result
end

-- The next event of a session, as a text; nil if more bytes are needed. Bytes that it had no memory for lose it.
local function convert(message, kind, a, b)
  if message then return kind and "binary", message end
  return kind, a, b
end

local function receive(session, bytes) return convert(session:receive(bytes)) end

local function next_event(session, bytes)
  local ok, kind, a, b = pcall(receive, session, bytes)
  if ok then return kind, a, b end
  arm(false)
  local again, first, second, third = pcall(receive, session)
  arm(true)
  if again and (first or second) then return first, second, third end
  return "lost" -- or the call has not even begun
end

-- Whether a message has come; nil if the session is lost.
local function check_events(session, bytes, message)
  local seen = false
  while true do
    local kind, a = next_event(session, bytes)
    bytes = nil
    if kind == "lost" then return nil end
    if kind == nil and a == nil then return seen end
    if kind == "failed" then error("the session calls right bytes wrong: " .. tostring(a)) end
    if kind == nil or kind == "binary" then
      assert(a == message, "a wrong message has come")
      seen = true
    end
  end
end

if number > 1 then return nil end

return "sessions of WebSocket", function()
  -- Lua drops a finalizer that it has no memory to call; so none runs while allocations fail.
  collectgarbage "stop"
  arm(true)
  for _, bits in ipairs(BITS) do
    for _, message in ipairs(MESSAGES) do
      for _, way in ipairs(WAYS) do
        for is_client = 1, 2 do
          local from = sure(lib.new, is_client == 1, MAX, bits)
          local to = sure(lib.new, is_client == 2, MAX, bits)
          local bytes = sure(sent, from, way, message)
          local half = #bytes // 2
          local first, second = sure(string.sub, bytes, 1, half), sure(string.sub, bytes, half + 1)
          if check_events(to, first, message) ~= nil then check_events(to, second, message) end
          for _, control in ipairs(CONTROLS) do sure(from[control], from, "x") end
          sure(from.close, from, 1000, "bye")
        end
      end
    end
  end
  sure(lib.key)
  sure(lib.accept, "dGhlIHNhbXBsZSBub25jZQ==")
  arm(false)
  collectgarbage "restart"

  -- With memory everything works.
  for _, bits in ipairs(BITS) do
    local from, to = lib.new(true, MAX, bits), lib.new(false, MAX, bits)
    for _, message in ipairs(MESSAGES) do assert(check_events(to, sent(from, "text", message), message)) end
  end
end
