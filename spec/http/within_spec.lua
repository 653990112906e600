-- http.within: limits for the requests of one function.

local http_stage = require "spec.support.http.http_stage"
local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local web = require "spec.support.http.web"

if http_stage.missing then
  describe("http.within", function() pending(http_stage.missing) end)
  return
end

local http = require "runnel.http"

local function body_of(req) return 200, nil, req:body() end

-- The status and body that f answers a request with.
local function ask(f, body)
  http.fake(f)
  local res = assert(http.request { url = "http://x/", body = body })
  return res.status, res.body
end

local function channel(pieces)
  local ch = rn.chan(#pieces)
  for _, piece in ipairs(pieces) do ch:put(piece) end
  ch:close()
  return ch
end

describe("http.within", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  it("answers 413 for a longer body, whether its length is known before or not", function()
    local f = http.within(body_of, { max = 5 })
    local pieces = http.within(function(req) return 200, nil, req:pieces() end, { max = 5 })
    local LONGER = "413: the body is longer than 5 bytes\n"
    assert.same({ 200, "12345" }, { ask(f, "12345") })
    assert.same({ 413, LONGER }, { ask(f, "123456") })
    assert.same({ 200, "12345" }, { ask(f, channel { "123", "45" }) })
    assert.same({ 413, LONGER }, { ask(f, channel { "123", "456" }) })
    assert.same({ 200, "12345" }, { ask(pieces, channel { "123", "45" }) })
    local server <close> = assert(http.serve(0, f))
    assert.equal(413, (web.ask(server, "POST /", "Content-Length: 6\r\n\r\n123456")))
    assert.equal(413, (web.ask(server, "POST /", "Transfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n0\r\n\r\n")))
    assert.equal(200, (web.ask(server, "POST /", "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n")))
  end)

  it("closes a body that the function returns too late, so that no put waits for ever", function()
    sim.run(function()
      local producer
      local f = http.within(function()
        pcall(rn.sleep, 1000)
        local ch = rn.chan()
        producer = rn.go(function()
          repeat until not ch:put "x"
          return "ended"
        end)
        return 200, nil, ch
      end, { timeout = 100 })
      assert.equal(503, (f { method = "GET", headers = {} }))
      assert.equal("ended", producer:take())
    end)
  end)

  it("gives the function that reads pieces the reason, and counts the narrowest limit", function()
    local f = http.within(http.within(function(req)
      local ch = req:pieces()
      local piece, err
      repeat piece, err = ch:take() until piece == nil
      return 400, nil, tostring(err)
    end, { max = 7 }), { max = 3 })
    assert.same({ 400, "413: the body is longer than 3 bytes" }, { ask(f, channel { "12", "34" }) })
    assert.same({ 413, "413: the body is longer than 3 bytes\n" },
      { ask(http.within(http.within(body_of, { max = 3 }), { max = 7 }), channel { "12", "34" }) })
  end)

  it("gives forms their status", function()
    local f = http.within(function(req)
      local form, err, status = req:form()
      return form and 200 or status, nil, err
    end, { max = 5 })
    http.fake(f)
    local res = assert(http.request { url = "http://x/", body = channel { "a=1&b", "=2" },
      headers = { ["Content-Type"] = "application/x-www-form-urlencoded" } })
    assert.same({ 413, "413: the body is longer than 5 bytes" }, { res.status, res.body })
  end)

  it("answers 503 at its timeout, and cancels the function where it waits, in a simulated world, too", function()
    sim.run(function()
      local world, results, cancelled = sim.world(), {}, nil
      world:host("server", function()
        assert(http.serve(80, http.within(function(req)
          local ok, err = pcall(rn.sleep, tonumber(req.query.ms))
          cancelled = not ok and tostring(err)
          if not ok then error(err, 0) end
          return 200, nil, "in time"
        end, { timeout = 1000 }), { host = "0.0.0.0" }))
      end)
      world:host("client", function()
        rn.yield()
        for _, ms in ipairs { 999, 5000 } do
          local res = assert(http.get("http://server/?ms=" .. ms))
          results[#results + 1] = res.status .. " " .. res.body
        end
      end)
      world:run()
      assert.same({ "200 in time", "503 503: the answer took too long\n" }, results)
      assert.equal("the request had no answer after 1000 ms", cancelled)
    end)
  end)

  it("lets a WebSocket go on for longer than its timeout, in a simulated world", function()
    if not pcall(function() return http.websocket end) then return pending "there is no WebSocket" end
    sim.run(function()
      local world, got = sim.world(), nil
      world:host("server", function()
        assert(http.serve(80, http.within(function(req)
          local conn = assert(req:websocket())
          rn.sleep(5000)
          conn:write "late"
        end, { timeout = 1000 }), { host = "0.0.0.0" }))
      end)
      world:host("client", function()
        rn.yield()
        local conn <close> = assert(http.websocket "ws://server/")
        got = conn:read():take()
      end)
      world:run(60000)
      assert.equal("late", got)
    end)
  end)

  it("raises the last reason if its caller is cancelled again before the function has ended", function()
    sim.run(function()
      local f = http.within(function()
        rn.shield(rn.sleep, nil, 10)
        return 204
      end, { timeout = 1000 })
      local caller = rn.go(f, { headers = {} })
      for _, reason in ipairs { "the client has gone", "the server was closed" } do
        rn.sleep(1)
        assert.is_true(rn.cancel(caller, reason))
      end
      rn.sleep(20)
      assert.is_true(caller:closed())
      assert.same({}, stage.heard())
      assert.same({ nil, "the server was closed" }, { caller:take() })
    end)
  end)

  it("raises the last reason if its caller is cancelled again just when the function ends", function()
    local moments = 0
    for turns = 0, 10 do
      sim.run(function()
        local over = rn.chan()
        local f = http.within(function()
          rn.shield(function()
            rn.sleep(10)
            over:close()
          end)
          return 204
        end, { timeout = 1000 })
        local caller = rn.go(f, { headers = {} })
        rn.sleep(1)
        rn.cancel(caller, "the client has gone")
        over:take()
        for _ = 1, turns do rn.yield() end
        local is_cancelled = not caller:closed() and rn.cancel(caller, "the server was closed")
        if is_cancelled then moments = moments + 1 end
        rn.sleep(20)
        assert.same({}, stage.heard(), turns)
        assert.same({ nil, is_cancelled and "the server was closed" or "the client has gone" }, { caller:take() })
      end)
    end
    assert.is_true(moments > 1 and moments < 11, moments)
  end)

  it("passes errors of the function on", function()
    for _, opts in ipairs { { max = 5 }, { timeout = 1000 } } do
      http.fake(http.within(function() error("mine", 0) end, opts))
      assert.equal("mine", select(2, pcall(http.get, "http://x/")))
    end
  end)

  it("has errors at the caller's line", function()
    raises("within: f: a function expected", function() http.within(nil, { max = 1 }) end)
    raises("within: a limit expected, as in { max = 65536", function() http.within(print) end)
    raises('within: unknown option "idle"', function() http.within(print, { idle = 1 }) end)
  end)
end)
