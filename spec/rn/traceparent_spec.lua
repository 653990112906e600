-- rn.traceparent: the trace to which the work of go blocks belongs, and how requests over HTTP carry it.
-- Messages over NATS: spec/nats/traceparent_spec.lua.

local contexts = require "runnel.internal.trace_context"
local http_stage = require "spec.support.http.http_stage"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local TRACE <const>, PARENT <const> = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
local HEADER <const> = ("00-%s-%s-01"):format(TRACE, PARENT)
local FORM <const> = "^00%-(%x+)%-(%x+)%-(%x%x)$"

-- Calls f in a go block of its own, and returns what it returns.
local function within(f) return rn.go(f):take() end

describe("rn.traceparent", function()
  before_each(stage.open)
  after_each(function()
    rn.traceparent(false)
    stage.close()
  end)

  it("is off at first, and then returns nothing and begins nothing", function()
    assert.is_nil(rn.traceparent())
    assert.is_nil(within(function() return rn.traceparent(HEADER) end))
    assert.is_false(contexts.on)
  end)

  it("continues the trace of a text, with an id of its own for the operation", function()
    rn.traceparent(true)
    within(function()
      assert.is_nil(rn.traceparent())
      local trace, span, flags = rn.traceparent(HEADER):match(FORM)
      assert.same({ TRACE, "01" }, { trace, flags })
      assert.equal(16, #span)
      assert.are_not.equal(PARENT, span)
      assert.equal(("00-%s-%s-01"):format(trace, span), rn.traceparent())
    end)
  end)

  it("is that of the call of rn.after in what a timer calls, and none if that has none", function()
    rn.traceparent(true)
    within(function()
      local got = rn.chan(4)
      local function note(name) got:put(name .. " " .. tostring(rn.traceparent())) end
      rn.after(1, note, "without")
      local header = rn.go(function()
        local own = rn.traceparent(HEADER)
        rn.after(2, note, "with")
        return own
      end):take()
      rn.traceparent(true)
      assert.equal("without nil", got:take())
      assert.equal("with " .. header, got:take())
    end)
  end)

  it("begins a new trace for a text that is no traceparent", function()
    rn.traceparent(true)
    local seen = {}
    for _, text in ipairs {
      "", "new", HEADER:upper(), HEADER .. "-", HEADER .. "0", HEADER:sub(1, -2), " " .. HEADER, HEADER .. "\n",
      HEADER:gsub("^00", "ff"), HEADER:gsub("^00", "0"), HEADER:gsub("^00", "0g"), HEADER:gsub(TRACE, ("0"):rep(32)),
      HEADER:gsub(PARENT, ("0"):rep(16)), HEADER:gsub("-", "_"), HEADER .. ", " .. HEADER, HEADER:gsub("01$", "0x"),
      HEADER:gsub("^00", "01") .. "1", HEADER:gsub("^00", "01") .. ".x",
    } do
      local trace, span, flags = within(function() return rn.traceparent(text) end):match(FORM)
      assert.equal(32, #trace, text)
      assert.equal(16, #span, text)
      assert.are_not.equal(TRACE, trace, text)
      assert.equal("00", flags)
      assert.is_nil(seen[trace])
      seen[trace] = true
    end
  end)

  it("reads headers of later versions, and passes on only the flag that is known", function()
    rn.traceparent(true)
    for text, flags in pairs {
      [HEADER:gsub("01$", "00")] = "00", [HEADER:gsub("01$", "03")] = "01", [HEADER:gsub("01$", "fe")] = "00",
      [HEADER:gsub("^00", "cc")] = "01", [HEADER:gsub("^00", "cc") .. "-what is it"] = "01",
    } do
      local trace, _, got = within(function() return rn.traceparent(text) end):match(FORM)
      assert.same({ TRACE, flags }, { trace, got }, text)
    end
  end)

  it("passes tracestate on, if it may be sent", function()
    rn.traceparent(true)
    local function state(text, value)
      return within(function()
        rn.traceparent(text, value)
        return select(2, rn.traceparent()) or "none"
      end)
    end
    assert.equal("a=1,b=2", state(HEADER, "a=1,b=2"))
    assert.equal("none", state("new", "a=1"))
    assert.equal("none", state(HEADER, ""))
    assert.equal("none", state(HEADER, "a=\r\nX: y"))
    assert.equal("none", state(HEADER, ("a"):rep(513)))
  end)

  it("holds for the go blocks that a go block starts from then on, whoever starts them for it", function()
    rn.traceparent(true)
    local before = rn.go(rn.sleep, 1)
    within(function()
      local early = rn.go(function()
        rn.sleep(1)
        return rn.traceparent() or "none"
      end)
      local mine = rn.traceparent(HEADER)
      local function get() return rn.traceparent() end
      assert.equal(mine, rn.go(get):take())
      assert.equal(mine, rn.go(function() return rn.go(get):take() end):take())
      assert.equal(mine, rn.pmap(2, get, { 1 }):take())
      assert.equal(mine, rn.scope(function(s) return s:go(get):take() end))
      assert.equal("none", early:take())
    end)
    assert.is_nil(rn.traceparent())
    before:take()
  end)

  it("holds for the main program and what it starts", function()
    rn.traceparent(true)
    local mine = rn.traceparent "new"
    assert.equal(mine, within(function() return rn.traceparent() end))
    rn.traceparent(false)
    assert.is_nil(rn.traceparent())
    rn.traceparent(true)
    assert.is_nil(rn.traceparent())
  end)

  it("holds while a trace is recorded or a graph counted, too", function()
    rn.traceparent(true)
    rn.graph()
    within(function()
      local mine = rn.traceparent(HEADER)
      assert.equal(mine, within(function() return rn.traceparent() end))
      rn.graph(false)
      assert.equal(mine, within(function() return rn.traceparent() end))
    end)
  end)

  it("keeps no go block alive, and no context of one", function()
    rn.traceparent(true)
    local weak = setmetatable({}, { __mode = "v" })
    rn.go(function()
      rn.traceparent(HEADER)
      weak[1] = contexts.current()
    end)
    rn.sleep(0)
    for _ = 1, 4 do
      rn.sleep(0)
      collectgarbage()
    end
    assert.is_nil(weak[1])
  end)

  it("raises if it is called wrongly", function()
    local ok, err = pcall(function() rn.traceparent(7) end)
    assert.is_false(ok)
    assert.matches("traceparent_spec.lua:%d+: traceparent: true, false, a text or nothing expected, got a number", err)
  end)

  it("gives the same ids for the same seed of a simulation", function()
    rn.traceparent(true)
    local function run()
      return sim.run(function() return within(function() return rn.traceparent "new" end) end, { seed = 7 })
    end
    assert.equal(run(), run())
  end)
end)

describe("HTTP requests", function()
  local http = require "runnel.http"
  if http_stage.missing then return pending(http_stage.missing) end
  before_each(http_stage.open)
  after_each(function()
    rn.traceparent(false)
    http_stage.close()
  end)

  -- A server that asks itself: returns the headers of the request that the first request's function makes.
  local function relayed(headers, opts)
    return sim.run(function()
      local world, got = sim.world(), nil
      world:host("server", function()
        assert(http.serve(80, function(req)
          if req.path == "/inner" then return 200, nil, { traceparent = req.headers.traceparent,
            tracestate = req.headers.tracestate, mine = rn.traceparent() } end
          return 200, nil, rn.go(function() return http.get("http://server/inner", opts):json() end):take()
        end, { host = "0.0.0.0" }))
      end)
      world:host("client", function()
        rn.yield()
        got = assert(http.get("http://server/", { headers = headers })):json()
      end)
      world:run()
      return got
    end)
  end

  it("carry the trace of the request for which they are made", function()
    rn.traceparent(true)
    local got = relayed { traceparent = HEADER, tracestate = "a=1" }
    local trace, span, flags = got.traceparent:match(FORM)
    assert.same({ TRACE, "01", "a=1" }, { trace, flags, got.tracestate })
    assert.are_not.equal(PARENT, span)
    assert.matches("^00%-" .. TRACE .. "%-%x+%-01$", got.mine)
    assert.are_not.equal(got.traceparent, got.mine)
  end)

  it("carry a new trace, if the request has none", function()
    rn.traceparent(true)
    assert.matches(FORM, relayed().traceparent)
  end)

  it("carry the header that the program gives", function()
    rn.traceparent(true)
    assert.equal(HEADER, relayed(nil, { headers = { TraceParent = HEADER } }).traceparent)
  end)

  it("carry none while it is off", function()
    assert.same({}, relayed { traceparent = HEADER })
  end)

  it("carry it between a real server and a real client", function()
    rn.traceparent(true)
    local server <close> = assert(http.serve(0, function(req)
      return 200, nil, { traceparent = req.headers.traceparent, mine = rn.traceparent() }
    end))
    local got, mine = table.unpack(within(function()
      local mine = rn.traceparent(HEADER)
      return { assert(http.get(server.url)):json(), mine }
    end))
    assert.equal(mine, got.traceparent)
    assert.matches("^00%-" .. TRACE .. "%-%x+%-01$", got.mine)
    assert.are_not.equal(mine, got.mine)
  end)

  it("leave no trace on what lives longer, such as a server", function()
    rn.traceparent(true)
    local server <close> = within(function()
      rn.traceparent(HEADER)
      return assert(http.serve(0, function() return 200 end))
    end)
    assert(server)
    local ports = 0
    for _, entry in ipairs(rn.ps()) do
      if entry.name:find "^a port to" then
        ports = ports + 1
        assert.is_nil(require("runnel.core").internal.trace.context(entry.result))
      end
    end
    assert.is_true(ports > 0)
  end)

  it("are logged with their trace", function()
    rn.traceparent(true)
    local lines = {}
    local f = http.log(function() return 200 end, { format = "json", to = function(line) lines[#lines + 1] = line end })
    local server <close> = assert(http.serve(0, f))
    assert(http.get(server.url, { headers = { traceparent = HEADER } }))
    assert.matches('"trace":"' .. TRACE .. '"', lines[1])
  end)
end)
