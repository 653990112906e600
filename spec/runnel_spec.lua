-- The module itself, whose parts are loaded when they are first used, and `runnel.all`, which loads them at once.
local rn = require "runnel"
local stage = require "spec.support.stage"

-- The modules of lua/runnel/: those that a program requires itself, and meta.lua, which nothing loads.
local REQUIRED = {
  all = true, core_async = true, csv = true, flow = true, http = true, json = true, lite = true, meta = true,
  monitor = true, nats = true, otlp = true, prompt = true, sim = true, sqlite = true, store = true, tls = true,
  uv = true, xf = true,
}

-- What modules of lua/runnel/rn/ have for each other.
local FOR_OTHERS = { ["timed_out.new"] = true, ["pmap.start"] = true, ["pmap.UNORDERED_OPTIONS"] = true,
  ["retry.call"] = true }

-- The names of the modules in a folder.
local function modules_in(folder)
  local list <close> = assert(io.popen("ls " .. folder .. "/*.lua"))
  local names = {}
  for path in list:lines() do names[#names + 1] = path:match "([^/]+)%.lua$" end
  assert.is_true(#names > 0)
  return names
end

-- Functions for the scripts below: after `take_away_files()` nothing can be required or read. `watched(rn)` is rn, and
-- `unused()` lists the names that nobody has read from it.
local WITHOUT_FILES = [[
  local function take_away_files()
    package.path, package.cpath = "", ""
    for i = #package.searchers, 1, -1 do package.searchers[i] = nil end
    loadfile, dofile, io.open = nil, nil, nil
  end
  local names, seen = {}, {}
  local function watched(module)
    for name in next, module do names[name] = true end
    return setmetatable({}, { __index = function(_, name)
      seen[name] = true
      return module[name]
    end })
  end
  local function unused()
    local list = {}
    for name in pairs(names) do
      if not seen[name] then list[#list + 1] = name end
    end
    table.sort(list)
    return table.concat(list, " ")
  end
]]

describe("runnel", function()
  it("loads what few programs need when it is first used", function()
    local output, status = stage.script [[
      local rn = require "runnel"
      local function loaded()
        local list = {}
        for name in pairs(package.loaded) do
          local part = name:match "^runnel%.rn%.(.*)" or name:match "^runnel%.(.*)"
          if part == "mix" or part == "scope" or part == "xf" then list[#list + 1] = part end
        end
        table.sort(list)
        return table.concat(list, " ")
      end
      print("at first: " .. loaded())
      assert(rn.nothing == nil)
      assert(rn.xf.map == require "runnel.xf".map)
      print("used: " .. loaded())
      local names = {}
      for name, value in pairs(rn) do
        assert(type(value) == "function" or name == "xf", name)
        names[name] = true
      end
      assert(names.scope and names.mix and names.chan and names.pipeline and names.exit and not names.runnel)
      print("listed: " .. loaded())
    ]]
    assert.equal("at first: \nused: xf\nlisted: mix scope xf\n", output)
    assert.equal(0, status)
  end)

  it("says at the caller's line which module to require when it cannot load what is used late", function()
    local output = stage.script [[
      local rn = require "runnel"
      local path = package.path
      package.path = ""
      print(pcall(function()
        rn.mult(rn.chan())
      end))
      package.path = path
      print(rn.mult(rn.chan()) ~= nil)
    ]]
    assert.matches('^false\t[^\n]+:5: rn%.mult cannot be loaded now; require "runnel%.all" at the beginning loads '
      .. "everything: module 'runnel%.rn%.mult' not found", output)
    assert.matches("\ntrue\n$", output)
  end)

  it("has the functions of every module of lua/runnel/rn/", function()
    for _, name in ipairs(modules_in "lua/runnel/rn") do
      local any = false
      for key, value in pairs(require("runnel.rn." .. name)) do
        any = any or value == rn[key]
        if not FOR_OTHERS[name .. "." .. key] then assert.equal(value, rn[key], name .. "." .. key) end
      end
      assert.is_true(any, name .. " has no function of rn, so it belongs into lua/runnel/internal/")
    end
    assert.equal(require "runnel.xf", rn.xf)
  end)

  it("has beside it in lua/runnel/ only modules that programs require themselves", function()
    for _, name in ipairs(modules_in "lua/runnel") do
      assert.is_true(REQUIRED[name], name .. " belongs into lua/runnel/rn/, internal/, or the folder of its subject")
    end
  end)

  it("need not be required for channels to have all their methods", function()
    local names = {}
    for name in pairs(require("runnel.core").methods) do names[#names + 1] = name end
    table.sort(names)
    local all = table.concat(names, " ")
    for name in pairs(REQUIRED) do
      local output = stage.script(([[
        if not pcall(require, "runnel.%s") then return end -- what it needs is not installed
        local core, names = require "runnel.core", {}
        for name in pairs(core.methods) do names[#names + 1] = name end
        table.sort(names)
        io.write(table.concat(names, " "))
      ]]):format(name))
      local has_none = name == "meta" or name == "lite" or output == ""
      assert.is_true(has_none or output == all, name)
    end
  end)

  it("can be added to", function()
    local before = rn.mult
    rn.mult = print
    assert.equal(print, rn.mult)
    rn.mult = before
    rn.of_our_own = 1
    assert.equal(1, rn.of_our_own)
    rn.of_our_own = nil
    assert.is_nil(rn.of_our_own)
  end)
end)

describe("runnel.all", function()
  it("is runnel", function() assert.equal(rn, require "runnel.all") end)

  it("reads no file when any of its functions is used for the first time", function()
    local output, status = stage.script(WITHOUT_FILES .. [[
      local all = require "runnel.all"
      take_away_files()
      local rn = watched(all)
      local function list(ch) return table.concat(rn.into({}, ch):take(), " ") end
      local function numbers(n)
        local ns = {}
        for i = 1, n do ns[i] = i end
        return rn.to_chan(ns)
      end

      -- channels, go blocks, time
      assert(rn.is_chan(rn.chan(rn.buffer(1))) and rn.unblocking_buffer(rn.dropping_buffer(1)))
      assert(rn.promise_chan():offer(1) and rn.chan(rn.sliding_buffer(1)):offer(1) and rn.now() >= 0)
      assert(rn.timeout(1):take() == nil and rn.each_line "x"() == "x" and not rn.is_reduced(rn.reduced(1)[1]))
      assert(rn.alts({ rn.chan() }, { default = 1 }) == 1 and rn.alt { default = function() return 2 end } == 2)
      rn.go(function() rn.rename "named" rn.sleep(1) rn.yield() end)
      assert(#rn.ps() > 0 and rn.run(math.max, 1, 2) == 2 and (rn.step() or true))
      local timer <close> = rn.after(1e6, print)
      assert(#rn.timers() == 1 and timer:restart(1e6) and timer:stop())
      rn.on_error(rn.on_error())
      rn.driver(rn.driver())
      local parked = rn.go(rn.sleep, 1e6)
      rn.yield()
      assert(rn.cancel(parked) and parked:take() == nil)

      -- between channels
      print("pipe", list(rn.pipe(numbers(3), rn.chan())))
      print("merge", list(rn.merge { numbers(1), rn.to_chan { 1 } }))
      print("map", list(rn.map(math.max, { numbers(2), numbers(3) })))
      print("take", list(rn.take(2, numbers(3))))
      local odd, even = rn.split(function(n) return n % 2 == 1 end, numbers(3), 3, 3)
      print("split", list(odd), list(even))
      print("batch", #list(rn.map(table.concat, { rn.batch(numbers(3), 2) })))
      print("rate", list(rn.rate(numbers(2), 2, 1)))
      print("debounce", list(rn.debounce(numbers(2), 1)))
      print("retry", rn.retry(math.max, { timeout = 1e6 }, 1, 2))
      print("multiplex", list(rn.multiplex(numbers(2))))
      local target = rn.chan(2)
      local broadcast = rn.broadcast(target)
      rn.onto_chan(broadcast, { 1, 2 })
      print("broadcast", list(target))
      print("reduce", rn.reduce(math.max, 0, numbers(3)):take())
      local function sum(a, b) return a + (b or 0) end
      print("transduce", rn.transduce(rn.xf.map(math.abs), sum, 0, numbers(3)):take())

      -- pipelines
      print("pmap", list(rn.pmap(2, math.abs, numbers(3))))
      print("pmap_unordered", #rn.into({}, rn.pmap_unordered(2, math.abs, numbers(3))):take())
      print("frontier", #rn.into({}, rn.frontier(2, math.abs, { 1, 2, 3 })):take())
      for _, name in ipairs { "pipeline", "pipeline_blocking" } do
        print(name, list(rn[name](2, rn.chan(), rn.xf.map(math.abs), numbers(3))))
      end
      local function double(n, result)
        result:put_async(2 * n)
        result:close()
      end
      for _, name in ipairs { "pipeline_async", "pipeline_async_unordered" } do
        print(name, #rn.into({}, rn[name](2, rn.chan(), double, numbers(3))):take())
      end

      -- mults, mixes, pubs
      local source, tapped = rn.chan(), rn.chan(3)
      local m = rn.mult(source)
      rn.tap(m, tapped)
      rn.tap(m, rn.chan())
      rn.untap_all(m)
      rn.tap(m, tapped)
      rn.tap(m, target)
      rn.untap(m, target)
      rn.onto_chan(source, { 1, 2 })
      print("mult", list(tapped))
      local out, first, second = rn.chan(1), rn.chan(), rn.chan()
      local mix = rn.mix(out)
      rn.admix(mix, first)
      rn.unmix(mix, first)
      rn.admix(mix, first)
      rn.unmix_all(mix)
      rn.admix(mix, second)
      rn.toggle(mix, { [second] = { solo = true } })
      rn.solo_mode(mix, "pause")
      second:put(1)
      print("mix", out:take())
      local events, odds = rn.chan(), rn.chan(3)
      local p = rn.pub(events, function(n) return n % 2 end)
      rn.sub(p, 0, target)
      rn.unsub(p, 0, target)
      rn.sub(p, 0, rn.chan())
      rn.unsub_all(p)
      rn.sub(p, 1, odds)
      rn.onto_chan(events, { 1, 2, 3 })
      print("pub", list(odds))

      -- between threads
      local shared = rn.shared_chan(1)
      shared:put(1)
      print("shared_chan", shared:take())
      local _, _, _ = rn.thread, rn.threads, rn.cores -- whose states read their own files

      -- scopes, buffers, transducers
      local ok, err = pcall(rn.scope, function() rn.sleep(1e6) end, { timeout = 1 })
      print("scope", ok, rn.is_timeout(err))
      local throttled, sampled = rn.throttle(numbers(1), 1), rn.sample(numbers(1), 1)
      print("newest", throttled:take(), sampled:take(), rn.latest(numbers(1), 7):get())
      rn.supervise { { "a", function() print("shield", rn.shield(function() return 1 end)) end, again = "never" } }
      local least = rn.chan(rn.priority_buffer(2))
      least:put(2)
      least:put(1)
      print("priority_buffer", least:take())
      local parts = rn.chan(2, rn.xf.partition_all(2))
      print("xf", #rn.into({}, rn.pipe(numbers(3), parts)):take())

      assert(rn.shared_chan(1):offer(1))
      local _ = { rn.exit, rn.thread, rn.threads, rn.cores, -- a thread loads the library in its own state
        rn.file } -- which reads files
      print("graph", #rn.graph():text() > 0, rn.graph(false), rn.trace(false))
      rn.counter("counter_total", "A counter."):add()
      rn.gauge("gauge", "A gauge."):set(1)
      rn.histogram("histogram", "A histogram."):observe(1)
      assert(#rn.metrics():text() > 0 and rn.traceparent() == nil)
      print("profile", rn.profile(function() end).first ~= nil, #rn.leaks() >= 0)
      print("unused: " .. unused())
      rn.exit(3)
    ]])
    assert.equal(table.concat({
      "pipe\t1 2 3", "merge\t1 1", "map\t1 2", "take\t1 2", "split\t1 3\t2", "batch\t4", "rate\t1 2",
      "debounce\t2", "retry\t2", "multiplex\t1 2", "broadcast\t1 2",
      "reduce\t3", "transduce\t6", "pmap\t1 2 3", "pmap_unordered\t3", "frontier\t3", "pipeline\t1 2 3",
      "pipeline_blocking\t1 2 3",
      "pipeline_async\t3", "pipeline_async_unordered\t3", "mult\t1 2", "mix\t1", "pub\t1 3", "shared_chan\t1",
      "scope\tfalse\ttrue", "newest\t1\t1\t7", "shield\t1",
      "priority_buffer\t1", "xf\t2", "graph\ttrue\tnil\tnil", "profile\ttrue\ttrue", "unused: ",
    }, "\n") .. "\n", output)
    assert.equal(3, status)
  end)

  it("is not needed with runnel.core_async and runnel.sim, which load all they use when they are required", function()
    local output = stage.script(WITHOUT_FILES .. [[
      local sim, a = require "runnel.sim", require "runnel.core_async"
      take_away_files()
      sim.each_seed(2, function() end)
      local values = table.pack(sim.run(function()
        local into = a["into"]
        local numbers = a["to-chan!"] { 1, 2, 3 }
        local doubled = a["map"](function(n) return 2 * n end, { numbers })
        local source = a["chan"]()
        local p, odd = a["pub"](source, function(n) return n % 2 end), a["chan"](5)
        a["sub"](p, 1, odd)
        a["onto-chan!"](source, { 1, 2, 3 })
        local mixed, input = a["chan"](1), a["chan"]()
        a["admix"](a["mix"](mixed), input)
        a[">!"](input, "mixed")
        return #a["<!"](into({}, doubled)), #a["<!"](into({}, odd)), a["<!"](mixed), a["<!"](a["take"](1, a["merge"] {
          a["to-chan!"] { "merged" },
        }))
      end))
      print(sim.elapsed(), table.unpack(values))
    ]])
    assert.equal("0\t3\t2\tmixed\tmerged\n", output)
  end)
end)
