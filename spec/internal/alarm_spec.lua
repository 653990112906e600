-- A limit of time that was not needed does not keep the program running.

local missing = require "spec.support.missing"
local patience = require "spec.support.patience"
local process = require "spec.support.process"

-- Each is a program that has such a limit, of a minute. `needs`: modules.
local PROGRAMS <const> = {
  { "rn.scope", "rn.scope(function() rn.sleep(1) end, { timeout = 60000 })" },
  { "rn.retry", "rn.retry(function() rn.sleep(1) end, { timeout = 60000 })" },
  { "rn.pmap", "rn.into({}, rn.pmap(2, function(v) rn.sleep(1) return v end, { 1, 2 }, { timeout = 60000 })):take()" },
  { "flow:drain", [[
    local f = require "runnel.flow" ("f", { a = { from = { 1 } }, b = function() rn.sleep(1) end, "a > b" })
    f:start()
    f:drain(60000)
  ]] },
  { "worker:drain", needs = "runnel.store", [[
    local store = require("runnel.store").open ":memory:"
    local begun = rn.promise_chan()
    local worker = store:serve("s", 1, function() begun:put(true) rn.sleep(20) return true end, { timeout = 60000 })
    local result = rn.go(store:remote "s", 1)
    begun:take()
    worker:drain(60000)
    result:take()
    store:close()
  ]] },
  { "store:drain", needs = "runnel.store", [[
    local store = require("runnel.store").open ":memory:"
    store:serve("s", 1, print)
    store:drain(60000)
  ]] },
  { "uv.connect", needs = "luv", [[
    local uv = require "runnel.uv"
    local conns, port = uv.listen("127.0.0.1", 0)
    local conn = assert(uv.connect("127.0.0.1", port, { timeout = 60000 }))
    conn:close()
    conns:close()
  ]] },
  { "uv.run", needs = "luv", "assert(require('runnel.uv').run { 'true', timeout = 60000 })" },
  { "server:drain, and http.get", needs = "runnel.http", [[
    local http = require "runnel.http"
    local server = assert(http.serve(0, function() return 200 end, { timeout = 60000 }))
    assert(http.get(server.url, { timeout = 60000 }))
    server:drain(60000)
  ]] },
  { "http.websocket", needs = "luv runnel.http.websocket", [[
    local http = require "runnel.http"
    local server = assert(http.serve(0, function(req)
      local conn <close> = assert(req:websocket())
      conn:read():take()
    end))
    local conn = assert(http.websocket(server.url:gsub("^http", "ws"), { timeout = 60000 }))
    conn:close()
    server:close()
  ]] },
}

describe("a limit of time that was not needed", function()
  for _, program in ipairs(PROGRAMS) do
    it("does not keep the program running: that of " .. program[1], function()
      local reason = missing(program.needs or "")
      if reason then return pending(reason) end
      local dir <close> = process.directory()
      dir:write("program.lua", 'local rn = require "runnel"\n' .. program[2] .. '\nprint "the end"\n')
      local result = process.run(dir.path, ("timeout -s KILL %d %s program.lua"):format(patience.seconds(20),
        process.runnel))
      assert.equal("the end\n", result.out, result.err)
      assert.equal(0, result.status)
    end)
  end
end)
