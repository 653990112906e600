---Names of streams, consumers and buckets; subjects, and patterns of subjects.

local check = require "runnel.internal.check"
local raise = require("runnel.core").internal.raise

local names = {}

-- The longest name that a nats-server takes, in bytes.
local LONGEST <const> = 255

---Checks the name of a stream, a consumer or a bucket.
---@param what string that function and the argument, as in "source: stream"
function names.check(name, what)
  if type(name) ~= "string" then
    raise(("%s: a name expected, got %s"):format(what, name == nil and "nothing" or "a " .. type(name)))
  end
  if name == "" or name:find "[%s%c.*>/\\]" then
    raise(("%s: a name without spaces, dots, *, > and slashes expected, got %q"):format(what, name))
  end
  if #name > LONGEST or not utf8.len(name) then
    raise(("%s: a name of at most %d bytes, in UTF-8, expected, got %q"):format(what, LONGEST, name))
  end
end

---Checks the name of a remote stage.
---@param name any
---@param what string the function that the program has called
function names.check_stage(name, what)
  if type(name) ~= "string" or not name:find "^[%w_-]+$" or #name > 100 then
    raise(("%s: name: letters, digits, - and _ expected (at most 100), got %s"):format(what,
      type(name) == "string" and ("%q"):format(name) or name == nil and "nothing" or "a " .. type(name)))
  end
end

---What is wrong with a subject, or a pattern of subjects: nothing that a nats-server would refuse is right
---(csrc/nats/subject.c).
---@param subject any
---@param is_pattern? boolean it may have the parts * and, at its end, >
---@return string? problem
function names.wrong_subject(subject, is_pattern)
  if type(subject) ~= "string" then return "a subject expected, got " .. check.describe(subject) end
  local what
  if subject == "" then return "a subject expected, got an empty one" end
  if subject:find "[%c ]" then what = "a space or a control character"
  elseif ("." .. subject .. "."):find("..", 1, true) then what = "an empty part"
  else
    for part, rest in subject:gmatch "([^.]+)()" do
      if (part == "*" or part == ">") and not is_pattern then what = "a wildcard, to which nothing can be put"
      elseif part == ">" and rest <= #subject then what = "a '>' before the last part" end
    end
  end
  return what and ("a subject expected, got %q, which has %s"):format(subject, what)
end

---Whether a subject matches a pattern with * and >.
---@param subject string
---@param pattern string
---@return boolean
function names.matches(subject, pattern)
  local rest = subject .. "."
  for token in pattern:gmatch "[^.]+" do
    if token == ">" then return rest ~= "" end
    local first, after = rest:match "^([^.]+)%.(.*)$"
    if not first or token ~= "*" and token ~= first then return false end
    rest = after
  end
  return rest == ""
end

return names
