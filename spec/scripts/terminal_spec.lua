-- spec/support/terminal.lua: what a spec is told that waits in vain.

local process = require "spec.support.process"
local terminal = require "spec.support.terminal"

describe("a terminal of the specs #slow", function()
  if not terminal.available then
    pending "tmux is missing"
    return
  end

  local term
  after_each(function() term:close() end)

  it("says at once what was awaited when the program has ended", function()
    term = terminal.open "echo text; (exit 3)"
    local ok, err = pcall(term.expect, term, "%[ended 3%]")
    assert.is_true(ok, err)
    ok, err = pcall(term.expect, term, "never")
    assert.is_false(ok)
    assert.matches('nothing on the screen matches "never":\ntext\n%[ended 3%]$', err)
    term.prompt = ">$"
    ok, err = pcall(term.enter, term, "1")
    assert.is_false(ok)
    assert.matches('no prompt ">$":\ntext', err)
  end)

  it("says what was awaited when tmux has ended, and can be closed", function()
    local dir <close> = process.directory()
    term = terminal.open(("echo $PPID >%s/pid; exec sleep 60"):format(dir.path))
    term:expect ""
    local pid
    repeat pid = tonumber(dir:read "pid" or nil) until pid
    assert(os.execute("kill -KILL " .. pid))
    local ok, err
    repeat ok, err = pcall(term.press, term, "Enter") until not ok -- it may have been answered before
    assert.matches("^tmux has ended, before its answer to send%-keys Enter; at last it said: ", err)
  end)
end)
