---`runnel test FILE...`: busted in this executable, where operations of a spec that wait run the scheduler. A test in
---which a go block raised an error that nobody took fails.

local core = require "runnel.core"

local found, runner = pcall(require, "busted.runner")

-- Runs a test. What a go block has raised meanwhile, and nobody took, is its failure.
local function run_watched(run, ...)
  local unheard
  local previous
  local function collect(...)
    if previous then return previous(...) end
    unheard = unheard or table.pack(...)
  end
  previous = core.on_error(collect)
  local results = table.pack(pcall(run, ...))
  core.tell_unheard()
  local current = core.on_error(previous)
  if current ~= collect then core.on_error(current) end -- the test has set a handler, and wants to keep it
  if not results[1] then error(results[2], 0) end
  if unheard then
    local err, trace, name = table.unpack(unheard, 1, 3)
    error(("error in %s, which nobody took: %s\n%s"):format(name, core.error_text(err), trace or ""), 0)
  end
  return table.unpack(results, 2, results.n)
end

-- Makes every test of a busted run so.
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
