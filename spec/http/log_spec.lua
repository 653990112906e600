-- http.log: a line for each request, and its id.

local rn = require "runnel"
local json = require "runnel.json"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

describe("http.log", function()
  local http = require "runnel.http"
  local log = require("runnel.http.log").log

  before_each(stage.open)
  after_each(stage.close)

  -- Calls a function that logs with a request. Returns its results, and the lines.
  local function call(f, request, opts)
    local lines = {}
    opts = opts or {}
    opts.to = opts.to or function(line) lines[#lines + 1] = line end
    local req = { method = "GET", target = "/a?b", address = "1.2.3.4" }
    for name, value in pairs(request or {}) do req[name] = value end
    local results = table.pack(log(f, opts)(req))
    return lines, results, req
  end

  local function hello() return 200, nil, "hello" end

  it("writes common lines with the time in ms and the id at their end", function()
    sim.run(function()
      local lines, results, req = call(function()
        rn.sleep(12.34)
        return 201, { ["X-One"] = 1 }, "hello"
      end)
      assert.equal(1, #lines)
      local address, date, rest = lines[1]:match "^(%S+) %- %- %[(%S+ %+0000)%] (.*)$"
      assert.equal("1.2.3.4", address)
      assert.match("^%d%d/%u%l%l/%d%d%d%d:%d%d:%d%d:%d%d %+0000$", date)
      assert.equal('"GET /a?b HTTP/1.1" 201 5 12.3 ' .. req.request_id, rest)
      assert.same({ n = 3, 201, { ["X-One"] = 1, ["X-Request-Id"] = req.request_id }, "hello" }, results)
    end)
  end)

  it("writes lines of JSON", function()
    sim.run(function()
      local headers = { ["user-agent"] = "me", referer = "http://x/" }
      local lines, _, req = call(hello, { headers = headers }, { format = "json" })
      local entry = json.decode(lines[1])
      assert.match("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%dZ$", entry.time)
      entry.time = nil
      assert.same({ id = req.request_id, address = "1.2.3.4", method = "GET", target = "/a?b", status = 200, bytes = 5,
        ms = 0.0, agent = "me", referer = "http://x/" }, entry)
    end)
  end)

  it("writes what a function makes of the entry, to a function, a file or a channel", function()
    local function format(entry) return entry.method .. " " .. entry.status end
    assert.same({ "GET 200" }, (call(hello, nil, { format = format })))
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    call(hello, nil, { format = format, to = file })
    local written <close> = assert(io.open(path)) -- while the other is still open
    assert.equal("GET 200\n", written:read "a")
    file:close()
    os.remove(path)
    local ch = rn.chan(1)
    call(hello, nil, { format = format, to = ch })
    assert.equal("GET 200", ch:take())
  end)

  it("reports once that lines are lost", function()
    local errors = {}
    local before = rn.on_error(function(err) errors[#errors + 1] = err end)
    finally(function() rn.on_error(before) end)
    local full <close> = assert(io.open("/dev/full", "w"))
    local ch = rn.chan(1)
    ch:close()
    for to, pattern in pairs { [full] = "No space left on device", [ch] = "the channel is closed" } do
      local f = log(hello, { to = to })
      for _ = 1, 3 do assert.equal(200, (f { method = "GET", target = "/" })) end
      assert.equal(1, #errors)
      assert.matches("lines are lost: " .. pattern, errors[1])
      errors = {}
    end
  end)

  it("lets no client write lines or fields of its own", function()
    local evil = "/\"\n1.1.1.1 - - \\ \r\0\27[31m\127\xff"
    for _, format in ipairs { "common", "json" } do
      local lines = call(hello, { target = evil, method = "G\nT", address = "a\n", headers = {
        ["user-agent"] = evil, referer = evil, ["x-request-id"] = "a b\n", ["x-forwarded-for"] = "\n\"" } },
        { format = format, behind_proxy = true })
      assert.not_match("[%c\127-\255]", lines[1])
      if format == "common" then
        assert.equal(2, select(2, lines[1]:gsub('"', "")))
        local request = [["G\x0aT /\x22\x0a1.1.1.1 - - \x5c \x0d\x00\x1b[31m\x7f\xff HTTP/1.1" 200 5]]
        assert.truthy(lines[1]:find(request, 1, true))
      else
        assert.equal((evil:gsub("\xff", "\\xff")), json.decode(lines[1]).target)
      end
    end
    local lines = call(hello, { target = "/é" }, { format = "json" })
    assert.equal("/é", json.decode(lines[1]).target)
  end)

  it("makes an id, or takes that of the proxy if it is well formed", function()
    local seen = {}
    for _ = 1, 100 do
      local _, _, req = call(hello, { headers = { ["x-request-id"] = "mine" } })
      assert.match("^%x+$", req.request_id)
      assert.equal(16, #req.request_id)
      assert.is_nil(seen[req.request_id])
      seen[req.request_id] = true
    end
    local function id(text)
      local _, results, req = call(hello, { headers = { ["x-request-id"] = text } }, { behind_proxy = true })
      assert.equal(req.request_id, results[2]["X-Request-Id"])
      return req.request_id
    end
    assert.equal("a-B_1.2", id "a-B_1.2")
    assert.equal(("x"):rep(100), id(("x"):rep(100)))
    for _, text in ipairs { "", "a b", "a\n", "a\"", "é", ("x"):rep(101) } do
      assert.match("^%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x$", id(text))
    end
  end)

  it("replaces the id that another program has given the response, in whatever letters", function()
    local _, results, req = call(function() return 200, { ["x-request-id"] = "other", ["x-other"] = 1 } end)
    assert.same({ ["X-Request-Id"] = req.request_id, ["x-other"] = 1 }, results[2])
  end)

  it("takes the last address that the proxy has added", function()
    local function address(text, opts)
      return call(hello, { headers = { ["x-forwarded-for"] = text } }, opts)[1]:match "^%S+"
    end
    assert.equal("5.6.7.8", address("evil, 9.9.9.9, 5.6.7.8 ", { behind_proxy = true }))
    assert.equal("::1", address("::1", { behind_proxy = true }))
    assert.equal("1.2.3.4", address("", { behind_proxy = true }))
    assert.equal("1.2.3.4", address(nil, { behind_proxy = true }))
    assert.equal("1.2.3.4", address "5.6.7.8")
  end)

  local function entries(f, request)
    local list = {}
    local _, results = call(f, request, { format = function(entry) return entry end, to = function(entry)
      list[#list + 1] = entry
    end })
    return list, results
  end

  it("counts the bytes of texts, tables and channels, and of HEAD none", function()
    for bytes, body in pairs { [0] = false, [5] = "hello", [7] = { a = 1 } } do
      local list, results = entries(function() return 200, nil, body or nil end)
      assert.equal(bytes, list[1].bytes)
      assert.equal(bytes == 7 and '{"a":1}' or body or nil, results[3])
      assert.equal(bytes == 7 and "application/json" or nil, results[2]["Content-Type"])
    end
    local _, results = entries(function() return 200, { ["content-type"] = "x/y" }, {} end)
    assert.is_nil(results[2]["Content-Type"])
    assert.equal(0, entries(hello, { method = "HEAD" })[1].bytes)
    sim.run(function()
      local list, response = entries(function()
        local ch = rn.chan()
        rn.go(function()
          for _, piece in ipairs { "abc", "", "de" } do
            rn.sleep(10)
            ch:put(piece)
          end
          ch:close()
        end)
        return 200, nil, ch
      end)
      assert.equal(0, #list)
      assert.equal("abcde", table.concat(rn.into({}, response[3]):take()))
      assert.same({ 1, 5, 30.0 }, { #list, list[1].bytes, list[1].ms })
      assert.is_nil(list[1].error)
    end)
  end)

  it("logs a response that has no body at once, as complete, whatever the function returns as its body", function()
    for _, case in ipairs { { "HEAD", 200 }, { "GET", 204 }, { "GET", 205 }, { "GET", 304 } } do
      for _, body in ipairs { "hello", rn.chan(), rn.to_chan {} } do
        local list, results = entries(function() return case[2], nil, body end, { method = case[1] })
        assert.same({ 1, case[2], 0 }, { #list, list[1].status, list[1].bytes })
        assert.is_nil(list[1].error)
        assert.equal(body, results[3])
      end
    end
  end)

  it("logs a body that fails, and passes the error on", function()
    local list, results = entries(function()
      local ch = rn.chan(1)
      ch:put "abc"
      ch:close "the disk has failed"
      return 200, nil, ch
    end)
    assert.equal("abc", results[3]:take())
    assert.same({ n = 2, nil, "the disk has failed" }, table.pack(results[3]:take()))
    assert.same({ 3, "the disk has failed" }, { list[1].bytes, list[1].error })
  end)

  it("closes the channel of a body when the client goes away, and logs what it got", function()
    local put
    local list, results = entries(function()
      local ch = rn.chan()
      rn.go(function()
        repeat put = ch:put "abc" until not put
      end)
      return 200, nil, ch
    end)
    results[3]:take()
    results[3]:close()
    rn.yield()
    rn.yield()
    assert.is_false(put)
    assert.same({ 1, "cut", 3 }, { #list, list[1].error, list[1].bytes })
  end)

  it("reports an error of the function, logs it, and answers 500 with the id", function()
    local list, results = entries(function() error("boom", 0) end)
    assert.same({ 500, "boom" }, { list[1].status, list[1].error })
    assert.same({ n = 3, 500, { ["X-Request-Id"] = list[1].id }, "500: the server has failed\n" }, results)
    local errors = stage.heard()
    assert.same({ 1, "boom" }, { #errors, errors[1].err })
  end)

  it("logs 499 when the client has gone, or what the server has sent, and lets the go block end", function()
    for status, sent in pairs { [499] = false, [413] = 413 } do
      local list, ended = {}, false
      local f = log(function()
        local _ <close> = setmetatable({}, { __close = function() ended = true end })
        rn.sleep(100000)
      end, { format = function(entry) return entry end, to = function(entry) list[#list + 1] = entry end })
      local block = rn.go(f, { method = "GET", target = "/", headers = {}, sent_status = sent or nil })
      rn.yield()
      rn.cancel(block, "gone")
      assert.equal("gone", (select(2, block:take())))
      assert.same({ true, 1, status, "gone" }, { ended, #list, list[1].status, list[1].error })
    end
  end)

  it("leaves wrong results to the server, and logs 500 for them", function()
    for _, wrong in ipairs { { n = 1, "text" }, { n = 1, 99 }, { n = 2, 200, "text" }, { n = 3, 200, nil, true } } do
      local list, results = entries(function() return table.unpack(wrong, 1, wrong.n) end)
      assert.equal(500, list[1].status)
      assert.same({ wrong[1], wrong[2], wrong[3] }, { results[1], results[2], results[3] })
    end
  end)

  it("logs 101 for a request whose connection gets another protocol", function()
    local list, results = entries(function(req) req.is_upgraded = true end)
    assert.same({ 1, 101, nil }, { #list, list[1].status, list[1].error })
    assert.is_nil(results[1])
    assert.same({}, stage.heard())
  end)

  it("goes on when the log fails, which is reported", function()
    local _, results = call(hello, nil, { to = function() error("no space left", 0) end })
    assert.same({ 200, "hello" }, { results[1], results[3] })
    assert.equal("no space left", stage.heard()[1].err)
  end)

  it("logs the requests of a server", function()
    if not (pcall(require, "runnel.http.server") and pcall(require, "runnel.http.curl")) then
      return pending "the server or the client of runnel.http is not there"
    end
    local lines = rn.chan(10)
    local function page(req)
      if req.path == "/events" then return req:events(rn.to_chan { "a" }) end
      if req.method == "HEAD" then return 200, nil, rn.to_chan { "a" } end
      return 200, nil, req.request_id
    end
    local server <close> = assert(http.serve(0, log(page, { to = lines })))
    local head <close> = assert(http.serve(0, log(page, { to = lines, format = "json" })))
    local res = assert(http.get(server.url .. "x"))
    assert.equal(res.headers["x-request-id"], res.body)
    assert.match('^127.0.0.1 .*"GET /x HTTP/1.1" 200 16 [%d.]+ ' .. res.body .. "$", lines:take())
    assert.equal("data: a\n\n", assert(http.get(server.url .. "events")).body)
    assert.match('"GET /events HTTP/1.1" 200 9 ', lines:take())
    assert.equal(200, assert(http.request { url = head.url, method = "HEAD" }).status)
    assert.match('"status":200,"bytes":0,"ms":[%d.]+,"agent"', lines:take())
    http.close_idle()
  end)

  it("checks its arguments at the caller's line", function()
    raises("log: f: a function expected, got nothing", function() local _ = log() end)
    raises("log: unknown option \"file\"; known: behind_proxy", function() local _ = log(hello, { file = 1 }) end)
    raises("log: format: \"common\", \"json\" or a function", function() local _ = log(hello, { format = "xml" }) end)
    raises("log: to: a function, an open file or a channel", function() local _ = log(hello, { to = "a" }) end)
    raises("log: behind_proxy: true or false", function() local _ = log(hello, { behind_proxy = 1 }) end)
  end)
end)
