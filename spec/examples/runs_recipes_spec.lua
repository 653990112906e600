-- The recipes of durable runs (docs/recipes.md), each in a simulated world: weeks pass at once, and the host crashes.

local process = require "spec.support.process"
local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local RECIPES <const> = { "approval", "report", "polite", "drip", "agent" }
local DAY <const> = 24 * 3600 * 1000

local has_luv = pcall(require, "luv")
local has_http, http = pcall(require, "runnel.http")
has_http = has_http and pcall(function() return http.get end) and pcall(function() return http.serve end)

describe("recipes of durable runs #heavy", function()
  if not (has_luv and has_http and pcall(require, "runnel.sqlite.core")) then
    return pending "luv, libcurl or libsqlite3 is not installed"
  end
  local stores = require "runnel.store"
  local prepared -- the bytes of a store with its tables, which are made by many writes

  setup(function()
    local dir <close> = process.directory()
    local store = stores.open(dir.path .. "/work.db")
    store:runs "any"
    store:close()
    prepared = dir:read "work.db"
  end)
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- What the recipes see: their servers, which only answer their own machine, answer all hosts.
  local everywhere = setmetatable({
    serve = function(port, f) return http.serve(port, f, { host = "0.0.0.0" }) end,
  }, { __index = http })
  local env = setmetatable({
    require = function(name) return name == "runnel.http" and everywhere or require(name) end,
  }, { __index = _G })

  local function load(name) return assert(loadfile("examples/recipes/" .. name .. ".lua", "t", env)) end

  -- Runs a recipe on a host with these arguments after that of its store. `serve(req)` answers for the host "other";
  -- `user(world, host)` uses it. The host crashes at these times, in ms.
  local function play(name, arguments, serve, user, crashes)
    return sim.run(function()
      local world, result = sim.world(), nil
      world:host("other", function() assert(http.serve(80, serve, { host = "0.0.0.0" })) end)
      local host = world:host("app", function()
        load(name)("/var/work.db", table.unpack(arguments))
      end)
      host:put("/var/work.db", prepared)
      for _, ms in ipairs(crashes or {}) do
        rn.go(function()
          rn.sleep(ms)
          host:crash()
          rn.sleep(1000)
          host:restart()
        end)
      end
      if user then world:host("user", function() result = table.pack(user()) end) end
      world:run(60 * DAY)
      return table.unpack(result or {})
    end)
  end

  -- Asks the recipe, again and again while its host is down.
  local function ask(method, path, json)
    return rn.retry(function()
      local url = "http://app:8080" .. path
      return assert(http.request { method = method, url = url, json = json, timeout = 1000, fail = true })
    end, { tries = 20, backoff = 100 })
  end

  local function get(path) return ask("GET", path):json() end

  -- A server of which the first request fails, and which notes what it was asked to do, once for each idempotency key.
  local function effects()
    local list, seen, n = {}, {}, 0
    return list, function(req)
      n = n + 1
      if n == 1 then return 503 end
      local key = req.path .. (req.headers["idempotency-key"] or n)
      if not seen[key] then
        local body = req:json()
        list[#list + 1] = ("%d %s %s"):format(sim.elapsed() // DAY, req.path, body.subject or body.text or body.cents)
      end
      seen[key] = true
      return 200, nil, {}
    end
  end

  it("approval: an order is shipped after an approval, or else its money goes back after a week", function()
    local list, serve = effects()
    local one, two = play("approval", { "8080", "http://other", "http://other" }, serve, function()
      ask("POST", "/orders/17", { cents = 500, to = "alice" })
      ask("POST", "/orders/18", { cents = 700, to = "bob" })
      rn.sleep(3 * DAY)
      assert.equal("waiting", get "/orders/17".state)
      ask("POST", "/orders/17/approved", "carol")
      rn.sleep(5 * DAY)
      return get "/orders/17", get "/orders/18"
    end, { 500, DAY, 3 * DAY + 1200, 7 * DAY })
    assert.same({ "done", "approved by carol" }, { one.state, one.note })
    assert.same({ "done", "not approved" }, { two.state, two.note })
    table.sort(list)
    assert.same({
      "0 /charge 500", "0 /charge 700", "3 /mail it is shipped", "7 /mail your money is back", "7 /refund 700",
    }, list)
  end)

  it("drip: four mails come in a month, and none after the end of a subscription", function()
    local list, serve = effects()
    play("drip", { "8080", "http://other/send" }, serve, function()
      ask("PUT", "/subscribers/alice")
      ask("PUT", "/subscribers/bob")
      rn.sleep(5 * DAY)
      ask("DELETE", "/subscribers/bob")
    end, { 700, 2 * DAY, 29 * DAY })
    table.sort(list)
    assert.same({ "0 /send welcome", "0 /send welcome", "2 /send first steps", "2 /send first steps",
      "30 /send what do you think?", "7 /send recipes" }, list)
  end)

  it("agent: it waits for a person for days, and asks the model each question once", function()
    local talks, fetched = {}, 0
    local serve = function(req)
      if req.path == "/data" then
        fetched = fetched + 1
        return 200, nil, "42 users"
      end
      local talk = req:json()
      talks[#talk] = (talks[#talk] or 0) + 1
      if #talk == 1 then return 200, nil, { tool = "get", input = "http://other/data" } end
      if #talk == 2 then return 200, nil, { question = "which of the " .. talk[2].answer .. "?" } end
      return 200, nil, { result = talk[3].answer .. " of " .. talk[2].answer }
    end
    local note, result = play("agent", { "8080", "http://other/turn" }, serve, function()
      ask("POST", "/tasks/1", "count the users")
      rn.sleep(DAY)
      local before = get "/tasks/1".state
      rn.sleep(DAY)
      ask("POST", "/tasks/1/answer", "those of Berlin")
      rn.sleep(DAY)
      return before.note, get "/tasks/1".result
    end, { DAY + 5000 })
    assert.equal("which of the 42 users?", note)
    assert.equal("those of Berlin of 42 users", result)
    assert.same({ { 1, 1, 1 }, 1 }, { talks, fetched })
  end)

  it("polite: all pages of the sites are visited once, each site not too often", function()
    local times, n = {}, 0
    local serve = function(req)
      local page = tonumber(req.path:match "%d+") or 0
      n, times[#times + 1] = n + 1, sim.elapsed()
      if page >= 30 then return 200, nil, "the end" end
      return 200, nil, ('<a href="http://other/%d"> <a href="http://other/0"> <a href="http://else/">'):format(page + 1)
    end
    play("polite", { "http://other/0" }, serve, nil, { 5 * 60000 })
    assert.equal(31, n)
    for i = 2, #times do assert.is_true(times[i] - times[i - 1] >= 30000, times[i] - times[i - 1]) end
  end)

  it("report: the sum of each day is posted once, also of those at whose end the program was off", function()
    local list, serve = effects()
    sim.run(function()
      local world = sim.world()
      world:host("other", function() assert(http.serve(80, serve, { host = "0.0.0.0" })) end)
      local host = world:host("app", function()
        local store = stores.open "/var/work.db"
        store.db:exec "create table if not exists sale(day text not null, cents integer not null)"
        store.db:exec [[insert into sale select '2023-11-16', value from json_each('[250, 150]')
          where not exists (select 1 from sale)]]
        store:close()
        load "report"("/var/work.db", "http://other/report")
      end)
      host:put("/var/work.db", prepared)
      rn.go(function()
        rn.sleep(DAY)
        host:crash()
        rn.sleep(3 * DAY)
        host:restart()
      end)
      world:run(6 * DAY)
    end)
    assert.same({ -- the night of the 16th, and three later ones, are made up for
      "0 /report 2023-11-14: 0 sales, 0.00 EUR", "4 /report 2023-11-15: 0 sales, 0.00 EUR",
      "4 /report 2023-11-16: 2 sales, 4.00 EUR", "4 /report 2023-11-17: 0 sales, 0.00 EUR",
      "4 /report 2023-11-18: 0 sales, 0.00 EUR", "5 /report 2023-11-19: 0 sales, 0.00 EUR",
    }, list)
  end)

  it("are shorter than 40 lines", function()
    for _, name in ipairs(RECIPES) do
      local n = 0
      for _ in io.lines("examples/recipes/" .. name .. ".lua") do n = n + 1 end
      assert.is_true(n < 40, name .. " " .. n)
    end
  end)
end)
