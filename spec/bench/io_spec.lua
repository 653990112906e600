-- bench/io.lua as a person runs it.

local shell = require "spec.support.shell"

describe("bench/io.lua", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end

  it("prints a table of the chosen measurements #slow #ci", function()
    local output, errors, status = shell.run "lua bench/io.lua --quick echo xargs"
    assert.same({ "echo: round 1\nxargs: round 1\n", 0 }, { errors, status })
    local figure = " +| %d+ +| %d+ %([^)]+%) +| %d+%.%d+ +| ≥ 0."
    assert.matches("\n| echo server, 1000 connections, requests/s" .. figure .. "60 ", output)
    assert.matches("\n| xargs %-P 8 with 2000 short commands, commands/s" .. figure .. "77 ", output)
  end)

  it("fails when the echo server does not send back what it got", function()
    local _, errors, status = shell.run [[
      $LUA -e '
        local rn, uv = require "runnel", require "runnel.uv"
        local clients, port = uv.listen("127.0.0.1", 0)
        rn.go(function()
          for conn in clients do
            rn.go(function() for chunk in conn:read() do conn:write(chunk:reverse()) end end)
          end
        end)
        io.stdout:write(port, "\n")
        io.stdout:flush()
        rn.run()' >"$0.port" & p=$!
      while ! [ -s "$0.port" ]; do sleep 0.02; done
      lua bench/io/echo_client.lua $(cat "$0.port") 3 2; s=$?
      kill $p; rm "$0.port"; exit $s]]
    assert.matches("^echo_client: other bytes came back\n", errors)
    assert.equal(1, status)
  end)

  it("says how to use it", function()
    local output, errors, status = shell.run "lua bench/io.lua echo other"
    assert.same({ "", "usage: lua5.4 bench/io.lua [--quick] [echo] [lines] [xargs]\n", 2 }, { output, errors, status })
  end)
end)
