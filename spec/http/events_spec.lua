-- http.events: the events of a server, as a channel that connects again.

local rn = require "runnel"
local await = require "spec.support.await"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

describe("http.events", function()
  if not pcall(require, "runnel.http.curl") then return pending "libcurl is not installed" end
  local http = require "runnel.http"

  before_each(stage.open)
  after_each(function()
    http.fake(nil)
    stage.close()
  end)

  local TYPE = { ["Content-Type"] = "text/event-stream" }

  -- A test in a simulation: `answers` are the bodies of one connection after the other, or functions that respond.
  local function with_answers(answers, body)
    sim.run(function()
      local requests = {}
      local before = http.fake(function(req)
        local n = #requests + 1
        requests[n] = { at = sim.elapsed(), id = req.headers["last-event-id"], req = req }
        local answer = answers[n]
        if type(answer) == "function" then return answer(req) end
        if answer then return 200, TYPE, rn.to_chan { answer } end
        return 204
      end)
      body(requests)
      http.fake(before)
    end)
  end

  -- The data of all events, joined, and the error at the end.
  local function all(ch)
    local list = {}
    while true do
      local event, err = ch:take()
      if event == nil then return table.concat(list, " "), err end
      list[#list + 1] = event.data
    end
  end

  it("gives events, connects again with the last id, and ends at 204", function()
    with_answers({ "data: a\n\nid: 1\ndata: b\n\nid: 2\ndata: half", "event: e\ndata: c\n\n" }, function(requests)
      local ch = http.events "http://a/"
      local list = {}
      for event in ch do list[#list + 1] = { event.event, event.data, event.id } end
      assert.same({ { "message", "a" }, { "message", "b", "1" }, { "e", "c", "1" } }, list)
      assert.is_nil((select(2, ch:take())))
      assert.equal(3, #requests)
      assert.same({ nil, "1", "1" }, { requests[1].id, requests[2].id, requests[3].id })
      assert.same({ "text/event-stream", "no-cache", "GET" }, { requests[1].req.headers.accept,
        requests[1].req.headers["cache-control"], requests[1].req.method })
    end)
  end)

  it("begins after the id that the option says, and sends the headers of the program", function()
    with_answers({}, function(requests)
      http.events("http://a/", { last_id = "7", headers = { accept = "x", ["X-One"] = 1 } }):take()
      local headers = requests[1].req.headers
      assert.same({ "7", "x", "1" }, { headers["last-event-id"], headers.accept, headers["x-one"] })
    end)
  end)

  it("waits between half and all of `retry`, or of the server's time, before it reconnects", function()
    with_answers({ "data: a\n\n", "retry: 5000\ndata: b\n\n", "data: c\n\n", "retry: 0\n" }, function(requests)
      all(http.events("http://a/", { backoff = 2000 }))
      for i, whole in ipairs { 2000, 5000, 5000, 100 } do
        local pause = requests[i + 1].at - requests[i].at
        assert.is_true(pause >= whole / 2 and pause <= whole, pause)
      end
    end)
  end)

  it("waits longer after each failure, and gives up after `tries` of them in a row, with the last error", function()
    local function down() return nil, "connection refused" end
    with_answers({ down, "data: a\n\n", down, down, down, "never" }, function(requests)
      local data, err = all(http.events("http://a/", { tries = 3 }))
      assert.same({ "a", "connection refused", 5 }, { data, err, #requests })
      local pause = requests[5].at - requests[4].at
      assert.is_true(pause >= 1000 and pause <= 2000, pause)
    end)
  end)

  it("tries without limit if the program wants that", function()
    local answers = {}
    for i = 1, 50 do answers[i] = function() return nil, "down" end end
    with_answers(answers, function(requests)
      assert.same({ n = 2, "" }, table.pack(all(http.events("http://a/", { tries = math.huge }))))
      assert.equal(51, #requests)
    end)
  end)

  it("connects again after 429 and from 500 on, not before the time in Retry-After", function()
    local function full() return 503, { ["Retry-After"] = 30 } end
    with_answers({ full, function() return 429 end, "data: a\n\n" }, function(requests)
      assert.equal("a", (all(http.events "http://a/")))
      assert.is_true(requests[2].at >= 30000)
      assert.is_true(requests[3].at < 40000)
    end)
  end)

  it("closes with an error if there are no events", function()
    for message, answer in pairs {
      ["a: the status is 404"] = function() return 404 end,
      ["a: the status is 206"] = function() return 206, TYPE, "data: a\n\n" end,
      ["a: events (text/event-stream) expected, got text/html"] = function()
        return 200, { ["Content-Type"] = "text/html" }, "data: a\n\n"
      end,
      ["a: events (text/event-stream) expected, got no type"] = function() return 200, nil, "data: a\n\n" end,
    } do
      with_answers({ answer }, function(requests)
        assert.same({ "", message }, { all(http.events "http://a/") })
        assert.equal(1, #requests)
      end)
    end
    local function in_capitals()
      return 200, { ["Content-Type"] = "Text/Event-Stream; charset=utf-8" }, "data: a\n\n"
    end
    with_answers({ in_capitals }, function() assert.equal("a", (all(http.events "http://a/"))) end)
    assert.same({ "", "not an http:// or https:// URL: ftp://a" }, { all(http.events "ftp://a") })
  end)

  it("ends a connection on which there are no events", function()
    local put
    local function endless()
      local ch = rn.chan()
      rn.go(function()
        repeat put = ch:put "<p>" until not put
      end)
      return 200, { ["Content-Type"] = "text/html" }, ch
    end
    with_answers({ endless }, function()
      all(http.events "http://a/")
      rn.sleep(1)
      assert.is_false(put)
    end)
  end)

  it("does not keep a program running that has closed it, whatever idle is", function()
    local shell = require "spec.support.shell"
    local began = rn.now()
    local out, errors, status = shell.run [[lua -e '
      local rn, http = require "runnel", require "runnel.http"
      http.fake(function(req) return req:events(function(events) events:put "a" rn.sleep(10) events:put "b" end) end)
      local ch = http.events("http://a/", { idle = 100000, reconnect = false })
      for event in ch do print(event.data) end
      rn.run()
    ']]
    assert.same({ "a\nb\n", "", 0 }, { out, errors, status })
    assert.is_true(rn.now() - began < 50000)
  end)

  it("closes with an error if an event is too long", function()
    with_answers({ "data: a\n\ndata: " .. ("x"):rep(200) .. "\n\n" }, function(requests)
      local data, err = all(http.events("http://a/", { max = 100 }))
      assert.same({ "a", "a: an event has more than 100 bytes; the option max allows longer ones" }, { data, err })
      assert.equal(1, #requests)
    end)
  end)

  it("does not repeat a request with a body, unless the program wants that", function()
    with_answers({ "data: a\n\n", "data: b\n\n" }, function(requests)
      assert.same({ n = 2, "a" }, table.pack(all(http.events("http://a/", { json = { 1 } }))))
      assert.same({ 1, "POST", "[1]" }, { #requests, requests[1].req.method, requests[1].req:body() })
      assert.equal("b", (all(http.events("http://a/", { json = { 1 }, reconnect = true }))))
      assert.equal(3, #requests)
    end)
    with_answers({ "data: a\n\n", "data: b\n\n" }, function()
      assert.equal("a", (all(http.events("http://a/", { reconnect = false }))))
    end)
  end)

  it("closes with the error of a cut connection if it does not connect again", function()
    local function cut()
      local ch = rn.chan(1)
      ch:put "data: a\n\n"
      ch:close "cut"
      return 200, TYPE, ch
    end
    with_answers({ cut, cut }, function()
      assert.same({ "a", "cut" }, { all(http.events("http://a/", { reconnect = false })) })
      assert.equal("a", (all(http.events "http://a/"))) -- 204
    end)
  end)

  it("reconnects if nothing comes within the option idle", function()
    local function silent(req)
      return req:events(function(events)
        events:put "a"
        rn.sleep(7000)
        events:put "b"
        rn.sleep(1000000)
      end, { ping = false })
    end
    with_answers({ silent }, function(requests)
      assert.equal("a b", (all(http.events("http://a/", { idle = 8000, backoff = 1000 }))))
      local at = requests[2].at
      assert.is_true(at >= 15500 and at <= 16000, at)
    end)
  end)

  it("ends the connection when the channel is closed, at any point", function()
    for _, ms in ipairs { 0, 5, 15, 3000 } do -- before the head, while nothing comes, while a put waits, between two
      local ended
      with_answers({ function(req)
        rn.sleep(1)
        return req:events(function(events)
          local _ <close> = setmetatable({}, { __close = function() ended = true end })
          rn.sleep(10)
          events:put "a"
          rn.sleep(1000)
        end)
      end, "never" }, function(requests)
        local ch = http.events("http://a/", { backoff = 10000, buffer = ms == 3000 and 1 or nil })
        rn.sleep(ms)
        ch:close()
        rn.sleep(20000)
        assert.equal(1, #requests, ms)
        assert.is_true(ended or ms == 0, ms) -- at 0 it has not begun
      end)
    end
  end)

  it("leaves no go block behind, whichever end closes it, in any order #ci", function()
    local result = sim.explore(function()
      local n = 0
      local before = http.fake(function(req)
        n = n + 1
        if n == 3 then return 204 end
        if n == 2 then return nil, "connection refused" end
        return req:events(rn.to_chan { "a", "b" }, { ping = false })
      end)
      local ch, how = http.events "http://a/", sim.choose(3)
      if how == 1 then
        assert(all(ch) == "a b")
      else
        if how == 2 then ch:take() end
        ch:close()
      end
      http.fake(before)
    end, { seconds = 600 })
    assert.is_true(result.all)
  end)

  it("needs a function in place of servers in a simulation", function()
    sim.run(function()
      raises("events: in a simulation", function() local _ = http.events "http://a/" end)
    end)
  end)

  it("checks its arguments at the caller's line", function()
    for message, opts in pairs {
      ["events: unknown option \"timeout\"; known: backoff, body"] = { timeout = 1 },
      ["events: tries: an integer of at least 1 expected, got 0"] = { tries = 0 },
      ["events: backoff: a number of milliseconds"] = { backoff = -1 },
      ["events: idle: a number of milliseconds, above 0"] = { idle = 0 },
      ["events: last_id: a string without line breaks"] = { last_id = "a\n" },
      ["events: reconnect: true or false expected, got a number"] = { reconnect = 1 },
      ["events: body: a string expected"] = { body = rn.chan(), reconnect = true },
      ["events: max: a number of bytes"] = { max = 0 },
      ["events: headers: a table expected"] = { headers = 1 },
      ["events: a buffer size is an integer"] = { buffer = -1 },
    } do
      raises(message, function() local _ = http.events("http://a/", opts) end)
    end
    raises("events: ipresolve: one of any, 4, 6 expected", function()
      local _ = http.events("http://a/", { ipresolve = "9" })
    end)
    raises("events: a URL expected", function() local _ = http.events(1) end)
    raises("events: a table of options expected", function() local _ = http.events("http://a/", 1) end)
  end)
end)

describe("http.events of a server", function()
  local http_stage = require "spec.support.http.http_stage"
  if http_stage.missing or not pcall(require, "runnel.http.server") then
    return pending(http_stage.missing or "the server of runnel.http is not there")
  end
  local http = require "runnel.http"

  before_each(function()
    assert(http.serve(0, print)):close()
    http_stage.open()
  end)
  after_each(http_stage.close)

  it("gives what req:events sends, connection after connection", function()
    local server <close> = assert(http.serve(0, function(req)
      local last = tonumber(req.headers["last-event-id"] or "0") // 1 | 0
      if last == 6 then return 204 end
      return req:events(function(events)
        events:put { retry = 100 }
        for id = last + 1, last + 2 do events:put { id = id, event = "count", data = { n = id } } end
      end)
    end))
    local list, ch = {}, http.events(server.url)
    for _ = 1, 6 do
      local event = await(ch)
      list[#list + 1] = ("%s %s %d"):format(event.id, event.event, event:json().n)
    end
    assert.equal("1 count 1, 2 count 2, 3 count 3, 4 count 4, 5 count 5, 6 count 6", table.concat(list, ", "))
    local last, err = await(ch)
    assert.is_nil(last or err)
  end)

  it("reads a stream that comes byte by byte", function()
    local text = "\u{FEFF}: hello\r\n\r\ndata: a\rdata: b\r\n\nid: 1\ndata: c\n\n"
    local port = http_stage.serve(function(conn)
      conn:read():take()
      conn:write "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
      for i = 1, #text do
        conn:write(text:sub(i, i))
        rn.yield()
      end
    end)
    local ch = http.events(("http://127.0.0.1:%d/"):format(port), { reconnect = false })
    assert.equal("a\nb", await(ch).data)
    assert.equal("c", await(ch).data)
    assert.is_nil((await(ch)))
  end)

  it("is garbage when the program does not hold the channel any more", function()
    local ended = rn.chan()
    local server <close> = assert(http.serve(0, function(req)
      return req:events(function(events)
        local _ <close> = setmetatable({}, { __close = function() ended:close() end })
        while events:put "a" do rn.sleep(1) end
      end)
    end))
    do
      local ch = http.events(server.url)
      await(ch)
    end
    local is_over = false
    rn.go(function()
      ended:take()
      is_over = true
    end)
    local deadline = rn.now() + 30000
    while not is_over and rn.now() < deadline do
      collectgarbage()
      rn.sleep(5)
    end
    assert.is_true(is_over)
  end)
end)
