-- What the documents say of programs: the executable, building, recordings, numbers and leaks.

local rn = require "runnel"
local http = require "runnel.http"
local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local no_luv = require "spec.support.missing" "luv"
local uv = not no_luv and require "runnel.uv"
local has_sqlite = pcall(require, "runnel.sqlite.core")
local claim = require "spec.support.docs.claims"(it)
local claim_luv = require "spec.support.docs.claims"(no_luv and pending or it, no_luv)

-- The names of the fields of a table, sorted.
local function fields(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, " ")
end

-- The path of the executable under test, from any folder.
local function executable()
  local pipe <close> = assert(io.popen(("realpath '%s'"):format(process.runnel)))
  return pipe:read "l"
end

describe("the documents say of the executable", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  claim("channels, go blocks, flows, threads, JSON, simulations, profiles, the prompt. `make` builds it as "
    .. "`build/bin/runnel`. You can copy it to another machine with the same system.", function()
    local program = executable()
    if not program:find "/runnel$" then return end -- under another interpreter
    dir:write("program.lua", [[
      package.path, package.cpath = "", ""
      local rn = require "runnel.all"
      for _, name in ipairs { "flow", "json", "sim", "core_async" } do require("runnel." .. name) end
      assert(rn.thread and rn.profile and rn.scope)
      for _, name in ipairs { "http.core", "http.curl", "websocket.core", "sqlite.core", "nats.core",
        "monitor.core" } do
        if pcall(require, "runnel." .. name) then print(name) end
      end
      if pcall(require, "luv") then print "luv" end
      print "done"
      os.exit(0)
    ]])
    local result = process.run(dir.path, ("cp '%s' copy && ./copy -E program.lua"):format(program))
    assert.equal("done\n", result.out, result.err)
  end)

  claim("0, or 1 if an unhandled error was written to stderr", function()
    dir:write("fails.lua", [[
      local rn = require "runnel"
      rn.go(error, "no")
      rn.sleep(1)
      rn.exit()
    ]])
    dir:write("works.lua", 'require "runnel".exit()')
    local result = process.run(dir.path, ("'%s' fails.lua; echo $?; '%s' works.lua; echo $?")
      :format(executable(), executable()))
    assert.equal("1\n0\n", result.out, result.err)
  end)

  if has_sqlite then
    claim("$ runnel build examples/ingest.lua", function()
      local said = pages.read "docs/manual/build.md":match "ingest: ([%d.]+) MB"
      local command = "'%s' build -o '%s/ingest' examples/ingest.lua"
      local pipe <close> = assert(io.popen(command:format(executable(), dir.path)))
      local found = pipe:read "a":match ": ([%d.]+) MB, with examples/ingest.lua, 1 C module %(runnel.sqlite.core%)"
      if not executable():find "build/bin/runnel$" then return end -- others, as with assertions, are larger
      assert.is_true(math.abs(said - found) <= 0.6, found) -- newer releases of Debian make larger ones
    end)
  end

  claim("Whole programs for what scripts do all day, each shorter than 60 lines.", function()
    local names <close> = assert(io.popen "ls examples/recipes/*.lua")
    local count = 0
    for name in names:lines() do
      local _, lines = pages.read(name):gsub("\n", "")
      assert.is_true(lines < 60, name)
      count = count + 1
    end
    assert.is_true(count >= 14)
  end)

  claim("Ten small programs, each written with runnel, with Python's asyncio, in Go and in node", function()
    local programs = pages.read "docs/why.md":match "| program | what it does |[^\n]*\n[^\n]*\n(.-)\n\n"
    local count = 0
    for name in programs:gmatch "| (%l+) | [^\n]*" do
      for _, ending in ipairs { "lua", "py", "go", "js" } do
        assert(io.open(("examples/why/%s.%s"):format(name, ending))):close()
      end
      count = count + 1
    end
    assert.equal(10, count)
  end)
end)

