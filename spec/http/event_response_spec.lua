-- req:events(): a response that sends events.

local rn = require "runnel"
local await = require "spec.support.await"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local has_client = pcall(require, "runnel.http.curl")
local http = require "runnel.http"

-- A simulation in which requests go to a function.
local function with_server(f, body)
  return function()
    sim.run(function()
      local before = http.fake(f)
      body()
      http.fake(before)
    end)
  end
end

-- The text of a response as it comes, until it ends or `n` pieces have come.
local function read(n)
  local ch, head = http.stream "http://a/"
  local res = assert(head())
  local list = {}
  while #list < (n or math.huge) do
    local piece, err = ch:take()
    if piece == nil then return list, res, err end
    list[#list + 1] = ("%d: %s"):format(sim.elapsed(), piece)
  end
  ch:close()
  return list, res
end

describe("req:events", function()
  if not has_client then return pending "libcurl is not installed" end

  before_each(stage.open)
  after_each(function()
    http.fake(nil)
    stage.close()
  end)

  it("sends the events that a function puts, as they come, and ends when it returns", with_server(function(req)
    return req:events(function(events)
      events:put { event = "hello", data = req.headers["last-event-id"] }
      rn.sleep(100)
      events:put "there"
    end)
  end, function()
    local ch = http.stream("http://a/", { headers = { ["Last-Event-ID"] = 7 } })
    assert.equal("event: hello\ndata: 7\n\n", ch:take())
    assert.equal(0.0, sim.elapsed())
    assert.equal("data: there\n\n", ch:take())
    assert.equal(100.0, sim.elapsed())
    assert.is_nil((ch:take()))
  end))

  it("sends the events of a channel, and ends when that is closed", with_server(function(req)
    return req:events(rn.to_chan { "a", { id = 2 } }, { headers = { ["X-One"] = 1, ["Cache-Control"] = "no-store" } })
  end, function()
    local list, res = read()
    assert.same({ "0: data: a\n\n", "0: id: 2\n\n" }, list)
    assert.same({ 200, "text/event-stream", "no-store", "no", "1" }, { res.status, res.headers["content-type"],
      res.headers["cache-control"], res.headers["x-accel-buffering"], res.headers["x-one"] })
  end))

  it("asks caches not to store it", with_server(function(req) return req:events(rn.to_chan {}) end, function()
    local _, res = read()
    assert.equal("no-cache", res.headers["cache-control"])
  end))

  it("sends a comment whenever 15 s have passed without an event", with_server(function(req)
    return req:events(function(events)
      rn.sleep(10000)
      events:put "a"
      rn.sleep(40000)
    end)
  end, function()
    assert.same({ "10000: data: a\n\n", "25000: :\n\n", "40000: :\n\n" }, (read()))
  end))

  it("sends comments as often as the option says, or none", function()
    for ping, expected in pairs { [400] = { "400: :\n\n", "800: :\n\n" }, [false] = {} } do
      with_server(function(req) return req:events(function() rn.sleep(1000) end, { ping = ping }) end, function()
        assert.same(expected, (read()))
      end)()
    end
  end)

  it("closes the channel when the client goes away: puts return false", function()
    local put
    with_server(function(req)
      local events = rn.chan()
      rn.go(function()
        repeat
          put = events:put "a"
          rn.sleep(10)
        until not put
      end)
      return req:events(events)
    end, function()
      read(2)
      rn.sleep(20)
      assert.is_false(put)
    end)()
  end)

  it("ends a waiting put when the client goes away", function()
    local ended = 0
    with_server(function(req)
      local events = rn.chan()
      for _ = 1, 3 do
        rn.go(function()
          events:put "a"
          ended = ended + 1
        end)
      end
      return req:events(events)
    end, function()
      read(1)
      rn.sleep(1)
      assert.equal(3, ended)
    end)()
  end)

  it("cancels the function when the client goes away, wherever it waits", function()
    local ended
    with_server(function(req)
      return req:events(function(events)
        local _ <close> = setmetatable({}, { __close = function() ended = sim.elapsed() end })
        events:put "a"
        rn.sleep(1000000)
      end)
    end, function()
      read(1)
      rn.sleep(1)
      assert.equal(0.0, ended)
    end)()
  end)

  it("leaves no go block behind, whichever end closes it, in any order #ci", function()
    local result = sim.explore(function()
      local before = http.fake(function(req)
        return req:events(function(events)
          events:put "a"
          events:put "b"
        end, { ping = 5 })
      end)
      local ch = http.stream "http://a/"
      if sim.choose(2) == 1 then ch:take() end
      if sim.choose(2) == 1 then ch:close() else rn.into({}, ch):take() end
      http.fake(before)
    end, { seconds = 600 })
    assert.is_true(result.all)
  end)

  it("cuts the response if the channel closes with an error, the function raises, or an event is wrong", function()
    local f
    with_server(function(req) return req:events(f(req)) end, function()
      for message, source in pairs {
        ["the disk has failed"] = function() return rn.go(function() error("the disk has failed", 0) end) end,
        ["boom"] = function() return function() error("boom", 0) end end,
        ["unknown field \"dat\""] = function() return rn.to_chan { { dat = 1 } } end,
      } do
        f = source
        local _, _, err = read()
        assert.match(message, tostring(err))
      end
    end)()
    assert.same({}, stage.heard())
  end)

  it("answers HEAD with its headers, and calls no function", with_server(function(req)
    return req:events(function() error "called" end)
  end, function()
    local res = assert(http.request { url = "http://a/", method = "HEAD" })
    assert.same({ 200, "text/event-stream" }, { res.status, res.headers["content-type"] })
  end))

  it("has the headers of the option in place of its own, in whatever letters", function()
    local sent
    with_server(function(req)
      local status, headers, body = req:events(rn.to_chan {}, { headers = { ["cache-control"] = "no-store" } })
      sent = headers
      return status, headers, body
    end, read)()
    assert.same({ ["cache-control"] = "no-store", ["Content-Type"] = "text/event-stream",
      ["X-Accel-Buffering"] = "no" }, sent)
  end)

  it("checks its arguments at the caller's line", function()
    local req
    with_server(function(r)
      req = r
      return 200
    end, function() http.get "http://a/" end)()
    raises("events: a channel of events, or a function that puts events on a channel, expected, got nothing", function()
      local _ = req:events()
    end)
    raises("events: unknown option \"pings\"", function() local _ = req:events(print, { pings = 1 }) end)
    raises("events: ping: a number of milliseconds", function() local _ = req:events(print, { ping = 0 }) end)
    raises("events: headers: a table expected", function() local _ = req:events(print, { headers = 1 }) end)
  end)
end)

describe("req:events of a server", function()
  local uv_stage = require "spec.support.uv_stage"
  if not (pcall(require, "runnel.http.server") and pcall(require, "luv")) then
    return pending "the server of runnel.http or luv is not there"
  end
  local uv = require "runnel.uv"

  before_each(function()
    assert(http.serve(0, print)):close() -- opens the descriptor by which threads wake Lua
    uv_stage.open()
  end)
  after_each(uv_stage.close)

  it("sends the head at once, each event at once, and closes the channel when the client goes away", function()
    local next_event, ended = rn.chan(), rn.chan()
    local server <close> = assert(http.serve(0, function(req)
      local events = rn.chan()
      rn.go(function()
        for event in next_event do events:put(event) end
        while events:put "more" do rn.sleep(1) end
        ended:close()
      end)
      return req:events(events)
    end))
    local conn = assert(uv.connect("127.0.0.1", server.port))
    conn:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    local lines = conn:lines()
    repeat
      local line = await(lines)
    until line == ""
    for _, event in ipairs { "a", "b" } do
      next_event:put(event)
      repeat
        local line = await(lines)
        assert.is_string(line)
      until line == "data: " .. event
    end
    next_event:close()
    conn:close()
    await(ended)
  end)

  it("reports a wrong event, or an error of the function, once, and cuts the response", function()
    for message, f in pairs {
      ["an event of a response: data: a string"] = function(events) events:put { data = print } end,
      ["boom"] = function() error "boom" end,
    } do
      local server <close> = assert(http.serve(0, function(req) return req:events(f) end))
      local conn <close> = assert(uv.connect("127.0.0.1", server.port))
      conn:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      local answer = table.concat(stage.drain(conn:read()))
      assert.match("^HTTP/1.1 200", answer)
      assert.not_match("\r\n0\r\n\r\n$", answer)
      local errors = stage.heard()
      assert.equal(1, #errors)
      assert.match(message, tostring(errors[1].err))
    end
  end)
end)
