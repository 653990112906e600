-- The executable alone, as it is on another machine: which parts of the library it has.

local process = require "spec.support.process"

describe("the executable, copied", function()
  local dir

  setup(function()
    dir = process.directory()
    assert(os.execute(("cp '%s' '%s/runnel'"):format(process.runnel, dir.path)))
  end)
  teardown(function() dir:remove() end)

  -- Runs a script without any path to modules. Returns what it prints.
  local function printed(script)
    dir:write("job.lua", 'package.path, package.cpath = "", ""\nlocal rn = require "runnel"\n' .. script)
    local result = process.run(dir.path, "./runnel job.lua")
    assert.equal(0, result.status, result.err)
    return result.out
  end

  it("has channels, go blocks, flows, threads, JSON, simulations, profiles and traces", function()
    assert.equal("42\n1 2\n[1]\n3600000.0\n7\ntrue\n", printed [[
      print(rn.go(function() return 42 end):take())
      print(table.concat(rn.into({}, rn.pmap(2, function(v) return v end, { 1, 2 })):take(), " "))
      print(require("runnel.json").encode { 1 })
      require("runnel.sim").run(function()
        rn.sleep(3600000)
        print(require("runnel.sim").elapsed() + 0.0)
      end)
      print(rn.thread(function() return 7 end):take())
      require "runnel.flow"("f", { a = { from = { 1 } }, b = function() end, "a > b" }):wait()
      print(rn.profile(function() end).elapsed >= 0)
    ]])
  end)

  it("has no HTTP, WebSocket, TLS, SQLite, store, NATS and monitor, and says for each what is missing", function()
    assert.equal("", printed [[
      local missing = { "http.server", "http.curl", "http.websocket", "tls", "sqlite", "store", "nats", "monitor" }
      for _, name in ipairs(missing) do
        local ok, err = pcall(require, "runnel." .. name)
        if ok then print(name .. " is there") end
        if not tostring(err):find("core", 1, true) and not tostring(err):find("curl", 1, true) then print(err) end
      end
    ]])
  end)
end)
