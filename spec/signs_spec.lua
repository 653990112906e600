-- Each method of the manual, called with a dot, and each function of a module, called with a colon, raises an error at
-- the caller's line that names it and says how to call it.

local calls = require "spec.support.parking.calls"
local objects = require "spec.support.signs.objects"
local rn = require "runnel"
local sim = require "runnel.sim"

local has_tls = pcall(require, "runnel.tls")
local HAS = {
  luv = pcall(require, "luv"), sqlite = pcall(require, "runnel.sqlite.core"), tls = has_tls,
  nats = pcall(require, "runnel.nats.core"), http = pcall(require, "runnel.http.curl"),
}

local MODULES = {
  rn = { "runnel" }, flow = { "runnel.flow" }, http = { "runnel.http", "http" }, json = { "runnel.json" },
  monitor = { "runnel.monitor", "luv" }, nats = { "runnel.nats", "nats" },
  otlp = { "runnel.otlp", "http" }, sim = { "runnel.sim" },
  sqlite = { "runnel.sqlite", "sqlite" }, stores = { "runnel.store", "sqlite" }, tls = { "runnel.tls", "tls" },
  uv = { "runnel.uv", "luv" }, xf = { "runnel.xf" },
}

-- A driver is an object of the program: nothing of runnel checks how its methods are called.
local OF_THE_PROGRAM = "d"

-- Functions of which one argument may be the module itself.
local ANY = { is_chan = true, is_reduced = true, reduced = true, put = true, offer = true }

-- Errors that a call raises are at this line.
local function call(f, ...) local _ = f(...) end
local HERE = ("%s:%d: "):format(debug.getinfo(call, "S").short_src, debug.getinfo(call, "S").linedefined)

-- Arguments that programs pass.
local ARGUMENTS = {
  { n = 0 }, { "text", n = 1 }, { {}, n = 1 }, { print, n = 1 }, { 5, 5, n = 2 }, { 5, print, n = 2 },
  { "a", "b", n = 2 },
}

-- The rows of the manual with a sign, by page and object: { ["io p"] = { "close", ... } }.
local function rows(sign)
  local found = {}
  for row in pairs(calls.of_manual()) do
    local object, its_sign, name = row:match "^(%S+ %w+)([.:])([%w_]+)$"
    if its_sign == sign then
      found[object] = found[object] or {}
      table.insert(found[object], name)
    end
  end
  for _, names in pairs(found) do table.sort(names) end
  return found
end

-- Calls f with all arguments, after `first`. Adds the calls that do not say what is right.
local function try(found, name, right, f, ...)
  local firsts = table.pack(...)
  for i, arguments in ipairs(ARGUMENTS) do
    if not (firsts.n == 1 and i == 1 and ANY[name:match "[%w_]+$"]) then
      local all = table.move(arguments, 1, arguments.n, firsts.n + 1, table.move(firsts, 1, firsts.n, 1, {}))
      local ok, err = pcall(call, f, table.unpack(all, 1, firsts.n + arguments.n))
      local text = tostring(err)
      if ok or text:sub(1, #HERE) ~= HERE or not text:find(right, 1, true) then
        found[#found + 1] = ("%s, arguments %d: %s"):format(name, i, ok and "no error" or text)
      end
    end
  end
end

-- Calls f on a host of a world, with a server of NATS and a program.
local function in_world(f)
  sim.run(function()
    local world, is_over, problem = sim.world(), false, nil
    world:program("true", function() end)
    if HAS.nats then world:nats "nats" end
    world:host("host", function()
      local ok, err = pcall(f)
      is_over, problem = true, not ok and err
    end)
    for _ = 1, 1000 do
      if is_over then break end
      world:run(1000)
    end
    assert(is_over, "it waits for ever")
    if problem then error(problem, 0) end
  end)
end

-- Whether an object can be opened here.
local function is_there(one)
  for _, name in ipairs(one.needs) do
    if not HAS[name] then return false end
  end
  return true
end

-- The methods of the manual, by the names of their objects: { conn = { read = true, ... } }. Some are in its text only.
local function methods()
  local found = { jar = { add = true, all = true }, m = { respond = true }, s = { cancel = true, go = true,
    thread = true } }
  for object, names in pairs(rows ":") do
    local short = object:match "%w+$"
    found[short] = found[short] or {}
    for _, name in ipairs(names) do found[short][name] = true end
  end
  return found
end

describe("called with a dot, a method", function()
  for short, names in pairs(methods()) do
    local title = "of the manual names itself and the right form: " .. short
    if short == OF_THE_PROGRAM then goto continue end
    it(title, function()
      local found, seen, is_whole = {}, {}, true
      local function look(object)
        for name in pairs(names) do
          local method = object[name]
          if type(method) == "function" then
            seen[name] = true
            try(found, ("%s.%s"):format(short, name), ("%s:%s("):format(short, name), method)
          end
        end
      end
      for _, one in ipairs(assert(objects[short], "say in spec/support/signs/objects.lua how to open one")) do
        if not is_there(one) then is_whole = false
        elseif short == "pool" then one.open(look)
        elseif short == "world" or short == "host" then sim.run(one.open, nil, look)
        else in_world(function() one.open(look) end) end
      end
      assert.same({}, found)
      for name in pairs(names) do
        assert.is_true(seen[name] or not is_whole, name .. ": no object of the specs has this method")
      end
    end)
    ::continue::
  end

  it("says so too if it is called on something that only looks like its object", function()
    local f = require "runnel.flow"("name", { a = { from = {} } })
    local ok, err = pcall(function() setmetatable({}, { __index = f }):pause() end)
    assert.is_false(ok)
    assert.matches(":%d+: f:pause%(%.%.%.%): called on a table that only looks like what has this method$", err)
  end)
end)

describe("called with a colon, a function", function()
  local functions = {}
  for object, names in pairs(rows ".") do
    local short = object:match "%w+$"
    for _, name in ipairs(names) do
      if MODULES[short] then
        functions[short] = functions[short] or {}
        functions[short][name] = true
      end
    end
  end
  for short, names in pairs(functions) do
    local path, need = table.unpack(MODULES[short])
    local title = "of the manual names itself and the right form: " .. short
    if need and not HAS[need] then
      pending(title .. ": " .. need .. " is not installed")
    else
      it(title, function()
        local module, found, count = require(path), {}, 0
        for name in pairs(names) do
          -- A part of runnel.http that needs luv is loaded when its function is first read.
          local is_loaded, f = pcall(function() return module[name] end)
          assert.is_true(is_loaded or not HAS.luv, f)
          if is_loaded and type(f) == "function" then
            count = count + 1
            try(found, short .. "." .. name, ("call it with a dot: %s.%s("):format(short, name), f, module)
          end
        end
        assert.is_true(count > 0)
        assert.same({}, found)
      end)
    end
  end

  it("says so in a simulation, too, which replaces some of them", function()
    in_world(function()
      local found = {}
      for _, name in ipairs { "on_error", "exit", "go", "sleep" } do
        try(found, "rn." .. name, ("call it with a dot: rn.%s("):format(name), rn[name], rn)
      end
      assert.same({}, found)
    end)
  end)
end)
