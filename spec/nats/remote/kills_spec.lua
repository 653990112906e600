-- Remote stages while workers, the server and the network fail.
local rn = require "runnel"
local long = require "spec.support.long"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local remote_workers = require "spec.support.queue.remote_workers"
local stage = require "spec.support.stage"

local _, nats = pcall(require, "runnel.nats")
local each_test = remote_workers.each_test
local start_workers = remote_workers.start_workers
local keep_up = remote_workers.keep_up
local jobs_left = remote_workers.jobs_left
local range = remote_workers.range

describe("remote jobs #ci", function()
  if remote_workers.missing then return pending(remote_workers.missing) end

  local JOBS = long.times(1500, 100000)

  it("come back once and in order, whatever is killed", each_test(function(server, conn)
    local list = start_workers(server, 4, "square", 8)
    local stop = keep_up(server, list, "square", 8)
    local over, kills = false, 0
    local killer = rn.go(function()
      while not over do
        rn.sleep(400)
        local victim = list[math.random(#list)]
        if not over and victim:output():find "serves" then
          victim:signal "KILL"
          kills = kills + 1
          if kills % 6 == 5 then
            server:kill()
            server:start()
          end
        end
      end
    end)
    local job = conn:remote("square", { traceback = false })
    local results = rn.pmap(64, job, range(JOBS), {
      ex_handler = function(err) return err end,
    })
    local n = 0
    for v in results do
      n = n + 1
      assert.equal(n % 10 == 7 and "no " .. n or n * n, v)
    end
    over = true
    killer:take()
    assert.equal(JOBS, n)
    assert.equal(0, patience.wait_until(function() return jobs_left(conn, "square") == 0 and 0 end))
    stop()
  end))

  it("of a killed worker run on another one all at the same time", each_test(function(server, conn)
    local gate, jobs = server.set.dir .. "/gate", {}
    for i = 1, 8 do jobs[i] = { i, gate } end
    local results = rn.pmap(8, conn:remote "gated", jobs)
    local function has_begun_all(program)
      assert(patience.wait_until(function()
        return select(2, program:output():gsub("begins", "")) == 8
      end), program:output())
    end
    local first = start_workers(server, 1, "gated", 8)[1]
    has_begun_all(first)
    first:signal "KILL"
    has_begun_all(start_workers(server, 1, "gated", 8)[1]) -- none ends before
    server.set:write("gate", "")
    assert.same(range(8), stage.drain(results))
  end))

  it("that end their worker are given up, and only those", each_test(function(server, conn)
    local list = start_workers(server, 3, "poison", 6)
    local stop = keep_up(server, list, "poison", 6)
    local given_up = {}
    local results = stage.drain(rn.pmap(18, conn:remote("poison", { starts = 3 }), range(120), {
      ex_handler = function(err, v)
        assert.equal("remote poison: the job was given up: its worker fell silent at each of 3 starts", err)
        given_up[#given_up + 1] = v
      end,
    }))
    stop()
    table.sort(given_up)
    assert.same({ 50, 100 }, given_up)
    assert.equal(118, #results)
    for i, v in ipairs(results) do assert.equal(i + (i >= 50 and 1 or 0) + (i >= 99 and 1 or 0), v) end
  end))

  it("wait for a network that stalls", each_test(function(server, conn) -- luacheck: no unused
    if not nats_server.has_proxy then return pending "luv is not installed" end
    start_workers(server, 2, "square", 4)
    local proxy = nats_server.proxy(server)
    local stalled <close> = assert(nats.connect(proxy.url, { reconnect_wait = 50 }))
    local n = 0
    local disturber = rn.go(function()
      rn.sleep(50)
      proxy:stall()
      rn.sleep(1500)
      proxy:flow()
      rn.sleep(100)
      proxy:cut()
    end)
    local values = range(2000)
    for v in rn.pmap(10, stalled:remote("square", { traceback = false }), values, {
      ex_handler = function(err) return err end,
    }) do
      n = n + 1
      assert.equal(n % 10 == 7 and "no " .. n or n * n, v)
    end
    assert.equal(2000, n)
    disturber:take()
  end))
end)
