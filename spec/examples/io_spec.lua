-- Runs the examples of input and output as a person does: each in a process of its own.

local shell = require "spec.support.shell"

if not pcall(require, "luv") then
  describe("the examples of input and output", function() pending "luv is not installed" end)
  return
end

-- Asserts that a command rejects its arguments with its usage.
local function assert_usage(command)
  local output, errors, status = shell.run(command)
  assert.equal("", output)
  assert.matches("usage: lua5.4 " .. command:match "examples/[%w_]+%.lua", errors)
  assert.equal(2, status)
end

describe("examples/guest.lua", function()
  it("shares luv's loop between a busy go block, a sleeping one and a timer #slow", function()
    local output, errors, status = shell.run "lua examples/guest.lua 300"
    assert.same({ "", 0 }, { errors, status })
    local turns, sleeps, ticks = output:match "^(%d+) turns of a busy go block, (%d+) sleeps of 1 ms, (%d+) ticks"
    assert.is_true(tonumber(turns) > 100, output) -- others may have the processor for most of the time
    assert.is_true(tonumber(sleeps) > 0, output)
    assert.is_true(tonumber(ticks) > 0, output)
  end)

  it("says how to use it", function()
    for _, arguments in ipairs { "x", "0", "1.5", "1 1" } do assert_usage("lua examples/guest.lua " .. arguments) end
  end)
end)

