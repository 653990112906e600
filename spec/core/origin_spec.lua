local rn = require "runnel"
local stage = require "spec.support.stage"

-- Where the go blocks of the test wait, by their names.
local function entries()
  local list = {}
  for _, entry in ipairs(stage.entries()) do list[entry.name] = entry.where end
  return list
end

describe("a go block of the library", function()
  before_each(stage.open)
  after_each(stage.close)

  local from, to
  local starts = {
    pipe = function() rn.pipe(from, to) end,
    merge = function() to = rn.merge({ from }):name "to" end,
    into = function() to = rn.into({}, from):name "to" end,
    reduce = function() to = rn.reduce(print, 0, from):name "to" end,
    transduce = function() to = rn.transduce(rn.xf.dedupe(), print, 0, from):name "to" end,
    onto_chan = function() rn.onto_chan(to, { 1, 2, 3 }) end,
    to_chan = function() to = rn.to_chan({ 1, 2 }):name "to" end,
    map = function() to = rn.map(print, { from }):name "to" end,
    take = function() to = rn.take(3, from):name "to" end,
    mix = function() rn.mix(to):admix(from) end,
    pipeline = function() rn.pipeline(2, to, rn.xf.dedupe(), from) end,
    pipeline_async = function() rn.pipeline_async(2, to, print, from) end,
    pipeline_async_unordered = function() rn.pipeline_async_unordered(2, to, print, from) end,
  }
  for name, start in pairs(starts) do
    it(("of %s is called by the line of the program, and waits there"):format(name), stage.sim(function()
      from, to = rn.chan():name "from", rn.chan():name "to"
      local line = debug.getinfo(start, "S").linedefined
      start()
      rn.sleep(1)
      local here = "spec/core/origin_spec.lua:" .. line
      local found = entries()
      from, to = nil, nil
      assert.same({ [("%s at %s -> chan: to"):format(name, here)] = here }, found)
    end))
  end

  it("of mult, tap, pub and split is called by its line", stage.sim(function()
    local m = rn.mult(rn.chan())
    m:tap(rn.chan())
    local p = rn.pub(rn.chan(), type)
    p:sub("string", rn.chan())
    rn.split(print, rn.chan())
    rn.sleep(1)
    local names = {}
    for name in pairs(entries()) do names[#names + 1] = name end
    table.sort(names)
    local line = debug.getinfo(1, "l").currentline - 10
    local function at(what, offset) return ("%s at spec/core/origin_spec.lua:%d"):format(what, line + offset) end
    assert.same({ at("mult", 1), at("mult", 4), at("pub", 3), at("split", 5), at("tap", 2), at("tap", 4) }, names)
  end))

  it("that waits in a function of the program's waits at its line", stage.sim(function()
    local line = stage.here(1)
    rn.pipeline_async(1, rn.chan(), function() rn.chan():take() end, rn.to_chan { 1 })
    rn.sleep(1)
    local found
    for name, where in pairs(entries()) do
      if name:find("^pipeline_async at ") and where == line then found = true end
    end
    assert.is_true(found)
  end))

  it("started by a function that a job calls is called by that function's line", stage.sim(function()
    local line = stage.here(2)
    rn.pipeline_async(1, rn.chan(), function()
      rn.pipe(rn.chan(), rn.chan():name "inner")
    end, rn.to_chan { 1 })
    rn.sleep(1)
    assert.equal(line, entries()[("pipe at %s -> chan: inner"):format(line)])
  end))

  it("does not lend its name to a go block of the program's", stage.sim(function()
    local line = stage.here(2)
    rn.pipeline_async(1, rn.chan(), function()
      rn.go(function() rn.sleep(100) end)
    end, rn.to_chan { 1 })
    rn.sleep(1)
    assert.equal(line, entries()[line])
  end))

  it("is called so in a scope's go blocks, too: rn.scope waits at the line that calls it", stage.sim(function()
    local line = stage.here(2)
    rn.go(function()
      rn.scope(function(s) s:go(rn.sleep, 100) end)
    end)
    rn.sleep(1)
    local found
    for _, where in pairs(entries()) do found = found or where == line end
    assert.is_true(found)
  end))

  it("is called so when it dies", stage.sim(function()
    local line = stage.here(1)
    rn.reduce(function() error("bad", 0) end, 0, rn.to_chan { 1 })
    rn.sleep(1)
    assert.matches(("^reduce at %s %%-> chan: #%%d+$"):format(line), stage.heard()[1].name)
  end))
end)
