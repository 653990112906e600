-- runnel.monitor without a browser: what the server answers, and what it sends. tests/browser has the page.

local rn = require "runnel"
local json = require "dkjson"
local monitored = require "spec.support.monitored"
local shell = require "spec.support.shell"

it("says what to install if the C module is missing", function()
  local core = (package.searchpath("runnel.core", package.cpath))
  local text = ([[package.preload["runnel.core"] = package.loadlib(%q, "luaopen_runnel_core")
    package.cpath = "/none/?.so"
    print(select(2, pcall(require, "runnel.monitor")))]]):format(core)
  local out = shell.run(("lua -e '%s'"):format(text:gsub("'", "'\\''")))
  assert.match("libmicrohttpd%-dev", out)
  assert.match("runnel%.monitor%.core", out)
end)

local has_monitor, monitor = pcall(require, "runnel.monitor")
if not has_monitor then
  describe("runnel.monitor", function() pending "libmicrohttpd is not installed" end)
  return
end

-- The messages of a stream's text, decoded; without the {} of its end.
local function messages(text)
  local list = {}
  for line in text:gmatch "data: ({\".-})\n" do list[#list + 1] = assert(json.decode(line)) end
  return list
end

-- The newest rows of some messages, by kind: 0 channels, 1 fills, 2 go blocks, 3 edges; and the texts.
local function rows_of(list)
  local rows, texts = { [0] = {}, {}, {}, {} }, {}
  for _, message in ipairs(list) do
    for _, text in ipairs(message.n) do texts[text[1]] = text[2] end
    for _, row in ipairs(message.u) do rows[row[1]][row[2]] = row end
    for _, gone in ipairs(message.d or {}) do rows[gone[1]][gone[2]] = nil end
  end
  return rows, texts
end

describe("runnel.monitor", function()
  local program
  after_each(function()
    if program then program:close() end
    program = nil
  end)

  local function start(text) program = monitored.start(text) return program end

  -- ---- who may ask ----

  it("serves the page with the token, and nothing without it", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    assert.equal(200, (p:get "/?"))
    assert.equal(200, (p:get "/monitor.js"))
    for what, status in pairs {
      ["GET / HTTP/1.1"] = 403,
      ["GET /?token=0123456789abcdef0123456789abcdef HTTP/1.1"] = 403,
      ["GET /events HTTP/1.1"] = 403,
      ["POST /values HTTP/1.1\nContent-Length: 0"] = 403,
      ["GET /../../etc/passwd HTTP/1.1"] = 404,
      ["PUT / HTTP/1.1"] = 405,
    } do
      assert.equal(status, (monitored.request(p.port, what)), what)
    end
  end)

  it("refuses requests that other sites make the browser send, by the headers Host and Origin", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    for headers, status in pairs {
      ["Host: evil.example"] = 403,
      ["Host: 127.0.0.1:1"] = 403,
      ["Host: 127.0.0.1"] = 403,
      [("Host: localhost:%d"):format(p.port)] = 200,
      [("Host: 127.0.0.1:%d\nOrigin: http://evil.example"):format(p.port)] = 403,
      [("Host: 127.0.0.1:%d\nOrigin: null"):format(p.port)] = 403,
      [("Host: 127.0.0.1:%d\nOrigin: https://127.0.0.1:%d"):format(p.port, p.port)] = 403,
      [("Host: 127.0.0.1:%d\nOrigin: evil://127.0.0.1:%d"):format(p.port, p.port)] = 403, -- as long as http://
      [("Host: 127.0.0.1:%d\nOrigin: http://127.0.0.1:%d"):format(p.port, p.port)] = 200,
    } do
      assert.equal(status, (p:get("/?", headers)), headers)
    end
    local no_host = ("GET /?token=%s HTTP/1.0"):format(p.token)
    assert.equal(403, (monitored.request(p.port, no_host)))
    assert.equal(200, (monitored.request(p.port, no_host .. "\nHost: 127.0.0.1:" .. p.port)))
  end)

  it("refuses commands and streams of other sites, too, and a token that is nearly right", function()
    local p = start "local m = listen(0, { control = true }) rn.sleep(600000)"
    for _, headers in ipairs {
      ("Host: 127.0.0.1:%d\nOrigin: http://evil.example"):format(p.port),
      "Host: evil.example:" .. p.port,
    } do
      assert.equal(403, (p:post("/kill?", "id=1", headers)), headers)
      assert.equal(403, (p:get("/events?", headers)), headers)
      assert.equal(403, (p:get("/monitor.js", headers)), headers)
    end
    local last = p.token:sub(-1) == "0" and "1" or "0"
    for _, token in ipairs { p.token:sub(1, -2) .. last, p.token:sub(1, -2), p.token .. "0", "" } do
      assert.equal(403, (monitored.request(p.port, ("GET /?token=%s HTTP/1.1"):format(token))), token)
      assert.equal(403, (monitored.request(p.port, ("POST /kill?token=%s HTTP/1.1"):format(token), "id=1")), token)
    end
    assert.equal(202, (p:post("/kill?", "id=1")))
  end)

  it("answers though other users of the machine hold connections without the token, and closes these", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    local script = ([[
      for i in {1..100}; do exec {fd}<>/dev/tcp/127.0.0.1/%d && fds="$fds $fd"; done
      for fd in $fds; do printf "GET / HTTP/1.1\\r\\n" >&$fd; done
      echo held
      for fd in $fds; do read -t 20 -u $fd; echo $?; done]]):format(p.port) -- 1: it is closed
    local holding <close> = assert(io.popen(("bash -c '%s' 2>/dev/null"):format(script)))
    assert.equal("held", holding:read())
    assert.equal(200, (p:get "/?"))
    assert.equal(("1\n"):rep(100), holding:read "a")
  end)

  it("has no text of the program in the page itself", function()
    local p = start [[local m = listen(0, { program = "<b>title</b>" }) rn.sleep(600000)]]
    local _, page = p:get "/?"
    assert.is_nil(page:find("title</b>", 1, true))
    local list = messages(p:events(1))
    assert.equal("<b>title</b>", list[1].hello.program)
  end)

  it("lets the page run no script but its own, and names the licences of the libraries in it", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    local _, page = p:get "/?"
    assert.match("Content%-Security%-Policy: default%-src 'none'; script%-src 'self'", page)
    assert.match("Referrer%-Policy: no%-referrer", page)
    local _, licences = p:get "/licenses.txt"
    for _, name in ipairs { "uplot 1%.6%.32", "dagre 3%.1%.3", "htm 3%.1%.1", "preact 10%." } do
      assert.match("==== " .. name, licences)
    end
  end)

  -- ---- what it sends ----

  it("sends go blocks and channels, and then what has changed", function()
    local p = start [[
      local m = listen(0)
      local jobs, idle = rn.chan(3):name "jobs", rn.chan():name "idle"
      rn.go(function() rn.rename "feeder" for i = 1, 1000 do jobs:put(i) end end)
      rn.go(function() rn.rename "idler" idle:take() end)
      rn.go(function() rn.rename "worker" for _ in jobs do rn.sleep(10) end end)
      rn.sleep(600000)
    ]]
    local list = messages(p:events(4))
    local rows, texts = rows_of(list)
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

  it("sends at most 64 KB a second when 1000 channels change, and all of them in turn #slow", function()
    local p = start [[
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
    ]]
    local text = p:events(12)
    local list = messages(text)
    local bytes, seconds = #text - #text:match "[^\n]+", (list[12].t - list[1].t) / 1000
    assert.is_true(bytes <= seconds * 64 * 1024, ("%d bytes in %.1f s"):format(bytes, seconds))
    local rows = rows_of(list)
    local n = 0
    for id in pairs(rows[0]) do
      n = n + 1
      assert.is_truthy(rows[1][id])
    end
    assert.is_true(n >= 1000, n .. " channels")
  end)

  it("folds go blocks that do the same if there are very many, and the program goes on #slow", function()
    local p = start [[
      local m = listen(0)
      local done = 0
      local chs = {}
      for i = 1, 100 do chs[i] = rn.chan() end
      for i = 1, 100000 do rn.go(function() rn.rename "waiter" chs[i % 100 + 1]:take() end) end
      rn.go(function() while done < 300 or not told() do rn.sleep(10) done = done + 1 end end):take()
      print("turns: " .. done)
    ]]
    local list = messages(p:events_until '"gos":100001')
    assert.equal(100001, list[#list].gos)
    local rows = rows_of(list)
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
      local m = listen(0)
      rn.go(function() rn.rename '</script><b>"x"\\\n\r\1' rn.chan():name "a\n\ndata: {}":take() end)
      rn.sleep(600000)
    ]]
    local text = p:events(2)
    assert.is_nil(text:find("\ndata: {}", 1, true))
    local rows, texts = rows_of(messages(text))
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
        rn.sleep(600000)
      end)
    ]]
    local rows, texts = rows_of(messages(p:events(3)))
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
      for i = 1, 1500 do chs[i] = rn.chan(1) end
      while not told() do rn.sleep(20) end
      chs = nil
      collectgarbage()
      local stays = rn.chan(1):name "stays"
      rn.sleep(600000)
      stays:put(1)
    ]]
    local stream = p:open_stream([["chans":[0-9],.*"d":\[.*\]}$]], [["chans":1500,.*\]}$]])
    p:tell() -- the page has all of them
    local list = messages(stream())
    local was_cut, gone = false, 0
    for _, message in ipairs(list) do
      was_cut = was_cut or message.cut and #message.d > 0
      gone = gone + #message.d
    end
    assert.is_true(was_cut)
    assert.is_true(gone >= 1500, gone .. " rows")
    local rows = rows_of(list)
    local n = 0
    for _ in pairs(rows[0]) do n = n + 1 end
    assert.is_true(n < 10, n .. " channels are left")
  end)

  it("sends a part of the go blocks, and how many there are besides, if thousands have names of their own", function()
    local p = start [[
      local m = listen(0)
      local chs = {}
      for i = 1, 5 do chs[i] = rn.chan() end -- 1024 takes may wait on each
      for i = 1, 300 do rn.go(function() rn.rename "same" chs[i % 5 + 1]:take() end) end
      for i = 1, 4100 do rn.go(function() rn.rename("block " .. i) chs[i % 5 + 1]:take() end) end
      rn.sleep(600000)
    ]]
    local found = false
    for _ = 1, 10 do -- the first picture may have been taken while they began
      local list = messages(p:events_until '"gos":4400.*"more":10[0-9]')
      assert.equal(102, list[#list].more) -- 4101 names and the main program have 4000 rows
      local rows, texts = rows_of(list)
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
      local chs = {}
      for i = 1, 5000 do
        local plain, named = rn.chan(2), rn.chan(3):name("job " .. i)
        rn.go(function() rn.rename "putter" plain:put(1) plain:put(2) plain:put(3) end)
        rn.go(function() rn.rename "taker" named:take() end)
        chs[i] = { plain, named }
      end
      chs[1][2]:close()
      local other = rn.chan(1):name "other"
      rn.go(function() other:take() end)
      rn.go(function() rn.rename "feeder" for i = 2, 11 do chs[i][2]:put(i) end end)
      while not told() do rn.sleep(20) end
    ]]
    local list = messages(p:events_until '"gos":9990.*"chans":10001.*]}$')
    p:finish()
    assert.equal(0, list[#list].more_chans)
    local rows, texts = rows_of(list)
    local found, edges = {}, {}
    for id, row in pairs(rows[0]) do
      local name = texts[row[3]]:gsub("%d+", "N")
      found[name .. (row[6] % 2 == 1 and " closed" or "")] = { row[5], row[7], table.unpack(rows[1][id], 5) }
    end
    assert.same({ 10000, 5000, 10000, 5000, 0 }, found["(command line):N"])
    assert.same({ 14997, 4999, 0, 0, 4989 }, found["job N"])
    assert.same({ 3, 1, 0, 0, 0 }, found["job N closed"])
    assert.same({ 1, 1, 0, 0, 1 }, found.other)
    for _, row in pairs(rows[3]) do
      edges[texts[row[3]] .. " " .. texts[rows[0][row[4]][3]]:gsub("%d+", "N")] = { row[5], row[6] }
    end
    assert.same({ 1, -1 }, edges["putter (command line):N"])
    assert.same({ 0, -1 }, edges["taker job N"])
    assert.same({ 1, -1 }, edges["feeder job N"])
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
    local list = messages(p:events_until '"chans":4100.*"more_chans":[1-9]')
    assert.equal(100, list[#list].more_chans)
  end)

  it("says that the program has ended", function()
    local p = start "local m = listen(0) while not told() do rn.sleep(20) end"
    local stream = p:open_stream "never there"
    p:tell()
    assert.match("event: ended\ndata: {}\n\n$", stream())
  end)

  -- ---- while the program is busy, or does not care ----

  it("answers while a go block computes, and says for how long, and which one", function()
    local p = start [[
      local m = listen(0)
      rn.go(function()
        rn.rename "hog"
        repeat until told()
      end)
      rn.sleep(1)
      print "computed"
    ]]
    assert.equal(200, (p:get "/?"))
    local list = messages(p:events_until '"busy":[1-9][0-9][0-9]')
    assert.is_true(list[#list].busy >= 100)
    assert.equal("hog", list[#list].who)
    assert.is_true(list[#list].runs > 0)
    assert.match("computed", p:finish())
  end)

  it("says that the main program computes", function()
    local p = start "local m = listen(0) rn.sleep(1) repeat until told()"
    local list = messages(p:events_until '"busy":[1-9][0-9][0-9]')
    assert.same({ "the main program", 0 }, { list[#list].who, list[#list].runs })
  end)

  it("goes on when a browser never reads #slow", function()
    local p = start [[
      local m = listen(0)
      local chs = {}
      for i = 1, 1000 do
        local ch = rn.chan(10):name(("channel %d "):format(i):rep(12))
        chs[i] = ch
        rn.go(function() for _ in ch do end end)
      end
      while not told() do
        for _, ch in ipairs(chs) do ch:put(1) end
        rn.sleep(10)
      end
      print "done"
    ]]
    local closed = p:stream "sleep 5"
    assert.equal(4, #messages(p:events(4)))
    assert.match("done", p:finish())
    closed()
  end)

  it("does not keep a program running, and does not hide a deadlock", function()
    local p = start [[
      local m = listen(0)
      local ok, err = pcall(function() rn.chan():name "nobody":take() end)
      print(err)
    ]]
    assert.match("deadlock: take on chan: nobody", p:wait())
  end)

  it("is in no list of go blocks", function()
    local _ <close> = assert(monitor.listen())
    for _, entry in ipairs(rn.ps()) do assert.not_match("monitor", entry.name) end
  end)

  -- ---- commands ----

  local CONTROLLED = [[
    local m = listen(0, { control = %s, show = %s })
    local jobs = rn.chan(2):name "jobs"
    local block = rn.go(function() rn.rename "victim" rn.chan():take() end)
    rn.go(function() local _, err = block:take() print("killed: " .. tostring(err)) end)
    jobs:put("secret") jobs:put { 1, 2, key = "hidden" }
    rn.go(function() rn.rename "putter" jobs:put(3.5) end)
    while not told() do rn.sleep(20) end
    for _ = 1, #jobs do print("job", (jobs:take())) end
    for _ = 1, 3 do print("job", (jobs:poll())) end
  ]]

  -- The ids of the go block and the channel with these names.
  local function ids(p, go, chan)
    local rows, texts = rows_of(messages(p:events(2)))
    local go_id, chan_id
    for _, row in pairs(rows[2]) do go_id = texts[row[3]] == go and row[11] or go_id end
    for id, row in pairs(rows[0]) do chan_id = texts[row[3]] == chan and id or chan_id end
    return go_id, chan_id
  end

  -- Posts commands, which get the numbers from 1 on.
  local function post(p, ...)
    for i, command in ipairs { ... } do
      local status, answer = p:post(command[1] .. "?", command[2])
      assert.equal(202, status)
      assert.equal(tostring(i), answer:match '"number":(%d+)')
    end
  end

  it("kills a go block and puts values where control = true", function()
    local p = start(CONTROLLED:format("true", '"types"'))
    local victim, jobs = ids(p, "victim", "jobs")
    local stream = p:open_stream "seven"
    local value = "id=" .. jobs .. "&type=number&text="
    post(p, { "/kill", "id=" .. victim }, { "/kill", "id=987654" }, { "/inject", value .. "77" },
      { "/inject", value .. "seven" })
    local got = {}
    for _, message in ipairs(messages(stream())) do
      for _, result in ipairs(message.r) do got[result[1]] = result[2] and "yes" or result[3] end
    end
    assert.same({ "yes", "there is no go block #987654 any more", "yes", "not a number: seven" }, got)
    local out = p:finish()
    assert.match("killed: killed from the monitor's page", out)
    assert.match("job\t77", out)
  end)

  it("refuses both without control = true, and forms that are wrong", function()
    local p = start(CONTROLLED:format("false", '"types"'))
    assert.equal(403, (p:post("/kill?", "id=1")))
    assert.equal(403, (p:post("/inject?", "id=1&type=string&text=x")))
    assert.equal(400, (p:post("/values?", "id=1&evil=1")))
    assert.equal(400, (p:post("/values?", "id=" .. ("1"):rep(100))))
    assert.equal(404, (p:post("/load?", "text=x")))
    assert.not_match("killed: killed", p:finish())
  end)

  it("refuses forms with a zero in a field or without a type, and drops one that is not complete", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    assert.equal(400, (p:post("/values?", "id=1%00")))
    local head = ("POST /values?token=%s HTTP/1.1\nContent-Length: "):format(p.token)
    assert.equal(400, (monitored.request(p.port, head .. "0")))
    assert.is_nil((monitored.request(p.port, head .. "100\nContent-Type: application/x-www-form-urlencoded", nil, 0.5)))
    assert.equal(202, (p:post("/values?", "id=1")))
  end)

  for show, expected in pairs {
    ['"types"'] = { "string (6 bytes)", "table (3 entries)", "float" },
    ['"values"'] = { '"secret"', '{ 1, 2, "key" = "hidden" }', "3.5" },
    ['function(v) return "a " .. type(v) end'] = { "a string", "a table", "a number" },
  } do
    it("shows of values what `show` allows: " .. show, function()
      local p = start(CONTROLLED:format("false", show))
      local _, jobs = ids(p, "victim", "jobs")
      local stream = p:open_stream [["r":\[\[]]
      post(p, { "/values", "id=" .. jobs })
      local got
      for _, message in ipairs(messages(stream())) do
        for _, result in ipairs(message.r) do got = result end
      end
        assert.same({ 1, true, table.unpack(expected) }, got)
    end)
  end

  it("shows the values in a buffer, the oldest first, and then those of puts that wait", function()
    local p = start [[
      local m = listen(0, { show = "values" })
      local big = rn.chan(1000):name "big"
      for i = 1, 1000 do big:put(i) end
      for _ = 1, 990 do big:take() end
      for i = 1001, 1005 do big:put(i) end
      local long, crowded = rn.chan(30):name "long", rn.chan():name "crowded"
      for i = 1, 30 do long:put(i) end
      for i = 1, 30 do rn.go(function() crowded:put(i) end) end
      local small, unbuffered = rn.chan(2):name "small", rn.chan():name "unbuffered"
      small:put "first" small:put "second" small:take() small:put "third"
      rn.go(function() small:put "fourth" end)
      rn.go(function() unbuffered:put "waits" end)
      rn.go(function() rn.alts { { unbuffered, "of alts" }, rn.chan() } end)
      local shared = rn.shared_chan(2):name "shared"
      shared:put(1)
      local policy = rn.chan(rn.priority_buffer(2)):name "policy"
      policy:put(1)
      local block = rn.go(function() rn.rename "waiter" rn.chan():take() end)
      rn.go(function() rn.sleep(600000) end)
      block:take()
    ]]
    local rows, texts = rows_of(messages(p:events(2)))
    local id_of = {}
    for id, row in pairs(rows[0]) do id_of[texts[row[3]]] = id end
    for _, row in pairs(rows[2]) do
      if texts[row[3]] == "waiter" then id_of.result = row[11] end
    end
    local stream = p:open_stream "there is no channel #987654"
    local names = { "long", "crowded", "big", "small", "unbuffered", "shared", "policy", "result" }
    local posted = {}
    for i, name in ipairs(names) do posted[i] = { "/values", "id=" .. id_of[name] } end
    posted[#posted + 1] = { "/values", "id=987654" }
    post(p, table.unpack(posted))
    local got = {}
    for _, message in ipairs(messages(stream())) do
      for _, result in ipairs(message.r) do got[names[result[1]] or "none"] = table.move(result, 2, #result, 1, {}) end
    end
    local function numbers(from, to)
      local list = { true }
      for i = from, to do list[#list + 1] = tostring(i) end
      return list
    end
    assert.same({
      long = numbers(1, 20),
      crowded = numbers(1, 20),
      big = numbers(991, 1005),
      small = { true, '"second"', '"third"', '"fourth"' },
      unbuffered = { true, '"waits"', '"of alts"' },
      shared = { true },
      policy = { true },
      result = { true },
      none = { false, "there is no channel #987654 any more" },
    }, got)
  end)

  it("keeps a number of commands while the program computes, and refuses more", function()
    local p = start "local m = listen(0) rn.sleep(1) repeat until told() rn.sleep(600000)"
    local stream = p:open_stream "\\[64,false"
    local accepted = {}
    for i = 1, 64 do accepted[i] = 202 end
    assert.same(accepted, p:post_often(64, "/values?", "id=987654"))
    local status, answer = p:post("/values?", "id=987654")
    assert.equal(503, status)
    assert.match("the program computes, and takes no more commands", answer)
    p:tell()
    local numbers, expected = {}, {}
    for _, message in ipairs(messages(stream())) do
      for _, result in ipairs(message.r) do numbers[#numbers + 1] = result[1] end
    end
    for i = 1, 64 do expected[i] = i end
    assert.same(expected, numbers)
  end)

  it("refuses more pages than it can feed, until one is closed", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    local script = ([[
      for i in {1..16}; do
        exec {fd}<>/dev/tcp/127.0.0.1/%d
        printf "GET /events?token=%s HTTP/1.0\r\nHost: 127.0.0.1:%d\r\n\r\n" >&$fd
        read -t 20 -u $fd && fds="$fds $fd"
      done
      echo $fds | wc -w
      exec sleep 60]]):format(p.port, p.token, p.port)
    local holding = assert(io.popen(("echo $$; exec bash -c '%s' 2>/dev/null"):format(script)))
    local pid, held = holding:read("l", "l")
    assert.equal("16", held:match "%d+")
    local status, answer = p:get "/events?"
    assert.equal(503, status)
    assert.match("too many pages are open", answer)
    assert.equal(200, (p:get "/?"))
    os.execute("kill " .. pid)
    holding:close()
    local tries, n = 0, 0
    while n == 0 and tries < 50 do
      tries = tries + 1
      os.execute "sleep 0.2" -- until the server has noticed it
      n = #messages(p:events(2))
    end
    assert.equal(2, n)
  end)

  -- ---- listen ----

  it("says that it cannot listen when the process has no file descriptors left, and keeps none", function()
    local output = shell.run [[ulimit -n 40; lua -e '
      local monitor = require "runnel.monitor"
      assert(monitor.listen()):close() -- loads all that it needs
      local files, failures = {}, {}
      repeat
        local file = io.open "/dev/null"
        files[#files + 1] = file
      until not file
      local m, why
      repeat
        m, why = monitor.listen()
        if not m then
          failures[why] = true
          table.remove(files):close()
        end
      until m
      m:close()
      local list = {}
      for reason in pairs(failures) do list[#list + 1] = reason end
      table.sort(list)
      print(table.concat(list, "\n"))
      local again = assert(monitor.listen())
      again:close()']]
    assert.match("^monitor: cannot listen on port 0 of 127%.0%.0%.1: [^\n]+\nmonitor: the server cannot be started\n$",
      output)
  end)

  it("has a C module that refuses what is no watch, and a monitor that was closed", function()
    local server_module = require "runnel.monitor.core"
    local m = assert(monitor.listen())
    local server = m.server
    m:close()
    server_module.stop(server)
    for _, name in ipairs { "ask", "command", "filling", "publish", "result" } do
      local _, err = pcall(server_module[name], server)
      assert.match("the monitor has been closed", err)
    end
    local _, err = pcall(server_module.start, io.stdout, 0, false, "program")
    assert.match("was built for another release of runnel: run make again", err)
  end)

  it("says that the port is taken", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    local m, err = monitor.listen(p.port)
    assert.is_nil(m)
    assert.equal(("monitor: port %d of 127.0.0.1 is taken by another program"):format(p.port), err)
    assert(monitor.listen()):close() -- nothing is left of the attempt
  end)

  it("runs once in a Lua state, and again after it was closed", function()
    local m = assert(monitor.listen())
    local ok, err = pcall(function() monitor.listen() end)
    assert.is_false(ok)
    assert.match("monitor_spec%.lua:%d+: listen: this program has a monitor already; close it first", err)
    m:close()
    m:close()
    local again <close> = assert(monitor.listen(m.port))
    assert.equal(m.port, again.port)
    assert.not_equal(m.url, again.url)
  end)

  it("refuses arguments that are wrong, at the caller's line", function()
    for message, arguments in pairs {
      ["the port must be an integer from 0 to 65535, got 70000"] = { 70000 },
      ['the port must be an integer from 0 to 65535, got "80"'] = { "80" },
      ['unknown option "ports"'] = { 0, { ports = 1 } },
      ["control: a boolean expected"] = { 0, { control = "yes" } },
      ['show: "types", "values" or a function expected, got "all"'] = { 0, { show = "all" } },
      ["program: a string expected"] = { 0, { program = 1 } },
    } do
      local ok, err = pcall(monitor.listen, table.unpack(arguments))
      assert.is_false(ok)
      assert.match("listen: " .. message:gsub("%p", "%%%0"), err)
    end
  end)
end)

describe("runnel --monitor", function()
  local RUNNEL = os.getenv "RUNNEL" or "build/bin/runnel"

  it("prints the page's URL to stderr, and runs the script", function()
    local out, err, status = shell.run(RUNNEL .. " --monitor -e 'print(1 + 1)'")
    assert.same({ "2\n", 0 }, { out, status })
    assert.match("^monitor: http://127%.0%.0%.1:%d+/%?token=%x+\n$", err)
  end)

  it("finds the C module beside the executable", function()
    local _, err = shell.run("cd / && LUA_PATH= LUA_CPATH='/none/?.so' " .. RUNNEL .. " --monitor -e ''")
    assert.match("^monitor: http", err)
  end)

  it("says what to install if the C module is missing, and does not run the script", function()
    local _, err, status = shell.run(("d=$(mktemp -d) && cp %s $d && cd $d && LUA_PATH= LUA_CPATH=/none/?.so "
      .. "./runnel --monitor -e 'print \"ran\"'; status=$?; rm -r $d; exit $status"):format(RUNNEL))
    assert.equal(1, status)
    assert.match("libmicrohttpd%-dev", err)
    assert.not_match("ran\n", err)
  end)

  it("refuses an invalid port, and one that is taken", function()
    local _, err, status = shell.run(RUNNEL .. " --monitor=http -e ''")
    assert.equal(2, status)
    assert.match("'%-%-monitor' needs a port from 0 to 65535", err)
    local m <close> = assert(monitor.listen())
    _, err, status = shell.run(("%s --monitor=%d -e 'print \"ran\"'"):format(RUNNEL, m.port))
    assert.equal(1, status)
    assert.match("port %d+ of 127%.0%.0%.1 is taken by another program", err)
  end)
end)
