-- Failures of processes, files and sockets: each ends with a reason, leaves no descriptor open, and does not hang. More
-- of them are in the specs of the parts.

local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("runnel.uv", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- Runs a script with at most 64 descriptors; returns its output.
  local function with_few_descriptors(script) return (stage.script(script, "ulimit -n 64;")) end

  describe("without descriptors", function()
    local HOARD = [[
      local rn, uv, luv = require "runnel", require "runnel.uv", require "luv"
      local spare = {}
      local function hoard() -- all descriptors but n
        while true do
          local fd = luv.fs_open("/dev/null", "r", 0)
          if not fd then return end
          spare[#spare + 1] = fd
        end
      end
      local function free(n)
        for _ = 1, n or #spare do luv.fs_close(table.remove(spare)) end
      end
      uv.spawn({ "true" }).exit:take() -- what the loop itself needs is open
    ]]

    it("starts no process, and leaves no pipe open", function()
      assert.equal(([[
        0 true: EMFILE: too many open files
        1 true: EMFILE: too many open files
        2 true: EMFILE: too many open files
        3 true: EMFILE: too many open files
        4 true: EMFILE: too many open files
        5 true: EMFILE: too many open files
        40 0
      ]]):gsub("\n%s+", "\n"):gsub("^%s+", ""), with_few_descriptors(HOARD .. [[
        for n = 0, 5 do
          for round = 1, 20 do
            hoard()
            free(n)
            local p = uv.spawn { "true" }
            local status, err = p.exit:take()
            assert(not status)
            assert(select(2, p.stdout:take()) == err and not p.stdin:put "x")
            if round == 20 then print(n, err) end
          end
        end
        free()
        for _ = 1, 40 do
          hoard()
          free(40)
          assert(uv.spawn({ "true" }).exit:take().code == 0)
        end
        print(40, 0)
      ]]):gsub("\t", " "))
    end)

    it("fails to run a process, and to follow a file", function()
      assert.equal([[
EMFILE nil
EMFILE
0
a line
another
]], with_few_descriptors(HOARD .. [[
        local path = os.tmpname()
        local function append(text)
          local file <close> = assert(io.open(path, "a"))
          file:write(text)
        end
        append "a line\n"
        local function name(_, err, result) return err:match "EMFILE", result end
        for n = 0, 5 do
          hoard()
          free(n)
          local a, b = name(uv.run { "true", stdin = "x", timeout = 60000 })
          if n == 5 then print(("%s %s"):format(a, b)) end
        end
        hoard()
        print((name(uv.follow(path):take())))
        free()
        for _ = 1, 40 do
          hoard()
          free(40)
          assert(uv.run({ "true", stdin = "x", timeout = 60000 }).code == 0)
        end
        free()
        print(uv.run({ "true" }).code)
        local lines = uv.follow(path)
        print(lines:take())
        hoard() -- what it has is enough to go on
        rn.sleep(10)
        free(1)
        append "another\n"
        print(lines:take())
        lines:close()
        rn.run()
        os.remove(path)
      ]]))
    end)

    it("fails to open a file, and to connect", function()
      assert.equal([[
no-such-place: EMFILE: too many open files
EMFILE
EMFILE
EMFILE
EMFILE
after that, all is well
]], with_few_descriptors(HOARD .. [[
        local conns, port = uv.listen("127.0.0.1", 0)
        hoard()
        local function name(_, err) return err:match "EMFILE" end
        print((select(2, uv.lines("no-such-place"):take()):gsub("^(EMFILE.*): (.*)$", "%2: %1")))
        print(name(uv.write("/tmp/no-such-dir/x", rn.to_chan { "x" }):take()))
        print(name(uv.connect("127.0.0.1", port)))
        print(name(uv.connect "/tmp/no-such-socket"))
        print(name(uv.listen("127.0.0.1", 0)))
        free()
        local conn = assert(uv.connect("127.0.0.1", port))
        assert(conn:write "x")
        assert(conns:take():read():take() == "x")
        print "after that, all is well"
      ]]))
    end)

    it("continues to listen", function()
      assert.equal("refused\nserved\n", with_few_descriptors(HOARD .. [[
        local conns, port = uv.listen("127.0.0.1", 0)
        rn.go(function()
          for conn in conns do
            conn:write "hello"
            conn:close()
          end
        end)
        hoard()
        free(1)
        local conn = assert(uv.connect("127.0.0.1", port)) -- the last descriptor: there is none for the other end
        local value = conn:read():take()
        print(value == nil and "refused")
        conn:close()
        free()
        conn = assert(uv.connect("127.0.0.1", port))
        print(conn:read():take() == "hello" and "served")
      ]]))
    end)
  end)

  describe("a process", function()
    local MUCH = 100 * 1024 * 1024

    it("that writes very much to stderr ends, whether or not its output is taken #heavy", function()
      local p = uv.spawn { "sh", "-c", "head -c " .. MUCH .. " /dev/zero >&2; echo done" }
      assert.equal("done\n", p.stdout:take())
      assert.equal(0, p.exit:take().code)
      p = uv.spawn { "sh", "-c", "head -c " .. MUCH .. " /dev/zero >&2" }
      local n = 0
      for chunk in p.stderr do n = n + #chunk end
      assert.equal(MUCH, n)
    end)

    it("that is killed ends its channels", function()
      local p = uv.spawn { "sh", "-c", "echo a; exec sleep 100", stdout = "lines" }
      assert.equal("a", p.stdout:take())
      local out, input = p.stdout, p.stdin
      p:kill "kill"
      assert.equal(9, p.exit:take().signal)
      assert.is_nil(out:take())
      assert.is_false(input:put "x")
    end)

    it("whose child keeps its output open still closes the channels when it is closed", function()
      local p = uv.spawn { "sh", "-c", "sleep 100 & echo $!", stdout = "lines" }
      local child = p.stdout:take()
      assert.equal(0, p.exit:take().code)
      assert.is_nil(p.stdout:poll())
      p:close()
      assert.is_nil(p.stdout:take())
      os.execute("kill " .. child)
    end)
  end)

  describe("a file", function()
    it("that is removed is read to its end", function()
      local text = ("line\n"):rep(100000)
      local path = uv_stage.path(text)
      local lines = uv.lines(path)
      assert.equal("line", lines:take())
      os.remove(path)
      assert.equal(99999, #stage.drain(lines))
    end)

    it("that is truncated ends early", function()
      local path = uv_stage.path(("line\n"):rep(1000000))
      local lines = uv.lines(path)
      assert.equal("line", lines:take())
      io.open(path, "w"):close()
      assert.is_true(#stage.drain(lines) < 999999)
    end)
  end)

  describe("a connection", function()
    it("serves a client that sends one byte at a time, beside one that never reads", function()
      local conns, port = uv.listen("127.0.0.1", 0)
      rn.go(function()
        for conn in conns do
          rn.go(function()
            for chunk in conn:read() do
              if not conn:write(chunk) then break end
            end
            conn:close()
          end)
        end
      end)
      local deaf = assert(uv.connect("127.0.0.1", port))
      local shouting = rn.go(function()
        while deaf:write(("x"):rep(100000)) do end
      end)
      local slow = assert(uv.connect("127.0.0.1", port))
      local got = {}
      for byte in ("one byte at a time"):gmatch "." do
        assert(slow:write(byte))
        got[#got + 1] = slow:read():take()
      end
      assert.equal("one byte at a time", table.concat(got))
      deaf:close()
      slow:close()
      conns:close()
      shouting:take()
    end)
  end)
end)
