-- Bad input: each mistake has a message of its own, which begins with the line that made it, and changes nothing.

local rn = require "runnel"
local sim = require "runnel.sim"
local policy = require "spec.support.policy"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"

local within, settle = stage.within, stage.settle
local NAN, INF = 0 / 0, math.huge

local ch -- a channel of each test's own

-- Tests that each function raises a message like its pattern, at its own line: { pattern, function, ... }
local function each_raises(list)
  return within(function()
    for i = 1, #list, 2 do raises(list[i], list[i + 1]) end
    stage.assert_no_waiters(ch)
    assert.equal(0, ch:stats().put_total)
  end)
end

describe("bad input", function()
  before_each(function() ch = rn.chan():name "jobs" end)

  it("to chan: sizes", each_raises {
    "^chan: a buffer size is an integer of 0 or more, got %-1$", function() rn.chan(-1) end,
    "^chan: a buffer size is an integer of 0 or more, got 1.5$", function() rn.chan(1.5) end,
    "^chan: a buffer size is an integer of 0 or more, got %-?nan$", function() rn.chan(NAN) end,
    "^chan: a buffer size is an integer of 0 or more, got inf$", function() rn.chan(INF) end,
    "^chan: a buffer size is an integer of 0 or more, got %-9223372036854775808$",
    function() rn.chan(math.mininteger) end,
    "^chan: a buffer holds at most 2147483647 values", function() rn.chan(2 ^ 31) end,
    "^chan: a buffer holds at most 2147483647 values", function() rn.chan(math.maxinteger) end,
  })

  it("to chan: an object that is no buffer", each_raises {
    "^chan: a buffer size, a buffer, or an object with full, add, remove and count expected, got string$",
    function() rn.chan "x" end,
    "expected, got string$", function() rn.chan "10" end,
    "expected, got boolean$", function() rn.chan(true) end,
    "expected, got function$", function() rn.chan(print) end,
    "expected, got thread$", function() rn.chan(coroutine.create(print)) end,
    "^chan: a buffer policy needs the methods full, add, remove and count; this one has no full$",
    function() rn.chan {} end,
    "this one has no full$", function() rn.chan(ch) end,
    "this one has no full$", function() rn.chan(io.stdout) end,
    "this one has no add$", function() rn.chan { full = print } end,
    "this one has no remove$", function() rn.chan { full = print, add = print } end,
    "this one has no count$", function() rn.chan { full = print, add = print, remove = print } end,
  })

  it("to a function that was called with a colon", each_raises {
    "^rn.chan: call it with a dot: rn.chan%(%.%.%.%)$", function() rn:chan(3) end, -- luacheck: ignore
    "^rn.go: call it with a dot: rn.go%(%.%.%.%)$", function() rn:go(print) end,
    "^rn.sleep: call it with a dot", function() rn:sleep(3) end,
    "^pmap: n: .* got the module; call it with a dot: rn.pmap%(%.%.%.%)$", function() rn:pmap(3, print, {}) end,
    "^this got the module: call functions with a dot, as rn.go%(f%), not with a colon$", function() ch.take(rn) end,
  })

  it("to chan: a buffer that another channel has", within(function()
    local has = "^%w+: this buffer belongs to another channel; make a new one for each channel$"
    for _, make in ipairs {
      function() return rn.buffer(2) end, function() return rn.dropping_buffer(2) end,
      function() return rn.sliding_buffer(2) end, function() return rn.priority_buffer(2) end,
      function() return policy.queue(2) end,
    } do
      local buffer = make()
      raises("^chan: transducer", function() rn.chan(buffer, 42) end)
      local first = rn.chan(buffer) -- since the last one failed
      raises(has, function() rn.chan(buffer) end)
      raises(has, function() rn.chan(buffer, rn.xf.map(tostring)) end)
      first:put "kept"
      assert.equal("kept", (first:take()))
    end
    local buffer = rn.sliding_buffer(2)
    rn.shared_chan(buffer)
    raises("^shared_chan: this buffer belongs to another channel", function() rn.shared_chan(buffer) end)
    raises("^pmap: buffer: this buffer belongs", function() rn.pmap(1, print, { 1 }, { buffer = buffer }) end)
  end))

  it("to polls, offers and alts with a default that nothing can help #ci", function()
    local full, other = rn.chan(), rn.chan()
    for _, where in ipairs { "outside", "in a go block", "in a coroutine in a go block" } do
      local why = where:find "coroutine" and "meanwhile no other go block could run: " or "nothing will change that: .*"
      local function attempt()
        raises("^poll: it has come to nothing 100000 times, and " .. why .. "use ch:take%(%)",
          function() while full:poll() == nil do end end)
        raises("^offer: it has come to nothing 100000 times.*use ch:put", function() while not full:offer(1) do end end)
        raises("^alts: it has come to nothing 100000 times.*leave out the default, so that it waits",
          function() while rn.alts({ full, other }, { default = 0 }) == 0 do end end)
        local function alt() return rn.alt { { full, print }, default = function() end } end
        raises("^alt: it has come to nothing", function() while not alt() do end end)
      end
      if where == "outside" then attempt()
      elseif where == "in a go block" then assert.same({}, { rn.go(attempt):take() })
      else assert.same({}, { rn.go(function() coroutine.wrap(attempt)() end):take() }) end
    end
  end)

  it("nothing to polls of which each finds a value, or after which others run, however many they are", function()
    local block, feeder, empty = rn.go(rn.chan().take, rn.chan()), rn.chan(1), rn.chan()
    for i = 1, 250000 do
      empty:poll()
      if i % 90000 == 0 then rn.yield() end
    end
    for i = 1, 250000 do
      assert(empty:poll() == nil and feeder:offer(i) and feeder:poll() == i)
    end
    local shared = rn.shared_chan()
    for _ = 1, 110000 do shared:poll() end -- another thread may put on it
    rn.cancel(block)
  end)

  it("to chan: transducers and exception handlers", each_raises {
    "^chan: a transducer needs a buffer; give a size of 1 or more$", function() rn.chan(nil, print) end,
    "^chan: a transducer needs a buffer", function() rn.chan(0, print) end,
    "^chan: transducer: a function expected, got number$", function() rn.chan(1, 42) end,
    "^chan: transducer: a function expected, got table$", function() rn.chan(1, {}) end,
    "^chan: exception handler: a function expected, got string$", function() rn.chan(1, print, "x") end,
    "^chan: an exception handler without a transducer would never be called$", function() rn.chan(1, nil, print) end,
    "^chan: the transducer returned a nil instead of a reducing function$", function() rn.chan(1, function() end) end,
    "^chan: transducer: a function expected, got boolean$", function() rn.promise_chan(true) end,
    "^chan: an exception handler without a transducer", function() rn.promise_chan(nil, print) end,
  })

  it("to buffers", each_raises {
    "^buffer: a size from 1 to 2147483647 expected, got 0$", function() rn.buffer(0) end,
    "^buffer: a size from 1 to 2147483647 expected, got nil$", function() rn.buffer() end,
    "^buffer: .*, got 1.5$", function() rn.buffer(1.5) end,
    "^buffer: .*, got 3$", function() rn.buffer "3" end,
    "^buffer: .*, got 2147483648$", function() rn.buffer(2 ^ 31 | 0) end,
    "^dropping_buffer: a size from 1 to 2147483647 expected, got %-1$", function() rn.dropping_buffer(-1) end,
    "^sliding_buffer: a size from 1 to 2147483647 expected, got table", function() rn.sliding_buffer {} end,
    "^priority_buffer: size: an integer of at least 1 expected, got 0$", function() rn.priority_buffer(0) end,
    "^priority_buffer: size: an integer of at least 1 expected, got nothing$", function() rn.priority_buffer() end,
    "^priority_buffer: size: .* got inf$", function() rn.priority_buffer(INF) end,
    "^priority_buffer: less: a function or nil expected, got a number$", function() rn.priority_buffer(1, 42) end,
  })

  it("nil as a value", each_raises {
    "^put: nil cannot be put on a channel, where it means that the channel is closed; put false, or a value of your",
    function() ch:put(nil) end,
    "^put: nil cannot be put", function() ch:put() end,
    "^offer: nil cannot be put", function() ch:offer(nil) end,
    "^put_async: nil cannot be put", function() ch:put_async(nil, print) end,
    "^alts: operation 2 has no value to put, or nil, which cannot be put; write a channel to take from it, or {chan",
    function() rn.alts { ch, { ch } } end,
    "^alts: operation 1 has no value to put", function() rn.alts { { ch, nil } } end,
  })

  it("put, take and others on what is no channel", function()
    local put, take = ch.put, ch.take
    each_raises({
      "^put: a channel expected, got nothing; call it as ch:put%(v%)$", function() put() end,
      "^put: a channel expected, got number; call it as ch:put%(v%)$", function() put(42, 1) end,
      "^take: a channel expected, got nothing; call it as ch:take%(%)$", function() take() end,
      "^take: a channel expected, got table; call it as ch:take%(%)$", function() take {} end,
      "^take: a channel expected, got nil;", function() take(nil) end,
      "^take: a channel expected, got userdata;", function() take(io.stdout) end,
      "^take: a channel expected, got userdata;", function() take(rn.buffer(1)) end,
      "^take: a channel expected, got string;", function() take "jobs" end,
      "^offer: a channel expected, got nothing; call it as ch:offer%(v%)$", function() ch.offer() end,
      "^poll: a channel expected, got nothing; call it as ch:poll%(%)$", function() ch.poll() end,
      "^take_async: a channel expected, got function; call it as ch:take_async%(f%)$",
      function() ch.take_async(print) end,
      "^put_async: a channel expected, got number; call it as ch:put_async%(v, f%)$",
      function() ch.put_async(1, print) end,
      "^close: a channel expected, got nothing; call it as ch:close%(err%)$", function() ch.close() end,
      "^closed: a channel expected, got nothing; call it as ch:closed%(%)$", function() ch.closed() end,
      "^done: a channel expected, got nothing; call it as ch:done%(%)$", function() ch.done() end,
      "^stats: a channel expected, got nothing; call it as ch:stats%(%)$", function() ch.stats() end,
      "^name: a channel expected, got string; call it as ch:name%(s%)$", function() ch.name "x" end,
    })()
  end)

  it("called without self: the value passes for the channel", function()
    local other = rn.chan(1)
    each_raises({
      "^put: a channel expected, got string; call it as ch:put%(v%)", function() ch.put "value" end,
      "^offer: a channel expected, got string; call it as ch:offer%(v%)", function() ch.offer "value" end,
      "^put: nil cannot be put", function() ch.put(other) end,
    })()
  end)

  it("an impostor of a channel", function()
    local meta = debug.getmetatable(ch)
    local fake = setmetatable({}, meta)
    each_raises({
      "^take: a channel expected, got table", function() fake:take() end,
      "^put: a channel expected, got table", function() fake:put(1) end,
      "^take: a channel expected, got table", function() fake() end,
      "^#: a channel expected, got table", function() return #fake end,
      "^tostring: a channel expected, got table", function() meta.__tostring(fake) end,
      "^close: a channel expected, got number", function() meta.__close(42) end,
      "^alts: operation 1 ", function() rn.alts { fake } end,
      "^alts: operation 1 does not begin with a channel", function() rn.alts { { fake, 1 } } end,
    })()
    assert.is_false(rn.is_chan(fake))
    assert.is_false(rn.is_chan(nil))
    assert.is_false(rn.is_chan())
    assert.is_false(rn.is_chan(io.stdout))
    assert.is_true(rn.is_chan(ch))
    assert.is_true(rn.is_chan(rn.go(function() end)))
    rn.run()
  end)

  it("to names", each_raises {
    "^name: a string expected, got number$", function() ch:name(42) end,
    "^name: a string expected, got table$", function() ch:name {} end,
    "^name: at most 200 bytes$", function() ch:name(("x"):rep(201)) end,
  })

  it("to callbacks", each_raises {
    "^take_async: a function expected, got nothing$", function() ch:take_async() end,
    "^take_async: a function expected, got nil$", function() ch:take_async(nil) end,
    "^take_async: a function expected, got table$", function() ch:take_async {} end,
    "^put_async: a function expected, got number$", function() ch:put_async(1, 42) end,
    "^put_async: a function expected, got boolean$", function() ch:put_async(1, false) end,
  })

  it("to alts", each_raises {
    "^alts: no operations: it would wait for ever$", function() rn.alts {} end,
    "^alts: no operations", function() rn.alts({}, { priority = true }) end,
    "^alts: a list of operations expected, got nothing$", function() rn.alts() end,
    "^alts: a list of operations expected, got number$", function() rn.alts(42) end,
    "^alts: a list of operations expected, got a channel; put the channels into a list: rn.alts { ch, ... }$",
    function() rn.alts(ch) end,
    "^alts: operation 1 has no value to put, or nil, which cannot be put; write", function() rn.alts { { ch } } end,
    "^alts: operation 1 is not a channel; write a channel to take from it, or {channel, value} to put$",
    function() rn.alts { 42 } end,
    "^alts: operation 2 is not a channel", function() rn.alts { ch, "jobs" } end,
    "^alts: operation 2 is not a channel", function() rn.alts { ch, io.stdout } end,
    "^alts: operation 3 does not begin with a channel", function() rn.alts { ch, ch, { 42, ch } } end,
    "^alts: operation 1 does not begin with a channel", function() rn.alts { {} } end,
    "^alts: operation 2 is nil", function() rn.alts { ch, nil, ch } end,
    "^alts: a table of options expected, got boolean$", function() rn.alts({ ch }, true) end,
    "^alts: the list of operations has a field 'default'; options go into a table of their own: rn%.alts%(",
    function() rn.alts { ch, default = 1 } end,
    "^alts: the list of operations has a field 'priority'", function() rn.alts { priority = true } end,
    "^alts: the list of operations has a field 'true'", function() rn.alts { ch, [true] = 1 } end,
    "^alts: unknown option 'prio'; known: default, nowait, priority$",
    function() rn.alts({ ch }, { prio = true, default = 1 }) end,
    "^alts: unknown option '1'", function() rn.alts({ ch }, { 1 }) end,
    "^alts: from 1 to 100000 operations expected, got %-1$",
    function() rn.alts(setmetatable({}, { __len = function() return -1 end })) end,
  })

  it("to alt", each_raises {
    "^alt: no operations: it would wait for ever$", function() rn.alt {} end,
    "^alt: a list of clauses expected, got nothing;", function() rn.alt() end,
    "^alt: a list of clauses expected, got a channel; write rn.alt { { channel, function }, ... }$",
    function() rn.alt(ch) end,
    "^alt: clause 1 is a channel; write {channel, function} or {{channel, value}, function}$",
    function() rn.alt { ch } end,
    "^alt: clause 2 is a function; write", function() rn.alt { { ch, print }, print } end,
    "^alt: clause 1 has no operation; write", function() rn.alt { { nil, print }, { ch, print } } end,
    "^alts: operation 2 is nil", function() rn.alts { ch, nil, rn.chan(), nil } end,
    "^alts: operation 2 is nil, although the list goes on; write", function() rn.alts { [1] = ch, [3] = rn.chan() } end,
    "^alt: clause 2 ", function() rn.alt { [1] = { ch, print }, [3] = { ch, print } } end,
    "^alt: clause 1: a function expected, got nothing; pass the function itself", function() rn.alt { { ch } } end,
    "^alt: clause 2: a function expected, got a number; pass the function itself",
    function() rn.alt { { ch, print }, { ch, 42 } } end,
    "^alt: operation 1 is not a channel; write", function() rn.alt { { 42, print } } end,
    "^alt: operation 2 has no value to put", function() rn.alt { { ch, print }, { { ch }, print } } end,
    "^alt: operation 1 does not begin with a channel", function() rn.alt { { {}, print } } end,
    "^alt: unknown option \"defualt\"; known: default, priority$",
    function() rn.alt { { ch, print }, defualt = print } end,
    "^alt: unknown option", function() rn.alt { nowait = true } end,
    "^alt: default: a function or nil expected, got a boolean$",
    function() rn.alt { { ch, print }, default = false } end,
  })

  it("to what closes its target, or not", each_raises {
    "^pipe: close: true or false expected, got a table$", function() rn.pipe(ch, rn.chan(), { close = false }) end,
    "^pipeline: close: true or false", function() rn.pipeline(1, ch, rn.xf.dedupe(), ch, {}) end,
    "^pipeline_async: close: true or false", function() rn.pipeline_async(1, ch, print, ch, { window = 3 }) end,
    "^pipeline_async_unordered: close: ", function() rn.pipeline_async_unordered(1, ch, print, ch, "no") end,
    "^onto_chan: close: true or false", function() rn.onto_chan(ch, {}, "no") end,
  })

  it("to tap and sub", stage.within(function()
    local source = rn.chan()
    local m, p = rn.mult(source), rn.pub(source, type)
    raises("^tap: close: true or false expected, got a table$", function() m:tap(rn.chan(), { close = false }) end)
    raises("^sub: close: true or false expected, got a number$", function() p:sub("string", rn.chan(), 0) end)
    source:close()
  end))

  it("to go, run, on_error and driver", each_raises {
    "^go: a function expected, got number; to call f%(...%) in a go block, write rn.go%(f, ...%)$",
    function() rn.go(42) end,
    "^go: a function expected, got nothing;", function() rn.go() end,
    "^on_error: a function expected, got string$", function() rn.on_error "x" end,
    "^rename: a string expected, got nothing$", function() rn.rename() end,
    "^run: cannot be called inside a go block, where the scheduler is already running$", function() rn.run() end,
    "^run: cannot be called inside a go block", function() rn.run(print) end,
    "^step: cannot be called inside a go block", function() rn.step() end,
    "^sim.run: cannot be called inside a go block", function() sim.run(print) end,
  })

  it("to go, run and driver outside any go block", function()
    raises("^run: a function expected, got number$", function() rn.run(42) end)
    raises("^step: a number of go blocks expected, got %-1$", function() rn.step(-1) end)
    raises("^step: a number of go blocks expected, got x$", function() rn.step "x" end)
    raises("^driver: an object with the methods wait and alive expected, got number$", function() rn.driver(42) end)
    raises("^driver: it has no method alive$", function() rn.driver { wait = print } end)
    raises("^rename: it was called outside any go block, so there is nothing to name$", function() rn.rename "x" end)
  end)

  it("to times", each_raises {
    "^timeout: a time of 0 ms or more expected, got %-1", function() rn.timeout(-1) end,
    "^timeout: a time of 0 ms or more expected, got %-?nan$", function() rn.timeout(NAN) end,
    "^timeout: a time of 0 ms or more expected, got %-inf$", function() rn.timeout(-INF) end,
    "^timeout: a finite time expected, got infinity; to wait for ever, ", function() rn.timeout(INF) end,
    "^sleep: a finite time expected, got infinity; to wait for ever, ", function() rn.sleep(INF) end,
    "^timeout: a number of milliseconds expected, got string$", function() rn.timeout "10" end,
    "^timeout: a number of milliseconds expected, got nothing$", function() rn.timeout() end,
    "^sleep: a time of 0 ms or more expected, got %-0.5", function() rn.sleep(-0.5) end,
    "^sleep: a time of 0 ms or more expected, got %-?nan$", function() rn.sleep(NAN) end,
    "^sleep: a number of milliseconds expected, got nil$", function() rn.sleep(nil) end,
  })

  it("to pipelines and the rest", each_raises {
    "^pipeline_async: n: an integer of at least 1 expected, got 0$", function() rn.pipeline_async(0, ch, print, ch) end,
    "^pipeline_async: n: an integer of at least 1 expected, got 1.5$",
    function() rn.pipeline_async(1.5, ch, print, ch) end,
    "^pipeline_async: n: an integer .* got inf$", function() rn.pipeline_async(INF, ch, print, ch) end,
    "^pipeline_async: n: an integer .* got %-?nan$", function() rn.pipeline_async(math.abs(NAN), ch, print, ch) end,
    '^pipeline_async: n: an integer .* got "2"$', function() rn.pipeline_async("2", ch, print, ch) end,
    "^pipeline_async: to: a channel expected, got a number$", function() rn.pipeline_async(1, 42, print, ch) end,
    "^pipeline_async: af: a function expected, got nothing; call it as rn.pipeline_async%(",
    function() rn.pipeline_async(1, ch, nil, ch) end,
    "^pipeline_async: from: a channel expected, got nothing$", function() rn.pipeline_async(1, ch, print) end,
    "^pipeline_async: unknown option \"windows\"; known: ex_handler, window$",
    function() rn.pipeline_async(1, ch, print, ch, true, { windows = 2 }) end,
    "^pipeline_async: window: an integer of at least 3 expected, got 2$",
    function() rn.pipeline_async(3, ch, print, ch, true, { window = 2 }) end,
    "^pipeline_async_unordered: n: an integer of at least 1 expected, got %-1$",
    function() rn.pipeline_async_unordered(-1, ch, print, ch) end,
    "^pipeline: transducer: a function expected, got a table; call it as rn.pipeline%(n, to, xf, from%)$",
    function() rn.pipeline(1, ch, {}, ch) end,
    "^pipe: to: a channel expected, got nothing$", function() rn.pipe(ch) end,
    "^merge: channels: element 2 is not a channel but a number$", function() rn.merge { ch, 42 } end,
    "^into: list: a table expected, got nothing$", function() rn.into(nil, ch) end,
    "^onto_chan: a list or an iterator function expected, got a number$", function() rn.onto_chan(ch, 42) end,
    "^to_chan: a list or an iterator function expected, got ", function() rn.to_chan() end,
  })

  it("one put, or take, too many", within(function()
    for i = 1, 1024 do ch:put_async(i) end
    local puts = "^chan: jobs: 1024 puts wait, which is the limit; give the channel a buffer; if the puts come from a "
      .. "callback, a windowed one %(sliding_buffer, dropping_buffer%)$"
    raises(puts, function() ch:put(1025) end)
    raises(puts, function() ch:put_async(1025) end)
    raises(puts, function() ch:put_async(1025, print, false) end)
    raises(puts, function() rn.alts { { ch, 1025 } } end)
    raises(puts, function() rn.alt { { { ch, 1025 }, print } } end)
    for i = 1, 1024 do assert.equal(i, (ch:take())) end

    for _ = 1, 1024 do ch:take_async(function() end) end
    local takes = "^chan: jobs: 1024 takes wait, which is the limit; give each taker a channel of its own %(mult%), "
      .. "or let fewer go blocks take$"
    raises(takes, function() ch:take() end)
    raises(takes, function() ch:take_async(print) end)
    raises(takes, function() rn.alts { ch } end)
    raises(takes, function() rn.alt { { ch, print } } end)
    ch:close()
  end))

  it("a put on the result channel of a go block", within(function()
    local result = rn.go(rn.sleep, 5)
    local pattern = "^put: this is the result channel of a go block, and only the go block puts on it; "
    raises(pattern, function() result:put(1) end)
    raises(pattern, function() result:offer(1) end)
    raises(pattern, function() result:put_async(1) end)
    stage.assert_no_waiters(result)
    result:take()
  end))
end)

