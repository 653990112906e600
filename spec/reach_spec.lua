-- What a script that is not trusted can get at, with the globals that docs/sandboxes.md gives it: no metatable, and no
-- table that the library uses itself.

local rn = require "runnel.all"
local sim = require "runnel.sim"

-- The globals are made as in the page.
local function environment()
  local file <close> = assert(io.open "docs/sandboxes.md")
  local program = {}
  for line in file:read("a"):match('\nluaL_dostring%(L, (.-)%);\n'):gmatch '"(.-)"\n?' do
    program[#program + 1] = line
  end
  return assert(load(table.concat(program)))()
end

-- Calls f with each value to which another one leads, and how.
local function each_part(value, f)
  if type(value) == "table" then
    for key, part in next, value do
      f(key, "a key")
      f(part, "." .. tostring(key))
    end
  end
  local meta = debug.getmetatable(value)
  local index = type(value) ~= "string" and meta and rawget(meta, "__index")
  while type(index) == "table" do
    for key, part in next, index do f(part, "." .. tostring(key)) end
    meta = debug.getmetatable(index)
    index = meta and rawget(meta, "__index")
  end
end

-- All that a script reaches from a value: the values, with the ways to them.
local function reach(value, way, found)
  if value == nil or found[value] then return found end
  found[value] = way
  each_part(value, function(part, step) reach(part, way .. step, found) end)
  return found
end

-- All tables of the modules of the library: those that its functions use, and metatables.
local function tables_of_library()
  local own, metatables, seen = {}, {}, {}
  local function visit(value, is_own)
    local kind = type(value)
    if kind ~= "table" and kind ~= "function" and kind ~= "userdata" or seen[value] then return end
    seen[value] = true
    local meta = debug.getmetatable(value)
    if meta then
      metatables[meta] = true
      visit(meta, is_own)
    end
    if kind == "table" then
      if is_own then own[value] = true end
      for key, part in next, value do
        visit(key, is_own)
        visit(part, is_own)
      end
    elseif kind == "function" then
      local i = 1
      local name, part = debug.getupvalue(value, 1)
      while name do
        if name ~= "_ENV" then visit(part, is_own) end
        i = i + 1
        name, part = debug.getupvalue(value, i)
      end
    elseif kind == "userdata" then
      local i = 1
      local part, is_there = debug.getuservalue(value, 1)
      while is_there do
        visit(part, is_own)
        i = i + 1
        part, is_there = debug.getuservalue(value, i)
      end
    end
  end
  seen[_G] = true
  for name, module in pairs(package.loaded) do
    if name:find "^runnel" then visit(module, true) end
  end
  return own, metatables, visit
end

describe("a script that is not trusted", function()
  -- What it gets from functions of rn and their methods.
  local function objects()
    local list = {}
    local function add(...)
      for _, value in pairs { ... } do list[#list + 1] = value end
    end
    local ch = rn.chan(2)
    ch:put(1)
    add(ch, ch:stats(), rn.chan(rn.sliding_buffer(1)), rn.buffer(1), rn.promise_chan(), rn.timeout(1))
    add(rn.shared_chan(1))
    add(rn.priority_buffer(2), rn.chan(rn.priority_buffer(2)), rn.reduced(1), rn.xf.map(tostring))
    add(rn.mult(rn.chan()), rn.pub(rn.chan(), tostring), rn.mix(rn.chan()), rn.latest(rn.chan(), 1))
    local m, p = rn.mult(rn.chan()), rn.pub(rn.chan(), tostring)
    add(m, rn.tap(m, rn.chan()), p, rn.sub(p, "a", rn.chan()))
    local x = rn.mix(rn.chan())
    add(x, rn.admix(x, rn.chan()))
    add(rn.after(1, print), rn.timers(), rn.ps(), rn.leaks(), rn.metrics(true), rn.graph(true))
    add(rn.counter("reach_spec_total", "for a spec"), rn.gauge("reach_spec_gauge", "for a spec"))
    add(rn.histogram("reach_spec_histogram", "for a spec", { buckets = { 1 } }))
    add(rn.pmap(1, tostring, { 1 }), rn.split(tostring, rn.chan()))
    rn.scope(function(s) add(s, s:after(1, print), s:go(rn.yield)) end)
    return list
  end

  -- The errors that it gets.
  local function errors()
    local list = {}
    local function add(f, ...)
      local _, err = pcall(f, ...)
      list[#list + 1] = err
    end
    add(rn.scope, function() rn.sleep(10) end, { timeout = 1 })
    add(rn.scope, function(s)
      list[#list + 1] = s
      s:go(function()
        local _ <close> = setmetatable({}, { __close = function() error("another", 0) end })
        rn.sleep(10)
      end)
      rn.yield()
      s:go(error, "one")
      rn.sleep(10)
    end)
    add(rn.supervise, { { "a", function() error {} end } }, { restarts = 0, ex_handler = function() end })
    add(rn.supervise, { { "a", print, again = "other" } })
    list[#list + 1] = select(2, rn.pmap(1, function() rn.sleep(10) end, { 1 }, { timeout = 1 }):list())
    add(rn.retry, function() rn.sleep(10) end, { timeout = 1, tries = 1 })
    list[#list + 1] = select(2, rn.go(error, {}):take())
    add(function() rn.chan():take() end)
    return list
  end

  it("gets at no metatable, and at no table of the library", function()
    local own, metatables, visit = tables_of_library()
    local found
    sim.run(function()
      found = reach(environment(), "env", {})
      for _, make in ipairs { objects, errors } do
        local ok, list = pcall(make)
        assert(ok, list)
        for i, value in ipairs(list) do reach(value, ("object %d"):format(i), found) end
      end
      for value in pairs(found) do visit(value, false) end
      for value, way in pairs(found) do
        assert.is_nil(metatables[value], "a metatable: " .. way)
        assert.is_nil(own[value], "a table of the library: " .. way)
      end
    end)
  end)
end)
