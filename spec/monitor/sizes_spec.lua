-- runnel.monitor without a browser: what the server sends of programs of any size is what a model of them says.

local monitored = require "spec.support.monitored"

-- A program of random go blocks with names of their own, each of which puts one value, takes one or sleeps. Two equal
-- seeds choose the same.
local PROGRAM = [[
  local m = listen(0)
  math.randomseed(%d)
  local n, chans = %d, {}
  for c = 1, %d do chans[c] = rn.chan(c %% 3 + 1):name("work " .. c) end
  for i = 1, n do
    local role, ch = math.random(3), chans[math.random(#chans)]
    rn.go(function()
      rn.rename((role == 1 and "putter " or role == 2 and "taker " or "sleeper ") .. i)
      if role == 1 then ch:put(i) elseif role == 2 then ch:take() else rn.sleep(1e7) end
    end)
  end
  while not told() do rn.sleep(20) end
  return #chans
]]

-- What such a program does: how many go blocks of each role stay, and each channel's numbers.
local function expect(seed, n, nchans)
  math.randomseed(seed)
  local gos, chans = { putter = 0, taker = 0, sleeper = 0 }, {}
  for c = 1, nchans do chans[c] = { limit = c % 3 + 1, puts = 0, takes = 0, count = 0, nputs = 0, ntakes = 0 } end
  for _ = 1, n do
    local role, ch = math.random(3), chans[math.random(nchans)]
    if role == 1 and ch.ntakes > 0 then
      ch.puts, ch.takes, ch.ntakes = ch.puts + 1, ch.takes + 1, ch.ntakes - 1
    elseif role == 1 and ch.count < ch.limit then
      ch.puts, ch.count = ch.puts + 1, ch.count + 1
    elseif role == 1 then
      ch.nputs = ch.nputs + 1
    elseif role == 2 and ch.count > 0 then
      local moves = math.min(1, ch.nputs)
      ch.takes, ch.puts, ch.nputs, ch.count = ch.takes + 1, ch.puts + moves, ch.nputs - moves, ch.count - 1 + moves
    elseif role == 2 then
      ch.ntakes = ch.ntakes + 1
    else
      gos.sleeper = gos.sleeper + 1
    end
  end
  local sum = { limit = 0, puts = 0, takes = 0, count = 0, nputs = 0, ntakes = 0, n = nchans }
  for _, ch in ipairs(chans) do
    for key, value in pairs(ch) do sum[key] = sum[key] + value end
  end
  gos.putter, gos.taker = sum.nputs, sum.ntakes
  return gos, chans, sum
end

-- The same from the rows of the server.
local function read(rows, texts)
  local gos, chans = { putter = 0, taker = 0, sleeper = 0 }, {}
  local sum = { limit = 0, puts = 0, takes = 0, count = 0, nputs = 0, ntakes = 0, n = 0 }
  for _, row in pairs(rows[2]) do
    local role = texts[row[3]]:match "^(%a+) [%d#]+$"
    if role then gos[role] = gos[role] + row[10] end
  end
  for id, row in pairs(rows[0]) do
    local name, fill = texts[row[3]]:match "^work ([%d#]+)$", rows[1][id]
    if name then
      local ch = { limit = row[5], puts = fill[3], takes = fill[4], count = fill[5], nputs = fill[6], ntakes = fill[7] }
      for key, value in pairs(ch) do sum[key] = sum[key] + value end
      sum.n = sum.n + row[7]
      chans[tonumber(name) or name] = ch
    end
  end
  return gos, chans, sum
end

describe("runnel.monitor shows what is true", function()
  local start, stop = monitored.starter()
  after_each(stop)

  for _, size in ipairs { { 10, 3 }, { 1000, 50 }, { 1000, 1200 }, { 100000, 800 }, { 100000, 5000 } } do
    local n, nchans = table.unpack(size)
    it(("of %d go blocks with names of their own and %d channels #ci"):format(n, nchans), function()
      local seed = os.time() * 10 + nchans
      local gos, chans, sum = expect(seed, n, nchans)
      local p = start(PROGRAM:format(seed, n, nchans), 500)
      local stay = gos.putter + gos.taker + gos.sleeper
      local text = p:events_until(('"gos":%d,.*"puts":%d,.*"d":\\[.*\\]}$'):format(stay, sum.puts))
      local list = monitored.messages(text)
      local rows, texts = monitored.rows_of(list)
      local real_gos, real_chans, real_sum = read(rows, texts)
      local told = "seed " .. seed
      assert.same(gos, real_gos, told)
      assert.same(sum, real_sum, told)
      if nchans <= 1000 then assert.same(chans, real_chans, told) end
      for line in text:gmatch "data: [^\n]+" do assert.is_true(#line < 260 * 1024, #line .. " bytes") end
      for _, message in ipairs(list) do -- the first picture
        if message.at then
          assert.is_nil(message.cut, told)
          break
        end
      end
      assert.same({ 0, 0 }, { list[#list].more, list[#list].more_chans })
    end)
  end

  -- The names of go blocks and of channels in the rows, each with how many it stands for.
  local function names_of(rows, texts)
    local gos, chans = {}, {}
    for _, row in pairs(rows[2]) do gos[texts[row[3]]] = (gos[texts[row[3]]] or 0) + row[10] end
    for _, row in pairs(rows[0]) do chans[texts[row[3]]] = (chans[texts[row[3]]] or 0) + row[7] end
    return gos, chans
  end

  it("fold names that differ in digits, but not those of flows and of files #ci", function()
    local p = start [[
      local m = listen(0)
      local parked = 0
      local function waiter(name, ch)
        rn.go(function()
          rn.rename(name)
          parked = parked + 1
          ch:take()
        end)
      end
      local chans = {}
      for i = 1, 600 do chans[i] = rn.chan():name("job " .. i) end
      for i = 1, 200 do
        for _, stage in ipairs { "a", "b", "c" } do chans[#chans + 1] = rn.chan():name(("f%d.%s"):format(i, stage)) end
      end
      for i = 1, 300 do waiter("worker " .. i, chans[i]) end
      for i = 601, 720 do waiter(chans[i]:stats().name .. " at flows30.lua:5", chans[i]) end
      waiter("pipe at job2.lua:12 -> chan: out 3", chans[1])
      waiter("pipe at job2.lua:12 -> chan: out 4", chans[2])
      waiter("job3.lua:7", chans[3])
      waiter("host 10.0.0.1:8080 9", chans[4])
      while parked < 424 do rn.yield() end
      waiter("the last one", chans[5]) -- all others have their names
      rn.sleep(600000)]]
    local list = monitored.messages(p:events_until '"gos":425,.*"d":\\[.*\\]}$')
    local gos, chans = names_of(monitored.rows_of(list))
    assert.equal(300, gos["worker #"])
    assert.same({ 1, 1, 2, 1, 1 }, { gos["f1.a at flows30.lua:5"], gos["f40.c at flows30.lua:5"],
      gos["pipe at job2.lua:12 -> chan: out #"], gos["job3.lua:7"], gos["host 10.0.0.1:8080 #"] })
    assert.equal(600, chans["job #"])
    assert.same({ 1, 1 }, { chans["f1.a"], chans["f40.c"] })
    assert.equal(160, chans["f#.a"]) -- nobody is known to be their stage
  end)

  it("in parts, if the texts are long, and takes no new picture before the page has the last", function()
    local p = start([[
      local m = listen(0)
      local chans = {}
      for i = 1, 300 do
        chans[i] = rn.chan(1):name(('"'):rep(190) .. i) -- six bytes in JSON for one
        rn.go(function() while true do chans[i]:put(1) chans[i]:take() rn.sleep(5) end end)
      end
      rn.sleep(600000)
    ]], 500)
    local list = monitored.messages(p:events_until '"gos":300,.*"d":\\[.*\\]}$')
    local parts = 0
    for i = 1, #list - 1 do
      if list[i].cut then
        parts = parts + 1
        assert.equal(list[i].at, list[i + 1].at)
      end
    end
    assert.is_true(parts >= 1, parts .. " parts")
    local rows = monitored.rows_of(list)
    local n = 0
    for id in pairs(rows[0]) do n = n + (rows[1][id] and 1 or 0) end
    assert.equal(300, n)
  end)
end)
