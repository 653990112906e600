---The functions and methods of the manual's tables, as "page name": "io uv.lines", "nats conn:flush".

local pages = require "spec.support.docs.pages"

-- They describe the executable, its prompt, and the C API; and another engine, whose specs are in spec/lite.
local WITHOUT = { host = true, ["c-api"] = true, lite = true }

local calls = {}

---@return table<string, true>
function calls.of_manual()
  local found = {}
  for _, path in ipairs(pages.of "docs/manual") do
    local page = path:match "([^/]+)%.md$"
    for head in pages.read(path):gmatch "\n| (`[^|]*) |" do
      for name in head:gmatch "`(%a+[.:][%a_]+)" do
        if not WITHOUT[page] then found[page .. " " .. name] = true end
      end
    end
  end
  return found
end

return calls
