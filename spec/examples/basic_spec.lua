-- Runs the examples, and the benchmark, as a person does: each in a process of its own.

local commands = require "spec.support.shell"
local process = require "spec.support.process"

local contents, quote, shell = commands.contents, commands.quote, commands.run

-- Runs a script with arguments; returns the same.
local function run(script, ...)
  local words = { "lua", script }
  for _, word in ipairs { ... } do words[#words + 1] = quote(word) end
  return shell(table.concat(words, " "))
end

-- Runs a script that must succeed and say nothing on stderr; returns its output.
local function output_of(...)
  local output, errors, status = run(...)
  assert.equal("", errors)
  assert.equal(0, status)
  return output
end

-- Calls f with the path of a file of that text, and removes the file.
local function with_file(text, f)
  local path = os.tmpname()
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  local ok, err = pcall(f, path)
  os.remove(path)
  if not ok then error(err, 0) end
end

-- Asserts that a script rejects these arguments with its usage.
local function assert_usage(script, ...)
  local output, errors, status = run(script, ...)
  assert.equal("", output)
  assert.matches("usage: lua5.4 " .. script:gsub("%.", "%%."), errors)
  assert.equal(2, status)
end

describe("examples/sieve.lua", function()
  local sieve = "examples/sieve.lua"

  it("prints the first primes", function()
    assert.equal("2\n3\n5\n7\n11\n13\n17\n19\n23\n29\n", output_of(sieve, "10"))
    assert.equal("2\n", output_of(sieve, "1"))
  end)

  it("prints 25 by default", function()
    local output = output_of(sieve)
    assert.equal(25, select(2, output:gsub("\n", "")))
    assert.matches("\n97\n$", output)
  end)

  it("leaves no go block behind, of which the executable would warn", function()
    local output, errors, status = shell(process.runnel .. " examples/sieve.lua 3")
    assert.same({ "2\n3\n5\n", "", 0 }, { output, errors, status })
  end)

  it("finds the thousandth prime #slow", function() assert.matches("\n7919\n$", output_of(sieve, "1000")) end)

  it("says how to call it", function()
    for _, n in ipairs { "0", "-1", "1.5", "many", "" } do assert_usage(sieve, n) end
    assert_usage(sieve, "1", "2")
  end)
end)

describe("examples/search.lua", function()
  local search = "examples/search.lua"

  it("prints the first answer of each kind #slow", function()
    local output = output_of(search, "--ms", "5000", "a", "fast", "answer")
    for _, kind in ipairs { "web", "image", "video" } do
      local replica, ms = output:match(kind .. ' result for "a fast answer" from replica (%d) after (%d+) ms\n')
      assert.is_truthy(replica, output)
      assert.is_true(tonumber(ms) <= 100)
    end
    assert.matches("\ndone after %d+ ms\n$", output)
  end)

  it("gives up when the time is over", function()
    local output = output_of(search, "--ms", "0")
    assert.matches("^no web result within 0 ms\nno image result within 0 ms\nno video result within 0 ms\n", output)
  end)

  it("says how to call it", function()
    for _, ms in ipairs { "soon", "-1", "nan", "" } do assert_usage(search, "--ms", ms) end
    assert_usage(search, "--ms")
    assert_usage(search, "--for", "5")
  end)
end)

describe("examples/scope.lua", function()
  local scope = "examples/scope.lua"

  it("connects to the first that answers, and cancels and closes the others", function()
    local output = output_of(scope, "--delay", "0", "one=60000", "two=refused", "three=5", "four=60000")
    assert.matches("^one: trying\n", output)
    assert.matches("two: refused\n.*two: closed\n", output) -- four may be tried between the two
    assert.matches("one: closed\n.*four: closed\nconnected to three after %d+ ms\n$", output)
    assert.not_matches("three: closed", output)
  end)

  it("tries the next after a refusal, and does not try it before that or the delay", function()
    local output = output_of(scope, "--delay", "60000", "one=refused", "two=1", "three=1")
    assert.matches("^one: trying\none: refused\none: closed\ntwo: trying\nconnected to two after %d+ ms\n$", output)
  end)

  it("says so when none answers, or not in time", function()
    local output, errors, status = run(scope, "one=refused", "two=refused")
    assert.equal("", errors)
    assert.equal(1, status)
    assert.matches("two: closed\nno address answers\n$", output)
    output, errors, status = run(scope, "--limit", "5", "one=60000")
    assert.equal("", errors)
    assert.equal(1, status)
    assert.matches("^one: trying\none: closed\ngave up: .* after 5 ms\n$", output)
  end)

  it("says how to call it", function()
    for _, word in ipairs { "one", "one=", "=5", "one=-1", "one=nan", "--delay", "" } do assert_usage(scope, word) end
    assert_usage(scope, "--limit", "soon")
  end)
end)

describe("examples/wordcount.lua", function()
  local wordcount = "examples/wordcount.lua"
  local licences = "/usr/share/common-licenses"

  -- What the command in the example's first lines prints, without the empty word that tr sees before the first one.
  local function expected(files, top)
    return (shell(("cat %s | LC_ALL=C tr -cs A-Za-z '\\n' | tr A-Z a-z | sort | uniq -c | LC_ALL=C sort -rn | " ..
      "grep '[a-z]' | head -n %d"):format(files, top)))
  end

  it("counts what tr, sort and uniq count", function()
    local text = "The cat's hat; the CAT.\n\n  3 hats? THE end\twith no newline: na\239ve caf\195\169, x-ray_x"
    with_file(text, function(path)
      local output, errors, status = run(wordcount, path)
      assert.equal(0, status)
      assert.equal(expected(quote(path), 20), output)
      assert.matches("^      3 the\n", output)
      assert.equal("18 words, 14 different ones, in 1 files\n", errors)
    end)
  end)

  it("counts the same with any number of counters", function()
    local words = {}
    for i = 1, 2000 do words[i] = ("w"):rep(i * i % 7 + 1) .. (i % 11 == 0 and "\n" or "") end
    with_file(table.concat(words, " "), function(path)
      local all = expected(quote(path), 1000)
      for _, n in ipairs { "1", "2", "50" } do
        assert.equal(all, (run(wordcount, "--counters", n, "--top", "1000", path)))
      end
    end)
  end)

  it("adds up several files, empty ones too", function()
    with_file("one two", function(path)
      with_file("", function(empty)
        assert.equal("      2 two\n      2 one\n", (run(wordcount, path, empty, path)))
        local output, _, status = run(wordcount, empty)
        assert.equal("", output)
        assert.equal(0, status)
      end)
    end)
  end)

  it("takes names with blanks and quotes", function()
    with_file("", function(path)
      local odd = path .. " it's"
      assert(os.rename(path, odd))
      local _, errors, status = run(wordcount, odd)
      assert(os.rename(odd, path))
      assert.equal("0 words, 0 different ones, in 1 files\n", errors)
      assert.equal(0, status)
    end)
  end)

  it("counts the licence texts by default", function()
    local has_licences = io.open(licences .. "/GPL-3")
    if not has_licences then return pending "this system has no licence texts" end
    has_licences:close()
    local output, _, status = run(wordcount)
    assert.equal(0, status)
    assert.equal(expected(licences .. "/*", 20), output)
    assert.equal(expected(licences .. "/*", 100000), (run(wordcount, "--top", "100000")))
  end)

  it("reports a file that is missing, or none", function()
    for _, case in ipairs { { "/no/such/file", "No such file or directory" }, { "spec", "Is a directory" } } do
      for _, files in ipairs { { case[1] }, { "LICENSE", case[1] } } do
        local output, errors, status = run(wordcount, table.unpack(files))
        assert.equal("", output)
        assert.equal(("wordcount: %s: %s\n"):format(case[1], case[2]), errors)
        assert.equal(1, status)
      end
    end
  end)

  it("says how to call it", function()
    assert_usage(wordcount, "--top")
    assert_usage(wordcount, "--top", "0")
    assert_usage(wordcount, "--counters", "some")
    assert_usage(wordcount, "--bottom", "5")
  end)
end)

describe("examples/pipeline.lua", function()
  local pipeline = "examples/pipeline.lua"

  -- The rows of the two tables: variant, n, peak, elapsed, expected, and in the second one the first result's time.
  local function rows_of(output)
    local rows = { {}, {} }
    local rest = rows[1]
    for line in output:gmatch "[^\n]+" do
      if line:find "^the first job" then rest = rows[2] end
      local variant, numbers = line:match "^(%l+ordered)%s+(%d.*)"
      if not variant then variant, numbers = line:match "^(ordered)%s+(%d.*)" end
      if variant then
        local row = { variant = variant }
        for number in numbers:gmatch "%S+" do row[#row + 1] = tonumber(number) end
        rest[#rest + 1] = row
      end
    end
    return rows
  end

  -- The rows when in each there were at some time as many jobs as possible: where the machine is busy, the first job
  -- may end before the last one begins.
  local function busy_rows(...)
    local rows
    for _ = 1, 20 do
      rows = rows_of(output_of(pipeline, ...))
      local all = true
      for _, list in ipairs(rows) do
        for _, row in ipairs(list) do all = all and row[2] >= math.min(row[1], 10) end
      end
      if all then break end
    end
    return rows
  end

  it("has at most n jobs at a time, in no less time than that takes #slow", function()
    local rows = busy_rows("--ms", "10")
    assert.equal(16, #rows[1])
    for i, row in ipairs(rows[1]) do
      local n = (i - 1) % 8 + 1
      assert.equal(i <= 8 and "ordered" or "unordered", row.variant)
      assert.equal(n, row[1])
      assert.equal(n, row[2])
      assert.equal(math.ceil(10 / n) * 10, row[4])
      assert.is_true(row[3] >= row[4])
    end
    assert.equal(2, #rows[2])
    assert.same({ "ordered", 3, 3, 100 }, { rows[2][1].variant, rows[2][1][1], rows[2][1][2], rows[2][1][4] })
    assert.same({ "unordered", 3, 3, 100 }, { rows[2][2].variant, rows[2][2][1], rows[2][2][2], rows[2][2][4] })
    for _, row in ipairs(rows[2]) do assert.is_true(row[3] >= row[4]) end
    assert.is_true(rows[2][1][5] >= 100) -- the first result in order is that of the slow job
    assert.is_true(rows[2][2][5] >= 10)
  end)

  it("takes n and the variant from the command line", function()
    local rows = busy_rows("--ms", "1", "unordered", "2", "12")
    assert.equal(2, #rows[1])
    assert.same({ "unordered", 2, 2, 5 }, { rows[1][1].variant, rows[1][1][1], rows[1][1][2], rows[1][1][4] })
    assert.same({ "unordered", 12, 10, 1 }, { rows[1][2].variant, rows[1][2][1], rows[1][2][2], rows[1][2][4] })
    assert.equal(2, #rows[2])
  end)

  it("expects what the jobs need when the first one is slow", function()
    local expected = { ordered = {}, unordered = {} }
    for _, row in ipairs(rows_of(output_of(pipeline, "--ms", "0.5", "1", "2", "3", "4", "10", "20"))[2]) do
      expected[row.variant][row[1]] = row[4] / 0.5
    end
    local in_theory = { [1] = 19, [2] = 10, [3] = 10, [4] = 10, [10] = 10, [20] = 10 }
    assert.same({ ordered = in_theory, unordered = in_theory }, expected)
  end)

  it("says beforehand how long it will take", function()
    local function said(...)
      return output_of(pipeline, ...):match "^10 jobs of %S+ ms each; this program takes about ([%d.]+) s\n"
    end
    assert.equal("0.3", said("--ms", "10", "ordered", "1")) -- 10 jobs' times, then 19
    assert.equal("0.8", said("--ms", "10"))
  end)

  it("reports each job", function()
    local output = output_of(pipeline, "--ms", "1", "--log", "ordered", "1")
    local log = {}
    for line in output:gmatch "[^\n]+" do
      if line:find "^the first job" then break end
      if line:find " job " then log[#log + 1] = line end
    end
    for i = 1, 10 do
      assert.equal("started job  " .. i, log[2 * i - 1])
      assert.equal("finished job " .. i, log[2 * i])
    end
    assert.is_nil(log[21])
  end)

  it("says how to call it", function()
    for _, word in ipairs { "0", "-1", "2.5", "sideways", "--fast", "" } do assert_usage(pipeline, word) end
    for _, ms in ipairs { "-1", "soon", "inf", "nan", "" } do assert_usage(pipeline, "--ms", ms) end
    assert_usage(pipeline, "--ms")
  end)
end)

describe("bench/bench.lua", function()
  it("prints a table of the chosen measurements #slow #ci", function()
    local output = output_of("bench/bench.lua", "--quick", "chan0", "channel")
    assert.matches("unbuffered, a message +ns +[%d.]+ +[%d.]+ +[%d.]+ +[%d.]+ +<= [%d.]+ %u", output:gsub("met", "MET"))
    assert.matches("an unbuffered channel +bytes", output)
    assert.matches("\n[012] of 2 targets met\n$", output)
    assert.not_matches("spawn", output)
  end)

  it("says how to call it", function() assert_usage("bench/bench.lua", "chan7") end)
end)

describe("every example", function()
  it("says with --help how to call it, with status 0", function()
    local list <close> = io.popen "ls examples/*.lua"
    local examples = 0
    for path in list:lines() do
      if pcall(require, "luv") or not contents(path):find 'require "[%w.]*uv"' then
        assert.matches("^usage: lua5.4 " .. path:gsub("%.", "%%."), output_of(path, "--help"))
      end
      examples = examples + 1
    end
    assert.is_true(examples >= 16)
  end)
end)
