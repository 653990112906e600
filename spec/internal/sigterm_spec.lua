-- SIGTERM and SIGINT for programs in which several things run that end in good order, alone and in pairs.

local background = require "spec.support.background"
local long = require "spec.support.long"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local LUA <const> = os.getenv "LUA" or "lua5.4"
local HOSTS <const> = { { "runnel", process.runnel }, { "lua5.4", LUA } }

-- What all programs begin with. Under lua5.4, `rn.run` is the last line.
local BEGIN <const> = [[
  local rn = require "runnel"
  local http = require "runnel.http"
  local function say(...) print(...) io.stdout:flush() end
  local function server(f, opts)
    return assert(http.serve(0, f or function() return 200, nil, "ok" end, opts))
  end
  local function store()
    local one = require("runnel.store").open ":memory:"
    assert(one:stream "words")
    return one
  end
  local function flow(step)
    return require "runnel.flow" ("job", {
      count = { source = function(put) for i = 1, math.huge do put(i) rn.sleep(1) end end },
      save = step or function() end,
      "count > save",
    })
  end
]]

-- What a program can have. `alone`: what SIGTERM makes of it alone, if it does not end with status 0.
local KINDS <const> = {
  { "a server", "server()" },
  { "a second server", "server()" },
  { "a flow", "flow():start()" },
  { "a flow that a go block waits for", "local f = flow() rn.go(function() f:wait() end)" },
  { "a stage of a store", "assert(store():stage('words', 1, function() end, nil, { name = 'a' }))", needs = "store" },
  { "a worker of a store", "store():serve('double', 1, function(n) return 2 * n end)", needs = "store" },
  { "a worker on a nats-server", "assert(nats.connect(arg[1])):serve('double', 1, function() end)", needs = "nats" },
  { "a stage on a nats-server", [[
    local conn = assert(nats.connect(arg[1]))
    assert(conn:stream "words")
    assert(conn:stage("words", 1, function() end, nil, { name = "a" }))
  ]], needs = "nats" },
  { "a subscription on a nats-server", [[
    local conn = assert(nats.connect(arg[1]))
    rn.go(function() for _ in conn:subscribe "a" do end end)
  ]], needs = "nats", alone = 143 },
  { "a store", "local s = store() rn.go(function() rn.sleep(1e6) end)", needs = "store", alone = 143 },
  { "a go block that goes on for ever", "rn.go(function() while true do rn.sleep(10) end end)", alone = 143 },
  { "a listening socket", "assert(require('runnel.uv').listen('127.0.0.1', 0))", needs = "luv", alone = 143 },
}

local has_store, has_luv = pcall(require, "runnel.sqlite"), pcall(require, "luv")

