-- Conditional requests, ranges, and the dates in headers.

local conditions = require "runnel.http.conditions"

local TAG <const>, MODIFIED <const> = '"abc"', 784111777 -- Sun, 06 Nov 1994 08:49:37 GMT
local BEFORE <const>, SAME <const> = "Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"

describe("dates of HTTP", function()
  it("are written in one form, and read in all three", function()
    assert.equal(SAME, conditions.date(MODIFIED))
    for _, text in ipairs { SAME, "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994" } do
      assert.equal(MODIFIED, conditions.time(text))
    end
  end)

  it("are read as they are written, leap years and times before 1970 included", function()
    for _, seconds in ipairs { 0, -1, 951782400, 951868800, 4107542400, 68169600, 1, -86400 * 366 } do
      assert.equal(seconds, conditions.time(conditions.date(seconds)))
    end
    for _ = 1, 1000 do
      local seconds = math.random(0, 1 << 33)
      assert.equal(seconds, conditions.time(conditions.date(seconds)))
    end
  end)

  it("do not depend on the locale, and are nil if they are none", function()
    for _, text in ipairs { "", "now", "Sun, 06 Xyz 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT",
      "Sun, 06 Nov 1994 08:49:37 CET", "784111777" } do
      assert.is_nil(conditions.time(text), text)
    end
  end)

  it("have years of two digits that are at most 50 years ahead", function()
    local year = tonumber(os.date "!%Y")
    for ahead = -49, 50 do
      local full = year + ahead
      local text = ("Sunday, 01-Jan-%02d 00:00:00 GMT"):format(full % 100)
      assert.equal(conditions.time(("Sun, 01 Jan %04d 00:00:00 GMT"):format(full)), conditions.time(text), full)
    end
  end)
end)

describe("conditional requests", function()
  local function judge(headers) return conditions.judge(headers, TAG, MODIFIED) end

  it("get 304 if the client has the file, by its tag or its date", function()
    assert.is_nil(judge {})
    for _, tags in ipairs { '"abc"', 'W/"abc"', '"x", "abc"', '"x",W/"abc" , "y"', "*", ' "a,b", "abc"' } do
      assert.equal(304, judge { ["if-none-match"] = tags }, tags)
    end
    for _, tags in ipairs { '"x"', 'abc', '"ab"', '"abcd"', "", '"*"' } do
      assert.is_nil(judge { ["if-none-match"] = tags }, tags)
    end
    assert.equal(304, judge { ["if-modified-since"] = SAME })
    assert.equal(304, judge { ["if-modified-since"] = "Mon, 07 Nov 1994 08:49:37 GMT" })
    assert.is_nil(judge { ["if-modified-since"] = BEFORE })
    assert.is_nil(judge { ["if-modified-since"] = "whenever" })
  end)

  it("check the tag before the date", function()
    assert.is_nil(judge { ["if-none-match"] = '"x"', ["if-modified-since"] = SAME })
    assert.equal(304, judge { ["if-none-match"] = '"abc"', ["if-modified-since"] = BEFORE })
  end)

  it("get 412 if the file is not the version that the client names", function()
    assert.is_nil(judge { ["if-match"] = '"x", "abc"' })
    assert.is_nil(judge { ["if-match"] = "*" })
    assert.equal(412, judge { ["if-match"] = 'W/"abc"' })
    assert.equal(412, judge { ["if-match"] = '"x"', ["if-none-match"] = '"abc"' })
    assert.equal(412, judge { ["if-unmodified-since"] = BEFORE })
    assert.is_nil(judge { ["if-unmodified-since"] = SAME })
    assert.is_nil(judge { ["if-unmodified-since"] = BEFORE, ["if-match"] = '"abc"' })
    assert.is_nil(judge { ["if-unmodified-since"] = "never" })
  end)
end)

describe("ranges", function()
  local function range(text, if_range, size)
    return table.pack(conditions.range({ range = text, ["if-range"] = if_range }, TAG, MODIFIED, size or 10))
  end

  it("are from a byte to a byte, to the end, or the last bytes", function()
    for text, expected in pairs {
      ["bytes=0-0"] = { 0, 0 }, ["bytes=2-5"] = { 2, 5 }, ["bytes=2-"] = { 2, 9 }, ["bytes=2-100"] = { 2, 9 },
      ["bytes=-3"] = { 7, 9 }, ["bytes=-100"] = { 0, 9 }, ["Bytes= 1-2 "] = { 1, 2 }, ["bytes=9-"] = { 9, 9 },
      ["bytes=0-99999999999999999999999"] = { 0, 9 },
    } do
      assert.same({ n = 2, table.unpack(expected) }, range(text), text)
    end
  end)

  it("are refused if they begin behind the end, or are empty", function()
    for _, text in ipairs { "bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999999-" } do
      assert.is_false(range(text)[1], text)
    end
  end)

  it("are ignored if they are wrong, several, or of other units", function()
    for _, text in ipairs { "", "bytes", "bytes=", "bytes=-", "bytes=5-2", "bytes=a-b", "bytes=0-1,3-4", "lines=0-1",
      "bytes=1.5-2", "bytes=--1" } do
      assert.is_nil(range(text)[1], text)
    end
    assert.is_nil(range("bytes=0-", nil, 0)[1])
    assert.is_nil(range(nil)[1])
  end)

  it("are used only if the client has the same version of the file", function()
    for condition, first in pairs { [TAG] = 2, [SAME] = 2 } do assert.equal(first, range("bytes=2-", condition)[1]) end
    for _, condition in ipairs { '"x"', 'W/"abc"', BEFORE, "Mon, 07 Nov 1994 08:49:37 GMT", "" } do
      assert.is_nil(range("bytes=2-", condition)[1], condition)
    end
  end)
end)
