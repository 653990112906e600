-- http.limit: how many requests each client may make in a time.

local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"

describe("http.limit", function()
  local http = require "runnel.http"
  local function page() return 200 end

  local function ask(f, address)
    local status, headers = f { method = "GET", path = "/", address = address }
    return headers and status .. " " .. headers["Retry-After"] or status
  end

  it("answers n requests of each client in each time, and tells others when to come again", function()
    sim.run(function()
      local f = http.limit(page, 2, 10000)
      rn.sleep(6500)
      assert.same({ 200, 200, "429 4" }, { ask(f, "1.1.1.1"), ask(f, "1.1.1.1"), ask(f, "1.1.1.1") })
      assert.equal(200, ask(f, "2.2.2.2"))
      rn.sleep(3500)
      assert.same({ 200, 200, "429 10" }, { ask(f, "1.1.1.1"), ask(f, "1.1.1.1"), ask(f, "1.1.1.1") })
    end)
  end)

  it("counts an IPv6 network as one client", function()
    for _, case in ipairs { { "2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true },
      { "2001:db8::1", "2001:db8:0:0:9::", true },
      { "2001:db8:0:1::1", "2001:db8:0:2::1", false }, { "::1", "::2", true },
      { "::ffff:1.2.3.4", "::ffff:1.2.3.5", false }, { "::1:2:3:4:5", "::9:2:3:4:5", false },
      { "::1:2:3:4:5", "0:0:0:1:9:9:9:9", true }, { "1:2:3:4::", "1:2:3:5::", false },
      { "2001:db8:0:1::1", "2002:db8:0:1::1", false },
      { "1:2:3:4:5:6:7:8", "1:2:3:4:9::", true } } do
      sim.run(function()
        local f = http.limit(page, 1, 1000)
        ask(f, case[1])
        assert.equal(case[3] and "429 1" or 200, ask(f, case[2]), case[1] .. " " .. case[2])
      end)
    end
  end)

  it("begins anew with each time, and does not limit more than 100,000 clients of one time #ci", function()
    sim.run(function()
      local f = http.limit(page, 1, 2000000, { key = function(req) return req.user end })
      local function by(user) return (f { method = "GET", user = user }) end
      for _ = 1, 2 do
        for i = 1, 100000 do assert(by(i) == 200) end
        assert.same({ 200, 200, 429, 429 }, { by "more", by "more", by(1), by(100000) })
        rn.sleep(2000000)
      end
      assert.equal(200, by "a")
      assert.equal(math.ceil(2000 - rn.now() / 1000 % 2000), select(2, f { method = "GET", user = "a" })["Retry-After"])
    end)
  end)

  it("keeps at most 16 MB of keys of one time, and does not limit clients beyond #ci", function()
    sim.run(function()
      local f = http.limit(page, 1, 2000000, { key = function(req) return req.user end })
      local function by(i) return (f { method = "GET", user = ("x"):rep(65533) .. 100 + i }) end
      for i = 1, 256 do assert(by(i) == 200) end
      assert.same({ 200, 200, 429, 429 }, { by(257), by(257), by(1), by(256) })
      rn.sleep(2000000)
      assert.same({ 200, 429 }, { by(257), by(257) })
    end)
  end)

  -- A bucket in memory, which others change before the first `conflicts` changes.
  local function bucket_of(conflicts)
    local entries, bucket = {}, { writes = 0 }
    function bucket:get(key) return table.unpack(entries[key] or {}, 1, 2) end -- luacheck: no self
    local function write(key, value, is_right)
      bucket.writes = bucket.writes + 1
      if conflicts > 0 then
        conflicts = conflicts - 1
        return nil, "another one was quicker"
      end
      assert(is_right)
      entries[key] = { value, bucket.writes }
      return bucket.writes
    end
    function bucket:create(key, value) return write(key, value, not entries[key]) end -- luacheck: no self
    function bucket:update(key, value, revision) -- luacheck: no self
      return write(key, value, entries[key] and entries[key][2] == revision)
    end
    return bucket
  end

  it("counts in a bucket by the clock of the host, and tells when the time is over", function()
    sim.run(function()
      local world, bucket = sim.world(), bucket_of(0)
      world:host("server", function()
        local f = http.limit(page, 2, 10000, { bucket = bucket })
        rn.sleep(5000000 + 10000 - os.time() * 1000 % 10000 + 3000)
        for _ = 1, 2 do
          local again = "429 " .. 10 - os.time() % 10
          assert.same({ 200, 200, again, again }, { ask(f, "::1"), ask(f, "::1"), ask(f, "::1"), ask(f, "::1") })
          assert.equal(200, ask(f, "::2:0:0:0:1"))
          rn.sleep(10000)
        end
      end)
      world:run()
      assert.equal(6, bucket.writes) -- requests beyond the limit are not counted
    end)
  end)

  it("counts again if others have changed the bucket, and answers and reports if that goes on", function()
    local errors = {}
    local before = rn.on_error(function(err) errors[#errors + 1] = tostring(err) end)
    local busy, free = bucket_of(20), bucket_of(19)
    local f, g = http.limit(page, 1, 3600000, { bucket = busy }), http.limit(page, 1, 3600000, { bucket = free })
    assert.equal(200, ask(g, "1.1.1.1"))
    assert.same({}, errors)
    assert.matches("^429", ask(g, "1.1.1.1"))
    assert.equal(200, ask(f, "1.1.1.1"))
    rn.on_error(before)
    assert.same({ 20, "another one was quicker" }, { busy.writes, errors[1] })
  end)

  it("counts by what a function says, and not what is nil", function()
    sim.run(function()
      local f = http.limit(page, 1, 1000, { key = function(req) return req.user end })
      local function by(user) return (f { method = "GET", user = user }) end
      assert.same({ 200, 429, 200, 200, 200 }, { by "a", by "a", by "b", by(), by() })
    end)
  end)

  it("counts together with other processes in a bucket", function()
    if not pcall(require, "runnel.sqlite.core") then return pending "SQLite is not installed" end
    local path = os.tmpname()
    local function open() return assert(require "runnel.store".open(path, { synchronous = "off" })) end
    local one <close> = open()
    local other <close> = open()
    local function limited(store) return http.limit(page, 3, 3600000, { bucket = assert(store:kv "limits") }) end
    local f, g = limited(one), limited(other)
    local statuses, calls = {}, {}
    for i = 1, 6 do
      calls[i] = rn.go(function() return (i % 2 == 0 and f or g) { method = "GET", address = "::1" } end)
    end
    for _, call in ipairs(calls) do
      local status = call:take()
      statuses[status] = (statuses[status] or 0) + 1
    end
    assert.same({ [200] = 3, [429] = 3 }, statuses)
    for _, suffix in ipairs { "", "-wal", "-shm", "-locks" } do os.remove(path .. suffix) end
  end)

  it("answers if the bucket fails, and reports that", function()
    local errors = {}
    local before = rn.on_error(function(err) errors[#errors + 1] = tostring(err) end)
    local bucket = { update = print, create = print, get = function() return nil, nil, "the disk is full" end }
    local status = http.limit(page, 1, 1000, { bucket = bucket }) { method = "GET", address = "1.1.1.1" }
    rn.on_error(before)
    assert.equal(200, status)
    assert.match("the disk is full", errors[1])
  end)

  it("has errors at the caller's line", function()
    raises("limit: f: a function expected", function() http.limit(nil, 1, 1) end)
    raises("limit: n: an integer of at least 1 expected", function() http.limit(page, 0, 1) end)
    raises("limit: ms: a number of milliseconds", function() http.limit(page, 1) end)
    raises("limit: bucket: what store:kv or conn:kv", function() http.limit(page, 1, 1000, { bucket = "b" }) end)
    raises("limit: ms: whole seconds", function() http.limit(page, 1, 1500, { bucket = { update = print } }) end)
    raises('limit: unknown option "by"', function() http.limit(page, 1, 1, { by = print }) end)
  end)
end)
