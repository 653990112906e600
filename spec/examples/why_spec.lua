-- docs/why.md: the programs in examples/why do the same in each language, and behave as the page says.

local pages = require "spec.support.docs.pages"
local patience = require "spec.support.patience"
local process = require "spec.support.process"

local DIR <const>, PAGE <const> = "examples/why", "docs/why.md"

local EXPECTED <const> = {
  limit = "20\t1\t400\t4", first = "near\t2", timeout = "false\ttrue", retry = "a page\t3", stages = "333833500",
  merge = "300\t15150", failing = "4\tno such host", batch = "4 4 2", topics = "15\t15", commands = "1 2 3 4 5 6",
}

local function has(command) return os.execute(("command -v %s >/dev/null 2>&1"):format(command)) == true end

-- asyncio.TaskGroup is in Python from 3.11 on.
local has_python = os.execute "python3 -c 'import asyncio; asyncio.TaskGroup' 2>/dev/null" == true

local LANGUAGES = {
  { name = "runnel", ending = "lua", comment = "^%s*%-%-", is_there = true },
  { name = "asyncio", ending = "py", comment = "^%s*#", is_there = has_python },
  { name = "Go", ending = "go", comment = "^%s*//", is_there = has "go" },
  { name = "node", ending = "js", comment = "^%s*//", is_there = has "node" },
}

describe("docs/why.md", function()
  local dir, whole, here

  setup(function()
    dir = process.directory()
    whole = pages.read(PAGE)
    here = assert(io.popen "pwd"):read "l"
    local commands = { lua = "%s %s/%s.lua", py = "python3 %s/%s.py", js = "node %s/%s.js" }
    for _, language in ipairs(LANGUAGES) do
      local form = commands[language.ending]
      function language.command(program)
        if language.ending == "go" then return ("%s/why %s"):format(dir.path, program) end
        if language.ending == "lua" then return form:format(process.runnel, here .. "/" .. DIR, program) end
        return form:format(here .. "/" .. DIR, program)
      end
    end
    if has "go" then
      local build = "cd %s/%s && GO111MODULE=off GOFLAGS= go build -o %s/why *.go"
      local built = process.run(dir.path, build:format(here, DIR, dir.path))
      assert.equal(0, built.status, built.err)
    end
  end)
  teardown(function() dir:remove() end)

  -- Runs a program for so many seconds at most.
  local function run(language, program, seconds)
    return process.run(dir.path, ("timeout -s KILL %g %s"):format(seconds or patience.seconds(20),
      language.command(program)))
  end

  -- busted's `it`; without the language, `pending`, which is reported.
  local function its(language)
    return language.is_there and it or function(name)
      pending(("%s (%s is not installed)"):format(name, language.name))
    end
  end

  -- All of Python's programs in one process, since its start takes longer than all of them.
  local PYTHON <const> = [[
import contextlib, io, runpy, sys
for name in sys.argv[2:]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        runpy.run_path(sys.argv[1] + "/" + name + ".py", run_name="__main__")
    print(name + ": " + out.getvalue().strip())
]]

  for _, language in ipairs(LANGUAGES) do
    its(language)("has ten programs that print the same in " .. language.name .. " #ci", function()
      if language.ending == "py" then
        local names, lines = {}, {}
        for program, expected in pairs(EXPECTED) do
          names[#names + 1], lines[#lines + 1] = program, ("%s: %s\n"):format(program, expected)
        end
        dir:write("all.py", PYTHON)
        local result = process.run(dir.path, ("python3 all.py %s/%s %s"):format(here, DIR, table.concat(names, " ")))
        return assert.same({ table.concat(lines), 0 }, { result.out, result.status }, result.err)
      end
      for program, expected in pairs(EXPECTED) do
        if program ~= "commands" or language.ending ~= "lua" or pcall(require, "luv") then
          local result = run(language, program)
          assert.same({ expected .. "\n", 0 }, { result.out, result.status }, program .. result.err)
        end
      end
    end)
  end

  it("counts their lines #ci", function()
    local rows = 0
    for program, cell in whole:gmatch "\n| (%l+) | [^|]* | (%d+, %d+, %d+, %d+) |" do
      local counts = {}
      for i, language in ipairs(LANGUAGES) do
        counts[i] = 0
        for line in io.lines(("%s/%s.%s"):format(DIR, program, language.ending)) do
          if line:find "%S" and not line:find(language.comment) then counts[i] = counts[i] + 1 end
        end
      end
      assert.equal(table.concat(counts, ", "), cell, program)
      rows = rows + 1
    end
    assert.equal(10, rows)
  end)

  it("shows the program that is there", function()
    local file <close> = assert(io.open(DIR .. "/limit.lua"))
    local code = file:read("a"):gsub("^.-\n\n", "")
    local shown = whole:match "```lua\n(.-)```":gsub(" %-%->[^\n]*", "")
    assert.equal(code, shown)
  end)

  it("links only to files that exist", function() assert.same({}, pages.broken_links(PAGE)) end)

  -- What each language does: patterns for what is printed, and the exit status; nil: it does not end.
  local BEHAVIOURS = {
    crash = {
      runnel = { out = "^the main program ends\n$", err = "error in job: .*crash.lua:6: no such host\n", status = 1 },
      asyncio = { out = "^the main program ends\n$", err = "Task exception was never retrieved", status = 0 },
      Go = { out = "^the main program ends\n$", err = "^$", status = 0 },
      node = { out = "^$", err = "Error: no such host", status = 1 },
    },
    bug = {
      runnel = { out = "^1\n$", err = "bug.lua:9: deadlock: .*\nchan: values was not closed", status = 1 },
      asyncio = { out = "^1\n$", err = "" },
      Go = { out = "^1\n$", err = "all goroutines are asleep", status = 2 },
      node = { out = "^1\n$", err = "^$", status = 0 },
    },
  }

  for program, by_language in pairs(BEHAVIOURS) do
    for _, language in ipairs(LANGUAGES) do
      local expected = by_language[language.name]
      its(language)(("tells what happens in %s: %s"):format(language.name, program), function()
        local result = run(language, program, not expected.status and 1 or nil)
        if expected.status then
          assert.equal(expected.status, result.status)
          assert.matches(expected.out, result.out)
        else
          assert.equal(137, result.status) -- it was killed
        end
        assert.matches(expected.err, result.err)
      end)
    end
  end

  for _, language in ipairs(LANGUAGES) do
    local has_luv = pcall(require, "luv")
    local title = "tells what happens at Ctrl-C in " .. language.name
    local test = has_luv and its(language) or pending
    test(has_luv and title or title .. " (luv is not installed)", function()
      local uv = require "runnel.uv"
      local words = {}
      for word in language.command("ctrl_c"):gmatch "%S+" do words[#words + 1] = word end
      words.stdout, words.stderr, words.detached = "lines", "lines", true
      local p = uv.spawn(words)
      assert.equal("ready", p.stdout:take())
      p:kill "int"
      local out, err = {}, {}
      for line in p.stdout do out[#out + 1] = line end
      for line in p.stderr do err[#err + 1] = line end
      assert.equal(130, p.exit:take().code)
      assert.same(language.name == "asyncio" and { "tidied up" } or {}, out)
      local text = table.concat(err, "\n")
      if language.name == "runnel" then
        assert.matches("interrupted!.*ctrl_c.lua:11: .*go blocks:\n  #%d+ %(worker%): sleeping at .*ctrl_c.lua:9", text)
      elseif language.name == "asyncio" then
        assert.matches("KeyboardInterrupt$", text)
      else
        assert.equal("", text)
      end
    end)
  end
end)
