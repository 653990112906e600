---Runs the bodies of specs in a world of their own: virtual time, an error handler that collects, and a look at what
---was left behind.

local rn = require "runnel"
local core = require "runnel.core"
local sim = require "runnel.sim"

local world = {}

---Calls a function while on_error collects, and restores the handler. Errors of go blocks that nobody has taken by the
---end of f are reported then.
---@param f function
---@return { err: any, trace: string?, where: any }[] reports what on_error heard
function world.reports(f, ...)
  local list = {}
  local previous = rn.on_error(function(err, trace, where)
    list[#list + 1] = { err = err, trace = trace, where = where }
  end)
  local ok, err = pcall(f, list, ...)
  core.internal.report_unhandled()
  rn.on_error(previous)
  if not ok then error(#list > 0 and list[1].err or err, 0) end
  return list
end

---Lets everything run that can, in a simulation.
function world.settle() rn.sleep(1) end

---The number that the next channel or go block will have.
function world.mark() return rn.chan():stats().id end

---Go blocks made since a mark that have not ended, but for the running one.
function world.left(mark)
  local left = {}
  for _, entry in ipairs(rn.ps()) do
    if entry.id > mark and entry.state ~= "running" then
      left[#left + 1] = ("#%d %s: %s at %s"):format(entry.id, entry.state, entry.operation, entry.where)
    end
  end
  return left
end

---Runs a function in a simulation. Errors that nobody caught fail, and so do go blocks that stay behind.
---@param f fun(...): any
---@param opts? { seed?: integer, shuffle?: boolean, left?: integer } `left`: how many go blocks may stay behind
---@return any ... what f returns
function world.run(f, opts)
  opts = opts or {}
  local mark, left, results = world.mark(), nil, nil
  local reports = world.reports(function()
    sim.run(function()
      results = table.pack(f())
      world.settle()
      left = world.left(mark)
    end, { seed = opts.seed, shuffle = opts.shuffle })
  end)
  if #reports > 0 then error(("%s: %s"):format(tostring(reports[1].where), tostring(reports[1].err)), 0) end
  if #left ~= (opts.left or 0) then
    error(("%d go blocks stayed behind: %s"):format(#left, table.concat(left, "; ", 1, math.min(#left, 5))), 0)
  end
  return table.unpack(results, 1, results.n)
end

---A function that runs its argument by world.run: `it("...", world.within(function() ... end))`.
function world.within(f, opts)
  return function() world.run(f, opts) end
end

---Everything a function returns, as a list with `n`.
function world.pack_take(ch) return table.pack(ch:take()) end

---Asserts that nothing waits on the channels.
function world.assert_no_waiters(...)
  for i, ch in ipairs { ... } do
    local stats = ch:stats()
    if stats.puts ~= 0 or stats.takes ~= 0 then
      error(("channel %d: %s has waiters"):format(i, tostring(ch)), 2)
    end
  end
end

return world
