---`runnel test FILE...`: busted in this executable, where operations of a spec that wait run the scheduler.

local found, runner = pcall(require, "busted.runner")

---@param ... string busted's arguments
return function(...)
  if not found then
    error("runnel test needs busted, where package.path finds it (Debian's lua-busted, LuaRocks' busted):\n"
      .. tostring(runner), 0)
  end
  arg = { [0] = "runnel test", "--ignore-lua", ... } -- luacheck: ignore 121
  runner { standalone = false }
end