describe("examples/xargs.lua", function()
  local xargs = "lua examples/xargs.lua "

  it("runs a command for each line, in order", function()
    local command = "-P 7 -- sh -c 'sleep 0.0$(($0 * 7 % 5)); echo $0'"
    local output, errors, status = shell.run("seq 9 | " .. xargs .. command)
    assert.same({ "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "", 0 }, { output, errors, status })
  end)

  it("prints what xargs prints", function()
    local input = [[printf 'one line\n\n"quoted"\n  blanks  \n\\back\nlast']]
    local command = [[printf '<%s>\n' a]]
    assert.equal((shell.run(("%s | xargs -r -d '\\n' -n 1 %s"):format(input, command))),
      (shell.run(("%s | %s %s"):format(input, xargs, command))))
  end)

  it("runs exactly n at a time, while a slow one does not block the others #ci", function()
    -- Each counts those that run, itself included, by their files. The first five wait for one another.
    local output, errors, status = shell.run([[
      d=$(mktemp -d); mkdir $d/run
      seq 30 | ]] .. xargs .. [[-v -P 5 -- sh -c '
        touch $0/run/$1; i=0
        until [ -e $0/five ] || [ $i = 500 ]; do
          [ $(ls $0/run | wc -l) -lt 5 ] || touch $0/five; sleep 0.05; i=$((i + 1))
        done
        ls $0/run | wc -l; if [ $1 = 1 ]; then sleep 0.5; else sleep 0.02; fi; rm $0/run/$1' $d
      rm -r $d]])
    assert.equal(0, status)
    assert.equal("xargs: 30 commands, at most 5 at a time\n", errors)
    local peak, n = 0, 0
    for count in output:gmatch "%d+" do
      peak, n = math.max(peak, tonumber(count)), n + 1
    end
    assert.same({ 30, 5 }, { n, peak })
  end)

  it("prints in the order in which commands end with -u", function()
    -- The first waits for the end of the third, and that for the end of the second.
    local output, _, status = shell.run([[
      d=$(mktemp -d)
      seq 3 | ]] .. xargs .. [[-u -P 3 -- sh -c '
        echo $$ >$0/$1
        case $1 in 1) other=3 ;; 2) other=; ;; 3) other=2 ;; esac
        until [ -z "$other" ] || [ -s $0/$other ]; do sleep 0.05; done
        while [ -n "$other" ] && kill -0 $(cat $0/$other) 2>/dev/null; do sleep 0.05; done
        echo $1' $d
      status=$?; rm -r $d; exit $status]])
    assert.same({ "2\n3\n1\n", 0 }, { output, status })
  end)

  it("does not mix what commands write", function()
    local output = shell.run("seq 4 | " .. xargs .. "-u -P 4 -- sh -c 'for i in 1 2 3; do echo $0; sleep 0.02; done'")
    local groups = {}
    for group in output:gmatch "(%d\n%d\n%d\n)" do groups[#groups + 1] = group end
    table.sort(groups)
    assert.same({ "1\n1\n1\n", "2\n2\n2\n", "3\n3\n3\n", "4\n4\n4\n" }, groups)
  end)

  it("runs nothing without lines", function()
    local output, errors, status = shell.run(xargs .. "echo ran </dev/null")
    assert.same({ "", "", 0 }, { output, errors, status })
  end)

  it("gives commands an empty standard input, and passes on what they complain", function()
    local output, errors, status = shell.run("printf 'a\nb\n' | " .. xargs .. [[sh -c 'cat; echo "complaint $0" >&2']])
    assert.same({ "", "complaint a\ncomplaint b\n", 0 }, { output, errors, status })
  end)

  it("carries more than pipes hold", function()
    local output = shell.run("seq 3 | " .. xargs .. "-P 3 -- sh -c 'head -c 1000000 /dev/zero' | wc -c")
    assert.equal(3000000, tonumber(output))
  end)

  -- The exit status for commands that end in a way, after 2 lines that are fine, and how many lines ran.
  for how, case in pairs {
    ["exit 0"] = { 0, 20 }, ["exit 1"] = { 123, 20 }, ["exit 125"] = { 123, 20 }, ["exit 255"] = { 124, 3 },
    ["kill -9 $$"] = { 125, 3 },
  } do
    it(("exits with %d after %s, as xargs does"):format(case[1], how), function()
      local command = ([[sh -c 'echo ran; [ $0 = 3 ] && { %s; }; exit 0']]):format(how)
      local output, _, status = shell.run("seq 20 | " .. xargs .. command)
      assert.equal(case[1], status)
      assert.equal(case[2], select(2, output:gsub("ran", "")))
      local _, _, reference = shell.run("seq 20 | xargs -n 1 " .. command)
      assert.equal(reference, status)
    end)
  end

  it("exits with 127 or 126 for a command that is not there, or cannot be run", function()
    local _, errors, status = shell.run("seq 20 | " .. xargs .. "-P 4 no-such-command")
    assert.equal(127, status)
    assert.matches("^xargs: no%-such%-command: [^\n]*no such file or directory\n$", errors)
    _, errors, status = shell.run("seq 20 | " .. xargs .. "-P 4 /etc/passwd")
    assert.equal(126, status)
    assert.matches("^xargs: /etc/passwd: [^\n]*permission denied\n$", errors)
  end)

  it("ends an endless input when it stops", function()
    local _, _, status = shell.run("yes 2>/dev/null | " .. xargs .. "-P 4 -- sh -c 'exit 255' 2>/dev/null")
    assert.equal(124, status)
  end)

  it("ends the commands, and itself, after Ctrl-C #slow", function()
    local output, _, status = shell.run [[
      d=$(mktemp -d)
      seq 4 | $LUA examples/xargs.lua -P 2 -- sh -c '
        trap "kill \$!; echo >$0/$1; exit" TERM; sleep 1000 & echo >$0/begun$1; wait' $d & p=$!
      while [ $(ls $d | wc -l) -lt 2 ]; do sleep 0.05; done
      kill -INT $p; wait $p; s=$?
      i=0; until [ $(ls $d | wc -l) -ge 4 ] || [ $i = 500 ]; do sleep 0.05; i=$((i + 1)); done
      ls $d; rm -r $d; exit $s]]
    assert.equal(130, status)
    assert.equal("1\n2\nbegun1\nbegun2\n", output)
  end)

  it("stops when its output is closed", function()
    local output, errors, status = shell.run("yes 2>/dev/null | " .. xargs .. "-P 2 echo | head -n 1")
    assert.same({ "y\n", "", 0 }, { output, errors, status }) -- SIGPIPE ends it, as other commands
  end)

  it("shows how far it is on a terminal only", function()
    if not os.execute "script --version >/dev/null 2>&1" then return pending "there is no script(1)" end
    local output = shell.run([[
      lua=$(command -v "${LUA:-lua5.4}"); script -qec "seq 3 | $lua examples/xargs.lua true" /dev/null </dev/null]])
    assert.matches("3 done, 0 of them failed; 0 running", output)
  end)

  it("says how to use it", function()
    for _, arguments in ipairs { "", "-P", "-P 0 true", "-P x true", "-x true", "--" } do
      assert_usage(xargs .. arguments .. " </dev/null")
    end
  end)
end)