describe("the documents say of recordings and numbers", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  claim("| `records` | integer (records, 256 to 16777216) | 65536 (1.5 MB) | how many are kept", function()
    local path = dir.path .. "/out.json"
    raises("records", function() rn.trace(path, { records = 255 }) end)
    raises("records", function() rn.trace(path, { records = 16777217 }) end)
    rn.trace(path, { records = 256 })
    raises("is being recorded", function() rn.trace(path) end)
    local ch = rn.chan(1)
    for i = 1, 1000 do
      ch:put(i)
      ch:take()
    end
    local result = rn.trace(false)
    assert.is_nil(rn.trace(false))
    assert.equal("file missing overwritten records", fields(result))
    assert.is_true(result.overwritten > 0 and result.records <= 256)
  end)

  claim("Names that differ only in digits are one name, with `#` for the digits", function()
    rn.metrics()
    local list = {}
    for i = 1, 300 do list[i] = rn.chan(1):name("claims " .. i) end
    for i = 1, 300 do list[i]:put(i) end
    local channels = rn.metrics().channels
    assert.same({ 300, 300, 300 }, { channels["claims #"].channels, channels["claims #"].put_total,
      channels["claims #"].values })
    rn.metrics(false)
  end)

  claim("Of each kind, 200 names have numbers of their own; those of all further names are added up under `other`.",
    function()
      rn.metrics()
      local list, count = {}, 0
      for i = 1, 300 do
        local letters = ("%c%c"):format(97 + i // 26, 97 + i % 26)
        list[i] = rn.chan(1):name("claims " .. letters)
      end
      local channels = rn.metrics().channels
      for _ in pairs(channels) do count = count + 1 end
      assert.same({ 300, 201 }, { #list, count })
      assert.is_true(channels.other.channels >= 100)
      rn.metrics(false)
    end)

  claim("Channels, flows, queues, pools and servers count in any case.", function()
    local numbers = rn.metrics()
    for _, name in ipairs { "go_blocks", "channels", "flows", "queues", "threads", "pools", "http", "errors", "memory",
      "waited", "longest_turn", "blocked", "cpu" } do
      assert.is_not_nil(numbers[name], name)
    end
    local status, headers, body = numbers:answer()
    assert.equal(200, status)
    assert.is_table(headers)
    assert.equal(numbers:text(), body)
    rn.metrics(false)
  end)

  claim("A leak has these fields: `count`; `started`", function()
    local name = "claims of leaks"
    sim.run(function()
      rn.go(function() rn.chan():name(name):take() end)
      rn.yield()
    end)
    local found
    for _, leak in ipairs(rn.leaks(true)) do
      if leak.example:find(name, 1, true) then found = leak end
    end
    assert.equal("count example operation started where", fields(found))
    assert.equal("take", found.operation)
  end)

  claim("499: the client went away before there was a response.", function()
    if no_luv then return end
    local began, ended = rn.chan(), rn.chan()
    local server <close> = assert(http.serve(0, function()
      local _ <close> = setmetatable({}, { __close = function() ended:close() end })
      began:put(true)
      rn.sleep(60000)
    end))
    local conn = assert(uv.connect("127.0.0.1", server.port))
    conn:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    began:take()
    assert.equal(1, rn.metrics().http[tostring(server.port)].running)
    conn:close()
    ended:take()
    rn.yield()
    assert.same({ [499] = 1 }, rn.metrics().http[tostring(server.port)].requests)
    rn.metrics(false)
  end)

  claim("A text that is no header begins a new trace", function()
    rn.traceparent(true)
    local function id() return (rn.traceparent() or ""):match "^00%-(%x+)%-" end
    local given, new = rn.go(function()
      rn.traceparent "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
      return id()
    end):take(), rn.go(function()
      rn.traceparent "no header"
      return id()
    end):take()
    rn.traceparent(false)
    assert.equal("4bf92f3577b34da6a3ce929d0e0e4736", given)
    assert.matches("^" .. ("%x"):rep(32) .. "$", new)
    assert.not_equal(given, new)
  end)
end)

describe("docs/install.md", function()
  -- How the page calls what scripts/setup does.
  local NAMES <const> = { cc = "a C compiler", headers = "its headers", lua = "Lua", libssl = "OpenSSL",
    certificates = "", zlib = "zlib", dot = "graphviz", copas = "Copas", luasocket = "LuaSocket",
    fennel = "Fennel", websockets = "Python's websockets", openssl = "the openssl command",
    ["lua5.1"] = "Lua 5.1 to 5.3", ["lua5.2"] = "Lua 5.1 to 5.3", ["lua5.3"] = "Lua 5.1 to 5.3", luajit = "LuaJIT",
    ["lua5.1-headers"] = "their headers", ["luajit-headers"] = "their headers", neovim = "Neovim",
    ["nginx-lua"] = "nginx with lua-nginx-module", love = "LÖVE", xvfb = "Xvfb" }

  it("names all that make demo and make test install", function()
    local text = pages.read "docs/install.md":match "## What the commands install\n\n(.-)\n\n":gsub("%s+", " ")
    local setup, count = pages.read "scripts/setup", 0
    local lists = { setup:match '\nrun="([^"]*)"', (setup:match '\ntest="([^"]*)"'), (setup:match "\ndemo%)[^\n]*"),
      (setup:match '\nspecs="([^"]*)"') }
    for _, list in ipairs(lists) do
      for name in (list:match 'optional="([^"]*)"' or list):gmatch "%f[%w$][%w.-]+" do
        if not list:find("$" .. name, 1, true) then
          assert.is_truthy(text:find(NAMES[name] or name, 1, true), name)
          count = count + 1
        end
      end
    end
    assert.is_true(count > 20, count)
  end)
end)

describe("the documents say of the monitor's page", function()
  -- A number in the source of the page.
  local function constant(file, name)
    return tonumber((pages.read("csrc/monitor/page/" .. file):match("%f[%u]" .. name .. " = (%d+)")))
  end

  for words, place in pairs {
    ["| 160 boxes in the graph |"] = { "graph_nodes.js", "MOST", 160 },
    ["| 200 rows of a table |"] = { "tables.js", "MOST", 200 },
    ["| 40 go blocks in the timeline |"] = { "timeline.js", "LANES", 40 },
    ["click the name of a go block to see the last 200 of its own"] = { "timeline.js", "ARROWS", 200 },
    ["If there are more than 40 boxes of go blocks"] = { "alike.js", "NAMES", 40 },
    ["rates over its life or its last four minutes"] = { "model.js", "LONGEST", 240 },
    ["if for 100 ms or more, and where"] = { "flows.js", "LONG", 100 },
    ["| 1,000 or more puts waited |"] = { "hints.js", "MANY", 1000 },
    ["| 12,000 go blocks with the name X | from 10,000 on |"] = { "hints.js", "MOST_GOS", 10000 },
  } do
    claim(words, function()
      local file, name, expected = table.unpack(place)
      assert.equal(expected, constant(file, name))
    end)
  end
end)

describe("the documents say of the C API", function()
  claim("`runnel_strerror`, `runnel_message` and `runnel_version` return a text, `runnel_get_functions` a table.",
    function()
    local texts, codes = {}, 0
    for kind, name in pages.read("csrc/capi/runnel.h"):gmatch "\nRUNNEL_API ([%a ]+[ *])(runnel_[%l_]+)%(" do
      if kind == "const char *" then texts[name] = true else assert.equal("int ", kind, name) end
      codes = codes + 1
    end
    assert.same({ runnel_strerror = true, runnel_message = true, runnel_version = true }, texts)
    assert.is_true(codes > 40, codes)
  end)
end)

describe("the documents say of signals", function()
  claim_luv("A signal reaches the process, not a thread: every [thread](threads.md) of the program may wait for it",
    function()
    local signals <close> = uv.signal "usr2"
    local ready = rn.shared_chan()
    local thread = rn.thread(function(to)
      local mine <close> = require("runnel.uv").signal "usr2"
      to:put(true)
      return mine:take()
    end, ready)
    ready:take()
    uv.run { "sh", "-c", "kill -USR2 $PPID" }
    assert.same({ "usr2", "usr2" }, { signals:take(), thread:take() })
  end)
end)
