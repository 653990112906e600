---Runs a program in a web page, as the executable runs a script (csrc/host/script.c).

local core = require "runnel.core"
local site = require "runnel.site.core"

-- The library's modules that are not in the page's module: the page loads their text when the first one is needed.
table.insert(package.searchers, 2, function(name)
  if not name:find "^runnel%." and name ~= "luv" then return nil end
  local text = site.module_text(name)
  if not text then
    local why = require "runnel.site.not_here"(name)
    return why and function() error(why, 3) end
  end
  -- The chunk name begins as those of the page's first modules do (scripts/embed.lua).
  return assert(load(text, "=" .. name:gsub("%.", "/") .. ".lua", "t")), "the site"
end)

local RUNS = "^%s*%[C%]: in %l+ 'xpcall'" -- from this line on a traceback has only the site's own functions

local function describe(err)
  local text = type(err) == "string" and err
    or getmetatable(err) and getmetatable(err).__tostring and tostring(err)
    or ("(error object is a %s value)"):format(type(err))
  local lines = {}
  for line in debug.traceback(text, 2):gmatch "[^\n]+" do
    if line:find(RUNS) then break end
    lines[#lines + 1] = line
  end
  return table.concat(lines, "\n")
end

local function complain(text)
  io.stdout:flush()
  io.stderr:write("runnel: ", text, "\n")
end

---Fetches a URL of this page's host, or of one that permits it: a channel with the text, or nil and the error.
---@param url string
---@return runnel.Channel
local function fetch(url)
  if type(url) ~= "string" then error("fetch: a URL expected, got " .. type(url), 2) end
  if not site.reaches() then
    error("fetch: this browser cannot: its WebAssembly has no Suspending (Chromium has it from version 137 on)", 2)
  end
  return core.go(function()
    core.rename("fetch " .. url)
    local answers = core.chan()
    site.fetch(url, answers)
    local answer = answers:take()
    local status, body = answer[1], answer[2]
    if status == 0 then error("fetch: " .. body, 0) end
    if status >= 400 then error(("fetch: %s: status %d"):format(url, status), 0) end
    return body
  end)
end

---A command of the monitor's page that only this page has, since it runs Lua code: gives a stage of a flow the function
---that a text is.
---@param id string the flow's number and the stage's place, as "3.2"
---@param text string "function(v) ... end"
---@return boolean ok
---@return string text
local function replace(_, id, _, text)
  local number, place = id:match "^(%d+)%.(%d+)$"
  local flow = require("runnel.flow.flow_living").find(math.tointeger(number) or 0)
  local stage = flow and flow.stages[math.tointeger(place)]
  if not stage or stage.ended then return false, "the stage has ended" end
  local chunk, wrong = load("return " .. text, "=" .. stage.name, "t")
  if not chunk then return false, wrong end
  local ok, f = pcall(chunk)
  if ok then ok, f = pcall(flow.replace, flow, stage.name, f) end
  if not ok then return false, core.internal.error_text(f) end
  return true, ("stage %s of flow %s has another function"):format(stage.name, flow.name)
end

-- Protected.
local function run(chunk)
  chunk()
  local text = require("runnel.host.blocks").drain()
  if text then complain(text) end
end

---@param code string
---@param name string the name that messages have for it
---@param monitored boolean
---@return integer status
return function(code, name, monitored)
  local rn = require "runnel"
  _G.rn = rn -- as at the prompt
  for _, function_name in ipairs { "cores", "counter", "file", "gauge", "histogram", "metrics", "profile", "thread",
    "threads", "traceparent" } do
    _G.rn[function_name] = function() error(require "runnel.site.not_here"("rn." .. function_name), 2) end
  end
  _G.fetch = fetch
  local options = { program = name, show = "values", control = site.reaches() }
  local m = monitored and require("runnel.monitor").listen(0, options)
  if m then m.commands = setmetatable({ flow_replace = replace }, { __index = m.commands }) end
  local chunk, why = load(code, "@" .. name, "t")
  local ok, err = false, why
  if chunk then ok, err = xpcall(run, describe, chunk) end
  local current = package.loaded["runnel.internal.world"]
  if current and current.told then require "runnel.site.story"(current.told) end
  core.internal.report_unhandled(true)
  if not ok then complain(err) end
  if m then
    core.run() -- the last snapshot
    m:close()
  end
  return ok and core.internal.is_well() and 0 or 1
end
