-- rn.traceparent over NATS: messages carry the trace of the go block that sends them; workers and durable stages
-- continue it.

local nats_server = require "spec.support.queue.nats_server"
local rn = require "runnel"

local TRACE <const> = "4bf92f3577b34da6a3ce929d0e0e4736"
local HEADER <const> = ("00-%s-00f067aa0ba902b7-01"):format(TRACE)

describe("messages over NATS", function()
  local nats, missing = nats_server.library()
  if not nats then return pending(missing) end

  local server, conn

  setup(function() server = nats_server.start() end)
  teardown(function() server:close() end)
  before_each(function()
    conn = assert(nats.connect(server.url))
    rn.traceparent(true)
  end)
  after_each(function()
    rn.traceparent(false)
    conn:close()
  end)

  -- Calls f in a go block whose work belongs to the trace. Returns its traceparent, and what f returns.
  local function traced(f)
    local got = assert(rn.go(function()
      local mine = rn.traceparent(HEADER, "a=1")
      return { mine, f() }
    end):take())
    return table.unpack(got)
  end

  local function take(ch) return assert(rn.alts { ch, rn.timeout(20000) }, "nothing came") end

  it("carry the trace of their sender, beside other headers", function()
    local ch = assert(conn:subscribe "plain")
    local mine = traced(function() conn:publish("plain", "x", { headers = { Other = "1" } }) end)
    assert.same({ traceparent = mine, tracestate = "a=1", Other = "1" }, take(ch).headers)
    traced(function() conn:publish("plain", "x", { headers = { traceparent = "mine" } }) end)
    assert.same({ traceparent = "mine" }, take(ch).headers)
    conn:publish("plain", "x")
    assert.is_nil(take(ch).headers)
  end)

  it("carry it when they ask, and when they answer", function()
    local asked = assert(conn:subscribe "ask")
    rn.go(function()
      local message = take(asked)
      rn.traceparent(message.headers.traceparent)
      message:respond(message.headers.traceparent)
    end)
    local mine, answer = traced(function() return conn:request("ask", "x") end)
    assert.equal(mine, answer.data)
    assert.matches("^00%-" .. TRACE .. "%-%x+%-01$", answer.headers.traceparent)
    assert.are_not.equal(mine, answer.headers.traceparent)
  end)

  it("carry none while it is off", function()
    rn.traceparent(false)
    local ch = assert(conn:subscribe "off")
    conn:publish("off", "x")
    assert.is_nil(take(ch).headers)
  end)

  it("carry it through durable stages", function()
    assert(conn:stream("first", { subjects = "first" }))
    assert(conn:stream("second", { subjects = "second" }))
    local seen = rn.chan(1)
    local one <close> = assert(conn:stage("first", 1, function(v)
      return v .. " " .. rn.traceparent()
    end, "second", { timeout = 10000 }))
    local two <close> = assert(conn:stage("second", 1, function(v, message)
      seen:put { v, message.headers.traceparent, rn.traceparent() }
    end, nil, { name = "two" }))
    assert.truthy(one and two)
    local sink = assert(conn:sink "first")
    local mine = traced(function() assert(sink:put "x") end)
    local value, header, now = table.unpack((take(seen)))
    local spans = { [mine] = true }
    for _, text in ipairs { value:sub(3), now } do
      assert.matches("^00%-" .. TRACE .. "%-%x+%-01$", text)
      assert.is_nil(spans[text])
      spans[text] = true
    end
    assert.equal(value:sub(3), header)
  end)

  it("carry it to the workers of a remote stage, and begin one for jobs without", function()
    local worker <close> = assert(conn:serve("where", 2, function() return rn.traceparent() end))
    assert.truthy(worker)
    local remote <close> = assert(conn:remote "where")
    local mine, got = traced(function() return rn.pmap(2, remote, { 1 }):take() end)
    assert.matches("^00%-" .. TRACE .. "%-%x+%-01$", got)
    assert.are_not.equal(mine, got)
    local other = remote(1)
    assert.matches("^00%-%x+%-%x+%-00$", other)
    assert.is_nil(other:find(TRACE, 1, true))
  end)
end)