describe("waiting is impossible", function()
  local INSTEAD = ".*use offer or poll, or put_async or take_async, or do it in a go block of its own %(rn%.go%)$"

  before_each(function() ch = rn.chan():name "jobs" end)

  -- All that waits, called where `inside` calls its argument, is refused with a message about `where`.
  local function refuse(where, inside)
    local list = {
      "take", function() ch:take() end, "take", function() ch() end, "put", function() ch:put(1) end,
      "alts", function() rn.alts { ch, { ch, 1 } } end, "alt", function() rn.alt { { ch, print } } end,
      "sleep", function() rn.sleep(1) end, "yield", function() rn.yield() end,
    }
    for i = 1, #list, 2 do
      local pattern = ("^%s would have to wait, which is impossible %s.*: %s"):format(list[i], where, INSTEAD)
      inside(function() raises(pattern, list[i + 1]) end)
    end
    stage.assert_no_waiters(ch)
  end

  it("inside a coroutine of one's own within a go block", within(function()
    refuse("inside a coroutine of your own within a go block: only the go block itself can park", function(f)
      local co = coroutine.create(f)
      assert(coroutine.resume(co))
      assert.equal("dead", coroutine.status(co))
    end)
    refuse("inside a coroutine of your own", function(f) coroutine.wrap(f)() end)
    refuse("inside a coroutine of your own", function(f)
      coroutine.wrap(function() coroutine.wrap(f)() end)()
    end)
  end))

  it("inside table.sort's comparator", within(function()
    local where = "across a C call %(a metamethod, table.sort, string.gsub, or another C function that called back%)"
    refuse(where, function(f)
      local once
      table.sort({ 3, 1, 2 }, function(a, b)
        if not once then
          once = true
          f()
        end
        return a < b
      end)
      assert.is_true(once)
    end)
  end))

  it("inside string.gsub and a __gc", within(function()
    refuse("across a C call", function(f) string.gsub("x", "x", function() f() end) end)
    local done
    refuse("across a C call", function(f)
      local ok, err
      setmetatable({}, { __gc = function()
        ok, err = pcall(f)
        done = true
      end })
      repeat collectgarbage() until done
      done = false
      assert(ok, err)
    end)
  end))

  it("inside metamethods that Lua itself calls it is possible", within(function()
    local object = setmetatable({}, {
      __index = function() return ch:take() end,
      __add = function() return (rn.alts { ch }) end,
      __call = function() return ch:take() end,
      __concat = function() return ch:take() end,
    })
    for _, f in ipairs {
      function() return object.field end, function() return object + 1 end, function() return object() end,
      function() return object .. "" end, function() return select(2, pcall(ch.take, ch)) end,
    } do
      local result = rn.go(f)
      settle()
      ch:put "value"
      assert.equal("value", (result:take()))
    end
  end))

  it("inside callbacks, transducers, handlers and policies", within(function()
    refuse("inside a callback", function(f) rn.promise_chan():put_async(1, f) end)
    refuse("inside a callback", function(f)
      local other = rn.chan()
      other:take_async(f)
      other:put(1)
      settle()
    end)
    refuse("inside a transducer", function(f)
      rn.chan(1, function(rf)
        return function(...)
          if select("#", ...) == 2 then f() end
          return rf(...)
        end
      end):put(1)
    end)
    refuse("inside an exception handler", function(f)
      rn.chan(1, function() return error end, function() f() end):put(1)
    end)
    refuse("inside a buffer policy", function(f)
      rn.chan(policy.queue(1, { full = function() f() end })):put(1)
    end)
    refuse("inside a buffer policy", function(f)
      rn.chan(policy.queue(1, { close = function() f() end })):close()
    end)
    local previous
    refuse("inside an error handler", function(f)
      local failed
      previous = rn.on_error(function() failed = select(2, pcall(f)) end)
      rn.promise_chan():put_async(1, error)
      rn.on_error(previous)
      assert.is_nil(failed)
    end)
  end))

  it("not, in a coroutine of one's own outside any go block", function()
    local got
    rn.go(function() ch:put "value" end)
    coroutine.wrap(function() got = ch:take() end)()
    assert.equal("value", got)
    rn.run()
    local ok, err = coroutine.resume(coroutine.create(function() ch:take() end))
    assert.is_false(ok)
    assert.matches("^.-bad_input_spec.lua:%d+: deadlock: take on chan: jobs would wait for ever", err)
    stage.assert_no_waiters(ch)
  end)
end)
