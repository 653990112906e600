---Names that were changed: the old one works for one minor version more, and the first use at each line writes a
---warning, which says the line, the new name, and the version in which the old one goes. docs/releasing.md has an
---example.

local debug, io = debug, io

local renamed = {}

-- The lines that were warned about, by what was called there.
local warned = {}

---Writes a warning about an old name to stderr, once for each line that uses it.
---@param old string as in "rn.debounce" or "the option retry of rn.pmap"
---@param new string as in "rn.settle"
---@param goes string the version in which the old name goes, as "1.3"
---@param level integer of the line that uses it, as for `error` from the caller
function renamed.warn(old, new, goes, level)
  local line = debug.getinfo(level + 1, "Sl")
  local place = line and line.currentline > 0 and ("%s:%d"):format(line.short_src, line.currentline) or "?"
  local key = place .. " " .. old
  if warned[key] then return end
  warned[key] = true
  local text = "runnel: %s: %s is called %s now; the old name goes with version %s\n"
  io.stderr:write(text:format(place, old, new, goes))
end

---Lets the old name of a function or method call the new one, with a warning.
---@param owner table the module, or the class where methods are looked up
---@param prefix string what is before the name in the manual: "rn." or "ch:"
---@param names table<string, string> by old name the new one
---@param goes string the version in which the old names go
function renamed.deprecate(owner, prefix, names, goes)
  for old, new in pairs(names) do
    owner[old] = function(...)
      renamed.warn(prefix .. old, prefix .. new, goes, 2)
      return owner[new](...)
    end
  end
end

---The options with new names in place of old ones, with a warning for each; the same table if there are none.
---@param opts? table
---@param what string the function, as in "rn.pmap"
---@param names table<string, string> by old name the new one
---@param goes string the version in which the old names go
---@param level integer of the line that has called the function, as for `error` from the caller
---@return table?
function renamed.options(opts, what, names, goes, level)
  local copy
  for old, new in pairs(type(opts) == "table" and names or {}) do
    if opts[old] ~= nil then
      renamed.warn(("the option %s of %s"):format(old, what), new, goes, level + 1)
      copy = copy or setmetatable({}, getmetatable(opts))
      for key, value in pairs(opts) do copy[names[key] or key] = value end
    end
  end
  return copy or opts
end

return renamed
