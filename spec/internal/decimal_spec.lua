local decimal = require "runnel.internal.decimal"
local process = require "spec.support.process"

local function has(module) return (pcall(require, module)) end

describe("numbers as text", function()
  it("are those of tostring and string.format, in a locale with a decimal point", function()
    for _, value in ipairs { 1.5, -0.25, 1e100, 1e-300, 12345678901234.5, 3, -7, math.huge, -math.huge, 2.0, true,
      "1,5" } do
      assert.equal(tostring(value), decimal.text(value))
    end
    assert.equal("1.50", decimal.format("%.2f", 1.5))
    assert.equal("1e+100", decimal.format("%g", 1e100))
    assert.equal("-1.5e-07", decimal.point "-1,5e-07")
    assert.equal("1.5", decimal.point "1\u{66B}5") -- a decimal separator of two bytes
  end)

  it("have the fewest digits that are read back as the same, where programs read them", function()
    for text, value in pairs { ["0.1"] = 0.1, ["0.30000000000000004"] = 0.1 + 0.2,
      ["123456789012345.0"] = 123456789012345.0,
      ["3.141592653589793"] = math.pi, ["5e-324"] = 2.0 ^ -1074, ["2.0"] = 2.0, ["-0.0"] = -0.0, ["3"] = 3,
      ["9007199254740993"] = 9007199254740993, ["true"] = true, ["inf"] = math.huge } do
      assert.equal(text, decimal.exact(value))
    end
    for _ = 1, 2000 do
      local value = string.unpack("d", string.pack("I8", math.random(0)))
      if value - value == 0 then assert.equal(value, tonumber(decimal.exact(value))) end
    end
  end)

  describe("have a point in a program whose locale has a decimal comma #ci:", function()
    local dir, has_locale
    setup(function()
      dir = process.directory()
      local made = process.run(dir.path, "localedef -i de_DE -f UTF-8 ./de_DE.UTF-8")
      local seen = process.run(dir.path, ([[LOCPATH=. %s -e 'print(os.setlocale "de_DE.UTF-8" and 1.5)']])
        :format(process.runnel))
      has_locale = made.status == 0 and seen.out == "1,5\n"
    end)
    teardown(function() dir:remove() end)

    -- What the program prints in that locale, without the last newline.
    local function printed(text)
      dir:write("program.lua", [[
        assert(os.setlocale "de_DE.UTF-8")
        local rn = require "runnel"
        local json = require "runnel.json"
        local function read(name)
          local file <close> = assert(io.open(name))
          return file:read "a"
        end
      ]] .. text .. "\nos.exit(0)")
      -- The C library's newlocale leaks a copy of LOCPATH.
      local result = process.run(dir.path, ("LOCPATH=. LSAN_OPTIONS=detect_leaks=0 %s program.lua"):format(
        process.runnel))
      assert.equal("", result.err)
      return (result.out:gsub("\n$", ""))
    end

    -- What leaves the program: the module that it needs, a program that prints it, and what that is; or a pattern.
    local FORMS = {
      { "JSON", nil, "print(json.encode { 1.5, 0.1, 1e300, 2.0, -0.25, 7 })", "[1.5,0.1,1e+300,2.0,-0.25,7]" },
      { "JSON that is read", nil, [[print(json.encode(json.decode "[1.5, 1e-3, -0.25]"), json.decode "[1,5]"[2],
        json.decode "1,5" == nil)]], "[1.5,0.001,-0.25]\t5\ttrue" },
      { "CSV", nil, [[print((require("runnel.csv").encode { { 1.5, 2, "a" } }:gsub("%s", "")))]], "1.5,2,a" },
      { "a label of metrics", nil, [[
        rn.gauge("size", "A size.", { labels = { "zoom" } }):set(1, { zoom = 1.5 })
        rn.metrics()
        print(rn.metrics():text():match 'zoom="([^"]*)"')]], "1.5" },
      { "JSON with indent", nil, "print(json.encode({ a = 0.5 }, { indent = 2 }))", '{\n  "a": 0.5\n}' },
      { "a trace", nil, [[
        rn.trace "trace.json"
        rn.go(function() rn.sleep(1) end):take()
        rn.trace(false)
        local text = read "trace.json"
        print(json.decode(text) ~= nil, text:find '"ts":%d+%.%d%d%d,' ~= nil)]], "true\ttrue" },
      { "a trace for OpenTelemetry", nil, [[
        rn.trace "trace.otlp.json"
        rn.go(function() rn.sleep(1) end):take()
        rn.trace(false)
        print(json.decode(read "trace.otlp.json") ~= nil)]], "true" },
      { "a profile", nil, [[
        local p = rn.profile(function() rn.sleep(5) end)
        for _, ending in ipairs { "json", "folded", "html" } do p:write("p." .. ending) end
        print(json.decode(read "p.json") ~= nil, read "p.folded":find "%d,%d", p:text():find "%d,%d")]],
        "true\tnil\tnil" },
      { "metrics", nil, [[
        rn.metrics()
        rn.sleep(3)
        local text = rn.metrics():text()
        print(text:find "%d,%d", text:find "\nrunnel_loop_waited_seconds_total %d+%.%d+\n" ~= nil)]], "nil\ttrue" },
      { "a time in a message", nil,
        [[print((select(2, pcall(rn.scope, function() rn.sleep(1e6) end, { timeout = 2.5 }))))]],
        "scope: its body had not ended after 2.5 ms" },
      { "headers, a query and a form of http", "runnel.http", [[
        local http = require "runnel.http"
        local s = http.serve(0, function(req)
          return 200, { ["X-Back"] = 2.5 }, req.headers["x-there"] .. " " .. req.target .. " " .. (req:body() or "")
        end)
        local r = http.request { url = s.url, headers = { ["X-There"] = 1.5 }, query = { q = 0.5 },
          form = { f = 0.25 } }
        print(r.body, r.headers["x-back"])]], "1.5 /?q=0.5 f=0.25\t2.5" },
      { "a log of http", "runnel.http", [[
        local http = require "runnel.http"
        for _, format in ipairs { "json", "common" } do
          local lines = rn.chan(1)
          local s = http.serve(0, http.log(function() return 200 end, { to = lines, format = format }))
          http.get(s.url)
          local line = lines:take()
          if format == "json" then print(math.type(json.decode(line).ms)) else print(line:match " %d+%.%d ") end
        end]], "^float\n %d+%.%d $" },
      { "events of http", "runnel.http", [[
        local http = require "runnel.http"
        local s = http.serve(0, function(req)
          return req:events(function(events)
            events:put(1.5)
            events:put { data = { 2.5 } }
          end)
        end)
        print((http.get(s.url).body:gsub("\n\n", " "):gsub(":\n*", ":")))]], "1%.5 .*%[2%.5%]" },
      { "messages of a WebSocket", "runnel.http", [[
        local http = require "runnel.http"
        local s = http.serve(0, function(req)
          local ws = req:websocket()
          ws:write(ws:read():take())
        end)
        local ws = assert(http.websocket((s.url:gsub("^http", "ws"))))
        ws:write(1.5)
        print(ws:read():take())]], "1.5" },
      { "values of SQLite", "runnel.sqlite", [[
        local db = require("runnel.sqlite").open ":memory:"
        print(db:one("select cast(? as text) as t", 2.5).t, db:one("select 1.5 = ? as same", 1.5).same)]], "2.5\t1" },
      { "values of a store", "runnel.sqlite", [[
        local st = require("runnel.store").open "values.db"
        st:stream "A"
        st:sink("A"):put({ 1.5, a = 0.25 }, { delay = 0.5 })
        st:close()
        local db = require("runnel.sqlite").open "values.db"
        local texts = {}
        for _, row in ipairs(db:rows "select name from sqlite_master where type = 'table'") do
          for _, one in ipairs(db:rows('select * from "' .. row.name .. '"')) do
            for _, value in pairs(one) do
              if type(value) == "string" and value:find "%d,%d%d*$" then texts[#texts + 1] = value end
            end
          end
        end
        print(#texts)]], "0" },
      { "values that cross to another thread", nil, [[
        print(rn.thread(function(v) return v * 2 == 3 and #tostring(v) end, 1.5):take())]], "3" },
    }
    for _, form in ipairs(FORMS) do
      local what, module, text, expected = table.unpack(form, 1, 4)
      it(what, function()
        if not has_locale then return pending "there are no sources of locales: scripts/setup test" end
        if module and not has(module) then return pending(module .. " was not built") end
        local got = printed(text)
        if expected:find "%%" then assert.matches(expected, got) else assert.equal(expected, got) end
      end)
    end
  end)
end)
