-- scripts/conditions.lua: what `make check-mcdc` says of gcov's report and of the list of exceptions.
local shell = require "spec.support.shell"

-- One line of gcov's report: the conditions of line 2 of a file, each as { terms, never true, never false }.
local function report(file, conditions)
  local texts = {}
  for i, c in ipairs(conditions) do
    local form = '{"count":%d,"covered":0,"not_covered_true":[%s],"not_covered_false":[%s]}'
    texts[i] = form:format(2 * c[1], c[2], c[3])
  end
  return ('{"files":[{"file":"%s","lines":[{"line_number":1,"conditions":[]},{"line_number":2,"conditions":[%s]}]}]}\n')
    :format(file, table.concat(texts, ","))
end

describe("scripts/conditions.lua", function()
  local folder, file
  before_each(function()
    folder = shell.run("mktemp -d"):match "%S+"
    file = folder .. "/part/file.c"
    shell.run(("mkdir %s/part && printf 'int f;\\nif (a && b) g();\\nif (a) h();\\n' >%s"):format(folder, file))
  end)
  after_each(function() shell.run("rm -r " .. folder) end)

  -- Its output and status, for these lines of a report and exceptions.
  local function check(lines, exceptions)
    local function write(name, text)
      local out = assert(io.open(folder .. "/" .. name, "w"))
      out:write(text)
      out:close()
    end
    write("report", table.concat(lines))
    write("list.lua", ("local FILE <const> = %q return { %s }"):format(file, exceptions or ""))
    local text, _, status = shell.run(("lua scripts/conditions.lua %s/list.lua %s/part <%s/report 2>&1"):format(
      folder, folder, folder))
    return (text:gsub(folder .. "/", "")), status == 0
  end

  it("is content when each term has decided its condition both ways, in one object or another", function()
    local text, ok = check { report(file, { { 2, "0", "1" } }), report(file, { { 2, "1", "0" } }) }
    assert.equal("outcomes of conditions: 4, of which 0 have an exception; complaints: 0\n", text)
    assert.is_true(ok)
  end)

  it("says which term of which line has not, and ignores other folders", function()
    local other = report(folder .. "/other.c", { { 1, "0", "0" } })
    local text, ok = check { report(file, { { 2, "0", "0,1" }, { 1, "", "0" } }), other }
    assert.matches("part/file.c:2: not covered: #1 1T 1F 2F #2 1F: if (a && b) g();", text, 1, true)
    assert.matches("complaints: 1\n", text, 1, true)
    assert.is_false(ok)
  end)

  it("accepts what an exception names, and nothing else", function()
    local lines = { report(file, { { 2, "", "1" }, { 1, "0", "" } }) }
    assert.is_true(select(2, check(lines, '{ FILE, "g();", "2F #2 1T", never = "why" }')))
    local one = '{ FILE, "g();", "2F", never = "why" }'
    assert.is_true(select(2, check(lines, one .. ', { FILE, "if (a &&", "#2 1T", seldom = "why" }')))
    local text, ok = check(lines, one)
    assert.matches("not covered: #2 1T: ", text, 1, true)
    assert.is_false(ok)
    lines = { report(file, { { 2, "0,1", "0,1" } }) }
    assert.is_true(select(2, check(lines, '{ FILE, "g();", "all", never = "why" }')))
  end)

  it("complains of an exception that has become wrong", function()
    local lines = { report(file, { { 2, "", "" } }) }
    for exception, expected in pairs {
      ['{ FILE, "g();", "2F", never = "why" }'] =
        "part/file.c:2: covered after all: #1 2F, of which an exception says: why",
      ['{ FILE, "g();", "all", never = "why" }'] = "part/file.c:2: covered after all: #1 1T",
      ['{ FILE, "g();", "3F", never = "why" }'] = "part/file.c:2: an exception speaks of #1 3F, which is not there",
      ['{ FILE, "x();", "2F", never = "why" }'] = "part/file.c: 0 lines have the text of an exception, not one: x();",
      ['{ FILE, "if (a", "2F", never = "why" }'] = "part/file.c: 2 lines have the text of an exception, not one: if (a",
    } do
      local text, ok = check(lines, exception)
      assert.matches(expected, text, 1, true)
      assert.is_false(ok)
    end
    assert.is_true(select(2, check(lines, '{ FILE, "g();", "2F", seldom = "why" }')))
  end)
end)
