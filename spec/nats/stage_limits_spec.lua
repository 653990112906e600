-- What ends or delays single messages of durable stages: limits, tries, starts, delays, and the dead letters of what
-- was given up.
local rn = require "runnel"
local counts = require "runnel.nats.internal.counts"
local jetstream = require "runnel.nats.internal.jetstream"
local names = require "runnel.nats.internal.names"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local restarted = require "spec.support.queue.restarted"
local of_workers = require "runnel.queue.patience"
local waits = require "runnel.nats.internal.patience"

local nats, missing = nats_server.library()
if not nats then
  describe("limits", function() pending(missing) end)
  return
end

local LUA = os.getenv "LUA" or "lua5.4"
local server, conn

local function count(text, what) return select(2, text:gsub(what, "")) end

describe("with limits", function()
  before_each(function()
    server = nats_server.start()
    conn = assert(nats.connect(server.url, { reconnect_wait = 20, encoding = "msgpack" }))
  end)
  after_each(function()
    waits.scale(1)
    conn:close()
    server:close()
  end)

  describe("a message of a stage", function()
    local function stored(name, ...)
      assert(conn:stream(name))
      local sink = assert(conn:sink(name))
      for _, v in ipairs { ... } do assert(sink:put(v)) end
      return sink
    end

    it("is not started beside itself when the server delivers it again", function()
      if not nats_server.has_proxy then return pending "luv is not installed" end
      local proxy = nats_server.proxy(server)
      assert(conn:stream "out")
      stored("words", 1)
      local there <close> = assert(nats.connect(proxy.url, { encoding = "msgpack" }))
      local calls, over = 0, rn.chan()
      local s = assert(there:stage("words", 2, function(v)
        calls = calls + 1
        if calls == 1 then over:take() end
        return v
      -- Shorter than 30 s, after which the stage's request for more ends at the server: nothing would come again.
      end, "out", { ack_wait = math.min(5000, math.ceil(300 * patience.factor())) }))
      assert.is_truthy(patience.wait_until(function() return calls == 1 end))
      proxy:stall()
      assert.is_truthy(patience.wait_until(function()
        local info = conn:request("$JS.API.CONSUMER.INFO.words.out", "", { timeout = 5000, encoding = "raw" })
        return info and info.data:find '"num_redelivered":1'
      end))
      proxy:flow()
      patience.wait_for(function() return there:flush() end)
      rn.sleep(200) -- the message would have been started again
      assert.equal(1, calls)
      over:close()
      assert.is_truthy(patience.wait_until(function()
        local info = conn:request("$JS.API.CONSUMER.INFO.words.out", "", { timeout = 5000, encoding = "raw" })
        return info and info.data:find '"num_ack_pending":0'
      end))
      assert.same({ 1, 1 }, { calls, s:stats().done })
      s:drain()
    end)

    it("whose dead letter has no room for the headers of a replay stays one, and replay says so", function()
      stored("words", "short")
      local before = rn.on_error(function() end)
      local s <close> = assert(conn:stage("words", 1, function() error "no" end, nil, { name = "out", tries = 1 }))
      local dead = conn:dead "out"
      assert.equal(1, patience.wait_until(function() return dead:count() == 1 and 1 end))
      s:drain()
      rn.on_error(before)
      -- One as an older version has written it, or when the server's limit was larger.
      local headers, size = { ["Runnel-Kind"] = "message", ["Runnel-From"] = "words", ["Runnel-Subject"] = "words" }, 12
      for name, text in pairs(headers) do size = size + #name + #text + 4 end
      local large <close> = assert(nats.connect(server.url, { encoding = "raw" }))
      assert(large:publish(names.dead "out", ("x"):rep(conn.max_payload - size), { headers = headers }))
      assert(large:flush())
      assert.equal(2, dead:count())
      local done, err = dead:replay(2)
      assert.is_nil(done)
      assert.matches("^the value takes %d+ bytes, its headers %d+, and the server's limit is %d+", err)
      assert.equal(2, dead:count())
      assert.is_true(dead:replay(1))
    end)

    it("whose result has no room beside its headers is given up, and not put for ever", function()
      assert(conn:stream "out")
      stored("words", "short")
      local reported = 0
      local before = rn.on_error(function() reported = reported + 1 end)
      local s <close> = assert(conn:stage("words", 1, function(v) return v:rep(conn.max_payload // #v - 2) end, "out",
        { tries = 1 }))
      local dead = conn:dead "out"
      assert.equal(1, patience.wait_until(function() return dead:count() == 1 and 1 end))
      assert.matches("its headers %d+, and the server's limit is", assert(dead:get(1)).error)
      s:drain()
      rn.on_error(before)
      assert.equal(1, reported)
    end)

    it("that ends its process is given up after about five starts, alone at the end, and no other one", function()
      assert(conn:stream "out")
      local values = {}
      for i = 1, 20 do values[i] = i end
      values[7] = "poison"
      stored("words", table.unpack(values))
      local kept = restarted.start(server, [[
        local running = 0
        local s = assert(conn:stage("words", 8, function(v)
          running = running + 1
          say("begins", v, running)
          if v == "poison" then
            rn.sleep(20)
            os.exit(3)
          end
          rn.sleep(100)
          running = running - 1
          return v
        end, "out", { ack_wait = 300, encoding = "msgpack" }))
        s:wait()
      ]])
      local out, seen = assert(conn:source "out"), {}
      for _ = 1, 19 do
        local m = rn.alts { out, rn.timeout(60000) }
        assert.is_truthy(m)
        assert.is_nil(seen[m.value])
        seen[m.value] = true
      end
      local dead = conn:dead "out"
      assert.equal(1, patience.wait_until(function() return dead:count() == 1 and 1 end))
      kept.stop()
      -- One more if the server has forgotten the first start, which is not counted in the bucket; and a message that it
      -- delivers to a process twice at once begins twice.
      local starts = count(kept.output(), "begins\tpoison")
      assert.is_true(starts >= 5 and starts <= 8, kept.output())
      assert.is_true(count(kept.output(), "begins\tpoison\t1\n") >= 2) -- alone
      local letter = assert(dead:get(1))
      assert.same({ "message", "poison", 5, 0, "words", 7 },
        { letter.kind, letter.value, letter.starts, letter.raises, letter.from, letter.position })
      assert.equal("stage out: the message was given up: its process ended at each of 5 starts", letter.error)
    end)

    it("that must run alone lets the other ones wait in the stream #ci", function()
      waits.scale(0.1)
      local values = {}
      for i = 1, 60 do values[i] = i end
      stored("words", table.unpack(values))
      local source = assert(conn:source("words", { name = "n", buffer = 1 }))
      local first = source:take()
      source:close()
      first:nak() -- from now on it was delivered before
      local info = assert(jetstream.stream_info(conn, "words"))
      assert(counts.new(conn, "runnel-stage-n", info):put({ sequence = 1 }, { starts = 3, raises = 0 }))
      local calls, alone, over = 0, nil, rn.chan()
      local s = assert(conn:stage("words", 4, function(v)
        calls = calls + 1
        if v ~= 1 then return rn.sleep(10) end
        alone = calls
        over:take()
      end, nil, { name = "n" }))
      local function delivered()
        return assert(jetstream.request(conn, "CONSUMER.INFO.words.n")).delivered.stream_seq
      end
      assert.is_truthy(patience.wait_until(function() return alone end))
      rn.sleep(4 * of_workers.alone_again) -- others would be delivered, and given back, several times
      assert.equal(alone, calls)
      assert.is_true(delivered() < 60, delivered())
      over:close()
      assert.is_truthy(patience.wait_until(function() return s:stats().done == 60 end))
      s:drain()
    end)

    it("is not given up because its process was killed four times, and it raises once after that #ci", function()
      stored("words", "a")
      local ack_wait = math.ceil(200 * patience.factor())
      local function start(text)
        local path = server.set:write("one.lua", ([[
          local rn = require "runnel"
          local conn = assert(require("runnel.nats").connect(arg[1], { encoding = "msgpack" }))
          assert(conn:stage("words", 1, function(v)
            print "begins"
            io.stdout:flush()
            %s
          end, nil, { name = "n", ack_wait = %d, tries = 2, backoff = 20, starts = 9 })):wait()
        ]]):format(text, ack_wait))
        return server.set:start { LUA, path, server.url }
      end
      for _ = 1, 4 do
        local program = start "rn.sleep(1e6)"
        assert(program:says("begins"), program:output())
        program:signal "KILL"
        program:wait()
      end
      local program = start [[
        if not TRIED then
          TRIED = true
          error("once", 0)
        end
        print "done"
        io.stdout:flush()
      ]]
      assert(program:says("done"), program:output())
      assert.equal(0, conn:dead("n"):count())
    end)

    it("that takes longer than the limit is cancelled, or its process ended #heavy", function()
      stored("words", "park", "loop", "fine")
      local limit = math.ceil(300 * patience.factor())
      local kept = restarted.start(server, ([[
        assert(conn:stage("words", 3, function(v)
          say("begins " .. v)
          if v == "park" then rn.sleep(1e6) end
          if v == "fine" then rn.sleep(50) end
          while v == "loop" do os.execute "sleep 0.05" end -- no other go block runs
          say("ends " .. v)
        end, nil, { name = "n", encoding = "msgpack", timeout = %d, tries = 2, backoff = 20, ack_wait = 500 })):wait()
      ]]):format(limit))
      local dead = conn:dead "n"
      patience.wait_until(function() return dead:count() == 2 and kept.output():find "ends fine" end)
      kept.stop()
      local letters = {}
      for i, letter in ipairs(assert(dead:list())) do
        letters[i] = { assert(dead:get(letter.sequence)).value, letter.error, letter.raises }
      end
      table.sort(letters, function(a, b) return a[1] < b[1] end)
      local late = ("stage n: a call had not ended after %d ms"):format(limit)
      assert.same({ { "loop", late, 2 }, { "park", late, 2 } }, letters)
      assert.matches("ends fine", kept.output())
      assert.is_true(count(kept.output(), "Lua does not come back") >= 2)
    end)

    it("has not failed because its result was stored only after the limit #ci", function()
      assert(conn:stream "out")
      stored("words", "a")
      local calls = 0
      local limit = math.ceil(300 * patience.factor()) -- in which the server is paused
      local s = assert(conn:stage("words", 1, function(v)
        calls = calls + 1
        rn.go(function()
          rn.sleep(limit + 500)
          server:resume()
        end)
        server:pause()
        return v .. "!"
      end, "out", { name = "n", timeout = limit, tries = 1, ack_wait = 20 * limit }))
      local results <close> = assert(conn:source "out")
      assert.equal("a!", results:take().value)
      patience.wait_until(function() return s:stats().done == 1 end)
      assert.same({ 1, 1, 0, 0 }, { calls, s:stats().done, s:stats().failed, s:stats().given_up })
      assert.equal(0, conn:dead("n"):count())
      s:drain()
    end)
  end)
end)
