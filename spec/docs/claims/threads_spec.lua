-- What the documents say of threads, pools of threads and shared channels.

local rn = require "runnel"
local raises = require "spec.support.raises"
local patience = require "spec.support.patience"
local claim = require "spec.support.docs.claims"(it)

-- What rn.ps shows of a thread, by its result channel.
local function shown(result)
  for _, block in ipairs(rn.ps()) do
    if block.thread and block.name == result:name() then return block end
  end
end

describe("the documents say of threads", function()
  claim("of a thread `\"starting\"`, `\"computing\"` or `\"waiting\"`", function()
    local jobs, ready = rn.shared_chan(), rn.shared_chan()
    local thread = rn.thread(function(from, to)
      to:put(true)
      return from:take()
    end, jobs, ready)
    local states = { starting = true, computing = true, waiting = true }
    assert.is_true(states[shown(thread).state])
    ready:take()
    patience.wait_for(function() return shown(thread).state == "waiting" end)
    local block = shown(thread)
    assert.same({ "take", jobs }, { block.waits[1].operation, block.waits[1].channel })
    jobs:put "done"
    assert.equal("done", thread:take())
  end)

  claim("its other go blocks that are ready get one more turn, and then all are dropped", function()
    local out = rn.shared_chan(10)
    local thread = rn.thread(function(to)
      local lib = require "runnel"
      lib.go(function()
        to:put "one"
        lib.yield()
        to:put "two"
      end)
      return "done"
    end, out)
    assert.equal("done", thread:take())
    rn.run() -- until the thread has ended
    assert.equal("one", out:poll())
    assert.is_nil(out:poll())
  end)

  claim("A thread does not end with the go block that has started it. One of a [scope](scopes.md#scopes) does",
    function()
      local jobs, threads = rn.shared_chan(), {}
      local function wait(from) return from:take() end
      local block = rn.go(function()
        threads[1] = rn.thread(wait, jobs)
        rn.chan():take()
      end)
      rn.yield()
      rn.cancel(block, "why")
      block:take()
      assert.is_false(threads[1]:closed())
      assert.is_false(pcall(rn.scope, function(s)
        threads[2] = s:thread(wait, rn.shared_chan())
        error("why", 0)
      end))
      assert.same({ nil, "why" }, { threads[2]:take() })
      jobs:put "goes on"
      assert.equal("goes on", threads[1]:take())
    end)

  claim("An error of a job is raised here, as it is or, if it cannot be copied, as its text.", function()
    local pool <close> = rn.threads(1, function(v) error(v == 1 and { code = 7 } or print, 0) end)
    local _, err = pcall(pool, 1)
    assert.same({ code = 7 }, err)
    _, err = pcall(pool, 2)
    assert.matches("^function", err)
  end)

  claim("If a pool is closed while a pipeline still calls it, those calls raise errors, which are reported", function()
    local pool = rn.threads(1, function(v) return v end)
    pool:drain()
    local results = rn.pmap(2, pool, { 1, 2 })
    local v, err = results:take()
    assert.is_nil(v)
    assert.matches("closed", err)
  end)

  claim("It must not use local variables from outside it.", function()
    local outside = 1
    raises("outside", function() rn.thread(function() return outside end) end)
    raises("outside", function() rn.threads(1, function() return outside end) end)
  end)

  claim("Several of `rn.pmap`, `rn.pipeline_async` and others may use a pool at the same time.", function()
    local pool <close> = rn.threads(2, function(v) return v * v end)
    local one, other = rn.pmap(4, pool, { 1, 2, 3 }), rn.pmap(4, pool, { 4, 5, 6 })
    assert.same({ 16, 25, 36 }, rn.into({}, other):take())
    assert.same({ 1, 4, 9 }, rn.into({}, one):take())
  end)

  claim("`n` is a size, a fixed, dropping or sliding buffer, or `\"promise\"`", function()
    local dropping, sliding = rn.shared_chan(rn.dropping_buffer(1)), rn.shared_chan(rn.sliding_buffer(1))
    local promise, fixed = rn.shared_chan "promise", rn.shared_chan(rn.buffer(2))
    for i = 1, 2 do
      for _, ch in ipairs { dropping, sliding, promise, fixed } do assert.is_true(ch:put(i)) end
    end
    assert.same({ 1, 2, 1, 1 }, { dropping:take(), sliding:take(), promise:take(), promise:take() })
    assert.same({ 1, 2 }, { fixed:take(), fixed:take() })
  end)

  claim("Booleans, numbers, strings, tables of these, and shared channels can be put; a shared channel arrives as the "
    .. "same channel.", function()
    local ch, other = rn.shared_chan(1), rn.shared_chan(1)
    for _, value in ipairs { true, false, 1, 1.5, "text", { a = { 1, 2 } } } do
      ch:put(value)
      assert.same(value, ch:take())
    end
    ch:put { other }
    assert.equal(other, ch:take()[1])
    for place, value in pairs { ["value.a%[1%]"] = { a = { print } }, ["value%.m"] = { m = setmetatable({}, {}) } } do
      raises(place, function() ch:put(value) end)
    end
    assert.is_nil(ch:poll())
  end)

  claim("It is also one if only threads could complete it which wait for each other, or for this operation.", function()
    local ch = rn.shared_chan()
    local thread = rn.thread(function(from) from:take() end, ch)
    local ok, err = pcall(thread.take, thread)
    assert.is_false(ok)
    assert.matches("deadlock", err)
    ch:close()
    thread:take()
  end)

  claim("A simulation does not wait for other states, and cannot start threads or call pools.", function()
    local pool <close> = rn.threads(1, function(v) return v end)
    require("runnel.sim").run(function()
      assert.is_false(pcall(rn.thread, function() end))
      assert.is_false(pcall(pool, 1))
    end)
    assert.equal(1, pool(1))
  end)
end)
