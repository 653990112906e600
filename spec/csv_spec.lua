-- runnel.csv: what it reads and writes, beside Python's csv.

local csv = require "runnel.csv"
local json = require "runnel.json"
local long = require "spec.support.long"
local raises = require "spec.support.raises"
local rn = require "runnel"
local stage = require "spec.support.stage"

local has_python = os.execute "command -v python3 >/dev/null 2>&1"

-- An iterator over the parts of a text, each of so many bytes at most.
local function pieces(text, most)
  local at = 1
  return function()
    if at > #text then return nil end
    local size = math.random(most)
    at = at + size
    return text:sub(at - size, at - 1)
  end
end

local function all(...)
  local list = {}
  local ok, err = pcall(function(...)
    for row in csv.rows(...) do list[#list + 1] = row end
  end, ...)
  return list, not ok and err or nil
end

local LETTERS = { "a", "bc", ",", ";", '"', '""', '"', "\n", "\r\n", " ", "é", "", "=", "\t" }

local function random_text(n, letters)
  local parts = {}
  for i = 1, n do parts[i] = letters[math.random(#letters)] end
  return table.concat(parts)
end

-- What Python's csv says of texts: a list of rows of each, or false if it refuses a text.
local PYTHON = [[
import csv, io, json, sys
for line in sys.stdin:
    text, separator = json.loads(line)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True) if row]
    except csv.Error:
        rows = False
    print(json.dumps(rows))
]]

local function ask_python(cases)
  local input, program, lines = os.tmpname(), os.tmpname(), {}
  for i, case in ipairs(cases) do lines[i] = assert(json.encode(json.array { case.text, case.separator })) .. "\n" end
  for path, text in pairs { [input] = table.concat(lines), [program] = PYTHON } do
    local file <close> = assert(io.open(path, "w"))
    file:write(text)
  end
  local pipe <close> = assert(io.popen(("python3 %s <%s"):format(program, input)))
  local answers = {}
  for line in pipe:lines() do answers[#answers + 1] = json.decode(line) end
  os.remove(input)
  os.remove(program)
  assert.equal(#cases, #answers)
  return answers
end

describe("csv", function()
  before_each(stage.open)
  after_each(stage.close)

  for name, case in pairs {
    ["fields and newlines of both kinds"] = { "a,b\r\nc,d\n", { { "a", "b" }, { "c", "d" } } },
    ["a last line without a newline"] = { "a,b\nc,", { { "a", "b" }, { "c", "" } } },
    ["quotes over lines, and doubled ones"] = { '"a\r\n,""b""",""\n', { { 'a\r\n,"b"', "" } } },
    ["no rows of an empty text, of empty lines"] = { "\n\r\n\n", {} },
    ["a byte order mark, which it skips"] = { "\xEF\xBB\xBFa\n", { { "a" } } },
    ["spaces and zero bytes, which it keeps"] = { " a ,\0\n", { { " a ", "\0" } } },
  } do
    it("reads " .. name .. ", however the text is cut", function()
      local rows, err = csv.decode(case[1])
      assert.is_nil(err)
      assert.same(case[2], rows)
      for _ = 1, 20 do assert.same({ case[2] }, { all(pieces(case[1], 3)) }) end
    end)
  end

  for name, case in pairs {
    ["a quote within a field"] = { 'a\nb"c\n', "csv: line 2: a quote within a field without quotes" },
    ["text behind quotes"] = { '"a\n\nb"c', "csv: line 3: something behind the quotes of a field" },
    ["quotes that are not closed"] = { 'a\n"b\nc', "csv: line 2: the quotes of a field are not closed" },
    ["a carriage return alone"] = { "a\rb", "csv: line 1: a carriage return without a newline" },
    ["another number of fields"] = { 'a,"\n"\n\nb,c\nd\n', "csv: line 5: 1 fields, but the first record has 2" },
  } do
    it("refuses " .. name .. ", and tells the line", function()
      assert.same({ nil, case[2] }, { csv.decode(case[1]) })
      for _ = 1, 20 do assert.equal(case[2], select(2, all(pieces(case[1], 3)))) end
    end)
  end

  it("gives the records before a mistake, and raises it each time then", function()
    local next_row = csv.rows 'a\nb\n"'
    assert.same({ "a" }, next_row())
    assert.same({ "b" }, next_row())
    for _ = 1, 2 do assert.error_matches(next_row, "line 3: the quotes of a field are not closed") end
  end)

  it("names fields by the header, takes other separators and ragged records", function()
    assert.same({ { a = "1", b = "2" } }, csv.decode("a,b\n1,2\n", { header = true }))
    assert.same({}, csv.decode("a,b\n", { header = true }))
    assert.same({ nil, 'csv: line 1: the header has "a" twice' }, { csv.decode("a,a\n", { header = true }) })
    assert.same({ { "a,b", "c" } }, csv.decode("a,b\tc\n", { separator = "\t" }))
    assert.same({ { "a" }, { "b", "c" } }, csv.decode("a\nb,c\n", { ragged = true }))
    assert.same({ { x = "1" }, { x = "2" } }, csv.decode("x\n1,9\n2\n", { ragged = true, header = true }))
  end)

  it("tells the line of a header with a name twice, each time", function()
    for _, text in ipairs { "\n\r\na,b,a\n1,2,3\n4,5\n", '\n\na,"\n",a\n', "\n\na,a" } do
      for _, source in ipairs { text, pieces(text, 2) } do
        local next_row = csv.rows(source, { header = true })
        for _ = 1, 3 do assert.error_matches(next_row, 'csv: line 3: the header has "a" twice') end
      end
    end
  end)

  it("has one header, however many records there are", function()
    local lines = {}
    for i = 1, 1000 do lines[i] = i .. ",x\n" end
    local count = 0
    for row in csv.rows(pieces("n,what\n" .. table.concat(lines), 500), { header = true }) do
      count = count + 1
      assert.same({ n = tostring(count), what = "x" }, row)
    end
    assert.equal(1000, count)
  end)

  it("ends where a record without an end is too long, whatever comes after it", function()
    local taken = 0
    local rows, err = all(function()
      taken = taken + 1
      return "123456"
    end, { max = 10 })
    assert.same({}, rows)
    assert.matches("csv: line 1: a record is longer than 10 bytes", err)
    assert.equal(2, taken)
  end)

  it("puts quotes where a reader would take something for something else", function()
    for value, expected in pairs {
      ["a "] = '"a "', [" a"] = '" a"', ["a b"] = "a b", ["\239\187\191a"] = '"\239\187\191a"', ["a\r"] = '"a\r"',
      ["a,b"] = '"a,b"', ['a"b'] = '"a""b"',
    } do
      assert.equal(expected .. "\r\n", csv.encode { { value } })
      assert.equal(expected .. "\r\n", csv.encode({}, { names = { value } }))
    end
    for _, value in ipairs { 0 / 0, 1 / 0, -1 / 0 } do
      raises("csv.encode: row 1, field 1: a string, a finite number or a boolean expected", function()
        csv.encode { { value } }
      end)
    end
  end)

  it("limits a record", function()
    local text = '"' .. ("x"):rep(100) .. '"\n'
    assert.is_table(csv.decode(text, { max = 200 }))
    assert.equal("csv: line 1: a record is longer than 50 bytes; the option max allows longer ones",
      select(2, all(pieces(('"' .. ("x"):rep(1000)), 10), { max = 50 })))
  end)

  it("limits each record, also those that come whole, without their newlines", function()
    for _, ending in ipairs { "", "\n", "\r\n", '\n"' } do
      local text = "12345\r\n\n" .. '"345"' .. "\n123456" .. ending
      for _, source in ipairs { text, pieces(text, 2), pieces(text, 20) } do
        local rows, err = all(source, { max = 5 })
        assert.same({ { "12345" }, { "345" } }, rows)
        assert.equal("csv: line 4: a record is longer than 5 bytes; the option max allows longer ones", err)
      end
      assert.equal(3, #all(pieces("12345\r\n\n" .. '"345"' .. "\n123456\r\n", 3), { max = 6 }))
    end
  end)

  it("takes time in proportion to a record that comes in many pieces", function()
    local fields = { ("x"):rep(10) .. "\n", ("x"):rep(10) .. '""', '","', "\n" }
    for _, field in ipairs(fields) do
      local n, i = 30000, 0
      local row = csv.rows(function()
        i = i + 1
        return i == 1 and 'a,"' or i <= n and field or i == n + 1 and '"\n' or nil
      end)
      local began = os.clock()
      local last = row()
      assert.is_true(#last >= 2)
      assert.is_nil(row())
      assert.is_true(os.clock() - began < 1, field)
    end
  end)

  it("reads pieces as it reads the whole", function()
    for seed = 1, long.times(2000, 50000) do
      math.randomseed(seed)
      local text = random_text(math.random(0, 15), LETTERS)
      local opts = { header = math.random(2) == 1, ragged = math.random(2) == 1 }
      assert.same({ all(text, opts) }, { all(pieces(text, 3), opts) }, "seed " .. seed)
    end
  end)

  it("gives the line of each record, after empty lines and newlines in quotes, however the text is cut", function()
    local ends, empty = { "\n", "\r\n" }, { "", "", "\n", "\r\n\n" }
    for seed = 1, long.times(200, 5000) do
      math.randomseed(seed)
      local parts, line, expected = {}, 1, {}
      for i = 1, math.random(700) do
        local before, field = empty[math.random(#empty)], math.random(5) == 1 and '"\n\r\n"' or "x"
        local text = before .. i .. "," .. field .. ends[math.random(2)]
        expected[i] = line + select(2, before:gsub("\n", ""))
        line = line + select(2, text:gsub("\n", ""))
        parts[i] = text
      end
      local text, has_header = table.concat(parts), math.random(2) == 1
      for _, source in ipairs { text, pieces(text, 1000) } do
        local n = has_header and 1 or 0
        for row, number in csv.rows(source, { header = has_header }) do
          n = n + 1
          assert.equal(tostring(n), row[has_header and "1" or 1])
          assert.equal(expected[n], number, "seed " .. seed)
        end
        assert.equal(#expected, n)
      end
    end
  end)

  it("reads a channel, and raises the error with which it closes", stage.within(function()
    local ch = rn.chan(3)
    ch:put "a,b\nc"
    ch:put ",d\n"
    ch:close "EIO"
    local rows, err = all(ch)
    assert.same({ { "a", "b" }, { "c", "d" } }, rows)
    assert.equal("EIO", err)
  end))

  it("writes what it reads again", function()
    assert.equal('a,b\r\n1,true\r\n"x ""y""\n",\r\n', csv.encode({ { a = 1, b = true }, { a = 'x "y"\n' } },
      { names = { "a", "b" } }))
    assert.equal('""\r\n" x"\r\n', csv.encode { { "" }, { " x" } })
    for seed = 1, long.times(500, 20000) do
      math.randomseed(seed)
      local rows, width = {}, math.random(4)
      for i = 1, math.random(0, 4) do
        rows[i] = {}
        for k = 1, width do rows[i][k] = random_text(math.random(0, 4), LETTERS) end
      end
      local separator = ({ ",", ";", "\t", " " })[math.random(4)]
      local text = csv.encode(rows, { separator = separator })
      assert.same(rows, (csv.decode(text, { separator = separator })), "seed " .. seed)
      assert.same({ rows }, { all(pieces(text, 5), { separator = separator }) }, "seed " .. seed)
    end
  end)

  it("writes floats with the fewest digits that are read back as the same", function()
    assert.equal("0.1,0.30000000000000004,3.141592653589793,123456789012345.0,2.0,7\r\n",
      csv.encode { { 0.1, 0.1 + 0.2, math.pi, 123456789012345.0, 2.0, 7 } })
  end)

  if has_python then
    it("reads what Python's csv reads, and writes what it can read #ci", function()
      local cases = {}
      for seed = 1, long.times(3000, 100000) do
        math.randomseed(seed)
        local separator = ({ ",", ";" })[math.random(2)]
        local text = random_text(math.random(0, 12), LETTERS)
        if seed % 2 == 0 then
          local rows = {}
          for i = 1, 3 do rows[i] = { random_text(3, LETTERS), random_text(3, LETTERS) } end
          text = csv.encode(rows, { separator = separator })
        end
        cases[seed] = { text = text, separator = separator }
      end
      local both = 0
      for i, theirs in ipairs(ask_python(cases)) do
        local case = cases[i]
        local ours, err = csv.decode(case.text, { separator = case.separator, ragged = true })
        if ours then
          both = both + 1
          assert.same(theirs, ours, ("%q"):format(case.text))
        elseif i % 2 == 0 then
          error(("its own text: %q: %s"):format(case.text, err))
        elseif theirs then
          assert.matches("a quote within a field without quotes", err, 1, true) -- Python takes it as it is
        end
      end
      assert.is_true(both > #cases / 2)
    end)
  end

  it("says at the caller's line what is wrong", function()
    raises("csv.rows: source: a function expected, got nothing", function() csv.rows() end)
    raises("csv.decode: a text expected, got a table", function() csv.decode {} end)
    raises("csv.decode: separator: one byte expected, and no quote or newline, got \",,\"",
      function() csv.decode("", { separator = ",," }) end)
    raises('csv.decode: unknown option "delimiter"', function() csv.decode("", { delimiter = "," }) end)
    raises("csv.encode: row 2: a table expected, got a number", function() csv.encode { {}, 1 } end)
    raises("csv.encode: row 1, field 1: a string, a finite number or a boolean expected, got a table",
      function() csv.encode { { {} } } end)
  end)
end)
