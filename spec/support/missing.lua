---Why a spec cannot run here: which of the modules that it needs is missing.
---
---    local reason = missing "luv runnel.tls"
---    if reason then return pending(reason) end

---@param modules string their names
---@return string? reason of the first that is missing, as "luv is not installed"; nil if none is
return function(modules)
  for name in modules:gmatch "%S+" do
    if not pcall(require, name) then
      return name .. (name:find "^runnel%." and " is not built" or " is not installed")
    end
  end
end
