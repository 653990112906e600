-- The texts that a prompt prints: values, go blocks and channels, documentation; without a terminal.

local doc = require "runnel.prompt.doc"
local pretty = require "runnel.prompt.pretty"
local rn = require "runnel"
local views = require "runnel.prompt.views"
local width = require "runnel.internal.width"

describe("values are printed", function()
  local style
  before_each(function() style = pretty.style(60) end)
  local function text(value) return pretty.value(value, style) end

  it("as Lua source", function()
    assert.equal('{ 1, "two", ["a b"] = 1.0, x = { y = true } }', text { 1, "two", x = { y = true }, ["a b"] = 1.0 })
    assert.equal('"a\\nb\\0\\xFF"', text "a\nb\0\xff")
    assert.equal("{}", text {})
    assert.matches("^function: spec/prompt/text_spec.lua:%d+$", text(text))
  end)

  it("with a table inside itself, once", function()
    local t = { 1 }
    t.self = t
    assert.equal("{ 1, self = (cycle) }", text(t))
    local shared = { 1 }
    assert.equal("{ { 1 }, { 1 } }", text { shared, shared })
  end)

  it("with the depth and width of the style", function()
    style.depth = 2
    assert.equal("{ { {…} } }", text { { { 1 } } })
    local list = {}
    for i = 1, 1000 do list[i] = i end
    for columns = 20, 200, 7 do
      style.width = columns
      local line = text(list)
      assert.is_true(width.of(line) <= columns and width.of(line) > columns - 12, line)
      local shown, more = select(2, line:gsub("%d+,", "")), tonumber(line:match "… (%d+) more }$")
      assert.equal(1000, shown + more)
    end
    style.width = 60
    assert.equal("{ 1, 2, 3 }", text { 1, 2, 3 })
  end)

  it("over several lines if one is too short, up to a limit", function()
    local list = {}
    for i = 1, 50 do list[i] = { id = i, name = "row " .. i } end
    local lines = text(list)
    assert.equal(23, select(2, lines:gsub("\n", "\n")) + 1)
    assert.matches('^{\n  { id = 1, name = "row 1" },\n', lines)
    assert.matches("\n  … 30 more\n}$", lines)
    local map = {}
    for i = 1, 20000 do map["key" .. i] = { i } end
    assert.is_true(#text(map) < 10000)
  end)

  it("without the private fields of the library's objects", function()
    assert.equal("mult (tap, untap, untap_all)", text(rn.mult(rn.chan())))
    assert.equal("pub (sub, unsub, unsub_all)", text(rn.pub(rn.chan(), tostring)))
    assert.matches("^mix %(admix, .*unmix_all%)$", text(rn.mix(rn.chan())))
    assert.equal("Point { x = 1 }", text(setmetatable({ x = 1 }, { __name = "Point" })))
    assert.equal("(error in __tostring)", text(setmetatable({}, { __tostring = error })))
  end)
end)

describe("texts take as many columns as a terminal needs", function()
  it("for wide and combining characters, and colours", function()
    assert.equal(6, width.of "日本語")
    assert.equal(1, width.of "e\u{301}")
    assert.equal(3, width.of "\27[32mabc\27[0m")
    assert.equal("日…", width.cut("日本語", 4))
    assert.equal("abc", width.cut("abc", 3))
    assert.equal("a?", width.cut("a\xff", 3))
    assert.equal("日 ", width.pad("日", 3))
  end)

  it("and are wrapped between words", function()
    assert.equal("  one two\n  three\n  a-word-that-is-too-long\n  x",
      width.wrap("one two three a-word-that-is-too-long x", 10, "  "))
  end)
end)

describe("go blocks and channels are shown", function()
  it("one in each line, or similar ones in one line if there is little room", function()
    local jobs = rn.chan(2):name "jobs"
    for i = 1, 40 do
      rn.go(function()
        rn.rename("worker " .. i)
        jobs:put(i)
      end)
    end
    rn.yield()
    local chans = {}
    for i = 1, 5 do chans[i] = rn.chan():name("c" .. i) end
    local waiting = { rn.go(rn.alts, { chans[1], { rn.chan():name "other", 1 } }), rn.go(rn.alts, chans) }
    rn.yield()
    local lines = views.go_blocks(200)
    local text = table.concat(lines, "\n")
    assert.matches("parked +%d+ ms +alts on c1, other\n", text)
    assert.matches("parked +%d+ ms +alts on c1, c2, c3, c4 and 1 more", text)
    for i = 1, 2 do rn.cancel(waiting[i]) end
    rn.yield()
    lines = views.go_blocks(200)
    local workers = 0
    for _, line in ipairs(lines) do workers = workers + (line:find "worker %d+ " and 1 or 0) end
    assert.equal(38, workers)
    lines = views.go_blocks(200, 8)
    assert.is_true(#lines <= 8)
    assert.matches("worker …  × 38", table.concat(lines, "\n"))
    for _ = 1, 40 do jobs:take() end

    rn.scope(function(s)
      s:go(rn.sleep, 10)
      s:go(function() rn.sleep(20) end)
      rn.go(function() rn.sleep(20) end)
      rn.yield()
      local shown = table.concat(views.go_blocks(200), "\n")
      local _, count = shown:gsub("in the scope of %S+text_spec.lua:%d+ +sleeping", "")
      assert.equal(2, count, shown)
    end)

    local go_on = rn.shared_chan():name "go on"
    local thread = rn.thread(function(ch) ch:take() end, go_on)
    local deadline = rn.now() + 5000
    repeat rn.sleep(1) until rn.now() > deadline or table.concat(views.go_blocks(200)):find "thread .* waiting"
    assert.matches("\n%d+ +thread %S+text_spec.lua:%d+ +waiting +%d+ ms +take on go on +%S+text_spec.lua:%d+",
      table.concat(views.go_blocks(200), "\n"))
    go_on:close()
    thread:take()
    rn.run()
    lines = views.channels({ go_on }, 200)
    assert.matches("^%d+ +go on +none +0 +0 +0 +0 +shared, closed$", lines[2]:match "^%s*(.-)$")

    local channels = { jobs, rn.chan():name "alone" }
    for i = 1, 30 do
      local ch = rn.chan(5):name("many " .. i)
      local drained = rn.chan():name "drained"
      drained:close()
      channels[#channels + 1], channels[#channels + 2] = ch, drained
    end
    assert.equal(1 + #channels, #views.channels(channels, 200))
    lines = views.channels(channels, 200, 10)
    assert.equal(5, #lines)
    assert.matches("many …  × 30", lines[2])
    assert.equal("30 closed and drained", lines[5])
  end)
end)

describe("the documentation", function()
  local function calls(query)
    local list = {}
    for i, entry in ipairs(doc.find(query)) do list[i] = entry.calls[1] end
    return list
  end

  it("has Lua's functions, transducers and methods", function()
    assert.same({ "string.format(format, ...)" }, calls "string.format")
    assert.same({ "xf.partition_all(n)" }, calls "xf.partition_all")
    assert.same({ "xf.partition_all(n)" }, calls "rn.xf.partition_all")
    assert.same({ "m:toggle { [ch] = { mute =, pause =, solo = } }" }, calls "toggle")
    assert.same({}, calls "nonsense")
  end)

  it("shows the options of a function below its text, each with type and default", function()
    local file <close> = assert(io.popen((os.getenv "LUA" or "lua5.4")
      .. " scripts/docs/manual_tables.lua docs/manual/pipelines.md"))
    local entries = {}
    for _, one in ipairs(assert(load(file:read "a"))().rows) do
      local name = one.calls[1] and one.calls[1]:match "^rn[%w_.]+"
      if name then entries[name] = one end
    end
    local text = doc.text(entries["rn.pmap"], 80):gsub("\n      ", " ")
    assert.matches("^rn.pmap%(n, f, from, %[opts%]%)\n    A channel of the results", text)
    assert.matches("\n  timeout [^\n]* %(type: number %(ms%); default: none%)", text)
    assert.matches("\n  window [^\n]* default: 16 %* n%)", text)
    assert.not_matches("\n  window ", doc.text(entries["rn.pmap_unordered"], 80))
  end)

  it("has every function of Lua's own libraries", function()
    for _, library in ipairs { "coroutine", "debug", "io", "math", "os", "package", "string", "table", "utf8" } do
      for name in pairs(_G[library]) do
        local known = #calls(library .. "." .. name) == 1
        -- Omits deprecated functions.
        local is_old = library == "math" and not _G.math[name] or name:find "^setcstacklimit$"
          or ("cosh sinh tanh pow frexp ldexp log10 atan2"):find(name, 1, true)
        assert.is_truthy(known or is_old, library .. "." .. name)
      end
    end
    for name, value in pairs(_G) do
      if type(value) == "function" and debug.getinfo(value, "S").what == "C" and name ~= "unpack" then
        assert.matches("\n" .. name .. "%(", "\n" .. table.concat(calls(name), "\n"))
      end
    end
  end)

  it("has every transducer", function()
    for name, value in pairs(rn.xf) do
      if type(value) == "function" then assert.equal(1, #calls("rn.xf." .. name), name) end
    end
  end)
end)

describe("the list of the prompt's commands", function()
  it("is the same as in the manual", function()
    local text = {}
    for _, path in ipairs { "README.md" } do text[#text + 1] = assert(io.open(path)):read "a" end
    local pages = io.popen "cat docs/*.md docs/*/*.md 2>/dev/null"
    text[#text + 1] = assert(pages):read "a"
    text = table.concat(text)
    for _, entry in ipairs(require("runnel.prompt.commands").list()) do
      local typed = ":" .. entry[1] .. (entry[2] ~= "" and " " .. entry[2] or "")
      assert.is_truthy(text:find(("| `%s` | %s |"):format(typed, entry[3]), 1, true), typed)
    end
  end)
end)
