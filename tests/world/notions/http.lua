---An HTTP server, and clients whose requests it answers in several ways.

local rn = require "runnel"
local has_http, http = pcall(require, "runnel.http")

local notion = { name = "http", hosts = 2 }

function notion.missing()
  if not has_http or not pcall(require, "runnel.http.curl") then return "runnel.http is not built" end
end

function notion.blocks(random) return ({ { "client" }, { "client", "client" }, { "client", "server" },
  { "client", "client", "server" } })[random(4)] end

notion.roles = {
  client = { "get", "get", "post", "stream", "upload", "cancelled", "sleep" },
  server = { "drain", "close", "sleep", "release", "release" },
}

local PATHS = { "ok", "json", "none", "raises", "slow", "held", "body", "pieces", "fails", "unread", "status",
  "no_status",
  "closed", "head" }

function notion.setup(env)
  local state = env.state
  env.other_words = true
  state.held = rn.chan()
  local handlers = {
    ok = function(req) return 200, { ["x-a"] = "1" }, req.method .. " " .. (req.query.q or "-") end,
    json = function(req) return 200, nil, { got = req:json() or "nothing" } end,
    none = function() return 204 end,
    raises = function() error "no" end,
    slow = function() rn.sleep(15) return 200, nil, "slow" end,
    held = function() return 200, nil, env:within(state.held.take, state.held) end,
    body = function(req) return 200, nil, req:body() end,
    pieces = function() return 200, nil, rn.to_chan { "a", "b", "c" } end,
    fails = function()
      local ch = rn.chan()
      rn.go(function()
        ch:put "a"
        ch:close "the body has failed"
      end)
      return 200, nil, ch
    end,
    unread = function() return 200, nil, "unread" end,
    status = function() return 404, nil, "nothing here" end,
    no_status = function() return "x" end,
    closed = function() state.server:close() return 200, nil, "closed" end,
    head = function() return 302, { location = "/ok" } end,
  }
  state.server = assert(http.serve(0, function(req) return handlers[req.path:sub(2)](req) end,
    { host = env.is_real and "127.0.0.1" or "0.0.0.0", timeout = 30, drain_on_term = false }))
  state.url = ("http://%s:%d/"):format(env.server, state.server.port)
  env:at_end(function()
    state.server:close()
    http.close_idle()
  end)
end

local function told(res, err, more)
  if type(res) ~= "table" then return res, err, more and more.status end
  return res.status, res.headers["x-a"], res.headers["content-type"], res.body
end

local function draw(random) return { path = PATHS[random(#PATHS)], fail = random(4) == 1 } end

local BODIES = { "text", "", "", ("b"):rep(200000) }

notion.operations = {
  get = { draw = draw, perform = function(op, env)
    return told(http.get(env.state.url .. op.path, { fail = op.fail, timeout = 40, query = { q = "q" } }))
  end },
  post = {
    draw = function(random) return { path = PATHS[random(#PATHS)], body = random(#BODIES) } end,
    perform = function(op, env)
      return told(http.request { url = env.state.url .. op.path, method = "POST", body = BODIES[op.body],
        timeout = 40 })
    end,
  },
  upload = { -- a body that comes in pieces, and may fail
    draw = function(random) return { path = PATHS[random(#PATHS)], fails = random(3) == 1, ms = random(3) } end,
    perform = function(op, env)
      local body = rn.chan()
      local putting = rn.go(function()
        local first = body:put "one"
        rn.sleep(op.ms)
        local second = body:put "two"
        body:close(op.fails and "the source has failed" or nil)
        return ("%s %s"):format(first, second)
      end)
      local status, a, b, c = told(http.request { url = env.state.url .. op.path, method = "POST", body = body,
        timeout = 40 })
      return status, a, b, c, putting:take()
    end,
  },
  stream = { draw = draw, perform = function(op, env)
    local ch, head = http.stream(env.state.url .. op.path, { timeout = 40 })
    local list = {}
    local res, err = head()
    for piece in ch do list[#list + 1] = piece end
    local _, why = ch:take()
    return res and res.status or err, table.concat(list), why
  end },
  cancelled = { draw = draw, perform = function(op, env)
    local block = rn.go(function() return told(http.get(env.state.url .. op.path)) end)
    rn.sleep(1)
    rn.cancel(block, "cancelled")
    return block:take()
  end },
  drain = { perform = function(_, env) return env.state.server:drain(20) end },
  close = { perform = function(_, env) return env.state.server:close() end },
  release = { perform = function(_, env) return env:within(env.state.held.put, env.state.held, "let go") end },
  sleep = {
    draw = function(random) return { ms = random(3) } end,
    perform = function(op) return rn.sleep(op.ms) end,
  },
}

return notion
