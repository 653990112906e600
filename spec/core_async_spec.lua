local rn = require "runnel"
local a = require "runnel.core_async"
local stage = require "spec.support.stage"

local within = stage.within

local function list(ch) return a["<!"](a.into({}, ch)) end

-- A transducer that multiplies.
local function times(n)
  return function(rf)
    return function(acc, v)
      if v == nil then return rf(acc) end
      return rf(acc, n * v)
    end
  end
end

describe("runnel.core_async", function()
  it("has every name that the port exports", function()
    for name in ([[
      buffer dropping-buffer sliding-buffer promise-buffer unblocking-buffer? chan promise-chan take! <!! <! timeout
      put! >!! >! close! go alts! offer! poll! pipe pipeline-async pipeline reduce reduced reduced? transduce split
      onto-chan! to-chan! mult tap untap untap-all mix admix unmix unmix-all toggle solo-mode pub sub unsub unsub-all
      map merge into take
    ]]):gmatch "%S+" do
      assert.are.equal("function", type(a[name]), name)
    end
    for _, name in ipairs { "FixedBuffer", "SlidingBuffer", "DroppingBuffer", "PromiseBuffer" } do
      assert.are.equal("table", type(a.buffers[name]), name)
    end
  end)

  it("has the names of core.async that the port lacks", function()
    for name in ([[
      alts!! alt! alt!! closed? onto-chan!! to-chan!! pipeline-blocking pipeline-async-unordered multiplex broadcast
    ]]):gmatch "%S+" do
      assert.are.equal("function", type(a[name]), name)
    end
  end)

  describe("channels", function()
    it("are put on and taken from", within(function()
      local ch = a.chan()
      a.go(function()
        assert.is_true(a[">!"](ch, 1))
        a["close!"](ch)
      end)
      assert.are.equal(1, a["<!"](ch))
      assert.is_nil(a["<!"](ch))
      assert.is_true(a["closed?"](ch))
      assert.is_false(a[">!!"](ch, 2))
    end))

    it("are asked without waiting", within(function()
      local ch = a.chan(1)
      assert.is_nil(a["poll!"](ch))
      assert.is_true(a["offer!"](ch, 1))
      assert.is_nil(a["offer!"](ch, 2))
      assert.are.equal(1, a["poll!"](ch))
    end))

    it("call back", within(function()
      local ch, taken, done = a.chan(), nil, nil
      assert.is_nil(a["take!"](ch, function(v) taken = v end))
      assert.is_true(a["put!"](ch, "x", function(ok) done = ok end))
      stage.settle()
      assert.are.same({ "x", true }, { taken, done })
      assert.is_true(a["put!"](ch, "y"))
      a["close!"](ch)
      assert.is_false(a["put!"](ch, "z"))
      assert.are.equal("y", a["<!"](ch))
    end))

    it("ignore an exception handler without a transducer", within(function()
      local ch = a.chan(1, nil, error)
      assert.is_true(a[">!"](ch, 1))
      assert.are.equal(1, a["<!"](ch))
    end))

    it("take a transducer and its exception handler", within(function()
      local ch = a.chan(5, times(2), function() return "bad" end)
      a["onto-chan!"](ch, { 1, {}, 3 })
      assert.are.same({ 2, "bad", 6 }, list(ch))
    end))

    it("keep a promise", within(function()
      local ch = a["promise-chan"]()
      a["put!"](ch, 1)
      a["put!"](ch, 2)
      assert.are.same({ 1, 1 }, { a["<!"](ch), (a["<!"](ch)) })
    end))
  end)

  describe("buffers", function()
    it("say whether they block", function()
      assert.is_false(a["unblocking-buffer?"](a.buffer(1)))
      assert.is_true(a["unblocking-buffer?"](a["dropping-buffer"](1)))
      assert.is_true(a["unblocking-buffer?"](a["sliding-buffer"](1)))
      assert.is_true(a["unblocking-buffer?"](a["promise-buffer"]()))
      assert.is_true(a["unblocking-buffer?"](rn.sliding_buffer(1)))
      assert.is_false(a["unblocking-buffer?"](3))
    end)

    it("can be used by hand", function()
      local kept = {}
      for _, name in ipairs { "buffer", "dropping-buffer", "sliding-buffer", "promise-buffer" } do
        local b = a[name](2)
        for i = 1, 3 do assert.are.equal(b, b["add!"](b, i)) end
        kept[#kept + 1] = { #b, b:length(), b["full?"](b), (b["remove!"](b)) }
      end
      assert.are.same({ { 3, 3, true, 1 }, { 2, 2, false, 1 }, { 2, 2, false, 2 }, { 1, 1, false, 1 } }, kept)
    end)

    it("look at the channel that they were given to", within(function()
      local b = a.buffer(2)
      local ch = a.chan(b)
      assert.are.equal("fixed", ch:stats().buffer)
      a[">!"](ch, 1)
      assert.are.same({ 1, false }, { #b, b["full?"](b) })
      a[">!"](ch, 2)
      assert.are.same({ 2, true }, { #b, b["full?"](b) })
      assert.are.equal(1, b["remove!"](b))
      b["add!"](b, 3)
      assert.are.same({ 2, 3 }, { a["<!"](ch), (a["<!"](ch)) })
    end))

    it("give what they hold to their channel", within(function()
      local b = a["sliding-buffer"](2)
      for i = 1, 3 do b["add!"](b, i) end
      local ch = a.chan(b)
      a[">!"](ch, 4)
      a["close!"](ch)
      assert.are.same({ 3, 4 }, list(ch))
    end))

    it("of a promise keep their value", within(function()
      local ch = a.chan(a["promise-buffer"]())
      local first = a.go(function() return a["<!"](ch) end)
      stage.settle()
      a["put!"](ch, 1)
      a["put!"](ch, 2)
      a["close!"](ch)
      assert.are.same({ 1, 1, 1 }, { a["<!"](first), a["<!"](ch), (a["<!"](ch)) })
    end))

    it("of the user's own inherit from the classes", within(function()
      local mine = setmetatable({ size = 1, buf = {} }, { __index = a.buffers.DroppingBuffer })
      local ch = a.chan(mine)
      a[">!"](ch, 1)
      a[">!"](ch, 2)
      a["close!"](ch)
      assert.are.same({ 1 }, list(ch))
    end))

    it("refuse a bad size and nil", function()
      assert.has_error(function() a.buffer(0) end)
      assert.has_error(function() a["dropping-buffer"] "x" end)
      local b = a.buffer(1)
      assert.has_error(function() b["add!"](b, nil) end, "add!: nil cannot be put into a buffer")
    end)
  end)

  describe("alts!", function()
    it("returns one table", within(function()
      local c, d = a.chan(1), a.chan(1)
      a[">!"](c, 42)
      assert.are.same({ 42, c }, a["alts!"] { c, d })
      assert.are.same({ true, d }, a["alts!!"] { c, { d, 1 } })
    end))

    it("takes its options as a table or one by one", within(function()
      local c = a.chan()
      assert.are.same({ 42, "default" }, a["alts!"]({ c }, { default = 42 }))
      assert.are.same({ 42, "default" }, a["alts!"]({ c }, "default", 42))
      assert.are.same({ false, "default" }, a["alts!"]({ c }, "priority", true, "default", false))
    end))

    it("reports a closed channel", within(function()
      local c = a.chan()
      a["close!"](c)
      local result = a["alts!"] { c, a.timeout(10) }
      assert.is_nil(result[1])
      assert.are.equal(c, result[2])
    end))

    it("raises its errors at the caller's line, not at one of the library's", function()
      local line = debug.getinfo(1, "l").currentline
      local _, bad = pcall(function() return (a["alts!!"] { 1 }) end)
      assert.matches(("core_async_spec.lua:%d: alts: operation 1 is not a channel"):format(line + 1), bad, 1, true)
      local _, deadlock = pcall(function() return (a["alts!!"] { a.chan() }) end)
      assert.matches(("core_async_spec.lua:%d: deadlock: alts on"):format(line + 3), deadlock, 1, true)
    end)
  end)

  describe("reduced", function()
    it("can be unwrapped", function()
      local r = a.reduced(5)
      assert.is_true(a["reduced?"](r))
      assert.is_false(a["reduced?"](5))
      assert.are.same({ 5, 5, "reduced: 5" }, { r[1], r:unbox(), tostring(r) })
    end)

    it("ends a reduction", within(function()
      local function until_two(acc, v)
        if v == 2 then return a.reduced "enough" end
        return acc + v
      end
      assert.are.equal("enough", a["<!"](a.reduce(until_two, 0, a["to-chan!"] { 1, 2, 3 })))
    end))

    it("is the module of that name where there is no other", function()
      local reduced = require "reduced"
      assert.is_true(reduced.is_reduced(reduced.reduced(1)))
      assert.is_true(reduced["reduced?"](a.reduced(1)))
    end)
  end)

  describe("operations", function()
    it("copy a list onto a channel", within(function()
      local ch = a["to-chan!"] { 1, 2, 3 }
      assert.are.equal(1, a["poll!"](ch))
      assert.are.same({ 2, 3 }, list(ch))
      local long = {}
      for i = 1, 250 do long[i] = i end
      assert.are.same(long, list(a["to-chan!"](long)))
      assert.are.same({}, list(a["to-chan!"] {}))
      local i = 0
      assert.are.same({ 1, 2 }, list(a["to-chan!"](function()
        i = i + 1
        return i < 3 and i or nil
      end)))
    end))

    it("take nil for close? as false", within(function()
      local out = a.chan(10)
      a["<!"](a["onto-chan!"](out, { 1 }, nil))
      a["<!"](a.pipe(a["to-chan!"] { 2 }, out, nil))
      a["<!"](a.pipeline(1, out, times(3), a["to-chan!"] { 1 }, false))
      a["<!"](a["pipeline-async"](1, out, function(v, result)
        a["put!"](result, v)
        a["close!"](result)
      end, a["to-chan!"] { 4 }, nil))
      assert.is_false(a["closed?"](out))
      a["<!"](a["onto-chan!"](out, { 5 }))
      assert.is_true(a["closed?"](out))
      assert.are.same({ 1, 2, 3, 4, 5 }, list(out))
    end))

    it("end pipes with a channel that closes", within(function()
      local out = a.chan(10)
      local ended = a.pipe(a["to-chan!"] { 1, 2 }, out)
      assert.is_nil(a["<!"](ended))
      assert.is_true(a["closed?"](out))
      assert.are.same({ 1, 2 }, list(out))
      out = a.chan()
      a["close!"](out)
      assert.is_nil(a["<!"](a.pipe(a["to-chan!"] { 1, 2 }, out, false)))
    end))

    for _, name in ipairs { "pipe", "pipeline" } do
      local function start(from, to)
        if name == "pipe" then return a.pipe(from, to, false) end
        return a.pipeline(1, to, times(1), from, false)
      end

      it("end a " .. name .. " that leaves its target open when that closes, and take nothing more", within(function()
        local from, out = a.chan(), a.chan()
        local ended = start(from, out)
        a["close!"](out)
        stage.settle()
        assert.is_true(a["closed?"](ended))
        assert.is_nil(a["offer!"](from, 1))
        assert.same({}, stage.others())
      end))

      it("report the error of the source of a " .. name .. " that leaves its target open", within(function()
        local from, out = a.chan(1), a.chan(1)
        a["put!"](from, 1)
        from:close "no more"
        assert.same({ "no more" }, stage.report_texts(function() assert.is_nil(a["<!"](start(from, out))) end))
        assert.is_false(a["closed?"](out))
        assert.equal(1, a["<!"](out))
      end))
    end

    it("hand the exception handler to a pipeline", within(function()
      local out = a.chan(10)
      a.pipeline(2, out, times(2), a["to-chan!"] { 1, {}, 3 }, true, function() return "bad" end)
      assert.are.same({ 2, "bad", 6 }, list(out))
    end))

    it("split into a table of two", within(function()
      local pair = a.split(function(v) return v % 2 == 0 end, a["to-chan!"] { 1, 2, 3, 4 }, 5, a.buffer(5))
      assert.are.same({ { 2, 4 }, { 1, 3 } }, { list(pair[1]), list(pair[2]) })
    end))

    it("map, merge, take, transduce", within(function()
      local function add(x, y) return x + y end
      local to_chan = a["to-chan!"]
      assert.are.same({ 11, 22 }, list(a.map(add, { to_chan { 1, 2 }, to_chan { 10, 20, 30 } }, a.buffer(1))))
      local merged = list(a.merge({ to_chan { 1 }, to_chan { 2 } }, a["sliding-buffer"](5)))
      table.sort(merged)
      assert.are.same({ 1, 2 }, merged)
      assert.are.same({ 1, 2 }, list(a.take(2, to_chan { 1, 2, 3 }, a.buffer(3))))
      local function sum(acc, v) return v and acc + v or acc end
      assert.are.equal(12, a["<!"](a.transduce(times(2), sum, 0, to_chan { 1, 2, 3 })))
    end))

    it("mult, tap, untap", within(function()
      local source, left, right = a.chan(), a.chan(5), a.chan(5)
      local m = a.mult(source)
      assert.are.equal(left, a.tap(m, left))
      a.tap(m, right, nil)
      a[">!"](source, 1)
      stage.settle()
      a["untap"](m, left)
      a[">!"](source, 2)
      a["close!"](source)
      stage.settle()
      assert.is_false(a["closed?"](right))
      a["close!"](right)
      a["close!"](left)
      assert.are.same({ { 1 }, { 1, 2 } }, { list(left), list(right) })
    end))

    it("mix, toggle, solo-mode", within(function()
      local out, x, y = a.chan(10), a.chan(), a.chan()
      local m = a.mix(out)
      a.admix(m, x)
      a.toggle(m, { [y] = { mute = true } })
      stage.settle()
      a[">!"](x, 1)
      a[">!"](y, 2)
      a["solo-mode"](m, "mute")
      a.toggle(m, { [y] = { mute = false, solo = true } })
      stage.settle()
      a[">!"](x, 3)
      a[">!"](y, 4)
      a["unmix-all"](m)
      stage.settle()
      a["close!"](out)
      stage.settle()
      assert.are.same({ 1, 4 }, list(out))
    end))

    it("pub and sub, with buffers by topic", within(function()
      local source = a.chan()
      local p = a.pub(source, type, function() return a.buffer(5) end)
      local numbers, strings = a.chan(5), a.chan(5)
      a.sub(p, "number", numbers)
      a.sub(p, "string", strings, nil)
      a["<!"](a["onto-chan!"](source, { 1, "a", 2, true }))
      stage.settle()
      assert.are.same({ 1, 2 }, list(numbers))
      assert.is_false(a["closed?"](strings))
      a["close!"](strings)
      assert.are.same({ "a" }, list(strings))
    end))
  end)
end)
