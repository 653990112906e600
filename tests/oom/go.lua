-- Go blocks: arguments and results, errors, errors of their __close, their names, nested ones, those that yield
-- wrongly.
local t = ...
local rn = require "runnel"
local core = require "runnel.core"

local N = 16
local results = {}
for i = 1, N do results[i] = false end
local closed, many_closed = 0, 0
local oops = { "oops" }

local MANY = 120
local guard_of_many = setmetatable({}, { __close = function() many_closed = many_closed + 1 end })

local function with_variables(n)
  local guard <close> = guard_of_many
  if n > 1 then with_variables(n - 1) end
  error(guard and "with many variables", 0)
end

local function attempt()
  for i = 1, 6 do
    results[i] = rn.go(function(...)
      rn.yield()
      return select("#", ...), ...
    end, table.unpack({ 1, 2, 3, 4, 5, 6 }, 1, i))
  end
  results[7] = rn.go(error, oops)
  results[8] = rn.go(function()
    local guard <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
    rn.yield()
    error(guard and "a message that has to be made", 0)
  end)
  results[9] = rn.go(function()
    local guard <close> = setmetatable({}, { __close = function() error("while closing", 0) end })
    error(guard and "first", 0)
  end)
  results[10] = rn.go(function() coroutine.yield("wrong") end)
  results[11] = rn.go(function()
    rn.rename("eleven")
    local inner = rn.go(function() return rn.go(function() return 11 end):take() end)
    return inner:take()
  end)
  results[12] = rn.go(function() return #rn.ps() > 0 end)
  results[13] = rn.go(function() return nil end)
  results[14] = rn.go(select, "#", table.unpack({}, 1, MANY)) -- needs a larger stack
  results[15] = rn.go(with_variables, MANY) -- so does what closes them
  rn.run()
end

local NAMES = { [7] = oops, [8] = "a message that has to be made", [9] = "while closing", [15] = "with many variables" }

local function check()
  rn.run()
  core.internal.report_unhandled() -- counts the errors before this takes them
  local died, reports = 0, t.reports()
  for i = 1, 15 do
    if results[i] then
      assert(results[i]:closed(), "a go block has not ended")
      local value, err = results[i]:take()
      if err ~= nil then
        -- The eleventh returns the error of an inner one as a result, which is not reported.
        if i ~= 11 then died = died + 1 end
        if err ~= NAMES[i] and not (i == 10 and err:find("coroutine.yield", 1, true)) then t.expected(err) end
        -- If its __close could not be called, the go block that raises there ends with its first error.
      elseif i <= 6 then
        assert(value == i, "a result was lost")
      elseif i == 11 then
        assert(value == 11 or value == nil and t.refused() > 0)
      elseif i == 14 then
        assert(value == MANY, "a result was lost")
      end
    end
  end
  -- Nested go blocks may have died as well.
  assert(reports >= died, "a go block has died, and its error was not reported")
  if t.refused() == 0 then assert(died == 5 and reports == 5 and closed == 1 and many_closed == MANY) end
end

return attempt, check, true
