-- A program that lua5.4 runs, and that ends without rn.run() although it has something to run, is told so.

local process = require "spec.support.process"

local no_http = require "spec.support.missing" "luv runnel runnel.http.core"
local lua = os.getenv "LUA" or "lua5.4"

-- What the program writes to stderr.
local function told(text, program)
  local dir <close> = process.directory()
  dir:write("p.lua", 'local rn = require "runnel"\n' .. text)
  local path = program and (program:match "^/" and program or os.getenv "PWD" .. "/" .. program) or lua
  return process.run(dir.path, path .. " p.lua").err
end

local NEEDS = ": a program that lua5.4 runs needs rn.run() as its last line\n"

describe("a program without rn.run()", function()
  it("is told which go blocks have never run", function()
    assert.equal("runnel: the program has ended, and 1 go block has never run (p.lua:2)" .. NEEDS,
      told "rn.go(function() end)")
    assert.equal("runnel: the program has ended, and 5 go blocks have never run (p.lua:2, p.lua:3)" .. NEEDS,
      told "for _ = 1, 4 do rn.go(function() end) end\nrn.go(function() end)")
    assert.equal("runnel: the program has ended, and 1 go block has never run (p.lua:3)" .. NEEDS,
      told "rn.go(function() rn.sleep(1000) end)\nrn.yield() rn.go(pcall, function() end)")
  end)

  it("is told that its server is open", function()
    if no_http then return pending(no_http) end
    assert.matches("^runnel: the program has ended, and its server http://127%.0%.0%.1:%d+/ is open: a program that ",
      told 'require "runnel.http".serve(0, function() end, { host = "127.0.0.1" })')
  end)

  it("is told nothing if it has run, closed, or ended what there was", function()
    for _, text in ipairs {
      "rn.go(function() end) rn.run()", "rn.go(function() end):take()", "rn.run(function() end)",
      "rn.go(function() end) os.exit(0, true)", "rn.go(function() end) rn.exit()", "os.exit()",
      "rn.go(function() rn.chan():take() end) rn.yield()", "rn.pmap(1, print, {})",
      'require "runnel.sim".run(function() rn.go(function() end) end)',
      'rn.thread(function() require "runnel".go(function() end) end):take()',
      not no_http and 'require "runnel.http".serve(0, print, { host = "127.0.0.1" }):close()' or "",
    } do
      assert.equal("", told(text), text)
    end
    assert.equal("", told("rn.go(function() end)", process.runnel))
  end)
end)
