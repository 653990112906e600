---The settings of streams, as a program gives them.

local check = require "runnel.internal.check"

local stream = {}

-- Each returns whether a value is valid, and the description of valid values.
local function is_ms(value)
  return type(value) == "number" and value >= 0 and value < math.huge, "a number of milliseconds"
end
local function is_count(value) return math.type(value) == "integer" and value >= 1, "an integer of at least 1" end
local function is_boolean(value) return type(value) == "boolean", "true or false" end
local function is_string(value) return type(value) == "string", "a string" end
local function is_subjects(value)
  local is_list = type(value) == "table" and #value > 0
  for _, subject in ipairs(is_list and value or {}) do is_list = is_list and type(subject) == "string" end
  return is_list or type(value) == "string", "a subject, or a list of them,"
end
local function one_of(...)
  local list = { ... }
  return function(value)
    local found = false
    for _, one in ipairs(list) do found = found or value == one end
    return found, '"' .. table.concat(list, '" or "') .. '"'
  end
end

local SETTINGS <const> = {
  subjects = is_subjects, storage = one_of("file", "memory"), replicas = is_count,
  retention = one_of("limits", "workqueue", "interest"), discard = one_of("old", "new"), max_messages = is_count,
  max_bytes = is_count, max_message = is_count, max_age = is_ms, max_per_subject = is_count,
  discard_per_subject = is_boolean, duplicates = is_ms, description = is_string,
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
---@field max_age? number ms
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
---@param level integer of the program's line, as the caller of this function would give it to `error`
---@return table<string, any> settings
function stream.check(opts, what, level)
  check.options(opts, SETTINGS, what, level + 2)
  local settings = {}
  for name, value in pairs(opts or {}) do
    local ok, expected = SETTINGS[name](value)
    if not ok then
      error(("%s: %s: %s expected, got %s"):format(what, name, expected, check.describe(value)), level + 1)
    end
    if name == "subjects" and type(value) == "string" then value = { value } end
    settings[name] = value
  end
  return settings
end

return stream
