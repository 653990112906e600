-- store:once where the file, the disk or the values are not as usual: each has its message, and nothing is lost. For
-- streams: spec/store/stream_adversity_spec.lua.

local adversity = require "spec.support.queue.adversity"
local long = require "spec.support.long"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"

describe("store:once", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local sqlite = require "runnel.sqlite"
  local stores = require "runnel.store"
  local dir, store, calls

  local function open(opts)
    if store then store:close() end
    store = stores.open(dir.path .. "/work.db", opts)
    return store
  end

  before_each(function()
    dir, calls = process.directory(), 0
    open()
  end)
  after_each(function()
    store:close()
    store = nil
    dir:remove()
  end)

  -- A function of `once` that counts its calls.
  local function counted(name, f)
    return store:once(name, function(...)
      calls = calls + 1
      return f(...)
    end)
  end

  local function results() return store.db:one("select count(*) as n from runnel_once").n end

  -- Opens the file in a program.
  local OPEN <const> = [[
    local store = require("runnel.store").open("work.db", { synchronous = "off" })
    local get = store:once("pages", function(i) return ("x"):rep(10000) .. i end)
  ]]

  it("waits while another program holds the file, says so once, and stores the result of its one call", function()
    open { busy_timeout = 1 }
    local holder <close> = sqlite.open(dir.path .. "/work.db")
    local reports, reported = {}, rn.chan(1)
    local before = rn.on_error(function(err, _, where)
      reports[#reports + 1] = where .. ": " .. err
      reported:offer(true)
    end)
    local restored <close> = setmetatable({}, { __close = function() rn.on_error(before) end }) -- luacheck: ignore 211
    local get = counted("pages", function(i) return i end)
    local block
    holder:transaction(function(tx)
      tx:exec "create table other(a)"
      block = rn.go(get, 1)
      reported:take()
      rn.sleep(250) -- some more attempts
      assert.is_nil((block:poll()))
    end)
    assert.equal(1, block:take())
    assert.equal(1, calls)
    assert.equal(1, #reports)
    assert.matches("^once pages, which waits until it can store a result: .*another connection has held a lock",
      reports[1])
    open()
    assert.equal(1, counted("pages", print)(1))
  end)

  it("raises where a transaction cannot have the lock, and calls again the next time", function()
    open { busy_timeout = 1 }
    local holder <close> = sqlite.open(dir.path .. "/work.db")
    local get = store:once("pages", function(i) return i end, { tx = true })
    holder:transaction(function(tx)
      tx:exec "create table other(a)"
      local _, err = pcall(get, 1)
      assert.matches("another connection has held a lock for more than 1 ms %(option busy_timeout%)", err)
    end)
    assert.equal(1, get(1))
  end)

  it("does not store, as an error of the function, that the file could not be written", function()
    open { busy_timeout = 1 }
    local holder <close> = sqlite.open(dir.path .. "/work.db")
    local ended, waits, block = rn.chan(1), rn.chan(1), nil
    local before = rn.on_error(function() waits:offer(true) end) -- it waits until it can store the error
    local restored <close> = setmetatable({}, { __close = function() rn.on_error(before) end }) -- luacheck: ignore 211
    local get = store:once("pages", function(i)
      calls = calls + 1
      return ("x"):rep(i)
    end, { tx = true, errors = true })
    holder:transaction(function(tx)
      tx:exec "create table other(a)"
      block = rn.go(function()
        local _, err = pcall(get, 1)
        ended:put(err)
      end)
      assert.equal(ended, select(2, rn.alts { ended, waits }))
    end)
    block:take()
    assert.equal("x", get(1))
    store.db:exec(("pragma max_page_count = %d"):format(store.db:one("pragma page_count").page_count + 10))
    local plain = store:once("plain", function(i) return get(i) .. "y" end, { errors = true })
    for _, f in ipairs { get, plain } do
      local _, err = pcall(f, 200000)
      assert.matches("database or disk is full", err)
    end
    store.db:exec "pragma max_page_count = 100000"
    assert.equal(200000, #get(200000))
    assert.equal(200001, #plain(200000))
  end)

  it("raises when the disk is full, loses nothing that was stored, and goes on when there is room", function()
    store:close()
    local n, err = adversity.fill(dir, 400, OPEN .. "local function step(i) assert(get(i)) end")
    assert.matches("program.lua:%d+: once pages: exec: work.db: di?sk? I/O error, in: insert", err)
    open()
    assert.equal("ok", store.db:one("pragma integrity_check").integrity_check)
    assert.equal(n, results())
    store:close()
    assert.equal("done\n", adversity.run(dir, OPEN .. "for i = 1, 200 do get(i) end print 'done'").out)
    open()
    assert.equal(200, results())
  end)

  it("refuses a file that can only be read", function()
    counted("pages", tostring)(1)
    assert(store:stream "words")
    assert(assert(store:sink "words"):put "a message")
    store:close()
    -- Root may write to any file; so for root the folder is mounted without writing, in a namespace of its own.
    local mount = "unshare -rm sh -c 'mount --bind . . && mount -o remount,ro,bind . && cd . && exec \"$@\"' sh"
    local is_root = process.run(dir.path, "id -u").out == "0\n"
    if is_root and process.run(dir.path, mount .. " true").status ~= 0 then return pending "no mounts here" end
    if not is_root then os.execute(("chmod a-w %s %s/*"):format(dir.path, dir.path)) end
    local got = adversity.run(dir, OPEN .. "print(get(2))", is_root and mount or nil)
    if not is_root then os.execute(("chmod u+w %s %s/*"):format(dir.path, dir.path)) end
    assert.same({ "", 1 }, { got.out, got.status })
    assert.matches("program.lua:1: open: work.db: unable to open database file; it and its folder must be writable\n",
      got.err)
    open()
    assert.equal("1", counted("pages", print)(1))
    local words = assert(store:source "words")
    assert.equal("a message", words:take().value)
    words:close()
  end)

  it("raises where the file is damaged, rather than to do again what was done; the rest can still be read", function()
    open { synchronous = "off" }
    local get = counted("pages", function(i) return ("x"):rep(3000) .. i end)
    for i = 1, 100 do get(i) end
    store:close()
    adversity.overwrite(dir, 1)
    open()
    get = counted("pages", function(i) return "again " .. i end)
    calls = 0
    local good, bad = 0, 0
    for i = 1, 100 do
      local ok, result = pcall(function() return (get(i)) end)
      if ok then
        assert.equal(("x"):rep(3000) .. i, result)
        good = good + 1
      else
        assert.matches("^spec/store/adversity_spec.lua:%d+: ", result)
        assert.matches(result:find "once pages" and "once pages: rows: .*work.db: database disk image is malformed"
          or "a value of the store is damaged: .*; remove it %(store:forget, if it is a result%)$", result)
        bad = bad + 1
      end
    end
    assert.is_true(good > 0 and bad > 0 and good + bad == 100)
    assert.equal(0, calls)
  end)

  it("keeps many keys, with flat memory #ci", function()
    local n = long.times(10000, 400000)
    local numbers, at = rn.chan(), 0
    rn.go(function()
      for i = 1, n do numbers:put(i) end
      numbers:close()
    end)
    local get = counted("many", function(i) return i end)
    collectgarbage()
    local before = collectgarbage "count"
    for i in rn.pmap(256, get, numbers) do
      at = at + 1
      assert(i == at)
    end
    collectgarbage()
    assert.is_true(collectgarbage "count" - before < 20000) -- KB: 20,000 results are kept in memory
    assert.same({ n, n }, { calls, results() })
    open()
    get = counted("many", print)
    for _ = 1, 100 do
      local i = math.random(n)
      assert.equal(i, get(i))
    end
  end)

  it("keeps values with zero bytes, and large ones", function()
    local size = long.times(10, 100) * 1000000
    local text = ("a\0b\0\0"):rep(size // 5)
    for round = 1, 2 do
      local get = counted("large", function(i) return i == 1 and text or { text } end)
      assert.is_true(get(1) == text)
      assert.is_true(get(2)[1] == text)
      assert.equal(2, calls, round)
      open()
    end
  end)

  it("refuses values with cycles, and stores the next one", function()
    local cycle = { {} }
    cycle[1].back = cycle
    local get = counted("cycles", function(i) return i == 1 and cycle or { i } end)
    raises("once cycles: the result%[1%].back: a table that contains itself cannot be kept", function() get(1) end)
    assert.same({ 2 }, get(2))
    assert.equal(1, results())
  end)
end)
