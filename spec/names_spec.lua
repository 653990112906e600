-- Names of channels and go blocks are any bytes. Where they are shown, each is a text in one line, so that none breaks
-- a list, tells the terminal what to do, or ends at a zero byte.

local core = require "runnel.core"
local graph = require "runnel.tracing.graph"
local process = require "spec.support.process"
local rn = require "runnel"
local stage = require "spec.support.stage"
local views = require "runnel.prompt.views"

local ODD <const> = "a\27[31m\nb\0c\127d"
local SHOWN <const> = "a?[31m?b?c?d"

describe("a name with control characters", function()
  before_each(stage.open)
  after_each(stage.close)

  -- A go block and a channel with such names.
  local function make()
    local ch = rn.chan():name(ODD)
    local block = rn.go(function()
      rn.rename(ODD)
      ch:take()
    end)
    rn.yield()
    return ch, block
  end

  it("is kept as it is", stage.within(function()
    local ch, block = make()
    assert.equal(ODD, ch:name())
    assert.equal(ODD, ch:stats().name)
    local names = {}
    for _, entry in ipairs(rn.ps()) do names[entry.result] = entry.name end
    assert.equal(ODD, names[block])
    rn.cancel(block)
  end))

  it("is shown in one line: of a channel, in the views of a prompt, and in the graph", stage.within(function()
    rn.graph(true)
    local ch, block = make()
    assert.equal(("chan: %s (1 take waiting)"):format(SHOWN), tostring(ch))
    assert.equal("chan: " .. SHOWN, core.internal.name_of(ch))
    for _, lines in ipairs { { views.go_blocks(200)[3] }, views.channels({ ch }, 200) } do
      local text = lines[2] or lines[1]
      assert.is_truthy(text:find(SHOWN, 1, true), text)
      assert.is_nil(text:find "%c")
    end
    ch:put(1)
    block:take()
    rn.go(function() ch:put(2) end)
    ch:take()
    local text = graph.forms.text(assert(rn.graph()))
    rn.graph(false)
    assert.is_truthy(text:find(SHOWN, 1, true), text)
    assert.is_nil(text:find "[^%C\n]")
  end))

  it("is shown in one line in errors and deadlocks", function()
    local dir <close> = process.directory()
    dir:write("script.lua", ([[
      local rn = require "runnel"
      local name, ch = %q, rn.chan()
      ch:name(name)
      rn.go(function() rn.rename(name) error "lost" end)
      rn.go(function() rn.rename(name) ch:take() end)
      ch:take()
    ]]):format(ODD):gsub("\0", "\\0"))
    local err = process.run(dir.path, process.runnel .. " script.lua").err
    assert.is_truthy(err:find("error in " .. SHOWN .. ": ", 1, true), err)
    assert.is_truthy(err:find("(" .. SHOWN .. "): take on chan: " .. SHOWN .. " at ", 1, true), err)
    assert.is_nil(err:find "[^%C\n\t]")
  end)
end)
