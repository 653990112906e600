-- The disks of simulated hosts, under runnel.uv's functions for files.

local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local has_luv = pcall(require, "luv")

describe("a disk of a simulated host", function()
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function write(path, text, opts)
    local ch = rn.chan(1)
    ch:put(text)
    ch:close()
    return uv.write(path, ch, opts):take()
  end

  local function read(path)
    local parts, ch = {}, uv.read(path)
    while true do
      local chunk, err = ch:take()
      if err then return nil, err end
      if not chunk then return table.concat(parts) end
      parts[#parts + 1] = chunk
    end
  end

  -- Runs f(host, world) on a host, and returns what it returns.
  local function on_host(f, opts)
    return sim.run(function()
      local world = sim.world(opts)
      local result, host
      host = world:host("host", function() result = table.pack(f(host, world)) end)
      world:run()
      return table.unpack(result, 1, result.n)
    end, { leaks = true })
  end

  -- What is in a file after a crash at the end of f(). `seed` chooses what survives.
  local function after_crash(f, path, opts, seed)
    return sim.run(function()
      local world = sim.world(opts)
      local host = world:host("host", f)
      host:put("/var/old", "old")
      rn.sleep(1000)
      host:crash()
      return host:get(path)
    end, { seed = seed })
  end

  it("keeps files, which are read in whole or by lines #ci", function()
    local text = ("a line\n"):rep(30000)
    on_host(function(host)
      assert.equal(#text, write("/tmp/file", text))
      assert.equal(text, read "/tmp/file")
      assert.equal(text, host:get "/tmp/file")
      local n = 0
      for line in uv.lines "/tmp/file" do
        n = n + 1
        assert.equal("a line", line)
      end
      assert.equal(30000, n)
      assert.equal(4, write("/tmp/file", "more", { append = true }))
      assert.equal(text .. "more", read "/tmp/file")
      assert.equal(3, write("/tmp/file", "new"))
      assert.equal("new", read "/tmp/file")
    end)
  end)

  it("is the host's own", function()
    sim.run(function()
      local world, err = sim.world(), nil
      world:host("one", function() write("/tmp/file", "text") end)
      world:host("two", function()
        rn.sleep(10)
        err = select(2, read "/tmp/file")
      end)
      world:run()
      assert.equal("/tmp/file: ENOENT: no such file or directory", (err:gsub("^(ENOENT.*): (/.*)$", "%2: %1")))
    end)
  end)

  it("has what tests put there", function()
    on_host(function(host)
      host:put("/srv/data/file", "text")
      assert.equal("text", read "/srv/data/file")
      assert.equal("text", read "srv/./data/../data/file")
      assert.is_nil(host:get "/srv/data")
    end)
  end)

  it("is what os.rename and os.remove work on", function()
    on_host(function(host)
      write("/tmp/a", "text")
      assert.is_true(os.rename("/tmp/a", "/tmp/b"))
      assert.equal("text", host:get "/tmp/b")
      assert.is_true(os.remove "/tmp/b")
      assert.same({ nil, "/tmp/b: No such file or directory", 2 }, { os.remove "/tmp/b" })
      assert.matches("^/tmp/", os.tmpname())
    end)
    assert.is_nil(os.rename("/tmp/none/of/it", "/tmp/b")) -- the real one
  end)

  it("is what io.open works on, as on a real one", function()
    -- All results of some calls, as a text. `path` is in a folder that exists.
    local function script(path)
      local results = {}
      local function log(...)
        local parts = table.pack(...)
        for i = 1, parts.n do
          parts[i] = io.type(parts[i]) or tostring(parts[i]):gsub(path, "PATH", 1)
        end
        results[#results + 1] = table.concat(parts, " ", 1, parts.n)
      end
      log(io.open(path))
      log(io.open(path .. "/x", "w"))
      log((select(2, pcall(io.lines, path)):gsub("^.*:%d+: ", "")))
      log((select(2, pcall(io.open, path, "x")):match "invalid mode"))
      local file = io.open(path, "w")
      log(file, file:write("one\n", 2, " 3.5 0x10 -7 four\n", "five"))
      log(file:seek "cur", file:seek("set", 2), file:seek "end")
      log(file:flush() ~= nil, file:setvbuf "full")
      log(file:close(), io.type(file), tostring(file))
      log(pcall(file.read, file))
      file = io.open(path)
      log(file:read())
      log(file:read("n", "n", "n", "n"))
      log(file:read "n")
      log(file:seek("set", 4))
      log(file:read("l", "L", "l"))
      log(file:read "a", file:read "a", file:read "l", file:read(0))
      log(file:seek("set", -1))
      log(file:seek "set", file:read(2, 3), file:read(100))
      file:close()
      file = io.open(path, "a+")
      log(file:write "!", file:seek("set", 0), file:read "a")
      file:close()
      file = io.open(path, "r+b")
      file:write "ONE"
      file:close()
      for line in io.lines(path) do log(line) end
      for a, b in io.lines(path, 1, 2) do log(a, b) end
      do
        local closed <close> = io.open(path)
        file = closed
      end
      log(io.type(file), io.type(1), io.type(io.stdout))
      log(os.rename(path, path .. "2"))
      log(os.rename(path, path .. "2"))
      log(os.remove(path .. "2"))
      log(os.remove(path .. "2"))
      return table.concat(results, "\n")
    end
    local path = os.tmpname()
    os.remove(path)
    assert.equal(script(path), on_host(function() return script(path) end))
  end)

  it("tells those who watch it, and those who follow a file", function()
    local changes, lines = {}, {}
    on_host(function()
      local watch = uv.watch "/tmp"
      local follow = uv.follow "/tmp/log"
      rn.go(function()
        for change in watch do changes[#changes + 1] = change.name end
      end)
      rn.go(function()
        for line in follow do lines[#lines + 1] = line end
      end)
      rn.sleep(10)
      write("/tmp/log", "one\n", { append = true })
      rn.sleep(1000)
      write("/tmp/log", "two\n", { append = true })
      rn.sleep(10)
      watch:close()
      follow:close()
    end)
    assert.same({ "one", "two" }, lines)
    assert.equal("log", changes[1])
  end)

  describe("loses by a crash", function()
    it("what was not synced", function()
      assert.is_nil(after_crash(function() write("/var/new", "text") end, "/var/new"))
      assert.equal("old", after_crash(function() write("/var/old", "text") end, "/var/old"))
      assert.equal("old", after_crash(function() os.remove "/var/old" end, "/var/old"))
      assert.is_nil(after_crash(function() os.rename("/var/old", "/var/new") end, "/var/new"))
    end)

    it("nothing that was synced, nor changes of names before that", function()
      local function f()
        os.rename("/var/old", "/var/older")
        write("/var/new", "text", { sync = true })
      end
      assert.equal("text", after_crash(f, "/var/new"))
      assert.equal("old", after_crash(f, "/var/older"))
      assert.is_nil(after_crash(f, "/var/old"))
    end)

    it("what was under way, which is not done later", function()
      for steps = 0, 12 do
        sim.run(function()
          local world = sim.world()
          local host
          host = world:host("host", function()
            rn.go(function() write("/var/new", "text") end)
            for _ = 1, steps do rn.yield() end
            host:crash()
          end)
          world:run()
          assert.is_nil(host:get "/var/new")
        end)
      end
    end)

    it("what a sync that failed was to write, although a later sync succeeds, unless it is written again", function()
      local seen = {}
      for seed = 1, 100 do
        local outcome
        local text = after_crash(function()
          local luv = require("runnel.internal.world").luv
          local fd = luv.fs_open("/var/old", luv.constants.O_WRONLY | luv.constants.O_APPEND, 0)
          local is_written = fd and luv.fs_write(fd, " lost")
          local is_synced = fd and luv.fs_fsync(fd)
          if not is_written or is_synced then return end
          luv.fs_write(fd, " new")
          luv.fs_fsync(fd)
          outcome = read "/var/old"
        end, "/var/old", { faults = { eio = 1 }, probability = 0.2 }, seed)
        if outcome then seen[outcome] = text end
      end
      assert.same({ ["old lost new"] = "old\0\0\0\0\0 new" }, seen)
    end)

    it("with the fault torn, all, only the data, or a part of that, or nothing", function()
      local seen = {}
      for seed = 1, 50 do
        local text = after_crash(function() write("/var/new", "12345678") end, "/var/new",
          { faults = { torn = 1 }, probability = 0.5 }, seed)
        seen[tostring(text)] = true
      end
      assert.same({ ["nil"] = true, [""] = true, ["1234"] = true, ["12345678"] = true }, seen)
    end)

    it("with the fault torn, any one of several writes, or those before one and a half of it", function()
      local seen = {}
      for seed = 1, 200 do
        local text = after_crash(function()
          local file = assert(io.open("/var/old", "r+"))
          for i, part in ipairs { "AAAA", "BB", "CCCC" } do
            file:seek("set", 2 * i - 2)
            file:write(part)
          end
          file:close()
        end, "/var/old", { faults = { torn = 1 }, probability = 0.5 }, seed)
        seen[text] = true
      end
      assert.same({ old = true, AAd = true, AAAA = true, AABA = true, AABBCC = true, ["olBB"] = true,
        ["old\0CCCC"] = true }, seen)
    end)
  end)

  it("fails in the ways that were asked for", function()
    local seen = {}
    sim.each_seed(100, function()
      local world = sim.world { faults = { eio = 1, enospc = 1, emfile = 1, short = 1 }, probability = 0.2 }
      world:host("host", function()
        local n, err = write("/tmp/file", "12345678", { sync = true })
        seen[n or err:match "E[%u]+"] = true
        if not n then return end
        local text, err2 = read "/tmp/file"
        if text then assert.equal("12345678", text) end
        seen[text and "read" or "read: " .. err2:match "E[%u]+"] = true
      end)
      world:run()
    end)
    assert.same({
      [8] = true, EIO = true, ENOSPC = true, EMFILE = true, read = true, ["read: EIO"] = true, ["read: EMFILE"] = true,
    }, seen)
  end)
end)
