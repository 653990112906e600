local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local missing = require "spec.support.missing"
local rn = require "runnel"
local http = require "runnel.http"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local stores = require "runnel.store"

-- An object, so that it is the same only if it was passed on as it is.
local FAULT = setmetatable({}, { __tostring = function() return "the fault" end })

-- Adds the errors with which the `<close>` variable of a function is closed to `seen`.
local function failing(seen)
  return function()
    local _ <close> = setmetatable({}, { __close = function(_, err) seen[#seen + 1] = { err } end })
    rn.yield()
    error(FAULT, 0)
  end
end

local function all(ch) return ch and rn.into({}, ch):take() end

-- Each calls a function of the user, once or several times, and waits until it has. `needs`: modules.
local PLACES = {
  { "rn.go", function(f) rn.go(f):take() end },
  { "rn.pmap", function(f) all(rn.pmap(1, f, { 1 })) end },
  { "rn.pmap with tries", function(f) all(rn.pmap(1, f, { 1 }, { tries = 2, backoff = 1 })) end },
  { "rn.pmap with a timeout", function(f) all(rn.pmap(1, f, { 1 }, { timeout = 1000 })) end },
  { "rn.pmap_unordered", function(f) all(rn.pmap_unordered(2, f, { 1, 2 })) end },
  { "rn.frontier", function(f) all(rn.frontier(1, f, { 1 })) end },
  { "rn.retry", function(f) rn.retry(f, { tries = 2, backoff = 1 }) end },
  { "rn.pipeline_async", function(f)
    all(rn.pipeline_async(1, rn.chan(), f, rn.to_chan { 1 }))
  end },
  { "the ex_handler of rn.pipeline_async", function(f)
    all(rn.pipeline_async(1, rn.chan(), error, rn.to_chan { 1 }, true, { ex_handler = f }))
  end },
  { "rn.pub", function(f)
    local source = rn.chan()
    rn.pub(source, f):sub("a", rn.chan(1))
    source:put(1)
    source:close()
    rn.sleep(1)
  end },
  { "rn.reduce", function(f) rn.reduce(f, 0, rn.to_chan { 1 }):take() end },
  { "rn.map", function(f) all(rn.map(f, { rn.to_chan { 1 } })) end },
  { "rn.split", function(f) all((rn.split(f, rn.to_chan { 1 }))) end },
  { "http.serve", needs = "luv", function(f)
    local world = sim.world()
    world:host("server", function() assert(http.serve(80, f, { host = "0.0.0.0" })) end)
    world:host("client", function()
      rn.sleep(10)
      assert(http.get "http://server/")
    end)
    world:run()
  end },
  { "store:serve", function(f)
    local store <close> = stores.open ":memory:"
    local worker = store:serve("r", 1, f)
    all(rn.pmap(1, store:remote "r", { 1 }))
    worker:stop()
  end },
  { "store:serve with a timeout", function(f)
    local store <close> = stores.open ":memory:"
    local worker = store:serve("r", 1, f, { timeout = 1000 })
    all(rn.pmap(1, store:remote "r", { 1 }))
    worker:stop()
  end },
  { "store:once", function(f)
    local store <close> = stores.open ":memory:"
    pcall(store:once("r", f), 1)
  end },
  { "store:stage", function(f)
    local store <close> = stores.open ":memory:"
    store:stream "in"
    store:stream "out"
    store:sink("in"):put(1)
    local one = store:stage("in", 1, f, "out", { tries = 1 })
    rn.sleep(100)
    one:stop()
  end },
}

describe("a function of the user", function()
  before_each(stage.open)
  after_each(stage.close)

  for _, place in ipairs(PLACES) do
    it("called by " .. place[1] .. " closes its variables with the error as it was raised", function()
      local reason = missing(place.needs or "")
      if reason then return pending(reason) end
      local seen = {}
      sim.run(function()
        rn.on_error(function() end)
        pcall(place[2], failing(seen))
      end)
      assert.is_true(#seen > 0)
      for _, one in ipairs(seen) do assert.equal(FAULT, one[1]) end
    end)
  end
end)

describe("guard.insist", function()
  it("calls a function again that waits while its go block is cancelled", stage.sim(function()
    local ch, calls = rn.chan(), 0
    local block = rn.go(guard.insist, function()
      calls = calls + 1
      core.internal.join(ch)
    end)
    for _ = 1, 3 do
      rn.yield()
      rn.cancel(block, "enough")
    end
    rn.yield()
    assert.is_false(block:closed())
    ch:close()
    block:take()
    assert.equal(4, calls)
  end))

  it("ends at a deadlock of a simulation's function", function()
    search.until_enough(function() return true end, function()
      guard.insist(core.internal.join, rn.chan()) -- raises no livelock: it is not told again and again
    end)
  end)
end)
