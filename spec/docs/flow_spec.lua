-- docs/flow.md: what it shows of a prompt is what the prompt of the executable shows.

local process = require "spec.support.process"

local PAGE = "docs/flow.md"

-- The parts of the page between ```console and ```, as lines.
local function session()
  local typed, shown, is_in = {}, {}, false
  for line in io.lines(PAGE) do
    if line:find "^```" then
      is_in = line == "```console"
    elseif is_in then
      local input = line:match "^%[%d+%]> (.*)"
      if input then typed[#typed + 1] = input else shown[#shown + 1] = line end
    end
  end
  return typed, shown
end

-- What may differ: the numbers of rates, the widths of columns, and the frames of a traceback.
local function plain(lines)
  local list = {}
  for _, line in ipairs(lines) do
    if line ~= "" and not line:find "^%s" then
      list[#list + 1] = line:gsub("(%d+/%d+ +%d+ +)[%d-]+( +%d)", "%1-%2"):gsub("%s+", " ")
    end
  end
  return list
end

describe(PAGE, function()
  it("shows what the prompt shows: a stage breaks, holds, is replaced, goes on; tap, pause, inject, drain", function()
    local dir = process.directory()
    local typed, shown = session()
    assert.is_true(#typed >= 30)
    dir:write("session", table.concat(typed, "\n") .. "\n")
    local result = process.run(dir.path, process.runnel .. " -i <session 2>&1")
    local lines = {}
    for line in (result.out .. "\n"):gsub("%[%d+%]> ", ""):gmatch "(.-)\n" do lines[#lines + 1] = line end
    table.remove(lines, 1) -- the version
    dir:remove()
    assert.same(plain(shown), plain(lines))
  end)
end)
