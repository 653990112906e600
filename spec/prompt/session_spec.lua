-- The state of a prompt between chunks: locals, numbers, last values; and how it splits input into chunks.

local session = require "runnel.prompt.session"

local function new() return session.new(setmetatable({}, { __index = _G }), {}) end

-- Compiles and runs a chunk; returns its values, or raises.
local function run(s, text)
  local chunk = assert(s:compile(text))
  s:note(chunk)
  return chunk.run()
end

describe("a session's locals", function()
  local s
  before_each(function() s = new() end)

  it("are seen by later chunks, which share them with closures", function()
    run(s, "local n = 1 local function add() n = n + 1 return n end")
    assert.equal(2, run(s, "add()"))
    run(s, "n = 10")
    assert.equal(11, run(s, "add()"))
    assert.equal(11, run(s, "n"))
  end)

  it("are shadowed by later ones, while closures keep the variable that they were made with", function()
    run(s, "local n = 1 local function get() return n end")
    run(s, "local n = n + 1")
    assert.same({ 2, 1 }, { run(s, "n, get()") })
  end)

  it("are those at the top level of the chunk, not in its blocks", function()
    run(s, "do local a = 1 end for b = 1, 2 do local c = b end local f = function() local d = 1 return d end")
    assert.same({}, { run(s, "a, b, c, d") })
    assert.equal("function", run(s, "type(f)"))
  end)

  it("exist even if their chunk raises an error later, or returns", function()
    local chunk = assert(s:compile "local a = 1 local b = 2 error 'oops' local c = 3")
    assert.is_false(pcall(chunk.run))
    assert.same({ 1, 2 }, { run(s, "a, b, c") })
    assert.equal("early", run(s, "local d = 4 if d then return 'early' end local e = 5"))
    assert.same({ 4 }, { run(s, "d, e") })
  end)

  it("cannot be assigned to where they are <const>", function()
    run(s, "local limit <const> = 5 local list <const> = { 1 }")
    assert.same({ 5, { 1 } }, { run(s, "limit, list") })
    local chunk, err = s:compile "limit = 6"
    assert.is_nil(chunk)
    assert.equal("[3]:1: attempt to assign to const variable 'limit'", err)
  end)

  it("are closed at the end of the session where they are <close>, the last one first", function()
    local env = { closed = {} }
    s = session.new(setmetatable(env, { __index = _G }))
    run(s, [[function closer(name)
      return setmetatable({ name = name }, { __close = function(_, e) table.insert(closed, name .. tostring(e)) end })
    end]])
    run(s, "local a <close> = closer 'a' local b <close>, c = closer 'b', 1 local none <close> = nil")
    run(s, "local a <close> = closer 'c' local _ <close> = closer 'd'")
    assert.same({}, env.closed)
    assert.equal("c", run(s, "a.name"))
    assert.is_nil((s:compile "a = 1"))
    s.locals:close(error)
    assert.same({ "dnil", "cnil", "bnil", "anil" }, env.closed)
    s.locals:close(error)
    assert.equal(4, #env.closed)
  end)

  it("are all closed, even if closing one raises", function()
    local errors = {}
    run(s, "local a <close> = setmetatable({}, { __close = function() error('first', 0) end })")
    run(s, "local b <close> = setmetatable({}, { __close = function() error('second', 0) end })")
    s.locals:close(function(err) errors[#errors + 1] = err:match "^[^\n]*" end)
    assert.same({ "second", "first" }, errors)
  end)

  it("need a closable value if they are <close>", function()
    local chunk = assert(s:compile "local a <close> = 5")
    local _, err = pcall(chunk.run)
    assert.equal("[1]:1: variable 'a' got a non-closable value", err)
  end)

  it("may be _ENV", function()
    run(s, "local _ENV = { x = 7 } y = 8")
    assert.same({ 7, 8 }, { run(s, "x, y") })
  end)

  it("may be more than a function can have", function()
    for i = 1, 400 do run(s, ("local v%d = %d"):format(i, i)) end
    local sum = {}
    for i = 1, 190 do sum[i] = "v" .. i end
    assert.equal(190 * 191 / 2, run(s, table.concat(sum, "+")))
    sum[191] = "v191"
    local chunk, err = s:compile(table.concat(sum, "+"))
    assert.is_nil(chunk)
    assert.equal("[402]: uses 191 locals of this session; at most 190 are possible", err)
  end)

  it("do not include _, which is the last value", function()
    run(s, "local _, b = 1, 2")
    assert.same({ nil, 2 }, { run(s, "_, b") })
  end)

  it("are captured where Lua ends their statement", function()
    local ends = {
      "local v = type\n('x')", "local v = function() end (print or type)('x')", "local v = 'a' .. 'b' .. [[\nc]]",
      "local v = { 1, f = function() local w = 1 end }", "local v = (type)('x'):upper{}", "local v = not -#'a' ~= ~2",
      "local v, w = ('x'):rep(2, ','), ...", "local v", "local v <const>", "local v = 0x1p-4 + .5e1 + 3 .. ''",
      "local v = type'x' .. type[[x]]", "local v --[[ = 1 ]] = --x\n 2", "local v = a.b.c[1]:d 'x' .e",
      "local v = function(...) if x then return ... end repeat until y end", "local <const> v", "local <close> v = x",
      "local <const> v, w <close>, u = 1, nil",
    }
    local locals = require "runnel.prompt.locals"
    for _, text in ipairs(ends) do
      local expected = text == ends[2] and #"local v = function() end" or #text
      for _, more in ipairs { "", " ; ", " -- comment", " local last = 1", "\nreturn v", " f()" } do
        local list = locals.declarations(text .. more)
        assert.equal(expected, list[1].stop, text .. more)
        assert.equal(more:find "local" and 2 or 1, #list, text .. more)
      end
    end
  end)

  it("have the attributes of their names, and those without one that of all, which Lua 5.5 allows", function()
    local locals, found = require "runnel.prompt.locals", {}
    for _, declaration in ipairs(locals.declarations "local <const> a, b <close>, c = f() local d <const>, e") do
      for i, name in ipairs(declaration.names) do
        found[#found + 1] = name .. " " .. (declaration.attributes[i] or { name = "none" }).name
      end
    end
    assert.same({ "a const", "b close", "c const", "d const", "e none" }, found)
  end)

  it("last for the session however their attributes are written", function()
    local closed = 0
    local before = load "local <const> a = 1" and { "<const> limit", "<close> file" }
      or { "limit <const>", "file <close>" }
    s = session.new(setmetatable({ object = setmetatable({}, { __close = function() closed = closed + 1 end }) },
      { __index = _G }), {})
    run(s, ("local %s = 5 local %s = object"):format(before[1], before[2]))
    assert.equal(5, run(s, "limit"))
    assert.is_nil((s:compile "limit = 6"))
    assert.equal(0, closed)
    s.locals:close(error)
    assert.equal(1, closed)
  end)
end)

-- Random programs: lists of statements. Any split into chunks must do the same as all of them in one chunk.
local function random_program(random)
  local names = { "a", "b", "c", "d" }
  local scope = { a = "variable" }
  local labels = 0

  local function pick(list) return list[random(#list)] end
  local function any() return pick(names) end
  local function readable()
    local name = any()
    return scope[name] and scope[name] ~= "closed" and name or tostring(random(9))
  end
  local function expression()
    local x, y = readable(), readable()
    return pick {
      x, x .. " + " .. y, ("(%s * 3 + %s) %% 1000"):format(x, y), ("-%s"):format(x), ("f(%s)"):format(x),
      ("({ %s, %s })[2]"):format(x, y), ("(function() return %s end)()"):format(x), ("#'abc' + %s"):format(x),
      ("tonumber '7' - %s"):format(x), ("f { %s }"):format(x), ("f(f)\n(%s)"):format(x),
    }
  end
  local function assignable()
    for _ = 1, 8 do
      local name = any()
      if scope[name] == "variable" then return name end
    end
  end

  local statements = {
    function()
      local text, name = expression(), any()
      scope[name] = "variable"
      return ("local %s = %s"):format(name, text)
    end,
    function()
      local text, name = pick { expression(), tostring(random(9)) }, any()
      scope[name] = "constant"
      return ("local %s <const> = %s"):format(name, text)
    end,
    function()
      local x, y, first, second = expression(), expression(), any(), any()
      scope[first], scope[second] = "variable", "variable"
      return ("local %s, %s = %s, %s"):format(first, second, x, y)
    end,
    function()
      local name = any()
      scope[name] = "closed"
      return ("local %s <close> = closer(%d)"):format(name, random(99))
    end,
    function()
      local name = assignable()
      return name and ("%s = %s"):format(name, expression()) or "out 'none'"
    end,
    function()
      local name = assignable()
      return name and ("fs[#fs + 1] = function() %s = %s + 1 return %s end"):format(name, name, expression())
        or ("fs[#fs + 1] = function() return %s end"):format(expression())
    end,
    function()
      local name = any()
      scope[name] = "closed" -- a function: no operand
      local body = expression()
      local text = "local function NAME(n) if n > 0 then return NAME(n - 1) end return %s end out(NAME(2))"
      return (text:format(body):gsub("NAME", name))
    end,
    function() return ("out(%s)"):format(expression()) end,
    function() return "for i = 1, #fs do out(fs[i]()) end" end,
    function()
      return ("for i = 1, 2 do local a = %s fs[#fs + 1] = function() a = a + i return a end end"):format(expression())
    end,
    function() return ("do local b <close> = closer(%d) local a = 1 out(a) end"):format(random(99)) end,
    function() return ("if %s > 5 then local c = 1 out(c) else out 'less' end"):format(expression()) end,
    function()
      labels = labels + 1
      local text, name = expression(), any()
      scope[name] = "variable"
      return ("k = 0 ::l%d:: local %s = %s k = k + 1 fs[#fs + 1] = function() %s = %s + k return %s end "
        .. "if k < 3 then goto l%d end"):format(labels, name, text, name, name, name, labels)
    end,
  }
  local list = { "local a = 1" }
  for i = 2, 25 do list[i] = pick(statements)() end
  list[#list + 1] = "for i = 1, #fs do out(fs[i]()) end"
  return list
end

-- An environment that records what a program does.
local function noting()
  local log = {}
  local function out(v) log[#log + 1] = type(v) == "function" and "a function" or tostring(v) end

  local env = {
    out = out, fs = {}, tonumber = tonumber,
    f = function(v) return type(v) == "number" and v + 1 or type(v) == "table" and v[1] or function(n) return n end end,
    closer = function(n)
      return setmetatable({}, { __close = function(_, e) out(("closed %d %s"):format(n, tostring(e))) end })
    end,
  }
  return env, log
end

describe("a session", function()
  it("runs random programs chunk by chunk like one long chunk #ci", function()
    local seed = os.time()
    for round = 1, 100 do
      math.randomseed(seed, round)
      local list = random_program(math.random)
      local env, expected = noting()
      local whole = table.concat(list, "\n")
      local f, err = load(whole, "=whole", "t", env)
      assert(f, ("seed %d, round %d: %s\n%s"):format(seed, round, err, whole))
      f()
      local cut_env, log = noting()
      local s = session.new(cut_env)
      local i = 1
      while i <= #list do
        local n = math.random(3)
        local text = table.concat(list, "\n", i, math.min(i + n - 1, #list))
        run(s, text)
        i = i + n
      end
      s.locals:close(error)
      assert.same(expected, log, ("seed %d, round %d:\n%s"):format(seed, round, whole))
    end
  end)

  it("numbers its chunks", function()
    local s = new()
    assert.equal("[1]", s:name())
    assert.is_nil((s:compile "x = = 1"))
    run(s, "x = 1")
    local chunk = assert(s:compile "error 'oops'")
    local _, err = pcall(chunk.run)
    assert.equal("[2]:1: oops", err)
  end)

  it("continues incomplete input, expressions too, and nothing else", function()
    local s = new()
    for _, text in ipairs {
      "{1,", "1 +", "'a' ..", "f(", "f{", "x =", "for", "if x then", "function f()", "return 1 +", "x = [[", "--[[",
      "'a\\", "=1 +", "not", "(", "local x <", "x = '\\z", "a[", "a.",
    } do
      local _, err = s:compile(text)
      assert.equal("incomplete", err, text)
    end
    for text, expected in pairs {
      ["x = = 1"] = "unexpected symbol near '='", ["1 + * 2"] = "unexpected symbol near '*'",
      ['"abc'] = "unfinished string near '\"abc'", ["foo bar"] = "syntax error near 'bar'",
      ["end"] = "<eof> expected near 'end'", ["{ 1 2 }"] = "'}' expected near '2'",
      ["end print(1) do"] = "<eof> expected near 'end'", ["x = 'a"] = "unfinished string near ''a'",
      ["f(1))"] = "unexpected symbol near ')'",
    } do
      local _, err = s:compile(text)
      assert.equal("[1]:1: " .. expected, (err:gsub(" near <eof>$", "")), text)
    end
  end)

  it("keeps the last values", function()
    local s = session.new(nil, {})
    for i = 1, 5 do
      s:keep(i)
      s:keep(nil)
    end
    assert.same({ _ = 5, _1 = 4, _2 = 3, _3 = 2 }, s.kept)
  end)

  it("takes a paste as one chunk if it compiles as one, otherwise as several", function()
    local s = new()
    assert.same({ "local a = 1\nlocal b = 2\n\nprint(a)" }, s:split "local a = 1\nlocal b = 2\n\nprint(a)")
    assert.same({ "t = {\n1,\n}", "#t" }, s:split "t = {\n1,\n}\n#t")
    assert.same({ "a = 1", "a", "for i = 1, 2 do\nprint(i)\nend", "a + 1" },
      s:split "a = 1\na\nfor i = 1, 2 do\nprint(i)\nend\na + 1")
    assert.same({ nil, "incomplete" }, { s:split "a = 1\nfor i = 1, 2 do" })
    assert.same({ nil, "[1]:2: unexpected symbol near '='" }, { s:split "a = 1\nb = = 2\nc = 3" })

  end)

  it("reads long chunks line by line in linear time", function()
    local s = new()
    local read = s:reader()
    assert.same({ nil, "incomplete" }, { read("t = {", true) })
    for i = 1, 5000 do read(("  %q, --[[ a\ncomment ]] [==[]]"):format(i):gsub("\n", " ") .. "]==],", true) end
    local texts = read("}", true)
    assert.equal(1, #texts)
    run(s, texts[1])
    assert.equal(10000, run(s, "#t"))
  end)

  it("writes its chunks as a script that does the same", function()
    local s = new()
    run(s, "local out = {}")
    run(s, "local function f(x) out[#out + 1] = x return x end")
    run(s, "f(1)")
    run(s, "f(2) + 1")
    run(s, "return f(3)")
    run(s, "=f(4) -- four")
    local entry = s:note(assert(s:compile "f(5)\nerror 'oops'"))
    entry.failed = true
    run(s, "f(6)")
    local script = s:script()
    local chunk = assert(load(script .. "return out", "=script", "t",
      setmetatable({ print = function() end }, { __index = _G })))
    assert.same({ 1, 2, 3, 4, 6 }, chunk())
    assert.matches('^local rn = require "runnel"\nlocal out = {}\n', script)
    assert.matches("\n%-%- raised an error:\n%-%- f%(5%)\n%-%- error 'oops'\n", script)
  end)
end)
