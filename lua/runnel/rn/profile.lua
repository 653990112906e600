---A profile: where a program's time goes, both the time that Lua code runs and the time that go blocks wait.

local check = require "runnel.internal.check"
local recorder = require "runnel.profile.profile_recorder"
local raise = require("runnel.core").internal.raise

local profile = {}

local OPTIONS = { to = true }

-- Ends the profile if the function raises.
local Recording = { __close = function(self)
  if self.runs then recorder.finish() end
end }

-- Passes the results of the function on, behind the profile.
local function finish(recording, path, ...)
  recording.runs = false
  local made = recorder.finish()
  if path then
    local ok, err = made:write(path)
    if not ok then raise("profile: " .. tostring(err)) end
  end
  return made, ...
end

---Calls a function, and measures meanwhile where the time of the whole program goes: what runs, sampled each ms of
---processor time, and for what go blocks wait. Parks if the function does.
---
---    local made = rn.profile(function() handle_all(requests) end, { to = "out.html" })
---    print(made.first) -- a sentence: where to look first
---
---Only Linux has what it needs.
---@param f fun(): any
---@param options? { to?: string } `to`: a file for the profile. Its ending tells the form: .html, a page with a flame
---graph; .folded, a line for each stack; .json, for speedscope
---@return runnel.Profile profile
---@return any ... the results of the function
function profile.profile(f, options)
  check.callable(f, "profile: f")
  check.options(options, OPTIONS, "profile")
  local path = options and options.to
  if path ~= nil then
    local _, wrong = recorder.check_path(path)
    if wrong then raise("profile: to: " .. wrong) end
  end
  local ok, err = pcall(recorder.begin)
  if not ok then raise("profile: " .. tostring(err)) end
  local recording <close> = setmetatable({ runs = true }, Recording)
  if path then
    path, err = recorder.open(path)
    if not path then raise("profile: to: " .. err) end
  end
  return finish(recording, path, f())
end

return profile
