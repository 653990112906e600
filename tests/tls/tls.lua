-- The scenarios of tests/tls/tls.c: contexts and sessions of TLS while allocations fail. Called with the number of a
-- scenario and the folder of a certificate; returns its name and a function that runs it, or nil if there is no such
-- scenario.

local number, folder = ...
local core = require "runnel.tls.core"
local arm = arm -- luacheck: globals arm

-- Long strings are made before allocations fail: Lua's buffers never work again if their first one finds no memory.
local LONG = ("x"):rep(40000)

local CERT, KEY = folder .. "/cert", folder .. "/key"

local function failed(err)
  assert(type(err) == "string" and err ~= "", "BROKEN: a failure without an error")
  error(err, 0)
end

local function server(more)
  local opts = { cert = CERT, key = KEY, alpn = { "h2", "http/1.1" } }
  for name, value in pairs(more or {}) do opts[name] = value end
  local context, err = core.context(true, opts)
  return context or failed(err)
end

local function client(more)
  local opts = { ca = CERT, alpn = { "http/1.1" } }
  for name, value in pairs(more or {}) do opts[name] = value end
  local context, err = core.context(false, opts)
  return context or failed(err)
end

-- Passes what one has to send to the other. Returns what that has read.
local function pass(from, to)
  local bytes = from:take()
  if not bytes then return nil end
  local text, state, why = to:receive(bytes)
  if state == "failed" then failed(why) end
  return text, state
end

local function shake(server_context, client_context, host)
  local s, c = core.session(server_context), core.session(client_context, host or "localhost")
  local _, state, why = c:receive()
  if state then failed(why) end
  for _ = 1, 4 do
    pass(c, s)
    pass(s, c)
  end
  assert(s:state() == "ready" and c:state() == "ready", "BROKEN: the handshake is not complete")
  return s, c
end

local SCENARIOS = {
  { "a context of a server, which is reloaded", function()
    local context = server { ca = CERT, more = { { cert = CERT, key = KEY } } }
    local ok, err = context:reload()
    if not ok then failed(err) end
  end },
  { "a handshake", function()
    local s, c = shake(server(), client())
    local info = c:info()
    assert(info.peer == "CN=localhost" and info.name == "localhost", "BROKEN: half of it")
    assert(info.protocol == "http/1.1", "BROKEN: half of it")
    assert(s:info().protocol == "http/1.1", "BROKEN: half of it")
  end },
  { "a handshake with the client's certificate", function()
    local s = shake(server { ca = CERT }, client { cert = CERT, key = KEY })
    assert(s:info().peer == "CN=localhost", "BROKEN: the client is unknown")
  end },
  { "texts both ways, and the end", function()
    local s, c = shake(server(), client())
    for from, to in pairs { [s] = c, [c] = s } do
      local bytes, err = from:send(LONG)
      local text, state, why = to:receive(bytes or failed(err))
      if state then failed(why) end
      assert(text == LONG, "BROKEN: a text was changed")
    end
    local _, state, why = s:receive(c:finish())
    if state == "failed" then failed(why) end
    assert(state == nil or state == "ended", "BROKEN: no end")
  end },
  { "a server with another name", function()
    local ok, err = pcall(shake, server(), client(), "example.org")
    assert(not ok, "BROKEN: any name is good")
    if err ~= "the certificate is for localhost, not for example.org" then failed(err) end
  end },
  { "a file that is not there", function()
    local context, err = core.context(true, { cert = folder .. "/none", key = KEY })
    assert(not context, "BROKEN: there is a context")
    if err ~= "cannot read " .. folder .. "/none: No such file or directory" then failed(err) end
  end },
}

local scenario = SCENARIOS[number]
if not scenario then return nil end

return scenario[1], function()
  arm(true)
  local ok, err = pcall(scenario[2])
  arm(false)
  assert(ok or type(err) == "string" and not err:find "BROKEN" and not err:find "attempt to", err)
  scenario[2]()
end
