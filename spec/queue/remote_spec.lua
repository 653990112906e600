-- Remote stages and their workers: what is the same on a nats-server and in a store.

local rn = require "runnel"
local patience = require "spec.support.patience"
local places = require "spec.support.queue.places"
local raises = require "spec.support.raises"
local reported = require "spec.support.stage"

local left, take_within, wait_for = places.left, places.take_within, patience.wait_for

for _, at in ipairs(places) do
  local within = at.within

  describe("a remote stage " .. at.name, function()
    if at.missing then return pending(at.missing) end

    it("gives the results of its workers, in the order of the values, and their errors", within(function(place)
      local function f(v, out)
        if v == 7 then error("no 7", 0) end
        if v == 8 then error { code = 8 } end
        if not out then return v * v end
        for _ = 1, v do out:put(v) end
        out:close()
      end
      local workers = {}
      for i = 1, 2 do workers[i] = place.open():serve("square", 3, f) end
      local remote = place.owner:remote "square"
      local list, squares, errors = {}, {}, {}
      for i = 1, 60 do list[i], squares[i] = i, i * i end
      squares[7], squares[8] = "failed", "failed"
      assert.same(squares, reported.drain(rn.pmap(10, remote, list, { ex_handler = function(err, v)
        errors[v] = err
        return "failed"
      end })))
      assert.matches("^no 7\n%[worker [^:]+:%d+%]\nstack traceback:\n.*remote_spec.lua", errors[7])
      assert.equal(8, errors[8].code)
      assert.matches("stack traceback", errors[8].traceback)
      assert.same({ 1, 3, 3, 3, 2, 2 }, reported.drain(rn.pipeline_async(2, rn.chan(), remote, rn.to_chan { 1, 3, 2 })))
      assert.same({ waiting = 0, submitted = 63 }, remote:stats())
      assert.equal(63, workers[1]:stats().done + workers[2]:stats().done)
      assert.same({ 60, "jobs", "square" }, { #squares, place.owner:queue("square").kind,
        place.owner:queue("square").name })
      raises("^remote square: a value other than nil expected", function() remote(nil) end)
      remote:close()
      raises("^remote square: the remote stage is closed", function() remote(1) end)
    end))

    it("has jobs that are tried again, and are then dead letters, which can be replayed", within(function(place)
      local tries, mended = 0, false
      local worker = place.open():serve("flaky", 2, function(v)
        tries = tries + 1
        if not mended then error("not yet", 0) end
        return v .. "!"
      end)
      local remote = place.owner:remote("flaky", { tries = 3, backoff = 1, traceback = false })
      assert.same({ false, "not yet" }, { pcall(remote, "a") })
      assert.equal(3, tries)
      local dead = place.owner:dead "flaky"
      local letter = assert(dead:get(1))
      assert.same({ "job", "a", "not yet", 3, 3 },
        { letter.kind, letter.value, letter.error, letter.starts, letter.raises })
      for i = 1, 3 do
        assert.same({ i, "not yet" }, { letter.errors[i].start, letter.errors[i].error:match "^[^\n]*" })
      end
      mended = true
      assert.same({ true, "a!" }, { dead:replay(1) })
      assert.equal(0, dead:count())
      assert.same({ 2, 3, 1 }, { worker:stats().done, worker:stats().failed, worker:stats().given_up })
      worker:drain()
    end))

    it("has jobs that fail by returning nil and an error, as those of a function do", within(function(place)
      local tries = 0
      local worker = place.open():serve("asks", 2, function(v)
        tries = tries + 1
        if v > 1 then return nil, v == 2 and "refused" or { code = v } end
      end)
      local remote = place.owner:remote("asks", { tries = 2, backoff = 1 })
      assert.same({ "refused 2", 3 }, reported.drain(rn.pmap(2, remote, { 1, 2, 3 }, {
        ex_handler = function(err, v) return v == 2 and err .. " 2" or err.code end,
      })))
      assert.equal(5, tries)
      assert.same({ false, "refused" }, { pcall(remote, 2) })
      assert.same({ true }, { pcall(remote, 1) })
      assert.same({ 5, 6, 3 }, { worker:stats().done, worker:stats().failed, worker:stats().given_up })
      assert.equal(3, place.owner:dead("asks"):count())
      worker:drain()
    end))

    it("cancels a job whose caller is cancelled, whether it runs or waits", within(function(place)
      local began, ended = 0, 0
      local worker = place.open():serve("slow", 1, function()
        began = began + 1
        local closing <close> = setmetatable({}, { __close = function() ended = ended + 1 end }) -- luacheck: ignore 211
        rn.sleep(1e6)
      end)
      local remote = place.owner:remote "slow"
      local blocks = { rn.go(remote, 1), rn.go(remote, 2) }
      wait_for(function() return began == 1 end)
      wait_for(function() return remote:stats().submitted == 2 end)
      for _, block in ipairs(blocks) do rn.cancel(block) end
      wait_for(function() return ended == began and remote:stats().waiting == 0 end)
      wait_for(function() return left(place.owner, "slow") == 0 end)
      assert.is_true(began <= 2)
      worker:stop()
    end))

    it("runs a job again whose worker was killed", within(function(place)
      local program = place.started [[
        owner:serve("killed", 1, function()
          print "begun"
          io.stdout:flush()
          rn.sleep(1e6)
        end):wait()
      ]]
      local block = rn.go(place.owner:remote "killed", 5)
      assert.is_true(program:says "begun", program:output())
      program:signal "KILL"
      local worker = place.open():serve("killed", 1, function(v) return v + 1 end)
      assert.equal(6, (rn.alts { block, rn.timeout(60000) }))
      assert.equal(1, worker:stats().redelivered)
      worker:stop()
    end))

    it("does not run the jobs of a program that has ended", within(function(place)
      local program = place.started [[
        local remote = owner:remote "gone"
        rn.go(remote, "lost")
        rn.sleep(200)
        print "submitted"
        io.stdout:flush()
        rn.sleep(1e6)
      ]]
      assert.is_true(program:says "submitted", program:output())
      program:signal "KILL"
      program:wait()
      local seen = {}
      local worker = place.open():serve("gone", 1, function(v)
        seen[#seen + 1] = v
        return v
      end)
      assert.equal("mine", place.owner:remote "gone" "mine")
      assert.equal("again", place.owner:remote "gone" "again")
      wait_for(function() return left(place.owner, "gone") == 0 end)
      if at.name == "in a store" then assert.same({ "mine", "again" }, seen) end -- a server may say so too late
      worker:stop()
    end))

    it("starts nothing while it is paused, and ends its jobs when it drains", within(function(place)
      local last
      local worker = place.open():serve("jobs", 2, function(v)
        last = v
        rn.sleep(50)
        return v
      end)
      local remote = place.owner:remote "jobs"
      assert.equal(0, remote(0))
      assert.equal(1, assert(place.owner:queue "jobs"):pause(places.answer()))
      local results = rn.pmap(2, remote, { 1, 2 })
      rn.sleep(150)
      assert.is_nil((results:poll()))
      assert.equal(1, assert(place.owner:queue "jobs"):resume(places.answer()))
      assert.equal(1, take_within(results, 30000))
      assert.equal(2, take_within(results, 30000))
      local block = rn.go(remote, 3)
      wait_for(function() return last == 3 end) -- a job that has come but not started would be given back
      assert.is_true(worker:drain(30000))
      assert.equal(3, (take_within(block, 30000)))
      assert.is_true(worker:wait())
    end))

    it("refuses wrong arguments", within(function(place)
      local owner = place.owner
      raises("^remote: name: letters", function() owner:remote "a b" end)
      raises("^serve: name: letters", function() owner:serve("a b", 1, print) end)
      raises("^serve: n", function() owner:serve("a", 0, print) end)
      raises("^serve: f", function() owner:serve("a", 1, nil) end)
      raises('^serve: the module "no.such" cannot be loaded', function() owner:serve("a", 1, "no.such") end)
      raises("^remote: encoding", function() owner:remote("a", { encoding = "xml" }) end)
      for option, wrong in pairs { starts = 0, tries = 0, backoff = -1, dead = 1, replicas = 0, max_age = 1 } do
        raises(("^remote: %s: .* expected, got "):format(option), function()
          owner:remote("a", { [option] = wrong })
        end)
      end
      for option, wrong in pairs {
        ack_wait = 1, max_running = 0, timeout = 1, rate = 0, drain_on_term = 1, storage = 1,
      } do
        raises(("^serve: %s: .* expected, got "):format(option), function()
          owner:serve("a", 1, print, { [option] = wrong })
        end)
      end
      raises('^serve: unknown option "limit"; known: ', function()
        owner:serve("a", 1, print, { limit = 50 })
      end)
    end))
  end)
end
