-- docs/manual/: the code runs and prints what it says; the tables name every function, and nothing else.

local rn = require "runnel"
local sim = require "runnel.sim"
local process = require "spec.support.process"
local pages = require "spec.support.docs.pages"
local snippets = require "spec.support.docs.snippets"

local DIR = "docs/manual"

describe("the manual", function()
  local dir

  setup(function() dir = process.directory() end)
  teardown(function() dir:remove() end)

  -- Temporary files of a program are in the directory, too.
  local TMPNAME <const> = [[function os.tmpname()
    local path = ("./%p"):format({})
    assert(io.open(path, "w")):close()
    return path
  end ]]
  local function in_dir(code) return (code:gsub('"/tmp/', function() return '"' .. dir.path .. "/" end)) end

  local list, whole = pages.of(DIR), {}
  for i, path in ipairs(list) do whole[i] = pages.read(path) end
  local text = table.concat(whole, "\n")

  -- The names behind a prefix, as a set.
  local function names(prefix, from)
    local set = {}
    for name in (from or text):gmatch("%f[%w]" .. prefix .. "([%l_]+)") do set[name] = true end
    return set
  end

  for _, path in ipairs(list) do
    for _, snippet in ipairs(snippets.of(path)) do
      local it = snippets.can_run(snippet) and it or pending
      it("has code that prints what it says: " .. snippet.name, function()
        assert.same(snippet.expected, snippets.run(snippet, in_dir(snippet.code)))
      end)

      it("has code that ends if it is a whole program: " .. snippet.name, function()
        dir:write("job.lua", TMPNAME .. 'local rn = require "runnel"\n' .. in_dir(snippet.code) .. "\n")
        local result = process.run(dir.path, process.runnel .. " job.lua")
        assert.not_matches("parked for ever", result.err)
        assert.equal(0, result.status, result.err)
      end)
    end

    it("links only to files that exist: " .. path, function() assert.same({}, pages.broken_links(path)) end)
  end

  it("has code that asks the user, and waits no longer than it says: docs/manual/io.md", function()
    if not pcall(require, "luv") then return pending "luv is not installed" end
    local code, replaced = pages.block(DIR .. "/io.md", "Your name?"):gsub("60000", "tonumber(arg[1])")
    assert.equal(1, replaced)
    dir:write("ask.lua", 'local rn = require "runnel"\n' .. code)
    local function ask(command)
      local line = command:gsub("ASK", function() return process.runnel .. " ask.lua" end)
      return process.run(dir.path, line).out
    end
    assert.equal("Your name? Hello, Ann\n", ask "(echo Ann; echo Bob) | ASK 60000")
    assert.equal("Your name? Hello, nobody\n", ask "ASK 60000 </dev/null")
    assert.equal("Your name? Too late.\n", ask "mkfifo silent; sleep 60 >silent & ASK 50 <silent; kill $!")
  end)

  it("has an index of all its pages", function()
    local index = pages.read(DIR .. "/README.md")
    for _, path in ipairs(list) do
      local name = path:match "[^/]+$"
      if name ~= "README.md" then assert.is_truthy(index:find("](" .. name .. ")", 1, true), name) end
    end
    assert.is_true(#list > 10)
  end)

  -- Pages that describe no functions, or those of C.
  local WITHOUT_FUNCTIONS = {
    ["README.md"] = true, ["build.md"] = true, ["c-api.md"] = true, ["durable.md"] = true, ["host.md"] = true,
    ["http-strictness.md"] = true, ["order.md"] = true, ["system.md"] = true, ["worker-protocol.md"] = true,
  }

  it("says at the top of each page with functions whether they raise errors or return them", function()
    for i, path in ipairs(list) do
      local name = path:match "[^/]+$"
      local top, number = whole[i]:gsub("\n```.*", ""):match("^" .. ("[^\n]*\n"):rep(12)) or whole[i], 0
      for _ in top:gmatch "%]%(README.md#errors%)" do number = number + 1 end
      assert.equal(WITHOUT_FUNCTIONS[name] and 0 or 1, number, path)
    end
  end)

  it("names only functions that exist", function()
    for name in pairs(names "rn%.") do assert.is_not_nil(rn[name], "rn." .. name) end
    for name in pairs(names "sim%.") do assert.is_not_nil(sim[name], "sim." .. name) end
    for name in pairs(names "xf%.") do assert.is_function(rn.xf[name], "xf." .. name) end
    for name in pairs(names "ch:") do assert.is_function(rn.chan()[name], "ch:" .. name) end
  end)

  it("names every function, method and transducer", function()
    local functions, methods = names "rn%.", names "ch:"
    for _, object in ipairs { "m:", "p:" } do -- methods of mults, mixes and publications, which are functions, too
      for name in pairs(names(object)) do functions[name] = true end
    end
    for name in pairs(rn) do assert.is_true(functions[name], "rn." .. name) end
    for name in pairs(require("runnel.core").methods) do assert.is_true(methods[name], "ch:" .. name) end
    local transducers, simulator = names "xf%.", names "sim%."
    for name in pairs(rn.xf) do assert.is_true(transducers[name], "xf." .. name) end
    for name in pairs(sim) do assert.is_true(simulator[name], "sim." .. name) end
  end)

  it("names every function of runnel.h, and nothing else", function()
    local runnel_h = pages.read "csrc/capi/runnel.h"
    local header, named = names("runnel_", runnel_h), names("runnel_", pages.read(DIR .. "/c-api.md"))
    local types = { chan = true, port = true, push = true, drop = true, functions = true, task = true, report = true }
    for name in pairs(header) do assert.is_true(named[name] or types[name], "runnel_" .. name) end
    for name in pairs(named) do assert.is_true(header[name], "runnel_" .. name) end
    for code in runnel_h:gmatch "\n  (RUNNEL_%u+_?%u*) =" do
      assert.is_truthy(text:find(code, 1, true), code)
    end
  end)

  it("describes the prompt's commands as the manual page does", function()
    local page = pages.read("docs/runnel.1"):gsub("\\", "")
    local commands = 0
    for name, words in pages.read(DIR .. "/host.md"):gmatch "\n| `(:[%l-]+)[^`]*` | ([^\n]*) |" do
      local there = page:match("\n%.BI? " .. name:gsub("%-", "%%-") .. "%f[^%l%-][^\n]*\n([^\n]*)\n")
      assert.equal(words:gsub("`", ""), there, name)
      commands = commands + 1
    end
    assert.is_true(commands >= 10)
  end)
end)
