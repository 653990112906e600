-- The history of the prompt: what becomes of its file.

local process = require "spec.support.process"

local runnel = process.runnel
local MANY <const> = 2001 -- lines; a file with more than 2,000 is shortened

local function lines_of(n)
  local lines = {}
  for i = 1, n do lines[i] = "line" .. i end
  return table.concat(lines, "\n") .. "\n"
end

describe("the history of the prompt", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  -- Runs a prompt, without a terminal, that gets a text.
  local function prompt(text, path)
    return process.run(dir.path, ("XDG_STATE_HOME=%s %s -i"):format(path or ".", runnel), text)
  end

  it("begins a new line after one that was not written completely", function()
    dir:write("runnel_history", "print(1)\nprint(2")
    assert.equal(0, prompt("print(3)\nprint(4)\n").status)
    assert.equal("print(1)\nprint(2\nprint(3)\nprint(4)\n", dir:read "runnel_history")
  end)

  it("has no empty line at the beginning of a file that is empty or new", function()
    prompt "print(1)\n"
    assert.equal("print(1)\n", dir:read "runnel_history")
    dir:write("runnel_history", "")
    prompt "print(2)\n"
    assert.equal("print(2)\n", dir:read "runnel_history")
  end)

  for what, case in pairs {
    ["is a folder"] = { "mkdir runnel_history", ".", "runnel_history: Is a directory" },
    ["is below a file"] = { "touch x", "x", "x/runnel_history: Not a directory" },
    ["is in a folder that is missing"] = { "true", "none", "none/runnel_history: No such file or directory" },
  } do
    it("is not kept, which the prompt says once, if its file " .. what, function()
      process.run(dir.path, case[1])
      local result = prompt("print('one')\nprint('two')\n", case[2])
      assert.equal(0, result.status)
      assert.matches("one\n.*two\n", result.out)
      local said, n = result.err:gsub("runnel: the history is not kept: ([^\n]*)", "%1")
      assert.equal(1, n, result.err)
      assert.is_truthy(said:find(case[3], 1, true), said)
    end)
  end

  it("can be turned off by a link to /dev/null", function()
    process.run(dir.path, "ln -s /dev/null runnel_history")
    local result = prompt "print('one')\n"
    assert.same({ 0, "" }, { result.status, result.err })
    assert.equal("", dir:read "runnel_history")
  end)

  it("goes through a symbolic link when it is shortened", function()
    process.run(dir.path, "mkdir real && ln -s real/file runnel_history")
    dir:write("real/file", lines_of(MANY))
    assert.equal(0, prompt("print(1)\n").status)
    assert.equal("real/file", (process.run(dir.path, "readlink runnel_history").out:gsub("\n", "")))
    local text = dir:read "real/file"
    assert.equal(1001, select(2, text:gsub("\n", "")))
    assert.matches("\nline2001\nprint%(1%)\n$", text)
    assert.equal("file\n", process.run(dir.path, "ls real").out)
  end)

  it("keeps what another prompt appends while the file is shortened", function()
    local path = dir.path .. "/runnel_history"
    dir:write("runnel_history", lines_of(MANY))
    local function append(to, text)
      local file <close> = assert(io.open(to, "a"))
      return file:write(text) ~= nil
    end
    local terminal = { real_path = function(given) return given end, append = function(to, text)
      if to ~= path then append(path, "late\n") end -- the other prompt
      return append(to, text)
    end }
    local own = setmetatable({
      require = function() return terminal end, os = setmetatable({ getenv = function() return dir.path end },
        { __index = os }),
    }, { __index = _G })
    local history = assert(loadfile("lua/runnel/host/history.lua", "t", own))()
    assert.equal(1000, #history.load(error))
    local text = dir:read "runnel_history"
    assert.matches("^line1002\n", text)
    assert.matches("\nline2001\nlate\n$", text)
  end)
end)
