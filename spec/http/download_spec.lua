-- http.download: what is in the file, whatever the server does, and wherever the program ends.

local both = require "spec.support.in_world" (it)
local http_stage = require "spec.support.http.http_stage"
local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"

if http_stage.missing or not pcall(require, "runnel.tls.core") then
  describe("http.download", function() pending(http_stage.missing or "OpenSSL is not installed") end)
  return
end

local http = require "runnel.http"
local luv = require("runnel.uv.loop").uv
local download = require "runnel.http.download"
local is_simulation = require("runnel.core").internal.is_simulation

-- Two versions of a file of the same size.
local OLD, NEW = ("old "):rep(20000), ("new "):rep(20000)
local OLD_SUM <const> = "6fd9572f09a07a45efa5b4715d73f56f0d274c2e192f57e2754cf38226355268"

local function read(path)
  local file <close> = io.open(path)
  return file and file:read "a"
end

local function write(path, text)
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
end

local function remove(path)
  for _, suffix in ipairs { "", ".part", ".part.state" } do os.remove(path .. suffix) end
end

-- Answers as a server of one file does. `file`: `text`, `tag`, `more`: headers; `cut`: after how many bytes the
-- connection ends; `holds`: after how many no more come; `slow`: ms between 1000 bytes and the next; `ignores`:
-- "range" or "if-range", or "start": it begins elsewhere; `total`: what it says is the whole length; `status`: that
-- and nothing else. Notes in `asked` from where each request wants the file.
local function serving(file, asked)
  return function(req)
    local range, condition = req.headers.range, req.headers["if-range"]
    asked[#asked + 1] = range and tonumber(range:match "^bytes=(%d+)%-$") or "all"
    local headers, text = { ETag = file.tag }, file.text
    for name, value in pairs(file.more or {}) do headers[name] = value end
    if file.status then return file.status, headers, "no" end
    local from, status = 0, 200
    local is_valid = file.ignores == "if-range" or condition == file.tag or condition == headers["Last-Modified"]
    if range and is_valid and file.ignores ~= "range" then
      if asked[#asked] >= #text then return 416 end
      from, status = asked[#asked] + (file.ignores == "start" and 1 or 0), 206
      headers["Content-Range"] = ("bytes %d-%d/%d"):format(from, #text - 1, file.total or #text)
    end
    local body = rn.chan()
    rn.go(function()
      local to = math.min(from + (file.cut or #text), #text)
      for at = from + 1, to, 1000 do
        if file.holds and at > file.holds then return rn.alts { body:done() } end
        if not body:put(text:sub(at, math.min(at + 999, to))) then return end
        if file.slow then rn.sleep(file.slow) end
      end
      body:close(to < #text and "cut" or nil)
    end)
    return status, headers, body
  end
end

-- Calls f(url, path, file, asked) with a server of that file, which a test may change.
local function with_server(file, f)
  rn.on_error(function() end) -- of the server's bodies that are cut
  local asked, path = {}, os.tmpname()
  remove(path)
  local server <close> = assert(http.serve(0, serving(file, asked)))
  f(server.url .. "file", path, file, asked)
  remove(path)
end

local OLD_DATE, OTHER_DATE = "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"
local NEW_DATE = os.date("!%a, %d %b %Y %H:%M:%S GMT")

describe("http.download", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  both("gives a file its name only when it is whole", function()
    with_server({ text = OLD, tag = '"1"' }, function(url, path)
      local last, calls = 0, 0
      local res = assert(http.download(url, path, { sha256 = OLD_SUM:upper(), progress = function(bytes)
        assert.is_nil(read(path))
        assert.is_true(bytes > last)
        last, calls = bytes, calls + 1
      end }))
      assert.same({ 200, #OLD, 0 }, { res.status, res.bytes, res.resumed })
      assert.is_nil(res.body)
      assert.equal(#OLD, last)
      assert.is_true(calls > 0)
      assert.is_true(read(path) == OLD)
      assert.same({}, { read(path .. ".part"), read(path .. ".part.state") })
    end)
  end)

  -- What a second call finds, which comes after one whose connection has ended after 30000 bytes: `server` changes
  -- what the server does; `path` changes the files. `asked` is from where it wants the file, `text` what it gets.
  for name, case in pairs {
    ["goes on where it has ended"] = { asked = { 30000 }, text = OLD },
    ["gets a new version as a whole"] = { server = { text = NEW, tag = '"2"' }, asked = { 30000 }, text = NEW },
    ["gets all from a server without ranges"] = { server = { ignores = "range" }, asked = { 30000 }, text = OLD },
    ["does not use a part of another version"] = { server = { text = NEW, tag = '"2"', ignores = "if-range" },
      asked = { 30000, "all" }, text = NEW },
    ["does not use a part of another version by its time"] = { first = { tag = false, more = {
      ["Last-Modified"] = OLD_DATE, Date = NEW_DATE } }, server = { text = NEW, ignores = "if-range", more = {
      ["Last-Modified"] = OTHER_DATE, Date = NEW_DATE } }, asked = { 30000, "all" }, text = NEW },
    ["does not use a part of a file of another length"] = { first = { more = { ["Content-Length"] = #OLD } },
      server = { more = false, total = #OLD + 1 }, asked = { 30000, "all" }, text = OLD, is_real = true },
    ["does not use another part"] = { server = { ignores = "start" }, asked = { 30000, "all" }, text = OLD },
    ["begins anew if there is no such part"] = { server = { status = 416 }, asked = { 30000, 29999, "all" } },
    ["trusts the time of a file that was old"] = { first = { tag = false, more = {
      ["Last-Modified"] = OLD_DATE, Date = NEW_DATE } }, asked = { 30000 }, text = OLD },
    ["begins anew without a tag and a time"] = { first = { tag = false }, asked = { "all" }, text = OLD },
    ["begins anew with a weak tag"] = { first = { tag = 'W/"1"' }, asked = { "all" }, text = OLD },
    ["begins anew if the file was new by its time"] = { first = { tag = false, more = {
      ["Last-Modified"] = NEW_DATE, Date = NEW_DATE } }, asked = { "all" }, text = OLD },
    ["begins anew if what is there has changed"] = { path = function(path)
      write(path .. ".part", NEW:sub(1, 30000))
    end, asked = { "all" }, text = OLD },
    ["begins anew if what is there is shorter"] = { path = function(path)
      write(path .. ".part", OLD:sub(1, 29999))
    end, asked = { "all" }, text = OLD },
    ["drops what is behind what is known"] = { path = function(path)
      write(path .. ".part", OLD:sub(1, 30000) .. "new")
    end, asked = { 30000 }, text = OLD },
    ["begins anew if the state is damaged"] = { path = function(path)
      write(path .. ".part.state", read(path .. ".part.state"):sub(1, -2))
    end, asked = { "all" }, text = OLD },
    ["begins anew if what has come was compressed"] = { first = { more = { ["Content-Encoding"] = "gzip" } },
      server = { more = false }, asked = { "all" }, text = OLD },
    ["begins anew for another URL"] = { query = "?b", asked = { "all" }, text = OLD },
  } do
    local spec = case.is_real and it or both -- simulated responses do not say their length
    spec(name, function()
      with_server({ text = OLD, tag = '"1"', cut = 30000 }, function(url, path, file, asked)
        local function change(fields)
          for key, value in pairs(fields or {}) do file[key] = value or nil end
        end
        change(case.first)
        local res, err = http.download(url, path)
        assert.is_nil(res)
        assert.is_string(err)
        assert.is_nil(read(path))
        if case.path then case.path(path) end
        file.cut, asked[1] = nil, nil
        change(case.server)
        res, err = http.download(url .. (case.query or ""), path)
        assert.same(case.asked, asked)
        if not case.text then return assert.matches("the status is 416", err) end
        assert.is_true(read(path) == case.text)
        assert.same({ #OLD, asked[2] == nil and res.status == 206 and 30000 or 0 }, { res.bytes, res.resumed })
        assert.same({}, { read(path .. ".part"), read(path .. ".part.state") })
      end)
    end)
  end

  both("is an error if more comes than the whole file should have", function()
    with_server({ text = OLD, tag = '"1"', cut = 30000 }, function(url, path, file)
      http.download(url, path)
      file.cut, file.total = nil, #OLD - 10
      local res, err = http.download(url, path)
      assert.is_nil(res)
      assert.match(": 80000 bytes have come of 79990$", err)
      assert.is_nil(read(path))
    end)
  end)

  both("goes on in its next try, as often as it may", function()
    with_server({ text = OLD, tag = '"1"', cut = 30000 }, function(url, path, _, asked)
      assert.is_nil(http.download(url, path, { tries = 2, backoff = 1 }))
      assert.same({ "all", 30000 }, asked)
      local res = assert(http.download(url, path, { tries = 2, backoff = 1, sha256 = OLD_SUM }))
      assert.same({ #OLD, 60000 }, { res.bytes, res.resumed })
      assert.same({ "all", 30000, 60000 }, asked)
      assert.is_true(read(path) == OLD)
    end)
  end)

  both("refuses a file with another checksum, and gets one again that it has put together", function()
    with_server({ text = OLD, tag = '"1"' }, function(url, path, file, asked)
      local wrong = ("0"):rep(64)
      local _, err = http.download(url, path, { sha256 = wrong, tries = 3 })
      assert.matches("the SHA%-256 of the file is " .. OLD_SUM .. ", and 0+ was expected", err)
      assert.same({ "all" }, asked)
      assert.same({}, { read(path), read(path .. ".part"), read(path .. ".part.state") })
      file.text, file.cut = NEW, 30000
      assert.is_nil(http.download(url, path))
      file.text, file.cut = OLD, nil -- the server says that it is the same version
      assert(http.download(url, path, { sha256 = OLD_SUM }))
      assert.same({ "all", "all", 30000, "all" }, asked)
      assert.is_true(read(path) == OLD)
    end)
  end)

  both("returns a status, or that a file is too long or cannot be written, and leaves nothing", function()
    with_server({ text = OLD, status = 404 }, function(url, path, file, asked)
      local _, err, failed = http.download(url, path, { tries = 3 })
      assert.matches("the status is 404", err)
      assert.equal(404, failed.status)
      assert.equal(1, #asked)
      file.status, file.tag = nil, '"1"'
      _, err = http.download(url, path, { max = #OLD - 1 })
      assert.matches("the body has more than 79999 bytes", err)
      assert.same({}, { read(path), read(path .. ".part") })
      _, err = http.download(url, path .. ".no/file", { tries = 3 })
      assert.matches("ENOENT", err)
      assert.is_nil(http.download("ftp://x/", path))
    end)
  end)

  both("asks for nothing if the path is that of a folder", function()
    with_server({ text = OLD, tag = '"1"' }, function(url, path, _, asked)
      assert(luv.fs_mkdir(path, tonumber("700", 8)))
      local _, err = http.download(url, path)
      assert(luv.fs_rmdir(path))
      assert.equal(path .. ": it is a folder: give the path of the file", err)
      assert.same({}, asked)
    end)
  end)

  both("tells that a file cannot have its name, asks for it once, and leaves nothing", function()
    with_server({ text = OLD, tag = '"1"', cut = 30000 }, function(url, path, file, asked)
      http.download(url, path)
      file.cut = nil
      local res, err = http.download(url, path, { tries = 3, progress = function()
        luv.fs_mkdir(path, tonumber("700", 8))
      end })
      assert(luv.fs_rmdir(path))
      assert.is_nil(res)
      assert.matches("^" .. path:gsub("%p", "%%%0") .. ": .*directory", err)
      assert.same({ "all", 30000 }, asked)
      assert.same({}, { read(path .. ".part"), read(path .. ".part.state") })
    end)
  end)

  both("tells why there is no response, and leaves nothing", function()
    local path = os.tmpname()
    remove(path)
    local res, err = http.download("http://127.0.0.1:1/file", path, { tries = 2, backoff = 1 })
    assert.is_nil(res)
    assert.matches("^127.0.0.1", err)
    assert.same({}, { read(path), read(path .. ".part") })
  end)

  it("leaves nothing of a file that could not be stored on the disk", function()
    local real = luv.fs_fsync
    finally(function() luv.fs_fsync = real end)
    function luv.fs_fsync(fd, done) return real(fd, function() done "EIO: i/o error" end) end -- luacheck: ignore 122
    with_server({ text = OLD, tag = '"1"' }, function(url, path)
      local res, err = http.download(url, path)
      assert.is_nil(res)
      assert.matches("EIO", err)
      assert.same({}, { read(path), read(path .. ".part"), read(path .. ".part.state") })
    end)
  end)

  -- Calls f while the disk is full.
  local function with_full_disk(f)
    local real = luv.fs_write
    local again <close> = setmetatable({}, { -- luacheck: ignore 211
      __close = function() luv.fs_write = real end, -- luacheck: ignore 122
    })
    function luv.fs_write(fd, _, _, done) -- luacheck: ignore 122
      return luv.fs_fsync(fd, function() done "ENOSPC: no space left on device" end)
    end
    return f()
  end

  it("keeps what was noted before the disk was full, and nothing else", function()
    with_server({ text = OLD, tag = '"1"', cut = 30000 }, function(url, path, file, asked)
      local function fail() return select(2, with_full_disk(function() return http.download(url, path) end)) end
      assert.is_string(fail())
      assert.same({}, { read(path .. ".part"), read(path .. ".part.state") })
      assert.is_nil(http.download(url, path))
      file.cut = nil
      assert.matches("ENOSPC", fail())
      assert.equal(30000, assert(http.download(url, path)).resumed)
      assert.same({ "all", "all", 30000, 30000 }, asked)
      assert.is_true(read(path) == OLD)
    end)
  end)

  both("leaves nothing of a file that is too long, also if a part of it was there", function()
    with_server({ text = OLD, tag = '"1"', cut = 30000 }, function(url, path, file)
      assert.is_nil(http.download(url, path))
      file.cut = nil
      local _, err = http.download(url, path, { max = #OLD - 1 })
      assert.matches("more than 79999 bytes", err)
      assert.same({}, { read(path .. ".part"), read(path .. ".part.state") })
    end)
  end)

  both("sends all headers of its options with each try", function()
    local seen, path = {}, os.tmpname()
    local server <close> = assert(http.serve(0, function(req)
      seen[#seen + 1] = ("%s %s %s"):format(req.headers.one, req.headers.two, req.headers["accept-encoding"])
      return #seen < 2 and 503 or 200, nil, "x"
    end))
    assert(http.download(server.url, path, { headers = { One = "1", Two = "2" }, tries = 2, backoff = 1 }))
    assert.same({ "1 2 identity", "1 2 identity" }, seen)
    remove(path)
  end)

  both("ends a try in which the server sends nothing, and goes on", function()
    with_server({ text = OLD, tag = '"1"', holds = 30000 }, function(url, path, file, asked)
      local _, err = http.download(url, path, { idle = 50 * patience.factor() })
      assert.is_true(rn.is_timeout(err))
      file.holds = nil
      -- On a busy machine a part of it comes too late.
      local from = #(read(path .. ".part") or "")
      assert.is_true(from == 30000 or not is_simulation() and from < 30000, from)
      assert(http.download(url, path))
      assert.equal(from > 0 and from or "all", asked[#asked])
      assert.is_true(read(path) == OLD)
    end)
  end)

  both("says that another call writes the file", function()
    with_server({ text = OLD, tag = '"1"' }, function(url, path)
      local first = rn.go(http.download, url, path)
      rn.yield()
      local _, err = http.download(url, path)
      assert.equal(path .. ": another call of http.download writes this file now", err)
      assert.equal(#OLD, assert(first:take()).bytes)
      assert(http.download(url, path))
    end)
  end)

  both("keeps what has come if it is cancelled, or the function progress raises", function()
    with_server({ text = OLD, tag = '"1"', holds = 50000 }, function(url, path, file, asked)
      local there = rn.chan()
      local block = rn.go(http.download, url, path, { progress = function(bytes)
        if bytes >= 40000 then
          there:close()
          rn.chan():take()
        end
      end })
      there:take()
      rn.cancel(block, "enough")
      assert.same({ nil, "enough" }, { block:take() })
      file.holds = nil
      local known = #read(path .. ".part")
      assert.is_true(known >= 40000 and known < #OLD)
      local ok, err = pcall(http.download, url, path, { progress = function() error("no more", 0) end })
      assert.same({ false, "no more" }, { ok, err })
      assert.equal(known, asked[2])
      assert(http.download(url, path))
      assert.is_true(read(path) == OLD)
    end)
  end)

  -- What a later call finds, if the first one was ended when all bytes had come: `more`: headers of the server;
  -- `change`: what changes on it; `asked`: what that call asks for.
  for name, case in pairs {
    ["gets no byte twice of a file that was whole"] = { asked = { #OLD, #OLD - 1 }, resumed = #OLD },
    ["asks only for the last byte if it knows that the file was whole"] = { more = { ["Content-Length"] = #OLD },
      change = { more = false }, asked = { #OLD - 1 }, resumed = #OLD, is_real = true },
    ["gets a new version of a file that was whole"] = { change = { text = NEW, tag = '"2"' }, asked = { #OLD },
      resumed = 0 },
    ["does not take a file that was whole for another version"] = { change = { text = NEW, tag = '"2"',
      ignores = "if-range" }, asked = { #OLD, #OLD - 1, "all" }, resumed = 0 },
  } do
    local spec = case.is_real and it or both
    spec(name, function()
      with_server({ text = OLD, tag = '"1"', more = case.more }, function(url, path, file, asked)
        assert.is_false(pcall(http.download, url, path, { progress = function(bytes)
          if bytes == #OLD then error("no more", 0) end
        end }))
        assert.is_true(read(path .. ".part") == OLD)
        for key, value in pairs(case.change or {}) do file[key] = value or nil end
        assert.equal(case.resumed, assert(http.download(url, path)).resumed)
        assert.same(case.asked, table.move(asked, 2, #asked, 1, {}))
        assert.is_true(read(path) == file.text)
        assert.same({}, { read(path .. ".part"), read(path .. ".part.state") })
      end)
    end)
  end

  it("gets a file of one byte, of which that byte was there", function()
    with_server({ text = "x", tag = '"1"', more = { ["Content-Length"] = 1 } }, function(url, path)
      assert.is_false(pcall(http.download, url, path, { progress = function() error("no more", 0) end }))
      assert.equal(1, assert(http.download(url, path)).bytes)
      assert.equal("x", read(path))
    end)
  end)

  it("leaves nothing running, and goes on later, wherever it is cancelled", function()
    for steps = 0, 1500, 37 do
      sim.run(function()
        local world, whole = sim.world(), false
        world:host("server", function()
          assert(http.serve(80, serving({ text = OLD, tag = '"1"' }, {}), { host = "0.0.0.0" }))
        end)
        world:host("client", function()
          rn.sleep(10)
          local block = rn.go(http.download, "http://server/file", "file", { tries = 3, sha256 = OLD_SUM })
          for _ = 1, steps do rn.yield() end
          rn.cancel(block, "enough")
          local _, err = block:take()
          assert.is_true(err == "enough" or read "file" == OLD)
          assert(http.download("http://server/file", "file"))
          whole = read "file" == OLD and not read "file.part" and not read "file.part.state"
        end)
        world:run()
        assert.is_true(whole, ("cancelled after %d steps"):format(steps))
      end, { leaks = true })
    end
  end)

  -- Kills a client when 50000 bytes are there, and starts it again. Returns from where it goes on then.
  local function kill_client(file)
    local asked, result = {}, nil
    sim.run(function()
      local world = sim.world()
      world:host("server", function()
        assert(http.serve(80, serving(file, asked), { host = "0.0.0.0" }))
      end)
      local there = rn.chan()
      local host = world:host("client", function()
        rn.sleep(10)
        http.download("http://server/file", "file", { progress = function(bytes)
          if #asked > 1 or bytes < 50000 then return end
          there:close()
          rn.chan():take()
        end })
      end)
      there:take()
      host:kill()
      host:restart()
      world:run()
      result = host:get "file"
    end)
    assert.is_true(result == OLD)
    assert.same({ "all", asked[2] }, asked)
    return asked[2]
  end

  it("goes on behind what was noted on the way if its program is killed", function()
    local before = download.stride
    download.stride = 20000
    local from = kill_client { text = OLD, tag = '"1"' }
    download.stride = before
    assert.equal(40000, from)
  end)

  it("notes what comes slowly every two seconds", function()
    local from = kill_client { text = OLD, tag = '"1"', slow = 100 }
    assert.is_true(math.type(from) == "integer" and from >= 30000, from)
  end)

  it("never mixes two versions, wherever machines crash and connections end", function()
    local before = download.stride
    download.stride = 10000
    local again <close> = setmetatable({}, { -- luacheck: ignore 211
      __close = function() download.stride = before end,
    })
    search.finds_nothing(function()
      local world = sim.world { faults = { crash = 2, reset = 2, unsynced = 1, torn = 1 } }
      local file = { text = OLD, tag = '"1"' }
      world:host("server", function()
        assert(http.serve(80, serving(file, {}), { host = "0.0.0.0" }))
        rn.sleep(40)
        file.text, file.tag = NEW, '"2"'
      end)
      world:host("client", function()
        rn.on_error(function() end)
        rn.sleep(10)
        for _ = 1, 3 do
          if http.download("http://server/file", "file", { tries = 2, backoff = 5 }) then break end
        end
        local text = read "file"
        assert(not text or text == OLD or text == NEW, "a file of two versions")
      end, { restart = 20 })
      world:run(60000)
    end)
  end)

  it("refuses wrong arguments, and options that it sets itself", function()
    raises("download: sha256: 64 hexadecimal digits expected, got \"ab\"", function()
      http.download("http://x/", "file", { sha256 = "ab" })
    end)
    raises("download: a path expected, got nothing", function() http.download "http://x/" end)
    raises("download: progress: a function or nil expected, got a table", function()
      http.download("http://x/", "file", { progress = {} })
    end)
    raises("download: headers: Range is set by the function itself", function()
      http.download("http://x/", "file", { headers = { Range = "bytes=1-" } })
    end)
    raises("download: unknown option \"range\"", function() http.download("http://x/", "file", { range = "1-" }) end)
  end)

end)
