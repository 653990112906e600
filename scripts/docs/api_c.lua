---The C part of the contract: what runnel.h declares.

local api_c = {}

local HEADER <const> = "csrc/capi/runnel.h"

local function squeezed(text) return (text:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")) end

---What the text of a header declares.
---@param text string
---@return string[] lines
function api_c.lines_of(text)
  local lines = {}
  local function add(kind, what) lines[#lines + 1] = ("c-%s %s"):format(kind, squeezed(what)) end
  text = "\n" .. text:gsub("/%*.-%*/", " ")
  for name, value in text:gmatch "\n#define (RUNNEL_[%u%d_]+) ([^\n]+)" do
    -- The version is the one name whose value is meant to change.
    if name ~= "RUNNEL_API" then add("macro", name == "RUNNEL_VERSION" and name or name .. " " .. value) end
  end
  text = text:gsub("\n#[^\n]*", "\n")
  for declaration in text:gmatch "RUNNEL_API ([^;{]-%b());" do add("function", declaration) end
  for declaration in text:gmatch "\nstatic inline ([^;{]-%b()) {" do add("function", declaration) end
  for declaration in text:gmatch "\ntypedef ([^;{]-);" do add("type", declaration) end
  for name, body in text:gmatch "\ntypedef struct ([%w_]+) (%b{})" do
    local number = 0
    for member in body:sub(2, -2):gmatch "([^;]+);" do
      number = number + 1
      add("field", ("%s %d: %s"):format(name, number, squeezed(member)))
    end
  end
  for body in text:gmatch "\nenum[%w_ ]* (%b{})" do
    local value = -1
    for name, given in body:sub(2, -2):gmatch "([%u%d_]+)([^,]*)" do
      local number = given:match "=%s*(%S+)"
      value = number and math.tointeger(tonumber(number)) or value + 1
      add("constant", ("%s %d"):format(name, value))
    end
  end
  return lines
end

---@return string[] lines
---@return string[] problems
function api_c.lines()
  local file <close> = assert(io.open(HEADER))
  return api_c.lines_of(file:read "a"), {}
end

return api_c
