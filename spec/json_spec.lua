-- runnel.json: what is written, what is read, and what is refused. The cases of "reads every text that RFC 8259 allows"
-- and "refuses every other text" are those that parsers of JSON are known to get wrong.

local json = require "runnel.json"

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

  it("writes floats as short as possible", function()
    assert.equal("[0.1,1e+300,2.0,0.30000000000000004,-0.0]", json.encode { 0.1, 1e300, 2.0, 0.1 + 0.2, -0.0 })
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

  it("raises at the caller's line if it is called wrongly", function()
    local function raises(text, f, ...)
      local ok, err = pcall(f, ...)
      assert.is_false(ok)
      assert.matches("json_spec.lua:%d+: " .. text, err)
    end
    raises('encode: unknown option "pretty"; known: indent, name', function()
      local _ = json.encode({}, { pretty = true })
    end)
    raises("encode: indent: an integer from 0 to 16 expected, got 1.5", function()
      local _ = json.encode({}, { indent = 1.5 })
    end)
    raises("decode: a string expected, got nothing", function() local _ = json.decode(nil) end)
  end)
end)
