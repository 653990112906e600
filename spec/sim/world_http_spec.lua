-- HTTP between the hosts of a simulated world.

local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local has_luv = pcall(require, "luv")
local has_http, http = pcall(require, "runnel.http")
has_http = has_http and pcall(function() return http.get end) and pcall(function() return http.serve end)

describe("runnel.http in a simulated world", function()
  if not has_luv or not has_http then return pending "luv, libcurl or libmicrohttpd is not installed" end
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- Runs a server with this function, and `client` on another host. Returns what the client returns.
  local function between(f, client, opts)
    return sim.run(function()
      local world, result = sim.world(), nil
      world:host("server", function() assert(http.serve(80, f, opts or { host = "0.0.0.0" })) end)
      world:host("client", function()
        rn.yield()
        result = table.pack(client(world))
      end)
      world:run()
      return table.unpack(result, 1, result.n)
    end, { leaks = true })
  end

  it("answers requests by name, in virtual time", function()
    local response, elapsed = between(function(req)
      rn.sleep(1000)
      return 200, { ["x-method"] = req.method, ["x-from"] = req.address },
        ("%s %s %s"):format(req.path, req.query.a, req:body())
    end, function()
      local response = assert(http.request { url = "http://server/path?a=b", method = "POST", body = "text" })
      return response, sim.elapsed()
    end)
    assert.equal("/path b text", response.body)
    assert.equal("POST", response.headers["x-method"])
    assert.equal("10.0.0.2", response.headers["x-from"])
    assert.equal("text/plain; charset=utf-8", response.headers["content-type"])
    assert.equal(1004, elapsed)
  end)

  it("carries JSON, and bodies that are channels", function()
    local value, text = between(function(req)
      if req.path == "/json" then return 200, nil, { n = 1 } end
      local ch = rn.chan()
      rn.go(function()
        for _, piece in ipairs { "one ", "two" } do ch:put(piece) end
        ch:close()
      end)
      return 200, nil, ch
    end, function()
      return assert(http.get "http://server/json"):json(), assert(http.get "http://server/text").body
    end)
    assert.same({ n = 1 }, value)
    assert.equal("one two", text)
  end)

  it("tells who cannot be reached", function()
    local errors = {}
    between(function() return 200 end, function(world)
      world:host("idle", function() end)
      for i, url in ipairs { "http://nobody/", "http://idle/", "http://server:81/" } do
        errors[i] = select(2, http.get(url))
      end
    end)
    assert.matches("^nobody: EAI_NONAME", errors[1])
    assert.matches("^idle:80: ECONNREFUSED", errors[2])
    assert.matches("^server:81: ECONNREFUSED", errors[3])
  end)

  it("reaches a server on 127.0.0.1 only from its own host", function()
    local _, err = between(function() return 200 end, function() return http.get "http://server/" end, {})
    assert.matches("ECONNREFUSED", err)
    sim.run(function()
      local world, status = sim.world(), nil
      world:host("alone", function()
        assert(http.serve(8080, function() return 204 end))
        status = assert(http.get "http://localhost:8080/").status
      end)
      world:run()
      assert.equal(204, status)
    end)
  end)

  it("cancels the function of a request whose client has given up", function()
    local reason
    local _, err = between(function()
      local ok <close> = setmetatable({}, { __close = function(_, e) reason = e.err end }) -- luacheck: ignore 211
      rn.sleep(10000)
      return 200
    end, function() return http.get("http://server/", { timeout = 100 }) end)
    assert.is_true(rn.is_timeout(err))
    assert.matches("the client has closed the connection", tostring(reason))
  end)

  it("cancels the function of a request that takes longer than the server's timeout", function()
    local reason
    local response, err = between(function()
      local ok <close> = setmetatable({}, { __close = function(_, e) reason = e.err end }) -- luacheck: ignore 211
      rn.sleep(10000)
      return 200
    end, function() return http.get "http://server/" end, { host = "0.0.0.0", timeout = 100 })
    assert.is_nil(response)
    assert.matches("the connection has ended without a response", err)
    assert.is_true(rn.is_timeout(reason))
  end)

  it("drains and closes servers", function()
    local drained, errors = nil, {}
    sim.run(function()
      local world = sim.world()
      world:host("server", function()
        local server = assert(http.serve(80, function()
          rn.sleep(50)
          return 200
        end, { host = "0.0.0.0" }))
        rn.sleep(20)
        drained = server:drain(1000)
      end)
      world:host("client", function()
        rn.yield()
        errors[1] = http.get("http://server/").status
        errors[2] = select(2, http.get "http://server/")
      end)
      world:run()
    end, { leaks = true })
    assert.is_true(drained)
    assert.equal(200, errors[1])
    assert.matches("ECONNREFUSED", errors[2])
  end)

  it("loses an answer after the request was done: a retry that is not idempotent is found", function()
    local function test(mended)
      local world = sim.world { faults = { reset = 1 } }
      local sum, done = 0, {}
      world:host("bank", function()
        assert(http.serve(80, function(req)
          local id, n = req:body():match "(%d+) (%d+)"
          if not (mended and done[id]) then sum = sum + n end
          done[id] = true
          return 200
        end, { host = "0.0.0.0" }))
      end)
      world:host("client", function()
        rn.yield()
        for _ = 1, 5 do
          local response = http.request { url = "http://bank/deposit", method = "POST", body = "1 5" }
          if response then return end
        end
        error "no answer"
      end)
      world:run()
      if sum ~= 5 then error("the sum is " .. sum, 0) end
    end
    local ok, err = pcall(sim.explore, function() test(false) end, { seconds = 60 })
    assert.is_false(ok)
    assert.matches("the sum is 10", err)
    assert.matches('client %-> bank: "POST /deposit 1 5', err)
    sim.explore(function() test(true) end, { seconds = 0.1 })
  end)

  it("is an error outside hosts, and without a world", function()
    local function fails(pattern, f, ...)
      local ok, err = pcall(f, ...)
      assert.is_false(ok)
      assert.matches(pattern, err)
    end
    local function get() assert(http.get "http://server/") end
    local function serve() assert(http.serve(80, print)) end
    sim.run(function()
      fails("world_http_spec.lua:%d+: get: .* http.fake%(f%), or to a host of a simulated world %(sim.world%)", get)
      fails("world_http_spec.lua:%d+: serve: a server needs real time, .* a simulated world", serve)
      sim.world()
      fails("world_http_spec.lua:%d+: get: .* belongs to no host", get)
      fails("world_http_spec.lua:%d+: serve: a server needs real time", serve)
    end)
  end)
end)
