---The profile that the monitor's page records: one at a time, whichever page has asked for it. Pages get the last one
---until there is another.

local os = os
local json = require "runnel.json"
local picture = require "runnel.profile.picture"
local recorder = require "runnel.profile.profile_recorder"

local SECONDS <const> = { ["1"] = 1, ["5"] = 5, ["30"] = 30 }

local MOST <const> = 128 * 1024 -- bytes of the flame graph's data

---@class runnel.profile.Live
---@field seconds? integer the length of the profile that is being recorded
---@field number integer of the last profile; 0: there is none
---@field data? string its flame graph, as JSON
---@field at? string when it was complete: the time of day
---@field note? string why it is shorter than was asked for
---@field problem? string why the last one could not begin
local Live = {}
Live.__index = Live

local live = {}

function live.new() return setmetatable({ number = 0 }, Live) end

-- Ends the recording, and keeps the profile.
function Live:finish(note)
  local made = recorder.finish()
  self.seconds = nil
  if not made then return end
  self.number, self.data = self.number + 1, picture.data(made.trees, MOST)
  self.at, self.note = os.date "%H:%M:%S" --[[@as string]], note
end

-- Begins to record.
function Live:begin(seconds)
  local ok, problem = pcall(recorder.begin, function()
    self:finish "It ended early, because the program has begun a profile of its own."
  end)
  self.problem = not ok and tostring(problem) or nil
  if ok then self.seconds = seconds end
end

---Ends the recording if it is time. Returns whether one is in progress.
---@return boolean
function Live:look()
  if self.seconds and (recorder.passed() or math.huge) >= self.seconds * 1000 then self:finish() end
  return self.seconds ~= nil
end

---Ends the recording without a profile.
function Live:stop()
  if self.seconds then recorder.finish() end
  self.seconds = nil
end

---What a page shows, as JSON: `recording`, the seconds of the profile in progress, and `passed` in ms; `other`: the
---program makes a profile of its own; `problem`; and `number`, `at` and `note` of the last profile. The second result
---is the data of that profile's flame graph, if the page does not have it.
---@param known string the number of the profile that the page has
---@param wanted string the length, in seconds, of a profile to record; "": none
---@return boolean ok
---@return string text
---@return string? data
function Live:answer(known, wanted)
  self:look()
  if wanted ~= "" then
    local seconds = SECONDS[wanted]
    if not seconds then return false, "a profile takes 1, 5 or 30 seconds" end
    if not self.seconds then self:begin(seconds) end
  end
  local passed = recorder.passed()
  local text = assert(json.encode { recording = self.seconds, passed = passed and math.floor(passed),
    other = passed and not self.seconds or nil, problem = self.problem, number = self.number, at = self.at,
    note = self.note })
  if self.number > 0 and known ~= tostring(self.number) then return true, text, self.data end
  return true, text
end

return live
