-- A crawl of many pages becomes one that goes on where it was, by one line.

local background = require "spec.support.background"
local long = require "spec.support.long"

describe("a crawl with store:once", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  if not pcall(require, "runnel.http.core") then return pending "libcurl is not installed" end
  local http = require "runnel.http"

  local CRAWL <const> = [[
    local rn = require "runnel"
    local http = require "runnel.http"

    local site, n, get = arg[1], tonumber(arg[2]), http.get
    get = require("runnel.store").open(arg[3]):once("pages", http.get) -- the line
    local urls, bytes = {}, 0
    for i = 1, n do urls[i] = site .. "page/" .. i end
    for page in rn.pmap(64, get, urls) do bytes = bytes + #page.body end
    print(bytes)
  ]]

  it("gets each page once, but for those under way when it is killed #ci", function()
    local n <const> = long.times(600, 10000)
    local asked, bytes, total = {}, 0, 0
    local crawl
    local server <close> = assert(http.serve(0, function(req)
      local i = assert(tonumber(req.path:match "^/page/(%d+)$"))
      asked[i], total = (asked[i] or 0) + 1, total + 1
      if total == n // 2 then crawl:signal "KILL" end
      return 200, nil, ("x"):rep(i % 100)
    end))
    for i = 1, n do bytes = bytes + i % 100 end
    local set <close> = background.set()
    local script = set:write("crawl.lua", CRAWL)
    local command = { os.getenv "LUA" or "lua5.4", script, server.url, n, set.dir .. "/crawl.db" }
    crawl = set:start(command)
    crawl:wait()
    local before = total
    assert.is_true(before < n)
    crawl = set:start(command)
    assert.equal(0, crawl:wait(), crawl:output())
    assert.equal(bytes .. "\n", crawl:output())
    for i = 1, n do assert.is_true(asked[i] == 1 or asked[i] == 2) end
    assert.is_true(total <= n + 64, total - n)
    crawl = set:start(command)
    assert.equal(0, crawl:wait(), crawl:output())
    assert.equal(bytes .. "\n", crawl:output())
    assert.is_true(total <= n + 64) -- the third time it asks for nothing
  end)
end)
