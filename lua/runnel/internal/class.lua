---Classes whose objects do not lead to their metatable. A script in a sandbox has no setmetatable, but it reads fields:
---if the methods were fields of the metatable, with `__index` among them, it would get at the metatable, and could set
---finalizers there, which nothing interrupts, and what other scripts' objects do.

local class = {}

---Ends the definition of a class, which is the metatable of its objects: makes the table in which they find methods and
---constants.
---@param metatable table
function class.finish(metatable)
  local members = {}
  for name, member in pairs(metatable) do
    if not name:find "^__" then members[name] = member end
  end
  metatable.__index = members
end

return class
