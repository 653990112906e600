-- What ends or delays single jobs of remote stages: limits, tries, starts, jobs that are handed back, rates, and the
-- dead letters of what was given up.
local rn = require "runnel"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local restarted = require "spec.support.queue.restarted"
local stage = require "spec.support.stage"
local waits = require "runnel.nats.internal.patience"

local nats, missing = nats_server.library()
if not nats then
  describe("limits", function() pending(missing) end)
  return
end

local LUA = os.getenv "LUA" or "lua5.4"
local server, conn

-- Without the line that a call of os.execute has blocked the thread.
local function own(output) return (output:gsub("runnel: [^\n]* has blocked [^\n]*\n", "")) end

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

  describe("a remote job", function()
    it("is tried again when it raises, as often as `tries` tells, and is then a dead letter", function()
      local calls = {}
      conn:serve("flaky", 2, function(v)
        calls[v] = (calls[v] or 0) + 1
        if v == "never" or calls[v] < 3 then error(v .. " no " .. calls[v], 0) end
        return v .. calls[v]
      end, { drain_on_term = false })
      local flaky = conn:remote("flaky", { tries = 3, backoff = 20, traceback = false })
      assert.equal("later3", flaky "later")
      assert.same({ false, "never no 3" }, { pcall(flaky, "never") })
      assert.equal(3, calls.never)
      assert.equal(0, flaky:stats().waiting)

      local dead = conn:dead "flaky"
      assert.equal(1, dead:count())
      local letter = assert(dead:get(1))
      assert.same({ "job", "never no 3", 3, 3, "never", "msgpack" },
        { letter.kind, letter.error, letter.starts, letter.raises, letter.value, letter.encoding })
      assert.matches("^%[worker .*\nstack traceback:", letter.traceback)
      assert.is_true(math.abs(letter.time - os.time() * 1000) < 60000)
      assert.is_true(letter.since <= letter.time)
      -- With the default, an error is the result.
      assert.is_false(pcall(conn:remote "flaky", "never"))
      assert.equal(1, dead:count())
    end)

    it("that takes longer than the limit is cancelled, and has failed", function()
      local ended, limit = 0, math.ceil(200 * patience.factor())
      local late = ("serve slow: a call had not ended after %d ms"):format(limit)
      conn:serve("slow", 4, function(ms)
        local leaving <close> = setmetatable({}, { __close = function() ended = ended + 1 end }) -- luacheck: ignore 211
        rn.sleep(ms)
        return ms
      end, { timeout = limit, drain_on_term = false })
      local slow = conn:remote("slow", { traceback = false })
      local results = stage.drain(rn.pmap(3, slow, { 1, 1e6, 2 }, {
        ex_handler = function(err) return rn.is_timeout(err) and err.message end,
      }))
      assert.same({ 1, late, 2 }, results)
      assert.equal(3, ended)
      local out = rn.chan(1)
      slow(1e6, out) -- the function gets a channel, too
      local _, err = out:take()
      assert.is_true(rn.is_timeout(err))
      assert.equal(late, err.message)
    end)

    it("that computes for longer than the limit ends its worker, and the others run elsewhere at once", function()
      local path = server.set:write("busy.lua", [[
        local rn = require "runnel"
        local conn = assert(require("runnel.nats").connect(arg[1]))
        conn:serve("busy", 4, function(v)
          print("begins " .. v)
          io.stdout:flush()
          while v == "loop" do os.execute "sleep 0.05" end -- no other go block runs
          rn.sleep(1e6)
        end, { timeout = 700, ack_wait = 60000 }):wait()
      ]])
      local busy = conn:remote("busy", { traceback = false })
      local worker = server.set:start { LUA, path, server.url }
      local _, err = pcall(busy, "loop")
      assert.is_true(rn.is_timeout(err))
      assert.equal("serve busy: a call had not ended after 700 ms", err.message)
      assert.equal(1, worker:wait())
      assert.equal("begins loop\nrunnel: serve busy: a call had not ended after 700 ms, and Lua does not " ..
        "come back: this process ends\n", own(worker:output()))

      -- With another job that is over its limit by then: which of them is the cause, is not known.
      worker = server.set:start { LUA, path, server.url }
      local other = rn.go(busy, "other")
      assert(worker:says "begins other")
      local looping = rn.go(busy, "loop")
      assert(worker:says "begins loop")
      local start = rn.now()
      conn:serve("busy", 4, function(v) return v .. " here" end, { drain_on_term = false })
      assert.same({ "other here", "loop here" }, { other:take(), (looping:take()) })
      assert.is_true(rn.now() - start < 30000, rn.now() - start) -- not ack_wait
    end)

    it("has not failed if another one, which began after Lua had last run other code, may block its worker", function()
      local path = server.set:write("beats.lua", [[
        local conn = assert(require("runnel.nats").connect(arg[1]))
        local core = conn.core
        local function begin(name)
          core:limit(core:beat(name, "goes on", 100000, "again"), 1000, "late: " .. name, "failed." .. name, "late")
        end
        core:alive()
        begin "waits"
        os.execute "sleep 0.4"
        if arg[2] == "two" then begin "loops" end
        while true do os.execute "sleep 0.05" end
      ]])
      local told <const> = rn.chan(10)
      for _, subject in ipairs { "waits", "loops", "failed.*" } do
        assert(conn:subscribe(subject, { encoding = "raw" }, function(data, _, _, of) told:put(of .. " " .. data) end))
      end
      for _, case in ipairs {
        { "two", { "loops -NAK", "waits -NAK" } },
        { "one", { "failed.waits late", "waits -NAK" } },
      } do
        local worker = server.set:start { LUA, path, server.url, case[1] }
        assert.equal(1, worker:wait())
        local list = { told:take(), (told:take()) }
        table.sort(list)
        assert.same(case[2], list)
        assert.is_nil((told:poll()))
      end
    end)

    it("that its worker hands back runs on another one, and has not failed", function()
      waits.scale(0.1)
      local list = stage.report_texts(function()
        local old = conn:serve("both", 1, function() nats.hand_back "it is too old" end, { drain_on_term = false })
        local result = rn.go(conn:remote("both", { starts = 1 }), 1)
        patience.wait_until(function() return old:stats().waiting + old:stats().running == 0 and
          conn:dead("both"):count() == 0 end)
        rn.sleep(300)
        old:drain()
        local other <close> = assert(nats.connect(server.url))
        other:serve("both", 1, function(v) return v + 1 end, { drain_on_term = false })
        assert.equal(2, result:take())
      end)
      assert.same({ "serve both: a job was handed back: it is too old" }, list)
    end)

    it("that ends its worker is a dead letter after five starts or six; replayed, it gives its result", function()
      local kept = restarted.start(server, [[
        conn:serve("crash", 4, function(v)
          say("begins " .. v)
          if v == "poison" and not io.open((arg[0]:gsub("kept.lua", "mended"))) then os.exit(3) end
          return v .. "!"
        end, { ack_wait = 200 }):wait()
      ]])
      local crash = conn:remote "crash"
      local err = select(2, pcall(crash, "poison"))
      assert.equal("remote crash: the job was given up: its worker fell silent at each of 5 starts", err)
      -- One more if the server has forgotten the first start, about which the worker did not ask.
      local starts = count(kept.output(), "begins poison")
      assert.is_true(starts == 5 or starts == 6, kept.output())
      local dead = conn:dead "crash"
      local letter = dead:list()[1]
      assert.same({ err, 5, 0, "job" }, { letter.error, letter.starts, letter.raises, letter.kind })
      assert.matches("^%S+:%d+$", letter.worker)
      assert.is_nil(letter.value)
      server.set:write("mended", "")
      assert.same({ true, "poison!" }, { dead:replay(letter.sequence) })
      assert.equal(0, dead:count())
      kept.stop()
    end)

    it("starts only as often in a time as `rate` tells, in all workers together #ci", function()
      local started = {}
      for _ = 1, 2 do
        conn:serve("paced", 8, function(v)
          started[#started + 1] = rn.now()
          return v
        end, { rate = { 5, 500 }, drain_on_term = false })
      end
      local values = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 }
      assert.same(values, stage.drain(rn.pmap(16, conn:remote "paced", values)))
      for i = 6, #started do
        -- The server drops what is old now and then; it is never early, but for the way to the worker.
        assert.is_true(started[i] - started[i - 5] > 350, started[i] - started[i - 5])
      end
    end)
  end)

  describe("bad input", function()
    it("raises at the caller's line, or is told", function()
      raises("^dead: name", function() conn:dead "a.b" end)
      raises("^list: after", function() conn:dead("x"):list { after = -1 } end)
      raises("^get: sequence", function() conn:dead("x"):get "1" end)
      raises("^serve: timeout", function() conn:serve("x", 1, print, { timeout = 1 }) end)
      raises("^serve: rate: calls a second, or { calls, ms },", function() conn:serve("x", 1, print, { rate = 0 }) end)
      raises("^stage: rate", function() conn:stage("x", 1, print, nil, { name = "x", rate = { 1 } }) end)
      raises("^stage: starts", function() conn:stage("x", 1, print, nil, { name = "x", starts = 0 }) end)
      raises("^remote: tries", function() conn:remote("x", { tries = 0 }) end)
      raises("^remote: dead: true or false", function() conn:remote("x", { dead = 1 }) end)
      assert(conn:stream "words")
      local sink = assert(conn:sink "words")
      raises("^put: delay or at expected, got both", function() sink:put(1, { delay = 1, at = 1 }) end)
      local dead = conn:dead "x"
      assert.equal(0, dead:count())
      assert.same({}, dead:list())
      assert.equal(0, dead:drop())
      assert.same({ nil, "there is no dead letter 1 of x" }, { dead:get(1) })
      assert.same({ nil, "there is no dead letter 1 of x" }, { dead:replay(1) })
      assert.same({ nil, "there is no dead letter 1 of x" }, { dead:drop(1) })
      assert.equal("dead letters: x.dead", tostring(dead))
    end)
  end)
end)
