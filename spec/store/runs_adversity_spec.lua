-- store:runs where the file cannot be written for a while: nothing fails for that, and nothing is done twice.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"
local waits = require "runnel.queue.patience"

describe("runs of a store that cannot be written for now", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local sqlite = require "runnel.sqlite"
  local stores = require "runnel.store"
  local dir, store, reports, handler

  before_each(function()
    waits.scale(0.02)
    dir, reports = process.directory(), {}
    handler = rn.on_error(function(err, _, where) reports[#reports + 1] = where .. ": " .. tostring(err) end)
    store = stores.open(dir.path .. "/work.db", { busy_timeout = 1 })
  end)
  after_each(function()
    rn.on_error(handler)
    store:close()
    dir:remove()
    waits.scale(1)
  end)

  local function has_reported(pattern)
    for _, text in ipairs(reports) do
      if text:find(pattern) then return true end
    end
    return false
  end

  -- Waits until something was reported, and no run has failed.
  local function report(pattern)
    local failed <const> = "which has failed for good"
    patience.wait_for(function() return has_reported(pattern) or has_reported(failed) end)
    assert.is_false(has_reported(failed), reports[#reports])
  end

  -- Leaves no room on the disk, until the result is called.
  local function fill()
    local db = store.db
    db:exec "create table filler(bytes)"
    db:exec(("pragma max_page_count = %d"):format(db:one("pragma page_count").page_count))
    for bits = 14, 0, -1 do
      repeat until not pcall(db.exec, db, "insert into filler values (zeroblob(?))", 1 << bits)
    end
    return function() db:exec "pragma max_page_count = 100000" end
  end

  it("do a step once although the disk has no room for its result, and go on when it has", function()
    local calls, started = 0, rn.chan()
    local page = store:once("page", function()
      calls = calls + 1
      return ("x"):rep(100000)
    end)
    local pages = store:runs("page-run", function()
      started:take()
      return #page(1)
    end, { tries = 1 })
    local r = assert(pages:start(1))
    local has_room = fill()
    started:close()
    report "once page, which waits until it can store a result.*: .*database or disk is full"
    rn.sleep(150) -- some more attempts
    assert.same({ 1, 0 }, { calls, store:dead("page-run"):count() })
    has_room()
    assert.equal(100000, r:result())
    assert.equal(1, calls)
  end)

  it("start a run in another one when the disk has room, and do not fail before", function()
    local started = rn.chan()
    local children = store:runs("child", function(_, text) return #text end)
    local parents = store:runs("parent", function()
      started:take()
      return (children:start(1, ("x"):rep(100000)):result())
    end, { tries = 1 })
    local r = assert(parents:start(1))
    local has_room = fill()
    started:close()
    report "runs parent: results cannot be stored for now: .*database or disk is full"
    has_room()
    assert.equal(100000, r:result())
  end)

  for what, f in pairs {
    ["a sleep"] = function(run) run:sleep(1) end,
    ["a wait"] = function(run) run:wait("signal", { timeout = 1 }) end,
    ["a wait for a result"] = function(_, other) other:get("other"):result() end,
    ["the time"] = function(run) run:now() end,
    ["a note"] = function(run) run:note "a note" end,
    ["a step with a transaction"] = function()
      store:once("tx", function(tx) tx:exec "insert into orders values (1)" end, { tx = true, key = function()
        return 1
      end })()
    end,
    ["a step with a transaction that stores its errors"] = function()
      store:once("tx errors", function(tx) tx:exec "insert into orders values (1)" end, { tx = true, errors = true,
        key = function() return 1 end })()
    end,
  } do
    it("do not fail while another program holds the file: in " .. what, function()
      store.db:exec "create table orders(id primary key)"
      local other, started, held = store:runs "other", rn.chan(), rn.chan()
      assert(other:start "other")
      local runs = store:runs("run", function(run)
        started:put(true)
        held:take()
        f(run, other)
        return "done"
      end, { tries = 1 })
      local r = assert(runs:start(1))
      started:take()
      started:close()
      local holder <close> = sqlite.open(dir.path .. "/work.db")
      holder:transaction(function(tx)
        tx:exec "create table filler(bytes)"
        held:close()
        report "runs run: results cannot be stored for now: .*another connection has held a lock"
      end)
      if what == "a wait for a result" then
        store:runs("other", function() return true end)
      end
      assert.equal("done", r:result())
      assert.equal(0, store:dead("run"):count())
    end)
  end
end)
