-- Numbers in the documents that no snippet there shows: each is checked here, and must still be in the documents.

local rn = require "runnel"
local json = require "runnel.json"
local pages = require "spec.support.docs.pages"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"

local text = {}
for _, dir in ipairs { "docs", "docs/manual" } do
  for _, path in ipairs(pages.of(dir)) do text[#text + 1] = pages.read(path) end
end
local documents = table.concat(text, " "):gsub("%s+", " ")

-- A test of what the documents say in these words.
local function claim(words, f)
  it(words, function()
    assert.is_truthy(documents:find(words, 1, true), "no document says this any more")
    f()
  end)
end

-- A value in n tables, one in the other.
local function nested(n)
  local value = {}
  for _ = 2, n do value = { value } end
  return value
end

-- The time between each two calls of f, in virtual ms.
local function pauses(f)
  return sim.run(function()
    local times, list = {}, {}
    f(function() times[#times + 1] = sim.elapsed() end)
    for i = 2, #times do list[i - 1] = times[i] - times[i - 1] end
    return list
  end)
end

describe("the documents say", function()
  claim("At most 1024 puts and 1024 takes may wait on one channel.", function()
    local ch, other = rn.chan(), rn.chan()
    for i = 1, 1024 do
      rn.go(function() ch:put(i) end)
      rn.go(function() other:take() end)
    end
    rn.yield()
    rn.run(function()
      raises("1024 puts wait", function() ch:put(0) end)
      raises("1024 takes wait", function() other:take() end)
    end)
    for i = 1, 1024 do assert.equal(i, ch:poll()) end
    assert.is_nil(ch:poll())
    other:close()
  end)

  claim("100,000 polls in vain are an error", function()
    local ch, count = rn.chan(), 0
    local ok, err = pcall(rn.run, function()
      while true do
        ch:poll()
        count = count + 1
      end
    end)
    assert.is_false(ok)
    assert.matches("100000 times", err)
    assert.equal(99999, count)
  end)

  claim("A timeout closes at most 10 ms late", function()
    sim.run(function()
      for i = 1, 200 do
        rn.timeout(100 + i % 9)
        local began = sim.elapsed()
        rn.timeout(95):take()
        local took = sim.elapsed() - began
        assert.is_true(took >= 95 and took < 105 + 1e-6, took)
      end
    end)
  end)

  -- How many of 128 jobs run on average if one in a hundred takes 20 ms and the others take 1 ms.
  local function average(window)
    return sim.run(function()
      local running, area, last, list = 0, 0, 0, {}
      local function change(by)
        area, last = area + running * (sim.elapsed() - last), sim.elapsed()
        running = running + by
      end
      for i = 1, 20000 do list[i] = i end
      local results = rn.pmap(128, function(i)
        change(1)
        rn.sleep(math.random(100) == 1 and 20 or 1)
        change(-1)
        return i
      end, list, { window = window })
      for _ in results do end
      return area / sim.elapsed()
    end)
  end

  claim("113 jobs run on average; with a window of 128, 14.", function()
    local all, few = average(nil), average(128)
    assert.is_true(all > 111 and all < 115, all)
    assert.is_true(few > 13 and few < 15, few)
  end)

  claim("twice as long each time, up to a minute; of that a random part between the half and the whole", function()
    local list = pauses(function(called)
      pcall(rn.retry, function()
        called()
        error "no"
      end, { tries = 14, backoff = 100 })
    end)
    assert.equal(13, #list)
    for i, ms in ipairs(list) do
      local whole = math.min(100 * 2 ^ (i - 1), 60000)
      assert.is_true(ms >= whole / 2 - 1e-6 and ms <= whole + 1e-6, ("pause %d is %g ms"):format(i, ms))
    end
  end)

  claim("That happens 5 s after the error", function()
    sim.run(function()
      local at
      local before = rn.on_error(function() at = sim.elapsed() end)
      rn.go(function() error "not taken" end)
      rn.sleep(20000)
      rn.on_error(before)
      assert.equal(5000, at)
    end)
  end)

  claim("A name in a traceback is cut after 200 bytes.", function()
    local longest = 0
    sim.run(function()
      local before = rn.on_error(function(_, traceback)
        for name in traceback:gmatch "x+" do longest = math.max(longest, #name) end
      end)
      local name = ("x"):rep(300)
      rn.go(assert(load(("local t = {} function t.%s() error 'no' end t.%s() return 1"):format(name, name), "=t")))
      rn.sleep(20000)
      rn.on_error(before)
    end)
    assert.equal(200, longest)
  end)

  claim("dies of the error after 1000 times, which no `pcall` catches", function()
    local rounds = 0
    local endless = rn.go(function()
      while true do
        pcall(rn.sleep, 1)
        rounds = rounds + 1
      end
    end)
    rn.yield()
    rn.cancel(endless, "stop")
    assert.same({ nil, "stop" }, { endless:take() })
    assert.equal(1000, rounds)
  end)

  claim("Tables can be nested 100 deep", function()
    local ch = rn.shared_chan(1)
    assert.is_true(ch:put(nested(100)))
    ch:take()
    raises("nested more than 100 deep", function() ch:put(nested(101)) end)
  end)

  claim("arrays and objects nested more than 100 deep", function()
    assert.is_table(json.decode(("["):rep(100) .. ("]"):rep(100)))
    assert.is_nil((json.decode(("["):rep(101) .. ("]"):rep(101))))
    assert.is_string(json.encode(nested(100)))
    assert.is_nil((json.encode(nested(101))))
  end)

  claim("a yield, a sleep or a timeout of 0 ms counts 5 times", function()
    local function rounds(f)
      local n = 0
      assert.is_false(pcall(sim.run, function()
        while true do
          f()
          n = n + 1
        end
      end))
      return n
    end
    assert.equal(1999999, rounds(rn.yield)) -- of 10 million steps
  end)

  claim("let others run after at most 128 values", function()
    local from, to = rn.chan(1000), rn.chan(1000)
    for i = 1, 1000 do from:offer(i) end
    rn.pipe(from, to)
    local before, most = 0, 0
    for _ = 1, 20 do
      rn.yield()
      before, most = #to, math.max(most, #to - before)
    end
    assert.is_true(most > 0 and most <= 128, most)
  end)

  claim("No window of `ms`, wherever it begins, has more than `n` values.", function()
    local list = pauses(function(called)
      local numbers = {}
      for i = 1, 30 do numbers[i] = i end
      for _ in rn.rate(rn.to_chan(numbers), 3, 100) do called() end
    end)
    for i = 1, #list - 2 do assert.is_true(list[i] + list[i + 1] + list[i + 2] >= 100) end
  end)

end)

local has_luv, uv = pcall(require, "runnel.uv")
local http = require "runnel.http"

describe("the documents say of processes and servers", function()
  if not has_luv then return pending "luv is not installed" end

  claim("of more than 64 KB only about the last 64 KB are kept", function()
    for size, least in pairs { [300000] = 64 * 1024, [60000] = 60000 } do
      local p = uv.spawn { "sh", "-c", ("head -c %d /dev/zero; printf END"):format(size) }
      p.exit:take()
      local pieces = {}
      for piece in p.stdout do pieces[#pieces + 1] = piece end
      local kept, _, err = table.concat(pieces), p.stdout:take()
      assert.equal("END", kept:sub(-3))
      assert.is_true(#kept >= least and #kept < 2 * 64 * 1024, #kept)
      if size > 64 * 1024 then assert.matches("bytes of stdout were dropped", err) else assert.is_nil(err) end
    end
  end)

  -- The status line of the answer to a text.
  local function answer(server, request)
    local conn = assert(uv.connect("127.0.0.1", server.port))
    conn:write(request)
    local line = conn:lines():take()
    conn:close()
    return line
  end

  claim("chunk extensions may have 4 KB, and trailers 8 KB", function()
    local server <close> = assert(http.serve(0, function(req) return 200, nil, req:body() end))
    local function chunked(extension, trailer)
      local body = ("3;a=%s\r\nabc\r\n0\r\nX: %s\r\n\r\n"):format(("x"):rep(extension), ("x"):rep(trailer))
      return answer(server, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" .. body)
    end
    assert.matches(" 200 ", chunked(4000, 8000))
    assert.matches(" 400 ", chunked(5000, 10))
    assert.matches(" 400 ", chunked(10, 9000))
  end)

  claim("the next 64 get status 503 with `Retry-After: 1`; further ones are closed", function()
    local server <close> = assert(http.serve(0, function() return 200 end, { max_connections = 2 }))
    local conns, refused = {}, 0
    for i = 1, 72 do
      conns[i] = assert(uv.connect("127.0.0.1", server.port))
      conns[i]:write(i <= 2 and "GET / HT" or "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    end
    for i = 3, 72 do
      local response = conns[i]:read():take()
      if response and response:find " 503 " then
        assert.matches("\r\nRetry%-After: 1\r\n", response)
        refused = refused + 1
      end
    end
    assert.is_true(refused >= 64, refused) -- one that has read its response makes room for another one
    for _, conn in ipairs(conns) do conn:close() end
  end)

  claim("there may be 100 headers", function()
    local server <close> = assert(http.serve(0, function() return 200 end))
    local function with(n)
      return answer(server, "GET / HTTP/1.1\r\nHost: x\r\n" .. ("X: 1\r\n"):rep(n - 1) .. "\r\n")
    end
    assert.matches(" 200 ", with(100))
    assert.matches(" 431 ", with(101))
  end)
end)
