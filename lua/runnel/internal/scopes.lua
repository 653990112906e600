---The scopes that have not ended, for the prompt: which go blocks a scope waits for.

local debug = debug

local scopes = {}

-- Also others that were not collected yet: they have no go blocks.
local living = setmetatable({}, { __mode = "k" }) ---@type table<runnel.Scope, function>

---Adds a scope.
---@param scope runnel.Scope
---@param body function
function scopes.add(scope, body) living[scope] = body end

-- The file and line of a function.
local function place_of(f)
  local info = type(f) == "function" and debug.getinfo(f, "S")
  return info and ("%s:%d"):format(info.short_src, info.linedefined) or "an object"
end

---The go blocks that scopes wait for, but the bodies of the scopes.
---@return table<runnel.Channel<any>, string> places of the bodies of their scopes, by the results of the go blocks
function scopes.places()
  local places = {}
  for scope, body in pairs(living) do
    for number, result in pairs(scope.members) do
      if number > 1 and result then places[result] = place_of(body) end
    end
  end
  return places
end

return scopes
