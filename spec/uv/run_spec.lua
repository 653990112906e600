-- uv.run: processes from beginning to end.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("uv.run", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function shell(script, options)
    options = options or {}
    options[1], options[2], options[3] = "sh", "-c", script
    return uv.run(options)
  end

  -- Whether the process whose number a file has is there.
  local function is_running(path)
    local pid = tonumber(uv_stage.contents(path))
    local stat = io.open(("/proc/%d/stat"):format(pid))
    if not stat then return false end
    local text = stat:read "a"
    stat:close()
    return not text:find "%) Z"
  end

  it("returns the output of a process, and its status", function()
    assert.same({ stdout = "out\n", stderr = "err\n", code = 3 }, shell "echo out; echo err >&2; exit 3")
    assert.same({ stdout = "", stderr = "", code = 0 }, uv.run { "true" })
    assert.same({ stdout = "", stderr = "", code = 128 + 9, signal = 9 }, shell "kill -9 $$")
    assert.same({ stdout = "1\n2\n", code = 0 }, shell("echo 1; echo 2 >&2", { stderr = "stdout" }))
    assert.same({ stderr = "2\n", code = 0 }, shell("echo 1; echo 2 >&2", { stdout = false }))
    assert.same({ stdout = "/\nb\n", stderr = "", code = 0 }, shell("pwd; echo $A", { cwd = "/", env = { A = "b" } }))
  end)

  it("returns long output completely, of both streams at once", function()
    local result = shell "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; head -c 1000000 /dev/zero; echo"
    assert.equal(4000001, #result.stdout)
    assert.equal(3000000, #result.stderr)
  end)

  it("feeds a string, a channel, or nothing", function()
    assert.equal("text", uv.run({ "cat", stdin = "text" }).stdout)
    assert.equal("", uv.run({ "cat", stdin = "" }).stdout)
    assert.equal("ab1", uv.run({ "cat", stdin = rn.to_chan { "a", "b", 1 } }).stdout)
    assert.equal("", uv.run({ "cat" }).stdout)
    local much = ("0123456789"):rep(100000)
    assert.is_true(uv.run({ "cat", stdin = much }).stdout == much)
  end)

  it("ignores input that is not read", function()
    assert.same({ stdout = "", stderr = "", code = 0 }, uv.run { "true", stdin = ("x"):rep(1000000) })
    local endless = rn.to_chan(function() return "x" end)
    assert.same({ stdout = "x", stderr = "", code = 0 }, uv.run { "head", "-c", 1, stdin = endless })
    assert.is_true(endless:closed())
  end)

  it("reports the error of a channel that feeds the process", function()
    local result, err, partial = uv.run { "cat", stdin = uv.read "/no/such" }
    assert.is_nil(result)
    assert.equal("ENOENT: no such file or directory: /no/such", err)
    assert.same({ stdout = "", stderr = "", code = 0 }, partial)
    result, err = uv.run { "cat", stdin = rn.to_chan { "a", {} } }
    assert.same({ nil, "cat: only strings can be written, not a table" }, { result, err })
  end)

  it("runs many processes concurrently", function()
    local begun, go_on, jobs = uv_stage.path "", uv_stage.path(), {}
    for i = 1, 20 do
      jobs[i] = rn.go(function()
        return shell(("echo %d >>%s; until [ -e %s ]; do sleep 0.05; done; echo %d"):format(i, begun, go_on, i)).stdout
      end)
    end
    local all_begun = patience.wait_until(function()
      return select(2, uv_stage.contents(begun):gsub("\n", "")) == 20
    end)
    io.open(go_on, "w"):close()
    for i = 1, 20 do assert.equal(i .. "\n", jobs[i]:take()) end
    assert.is_true(all_begun)
  end)

  it("reports why a process cannot start", function()
    assert.same({ nil, "no-such-command: ENOENT: no such file or directory" }, { uv.run { "no-such-command" } })
    local no_directory = "true, in /no/such: ENOENT: no such file or directory"
    assert.same({ nil, no_directory }, { uv.run { "true", cwd = "/no/such" } })
  end)

  it("stops a process after its timeout, and returns its output", function()
    local before, timeout, partial = rn.now(), 50, { stdout = "" }
    while partial.stdout == "" do -- it had not even begun
      timeout = 4 * timeout
      local result, err
      result, err, partial = shell("echo begun; exec sleep 100", { timeout = timeout })
      assert.is_nil(result)
      assert.equal(("sh: it has not ended within %d ms"):format(timeout), tostring(err))
    end
    assert.same({ stdout = "begun\n", stderr = "", code = 143, signal = 15 }, partial)
    assert.is_true(rn.now() - before < 60000)
  end)

  it("kills a process that does not stop after its timeout", function()
    local partial, timeout = { stdout = "" }, 100
    while partial.stdout == "" do -- else it had not even begun, and did not ignore the signal yet
      local script = "trap '' TERM; echo begun; while :; do sleep 0.01; done"
      partial = select(3, shell(script, { timeout = timeout, grace = 50 }))
      timeout = 4 * timeout
    end
    assert.same({ stdout = "begun\n", stderr = "", code = 128 + 9, signal = 9 }, partial)
  end)

  it("does not wait for a timeout that was not needed", function()
    local before = rn.now()
    assert.equal(0, uv.run({ "true", timeout = 60000 }).code)
    assert.equal(0, uv.run({ "true", timeout = math.huge }).code)
    rn.run()
    assert.is_true(rn.now() - before < 50000)
  end)

  it("stops, with its time, also what a detached process has started", function()
    local path, timeout = uv_stage.path "", 50
    while uv_stage.contents(path) == "" do -- it had not even begun
      timeout = 4 * timeout
      local _, err = shell(("sh -c 'echo $$ >%s; sleep 100; true'; true"):format(path),
        { timeout = timeout, detached = true })
      assert.equal(("sh: it has not ended within %d ms"):format(timeout), tostring(err))
    end
    assert.is_true(patience.wait_until(function() return not is_running(path) end))
  end)

  it("says that only the output has not ended, if a process that was started has it open", function()
    for _, detached in ipairs { false, true } do
      local path, timeout = uv_stage.path "", 50
      local result, err, partial, pids
      repeat -- on a busy machine it has not even begun, or not ended, or what it has started not begun
        timeout = 4 * timeout
        result, err, partial = shell(("sh -c 'echo $$ >>%s; exec sleep 100' & echo said"):format(path),
          { timeout = timeout, detached = detached })
        pids = uv_stage.contents(path)
      until partial.stdout ~= "" and partial.code == 0 and pids:find "%d\n$"
      assert.is_nil(result)
      assert.equal(("sh: it has ended, but its output has not within %d ms: a process that it has started has it open")
        :format(timeout), tostring(err))
      assert.same({ stdout = "said\n", stderr = "", code = 0 }, partial)
      local file <close> = assert(io.open(path, "w"))
      file:write(pids:match "(%d+)\n$"):flush() -- the last one
      if detached then patience.wait_for(function() return not is_running(path) end)
      else assert.is_true(is_running(path)) end
      os.execute("kill " .. pids:gsub("\n", " ") .. "2>/dev/null")
    end
  end)

  it("leaves alone what a process has left behind", function()
    for _, detached in ipairs { false, true } do
      local path = uv_stage.path ""
      assert.same({ stdout = "", stderr = "", code = 0 }, shell(
        ("exec >/dev/null 2>&1; sh -c 'echo $$ >%s; exec sleep 100' & until [ -s %s ]; do sleep 0.01; done")
          :format(path, path), { detached = detached }))
      rn.run()
      assert.is_true(is_running(path))
      os.execute("kill " .. uv_stage.contents(path))
    end
  end)

  it("stops a process that writes more than the limit", function()
    local result, err, partial = uv.run { "yes", max = 9 }
    assert.is_nil(result)
    assert.equal("yes: more than 9 bytes of stdout", err)
    assert.equal("y\ny\ny\ny\ny", partial.stdout)
    assert.is_true(partial.signal == 15 or partial.signal == 13)
    assert.equal("12345", shell("printf 12345", { max = 5 }).stdout)
    assert.equal("sh: more than 5 bytes of stderr", select(2, shell("printf 123456 >&2", { max = 5 })))
  end)

  it("stops the process when the waiting go block is cancelled", function()
    local path = uv_stage.path ""
    local job = rn.go(function() return shell(("echo $$ >%s; exec sleep 100"):format(path)) end)
    while uv_stage.contents(path) == "" do rn.sleep(1) end
    rn.cancel(job)
    assert.same({ nil, "cancelled" }, { job:take() })
    rn.run()
    assert.is_false(is_running(path))
    assert.same({}, stage.others())
  end)

  it("stops the process at the end of a scope that has failed", function()
    local path = uv_stage.path ""
    local ok = pcall(rn.scope, function(s)
      s:go(function() shell(("echo $$ >%s; exec sleep 100"):format(path)) end)
      while uv_stage.contents(path) == "" do rn.sleep(1) end
      error "oops"
    end)
    assert.is_false(ok)
    rn.run()
    assert.is_false(is_running(path))
  end)

  it("starts nothing if it cannot wait", function()
    local path, here, errors = uv_stage.path(), nil, {}
    local ch = rn.chan()
    rn.go(function() ch:put(1) end)
    ch:take_async(function()
      here = stage.here(1)
      errors[1] = select(2, pcall(function() return uv.run { "touch", path }, "no tail call" end))
    end)
    repeat rn.sleep(1) until errors[1]
    assert.matches(":%d+: run would have to wait, which is impossible inside a callback: ", errors[1])
    assert.equal(here, errors[1]:match "^[^:]+:%d+")
    rn.cancel(rn.go(function() uv.run { "touch", path } end), "early")
    rn.sleep(50)
    assert.is_nil(io.open(path))
  end)

  describe("leaves no process behind", function()
    -- Runs a script in which job() runs a process, and started() waits until that has started; asserts that the process
    -- ends with the script.
    local function assert_ends_with(rest)
      local path = uv_stage.path ""
      stage.script(([[
        local rn, uv = require "runnel", require "runnel.uv"
        local path = %q
        local function job() uv.run { "sh", "-c", "echo $$ >" .. path .. "; exec sleep 100" } end
        local function started()
          local file <close> = io.open(path)
          return file:read "n"
        end
      ]]):format(path) .. rest)
      assert.is_not_equal("", uv_stage.contents(path))
      if patience.wait_until(function() return not is_running(path) end) then return end
      os.execute("kill " .. uv_stage.contents(path))
      error("it is still there after: " .. rest, 2)
    end

    it("when the program ends, or fails", function()
      assert_ends_with "rn.go(job) while not started() do rn.sleep(1) end"
      assert_ends_with "rn.go(job) while not started() do rn.sleep(1) end error 'oops'"
    end)

    it("when the program is interrupted #slow", function() -- lua5.4 makes that an error, others may not
      local interrupt = ("os.execute((%q):gsub('PATH', path)) "):format(process.interrupt "test -s PATH")
      assert_ends_with(interrupt .. "job()")
      assert_ends_with(interrupt .. "rn.go(job) rn.run()")
    end)
  end)

  it("rejects invalid commands and unknown options", function()
    for _, case in ipairs {
      { nil, "with the command and its arguments expected, .*, got nothing" },
      { { "" }, 'the name of a command expected as the first value, got ""' },
      { { "ls", true }, "argument 1: a string expected, got true" },
      { { "ls", dir = "x" }, 'unknown option "dir"' },
      { { "ls", stdin = true }, "stdin: a string, a channel, false for none %(the default%), or a file .*, got true" },
      { { "ls", stdin = {} }, "stdin: a string, a channel, .*, got table" },
      { { "ls", stdin = -1 }, "stdin: a string, a channel, .*, got %-1" },
      { { "ls", stdout = "lines" }, 'stdout: false for none, or a file descriptor expected, got "lines"' },
      { { "ls", stdout = "stdout" }, 'stdout: false for none, or a file descriptor expected, got "stdout"' },
      { { "ls", stderr = true }, 'stderr: "stdout" for the same, false for none, or a file descriptor .*, got true' },
      { { "ls", timeout = -1 }, "timeout: a number of ms expected, got %-1" },
      { { "ls", timeout = "1" }, 'timeout: a number of ms expected, got "1"' },
      { { "ls", stdout = false, stderr = "stdout", max = 9 },
        "max: it limits the output, and neither stdout nor stderr is in the result" },
      { { "ls", max = 0 / 0 }, "max: a number of bytes expected, got %-?nan" },
    } do
      local here = stage.here(1)
      local ok, err = pcall(function() return uv.run(case[1]), "no tail call" end)
      assert.is_false(ok)
      assert.equal(here, err:match "^[^:]+:%d+")
      assert.matches(":%d+: run: .*" .. case[2], err)
    end
  end)
end)
