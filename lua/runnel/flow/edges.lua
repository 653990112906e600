---Reads the texts of a flow's edges, as "a, b.odd > c >> d".

local core = require "runnel.core"
local raise = core.internal.raise

---An edge as a text names it.
---@class runnel.flow.EdgeText
---@field from string the name of a stage, or "*"
---@field output string "out", "error", or a name of `outs`
---@field to string the name of a stage
---@field grows boolean it was written as >>
---@field text string the text that it is from

local edges = {}

local FORMS = [[write "a > b", "a.output > b", "a, b > c, d" or "a >> b"]]

-- The names of a list "a, b.odd", each as { name, output }; nil if it is not one.
local function names(list)
  local result = {}
  for name in (list .. ","):gmatch "([^,]*)," do
    local stage, output = name:match "^%s*([%w_*-]+)%.?([%w_-]*)%s*$"
    if not stage or name:find "%.%s*$" then return nil end
    result[#result + 1] = { stage, output ~= "" and output or nil }
  end
  return result
end

-- Adds the edges from each name of a list to each of another one.
local function connect(list, from, to, grows, text)
  for _, source in ipairs(from) do
    for _, target in ipairs(to) do
      if target[1] == "*" then return false end
      list[#list + 1] = {
        from = source[1], output = source[2] or "out", to = target[1], grows = grows, text = text,
      }
    end
  end
  return true
end

---The edges of a text.
---@param text any
---@param what string the function that the program has called
---@return runnel.flow.EdgeText[]
function edges.parse(text, what)
  if type(text) ~= "string" then raise(("%s: an edge is a text; %s"):format(what, FORMS)) end
  local list, from, at, arrow = {}, nil, 1, ""
  repeat
    local first, last, found = text:find("(>+)", at)
    local group = names(text:sub(at, (first or 0) - 1))
    local is_good = group and #(found or ">") <= 2
    is_good = is_good and (not from or connect(list, from, group, arrow == ">>", text))
    -- An output is where an edge begins.
    if is_good and not first then
      for _, name in ipairs(group) do is_good = is_good and not name[2] end
    end
    if not is_good then raise(("%s: %q is not an edge; %s"):format(what, text, FORMS)) end
    from, arrow, at = group, found, last and last + 1
  until not first
  if #list == 0 then raise(("%s: %q is not an edge; %s"):format(what, text, FORMS)) end
  for _, edge in ipairs(list) do
    if edge.from == "*" and edge.output ~= "error" then
      raise(('%s: %q: * stands for all stages only in "*.error > a"'):format(what, text))
    end
  end
  return list
end

---The name of a stage and of an output, as "parse" or "parse.error".
---@param text any
---@param what string
---@return string stage
---@return string? output
function edges.place(text, what)
  local list = type(text) == "string" and names(text)
  if not list or #list ~= 1 then
    raise(('%s: the name of a stage, as "parse", or of an output, as "parse.error", expected, got %s')
      :format(what, type(text) == "string" and ("%q"):format(text) or tostring(text)))
  end
  return list[1][1], list[1][2]
end

return edges
