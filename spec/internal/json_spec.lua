-- runnel.internal.json: the text of JetStream's API, and values for programs in other languages.

local json = require "runnel.internal.json"

describe("JSON", function()
  local function round(value)
    local text = assert(json.encode(value))
    return json.decode(text), text
  end

  it("keeps values", function()
    for _, value in ipairs {
      0, -1, math.maxinteger, math.mininteger, 0.1, 1e300, -2.5e-7, true, false, "", "text", "\0\1\31\127\"\\/\n\r\t\b",
      "é ☃ 𝄞", { 1, 2, { "three" } }, { a = 1, b = { c = false } }, { ["a.b \""] = { { {} } } },
    } do
      assert.same(value, (round(value)))
    end
    assert.equal("float", math.type((round(3.0))))
    assert.equal("integer", math.type((round(3))))
    assert.equal(json.null, (round(json.null)))
  end)

  it("writes an empty table as an object, and an empty array as an array", function()
    assert.equal("{}", json.encode {})
    assert.equal("[]", json.encode(json.array {}))
    assert.equal("[]", json.encode(json.decode "[]"))
    assert.equal('{"a":[1,null]}', json.encode { a = { 1, json.null } })
  end)

  it("reads what others write", function()
    assert.same({ a = { 1, 2.5, "é\u{1D11E}/" }, b = { c = json.null } },
      json.decode ' {"a" : [ 1 ,2.5,"\\u00e9\\ud834\\udd1e\\/"],\n"b":{"c":null}} ')
    assert.equal(-1200.0, json.decode "-1.2e+3")
    assert.equal("\u{FFFD}x", json.decode '"\\ud834x"') -- half of a pair
    assert.equal("\u{FFFD}x", json.decode '"\\udd1ex"') -- the other half
    assert.equal("\127\n", json.decode '"\127\\n"')
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
    refused('"a', "a string without its end at byte 2")
    refused('"a\nb"', "a control character in a string at byte 3")
    refused('"\\x"', "an unknown escape at byte 2")
    refused('"\\u12"', "bad \\u at byte 4")
    refused("nil", "an unknown word at byte 1")
    refused("01", "expected a value at byte 1")
    refused("1.", "expected a value at byte 1")
    refused("1 2", "text after the value at byte 3")
    refused(("["):rep(200), "nested too deeply at byte 102")
  end)

  it("names the part of a value that cannot be written", function()
    local function refused(value, problem)
      local text, message = json.encode(value)
      assert.is_nil(text)
      assert.equal(problem, message)
    end
    refused({ items = { 1, { f = print } } }, "value.items[2].f: a function cannot be sent")
    refused({ [2] = 1 }, "value[2]: in JSON, keys are strings, and lists have no gaps")
    refused({ 1, 2, x = 3 }, "value[1]: in JSON, keys are strings, and lists have no gaps")
    refused("\255", "value: in JSON, strings are UTF-8")
    refused({ 0 / 0 }, "value[1]: JSON cannot represent this number")
    local loop = {}
    loop.again = { loop }
    refused(loop, "value.again[1]: a table that contains itself cannot be sent")
    local twice = { 1 }
    assert.equal("[[1],[1]]", json.encode { twice, twice })
  end)
end)
