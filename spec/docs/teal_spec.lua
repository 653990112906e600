-- The declarations for Teal (scripts/docs/teal.lua). If there is a `tl`, or the environment variable TL names one, it
-- checks them, programs that are right and wrong, and the examples in Lua that Teal takes.

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"

local LUA <const> = os.getenv "LUA" or "lua5.4"
local PROGRAMS <const> = "spec/support/docs/teal/"

-- Teal checks a program in Lua by rules of its own: it refuses fields that a table gets later, for example
-- (docs/install.md lists them). These examples need none of that.
local EXAMPLES <const> = { "chat", "cluster/checksum", "cluster/worker", "embed/sensors", "embed/step", "fanout",
  "ingest", "lib/logline", "prompt_server", "recipes/agent", "recipes/approval", "recipes/crawler", "recipes/drip",
  "recipes/etl", "recipes/gateway", "recipes/logwatch", "recipes/ratelimited", "recipes/redis", "recipes/report",
  "recipes/webhook", "search", "sieve", "tail", "why/batch", "why/bug", "why/commands", "why/crash", "why/failing",
  "why/limit", "why/merge", "why/retry", "why/stages", "why/timeout", "why/topics" }

local function output_of(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  return pipe:read "a"
end

describe("the declarations for Teal", function()
  local dir
  setup(function()
    dir = process.directory()
    assert(os.execute(("'%s' scripts/docs/teal.lua '%s'"):format(LUA, dir.path)))
  end)
  teardown(function() dir:remove() end)

  it("have each module and function of the contract, with type parameters #ci", function()
    local count = 0
    for line in io.lines "spec/api.txt" do
      local module = line:match "^module ([%w_.]+)"
      if module and module ~= "runnel.meta" then
        count = count + 1
        assert.is_string(pages.read(("%s/%s.d.tl"):format(dir.path, module:gsub("%.", "/"))))
      end
      local name = line:match "^function rn%.([%w_]+)%("
      if name then
        count = count + 1
        local declared = pages.read(dir.path .. "/runnel.d.tl")
        assert.is_truthy(declared:find("\n  " .. name .. ": function", 1, true), name)
      end
    end
    assert.is_true(count > 80)
    local types = pages.read(dir.path .. "/runnel/teal_types.d.tl")
    assert.is_truthy(types:find("\n    take: function(self: Channel<T>): (T, any)\n", 1, true))
    assert.is_truthy(types:find("\n    list: function(self: Channel<T>): ({T}, any)\n", 1, true))
  end)

  describe("with tl", function()
    local tl = os.getenv "TL" or "tl"
    if not output_of(tl .. " --version"):find "^%d" then return pending "tl, the compiler of Teal, is not installed" end

    -- What `tl check` says of files.
    local function check(files)
      return output_of(("%s --gen-compat off --gen-target 5.4 -I '%s' -I examples/lib check %s")
        :format(tl, dir.path, files))
    end

    it("are right", function()
      local said = check(("$(find '%s' -name '*.tl')"):format(dir.path))
      assert.is_nil(said:find "%d+ errors?:" or said:find "%d+ warnings?:", said)
    end)

    it("fit a program that is right", function()
      local said = check(PROGRAMS .. "right.tl")
      assert.matches("\n0 errors detected", said)
    end)

    it("let Teal find what is wrong", function()
      local said, number, count = check(PROGRAMS .. "wrong.tl"), 0, 0
      for line in io.lines(PROGRAMS .. "wrong.tl") do
        number = number + 1
        local found = said:match(("wrong%%.tl:%d:%%d+: ([^\n]*)"):format(number))
        local expected = line:match "%-%-> (.*)$"
        if expected then
          count = count + 1
          assert.is_truthy(found and found:find(expected, 1, true), ("%s\n%s"):format(line, said))
        else
          assert.is_nil(found, line)
        end
      end
      assert.equal(7, count)
    end)

    for _, name in ipairs(EXAMPLES) do
      it("fit examples/" .. name .. ".lua", function()
        local said = check(("examples/%s.lua"):format(name))
        assert.is_nil(said:find "%d+ errors?:" or said:find "stack traceback", said)
      end)
    end
  end)
end)
