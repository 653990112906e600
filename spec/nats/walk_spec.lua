-- The operator's walk of docs/machines.md does what it says.

local background = require "spec.support.background"
local free_port = require "spec.support.free_port"
local long = require "spec.support.long"
local nats_server = require "spec.support.queue.nats_server"
local pages = require "spec.support.docs.pages"
local patience = require "spec.support.patience"
local process = require "spec.support.process"

describe("the operator's walk", function()
  local nats, missing = nats_server.library()
  if not nats then return pending(missing) end
  if not background.has_command "curl" then return pending "curl is not installed" end

  -- The commands of the section: its indented code, without what `runnel queues` prints.
  local function commands()
    local section = pages.read("docs/machines.md"):match "\n## An operator's walk\n(.-)\n## "
    local lines, is_output = {}, false
    for line in section:gmatch "[^\n]*" do
      local code = line:match "^    (.*)$"
      if code and code:find "^queue  " then is_output = true end
      if not code and line:find "%S" then is_output = false end
      if code and not is_output then lines[#lines + 1] = code end
    end
    return table.concat(lines, "\n") .. "\n"
  end

  -- The walk with one server in place of three. It takes half as long, since no leader is elected. Programs cannot
  -- start while the server is away, so the walk waits for it by `back N`: until the workers have said N times in all
  -- that they are ready or connected again.
  local function with_one_server(text)
    local count = 0
    local function replace(what, by)
      local n
      text, n = text:gsub(what, by)
      assert(n > 0, what)
      count = count + n
    end
    replace("routes=[^\n]*\n", "")
    replace("\\\n *%-%-cluster [^\n]* %-%-routes %$routes ", "")
    replace("server 1; server 2; server 3", "server 1")
    replace("(RUNNEL_NATS_URL=[^,\n]*),[^\n]*", "%1")
    replace("checksum 8 3", "checksum 8 1")
    replace("picky 2 3", "picky 2 1")
    replace("for i in 1 2 3; do", "for i in 1; do")
    replace("do sleep 1; done # until the servers", "do sleep 0.1; done # until the servers")
    replace("worker 4; sleep 2", "worker 4; back 4")
    replace("\nstop 1 %-9", "\nback 5%0")
    replace("healthy 1 #", "healthy 1; back 9 #")
    replace("\nfor i in 1; do stop", "\nuntil [ -s /tmp/walk/again ]; do sleep 0.1; done%0")
    replace("(healthy $i; done)", "%1; back 13")
    assert.equal(14, count) -- one of them twice
    local said = "$(cat /tmp/walk/w?.log | grep -cE '^(ready|reconnected)$')"
    return ("back() { until [ %s -ge $1 ]; do sleep 0.1; done; }\n"):format(said) .. text
  end

  it("ends with all results, and a dead letter that was replayed #slow #ci", function()
    local set <close> = background.set()
    local text, count = commands(), 0
    if not long.is_long then text = with_one_server(text) end
    -- Ports of its own, without the last digit: for clients, for the cluster and for monitoring.
    local ports, taken = {}, {}
    for _, kind in ipairs { "4", "6", "8" } do
      local first
      repeat first = free_port(10) // 10 until not taken[first]
      ports[kind], taken[first] = first, true
    end
    text = text:gsub("/tmp/walk", set.dir .. "/walk"):gsub("6000", "600")
      :gsub("127%.0%.0%.1:([468])22", function(kind)
        count = count + 1
        return "127.0.0.1:" .. ports[kind]
      end):gsub("%-([pm]) ([48])22", function(option, kind) return ("-%s %d"):format(option, ports[kind]) end)
    assert.is_true(count >= (long.is_long and 8 or 2), count)
    text = text:gsub("\nkill %$picky", ("\nwait $jobs; cd %s/walk; wc -l <sums; wc -l <again; runnel queues%%0")
      :format(set.dir)):gsub("(anywhere.lua machines >[^\n]* &)", '%1 jobs="$jobs $!"')
    -- The programs under test, by the names that the page has.
    local function program(name, what) set:write(name, ('#!/bin/sh\nexec %s "$@"\n'):format(what)) end
    local lua = os.getenv "LUA" or "lua5.4"
    program("runnel", process.runnel:find "^/" and process.runnel or "$TOP/" .. process.runnel)
    if lua ~= "lua5.4" then program("lua5.4", lua) end
    local path = set:write("walk.sh", ("chmod +x %s/runnel %s/lua5.4 2>/dev/null\nexport TOP=$PWD PATH=%s:$PATH\n"
      .. "cd examples/cluster\n%s"):format(set.dir, set.dir, set.dir, text .. "wait\n"))
    -- timeout makes a process group, which the end of the spec kills: programs of a walk that does not end.
    local walk = set:start { "timeout", "--signal=KILL", tostring(math.ceil(180 * patience.factor())), "sh", path }
    local _ <close> = setmetatable({}, { __close = function()
      os.execute(("kill -KILL -%d 2>/dev/null"):format(walk.pid))
    end })
    local status = walk:wait()
    local out = walk:output()
    local function read(command, names)
      local pipe <close> = assert(io.popen(("%s %s/walk/%s"):format(command, set.dir, names)))
      return pipe:read "a"
    end
    -- 137: it does not end, since a server is left, or what a program waits for does not come.
    assert.equal(0, status, status ~= 0 and out .. read("tail -n 8", "*.log"))
    assert.is_nil(read("cat", "s?.log"):match "[^\n]*%[FTL%][^\n]*") -- each server could start
    assert.is_truthy(out:find("\n600\n600\n", 1, true), out)
    assert.matches("checksum is paused; %d workers? answered", out)
    assert.matches("checksum goes on; %d workers? answered", out)
    assert.matches("\n%d+ jobs done, 0 failed\n", out)
    assert.matches("false\tnot mended yet\n", out)
    assert.matches("\nvalue +\"letter\"\n", out)
    assert.matches("\n1: done\n1 dead letter replayed\n", out)
    assert.matches("\nchecksum +0 +0 +0 +0 ", out)
  end)
end)
