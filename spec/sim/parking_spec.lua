-- A world may do more than reality, never less: what parks in reality parks in a simulation. Otherwise a search proves
-- programs right that are wrong, since it never lets another go block run there.

local calls = require "spec.support.parking.calls"
local keepers = require "spec.support.parking.keepers"
local missing = require "spec.support.missing"
local parks = require "spec.support.parking.parks"
local rn = require "runnel"
local http_stage = require "spec.support.http.http_stage"
local settings = require "spec.support.parking.settings"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"
local without = require "spec.support.parking.never"

local has_luv = pcall(require, "luv")

-- The lists of calls, and whether they can run in a simulation without a world, in a world, and in reality. `needs`:
-- modules.
local LISTS = {
  { "core", parks.core, true, true, true },
  { "alone", parks.alone, true, false, false },
  { "sqlite", parks.sqlite, true, has_luv, true, needs = "runnel.sqlite.core" },
  { "stores", keepers.stores, true, has_luv, true, needs = "runnel.sqlite.core" },
  { "both", keepers.both, true, has_luv, true, needs = "runnel.sqlite.core", keeper = "stores" },
  { "both", keepers.both, false, true, false, needs = "runnel.nats.core", keeper = "nats" },
  { "nats", keepers.nats, false, true, false, needs = "runnel.nats.core" },
  { "io", parks.io, false, true, true, needs = "luv" },
  { "http", parks.http, false, true, true, needs = "luv runnel.http.curl" },
}

local NAMES = { simulation = "a simulation", world = "a simulated world", reality = "reality, as it is said" }

local function sorted(list)
  local names = {}
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- Runs f between the open and the close of a stage.
local function on(its_stage, f)
  return function()
    its_stage.open()
    local ok, err = pcall(f)
    its_stage.close()
    if not ok then error(err, 0) end
  end
end

-- Those of the list that do not park, each with its error if it has failed.
local function do_not_park(where, of)
  local found = {}
  for _, name in ipairs(sorted(of[2])) do
    local ok, result = pcall(settings[where], of[1], of[2][name], of.keeper)
    if not ok then found[#found + 1] = name .. ": " .. tostring(result)
    elseif not result then found[#found + 1] = name end
  end
  return found
end

describe("each function of the manual", function()

  it("is known to park, or never to park, or not to run in a simulation", function()
    local known = {}
    local function add(name)
      assert.is_nil(known[name], name .. " is there twice")
      known[name] = true
    end
    for _, lists in ipairs { parks, keepers } do
      for _, list in pairs(lists) do
        for name in pairs(list) do add(name) end
      end
    end
    for page, names in pairs(without.never) do
      for name in names:gmatch "%S+" do add(page .. " " .. name) end
    end
    for name in pairs(without.not_there) do add(name) end
    local listed = calls.of_manual()
    for name in pairs(listed) do
      assert.is_true(known[name], ("%s: say in spec/support/parking whether it parks"):format(name))
    end
    for name in pairs(known) do assert.is_true(listed[name], name .. " is not in the manual") end
  end)

  for _, of in ipairs(LISTS) do
    local name = of[1] .. (of.keeper and " on " .. of.keeper or "")
    local its_stage = of[1] == "io" and uv_stage or of[1] == "http" and http_stage or stage
    local reason = missing(of.needs or "")
    if reason then
      pending(("that parks parks in a simulation: %s: %s"):format(name, reason))
    else
      for i, where in ipairs { "simulation", "world", "reality" } do
        if of[2 + i] then
          it(("that parks parks in %s: %s #ci"):format(NAMES[where], name), on(its_stage, function()
            assert.same({}, do_not_park(where, of))
          end))
        end
      end
    end
  end

  it("that is said not to run in a simulation raises an error there", function()
    for name, f in pairs {
      ["threads rn.thread"] = function() rn.thread("os.time"):take() end,
      ["threads rn.threads"] = function() rn.threads(1, "os.time")() end,
      ["time sim.run"] = function() sim.run(function() end) end,
      ["time sim.each_seed"] = function() sim.each_seed(1, function() end) end,
      ["time sim.explore"] = function() sim.explore(function() end) end,
      ["go-blocks rn.run"] = function() rn.run() end, ["go-blocks rn.step"] = function() rn.step() end,
    } do
      assert.is_string(without.not_there[name])
      local ok = pcall(sim.run, f)
      assert.is_false(ok, name)
    end
  end)
end)

describe("with TLS, each function of the manual", function()
  if not has_luv then return pending "luv is not installed" end
  if not pcall(require, "runnel.tls") then return pending "runnel.tls is not built" end
  local certificates = require "spec.support.tls"
  if not certificates.has "openssl" then return pending "openssl is not installed" end
  local tls = require "runnel.tls"
  local folder

  setup(function()
    folder = certificates.folder()
    local cert, key = certificates.certify(folder, "both", { names = "DNS:localhost,IP:127.0.0.1" })
    settings.server = assert(tls.server { cert = cert, key = key })
    settings.client = assert(tls.client { ca = folder.path .. "/ca" })
  end)
  teardown(function() folder:remove() end)

  for _, where in ipairs { "world", "reality" } do
    it("that parks parks in " .. NAMES[where], on(uv_stage, function()
      assert.same({}, do_not_park(where, { "tls", parks.tls }))
    end))
  end
end)
