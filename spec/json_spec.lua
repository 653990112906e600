-- runnel.json: what is written, what is read, and what is refused. The cases of "reads every text that RFC 8259 allows"
-- and "refuses every other text" are those that parsers of JSON are known to get wrong.

local json = require "runnel.json"
local long = require "spec.support.long"
local model = require "spec.support.json_model"

describe("JSON", function()
  local function round(value)
    local text = assert(json.encode(value))
    return json.decode(text), text
  end

  it("keeps values", function()
    for _, value in ipairs {
      0, -1, math.maxinteger, math.mininteger, 0.1, 1e300, -2.5e-7, 5e-324, 1 / 3, true, false, "", "text",
      "\0\1\31\127\"\\/\n\r\t\b", "é ☃ 𝄞", { 1, 2, { "three" } }, { a = 1, b = { c = false } },
      { ["a.b \""] = { { {} } } },
    } do
      assert.same(value, (round(value)))
    end
    assert.equal("float", math.type((round(3.0))))
    assert.equal("integer", math.type((round(3))))
    assert.equal("-inf", tostring(1 / round(-0.0)))
    assert.equal(json.null, (round(json.null)))
  end)

  it("writes an empty table as an object, and an empty array as an array", function()
    assert.equal("{}", json.encode {})
    assert.equal("[]", json.encode(json.array {}))
    assert.equal("[]", json.encode(json.decode "[]"))
    assert.equal('{"a":[1,null]}', json.encode { a = { 1, json.null } })
  end)

  it("writes the elements of an array, and no other fields", function()
    local array = json.decode "[1,2]"
    array.n = 2
    assert.equal("[1,2]", json.encode(array))
  end)

  it("says at the caller's line that an array is a table", function()
    local ok, err = pcall(function() return json.array(5), 1 end)
    assert.is_false(ok)
    assert.matches("json_spec.lua:%d+: array: list: a table expected, got a number", err)
  end)

  it("writes floats as short as possible", function()
    assert.equal("[0.1,1e+300,2.0,0.30000000000000004,-0.0]", json.encode { 0.1, 1e300, 2.0, 0.1 + 0.2, -0.0 })
  end)

  it("writes floats with the fewest digits that are read back as the same", function()
    local function digits_of(text)
      return #text:gsub("e.*", ""):gsub("[-.]", ""):gsub("^0+", ""):gsub("0+$", "")
    end
    local function check(value)
      local text = json.encode(value)
      assert(("%a"):format(value) == ("%a"):format(json.decode(text)) and text:find "[.e]", text)
      local fewer = digits_of(text) - 1
      if fewer < 1 then return end
      local short = ("%%.%dg"):format(fewer):format(value)
      assert(tonumber(short) ~= value, short)
    end
    for _, one in ipairs {
      { 5e-324, "5e-324" }, { 1e-310, "1e-310" }, { 0x1p-1022, "2.2250738585072014e-308" }, { 1e15, "1e+15" },
      { 123456789012345680.0, "1.2345678901234568e+17" }, { 9007199254740993.0, "9007199254740992.0" },
      { 1e-4, "0.0001" }, { 1e-5, "1e-05" }, { 0.1 + 0.7, "0.7999999999999999" },
      { 999999999999999.0, "999999999999999.0" },
      -- The nearest numbers of 16 digits are read as other floats, those after them as these.
      { 0x1p-44, "5.684341886080802e-14" }, { 0x1p-778, "6.290184345309701e-235" },
    } do
      assert.equal(one[2], json.encode(one[1]))
    end
    for exponent = -1074, 1023 do check(2.0 ^ exponent) end
    for _ = 1, long.times(1000, 4000) do
      local value = string.unpack("d", string.pack("i8", math.random(0)))
      if value == value and math.abs(value) < math.huge then check(value) end
      check(math.random(0, 10 ^ math.random(1, 17) // 1 | 0) / 10.0 ^ math.random(0, 20))
    end
  end)

  it("writes floats with a point in any locale", function()
    local before = os.setlocale(nil, "numeric")
    for _, name in ipairs { "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "C" } do
      if os.setlocale(name, "numeric") then break end
    end
    local ok, text = pcall(json.encode, { 0.5, 1e300 })
    os.setlocale(before, "numeric")
    assert.is_true(ok)
    assert.equal("[0.5,1e+300]", text)
  end)

  it("writes a text of several lines, with fields in their order, if asked", function()
    local value = { name = "Ann", tags = { "a", "b" }, none = {}, more = json.array {}, at = { x = 1.5 } }
    local text = json.encode(value, { indent = 2 })
    assert.equal([[
{
  "at": {
    "x": 1.5
  },
  "more": [],
  "name": "Ann",
  "none": {},
  "tags": [
    "a",
    "b"
  ]
}]], text)
    assert.same(value, json.decode(text))
    assert.equal('{\n"a": 1\n}', json.encode({ a = 1 }, { indent = 0 }))
  end)

  it("reads every text that RFC 8259 allows", function()
    for text, value in pairs {
      ["[]"] = {}, ["[ ]"] = {}, ["[null]"] = { json.null }, ["[1,null,null]"] = { 1, json.null, json.null },
      [" [1] "] = { 1 }, ["\t\n\r[\n1\n,\n2]\n"] = { 1, 2 }, ['[""]'] = { "" }, ["{}"] = {}, ['{"":0}'] = { [""] = 0 },
      ['{"a":"b","a":"c"}'] = { a = "c" }, ['{"a":[]}'] = { a = {} }, ['{"min":-1.0e+28,"max":1.0e+28}'] =
      { min = -1.0e28, max = 1.0e28 }, ['{"foo\\u0000bar":42}'] = { ["foo\0bar"] = 42 },
      ["[123e65]"] = { 123e65 }, ["[0e+1]"] = { 0.0 }, ["[0e1]"] = { 0.0 }, ["[ 4]"] = { 4 }, ["[-0]"] = { 0 },
      ["[-1]"] = { -1 }, ["[1E22]"] = { 1e22 }, ["[1E-2]"] = { 0.01 }, ["[1E+2]"] = { 100.0 },
      ["[123.456e78]"] = { 123.456e78 }, ["[-0.000000000000000000000000000001]"] = { -1e-30 },
      ["[20e1]"] = { 200.0 }, ["[9223372036854775807]"] = { math.maxinteger },
      ["[-9223372036854775808]"] = { math.mininteger }, ["[9223372036854775808]"] = { 2.0 ^ 63 },
      ["[100000000000000000000]"] = { 1e20 }, ["[0.4e-400]"] = { 0.0 },
      ['["\\u0060\\u012a\\u12AB"]'] = { "`Īካ" }, ['["\\uD801\\udc37"]'] = { "𐐷" },
      ['["\\"\\\\\\/\\b\\f\\n\\r\\t"]'] = { "\"\\/\b\f\n\r\t" }, ['["\\\\u0000"]'] = { "\\u0000" },
      ['["a/*b*/c/*d//e"]'] = { "a/*b*/c/*d//e" }, ['["\127"]'] = { "\127" }, ['["\u{2028}\u{FFFF}"]'] =
      { "\u{2028}\u{FFFF}" }, ['["\\uFFFF\\uDBFF\\uDFFE"]'] = { "\u{FFFF}\u{10FFFE}" }, ['["\\u0000"]'] = { "\0" },
      ["false"] = false, ["true"] = true, ["42"] = 42, ["-0.1"] = -0.1, ['"asd"'] = "asd", ['""'] = "",
      ["null"] = json.null, [("["):rep(100) .. ("]"):rep(100)] = load("return " .. ("{"):rep(100) .. ("}"):rep(100))(),
    } do
      local got, problem = json.decode(text)
      assert.is_nil(problem, text)
      assert.same(value, got, text)
      local expected, seen = type(value) == "table" and value[1], type(got) == "table" and got[1]
      if math.type(expected) then assert.equal(math.type(expected), math.type(seen), text) end
    end
  end)

  it("refuses every other text", function()
    for _, text in ipairs {
      "", " ", "[", "]", "[1", "[1,", "[,1]", "[1,,2]", "[1,]", "[,]", "[1 true]", "[1:2]", '["a",\n4\n,1,', "[\n1\n,1",
      "[3[4]]", "[a", "[*]", '[""', '[""],', '["",]', "[1]]", "{", "}", "{]", "[}", '{"a"}', '{"a",1}', '{"a":', '{"a"',
      '{"a" b}', "{a:1}", "{'a':0}", '{"a":1,}', '{"a":1,,"b":2}', "{,}", '{"x"::"b"}', "{1:1}",
      "{null:null,null:null}",
      '{"a":1,"b"}', '{"a":"b"}#', '{"a":/*comment*/"b"}', '{"a":"b"}//', "[1]x", "1]", "2@", "[][]", "{}}", "[1],",
      "tru", "nul", "fals", "True", "TRUE", "nan", "NaN", "[NaN]", "[Infinity]", "[-Infinity]", "[Inf]", "[-NaN]",
      "[++1]", "[+1]", "[-]", "[- 1]", "[--2.]", "[-01]", "[-012]", "[012]", "[00]", "[-1.]", "[-2.]", "[.123]",
      "[-.123]",
      "[.-1]", "[.2e-3]", "[0.1.2]", "[0.3e+]", "[0.3e]", "[0.e1]", "[0e+]", "[0e]", "[0E]", "[0E+]", "[1.0e+]",
      "[1.0e-]",
      "[1.0e]", "[1 000.0]", "[1eE2]", "[2.e3]", "[2.e+3]", "[9.e+]", "[0x1]", "[0x42]", "[1+2]", "[1ea]", "[1e1a]",
      "[-1foo]", "[123\0]", "[1.8011670033376514H-308]", "[１]", "[1e400]", "[-1e999]", "1e9999999",
      '["\\u"]', '["\\u1"]', '["\\u12"]', '["\\u123"]', '["\\u00A"]', '["\\uqqqq"]', '["\\U0041"]', '["\\x00"]',
      '["\\a"]',
      '["\\\\\\"]', '["\\', '["\\"]', '["a\0a"]', '["new\nline"]', '["\t"]', "['a']", '"',
      "[\"a", "abc", '[\\u0020"a"]',
      '["\\uD800"]', '["\\uD834\\uDd"]', '["\\uD800\\uD800"]', '["\\uDC00"]', '["\\uD800x"]', '["\\uDFAA"]',
      '["\\uD888\\n"]',
      '["\xff"]', '["\xe9"]', '["\xc3"]', '["\xed\xa0\x80"]', '["\xf4\xbf\xbf\xbf"]', '["\xc0\xaf"]', '["\xe0\xff"]',
      "\xe5",
      "[\xff]", "\u{FEFF}", "\u{FEFF}{}", "[\u{2060}]", "[\f]", "[\v1]", "\u{A0}1", "<.>", "[<null>]", "*", "é",
      ("["):rep(101),
      ("["):rep(101) .. ("]"):rep(101), ("["):rep(100000), ('{"a":'):rep(50000),
    } do
      local value, problem = json.decode(text)
      assert.is_nil(value, text:sub(1, 40))
      assert.matches("^not JSON: .* at byte %d+", problem)
    end
  end)

  it("decides what RFC 8259 leaves open", function()
    for text, value in pairs {
      ["[0.4e00669999999999999999999999999999999999999999999999999999999999999999999999999999999999]"] = false,
      ["[123.456e-789]"] = { 0.0 }, ["[-1e+9999]"] = false, ["[1.5e+9999]"] = false, ["[-123123e100000]"] = false,
      ["[123123e-10000000]"] = { 0.0 }, ["[0e99999999999999999999]"] = { 0.0 },
      ["[-123123123123123123123123123123]"] = { -123123123123123123123123123123.0 },
      ["[100000000000000000000]"] = { 1e20 }, ["[-237462374673276894279832749832423479823246327846]"] =
      { -237462374673276894279832749832423479823246327846.0 },
      ["[0." .. ("0"):rep(400) .. "1e401]"] = { 1.0 }, ["[" .. ("9"):rep(400) .. "e-399]"] = { 10.0 },
      ['["\\uDADA"]'] = false, ['["\\uD888\\u1234"]'] = false, ['["\\uD800\\n"]'] = false, ['["\\uDd1ea"]'] = false,
      ['["\\uD800\\uD800\\n"]'] = false, ['["\\ud800"]'] = false, ['["\\ud800abc"]'] = false,
      ['["\\uDd1e\\uD834"]'] = false, ['["\\uDFAA"]'] = false, ['["\u{65e5}\xd1\x88\xfa"]'] = false,
      ['["\xed\xa0\x80"]'] = false, ['["\xff"]'] = false, ['["\x81"]'] = false, ['["\xf4\xbf\xbf\xbf"]'] = false,
      ['["\xfc\x83\xbf\xbf\xbf\xbf"]'] = false, ['["\xfc\x80\x80\x80\x80\x80"]'] = false, ['["\xe0\xff"]'] = false,
      ["\xff\xfe[\0\"\0\xe9\0\"\0]\0"] = false, ["\0[\0\"\0\xe9\0\"\0]"] = false, ["\u{FEFF}{}"] = false,
      [("["):rep(500) .. ("]"):rep(500)] = false,
    } do
      local got = json.decode(text)
      assert.same(value or nil, got, text)
    end
    assert.same({ nil, "not JSON: a byte order mark at byte 1" }, { json.decode "\u{FEFF}{}" })
    assert.same({ nil, "not JSON: a byte order mark at byte 6" }, { json.decode '{"a":\u{FEFF}1}' })
  end)

  it("reads what others write", function()
    assert.same({ a = { 1, 2.5, "é\u{1D11E}/" }, b = { c = json.null } },
      json.decode ' {"a" : [ 1 ,2.5,"\\u00e9\\ud834\\udd1e\\/"],\n"b":{"c":null}} ')
  end)

  it("says what is wrong with a text, and where", function()
    local function refused(text, problem)
      local value, message = json.decode(text)
      assert.is_nil(value)
      assert.equal("not JSON: " .. problem, message)
    end
    refused("", "the text ends too early at byte 1")
    refused("[1,", "the text ends too early at byte 4")
    refused("[1 2]", "expected , or ] at byte 4")
    refused('{"a" 1}', "expected : at byte 6")
    refused("{a:1}", "expected a key at byte 2")
    refused('{"a":1;}', "expected , or } at byte 7")
    refused('["a', "a string without its end at byte 2")
    refused('"a\\nb', "a string without its end at byte 1")
    refused('"a\nb"', "a control character in a string at byte 3")
    refused('"\\x"', "an unknown escape at byte 2")
    refused('"\\u12"', "\\u without four hexadecimal digits at byte 2")
    refused('["a\\ud834"]', "half of a surrogate pair, which stands for no character, at byte 4")
    refused("nil", "an unknown word at byte 1")
    refused("01", "expected a value at byte 1")
    refused("1.", "expected a value at byte 1")
    refused("[1e999]", "a number that is too large at byte 2")
    refused("1 2", "text after the value at byte 3")
    refused('["a\xff"]', "a byte that is not UTF-8 at byte 4")
    refused(("["):rep(200), "nested too deeply at byte 101")
    refused('{\n  "a": 1,\n  b: 2\n}', "expected a key at byte 15 (line 3, byte 3)")
  end)

  it("names the part of a value that cannot be written", function()
    local function refused(value, problem, opts)
      local text, message = json.encode(value, opts)
      assert.is_nil(text)
      assert.equal(problem, message)
    end
    refused({ items = { 1, { f = print } } }, "value.items[2].f: a function cannot be sent")
    refused({ [2] = 1 }, "value[2]: in JSON, keys are strings, and lists have no gaps")
    refused({ 1, 2, x = 3 }, "value[1]: in JSON, keys are strings, and lists have no gaps")
    refused("\255", "value: in JSON, strings are UTF-8")
    refused({ ["\255"] = 1 }, 'value."\255": in JSON, keys are UTF-8')
    refused({ 0 / 0 }, "body[1]: JSON cannot represent this number", { name = "body" })
    refused(-math.huge, "value: JSON cannot represent this number")
    refused(nil, "value: nil cannot be sent; json.null stands for null")
    local loop = {}
    loop.again = { loop }
    refused(loop, "value.again[1]: a table that contains itself cannot be sent")
    local twice = { 1 }
    assert.equal("[[1],[1]]", json.encode { twice, twice })
    local deep = {}
    for _ = 1, 99 do deep = { deep } end
    assert.truthy(json.decode(assert(json.encode(deep))))
    refused({ deep }, "value" .. ("[1]"):rep(100) .. ": more than 100 nested tables")
  end)

  it("writes the names of an object in the order of their bytes, however many there are", function()
    for _, n in ipairs { 1, 2, 7, 8, 9, 10, 100, 3000 } do
      local value, names = {}, {}
      for i = 1, n do
        names[i] = ("%s%d"):format(("\u{100}aAz_\0"):rep(i % 3), i)
        value[names[i]] = i
      end
      assert.equal((model.encode(value)), json.encode(value))
      assert.equal(model.encode(value, { indent = 1 }), json.encode(value, { indent = 1 }))
    end
  end)

  it("asks the metamethods of a table for its fields and elements, as a program does", function()
    local hidden = { b = { 2 }, a = 1, n = { x = 3 } }
    local object = setmetatable({}, { __index = hidden, __pairs = function() return next, hidden, nil end })
    assert.equal('{"a":1,"b":[2],"n":{"x":3}}', json.encode(object))
    local list = setmetatable({}, {
      __index = function(_, i) return i * i end,
      __len = function() return 20 end,
      __pairs = function()
        return function(_, i) if i < 20 then return i + 1, true end end, nil, 0
      end,
    })
    assert.equal(model.encode(list), json.encode(list))
    assert.equal("[1,4,9,16", json.encode(list):sub(1, 9))
    local many = {}
    for i = 1, 30 do many["k" .. i] = i end
    assert.equal(json.encode(many), json.encode(setmetatable({}, {
      __index = many, __pairs = function() return next, many, nil end,
    })))
    local class = { method = print }
    class.__index = class
    assert.equal('{"x":1}', json.encode(setmetatable({ x = 1 }, class)))
    local raises = setmetatable({}, { __pairs = function() error("no fields", 0) end })
    assert.same({ false, "no fields" }, { pcall(json.encode, { raises }) })
    local inner = setmetatable({}, { __pairs = function() return next, { text = json.encode { 1 } }, nil end,
      __index = function() return json.encode { 2 } end })
    assert.equal('[{"text":"[2]"}]', json.encode { inner })
  end)

  it("says that a metamethod must not wait", function()
    local rn = require "runnel"
    local slow = setmetatable({}, { __pairs = function() return rn.chan():take() end })
    local result = rn.go(function() return { pcall(json.encode, slow) } end):take()
    assert.is_false(result[1])
    assert.matches("impossible across a C call", result[2])
  end)

  it("is safe from finalizers that change what is encoded #ci", function()
    -- In a thread, whose state is small: the collector runs all the time.
    local done = require("runnel").thread(function(rounds)
      local json_there, value = require "runnel.json", {}
      local function arm()
        setmetatable({}, { __gc = function()
          for key in pairs(value) do value[key] = nil end
          arm()
        end })
      end
      collectgarbage("incremental", 1, 10000)
      arm()
      local n = { good = 0, changed = 0 }
      for _ = 1, rounds do
        for i = 1, 40 do value[("name%d-%d"):format(math.random(5), i)] = { text = ("x"):rep(100) } end
        local ok, text, problem = pcall(json_there.encode, { value, value })
        if ok and text then
          assert(json_there.decode(text))
          n.good = n.good + 1
        else
          assert(not ok or problem:find "nil cannot be sent", problem)
          n.changed = n.changed + 1
        end
      end
      return n
    end, long.times(100, 600))
    local n = assert(done:take())
    assert.is_true(n.good > 0, n.good)
  end)

  it("raises at the caller's line if it is called wrongly", function()
    local function raises(text, f, ...)
      local ok, err = pcall(f, ...)
      assert.is_false(ok)
      assert.matches("json_spec.lua:%d+: " .. text, err)
    end
    raises("array: list: a table expected, got a number", function() json.array(1) end)
    raises('encode: unknown option "pretty"; known: indent, name', function()
      local _ = json.encode({}, { pretty = true })
    end)
    raises("encode: indent: an integer from 0 to 16 expected, got 1.5", function()
      local _ = json.encode({}, { indent = 1.5 })
    end)
    raises("decode: a string expected, got nothing", function() local _ = json.decode(nil) end)
  end)

  -- ---- the same as a model of it ----

  local PIECES = { '"', '"', "{", "}", "[", "]", ",", ",", ":", " ", "\n", "null", "true", "false", "0", "1", "-", ".5",
    "12", "e", "E+3", "-7", "\\", "\\n", "\\u", "\\u00e9", "\\ud834", "\\udd1e", "a", "b", "\u{e9}", "\u{1D11E}",
    "\xff", "\xe9", "\0", "\127", "\u{FEFF}", '"a":', '"b":1', "1.5", "9223372036854775807", "9223372036854775808",
    "1e400" }

  local function word()
    local parts = {}
    for i = 1, math.random(0, 4) do parts[i] = PIECES[math.random(#PIECES)] end
    return table.concat(parts)
  end

  local random_value
  local SIMPLE = {
    function() return math.random(-1000, 1000) end, function() return math.random(0) end,
    function() return math.random(-9999, 9999) / 100 end,
    function() return math.random() * 10.0 ^ math.random(-30, 30) end,
    function() return math.random() < 0.5 end, function() return json.null end, word, word,
    function() return print end, function() return 0 / 0 end, function() return math.huge end,
  }
  function random_value(depth, is_good)
    local kind = math.random(10)
    if depth > 4 or kind < 5 then
      local value = SIMPLE[math.random(is_good and 6 or math.random(#SIMPLE))]()
      return value
    end
    local value = {}
    local n = math.random(0, kind == 9 and 40 or 5)
    for i = 1, n do
      local key = i
      if kind > 7 then key = is_good and "k" .. math.random(99) or word() end
      if not is_good and math.random(200) == 1 then key = ({ 2.5, true, i + 7, "\xff" })[math.random(4)] end
      value[key] = random_value(depth + 1, is_good)
    end
    if kind == 5 then json.array(value) end
    if kind == 6 then
      local fields = value
      value = setmetatable({}, { __index = fields, __len = function() return #fields end,
        __pairs = function() return next, fields, nil end })
    end
    return value
  end

  it("does what a model of it does, with random values", function()
    for _ = 1, long.times(60, 2000) do
      local value, opts = random_value(0, math.random() < 0.5), { indent = math.random(0, 3), name = "v" }
      if opts.indent == 3 then opts = nil end
      local text, problem = json.encode(value, opts)
      local expected, expected_problem = model.encode(value, opts)
      assert.equal(expected, text)
      -- If several parts are wrong, it may be another one that is named.
      if problem ~= expected_problem then assert.matches("^v", problem) end
      if text then
        local again = json.decode(text)
        assert.same(model.decode(text), again)
        assert.equal(text, json.encode(again, opts))
      end
    end
  end)

  it("does what a model of it does, with random texts #ci", function()
    local function check(text)
      local value, problem = json.decode(text)
      local expected, expected_problem = model.decode(text)
      assert.equal(expected_problem, problem, text)
      assert.same(expected, value, text)
      if math.type(expected) then assert.equal(math.type(expected), math.type(value), text) end
    end
    for _ = 1, long.times(60, 4000) do
      check(word() .. word())
      local text = json.encode(random_value(0, true), { indent = math.random(0, 1) })
      check(text)
      local at, n = math.random(#text), math.random(0, 2)
      check(text:sub(1, at - 1) .. PIECES[math.random(#PIECES)] .. text:sub(at + n))
      check(text:sub(1, at - 1))
    end
  end)
end)
