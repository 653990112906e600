---Methods that are called with a dot, and functions of a module that are called with a colon: each names itself, and
---the right form, at the caller's line.
---
---The metatable of an object has its name in the manual as `__sign`. Each method begins with `sign.own(self, "db",
---"exec")`. A function whose first argument is checked needs nothing: what it says about a wrong argument
---(runnel.internal.check) tells of the module. Others begin with `sign.dot(first, "json", "array")`.

local raise = require("runnel.core").internal.raise
local debug, package = debug, package

local sign = {}

-- The modules, by the names that the manual gives them.
local MODULES = {
  csv = "runnel.csv", rn = "runnel", flow = "runnel.flow", http = "runnel.http", json = "runnel.json",
  monitor = "runnel.monitor", nats = "runnel.nats", otlp = "runnel.otlp", sim = "runnel.sim",
  sqlite = "runnel.sqlite", stores = "runnel.store", tls = "runnel.tls", uv = "runnel.uv", xf = "runnel.xf",
}

local FORM = "the module; call it with a dot: %s.%s(...)"

-- Raises the error of a method that was called with a wrong `self`.
local function misuse(self, names, method)
  local wrong, right, called = {}, {}, debug.getinfo(3, "n")
  for name in names:gmatch "[^|]+" do
    wrong[#wrong + 1] = name .. "." .. method
    right[#right + 1] = ("%s:%s(...)"):format(name, method)
  end
  if called and called.namewhat == "method" then
    raise(("%s: called on a %s that only looks like what has this method"):format(right[1], type(self)))
  end
  raise(("%s: call it with a colon: %s"):format(table.concat(wrong, " or "), table.concat(right, " or ")))
end

---Checks the `self` of a method.
---@param name string the name of its object in the manual, as in the metatable: "db"; "stage|worker" has two names
---@param method string
function sign.own(self, name, method)
  local meta = getmetatable(self)
  if not meta or meta.__sign ~= name then misuse(self, name, method) end
end

---Checks the first argument of a function that takes any table, or none: it is not the module.
---@param module string its name in the manual
---@param name string of the function
function sign.dot(first, module, name)
  if type(first) == "table" and rawequal(first, package.loaded[MODULES[module]]) then
    raise(("%s.%s: call it with a dot: %s.%s(...)"):format(module, name, module, name))
  end
end

---What to say of an argument that is a module, because the function was called with a colon.
---@param called? string the function's name, if it is known
---@return string? text nil if it is no module
function sign.of_module(value, called)
  if type(value) ~= "table" then return nil end
  for name, path in pairs(MODULES) do
    if rawequal(package.loaded[path], value) then
      if called and rawget(value, called) then return FORM:format(name, called) end
      -- The function is one of those that run: the first that belongs to the module.
      local level, call = 2, debug.getinfo(2, "f")
      while call do
        for key, f in next, value do
          if f == call.func then return FORM:format(name, key) end
        end
        level = level + 1
        call = debug.getinfo(level, "f")
      end
      return ("the module; call its functions with a dot, as %s.NAME(...)"):format(name)
    end
  end
  return nil
end

return sign
