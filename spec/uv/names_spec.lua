-- Names of hosts, and servers of names that are silent.

local process = require "spec.support.process"
local rn = require "runnel"
local uv_stage = require "spec.support.uv_stage"

describe("names of hosts", function()
  local has_luv, luv = pcall(require, "luv")
  if not has_luv then return pending "luv is not installed" end
  local names = require "runnel.uv.hostnames"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  it("have the addresses and the errors that luv has", function()
    for _, host in ipairs { "localhost", "127.0.0.1", "::1", "1.2.3", "no such host", "", "-", "a..b", "fe80::1%lo",
      ("x"):rep(300), "\xc3\xa4.invalid", "300.1.1.1" } do
      local expected, err
      local found, _, problem = luv.getaddrinfo(host, nil, { socktype = "stream" })
      if found then
        expected = {}
        for i, entry in ipairs(found) do expected[i] = entry.addr end
      end
      local addresses
      addresses, err = names.look_up(host)
      assert.same(expected, addresses, host)
      if not expected then assert.equal(problem, err:match "E[%u_]+", host) end
    end
  end)

  -- Runs a script in which the servers of names are silent: it gets requests and sends no answer. Returns its output,
  -- or nil if that cannot be done here.
  local function with_silent_servers(script)
    local dir <close> = process.directory()
    local address = ("127.%d.%d.9"):format(luv.os_getpid() >> 8 & 255, luv.os_getpid() & 255) -- no other run's
    dir:write("resolv.conf", ("nameserver %s\noptions timeout:20 attempts:3\n"):format(address))
    dir:write("script.lua", ([[
      local rn, uv, luv = require "runnel", require "runnel.uv", require "luv"
      local silent = luv.new_udp()
      if silent:bind("%s", 53) ~= 0 then print "impossible" os.exit() end
      silent:recv_start(function() end)
    ]]):format(address) .. script)
    local result = process.run(dir.path, ([[
      unshare -m sh -c 'mount --bind resolv.conf /etc/resolv.conf && exec "$0" script.lua' '%s' || echo impossible
    ]]):format(assert(luv.fs_realpath(process.runnel))))
    if result.out:find "impossible" then return nil end
    return result.out .. result.err
  end

  it("whose servers are silent delay no other name, no file and no end of the program", function()
    if not luv.fs_stat "/etc/hosts" then return pending "localhost has no address on this machine" end
    local output = with_silent_servers [[
      local asked = 0
      silent:recv_start(function(_, data) asked = asked + (data and 1 or 0) end)
      for i = 1, 200 do
        rn.go(function()
          print("answered", uv.resolve("name" .. i .. ".example"):take())
        end)
      end
      while asked < 200 do rn.sleep(1) end
      print((uv.resolve "localhost":take()))
      print(uv.lines("script.lua"):take() ~= nil)
      local clients, port = assert(uv.listen("localhost", 0))
      print(uv.connect("localhost", port) ~= nil)
      rn.exit(0)
    ]]
    if not output then return pending "the name server cannot be replaced here" end
    output = output:gsub("^::1\n", "127.0.0.1\n") -- a resolver may prefer either
    assert.equal("127.0.0.1\ntrue\ntrue\n", output)
  end)

  it("do not delay the timeout of a connection", function()
    local output = with_silent_servers [[
      print(uv.connect("slow.example", 1, { timeout = 10 }))
      local ok, err = pcall(rn.scope, function() uv.resolve("slower.example"):take() end, { timeout = 10 })
      print(ok, err)
      rn.exit(0)
    ]]
    if not output then return pending "the name server cannot be replaced here" end
    assert.equal("nil\tslow.example:1: ETIMEDOUT: connection timed out\n"
      .. "false\tscope: its body had not ended after 10 ms\n", output)
  end)

  it("whose servers are silent delay no request to another host", function()
    if not pcall(require, "runnel.http") then return pending "runnel.http is not built" end
    local output = with_silent_servers [[
      local http = require "runnel.http"
      local asked = 0
      silent:recv_start(function(_, data) asked = asked + (data and 1 or 0) end)
      for i = 1, 40 do
        rn.go(function() print("answered", http.get("http://name" .. i .. ".example/")) end)
      end
      while asked < 40 do rn.sleep(1) end
      local server, port = assert(http.serve(0, function() return 200, nil, "here" end))
      print(http.get("http://localhost:" .. server.port .. "/").body)
      rn.exit(0)
    ]]
    if not output then return pending "the name server cannot be replaced here" end
    assert.equal("here\n", output)
  end)

  it("are looked up although nobody waits for the result any more, and leave nothing", function()
    local ch = require("runnel.uv").resolve "localhost"
    ch:close()
    rn.run()
  end)
end)
