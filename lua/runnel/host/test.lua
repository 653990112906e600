---`runnel test FILE...`: busted in this executable. Operations of a spec that wait run the scheduler. A test fails if
---one of its go blocks raised an error that was not handled.

local core = require "runnel.core"

local found, runner = pcall(require, "busted.runner")

-- Runs a test; raises the first unhandled error of its go blocks.
local function run_watched(run, ...)
  local unheard, previous
  local function collect(...)
    if previous then return previous(...) end
    unheard = unheard or table.pack(...)
  end
  previous = core.on_error(collect)
  local function stop()
    core.internal.report_unhandled()
    local current = core.on_error(previous)
    if current ~= collect then core.on_error(current) end -- keeps a handler that the test has set
  end
  do
    -- No pcall here: busted finds the line of an error on the stack.
    local _ <close> = setmetatable({}, { __close = stop })
    run(...)
  end
  if unheard then
    local err, trace, name = table.unpack(unheard, 1, 3)
    error(("error in %s, which nobody took: %s\n%s"):format(name, core.internal.error_text(err), trace or ""), 0)
  end
end

-- Makes busted run every test by run_watched.
local function watch(busted)
  busted.subscribe({ "test", "start" }, function(element)
    local run = element.run
    if run then element.run = function(...) return run_watched(run, ...) end end
    return nil, true
  end)
  return busted
end

---@param ... string busted's arguments
return function(...)
  if not found then
    error("runnel test needs busted, where package.path finds it (Debian's lua-busted, LuaRocks' busted):\n"
      .. tostring(runner), 0)
  end
  local new_busted = require "busted.core"
  package.loaded["busted.core"] = function(...) return watch(new_busted(...)) end
  arg = { [0] = "runnel test", "--ignore-lua", ... } -- luacheck: ignore 121
  runner { standalone = false }
end
