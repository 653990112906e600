-- Bugs with names: disks. Each program has one fault, which a search finds; its twin has none.

local hosts = require "spec.support.host_programs"
local planting = require "spec.support.planted"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local answer, insist, read, write = hosts.answer, hosts.insist, hosts.read, hosts.write

describe("bugs of disks: a search finds #heavy", function()
  if not hosts.has_luv then return pending "luv is not installed" end
  before_each(uv_stage.open)
  after_each(uv_stage.close)
  local planted = planting(it)

  -- A world with a server that keeps records in a file, in which a client stores one; f(line) stores it. Returns what
  -- the disk has after that, and whether the client was told that it is stored.
  local function stores(faults, record, f, at_start)
    local world, is_told = sim.world { faults = faults }, false
    local server = world:host("server", function()
      if at_start then at_start() end
      answer(function(line) return f(line) and "stored" or nil end)
    end, { restart = 10 })
    world:host("client", function() is_told = insist("server", record, 1000) == "stored" end)
    world:run()
    server:crash()
    return server:get "/var/log" or "", is_told
  end

  local function has_line(text, line) return ("\n" .. text):find("\n" .. line .. "\n", 1, true) ~= nil end

  -- The forgotten fsync: a write is in the memory of the system, and a power cut takes it away.
  planted("a forgotten fsync", "a record that was acknowledged survives a crash", function(syncs, holds)
    local text, is_told = stores({ crash = 1 }, "one", function(line)
      return write("/var/log", line .. "\n", { append = true, sync = syncs })
    end)
    holds(has_line(text, "one") or not is_told, "the file is %q", text)
  end)

  -- Ignored ENOSPC: the write fails, and nobody looks at its result.
  planted("a full disk that nobody notices", "a record that was acknowledged is in the file", function(checks, holds)
    local text, is_told = stores({ enospc = 1 }, "one", function(line)
      local n = write("/var/log", line .. "\n", { append = true, sync = true })
      return n or not checks
    end)
    holds(has_line(text, "one") or not is_told, "the file is %q", text)
  end)

  -- fsyncgate (PostgreSQL, 2018): a sync fails, and is tried again. The second one succeeds, but writes nothing: the
  -- system took the first one's pages as done. What was to be synced must be written again.
  planted("a sync that is tried again", "a record that was acknowledged survives a crash", function(rewrites, holds)
    local text, is_told = stores({ eio = 1 }, "one", function(line)
      if not write("/var/log", line .. "\n", { append = true }) then return false end
      local tries = 0
      repeat
        local again = rewrites and tries > 0 and "\n" .. line .. "\n" or ""
        tries = tries + 1
      until write("/var/log", again, { append = true, sync = true })
      return true
    end)
    holds(has_line(text, "one") or not is_told, "the file is %q", text)
  end)

  -- The torn tail that is not cut off: the next record is appended to half of the last one.
  planted("a record that is appended to half of one", "an acknowledged record can be read", function(ends_line, holds)
    local text, is_told = stores({ crash = 1, torn = 1 }, "1234", function(line)
      return write("/var/log", line .. "\n", { append = true, sync = true })
    end, function()
      local before = read "/var/log"
      if ends_line and before and before:find "[^\n]$" then
        while not write("/var/log", "\n", { append = true, sync = true }) do end
      end
    end)
    holds(has_line(text, "1234") or not is_told, "the file is %q", text)
  end)

  -- A world with one host, which runs f once and crashes at any moment; then the contents of a file.
  local function crashes(before, f)
    local world = sim.world { faults = { crash = 1, torn = 1 } }
    local has_begun = false
    local host = world:host("host", function()
      if has_begun then return end
      has_begun = true
      f()
    end, { restart = 10 })
    for path, text in pairs(before) do host:put(path, text) end
    world:run()
    return host
  end

  local function is_old_or_new(text) return text == "old contents" or text == "new contents" end

  -- A torn write at the end of a log: half a record looks like another record.
  planted("a record that was written in part", "the log has only values that were written", function(needs_end, holds)
    local host = crashes({ ["/var/log"] = "1000\n" }, function()
      write("/var/log", "1234\n", { append = true, sync = true })
    end)
    for value in host:get("/var/log"):gmatch(needs_end and "(%d+)\n" or "%d+") do
      holds(value == "1000" or value == "1234", "it has %s", value)
    end
  end)

  -- Saving in place, as many editors did: the old file is gone before the new one is there.
  planted("a file that is replaced in place", "the file is the old one or the new one", function(renames, holds)
    local host = crashes({ ["/var/state"] = "old contents" }, function()
      write(renames and "/var/new" or "/var/state", "new contents", { sync = true })
      if renames then os.rename("/var/new", "/var/state") end
    end)
    holds(is_old_or_new(host:get "/var/state"), "it is %q", host:get "/var/state")
  end)

  -- The empty files of ext4 (2009): the new name reaches the disk before the data.
  planted("a rename without fsync", "the file is the old one or the new one", function(syncs, holds)
    local host = crashes({ ["/var/state"] = "old contents" }, function()
      write("/var/new", "new contents", { sync = syncs })
      os.rename("/var/new", "/var/state")
    end)
    holds(is_old_or_new(host:get "/var/state"), "it is %q", host:get "/var/state")
  end)

  -- The forgotten fsync of the folder: the data is on the disk, but its new name is not.
  planted("a new name that is not synced", "a state that was acknowledged survives a crash", function(syncs, holds)
    local is_saved = false
    local host = crashes({ ["/var/state"] = "old contents" }, function()
      write("/var/new", "new contents", { sync = true })
      os.rename("/var/new", "/var/state")
      if syncs then write("/var/state", "", { append = true, sync = true }) end
      is_saved = true
    end)
    host:crash()
    holds(not is_saved or host:get "/var/state" == "new contents", "it is %q", host:get "/var/state")
  end)

  -- A log that is replayed over its own snapshot: the crash comes after the snapshot, and before the log is removed.
  planted("a log that is replayed twice", "a deposit is counted once", function(has_numbers, holds)
    local host = crashes({ ["/var/snapshot"] = "0 0", ["/var/log"] = "1 5\n2 7\n" }, function()
      write("/var/new", has_numbers and "2 12" or "0 12", { sync = true })
      os.rename("/var/new", "/var/snapshot")
      write("/var/snapshot", "", { append = true, sync = true })
      os.remove "/var/log"
    end)
    local last, sum = host:get("/var/snapshot"):match "(%d+) (%d+)"
    for number, amount in (host:get "/var/log" or ""):gmatch "(%d+) (%d+)\n" do
      if tonumber(number) > tonumber(last) then sum = sum + amount end
    end
    holds(tonumber(sum) == 12, "the sum is %d", sum)
  end)

  -- One change in two files: a crash between them takes the money from one account and gives it to none.
  planted("a transfer between two files", "no money is made or lost", function(has_one_file, holds)
    local before = { ["/var/a"] = "10", ["/var/b"] = "10", ["/var/both"] = "10 10" }
    local host = crashes(before, function()
      local function save(name, text)
        write("/var/new", text, { sync = true })
        os.rename("/var/new", "/var/" .. name)
      end
      if has_one_file then return save("both", "3 17") end
      save("a", "3")
      save("b", "17")
    end)
    local text = has_one_file and host:get "/var/both" or host:get "/var/a" .. " " .. host:get "/var/b"
    local a, b = text:match "(%d+) (%d+)"
    holds(a + b == 20, "the sum of %s is %d", text, a + b)
  end)
end)
