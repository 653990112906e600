-- runnel.monitor without a browser: what the server sends of the program.

local monitored = require "spec.support.monitored"

describe("runnel.monitor", function()
  local start, stop = monitored.starter()
  after_each(stop)

  it("sends go blocks and channels, and then what has changed", function()
    local p = start([[
      local m = listen(0)
      local jobs, idle = rn.chan(3):name "jobs", rn.chan():name "idle"
      rn.go(function() rn.rename "feeder" for i = 1, 1000 do jobs:put(i) end end)
      rn.go(function() rn.rename "idler" idle:take() end)
      rn.go(function() rn.rename "worker" for _ in jobs do rn.sleep(10) end end)
      rn.sleep(600000)
    ]], 500)
    local list = monitored.messages(p:events(4))
    local rows, texts = monitored.rows_of(list)
    local chans, gos = {}, {}
    for id, row in pairs(rows[0]) do chans[texts[row[3]]] = id end
    for _, row in pairs(rows[2]) do gos[texts[row[3]]] = row end
    assert.is_truthy(chans.jobs)
    assert.is_truthy(chans.idle)
    assert.equal(3, rows[0][chans.jobs][5])
    local fill = rows[1][chans.jobs]
    assert.is_true(fill[3] > 4 and fill[3] - fill[4] <= 3)
    assert.same({ 3, 1 }, { fill[5], fill[6] })
    assert.same({ 1, 2, chans.jobs }, table.move(gos.feeder, 5, 7, 1, {}))
    assert.same({ 1, 1, chans.idle }, table.move(gos.idler, 5, 7, 1, {}))
    assert.is_true(list[1].reset)
    for _, row in ipairs(list[#list].u) do assert.not_equal(chans.idle, row[2]) end
    assert.same({}, list[#list].n)
  end)

  it("sends who has taken the last value, or filled the buffer, for which others wait", function()
    local p = start([[
      local m = listen(0)
      local token, place = rn.chan(1):name "token", rn.chan(1):name "place"
      local free, none = rn.chan(1):name "free", rn.chan():name "none"
      token:put(1)
      free:put(1)
      rn.go(function() rn.rename "holder" token:take() place:put(1) free:take() free:put(1) rn.sleep(600000) end)
      rn.sleep(1)
      rn.go(function() token:take() end)
      rn.go(function() place:put(1) end)
      rn.go(function() none:take() end)
      rn.sleep(600000)
    ]])
    -- On a busy machine the first pictures may be older than the go blocks that wait.
    local rows, texts = monitored.rows_of(monitored.messages(p:events(3)))
    local users, holder = {}, nil
    for id, row in pairs(rows[0]) do users[texts[row[3]]] = rows[1][id][8] end
    for _, row in pairs(rows[2]) do if texts[row[3]] == "holder" then holder = row[11] end end
    assert.same({ token = holder, place = holder, free = -1, none = -1 }, users)
  end)

  it("sends at most 128 KB a second after the first picture when 1000 channels change #slow #ci", function()
    local p = start([[
      local m = listen(0)
      local chs = {}
      for i = 1, 1000 do
        local ch = rn.chan(10):name("channel number " .. i)
        chs[i] = ch
        rn.go(function() rn.rename("reader " .. i) for _ in ch do end end)
      end
      rn.go(function()
        for n = 1, 1000 do
          for _, ch in ipairs(chs) do ch:put(n) end
          rn.sleep(20)
        end
      end)
      rn.sleep(600000)
    ]], 500)
    local text = p:events(12)
    local list = monitored.messages(text)
    local bytes, seconds = #text - #text:match "[^\n]+", (list[12].t - list[1].t) / 1000
    assert.is_true(bytes <= seconds * 128 * 1024, ("%d bytes in %.1f s"):format(bytes, seconds))
    local rows = monitored.rows_of(list)
    local n = 0
    for id in pairs(rows[0]) do
      n = n + 1
      assert.is_truthy(rows[1][id])
    end
    assert.is_true(n >= 1000, n .. " channels")
  end)

  it("folds go blocks that do the same if there are very many, and the program goes on #slow #ci", function()
    local p = start([[
      local m = listen(0)
      local done = 0
      local chs = {}
      for i = 1, 100 do chs[i] = rn.chan() end
      for i = 1, 100000 do rn.go(function() rn.rename "waiter" chs[i % 100 + 1]:take() end) end
      rn.go(function() while done < 300 or not told() do rn.sleep(10) done = done + 1 end end):take()
      print("turns: " .. done)
    ]], 500)
    local list = monitored.messages(p:events_until '"gos":100001')
    assert.equal(100001, list[#list].gos)
    local rows = monitored.rows_of(list)
    local n, folded = 0, 0
    for _, row in pairs(rows[2]) do
      n = n + 1
      folded = math.max(folded, row[10])
    end
    assert.is_true(n < 1000, n .. " rows")
    assert.is_true(folded >= 1000, folded .. " in a row")
    assert.match("turns: %d%d%d", p:finish())
  end)

  it("sends any name as a text in one line", function()
    local p = start [[
      rn.go(function() rn.rename '</script><b>"x"\\\n\r\1' rn.chan():name "a\n\ndata: {}":take() end)
      rn.yield()
      local m = listen(0)
      rn.sleep(600000)
    ]]
    local text = p:events(2)
    assert.is_nil(text:find("\ndata: {}", 1, true))
    local rows, texts = monitored.rows_of(monitored.messages(text))
    local found
    for _, row in pairs(rows[2]) do found = found or texts[row[3]] == '</script><b>"x"\\\n\r\1' end
    assert.is_true(found)
  end)

  it("sends of each channel its kind and fill, and of each go block what it waits for", function()
    local p = start [[
      local m = listen(0)
      local shared = rn.shared_chan(3):name "shared"
      shared:put(1) shared:put(2) shared:take()
      local policy = rn.chan(rn.priority_buffer(5)):name "policy"
      policy:put(1)
      local mapped = rn.chan(4, rn.xf.map(tostring)):name "mapped"
      local closed, full = rn.chan(2):name "closed", rn.chan(1):name "full"
      closed:close() full:put(1)
      rn.go(function() rn.rename "putter" full:put(2) end)
      rn.go(function() rn.rename "chooser" rn.alts { rn.chan(), rn.timeout(600000), mapped:done() } end)
      rn.go(function() rn.rename "taker" shared:take() shared:take() end)
      local trace = require("runnel.core").internal.trace
      trace.hide(rn.go(function() rn.rename "hidden" rn.chan():take() end))
      for i = 1, 100 do rn.chan(1):name("gone"):put(i) end
      collectgarbage()
      rn.run(function()
        rn.go(function() end):take()
        rn.sleep(200) -- a look that has begun before the others waited ends meanwhile
        local sign = rn.chan():name "all wait"
        rn.sleep(600000)
        sign:close()
      end)
    ]]
    local rows, texts = monitored.rows_of(monitored.messages(p:events_until '"all wait"'))
    local chans, gos = {}, {}
    for id, row in pairs(rows[0]) do
      chans[texts[row[3]]] = { limit = row[5], flags = row[6], fill = table.move(rows[1][id], 3, 7, 1, {}), id = id }
    end
    for _, row in pairs(rows[2]) do gos[texts[row[3]]] = { op = row[6], chan = row[7], chans = row[8] } end
    assert.same({ op = 0, chan = 0, chans = 0 }, gos.main) -- it waits for the go block of rn.run
    local function check(name, limit, flags, fill)
      local found = chans[name] or {}
      assert.same({ limit, flags, fill }, { found.limit, found.flags, found.fill }, name)
    end
    check("shared", 3, 0, { 2, 2, 0, 0, 1 })
    check("policy", chans.policy.limit, 0, { 1, 0, 0, 0, 0 }) -- a policy is not asked how much it holds
    check("mapped", 4, 8, { 0, 0, 0, 0, 0 })
    check("closed", 2, 1, { 0, 0, 0, 0, 0 })
    check("full", 1, 0, { 1, 0, 1, 1, 0 })
    assert.same({ op = 2, chan = chans.full.id, chans = 1 }, gos.putter)
    assert.same({ 3, 3 }, { gos.chooser.op, gos.chooser.chans })
    assert.equal(1, gos.taker.op)
    assert.is_nil(gos.hidden)
    assert.is_nil(chans.gone)
  end)

  it("takes away thousands of channels that are gone, in parts #slow", function()
    local p = start [[
      local m = listen(0)
      local chs = {}
      for i = 1, 900 do chs[i] = rn.chan(1) end
      while not told() do rn.sleep(20) end
      chs = nil
      collectgarbage()
      local stays = rn.chan(1):name "stays"
      rn.sleep(600000)
      stays:put(1)
    ]]
    local stream = p:open_stream([["chans":[0-9],.*"d":\[.*\]}$]], '"chans":900,[^\n]*%]}\n')
    p:tell() -- the page has all of them
    local list = monitored.messages(stream())
    local was_cut, gone = false, 0
    for _, message in ipairs(list) do
      was_cut = was_cut or message.cut and #message.d > 0
      gone = gone + #message.d
    end
    assert.is_true(was_cut)
    assert.is_true(gone >= 1800, gone .. " rows")
    local rows = monitored.rows_of(list)
    local n = 0
    for _ in pairs(rows[0]) do n = n + 1 end
    assert.is_true(n < 10, n .. " channels are left")
  end)

  it("sends a part of the go blocks, and how many there are besides, if thousands have names of their own", function()
    local p = start [[
      local m = listen(0)
      local chs = {}
      local function letters(i)
        return (tostring(i):gsub("%d", function(digit) return string.char(65 + digit) end))
      end
      for i = 1, 5 do chs[i] = rn.chan() end -- 1024 takes may wait on each
      for i = 1, 300 do rn.go(function() rn.rename "same" chs[i % 5 + 1]:take() end) end
      for i = 1, 4100 do rn.go(function() rn.rename(letters(i)) chs[i % 5 + 1]:take() end) end
      rn.sleep(600000)
    ]]
    local found = false
    for _ = 1, 10 do -- the first picture may have been taken while they began
      local list = monitored.messages(p:events_until '"gos":4400.*"more":36[0-9][0-9]')
      assert.equal(4100 + 2 - 500, list[#list].more) -- 4101 names and the main program have 500 rows
      local rows, texts = monitored.rows_of(list)
      for _, row in pairs(rows[2]) do
        found = found or texts[row[3]] == "same" and row[7] == 0 and row[10] == 300 -- on no single channel
      end
      if found then break end
    end
    assert.is_true(found)
  end)

  it("folds channels that are alike if there are very many, with what is put on and taken from them", function()
    local p = start [[
      local m = listen(0)
      local chs, put, fed = {}, 0, false
      for i = 1, 5000 do
        local plain, named = rn.chan(2), rn.chan(3):name("job " .. i)
        rn.go(function() rn.rename "putter" plain:put(1) plain:put(2) put = put + 1 plain:put(3) end)
        rn.go(function() rn.rename "taker" named:take() end)
        chs[i] = { plain, named }
      end
      chs[1][2]:close()
      local other = rn.chan(1):name "other"
      rn.go(function() other:take() end)
      rn.go(function() rn.rename "feeder" for i = 2, 11 do chs[i][2]:put(i) end fed = true end)
      while put < #chs or not fed do rn.sleep(1) end
      rn.sleep(20)
      local rest = rn.chan():name "all are at rest"
      while not told() do rn.sleep(20) end
    ]]
    local list = monitored.messages(p:events_until '"gos":9990.*"chans":10002.*]}$')
    p:finish()
    assert.equal(0, list[#list].more_chans)
    local rows, texts = monitored.rows_of(list)
    local found, edges = {}, {}
    for id, row in pairs(rows[0]) do
      local name = texts[row[3]]:gsub("%d+", "N")
      found[name .. (row[6] % 2 == 1 and " closed" or "")] = { row[5], row[7], table.unpack(rows[1][id], 5, 7) }
    end
    assert.same({ 10000, 5000, 10000, 5000, 0 }, found["(command line):N"])
    assert.same({ 14997, 4999, 0, 0, 4989 }, found["job #"])
    assert.same({ 3, 1, 0, 0, 0 }, found["job # closed"])
    assert.same({ 1, 1, 0, 0, 1 }, found.other)
    for _, row in pairs(rows[3]) do
      edges[texts[row[3]] .. " " .. texts[rows[0][row[4]][3]]:gsub("%d+", "N")] = { row[5], row[6] }
    end
    assert.same({ 1, -1 }, edges["putter (command line):N"])
    assert.same({ 0, -1 }, edges["taker job #"])
    assert.same({ 1, -1 }, edges["feeder job #"])
    for _, row in pairs(rows[2]) do
      if texts[row[3]] == "putter" then assert.same({ 2, 5000 }, { row[6], row[10] }) end
    end
  end)

  it("sends a part of the channels, and how many there are besides, if thousands have names of their own", function()
    local p = start [[
      local m = listen(0)
      local chs = {}
      for i = 1, 4100 do
        local name = tostring(i):gsub("%d", function(digit) return string.char(65 + digit) end)
        chs[i] = rn.chan(1):name(name)
      end
      rn.sleep(600000)
      chs[1]:put(1)
    ]]
    local list = monitored.messages(p:events_until '"chans":4100.*"more_chans":[1-9]')
    assert.equal(3100, list[#list].more_chans)
  end)

  it("tells with a picture the longest turn before it, what ran then, and the leaks so far", function()
    local p = start [[
      local m = listen(0)
      rn.metrics()
      rn.go(function()
        rn.rename "hog"
        while true do
          local t = os.clock()
          repeat until os.clock() - t > 0.4
          rn.sleep(1)
        end
      end)
      for _ = 1, 3 do rn.go(function() rn.chan():take() end) end
      rn.sleep(1)
      for _ = 1, 8 do collectgarbage() rn.sleep(1) end
      rn.sleep(600000)]]
    local list = monitored.messages(p:events_until '"leaks":3,.*"ran":"hog"')
    local last = list[#list]
    assert.is_true(last.turn >= 100, last.turn)
    assert.same({ 3, "hog" }, { last.leaks, last.ran })
  end)

  it("says that the program has ended, and what is known of why #ci", function()
    for text, why in pairs {
      [""] = "",
      ["m:close()"] = "the program has closed its monitor",
      ["do local m <close> = m end"] = "the program has closed its monitor",
      ["pcall(function() local _ <close> = m error('no job', 0) end)"] =
        "an error has closed the program's monitor: no job",
    } do
      local p = start("local m = listen(0) while not told() do rn.sleep(20) end " .. text)
      local stream = p:open_stream "never there"
      p:tell()
      assert.equal(why, stream():match 'event: ended\ndata: {"why":"(.-)"}\n\n$', text)
      stop()
    end
  end)

end)
