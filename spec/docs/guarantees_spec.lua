-- docs/guarantees.md names tests that exist; and what it promises without another spec to hold it.

local rn = require "runnel"
local names_of = require "spec.support.names"
local stage = require "spec.support.stage"

local PAGE = "docs/guarantees.md"

local function contents(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

-- Of the page: the lines in which promises begin, as a set, without those that are followed by evidence; how many they
-- are; and all evidence: { line =, file =, target = a command of make or nil, what = }.
local function read()
  local bare, promises, evidence = {}, 0, {}
  local promise, number = nil, 0
  for line in io.lines(PAGE) do
    number = number + 1
    if line:find "^%*%*" then
      promise, promises = number, promises + 1
      bare[promise] = true
    elseif line:find "^%- " then
      local file, what = line:match "^%- `([^`]+)`: (.+)$"
      local target
      if not file then file, target, what = line:match "^%- `([^`]+)`, `make ([%l-]+)`: (.+)$" end
      assert(file, "not understood: line " .. number)
      evidence[#evidence + 1] = { line = number, file = file, target = target, what = what }
      if promise then bare[promise] = nil end
    end
  end
  return bare, promises, evidence
end

describe("docs/guarantees.md", function()
  local bare, promises, evidence

  setup(function() bare, promises, evidence = read() end)

  it("has evidence for each promise", function()
    assert.is_true(promises > 30, promises)
    assert.is_nil(next(bare), ("the promise in line %s has none"):format(next(bare)))
  end)

  it("names tests that are there", function()
    local names, n = {}, 0
    for _, item in ipairs(evidence) do
      if item.file:find "_spec%.lua$" then
        names[item.file] = names[item.file] or names_of(item.file)
        assert.is_truthy(names[item.file][item.what], ("line %d: no such test: %s"):format(item.line, item.what))
        n = n + 1
      end
    end
    assert.is_true(n > 100, n)
  end)

  it("names programs that are there, say what it says, and are run by make", function()
    local makefile, n = contents "Makefile" .. contents "tests/checks.mk", 0
    for _, item in ipairs(evidence) do
      if not item.file:find "_spec%.lua$" then
        local text = contents(item.file):gsub("\n%-%-+ *", " "):gsub("%s+", " ")
        assert.is_truthy(text:find(item.what, 1, true), ("line %d: %s does not say so"):format(item.line, item.file))
        assert.is_truthy(item.target and makefile:find("\n" .. item.target .. ":", 1, true),
          ("line %d: no such command"):format(item.line))
        n = n + 1
      end
    end
    assert.is_true(n > 10, n)
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
    for _, busy in ipairs { "rn.sleep(20000)", "while true do rn.yield() end" } do
      -- The script is a process of its own, of which the shell in the background knows the id by $PPID.
      local output = stage.script(([[
        local rn = require "runnel"
        local kept, got = rn.chan(), nil
        rn.go(function() got = kept:take() end)
        local start = os.time()
        os.execute "{ sleep 0.3; kill -INT $PPID; } &"
        print(pcall(rn.run, function() %s end))
        print(os.time() - start < 10, kept:stats().takes)
        kept:put "value"
        rn.step(10)
        print(got)
      ]]):format(busy))
      assert.matches("^false\t[^\n]*interrupted!\ntrue\t1\nvalue\n$", output, nil, busy)
    end
  end)
end)
