---The fixture of specs (spec/support/stage.lua) for runnel.lite. What it does not have needs the C core.

local rn = require "runnel.lite"
local sim = rn.sim

local stage = { is_5_4_3 = _VERSION == "Lua 5.4" }
local _, raised_nil = pcall(error)
stage.raised_nil = raised_nil

local heard, previous_handler = {}, nil
local is_outside = true

local function report_untaken() -- a deadlock reports what nobody has taken
  if is_outside then pcall(function() rn.chan():take() end) end
end

-- A variable of the library.
local function variable_of(f, wanted)
  for i = 1, 60 do
    local name, value = debug.getupvalue(f, i)
    if name == wanted then return value end
  end
end

-- For rn.rename and rn.ps, which lite does not have: names of go blocks, and the world of the scheduler.
local names_given = setmetatable({}, { __mode = "k" })
rn.rename = function(name)
  local go = variable_of(rn.yield, "current")
  if go then names_given[go] = name end
end
local function world() return variable_of(rn.now, "world") end

local mark = 0
function stage.forget() mark = rn.chan():stats().id end

function stage.entries()
  local list = {}
  for go in pairs(world().living) do
    local info = debug.getinfo(go.f, "S")
    if go.id > mark and (go.co == false or coroutine.status(go.co) == "suspended") then
      list[#list + 1] = { id = go.id, name = names_given[go] or info.short_src .. ":" .. info.linedefined }
    end
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

function stage.others()
  local names = {}
  for i, entry in ipairs(stage.entries()) do names[i] = entry.name end
  return names
end

function stage.open()
  heard = {}
  stage.forget()
  previous_handler = rn.on_error(function(err, trace, name)
    heard[#heard + 1] = { err = err, trace = trace, name = name }
  end)
end

function stage.heard()
  report_untaken()
  local list = heard
  heard = {}
  return list
end

function stage.close()
  local errors = stage.heard()
  rn.on_error(previous_handler)
  if #errors > 0 then error("an error that the test did not expect: " .. tostring(errors[1].err), 0) end
end

function stage.rest() return nil end

function stage.sim(f)
  return function() sim.run(f) end
end

function stage.here(offset)
  local info = debug.getinfo(2, "Sl")
  return ("%s:%d"):format(info.short_src, info.currentline + (offset or 0))
end

function stage.drain(ch)
  local list, value = {}, ch:take()
  while value ~= nil do
    list[#list + 1] = value
    value = ch:take()
  end
  return list
end

function stage.reports(f, ...)
  local list = {}
  local previous = rn.on_error(function(err, trace, where)
    list[#list + 1] = { err = err, trace = trace, where = where }
  end)
  local ok, err = pcall(f, list, ...)
  report_untaken()
  rn.on_error(previous)
  if not ok then error(#list > 0 and list[1].err or err, 0) end
  return list
end

function stage.report_texts(f)
  local list = {}
  for i, report in ipairs(stage.reports(f)) do list[i] = tostring(report.err) end
  return list
end

function stage.settle() rn.sleep(1) end

-- Go blocks that stay behind fail, as for runnel.
function stage.run(f, opts)
  opts = opts or {}
  local results, left
  stage.forget()
  local reports = stage.reports(function()
    sim.run(function()
      results = table.pack(f())
      stage.settle()
      left = #stage.entries()
    end, { seed = opts.seed, shuffle = opts.shuffle })
  end)
  if left ~= (opts.left or 0) then error(left .. " go blocks stayed behind", 0) end
  if #reports > 0 then error(("%s: %s"):format(tostring(reports[1].where), tostring(reports[1].err)), 0) end
  return table.unpack(results, 1, results.n)
end

function stage.explore(f, opts) return sim.explore(f, { seconds = 0.05, leaks = opts and opts.leaks }) end

function stage.within(f, opts)
  return function() stage.run(f, opts) end
end

function stage.pack_take(ch) return table.pack(ch:take()) end

function stage.assert_no_waiters(...)
  for i, ch in ipairs { ... } do
    local stats = ch:stats()
    if stats.puts_waiting ~= 0 or stats.takes_waiting ~= 0 then
      error(("channel %d: %s has waiters"):format(i, tostring(ch)), 2)
    end
  end
end

return stage
