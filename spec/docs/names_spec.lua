-- One name has one meaning in the manual, as far as that can be checked: how things end, and the types of options.

local rn = require "runnel"
local calls = require "spec.support.parking.calls"
local pages = require "spec.support.docs.pages"

local ENDS <const> = { close = true, stop = true, drain = true, cancel = true }

-- Pages on which an object is of a kind of its own: a `conn` of TLS is one of io.md.
local README <const> = pages.read "docs/manual/README.md"

-- The calls of the table of objects in README.md, as "conn:close" -> the arguments; and the verbs of the table above.
local function promised()
  local part = README:match "\n## How things end\n(.-)\n## "
  local found, verbs = {}, {}
  for verb in part:gmatch "\n| `(%l+)` | " do verbs[verb] = true end
  for name, arguments in part:gmatch "`(%l+[.:]%l+)(%b())`" do found[name] = arguments end
  return found, verbs, part
end

-- Option tables: a list of { page, of, name, type }.
local function options()
  local list = {}
  for _, path in ipairs(pages.of "docs/manual") do
    local of
    for line in pages.read(path):gmatch "[^\n]+" do
      local head = line:match "^| option of (.-) | type |"
      if head then of = head:gsub("`", "") elseif not line:find "^|" then of = nil end
      local name, kind = line:match "^| `([%l_]+)` | (.-) | "
      if of and name then list[#list + 1] = { page = path:match "[^/]+$", of = of, name = name, kind = kind } end
    end
  end
  assert(#list > 200, #list)
  return list
end

-- The unit of a type, without what is allowed besides: "number (ms) or false" is "number (ms)". What is in the brackets
-- of an integer is what it counts.
local function unit_of(kind)
  local first = kind:gsub(" or .*", ""):gsub(", .*", "")
  if first:find "^integer" and not first:find "%(bytes%)" and not first:find "%(ms%)" and not first:find "%(s%)" then
    return "integer"
  end
  if first:find '^`"' then return "word" end
  return first
end

-- Options of one name with several types, and why.
local SEVERAL <const> = {
  key = "store:once has the key of a call, TLS that of a certificate",
  priority = "of alts as in core.async; of a message as in other queues",
  stderr = "uv.run returns the output, uv.spawn gives a channel", stdin = "the same", stdout = "the same",
  tls = "a client may trust the system's authorities, by true; a server needs a certificate",
  to = "where an output goes: a log to what is open, a profile to a new file",
}

-- Units other than milliseconds and bytes, and why.
local OTHER_UNITS <const> = {
  ["dns_cache_timeout"] = "libcurl's", ["low_speed_time"] = "libcurl's", ["seconds"] = "its name says it",
}

describe("the names of the manual", function()
  it("have close, stop, drain and cancel only as the table of how things end says", function()
    local found, verbs = promised()
    assert.same(ENDS, verbs)
    local described = {}
    for call in pairs(calls.of_manual()) do
      local page, verb = call:match "^(%S+) %l+[.:](%l+)$"
      if ENDS[verb] and page ~= "README" then described[call:match " (.*)"] = page end
    end
    for call, page in pairs(described) do
      assert.is_truthy(found[call], page .. ".md has " .. call .. ", which is not in README.md#how-things-end")
    end
    for call in pairs(found) do assert.is_truthy(described[call], call .. " is in no table of a page") end
  end)

  it("have the same arguments of drain and of stop everywhere", function()
    for call, arguments in pairs((promised())) do
      if call:find ":drain$" then assert.equal("([timeout])", arguments, call) end
      if call:find ":stop$" then assert.is_truthy(arguments == "()" or arguments == "([grace])", call) end
    end
  end)

  it("have one type and unit for each option", function()
    local kinds, problems = {}, {}
    for _, option in ipairs(options()) do
      local unit = unit_of(option.kind)
      kinds[option.name] = kinds[option.name] or {}
      kinds[option.name][unit] = ("%s (%s)"):format(option.page, option.of)
    end
    for name, units in pairs(kinds) do
      local list = {}
      for unit, where in pairs(units) do list[#list + 1] = unit .. " in " .. where end
      table.sort(list)
      if #list > 1 and not SEVERAL[name] then problems[#problems + 1] = name .. ": " .. table.concat(list, "; ") end
      if #list == 1 and SEVERAL[name] then problems[#problems + 1] = name .. " has one type: no exception is needed" end
    end
    table.sort(problems)
    assert.equal("", table.concat(problems, "\n"))
  end)

  it("have times in milliseconds, and a timeout is always one", function()
    for _, option in ipairs(options()) do
      local is_ms, where = option.kind:find("(ms)", 1, true), option.page .. " " .. option.name
      if option.name:find "timeout$" then assert.is_truthy(is_ms or OTHER_UNITS[option.name], where) end
      if option.kind:find("(s)", 1, true) then assert.is_truthy(OTHER_UNITS[option.name], where) end
      if option.name == "max" then assert.is_truthy(option.kind:find("(bytes)", 1, true), where) end
    end
    assert.is_function(rn.timeout)
  end)
end)
