---Names of streams, consumers and buckets; subjects, and patterns of subjects.

local names = {}

---Checks the name of a stream, a consumer or a bucket. An error names the line that called the function with that
---argument.
---@param what string that function and the argument, as in "source: stream"
---@param level? integer of the line for the error, if it is another one
function names.check(name, what, level)
  if type(name) ~= "string" then
    error(("%s: a name expected, got %s"):format(what, name == nil and "nothing" or "a " .. type(name)), level or 3)
  end
  if name == "" or name:find "[%s%c.*>/\\]" then
    error(("%s: a name without spaces, dots, *, > and slashes expected, got %q"):format(what, name), level or 3)
  end
end

---Checks the name of a remote stage.
---@param name any
---@param what string the function that the program has called
---@param level integer of the line for the error
function names.check_stage(name, what, level)
  if type(name) ~= "string" or not name:find "^[%w_-]+$" or #name > 100 then
    error(("%s: name: letters, digits, - and _ expected (at most 100), got %s"):format(what,
      type(name) == "string" and ("%q"):format(name) or name == nil and "nothing" or "a " .. type(name)), level)
  end
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
