-- Lua's own files on the disks of simulated hosts: they do what real ones do.

local process = require "spec.support.process"
local rn = require "runnel"
local sim = require "runnel.sim"

describe("a file of io.open on a simulated host", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end

  -- Runs f on a host, and returns what it returns.
  local function on_host(f)
    return sim.run(function()
      local world, result = sim.world(), nil
      world:host("host", function() result = f() end)
      world:run()
      return result
    end)
  end

  -- Calls f with a path in a folder that exists, and a function that notes its arguments; on the real disk, and on a
  -- simulated one. What is noted is the same.
  local function compare(f)
    local function notes(folder)
      local lines = {}
      f(folder .. "/f", function(...)
        local parts = table.pack(...)
        for i = 1, parts.n do
          local text = io.type(parts[i]) or tostring(parts[i]):gsub(folder, "", 1):gsub("^.*:%d+: ", "")
          parts[i] = text
        end
        lines[#lines + 1] = table.concat(parts, " ", 1, parts.n)
      end)
      return lines
    end
    local dir <close> = process.directory()
    assert.same(notes(dir.path), on_host(function() return notes "/tmp" end))
  end

  it("has buffers: others see what was flushed, and a file is read ahead", function()
    compare(function(path, log)
      local file <close> = assert(io.open(path, "w"))
      local function seen()
        local other <close> = assert(io.open(path))
        return #other:read "a"
      end
      for _, n in ipairs { 1, 4000, 94, 1, 1, 5000, 0, 1 } do
        file:write(("x"):rep(n))
        log(n, seen())
      end
      log(file:seek(), seen(), file:write "y", seen(), file:flush(), seen())
      file:setvbuf "line"
      log(file:write "a\nb", seen(), file:write "c\n", seen(), file:write "d", seen())
      log(file:setvbuf "no", seen(), file:write "e", seen())
      local reader <close> = assert(io.open(path, "r+"))
      log(#reader:read(10))
      file:seek "set"
      file:write(("z"):rep(9000))
      log(reader:read(3), #reader:read(5000), reader:read(3))
      log(reader:seek(), reader:write "R", reader:seek(), reader:read(2))
      log(file:close(), seen())
      local both <close> = assert(io.open(path, "a+"))
      log(both:read(2), both:write "end", both:seek(), both:seek("set", 1), both:read(2))
      local last <close> = assert(io.open(path, "a"))
      log(last:seek(), last:write "!", last:seek())
    end)
  end)

  it("has the errors of a real one", function()
    compare(function(path, log)
      local folder = path:match "^(.*)/"
      local function raises(f, ...) log((select(2, pcall(f, ...)))) end
      log(io.open "")
      log(io.open(path .. "/", "w"))
      log(io.open(path .. "/"))
      local file = assert(io.open(path, "wbb"))
      log(io.open(path .. "/"))
      for _, value in ipairs { false, { nil }, print } do
        raises(function() file:write("a", value, "b") end)
      end
      raises(function() file:write(nil) end)
      raises(function() file:seek "foo" end)
      raises(function() file:seek("set", 1.5) end)
      raises(function() file:setvbuf "some" end)
      log(file:read "a")
      file:write("b\n", 1.0, " ", 1e100, "\n2024-01-05 12abc 0x10p1 .5.5 1e+ +- 0x nan \n", ("1"):rep(250), "\n")
      log(file:close())
      raises(function() file:close() end)
      file = assert(io.open(path))
      log(file:write "", file:write "a")
      log(file:read("L", "n", "n", "n", "n", "n"))
      for _ = 1, 40 do log(file:read "n", file:read(1)) end
      log(file:read(1, "l"))
      log(file:read "n")
      log(file:read(100, "l", "l"))
      log(file:seek "set", file:read(0, 1.0, 2))
      raises(function() file:read "x" end)
      raises(function() file:read(1.5) end)
      raises(function() file:read {} end)
      local lines = file:lines()
      log(io.close(file))
      raises(function() lines() end)
      raises(function()
        for _ in assert(io.open(folder)):lines() do log "a line" end
      end)
      raises(function()
        for _ in io.lines(folder) do log "a line" end
      end)
      raises(io.lines, path .. "/none")
      log(os.rename(path .. "/", path .. "2"))
      log(os.rename(path, path .. "2/"))
      log(os.remove "")
      log(os.remove(path .. "/"))
      local name = os.tmpname()
      log(assert(io.open(name)):read "a", os.remove(name))
    end)
  end)

  it("loses what a program has not flushed when it is killed, but not when it exits", function()
    local function left(ending)
      return sim.run(function()
        local world = sim.world()
        local host
        host = world:host("host", function()
          local file = assert(io.open("/tmp/f", "w"))
          file:write "text"
          ending(host)
        end)
        rn.sleep(1)
        host:kill()
        world:run()
        return host:get "/tmp/f"
      end)
    end
    assert.equal("", left(function(host) host:kill() end))
    assert.equal("", left(function(host) host:crash() end) or "")
    assert.equal("text", left(function() os.exit() end))
    assert.equal("text", left(function() end))
    assert.equal("text", left(rn.yield))
    assert.equal("", left(function() rn.go(rn.sleep, 10) end))
    local function process_left(ending)
      return sim.run(function()
        local world = sim.world()
        world:program("write", function()
          assert(io.open("/tmp/f", "w")):write "text"
          return ending()
        end)
        local host = world:host("host", function()
          local child = require("runnel.uv").spawn { "write" }
          rn.sleep(1)
          child:kill "kill"
          child.exit:take()
        end)
        world:run()
        return host:get "/tmp/f"
      end)
    end
    assert.equal("text", process_left(function() return 3 end))
    assert.equal("text", process_left(function() os.exit(4) end))
    assert.equal("", process_left(function() rn.sleep(2) end))
  end)

  it("tells a full disk, or one that cannot be read, to programs that look", function()
    local function errors(fault, f)
      local seen = {}
      sim.explore(function()
        local world = sim.world { faults = { [fault] = 1, slow = 0 } }
        local host = world:host("host", function() seen[f()] = true end)
        host:put("/data", "1\n2\n3\n")
        world:run()
      end)
      return seen
    end
    assert.same({ ["3 "] = true, ["0 Input/output error"] = true, ["3 Input/output error"] = true, closed = true },
      errors("eio", function()
        local n, file = 0, io.open "/data"
        if not file then return "closed" end
        local ok, err = pcall(function()
          for _ in file:lines() do n = n + 1 end
        end)
        return n .. " " .. (ok and "" or err:gsub("^.*: ", ""))
      end))
    assert.same({ ["true true"] = true, ["true nil"] = true }, errors("enospc", function()
      local file = assert(io.open("/out", "w"))
      return ("%s %s"):format(file:write "text" == file, (file:close()))
    end))
  end)
end)
