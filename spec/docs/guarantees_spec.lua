-- docs/guarantees.md names tests that exist; and the promises that no other spec checks.

local rn = require "runnel"
local names_of = require "spec.support.docs.names"
local process = require "spec.support.process"
local stage = require "spec.support.stage"

local PAGE = "docs/guarantees.md"

-- From the page: the promises, each { line =, tests = how many }; the titles of specs, each { line =, title = }; the
-- programs, each { line =, file =, target = the command of make }.
local function read()
  local promises, titles, programs = {}, {}, {}
  local number = 0
  for line in io.lines(PAGE) do
    number = number + 1
    if line:find "^%*%*" then
      promises[#promises + 1] = { line = number, tests = 0 }
    elseif line:find "^%- " then
      local file, target = line:match "^%- `([^`]+)`, `make ([%l-]+)`$"
      if file then
        programs[#programs + 1] = { line = number, file = file, target = target }
      else
        titles[#titles + 1] = { line = number, title = line:sub(3) }
      end
      local promise = promises[#promises]
      if promise then promise.tests = promise.tests + 1 end
    end
  end
  return promises, titles, programs
end

-- The titles of all tests in spec/, wherever they are, as a set.
local function all_titles()
  local all = {}
  local files <close> = assert(io.popen "find spec -name '*_spec.lua'")
  for file in files:lines() do
    for title in pairs(names_of(file)) do all[title] = true end
  end
  return all
end

-- The existing title that has most words in common with one, to help whoever renamed a test.
local function nearest(title, all)
  local best, most = nil, -1
  for other in pairs(all) do
    local common, words = 0, 0
    for word in title:gmatch "%w+" do
      if other:find("%f[%w]" .. word .. "%f[%W]") then common = common + 1 end
    end
    for _ in other:gmatch "%w+" do words = words + 1 end
    local score = common - words / 100
    if score > most then best, most = other, score end
  end
  return best
end

describe("docs/guarantees.md", function()
  local promises, titles, programs = read()

  it("has a test for each promise", function()
    assert.is_true(#promises > 30, #promises)
    for _, promise in ipairs(promises) do assert.is_true(promise.tests > 0, "line " .. promise.line) end
  end)

  it("names specs that exist #ci", function()
    if not pcall(require, "luv") then return pending "luv is not installed: spec files that need it have no names" end
    assert.is_true(#titles > 80, #titles)
    local all, missing = all_titles(), {}
    for _, item in ipairs(titles) do
      if not all[item.title] then
        missing[#missing + 1] = ("line %d: no such test: %s\n  nearest: %s"):format(item.line, item.title,
          nearest(item.title, all))
      end
    end
    assert.equal("", table.concat(missing, "\n"))
  end)

  it("names programs that exist, and commands that run them", function()
    assert.is_true(#programs > 5, #programs)
    local makefiles <close> = assert(io.popen "cat Makefile tests/*.mk 2>/dev/null")
    local rules = makefiles:read "a"
    for _, item in ipairs(programs) do
      assert(io.open(item.file), "line " .. item.line):close()
      assert.is_truthy(rules:find("\n" .. item.target .. ":", 1, true), "line " .. item.line)
    end
  end)
end)

describe("promises that no other spec holds:", function()
  before_each(stage.open)
  after_each(stage.close)

  it("now never goes back, and sleeps and timeouts never end early", function()
    rn.run(function()
      local last = rn.now()
      local function later(than)
        local now = rn.now()
        assert(now >= last and now >= than, "too early")
        last = now
      end
      local blocks = {}
      for i = 1, 60 do
        blocks[i] = rn.go(function()
          for j = 1, 5 do
            local ms = (i * j * 7) % 10 / 4
            local deadline = rn.now() + ms
            if (i + j) % 2 == 0 then rn.sleep(ms) else rn.timeout(ms):take() end
            later(deadline)
          end
          return true
        end)
      end
      for i = 1, 60 do assert.is_true((blocks[i]:take())) end
    end)
  end)

  it("Ctrl-C ends a wait, and a busy loop; the go blocks are still there #slow", function()
    for busy, when in pairs { ["rn.sleep(60000)"] = false, ["while true do rn.yield() end"] = "computes" } do
      -- The script is a process of its own, of which the shell in the background knows the id by $PPID.
      local output = stage.script(([[
        local rn = require "runnel"
        local kept, got = rn.chan(), nil
        rn.go(function() got = kept:take() end)
        local start = os.time()
        print(pcall(rn.run, function()
          os.execute %q
          %s
        end))
        print(os.time() - start < 50, kept:stats().takes_waiting)
        kept:put "value"
        rn.step(10)
        print(got)
      ]]):format(process.interrupt(when or nil), busy))
      output = output:gsub("^runnel: [^\n]* os.execute has blocked [^\n]*\n", "") -- on a busy machine
      assert.matches("^false\t[^\n]*interrupted!\ntrue\t1\nvalue\n$", output, nil, busy)
    end
  end)
end)
