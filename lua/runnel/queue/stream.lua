---The settings of streams, as a program gives them.

local check = require "runnel.internal.check"
local names = require "runnel.queue.names"
local raise = require("runnel.core").internal.raise

local stream = {}

local function check_subjects(value, what)
  local list, wrong = type(value) == "table" and value or { value }, nil
  local is_list = #list > 0
  for _, subject in ipairs(list) do is_list = is_list and type(subject) == "string" end
  if not is_list then wrong = "a subject, or a list of them, expected, got " .. check.describe(value) end
  for _, subject in ipairs(is_list and list or {}) do
    wrong = wrong or names.wrong_subject(subject, true)
      or not utf8.len(subject) and ("a subject in UTF-8 expected, got %q"):format(subject)
  end
  if wrong then raise(("%s: %s"):format(what, wrong)) end
end

local function check_description(value, what)
  check.string(value, "a string", what)
  if not utf8.len(value) then raise(what .. ": a text in UTF-8 expected") end
end

local count, ms, one_of = check.kinds.integer(1), check.kinds.ms(0), check.kinds.one_of

local SETTINGS <const> = {
  subjects = check_subjects, storage = one_of { "file", "memory" }, replicas = count,
  retention = one_of { "limits", "workqueue", "interest" }, discard = one_of { "old", "new" }, max_messages = count,
  max_bytes = count, max_message = count, max_age = ms, max_per_subject = count,
  discard_per_subject = check.kinds.boolean, duplicates = ms, description = check_description,
}

-- The settings that are times, in ms.
stream.TIMES = { max_age = true, duplicates = true }

---The settings of a stream. A missing one keeps its value, or has the default.
---@class runnel.queue.StreamOptions
---@field subjects? string|string[] what the stream stores; by default the subject that has the stream's name
---@field storage? "file"|"memory" default file
---@field replicas? integer how many servers of a cluster have it: 1 (the default), 3 or 5
---@field retention? "limits"|"workqueue"|"interest" when messages go: at the limits below (the default), when they are
---acknowledged, or when all consumers have acknowledged them
---@field max_age? number ms; 0: for ever
---@field max_messages? integer
---@field max_bytes? integer
---@field max_message? integer bytes of one message
---@field max_per_subject? integer messages
---@field discard? "old"|"new" at a limit: drop the oldest message (the default), or refuse the new one
---@field discard_per_subject? boolean with discard = "new", refuse what exceeds max_per_subject
---@field duplicates? number ms for which the stream knows the ids of messages; default 120000
---@field description? string

---Checks settings, and returns a copy, in which the subjects are a list.
---@param opts? runnel.queue.StreamOptions
---@param what string the function that the program has called
---@return table<string, any> settings
function stream.check(opts, what)
  check.options(opts, SETTINGS, what)
  local settings = {}
  for name, value in pairs(opts or {}) do settings[name] = value end
  if type(settings.subjects) == "string" then settings.subjects = { settings.subjects } end
  return settings
end

return stream
