-- store:forget beside calls: what it has forgotten is called again, and stays nowhere.

local process = require "spec.support.process"
local rn = require "runnel"

describe("store:forget", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"
  local dir, store

  before_each(function()
    dir = process.directory()
    store = stores.open(dir.path .. "/work.db", { synchronous = "off" })
  end)
  after_each(function()
    store:close()
    dir:remove()
  end)

  for what, has_key in pairs { ["with a key"] = true, ["without a key"] = false } do
    for how, opts in pairs { [""] = {}, [", which has a time limit,"] = { timeout = 60000 },
      [", which has a transaction,"] = { tx = true } } do
      it(what .. " beside a call" .. how .. " leaves no forgotten result in memory", function()
        local calls, forgotten = 0, 0
        local f = store:once("f", function() calls = calls + 1 return calls end, opts)
        for i = 1, 150 do
          store:forget "f"
          local n
          local call = rn.go(function() return f(i) end)
          local forget = rn.go(function()
            for _ = 1, i % 6 do rn.yield() end
            if i % 5 > 0 then rn.sleep(i % 5 / 3) end
            if has_key then n = store:forget("f", i) else n = store:forget "f" end
            -- It is forgotten: whoever calls now gets a new result, also while the first call is still returning.
            local before = calls
            local got = f(i)
            if n > 0 then
              forgotten = forgotten + 1
              assert(got > before, "a forgotten result")
            end
          end)
          local first, err = call:take()
          assert(first, err)
          assert.is_nil((select(2, forget:take())))
          local kept = store.db:one("select value from runnel_once where key = ?", i)
          assert.equal(tonumber(kept and kept.value), f(i))
        end
        assert.is_true(forgotten > 0)
      end)
    end
  end

  it("lets a call that waits for a forgotten one call again", function()
    local started, gate, calls = rn.chan(), rn.chan(), 0
    local f = store:once("f", function()
      calls = calls + 1
      started:put(true)
      gate:take()
      return calls
    end)
    local first = rn.go(f, 1)
    started:take()
    local second = rn.go(f, 1)
    rn.yield()
    assert.equal(0, store:forget("f", 1)) -- nothing yet
    gate:put(true)
    assert.equal(1, first:take())
    assert.equal(1, second:take()) -- which finds it in the file
    assert.equal(1, store:forget("f", 1))
    local third = rn.go(f, 1)
    started:take()
    gate:put(true)
    assert.equal(2, third:take())
  end)
end)
