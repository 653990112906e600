local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local function settle() rn.sleep(1) end

-- A mix with n inputs, each an unbuffered channel on which "a1", "a2", ... come, one each ms, or "b1", ...
local function mix_of(n, size)
  local out = rn.chan(size)
  local m, inputs = rn.mix(out), {}
  for i = 1, n do
    local ch = rn.chan()
    local letter = string.char(96 + i)
    inputs[letter] = ch
    m:admix(ch)
    rn.go(function()
      rn.rename "source"
      local k = 0
      repeat
        k = k + 1
        rn.sleep(1)
      until not ch:put(letter .. k)
    end)
  end
  return m, out, inputs
end

-- The letters of the next n values, sorted, each once.
local function letters(out, n)
  local seen, list = {}, {}
  for _ = 1, n do
    local letter = out:take():sub(1, 1)
    if not seen[letter] then list[#list + 1] = letter end
    seen[letter] = true
  end
  table.sort(list)
  return table.concat(list)
end

-- Takes what was on its way when a state changed.
local function flush(out)
  for _ = 1, 5 do
    settle()
    while out:poll() ~= nil do end
  end
end

describe("mix", function()
  before_each(stage.open)
  after_each(stage.close)

  it("puts the values of all inputs on one channel, false too", function()
    stage.explore(function()
      stage.forget()
      local out = rn.chan()
      local m = rn.mix(out)
      m:admix(rn.to_chan { 1, 3, 5 })
      m:admix(rn.to_chan { 2, 4, false })
      local odd, rest = {}, {}
      for _ = 1, 6 do
        local value = out:take()
        local list = value and value % 2 == 1 and odd or rest
        list[#list + 1] = value
      end
      assert.same({ 1, 3, 5 }, odd)
      assert.same({ 2, 4, false }, rest)
      settle()
      assert.is_nil(out:poll())
      assert.is_false(out:closed())
      assert.equal(1, #stage.others())
    end)
  end)

  it("has functions as well as methods", stage.sim(function()
    local out, ch = rn.chan(5), rn.chan(1)
    local m = rn.mix(out)
    rn.admix(m, ch)
    ch:put(1)
    assert.equal(1, out:take())
    rn.toggle(m, { [ch] = { pause = true } })
    rn.solo_mode(m, "pause")
    rn.unmix(m, ch)
    rn.unmix_all(m)
    settle()
    ch:put(2)
    settle()
    assert.is_nil(out:poll())
  end))

  it("treats its inputs alike", stage.sim(function()
    local _, out = mix_of(4)
    local count = {}
    for _ = 1, 4000 do
      local letter = out:take():sub(1, 1)
      count[letter] = (count[letter] or 0) + 1
    end
    for _, n in pairs(count) do assert.is_true(n > 800 and n < 1200) end
  end))

  it("waits without inputs, and takes up those that come", stage.sim(function()
    local out = rn.chan()
    local m = rn.mix(out)
    rn.sleep(100)
    m:admix(rn.to_chan { 1 })
    assert.equal(1, out:take())
    rn.sleep(100)
    m:admix(rn.to_chan { 2 })
    assert.equal(2, out:take())
  end))

  it("drops an input that closes", stage.sim(function()
    local m, out, inputs = mix_of(2)
    inputs.a:close()
    flush(out)
    assert.equal("b", letters(out, 20))
    assert.is_nil(m.inputs[inputs.a])
    assert.equal(1, #m.order)
  end))

  describe("unmix", function()
    it("takes an input out", stage.sim(function()
      local m, out, inputs = mix_of(2)
      assert.equal("ab", letters(out, 50))
      m:unmix(inputs.a)
      flush(out)
      local taken = inputs.a:stats().take_total
      assert.equal("b", letters(out, 50))
      assert.equal(taken, inputs.a:stats().take_total)
    end))

    it("of all leaves a mix that waits", stage.sim(function()
      local m, out, inputs = mix_of(2)
      m:unmix_all()
      flush(out)
      assert.is_nil(out:poll())
      m:admix(inputs.b)
      assert.equal("b", letters(out, 10))
    end))

    it("of a channel that is not an input does nothing", stage.sim(function()
      local m, out = mix_of(1)
      m:unmix(rn.chan())
      assert.equal("a", letters(out, 3))
    end))
  end)

  describe("toggle", function()
    it("mutes: values are taken and dropped", function()
      stage.explore(function()
        local m, out, inputs = mix_of(2)
        m:toggle { [inputs.a] = { mute = true } }
        flush(out)
        local taken = inputs.a:stats().take_total
        assert.equal("b", letters(out, 50))
        assert.is_true(inputs.a:stats().take_total > taken)
        m:toggle { [inputs.a] = { mute = false } }
        assert.equal("ab", letters(out, 50))
      end, { leaks = false })
    end)

    it("pauses: values are not taken", function()
      stage.explore(function()
        local m, out, inputs = mix_of(2)
        m:toggle { [inputs.a] = { pause = true } }
        flush(out)
        local taken = inputs.a:stats().take_total
        assert.equal("b", letters(out, 50))
        assert.equal(taken, inputs.a:stats().take_total)
        m:toggle { [inputs.a] = { pause = false } }
        assert.equal("ab", letters(out, 50))
      end, { leaks = false })
    end)

    it("solos: the others are dropped, whatever else the state is", function()
      stage.explore(function()
        local m, out, inputs = mix_of(3)
        m:toggle { [inputs.a] = { solo = true, mute = true, pause = true }, [inputs.c] = { pause = true } }
        flush(out)
        local b, c = inputs.b:stats().take_total, inputs.c:stats().take_total
        assert.equal("a", letters(out, 50))
        assert.is_true(inputs.b:stats().take_total > b)
        assert.equal(c, inputs.c:stats().take_total)
        m:toggle { [inputs.b] = { solo = true } }
        flush(out)
        assert.equal("ab", letters(out, 50))
        m:toggle { [inputs.a] = { solo = false }, [inputs.b] = { solo = false } }
        flush(out)
        assert.equal("b", letters(out, 50))
      end, { leaks = false })
    end)

    it("solos: with the solo mode pause the others wait", function()
      stage.explore(function()
        local m, out, inputs = mix_of(2)
        m:solo_mode "pause"
        m:toggle { [inputs.a] = { solo = true, mute = true, pause = true } }
        flush(out)
        local b = inputs.b:stats().take_total
        assert.equal("a", letters(out, 50))
        assert.equal(b, inputs.b:stats().take_total)
        m:solo_mode "mute"
        flush(out)
        assert.equal("a", letters(out, 50))
        assert.is_true(inputs.b:stats().take_total > b)
      end, { leaks = false })
    end)

    it("adds channels in their state, and changes nothing that is not named", stage.sim(function()
      local out, a, b = rn.chan(10), rn.to_chan { "a1", "a2" }, rn.to_chan { "b1" }
      local m = rn.mix(out)
      m:toggle { [a] = { pause = true }, [b] = {} }
      settle()
      assert.equal("b1", out:poll())
      assert.is_nil(out:poll())
      m:toggle { [a] = { mute = true } }
      settle()
      assert.equal(0, a:stats().take_total)
      m:toggle { [a] = { pause = false } }
      settle()
      assert.equal(2, a:stats().take_total)
      assert.is_nil(out:poll())
    end))

    it("takes nothing more of what is paused, from the call on", function()
      stage.explore(function()
        local out, ch = rn.chan(100), rn.chan(1)
        local m = rn.mix(out)
        m:admix(ch)
        rn.go(function()
          for i = 1, 5 do
            ch:put(i)
            rn.yield()
          end
        end)
        for _ = 1, 4 do rn.yield() end
        m:toggle { [ch] = { pause = true } }
        local taken = ch:stats().take_total
        settle()
        assert.equal(taken, ch:stats().take_total)
        local list = {}
        for value in function() return (out:poll()) end do list[#list + 1] = value end
        for i = 1, taken do assert.equal(i, list[i]) end
        assert.equal(taken, #list)
      end, { leaks = false })
    end)

    it("adds in the same order every time", function()
      local first
      for _ = 1, 20 do
        sim.run(function()
          local out, states = rn.chan(100), {}
          for i = 1, 20 do states[rn.to_chan { i }] = {} end
          settle()
          rn.mix(out):toggle(states)
          settle()
          out:close()
          local order = table.concat(stage.drain(out), " ")
          first = first or order
          assert.equal(first, order)
        end)
      end
    end)
  end)

  it("admixing again forgets the state", stage.sim(function()
    local m, out, inputs = mix_of(1)
    m:toggle { [inputs.a] = { mute = true } }
    flush(out)
    rn.sleep(10)
    assert.is_nil(out:poll())
    m:admix(inputs.a)
    assert.equal("a", letters(out, 10))
    assert.equal(1, #m.order)
  end))

  describe("closing", function()
    it("the output ends the mix, and nothing more is taken", function()
      sim.each_seed(100, function(seed)
        stage.forget()
        local _, out, inputs = mix_of(3, seed % 3)
        for _ = 1, seed % 5 do out:take() end
        out:close()
        local function taken()
          local sum = 0
          for _, ch in pairs(inputs) do sum = sum + ch:stats().take_total end
          return sum
        end
        local before = taken()
        rn.sleep(10)
        assert.equal(before, taken())
        assert.same({ "source", "source", "source" }, stage.others())
      end)
    end)

    it("the output ends a mix that waits for inputs", stage.sim(function()
      local out = rn.chan()
      local m = rn.mix(out)
      m:admix(rn.chan())
      settle()
      out:close()
      settle()
      assert.same({}, stage.others())
      m:admix(rn.chan())
      m:unmix_all()
      settle()
      assert.same({}, stage.others())
    end))
  end)

  it("is collected with its inputs once they are unreachable", stage.sim(function()
    local gone = setmetatable({}, { __mode = "k" })
    for _ = 1, 10 do
      local out, ch = rn.chan(), rn.chan()
      local m = rn.mix(out)
      m:admix(ch)
      gone[m], gone[ch] = true, true
    end
    settle()
    for _ = 1, 5 do collectgarbage() end
    assert.is_nil(next(gone))
    assert.same({}, stage.others())
  end))

  describe("bad input", function()
    it("is an error at the caller's line, and changes nothing", stage.sim(function()
      local m, out, inputs = mix_of(2)
      local a, b = inputs.a, inputs.b
      raises("^mix: channel: a channel expected, got nothing", function() rn.mix()
      end)
      raises("^admix: a mix expected, got a channel", function() rn.admix(out, a)
      end)
      raises("^admix: channel: a channel expected, got a string", function() m:admix "a"
      end)
      raises("^admix: the mix would take what it puts", function() m:admix(out)
      end)
      raises("^unmix: a mix expected, got nothing", function() rn.unmix()
      end)
      raises("^unmix: channel: a channel expected, got nothing", function() m:unmix()
      end)
      raises("^unmix_all: a mix expected, got a table", function() rn.unmix_all {}
      end)
      raises("^toggle: a mix expected, got nothing", function() rn.toggle()
      end)
      raises("^toggle: states: a table expected, got a channel", function() m:toggle(a)
      end)
      raises("^toggle: a table of states by channel expected; a key is a number", function() m:toggle { a }
      end)
      raises("^toggle: the mix would take what it puts", function() m:toggle { [out] = {} }
      end)
      raises("^toggle: the state of chan: #%d+.* is a string; write { mute =", function() m:toggle { [a] = "mute" }
      end)
      raises('^toggle: chan: #%d+.*: unknown state "loud"', function()
        m:toggle { [a] = { loud = true }, [b] = { loud = true } }
      end)
      raises('^toggle: chan: #%d+.*: unknown state "1"', function() m:toggle { [a] = { "mute" } }
      end)
      raises("^toggle: chan: #%d+.*: mute: true or false expected, got", function() m:toggle { [a] = { mute = 1 } }
      end)
      raises('^solo_mode: "mute" or "pause" expected, got solo', function() m:solo_mode "solo"
      end)
      raises('^solo_mode: "mute" or "pause" expected, got nil', function() m:solo_mode()
      end)
      raises("^solo_mode: a mix expected, got a string", function() rn.solo_mode("m", "mute")
      end)
      assert.equal("ab", letters(out, 50))
    end))

    it("is refused as a whole", stage.sim(function()
      local m, out, inputs = mix_of(2)
      assert.error(function() m:toggle { [inputs.a] = { mute = true }, [inputs.b] = { volume = true } } end)
      flush(out)
      assert.equal("ab", letters(out, 50))
    end))

    it("of the output's buffer policy costs the value", stage.sim(function()
      local out = rn.chan(stage.picky(function(v) return v ~= 2 end))
      rn.mix(out):admix(rn.to_chan { 1, 2, 3 })
      settle()
      assert.same({ 1, 3 }, { out:poll(), out:poll() })
      assert.matches("no 2 here", stage.heard()[1].err)
    end))

    it("of an input's buffer policy closes the output with the error", stage.sim(function()
      local policy = stage.picky(function() return true end)
      policy.remove = function() error("broken", 0) end
      local out, ch = rn.chan(), rn.chan(policy)
      rn.mix(out):admix(ch)
      pcall(ch.put, ch, 1)
      local _, err = out:take()
      assert.matches("broken", err)
      assert.is_true(#stage.heard() >= 1)
    end))
  end)
end)