describe("SIGTERM", function()
  if not pcall(require, "runnel.http") then return pending "libcurl is not installed" end
  local nats = nats_server.library()
  local HAS <const> = { store = has_store, luv = has_luv, nats = nats ~= nil }

  local set, broker
  lazy_setup(function()
    set = background.set()
    broker = nats and nats_server.start()
  end)
  lazy_teardown(function()
    set:close()
    if broker then broker:close() end
  end)

  -- Starts a program, which says "up" when it is.
  local function start(host, text)
    local path = set:write("program" .. set.count .. ".lua", ("%s%s\n%s\nrn.sleep(1)\nsay 'up'\n%s\n"):format(BEGIN,
      nats and 'local nats = require "runnel.nats"' or "", text, host ~= process.runnel and "rn.run()" or ""))
    return set:start { host, path, broker and broker.url or "" }
  end

  local function up(host, text)
    local program = start(host, text)
    assert.is_true(program:says "up", program:output())
    return program
  end

  -- Its output without the line "up", and without the folder of the program.
  local function said(program)
    return (program:output():gsub("^up\n", ""):gsub("/[^%s:]+/program", "program"))
  end

  for i, first in ipairs(KINDS) do
    if first.needs and not HAS[first.needs] then goto continue end
    it("ends a program with " .. first[1] .. ", also beside each other kind", function()
      for j = i, #KINDS do
        local second = KINDS[j]
        if not second.needs or HAS[second.needs] then
          local text = i == j and first[2] or ("do %s end do %s end"):format(first[2], second[2])
          local expected = (i == j or second.alone) and first.alone or 0
          for number, host in ipairs(HOSTS) do
            -- The short form tries a quarter of the pairs, each in one of the hosts, and each kind alone in both.
            if i ~= j and not long.tries(i + j + number, 4 * #HOSTS) then goto other end
            local program = up(host[2], text)
            program:signal "TERM"
            local what = ("%s and %s in %s: %s"):format(first[1], second[1], host[1], program:output())
            assert.equal(expected, program:wait(), what)
            assert.equal("", said(program), what)
            ::other::
          end
        end
      end
    end)
    ::continue::
  end

  it("lets servers answer first, then flows and then workers end their work, and then ends connections", function()
    if not (has_store and nats) then return pending "libsqlite3 or NATS is missing" end
    for _, host in ipairs(HOSTS) do
      local program = up(host[2], [[
        local s, conn = store(), assert(nats.connect(arg[1]))
        local works, is_asked, f = rn.promise_chan(), rn.promise_chan(), nil
        conn:on_close(function() say "connection" end)
        assert(s:stage("words", 1, function(word)
          works:put(true)
          rn.sleep(word == "long" and 300 or 1)
          say("stage", word)
        end, nil, { name = "a" }))
        f = flow(function()
          rn.sleep(20)
          if not f.said and f.state == "draining" then f.said = say "flow" or true end
        end)
        f:start()
        local sink = assert(s:sink "words")
        assert(sink:put "long")
        local one = server(function()
          is_asked:put(true)
          rn.sleep(100)
          assert(sink:put "late")
          say "server"
          return 200, nil, "ok"
        end)
        rn.go(function() say("client", http.get(one.url).status) end)
        works:take()
        is_asked:take()
      ]])
      program:signal "TERM"
      assert.equal(0, program:wait(), program:output())
      local lines, at = said(program), {}
      for _, word in ipairs { "server", "client\t200", "flow", "stage\tlong", "connection" } do
        at[word] = lines:find(word, 1, true)
        assert.is_truthy(at[word], lines)
      end
      assert.is_true(at.server < at.flow and at.flow < at.connection and at["stage\tlong"] < at.connection, lines)
    end
  end)

  it("lets a program that waits for the end of one go on, with its connections", function()
    if not (has_store and nats) then return pending "libsqlite3 or NATS is missing" end
    for _, host in ipairs(HOSTS) do
      local program = up(host[2], [[
        local s, conn = store(), assert(nats.connect(arg[1]))
        server()
        local one = assert(s:stage("words", 1, function() end, nil, { name = "a" }))
        rn.go(function() while true do rn.sleep(10) end end)
        say "up"
        say(one:wait())
        say(conn:publish("a", "b"), conn:flush())
        say(conn:drain())
        if not arg[-1]:find "runnel" then os.exit() end
      ]])
      program:signal "TERM"
      assert.equal(0, program:wait(), program:output())
      assert.matches("^true\ntrue\ttrue\tnil\ntrue\n", said(program))
    end
  end)

  it("waits for the threads of the program", function()
    if not has_store then return pending "libsqlite3 is not installed" end
    for _, host in ipairs(HOSTS) do
      local program = up(host[2], [[
        server()
        local begun = rn.shared_chan(1)
        rn.go(function()
          say("thread", rn.thread(function(begun)
            local rn = require "runnel"
            local s = require("runnel.store").open ":memory:"
            assert(s:stream "words")
            local one = assert(s:stage("words", 1, function()
              begun:put(true)
              rn.sleep(200)
              print "done"
            end, nil, { name = "a" }))
            assert(s:sink "words"):put "a"
            return one:wait()
          end, begun):take())
        end)
        begun:take()
      ]])
      program:signal "TERM"
      assert.equal(0, program:wait(), program:output())
      assert.matches("done", said(program))
      assert.matches("thread\ttrue", said(program))
    end
  end)

  it("makes a program that has not ended say what it waits for, with its line", function()
    if not has_store then return pending "libsqlite3 is not installed" end
    for _, case in ipairs {
      { "assert(s:stage('words', 1, function() say 'called' rn.sleep(1e6) end, nil, { name = 'a' }))",
        { "the end of the stage a at program%d+%.lua:%d+", "%): sleeping at program%d+%.lua:%d+" } },
      { "local one = server(function() say 'called' rn.sleep(1e6) end) rn.go(function() http.get(one.url) end)",
        { "the end of the http server http://127%.0%.0%.1:%d+/ at program%d+%.lua:%d+" } },
      { "local f = flow(function() say 'called' rn.sleep(1e6) end) f:start()",
        { "the end of the flow job at program%d+%.lua:%d+" } },
      { [[local one = s:stage('words', 1, function() end, nil, { name = 'a' })
          rn.go(function() while true do rn.sleep(1000) end end)
          rn.go(function() one:wait() rn.chan():take() end)]], { "%(program%d+%.lua:%d+%): sleeping at" } },
      { "server() say 'up' while true do end", { "no go block has run since then", "SIGQUIT shows where" } },
    } do
      for _, host in ipairs(HOSTS) do
        local program = up(host[2], [[
          require("runnel.internal.sigterm").patience = 100
          server()
          local s = store()
          assert(s:sink "words"):put "a"
        ]] .. case[1])
        if case[1]:find "called" then assert.is_true(program:says "called", program:output()) end
        program:signal "TERM"
        for _, text in ipairs(case[2]) do
          patience.wait_until(function() return said(program):find(text) end)
          assert.matches(text, said(program))
        end
        assert.is_nil(program:status())
        program:signal "TERM"
        assert.equal(143, program:wait(), program:output())
      end
    end
  end)

  it("ends a program that has said what it waits for once that has ended #ci", function()
    for _, host in ipairs(HOSTS) do
      local path = set.dir .. "/end_of_" .. host[1] .. "_"
      local program = up(host[2], ([[
        require("runnel.internal.sigterm").patience = 100
        local function is_there(name)
          local file <close> = io.open(%q .. name)
          return file ~= nil
        end
        local called = rn.promise_chan()
        local one = server(function()
          called:put(true)
          repeat rn.sleep(10) until is_there "request"
          return 200
        end)
        rn.go(function() http.get(one.url) end)
        rn.go(function()
          called:take()
          say "computes"
          repeat until is_there "computation"
        end)
      ]]):format(path))
      assert.is_true(program:says "computes", program:output())
      program:signal "TERM"
      for _, case in ipairs {
        { "no go block has run since then", "computation" },
        { "waits for:\n  the end of the http server http://127%.0%.0%.1:%d+/ at program%d+%.lua:%d+", "request" },
      } do
        local text, name = table.unpack(case)
        patience.wait_until(function() return said(program):find(text) end)
        assert.matches(text, said(program))
        assert.is_nil(program:status())
        set:write("end_of_" .. host[1] .. "_" .. name, "")
      end
      assert.equal(0, program:wait(), program:output())
    end
  end)

  it("lets what a drain has cut off end, as with a line in a log", function()
    for _, host in ipairs(HOSTS) do
      local program = up(host[2], [[
        local function events(req)
          return req:events(function(ch)
            for i = 1, math.huge do
              ch:put(tostring(i))
              rn.sleep(10)
            end
          end)
        end
        local one = server(http.log(events, { to = function(line) say(line:match '"GET /events .-"') end }),
          { drain_on_term = false })
        require("runnel.internal.sigterm").add(one, "http server",
          { order = 1, name = "of events", drain = function() one:drain(50) end })
        local pieces = http.stream(one.url .. "events")
        assert(pieces:take())
      ]])
      program:signal "TERM"
      assert.equal(0, program:wait(), program:output())
      assert.matches('"GET /events HTTP/1.1"\n', program:output())
    end
  end)

  it("drains what begins while it lets that end", function()
    for _, turns in ipairs { 2, 10, 17 } do
      local program = up(process.runnel, ([[
        local first = flow()
        first:start()
        rn.go(function()
          first:wait()
          for _ = 1, %d do rn.yield() end
          flow():wait()
          say "the second one has ended"
        end)
      ]]):format(turns))
      program:signal "TERM"
      assert.equal(0, program:wait(), program:output())
      assert.matches("the second one has ended\n", program:output())
    end
  end)

  it("ends a program at once with drain_on_term = false, and by a second one", function()
    for _, host in ipairs(HOSTS) do
      local program = up(host[2], "server(nil, { drain_on_term = false })")
      program:signal "TERM"
      assert.equal(143, program:wait(), program:output())
      program = up(host[2], [[
        local one = server(function() say "request" rn.sleep(1e6) end)
        rn.go(function() http.get(one.url) end)
        rn.go(function() while true do rn.sleep(10) if one.drains then say "drains" rn.sleep(1e6) end end end)
      ]])
      assert.is_true(program:says "request", program:output())
      program:signal "TERM"
      assert.is_true(program:says "drains", program:output())
      program:signal "TERM"
      assert.equal(143, program:wait(), program:output())
    end
  end)

  it("is the program's while it handles it, and has this effect again after that", function()
    if not has_luv then return pending "luv is not installed" end
    for _, host in ipairs(HOSTS) do
      local program = up(host[2], [[
        local signals = require("runnel.uv").signal "term"
        local first, caught = server(), nil
        rn.go(function()
          say("caught", signals:take())
          signals:close()
          local second = server()
          say "closed"
        end)
      ]])
      program:signal "TERM"
      assert.is_true(program:says "closed", program:output())
      program:signal "TERM"
      assert.equal(0, program:wait(), program:output())
      assert.equal("caught\tterm\nclosed\n", said(program))
    end
  end)

  it("leaves SIGINT as it is", function()
    for _, host in ipairs(HOSTS) do
      local program = up(host[2], "server() flow():start()")
      program:signal "INT"
      assert.equal(host[1] == "runnel" and 130 or 1, program:wait(), program:output())
      assert.matches("interrupted!", said(program))
    end
  end)
end)

describe("SIGTERM on a host of a simulated world", function()
  if not has_luv then return pending "luv is not installed" end
  local http = require "runnel.http"
  local flow = require "runnel.flow"
  before_each(stage.open)
  after_each(stage.close)

  it("drains its servers and flows, in this order, and ends it #ci", function()
    local told, status, is_alive, second = {}, nil, nil, nil
    sim.run(function()
      local world = sim.world()
      local host = world:host("server", function()
        assert(http.serve(80, function()
          rn.sleep(100)
          told[#told + 1] = "server"
          return 200, nil, "ok"
        end, { host = "0.0.0.0" }))
        local f = flow("job", {
          count = { source = function(put)
            for i = 1, math.huge do
              put(i)
              rn.sleep(10)
            end
          end },
          save = { function() end, close = function() told[#told + 1] = "flow" end },
          "count > save",
        })
        f:start()
        while true do rn.sleep(10) end
      end)
      world:host("client", function()
        rn.sleep(10)
        collectgarbage()
        local response = rn.go(http.get, "http://server/")
        rn.sleep(50)
        host:signal "term"
        local answer, err = response:take()
        status = answer and answer.status or err
        rn.sleep(100)
        is_alive = host.alive
        host:restart()
        rn.sleep(10)
        local again = rn.go(http.get, "http://server/")
        rn.sleep(50)
        host:signal "term"
        host:signal "term"
        second = again:take()
      end)
      world:run()
    end)
    assert.same({ "server", "flow" }, told)
    assert.equal(200, status)
    assert.is_false(is_alive)
    assert.is_nil(second)
  end)
end)
