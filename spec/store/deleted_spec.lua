-- What reads a stream or a bucket of a store that is deleted, and made again before it looks: nothing of the new one
-- is what it was to read.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"

describe("what reads a stream or a bucket of a store that is deleted and made again before it looks,", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"
  local dir, store, other -- the other one is like another process

  before_each(function()
    dir = process.directory()
    store, other = stores.open(dir.path .. "/work.db"), stores.open(dir.path .. "/work.db")
  end)
  after_each(function()
    store:close()
    other:close()
    dir:remove()
  end)

  -- The rest of what is on a channel, until it closes: the values, and the error.
  local function rest(ch)
    local list = {}
    while true do
      local value, port, err = rn.alts { ch, rn.timeout(patience.most) }
      assert(port == ch, "the channel has not closed")
      if value == nil then return list, err end
      list[#list + 1] = value.value
    end
  end

  for name, deletes_it in pairs { ["deleted by this process"] = true, ["deleted by another one"] = false } do
    local function by() return deletes_it and store or other end

    it("if it is a watch, closes with an error, " .. name, function()
      local bucket = assert(store:kv "settings")
      for i = 1, 3 do bucket:put("colour", i) end
      local watch = assert(bucket:watch "colour")
      assert.equal(3, watch:take().value)
      bucket:put("colour", 4)
      patience.wait_for(function() return watch:stats().puts_waiting == 1 end) -- it does not look meanwhile
      assert(assert(by():kv "settings"):destroy())
      assert.equal(1, assert(by():kv "settings"):put("colour", "new")) -- a lower revision
      local values, err = rest(watch)
      assert.same({ 4 }, values)
      assert.equal('watch: the bucket "settings" was deleted', err)
      local again = assert(bucket:watch "colour")
      assert.equal("new", again:take().value)
      again:close()
    end)

    it("if it is a watch, does not take values of the new one for changes, " .. name, function()
      local bucket = assert(store:kv "settings")
      bucket:put("colour", 1)
      local watch = assert(bucket:watch "colour")
      patience.wait_for(function() return watch:stats().puts_waiting == 1 end)
      assert(assert(by():kv "settings"):destroy())
      local new = assert(by():kv "settings")
      for i = 1, 3 do new:put("colour", "new " .. i) end
      local values, err = rest(watch)
      assert.same({ 1 }, values)
      assert.equal('watch: the bucket "settings" was deleted', err)
    end)

    it("if it is a source without a name, closes with an error, " .. name, function()
      assert(store:stream "orders")
      local sink = assert(store:sink "orders")
      for i = 1, 2 do sink:put(i) end
      local source = assert(store:source "orders")
      assert.equal(1, source:take().value)
      patience.wait_for(function() return source:stats().puts_waiting == 1 end)
      assert(assert(by():stream "orders"):delete())
      assert(by():stream "orders")
      for i = 1, 3 do assert(by():sink("orders")):put("new " .. i) end
      local values, err = rest(source)
      assert.same({ 2 }, values)
      assert.equal('source: the stream "orders" was deleted', err)
      local again = assert(store:source "orders")
      assert.equal("new 1", again:take().value)
      again:close()
    end)

    it("if it is a source with a name, closes with an error, and gives back what it has, " .. name, function()
      local stream, sink = assert(store:stream "orders"), assert(store:sink "orders")
      local source = assert(store:source("orders", { name = "shop" }))
      rn.sleep(5) -- since times are in ms
      assert(by() == store and stream:delete_consumer "shop" or assert(by():stream "orders"):delete_consumer "shop")
      local again = assert(by():source("orders", { name = "shop" }))
      for i = 1, 3 do assert(sink:put(i)) end
      local values, err = rest(source)
      assert.same({}, values)
      assert.equal('source: the consumer "shop" of the stream "orders" was deleted', err)
      for i = 1, 3 do assert.equal(i, again:take().value) end
      again:close()
    end)
  end

  it("leaves alone what reads others", function()
    local watch, sink = assert(assert(store:kv "a"):watch()), assert(store:stream "s") and assert(store:sink "s")
    local source = assert(store:source "s")
    for _ = 1, 2 do
      assert(assert(other:kv "b"):destroy())
      assert(assert(other:stream "t"):delete())
    end
    assert(assert(store:kv "a"):put("k", 1))
    assert(sink:put(2))
    assert.equal(1, watch:take().value)
    assert.equal(2, source:take().value)
    watch:close()
    source:close()
    assert.equal(2, store.db:one("select count(*) as n from runnel_value where bucket = ''").n) -- one for each name
  end)
end)
