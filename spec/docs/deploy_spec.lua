-- docs/deploy.md: its program, its unit for systemd and what it says of the first process of a container.

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"

local PAGE <const> = "docs/deploy.md"
-- The block of indented code with a line.
local function block(line) return pages.block(PAGE, line) end

describe(PAGE, function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  it("has a program that says when it listens, answers, and at SIGTERM answers what it has and ends with 0", function()
    if not pcall(require, "luv") then return pending "luv is not installed" end
    dir:write("main.lua", (block "-- main.lua":gsub('return 200, nil, "hello',
      'io.open("begun", "w"):close() require "runnel".sleep(200) %0')))
    dir:write("get.lua", [[
      local res = assert(require "runnel.http".get("http://127.0.0.1:" .. arg[1] .. "/page"))
      print(res.status, res.body)]])
    dir:write("systemd-notify", '#!/bin/sh\necho "$@" >ready\n')
    local result = process.run(dir.path, ([[
      chmod +x systemd-notify
      PORT=0 NOTIFY_SOCKET=/none PATH=$PWD:$PATH %s main.lua >out & program=$!
      until [ -s ready ]; do sleep 0.01; done
      cat ready
      %s get.lua "$(sed -n 's/listens on port //p' out)" & client=$!
      until [ -e begun ]; do sleep 0.01; done
      kill -TERM $program
      wait $client
      wait $program
      echo "status $?"]]):format(process.runnel, process.runnel))
    assert.equal("--ready\n200\thello from /page\n\nstatus 0\n", result.out, result.err)
  end)

  it("has a unit that systemd takes without a warning", function()
    if not os.execute "systemd-analyze --version >/dev/null 2>&1" then
      return pending "systemd-analyze is not installed"
    end
    local unit, replaced = block "# /etc/systemd/system/app.service":gsub("\nExecStart=[^\n]*", "\nExecStart=/bin/true")
    assert.equal(1, replaced)
    dir:write("app.service", unit)
    local result = process.run(dir.path, "systemd-analyze verify ./app.service 2>&1")
    assert.same({ "", 0 }, { result.out, result.status })
  end)

  it("is right that the first process of a container ends at SIGTERM only if it waits for it", function()
    if not os.execute "unshare --pid --fork --kill-child true 2>/dev/null" then
      return pending "unshare cannot make a namespace"
    end
    if not pcall(require, "luv") then return pending "luv is not installed" end
    dir:write("deaf.lua", 'print "begins" io.stdout:flush() require "runnel".sleep(1000) print "goes on"')
    dir:write("waits.lua", [[
      local stop = require "runnel.uv".signal "term"
      print "begins" io.stdout:flush()
      print(stop:take())]])
    for name, last in pairs { deaf = "goes on", waits = "term" } do
      local command = ([[
        unshare --pid --fork --kill-child RUNNEL NAME.lua >NAME.out & outer=$!
        until [ -s NAME.out ]; do sleep 0.01; done
        kill -TERM $(cat /proc/$outer/task/$outer/children)
        wait $outer
        tail -n 1 NAME.out]]):gsub("%u%u+", { RUNNEL = process.runnel, NAME = name })
      local result = process.run(dir.path, command)
      assert.equal(last .. "\n", result.out, name .. result.err)
    end
  end)
end)
