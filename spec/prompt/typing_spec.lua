-- What a prompt does with a chunk while it is typed: colours, blanks, hints; without a terminal.

local commands = require "runnel.prompt.commands"
local complete = require "runnel.prompt.complete"
local describing = require "runnel.prompt.describe"
local doc = require "runnel.prompt.doc"
local hint = require "runnel.prompt.hint"
local indent = require "runnel.prompt.indent"
local lexer = require "runnel.prompt.lexer"
local rn = require "runnel"
local sessions = require "runnel.prompt.session"
local width = require "runnel.internal.width"

for _ in pairs(rn) do end -- loads all of it, as the prompt does

-- A session that has run some chunks.
local function session_of(...)
  local session = sessions.new(setmetatable({ rn = rn }, { __index = _G }))
  for _, text in ipairs { ... } do
    local chunk = assert(session:compile(text))
    session:note(chunk)
    pcall(chunk.run)
  end
  return session
end

describe("the colours of a chunk", function()
  it("tell keywords, strings, numbers and comments apart, also unfinished ones", function()
    local function is(classes, text) assert.equal(classes, lexer.classes(text)) end
    is("kkkkk   nnnn sss", "local x=0x1F 'a'")
    is("kk   kkkk cccccc ", "if x then -- one ")
    is("  cccccccc n", "  --[[ a]] 1")
    is("    ssssss", "x = [[ab\nc")
    is("    sss", "x = 'ab")
    is("ccccc", "--[[x")
    is("", "")
    is("   ", " x ")
  end)

  it("have a class for each byte, whatever is typed", function()
    local bytes = { "'", '"', "[[", "]]", "--", "\n", " ", "x", "end", "0x", "\\", "ä", "\255", "(" }
    math.randomseed(4)
    for _ = 1, 2000 do
      local parts = {}
      for i = 1, math.random(12) do parts[i] = bytes[math.random(#bytes)] end
      local text = table.concat(parts)
      assert.equal(#text, #lexer.classes(text), text)
    end
  end)
end)

describe("a new line begins", function()
  local function is(blanks, text) assert.equal(blanks, indent.after(text), text) end

  it("two blanks further in a block or a bracket that the line before has opened", function()
    is(2, "for i = 1, 3 do")
    is(4, "function f()\n  if x then")
    is(2, "foo(function()")
    is(2, "t = {")
    is(4, "  x = {\n    1,")
    is(6, "    if x then")
    is(2, "if x then\n  f()\nelse")
    is(2, "if x then\n  f()\nelseif y then")
  end)

  it("where the line before begins, if that has opened none", function()
    is(0, "x =")
    is(2, "for i = 1, 3 do\n  f()")
    is(2, "for i = 1, 3 do\n  if x then y() end")
    is(0, "for i = 1, 3 do\n  f()\nend")
    is(0, "elsewhere =")
  end)

  it("without blanks in a string or a comment", function()
    is(0, "  x = [[one")
    is(0, "do --[[ one")
  end)
end)

describe("a line moves to the left", function()
  local function is(blanks, text) assert.equal(blanks, indent.closing(text), text) end

  it("when it closes a block or a bracket, or is else", function()
    is(0, "for i = 1, 3 do\n  end")
    is(2, "do\n  if x then\n    f()\n    end")
    is(0, "repeat\n  f()\n  until")
    is(0, "t = {\n  1,\n  }")
    is(0, "f(\n  )")
    is(0, "if x then\n  f()\n  else")
    is(0, "if x then\n  f()\n  elseif")
  end)

  it("and otherwise not", function()
    is(nil, "for i = 1, 3 do\n  ended")
    is(nil, "x = [[\n  end")
    is(nil, "f(a)\n  x end")
    is(nil, "  end")
    is(nil, "")
  end)
end)

describe("the value of a chunk of several lines", function()
  local function value(text)
    local chunk = assert(session_of():compile(text))
    return chunk.has_value, chunk.run()
  end

  it("is that of a call at its end", function()
    assert.same({ true, 6 }, { value "local function f(x)\n  return 2 * x\nend\nf(3)" })
    assert.same({ true, 3 }, { value "local t = { n = function() return 3 end }\n-- the last\nt.n(\n  1\n)" })
    assert.same({ true, "x" }, { value "local s = 'x'\ns:lower()" })
  end)

  it("does not exist for other statements, or where the line continues the one before", function()
    assert.same({ false }, { value "local x = 1\nx = 2" })
    assert.same({ false }, { value "local x\nfor i = 1, 2 do\n  print(nil == 1 and i or '')\nend" })
    assert.same({ false }, { value "local x = 1 +\ntonumber '2'" })
    assert.same({ false }, { value "local function f() return f end local x = f\n(1)" })
    assert.same({ false }, { value "local x = [[\nprint()\n]]" })
    assert.same({ false, 5 }, { value "local x = 4\nreturn x + 1" })
  end)
end)

describe("'did you mean' names", function()
  it("the word that is most like another, if one is", function()
    local list = { "print", "pairs", "ipairs", "select", "rename" }
    assert.equal("print", hint.nearest("pritn", list))
    assert.equal("print", hint.nearest("prin", list))
    assert.equal("select", hint.nearest("SELECT", list))
    assert.equal("rename", hint.nearest("renmae", list))
    assert.is_nil(hint.nearest("x", list))
    assert.is_nil(hint.nearest("nonsense", list))
  end)

  -- What gives the hint for a message, in a session that has run some chunks.
  local function hints_of(...)
    local session = session_of(...)
    return function(message) return hint.of_error(session, message) end
  end

  it("a global or a local, if a call of an unknown one fails", function()
    local of = hints_of("local counter = 1", "jobs = rn.chan()", "conter()", "pritn(1)")
    assert.equal("did you mean counter?", of "[3]:1: attempt to call a nil value (global 'conter')\nstack traceback:")
    assert.equal("did you mean print?", of "[4]:1: attempt to call a nil value (global 'pritn')")
    assert.is_nil(of "[4]:1: attempt to call a nil value (global 'nonsense')")
    assert.is_nil(of "[4]:1: oops")
  end)

  it("a field or a method, of the value in the line of the error", function()
    local of = hints_of("jobs = rn.chan()", "x = 1\nrn.pmpa(1)", "jobs:clsoe()")
    assert.equal("did you mean rn.pmap?", of "[2]:2: attempt to call a nil value (field 'pmpa')")
    assert.equal("did you mean jobs:close?", of "[3]:1: attempt to call a nil value (method 'clsoe')")
    assert.is_nil(of "[9]:1: attempt to call a nil value (field 'pmpa')")
    assert.is_nil(of "other.lua:1: attempt to call a nil value (field 'pmpa')")
  end)

  it("a variable or a field, if its name is all that was typed", function()
    local session = session_of("jobs = 1", "local nothing")
    assert.equal("did you mean jobs?", hint.of_chunk(session, "jbos"))
    assert.equal("did you mean rn.pmap?", hint.of_chunk(session, " rn.pmpa "))
    assert.is_nil(hint.of_chunk(session, "nothing"))
    assert.is_nil(hint.of_chunk(session, "jbos + 1"))
    assert.is_nil(hint.of_chunk(session, "nil_or_something"))
  end)
end)

-- A part of the manual, for the specs that are run by an interpreter without it.
package.preload["runnel.host.manual_tables"] = package.preload["runnel.host.manual_tables"] or function()
  return { texts = {}, rows = { { calls = { "rn.pmap(n, f, from, [opts])" }, names = {}, text = "Calls f. More." },
    { calls = { "Connection: a close" }, names = {}, text = "stays open" } } }
end

describe("the names in the documentation", function()
  it("are only those of values and methods, though other rows of tables begin like one", function()
    local names = doc.names()
    assert.is_true(#names > 150)
    for _, name in ipairs(names) do assert.matches("[%w_]$", name) end
    assert.same({}, doc.find "Connection")
  end)
end)

describe("a function is shown", function()
  it("as the manual calls it, with the first sentence about it", function()
    local session = session_of()
    if #doc.find "rn.pmap" > 0 then
      local text = describing.func(session, rn.pmap, "", 60)
      assert.matches("^function: rn.pmap%(n, f, from, %[opts%]%)\n    Calls", text)
      assert.matches("%(rn.pmap%? shows more%)$", (text:gsub("\n +", " ")))
    end
    assert.matches("^function: string.format%(format, ...%)\n    ", describing.func(session, string.format, "f", 60))
  end)

  it("with its parameters, its place, and the comment above it", function()
    local session = session_of("-- Adds two numbers,\n-- not more.\n---@param a integer\nfunction add(a, b, ...) end",
      "plain = function() end")
    local add, plain = session:get "add", session:get "plain"
    assert.equal("function: add(a, b, ...)  [1]:4\n    Adds two numbers,", describing.func(session, add, "add", 60))
    assert.equal("function: ()  [2]:1", describing.func(session, plain, "1 and plain", 60))
    local text = describing.func(session, session_of, "f", 60):gsub("%(...%)", "(s)")
    assert.matches("^function: f%(s%)  spec/prompt/typing_spec.lua:%d+\n    A session", text)
  end)
end)

describe("Tab after require", function()
  local ui
  before_each(function()
    local dirs = { ["./"] = { "one_module.lua", "sub/", "text.txt" }, ["./sub/"] = { "deep_module.lua" } }
    ui = { session = session_of(), files = function(dir) return dirs[dir] end }
  end)

  local function typed(line)
    local path, cpath = package.path, package.cpath
    package.path, package.cpath = "./?.lua;./?/init.lua", ""
    local inserted, list = complete(ui, line, "")
    package.path, package.cpath = path, cpath
    return inserted, list
  end

  it("completes modules and directories, and closes the quotation mark", function()
    assert.equal("dule\"", (typed 'x = require "one_mo'))
    assert.equal("dule'", (typed "require('one_mo"))
    assert.equal(".", (typed 'require "sub'))
    assert.equal("p_module\"", (typed 'require "sub.dee'))
    assert.equal("", (typed 'require "text'))
    assert.equal("", (typed 'required "one_mo'))
  end)

  it("completes loaded modules, but not the library's inner ones", function()
    package.preload["some_unusual_module"] = print
    assert.equal("ual_module\"", (typed 'require "some_unus'))
    package.preload["some_unusual_module"] = nil
    assert.equal("", (typed 'require "runnel.internal.prom'))
  end)
end)

describe("a flow as a script", function()
  local flow = require "runnel.flow"
  local script = require "runnel.prompt.flow_script"

  -- The script of a flow of a session, and what must be filled in.
  local function saved(session, f)
    local text, missing = script(session, f)
    assert(load(text), text)
    return text, missing
  end

  it("has its stages as they are now, and the functions and values that they use", function()
    local session = session_of([[
flow = require "runnel.flow"
local limit = 3
function parse(line) return tonumber(line) end
total = 0
local function helper(n) return n > limit and limit or n end
function save(n)
  total = total + helper(n)
end
words = rn.chan(2)
f = flow("sum", { words = words, parse = { parse, tries = 2, buffer = 4 }, batch = flow.batch(2, 50),
  each = { step = function(list, put) for _, n in ipairs(list) do put(n) end end, outs = { "odd" } }, save = save,
  bad = function(e) total = e end, "words > parse > batch > each > save", "each.odd > save", "*.error > bad" })
]], "f:start()", "f:add { double = function(n) return 2 * n end, 'parse > double > batch' }",
      "f:replace('parse', function(line) return tonumber(line) or 0 end):workers('parse', 4)")
    local f <close> = session:get "f"
    local text, missing = saved(session, f)
    assert.same({}, missing)
    for _, line in ipairs {
      'local rn = require "runnel"\n', "local words = rn.chan(2)\n", "local limit = 3\n", "local total = 0\n",
      "local function helper(n) return n > limit and limit or n end\n",
      "local function save(n)\n  total = total + helper(n)\nend\n", "  words = words,\n",
      "  parse = { function(line) return tonumber(line) or 0 end, n = 4, tries = 2, backoff = 100, buffer = 4 },\n",
      "  batch = flow.batch(2, 50),\n", 'outs = { "odd" } },\n', "  save = save,\n",
      "  double = function(n) return 2 * n end,\n", '  "words > parse > batch > each > save",\n',
      '  "parse > double > batch",\n', '  "each.odd > save",\n',
    } do
      assert.is_truthy(text:find(line, 1, true), line .. "\n" .. text)
    end
    assert.not_matches("local function parse", text)
  end)

  it("does the same when it runs", function()
    local session = session_of([[
flow = require "runnel.flow"
got = {}
local function even(n) return n == 0 or odd(n - 1) end
function odd(n) return n ~= 0 and even(n - 1) end
f = flow("even", { ["in-put"] = { from = { 1, 2, 3, 4 } }, only = function(n) if even(n) then return n end end,
  put = function(n) got[#got + 1] = n end, "in-put > only > put" })
]])
    local text, missing = saved(session, session:get "f")
    assert.same({}, missing)
    local run = assert(load(text:gsub("f:wait%(%)", "f:wait() return got")))
    assert.same({ 2, 4 }, run())
  end)

  describe("runs, whatever its functions use:", function()
    -- What the session has, and what the script's last line `return got` gives.
    local CASES = {
      { "the flow itself", [[
got = {}
f = flow("again", { numbers = { from = { 1, 2, 3 } }, check = function(n)
  if n == 2 then f:inject("save", 20) end
  return n
end, save = function(n) got[#got + 1] = n end, "numbers > check > save" })
]], 26 },
      { "the flow by two names", [[
got = {}
f = flow("named", { numbers = { from = { 1 } }, one = function(n) return other.name == f.name and n end,
  save = function(n) got[#got + 1] = n end, "numbers > one > save" })
other = f
]], 1 },
      { "functions of the library, as locals", [[
got = {}
local retry, sleep, pmap = rn.retry, rn.sleep, rn.pmap
f = flow("library", { numbers = { from = { 1, 2 } }, one = function(n)
  sleep(0)
  for v in pmap(1, function(v) return v end, { n }) do n = v end
  return retry(function() return n end)
end, save = function(n) got[#got + 1] = n end, "numbers > one > save" })
]], 3 },
      { "a module, and functions that use each other", [[
got = {}
local json = require "runnel.json"
local function down(n) return n == 0 and 0 or up(n - 1) end
function up(n) return n == 0 and 0 or down(n - 1) end
f = flow("module", { numbers = { from = { 1, 2 } }, one = function(n) return json.decode(json.encode(n)) + up(n) end,
  save = function(n) got[#got + 1] = n end, "numbers > one > save" })
]], 3 },
      { "tables with brackets in their texts, and with odd keys", [==[
got = {}
local odd = { [true] = 1, [1.5] = 2, ["a]]]b"] = 3, ["end"] = 4 }
f = flow("odd", { numbers = { from = { 1 } }, one = function(n)
  return n + odd[true] + odd[1.5] + odd["a]]]b"] + odd["end"]
end, save = function(n) got[#got + 1] = n end, "numbers > one > save" })
]==], 11 },
    }
    for _, case in ipairs(CASES) do
      local what, chunk, sum = table.unpack(case)
      it(what, function()
        local session = session_of('flow = require "runnel.flow"', chunk)
        local text, missing = saved(session, session:get "f")
        assert.same({}, missing)
        local run = assert(load((text:gsub("(%a+:wait%(%))\n$", "%1 return got\n"))), text)
        local ok, got = pcall(run)
        assert.is_true(ok, tostring(got) .. "\n" .. text)
        local total = 0
        for _, n in ipairs(got) do total = total + n end
        assert.equal(sum, total, text)
      end)
    end

    it("what cannot be written is nil, with a comment that ends where it should", function()
      local odd = setmetatable({}, { __tostring = function() return "a]]]b]" end })
      local session = session_of()
      local f = flow("x", { lines = { from = { 1 } }, sum = function() return { [odd] = 1 } end, "lines > sum" })
      local _, missing = saved(session, f)
      assert.is_true(#missing > 0)
    end)
  end)

  it("says what it cannot write", function()
    local session = session_of()
    local f = flow("x", { lines = { from = io.lines "/dev/null" }, sum = { function(v) return v + #session.chunks end },
      "lines > sum" })
    local _, missing = saved(session, f)
    assert.matches("^stage lines %(function: ", missing[1])
  end)
end)

describe("Tab in the names of files", function()
  local function typed(line, names)
    return complete({ session = session_of(), files = function() return names end }, line, "")
  end

  it("inserts whole characters only", function()
    local inserted, list = typed(":load ", { "ä.lua", "ö.lua" })
    assert.equal("", inserted)
    assert.same({ "ä.lua", "ö.lua" }, list)
    assert.equal("_", (typed(":load a", { "a_ä.lua", "a_ö.lua" })))
    assert.equal("ä.lua", (typed(":load ", { "ä.lua", "ä.lua.old" })))
    assert.equal("", (typed(":load ", { "\x81\x80", "\x81\x82" }))) -- no UTF-8
    assert.equal("", (typed(":load ", { "", "\x81\x82" })))
  end)
end)

describe("Tab shows candidates", function()
  it("without control characters, and inserts none", function()
    local names = { "a\27[31mred.lua", "a\n os.exit()", "abc.lua", "abd.lua" }
    local ui = { session = session_of(), files = function() return names end }
    assert.same({ "b", nil }, { complete(ui, ":load a", "") })
    assert.same({ "", { "abc.lua", "abd.lua" } }, { complete(ui, ":load ab", "") })
    local blocks = {}
    for i = 1, 2 do
      blocks[i] = rn.go(function()
        rn.rename "\27[31mev\nil"
        rn.chan():take()
      end)
    end
    rn.yield()
    local line, inserted, list = ":bt "
    repeat
      inserted, list = complete(ui, line, "")
      line = line .. inserted
    until list or inserted == ""
    assert.matches("\n%d+ %(%?%[31mev%?il%)\n", "\n" .. table.concat(list, "\n") .. "\n")
    for _, block in ipairs(blocks) do rn.cancel(block) end
  end)

  it("in as many columns as fit, from top to bottom", function()
    assert.same({ "a  日本語  e", "b  d" }, width.list({ "a", "b", "日本語", "d", "e" }, 24))
    assert.same({ "日本語", "d" }, width.list({ "日本語", "d" }, 8))
    assert.same({ "日本語", "d" }, width.list({ "日本語", "d" }, 3))
    assert.same({}, width.list({}, 80))
  end)
end)

describe(":save", function()
  it("says when the file could not be written, and leaves none behind", function()
    local said, removed, open, remove = {}, {}, io.open, os.remove
    local file = { write = function() return nil, "No space left on device" end, close = function() return true end }
    local function say(text) said[#said + 1] = text end
    local ui = { session = session_of(), print = say, complain = say }
    io.open = function(_, mode) return mode == "w" and file or nil end -- luacheck: ignore 122
    os.remove = function(path) removed[#removed + 1] = path end -- luacheck: ignore 122
    local ok, err = pcall(function() commands.new(ui):run ":save full.lua" end)
    io.open, os.remove = open, remove -- luacheck: ignore 122
    assert(ok, err)
    assert.same({ "full.lua: No space left on device" }, said)
    assert.same({ "full.lua" }, removed)
  end)
end)

describe("what goes wrong with a command", function()
  -- What a command complains of.
  local function complaint(line)
    local said
    local ui = { session = session_of(), style = {}, call = pcall, channels = function() return {} end }
    function ui.print() end
    function ui.complain(text) said = text end
    commands.new(ui):run(line)
    return said
  end

  it("is said without a line of the library: a file, a recording or profile that goes on", function()
    assert.equal("trace: cannot write /nowhere/x.json: No such file or directory", complaint ":trace /nowhere/x.json")
    local path = os.tmpname()
    rn.trace(path)
    assert.equal(("trace: %s is being recorded; end it first with rn.trace(false)"):format(path),
      complaint ":trace other.json")
    rn.trace(false)
    os.remove(path)
    assert.equal("profile: cannot write /nowhere/x.html: No such file or directory",
      complaint ":profile 50 /nowhere/x.html")
    rn.profile(function() assert.equal("profile: a profile is being made already", complaint ":profile 50") end)
  end)

  it("is that there is no channel of a number", function()
    assert.equal("there is no channel #99; :chans lists the channels", complaint ":tap #99")
  end)
end)

describe(":watch", function()
  it("keeps its lines within the screen", function()
    local painted
    local ui = { size = function() return 24, 20 end, channels = function() return {} end }
    function ui.key() return "q" end
    function ui.paint(lines) painted = painted or lines end
    commands.new(ui):run ":watch"
    for _, line in ipairs(painted) do assert.is_true(width.of(line) < 20, line) end
  end)
end)

describe(":profile", function()
  it("measures no more once it is cancelled", function()
    local ui = { session = session_of(), print = function() end, call = pcall }
    ui.complain = ui.print
    local block = rn.go(function() commands.new(ui):run ":profile 60000" end)
    rn.yield()
    rn.cancel(block, "the client has gone")
    block:take()
    assert.is_nil(require("runnel.core").internal.profile.stop())
  end)
end)
