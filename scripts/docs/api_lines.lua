---All lines of the contract, sorted.

local PARTS <const> = { "scripts.docs.api_lua", "scripts.docs.api_c", "scripts.docs.api_program" }

---@return string[] lines
---@return string[] problems what could not be found out, such as a module that was not built
return function()
  local lines, problems = {}, {}
  for _, part in ipairs(PARTS) do
    local found, wrong = require(part).lines()
    table.move(found, 1, #found, #lines + 1, lines)
    table.move(wrong, 1, #wrong, #problems + 1, problems)
  end
  table.sort(lines)
  table.sort(problems)
  return lines, problems
end
