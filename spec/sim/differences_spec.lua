-- The table in docs/testing.md of what differs between a world and reality, and the programs of check-world: no
-- function is forgotten.

local calls = require "spec.support.parking.calls"
local keepers = require "spec.support.parking.keepers"
local pages = require "spec.support.docs.pages"
local parks = require "spec.support.parking.parks"
local rn = require "runnel"
local sim = require "runnel.sim"
local without = require "spec.support.parking.never"

-- Functions that park and that no program of check-world has, and why.
local ELSEWHERE = {
  ["conn:start_tls"] = "TLS is that of runnel.tls in both: spec/sim/parking_spec.lua",
  ["conn:serve"] = "on a keeper: spec/queue compares stores, NATS and the simulated NATS by the same scripts",
  ["conn:remote"] = "the same", ["conn:queues"] = "the same", ["conn:queue"] = "the same",
  ["store:serve"] = "the same", ["store:remote"] = "the same", ["store:queues"] = "the same",
    ["store:queue"] = "the same",
  ["worker:drain"] = "the same", ["worker:wait"] = "the same", ["stage:wait"] = "the same",
  ["dead:list"] = "the same", ["dead:get"] = "the same", ["dead:drop"] = "the same", ["dead:replay"] = "the same",
  ["queue:pause"] = "the same", ["queue:resume"] = "the same", ["queue:change"] = "the same",
    ["queue:delete"] = "the same", ["queue:list"] = "the same", ["queue:cancel"] = "the same",
    ["queue:move"] = "the same",
  ["stream:change"] = "the same", ["stream:delete_consumer"] = "the same", ["stream:delete"] = "the same",
  ["stream:cancel"] = "the same", ["stream:replace"] = "the same", ["bucket:destroy"] = "the same",
  ["reader:line"] = "it cuts up the chunks of conn:read: spec/uv/reader_spec.lua", ["reader:read_until"] = "the same",
  ["req:form"] = "it reads the pieces of req:body: spec/http/forms_spec.lua", ["part:read"] = "the same",
    ["part:save"] = "the same",
  ["http.download"] = "it is http.stream and uv.write: spec/http/download_spec.lua",
  ["exporter:drain"] = "it is http.request in the background: spec/otlp_spec.lua",
  ["store:forget"] = "it is a statement of SQLite, as store:once",
  ["store:drain"] = "it is store:close after the stages have ended",
  ["db:rows"] = "as db:one", ["tx:rows"] = "as tx:one",
}
for of, names in pairs {
  r = "steps forget restart cancel signal result state", runs = "start get list drain wait",
  store = "runs schedule schedules", schedule = "state pause resume run_now remove",
  run = "sleep wait now random id version note",
} do
  for name in names:gmatch "%S+" do
    ELSEWHERE[of .. ":" .. name] = "runs are statements of SQLite, as store:once, and waits of core"
  end
end

-- The text of all programs of check-world.
local function programs_text()
  local parts = {}
  for _, name in ipairs { "sockets", "files", "watch", "sqlite", "processes", "timers", "http", "websocket",
    "udp", "keepers", "nats" } do
    parts[#parts + 1] = pages.read("tests/world/notions/" .. name .. ".lua")
  end
  return table.concat(parts, "\n")
end

-- The functions in the first column of the table.
local function table_names()
  local section = pages.read "docs/testing.md":match "## What differs between a world and reality\n(.-)\n## "
  local names = {}
  for head in section:gmatch "\n| (`[^|]*) |" do
    for name in head:gmatch "`([%a.:_]+)`" do names[name] = true end
  end
  return names
end

-- The names of the manual without the page.
local function manual_names()
  local names = {}
  for name in pairs(calls.of_manual()) do names[name:match "%S+$"] = true end
  return names
end

describe("the table of what differs between a world and reality", function()

  it("has each function that a simulation refuses", function()
    local listed = table_names()
    for name in pairs(without.not_there) do
      assert.is_true(listed[name:match "%S+$"], name .. ": say in docs/testing.md what differs, and why")
    end
  end)

  it("has only functions of the manual", function()
    local known, n = manual_names(), 0
    for name in pairs(table_names()) do
      assert.is_true(known[name], name)
      n = n + 1
    end
    assert.is_true(n > 15)
  end)

  it("says of equal deadlines what a search finds", function()
    local function outcomes(opts)
      local seen = {}
      assert.is_true(sim.explore(function()
        local slept = rn.chan(1)
        local sleeper = rn.go(function()
          rn.sleep(10)
          slept:put "slept"
        end)
        rn.yield()
        seen[rn.alts { slept, rn.timeout(10) } or "timeout"] = true
        sleeper:take()
      end, opts).all)
      return seen
    end
    assert.same({ timeout = true }, outcomes())
    assert.same({ slept = true, timeout = true }, outcomes { timers = "any" })
  end)
end)

describe("each function of the manual", function()

  it("that waits for the system is in a program of check-world, or has a reason", function()
    local text, known = programs_text(), manual_names()
    local lists = { parks.io, parks.sqlite, parks.http, parks.tls, keepers.both, keepers.stores, keepers.nats }
    for _, list in ipairs(lists) do
      for full in pairs(list) do
        local name = full:match "%S+$"
        local word = name:match "[%a_]+$"
        local is_used = text:find("[.:]" .. word .. "%f[^%w_]") ~= nil
        assert.is_true(is_used or ELSEWHERE[name] ~= nil,
          name .. ": let a program of tests/world/notions use it, or say in this spec why not")
      end
    end
    for name in pairs(ELSEWHERE) do assert.is_true(known[name], name .. " is not in the manual") end
  end)
end)
